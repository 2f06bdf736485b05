"""How translations of titles and texts of reStructuredText are written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from specmt.formats.document import Edit, Pieces, Tell
from specmt.formats.inline import wrap_alike, written
from specmt.formats.rst_inline import Found, Writer, find, normal, plain
from specmt.formats.rst_lines import Line, mark_of
from specmt.formats.rst_tables import width
from specmt.types import Span, Tagged

_MAY_START: Final = re.compile(r"(?![!-/:-@\[-`{-~]+\Z)")


@dataclass(slots=True)
class Title:
    """Writes a title. Pages may be nothing but these and texts: both are smaller than functions with what they need."""

    text: str
    names: Mapping[str, int]
    over: Line
    """The line over it, or itself."""
    line: Line
    under: Line
    ending: str
    """That of lines."""

    def __call__(self, pieces: Pieces, raw: str, inner: Span) -> Edit:
        text, line, start, last = self.text, self.line, self.over, self.under
        title = text[line.first : line.end]
        name = normal(plain(title, find(title, 0, len(title))))
        room = last.end - last.first - width(title)
        own = width(raw) + line.column - start.column
        size = width(raw) + room if 0 <= room <= 2 else max(own, last.end - last.first)
        drawn = text[last.first] * max(size, 3)
        is_named = self.names.get(name) == 0 and normal(plain(raw, find(raw, 0, len(raw)))) != name
        label = f".. _`{name}`:{self.ending * 2}{' ' * start.column}" if is_named else ""
        above: Pieces = [drawn, (start.end, inner[0])] if start is not line else [(line.first, inner[0])]
        return Edit(start.first, last.end, [label, *above, *pieces, (inner[1], last.first), drawn])


@dataclass(slots=True)
class Writes:
    """Writes the translation of a text with inline markup."""

    text: str
    whole: Span
    marks: Sequence[Found]
    span: Span
    surround: Title | None
    is_first: bool
    is_term: bool
    literal: bool

    def __call__(self, translation: Tagged, _: Tell) -> list[Edit]:
        text, whole = self.text, self.whole
        writer = Writer(text, whole, self.marks, self.span)
        pieces = writer.pieces(translation)
        start, end = writer.span
        if self.is_term:
            pieces = [piece.replace(" : ", " \\: ") if isinstance(piece, str) else piece for piece in pieces]
        before, after = text[whole[0] : start], text[end : whole[1]]
        said = written(text, pieces)
        mark = mark_of(said + after) if self.is_first and not before else None
        if self.literal and not after and not said.endswith(":"):
            pieces.append(" :")
        elif not self.literal and not after and said.endswith("::"):
            pieces[-1] = f"{written(text, pieces[-1:])[:-1]}\\:"
        if self.surround is None:
            pieces = wrap_alike(pieces, text, (start, end), " \t", _MAY_START)
        # A line alone may be an item though it was none with others under it.
        is_alone = self.surround is None and "\n" not in written(text, pieces)
        if mark is not None and (is_alone or mark_of(text[slice(*whole)]) is not mark):
            pieces.insert(0, "\\")
        if self.surround is None:
            return [Edit(start, end, pieces)]
        return [self.surround(pieces, (before + written(text, pieces) + after).expandtabs(), (start, end))]
