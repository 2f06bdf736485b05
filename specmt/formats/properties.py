"""Properties files of Java."""

from __future__ import annotations

import json
import re
from typing import Final

from specmt.errors import DataError
from specmt.formats.accelerators import find, hide, with_key
from specmt.formats.document import Document, FormatOptions, LineNumbers, Part, Segment, TextDocument
from specmt.formats.encoding import decode
from specmt.formats.inline import Inline, in_place
from specmt.formats.plurals import plural_forms
from specmt.formats.values import is_code
from specmt.types import Span

_ENTRY: Final = re.compile(
    r"""^[ \t\f]*(?:[#!][^\r\n]*
        | (?P<key>(?:[^\\:=\s]|\\(?:\r\n|[\s\S]))+)[ \t\f]*[:=]?[ \t\f]*
          (?P<value>[^\\\r\n]*(?:\\(?:\r\n|[\s\S]|$)[^\\\r\n]*)*) )""",
    re.VERBOSE | re.MULTILINE,
)
_ESCAPE: Final = re.compile(r"\\(?:u+([0-9A-Fa-f]{4})|(?:\r\n|[\r\n])[ \t\f]*|([\s\S]))")
_BAD: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u(?!u*[0-9A-Fa-f]{4})")
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_KEY: Final = re.compile(r"[._-](?:access_?key|mnemonic|accelerator)\Z", re.IGNORECASE)
_PRESSED: Final = re.compile(r".|(?:(?:alt|command|control|ctrl|meta|shift)[ +])+\S+", re.IGNORECASE)
_LABEL: Final = re.compile(r"[._-](?:label|text|name|title)\Z", re.IGNORECASE)
_INSIDE: Final = r"(?:[^{}|]|\{[^{}]*\})*"
_CHOICE: Final = re.compile(rf"\{{\d+,\s*choice,{_INSIDE}(?:\|{_INSIDE})*\}}\s*")
_CASE: Final = re.compile(r"\{\d+,\s*choice,[^#<\u2264{}|]*[#<\u2264]|\|[^#<\u2264{}|]*[#<\u2264]|\}\s*\Z")
"""What begins and ends the texts of a choice by number, which is all of a message."""

_NUMBERED: Final = re.compile(r"\{\d+[,}]")
"""What makes a value a MessageFormat, in which apostrophes are doubled."""


def read(data: bytes, options: FormatOptions) -> Document:
    r"""Reads a file in UTF-8 or, where that is not what it is, in Latin-1; ASCII is kept ASCII by ``\u``.

    :raises DataError: an escape is not complete.
    """
    text, encoding = decode(data, fallback="latin-1")
    lines = LineNumbers(text)
    is_ascii = text.isascii()
    segments: list[Segment] = []
    parts: list[Part] = []
    labels: dict[str, int] = {}
    keys: list[tuple[str, Span]] = []
    for match in _ENTRY.finditer(text):
        if match["key"] is None or not match["value"]:
            continue
        bad = _BAD.search(match[0])
        if bad is not None:
            raise DataError(f"line {lines(match.start() + bad.start())} has \\u without four hexadecimal digits")
        has_numbers = _NUMBERED.search(match["value"]) is not None

        def meaning(raw: str, has_numbers: bool = has_numbers) -> str:
            said = _ESCAPE.sub(_meaning, raw)
            # Characters beyond U+FFFF are written as two.
            said = said.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            return said.replace("''", "'") if has_numbers else said

        def encode(said: str, has_numbers: bool = has_numbers) -> str:
            said = said.replace("'", "''") if has_numbers else said
            said = said.replace("\\", "\\\\")
            for letter, char in _ESCAPED.items():
                said = said.replace(char, f"\\{letter}")
            return "".join(map(_code, said)) if is_ascii else said

        inline = Inline(text, meaning, escaped=r"\\[ntrf]|\\\r?\n|\\(?:\ |\Z)|\\u00(?:20|[aA]0)")
        key, span = _ESCAPE.sub(_meaning, match["key"]), match.span("value")
        if (of := _KEY.sub("", key)) != key and _PRESSED.fullmatch(text, *span):
            keys.append((of, span))
            parts.append(Part(*span, "key"))
            continue
        said = meaning(match["value"])
        if find(said) is None and is_code(said, key.rpartition(".")[2]):
            parts.append(Part(*span, "no text"))
            continue
        place, count = span[0], len(segments)
        for case in _CASE.finditer(text, *span) if _CHOICE.fullmatch(text, *span) else ():
            inline.text(place, case.start())
            inline.cut(*case.span())
            place = case.end()
        inline.text(place, span[1])
        segments += in_place(inline, lines, encode, context=key, forms=plural_forms(options.target), entities=True)
        if len(segments) == count + 1:
            labels[_LABEL.sub("", key)] = count
    segments = hide(segments)
    for of, span in keys:
        if (number := labels.get(of, len(segments))) < len(segments):
            segments[number] = with_key(segments[number], text, span)
    return TextDocument(text, encoding, segments, escape=_code, parts=parts)


def _meaning(match: re.Match[str]) -> str:
    if match[1] is not None:
        return chr(int(match[1], 16))
    return _ESCAPED.get(match[2], match[2]) if match[2] is not None else ""


def _code(char: str) -> str:
    return char if char.isascii() else json.dumps(char)[1:-1]
