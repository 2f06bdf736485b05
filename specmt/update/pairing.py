"""Which blocks of two files that were written independently are translations of each other."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, starmap
from operator import itemgetter
from typing import Final, NamedTuple

from specmt.formats.blocks import Content
from specmt.text.patience import patience
from specmt.types import Span

_NUMBER: Final = re.compile(r"\d+")
_NAME: Final = re.compile(r"\b[a-z]+[A-Z]\w*\b|\b[^\W_]+_\w+\b|[\w.-]{1,64}@[\w.-]+|%\w|\{\w+\}")
_STAND_IN: Final = re.compile(r"\{tx*\d+\}")
_WORD: Final = re.compile(r"\w{4,}")
_LOCAL: Final = re.compile(
    r"(?<=\]\()(?:\{\{[<%] *(?:rel)?ref\s[^{}]*\}\}|[^:)\s]{0,500})(?=[)\s])"
    r"|(?<![A-Za-z])(?:de|en|german|english)(?:[-_][A-Za-z]{2})?(?![A-Za-z])"
)
"""A link within a site, and what of a URL names a language."""

_CODE: Final = re.compile(r"^`[^`]+`$")
"""A cell that is code, which no text says."""

_ALONE: Final = 4.0
"""What it costs that a block has no partner, in nats; a pair of blocks of different kinds costs more than both."""

_JOINED: Final = 2.5
"""What it costs more that two blocks are one on the other side."""

_SPREAD: Final = 0.35
"""The standard deviation of the logarithm of the ratio of lengths."""

_FEW: Final = 10
"""So many blocks say half of how much longer one language is than another, as the lengths of blocks differ."""

_LOOSE: Final = {"item", "paragraph"}
"""Kinds that a translation may exchange."""

_NEAR: Final = 16
"""How many blocks beside anchors are looked at, and what is between two of them."""

_FAR: Final = 100
"""How many are at most."""

_MOVES: Final = ((1, 1), (1, 0), (0, 1), (1, 2), (2, 1))

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


Pair = Callable[[Sequence[int], Sequence[int]], Iterable[Paired]]
"""Returns which of some blocks of the source and of the target are translations of each other, by their numbers."""


def shape(kind: str, content: Content) -> Shape:
    """Returns what of a block is the same in every language."""
    text = _STAND_IN.sub("", " ".join(content.texts))
    marks = Counter(_NUMBER.findall(text) + _NAME.findall(text))
    marks.update(" ".join(_LOCAL.sub("", each).split()) for each in content.markup if each.strip())
    marks.update(_CODE.findall(content.first))
    size = len(text) if text else sum(map(len, content.markup))
    return Shape(kind, size, marks, frozenset(map(str.lower, _WORD.findall(text))))


def pair(source: Sequence[Shape], target: Sequence[Shape]) -> list[Paired]:
    """Returns which blocks of two files belong together, in order.

    A pair is sure where its neighbours are paired, too, two of these three have the same marks on both sides and it has
    at least half of its own, and the ratio of its lengths is that of translations.
    """
    steps = cheapest(source, target)
    same = {(-1, -1): 1.0, (len(source), len(target)): 1.0}
    for one, other in steps:
        if len(one) == len(other) == 1:
            same[one[0], other[0]] = _same(source[one[0]], target[other[0]])
    found: list[Paired] = []
    for one, other in steps:
        if not one or not other:
            continue
        row, column = one[0], other[0]
        three = [same.get((row + by, column + by), -1.0) for by in (-1, 0, 1)]
        is_sure = min(three) >= 0 and three[1] >= 0.5 and three.count(1.0) >= 2
        found.append(Paired(row, column, is_sure, three[1] == 1 and bool(source[row].marks)))
        found += [Paired(number, None, is_sure=False) for number in one[1:]]
    return found


def _same(source: Shape, target: Shape) -> float:
    """Returns which share of marks two blocks have in common; 0 where they cannot be translations of each other."""
    ratio = (target.length + 10) / (source.length + 10)
    if source.kind != target.kind or not 0.5 <= ratio <= 2:
        return 0.0
    return _common(source.marks, target.marks)


def _common(source: Counter[str], target: Counter[str]) -> float:
    """Returns which share of marks is in both."""
    if not source and not target:
        return 1.0
    both = sum(min(count, target[mark]) for mark, count in source.items())
    return both / (source.total() + target.total() - both)


def _joined(one: Shape, other: Shape) -> Shape | None:
    """Returns two blocks as one; ``None`` where they are of different kinds."""
    if one.kind != other.kind:
        return None
    return Shape(one.kind, one.length + other.length, one.marks + other.marks, one.words | other.words)


def _ratio(source: Sequence[Shape], target: Sequence[Shape]) -> float:
    """Returns the logarithm of how much longer blocks of the target are than those of the source."""
    count = min(len(source), len(target))
    one, other = (sum(block.length + 10 for block in side) / max(1, len(side)) for side in (source, target))
    return math.log(other / one) * count / (count + _FEW) if count else 0.0


def _cost(source: Shape | None, target: Shape | None, ratio: float) -> float:
    """Returns how unlikely it is that blocks are translations of each other, in nats.

    :param ratio: the logarithm of that of their lengths which is usual
    """
    if source is None or target is None or not (source.kind == target.kind or {source.kind, target.kind} <= _LOOSE):
        return math.inf
    far = (math.log((target.length + 10) / (source.length + 10)) - ratio) / _SPREAD
    unlike = 1 - _common(source.marks, target.marks)
    alike = len(source.words & target.words) / max(1, min(len(source.words), len(target.words)))
    return min(far * far / 2, 6.0) + 4 * unlike - 2 * alike + 2 * (source.kind != target.kind)


def cheapest(source: Sequence[Shape], target: Sequence[Shape]) -> list[tuple[range, range]]:
    """Returns the steps of the cheapest way through both files: the blocks of each side that belong together.

    Only ways near to blocks that both have once, by their marks, are looked at, so that it takes linear time.
    """
    twos = [[None, *starmap(_joined, pairwise(side))] for side in (source, target)]
    ratio = _ratio(source, target)
    best: list[dict[int, tuple[float, Span]]] = []
    for row, columns in enumerate(_corridor(source, target)):
        here: dict[int, tuple[float, Span]] = {}
        best.append(here)
        for column in columns:
            ways = [(0.0, (0, 0))] if row == column == 0 else []
            for down, right in _MOVES:
                before = best[row - down].get(column - right) if row >= down else None
                if before is None:
                    continue
                cost = _ALONE
                if down and right:
                    one = twos[0][row - 1] if down == 2 else source[row - 1]
                    other = twos[1][column - 1] if right == 2 else target[column - 1]
                    cost = _cost(one, other, ratio) + (_JOINED if down + right > 2 else 0.0)
                ways.append((before[0] + cost, (down, right)))
            if ways:
                here[column] = min(ways, key=itemgetter(0))
    steps: list[tuple[range, range]] = []
    row, column = len(source), len(target)
    while row or column:
        down, right = best[row][column][1]
        steps.append((range(row - down, row), range(column - right, column)))
        row, column = row - down, column - right
    return steps[::-1]


def _corridor(source: Sequence[Shape], target: Sequence[Shape]) -> Iterator[range]:
    """Yields, for each place between blocks of the source, which places in the target it may be."""
    sides = [
        [(number, (each.kind, frozenset(each.marks.items()))) for number, each in enumerate(side) if each.marks]
        for side in (source, target)
    ]
    same = patience(*([value for _, value in side] for side in sides))
    anchors = [(0, 0), *((sides[0][one][0], sides[1][other][0]) for one, other in same), (len(source), len(target))]
    first, last = len(target), 0
    for (row, column), (next_row, next_column) in pairwise(anchors):
        rows, columns = next_row - row, next_column - column
        # Where anchors are wrong, they are not where others say that they should be.
        width = min(_NEAR + max(rows, columns), max(_FAR, 2 * columns // max(1, rows)))
        for number in range(rows + 1):
            middle = column + number * columns // max(1, rows)
            first, last = min(first, middle - width), max(last, middle + width)
            if number < rows:
                yield range(max(0, first), min(len(target), last) + 1)
                first, last = len(target), 0
    yield range(max(0, first), min(len(target), last) + 1)
