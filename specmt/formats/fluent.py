"""Fluent messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from fluent.syntax import FluentParser, ast

from specmt.errors import DataError
from specmt.formats.accelerators import with_key
from specmt.formats.document import (
    Document,
    Edit,
    FormatOptions,
    LineNumbers,
    Part,
    Pieces,
    Segment,
    Tell,
    TextDocument,
    edited,
)
from specmt.formats.encoding import decode
from specmt.formats.inline import Inline, in_place
from specmt.formats.plurals import CATEGORIES, plural_forms
from specmt.types import Tagged

_KEYS: Final = re.compile(r"(?:^|[.-])(?:(?:access|command)?key|shortcut|style)$", re.IGNORECASE)
"""What is no text: keys of the keyboard and CSS."""

_PARAGRAPH: Final = re.compile(
    r"\n(?:[ \t]*\r?\n)+|\n(?=[ \t]+(?:[-–•]|\d{1,3}[.)])[ \t])|(?<=[.!?:…])[ \t]{0,9}\r?\n(?=[ \t]+\S)"
)
"""Where a paragraph or an item of a list begins, or a line behind one that ends a sentence."""

_BRACE: Final = re.compile(r'\{\s*"([{}])"\s*\}')
"""A brace that is text."""

_BLANK: Final = re.compile(r'\{\s*"\s*"\s*\}')
"""What keeps the spaces beside it."""

_MAY_START: Final = re.compile(r"(?![\[*.}])")
_LOOSE: Final = re.compile(r"\n(?=\S)")
_BEGINS: Final = re.compile(r"\{")
"""What alone a line may begin with that is not indented."""


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads messages and terms, their attributes, and the variants in them.

    :raises DataError: there is what is no message.
    """
    text, encoding = decode(data)
    lines, forms = LineNumbers(text), plural_forms(options.target)
    segments: list[Segment] = []
    parts: list[Part] = []
    for entry in FluentParser(with_spans=True).parse(text).body:
        if isinstance(entry, ast.Junk):
            what = entry.annotations[0].message if entry.annotations else "cannot be read"
            start = entry.span.start if entry.span else 0
            raise DataError(f"line {lines(start)} is no message: {what}")
        if isinstance(entry, (ast.Message, ast.Term)):
            name = f"-{entry.id.name}" if isinstance(entry, ast.Term) else entry.id.name
            if entry.value is not None and not _KEYS.search(name):
                segments += _pattern(text, lines, entry.value, name, forms, parts)
            elif entry.value is not None:
                parts += _left(entry.value, "key")
            # Those of terms are what selectors ask for.
            attributes = {each.id.name: each.value for each in entry.attributes}
            for attribute, value in attributes.items():
                if isinstance(entry, ast.Term) or _KEYS.search(attribute):
                    parts += _left(value, "key, or asked for by selectors")
                else:
                    found = [*_pattern(text, lines, value, f"{name}.{attribute}", forms, parts)]
                    if attribute == "label" and len(found) == 1 and "accesskey" in attributes:
                        key = attributes["accesskey"].span
                        found = [with_key(found[0], text, (key.start, key.end))] if key else found
                    segments += found
    return TextDocument(text, encoding, segments, parts=parts)


def _pattern(
    text: str, lines: LineNumbers, pattern: ast.Pattern, context: str, forms: Sequence[str], parts: list[Part]
) -> Iterator[Segment]:
    inline = Inline(text, lambda raw: _BRACE.sub(r"\1", raw), collapses=True)
    inner: list[list[ast.Variant]] = []
    guard = partial(_guarded, text)
    is_loose = pattern.span is not None and _LOOSE.search(text, pattern.span.start, pattern.span.end)
    start = _BEGINS if is_loose else _MAY_START
    write = partial(in_place, inline, lines, _encode, context=context, wraps=True, may_start=start, guard=guard)
    for element in pattern.elements:
        if element.span is None:
            continue
        if isinstance(element, ast.TextElement):
            place = element.span.start
            for match in _PARAGRAPH.finditer(text, place, element.span.end):
                inline.text(place, match.start())
                yield from write()
                place = match.end()
            inline.text(place, element.span.end)
        elif _BRACE.fullmatch(text, element.span.start, element.span.end):
            inline.text(element.span.start, element.span.end)
        elif _BLANK.fullmatch(text, element.span.start, element.span.end):
            inline.point(element.span.start, element.span.end)
        else:
            inline.opaque(element.span.start, element.span.end)
            if isinstance(element.expression, ast.SelectExpression):
                inner.append(element.expression.variants)
    yield from write()
    for variants in inner:
        names = [each.key.name if isinstance(each.key, ast.Identifier) else "" for each in variants]
        is_plural = variants[-1].default and names[-1] == "other" and len(names) > 1 and set(names) < {*CATEGORIES, ""}
        for variant, name in zip(variants, names, strict=True):
            found = [*_pattern(text, lines, variant.value, context, forms, parts)]
            if is_plural and name == "other" and len(found) == 1:
                yield replace(found[0], edits=partial(_with_forms, text, variants, names, forms, found[0]))
            elif not is_plural or name in ("", *forms):
                yield from found
            else:
                parts += _left(variant.value, "form that the target lacks")


def _left(pattern: ast.Pattern, reason: str) -> Iterator[Part]:
    if pattern.span is not None:
        yield Part(pattern.span.start, pattern.span.end, reason)


def _with_forms(
    text: str,
    variants: Sequence[ast.Variant],
    names: Sequence[str],
    forms: Sequence[str],
    segment: Segment,
    translation: Tagged,
    tell: Tell,
) -> Iterator[Edit]:
    """Yields the edits of the variant for other numbers, and those of the forms that only one language has."""
    edits = [*segment.edits(translation, tell)]
    starts = [each.span.start for each in variants if each.span]
    span = variants[-1].value.span
    if span is not None and len(starts) == len(variants):
        said, place = edited(text, edits, (span.start, span.end)), starts[-1]
        space = text[text.rfind("\n", 0, place) + 1 : place]
        added = [f" [{form}] {said}\n{space}" for form in forms if form not in names]
        if added and not space.strip():
            yield Edit(place, place, ["".join(added)])
        for name, start, after in zip(names, starts, starts[1:], strict=False):
            if name not in ("", *forms):
                yield Edit(start, after, [])
    yield from edits


def _encode(text: str) -> str:
    return "".join(f'{{"{c}"}}' if c in "{}" else c for c in text)


def _guarded(text: str, pieces: Pieces, place: int) -> Pieces:
    """Returns a pattern; one that starts a line as a variant or an attribute does is told from one."""
    first, *rest = pieces
    starts_line = not text[text.rfind("\n", 0, place) + 1 : place].strip()
    if starts_line and isinstance(first, str) and first[0] in "[*.":
        return [f'{{"{first[0]}"}}{first[1:]}', *rest]
    return pieces
