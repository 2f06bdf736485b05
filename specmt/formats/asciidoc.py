"""AsciiDoc: blocks are found line by line, as Asciidoctor finds them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from specmt.formats.asciidoc_inline import Found, fill, find, said_with, unescape
from specmt.formats.asciidoc_tables import Cell, Value, Within, cells_of, separator_of
from specmt.formats.document import (
    Document,
    Edit,
    FormatOptions,
    LineNumbers,
    Part,
    RefusedError,
    Segment,
    Tell,
    TextDocument,
    unread_segments,
)
from specmt.formats.encoding import decode
from specmt.formats.inline import Inline, wrap_alike, written
from specmt.types import Span, Tagged

_LINE: Final = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_DELIMITER: Final = re.compile(r"(?:(?P<code>-{4,}|\.{4,}|\+{4,}|/{4,}|`{3,}[^`]*)|={4,}|\*{4,}|_{4,}|--|~{4,})\Z")
_TABLE: Final = re.compile(r"[|,:!]={3,}\Z")
_COMMENT: Final = re.compile(r"//(?!/)")
_CONDITIONAL: Final = re.compile(r"\\?(?:ifn?def|ifeval|endif|include)::[^\[]*\[.*\]\Z")
_LANGUAGE: Final = re.compile(r"^:lang:[ \t]+([\w-]+)", re.MULTILINE)
_ENTRY: Final = re.compile(r":!?\w[^:\n]*:(?:\s|\Z)")
_OF_TEXT: Final = re.compile(
    r":(?:[\w-]{1,80}-)?(?:description|(?:doc|nav)?title|caption|label|signifier):[ \t]+(?=\S)(?!.*\\$)"
)
"""An attribute that is a text, in one line."""

_ATTRIBUTES: Final = re.compile(r"\[(?:\[.*\]|(?=[\w.#%,\"'{\]])(?=(?P<style>[^\],.#%]*)).*)\]\Z")
_TITLE: Final = re.compile(r"\.(?=\.?[^ \t.])")
_HEADING: Final = re.compile(r"(?:={1,6}|#{1,6})[ \t]+(?=\S)")
_RULE: Final = re.compile(r"(?:'{3,}|<{3,}|-{3}|\*{3}|- - -|\* \* \*|\+)\Z")
_MACRO: Final = re.compile(r"(?P<name>\w+)::(?P<target>[^\s\[]*(?: [^\s\[]+)*)\[(?P<values>.*)\]\Z")
_VALUE: Final = re.compile(
    r"""[ \t]*(?:(?P<key>[\w-]+)[ \t]*=[ \t]*)?
    (?:(?P<quote>["'])(?P<quoted>(?:(?!(?P=quote))[^\\]|\\.)*)(?P=quote)[ \t]*|(?P<plain>(?![ \t"'])[^,=]*))(?:,|\Z)""",
    re.VERBOSE,
)
_IMAGE: Final = re.compile(r"image:[^\s\[\]]+\[(?P<values>[^\]\n]*)\]\Z")
"""An image within a text."""

_ITEM: Final = re.compile(
    r"[ \t]*(?:-|\*{1,6}|\.{1,6}|•|\d+\.|[A-Za-z]\.|[ivxIVX]+\)|<(?:\d+|\.)>)[ \t]+(?:\[[ xX*]\][ \t]+)?(?=\S)"
)
_TERM: Final = re.compile(r"[ \t]*(?P<term>[^\s].*?)(?P<mark>:{2,4}|;;)(?:[ \t]+(?=\S)|\Z)")
_ADMONITION: Final = re.compile(r"(?:NOTE|TIP|IMPORTANT|WARNING|CAUTION):[ \t]+(?=\S)")
_MANUAL: Final = re.compile(r"(?:(?:[:/].*)?\r?\n)*(?:=[ \t]+)?[\w.+-]+[ \t]*\(\w{1,9}\)[ \t]*$", re.MULTILINE)
"""The title that a manual page begins with, behind comments and attributes."""

_OPTION: Final = re.compile(r"-{1,2}[\w\[(]\S*(?:[ \t]+(?:[-<\[({|.]\S*|\w+(?=,|\Z)))*")
"""A term that is an option of a command."""

_NAMES: Final = re.compile(r"[^\s,]+(?:,[ \t]*[^\s,]+){0,99}[ \t]+-[ \t]+(?=\S)")
"""What a manual page is about, in front of what that is for: by these programs find it."""

_CREDIT: Final = re.compile(r"-- (?=\S)")
_UNDERLINE: Final = re.compile(r"([=~^+-])\1+\Z")
_CODE: Final = re.compile(
    r"(?:source|listing|literal|stem|latexmath|asciimath|pass|comment|synopsis|mermaid|\w*uml|\w*diag|graphviz|ditaa)\b"
)
_BLOCKS: Final = (
    _DELIMITER,
    _TABLE,
    _COMMENT,
    _CONDITIONAL,
    _ENTRY,
    _ATTRIBUTES,
    _TITLE,
    _HEADING,
    _RULE,
    _ITEM,
    _ADMONITION,
)
"""How blocks begin that are no paragraphs."""

_MAY_START: Final = re.compile(r"(?![-*.|=_+/`\[<:'#~•]|\w{1,3}[.)]\Z|\w+::)")
_ID: Final = re.compile(r"\[\[([^\],]+)|\[[^\[\],]*#([\w:-]+)|\bid=\"?([\w:-]+)")
_LINK: Final = re.compile(r"(?:<<#?|xref:#?|link:#)([^<>,\[\]\n#]{1,300})(?=[,>\[])")
_SENTENCE_END: Final = re.compile(r"""[.!?:;…]["'”’»)\]*_`]*\Z""")
_HARD_BREAK: Final = " +"
_ALL_BREAK: Final = re.compile(r"^:hardbreaks(?:-option)?:", re.MULTILINE)
_OLD: Final = re.compile(
    r"(?:(?://[^\n]*|\[[^\n]*|:(?!compat-mode:)[^\n]*|[ \t\r]*)\n)*"
    r"(?:(?:=[ \t][^\n]*\n(?:[^\r\n]+\r?\n)*?)?:compat-mode:"
    r"|(?P<title>[^\s:/\[=|][^\r\n]*)\r?\n(?P<under>={2,})[ \t\r]*$)",
    re.MULTILINE,
)
"""What a page begins with that is written as in the first AsciiDoc: a title over a line, or an attribute."""

_UNBROKEN: Final = re.compile(r"(?P<said>\S.*?)(?: \+[ \t]*(?:\r?\n\s*|\Z)|\Z)", re.DOTALL)
"""What of a cell is in front of a hard break, or of its end."""


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads a page; attribute entries, code, targets, macros, comments and conditionals are left out.

    :raises DataError: it is not UTF-8.
    """
    text, encoding = decode(data)
    page = _Page(text)
    page.blocks(_lines(text, 0, len(text)), is_page=True)
    page.segments += unread_segments(text, page.parts, page.lines)
    language = _LANGUAGE.search(text)
    return TextDocument(
        text, encoding, page.segments, finish=lambda _: options.new_language(language), parts=page.parts
    )


def _lines(text: str, start: int, end: int) -> list[Span]:
    """Returns where lines are, without the space behind them."""
    return [(m.start(), m.start() + len(m[0].rstrip())) for m in _LINE.finditer(text, start, end)]


class _Page:
    def __init__(self, text: str) -> None:
        self.segments: list[Segment] = []
        self.parts: list[Part] = []
        self.lines = LineNumbers(text)
        self._text = text
        self._within: Within | Value | None = None
        """What it reads the cells of."""

        self._all_break = _ALL_BREAK.search(text) is not None
        """Whether each end of a line is a hard break."""

        match = _OLD.match(text)
        self._is_old = match is not None and abs(len(match["title"] or "") - len(match["under"] or "")) < 2
        """Whether quotation marks are those of the first AsciiDoc."""

        self._is_manual = self._begins_with_names = _MANUAL.match(text) is not None
        """Whether the next paragraph may be the first of a manual page."""

        self._titles = 0
        """How many there were; a manual page says under the third one how a command is called."""

        self._breaks = False
        """Whether it is in this paragraph."""

        self._links: dict[str, list[int]] = {}
        """Where ids and titles are referred to."""
        for match in _LINK.finditer(text):
            self._links.setdefault(match[1], []).append(match.start(1))

    def _raw(self, line: Span) -> str:
        return self._text[slice(*line)]

    def _leave(self, lines: Sequence[Span], reason: str) -> None:
        if lines and lines[0][0] < lines[-1][1]:
            self.parts.append(Part(lines[0][0], lines[-1][1], reason))

    def blocks(self, lines: Sequence[Span], *, is_page: bool = False) -> None:
        """Reads the blocks in lines.

        :param is_page: whether what is first may be the header of the page
        """
        number, style, attributes = 0, "-", ""
        opened: list[str] = []
        while number < len(lines):
            raw = self._raw(lines[number])
            first = number
            if not raw:
                number += 1
            elif match := _ATTRIBUTES.match(raw):
                style = "source" if raw.startswith("[,") else match["style"] or style
                style = "synopsis" if self._is_manual and self._titles == 3 and style == "verse" else style
                attributes += raw
                self._leave(lines[number : number + 1], "attributes")
                number += 1
            elif not _CODE.match(style) and (end := self._markup(lines, number)):
                number = end
            else:
                if _TABLE.match(raw):
                    number = self._table(lines, number, attributes)
                elif found := _DELIMITER.match(raw):
                    if found["code"] or _CODE.match(style):
                        closing = raw if raw[0] != "`" else raw[: len(raw) - len(raw.lstrip("`"))]
                        number = self._closing(lines, number, closing)
                        self._leave(lines[first:number], "code")
                    elif style.startswith("verse"):
                        number = self._closing(lines, number, raw)
                        for line in lines[first + 1 : number - 1]:
                            self._take(line, is_first=False)
                    else:
                        number += 1
                        if raw in opened:
                            del opened[opened.index(raw) :]
                        else:
                            opened.append(raw)
                elif _CODE.match(style) or (raw[0].isspace() and not _ITEM.match(raw) and not _TERM.match(raw)):
                    number = self._paragraph_end(lines, number)
                    self._leave(lines[first:number], "code")
                elif match := _HEADING.match(raw):
                    self._heading((lines[number][0] + match.end(), lines[number][1]), attributes, lines[number][0])
                    number += 1
                    if is_page and raw[1].isspace():
                        number = self._header(lines, number)
                else:
                    self._breaks = self._all_break or "hardbreaks" in attributes
                    number = self._paragraph(lines, number, style, may_be_title=not opened)
                    if is_page and number == first + 2 and self._raw(lines[first + 1]).startswith("=="):
                        number = self._header(lines, number)
                style, attributes = "-", ""
            is_page &= not raw or raw.startswith((":", "//", "["))

    def _header(self, lines: Sequence[Span], number: int) -> int:
        """Leaves who wrote a page, and when."""
        end = self._paragraph_end(lines, number)
        for line in lines[number:end]:
            if not self._attribute(line):
                self._leave([line], "header")
        return end

    def _attribute(self, line: Span) -> bool:
        """Reads an attribute that is a text, and returns whether it is one."""
        match = _OF_TEXT.match(self._raw(line))
        if match is not None:
            self.parts.append(Part(line[0], line[0] + match.end(), "attributes"))
            self._take((line[0] + match.end(), line[1]), is_first=False)
        return match is not None

    def _markup(self, lines: Sequence[Span], number: int) -> int | None:
        """Reads what may stand between a block and its attributes, and returns what is behind it, if it is here."""
        raw, (start, last), end = self._raw(lines[number]), lines[number], number + 1
        if self._attribute(lines[number]):
            return end
        if title := _TITLE.match(raw):
            self._take((start + title.end(), last))
            return end
        if _ENTRY.match(raw):
            while self._raw(lines[end - 1]).endswith(" \\") and end < len(lines):
                end += 1
        elif macro := _MACRO.match(raw):
            if macro["name"] == "image":
                self._values(macro["values"], start + macro.start("values"))
        elif not (_RULE.match(raw) or _COMMENT.match(raw) or _CONDITIONAL.match(raw)):
            return None
        self._leave(lines[number:end], "markup")
        return end

    def _values(self, raw: str, start: int) -> None:
        """Reads the values of an image that are text, as far as they can be told apart."""
        place, key, around = 0, "alt", self._within
        while match := _VALUE.match(raw, place):
            if (match["key"] or key) in ("alt", "title"):
                first, last = match.span("plain" if match["quote"] is None else "quoted")
                self._within = Value(match["quote"] or "", around)
                self._take((start + first, start + last), is_first=False)
            if match.end() == len(raw):
                break
            place, key = match.end(), ""
        self._within = around

    def _paragraph_end(self, lines: Sequence[Span], number: int) -> int:
        """Returns up to which line there are no blank ones."""
        return next((end for end in range(number, len(lines)) if not self._raw(lines[end])), len(lines))

    def _closing(self, lines: Sequence[Span], number: int, closing: str) -> int:
        """Returns what is behind a block that ends as it begins."""
        return next((end + 1 for end in range(number + 1, len(lines)) if self._raw(lines[end]) == closing), len(lines))

    def _heading(self, span: Span, attributes: str, line: int) -> None:
        """Reads a title; where it is referred to, it, or the first of those that are the same, keeps its id."""
        title = self._text[slice(*span)]
        self._titles += 1
        name = "_" + re.sub(r"[ .-]+", "_", re.sub(r"[^\w .-]", "", title.lower())).strip("_")
        places, is_named = self._links.pop(title, []), self._links.pop(name, None) is not None
        own = _ID.search(attributes)
        edits = [
            Edit(place, place + len(title), [next(filter(None, own.groups())) if own else name]) for place in places
        ]
        if (places or is_named) and own is None and self._within is None:
            edits.append(Edit(line, line, [f"[#{name}]\n"]))
        self._take(span, more=lambda said: edits if said != title else [])

    def _paragraph(self, lines: Sequence[Span], number: int, style: str, *, may_be_title: bool) -> int:
        """Reads a paragraph, an item of a list or a term and its description."""
        raw, start = self._raw(lines[number]), lines[number][0]
        if style.startswith("verse"):
            end = self._paragraph_end(lines, number)
            for line in lines[number:end]:
                self._take(line)
            return end
        if match := _ITEM.match(raw):
            self._leave([(start, start + match.end())], "markup")
            return self._text_of(lines, number, start + match.end(), in_list=True)
        if (match := _TERM.match(raw)) and "`" not in match["mark"]:
            term = start + match.start("term"), start + match.end("term")
            if _OPTION.fullmatch(match["term"]):
                self._leave([term], "code")
            else:
                self._take(term)
            if match.end() < len(raw):
                return self._text_of(lines, number, start + match.end(), in_list=True)
            number += 1
            while number < len(lines) and not self._raw(lines[number]):
                number += 1
            after = self._raw(lines[number]) if number < len(lines) else ""
            is_near = number < len(lines) and lines[number][0] - start <= len(raw) + 2
            if (after[:1].isspace() or (is_near and after)) and not _begins(after.strip()):
                return self._text_of(lines, number, lines[number][0], in_list=True)
            return number
        under = self._raw(lines[number + 1]) if number + 1 < len(lines) else ""
        if may_be_title and _UNDERLINE.match(under) and abs(len(under) - len(raw)) < 2 and any(map(str.isalnum, raw)):
            place = lines[number + 1]
            self._titles += 1
            self._take(lines[number], more=lambda said: [Edit(*place, [under[0] * max(2, len(said))])])
            return number + 2
        match = _ADMONITION.match(raw) or (_NAMES.match(raw) if self._begins_with_names else None)
        self._begins_with_names = False
        if match is not None:
            self._leave([(start, start + match.end())], "markup")
        return self._text_of(lines, number, start + (match.end() if match else 0))

    def _text_of(self, lines: Sequence[Span], number: int, start: int, *, in_list: bool = False) -> int:
        """Reads the text that begins in a line."""
        first: int | None = start
        end = start
        while number < len(lines):
            raw = self._raw(lines[number])
            if not raw or (end > start and self._is_end(raw, in_list=in_list)):
                break
            if _COMMENT.match(raw) or _CONDITIONAL.match(raw):
                self._leave(lines[number : number + 1], "markup")
                if first is not None and first < end:
                    self._take((first, end))
                first = None
            else:
                credit = _CREDIT.match(raw) if end > start else None
                if credit is not None and first is not None:
                    self._take((first, end))
                    first = lines[number][0] + credit.end()
                first = lines[number][0] if first is None else first
                end = lines[number][1]
                if self._breaks or raw.endswith(_HARD_BREAK):
                    self._take((first, end - len(_HARD_BREAK) * raw.endswith(_HARD_BREAK)))
                    first = None
            number += 1
        if first is not None and first < end:
            self._sentences((first, end))
        return number

    def _sentences(self, span: Span) -> None:
        """Reads a text, line by line where each of them ends a sentence."""
        lines = _lines(self._text, *span)
        if not all(_SENTENCE_END.search(self._raw(line)) for line in lines) or any(
            "\n" in self._text[each.start : each.end] for each in find(self._text, *span, is_old=self._is_old)
        ):
            lines = [span]
        for line in lines:
            self._take(line)

    def _is_end(self, raw: str, *, in_list: bool) -> bool:
        """Whether a line ends the paragraph before it."""
        if _DELIMITER.match(raw) or _TABLE.match(raw) or _ATTRIBUTES.match(raw) or raw == "+":
            return True
        # What would be an item is not joined to what is before it, though it is one in lists only.
        return _ITEM.match(raw) is not None or (in_list and _TERM.match(raw) is not None)

    def _table(self, lines: Sequence[Span], number: int, attributes: str) -> int:
        """Reads the cells of a table."""
        raw = self._raw(lines[number])
        end = self._closing(lines, number, raw)
        name, separator = separator_of(raw, attributes)
        inside = lines[number + 1 : max(number + 1, end - 1)]
        cells: list[Cell] = []
        if separator and not self._within and inside:
            with suppress(ValueError):
                cells = [*cells_of(self._text, inside[0][0], inside[-1][1], name, separator, attributes)]
        if not cells:
            self._leave(lines[number:end], "a table of values")
        for mark, start, stop, style, in_quotes in cells:
            self.parts.append(Part(mark, start, "markup"))
            self._within = Within(separator, in_quotes)
            content = self._text[start:stop]
            start, stop = start + len(content) - len(content.lstrip()), start + len(content.rstrip())
            if start >= stop:
                continue
            if style in ("l", "m"):
                self.parts.append(Part(start, stop, "code"))
            elif style == "a" or re.search(r"\n(?:[ \t\r]*\n|//)", self._text[start:stop]):
                self.blocks(_lines(self._text, start, stop))
            else:
                for match in _UNBROKEN.finditer(self._text, start, stop):
                    self._take(match.span("said"), is_first=False)
        self._within = None
        return end

    def _take(
        self,
        whole: Span,
        *,
        is_first: bool = True,
        more: Callable[[str], list[Edit]] = lambda _: [],
    ) -> None:
        """Reads a text with inline markup.

        :param is_first: whether it stands where any block may
        :param more: returns what else is written, given the text
        """
        text = self._text
        self.parts.append(Part(*whole, ""))
        found = find(text, *whole, is_old=self._is_old)
        within = self._within
        inline = Inline(text, (lambda raw: within.decode(unescape(raw))) if within else unescape, collapses=True)
        fill(inline, found, whole)
        taken = inline.take()
        for each in found:
            if each.kind == "note":
                self._take((each.start + len(each.key), each.end - 1), is_first=False)
            elif image := _IMAGE.match(text, each.start, each.end):
                self._values(image["values"], image.start("values"))
        if taken is None:
            return
        tagged, span = taken

        edits = _Writes(text, whole, span, found, within, is_first, more, self._is_old)
        self.segments.append(Segment(tagged, self.lines(span[0]), edits))


@dataclass(slots=True)
class _Writes:
    """Writes the translation of a text with inline markup; it is smaller than a function with what it needs."""

    text: str
    whole: Span
    span: Span
    found: Sequence[Found]
    within: Within | Value | None
    is_first: bool
    more: Callable[[str], list[Edit]]
    is_old: bool

    def __call__(self, translation: Tagged, _: Tell) -> list[Edit]:
        text, whole, span = self.text, self.whole, self.span
        pieces = said_with(text, whole, span, self.found, translation, is_old=self.is_old)
        is_long = "\n" in text[slice(*span)]
        for number, piece in enumerate(pieces):
            if isinstance(piece, str):
                piece = re.sub(r"(::|;;)(?=\s|\Z)", lambda match: f"&#{ord(match[1][0])};" * 2, piece)
                piece = self.within.encode(piece) if self.within else piece
                pieces[number] = re.sub(r"(?<= )\+(?= |\Z)", "{plus}", piece) if is_long else piece
        raw = text[whole[0] : span[0]] + written(text, pieces) + text[span[1] : whole[1]]
        if self.is_first and span[0] == whole[0] and _begins(raw) and not _begins(text[slice(*whole)]):
            pieces.insert(0, "{empty}")
            if _begins(f"{{empty}}{raw}"):  # a mark is in its middle
                raise RefusedError("it would be read as another block")
        pieces = wrap_alike(pieces, text, span, " \t", _MAY_START)
        if isinstance(self.within, Within) and self.within.needs_quotes(raw):
            return [Edit(*whole, ['"', (whole[0], span[0]), *pieces, (span[1], whole[1]), '"'])]
        return [Edit(*span, pieces), *self.more(raw)]


def _begins(raw: str) -> bool:
    """Whether a text would be read as another block than a paragraph."""
    line = raw.split("\n", 1)[0].rstrip()
    return any(pattern.match(line) for pattern in (*_BLOCKS, _MACRO, _TERM)) or line[:1].isspace()
