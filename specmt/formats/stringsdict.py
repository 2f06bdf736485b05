"""Strings of Apple's programs with their plural forms: property lists in XML."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, NamedTuple

from specmt.formats.document import Document, Edit, FormatOptions, LineNumbers, Part, Segment, Tell
from specmt.formats.inline import Inline, in_place
from specmt.formats.left import told
from specmt.formats.markup import (
    Token,
    break_before,
    collect,
    opening_with,
    plain_text,
    xml_document,
    xml_escape,
    xml_unescape,
)
from specmt.formats.plurals import CATEGORIES, plural_forms
from specmt.formats.values import is_code
from specmt.types import Tagged

_RULE: Final = frozenset(("NSStringFormatSpecTypeKey", "NSStringFormatValueTypeKey"))
"""Keys whose values are no text; a dictionary with them has plural forms."""


class _Value(NamedTuple):
    start: int
    """Where its key begins."""

    end: int
    inner: list[Token]


@dataclass(slots=True)
class _Dict:
    """A dictionary whose end has not come."""

    key: str = ""
    """The last key."""

    key_at: int = 0
    values: dict[str, _Value] = field(default_factory=dict)
    """The strings in it."""


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads the strings of a property list.

    :raises DataError: it is damaged, or of another kind.
    """
    parts: list[Part] = []
    document = xml_document(data, partial(_segments, forms=plural_forms(options.target), parts=parts), parts)
    return told(document, "stringsdict")


def _segments(text: str, forms: tuple[str, ...], parts: list[Part]) -> list[Segment]:
    lines = LineNumbers(text)
    found: list[tuple[int, Segment]] = []  # with where each is, as dictionaries end later than those in them
    opened: list[_Dict] = []
    first, last, inner = 0, "", list[Token]()  # the last tag that opens, and what is behind it
    for token in opening_with("plist", text):
        if token.kind == "open":
            first, last, inner = token.start, token.name, []
            if token.name == "dict":
                opened.append(_Dict())
        elif token.kind == "close" and token.name == "dict" and opened:
            done = opened.pop()
            found += _texts(text, done, lines, forms, opened[-1].key if opened else "", parts)
        elif token.kind == "close" and token.name == last == "key" and opened:
            opened[-1].key, opened[-1].key_at = plain_text(text, inner), first
        elif token.kind == "close" and token.name == last == "string" and opened:  # with no other element in it
            opened[-1].values[opened[-1].key] = _Value(opened[-1].key_at, token.end, inner)
            inner = []
        else:
            inner.append(token)
    return [segment for _, segment in sorted(found, key=lambda each: each[0])]


def _texts(
    text: str, found: _Dict, lines: LineNumbers, forms: tuple[str, ...], name: str, parts: list[Part]
) -> Iterator[tuple[int, Segment]]:
    """Yields the texts of a dictionary, and where they are."""
    is_plural = "other" in found.values and not _RULE.isdisjoint(found.values)
    for key, value in found.values.items():
        is_gone = is_plural and key in CATEGORIES and key not in ("zero", *forms)
        if key in _RULE or is_gone or is_code(plain_text(text, value.inner)):
            parts.append(Part(value.start, value.end, "form that the target lacks" if is_gone else "no text"))
            continue
        inline = collect(Inline(text, xml_unescape), value.inner, pairs=frozenset())
        for segment in in_place(inline, lines, xml_escape, context=f"{name} {key}".strip(), entities=True):
            is_other = is_plural and key == "other"
            yield value.start, _with_forms(text, segment, found, forms) if is_other else segment


def _with_forms(text: str, segment: Segment, found: _Dict, forms: tuple[str, ...]) -> Segment:
    """Returns the form for other numbers, which adds those that only the target has, and takes away others."""

    def edits(translation: Tagged, tell: Tell) -> Iterator[Edit]:
        (edit,) = segment.edits(translation, tell)
        yield edit
        place = found.values["other"].start
        line = break_before(text, place)
        for form in forms:
            if form not in found.values:
                yield Edit(place, place, [f"<key>{form}</key>{line}<string>", *edit.pieces, f"</string>{line}"])
        for key, (start, end, _) in found.values.items():
            if key in CATEGORIES and key not in ("zero", *forms):
                yield Edit(start - len(break_before(text, start)), end, [])

    return replace(segment, edits=edits)
