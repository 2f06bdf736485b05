#!/usr/bin/env python
"""Has the kernels compute what they hardly ever do, several callers at a time, who must hear what one alone hears.

    PYTHONPATH=. python scripts/odd_shapes.py MODEL…

Networks of odd shapes read sources, windows and trees of every length in batches of every size, in more threads than
there are processors; then models decode such sources by drafters of every size. `scripts/sanitize.py` runs it, too.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from specmt.decoding.session import decode
from specmt.engine.kernels.backend import KernelBackend
from specmt.engine.protocols import Verifier
from specmt.engine.threads import use_threads
from specmt.engine.window import Window, branches
from specmt.models.config import VerifierConfig
from specmt.models.hub import Model, load_model, verifier_sizes
from specmt.models.parameters import verifier_shapes
from specmt.options import DecodingOptions

FORMATS = ("float32", "bfloat16", "int8")
SHAPES = ((32, 2, 48, 437), (96, 2, 16, 499), (64, 1, 112, 497), (128, 1, 64, 9))
"""Of networks whose numbers fill no register: width, heads, inner width, pieces."""

POSITIONS = 96
THREADS = (1, 2 * (os.cpu_count() or 1) + 1)
BATCHES = (1, 2, 33)
DRAFTERS = ("masked", "autoregressive")
WAYS: list[dict[str, Any]] = [
    *({"strategy": "greedy"}, {"strategy": "beam", "beam_size": 7, "n_best": 7}, {"drafter": "self", "block_size": 60}),
    *({"drafter": "masked", "block_size": size, "scores": True} for size in (1, 13, 60)),
    *({"drafter": name, "tree": "best-first", "nodes": nodes} for name in DRAFTERS for nodes in (1, 63)),
    *({"drafter": name, "tree": "sampled", "width": 9, "temperature": 2.0, "block_size": 7} for name in DRAFTERS),
]


def in_company(what: str, work: Callable[[int], object]) -> None:
    """Does work with batches of every size, alone and at once; ends the program where the one is not as the other."""
    alone = [work(size) for size in BATCHES]
    with ThreadPoolExecutor(len(BATCHES)) as pool:
        if [*pool.map(work, BATCHES)] != alone:
            sys.exit(f"{what}: something else in company.")


def score(verifier: Verifier, pieces: int, rows: int) -> list[bytes]:
    """Returns the logits of windows and trees of every size, the rows in any order."""
    draw, said = np.random.default_rng(rows), []
    lengths, starts = draw.choice([0, 1, 2, 17, POSITIONS - 2], rows), np.zeros(rows, dtype=np.int64)
    state = verifier.new_state(rows)
    encoded = verifier.encode([draw.integers(4, pieces, size).tolist() for size in lengths])
    verifier.start(state, np.arange(rows), encoded)
    for size in (1, 2, 9, 33):
        counts, order = draw.integers(1, size + 1, rows), draw.permutation(rows)
        tokens = draw.integers(4, pieces, (rows, size))
        said.append(verifier.score(Window(tokens, starts[order], counts, order), state))
        starts[order] += counts
        parents = np.array([[draw.integers(0, place + 1) for place in range(size)] for _ in range(rows)])
        tokens = draw.integers(4, pieces, (rows, size + 1))
        said.append(verifier.score(Window(tokens, starts, branches=branches(parents)), state))
    return [logits.row(row, 0).tobytes() for logits in said for row in range(rows)]


def decoded(model: Model, sources: Sequence[list[int]], way: dict[str, Any], batch_size: int) -> list[list[int]]:
    return [each.tokens for each in decode(model, sources, DecodingOptions(batch_size=batch_size, **way))]


def run(models: Sequence[str]) -> None:
    """
    :param models: folders, small ones
    """
    for (width, heads, inner, pieces), decoder, format in product(SHAPES, ("attention", "ssru"), FORMATS):
        config = VerifierConfig(
            model_dim=width,
            num_heads=heads,
            ffn_dim=inner,
            vocab_size=pieces,
            encoder_layers=2,
            decoder_layers=2,
            max_length=POSITIONS,
            decoder=decoder,  # type: ignore[arg-type]
        )
        draw = np.random.default_rng(1)
        weights = {name: draw.standard_normal(shape, np.float32) for name, shape in verifier_shapes(config).items()}
        verifier = KernelBackend(format).verifier(weights, verifier_sizes(config))
        for threads in THREADS:
            use_threads(threads)
            in_company(f"width {width}, {decoder}, {format}", partial(score, verifier, pieces))
        print("odd shapes", width, decoder, format, flush=True)
    for path, format in product(models, FORMATS):
        model, draw_length = load_model(Path(path), dtype=format), random.Random(1)
        lengths = (0, 1, 2, 3, model.max_source_length - 1, *(draw_length.randrange(30) for _ in range(6)))
        sources = [[draw_length.randrange(4, len(model.pieces)) for _ in range(length)] for length in lengths]
        for way, threads in product(WAYS, THREADS):
            use_threads(threads)
            in_company(f"{path}, {format}, {way}", partial(decoded, model, sources, way))
        print("odd sources", Path(path).name, format, flush=True)


if __name__ == "__main__":
    run(sys.argv[1:])
