"""String resources of Android."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Final, Literal

from specmt.errors import DataError
from specmt.formats.document import Document, Edit, FormatOptions, LineNumbers, Part, Pieces, Segment, Tell, edited
from specmt.formats.glued import Item
from specmt.formats.inline import Inline, in_place
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
from specmt.formats.plurals import CATEGORIES, plural_forms
from specmt.formats.values import is_code
from specmt.types import Span, Tagged

_PAIRS_NAMES: Final = "a annotation b big cite dfn em font h1 h2 i li p small span strike strong sub sup tt u ul"
_PAIRS: Final = frozenset(_PAIRS_NAMES.split())
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_TAG: Final = re.compile(r"<(/?)([A-Za-z][\w-]*)(?=[\s/>])[^<>]*>")
_BLOCK: Final = re.compile(r"</?(?:p|br|div|ul|ol|li|h[1-6]|table|tr|td|th|hr)\b[^<>]*>")
_QUOTE: Final = re.compile(r'\\.|"', re.DOTALL)
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t"}
_NOT_XML: Final = re.compile("[\0-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]")
"""What XML cannot hold, but for its escape."""


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads resources; strings that are not ``translatable`` are left out, and references to other resources.

    :raises DataError: it is damaged XML, or of another kind.
    """
    parts: list[Part] = []
    return told(xml_document(data, partial(_segments, plural_forms(options.target), parts), parts), "android")


def _segments(forms: Sequence[str], parts: list[Part], text: str) -> Iterator[Segment]:
    lines = LineNumbers(text)
    names: dict[str, int] = {}
    for resource in children(opening_with("resources", text), ("string", "plurals", "string-array", "item")):
        first = resource.first
        name = first.value(text, "name")
        if resource.name == "string" and first.kind == "open" and "product" not in first.attributes(text):
            if name in names:
                raise DataError(f"line {lines(first.start)} has the name {name!r} of line {names[name]} again")
            names[name] = lines(first.start)
        if first.value(text, "translatable") == "false":
            parts.append(Part(resource.start, resource.end, "marked not to be translated"))
            continue
        if resource.name == "item" and first.value(text, "type") != "string":
            continue
        items = (each for each in resource.elements if each.name == "item")
        for each in [resource] if resource.name in ("string", "item") else items:
            start, _ = each.inside
            if re.match(r"\s*[@?][\w:+]*\w+/", text[start : start + 200]):
                parts.append(Part(each.start, each.end, "reference"))
                continue
            if is_code(_unescaped(plain_text(text, each.inner))):
                parts.append(Part(each.start, each.end, "no text"))
                continue
            cdata = [token for token in each.inner if token.kind != "text" or text[token.start : token.end].strip()]
            is_raw = [token.kind for token in cdata] == ["cdata"]
            decode, encode = (_unescaped, _in_cdata) if is_raw else (_decode, _encode)
            inline = Inline(text, decode, collapses=True, escaped=r"\\[nrt]|\\u00(?:20|[aA]0)")
            if is_raw:
                place, end = cdata[0].start + len("<![CDATA["), cdata[0].end - len("]]>")
                for match in _BLOCK.finditer(text, place, end) if resource.name != "plurals" else ():
                    inline.text(place, match.start())
                    inline.apart(_tags)
                    yield from in_place(inline, lines, encode, context=name, guard=_guarded, forms=forms, entities=True)
                    place = match.end()
                inline.text(place, end)
                inline.apart(_tags)
            else:
                collect(inline, each.inner, pairs=_PAIRS)
                inline.apart(_quotes())
            quantity = each.first.value(text, "quantity")
            if resource.name == "plurals" and quantity not in ("other", *forms) and quantity in CATEGORIES:
                parts.append(Part(each.start, each.end, "form that the target lacks"))
                continue
            segments = in_place(inline, lines, encode, context=name, guard=_guarded, forms=forms, entities=True)
            if resource.name == "plurals" and quantity == "other":
                segments = (replace(s, edits=partial(_forms, text, resource, each, forms, s)) for s in segments)
            yield from segments


def _forms(
    text: str, plural: Element, item: Element, forms: Sequence[str], segment: Segment, translation: Tagged, tell: Tell
) -> Iterator[Edit]:
    """Yields how the form for other numbers is written, with those of the target that the source has not."""
    items = {each.first.value(text, "quantity"): each for each in plural.elements}
    edits = [*segment.edits(translation, tell)]
    start, end = item.first.attributes(text)["quantity"]
    said, tail = edited(text, edits, item.inside), text[item.inside[1] : item.end]
    for form in forms:
        if form not in items:
            head = f"{text[item.start : start]}{quoted(form, text[start])}{text[end : item.first.end]}"
            yield Edit(item.start, item.start, [head, said, tail, break_before(text, item.start)])
    for name, each in items.items():
        if name in CATEGORIES and name not in ("other", *forms):
            yield Edit(each.start - len(break_before(text, each.start)), each.end, [])
    yield from edits


def _quotes() -> Callable[[str, Span], Iterator[Item]]:
    """Returns what finds quotes, which keep the space in them and are not shown; those of a string are pairs."""
    kinds: Iterator[Literal["open", "close"]] = cycle(("open", "close"))

    def find(text: str, span: Span) -> Iterator[Item]:
        for match in _QUOTE.finditer(text, *span):
            if match[0] == '"':
                yield Item(next(kinds), match.span(), '"')

    return find


def _tags(text: str, span: Span) -> Iterator[Item]:
    """Yields tags of HTML in raw text."""
    for match in _TAG.finditer(text, *span):
        if match[2] in _PAIRS:
            yield Item("close" if match[1] else "open", match.span(), match[2])
        else:
            yield Item("opaque", match.span())


def _decode(raw: str) -> str:
    return _unescaped(xml_unescape(raw))


def _unescaped(raw: str) -> str:
    def meaning(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] is not None else _ESCAPED.get(match[2], match[2])

    # Characters beyond U+FFFF are written as two.
    said = _ESCAPE.sub(meaning, raw).encode("utf-16", "surrogatepass")
    return said.decode("utf-16", "surrogatepass")


def _encode(text: str) -> str:
    return xml_escape(_escaped(text))


def _in_cdata(text: str) -> str:
    return _escaped(text).replace("]]>", "]]\\u003e")


def _escaped(text: str) -> str:
    text = text.replace("\\", "\\\\").replace("'", "\\'").replace('"', '\\"')
    text = text.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return _NOT_XML.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _guarded(pieces: Pieces, _: int) -> Pieces:
    """Returns a string; one that starts like a reference is told from one."""
    return ["\\", *pieces] if isinstance(pieces[0], str) and pieces[0][0] in "@?" else pieces
