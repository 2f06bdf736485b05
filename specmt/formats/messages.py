"""Messages in JSON: nested objects of strings, ARB, and ICU plurals and selects in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final

from specmt.errors import DataError
from specmt.formats.document import Document, Edit, FormatOptions, LineNumbers, Segment, TextDocument
from specmt.formats.encoding import decode
from specmt.formats.inline import Inline, in_place
from specmt.types import Span, Tagged

_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
_COMPLEX: Final = re.compile(r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\s*,")
_HEAD: Final = re.compile(r"\{\s*\w+\s*,\s*(?:plural|select|selectordinal)\s*,\s*(?:offset:\d+\s*)?")
_BRANCH: Final = re.compile(r"\s*(?:=\d+|\w+)\s*\{")


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads JSON; all strings that are values are translated, but those of keys that start with ``@``.

    :raises DataError: it is no JSON.
    """
    text, encoding = decode(data)
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"line {error.lineno} is not JSON: {error.msg}") from error
    reader = _Reader(text)
    segments = list(reader.segments())

    def finish(_: Mapping[int, Tagged]) -> Iterator[Edit]:
        if reader.locale is not None:
            yield Edit(*reader.locale, [json.dumps(options.target)])

    return TextDocument(text, encoding, segments, finish=finish)


class _Reader:
    def __init__(self, text: str) -> None:
        self.locale: Span | None = None
        """Where an ARB file says its language."""
        self._text = text
        self._lines = LineNumbers(text)
        # Who wrote all of it in ASCII wants to have it so.
        self._is_ascii = text.isascii() and "\\u" in text

    def segments(self) -> Iterator[Segment]:
        """Yields the strings that are values."""
        path: list[str | int] = []
        kinds: list[str] = []
        is_key = False
        for match in _TOKEN.finditer(self._text):
            token = match[0]
            if token in "{[":
                kinds.append(token)
                path.append("" if token == "{" else 0)
                is_key = token == "{"
            elif token in "}]":
                kinds.pop()
                path.pop()
            elif token == ",":
                is_key = kinds[-1] == "{"
                if not is_key:
                    number = path[-1]
                    assert isinstance(number, int)
                    path[-1] = number + 1
            elif token == ":":
                is_key = False
            elif token[0] == '"' and is_key:
                path[-1] = json.loads(token)
            elif token[0] == '"':
                if any(isinstance(key, str) and key.startswith("@") for key in path):
                    if path == ["@@locale"]:
                        self.locale = match.span()
                else:
                    yield from self._string((match.start() + 1, match.end() - 1), ".".join(map(str, path)))

    def _string(self, span: Span, context: str) -> Iterator[Segment]:
        raw = self._text[slice(*span)]
        if _COMPLEX.search(raw) is None:
            yield from self._take(span, context)
            return
        try:
            branches = list(_branches(self._text, *span))
        except ValueError as error:
            line = self._lines(span[0])
            yield Segment(
                Tagged(raw), line, lambda *_: (), "skipped", reason=f"left as it is: {error}", context=context
            )
            return
        for branch in branches:
            yield from self._take(branch, context, in_plural=True)

    def _take(self, span: Span, context: str, *, in_plural: bool = False) -> Iterator[Segment]:
        inline = Inline(self._text, _decode, escaped=r"\\[ntr]")
        place = span[0]
        for match in re.finditer("#", self._text[slice(*span)]) if in_plural else ():
            number = span[0] + match.start()
            inline.text(place, number)
            inline.opaque(number, number + 1)
            place = number + 1
        inline.text(place, span[1])
        return in_place(inline, self._lines, self._encode, context=context)

    def _encode(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=self._is_ascii)[1:-1]


def _decode(raw: str) -> str:
    text = json.loads(f'"{raw}"', strict=False)
    assert isinstance(text, str)
    return text


def _branches(text: str, start: int, end: int) -> Iterator[Span]:
    """Yields where the texts of a message are that is one plural or select.

    :raises ValueError: it is more than that, or cannot be read.
    """
    head = _HEAD.match(text, start, end)
    if head is None or _closing(text, start, end) != end - 1:
        raise ValueError("it has text beside its plural or select")
    place = head.end()
    while place < end - 1:
        branch = _BRANCH.match(text, place, end)
        if branch is None:
            if text[place : end - 1].strip():
                raise ValueError("its plural or select cannot be read")
            return
        close = _closing(text, branch.end() - 1, end)
        inner = text[branch.end() : close]
        if _COMPLEX.search(inner):
            yield from _branches(text, branch.end(), close)
        else:
            yield branch.end(), close
        place = close + 1


def _closing(text: str, start: int, end: int) -> int:
    """Returns where the brace is closed that is opened at a place."""
    depth = 0
    for place in range(start, end):
        depth += (text[place] == "{") - (text[place] == "}")
        if not depth:
            return place
    raise ValueError("its braces do not match")
