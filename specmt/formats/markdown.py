"""Markdown: markdown-it says where blocks and inline markup are; another parser checks what is written."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from typing import Any, Final

from markdown_it.token import Token

from specmt.formats.commonmark import parser, places
from specmt.formats.content import LINE_END, PREFIX, Content, SourceLines, cells
from specmt.formats.document import (
    Document,
    Edit,
    FormatOptions,
    Part,
    Pieces,
    RefusedError,
    Segment,
    TextDocument,
    check_size,
    unread,
)
from specmt.formats.encoding import decode
from specmt.formats.front import FRONT, front_matter
from specmt.formats.html import part_of_page
from specmt.formats.inline import Inline, render, replacing, singles, wrap_alike
from specmt.formats.shape import Checked
from specmt.types import Span, Tagged

_MAX_BYTES: Final = 32 << 20
"""What markdown-it makes of a page takes more than 60 times its size."""

_HTML_NAME: Final = re.compile(r"</?([A-Za-z][\w:.-]*)")
_KEPT: Final = frozenset(("code", "kbd", "samp", "var", "tt", "script", "style", "svg", "math", "pre"))
_MARKED: Final = re.compile(r"""translate=["']?no\b|\bnotranslate\b""")
_VOID: Final = frozenset(("img", "wbr", "input"))
_TASK: Final = re.compile(r"\[[ xX]\](?=\s)")
_SENTENCE_END: Final = re.compile(r"""[.!?:;…]["'”’»)\]*_`]*\s*\Z""")
_PRE: Final = re.compile(r"<(/?)pre\b", re.IGNORECASE)
_TARGET: Final = re.compile(r"\](?:\(|\[[^\]])")
"""What is behind the text of a link that is not named by it."""

_JSX_TEXT: Final = re.compile(
    r"\b(?:title|label|alt|description|summary|caption|placeholder|aria-label|header|heading|subtitle|tooltip)"
    r"""=(?:"([^"\n{}]*)"|'([^'\n{}]*)')"""
)
_BLOCK: Final = re.compile(
    r"(?:\d{1,9}[.)]|[-+*:]|#{1,6}|=+|-+)(?:\s|$)|>|~~~|```|\||\t|\[[ xX]\] |:::|!!!|\?\?\?|===|\$\$|\[\^?[^\]]*\]:"
    r"|([-_*])[ \t]*(?:\1[ \t]*){2,}"
)
_MAY_START: Final = re.compile(rf"(?!{_BLOCK.pattern}|<|import\b|export\b|\{{)")
_SPECIAL: Final = re.compile(r"[\\`*_\[\]<>~|${]|&(?=#?\w+;)")
_IN_TABLE: Final = re.compile(r"[^\S\n]*\|")
_MARKUP: Final = re.compile(r"[\\`*_\[\]<>~|&!$:{+]")
"""What there is in all inline markup."""

_NEEDED: Final = re.compile(r"\\(?=[!-/:-@\[-`{-~])|&(?=#?\w+;)")
_ENTITY: Final = re.compile(r"&(?:#[xX]?[0-9A-Fa-f]+|\w+);")
_REASONS: Final = {
    "fence": "code", "code_block": "code", "hr": "markup", "line": "markup", "link_close": "link target",
    "code_inline": "code", "image": "image", "html_inline": "tag", "link_open": "markup",
}  # fmt: skip
"""Why a token is left as it is, beside those that say so themselves."""


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads a page; code, link targets, macros, math and most of the front matter are left out.

    :raises DataError: it is not UTF-8.
    """
    check_size(len(data), _MAX_BYTES)
    text, encoding = decode(data)
    page = _Page(text, options)
    front = FRONT.match(text)
    segments = [] if front is None else list(front_matter(text, front, options.keys))
    if front is not None:
        page.parts.append(Part(0, front.end(), "front matter"))
    segments += page.segments(0 if front is None else front.end())
    return Checked(TextDocument(text, encoding, segments, parts=page.parts), text, options.dialect)


class _Page:
    def __init__(self, text: str, options: FormatOptions) -> None:
        self.parts: list[Part] = []
        """What is left as it is, and why."""
        self._text = text
        self._options = options
        self._markdown = parser(options.dialect)
        self._env: dict[str, Any] = {}
        self._lines = SourceLines(text)
        self._cells: Iterator[Span] = iter(())
        self._in_pre = False

    def segments(self, start: int) -> Iterator[Segment]:
        """
        :param start: where the front matter ends
        """
        # What goes in front of the page must not become part of it, but its lines count.
        source = "\n" * len(LINE_END.findall(self._text[:start])) + LINE_END.sub("\n", self._text[start:])
        found: list[Segment] = []
        for token in self._markdown.parse(source, self._env):
            span = (0, 0) if token.map is None else self._lines.span(*token.map)
            if token.type == "inline":
                found += self._block(token)
            elif token.type == "tr_open":
                self._cells = cells(self._text, span)
            elif token.type == "tr_close":
                self._cells = iter(())
            elif token.type == "html_block":
                self._leave(span, "HTML")
                self._in_pre = _is_in_pre(self._text[slice(*span)], self._in_pre)
                found += part_of_page(self._text, span, self._options, self._lines.number)
            elif token.type == "jsx":
                self._leave(span, "JSX")
                found += self._attributes(span)
            elif token.type in ("fence", "code_block", "hr", "line") or (token.type == "kept" and token.block):
                self._leave(span, _REASONS.get(token.type, token.info))
        for reference in [*self._env.get("references", {}).values(), *self._env.get("duplicate_refs", ())]:
            self._leave(self._lines.span(*reference["map"]), "link definition")
        yield from found
        for part in unread(self._text, self.parts):
            said = Tagged(self._text[part.start : part.end].strip())
            reason = "left as it is: it is not understood"
            yield Segment(said, self._lines.number(part.start), lambda *_: (), state="skipped", reason=reason)

    def _leave(self, span: Span, reason: str) -> None:
        if span[0] < span[1]:
            self.parts.append(Part(*span, reason))

    def _block(self, token: Token) -> Iterator[Segment]:
        """Yields the segments of inline content."""
        cell = next(self._cells, None)
        if not token.content or token.map is None:
            return
        content = self._lines.content(token, cell)
        if content is None:
            return
        self._in_pre, was_in_pre = _is_in_pre(content.text, self._in_pre), self._in_pre
        if was_in_pre:
            self._leave(self._lines.span(*token.map), "code")
            return
        images: list[Segment] = []
        yield from self._segments(content, token.children or (), 0, len(content.text), images)
        yield from images

    def _segments(
        self, content: Content, children: Sequence[Token], base: int, end: int, images: list[Segment]
    ) -> Iterator[Segment]:
        inline = Inline(self._text, _decode, collapses=True)
        for _ in self._walk(content, children, base, end, inline, images):
            yield from self._take(inline)
        yield from self._take(inline)

    def _walk(
        self,
        content: Content,
        children: Sequence[Token],
        base: int,
        end: int,
        inline: Inline,
        images: list[Segment],
    ) -> Iterator[None]:
        """Gives inline content to the paragraph; yields where a text ends for good.

        :param base: where it starts in the content
        """
        found = [(child, base + start, base + stop) for child, start, stop in places(children, end - base)]
        cuts = all(_SENTENCE_END.search(line) for line in content.text[base:end].split("\n"))
        closings = _closings(found)
        opened: list[str] = []
        skipped = 0  # up to which token all is part of what was taken whole
        for number, (child, start, stop) in enumerate(found):
            if number < skipped:
                continue
            span = content.span(start, stop)
            kind = child.type
            if kind in ("text", "text_special"):
                self._add_text(content, start, stop, inline, is_first=number == 0)
                continue
            if kind == "softbreak":
                place = content.text.index("\n", start)
                inline.text(*content.span(place, place + 1))
                if cuts and not opened:
                    yield
                continue
            if kind in ("html_inline", "link_open"):
                last = _last_of(number, found, content.text, closings)
                if last is not None:
                    skipped = last + 1
                    span = span[0], content.span(start, found[last][2])[1]
            self._leave(span, _REASONS.get(kind, child.info or "markup"))
            name = kind if kind != "html_inline" else _name_of(child.content)
            if kind == "html_inline":
                images += self._texts_of_tag(span)
            is_break = kind == "hardbreak" or name == "br"
            if is_break and not opened:
                yield
            elif is_break or skipped > number or name in _VOID or kind in ("code_inline", "image"):
                if kind == "image":
                    images += self._image(content, child, start)
                inline.opaque(*span)
            elif kind == "kept":
                is_edge = number in (0, len(found) - 1)
                take = {"mark": inline.mark, "attributes": inline.point, "icon": inline.point if is_edge else None}
                (take.get(child.info) or inline.opaque)(*span)
            elif kind.endswith("_open") or (kind == "html_inline" and not child.content.startswith("</")):
                if child.content.endswith("/>") or not (kind != "html_inline" or closings.get(name, (0,))[-1] > number):
                    inline.opaque(*span)
                else:
                    opened.append(name.removesuffix("_open"))
                    inline.open(*span, opened[-1])
            else:
                closed = name.removesuffix("_close")
                if closed in opened:
                    while opened.pop() != closed:
                        pass
                inline.close(*span, closed)

    def _add_text(self, content: Content, start: int, end: int, inline: Inline, *, is_first: bool) -> None:
        box = _TASK.match(content.text, start, end) if is_first else None
        if box is not None:
            inline.point(*content.span(*box.span()))
            self._leave(content.span(*box.span()), "markup")
            start = box.end()
        if start < end:
            inline.text(*content.span(start, end))

    def _image(self, content: Content, child: Token, start: int) -> Iterator[Segment]:
        """Yields the text that stands for an image, unless it names the image."""
        end = start + 2 + len(child.content)
        if child.content and content.text[end : end + 2] in ("](", "][") and content.text[end : end + 3] != "][]":
            yield from self._segments(content, child.children or (), start + 2, end, [])

    def _texts_of_tag(self, span: Span) -> Iterator[Segment]:
        if self._options.dialect == "mdx":
            return self._attributes(span)
        return part_of_page(self._text, span, self._options, self._lines.number)

    def _attributes(self, span: Span) -> Iterator[Segment]:
        """Yields the texts in attributes of JSX."""
        for match in _JSX_TEXT.finditer(self._text, *span):
            place = match.span(1) if match[1] is not None else match.span(2)
            said = unescape(self._text[slice(*place)])
            if any(map(str.isalpha, said)):
                edits = replacing(place, lambda text: text.replace('"', "&quot;").replace("'", "&#39;"))
                yield Segment(Tagged(said), self._lines.number(place[0]), edits)

    def _take(self, inline: Inline) -> Iterator[Segment]:
        found = inline.take()
        if found is None:
            return
        tagged, span = found
        self.parts.append(Part(*span, ""))
        yield Segment(tagged, self._lines.number(span[0]), lambda translation, _: [self._edit(span, translation)])

    def _edit(self, span: Span, translation: Tagged) -> Edit:
        """
        :raises RefusedError: the translation would be read as other markup.
        """
        line_start = self._text.rfind("\n", 0, span[0]) + 1
        ahead = self._text[line_start : span[0]]
        is_first = PREFIX.fullmatch(ahead.replace("[ ]", "").replace("[x]", "")) is not None
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
        (token,) = self._markdown.parseInline(re.sub(r"\r?\n[ \t>]*", "\n", raw), self._env)
        return token.children or ()


def _last_of(
    number: int, found: Sequence[tuple[Token, int, int]], text: str, closings: Mapping[str, Sequence[int]]
) -> int | None:
    """Returns which token ends a link or an element that is left as it is; ``None`` for what is not."""
    first = found[number][0]
    if first.type == "link_open":
        last = next(n for n in range(number, len(found)) if _is_end_of(found[n][0], first))
        return last if first.info == "auto" or not _TARGET.match(text, *found[last][1:]) else None
    name = _name_of(first.content)
    if first.content.startswith("</") or not (name in _KEPT or _MARKED.search(first.content)):
        return None
    ends = closings.get(name, ())
    place = bisect_left(ends, number)
    return ends[place] if place < len(ends) else None


def _is_in_pre(text: str, before: bool) -> bool:
    """Whether what is behind a text of HTML is in ``<pre>``, which is code, whatever Markdown is in it."""
    tags = _PRE.findall(text)
    return not tags[-1] if tags else before


def _name_of(tag: str) -> str:
    """Returns what pairs the tags of an element, which in JSX may have none."""
    found = _HTML_NAME.match(tag)
    return found[1].lower() if found else ""


def _closings(found: Sequence[tuple[Token, int, int]]) -> dict[str, list[int]]:
    """Returns which tokens close elements, by their names."""
    closings: dict[str, list[int]] = {}
    for number, (child, _, _) in enumerate(found):
        if child.type == "html_inline" and child.content.startswith("</"):
            closings.setdefault(_name_of(child.content), []).append(number)
    return closings


def _is_end_of(child: Token, first: Token) -> bool:
    return child.type == "link_close" and child.level == first.level


def _shape(children: Sequence[Token]) -> Counter[tuple[object, ...]]:
    """Returns what inline markup there is, its places aside."""
    return Counter(
        (
            child.type,
            child.markup,
            str(child.attrs),
            child.content if child.type in ("code_inline", "html_inline", "kept") else "",
        )
        for child in children
        if child.type not in ("text", "text_special", "softbreak")
    )


def _said(children: Sequence[Token]) -> str:
    """Returns what a reader sees of a text, but for code and space."""
    return "".join(re.sub(r"\s", "", child.content) for child in children if child.type in ("text", "text_special"))


def _decode(raw: str) -> str:
    raw = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", raw)
    return _ENTITY.sub(lambda match: unescape(match[0]), raw)


def _escape(text: str, pattern: re.Pattern[str], *, in_table: bool = False) -> str:
    escaped = pattern.sub(lambda match: "\\" + match[0], text).replace("\xa0", "&nbsp;")
    return re.sub(r"(?<!\\)\|", r"\\|", escaped) if in_table else escaped
