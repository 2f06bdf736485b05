"""Fluent messages."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from fluent.syntax import FluentParser, ast

from specmt.errors import DataError
from specmt.formats.document import Document, FormatOptions, LineNumbers, Pieces, Segment, TextDocument
from specmt.formats.encoding import decode
from specmt.formats.inline import Inline, in_place


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads messages and terms, their attributes, and the variants in them.

    :raises DataError: there is what is no message.
    """
    text, encoding = decode(data)
    lines = LineNumbers(text)
    segments: list[Segment] = []
    for entry in FluentParser(with_spans=True).parse(text).body:
        if isinstance(entry, ast.Junk):
            what = entry.annotations[0].message if entry.annotations else "cannot be read"
            start = entry.span.start if entry.span else 0
            raise DataError(f"line {lines(start)} is no message: {what}")
        if isinstance(entry, (ast.Message, ast.Term)):
            name = f"-{entry.id.name}" if isinstance(entry, ast.Term) else entry.id.name
            if entry.value is not None:
                segments += _pattern(text, lines, entry.value, name)
            for attribute in entry.attributes:
                segments += _pattern(text, lines, attribute.value, f"{name}.{attribute.id.name}")
    return TextDocument(text, encoding, segments)


def _pattern(text: str, lines: LineNumbers, pattern: ast.Pattern, context: str) -> Iterator[Segment]:
    inline = Inline(text, collapses=True)
    inner: list[ast.Pattern] = []
    for element in pattern.elements:
        if element.span is None:
            continue
        if isinstance(element, ast.TextElement):
            inline.text(element.span.start, element.span.end)
        else:
            inline.opaque(element.span.start, element.span.end)
            if isinstance(element.expression, ast.SelectExpression):
                inner += [variant.value for variant in element.expression.variants]
    yield from in_place(inline, lines, _encode, context=context, guard=partial(_guarded, text))
    for each in inner:
        yield from _pattern(text, lines, each, context)


def _encode(text: str) -> str:
    return "".join(f'{{"{c}"}}' if c in "{}" else c for c in text)


def _guarded(text: str, pieces: Pieces, place: int) -> Pieces:
    """Returns a pattern; one that starts a line as a variant or an attribute does is told from one."""
    first, *rest = pieces
    starts_line = not text[text.rfind("\n", 0, place) + 1 : place].strip()
    if starts_line and isinstance(first, str) and first[0] in "[*.":
        return [f'{{"{first[0]}"}}{first[1:]}', *rest]
    return pieces
