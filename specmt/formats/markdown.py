"""Markdown: markdown-it says where blocks and inline markup are, and checks what is written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from specmt.formats.document import (
    Document,
    Edit,
    FormatOptions,
    LineNumbers,
    Pieces,
    RefusedError,
    Segment,
    TextDocument,
    check_size,
)
from specmt.formats.encoding import decode
from specmt.formats.inline import Inline, render, singles, wrap_alike
from specmt.formats.marks import LostError, end_of, is_full, short_end
from specmt.types import Span, Tagged

_MAX_BYTES: Final = 32 << 20
"""What markdown-it makes of a page takes more than 60 times its size."""

_FRONT: Final = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE)
_NOTE: Final = re.compile(r"\[\^[^\]\s]+\]|\[[ xX]\](?= )")
"""The number of a footnote; the box of a task."""

_HTML_NAME: Final = re.compile(r"</?([A-Za-z][\w-]*)")
_KEPT: Final = frozenset(("code", "kbd", "samp", "var", "tt", "script", "style"))
_BLOCK: Final = re.compile(r"(?:\d{1,9}[.)]|[-+*]|#{1,6}|=+|-+)(?:\s|$)|>|~~~|```|\||\t|:|\[[ xX]\] ")
_MAY_START: Final = re.compile(rf"(?!{_BLOCK.pattern})")
_SPECIAL: Final = re.compile(r"[\\`*_\[\]<>~|]|&(?=#?\w+;)")
_IN_TABLE: Final = re.compile(r"[^\S\n]*\|")
_MARKUP: Final = re.compile(r"[\\`*_\[\]<>~|&!]")
"""What there is in all inline markup."""

_NEEDED: Final = re.compile(r"\\(?=[!-/:-@\[-`{-~])|&(?=#?\w+;)")
_ENTITY: Final = re.compile(r"&(?:#[xX]?[0-9A-Fa-f]+|\w+);")


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads a page; code, HTML blocks, link targets and most of the front matter are left out.

    :raises DataError: it is not UTF-8.
    """
    check_size(len(data), _MAX_BYTES)
    text, encoding = decode(data)
    page = _Page(text)
    front = _FRONT.match(text)
    segments = [] if front is None else list(_front_matter(text, front.span(1), options.keys))
    segments += page.segments(0 if front is None else front.end())
    return TextDocument(text, encoding, segments)


def _front_matter(text: str, span: Span, keys: Sequence[str]) -> Iterator[Segment]:
    """Yields the texts of some keys: plain and quoted scalars in one line."""
    names = "|".join(map(re.escape, keys))
    pattern = re.compile(
        rf"""^[ ]*({names}):[ ]+("(?:[^"\\\n]|\\["\\])*"|'(?:[^'\n]|'')*'|[^\s"'|>&*!\[{{#][^\n]*?)[ ]*\r?$""", re.M
    )
    for match in pattern.finditer(text, *span):
        raw = match[2]
        quote = raw[0] if raw[0] in "\"'" else ""
        said = raw[1:-1] if quote else raw
        said = re.sub(r'\\(["\\])', r"\1", said) if quote == '"' else said.replace("''", "'") if quote else said
        place = match.span(2)
        if any(c.isalpha() for c in said) and (quote or " #" not in said):

            def edits(translation: Tagged, _: object, place: Span = place, quote: str = quote) -> list[Edit]:
                said = translation.text
                plain = not re.search(r": |:$| #|^[\W\d]|^(?:true|false|null|yes|no|on|off)$", said, re.IGNORECASE)
                if quote == "'":
                    return [Edit(*place, ["'" + said.replace("'", "''") + "'"])]
                escaped = said.replace("\\", "\\\\").replace('"', '\\"')
                return [Edit(*place, [said if plain and not quote else f'"{escaped}"'])]

            yield Segment(Tagged(said.strip()), text.count("\n", 0, match.start()) + 1, edits, context=match[1])


class _Block:
    """The raw text of a block without what is in front of its lines, and where each character of it is."""

    def __init__(self, lines: Sequence[tuple[str, int]]) -> None:
        self.text = "\n".join(line for line, _ in lines)
        self._starts: list[tuple[int, int]] = []
        size = 0
        for line, place in lines:
            self._starts.append((size, place))
            size += len(line) + 1

    def place(self, index: int) -> int:
        """Returns where a character is in the document; of one past a line, where the line ends."""
        size, place = max(start for start in self._starts if start[0] <= index)
        return place + index - size


class _Page:
    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = LineNumbers(text)
        self._markdown = MarkdownIt("commonmark").enable(["table", "strikethrough"]).disable("text_join")
        self._known: dict[str, Any] = {}

    def segments(self, start: int) -> Iterator[Segment]:
        """
        :param start: where the front matter ends
        """
        # What goes in front of the page must not become part of it, but its lines count.
        text = "\n" * self._text.count("\n", 0, start) + self._text[start:]
        raw = self._text.replace("\r\n", " \n").replace("\r", " ").split("\n")
        starts = [0]
        for line in raw:
            starts.append(starts[-1] + len(line) + 1)
        cell = (-1, 0)  # up to where the cells of a row were found
        for token in self._markdown.parse(text.replace("\r\n", "\n"), self._known):
            if token.type != "inline" or not token.map:
                continue
            lines: list[tuple[str, int]] = []
            for number, content in enumerate(token.content.split("\n"), token.map[0]):
                said = content.lstrip()
                line = raw[number] if number < len(raw) else ""
                least = cell[1] if cell[0] == number else 0
                whole = line.rstrip().endswith(said.rstrip()) and not least
                column = len(line.rstrip()) - len(said.rstrip()) if whole else -1
                if column < 0 or token.level >= 2:
                    column = line.find(said, least)
                if column < 0:
                    said = said.replace("|", "\\|")
                    column = line.find(said, least)
                if column < 0:
                    break
                cell = number, column + len(said)
                lines.append((said, starts[number] + column))
            else:
                if token.children and lines:
                    yield from self._block(_Block(lines), token.children)

    def _block(self, block: _Block, children: Sequence[Token]) -> Iterator[Segment]:
        inline = Inline(self._text, _decode, collapses=True)
        found: list[Segment] = []
        images: list[Segment] = []
        try:
            for is_end in self._walk(block, children, inline, images):
                if is_end:
                    found += self._take(inline)
        except LostError:
            return
        yield from [*found, *self._take(inline), *images]

    def _walk(self, block: _Block, children: Sequence[Token], inline: Inline, images: list[Segment]) -> Iterator[bool]:
        """Gives a block to the paragraph; yields whether a line ends there for good."""
        raw, place = block.text, 0
        stack: list[str] = []
        kept: tuple[str, int] | None = None  # an element of HTML that is left as it is
        skipping: tuple[int, int] | None = None  # a link that is left as it is: its level and where it ends
        for child in children:
            start = place
            if skipping is not None:
                if child.type == "link_close" and child.level == skipping[0]:
                    place, skipping = skipping[1], None
                continue
            place = end_of(raw, place, child)
            span = block.place(start), block.place(place - 1) + 1 if place > start else block.place(start)
            if kept is not None:
                if child.type == "html_inline" and child.content.startswith(f"</{kept[0]}"):
                    inline.opaque(block.place(kept[1]), span[1])
                    kept = None
            elif child.type in ("text", "text_special"):
                self._add_text(block, start, place, inline)
            elif child.type == "softbreak":
                inline.text(self._text.index("\n", block.place(start)), self._text.index("\n", block.place(start)) + 1)
            elif child.type == "hardbreak":
                if stack:
                    inline.opaque(*span)
                yield not stack
            elif child.type == "link_open" and (child.info == "auto" or not is_full(raw, start)):
                end = raw.index(">", start) + 1 if child.info == "auto" else short_end(raw, start)
                inline.opaque(block.place(start), block.place(end - 1) + 1)
                skipping = child.level, end
            elif child.type.endswith("_open"):
                stack.append(child.type)
                inline.open(*span, child.type[:-5])
            elif child.type.endswith("_close"):
                if stack:
                    stack.pop()
                inline.close(*span, child.type[:-6])
            elif child.type == "html_inline":
                name = _HTML_NAME.match(child.content)
                if name is None or child.content.endswith("/>") or name[1].lower() in ("br", "img", "wbr", "input"):
                    inline.opaque(*span)
                elif child.content.startswith("</"):
                    inline.close(*span, name[1])
                elif name[1].lower() in _KEPT:
                    kept = name[1], start
                else:
                    inline.open(*span, name[1])
            else:
                if child.type == "image":
                    images += self._image(block, start, child)
                inline.opaque(*span)
        if place != len(raw):
            raise LostError
        if kept is not None:
            raise LostError
        yield False

    def _add_text(self, block: _Block, start: int, end: int, inline: Inline) -> None:
        place = start
        for match in _NOTE.finditer(block.text, start, end):
            if place < match.start():
                inline.text(block.place(place), block.place(match.start() - 1) + 1)
            inline.mark(block.place(match.start()), block.place(match.end() - 1) + 1)
            place = match.end()
        if place < end:
            inline.text(block.place(place), block.place(end - 1) + 1)

    def _image(self, block: _Block, start: int, child: Token) -> Iterator[Segment]:
        """Yields the text that stands for an image, where it is plain."""
        alt = child.content
        if block.text.startswith(alt + "]", start + 2) and alt and "\n" not in alt:
            inline = Inline(self._text, _decode, collapses=True)
            inline.text(block.place(start + 2), block.place(start + 2 + len(alt) - 1) + 1)
            yield from self._take(inline)

    def _take(self, inline: Inline) -> Iterator[Segment]:
        found = inline.take()
        if found is None:
            return
        tagged, span = found
        yield Segment(tagged, self._lines(span[0]), lambda translation, _: [self._edit(span, translation)])

    def _edit(self, span: Span, translation: Tagged) -> Edit:
        """
        :raises RefusedError: the translation would be read as other markup.
        """
        line_start = self._text.rfind("\n", 0, span[0]) + 1
        ahead = self._text[line_start : span[0]]
        is_first = not ahead.strip(" \t>") or _BLOCK.match(ahead.lstrip(" \t>")) is not None
        in_table = "|" in ahead or _IN_TABLE.match(self._text, span[1]) is not None
        if not translation.tags and not _MARKUP.search(translation.text) and not _BLOCK.match(translation.text):
            return self._wrapped(span, [translation.text.replace("\xa0", "&nbsp;")])
        shape = _shape(self._parse([span]))
        kept = {tag.open for tag in singles(translation.tags)}
        said = "".join(
            piece if isinstance(piece, str) else _said(self._parse([piece])) if piece in kept else ""
            for piece in render(translation)
        )
        said = re.sub(r"\s", "", said)
        for pattern in (_NEEDED, _SPECIAL):
            pieces = render(translation, lambda text, pattern=pattern: _escape(text, pattern, in_table=in_table))  # type: ignore[misc]
            if is_first and isinstance(pieces[0], str) and _BLOCK.match(pieces[0]):
                number = re.match(r"\d+", pieces[0])
                cut = number.end() if number else 0
                pieces[0] = f"{pieces[0][:cut]}\\{pieces[0][cut:]}"
            children = self._parse(pieces)
            if _shape(children) == shape and _said(children) == said:
                return self._wrapped(span, pieces)
        raise RefusedError("its inline markup would be read as something else")

    def _wrapped(self, span: Span, pieces: Pieces) -> Edit:
        return Edit(*span, wrap_alike(pieces, self._text, span, " \t>", _MAY_START))

    def _parse(self, pieces: Pieces) -> Sequence[Token]:
        raw = "".join(piece if isinstance(piece, str) else self._text[slice(*piece)] for piece in pieces)
        (token,) = self._markdown.parseInline(re.sub(r"\r?\n[ \t>]*", "\n", raw), self._known)
        return token.children or ()


def _shape(children: Sequence[Token]) -> Counter[tuple[object, ...]]:
    """Returns what inline markup there is, its places aside."""
    return Counter(
        (
            child.type,
            child.markup,
            str(child.attrs),
            child.content if child.type in ("code_inline", "html_inline") else "",
        )
        for child in children
        if child.type not in ("text", "text_special", "softbreak")
    )


def _said(children: Sequence[Token]) -> str:
    """Returns what a reader sees of a text, but for code and space."""
    return "".join(re.sub(r"\s", "", child.content) for child in children if child.type in ("text", "text_special"))


def _decode(raw: str) -> str:
    from html import unescape

    raw = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", raw)
    return _ENTITY.sub(lambda match: unescape(match[0]), raw)


def _escape(text: str, pattern: re.Pattern[str], *, in_table: bool = False) -> str:
    escaped = pattern.sub(lambda match: "\\" + match[0], text).replace("\xa0", "&nbsp;")
    return re.sub(r"(?<!\\)\|", r"\\|", escaped) if in_table else escaped
