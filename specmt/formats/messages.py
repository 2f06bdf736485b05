"""Messages in JSON: nested objects of strings, ARB, and ICU plurals and selects in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from specmt.errors import DataError
from specmt.formats.document import Document, Edit, FormatOptions, LineNumbers, Segment, TextDocument
from specmt.formats.encoding import decode
from specmt.formats.inline import Inline, in_place
from specmt.formats.plurals import plural_forms
from specmt.types import Span, Tagged

_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads JSON; all strings that are values are translated, but those of keys that start with ``@``.

    :raises DataError: it is no JSON.
    """
    text, encoding = decode(data)
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"line {error.lineno} is not JSON: {error.msg}") from error
    reader = _Reader(text, plural_forms(options.target))
    segments = list(reader.segments())

    def finish(_: Mapping[int, Tagged]) -> Iterator[Edit]:
        if reader.locale is not None:
            yield Edit(*reader.locale, [json.dumps(options.target)])

    return TextDocument(text, encoding, segments, finish=finish)


class _Reader:
    def __init__(self, text: str, forms: Sequence[str]) -> None:
        self.locale: Span | None = None
        """Where an ARB file says its language."""
        self._text = text
        self._lines = LineNumbers(text)
        self._forms = forms
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
        inline = Inline(self._text, _decode, escaped=r"\\[ntr]")
        inline.text(*span)
        return in_place(inline, self._lines, self._encode, context=context, forms=self._forms)

    def _encode(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=self._is_ascii)[1:-1]


def _decode(raw: str) -> str:
    text = json.loads(f'"{raw}"', strict=False)
    assert isinstance(text, str)
    return text
