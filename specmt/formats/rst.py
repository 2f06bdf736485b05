"""reStructuredText: blocks are found by lines and indentation, as docutils finds them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Final

from specmt.errors import DataError
from specmt.formats.document import (
    Document,
    Edit,
    FormatOptions,
    Part,
    RefusedError,
    Segment,
    Tell,
    TextDocument,
    edited,
    unread_segments,
)
from specmt.formats.encoding import Encoding, decode
from specmt.formats.inline import Inline
from specmt.formats.rst_inline import fill, find, normal, unescape
from specmt.formats.rst_lines import (
    ADORNMENT,
    ANONYMOUS,
    BULLET,
    DOCTEST,
    EXPLICIT,
    FENCE,
    FIELD,
    GRID,
    OPTIONS,
    SIMPLE,
    VERSE,
    Lines,
)  # fmt: skip
from specmt.formats.rst_names import BODIES, DIALECT, DOCINFO, HEADER, LEFT, NO_TEXT, TEXT_OPTION, TITLED, VERSIONS
from specmt.formats.rst_tables import Table, grid_table, simple_table, value_table, width
from specmt.formats.rst_writing import Title, Writes
from specmt.types import Span, Tagged

_MOST_DEEP: Final = 60
_NOTE: Final = re.compile(r"\[[^\]]+\](?:\s+|\Z)")
_TARGET: Final = re.compile(r"_(?:`((?:[^`\\]|\\.)+)`|((?:[^:\\]|\\.|:(?!\s|\Z))+)):(?:\s|\Z)|__:(?:\s|\Z)")
_DIRECTIVE: Final = re.compile(r"(?P<subst>\|[^|]+\|\s+)?(?P<name>(?:(?!_)\w)+(?:[-._+:](?:(?!_)\w)+)*)\s?::(?:\s+|\Z)")
_ATTRIBUTION: Final = re.compile(r"(?:---?(?!-)|—)\s*(?=\S)")
_CLASSIFIER: Final = re.compile(r"(?<!\s)\s+:\s+")
_ENTRY: Final = re.compile(r"(\S(?:.*\S)?)\s*<[^<>]*>\Z")


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads a page; code, targets, comments, names of fields, most arguments and options are left out.

    :raises DataError: it is not UTF-8, or blocks are nested too deep.
    """
    text, encoding = decode(data)
    return _Page(text, {}).document(encoding)


@dataclass(frozen=True, slots=True)
class _Drawn:
    """A table, which is drawn anew where a text in it is translated."""

    span: Span
    table: Table
    cells: list[tuple[int, TextDocument]]
    """What each cell is, and the line in which it begins."""
    first: int
    """The number of its first segment."""


class _Page:
    def __init__(self, text: str, names: dict[str, int], before: int = 0) -> None:
        """
        :param names: what is referred to by its text, and (above 0) explicit targets
        :param before: how many lines of the document come before it
        """
        self._text = text
        self._names = names
        self._lines = Lines(text)
        fences = ((n, FENCE.match(self._lines.raw(n))) for n in range(len(self._lines)))
        self._fences = [*(n for n, match in fences if match and not match["language"]), len(self._lines)]
        self._ending = "\r\n" if "\r\n" in text else "\n"
        self._segments: list[Segment] = []
        self._parts: list[Part] = []
        self._tables: list[_Drawn] = []
        self._titles = 0
        self._depth = 0
        self._before = before

    def document(self, encoding: Encoding) -> TextDocument:
        """Returns what was read."""
        self._body(0, len(self._lines), 0)
        self._segments += unread_segments(self._text, self._parts, self._number)
        finish = partial(_finish, self._text, self._ending, self._tables)
        return TextDocument(self._text, encoding, self._segments, finish=finish, parts=self._parts)

    def _number(self, place: int) -> int:
        """Returns the number of the line that a place is in, from 1."""
        return self._before + self._lines.number(place)

    def _leave(self, first: int, last: int, reason: str) -> int:
        """Leaves lines as they are; returns the number of the one behind them."""
        if first < last:
            self._parts.append(Part(self._lines[first].first, self._lines[last - 1].end, reason))
        return last

    def _body(self, number: int, last: int, indent: int) -> None:
        """Reads the blocks in lines."""
        self._depth += 1
        if self._depth > _MOST_DEEP:
            place = self._number(self._lines[number].first)
            raise DataError(f"line {place} has more than {_MOST_DEEP} blocks in each other")
        while number < last:
            line = self._lines[number]
            if line.is_blank:
                number += 1
            elif line.column > indent and not self._lines.is_overline(number, last):
                end = max(self._lines.indented(number, last, indent), number + 1)
                self._quote(number, end)
                number = end
            else:
                number = self._block(number, last, indent)
        self._depth -= 1

    def _quote(self, number: int, last: int) -> None:
        attribution = _ATTRIBUTION.match(self._lines.raw(last - 1))
        if attribution and last - number > 1 and self._lines[last - 2].is_blank:
            self._cut(last - 1, attribution.end(), self._lines[last - 1].column, "markup")
        self._body(number, last, self._lines.indent(number, last))

    def _block(self, number: int, last: int, indent: int) -> int:
        """Reads a block; returns the number of the line behind it."""
        raw = self._lines.raw(number)
        if match := BULLET.match(raw) or self._lines.item(number, last, indent):
            return self._item(number, match.end(), last, indent, "markup")
        if match := FIELD.match(raw):
            name = match[0].strip().strip(":").lower()
            if (name in DOCINFO and indent == 0 and len(self._segments) == self._titles) or NO_TEXT.match(match[0]):
                return self._leave(number, self._lines.indented(number + 1, last, indent), "field")
            return self._hanging(number, match.end(), last, indent, "field name")
        if match := OPTIONS.match(raw):
            end = self._lines.indented(number + 1, last, indent)
            if match.end() < len(raw) or end > number + 1:
                return self._hanging(number, match.end(), last, indent, "option")
        if FENCE.match(raw) and (end := self._fences[bisect_right(self._fences, number)]) < last:
            return self._leave(number, end + 1, "code")
        if DOCTEST.match(raw):
            return self._leave(number, self._lines.paragraph_end(number, last), "code")
        if VERSE.match(raw):
            return self._verse(number, last, indent)
        if GRID.match(raw) or SIMPLE.match(raw):
            return self._table(number, last)
        if match := EXPLICIT.match(raw):
            return self._explicit(number, match.end(), last, indent)
        if ANONYMOUS.match(raw):
            return self._leave(number, number + 1, "link target")
        if self._lines.is_overline(number, last):
            return self._title(number, number + 1, number + 2)
        if ADORNMENT.match(raw) and len(raw) >= 4:
            return number + 1
        return self._paragraph(number, last, indent)

    def _cut(self, number: int, size: int, column: int, reason: str) -> None:
        """Takes what a line begins with from it."""
        line = self._lines[number]
        self._parts.append(Part(line.first, line.first + size, reason))
        line.first, line.column = min(line.first + size, line.end), column

    def _item(self, number: int, size: int, last: int, indent: int, reason: str) -> int:
        """Reads an item whose text is as far indented as that of its first line."""
        line = self._lines[number]
        if line.first + size >= line.end:
            return self._hanging(number, size, last, indent, reason)
        column = self._lines.column(line.first, line.first + size, line.column)
        self._cut(number, size, column, reason)
        end = self._lines.indented(number + 1, last, column - 1)
        self._body(number, end, column)
        return end

    def _hanging(self, number: int, size: int, last: int, indent: int, reason: str) -> int:
        """Reads a block whose lines behind the first one are indented at all."""
        end = self._lines.indented(number + 1, last, indent)
        column = self._lines.indent(number + 1, end)
        self._cut(number, size, column, reason)
        self._body(number, end, column)
        return end

    def _verse(self, number: int, last: int, indent: int) -> int:
        """Reads a line block, of which each line is a text."""
        while (
            number < last and (match := VERSE.match(self._lines.raw(number))) and self._lines[number].column == indent
        ):
            end = self._lines.paragraph_end(number + 1, last, indent)
            self._cut(number, match.end(), 0, "markup")
            self._take((self._lines[number].first, self._lines[end - 1].end), is_first=False)
            number = end
        return number

    def _title(self, first: int, number: int, under: int) -> int:
        """Reads the title of a section, with a line over it or not; these grow with it."""
        lines = self._lines
        surround = Title(self._text, self._names, lines[first], lines[number], lines[under], self._ending)
        self._take((lines[number].first, lines[number].end), surround=surround)
        self._titles += len(self._segments) <= 2
        return under + 1

    def _paragraph(self, number: int, last: int, indent: int) -> int:
        lines, text = self._lines, self._text
        after = lines[number + 1] if number + 1 < last and not lines[number + 1].is_blank else None
        raw = self._lines.raw(number)
        under = self._lines.raw(number + 1) if after is not None and after.column == indent else ""
        if ADORNMENT.match(under) and len(under) >= min(4, width(raw)) and under != "::":
            return self._title(number, number, number + 1)
        if after is not None and after.column > indent:
            return self._definition(number, last, indent)
        end = number + 1
        while end < last and not lines[end].is_blank and lines[end].column == indent:
            end += 1
        span = lines[number].first, lines[end - 1].end
        if not text[slice(*span)].endswith("::"):
            self._take(span)
            return end
        cut = span[1] - 2
        if cut > span[0] and not text[cut - 1].isspace():
            self._take((span[0], cut + 1), literal=True)
        elif cut > span[0]:
            self._take((span[0], span[0] + len(text[span[0] : cut].rstrip())))
        return self._literal(end, last, indent)

    def _literal(self, number: int, last: int, indent: int) -> int:
        """Leaves a literal block, indented or quoted."""
        while number < last and self._lines[number].is_blank:
            number += 1
        if number == last:
            return last
        if self._lines[number].column > indent:
            return self._leave(number, self._lines.indented(number, last, indent), "code")
        mark = self._lines.raw(number)[:1]
        if not ADORNMENT.match(mark):
            return number
        end = next((n for n in range(number, last) if self._lines.raw(n)[:1] != mark), last)
        return self._leave(number, end, "code")

    def _definition(self, number: int, last: int, indent: int) -> int:
        line = self._lines[number]
        cut = _CLASSIFIER.search(self._text, line.first, line.end)
        end = line.end if cut is None else cut.start()
        if cut is not None:
            self._parts.append(Part(end, line.end, "classifier"))
        self._take((line.first, end), is_term=True)
        end = self._lines.indented(number + 1, last, indent)
        self._body(number + 1, end, self._lines.indent(number + 1, end))
        return end

    def _explicit(self, number: int, size: int, last: int, indent: int) -> int:
        """Reads a note, a target, a directive or a comment."""
        line = self._lines[number]
        place = line.first + size
        end = self._lines.indented(number + 1, last, indent)
        if place >= line.end and (number + 1 >= last or self._lines[number + 1].is_blank):
            return number + 1
        if note := _NOTE.match(self._text, place, line.end):
            return self._hanging(number, note.end() - line.first, last, indent, "markup")
        if target := _TARGET.match(self._text, place, line.end):
            if name := target[1] or target[2]:
                self._names[normal(name)] = 1
            return self._leave(number, self._lines.paragraph_end(number, end), "link target")
        if directive := _DIRECTIVE.match(self._text, place, line.end):
            self._directive(directive, number, end)
            return end
        return self._leave(number, end, "comment")

    def _directive(self, match: re.Match[str], number: int, last: int) -> None:
        name = match["name"].lower()
        line = self._lines[number]
        column = self._lines.indent(number + 1, last)
        self._cut(number, match.end() - line.first, column, "directive")
        first = number + line.is_blank
        blank = self._lines.paragraph_end(first, last)
        options = self._lines.field(first, blank)
        has_no_argument = name in BODIES or (line.is_blank and name not in TITLED)
        for n in range(options, blank):
            self._option(n, blank, is_marked=name != "toctree")
        if name == "csv-table":
            self._values(first, options, blank, last)
            return
        if (LEFT.search(name) and name not in BODIES) or name == "toctree":
            for n in range(blank, last) if name == "toctree" else ():
                if entry := _ENTRY.match(self._lines.raw(n)):
                    start = self._lines[n].first
                    self._plain((start, start + entry.end(1)))
            self._leave(first, last, "code" if name != "toctree" else "link target")
            return
        if has_no_argument and options == blank:
            blank = first
        elif has_no_argument:
            self._body(first, options, column)
        elif first < options:
            start, end = self._lines[first].first, self._lines[options - 1].end
            if name in VERSIONS:
                word = re.compile(r"\S+\s*").match(self._text, start, end)
                start = word.end() if word else start
            if name in VERSIONS or name in TITLED:
                self._take((start, end), is_first=False)
            self._leave(first, options, "argument")
        if name == "glossary":
            self._glossary(blank, last, column)
        else:
            self._body(blank, last, column)

    def _glossary(self, number: int, last: int, column: int) -> None:
        """Reads a glossary, of which the terms stay, as roles name them."""
        lines = self._lines
        terms = [n for n in range(number, last) if not lines[n].is_blank and lines[n].column <= column]
        for term, end in pairwise([*terms, last]):
            start = self._leave(term, end if EXPLICIT.match(lines.raw(term)) else term + 1, "term")
            self._body(start, end, lines.indent(start, end))

    def _values(self, first: int, options: int, body: int, last: int) -> None:
        """Reads a table of values that a delimiter parts.

        :param first: where the title may be
        """
        lines, delimiter = self._lines, ","
        if first < options:
            self._take((lines[first].first, lines[options - 1].end))
        for n in range(options, body):
            match = DIALECT.match(lines.raw(n))
            delimiter = delimiter if match is None else match["delimiter"] or ""
        table = partial(value_table, delimiter=delimiter)
        for n in range(options, body):
            if match := HEADER.match(lines.raw(n)):
                end = lines.field(n + 1, body)
                self._cut(n, match.end(), lines.indent(n + 1, end), "option")
                self._drawn(n, end, partial(table, is_header=True), lines[n].column)
        while body < last and lines[body].is_blank:
            body += 1
        self._drawn(body, last, table, lines.indent(body, last))

    def _option(self, number: int, last: int, *, is_marked: bool) -> None:
        """Leaves an option of a directive, but for those that are texts."""
        match = TEXT_OPTION.match(self._lines.raw(number))
        line = self._lines[number]
        if match:
            end = self._lines.field(number + 1, last)
            span = line.first + match.end(), self._lines[end - 1].end
            if match[0].startswith((":caption", ":subtitle")) and is_marked:
                self._take(span, is_first=False)
            else:
                self._plain(span)
        self._leave(number, number + 1, "option")

    def _plain(self, span: Span) -> None:
        """Reads a text without markup."""
        said = " ".join(self._text[slice(*span)].split())
        if any(map(str.isalpha, said)):
            self._segments.append(Segment(Tagged(said), self._number(span[0]), lambda to, _: [Edit(*span, [to.text])]))
        self._parts.append(Part(*span, ""))

    def _take(
        self,
        whole: Span,
        *,
        surround: Title | None = None,
        is_first: bool = True,
        is_term: bool = False,
        literal: bool = False,
    ) -> None:
        """Reads a text with inline markup.

        :param surround: returns the edit of a title
        :param is_first: whether it stands where any block may
        :param is_term: whether what is behind a colon is no text
        :param literal: whether its colon says that a literal block follows
        """
        text = self._text
        self._parts.append(Part(*whole, ""))
        marks = find(text, *whole)
        for each in marks:
            if each.name not in ("", "<", "__"):
                self._names.setdefault(each.name, 0)
        inline = Inline(text, unescape, collapses=True)
        fill(inline, marks, whole)
        taken = inline.take()
        if taken is None:
            return
        tagged, span = taken

        edits = Writes(text, whole, marks, span, surround, is_first, is_term, literal)
        self._segments.append(Segment(tagged, self._number(span[0]), edits))

    def _table(self, number: int, last: int) -> int:
        """Reads a table that is drawn; returns the number of the line behind it."""
        is_grid = self._lines.raw(number).startswith("+")
        end = self._lines.paragraph_end(number, last) if is_grid else self._simple_end(number, last)
        self._drawn(number, end, grid_table if is_grid else simple_table, self._lines[number].column)
        return end

    def _drawn(self, number: int, end: int, read: Callable[[Sequence[str]], Table | None], indent: int) -> None:
        """Reads a table; each cell is a page of its own."""
        if number >= end:
            return
        lines = [self._lines[each] for each in range(number, end)]
        rows = [
            " " * (line.column - indent) * (not line.is_blank) + self._text[line.first : line.end] for line in lines
        ]
        table = None
        if not any("\t" in row for row in rows) and all(line.is_blank or line.column >= indent for line in lines):
            table = read(rows)
        if table is None:
            self._leave(number, end, "a table that cannot be drawn anew")
            return
        cells: list[tuple[int, TextDocument]] = []
        first = len(self._segments)
        for cell in table.cells:
            line = self._number(lines[0].first) + cell.line
            document = _Page(cell.text, self._names, line - 1).document(Encoding("utf-8"))
            cells.append((line, document))
            for segment in document.segments:
                edits = _checked(segment, cell.text, table)
                self._segments.append(replace(segment, edits=edits, start=lines[cell.top].first))
        span = lines[0].first, lines[-1].end
        self._parts.append(Part(*span, "table", cells))
        self._tables.append(_Drawn(span, table, cells, first))

    def _simple_end(self, number: int, last: int) -> int:
        borders = 0
        for end in range(number, last):
            if set(self._lines.raw(end)) <= {"=", " "} and not self._lines[end].is_blank:
                borders += 1
                if borders == 3 or (borders == 2 and (end + 1 == last or self._lines[end + 1].is_blank)):
                    return end + 1
        return self._lines.paragraph_end(number, last)


def _finish(text: str, ending: str, tables: Sequence[_Drawn], written: Mapping[int, Tagged]) -> Iterator[Edit]:
    """Yields the tables in which a text is translated."""
    for drawn in tables:
        contents: list[str] = []
        is_new = False
        first = drawn.first
        for _, document in drawn.cells:
            own = {n - first: written[n] for n in range(first, first + len(document.segments)) if n in written}
            said = edited(document.text, document.edits(own, lambda *_: None))
            contents.append(said.replace("\t", " "))  # which would end in another column
            is_new |= bool(own)
            first += len(document.segments)
        if is_new:
            start = drawn.span[0]
            indent = text[text.rfind("\n", 0, start) + 1 : start]
            margin = indent if not indent.strip() else " " * len(indent)
            yield Edit(
                *drawn.span, [(ending + margin).join(drawn.table.draw(contents)).replace(margin + ending, ending)]
            )


def _checked(segment: Segment, text: str, table: Table) -> Callable[[Tagged, Tell], list[Edit]]:
    """Returns what refuses a translation that a cell cannot hold, which is written with its table."""

    def edits(translation: Tagged, tell: Tell) -> list[Edit]:
        if not table.holds(text, edited(text, [*segment.edits(translation, tell)])):
            raise RefusedError("it has a quotation mark or a backslash")
        return []

    return edits
