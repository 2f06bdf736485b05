"""The content of Markdown's blocks, without what is in front of its lines, and where each character of it is."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final, final

from markdown_it.token import Token

from specmt.types import Span

LINE_END: Final = re.compile(r"\r\n|\r|\n")
PREFIX: Final = re.compile(r"(?:[ \t]*(?:>|[-+*:~](?=[ \t])|\d{1,9}[.)](?=[ \t])|\[\^[^\]]*\]:))*[ \t]*")
"""What may be in front of a block in its first line."""

_HEADING: Final = re.compile(rf"{PREFIX.pattern}#{{1,6}}[ \t]")
_HEADING_END: Final = re.compile(r"[ \t]#+\Z")
_BAR: Final = re.compile(r"(?<!\\)\|")
_BLANK: Final = re.compile(r"[ \t]+")


@final
class Content:
    """The content of a block."""

    def __init__(self) -> None:
        self.text = ""
        self._at = array("q")

    def add(self, text: str, at: Iterable[int]) -> None:
        """Takes more of it, and where that is."""
        self.text += text
        self._at.extend(at)

    def span(self, start: int, end: int) -> Span:
        """Returns where a part is in the document."""
        if start == end:
            place = self._at[start] if start < len(self._at) else self._at[-1] + 1
            return place, place
        return self._at[start], self._at[end - 1] + 1


@final
class SourceLines:
    """Where the lines of a page are."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends = [match.span() for match in LINE_END.finditer(text)] + [(len(text), len(text))]
        self._starts = [0, *(end for _, end in self._ends[:-1])]

    def number(self, place: int) -> int:
        """Returns the line that a place is in, from 1."""
        return bisect_left(self._ends, (place, place)) + 1

    def span(self, first: int, last: int) -> Span:
        """Returns where lines are, from one up to another, from 0."""
        return self._starts[first], self._ends[min(last, len(self._ends)) - 1][0]

    def content(self, token: Token, cell: Span | None) -> Content | None:
        """Returns the content of a block; ``None`` where it is not there.

        :param cell: where it is, in a table
        """
        content = Content()
        if cell is not None:
            raw = self._text[slice(*cell)]
            at = range(*cell) if "\\|" not in raw else (n for n in range(*cell) if not self._text.startswith("\\|", n))
            content.add(raw.replace("\\|", "|"), at)
        elif token.map is not None:
            lines = token.content.split("\n")
            for number, line in enumerate(lines, token.map[0]):
                if number > token.map[0]:
                    content.add("\n", [self._ends[number - 1][1] - 1])
                said = line.lstrip()
                place = self._place(token, number, said, is_last=number + 1 == token.map[0] + len(lines))
                content.add(" " * (len(line) - len(said)), [place - 1] * (len(line) - len(said)))
                content.add(self._text[place : place + len(said)], range(place, place + len(said)))
        if content.text == token.content:
            return content
        said = _BLANK.sub(" ", token.content)
        return content if _BLANK.sub(" ", content.text.replace("\0", "\ufffd")) == said else None

    def _place(self, token: Token, number: int, said: str, *, is_last: bool) -> int:
        """Returns where a line of content is: it ends where its line does, but for space and the end of a heading."""
        start, end = self._starts[number], self._ends[number][0]
        if not is_last:
            return end - len(said)
        line = self._text[start:end].rstrip()
        if "behind" in token.meta:
            return start + len(line) - int(token.meta["behind"])
        tail = _HEADING_END.search(line) if _HEADING.match(line) else None
        return start + len(line[: tail.start()].rstrip() if tail else line) - len(said)


def cells(text: str, span: Span) -> Iterator[Span]:
    """Yields where the cells of a row are, without the space around them."""
    row = text[slice(*span)].rstrip()
    prefix = PREFIX.match(row)
    start = prefix.end() if prefix else 0
    start += row.startswith("|", start)
    end = len(row) - (row.endswith("|") and not row.endswith("\\|"))
    bars = [match.start() for match in _BAR.finditer(row, start, end)]
    for left, right in zip([start, *(bar + 1 for bar in bars)], [*bars, end], strict=True):
        cell = row[left:right]
        left += len(cell) - len(cell.lstrip())
        yield span[0] + left, span[0] + left + len(cell.strip())
