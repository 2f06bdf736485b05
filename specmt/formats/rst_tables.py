"""Tables of reStructuredText, drawn or of values: their cells, and how they are written with other texts."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate, pairwise, takewhile, zip_longest
from typing import Final, Protocol, final
from unicodedata import combining, east_asian_width

from specmt.types import Span

_WIDE: Final = "\0"
"""What is behind a character of double width, so that each place is a column."""

_HEADER: Final = re.compile(r"\+=[=+]+=\+\Z")


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell: the lines that it is between, from the left and from the top, and what is in it.

    Of values, left and right are where in the text of the table it is.
    """

    top: int
    left: int
    bottom: int
    right: int
    line: int
    """That in which its text begins."""
    margin: int
    """How far it is indented."""
    text: str

    def lines(self, said: str) -> list[str]:
        """Returns the lines of a text, as far indented as its own."""
        return [" " * self.margin + line for line in said.split("\n")]


class Table(Protocol):
    """A table that was read."""

    cells: list[Cell]

    def draw(self, contents: Sequence[str]) -> list[str]:
        """Returns the lines of the table with other texts in its cells."""

    def holds(self, old: str, new: str) -> bool:
        """Whether a cell with one text may have another one."""
        return True


def width(text: str) -> int:
    """Returns how many columns a text takes."""
    return sum((east_asian_width(char) in "WF") + 1 - (combining(char) > 0) for char in text)


def _padded(line: str) -> str:
    return line if line.isascii() else "".join(c + _WIDE if east_asian_width(c) in "WF" else c for c in line)


def _cell(lines: Sequence[str], top: int, left: int, bottom: int, right: int) -> Cell:
    lines = [line.replace(_WIDE, "").rstrip() for line in lines]
    margin = min((len(line) - len(line.lstrip()) for line in lines if line), default=0)
    text = "\n".join(line[margin:] for line in lines).rstrip()
    return Cell(top, left, bottom, right, bottom - len(lines), margin, text)


def grid_table(rows: Sequence[str]) -> Table | None:
    """Returns a table that is drawn with ``+``, ``-`` and ``|``; ``None`` where it is damaged."""
    block = [_padded(row) for row in rows]
    size = len(block[0])
    if any(len(line) != size or line[0] not in "+|" or line[-1] not in "+|" for line in block) or len(block) < 3:
        return None
    headers = [number for number, line in enumerate(block) if _HEADER.match(line)]
    for number in headers:
        block[number] = block[number].replace("=", "-")
    if len(headers) > 1 or not re.fullmatch(r"[+-]+", block[-1]):
        return None
    cells: list[Cell] = []
    done = [0] * size
    corners = [(0, 0)]
    while corners:
        top, left = heappop(corners)
        if top >= len(block) - 1 or left >= size - 1 or top < done[left]:
            continue
        found = _scan(block, top, left)
        if found is None or any(done[place] != top for place in range(left, found[1])):
            return None
        bottom, right = found
        done[left:right] = [bottom] * (right - left)
        cells.append(_cell([line[left + 1 : right] for line in block[top + 1 : bottom]], top, left, bottom, right))
        heappush(corners, (bottom, left))
        heappush(corners, (top, right))
    whole = all(place == len(block) - 1 for place in done[:-1])
    return _Grid(cells, len(block) - 1, size - 1, headers[0] if headers else -1) if whole else None


def _scan(block: Sequence[str], top: int, left: int) -> tuple[int, int] | None:
    """Returns the last line and the last column of the cell that begins at a corner."""
    if block[top][left] != "+":
        return None
    for right in takewhile(lambda place: block[top][place] in "+-", range(left + 1, len(block[top]))):
        if block[top][right] == "+":
            for bottom in range(top + 1, len(block)):
                sides = block[bottom][left] + block[bottom][right]
                if sides.strip("+|"):
                    break
                if sides == "++" and not block[bottom][left:right].strip("+-"):
                    return bottom, right
    return None


@final
class _Grid(Table):
    def __init__(self, cells: list[Cell], height: int, width: int, header: int) -> None:
        self.cells = cells
        self._header = header
        self._rows = sorted({0, height, *(cell.top for cell in cells)})
        self._columns = sorted({0, width, *(cell.left for cell in cells)})

    def draw(self, contents: Sequence[str]) -> list[str]:
        rows, columns = self._rows, self._columns
        heights = [1] * (len(rows) - 1)
        widths = [right - left - 1 for left, right in pairwise(columns)]
        texts = [cell.lines(said) for cell, said in zip(self.cells, contents, strict=True)]
        for cell, lines in sorted(zip(self.cells, texts, strict=True), key=lambda each: each[0].right - each[0].left):
            old = max(width(line) for line in cell.text.split("\n")) + cell.margin
            need = max(map(width, lines)) + min(1, max(0, cell.right - cell.left - 1 - old))
            _grow(widths, columns, cell.left, cell.right, need)
        for cell, lines in sorted(zip(self.cells, texts, strict=True), key=lambda each: each[0].bottom - each[0].top):
            _grow(heights, rows, cell.top, cell.bottom, len(lines))
        x, y = _moved(columns, widths), _moved(rows, heights)
        canvas = [[" "] * (sum(widths) + len(columns)) for _ in range(sum(heights) + len(rows))]
        for cell in self.cells:
            left, right, top, bottom = x[cell.left], x[cell.right], y[cell.top], y[cell.bottom]
            for row, place in ((top, cell.top), (bottom, cell.bottom)):
                line = "=" if place == self._header else "-"
                canvas[row][left + 1 : right] = [c if c == "+" else line for c in canvas[row][left + 1 : right]]
            for row in range(top + 1, bottom):
                for column in (left, right):
                    canvas[row][column] = "+" if canvas[row][column] == "+" else "|"
            for row in (top, bottom):
                canvas[row][left] = canvas[row][right] = "+"
        for cell, lines in zip(self.cells, texts, strict=True):
            for row, said in enumerate(lines, y[cell.top] + 1):
                start = x[cell.left] + 1
                canvas[row][start : start + width(said)] = _columns(said)
        return ["".join(line) for line in canvas]


def _columns(said: str) -> list[str]:
    """Returns what is in each column of a text."""
    out: list[str] = []
    for char in said:
        if combining(char) and out:
            out[-1] += char
        else:
            out += [char, ""] if east_asian_width(char) in "WF" else [char]
    return out


def _grow(sizes: list[int], places: Sequence[int], start: int, end: int, need: int) -> None:
    """Makes what is between two of some lines at least as large as that."""
    first, last = bisect_left(places, start), bisect_left(places, end)
    sizes[last - 1] += max(0, need - sum(sizes[first:last]) - (last - first - 1))


def _moved(places: Sequence[int], sizes: Sequence[int]) -> dict[int, int]:
    """Returns where lines come that have so much between them."""
    return dict(zip(places, accumulate(sizes, lambda place, size: place + size + 1, initial=0), strict=True))


def simple_table(rows: Sequence[str]) -> Table | None:
    """Returns a table whose columns are under ``=``; ``None`` where cells span columns or it is damaged."""
    block = [_padded(row) for row in rows]
    columns = [match.span() for match in re.finditer("=+", block[0])]
    cells: list[Cell] = []
    borders = [number for number, line in enumerate(block) if line.strip("= ") == "" and line]
    if len(borders) < 2 or borders[-1] != len(block) - 1 or any(block[n].split() != block[0].split() for n in borders):
        return None
    number, at_border = 1, set(borders)
    while number < len(block):
        if number in at_border or not block[number]:
            number += 1
            continue
        last = number + 1
        while last < len(block) and last not in at_border and not block[last][: columns[0][1]].strip():
            last += 1
        lines = block[number:last]
        is_spanned = any(re.fullmatch(r"-[- ]*", line) for line in lines)
        if is_spanned or any(line[end:start].strip() for line in lines for (_, end), (start, _) in pairwise(columns)):
            return None
        for column, (start, end) in enumerate(columns):
            is_last = column + 1 == len(columns)
            own = [line[start : None if is_last else end] for line in lines]
            cells.append(_cell(own, number, column, last, column + 1))
        number = last
    return _Simple(cells, rows, columns, at_border)


@final
class _Simple(Table):
    def __init__(self, cells: list[Cell], rows: Sequence[str], columns: Sequence[Span], borders: set[int]) -> None:
        self.cells = cells
        self._rows, self._columns, self._borders = rows, columns, borders

    def draw(self, contents: Sequence[str]) -> list[str]:
        count = len(self._columns)
        sizes = [end - start for start, end in self._columns]
        gaps = [start - end for (_, end), (start, _) in pairwise(self._columns)] + [0]
        texts = [cell.lines(said) for cell, said in zip(self.cells, contents, strict=True)]
        for cell, lines in zip(self.cells, texts, strict=True):
            if cell.left + 1 < count:
                sizes[cell.left] = max(sizes[cell.left], *map(width, lines))
        out: list[str] = []
        first = dict(zip((cell.top for cell in self.cells[::count]), range(0, len(texts), count), strict=True))
        behind = 0  # the row of cells before
        for number, row in enumerate(self._rows):
            if number in self._borders:
                out.append("".join("=" * size + " " * gap for size, gap in zip(sizes, gaps, strict=True)))
            elif number in first:
                own = texts[first[number] : first[number] + count]
                for said in zip_longest(*own, fillvalue=""):
                    padded = (
                        each + " " * (size - width(each) + gap)
                        for each, size, gap in zip(said, sizes, gaps, strict=True)
                    )
                    out.append("".join(padded).rstrip())
                behind = self.cells[first[number]].bottom
                out += [""] * (not self._rows[behind - 1])
            elif number >= behind:
                out.append(row)
        return out


def value_table(rows: Sequence[str], delimiter: str, *, is_header: bool = False) -> Table | None:
    """Returns a table of values; ``None`` without a delimiter, or where a quote is not closed.

    :param is_header: whether quotes in quotes, and backslashes, are read otherwise by docutils before 0.22
    """
    text, end = "\n".join(rows), re.escape(delimiter)
    value = re.compile(rf' *(?P<said>"(?P<quoted>[^"]*(?:""[^"]*)*)"|(?![" ])[^{end}\n]*)(?:[{end}\n]|\Z)')
    cells: list[Cell] = []
    line, place = 0, 0
    while place < len(text):
        match = value.match(text, place)
        if match is None or not delimiter:
            return None
        said = match["said"] if match["quoted"] is None else match["quoted"].replace('""', '"')
        cells.append(Cell(line, match.start("said"), line, match.end("said"), line, 0, said))
        line += text.count("\n", place, match.end())
        place = match.end()
    return _Values(text, delimiter, cells, is_header=is_header)


@final
class _Values(Table):
    def __init__(self, text: str, delimiter: str, cells: list[Cell], *, is_header: bool) -> None:
        self.cells = cells
        self._text, self._delimiter, self._is_header = text, delimiter, is_header

    def holds(self, old: str, new: str) -> bool:
        is_plain = new.count("\\") <= old.count("\\") and not ('"' in new and self._is_parted(new))
        return is_plain or not self._is_header

    def draw(self, contents: Sequence[str]) -> list[str]:
        out, place = [], 0
        for cell, said in zip(self.cells, contents, strict=True):
            if said != cell.text:
                if '"' in said and self._is_header:
                    said = f"\\ {said}" if said[0] == '"' else said  # a mark is a mark within a value without quotes
                elif '"' in said or self._text[cell.left] == '"' or self._is_parted(said):
                    said = '"' + said.replace('"', '""') + '"'
                out += [self._text[place : cell.left], said]
                place = cell.right
        return "".join([*out, self._text[place:]]).split("\n")

    def _is_parted(self, said: str) -> bool:
        """Whether a value would be more than one without quotes."""
        return "\n" in said or self._delimiter in said
