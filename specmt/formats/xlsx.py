"""Excel's tables: the texts in cells; formulas, numbers, names and headings that tables are known by stay."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from specmt.formats.document import Document, FormatOptions, LineNumbers, Segment
from specmt.formats.markup import children, xml_tokens
from specmt.formats.package import Package, members_of, tags
from specmt.formats.runs import drawn, segments

_MEMBERS: Final = re.compile(r"xl/(?:sharedStrings|comments\d*|(?:worksheets|charts|diagrams|drawings)/[^/]+)\.xml")
_NAMING: Final = re.compile(r"xl/(?:tables/|pivotCache/pivotCacheDefinition)[^/]*\.xml")


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads the texts of cells, of remarks on them and of what is drawn.

    A heading that a table or a pivot table is known by must be as that says it.

    :raises DataError: it is damaged, or unpacks to more than is read.
    """
    names: set[str] = set()
    document = Package(data, "xlsx", lambda name: _MEMBERS.fullmatch(name) is not None, _segments)
    for text in members_of(data, _NAMING.fullmatch):
        names.update(said["name"] for _, said in tags(text, ("tableColumn", "cacheField")) if "name" in said)
    reason = "left as it is: a table is known by it"
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
