"""Plain text: each line is a segment."""

from __future__ import annotations

import re
from typing import Final

from specmt.formats.document import Document, FormatOptions, LineNumbers, Segment, TextDocument
from specmt.formats.encoding import decode
from specmt.formats.inline import replacing
from specmt.types import Tagged

_TEXT: Final = re.compile(r"\S(?:[^\n]*\S)?")


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads a text, in UTF-8 or with a byte order mark.

    :raises DataError: it is in another encoding.
    """
    text, encoding = decode(data)
    lines = LineNumbers(text)
    segments = [
        Segment(Tagged(match[0]), lines(match.start()), replacing(match.span()))
        for match in _TEXT.finditer(text)
        if any(map(str.isalpha, match[0]))
    ]
    return TextDocument(text, encoding, segments)
