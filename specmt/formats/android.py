"""String resources of Android."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from specmt.errors import DataError
from specmt.formats.document import Document, FormatOptions, LineNumbers, Pieces, Segment
from specmt.formats.inline import Inline, in_place
from specmt.formats.markup import children, collect, opening_with, value_of, xml_document, xml_escape, xml_unescape

_PAIRS_NAMES: Final = "a annotation b big cite dfn em font h1 h2 i li p small span strike strong sub sup tt u ul"
_PAIRS: Final = frozenset(_PAIRS_NAMES.split())
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t"}
_NOT_XML: Final = re.compile("[\0-\x08\x0b-\x1f\ud800-\udfff\ufffe\uffff]")
"""What XML cannot hold, but for its escape."""


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads resources; strings that are not ``translatable`` are left out, and references to other resources.

    :raises DataError: it is damaged XML, or of another kind.
    """
    return xml_document(data, _segments)


def _segments(text: str) -> Iterator[Segment]:
    lines = LineNumbers(text)
    names: dict[str, int] = {}
    for resource in children(opening_with("resources", text), ("string", "plurals", "string-array")):
        first, attributes = resource.first, resource.first.attributes(text)
        name = value_of(text, attributes["name"]) if "name" in attributes else ""
        if resource.name == "string" and first.kind == "open" and "product" not in attributes:
            if name in names:
                raise DataError(f"line {lines(first.start)} has the name {name!r} of line {names[name]} again")
            names[name] = lines(first.start)
        if "translatable" in attributes and value_of(text, attributes["translatable"]) == "false":
            continue
        items = (each for each in resource.elements if each.name == "item")
        for each in [resource] if resource.name == "string" else items:
            start, _ = each.inside
            if re.match(r"\s*[@?][\w:+]*\w+/", text[start : start + 200]):
                continue
            inline = Inline(text, _decode, collapses=True, escaped=r'"|\\[nt]')
            inline = collect(inline, each.inner, pairs=_PAIRS)
            yield from in_place(inline, lines, _encode, context=name, guard=_guarded)


def _decode(raw: str) -> str:
    def meaning(match: re.Match[str]) -> str:
        return chr(int(match[1], 16)) if match[1] is not None else _ESCAPED.get(match[2], match[2])

    # Characters beyond U+FFFF are written as two.
    said = _ESCAPE.sub(meaning, xml_unescape(raw)).encode("utf-16", "surrogatepass")
    return said.decode("utf-16", "surrogatepass")


def _encode(text: str) -> str:
    text = text.replace("\\", "\\\\").replace("'", "\\'").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return xml_escape(_NOT_XML.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def _guarded(pieces: Pieces, _: int) -> Pieces:
    """Returns a string; one that starts like a reference is told from one."""
    return ["\\", *pieces] if isinstance(pieces[0], str) and pieces[0][0] in "@?" else pieces
