#!/usr/bin/env python3
"""Where the time of decoding goes, by width of the model: steps, rows, drafts, encoder, and what memory gives.

    python scripts/steps.py [--copies 1,2,4] [--lines 6]
    python scripts/steps.py --copies 4 --layers 12 --pieces 256000    # NLLB-600M's shape

The bundled model's dimensions are repeated (scripts/widen.py), so that it says the same at every width. Lines are
decoded one at a time on the kernels, the ways in turn; of each the round with the least time counts, and the median of
its ratios to greedy decoding.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import click
import numpy as np
from compare_peers import console, read_pairs
from widen import write_wide

from specmt.engine.kernels.backend import BITS
from specmt.evaluation.bench import BenchOptions, call_seconds
from specmt.evaluation.tables import Table
from specmt.models.folder import find
from specmt.models.hub import Model, load_model
from specmt.options import DecodingOptions
from specmt.translator import Translator
from specmt.types import Stats

ROWS = (1, 4, 8, 24)
WAYS = {
    "greedy": DecodingOptions(strategy="greedy", batch_size=1),
    "masked, 5 ahead": DecodingOptions(drafter="masked", block_size=5, batch_size=1),
    "autoregressive, 5 ahead": DecodingOptions(drafter="autoregressive", block_size=5, batch_size=1),
    "autoregressive, trees of 16": DecodingOptions(
        drafter="autoregressive", tree="best-first", block_size=8, nodes=16, batch_size=1
    ),
    "self, 12 ahead": DecodingOptions(drafter="self", block_size=12, batch_size=1),
    "auto": DecodingOptions(batch_size=1),
}


class Timed:
    """A function that adds up its seconds."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.seconds = 0.0

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        started = perf_counter()
        result = self.function(*arguments, **options)
        self.seconds += perf_counter() - started
        return result


def step_bytes(model: Model) -> float:
    """Returns the bytes of weights that a greedy step reads."""
    config = model.folder.verifier
    layer = (6 * config.model_dim + 2 * config.ffn_dim) * config.model_dim
    # Whatever the format, the projection is looked through in int8, and few outputs are computed exactly.
    return config.decoder_layers * layer * BITS[model.dtype] / 8 + config.vocab_size * config.model_dim


def read_speed(repeats: int = 12) -> float:
    """Returns the bytes a second that all threads read from memory at best, in NumPy's product with a vector."""
    matrix, vector = np.ones((1 << 14, 1 << 13), dtype=np.float32), np.ones(1 << 13, dtype=np.float32)
    seconds = []
    for _ in range(repeats):
        timed = Timed(matrix.dot)
        timed(vector)
        seconds.append(timed.seconds)
    return matrix.nbytes / min(seconds)


def measure(model: Model, lines: list[str], rounds: int) -> dict[str, tuple[float, float, float, float, Stats]]:
    """Returns of each way how many times as fast as greedy decoding it is, its seconds, and what it counted.

    Seconds are all, those in the loop of the kernels and those in the encoder.
    """
    translator, verifier = Translator(model), model.verifier
    loop, encoder = Timed(verifier.run), Timed(verifier.encode)
    verifier.run, verifier.encode = loop, encoder
    found: dict[str, tuple[float, float, float, Stats]] = {}
    ratios: dict[str, list[float]] = {way: [] for way in WAYS}
    greedy = 0.0
    for number in range(rounds + 1):
        for way, options in WAYS.items():
            loop.seconds = encoder.seconds = 0.0
            started = perf_counter()
            stats = sum((each.stats for each in translator.translate(lines, options)), Stats())
            seconds = perf_counter() - started
            greedy = seconds if way == "greedy" else greedy
            if number > 0:
                ratios[way].append(greedy / seconds)
            if number > 0 and (way not in found or seconds < found[way][0]):  # the first is for warming up
                found[way] = seconds, loop.seconds, encoder.seconds, stats
    return {way: (median(ratios[way]), *times) for way, times in found.items()}


@click.command()
@click.option("--copies", default="1,2,4", show_default=True, help="How often each dimension is repeated.")
@click.option("--lines", default=6, show_default=True, help="Of each test set.")
@click.option("--layers", type=int, help="Of encoder and decoder, those that are added changing nothing.")
@click.option("--pieces", type=int, help="Of the vocabulary, those that are added being never said.")
@click.option("--rounds", default=4, show_default=True)
@click.option("--threads", default=2, show_default=True)
def main(copies: str, lines: int, layers: int | None, pieces: int | None, rounds: int, threads: int) -> None:
    """Prints where the time of decoding goes, by width."""
    memory = 0.0
    steps, costs, shares = [], [], []
    folder = find(None, source="de", target="en").path
    for count in map(int, copies.split(",")):
        with TemporaryDirectory() as temporary:
            path = write_wide(folder, count, Path(temporary) / "wide", layers, pieces).path
            for dtype in ("bfloat16", "int8"):
                memory = max(memory, read_speed())  # others on the machine take their share
                model = load_model(path, dtype=dtype, threads=threads)
                texts, _ = read_pairs(model, ("docs-test", "newstest2014.de-en"), lines)
                name = f"{model.folder.verifier.model_dim} {dtype}"
                calls = call_seconds(model, BenchOptions(rows=ROWS), 1)
                found = measure(model, texts, rounds)
                _, _, step, _, stats = found["greedy"]
                step /= stats.verifier_calls
                read = step_bytes(model)
                relative = [f"{calls[rows] / calls[1]:.1f}" for rows in ROWS[1:]]
                steps.append((name, read, step, relative))
                for way, (ratio, seconds, loop, encoder, stats) in found.items():
                    per_call = loop / stats.verifier_calls
                    rest = seconds - loop - encoder
                    counted = f"{stats.tokens / stats.verifier_calls:.1f}", f"{per_call / step:.1f}"
                    parts = (f"{1e3 * part / len(texts):.1f}" for part in (loop, encoder, rest))
                    shares.append((name, way, *counted, *parts, f"{ratio:.2f}"))
    for name, read, step, relative in steps:
        speed = f"{read / step / 1e9:.1f}", f"{read / step / memory:.0%}"
        costs.append((name, f"{read / 1e6:.1f}", f"{1e3 * step:.2f}", *speed, *relative))
    title = f"Greedy steps and longer windows, one sentence; memory gives {memory / 1e9:.1f} GB/s"
    rows = (f"{count} rows" for count in ROWS[1:])
    console.print(Table(title, ("width", "weights MB", "step ms", "GB/s", "of memory's", *rows), costs).rich())
    heads = "width", "way", "tokens/call", "call in steps", "loop", "encoder", "rest", "× greedy"
    console.print(Table("Where the time goes: milliseconds a line", heads, shares).rich())
    console.print(
        "weights: that a greedy step reads, small ones from caches; rows: what a window costs in windows of one;\n"
        "a call: drafts and the check of them; loop: all calls of a line; rest: the drafter's beginning, text, Python."
    )


if __name__ == "__main__":
    main()
