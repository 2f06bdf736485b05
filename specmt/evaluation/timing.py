"""Timing that a busy machine disturbs least: calls take turns, and figures keep their spread over the repeats."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Clock = Callable[[], float]
"""Returns the seconds since some moment."""


@dataclass(frozen=True)
class Spread:
    """The median of a figure over the repeats, with its least and greatest value."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread | None:
    """Returns median and ends of values; ``None`` if there are none."""
    return Spread(statistics.median(values), min(values), max(values)) if values else None


def ratios(values: Sequence[float], others: Sequence[float]) -> list[float]:
    """Returns value ÷ other of each repeat: what slowed the machine down meanwhile slowed both."""
    return [value / other for value, other in zip(values, others, strict=True)]


def median_seconds(
    calls: Sequence[Callable[[], object]], *, repeats: int, budget: float, clock: Clock = time.perf_counter
) -> list[float]:
    """Runs each call once to warm up, then times them in turns; returns the median seconds of each.

    :param repeats: how often each is timed at least
    :param budget: seconds after which no further turn begins
    """
    for call in calls:
        call()
    end = clock() + budget
    seconds: list[list[float]] = []
    while len(seconds) < repeats or clock() < end:
        turn = []
        for call in calls:
            started = clock()
            call()
            turn.append(clock() - started)
        seconds.append(turn)
    return [statistics.median(column) for column in zip(*seconds, strict=True)]
