"""reStructuredText: blocks are found by lines and indentation, as docutils finds them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from specmt.errors import DataError
from specmt.formats.document import (
    Document,
    Edit,
    FormatOptions,
    Part,
    Pieces,
    Segment,
    Tell,
    TextDocument,
    edited,
    unread_segments,
)
from specmt.formats.encoding import Encoding, decode
from specmt.formats.inline import Inline, wrap_alike, written
from specmt.formats.rst_inline import Found, Writer, fill, find, normal, plain, unescape
from specmt.formats.rst_lines import (
    ADORNMENT,
    ANONYMOUS,
    BULLET,
    DOCTEST,
    EXPLICIT,
    FIELD,
    GRID,
    OPTIONS,
    SIMPLE,
    VERSE,
    Line,
    Lines,
    mark_of,
)  # fmt: skip
from specmt.formats.rst_names import BODIES, DOCINFO, LEFT, NO_TEXT, TEXT_OPTION, TITLED, VERSIONS
from specmt.formats.rst_tables import Table, grid_table, simple_table, width
from specmt.types import Span, Tagged

_MOST_DEEP: Final = 60
_MAY_START: Final = re.compile(r"(?![!-/:-@\[-`{-~]+\Z)")
_NOTE: Final = re.compile(r"\[[^\]]+\](?:\s+|\Z)")
_TARGET: Final = re.compile(r"_(?:`((?:[^`\\]|\\.)+)`|((?:[^:\\]|\\.|:(?!\s|\Z))+)):(?:\s|\Z)|__:(?:\s|\Z)")
_DIRECTIVE: Final = re.compile(r"(?P<subst>\|[^|]+\|\s+)?(?P<name>(?:(?!_)\w)+(?:[-._+:](?:(?!_)\w)+)*)\s?::(?:\s+|\Z)")
_ATTRIBUTION: Final = re.compile(r"(?:---?(?!-)|—)\s*(?=\S)")
_CLASSIFIER: Final = re.compile(r"\s+:\s+")
_ENTRY: Final = re.compile(r"(\S.*?)\s*<[^<>]*>\Z")


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
    cells: list[tuple[TextDocument, int]]
    """What each cell is, and the number of its first segment."""


class _Page:
    def __init__(self, text: str, names: dict[str, int], number: Callable[[int], int] | None = None) -> None:
        """
        :param names: what is referred to by its text, and (above 0) explicit targets
        :param number: returns the number of the line of a place
        """
        self._text = text
        self._names = names
        self._lines = Lines(text)
        self._ending = "\r\n" if "\r\n" in text else "\n"
        self._segments: list[Segment] = []
        self._parts: list[Part] = []
        self._tables: list[_Drawn] = []
        self._titles = 0
        self._depth = 0
        self._number = number or self._lines.number

    def document(self, encoding: Encoding) -> TextDocument:
        """Returns what was read."""
        self._body(0, len(self._lines), 0)
        self._segments += unread_segments(self._text, self._parts, self._number)
        return TextDocument(
            self._text, encoding, self._segments, finish=partial(_finish, self._text, self._tables), parts=self._parts
        )

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
            self._parts.append(
                Part(self._lines[last - 1].first, self._lines[last - 1].first + attribution.end(), "markup")
            )
            self._lines[last - 1].first += attribution.end()
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
            end = number + 1
            while end < last and not self._lines[end].is_blank and self._lines[end].column > indent:
                end += 1
            self._cut(number, match.end(), 0, "markup")
            self._take((self._lines[number].first, self._lines[end - 1].end), is_first=False)
            number = end
        return number

    def _title(self, first: int, number: int, under: int) -> int:
        """Reads the title of a section, with a line over it or not; these grow with it."""
        lines = self._lines
        surround = _Title(self._text, self._names, lines[first], lines[number], lines[under], self._ending)
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
        end = number
        while end < last and self._lines.raw(end)[:1] == mark:
            end += 1
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
        if line.first + size >= line.end and (number + 1 >= last or self._lines[number + 1].is_blank):
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
        options = next((n for n in range(first, blank) if FIELD.match(self._lines.raw(n))), blank)
        has_no_argument = name in BODIES or (line.is_blank and name not in TITLED)
        for n in range(options, blank):
            self._option(n, blank, is_marked=name != "toctree")
        if (LEFT.search(name) and name not in BODIES) or name == "toctree":
            if name == "csv-table" and first < options:
                self._take((self._lines[first].first, self._lines[options - 1].end))
                first = options
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
        self._body(blank, last, column)

    def _option(self, number: int, last: int, *, is_marked: bool) -> None:
        """Leaves an option of a directive, but for those that are texts."""
        match = TEXT_OPTION.match(self._lines.raw(number))
        line = self._lines[number]
        if match:
            end = number + 1
            while end < last and not FIELD.match(self._lines.raw(end)):
                end += 1
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
        surround: _Title | None = None,
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

        edits = _Writes(text, whole, marks, span, surround, is_first, is_term, literal)
        self._segments.append(Segment(tagged, self._number(span[0]), edits))

    def _table(self, number: int, last: int) -> int:
        """Reads a table; each cell is a page of its own."""
        is_grid = self._lines.raw(number).startswith("+")
        end = self._lines.paragraph_end(number, last) if is_grid else self._simple_end(number, last)
        indent = self._lines[number].column
        lines = [self._lines[each] for each in range(number, end)]
        rows = [
            " " * (line.column - indent) * (not line.is_blank) + self._text[line.first : line.end] for line in lines
        ]
        table = None
        if not any("\t" in row for row in rows) and all(line.is_blank or line.column >= indent for line in lines):
            table = (grid_table if is_grid else simple_table)(rows)
        if table is None:
            return self._leave(number, end, "a table that cannot be drawn anew")
        cells: list[tuple[TextDocument, int]] = []
        for cell in table.cells:
            line = self._number(self._lines[number].first) + cell.top
            inner = _Page(cell.text, self._names, partial(_line_in_cell, line, cell.text))
            document = inner.document(Encoding("utf-8"))
            cells.append((document, len(self._segments)))
            for segment in document.segments:
                own = Segment(segment.source, segment.line, _checked(segment), segment.state, reason=segment.reason)
                self._segments.append(own)
        self._leave(number, end, "table")
        span = self._lines[number].first, self._lines[end - 1].end
        self._tables.append(_Drawn(span, table, cells))
        return end

    def _simple_end(self, number: int, last: int) -> int:
        borders = 0
        for end in range(number, last):
            if set(self._lines.raw(end)) <= {"=", " "} and not self._lines[end].is_blank:
                borders += 1
                if borders == 3 or (borders == 2 and (end + 1 == last or self._lines[end + 1].is_blank)):
                    return end + 1
        return self._lines.paragraph_end(number, last)


@dataclass(slots=True)
class _Title:
    """Writes a title. Pages may be nothing but these and texts: both are smaller than functions with what they need."""

    text: str
    names: Mapping[str, int]
    over: Line
    """The line over it, or itself."""
    line: Line
    under: Line
    ending: str
    """That of lines."""

    def __call__(self, pieces: Pieces, raw: str, inner: Span) -> Edit:
        text, line, start, last = self.text, self.line, self.over, self.under
        title = text[line.first : line.end]
        name = normal(plain(title, find(title, 0, len(title))))
        room = last.end - last.first - width(title)
        own = width(raw) + line.column - start.column
        size = width(raw) + room if 0 <= room <= 2 else max(own, last.end - last.first)
        drawn = text[last.first] * max(size, 3)
        is_named = self.names.get(name) == 0 and normal(plain(raw, find(raw, 0, len(raw)))) != name
        label = f".. _`{name}`:{self.ending * 2}{' ' * start.column}" if is_named else ""
        above: Pieces = [drawn, (start.end, inner[0])] if start is not line else [(line.first, inner[0])]
        return Edit(start.first, last.end, [label, *above, *pieces, (inner[1], last.first), drawn])


@dataclass(slots=True)
class _Writes:
    """Writes the translation of a text with inline markup."""

    text: str
    whole: Span
    marks: Sequence[Found]
    span: Span
    surround: _Title | None
    is_first: bool
    is_term: bool
    literal: bool

    def __call__(self, translation: Tagged, _: Tell) -> list[Edit]:
        text, whole = self.text, self.whole
        writer = Writer(text, whole, self.marks, self.span)
        pieces = writer.pieces(translation)
        start, end = writer.span
        if self.is_term:
            pieces = [piece.replace(" : ", " \\: ") if isinstance(piece, str) else piece for piece in pieces]
        before, after = text[whole[0] : start], text[end : whole[1]]
        said = written(text, pieces)
        mark = mark_of(said + after) if self.is_first and not before else None
        if self.literal and not after and not said.endswith(":"):
            pieces.append(" :")
        elif not self.literal and not after and said.endswith("::"):
            pieces[-1] = f"{written(text, pieces[-1:])[:-1]}\\:"
        if self.surround is None:
            pieces = wrap_alike(pieces, text, (start, end), " \t", _MAY_START)
        # A line alone may be an item though it was none with others under it.
        is_alone = self.surround is None and "\n" not in written(text, pieces)
        if mark is not None and (is_alone or mark_of(text[slice(*whole)]) is not mark):
            pieces.insert(0, "\\")
        if self.surround is None:
            return [Edit(start, end, pieces)]
        return [self.surround(pieces, (before + written(text, pieces) + after).expandtabs(), (start, end))]


def _finish(text: str, tables: Sequence[_Drawn], written: Mapping[int, Tagged]) -> Iterator[Edit]:
    """Yields the tables in which a text is translated."""
    ending = "\r\n" if "\r\n" in text else "\n"
    for drawn in tables:
        contents: list[str] = []
        is_new = False
        for document, first in drawn.cells:
            own = {n - first: written[n] for n in range(first, first + len(document.segments)) if n in written}
            contents.append(edited(document.text, document.edits(own, lambda *_: None)))
            is_new |= bool(own)
        if is_new:
            start = drawn.span[0]
            indent = text[text.rfind("\n", 0, start) + 1 : start]
            margin = indent if not indent.strip() else " " * len(indent)
            yield Edit(
                *drawn.span, [(ending + margin).join(drawn.table.draw(contents)).replace(margin + ending, ending)]
            )


def _line_in_cell(first: int, text: str, place: int) -> int:
    return first + text.count("\n", 0, place)


def _checked(segment: Segment) -> Callable[[Tagged, Tell], list[Edit]]:
    """Returns what refuses a translation that a cell cannot hold, which is written with its table."""

    def edits(translation: Tagged, tell: Tell) -> list[Edit]:
        list(segment.edits(translation, tell))
        return []

    return edits
