"""Which blocks of two files that were written independently are translations of each other."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from specmt.formats.blocks import Content
from specmt.types import Span

_NUMBER: Final = re.compile(r"\d+")
_NAME: Final = re.compile(r"\b[a-z]+[A-Z]\w*\b|\b[^\W_]+_\w+\b|[\w.-]+@[\w.-]+|%\w|\{\w+\}")
_WORD: Final = re.compile(r"\w{4,}")
_LOCAL: Final = re.compile(r"(?<![A-Za-z])(?:de|en|german|english)(?:[-_][A-Za-z]{2})?(?![A-Za-z])")
"""What of a URL names a language."""

_ALONE: Final = 4.0
"""What it costs that a block has no partner, in nats; a pair of blocks of different kinds costs more than both."""

_JOINED: Final = 2.5
"""What it costs more that two blocks are one on the other side."""

_SPREAD: Final = 0.35
"""The standard deviation of the logarithm of the ratio of lengths."""

_BAND: Final = 300
"""How far from the diagonal of a large table is looked."""

SURE: Final = 0.6
"""The least share of pairs that are sure for two files to be taken for translations of each other."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a block is the same in every language."""

    kind: str
    length: int
    marks: Counter[str]
    """Numbers, code and addresses."""

    words: frozenset[str]
    """Its words, of which names are the same in both languages."""


class Paired(NamedTuple):
    """A block of the source and its partner."""

    source: int
    target: int | None
    """``None``: it is in the partner of the block before it."""
    is_sure: bool

    is_marked: bool = False
    """Whether both have the same marks, and not only none."""


def shape(kind: str, content: Content) -> Shape:
    """Returns what of a block is the same in every language."""
    text = " ".join(content.texts)
    marks = Counter(_NUMBER.findall(text) + _NAME.findall(text))
    marks.update(_LOCAL.sub("", each) for each in content.markup if each.strip())
    size = len(text) if text else sum(map(len, content.markup))
    return Shape(kind, size, marks, frozenset(map(str.lower, _WORD.findall(text))))


def pair(source: Sequence[Shape], target: Sequence[Shape]) -> list[Paired]:
    """Returns which blocks of two files belong together, in order.

    A pair is sure where its neighbours are paired, too, and the marks of both are the same, and the ratio of their
    lengths is that of translations.
    """
    steps = cheapest(source, target)
    ones = {(one[0], other[0]) for one, other in steps if len(one) == len(other) == 1}
    known = {*ones, (-1, -1), (len(source), len(target))}
    found: list[Paired] = []
    for one, other in steps:
        if not one or not other:
            continue
        first = one[0], other[0]
        around = first in ones and all((first[0] + by, first[1] + by) in known for by in (-1, 1))
        agree = _agree(source[first[0]], target[first[1]])
        found.append(Paired(*first, around and agree, agree and bool(source[first[0]].marks)))
        found += [Paired(number, None, is_sure=False) for number in one[1:]]
    return found


def _agree(source: Shape, target: Shape) -> bool:
    ratio = (target.length + 10) / (source.length + 10)
    return source.kind == target.kind and source.marks == target.marks and 0.5 <= ratio <= 2


def _cost(source: Sequence[Shape], target: Sequence[Shape]) -> float:
    """Returns how unlikely it is that blocks are translations of others, in nats."""
    if any(one.kind != other.kind for one in source for other in target):
        return math.inf
    lengths = [sum(each.length for each in side) + 10 for side in (source, target)]
    far = math.log(lengths[1] / lengths[0]) / _SPREAD
    marks = [sum((each.marks for each in side), Counter()) for side in (source, target)]
    either = sum((marks[0] | marks[1]).values())
    unlike = 1 - sum((marks[0] & marks[1]).values()) / either if either else 0.0
    words = [frozenset().union(*(each.words for each in side)) for side in (source, target)]
    alike = len(words[0] & words[1]) / max(1, min(map(len, words)))
    extra = _JOINED if len(source) + len(target) > 2 else 0.0
    return min(far * far / 2, 6.0) + 4 * unlike - 2 * alike + extra


def cheapest(source: Sequence[Shape], target: Sequence[Shape]) -> list[tuple[range, range]]:
    """Returns the steps of the cheapest way through both files: the blocks of each side that belong together."""
    rows, columns = len(source), len(target)
    if not rows or not columns:
        return [(range(n, n + 1), range(0)) for n in range(rows)] + [
            (range(0), range(n, n + 1)) for n in range(columns)
        ]
    band = max(_BAND, 2 * columns // rows)
    moves = ((1, 1), (1, 0), (0, 1), (1, 2), (2, 1))
    best: dict[Span, tuple[float, Span]] = {(0, 0): (0.0, (0, 0))}
    for row in range(rows + 1):
        middle = row * columns // rows
        for column in range(max(0, middle - band), min(columns, middle + band) + 1):
            if (row, column) not in best:
                continue
            so_far = best[row, column][0]
            for down, right in moves:
                there = row + down, column + right
                if there[0] > rows or there[1] > columns:
                    continue
                cost = so_far + _ALONE
                if down and right:
                    cost = so_far + _cost(source[row : there[0]], target[column : there[1]])
                if cost < math.inf and (there not in best or cost < best[there][0]):
                    best[there] = cost, (down, right)
    steps: list[tuple[range, range]] = []
    place = rows, columns
    while place != (0, 0):
        down, right = best[place][1]
        steps.append((range(place[0] - down, place[0]), range(place[1] - right, place[1])))
        place = place[0] - down, place[1] - right
    return steps[::-1]
