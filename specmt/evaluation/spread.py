"""Figures of several repeats."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """The median of a figure over the repeats, and its ends."""

    median: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Returns median and ends of values, of which there must be some."""
    return Spread(statistics.median(values), min(values), max(values))


def spread_if_any(values: Sequence[float]) -> Spread | None:
    """Returns the same, or ``None`` of nothing."""
    return spread(values) if values else None
