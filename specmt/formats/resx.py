"""Resources of .NET: RESX."""

from __future__ import annotations

from collections.abc import Iterator

from specmt.formats.accelerators import hide
from specmt.formats.document import Document, FormatOptions, LineNumbers, Segment
from specmt.formats.inline import Inline, in_place
from specmt.formats.markup import (
    children,
    collect,
    opening_with,
    plain_text,
    value_of,
    xml_document,
    xml_escape,
    xml_unescape,
)
from specmt.formats.values import is_code


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads the strings of resources; those with a type, and what the designer notes of its own, are left.

    :raises DataError: it is damaged XML, or of another kind.
    """
    return xml_document(data, lambda text: hide(list(_segments(text))))


def _segments(text: str) -> Iterator[Segment]:
    lines = LineNumbers(text)
    for resource in children(opening_with("root", text), ("data",)):
        attributes = resource.first.attributes(text)
        name = value_of(text, attributes["name"]) if "name" in attributes else ""
        if "type" in attributes or "mimetype" in attributes or name.startswith(">>"):
            continue
        parts = {each.name: each for each in resource.elements}
        value = parts.get("value")
        if value is not None and not is_code(plain_text(text, value.inner)):
            note = plain_text(text, parts["comment"].inner) if "comment" in parts else ""
            inline = collect(Inline(text, xml_unescape), value.inner, pairs=frozenset())
            yield from in_place(inline, lines, xml_escape, context=name, note=note)
