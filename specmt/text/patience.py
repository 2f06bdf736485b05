"""What two sequences have in common, in order, in time that grows with them."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

from specmt.types import Span

T = TypeVar("T")


def patience(old: Sequence[T], new: Sequence[T]) -> list[Span]:
    """Returns which places of two sequences are the same, in order: around what both have once, and at the ends."""
    pairs: list[Span] = []
    waiting = [(0, len(old), 0, len(new))]
    while waiting:
        start, end, other, last = waiting.pop()
        while start < end and other < last and old[start] == new[other]:
            pairs.append((start, other))
            start, other = start + 1, other + 1
        while start < end and other < last and old[end - 1] == new[last - 1]:
            end, last = end - 1, last - 1
            pairs.append((end, last))
        if start == end or other == last:
            continue
        places = {value: place for place, value in enumerate(old[start:end], start)}
        counts, others = Counter(old[start:end]), Counter(new[other:last])
        once = [
            (places[value], place)
            for place, value in enumerate(new[other:last], other)
            if counts[value] == 1 and others[value] == 1
        ]
        kept = [once[number] for number in longest_increasing([each for each, _ in once])]
        if kept:
            bounds = [(start - 1, other - 1), *kept, (end, last)]
            waiting += [(one + 1, two, before + 1, after) for (one, before), (two, after) in pairwise(bounds)]
            pairs += kept
    return sorted(pairs)


def longest_increasing(values: Sequence[int]) -> list[int]:
    """Returns the places of a longest increasing run of different values."""
    tops: list[int] = []
    places: list[int] = []
    before: list[int] = []
    for place, value in enumerate(values):
        pile = bisect_left(tops, value)
        before.append(places[pile - 1] if pile else -1)
        tops[pile : pile + 1], places[pile : pile + 1] = [value], [place]
    run: list[int] = []
    place = places[-1] if places else -1
    while place >= 0:
        run.append(place)
        place = before[place]
    return run[::-1]
