#!/usr/bin/env python
"""Shows whether long jobs keep what docs/scale.md promises, and prints the figures as JSON; exit code 1 if not.

\b
    python scripts/soak.py kills --lines 20000 --times 100 -- --processes 2
    python scripts/soak.py flat --lines 1000000 -- --ray local
    python scripts/soak.py overhead --lines 8000 --rounds 5

What follows -- are options of `specmt translate`. The text is lines of FILE, drawn at random (seeded).
"""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, MutableSequence
from contextlib import suppress
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import click
from processes import SAMPLE, SPECMT, children, memory_of, run_seconds

from specmt.evaluation.timing import ratios

SLOTS = 4096
TIMEOUT = 100
"""Seconds in which something must have happened."""

_file = click.option("--text", type=click.Path(path_type=Path), default=SAMPLE, show_default=True, metavar="FILE")
_options = click.argument("options", nargs=-1, type=click.UNPROCESSED)


@click.group(help=__doc__)
def main() -> None:
    pass


def finish(figures: dict[str, Any], *, is_kept: bool) -> None:
    click.echo(json.dumps(figures, indent=2))
    sys.exit(not is_kept)


def write_text(path: Path, text: Path, lines: int) -> None:
    """Writes so many lines, drawn from a text."""
    drawn = random.Random(1).choices(text.read_bytes().split(b"\n"), k=lines)
    path.write_bytes(b"".join(line + b"\n" for line in drawn))


def count_lines(counts: MutableSequence[int]) -> None:
    """Has this process and those that it forks count the lines that they are done with, each in a place of its own."""
    from specmt.jobs import worker

    work = worker.work

    def counted(*arguments: Any) -> Iterator[Any]:
        for translation in work(*arguments):
            counts[os.getpid() % SLOTS] += 1
            yield translation

    worker.work = counted  # type: ignore[assignment]


@main.command()
@_file
@click.option("--lines", default=20_000, show_default=True)
@click.option("--times", default=100, show_default=True)
@click.option("--shard-lines", default=1000, show_default=True)
@_options
def kills(text: Path, lines: int, times: int, shard_lines: int, options: tuple[str, ...]) -> None:
    """Kill a job by kill -9 at random moments and go on with it: the same bytes, and what was done again."""
    import specmt.translator  # noqa: F401  so that each process need not
    from specmt.cli.main import run
    from specmt.jobs import manifest

    fork = multiprocessing.get_context("fork")
    counts, draw, worst, manifest.SHARD_LINES = RawArray("q", SLOTS), random.Random(2), 0, shard_lines
    processes = int(options[options.index("--processes") + 1]) if "--processes" in options else 1

    with TemporaryDirectory() as place:
        source, output, plain, job = (Path(place, name) for name in ("in.de", "out", "plain", "out.job"))
        write_text(source, text, lines := lines // shard_lines * shard_lines)

        def translate(target: Path, *more: str) -> multiprocessing.Process:
            def work() -> None:
                count_lines(counts)
                sys.exit(run(["translate", str(source), "-o", str(target), "-q", *options, *more]))

            process = fork.Process(target=work)
            process.start()
            return process

        def done() -> int:
            return len(list(job.glob("shard-*"))) * shard_lines

        started = time.monotonic()
        process = translate(plain)
        process.join()
        if process.exitcode:
            sys.exit("not translated")
        pace = (time.monotonic() - started) / lines * shard_lines
        counts[:] = [0] * SLOTS
        killed = lost = 0
        for _ in range(times):
            # Now and then behind a shard more, so that the job is not over too soon.
            wanted = done() + shard_lines * (draw.random() < lines / shard_lines / times / 2 / (1 + processes))
            process, until = translate(output, "--resume"), time.monotonic() + TIMEOUT
            while process.is_alive() and done() < wanted and time.monotonic() < until:
                time.sleep(0.001)
            # At a random moment of a shard's time, but before the job can be over, however fast it has become.
            until = time.monotonic() + draw.random() * pace
            while process.is_alive() and done() <= wanted and time.monotonic() < until:
                time.sleep(0.0005)
            process.kill()
            process.join()
            killed += process.exitcode == -signal.SIGKILL
            with suppress(FileNotFoundError), (job / "lock").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # what it had forked has ended, too
            worst, lost = max(worst, sum(counts) - done() - lost), sum(counts) - done()
        process = translate(output, "--resume")
        process.join()
        same = process.exitcode == 0 and output.read_bytes() == plain.read_bytes()
        is_clean = sorted(os.listdir(place)) == ["in.de", "out", "plain"]
    figures = {"lines": lines, "shard_lines": shard_lines, "processes": processes, "killed": killed, "same_bytes": same}
    figures |= {"nothing_left": is_clean, "lines_done_again": lost, "most_done_again_after_a_kill": worst}
    finish(figures, is_kept=same and is_clean and killed == times and worst <= shard_lines * processes)


@main.command()
@_file
@click.option("--lines", default=1_000_000, show_default=True)
@_options
def flat(text: Path, lines: int, options: tuple[str, ...]) -> None:
    """Translate very many lines: all there and in order, and how much memory all processes take (PSS) as it goes."""
    memory: list[tuple[float, Counter[str]]] = []
    with TemporaryDirectory() as place:
        source, output = Path(place, "in.de"), Path(place, "out.tsv")
        write_text(source, text, lines)
        command = [*SPECMT, "translate", str(source), "-o", str(output), "-q", "--format", "tsv", *options]
        started = time.monotonic()
        with subprocess.Popen(command) as process:
            while process.poll() is None:
                memory.append((round(time.monotonic() - started, 1), proportional_memory(process.pid)))
                time.sleep(2)
        seconds = time.monotonic() - started
        escaped = str.maketrans({"\\": "\\\\", "\t": "\\t", "\r": "\\r"})
        with source.open(newline="\n") as one, output.open(newline="\n") as other:
            pairs = zip(one, other, strict=True)
            in_order = all(x.rstrip("\n").translate(escaped) == y.split("\t")[0] for x, y in pairs)
    rest = memory[len(memory) // 10 :]  # the model is loaded by then
    halves = rest[: len(rest) // 2], rest[len(rest) // 2 :]
    early, late = (max((size for _, size in half), key=Counter.total) for half in halves)
    figures = {
        "lines": lines,
        "in_order": in_order,
        "seconds": round(seconds),
        "lines_a_second": round(lines / seconds),
        "most_mib_first_half": early.total(),
        "most_mib_second_half": late.total(),
        "by_program": {name: (early[name], late[name]) for name in sorted(early | late, key=late.get, reverse=True)},
        "seconds_and_mib": [(when, size.total()) for when, size in memory[:: len(memory) // 20 + 1]],
    }
    finish(figures, is_kept=in_order and process.returncode == 0 and late.total() <= 1.1 * early.total())


def proportional_memory(root: int) -> Counter[str]:
    """Returns the memory of a process and all below it in MiB, by program: what several share is counted once."""
    started, family = children(), [root]
    for process in family:
        family += started[process]
    total: Counter[str] = Counter()
    for process in family:
        with suppress(OSError, IndexError):  # it has ended
            name = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            total[program(name)] += memory_of(process, "Pss", "smaps_rollup") >> 20
    return total


def program(command: str) -> str:
    """Returns what a command line runs: the script of an interpreter, or the program."""
    words = command.split() or ["ended"]
    script = next((word for word in words[1:] if word.endswith(".py")), "") if "python" in words[0] else ""
    return Path(script or words[0]).name


@main.command()
@_file
@click.option("--lines", default=8000, show_default=True)
@click.option("--rounds", default=5, show_default=True)
@_options
def overhead(text: Path, lines: int, rounds: int, options: tuple[str, ...]) -> None:
    """Compare the journal, processes and Ray with plain `translate`, on all processors.

    In every round each way translates one line and then LINES: the difference is what lines take, without the start.
    """
    processors = str(os.cpu_count())
    ways = {
        "plain": ["--threads", processors],
        "journal": ["--threads", processors, "--resume"],
        "processes": ["--threads", "1", "--processes", processors],
        "ray": ["--threads", "1", "--ray", "local"],
    }
    starts: dict[str, list[float]] = {way: [] for way in ways}
    found: dict[str, list[float]] = {way: [] for way in ways}
    with TemporaryDirectory() as place:
        for count in (1, lines):
            write_text(Path(place, f"{count}.de"), text, count)
        for _ in range(rounds):
            for way, more in ways.items():
                for count, seconds in ((1, starts), (lines, found)):
                    files = [f"{place}/{count}.de", "-o", f"{place}/out"]
                    seconds[way].append(run_seconds([*SPECMT, "translate", *files, "-q", *more, *options]))
                found[way][-1] -= starts[way][-1]
    figures: dict[str, Any] = {"lines": lines, "processors": processors, "rounds": rounds}
    for way, seconds_of_lines in found.items():
        times_plain = ratios(seconds_of_lines, found["plain"])
        figures[way] = {
            "lines_a_second": round(lines / median(seconds_of_lines), 1),
            "start_seconds": round(median(starts[way]), 1),
            "times_plain": [round(ratio, 3) for ratio in times_plain],
            "overhead": round(median(times_plain) - 1, 4),
        }
    is_kept = figures["journal"]["overhead"] <= 0.01 and figures["ray"]["overhead"] <= 0.1
    finish(figures, is_kept=is_kept)


if __name__ == "__main__":
    main()
