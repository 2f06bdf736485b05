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
import mmap
import os
import random
import signal
import statistics
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

SAMPLE = Path(__file__).parents[1] / "data" / "sample.de"
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


def forked(work: Callable[[], int]) -> int:
    """Runs work in a process of its own; returns its id."""
    sys.stdout.flush()
    if process := os.fork():
        return process
    os._exit(work())


def count_lines(counts: mmap.mmap) -> None:
    """Has this process and those that it forks count the lines that they are done with, each in a place of its own."""
    from specmt.jobs import worker

    work = worker.work

    def counted(*arguments: Any) -> Iterator[Any]:
        place = os.getpid() % SLOTS * 8
        for translation in work(*arguments):
            counts[place : place + 8] = struct.pack("q", struct.unpack("q", counts[place : place + 8])[0] + 1)
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

    counts, draw, worst, manifest.SHARD_LINES = mmap.mmap(-1, SLOTS * 8), random.Random(2), 0, shard_lines
    processes = int(options[options.index("--processes") + 1]) if "--processes" in options else 1

    with TemporaryDirectory() as place:
        source, output, plain, job = (Path(place, name) for name in ("in.de", "out", "plain", "out.job"))
        write_text(source, text, lines := lines // shard_lines * shard_lines)

        def translate(target: Path, *more: str) -> int:
            count_lines(counts)
            return run(["translate", str(source), "-o", str(target), "-q", *options, *more])

        def done() -> int:
            return len(list(job.glob("shard-*"))) * shard_lines

        started = time.monotonic()
        if os.waitstatus_to_exitcode(os.waitpid(forked(lambda: translate(plain)), 0)[1]):
            sys.exit("not translated")
        pace = (time.monotonic() - started) / lines * shard_lines
        counts[:] = bytes(len(counts))
        killed = lost = 0
        for _ in range(times):
            # Now and then behind a shard more, so that the job is not over too soon.
            wanted = done() + shard_lines * (draw.random() < lines / shard_lines / times / 2 / (1 + processes))
            process, ended, until = forked(lambda: translate(output, "--resume")), 0, time.monotonic() + TIMEOUT
            while not ended and done() < wanted and time.monotonic() < until:
                time.sleep(0.001)
                ended = os.waitpid(process, os.WNOHANG)[0]
            # At a random moment of a shard's time, but before the job can be over, however fast it has become.
            until = time.monotonic() + draw.random() * pace
            while not ended and done() <= wanted and time.monotonic() < until:
                time.sleep(0.0005)
            if not ended:
                os.kill(process, signal.SIGKILL)
                killed += os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == -signal.SIGKILL
            with suppress(FileNotFoundError), (job / "lock").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # what it had forked has ended, too
            total = sum(struct.unpack(f"{SLOTS}q", counts[:]))
            worst, lost = max(worst, total - done() - lost), total - done()
        code = os.waitstatus_to_exitcode(os.waitpid(forked(lambda: translate(output, "--resume")), 0)[1])
        same = code == 0 and output.read_bytes() == plain.read_bytes()
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
        command = ["translate", str(source), "-o", str(output), "-q", "--format", "tsv", *options]
        started = time.monotonic()
        with subprocess.Popen([sys.executable, "-m", "specmt", *command]) as process:
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
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
        except OSError:
            continue
    family = {root}
    while new := {child for child, parent in parents.items() if parent in family} - family:
        family |= new
    total: Counter[str] = Counter()
    for process in family:
        try:
            name = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            rows = Path(f"/proc/{process}/smaps_rollup").read_text().split("\n")
            total[program(name)] += next(int(row.split()[1]) for row in rows if row.startswith("Pss:")) >> 10
        except (OSError, StopIteration):
            continue
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
                    started = time.monotonic()
                    command = [sys.executable, "-m", "specmt", "translate", *files, "-q"]
                    subprocess.run([*command, *more, *options], check=True)
                    seconds[way].append(time.monotonic() - started)
                found[way][-1] -= starts[way][-1]
    figures: dict[str, Any] = {"lines": lines, "processors": processors, "rounds": rounds}
    for way, seconds_of_lines in found.items():
        ratios = [mine / theirs for mine, theirs in zip(seconds_of_lines, found["plain"], strict=True)]
        figures[way] = {
            "lines_a_second": round(lines / statistics.median(seconds_of_lines), 1),
            "start_seconds": round(statistics.median(starts[way]), 1),
            "times_plain": [round(ratio, 3) for ratio in ratios],
            "overhead": round(statistics.median(ratios) - 1, 4),
        }
    is_kept = figures["journal"]["overhead"] <= 0.01 and figures["ray"]["overhead"] <= 0.1
    finish(figures, is_kept=is_kept)


if __name__ == "__main__":
    main()
