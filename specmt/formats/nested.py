"""Texts in the text of a message: branches of plurals and selects of ICU, what is read in tags, and is beside code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from specmt.formats.document import LineNumbers, TextDocument
from specmt.formats.encoding import Encoding
from specmt.formats.glued import Item
from specmt.formats.icu import has_choice
from specmt.formats.inline import Inline, fenced, in_place

_TAG: Final = re.compile(
    r"""<(?P<open>[a-z][\w-]*)(?=[\s>])(?:[^<>"']|"[^"<>]*"|'[^'<>]*')*>|</(?P<close>[a-z][\w-]*)\s*>""", re.IGNORECASE
)
_SAID: Final = re.compile(
    r"""\s(?:alt|title|placeholder|aria-label)\s*=\s*(?P<quote>\\?["'])(?P<said>(?=[^<>{}"']*[^\W\d_]{2})[^<>{}"'\\]+)
        (?P=quote)""",
    re.VERBOSE | re.IGNORECASE,
)
_EMPTY: Final = frozenset(("area", "br", "embed", "hr", "img", "input"))


def texts_in(text: str, forms: Sequence[str]) -> TextDocument | None:
    """Returns the text of a message as a document, if it has texts in it that can be taken apart.

    :param forms: the plural forms of the target; without them plurals and selects are not taken apart
    """
    tags = [*_TAG.finditer(text)] if "<" in text else []
    said = [said for tag in tags for said in _SAID.finditer(text, *tag.span())]
    encoding = Encoding("utf-8")
    nested = said or any(fenced(text, (0, len(text)))) or (forms and has_choice(text))
    if not nested or not encoding.can_encode(text):
        return None
    inline = Inline(text)
    inline.text(0, len(text))
    inline.apart(lambda text, _: _items(text, tags) if said else ())
    inline.apart(fenced)
    segments = [*in_place(inline, lines := LineNumbers(text), forms=forms)]
    for each in said:
        inline.text(*each.span("said"))
        segments += in_place(inline, lines, lambda said, by=each["quote"][-1]: said.replace(by, f"&#{ord(by)};"))  # type: ignore[misc]
    return None if any(each.state == "skipped" for each in segments) else TextDocument(text, encoding, segments)


def _items(text: str, tags: Sequence[re.Match[str]]) -> Iterator[Item]:
    """Yields the tags that have texts in them, and those that close these."""
    opened: dict[str, list[bool]] = {}
    for tag in tags:
        name = str(tag["open"] or tag["close"]).lower()
        is_read = _SAID.search(text, *tag.span()) is not None
        if name in _EMPTY:
            yield from [Item("opaque", tag.span())] if is_read else ()
            continue
        if tag["open"]:
            opened.setdefault(name, []).append(is_read)
        elif opened.get(name):
            is_read = opened[name].pop()
        if is_read:
            yield Item("open" if tag["open"] else "close", tag.span(), name)
