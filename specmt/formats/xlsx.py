"""Excel's tables: the texts in cells; formulas, numbers, names and what tables and formulas know cells by stay."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from specmt.formats.document import Document, FormatOptions, LineNumbers, Segment
from specmt.formats.markup import children, xml_tokens, xml_unescape
from specmt.formats.package import Package, members_of, tags
from specmt.formats.runs import drawn, segments

_MEMBERS: Final = re.compile(r"xl/(?:sharedStrings|comments\d*|(?:worksheets|charts|diagrams|drawings)/[^/]+)\.xml")
_NAMING: Final = re.compile(r"xl/(?:tables/|pivotCache/pivotCacheDefinition|worksheets/)[^/]*\.xml")
_FORMULA: Final = re.compile(r"<(?:\w+:)?(?:f|formula\d?)(?:\s[^<>]*)?>(?:<xm:f>)?([^<>]*)<")
_SAID: Final = re.compile(r'"((?:[^"]|"")*)"')


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads the texts of cells, of remarks on them and of what is drawn.

    A heading that a table or a pivot table is known by must be as that says it; so must what a formula compares with,
    and what may be chosen in a cell.

    :raises DataError: it is damaged, or unpacks to more than is read.
    """
    names: set[str] = set()
    document = Package(data, "xlsx", _MEMBERS.fullmatch, _segments)
    for text in members_of(data, _NAMING.fullmatch):
        names.update(said["name"] for _, said in tags(text, ("tableColumn", "cacheField")) if "name" in said)
        for formula in map(xml_unescape, _FORMULA.findall(text)):
            is_list = _SAID.fullmatch(formula) is not None
            for said in _SAID.findall(formula):
                names.update(map(str.strip, said.split(",")) if is_list else [said.replace('""', '"')])
    reason = "left as it is: a table, a formula or a list of what may be chosen has it"
    document.segments = [
        replace(segment, state="skipped", reason=reason) if segment.source.text in names else segment
        for segment in document.segments
    ]
    return document


def _segments(text: str) -> Iterator[Segment]:
    lines = LineNumbers(text)
    for cell in children(xml_tokens(text), ("si", "is", "text")):
        yield from segments(text, cell, "", lines)
    yield from drawn(text, lines)
