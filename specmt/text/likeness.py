"""Which pairs of a text and its translation are like what is to be translated."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from specmt.text.memory import Pair
from specmt.text.segment import split_sentences

_WORD: Final = re.compile(r"\S+")


def like_pairs(pairs: Iterable[Pair], texts: Iterable[str], language: str) -> list[Pair]:
    """Returns the pairs, sentence by sentence, at least half of whose words are in the texts.

    :param language: of the texts
    """
    words = {word for text in texts for word in _WORD.findall(text)}
    found: list[Pair] = []
    for pair in pairs if words else ():
        for one, other in _by_sentence(*pair, language):
            own = _WORD.findall(one)
            if own and other.strip() and 2 * sum(word in words for word in own) >= len(own):
                found.append((one, other))
    return found


def _by_sentence(source: str, target: str, language: str) -> Iterator[Pair]:
    """Yields a pair in sentences, as they are translated, where both sides have as many."""
    sides = [[sentence for sentence, _ in split_sentences(text, language)] for text in (source, target)]
    return zip(*sides, strict=True) if len(sides[0]) == len(sides[1]) else iter([(source, target)])
