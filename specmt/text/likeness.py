"""Which pairs of a text and its translation are like what is to be translated."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from typing import Final, final

from specmt.text.memory import Pair
from specmt.text.segment import split_sentences

_NEAR: Final = 0.75
"""How like a text must be, at the least, to be near."""

_CANDIDATES: Final = 5
"""How many texts with the most words in common are compared."""

_COMMON: Final = 1000
"""In how many texts a word may be to say which they are."""

_LONGEST: Final = 200
"""How many words of a text are looked at."""


@final
class Nearest:
    """Finds the text that another one is like."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = [*texts]
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        for number, text in enumerate(self._texts):
            for word in {*text.split()}:
                self._places[word].append(number)

    def __call__(self, text: str) -> tuple[str, float] | None:
        """Returns the text that is most like another one, and how like, from 0 to 1, if any is near."""
        words = text.split()[:_LONGEST]
        places = (self._places.get(word, ()) for word in {*words})
        shared = Counter(number for each in places if len(each) <= _COMMON for number in each)
        likely = [self._texts[number] for number, _ in shared.most_common(_CANDIDATES)]
        found = ((SequenceMatcher(None, words, each.split()[:_LONGEST]).ratio(), each) for each in likely)
        like, near = max(found, default=(0.0, ""))
        return (near, like) if like >= _NEAR else None


def like_pairs(pairs: Iterable[Pair], texts: Iterable[str], language: str) -> list[Pair]:
    """Returns the pairs, sentence by sentence, at least half of whose words are in the texts.

    :param language: of the texts
    """
    words = {word for text in texts for word in text.split()}
    found: list[Pair] = []
    for pair in pairs if words else ():
        for one, other in _by_sentence(*pair, language):
            own = one.split()
            if own and other.strip() and 2 * sum(word in words for word in own) >= len(own):
                found.append((one, other))
    return found


def _by_sentence(source: str, target: str, language: str) -> Iterator[Pair]:
    """Yields a pair in sentences, as they are translated, where both sides have as many."""
    sides = [[sentence for sentence, _ in split_sentences(text, language)] for text in (source, target)]
    return zip(*sides, strict=True) if len(sides[0]) == len(sides[1]) else iter([(source, target)])
