"""Translation memories as documents: units without a translation get one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from specmt.formats.document import Document, Edit, FormatOptions, LineNumbers, Pieces, Segment, State, Tell
from specmt.formats.inline import Inline, render
from specmt.formats.left import told
from specmt.formats.markup import (
    Element,
    break_before,
    children,
    collect,
    opening_with,
    plain_text,
    quoted,
    xml_document,
    xml_escape,
    xml_unescape,
)
from specmt.languages import primary
from specmt.types import Span, Tagged

_PAIRS: Final = frozenset(("hi",))
_HALVES: Final = {"bpt": "open", "ept": "close"}


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads a memory.

    :raises DataError: it is damaged, or no TMX.
    """
    return told(xml_document(data, partial(_segments, options=options)), "tmx")


def _segments(text: str, options: FormatOptions) -> Iterator[Segment]:
    lines = LineNumbers(text)
    for unit in children(opening_with("tmx", text), ("tu",)):
        variants: dict[str, Element] = {}
        for each in unit.elements:
            if each.name == "tuv":
                variants.setdefault(primary(each.first.value(text, "xml:lang", "lang")), each)
        own, other = (variants.get(primary(language)) for language in (options.source, options.target))
        source = None if own is None else _text_of(own)
        if own is None or source is None:
            continue
        found = collect(Inline(text, xml_unescape), source.inner, pairs=_PAIRS, halves=_HALVES).take()
        if found is not None:
            tagged, span = found
            target = None if other is None else _text_of(other)
            said = "" if target is None else plain_text(text, target.inner)
            state: State = "translated" if said else "new"
            edits = partial(_edits, text, options.target, own, source.inside, target, span)
            raw = text[slice(*source.inside)], text[slice(*target.inside)] if target else ""
            raw = raw if tagged.tags else ("", "")
            yield Segment(tagged, lines(own.start), edits, state, target=said, written=raw, span=span)


def _text_of(variant: Element) -> Element | None:
    """Returns the text of a variant."""
    return next((each for each in variant.elements if each.name == "seg" and each.first.kind == "open"), None)


def _edits(
    text: str, language: str, own: Element, inside: Span, target: Element | None, span: Span, said: Tagged, _: Tell
) -> list[Edit]:
    content: Pieces = [(inside[0], span[0]), *render(said, xml_escape), (span[1], inside[1])]
    if target is not None:
        return [Edit(*target.inside, content)]
    name = "xml:lang" if "xml:lang" in own.first.attributes(text) else "lang"
    element: Pieces = [f"<tuv {name}={quoted(language)}><seg>", *content, "</seg></tuv>"]
    return [Edit(own.end, own.end, [break_before(text, own.start), *element])]
