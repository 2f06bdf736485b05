"""A line in parts that a model can translate, and the line of their translations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from specmt.text.protect import protect, protect_pair, restore, says_nothing, stand_ins
from specmt.text.segment import MAX_CHARACTERS_PER_PIECE, segment, split_layout
from specmt.types import Hypothesis

if TYPE_CHECKING:
    from specmt.text.pieces import PieceModel


@dataclass(slots=True)
class Part:
    """A sentence of a line, or text between sentences that the model need not see."""

    text: str
    """With stand-ins for what the model need not see."""

    separator: str
    ids: list[int]

    literals: list[str] = field(default_factory=list)
    """What the stand-ins of the line mean."""

    hypotheses: list[Hypothesis] = field(default_factory=list)
    """What the model said, at last and before; nothing where there are no ids."""

    translation: str = ""
    """What it said at last."""

    @property
    def has_lost(self) -> bool:
        """Whether the translation lacks a stand-in, or has one too many."""
        return bool(self.literals) and stand_ins(self.translation) != stand_ins(self.text)

    def add(self, hypothesis: Hypothesis, translation: str) -> None:
        """Takes what the model said."""
        self.hypotheses.insert(0, hypothesis)
        # A model may say a line break, byte by byte; the line must stay one.
        self.translation = " ".join(translation.split("\n")).strip()

    def uncover(self, pieces: PieceModel, limit: int) -> bool:
        """Puts what stand-ins stand for in their place, if that is no longer than ``limit``; returns whether it is."""
        text = restore(self.text, self.literals)
        ids = pieces.encode(text)
        if len(ids) > limit:
            return False
        self.text, self.ids, self.literals = text, ids, []
        return True


def split_lines(
    lines: Sequence[str], pieces: PieceModel, limit: int, *, protects: bool
) -> list[tuple[list[Part], bool]]:
    """Returns the parts of every line, and whether it was too long to be translated as it is.

    :param limit: the most pieces of a part
    :param protects: whether what must be copied gets stand-ins
    """
    fields = [
        [(*(protect(text) if protects else (text, [])), separator) for text, separator in split_layout(line)]
        for line in lines
    ]
    # Text that is surely too long is cut before it is encoded.
    encoded = iter(pieces.encode_batch([text for line in fields for text, _, _ in line if is_short(text, limit)]))
    split: list[tuple[list[Part], bool]] = []
    for line in fields:
        parts: list[Part] = []
        is_long = False
        for text, literals, separator in line:
            ids = next(encoded) if is_short(text, limit) else None
            if literals and says_nothing(text):
                parts.append(Part(text, separator, [], literals))
                continue
            if ids is not None and len(ids) <= limit:
                parts.append(Part(text, separator, ids, literals))
                continue
            is_long = True
            cut = segment(text, limit, lambda t: len(pieces.encode(t)))
            if literals and sorted(name for part, _ in cut for name in stand_ins(part)) != sorted(stand_ins(text)):
                # A stand-in was cut in two.
                text, literals = restore(text, literals), []
                cut = segment(text, limit, lambda t: len(pieces.encode(t)))
            cut_ids = pieces.encode_batch([text for text, _ in cut])
            parts += [Part(*each, ids, literals) for each, ids in zip(cut, cut_ids, strict=True)]
            parts[-1].separator += separator
        split.append((parts, is_long))
    return split


def split_pair(source: str, target: str, *, protects: bool) -> list[tuple[str, str]]:
    """Returns the parts of a pair between which there is the same layout, as a model sees and says them.

    :param protects: whether what must be copied gets stand-ins
    """
    sides = [split_layout(text) for text in (source, target)]
    pairs = [(source, target)]
    if len({tuple(separator for _, separator in side) for side in sides}) == 1:
        pairs = [(one, other) for (one, _), (other, _) in zip(*sides, strict=True)]
    return [protect_pair(*pair) for pair in pairs] if protects else pairs


def join(line: str, parts: Sequence[Part]) -> str:
    """Returns a line with its parts translated and the space around it as it was."""
    text = "".join(
        restore(part.translation if part.ids else part.text, part.literals) + part.separator for part in parts
    )
    core = line.strip()
    head, _, tail = line.partition(core) if core else (line, "", "")
    return head + text + tail


def is_short(text: str, limit: int) -> bool:
    """Whether a text need not have more than ``limit`` pieces for its length alone."""
    return len(text) <= MAX_CHARACTERS_PER_PIECE * limit
