"""Drafts that are copied: words that translations keep from the source, the rest from translations of like sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple, final

import numpy as np
from typing_extensions import override

from specmt.decoding.drafters.base import Drafter, Plan
from specmt.decoding.request import Request
from specmt.decoding.translation_memory import Neighbour, TranslationMemory
from specmt.decoding.tree import Tree, chains, no_tree
from specmt.engine.arrays import Ids
from specmt.engine.cache import State
from specmt.engine.fused import Drafting
from specmt.engine.protocols import EncoderOutput
from specmt.options import Calibration
from specmt.text.pieces import PieceModel
from specmt.types import BOS, EOS, PAD

_OPENING: Final = "▁"
_LONGEST: Final = 8
"""How many pieces are compared, from the last committed one back."""

_TRUST: Final = 4
"""How many pieces to propose for each that agrees, of what is sure to be kept.

This and the next two are such that, with the bundled model, more than half of what is proposed is accepted: 74% on
docs-test, 61% on news, 50% to 68% on files of documentation and interface strings.
"""

_ENOUGH: Final = 4
"""More agreement than this does not make the translation of a source that is only alike any surer."""

_UNLIKE: Final = 0.25
"""Less likeness than this is worth no piece, whatever agrees."""

_ALIKE: Final = 0.5
"""Where there is so much likeness, much may be copied: what drafts gain is learnt apart from other sentences."""

_AT_START: Final = 3
"""What likeness alone is worth, in pieces that agree, before there are any."""


_COPIES: Final = {
    True: Calibration(acceptance=tuple(0.8**count for count in range(1, 13)), scale=1.0, shift=0.0),
    False: Calibration(acceptance=(0.1, 0.07), scale=1.0, shift=0.0),
}
"""How often copies stand, of sentences like earlier ones and of others, as long as that was not counted."""


class Word(NamedTuple):
    """Where a word of the source is that its translation may keep."""

    start: int
    end: int
    trust: int
    """How many pieces to propose for each that agrees."""


@dataclass(frozen=True)
class Texts:
    """What the draft of a sentence can be copied from."""

    source: list[int]
    """As target ids."""

    words: list[Word] | None
    """``None`` as long as they were not looked for."""

    neighbours: list[Neighbour]
    """With the last token of the start and EOS around their targets."""

    @cached_property
    def is_alike(self) -> bool:
        """Whether there is a neighbour of which much may be copied."""
        return any(neighbour.similarity >= _ALIKE for neighbour in self.neighbours)


def find_words(pieces: Sequence[str]) -> list[Word]:
    """Returns the words of several pieces that are likely names, numbers, addresses or code.

    :param pieces: the source, word boundaries shown as ▁
    """
    starts = [place for place, piece in enumerate(pieces) if place == 0 or piece.startswith(_OPENING)]
    words = []
    for start, end in pairwise([*starts, len(pieces)]):
        while end > start and not any(map(str.isalnum, pieces[end - 1])):
            end -= 1  # the punctuation after a word is not always kept
        word = "".join(pieces[start:end]).strip(_OPENING)
        trust = _TRUST if _is_code(word) else int(word[:1].isupper())
        if trust and end - start > 1:
            words.append(Word(start, end, trust))
    return words


def _is_code(word: str) -> bool:
    """Returns whether a word is a number, an address, an identifier or an abbreviation."""
    while word and not word[0].isalnum():
        word = word[1:]
    has_symbol = any(not (character.isalnum() or character == "-") for character in word)
    has_hump = any(left.islower() and right.isupper() for left, right in pairwise(word))
    return has_symbol or has_hump or word.isupper() or any(map(str.isdigit, word))


def continuation(tokens: Sequence[int], texts: Texts, block_size: int) -> list[int]:
    """Returns what to propose after the committed tokens: at most ``block_size`` tokens, maybe none.

    The translation of an equal source comes first, then a word that is being copied from the source, then the
    translations of other sources. Where several can be gone on with, it is the one with the most likeness and
    agreement, of equal ones the nearest.
    """
    best, draft, is_known = 0.0, texts.source[:0], False
    for neighbour in texts.neighbours:
        worth, copy = copy_neighbour(tokens, neighbour)
        if copy and worth > best:
            best, draft, is_known = worth, copy, neighbour.similarity == 1.0
    if not is_known:
        draft = copy_word(tokens, texts.source, texts.words or []) or draft
    return draft[:block_size]


def copy_word(tokens: Sequence[int], source: list[int], words: list[Word]) -> list[int]:
    """Returns more of the word of the source that the committed tokens end in, if it is one that may be kept.

    They must agree from the beginning of the word, or in two pieces.
    """
    best = _Match(0, 0, 0)
    reach = 0
    for word in words:
        found = _best_place(tokens, source, word.start, word.end - 1)
        if found > best and (found.agreement > 1 or found.place - 1 == word.start):
            best = found
            reach = min(word.trust * found.agreement, word.end - found.place)
    return source[best.place : best.place + reach]


def copy_neighbour(tokens: Sequence[int], neighbour: Neighbour) -> tuple[float, list[int]]:
    """Returns how the translation of another source goes on from where it agrees best with the committed tokens.

    That of an equal source is copied to its end, that of another one as far as likeness and agreement are worth.

    :returns: what they are worth, and the copy
    """
    similarity, text = neighbour
    found = _best_place(tokens, text, 0, len(text))
    agreement = _AT_START if len(tokens) == 1 else found.agreement
    worth = _TRUST * similarity**2
    reach = len(text) if similarity == 1.0 else int(worth * min(agreement, _ENOUGH))
    return worth * agreement, text[found.place : found.place + reach] if found.agreement else []


class _Match(NamedTuple):
    """A place of a text with what comes before it; the greatest is the best."""

    agreement: int
    """How many tokens before it are the last committed ones."""

    nearness: int
    """How far it is from where the sentence is now, negative."""

    place: int


def _agreement(tokens: Sequence[int], before: list[int]) -> int:
    """Returns how many of the last tokens a text ends in."""
    count = 0
    for token, other in zip(reversed(tokens[-_LONGEST:]), reversed(before), strict=False):
        if token != other:
            break
        count += 1
    return count


def _best_place(tokens: Sequence[int], text: list[int], start: int, end: int) -> _Match:
    """Returns the best place to go on in ``text[start:end]``."""
    best = _Match(0, 0, start)
    for _ in range(text[start:end].count(tokens[-1])):
        start = text.index(tokens[-1], start) + 1
        best = max(best, _Match(_agreement(tokens, text[:start]), -abs(start - len(tokens)), start))
    return best


@final
class LookupDrafter(Drafter):
    """Copies from the source, from a translation memory, and from what it has seen finished."""

    name = "lookup"

    def __init__(self, memory: TranslationMemory, pieces: PieceModel, start: Sequence[int] = (BOS,)) -> None:
        """
        :param start: what every target begins with
        """
        self.memory = memory
        self.start_token, self.skipped = start[-1], len(start) - 1
        self.pieces = pieces
        self.rows: dict[int, Texts] = {}
        self.sources: dict[int, list[int]] = {}

    @override
    def start(self, state: State, rows: Ids, encoded: EncoderOutput, requests: Sequence[Request]) -> None:
        for row, request in zip(rows.tolist(), requests, strict=True):
            near = [each for each in self.memory.nearest(request.source) if each.similarity >= _UNLIKE]
            neighbours = [Neighbour(similarity, [self.start_token, *target, EOS]) for similarity, target in near]
            self.sources[row] = request.source
            self.rows[row] = Texts(self.pieces.to_target(request.source), None, neighbours)

    @override
    def is_promising(self, rows: int) -> bool:
        return 2 * sum(self.rows[row].is_alike for row in range(rows)) >= rows

    @override
    def calibration(self, promising: bool) -> Calibration:
        return _COPIES[promising]

    @override
    def fused(self, rows: int, plan: Plan) -> Drafting | None:
        return None if any([self._has_drafts(row) for row in range(rows)]) else Drafting(0)

    @override
    def propose(self, tokens: Ids, lengths: Ids, plan: Plan) -> Tree:
        count = len(lengths)
        if not any([self._has_drafts(row) for row in range(count)]):
            return no_tree(count)
        ends = (lengths - self.skipped).tolist()
        rows = tokens[:, self.skipped : self.skipped + max(ends)].tolist()
        drafts = [
            continuation(row[:end], self.rows[number], plan.arm.ahead)
            for number, (row, end) in enumerate(zip(rows, ends, strict=True))
        ]
        counts = [len(draft) for draft in drafts]
        widest = max(counts)
        padded = [draft + [PAD] * (widest - len(draft)) for draft in drafts]
        return chains(np.array(padded, dtype=np.int64).reshape(count, widest), counts=np.array(counts))

    def _has_drafts(self, row: int) -> bool:
        """Returns whether there is something to copy; words are looked for here, where something is to be drafted."""
        texts = self.rows[row]
        if texts.words is None:
            self.rows[row] = texts = replace(texts, words=find_words(self.pieces.pieces(texts.source)))
        return bool(texts.words or texts.neighbours)

    @override
    def finish(self, row: int, tokens: list[int]) -> None:
        self.memory.remember(self.sources[row], tokens)

    @override
    def move(self, source: int, target: int) -> None:
        self.rows[target], self.sources[target] = self.rows[source], self.sources[source]
