"""Translation memories as documents: units without a translation get one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from specmt.errors import DataError
from specmt.formats.document import Document, Edit, FormatOptions, LineNumbers, Pieces, Segment, Tell, TextDocument
from specmt.formats.encoding import decode_xml
from specmt.formats.inline import Inline, render
from specmt.formats.markup import Token, collect, quoted, reference, value_of, xml_escape, xml_tokens, xml_unescape
from specmt.types import Span, Tagged

SUFFIXES: Final = (".tmx",)

_HALVES: Final = {"bpt": "open", "ept": "close"}


@dataclass(slots=True)
class _Variant:
    token: Token
    end: int = 0
    body: list[Token] = field(default_factory=list)
    inside: Span | None = None


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads a memory.

    :raises DataError: it is damaged, or no TMX.
    """
    text, encoding = decode_xml(data)
    return TextDocument(text, encoding, list(_segments(text, options)), escape=reference)


def _segments(text: str, options: FormatOptions) -> Iterator[Segment]:
    lines = LineNumbers(text)
    variants: dict[str, _Variant] = {}
    language = ""
    start: int | None = None
    is_first = True
    for token in xml_tokens(text):
        if is_first and token.kind in ("open", "empty"):
            is_first = False
            if token.name != "tmx":
                raise DataError(f"line {lines(token.start)} must open with <tmx>, but has <{token.name}> instead")
        variant = variants.get(language)
        if start is not None and variant is not None:
            if token.kind == "close" and token.name == "seg":
                variant.inside = start, token.start
                start = None
            else:
                variant.body.append(token)
        elif token.kind == "open" and token.name == "tu":
            variants = {}
        elif token.kind == "open" and token.name == "tuv":
            attributes = token.attributes(text)
            named = attributes.get("xml:lang", attributes.get("lang"))
            language = "" if named is None else _primary(value_of(text, named))
            variants.setdefault(language, _Variant(token))
        elif token.kind == "open" and token.name == "seg":
            start = token.end
        elif token.kind == "close" and token.name == "tuv" and variant is not None:
            variant.end = variant.end or token.end
        elif token.kind == "close" and token.name == "tu" and _primary(options.source) in variants:
            own, other = variants[_primary(options.source)], variants.get(_primary(options.target))
            found = _inline(text, own).take()
            if found is not None and own.inside is not None:
                tagged, span = found
                target = "" if other is None else _plain(text, other)
                yield Segment(
                    tagged,
                    lines(own.token.start),
                    _Writer(text, options.target, own, other, span),
                    "translated" if target else "new",
                    target=target,
                )


class _Writer:
    def __init__(self, text: str, language: str, own: _Variant, other: _Variant | None, span: Span) -> None:
        self._text = text
        self._language = language
        self._own, self._other, self._span = own, other, span

    def __call__(self, translation: Tagged, _: Tell) -> list[Edit]:
        assert self._own.inside is not None
        (start, end), (left, right) = self._own.inside, self._span
        content: Pieces = [(start, left), *render(translation, xml_escape), (right, end)]
        if self._other is not None and self._other.inside is not None:
            return [Edit(*self._other.inside, content)]
        own = self._own.token
        line = self._text.rfind("\n", 0, own.start) + 1
        indent = self._text[line : own.start]
        line_break = (
            ("\r\n" if self._text[line - 2 : line - 1] == "\r" else "\n") + indent if not indent.strip() else ""
        )
        name = "xml:lang" if "xml:lang" in own.attributes(self._text) else "lang"
        element: Pieces = [f"<tuv {name}={quoted(self._language)}><seg>", *content, "</seg></tuv>"]
        return [Edit(self._own.end, self._own.end, [line_break, *element])]


def _inline(text: str, variant: _Variant) -> Inline:
    return collect(text, variant.body, halves=_HALVES, pairs=frozenset(("hi",)))


def _plain(text: str, variant: _Variant) -> str:
    said = (text[token.start : token.end] for token in variant.body if token.kind in ("text", "cdata"))
    return "".join(map(xml_unescape, said)).strip()


def _primary(language: str) -> str:
    return re.split("[-_]", language.strip())[0].lower()
