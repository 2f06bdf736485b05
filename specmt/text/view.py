"""The view of a text: its characters as a model has learnt them, and where each of them is in the text as it came."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

CONTROL: Final = r"\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f"
"""Control characters that are no space, as a class of a regular expression."""

INVISIBLE: Final = f"{CONTROL}\xad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
"""Control characters, soft hyphens, and what else has no width, as a class of a regular expression."""

ANSI: Final = r"\x1b(?:\[[0-9:;<=>?]{0,60}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,300}(?:\x07|\x1b\\))"
"""What colours text on a terminal."""

_JOINERS: Final = "\u200c\u200d"
_SPACES: Final = {ord(c): " " for c in "\xa0\u1680\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))}
_SPACE: Final = re.compile(f"[{''.join(map(chr, _SPACES))}]")
_LIGATURES: Final = "\ufb00\ufb01\ufb02\ufb03\ufb04\ufb05\ufb06"
_ODD: Final = re.compile(f"[{INVISIBLE}{_LIGATURES}\uff01-\uff5e]")
_KEPT: Final = re.compile(ANSI)
_WIDE: Final = ("zh", "ja", "ko")
"""Languages whose own marks are wide."""

_WIDE_WORDS: Final = re.compile("[\u2e80-\ud7ff]")


class View(NamedTuple):
    """A text as a model sees it, its spaces as they came."""

    text: str
    raw: str
    """The text as it came."""

    starts: Sequence[int] | None = None
    """Where each character begins in the raw text, and where that ends; ``None`` where both are the same."""

    @property
    def plain(self) -> str:
        """The text with plain spaces, character for character."""
        return plain(self.text)

    def copied(self, start: int, end: int) -> str:
        """Returns a part of the text as it came."""
        return self.text[start:end] if self.starts is None else self.raw[self.starts[start] : self.starts[end]]


def plain(text: str) -> str:
    """Returns a text with plain spaces, character for character."""
    return text if text.isascii() or not _SPACE.search(text) else text.translate(_SPACES)


def view(raw: str, language: str = "") -> View:
    """Returns the view of a text: composed letters (NFC), no ligatures and wide forms, nothing that is invisible.

    Joiners stay in emoji and in scripts that need them, wide marks in languages that write them and in texts with
    words of those.

    :param language: the text's, such as ``de``
    """
    if not _ODD.search(raw) and (raw.isascii() or unicodedata.is_normalized("NFC", raw)):
        return View(raw, raw)
    keeps_wide = language.partition("-")[0] in _WIDE or _WIDE_WORDS.search(raw) is not None
    said: list[str] = []
    starts: list[int] = []
    place = 0
    while place < len(raw):
        end = place + 1
        kept = _KEPT.match(raw, place) if raw[place] == "\x1b" else None
        if kept:
            end = kept.end()
        elif _ODD.match(raw, place):
            new = _plain_form(raw[place], said[-1][-1] if said else "", keeps_wide)
            # Of the spaces around what is invisible one stays: they are no column.
            end += not new and said[-1:] == [" "] and raw[end : end + 1] == " "
            said += [new] if new else []
            starts += [place] * len(new)
            place = end
            continue
        else:
            while end < len(raw) and _continues(raw[end]):
                end += 1
        new, begin = raw[place:end], place
        if said and _continues(new[0]):  # what was between is invisible
            begin = starts[-len(said[-1])]
            del starts[-len(said[-1]) :]
            new = said.pop() + new
        composed = new if len(new) == 1 and new < "\u0340" else unicodedata.normalize("NFC", new)
        said.append(composed)
        starts += [min(begin + number, end - 1) for number in range(len(composed))]
        place = end
    return View("".join(said), raw, [*starts, len(raw)])


def _plain_form(c: str, before: str, keeps_wide: bool) -> str:
    """Returns what a character that is odd is in the view.

    :param before: what is visible in front of it
    """
    if c in _JOINERS:
        # In emoji, and in Arabic, Indic and other scripts whose letters change with their neighbours.
        return c if "\u0600" <= before < "\u1e00" or before >= "\u2190" else ""
    if c in _LIGATURES or "\uff01" <= c <= "\uff5e":
        return c if keeps_wide and not unicodedata.normalize("NFKC", c).isalnum() else unicodedata.normalize("NFKC", c)
    return ""


def _continues(c: str) -> bool:
    """Whether a character may be composed with the one before it."""
    if c < "\u0300":
        return False
    return unicodedata.category(c)[0] == "M" or "\u1161" <= c <= "\u11c2"
