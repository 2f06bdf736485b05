"""Which words of a line the words of its translation come from, words being what white space separates.

A word of the translation is linked to the word of its sentence that has most of its attention, to none if that is
little, and a word that is copied to itself.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Final, TypeAlias, final

import numpy as np
import numpy.typing as npt

from specmt.text.parts import Copied, Part, join, original
from specmt.text.placeholders import Chunk

if TYPE_CHECKING:
    from specmt.text.pieces import PieceModel
    from specmt.types import Hypothesis

Alignment = list[tuple[int, int]]
"""Pairs of a source and a target word, sorted."""

Words: TypeAlias = npt.NDArray[np.int64]

LEAST: Final = 0.25
"""The least share of a word's attention that links it; the rate of errors is lowest with it, in both directions of the
bundled models."""

_WORD: Final = re.compile(r"\S+")


def align(line: str, translation: str, parts: Sequence[Part], pieces: PieceModel) -> Alignment:
    """Returns the alignment of a line's words with those of its translation.

    :param parts: of the line, translated with attention
    """
    walk = _Walk(line, translation, pieces)
    walk.follow(parts, 0, 0)
    return sorted(walk.links)


def link_words(weights: npt.NDArray[np.float32], source: Words, target: Words) -> Alignment:
    """Returns the links of target words to the source words with most weight, if that is enough.

    Among equals it is the first.

    :param weights: (T, S) of target pieces for source pieces
    :param source: (S) the words of the source pieces, −1 for those of none
    :param target: (T) the words of the target pieces
    """
    if (source < 0).any() or (target < 0).any():
        weights, source, target = weights[target >= 0][:, source >= 0], source[source >= 0], target[target >= 0]
    if not weights.size:
        return []
    first, before = int(target.min()), int(source.min())
    totals = _sums(_sums(weights, target - first).T, source - before).T
    best, counts = totals.argmax(1), np.bincount(target - first)
    linked = np.flatnonzero((totals.max(1) >= LEAST * counts) & (counts > 0))
    return list(zip((best[linked] + before).tolist(), (linked + first).tolist(), strict=True))


def links(part: Part, hypothesis: Hypothesis, said: str, pieces: PieceModel) -> Alignment:
    """Returns the links of the words of a part, stand-ins included, with those of what the model said.

    :param hypothesis: what it said; there are none without attention
    """
    if hypothesis.attention is None or not hypothesis.tokens:
        return []
    columns = words_of(pieces.source.starts[part.ids], len(part.text.split()))
    rows = words_of(pieces.target.starts[hypothesis.tokens], len(said.split()))
    return link_words(hypothesis.attention, columns, rows)


def _sums(weights: npt.NDArray[np.float32], words: Words) -> npt.NDArray[np.float32]:
    """Returns the sums (W, S) of the rows (T, S) of each word."""
    members = words == np.arange(words.max() + 1)[:, None]
    sums: npt.NDArray[np.float32] = np.matmul(members.astype(np.float32), weights)
    return sums


def words_of(starts: npt.NDArray[np.bool_], count: int) -> Words:
    """Returns the number of the word that each piece is of.

    :param starts: (T) whether it begins a word
    :param count: how many words there are. Where pieces have other ones, as some characters are white space to one and
        not to the other, they are spread over them.
    """
    numbers: Words = np.maximum(starts.cumsum() - starts[:1].sum(), 0)
    found = int(numbers[-1]) + 1 if len(numbers) else 0
    return numbers if found == count else numbers * count // max(found, 1)


@final
class _Walk:
    """Goes through the parts of a line and what became of them."""

    def __init__(self, line: str, translation: str, pieces: PieceModel) -> None:
        self.source, self.target = _Places(line), _Places(translation)
        self.pieces = pieces
        self.links: set[tuple[int, int]] = set()

    def follow(self, parts: Sequence[Part], source: int, target: int) -> None:
        """Links the words of parts, given where they begin on either side."""
        for number, part in enumerate(parts, 1):
            self._follow(part, source, target)
            if number < len(parts):
                source += len(part.source) + len(part.separator)
                target += len(part.render()) + len(part.separator)

    def _follow(self, part: Part, source: int, target: int) -> None:
        if part.fragments:
            self._follow_fragments(part, source, target)
            return
        one, other = part.source_chunks(), part.chunks()
        for number, copied in enumerate(part.copied, 1):
            self._follow_copied(copied, _place(one, number, source), _place(other, number, target))
        if not part.ids or part.is_left:
            for left, right in zip(one, other, strict=True):  # the same text, but for the form of numbers
                if not left.number:
                    self._copy(left.text, source + _offset(one, left), target + _offset(other, right))
        elif (attention := part.hypotheses[0].attention) is not None:
            words, said = self.source.words(one, source), self.target.words(other, target)
            if len(words) and len(said):
                columns = words_of(self.pieces.source.starts[part.ids], len(words))
                rows = words_of(self.pieces.target.starts[part.hypotheses[0].tokens], len(said))
                self.links.update(link_words(attention, words[columns], said[rows]))

    def _follow_fragments(self, part: Part, source: int, target: int) -> None:
        """Links what was translated between stand-ins, which is there in the same order."""
        whole, text = part.source, part.render()
        left = right = 0
        for number, fragment in enumerate(part.fragments):
            said = original(fragment)
            left = max(left, whole.find(said.strip(), left))
            if (place := text.find(join(fragment).strip(), right)) >= 0:
                self.follow(fragment, source + left, target + place)
                right = place
            left += len(said.strip())
            if number < len(part.copied):
                copied = part.copied[number]
                left, right = whole.index(copied.source, left), text.index(copied.target, right)
                self._follow_copied(copied, source + left, target + right)
                left, right = left + len(copied.source), right + len(copied.target)

    def _follow_copied(self, copied: Copied, source: int | None, target: int | None) -> None:
        if source is None or target is None:
            return
        if copied.form is not None:
            self._copy(copied.source, source, target)
            return
        for each in copied.items:
            if isinstance(each, str):
                self._copy(each, source, target)
                source, target = source + len(each), target + len(each)
            else:
                self.follow(each, source, target)
                source, target = source + len(original(each)), target + len(join(each))

    def _copy(self, text: str, source: int, target: int) -> None:
        for word in _WORD.finditer(text):
            self.links.add((self.source.at(source + word.start()), self.target.at(target + word.start())))


@final
class _Places:
    """Where the words of a line are."""

    def __init__(self, line: str) -> None:
        self._begins = [word.start() for word in _WORD.finditer(line)]

    def at(self, place: int) -> int:
        """Returns the number of the word at a place."""
        return bisect_right(self._begins, place) - 1

    def words(self, text: Sequence[Chunk], start: int) -> Words:
        """Returns which words of the line the words are that a model sees or says.

        A word with a stand-in is the one with the letters and digits beside that; −1 if there are none.

        :param start: where the text begins
        """
        if len(text) == 1:
            first = _WORD.search(text[0].text)
            begin = 0 if first is None else self.at(start + first.start())
            return np.arange(begin, begin + len(text[0].text.split()))
        words: list[int] = []
        offset, inside, copied = start, False, False
        for chunk in text:
            for place, character in enumerate(chunk.seen):
                if character.isspace():
                    inside = False
                    continue
                if not inside:
                    words.append(-1)
                    inside, copied = True, False
                if chunk.number:
                    copied = True
                elif words[-1] < 0 and (character.isalnum() or not copied):
                    words[-1] = self.at(offset + place)
            offset += len(chunk.text)
        return np.array(words)


def _offset(text: Sequence[Chunk], wanted: Chunk) -> int:
    """Returns where a chunk begins."""
    return sum(len(chunk.text) for chunk in takewhile(lambda chunk: chunk is not wanted, text))


def _place(text: Sequence[Chunk], number: int, start: int) -> int | None:
    """Returns where what a stand-in stands for is, given where the text is."""
    found = next((chunk for chunk in text if chunk.number == number), None)
    return None if found is None else start + _offset(text, found)
