"""String resources of Android."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from specmt.errors import DataError
from specmt.formats.document import Document, Edit, FormatOptions, LineNumbers, Segment, Tell, TextDocument
from specmt.formats.encoding import decode_xml
from specmt.formats.inline import Inline, in_place
from specmt.formats.markup import Token, add_text, reference, value_of, xml_escape, xml_tokens, xml_unescape
from specmt.types import Tagged

SUFFIXES: Final = (".xml",)

_PAIRS_NAMES: Final = "a annotation b big cite dfn em font h1 h2 i li p small span strike strong sub sup tt u ul"
_PAIRS: Final = frozenset(_PAIRS_NAMES.split())
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t"}


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads resources; strings that are not ``translatable`` are left out, and references to other resources.

    :raises DataError: it is damaged XML, or of another kind.
    """
    text, encoding = decode_xml(data)
    return TextDocument(text, encoding, list(_segments(text)), escape=reference)


def _segments(text: str) -> Iterator[Segment]:
    lines = LineNumbers(text)
    stack: list[str] = []
    inline: Inline | None = None
    opaque: Token | None = None
    name, kept, depth = "", False, 0
    names: dict[str, int] = {}
    for token in xml_tokens(text):
        if not stack and token.kind in ("open", "empty") and token.name != "resources":
            raise DataError(
                f"line {lines(token.start)} opens with <{token.name}>, but Android's resources do with <resources>"
            )
        if token.kind == "open":
            stack.append(token.name)
        elif token.kind == "close":
            stack.pop()
        if inline is not None:
            if opaque is not None:
                if token.kind == "close" and len(stack) == depth:
                    inline.opaque(opaque.start, token.end)
                    opaque = None
            elif token.kind == "text":
                add_text(inline, text, token.start, token.end)
            elif token.kind == "cdata":
                inline.text(token.start, token.end)
            elif token.kind == "open" and token.name in _PAIRS:
                inline.open(token.start, token.end, token.name)
            elif token.kind == "open":
                opaque, depth = token, len(stack) - 1
            elif token.kind == "close" and token.name in ("string", "item"):
                for segment in in_place(inline, lines, _encode, context=name):
                    yield replace(segment, edits=partial(_guarded, segment))
                inline = None
            elif token.kind == "close":
                inline.close(token.start, token.end, token.name)
            elif token.kind == "empty":
                inline.opaque(token.start, token.end)
            else:
                inline.point(token.start, token.end)
            continue
        if token.kind != "open":
            continue
        attributes = token.attributes(text)
        if len(stack) == 2:
            name = value_of(text, attributes["name"]) if "name" in attributes else ""
            if "product" not in attributes and token.name == "string":
                if name in names:
                    raise DataError(f"line {lines(token.start)} has the name {name!r} of line {names[name]} again")
                names[name] = lines(token.start)
            kept = "translatable" in attributes and value_of(text, attributes["translatable"]) == "false"
        is_text = token.name == "string" or (token.name == "item" and stack[-2:-1] in (["plurals"], ["string-array"]))
        if is_text and not kept and not re.match(r"\s*[@?][\w:+]*\w+/", text[token.end : token.end + 200]):
            inline = Inline(text, _decode, collapses=True, escaped=r'"|\\[nt]')


def _decode(raw: str) -> str:
    def meaning(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] is not None else _ESCAPED.get(match[2], match[2])

    return _ESCAPE.sub(meaning, xml_unescape(raw))


def _encode(text: str) -> str:
    text = text.replace("\\", "\\\\").replace("'", "\\'").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return xml_escape(text)


def _guarded(segment: Segment, translation: Tagged, tell: Tell) -> Iterator[Edit]:
    """Yields what writes a string; one that starts like a reference is told from one."""
    for edit in segment.edits(translation, tell):
        first = edit.pieces[0]
        yield replace(edit, pieces=["\\", *edit.pieces]) if isinstance(first, str) and first[0] in "@?" else edit
