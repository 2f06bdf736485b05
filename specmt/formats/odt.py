"""OpenDocument texts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from specmt.formats.document import Document, FormatOptions, LineNumbers, Part, Segment
from specmt.formats.inline import Inline, in_place
from specmt.formats.markup import Token, add_text, value_of, xml_escape, xml_tokens, xml_unescape
from specmt.formats.package import Package, member_of, tags
from specmt.formats.styles import is_code_style

_PARAGRAPHS: Final = frozenset(("text:p", "text:h"))
_PAIRS: Final = frozenset(("text:span", "text:a", "text:meta", "text:ruby-base"))
_POINTS: Final = re.compile(r"text:(?:bookmark|reference-mark|soft-page-break|change|toc-mark|alphabetical-index-mark)")
_OWN_TEXT: Final = frozenset(("text:note", "draw:frame", "office:annotation", "draw:custom-shape", "draw:text-box"))
"""Elements in a paragraph that have paragraphs of their own."""

_KEPT: Final = frozenset(("text:tracked-changes", "office:font-face-decls", "text:note-citation", "office:scripts"))


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads the paragraphs of a text, of its headers, footers, notes and tables.

    :raises DataError: it is damaged, or unpacks to more than is read.
    """
    common = _styles(member_of(data, "styles.xml"))
    return Package(data, "odt", lambda name: name in ("content.xml", "styles.xml"), partial(_segments, common=common))


def _styles(text: str) -> dict[str, tuple[str, str]]:
    """Returns the names of styles and what they are made from, by their ids."""
    found: dict[str, tuple[str, str]] = {}
    for _, said in tags(text, ("style:style",)):
        name = said.get("style:name", "")
        found[name] = said.get("style:display-name", name), said.get("style:parent-style-name", "")
    return found


def _style(text: str, token: Token) -> str:
    attributes = token.attributes(text)
    return value_of(text, attributes["text:style-name"]) if "text:style-name" in attributes else ""


def _segments(text: str, common: dict[str, tuple[str, str]]) -> Iterator[Segment | Part]:
    lines = LineNumbers(text)
    is_code = partial(is_code_style, common | _styles(text))
    count = 0
    deep = kept = 0
    open_paragraphs: list[Inline] = []
    opaque: list[tuple[Token, int]] = []  # elements left as they are, and how deep they are

    def taken(inline: Inline) -> Iterator[Segment]:
        around = inline.extent
        for segment in in_place(inline, lines, xml_escape, context=f"paragraph {count}"):
            yield replace(segment, around=around)

    for token in xml_tokens(text):
        if token.kind == "open":
            deep, kept = deep + 1, kept + (token.name in _KEPT)
        depth = deep
        if token.kind == "close":
            deep, kept = deep - 1, kept - (token.name in _KEPT)
        inline = open_paragraphs[-1] if open_paragraphs else None
        if token.kind == "open" and token.name in _PARAGRAPHS and not kept:
            count += 1
            if is_code(_style(text, token)):
                opaque.append((token._replace(name=""), depth))
            elif inline is None or (opaque and opaque[-1][0].name in _OWN_TEXT | _PARAGRAPHS):
                open_paragraphs.append(Inline(text, xml_unescape, collapses=True))
                opaque.append((token, depth))
            continue
        if opaque and token.kind == "close" and depth == opaque[-1][1]:
            first, _ = opaque.pop()
            if first.name in ("", "text:span"):
                yield Part(first.start, token.end, "code")
            if first.name in _PARAGRAPHS:
                yield from taken(open_paragraphs.pop())
                inline = open_paragraphs[-1] if open_paragraphs else None
            if inline is not None and opaque and opaque[-1][0].name in _PARAGRAPHS:
                add = inline.mark if first.name == "text:note" else inline.opaque
                add(first.start, token.end)
            continue
        if inline is None or (opaque and opaque[-1][0].name not in _PARAGRAPHS):
            # In an element that is left as it is, but for paragraphs of its own.
            if token.kind == "open" and opaque and token.name in _OWN_TEXT:
                opaque.append((token, depth))
            continue
        if token.kind == "text":
            add_text(inline, text, token.start, token.end)
        elif token.name in ("text:line-break", "text:tab"):
            yield from taken(inline)
        elif token.kind == "open" and token.name in _PAIRS and not is_code(_style(text, token)):
            inline.open(token.start, token.end, token.name)
        elif token.kind == "open":
            opaque.append((token, depth))
        elif token.kind == "close":
            inline.close(token.start, token.end, token.name)
        elif token.kind == "empty" and not _POINTS.match(token.name):
            inline.opaque(token.start, token.end)
        else:
            inline.point(token.start, token.end)
