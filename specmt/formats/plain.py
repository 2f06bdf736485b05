"""Plain text: each line is a segment."""

from __future__ import annotations

import re
from typing import Final

from specmt.formats.document import Document, FormatOptions, Segment, TextDocument
from specmt.formats.encoding import decode
from specmt.formats.inline import replacing
from specmt.types import Tagged

_TEXT: Final = re.compile(r"\S(?:[^\n]*\S)?")


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads a text, in UTF-8 or with a byte order mark.

    :raises DataError: it is in another encoding.
    """
    text, encoding = decode(data)
    segments: list[Segment] = []
    place, line = 0, 1
    for match in _TEXT.finditer(text):
        line += text.count("\n", place, match.start())
        place = match.start()
        if any(c.isalpha() for c in match[0]):
            segments.append(Segment(Tagged(match[0]), line, replacing(match.span())))
    return TextDocument(text, encoding, segments)
