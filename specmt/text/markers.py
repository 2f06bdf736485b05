"""Pairs of placeholders around words, as in ``%1$sterms of use%2$s``: tags, which are placed by alignment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from specmt.types import Span, Tag, Tagged

if TYPE_CHECKING:
    from specmt.text.tags import Alignment

_PAIR: Final = re.compile(
    r"(?<!\w)(?P<open>%(?:\d{1,2}\$)?[s@]|\{(?P<name>[A-Za-z][\w.-]{0,40})\})(?=[^\W\d_])"
    r"(?P<text>(?:[^%{}\n]|%(?![\d\w@%])){0,300}[^\s%{}])(?P<close>(?(name)\{/(?P=name)\}|%(?:\d{1,2}\$)?[s@]))(?!\w)"
)
_WORD: Final = re.compile(r"[^\W\d_]{3}")


def take_markers(line: str) -> Tagged:
    """Returns a line without the pairs of placeholders around words, and the pairs as tags."""
    text, tags, done = "", list[Tag](), 0
    for match in _PAIR.finditer(line) if "%" in line or "{/" in line else ():
        if _WORD.search(match["text"]):
            text += line[done : match.start()]
            start, done = len(text), match.end()
            text += match["text"]
            tags.append(Tag(start, len(text), match.span("open"), match.span("close")))
    return Tagged(text + line[done:], tuple(tags))


def marks_in(line: str) -> list[Span]:
    """Returns where the placeholders of these pairs are."""
    tags = take_markers(line).tags
    return sorted(span for tag in tags for span in (tag.open, tag.close) if span is not None)


def put_markers(tagged: Tagged, line: str, translation: str, alignment: Alignment | None = None) -> str:
    """Returns a translation with the pairs that were taken from a line.

    :param alignment: pairs of a word of the text without them and a word of the translation
    """
    from specmt.text.tags import carry  # late, as few lines have any

    placed, _ = carry(tagged, translation, alignment)
    text, done = "", 0
    for tag in placed.tags:
        start, end = max(tag.start, done), max(tag.end, done)
        assert tag.close is not None
        text += f"{translation[done:start]}{line[slice(*tag.open)]}{translation[start:end]}{line[slice(*tag.close)]}"
        done = end
    return text + translation[done:]
