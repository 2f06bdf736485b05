"""Resources of .NET: RESX."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from specmt.formats.accelerators import find, hide
from specmt.formats.document import Document, FormatOptions, LineNumbers, Part, Segment
from specmt.formats.inline import Inline, in_place
from specmt.formats.left import told
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
from specmt.formats.plurals import plural_forms
from specmt.formats.values import is_code

_STRING: Final = re.compile(r"System\.String\b(?!\[)")


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads the strings of resources; those of another type, and what the designer notes of its own, are left.

    :raises DataError: it is damaged XML, or of another kind.
    """
    parts: list[Part] = []
    forms = plural_forms(options.target)
    return told(xml_document(data, lambda text: hide(list(_segments(text, parts, forms))), parts), "resx")


def _segments(text: str, parts: list[Part], forms: Sequence[str]) -> Iterator[Segment]:
    lines = LineNumbers(text)
    for resource in children(opening_with("root", text), ("data",)):
        attributes = resource.first.attributes(text)
        name = resource.first.value(text, "name")
        kind = value_of(text, attributes["type"]) if "type" in attributes else "System.String"
        if not _STRING.match(kind) or "mimetype" in attributes or name.startswith(">>"):
            parts.append(Part(resource.start, resource.end, "value of another kind"))
            continue
        inner = {each.name: each for each in resource.elements}
        value = inner.get("value")
        said = plain_text(text, value.inner) if value is not None else ""
        if value is not None and find(said) is None and is_code(said):
            parts.append(Part(value.start, value.end, "no text"))
        elif value is not None:
            inline = collect(Inline(text, xml_unescape), value.inner, pairs=frozenset())
            yield from in_place(inline, lines, xml_escape, context=name, forms=forms, entities=True)
