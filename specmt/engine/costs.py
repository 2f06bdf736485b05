"""What a call costs on this machine: measured once, kept in the user's cache folder."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from typing import Final

import numpy as np
import torch

from specmt.engine import keep
from specmt.engine.backend import Drafter, Verifier, best_tokens
from specmt.types import BOS, UNK

SOURCE: Final = 24
PREFIX: Final = 16
FRESH: Final = 3
"""Pieces of a source, tokens committed before a window, and tokens new to the drafter, while measuring."""

SECONDS: Final = 0.25
"""How long calls are repeated."""


@dataclass(frozen=True)
class Costs:
    """The seconds that calls over a number of sentences side by side take."""

    verify: tuple[tuple[int, float], ...]
    """Pairs of a window's width and the seconds to score it, by width."""

    draft: tuple[tuple[int, float], ...]
    """Pairs of a block's size and the seconds to draft it, by size."""

    def verifying(self, widest: int) -> list[float]:
        """Returns the seconds for windows of 1 … ``widest`` tokens."""
        return _interpolate(self.verify, widest)

    def drafting(self, largest: int) -> list[float]:
        """Returns the seconds for blocks of 1 … ``largest`` slots."""
        return _interpolate(self.draft, largest)


def _interpolate(points: tuple[tuple[int, float], ...], largest: int) -> list[float]:
    sizes, seconds = zip(*points, strict=True)
    return [float(value) for value in np.interp(np.arange(1, largest + 1), sizes, seconds)]


@torch.inference_mode()
def measure(verifier: Verifier, drafter: Drafter, rows: int, block_size: int) -> Costs:
    """Measures calls over a number of sentences, with windows up to a block and one token more."""
    memory = verifier.encode([[UNK] * SOURCE] * rows)
    everything = torch.arange(rows, device=verifier.device)
    state, drafting = verifier.new_state(rows), drafter.new_state(rows)
    verifier.start(state, everything, memory)
    drafter.start(drafting, everything, memory)
    starts = torch.full((rows,), PREFIX, device=verifier.device)
    prefix = torch.full((rows, PREFIX), BOS, device=verifier.device)
    verifier.score(prefix, torch.zeros_like(starts), state)
    drafter.propose(prefix, torch.zeros_like(starts), starts, 1, drafting)

    def verify(width: int) -> object:
        window = torch.full((rows, width), UNK, device=verifier.device)
        return best_tokens(verifier.score(window, starts, state)).tolist()

    def draft(size: int) -> object:
        fresh, counts = torch.full((rows, FRESH), UNK, device=verifier.device), torch.full_like(starts, FRESH)
        return drafter.propose(fresh, starts, counts, size, drafting)[0].tolist()

    widths = sorted({1, 2, *range(3, block_size + 1, 3), block_size + 1})
    sizes = sorted({1, (block_size + 1) // 2, block_size})
    calls = [partial(verify, width) for width in widths] + [partial(draft, size) for size in sizes]
    seconds = median_seconds(calls)
    return Costs(tuple(zip(widths, seconds, strict=False)), tuple(zip(sizes, seconds[len(widths) :], strict=True)))


def median_seconds(calls: Sequence[Callable[[], object]]) -> list[float]:
    """Returns the median time of each call; they take turns, so that what else the machine does hits all alike."""
    seconds: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + SECONDS
    for call in calls:
        call()
    while len(seconds[0]) < 3 or (len(seconds[0]) < 25 and time.perf_counter() < end):
        for call, times in zip(calls, seconds, strict=True):
            started = time.perf_counter()
            call()
            times.append(time.perf_counter() - started)
    return [statistics.median(times) for times in seconds]


def measured_here(description: str, work: Callable[[], Costs]) -> Costs:
    """Returns the costs that were measured under a description on this machine, or measures and keeps them."""
    verify, draft = keep.kept("costs", description, lambda: astuple(work()))
    return Costs(*(tuple((int(size), float(seconds)) for size, seconds in pairs) for pairs in (verify, draft)))
