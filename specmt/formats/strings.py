"""Strings of Apple's programs: ``"key" = "value";``, or a property list in XML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from specmt.errors import DataError
from specmt.formats import stringsdict
from specmt.formats.document import Document, FormatOptions, LineNumbers, Part, Segment, TextDocument
from specmt.formats.encoding import decode
from specmt.formats.inline import Inline, in_place
from specmt.formats.plurals import plural_forms
from specmt.formats.values import is_code

_TOKEN: Final = re.compile(
    r"""(?P<gap>\s+|/\*.*?\*/|//[^\n\r]*) | (?P<text>"[^"\\]*(?:\\.[^"\\]*)*"|'[^'\\]*(?:\\.[^'\\]*)*'|[\w.$/:-]+)
        | (?P<mark>[=;])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(?:U([0-9A-Fa-f]{4})|([0-7]{3})|(.))", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r"}
_ORDERS: Final = ("text ;", "text = text ;")
"""What the parts of an entry are."""


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads the values of a file in UTF-8 or UTF-16.

    :raises DataError: it is damaged, or a property list that is not of strings.
    """
    if data.startswith(b"bplist"):
        raise DataError("line 1 is a binary property list; `plutil -convert xml1` makes it one that is read")
    if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<?xml"):
        return stringsdict.read(data, options)
    zeros = data[:2].find(b"\0") if len(data) > 1 else -1
    text, encoding = decode(data, ("utf-16-be", "utf-16-le", "utf-8")[zeros])
    parts: list[Part] = []
    return TextDocument(text, encoding, list(_segments(text, parts, plural_forms(options.target))), parts=parts)


def _segments(text: str, parts: list[Part], forms: Sequence[str]) -> Iterator[Segment]:
    lines = LineNumbers(text)
    for entry in entries(text):
        value = entry[-2]
        if len(entry) == 4 and value[0][0] in "\"'" and not is_code(_decode(value[0][1:-1])):
            inline = Inline(text, _decode, escaped=r"\\[ntr]")
            inline.text(value.start() + 1, value.end() - 1)
            yield from in_place(inline, lines, _encode, context=key_of(entry), forms=forms, entities=True)
        else:
            parts.append(Part(entry[0].start(), entry[-1].end(), "name or value without a text"))


def key_of(entry: Sequence[re.Match[str]]) -> str:
    """Returns the key of an entry."""
    key = entry[0][0]
    return _decode(key[1:-1] if key[0] in "\"'" else key)


def entries(text: str) -> Iterator[list[re.Match[str]]]:
    """Yields the tokens of each entry.

    :raises DataError: there is something else than entries and remarks.
    """
    lines = LineNumbers(text)
    entry: list[re.Match[str]] = []
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        order = " ".join([each["mark"] or "text" for each in entry] + [match["mark"] or "text"] if match else [])
        if match is None or (match["gap"] is None and not any(f"{each} ".startswith(f"{order} ") for each in _ORDERS)):
            raise DataError(f'line {lines(place)} is no "key" = "value";')
        place = match.end()
        if match["gap"] is not None:
            continue
        entry.append(match)
        if match["mark"] == ";":
            yield entry
            entry = []
    if entry:
        raise DataError(f"line {lines(entry[0].start())} has an entry without its end")


def _decode(raw: str) -> str:
    def meaning(match: re.Match[str]) -> str:
        code = int(match[1], 16) if match[1] else int(match[2], 8) if match[2] else None
        return _ESCAPED.get(match[3], match[3]) if code is None else chr(code)

    return _ESCAPE.sub(meaning, raw).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _encode(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
