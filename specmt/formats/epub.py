"""Books: pages, tables of contents and titles of EPUB 2 and 3."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from specmt.formats.document import Document, Edit, FormatOptions, LineNumbers, Part, Segment, Tell
from specmt.formats.html import part_of_page
from specmt.formats.inline import Inline, in_place
from specmt.formats.markup import add_text, children, local, xml_escape, xml_tokens, xml_unescape
from specmt.formats.package import Package
from specmt.languages import is_code, primary
from specmt.types import Tagged

_MEMBERS: Final = re.compile(r"(?!META-INF/).*\.(?:xhtml|html?|xml|ncx|opf)", re.IGNORECASE)
_TEXTS: Final = ("text", "docAuthor")
"""The elements of a table of contents; those of an author are looked for lest theirs have text."""

_LANGUAGE: Final = re.compile(r"(?<=<dc:language>)\s*([\w-]+)\s*(?=</)|\b(?:xml:)?lang=[\"']([\w-]+)(?=[\"'])")


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads the pages of a book; what says that it is in the language that is translated from says the other one.

    :raises DataError: it is damaged, a page is not well-formed, or it unpacks to more than is read.
    """

    def finish(text: str) -> Iterator[Edit]:
        for match in _LANGUAGE.finditer(text):
            group = 1 if match[1] else 2
            if is_code(match[group]) and primary(match[group]) == primary(options.source):
                yield Edit(*match.span(group), [options.target])

    return Package(data, "epub", _MEMBERS.fullmatch, partial(_segments, options=options), finish=finish)


def _segments(text: str, options: FormatOptions) -> Iterator[Segment | Part]:
    tokens = list(xml_tokens(text))
    root = next(local(token.name) for token in tokens if token.kind in ("open", "empty"))
    lines = LineNumbers(text)
    if root == "html":
        for segment in part_of_page(text, (0, len(text)), options, lines, tokens):
            yield replace(segment, edits=partial(_edits, segment))
    elif root not in ("ncx", "package"):
        yield Part(0, len(text), "data of programs")
    for element in children(tokens, _TEXTS) if root == "ncx" else ():
        if element.name != "docAuthor":
            inline = Inline(text, xml_unescape, collapses=True)
            add_text(inline, text, *element.inside)
            yield from in_place(inline, lines, xml_escape)


def _edits(segment: Segment, translation: Tagged, tell: Tell) -> Iterator[Edit]:
    """Yields the edits of a page, which need not know the entities of HTML."""
    for edit in segment.edits(translation, tell):
        pieces = [piece.replace("&nbsp;", "&#160;") if isinstance(piece, str) else piece for piece in edit.pieces]
        yield Edit(edit.start, edit.end, pieces)
