"""Messages in JSON: nested objects of strings, ARB, and ICU plurals and selects in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

from specmt.errors import DataError
from specmt.formats.accelerators import hide
from specmt.formats.document import (
    Document,
    Edit,
    FormatOptions,
    LineNumbers,
    Part,
    Segment,
    Tell,
    TextDocument,
    edited,
)
from specmt.formats.encoding import decode
from specmt.formats.glued import Item
from specmt.formats.inline import Inline, in_place
from specmt.formats.outline import json_values
from specmt.formats.plurals import CATEGORIES, plural_forms
from specmt.formats.values import LETTER, NAME, is_code
from specmt.types import Span, Tagged


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads JSON; strings that are values are translated, but codes, and those of keys that start with ``@``.

    :raises DataError: it is no JSON.
    """
    text, encoding = decode(data)
    try:
        json.loads(text, parse_int=str)  # numbers may have any number of digits
    except json.JSONDecodeError as error:
        raise DataError(f"line {error.lineno} is not JSON: {error.msg}") from error
    reader = _Reader(text, plural_forms(options.target))
    segments = hide(list(reader.segments()), "&")

    def finish(_: Mapping[int, Tagged]) -> Iterator[Edit]:
        if reader.locale is not None:
            yield Edit(*reader.locale, [json.dumps(options.target)])

    return TextDocument(text, encoding, segments, finish=finish, parts=reader.parts)


_REFERENCE: Final = re.compile(
    r"(?P<copied>\$t\([^()]*\)|(?<!\w)@(?:\.\w+)?:(?:\([\w.-]+\)|\w+(?:[.-]\w+)*)|\[\[[^\[\]|\n]{1,300}\]\]|(?<![@.])"
    rf"{NAME}+(?!{LETTER}|:))"
    r"|(?P<link>\[\[[^\[\]|\n]{1,300}\|)(?=[^\[\]\n]{1,300}\]\])|\]\]"
    r"|(?<!['\w])(?P<open>'{2,3})(?=[^\s'][^'\n]{0,500}(?P=open)(?!'))|(?<!')'{2,3}(?!')"
)
"""What is copied, links of i18next and Vue and names of Laravel too, and marks of wikis for words that stand out."""

_INTERVALS: Final = re.compile(r"(?:\s*\([\dinf-]+\)\[[^\[\]]*\];?)+\s*")
_INTERVAL: Final = re.compile(r"(?:\A|\];?)\s*(?:\([\dinf-]+\)\[|\Z)")
_RANGE: Final = re.compile(r"(?:\A|\|)\s*(?:\{\d+\}|\[\d+,(?:\d+|\*)\])\s*")
_BAR: Final = re.compile(r"(?<!\s)\s+\|\s+")
"""What is between forms in one message: of i18next's intervals, of Laravel, of Vue."""

_FORM: Final = re.compile(rf"(.+?(?<!_ordinal))_({'|'.join(CATEGORIES)})")
"""A key of i18next for a plural form."""


class _Value(NamedTuple):
    """A string that is a value."""

    path: tuple[str, ...]
    key: Span
    span: Span
    after: int
    """Where the next key is, if that is beside it; else 0."""


class _Reader:
    def __init__(self, text: str, forms: Sequence[str]) -> None:
        self.locale: Span | None = None
        """Where an ARB file says its language."""
        self.parts: list[Part] = []
        self._text = text
        self._lines = LineNumbers(text)
        self._forms = forms
        # Who wrote all of it in ASCII wants to have it so.
        self._is_ascii = text.isascii() and "\\u" in text

    def segments(self) -> Iterator[Segment]:
        """Yields the strings that are texts."""
        values = [
            _Value(each.path, each.key, each.span, following.key[0])
            for each, following in pairwise(json_values(self._text))
            if each.kind == "value" and self._text[each.span[0]] == '"'
        ]
        plurals: dict[tuple[str, ...], dict[str, _Value]] = {}
        for value in values:
            if (form := _FORM.fullmatch(value.path[-1])) is not None:
                plurals.setdefault((*value.path[:-1], form[1]), {})[form[2]] = value
        names = {value.path for value in values}
        for value in values:
            *above, name = value.path
            if value.path == ("@@locale",):
                self.locale = value.span
            # Of Chrome and Docusaurus, of FormatJS, and of Transifex.
            is_note = name == "description" and not names.isdisjoint({(*above, "message"), (*above, "defaultMessage")})
            is_note |= name == "developer_comment" and (*above, "string") in names
            is_note |= above[-2:-1] == ["placeholders"] and (*above[:-2], "message") in names
            start, end = value.span[0] + 1, value.span[1] - 1
            if is_note or any(key.startswith("@") for key in value.path):
                self.parts.append(Part(*value.span, "note"))
                continue
            if is_code(_decode(self._text[start:end]), name):
                self.parts.append(Part(*value.span, "no text"))
                continue
            form = _FORM.fullmatch(name)
            group = plurals[(*above, form[1])] if form else {}
            if form is None or "other" not in group or len(group) == 1:
                yield from self._string((start, end), value.path)
            elif self._is_gone(form[2], value):
                self.parts.append(Part(*value.span, "form that the target lacks"))
            else:
                for segment in self._string((start, end), value.path):
                    edits = partial(self._plural, form[1], group, segment) if form[2] == "other" else segment.edits
                    yield replace(segment, edits=edits)

    def _is_gone(self, form: str, value: _Value) -> bool:
        """Whether the target has not the plural form that a value is."""
        return form not in ("zero", "other", *self._forms) and value.after > 0

    def _plural(
        self, base: str, group: Mapping[str, _Value], segment: Segment, translation: Tagged, tell: Tell
    ) -> Iterator[Edit]:
        """Yields how the form for other numbers is written, with those that only the target has, of i18next."""
        edits = [*segment.edits(translation, tell)]
        key, (start, end) = group["other"].key, group["other"].span
        said = edited(self._text, edits, (start, end))
        before = self._text[max(0, key[0] - 200) : key[0]]
        space = before[len(before.rstrip()) :]
        between = self._text[key[1] : start]
        for form in self._forms:
            if form not in group:
                yield Edit(key[0], key[0], [f"{json.dumps(f'{base}_{form}')}{between}{said},{space}"])
        yield from (Edit(each.key[0], each.after, []) for form, each in group.items() if self._is_gone(form, each))
        yield from edits

    def _string(self, span: Span, path: Sequence[str]) -> Iterator[Segment]:
        inline = Inline(self._text, _decode, escaped=r"\\[ntr]|\\u00(?:20|[aA]0)")
        raw, place = self._text[slice(*span)], span[0]
        ranges = _INTERVAL if _INTERVALS.fullmatch(raw) else _RANGE if len(_RANGE.findall(raw)) > 1 else _BAR
        # One that is a plural form by its key has no others in it.
        for match in ranges.finditer(raw) if _FORM.fullmatch(path[-1]) is None else ():
            inline.text(place, span[0] + match.start())
            inline.cut(span[0] + match.start(), span[0] + match.end())
            place = span[0] + match.end()
        inline.text(place, span[1])
        inline.apart(_nested)
        return in_place(inline, self._lines, self._encode, context=".".join(path), forms=self._forms, entities=True)

    def _encode(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=self._is_ascii)[1:-1]


def _nested(text: str, span: Span) -> Iterator[Item]:
    """Yields references of i18next to other messages, and marks and links of wikis."""
    mark = link = ""
    for match in _REFERENCE.finditer(text, *span):
        if match["copied"]:
            yield Item("opaque", match.span())
        elif match["link"] or match[0] == "]]":
            if match["link"] or link:
                yield Item("open" if match["link"] else "close", match.span(), "link")
            link = match["link"] or ""
        elif match[0] == mark or (match["open"] and not mark):
            yield Item("close" if mark else "open", match.span(), match[0])
            mark = "" if mark else match[0]


def _decode(raw: str) -> str:
    return str(json.loads(f'"{raw}"', strict=False)) if "\\" in raw else raw
