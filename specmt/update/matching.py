"""Which blocks of a file are which of an earlier state of it, by keys, hashes, places and sentences."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from specmt.text.patience import longest_increasing, patience
from specmt.types import Span
from specmt.update.record import Item

_MOST_ALIKE: Final = 50
"""In how many blocks a sentence may be that is to say which block is which."""

Matches = dict[int, int]
"""The number of an old block for that of a new one."""


def match(old: Sequence[Item], new: Sequence[Item]) -> Matches:
    """Returns which old block each new one was; of those that it lacks there was none.

    By key; of those without one, the longest runs of the same hashes in order, the same hash elsewhere, the same first
    cell, half of the sentences, and blocks of the same kinds between the same neighbours.
    """
    found: Matches = {}
    keyed = _by_value(old, lambda each: (each.kind, each.key) if each.key else None)
    for value, numbers in _by_value(new, lambda each: (each.kind, each.key) if each.key else None).items():
        found |= dict(zip(numbers, keyed.get(value, ()), strict=False))
    _find_same(old, new, found, lambda each: (each.kind, each.key, each.text, each.markup))
    _find_same(old, new, found, lambda each: (each.kind, each.text) if each.sentences and not each.key else None)
    _find_same(old, new, found, lambda each: (each.kind, each.first) if each.first else None)
    _find_alike(old, new, found)
    for before, after in list(gaps(found, len(old), len(new))):
        kinds = [old[number].kind for number in before], [new[number].kind for number in after]
        if kinds[0] == kinds[1] and not any(
            old[number].key or new[other].key for number, other in zip(before, after, strict=True)
        ):
            found |= dict(zip(after, before, strict=True))
    return found


def gaps(found: Matches, old: int, new: int) -> Iterator[tuple[list[int], list[int]]]:
    """Yields the blocks that are not matched on both sides, between the same neighbours.

    :param old: how many old blocks there are
    :param new: how many new ones
    """
    anchors = [(-1, -1), *((before, after) for after, before in in_order(found)), (old, new)]
    taken = set(found.values())
    for (old_start, new_start), (old_end, new_end) in pairwise(anchors):
        before = [number for number in range(old_start + 1, old_end) if number not in taken]
        after = [number for number in range(new_start + 1, new_end) if number not in found]
        if before and after:
            yield before, after


def in_order(found: Matches) -> list[Span]:
    """Returns the most matches, new and old, that are in the same order on both sides."""
    pairs = sorted(found.items())
    return [pairs[number] for number in longest_increasing([old for _, old in pairs])]


def _find_same(
    old: Sequence[Item], new: Sequence[Item], found: Matches, value: Callable[[Item], Hashable | None]
) -> None:
    """Adds the blocks of the same value: in order, then those that are unique, then those beside the same one."""
    taken = set(found.values())
    before = [number for number, each in enumerate(old) if number not in taken and value(each) is not None]
    after = [number for number, each in enumerate(new) if number not in found and value(each) is not None]
    for one, other in patience([value(old[number]) for number in before], [value(new[number]) for number in after]):
        found[after[other]] = before[one]
    taken = set(found.values())
    rest = _by_value(old, value)
    for key, numbers in _by_value(new, value).items():
        there = dict.fromkeys(number for number in rest.get(key, ()) if number not in taken)
        left = [number for number in numbers if number not in found]
        if len(left) > 1 or len(there) > 1:
            for number in left:
                beside = found.get(number - 1, -2) + 1
                if beside in there:
                    del there[beside]
                    found[number] = beside
        found |= dict(zip((number for number in left if number not in found), there, strict=False))


def _find_alike(old: Sequence[Item], new: Sequence[Item], found: Matches) -> None:
    """Adds the blocks of a kind that have half of their sentences in common, the likest first."""
    taken = set(found.values())
    having: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for number, each in enumerate(old):
        if number not in taken and not each.key:
            for sentence in set(each.sentences):
                having[each.kind, sentence].append(number)
    ranked: list[tuple[float, int, int]] = []
    for number, each in enumerate(new):
        if number in found or each.key:
            continue
        common: Counter[int] = Counter()
        for sentence in set(each.sentences):
            there = having.get((each.kind, sentence), ())
            common.update(there if len(there) <= _MOST_ALIKE else ())
        for other, count in common.items():
            share = count / max(len(set(each.sentences)), len(set(old[other].sentences)))
            if share >= 0.5:
                ranked.append((-share, number, other))
    for _, number, other in sorted(ranked):
        if number not in found and other not in taken:
            found[number] = other
            taken.add(other)


def _by_value(items: Sequence[Item], value: Callable[[Item], Hashable | None]) -> dict[Hashable, list[int]]:
    """Returns the numbers of the blocks of each value; those of none are left out."""
    numbers: dict[Hashable, list[int]] = {}
    for number, each in enumerate(items):
        if (said := value(each)) is not None:
            numbers.setdefault(said, []).append(number)
    return numbers
