"""Splits a line into parts that a model can translate, and joins their translations to a line.

What is copied (see :mod:`specmt.text.placeholders`) comes out as it went in, whatever the model says: a part is
translated with stand-ins; where the model loses, doubles or changes one, the part is translated once more as it stands;
where that loses or changes what is copied, the texts between are translated by themselves; and where the model says
something to be copied in one of those, which has none, that text stays untranslated.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Final

from specmt.text.placeholders import (
    Literal,
    Masked,
    find_copied,
    has_words,
    mask,
    renumber,
    restore,
    split_stand_ins,
    stand_ins,
    touches,
)
from specmt.text.segment import LAYOUT, MARK, MAX_CHARACTERS_PER_PIECE, segment, split_layout
from specmt.types import Hypothesis

if TYPE_CHECKING:
    from specmt.text.pieces import PieceModel
    from specmt.text.required import Required

_ENDS: Final = ".!?…:;,"


@dataclass(slots=True)
class Part:
    """A sentence of a line, or text between sentences that the model need not see."""

    text: str
    """With the stand-ins %1, %2, … in this order for what is copied."""

    separator: str = ""
    """What follows it and is copied."""

    ids: list[int] = field(default_factory=list)
    """The source pieces; none where the model need not see the text."""

    literals: list[list[str | list[Part]]] = field(default_factory=list)
    """What the stand-ins stand for: what is copied and, in elements and links, the parts of a text in turn."""

    is_cut: bool = False
    """Whether it is of a sentence, or of several, too long to be translated whole."""

    hypotheses: list[Hypothesis] = field(default_factory=list)
    """What the model said, at last and before."""

    translation: str = ""
    """What it said at last."""

    is_unmasked: bool = False
    """Whether the model saw it without stand-ins at last."""

    required: list[Required] = field(default_factory=list)
    """What its translation must contain."""

    free: str = ""
    """What the model said before it was asked for what must be there."""

    asked: int = 0
    """How often it was asked for what must be there."""

    fragments: list[list[Part]] = field(default_factory=list)
    """What is before, between and after the stand-ins, to be translated by itself."""

    @property
    def source(self) -> str:
        """The text without stand-ins."""
        return restore(self.text, [_source(literal) for literal in self.literals])

    @property
    def final(self) -> Iterator[Hypothesis]:
        """The hypotheses that its translation is made of."""
        if self.ids:
            yield self.hypotheses[0]
        for part in self._inside():
            yield from part.final

    @property
    def all(self) -> Iterator[Hypothesis]:
        """Every hypothesis that there was, for statistics."""
        yield from self.hypotheses
        for part in self._inside():
            yield from part.all

    def add(self, hypothesis: Hypothesis, translation: str) -> None:
        """Takes what the model said."""
        self.hypotheses.insert(0, hypothesis)
        self.translation = self.clean(translation)

    @staticmethod
    def clean(translation: str) -> str:
        """Returns what a model said without layout: it sees none, but may say it, byte by byte."""
        return LAYOUT.sub(" ", translation).strip()

    def retry(self, pieces: PieceModel, limit: int) -> list[Part]:
        """Returns what to translate next, since what was said lacks or doubles what must be copied; mostly nothing."""
        if not self.literals or self.fragments or self.is_faithful(self.translation):
            return []
        if not self.is_unmasked and all(len(literal) == 1 for literal in self.literals):
            ids = pieces.encode(self.source)
            if len(ids) <= limit:
                self.is_unmasked, self.ids = True, ids
                return [self]
        texts = split_stand_ins(self.text)
        self.fragments = [split(text, pieces, limit, protects=False) for text in texts]
        self.ids = []
        return list(sentences(chain.from_iterable(self.fragments)))

    def literal_texts(self) -> tuple[list[str], list[str]]:
        """Returns what stand-ins stand for in source and translation."""
        return [_source(literal) for literal in self.literals], [_target(literal) for literal in self.literals]

    def render(self, said: str | None = None) -> str:
        """Returns the translation, with what is copied.

        :param said: what the model said instead of what it said at last
        """
        translation = self.translation if said is None else said
        literals = [_target(literal) for literal in self.literals]
        if self.fragments:
            text, *others = (_join_fragment(fragment) for fragment in self.fragments)
            for (before, after), literal, other in zip(touches(self.text), literals, others, strict=True):
                text += " " * (text[-1:].isalnum() > before) + literal + " " * (other[:1].isalnum() > after) + other
            return text
        if not self.ids:
            return restore(self.text, literals)
        return translation if self.is_unmasked else restore(translation, literals, self.text)

    def is_faithful(self, translation: str) -> bool:
        """Returns whether what the model said has what must be copied."""
        if self.is_unmasked:
            return find_copied(translation) == find_copied(self.source)
        return stand_ins(translation) == stand_ins(self.text)

    def _inside(self) -> Iterator[Part]:
        yield from chain.from_iterable(self.fragments)
        yield from chain.from_iterable(_inside(literal) for literal in self.literals)


def split(line: str, pieces: PieceModel, limit: int, *, protects: bool, depth: int = 0) -> list[Part]:
    """Returns the parts of a line.

    :param limit: the most pieces of a part
    :param protects: whether what must be copied gets stand-ins
    """
    core = line.strip()
    if not core:
        return [Part("", line)]
    head, _, tail = line.partition(core)
    parts = [Part("", head)] if head else []
    for masked in _mask_line(core, depth, protects=protects):
        parts += _parts(masked, pieces, limit, depth)
    parts[-1].separator += tail
    return parts


def sentences(parts: Iterable[Part]) -> Iterator[Part]:
    """Yields the parts that the model translates, those inside of others too."""
    for part in parts:
        if part.ids or part.fragments:
            yield part
        for literal in part.literals:
            yield from sentences(_inside(literal))


def join(parts: Sequence[Part]) -> str:
    """Returns a line with its parts translated and everything else as it was."""
    return "".join(part.render() + part.separator for part in parts)


def split_pair(source: str, target: str, *, protects: bool, depth: int = 0) -> list[tuple[str, str]]:
    """Returns the parts of a pair between which there is the same layout, as a model sees and says them.

    :param protects: whether what must be copied gets stand-ins
    """
    one, other = (_mask_line(text, depth, protects=protects) for text in (source, target))
    if [masked.separator for masked in one] != [masked.separator for masked in other]:
        return [(source, target)]
    pairs: list[tuple[str, str]] = []
    for left, right in zip(one, other, strict=True):
        free: dict[tuple[str, ...], list[tuple[int, Literal]]] = {}
        for number, literal in reversed(list(enumerate(left.literals, 1))):
            free.setdefault(tuple(literal[::2]), []).append((number, literal))
        # What the target alone has stays as it is there.
        meant = ["".join(literal) for literal in right.literals]
        for place, literal in enumerate(right.literals):
            if same := free.get(tuple(literal[::2])):
                number, found = same.pop()
                meant[place] = f"%{number}"
                for inner in zip(found[1::2], literal[1::2], strict=True):
                    pairs += split_pair(*inner, protects=protects, depth=depth + 1)
        pairs.append((left.text, restore(right.text, meant)))
    return pairs


def is_short(text: str, limit: int) -> bool:
    """Whether a text need not have more than ``limit`` pieces for its length alone."""
    return len(text) <= MAX_CHARACTERS_PER_PIECE * limit


def _mask_line(line: str, depth: int, *, protects: bool) -> list[Masked]:
    """Returns a line, without the space around it, in parts at layout and at the tags of blocks."""
    parts: list[Masked] = []
    for text, separator in split_layout(line.strip()):
        parts += mask(text, depth) if protects else [Masked(text)]
        parts[-1].separator += separator
    for part in parts:
        if _is_for_model(part.text, part.literals):  # to which it would be three bytes, and a word that has it two
            part.text = part.text.replace(MARK, "")
    return parts


def _parts(masked: Masked, pieces: PieceModel, limit: int, depth: int) -> Iterator[Part]:
    """Yields the parts of a text: one, if it is not too long."""
    text, separator = masked.text, masked.separator
    literals: list[list[str | list[Part]]] = [
        [
            split(each, pieces, limit, protects=True, depth=depth + 1) if place % 2 else each
            for place, each in enumerate(literal)
        ]
        for literal in masked.literals
    ]
    if not _is_for_model(text, literals):
        yield Part(text, separator, literals=literals)
        return
    # Text that is surely too long is cut before it is encoded.
    ids = pieces.encode(text) if is_short(text, limit) else None
    if ids is not None and len(ids) <= limit:
        yield Part(text, separator, ids, literals)
        return
    done = 0
    cut = segment(text, limit, lambda t: len(pieces.encode(t)))
    if sum(len(stand_ins(sentence)) for sentence, _ in cut) != len(literals):  # only where a part holds a few letters
        cut, literals = segment(masked.source, limit, lambda t: len(pieces.encode(t))), []
    for number, (sentence, space) in enumerate(cut, 1):
        own = literals[done : done + len(stand_ins(sentence))]
        renumbered = renumber(sentence, -done)
        done += len(own)
        ids = pieces.encode(renumbered) if _is_for_model(renumbered, own) else []
        yield Part(renumbered, space + separator * (number == len(cut)), ids, own, is_cut=True)


def _is_for_model(text: str, literals: Sequence[object]) -> bool:
    """Whether the model is to see a text: one with words, or one of visible marks and nothing to be copied."""
    if literals:
        return has_words(text)
    return any(unicodedata.category(c)[0] not in "CZ" for c in text)


def _join_fragment(parts: Sequence[Part]) -> str:
    """Returns the translation of what is between stand-ins; as it was, where the model said something to be copied."""
    text = join(parts)
    if find_copied(text):
        return "".join(part.text + part.separator for part in parts)
    last = parts[-1]
    if last.ids and last.text[-1] not in _ENDS:
        text = text[: len(text) - len(last.separator)].rstrip(_ENDS) + last.separator
    return text


def _inside(literal: Sequence[str | list[Part]]) -> Iterator[Part]:
    """Yields the parts in a literal."""
    for each in literal:
        if not isinstance(each, str):
            yield from each


def _target(literal: Sequence[str | list[Part]]) -> str:
    """Returns a literal as it is in a translation."""
    return "".join(each if isinstance(each, str) else join(each) for each in literal)


def _source(literal: Sequence[str | list[Part]]) -> str:
    """Returns a literal as it was."""
    return "".join(
        each if isinstance(each, str) else "".join(part.source + part.separator for part in each) for each in literal
    )
