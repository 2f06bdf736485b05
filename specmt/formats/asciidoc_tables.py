"""Tables of AsciiDoc: where their cells are, and how texts are written in these."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

_SPEC: Final = re.compile(
    r"(?:^|(?<=\s))(?:(?P<wide>\d{0,9})(?:\.(?P<high>\d{1,9}))?(?P<what>[*+]))?[<^>]?(?:\.[<^>])?(?P<style>[a-z])?\Z"
)
_COLUMNS: Final = re.compile(r"\bcols\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^,\]\s]+))")
_COLUMN: Final = re.compile(r"(?:(\d{1,9})\*)?[^,;]*?([a-z]?)\Z")
_FORMAT: Final = re.compile(r"\bformat\s*=\s*[\"']?(\w+)")
_SEPARATOR: Final = re.compile(r"\bseparator\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^,\]\s]+))")
_MOST_COLUMNS: Final = 500
"""How many columns have a style of their own; those of a cell are looked at one by one."""

_FORMATS: Final = {",": "csv", ":": "dsv"}
_SEPARATORS: Final = {"csv": ",", "dsv": ":", "psv": "|"}


class Cell(NamedTuple):
    """A cell."""

    mark: int
    """Where what is in front of its text begins."""
    start: int
    end: int
    style: str
    """Its style; ``l`` where its text stays as it is."""
    in_quotes: bool | None = None
    """Whether it is a value in quotes; nothing where what parts cells is escaped in it."""


@dataclass(frozen=True, slots=True)
class Within:
    """How texts are written in the cells of a table."""

    separator: str
    in_quotes: bool | None

    def decode(self, raw: str) -> str:
        """Returns what raw text means."""
        return (
            raw.replace('""', '"') if self.in_quotes is not None else raw.replace(f"\\{self.separator}", self.separator)
        )

    def encode(self, said: str) -> str:
        """Returns text as it is written."""
        if self.in_quotes is not None:
            return said.replace('"', '""')
        return re.sub(rf"(?<!\\){re.escape(self.separator)}", lambda match: f"\\{match[0]}", said)

    def needs_quotes(self, raw: str) -> bool:
        """Whether the text of a cell without quotes gets some."""
        return self.in_quotes is False and any(char in raw for char in f'"{self.separator}')


def separator_of(opening: str, attributes: str) -> tuple[str, str]:
    """Returns the format of a table, and what parts its cells; nothing where it is not known."""
    form, own = _FORMAT.search(attributes), _SEPARATOR.search(attributes)
    name = form[1] if form else _FORMATS.get(opening[0], "psv")
    separator = next(filter(None, own.groups()), "") if own else _SEPARATORS.get(name, "")
    return name, separator if len(separator) == 1 and opening[0] != "!" else ""


def cells_of(text: str, start: int, end: int, name: str, separator: str, attributes: str) -> Iterator[Cell]:
    """Yields the cells of a table between two places.

    :param name: its format
    :raises ValueError: its values cannot be told apart.
    """
    columns = _Columns(attributes)
    if name == "psv":
        bars = [match.start() for match in re.compile(rf"(?<!\\){re.escape(separator)}").finditer(text, start, end)]
        places: list[tuple[int, int, str]] = []
        line = before = start
        for bar in bars:
            line, before = max(line, text.rfind("\n", before, bar) + 1), bar
            spec = _SPEC.search(text[max(line, bar - 20) : bar])
            if not text.startswith("//", line) or text.startswith("///", line):
                places.append((bar if spec is None else bar - len(spec[0]), bar + 1, columns.style(spec)))
        for (mark, first, style), (last, _, _) in zip(places, [*places[1:], (end, 0, "")], strict=False):
            yield Cell(mark, first, last, style)
        return
    by = re.escape(separator)
    plain = rf"(?![\" \t])[^{by}\r\n]*" if name != "dsv" else rf"(?:[^{by}\\\r\n]|\\.)*"
    quoted = r'"(?P<quoted>[^"]*(?:""[^"]*)*)"[ \t]*|' if name != "dsv" else ""
    value = re.compile(rf"[ \t]*(?:{quoted}(?P<plain>{plain}))(?P<end>{by}|\r?\n|\Z)")
    place, at_line = start, True
    while place < end:
        match = value.match(text, place, end)
        if match is None:
            raise ValueError
        is_quoted = match["plain"] is None
        said = match["quoted"] if is_quoted else match["plain"]
        if not at_line or said or match["end"] == separator:
            first, last = match.span("quoted" if is_quoted else "plain")
            in_quotes = is_quoted if name != "dsv" else None
            yield Cell(first - is_quoted, first, last, columns.style(None), in_quotes)
        place, at_line = match.end(), match["end"] != separator


@dataclass(frozen=True, slots=True)
class Value:
    """How a text is written in a value of a macro."""

    quote: str
    around: Within | Value | None
    """The cell that the macro is in."""

    def decode(self, raw: str) -> str:
        """Returns what raw text means."""
        raw = self.around.decode(raw) if self.around else raw
        return raw.replace(f"\\{self.quote}", self.quote) if self.quote else raw

    def encode(self, said: str) -> str:
        """Returns text as it is written."""
        if self.quote and "\\" not in said:
            said = said.replace(self.quote, f"\\{self.quote}")
        else:
            said = re.sub(rf"[\\{self.quote or ',='}]|^[\"']", lambda match: f"&#{ord(match[0])};", said)
        said = said.replace("]", "&#93;")  # which would end a macro in a sentence
        return self.around.encode(said) if self.around else said


class _Columns:
    """The columns of a table, and from which row on each has a place for a cell."""

    def __init__(self, attributes: str) -> None:
        match = _COLUMNS.search(attributes)
        said = (match[1] or match[2] or match[3] or "") if match else ""
        columns = [each for each in map(_COLUMN.match, map(str.strip, re.split("[,;]", said))) if each]
        styles = [column[2] for column in columns for _ in range(min(99, int(column[1] or 1)))]
        self._styles = styles[:_MOST_COLUMNS]
        self._free = [0] * len(self._styles)
        self._row = self._column = 0

    def style(self, spec: re.Match[str] | None) -> str:
        """Returns the style of the next cell."""
        if (first := min(self._free)) > self._row:  # a cell may be as high as a thousand million rows
            self._row, self._column = first, 0
        while self._free[self._column] > self._row:
            self._step()
        style = self._styles[self._column]
        wide, high = (int(spec["wide"] or 1), int(spec["high"] or 1)) if spec and spec["what"] == "+" else (1, 1)
        for _ in range(min(wide, len(self._free))):
            self._free[self._column] = self._row + high
            self._step()
        return spec["style"] or style if spec else style

    def _step(self) -> None:
        self._column = (self._column + 1) % len(self._free)
        self._row += self._column == 0
