"""PowerPoint's presentations."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from specmt.formats.document import Document, FormatOptions, LineNumbers, Part, Segment
from specmt.formats.markup import children, xml_tokens
from specmt.formats.package import Package
from specmt.formats.runs import drawn

_MEMBERS: Final = re.compile(r"ppt/(?:slides|slideLayouts|slideMasters|notesSlides|charts|diagrams)/[^/]+\.xml")
_LAYOUT: Final = re.compile(r"<p:sld(?:Layout|Master)\b")


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads the paragraphs of slides, their layouts, tables, notes, titles of charts and diagrams.

    :raises DataError: it is damaged, or unpacks to more than is read.
    """
    return Package(data, "pptx", _MEMBERS.fullmatch, _segments)


def _segments(text: str) -> Iterator[Segment | Part]:
    prompts = [*_prompts(text)] if _LAYOUT.search(text) else []
    yield from prompts
    for segment in drawn(text, LineNumbers(text)):
        number = bisect_right(prompts, segment.span[0], key=lambda prompt: prompt.start)
        if not number or prompts[number - 1].end < segment.span[0]:
            yield segment


def _prompts(text: str) -> Iterator[Part]:
    """Yields the shapes of a layout that no slide shows: they say what is to be written there."""
    for shape in children(xml_tokens(text), ("p:sp",)):
        if "<p:ph" in text[shape.start : shape.end]:
            yield Part(shape.start, shape.end, "place of a text")
