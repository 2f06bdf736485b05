#!/usr/bin/env python3
"""Measures what the default, `auto`, is worth beside every fixed choice of a drafter: fresh processes in turns.

Seconds are those of decoding, as `--stats` has them: what `auto` finds out about the machine, and drafters that are
loaded and packed on the way, are in them. Each round has `auto` twice, with an empty cache folder and with what it kept
there, and runs all ways in an order drawn anew; ratios are taken within a round. Run it on a quiet machine, with
SPECMT_CORPORA naming the folder of the test sets:

  python scripts/choice.py                                   # all that is asked: some hours
  python scripts/choice.py --copies 1 --lines 60 --rounds 5  # the bundled model, one line at a time

Asked: with one line at a time `auto` takes at most 1.05 times the seconds of the best fixed choice (of 20 lines, 1.05
times or 10 ms more), and a second run 1.03 times; batches are never slower than 1 / 0.98 of greedy decoding; and the
first line of all comes at most 25 ms later than without drafts. With --check it exits 1 where that is not so.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import NamedTemporaryFile, TemporaryDirectory

import click
from compare_peers import read_lines
from processes import ENVIRONMENT, decoding_seconds
from rich.console import Console
from widen import write_wide

from specmt.evaluation.machine import describe_machine, format_signature
from specmt.evaluation.tables import Table
from specmt.evaluation.timing import ratios
from specmt.models.folder import find

FIRST, AGAIN, GREEDY = "auto, first", "auto, again", "greedy"
WAYS = {
    FIRST: [],
    AGAIN: [],
    GREEDY: ["--strategy", "greedy"],
    **{f"autoregressive {size}": ["--drafter", "autoregressive", "--block-size", str(size)] for size in (3, 5, 8)},
    **{f"masked {size}": ["--drafter", "masked", "--block-size", str(size)] for size in (5, 10)},
}
COLUMNS = ("model", "type", "text", "batch", "lines", GREEDY, "best", "s", FIRST, AGAIN, "x greedy", "asked", "line 1")
SETS = ("newstest2014.de-en", "docs-test")
MOST, SECOND, LEAST_BATCH, LATER = 1.05, 1.03, 0.98, 0.025
FEW, GRACE = 20, 0.01
"""With so few lines, so many seconds more are as good as a ratio."""

console = Console(width=140)


def decode(way: str, model: Path, options: Sequence[str], lines: Sequence[str], caches: Path) -> float:
    """Returns the seconds of decoding lines in a fresh process, and checks nothing: outputs are compared elsewhere."""
    # Packed weights are kept for all; what calls cost is there in the second run alone.
    cache = caches / ("first" if way == FIRST else "other")
    for kept in cache.glob("specmt/costs-*.json") if way == FIRST else ():
        kept.unlink()
    with NamedTemporaryFile("w", encoding="utf-8") as source:
        source.write("\n".join(lines) + "\n")
        source.flush()
        # Of a wide model only widen.py knows the positions.
        program = [sys.executable, str(Path(__file__).with_name("widen.py")), "run", str(model), "--"]
        environment = {**ENVIRONMENT, "XDG_CACHE_HOME": str(cache)}
        how = {"program": program, "env": environment, "stdout": subprocess.DEVNULL}
        return decoding_seconds(source.name, *options, *WAYS[way], **how)


def measure(
    ways: Sequence[str], model: Path, options: Sequence[str], lines: Sequence[str], rounds: int, caches: Path
) -> dict[str, list[float]]:
    """Returns the seconds of each way in each round."""
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    generator = random.Random(len(lines))
    for _ in range(rounds):
        for way in generator.sample(ways, len(ways)):
            if way == AGAIN and not seconds[way]:
                decode(way, model, options, lines, caches)
            seconds[way].append(decode(way, model, options, lines, caches))
    return seconds


def judge(seconds: Mapping[str, Sequence[float]], lines: int, batch_size: int) -> tuple[tuple[str, ...], bool]:
    """Returns the cells of a row, and whether all that is asked of it is so."""
    fixed = {way: median(seconds[way]) for way in seconds if way not in (FIRST, AGAIN)}
    best = min(fixed, key=fixed.__getitem__)
    first, again = (median(ratios(seconds[way], seconds[best])) for way in (FIRST, AGAIN))
    gain = median(ratios(seconds[GREEDY], seconds[FIRST]))
    if batch_size > 1:
        good = gain >= LEAST_BATCH
    else:
        is_near = lines <= FEW and median(seconds[FIRST]) - fixed[best] <= GRACE
        good = (first <= MOST or is_near) and again <= SECOND
    cells = f"{fixed[GREEDY]:.3f}", best, f"{fixed[best]:.3f}", f"{first:.3f}", f"{again:.3f}", f"{gain:.2f}"
    return (*cells, "yes" if good else "NO"), good


def numbers(_: click.Context, __: click.Parameter, value: str) -> list[int]:
    return [int(each) for each in value.split(",")]


@click.command()
@click.option("--model", help="A model folder; by default the bundled one from German.")
@click.option("--copies", callback=numbers, default="1,2,4", show_default=True, help="Widths, in those of the model.")
@click.option("--deep", is_flag=True, help="The shape of NLLB-600M, too: 4 copies, 12 layers, 256,000 pieces.")
@click.option("--lines", callback=numbers, default="20,60,1000", show_default=True, help="Wide models: the middle one.")
@click.option("--batch-sizes", callback=numbers, default="1,8,32", show_default=True, help="Batches: 80, 1000 lines.")
@click.option("--dtypes", default="bfloat16,int8", show_default=True)
@click.option("--rounds", default=15, show_default=True)
@click.option("--check", "strict", is_flag=True, help="Exit 1 where something is not as asked.")
def main(
    model: str | None,
    copies: list[int],
    deep: bool,
    lines: list[int],
    batch_sizes: list[int],
    dtypes: str,
    rounds: int,
    strict: bool,
) -> None:
    """Compares `auto` with fixed choices."""
    folder, rows, good = find(model, source="de" if model is None else None).path, [], True
    shapes = [(f"x {count}", count, None, None) for count in copies] + [("NLLB", 4, 12, 256_000)] * deep
    with TemporaryDirectory() as temporary:
        for name, count, layers, pieces in shapes:
            path = folder if count == 1 else write_wide(folder, count, Path(temporary, name), layers, pieces).path
            for dtype in dtypes.split(","):
                options = ["--dtype", dtype, "--device", "cpu"]
                caches = Path(temporary, "caches", name, dtype)
                for text in SETS:
                    every = read_lines(text, "de")
                    first = [
                        median(decode(way, path, options, every[:1], caches) for _ in range(rounds))
                        for way in (FIRST, GREEDY)
                    ]
                    if count == 1:
                        good = good and first[0] - first[1] <= LATER
                    for size in batch_sizes:
                        batches = [*options, "--batch-size", str(size)]
                        if size > 1:
                            some, ways = [80, 1000], [FIRST, AGAIN, GREEDY]  # all that is asked of batches
                        else:
                            some, ways = lines if count == 1 else lines[len(lines) // 2 :][:1], [*WAYS]
                        for length in some:
                            seconds = measure(ways, path, batches, every[:length], rounds, caches)
                            cells, is_so = judge(seconds, length, size)
                            label = f"{1e3 * (first[0] - first[1]):+.0f} ms"
                            rows.append((name, dtype, text, str(size), str(length), *cells, label))
                            good = good and is_so
                            click.echo(" ".join(rows[-1]), err=True)
            if count > 1:
                shutil.rmtree(path)
    console.print(Table("Seconds of decoding; auto in those of the best fixed choice", COLUMNS, rows).rich())
    console.print(format_signature(describe_machine()), markup=False, soft_wrap=True)
    sys.exit(1 if strict and not good else 0)


if __name__ == "__main__":
    main()
