#!/usr/bin/env python3
"""Runs what docs/benchmarks.md and the README state, each command with what it prints, and writes README's table.

Run it on a quiet machine, with SPECMT_CORPORA naming the folder of the test sets, after pip install '.[peers]'; it
takes about half an hour on two slow cores.

  python scripts/benchmarks.py > page.txt
  python scripts/benchmarks.py --only peers,wide,wider

docs/benchmarks.md is written from it by hand. Three measurements are commands of this script: identical, memory, start.
"""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

import click
from compare_peers import interval, read_lines
from processes import ENVIRONMENT, ROOT, SPECMT, run_seconds
from rich.console import Console

from specmt.evaluation.tables import Table

README = ROOT / "README.md"
"""What has the table of speeds."""
PROGRAMS = {"python": [sys.executable], "specmt": SPECMT}

console = Console(width=120)


def sets(*names: str) -> str:
    """Returns options that name test sets."""
    tests = "$SPECMT_CORPORA/tests"
    return " ".join(f"--set {name}={tests}/{name}.de:{tests}/{name}.en" for name in names)


ALL = sets("docs-test", "everyday-test", "multi30k.test_2016_flickr", "newstest2014.de-en", "flores200-devtest")
TWO = sets("docs-test", "newstest2014.de-en")
SCORES = "--repeats 0 --latency-lines 0 --metrics bleu,chrf"
STRATEGIES = ",".join(
    (
        "greedy",
        "auto=speculative",
        "masked=speculative:8:drafter=masked",
        "masked-tree=speculative:8:drafter=masked:tree=best-first:nodes=16",
        "ar=speculative:5:drafter=autoregressive",
        "ar-tree=speculative:5:drafter=autoregressive:tree=best-first:nodes=16",
        "lookup=speculative:drafter=lookup",
        "self=speculative:drafter=self",
        "tolerant:3:1",
        "tolerant:5:3",
        "beam:5",
    )
)

SECTIONS = {
    "peers": "python scripts/compare_peers.py",
    "wide": "python scripts/compare_peers.py --widened 2 --only specmt,CTranslate2 --lines 10 --rounds 3",
    "wider": "python scripts/compare_peers.py --widened 4 --only specmt,CTranslate2 --lines 6 --rounds 3",
    "quality": f"specmt evaluate {ALL} --strategies greedy,speculative:8 {SCORES}",
    "bfloat16": f"specmt evaluate {TWO} --strategies greedy --dtype bfloat16 {SCORES}",
    "strategies": f"specmt evaluate {TWO} --limit 100 --latency-lines 25 --repeats 2 --strategies {STRATEGIES}",
    "choice": "python scripts/choice.py --copies 1 --lines 60 --rounds 5",
    "bench": "specmt bench --batch-sizes 1,4,16,64 --rows 1,2,4,8,16,32,64",
    "identical": "python scripts/benchmarks.py identical",
    "memory": "python scripts/benchmarks.py memory",
    "start": "python scripts/benchmarks.py start",
}


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def measure(command: str, *more: str) -> None:
    """Runs a command, with more arguments than are shown.

    :raises ClickException: it fails.
    """
    click.echo(f"$ {command}")
    program, *arguments = map(os.path.expandvars, shlex.split(command))
    environment = {**ENVIRONMENT, "COLUMNS": "120"}
    done = subprocess.run([*PROGRAMS[program], *arguments, *more], cwd=ROOT, env=environment, check=False)
    if done.returncode != 0:
        raise click.ClickException(f"`{command}` failed with exit code {done.returncode}.")


def summary(record: Mapping[str, Any], measured: str) -> str:
    """Returns the table that the README shows, as Markdown, and where it is from.

    :param record: what compare_peers.py wrote
    :param measured: when, and of which commit
    """
    speeds = {
        (row["way"], row["batch_size"]): median(record["lines"] / seconds for seconds in row["seconds"])
        for row in record["results"]
    }
    ours = {way for way, _ in speeds if way.startswith("specmt")}
    rows = {
        "specmt greedy, bfloat16": {"specmt greedy"},
        "specmt, best drafter, bfloat16": {way for way in ours if "greedy" not in way and "int8" not in way},
        "specmt greedy, int8": {"specmt greedy, int8"},
        "CTranslate2 greedy, int8": {"CTranslate2 int8 greedy"},
    }
    cells = [
        (name, *(f"{max(speeds.get((way, size), 0.0) for way in ways):.0f}" for size in (1, 32)))
        for name, ways in rows.items()
    ]
    table = Table("", ("sentences/s", "batch 1", "batch 32"), cells).markdown()
    machine = f"{record['machine']['processor']}, {record['machine']['cores']} cores"
    return f"{table}\n{machine}; {measured}."


def fill(readme: str, table: str) -> str:
    """Returns a page with that table between its markers.

    :raises ValueError: the markers are not there.
    """
    filled, count = re.subn(r"(<!-- speed -->\n).*?(<!-- /speed -->)", rf"\1\n{table}\n\n\2", readme, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"There must be one `<!-- speed -->` block, but there are {count} instead.")
    return filled


@click.group(invoke_without_command=True)
@click.option("--only", default=",".join(SECTIONS), show_default=True, help="Measure only these.")
@click.pass_context
def main(context: click.Context, only: str) -> None:
    """Measures, and writes README's table of speeds."""
    for name in only.split(",") if context.invoked_subcommand is None else ():
        if name != "peers":
            measure(SECTIONS[name])
            continue
        with TemporaryDirectory() as folder:
            record = Path(folder, "peers.json")
            measure(SECTIONS[name], "--json", str(record))
            commit = git("rev-parse", "--short", "HEAD") + "+" * bool(git("status", "--porcelain", "specmt", "scripts"))
            table = summary(json.loads(record.read_text(encoding="utf-8")), f"{date.today()}; commit {commit}")
        README.write_text(fill(README.read_text(encoding="utf-8"), table), encoding="utf-8")


def translate(lines: list[str], *options: str) -> tuple[list[str], float, float]:
    """Runs `specmt translate` in a process of its own; returns its lines, its seconds and its peak memory in MiB."""
    command = [*SPECMT, "translate", "--quiet", "--threads", "2", *options]
    with TemporaryFile() as source, TemporaryFile() as target:
        source.write(("\n".join(lines) + "\n").encode())
        source.seek(0)
        started = time.perf_counter()
        process = subprocess.Popen(command, stdin=source, stdout=target)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        if status != 0:
            raise click.ClickException(f"`{shlex.join(command)}` failed.")
        target.seek(0)
        return target.read().decode().removesuffix("\n").split("\n"), seconds, usage.ru_maxrss / 1024


COMPANY = [
    *(f"--batch-size {size} --threads {threads}" for size in (1, 2, 3, 8, 33) for threads in (1, 2)),
    *(f"--strategy greedy --batch-size {size}" for size in (1, 8, 32)),
    *(f"--drafter masked --block-size {size}" for size in (1, 2, 5, 10, 25)),
    *(f"--drafter autoregressive --block-size {size}" for size in (2, 5, 8)),
    *(f"--drafter {name}" for name in ("lookup", "self", "masked+lookup")),
    *(f"--drafter {name} --tree best-first --nodes 16 --block-size 5" for name in ("masked", "autoregressive")),
]
"""Options that must not change the output."""


@main.command()
@click.option("--lines", default=400, show_default=True, help="Half of them from docs-test, half from newstest2014.")
def identical(lines: int) -> None:
    """Compares outputs of `specmt translate` byte by byte, also of shuffled lines; exits 1 at any difference."""
    texts = [line for name in ("docs-test", "newstest2014.de-en") for line in read_lines(name, "de")[: lines // 2]]
    wanted, _, _ = translate(texts)
    order = random.Random(1).sample(range(len(texts)), len(texts))
    results = {}
    for batch_size in ("1", "32"):
        shuffled, _, _ = translate([texts[index] for index in order], "--batch-size", batch_size)
        results[f"shuffled, batches of {batch_size}"] = [line for _, line in sorted(zip(order, shuffled, strict=True))]
    for options in COMPANY:
        results[options], _, _ = translate(texts, *options.split())
    different = [name for name, found in results.items() if found != wanted]
    console.print(f"{len(results) - len(different)} of {len(results)} runs over {len(texts)} lines are the same bytes:")
    console.print("; ".join(results), markup=False)
    for name in different:
        console.print(f"different: {name}", markup=False)
    sys.exit(1 if different else 0)


@main.command()
@click.option("--counts", default="1,32,1000,10000", show_default=True)
def memory(counts: str) -> None:
    """Peak memory of `specmt translate` by number of short lines; checks count and order."""
    sources = [line for line in read_lines("everyday-test", "de") if len(line) < 40]
    rows = []
    for count in map(int, counts.split(",")):
        lines = random.Random(1).choices(sources, k=count)
        out, seconds, mebibytes = translate(lines)
        # Equal lines have equal translations, so that order shows without translating anything twice.
        known = dict(zip(lines, out, strict=False))
        in_order = len(out) == count and all(known[line] == found for line, found in zip(lines, out, strict=True))
        rows.append((f"{count:,}", f"{mebibytes:.0f}", f"{seconds:.0f}", "yes" if in_order else "no"))
    console.print(Table("", ("lines", "peak MiB", "seconds", "all there, in order"), rows).rich())


@main.command()
@click.option("--repeats", default=5, show_default=True)
def start(repeats: int) -> None:
    """Where the time of translating one line in a fresh process goes."""
    stages = {
        "python": "pass",
        "and import specmt": "import specmt.models.hub, specmt.translator",
        "and load the model": "from specmt.translator import Translator; Translator.from_pretrained()",
    }
    commands = {name: [sys.executable, "-c", code] for name, code in stages.items()}
    commands["specmt translate, one line"] = [*SPECMT, "translate", "--quiet"]
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(repeats + 1):
        for name, command in commands.items():
            seconds[name].append(run_seconds(command, input=b"Guten Tag.\n", stdout=subprocess.DEVNULL))
    rows = [(name, interval(values[1:], 2)) for name, values in seconds.items()]
    console.print(Table("", ("a fresh process", "seconds, median (lowest–highest)"), rows).rich())


if __name__ == "__main__":
    main()
