"""Texts that are held fast: cut at all that must not be lost, so that only what is between is translated."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final, final

from specmt.text.placeholders import find_tokens
from specmt.text.tags import every
from specmt.text.view import CONTROL, plain
from specmt.types import Tag, Tagged

_CONTROL: Final = re.compile(f"[{CONTROL}]+")


@final
class Held:
    """A text cut at its tags and at what is to be copied, which keep their order."""

    def __init__(self, source: Tagged) -> None:
        self._source = source
        found = [*find_tokens(plain(source.text))]
        tokens = [(token.start, token.end) for token in found]
        starts = [start for start, _ in tokens]
        self._words = {(token.start, token.end) for token in found if token.kind in ("braces", "printf")}
        """Placeholders, which are words."""
        tags = [*every(source.tags)]
        edges = {place for tag in tags for place in (tag.start, tag.end)}
        control = [place for found in _CONTROL.finditer(source.text) for place in found.span()]
        self._edges = {place for tag in tags if not tag.is_placeholder for place in (tag.start, tag.end)}
        """Of pairs and points, where words may touch."""
        self._places = sorted({0, len(source.text), *edges, *control, *(place for token in tokens for place in token)})
        self._parts: list[str] = []
        """What is between the places: words to be translated, or nothing where it is copied."""
        for start, end in pairwise(self._places):
            token = bisect_right(starts, start) - 1
            said = source.text[start:end].strip()
            is_copied = (token >= 0 and end <= tokens[token][1]) or not any(map(str.isalpha, said))
            self._parts.append("" if is_copied else said)
        self.is_held: Final = len(self._places) > 2 or not any(self._parts)
        """Whether there is anything to be held."""
        self.parts: Final = [part for part in self._parts if part and self.is_held]
        """What is to be translated."""

    def join(self, said: Sequence[str]) -> Tagged:
        """Returns the text with the translations of its parts; words are parted from what is copied as they were."""
        source, text, moved, translations = self._source.text, "", {0: 0}, iter(said)
        shown = before = ""  # what source and translation end with, where a placeholder is a word
        for (start, end), part in zip(pairwise(self._places), self._parts, strict=True):
            raw = source[start:end]
            new = raw.replace(part, next(translations).strip(), 1) if part else raw
            word = "x" if (start, end) in self._words else ""
            if _touches(before, word or new) and not (start in self._edges or _touches(shown, word or raw)):
                text += " "
            text += new
            moved[end] = len(text)
            shown, before = word or raw, word or new or before

        def shifted(tag: Tag) -> Tag:
            children = tuple(map(shifted, tag.children))
            start = moved[tag.end] - (tag.end - tag.start) if tag.is_placeholder else moved[tag.start]
            return replace(tag, start=start, end=moved[tag.end], children=children)

        return Tagged(text, tuple(map(shifted, self._source.tags)))


def _touches(before: str, after: str) -> bool:
    """Whether two texts beside each other make one word."""
    return before[-1:].isalnum() and after[:1].isalnum()
