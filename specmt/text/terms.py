"""Terms that were translated alike wherever they are, as a glossary may have them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

_WORD: Final = re.compile(r"[^\W\d_](?:[\w'’-]*\w)?")
_LONGEST: Final = 3
"""The most words of a term."""

_LETTERS: Final = 4
"""The fewest letters of its first and last word: shorter ones are mostly no words of a subject."""

_ALIKE: Final = 0.8
"""How often, at the least, it is translated so."""

_LIKE: Final = 0.75
"""The least Dice coefficient of a term and its translation."""


class Term(NamedTuple):
    """A term and its translation."""

    source: str
    target: str
    alike: int
    """How many different texts with it have that translation."""

    texts: int
    """How many have it."""

    places: tuple[str, ...]


def suggest(texts: Iterable[tuple[str, str, str]], least: int) -> list[Term]:
    """Returns terms by how often they were translated alike, the most frequent first; time grows with the texts.

    :param texts: texts, their translations, and where they are; those that come again count once
    :param least: in how many texts a term must be
    """
    known = list({(source, target): (source, target, place) for source, target, place in texts}.values())
    sides = [_Side(text[number] for text in known) for number in (0, 1)]
    found: dict[str, tuple[float, str, int]] = {}
    for term, numbers in sides[0].places.items():
        if len(numbers) >= least:
            beside = Counter(other for number in numbers for other in sides[1].grams[number])
            likely = (
                (2 * count / (len(numbers) + len(sides[1].places[other])), other.count(" "), other, count)
                for other, count in beside.items()
                if count >= max(least, _ALIKE * len(numbers))
            )
            like, _, other, count = max(likely, default=(0.0, 0, "", 0))
            if like >= _LIKE:
                found[term] = like, other, count
    best: dict[str, tuple[float, int]] = {}
    for term, (like, other, _) in found.items():
        best[other] = max(best.get(other, (0.0, 0)), (like, term.count(" ")))
    terms = [
        Term(
            sides[0].written(term),
            sides[1].written(other),
            count,
            len(sides[0].places[term]),
            tuple(known[number][2] for number in sides[0].places[term]),
        )
        for term, (like, other, count) in found.items()
        if best[other] == (like, term.count(" "))
    ]
    return sorted(terms, key=lambda each: (-each.alike, each.source))


class _Side:
    """The runs of words in the texts of one side."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.grams: list[set[str]] = []
        self.places: defaultdict[str, list[int]] = defaultdict(list)
        self._forms: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for number, text in enumerate(texts):
            grams = set()
            for said in _grams(text):
                grams.add(said.lower())
                self._forms[said.lower()][said] += 1
            for gram in grams:
                self.places[gram].append(number)
            self.grams.append(grams)

    def written(self, gram: str) -> str:
        """Returns words as they are mostly written."""
        return max(self._forms[gram].items(), key=lambda each: (each[1], each[0]))[0]


def _grams(text: str) -> Iterator[str]:
    words = [match.span() for match in _WORD.finditer(text)]
    for first, (start, end) in enumerate(words):
        if end - start >= _LETTERS:
            yield text[start:end]
            for last in range(first + 1, min(first + _LONGEST, len(words))):
                if text[end : words[last][0]] != " ":
                    break
                end = words[last][1]
                if end - words[last][0] >= _LETTERS:
                    yield text[start:end]
