"""A translation memory in pieces: earlier translations, found again by sources like theirs."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest
from typing import Final, NamedTuple, final

RECENT: Final = 20_000
"""How many pairs at least are remembered of those that came by :meth:`TranslationMemory.remember`."""

NEIGHBOURS: Final = 4
"""How many neighbours a source is given at most."""

_INDEXED: Final = 32
"""By how many of its n-grams a source can be found."""

_ASKED: Final = 64
"""By how many of its n-grams a source is looked for."""

_REACH: Final = 32
"""How many places of an n-gram are looked at, the latest first."""

_COMPARED: Final = 12
"""How many of those that share most of the n-grams asked for are compared as a whole."""

_RARE: Final = 16
"""Who shares less than one of so many n-grams asked for is less than a quarter like: too little to copy from."""


class Neighbour(NamedTuple):
    """The translation of a source like the one that was asked for."""

    similarity: float
    """From 0 to 1, the similarity of equal sources: Dice's coefficient of the trigrams of both."""

    target: list[int]


@final
class TranslationMemory:
    """Pairs of source and target pieces, each stored once; ids are below 2³¹.

    What a lookup costs hardly depends on how many pairs there are, nor on how often a piece occurs in them. A pair of
    30 pieces a side takes about a kilobyte.
    """

    def __init__(self, *, recent: int = RECENT) -> None:
        """
        :param recent: how many pairs to remember at least, twice as many at most.
        """
        self._recent = recent
        self._kept = _Shelf()
        self._older = _Shelf()
        self._newer = _Shelf()

    @property
    def size(self) -> int:
        """How many pairs there are."""
        return sum(shelf.size for shelf in self._shelves())

    def add(self, source: Sequence[int], target: Sequence[int]) -> None:
        """Keeps a pair."""
        self._kept.add(tuple(source), tuple(target))

    def remember(self, source: Sequence[int], target: Sequence[int]) -> None:
        """Keeps a pair until enough newer ones have come, so that a run of any length takes no more room."""
        if self._newer.size >= self._recent:
            self._older, self._newer = self._newer, _Shelf()
        self._newer.add(tuple(source), tuple(target))

    def nearest(self, source: Sequence[int]) -> list[Neighbour]:
        """Returns the translations of the sources most like one, the most like first, without equal ones.

        Of equal sources the one that was remembered last comes first, then the one that was added last.
        """
        asked = tuple(source)
        grams = _grams(asked)
        found = [neighbour for shelf in self._shelves() for neighbour in shelf.nearest(asked, grams)]
        found.sort(key=lambda neighbour: -neighbour.similarity)  # stable
        distinct: dict[tuple[int, ...], Neighbour] = {}
        for neighbour in found:
            distinct.setdefault(tuple(neighbour.target), neighbour)
        return list(distinct.values())[:NEIGHBOURS]

    def _shelves(self) -> tuple[_Shelf, ...]:
        return self._newer, self._older, self._kept


def _grams(ids: tuple[int, ...]) -> list[int]:
    """Returns the hashes of the distinct trigrams, the ends marked, in an order that has nothing to do with the text.

    So the first few of them are a sample, and of like texts mostly the same one.
    """
    marked = (-1, *ids, -1)
    return sorted(set(map(hash, zip(marked, marked[1:], marked[2:], strict=False))))


@final
class _Shelf:
    """Pairs in the order in which they came."""

    def __init__(self) -> None:
        self._ids = array("i")
        self._ends = array("q", [0])  # sources and targets in turn
        self._numbers: dict[int, int] = {}  # of pairs, by their hash
        self._latest: dict[int, int] = {}  # the number of the latest pair with a source, by its hash
        self._index = _Index()

    @property
    def size(self) -> int:
        return len(self._numbers)

    def add(self, source: tuple[int, ...], target: tuple[int, ...]) -> None:
        number = self._numbers.setdefault(hash((source, target)), len(self._numbers))
        if 2 * number == len(self._ends) - 1:
            for ids in (source, target):
                self._ids.extend(ids)
                self._ends.append(len(self._ids))
            self._index.add(number, _grams(source)[:_INDEXED])
        self._latest[hash(source)] = number

    def nearest(self, source: tuple[int, ...], grams: list[int]) -> Iterator[Neighbour]:
        """Yields neighbours of a source with those n-grams, the most like first; among equals the latest."""
        asked = grams[:_ASKED]
        shared = Counter(self._index.find(asked))
        numbers = [number for number, count in shared.items() if count * _RARE >= len(asked)]
        numbers = nlargest(_COMPARED, numbers, key=lambda number: (shared[number], number))
        latest = self._latest.get(hash(source))
        if latest is not None:
            numbers = [latest, *(number for number in numbers if number != latest)]
        wanted = set(grams)
        found = []
        for number in numbers:
            other = self._text(2 * number)
            if other == source:
                similarity = 1.0
            else:
                own = _grams(other)
                similarity = 2 * len(wanted.intersection(own)) / (len(wanted) + len(own))
            found.append((-similarity, number != latest, -number))
        for unlike, _, number in sorted(found)[:NEIGHBOURS]:
            yield Neighbour(-unlike, list(self._text(1 - 2 * number)))

    def _text(self, number: int) -> tuple[int, ...]:
        return tuple(self._ids[self._ends[number] : self._ends[number + 1]])


@final
class _Index:
    """In which entries a key occurs: a hash table in flat arrays, far smaller than a dictionary of lists."""

    def __init__(self) -> None:
        self._heads = array("i", [-1]) * 1024
        self._keys = array("q")
        self._entries = array("i")
        self._links = array("i")  # the place before in the same chain

    def add(self, entry: int, keys: Iterable[int]) -> None:
        for key in keys:
            self._keys.append(key)
            self._entries.append(entry)
            self._links.append(-1)
            self._link(len(self._keys) - 1)
        if len(self._keys) > len(self._heads):
            self._heads = array("i", [-1]) * (4 * len(self._heads))
            for place in range(len(self._keys)):
                self._link(place)

    def find(self, keys: Iterable[int]) -> Iterator[int]:
        """Yields the entries with each key, the latest first, as far as their chains are looked through."""
        mask = len(self._heads) - 1
        for key in keys:
            place = self._heads[key & mask]
            for _ in range(_REACH):
                if place < 0:
                    break
                if self._keys[place] == key:
                    yield self._entries[place]
                place = self._links[place]

    def _link(self, place: int) -> None:
        chain = self._keys[place] & (len(self._heads) - 1)
        self._links[place] = self._heads[chain]
        self._heads[chain] = place
