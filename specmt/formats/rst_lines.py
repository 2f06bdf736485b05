"""Lines of reStructuredText: how far they are indented, and which blocks they begin."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Final, final

_LINE_END: Final = re.compile(r"\r\n|[\n\r\x1c-\x1e\x85\u2028\u2029]")
_TAB: Final = 8
_ROMAN: Final = r"m{0,4}(?:cm|cd|d?c{0,3})(?:xc|xl|l?x{0,3})(?:ix|iv|v?i{0,3})"
BULLET: Final = re.compile(r"[-+*•‣⁃](?:\s+|\Z)")
_NUMBER: Final = re.compile(
    rf"\(?(?P<at>\d{{1,9}}|[A-Za-z]|\#|(?=[ivxlcdm]){_ROMAN}|(?=[IVXLCDM]){_ROMAN.upper()})[.)](?:\s+|\Z)"
)
FIELD: Final = re.compile(r":(?![: ])(?:[^:\\]|\\.|:(?![\s`]|\Z))*(?<! ):(?:\s+|\Z)")
_NAMED: Final = r"[A-Za-z][\w-]*"  # with nothing between, it goes on with an option's letters: read in one way only
_OPTION: Final = rf"(?:--?\w[\w-]*(?:[ =]{_NAMED}|[ =]?<[^<>]+>)?|/\w(?:[ =]?(?:{_NAMED}|<[^<>]+>))?)"
OPTIONS: Final = re.compile(rf"{_OPTION}(?:, {_OPTION})*(?:\s\s+|\Z)")
DOCTEST: Final = re.compile(r">>>(?:\s|\Z)")
FENCE: Final = re.compile(r"`{3}(?P<language>[\w+-]*)[ \t]*\Z")
"""Around code as in Markdown, which is none to docutils, and is code to those who write it."""

VERSE: Final = re.compile(r"\|(?:\s+|\Z)")
GRID: Final = re.compile(r"\+-[-+]+-\+\Z")
SIMPLE: Final = re.compile(r"=+(?:\s+=+)+\Z")
EXPLICIT: Final = re.compile(r"\.\.(?:\s+|\Z)")
ANONYMOUS: Final = re.compile(r"__(?:\s|\Z)")
ADORNMENT: Final = re.compile(r"([!-/:-@\[-`{-~])\1*\Z")
_MARKS: Final = (
    BULLET, _NUMBER, FIELD, OPTIONS, DOCTEST, VERSE, GRID, SIMPLE, EXPLICIT, ANONYMOUS, ADORNMENT,
)  # fmt: skip
"""How blocks begin that are no paragraphs."""

_MAY_MARK: Final = re.compile(r"[^\w\s]|_|\w+[.)]")


@dataclass(slots=True)
class Line:
    """A line."""

    first: int
    """Where its text begins."""
    end: int
    """Where that ends, without the space behind it; equal to ``first`` in a blank line."""
    column: int
    """How far it is indented."""

    @property
    def is_blank(self) -> bool:
        return self.first == self.end


@final
class Lines:
    """The lines of a page, which lose what blocks begin with as these are read."""

    def __init__(self, text: str) -> None:
        self._text = text
        ends = [match.span() for match in _LINE_END.finditer(text)]
        self._starts = [0, *(end for _, end in ends)]
        self._all: list[Line] = []
        for start, (end, _) in zip(self._starts, [*ends, (len(text), 0)], strict=True):
            raw = text[start:end].rstrip()
            first = start + len(raw) - len(raw.lstrip())
            self._all.append(Line(first, start + len(raw), self.column(start, first, 0)))

    def __len__(self) -> int:
        return len(self._all)

    def __getitem__(self, number: int) -> Line:
        return self._all[number]

    def number(self, place: int) -> int:
        """Returns the number of the line that a place is in, from 1."""
        return bisect_right(self._starts, place)

    def column(self, start: int, end: int, column: int) -> int:
        """Returns the column of a place, given one before it."""
        return len((" " * column + self._text[start:end]).expandtabs(_TAB))

    def raw(self, number: int) -> str:
        """Returns the text of a line."""
        return self._text[self._all[number].first : self._all[number].end]

    def indented(self, number: int, last: int, indent: int) -> int:
        """Returns up to which line all are blank or indented further."""
        while number < last and (self._all[number].is_blank or self._all[number].column > indent):
            number += 1
        while number and self._all[number - 1].is_blank:
            number -= 1
        return number

    def indent(self, first: int, last: int) -> int:
        """Returns how far lines are indented."""
        return min((line.column for line in self._all[first:last] if not line.is_blank), default=0)

    def paragraph_end(self, number: int, last: int, indent: int = -1) -> int:
        """Returns up to which line none is blank, and all are indented further."""
        while number < last and not self._all[number].is_blank and self._all[number].column > indent:
            number += 1
        return number

    def field(self, number: int, last: int) -> int:
        """Returns the first line that begins a field, or the end where none does."""
        return next((n for n in range(number, last) if FIELD.match(self.raw(n))), last)

    def is_overline(self, number: int, last: int) -> bool:
        """Whether a line is over a title."""
        raw = self.raw(number)
        if not ADORNMENT.match(raw) or number + 2 >= last or self._all[number + 1].is_blank or raw == "::":
            return False
        return self.raw(number + 2) == raw and self._all[number + 2].column == self._all[number].column

    def item(self, number: int, last: int, indent: int) -> re.Match[str] | None:
        """Returns the mark of an item of a list, unless the next line makes it text."""
        match = _NUMBER.match(self.raw(number))
        if match is None or number + 1 == last:
            return match
        after = self._all[number + 1]
        if after.is_blank or after.column > indent:
            return match
        other = _NUMBER.match(self.raw(number + 1))
        if other is None:
            return None
        if match["at"].isdecimal() and other["at"].isdecimal():
            return match if int(other["at"]) == int(match["at"]) + 1 else None
        return match


def mark_of(line: str) -> re.Pattern[str] | None:
    """Returns what block a line begins, which is no paragraph."""
    return next((pattern for pattern in _MARKS if pattern.match(line)), None) if _MAY_MARK.match(line) else None
