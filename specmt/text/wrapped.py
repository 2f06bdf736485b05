"""Text whose sentences are broken over lines: paragraphs to be translated whole, and dealt out over as many lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from specmt.text.layout import split_prefix
from specmt.text.segment import CLOSERS
from specmt.types import Line, Translation

MOST_LINES: Final = 200
"""What has more lines is not one paragraph."""

_MARGIN: Final = re.compile(r"(?:\s|>(?!=))*(?:(?:#{1,6}|//[/!]?)\s+)?")
"""What all lines of a paragraph may begin with."""

_LATER: Final = re.compile(r"(?<![\w.])(?!1[.)])[0-9]+[.)]\s+$")
"""A list mark that begins no list."""

_WORD: Final = re.compile(r"[^\W_]")
_ROW: Final = re.compile(r"\S(?:\s{3,}|\t)\S")
_DIVIDED: Final = re.compile(r"(\w+(?:-\w+)*)([-\u2010\xad])$")
_JOINED: Final = re.compile(r"(?:und|oder|bzw|beziehungsweise|sowie|bis|als|noch|wie|and|or|to|versus)\b")
_HYPHENATED: Final = frozenset(
    ("all", "cross", "ex", "half", "high", "long", "low", "non", "self", "short", "so", "well")
)
"""First words of English compounds that have a hyphen."""


@dataclass(frozen=True, slots=True)
class Paragraph(Line):
    """Several lines of input text, as one."""

    lines: tuple[Line, ...] = ()

    @property
    def count(self) -> int:
        """How many lines of the input it is."""
        return len(self.lines)


def join_lines(lines: Iterable[Line], language: str = "de") -> Iterator[Line]:
    """Yields the paragraphs of several lines as one line each, and all other lines as they are."""
    for first, *others in paragraphs(lines, language):
        if others:
            text = unwrap([line.text for line in (first, *others)], language)
            yield Paragraph(first.index, text, others[-1].ending, lines=(first, *others))
        else:
            yield first


def part_lines(translation: Translation, language: str = "de") -> str:
    """Returns a translation in as many lines as there were, with their endings."""
    line = translation.line
    if not isinstance(line, Paragraph):
        return translation.text + line.ending
    texts = deal_out(translation.text, [each.text for each in line.lines], language)
    return "".join(text + each.ending for text, each in zip(texts, line.lines, strict=True))


def paragraphs(lines: Iterable[Line], language: str = "de") -> Iterator[list[Line]]:
    """Yields the lines in groups: paragraphs, and each line that is not a part of one (blank, a row of a table) alone.

    The lines of a paragraph have the same indentation and marks of quotes or comments; those below a list mark may be
    indented as its text. A paragraph is yielded as soon as the line that ends it is there.
    """
    pending: list[Line] = []
    margins: set[str] = set()
    in_list = False
    for line in lines:
        prefix, rest = split_prefix(line.text, language)
        margin = _split(line.text)[0]
        is_item = margin != prefix and (in_list or not _LATER.search(prefix))
        if pending and (is_item or margin not in margins or not _is_prose(rest)):
            yield pending
            pending = []
        if not _is_prose(rest):
            yield [line]
            continue
        # All others begin as the second does; that may be below the text that a list mark stands before.
        if pending:
            margins = {margin}
        else:
            margins, in_list = {margin, margin + " " * (len(prefix) - len(margin))}, margin != prefix
        pending.append(line)
        if len(pending) == MOST_LINES:
            yield pending
            pending = []
    if pending:
        yield pending


def unwrap(sources: Sequence[str], language: str = "de") -> str:
    """Returns the lines of a paragraph as one, without their prefixes, and with the words whole that were divided.

    A hyphen stays before “und” or “or”, with its space (“Nord- und Südsee”), and without one before a capital or a
    digit (“Nord-Süd”) and in compounds that have others (“E-Mail-Adresse”, “state-of-the-art”).
    """
    text = ""
    for _, rest in _bodies(sources, language):
        body = " ".join(rest.split())
        divided = _DIVIDED.search(text, max(0, len(text) - 80))
        if not divided or not body[:1].isalnum() or (divided[2] != "\xad" and _JOINED.match(body)):
            text += " " * bool(text and body) + body
        elif divided[2] == "\xad" or (
            body[0].islower()
            and divided[1][-1].islower()
            and "-" not in divided[1]
            and not (language == "en" and divided[1].lower() in _HYPHENATED)
        ):
            text = text[:-1] + body
        else:
            text += body
    return text


def deal_out(translation: str, sources: Sequence[str], language: str = "de") -> list[str]:
    """Returns a translation in as many lines as there were, about as long as those, each with its prefix.

    It is cut at spaces. Only where it has fewer words than there are lines, the last ones have none.
    """
    parts = _bodies(sources, language)
    ends = [*accumulate(len(rest) for _, rest in parts)]
    scale = len(translation) / max(1, ends[-1]) if ends else 0
    words = [word.span() for word in re.finditer(r"\S+", translation)]
    lines: list[str] = []
    first = 0
    for (prefix, rest), end in zip(parts, ends, strict=True):
        below = len(parts) - len(lines) - 1
        last = min(first + 1, len(words))
        # Each of the lines below keeps a word, if there are so many.
        while last < len(words) - below and (not below or words[last - 1][1] + words[last][1] <= 2 * end * scale):
            last += 1
        if last > first:
            lines.append(prefix + translation[words[first][0] : words[last - 1][1]] + rest[len(rest.rstrip()) :])
        else:
            lines.append(prefix.rstrip())
        first = last
    return lines


class WrapCounter:
    """Counts lines that end in the middle of a sentence, to tell text that is broken over lines from text that is not.

    That is so for a line of some length without a mark at its end, before one that begins with a small letter.
    """

    def __init__(self) -> None:
        self._lines = 0
        self._broken = 0
        self._is_open = False

    def observe(self, text: str) -> None:
        """Takes the next line."""
        text = _split(text)[1].strip()
        if text:
            self._lines += 1
            self._broken += self._is_open and text[0].islower()
        self._is_open = len(text) >= 40 and text.rstrip(CLOSERS)[-1:] not in tuple(".!?…:;")

    @property
    def is_wrapped(self) -> bool:
        """Whether at least a third of at least eight lines ended so."""
        return self._lines >= 8 and 3 * self._broken >= self._lines


def _bodies(sources: Sequence[str], language: str) -> list[tuple[str, str]]:
    """Returns the lines of a paragraph with their prefixes apart; only the first may have a list mark."""
    return [_split(source) if number else split_prefix(source, language) for number, source in enumerate(sources)]


def _split(text: str) -> tuple[str, str]:
    end = _MARGIN.match(text).end()  # type: ignore[union-attr]
    return text[:end], text[end:]


def _is_prose(text: str) -> bool:
    return _WORD.search(text) is not None and _ROW.search(text) is None
