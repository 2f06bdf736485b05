"""Blocks of a source that were split, merged, or have another key or kind: where their translations are."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import NamedTuple, Protocol

from specmt.update.record import Entry, Item, Origin


class Said(NamedTuple):
    """Where a translation is, or a part of it: in which block of the target, and which of its sentences."""

    target: int
    start: int = 0
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Reshaped:
    """A block of a source whose translation is in other blocks of the target than its own."""

    number: int
    old: tuple[int, ...]
    """The numbers of the entries in the record that it takes the place of; nothing where it is named otherwise."""

    is_first: bool
    """Whether it is, of those that take the same place, the first one."""

    entry: Entry
    origin: Origin
    said: tuple[Said, ...]


class _Block(Protocol):
    @property
    def key(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def sentences(self) -> tuple[str, ...]: ...


def reshaped(
    known: Sequence[Entry],
    source: Sequence[Item],
    target: Sequence[Item],
    before: Mapping[int, int],
    partner: Mapping[int, int],
) -> Iterator[Reshaped]:
    """Yields the blocks of a source that were split, merged or named otherwise, or are of another kind.

    :param before: the numbers of entries by those of blocks of the source
    :param partner: the numbers of blocks of the target by those of entries
    """

    def made(number: int, old: Sequence[int], *said: Said, is_first: bool = True) -> Reshaped:
        entries = [known[each] for each in old]
        is_human = any(
            each.origin in ("h", "o") or target[partner[place]].text != each.target
            for place, each in zip(old, entries, strict=True)
        )
        translated = tuple(sentence for each in entries for sentence in each.translated)
        origin: Origin = "o" if any(each.origin == "o" for each in entries) else "h" if is_human else "m"
        return Reshaped(number, (*old,), is_first, replace(entries[0], translated=translated), origin, said)

    taken = set(before.values())
    renamed: defaultdict[tuple[str, bool], deque[int]] = defaultdict(deque)
    for old, each in enumerate(known):
        if old not in taken and old in partner and target[partner[old]].is_plain:
            renamed[each.source, bool(each.key)].append(old)
    for number, item in enumerate(source):
        if item.is_plain and number not in before and renamed[item.text, bool(item.key)]:
            old = renamed[item.text, bool(item.key)].popleft()
            found = made(number, [old], Said(partner[old]))
            yield replace(found, old=(), is_first=False) if item.key else found
    for one, parts in _runs(known, source):
        other = partner.get(one, -1)
        is_free = all(before.get(number, one) == one for number in parts)
        counts = [len(source[number].sentences) for number in parts]
        fits = other >= 0 and target[other].is_plain and len(target[other].sentences) == sum(counts)
        if is_free and fits and all(source[number].is_plain for number in parts):
            for number, (start, end) in zip(parts, pairwise(accumulate(counts, initial=0)), strict=True):
                yield made(number, [one], Said(other, start, end), is_first=number == parts[0])
    owner = {old: number for number, old in before.items()}
    for number, parts in _runs(source, known):
        is_free = all(owner.get(old, number) == number for old in parts) and source[number].is_plain
        if is_free and all(old in partner and target[partner[old]].is_plain for old in parts):
            yield made(number, parts, *(Said(partner[old]) for old in parts))


def _runs(whole: Sequence[_Block], parts: Sequence[_Block]) -> Iterator[tuple[int, range]]:
    """Yields blocks, and the blocks one behind the other on the other side that have their sentences."""
    first: defaultdict[str, list[int]] = defaultdict(list)
    for number, each in enumerate(parts):
        if each.sentences and not each.key:
            first[each.sentences[0]].append(number)
    for number, each in enumerate(whole):
        for start in first.get(each.sentences[0], ())[:1] if len(each.sentences) > 1 and not each.key else ():
            end, place = start, 0
            while end < len(parts) and parts[end].kind == each.kind and len(parts[end].sentences) > 0:
                said = parts[end].sentences
                if each.sentences[place : place + len(said)] != said:
                    break
                place += len(said)
                end += 1
            if place == len(each.sentences) and end > start + 1:
                yield number, range(start, end)
