"""Markdown: markdown-it says where blocks and inline markup are; another parser checks what is written."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import methodcaller
from typing import Any, Final

from markdown_it.token import Token

from specmt.formats.anchors import (
    EXPLICIT,
    Heading,
    follow,
    fragments,
    moved_anchors,
    new_anchors,
    new_targets,
    slugs_of,
)
from specmt.formats.commonmark import COLUMNS, parser
from specmt.formats.commonmark_inline import places
from specmt.formats.content import LINE_END, Content, SourceLines, cells
from specmt.formats.document import (
    KEPT,
    NO_WORDS,
    Document,
    Edit,
    FormatOptions,
    Part,
    Segment,
    TextDocument,
    check_size,
    unread_segments,
)
from specmt.formats.encoding import decode, spellings, unescape
from specmt.formats.front import FRONT, front_matter, language_in
from specmt.formats.html import part_of_page
from specmt.formats.inline import Inline, replacing
from specmt.formats.rendering import CODE, Writer, decoded
from specmt.formats.shape import Checked
from specmt.names import ICON, ICONS
from specmt.types import Span, Tagged

_MAX_BYTES: Final = 32 << 20
"""What markdown-it makes of a page takes more than 60 times its size."""

_HTML_NAME: Final = re.compile(r"</?([A-Za-z][\w:.-]*)")
_BARE_TAG: Final = re.compile(r"</?[A-Za-z][A-Za-z0-9-]*>")
_LABEL: Final = re.compile(r"(?:[^\w\s*]+ )?(\*\*|__)[^*_\n]{1,80}\1:?[ \t]*(?=\n\s*[*_`]*[^\Wa-zß-ÿ])")
"""A line over a paragraph, as in ``> **Note**``."""

_IMAGE_LINE: Final = re.compile(r"^[ \t]*<(?:img|input|video|br|hr)\b[^<>\n]*>[ \t]*$", re.MULTILINE)
"""A line of its own, which is a block to cmark where it is not as far to the right as the item that it is in."""

_KEPT: Final = frozenset(("code", "kbd", "samp", "var", "tt", "script", "style", "svg", "math", "pre", *ICONS))
_MARKED: Final = re.compile(rf"""translate=["']?no\b|\bnotranslate\b|{ICON}""")
_BLOCK_NAMES: Final = "blockquote br caption center dd div dl dt figcaption figure h1 h2 h3 h4 h5 h6 hr li ol p ul"
_BLOCKS: Final = frozenset(_BLOCK_NAMES.split())
_POINTS: Final = frozenset(("attributes", "hashes", "id"))
"""What is kept that is no part of a sentence."""

_VOID: Final = frozenset(("img", "wbr", "input"))
_NOTE: Final = re.compile(r"^[ \t>]*\[\^[^\]\s]+\]:", re.MULTILINE)
_TASK: Final = re.compile(r"\[[ xX]\](?=\s)")
_SENTENCE_END: Final = re.compile(r"""(?:[.!?:;…]["'”’»)\]*_`]*|\{:?[ ]*[.#][^{}]*\})\s*\Z""")
"""How a line ends behind which there is another text, as behind a button with its class."""

_PRE: Final = re.compile(r"<(/?)pre\b", re.IGNORECASE)
_TARGET: Final = re.compile(r"\](?:\(|\[[^\]])")
"""What is behind the text of a link that is not named by it."""

_IS_MDX: Final = re.compile(r"^(?:import |export |[ \t]*<[A-Z])", re.MULTILINE)
"""What of MDX there is in pages that are not called so."""

_JSX_TEXT: Final = re.compile(
    r"\b(?:title|label|alt|description|summary|caption|placeholder|aria-label|header|heading|subtitle|tooltip|tip|text)"
    r"""=(?:"([^"\n{}]*)"|'([^'\n{}]*)')"""
)
_PARTED: Final = "a bar parts code in it"
"""Why a row is left: Python-Markdown has it whole."""

_LISTED_TEXT: Final = re.compile(r"""\b(?:title|alt|caption|text|data-toc-label)=(?:"([^"\n{}]*)"|'([^'\n{}]*)')""")
"""The same in a list of attributes, or in a macro."""

_TITLE: Final = re.compile(r"""(?<=\s)(?:"([^"\n\\]*)"|'([^'\n\\]*)')(?=\s{0,9}\)?\s{0,9}\Z)""")
"""The title behind the target of a link or an image."""

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
    if options.dialect == "docusaurus" and _IS_MDX.search(text):
        options = replace(options, mdx=True)
    page = _Page(text, options)
    segments = page.segments()
    document = TextDocument(text, encoding, segments, finish=page.finish, parts=page.parts)
    starts = (heading.span[0] for heading in page.headings)
    slugs = dict(zip(starts, slugs_of((each.text for each in page.headings), options.dialect), strict=True))
    return Checked(document, mdx=options.mdx, targets=page.targets, slugs=slugs, moved=page.moved)


class _Page:
    def __init__(self, text: str, options: FormatOptions) -> None:
        self.parts: list[Part] = []
        """What is left as it is, and why."""
        self._text = text
        self._front = FRONT.match(text)
        self._options = options
        self._markdown = parser(options.dialect, mdx=options.mdx)
        self._env: dict[str, Any] = {}
        self._writer = Writer(text, self._markdown, self._env, self._spelt, mdx=options.mdx)
        self._lines = SourceLines(text)
        self._cells: Iterator[Span] = iter(())
        self._in_pre = False
        self._is_parted = False
        """Whether a row is one in which code is parted into cells."""
        self.headings: list[Heading] = []
        self.targets: dict[str, str] = {}
        """The targets of links that writing changes, and what they become."""
        self.moved: dict[str, str] = {}
        """The ids of headings that it changes, and what they become."""

    def segments(self) -> list[Segment]:
        """Returns the texts of the page."""
        found: list[Segment] = []
        start = 0
        if self._front is not None:
            found += front_matter(self._text, self._front, self._options.keys)
            start = self._front.end()
            self._leave((0, start), "front matter")
        # What goes in front of the page must not become part of it, but its lines count.
        source = "\n" * len(LINE_END.findall(self._text[:start])) + LINE_END.sub("\n", self._text[start:])
        is_heading = False
        tokens = self._markdown.parse(source, self._env)[::-1]
        while tokens:  # each takes more memory than what is made of it
            token = tokens.pop()
            span = (0, 0) if token.map is None else self._lines.span(*token.map)
            if token.type == "inline":
                first = len(found)
                found += self._block(token)
                if is_heading:
                    self._add_heading(token, first, len(found))
            elif token.type == "tr_open":
                said = [CODE.sub("", self._text[slice(*cell)]) for cell in cells(self._text, span)]
                self._is_parted = sum("`" in cell for cell in said) > 1
                self._cells = cells(self._text, span)
                if self._is_parted:
                    found.append(self._told(span, _PARTED))
            elif token.type == "tr_close":
                self._cells, self._is_parted = iter(()), False
            elif token.type == "html_block":
                self._leave(span, "HTML")
                self._in_pre = _is_in_pre(self._text[slice(*span)], self._in_pre)
                found += part_of_page(self._text, span, self._options, self._lines.number)
            elif token.type == "jsx":
                self._leave(span, "JSX")
                found += self._attributes(span)
            elif token.type in ("fence", "code_block", "hr", "line") or (token.type == "kept" and token.block):
                self._leave(span, _REASONS.get(token.type, token.info))
                if token.info == "macro" and token.type == "kept":
                    found += self._attributes(span, _LISTED_TEXT)
                if token.info == COLUMNS and token.type == "kept":
                    found.append(self._told(span, COLUMNS))
            is_heading = token.type == "heading_open"
        for label in _NOTE.finditer(self._text, start):
            self._leave(label.span(), "markup")
        for reference in [*self._env.get("references", {}).values(), *self._env.get("duplicate_refs", ())]:
            span = self._lines.span(*reference["map"])
            self._leave(span, "link definition")
            found += self._attributes(span, _TITLE)
        return [*found, *unread_segments(self._text, self.parts, self._lines.number)]

    def _spelt(self) -> dict[int, str]:
        """Returns how characters are written that the texts of the page mostly write as entities, or always escape."""
        said = "\n".join(self._text[part.start : part.end] for part in self.parts if not part.reason)
        said = re.sub(rf"{CODE.pattern}|\n[ \t>]*", "", said)
        escaped = {ord(char): f"\\{char}" for char in "$~^" if f"\\{char}" in said}
        return spellings(said, 0, len(said), "") | escaped

    def _add_heading(self, token: Token, first: int, last: int) -> None:
        content = self._lines.content(token, None)
        if content is not None and content.text:
            text = "".join(child.content for child in token.children or ())
            self.headings.append(Heading(content.span(0, len(content.text)), text, first, last))

    def finish(self, written: Mapping[int, Tagged]) -> Iterator[Edit]:
        """Yields what keeps links working where texts are translated, and what says the language."""
        self.targets.clear()
        self.moved.clear()
        options = self._options
        anchors = options.anchors
        if anchors == "auto":
            anchors = "explicit" if options.dialect in EXPLICIT else "rewrite"
        if anchors == "explicit":
            linked = options.linked | fragments(self._text)
            yield from new_anchors(self._text, self.headings, written, options.dialect, linked)
        elif anchors == "rewrite":
            self.moved |= moved_anchors(self._text, self.headings, written, options.dialect)

        def change(target: str) -> str:
            if target.startswith("#"):
                return follow(target, "", lambda _: self.moved)
            return options.rebase(target) if options.rebase is not None else target

        for edit, old, new in new_targets(self._text, self.parts, change) if self.moved or options.rebase else ():
            self.targets[old] = new
            yield edit
        yield from language_in(self._text, self._front, options)

    def _told(self, span: Span, reason: str) -> Segment:
        """Returns a segment that tells of what is left."""
        self._leave(span, reason)
        said = Tagged(self._text[slice(*span)])
        return Segment(said, self._lines.number(span[0]), lambda *_: (), "skipped", reason=f"{KEPT}: {reason}")

    def _leave(self, span: Span, reason: str) -> None:
        if span[0] < span[1]:
            self.parts.append(Part(*span, reason))

    def _block(self, token: Token) -> Iterator[Segment]:
        """Yields the segments of inline content."""
        cell = next(self._cells, None)
        if not token.content or token.map is None or self._is_parted:
            return
        content = self._lines.content(token, cell)
        if content is None:
            return
        self._writer.learn(token)
        tags = "".join(child.content for child in token.children or () if child.type == "html_inline")
        self._in_pre, was_in_pre = _is_in_pre(tags, self._in_pre), self._in_pre
        if was_in_pre:
            self._leave(self._lines.span(*token.map), "code")
            return
        images: list[Segment] = []
        yield from self._segments(content, token.children or (), 0, len(content.text), images)
        yield from images

    def _segments(
        self, content: Content, children: Sequence[Token], base: int, end: int, images: list[Segment]
    ) -> Iterator[Segment]:
        inline = Inline(self._text, decoded, collapses=True)
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
        has_lines = "\n" in content.text[base:end]
        cuts = has_lines and all(_SENTENCE_END.search(line) for line in content.text[base:end].split("\n"))
        label = _LABEL.match(content.text, base, end) if has_lines else None
        image_ends = {match.end() for match in _IMAGE_LINE.finditer(content.text, base, end)} if has_lines else ()
        closings = _closings(found)
        opened: list[str] = []
        skipped = 0  # up to which token all is part of what was taken whole
        for number, (child, start, stop) in enumerate(found):
            if number < skipped:
                continue
            span = content.span(start, stop)
            kind = child.type
            if kind in ("text", "text_special"):
                box = _TASK.match(content.text, start, stop) if number == 0 else None
                if box is not None:
                    inline.point(*content.span(*box.span()))
                    self._leave(content.span(*box.span()), "markup")
                    span = content.span(box.end(), stop)
                inline.text(*span)
                if kind == "text_special":
                    self._leave(span, "entity")
                continue
            if kind == "softbreak":
                place = content.text.index("\n", start)
                inline.text(*content.span(place, place + 1))
                is_end = cuts or (label and place == label.end()) or _IMAGE_LINE.match(content.text, place + 1)
                if (is_end or place in image_ends) and not opened:
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
            elif kind in ("image", "link_close", "span_close") or child.info in ("attributes", "icon", "macro"):
                images += self._attributes(span, _LISTED_TEXT)
                images += self._attributes(span, _TITLE)
            is_break = kind == "hardbreak" or name in _BLOCKS
            if is_break and (not opened or name in ("br", "hardbreak")):  # what it is in stays around both
                yield
            elif is_break or skipped > number or name in _VOID or kind in ("code_inline", "image"):
                if kind == "image":
                    images += self._image(content, child, start)
                inline.opaque(*span)
            elif kind == "note":
                images += self._segments(content, child.children or (), start + 2, stop - 1, [])
                inline.mark(*span)
            elif kind == "kept":
                is_point = child.info in _POINTS or (child.info == "icon" and number in (0, len(found) - 1))
                (inline.mark if child.info == "mark" else inline.point if is_point else inline.opaque)(*span)
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

    def _image(self, content: Content, child: Token, start: int) -> Iterator[Segment]:
        """Yields the text that stands for an image, unless it names the image."""
        end = start + 2 + len(child.content)
        if child.content and content.text[end : end + 2] in ("](", "][") and content.text[end : end + 3] != "][]":
            yield from self._segments(content, child.children or (), start + 2, end, [])

    def _texts_of_tag(self, span: Span) -> Iterator[Segment]:
        if self._options.mdx:
            return self._attributes(span)
        if _BARE_TAG.fullmatch(self._text, *span):
            return iter(())
        return part_of_page(self._text, span, self._options, self._lines.number)

    def _attributes(self, span: Span, pattern: re.Pattern[str] = _JSX_TEXT) -> Iterator[Segment]:
        """Yields the texts in attributes, or that a pattern finds."""
        for match in pattern.finditer(self._text, *span):
            quotes = ('"', "&quot;") if match[1] is not None else ("'", "&#39;")
            place = match.span(match.lastindex or 0)
            said = unescape(self._text[slice(*place)])
            if any(map(str.isalpha, said)):
                edits = replacing(place, methodcaller("replace", *quotes))
                yield Segment(Tagged(said), self._lines.number(place[0]), edits)

    def _take(self, inline: Inline) -> Iterator[Segment]:
        extent, found = inline.extent, inline.take()
        if found is None:
            self._leave(extent, NO_WORDS)
            return
        tagged, span = found
        self._leave((extent[0], span[0]), "markup")
        self.parts.append(Part(*span, ""))
        self._leave((span[1], extent[1]), "markup")
        line = self._lines.number(span[0])
        yield Segment(tagged, line, lambda translation, _: [self._writer.edit(span, translation)], span=span)


def _last_of(
    number: int, found: Sequence[tuple[Token, int, int]], text: str, closings: Mapping[str, Sequence[int]]
) -> int | None:
    """Returns which token ends a link or an element that is left as it is; ``None`` for what is not."""
    first = found[number][0]
    if first.type == "link_open":
        closed = (n for n in range(number, len(found)) if found[n][0].type == "link_close")
        last = next(n for n in closed if found[n][0].level == first.level)
        end = found[last][2]
        is_empty = last == number + 1 and not text[end : end + 1].isalnum()
        return last if first.info == "auto" or is_empty or not _TARGET.match(text, *found[last][1:]) else None
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
