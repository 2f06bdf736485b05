"""Columns of CSV and TSV."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from specmt.errors import DataError, UsageError
from specmt.formats.document import KEPT, Document, Edit, FormatOptions, Part, Segment, State, Tell, TextDocument
from specmt.formats.encoding import decode
from specmt.formats.inline import Inline
from specmt.formats.plurals import plural_forms
from specmt.types import Span, Tagged


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads a table, of which tabs, semicolons or commas part the columns: what most of its lines have.

    Fields in quotes may have line breaks. The first line names the columns, unless they are asked for by number.

    Where a line has no cell for a translation, it is added; where it has nothing to translate, that goes over as it is.

    :raises DataError: a quote is not closed, or there is no such column.
    :raises UsageError: no column was asked for.
    """
    text, encoding = decode(data)
    if not options.columns:
        raise UsageError("`column` must name what is translated of a table, but is left out.")
    lines = re.sub(r'"[^"]*"', "", text[: 1 << 14]).split("\n")  # its head tells
    first = re.sub(r'"[^"\n]*"', "", text.split("\n", 1)[0])
    delimiter = max("\t;,", key=lambda c: (sum(c in line for line in lines) * (c in first), first.count(c)))
    has_quotes = delimiter != "\t" or '"' in first or '\t"' in text
    is_bare = False  # whether marks of quotation are text
    try:
        rows = list(_rows(text, delimiter, has_quotes=has_quotes))
    except DataError:
        if delimiter != "\t":
            raise
        is_bare, rows = True, list(_rows(text, delimiter, has_quotes=False))
    decode_cell = str if is_bare else _decode
    header = [decode_cell(text[slice(*span)]) for span in rows[0][1]] if rows else []
    plans = [_columns(asked, header) for asked in options.columns]
    by_number = all(part.isdecimal() for asked in options.columns for part in asked.split("="))
    segments: list[Segment] = []
    forms = plural_forms(options.target)
    copies: list[Edit] = []
    parts = [Part(*span, "header") for span in rows[0][1]] if rows and not by_number else []
    for line, fields in rows[0 if by_number else 1 :]:
        end = fields[-1][1]
        asked = {source for source, _ in plans}
        parts += (Part(*span, "column that is not asked for") for n, span in enumerate(fields) if n not in asked)
        for source, target in plans:
            if source >= len(fields):
                continue
            raw = text[slice(*fields[source])]
            said = decode_cell(raw)
            before = delimiter * max(0, target + 1 - len(fields))
            span = (end, end) if before else fields[target]
            existing = "" if source == target else decode_cell(text[slice(*span)]).strip()
            if not any(c.isalpha() for c in said):
                copies += (
                    [Edit(*span, [raw])] if source != target and said.strip() and not existing and not before else ()
                )
                continue
            is_left = before != "" and len(plans) > 1
            reason = f"{KEPT}: the line has {len(fields)} columns, and not {target + 1}" if is_left else ""
            inline = Inline(said.strip())
            inline.text(0, len(inline.source))
            spell = inline.read_breaks()
            edits = partial(_edits, span, raw, said, spell, delimiter, before, is_bare)
            state: State = "skipped" if is_left else "translated" if existing else "new"
            segments.append(Segment(Tagged(inline.plain()), line, edits, state, existing, reason=reason, forms=forms))
    return TextDocument(text, encoding, segments, finish=lambda _: copies, parts=parts)


def _edits(
    span: Span,
    raw: str,
    said: str,
    spell: Callable[[str], str],
    delimiter: str,
    before: str,
    is_bare: bool,
    translation: Tagged,
    _: Tell,
) -> list[Edit]:
    text = said[: len(said) - len(said.lstrip())] + spell(translation.text) + said[len(said.rstrip()) :]
    needing = (delimiter, "\n", "\r") if '"' in raw and text[:1] != '"' else (delimiter, '"', "\n", "\r")
    if is_bare:
        text = re.sub(r"[\t\r\n]+", " ", text)
    elif raw.startswith('"') or any(c in text for c in needing):
        text = '"' + text.replace('"', '""') + '"'
    return [Edit(*span, [before + text])]


def _columns(asked: str, header: Sequence[str]) -> tuple[int, int]:
    """Returns the numbers of the columns that are read and written, from 0."""
    numbers = []
    for name in asked.split("=") if asked not in header else [asked]:
        if name in header:
            numbers.append(header.index(name))
        elif name.isdecimal() and int(name) > 0:
            numbers.append(int(name) - 1)
        else:
            raise DataError(f"line 1 has no column {name!r}, but {', '.join(map(repr, header))}")
    return numbers[0], numbers[-1]


def _rows(text: str, delimiter: str, *, has_quotes: bool) -> Iterator[tuple[int, list[Span]]]:
    """Yields the number of a row's first line, and where its fields are, with their quotes."""
    end = re.escape(delimiter)
    quotes = rf'"[^"]*(?:""[^"]*)*"(?=[{end}\r\n]|\Z)|' if has_quotes else ""
    field = re.compile(rf"(?:{quotes}[^{end}\r\n]*)")
    place, line = 0, 1
    while place < len(text):
        fields: list[Span] = []
        begin = place
        while True:
            match = field.match(text, place)
            assert match is not None
            if has_quotes and match[0].startswith('"') and not (len(match[0]) > 1 and match[0].endswith('"')):
                raise DataError(f"line {line + text.count(chr(10), begin, place)} has a quote that is not closed")
            fields.append(match.span())
            place = match.end()
            if text[place : place + 1] != delimiter:
                break
            place += 1
        yield line, fields
        place += 2 if text.startswith("\r\n", place) else 1
        line += text.count("\n", begin, place)


def _decode(raw: str) -> str:
    return raw[1:-1].replace('""', '"') if len(raw) > 1 and raw[0] == raw[-1] == '"' else raw
