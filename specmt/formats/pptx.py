"""PowerPoint's presentations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from specmt.formats.document import Document, FormatOptions, LineNumbers, Segment
from specmt.formats.package import Package
from specmt.formats.runs import drawn

_MEMBERS: Final = re.compile(r"ppt/(?:slides|notesSlides|charts|diagrams)/[^/]+\.xml")


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads the paragraphs of slides, tables, notes, titles of charts and diagrams.

    :raises DataError: it is damaged, or unpacks to more than is read.
    """
    return Package(data, "pptx", lambda name: _MEMBERS.fullmatch(name) is not None, _segments)


def _segments(text: str) -> Iterator[Segment]:
    return drawn(text, LineNumbers(text))
