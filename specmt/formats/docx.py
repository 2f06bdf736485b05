"""Word documents.

Word cuts a sentence into runs: where the spelling was checked, where a word is bold. Runs of one style are one text
here. The style that most of a paragraph has is its own; other styles, links and insertions are tags in it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from specmt.errors import DataError
from specmt.formats.document import Document, Edit, FormatOptions, LineNumbers, Part, Pieces, Segment, Tell
from specmt.formats.inline import Inline
from specmt.formats.markup import Element, Token, children, xml_escape, xml_tokens, xml_unescape
from specmt.formats.package import Package, member_of, tags
from specmt.formats.runs import drawn
from specmt.formats.styles import is_code_style
from specmt.types import Span, Tag, Tagged

_MEMBERS: Final = re.compile(
    r"word/(?:(?:document\d*|header\d*|footer\d*|footnotes|endnotes)|(?:charts|diagrams)/[^/]+)\.xml"
)
_CONTAINERS: Final = frozenset(("w:hyperlink", "w:ins", "w:moveTo", "w:smartTag", "w:customXml", "w:dir", "w:bdo"))
_BREAKS: Final = frozenset(("w:br", "w:cr", "w:tab", "w:ptab", "w:footnoteRef", "w:endnoteRef"))
"""Where a sentence ends."""

_OF_FIELDS: Final = frozenset(("w:fldChar", "w:instrText"))

_NOTES: Final = frozenset(("w:footnoteReference", "w:endnoteReference"))
_UNSEEN: Final = frozenset(("w:rPr", "w:t", "w:lastRenderedPageBreak", "w:softHyphen"))
"""What of a run is text, or not in it."""

_COMMENT: Final = "w:commentReference"

_HYPHEN: Final = "w:noBreakHyphen"
_LINK: Final = re.compile(r"<w:instrText\b[^<>]*>\s*HYPERLINK\b")

_PROPERTIES: Final = frozenset(("w:pPr", "w:smartTagPr", "w:customXmlPr"))
_CHOSEN: Final = frozenset(("w:comboBox", "w:date", "w:dropDownList"))
"""Content controls of which the text is one of a list."""

_SHOWN: Final = " w:displayText="
"""What a list shows for its values, and is translated as its text is."""

_USED: Final = re.compile(r"<w:([pr])Style\b[^<>]*\bw:val=\"([^\"]*)\"")
_INVISIBLE_NAMES: Final = (
    "w:bookmarkStart w:bookmarkEnd w:proofErr w:del w:moveFrom w:commentRangeStart w:commentRangeEnd "
    "w:permStart w:permEnd w:moveFromRangeStart w:moveFromRangeEnd w:moveToRangeStart w:moveToRangeEnd"
)
_INVISIBLE: Final = frozenset(_INVISIBLE_NAMES.split())
_NO_STYLE: Final = re.compile(
    r'<w:(?:lang|noProof|rFonts w:hint)\b[^<>]*/>|<w:rPr>\s*</w:rPr>|(?<!\s)\s+w:rsid\w*="[^"]*"'
)
"""What tells runs apart without being seen."""

_DEEPEST: Final = 50
"""How many paragraphs may be in each other, or insertions and links: what is in one is looked through each time."""

_OPEN: Final = '<w:t xml:space="preserve">'
_CLOSE: Final = "</w:t></w:r>"


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads the paragraphs of a document, of its headers, footers, notes, charts and diagrams.

    :raises DataError: it is damaged, or unpacks to more than is read.
    """
    names: dict[str, tuple[str, str]] = {}
    style = ""
    for name, said in tags(member_of(data, "word/styles.xml"), ("w:style", "w:name", "w:basedOn")):
        if name == "w:style":
            style = said.get("w:styleId", "")
            names[style] = style, ""
        elif style:
            own, parent = names[style]
            names[style] = (said.get("w:val", own), parent) if name == "w:name" else (own, said.get("w:val", ""))
    find = partial(_segments, is_code=partial(is_code_style, names))
    return Package(data, "docx", _MEMBERS.fullmatch, find)


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of text."""

    start: int
    end: int
    head: Span
    """What opens it and says its style."""
    style: str


def _segments(text: str, is_code: Callable[[str], bool]) -> Iterator[Segment | Part]:
    lines = LineNumbers(text)
    chosen = _chosen(text) if any(f"<{name}" in text for name in _CHOSEN) else []
    yield from (Part(*span, "one of a list") for span in chosen)
    for number, paragraph in enumerate(_paragraphs(xml_tokens(text), lines), 1):
        place = bisect_left(chosen, (paragraph.start, 0)) - 1
        if place >= 0 and paragraph.end <= chosen[place][1]:
            continue
        properties = paragraph.elements[0] if paragraph.elements else paragraph
        style = _USED.search(text, properties.start, properties.end) if properties.name == "w:pPr" else None
        if style is None or style[1] != "p" or not is_code(style[2]):
            found = _Paragraph(text, paragraph, is_code)
            yield from found.left
            for each in (found, *(_Paragraph(text, shown, is_code) for shown in found.shown)):
                yield from each.segments(lines, f"paragraph {number}")
        else:
            yield Part(paragraph.start, paragraph.end, "code")
    yield from drawn(text, lines)


def _chosen(text: str) -> list[Span]:
    """Returns where the content controls are that have paragraphs in them of which the text is one of a list."""
    found: list[Span] = []
    opened: list[tuple[int, bool]] = []
    for token in xml_tokens(text):
        if token.name == "w:sdt" and token.kind == "open":
            opened.append((token.start, False))
        elif token.name in _CHOSEN and token.kind != "close" and opened:
            opened[-1] = opened[-1][0], True
        elif token.name == "w:listItem" and opened and _SHOWN in text[token.start : token.end]:
            opened[-1] = opened[-1][0], False
        elif token.name == "w:sdt" and opened:
            start, is_chosen = opened.pop()
            found += [(start, token.end)] if is_chosen else []
    return sorted(found)


def _paragraphs(tokens: Iterable[Token], lines: LineNumbers, depth: int = 0) -> Iterator[Element]:
    """Yields the elements of paragraphs; those within others too, before them.

    :raises DataError: there are too many in each other.
    """
    for paragraph in children(tokens, ("w:p",)):
        if depth == _DEEPEST:
            raise DataError(f"line {lines(paragraph.start)} has more than {_DEEPEST} paragraphs in each other")
        yield from _paragraphs(paragraph.inner, lines, depth + 1)
        yield paragraph


class _Paragraph:
    """The runs of a paragraph as a text with tags."""

    __slots__ = (
        "_base",
        "_ends",
        "_found",
        "_heads",
        "_inline",
        "_is_code",
        "_parts",
        "_runs",
        "_start",
        "_text",
        "_texts",
        "left",
        "shown",
    )

    def __init__(self, text: str, node: Element, is_code: Callable[[str], bool]) -> None:
        self.left: list[Part] = []
        self.shown: list[Element] = []
        """Of lists what is chosen, each a text of its own as in the list."""
        self._text = text
        self._is_code = is_code
        self._found: list[tuple[Tagged, Span, Span]] = []
        self._start = node.start
        self._inline = Inline(text, lambda raw: "-" if raw.startswith(f"<{_HYPHEN}") else xml_unescape(raw))
        self._runs: list[_Run] = []
        self._texts: list[Span] = []
        self._base: dict[Span | None, Span] = {}
        """What opens a run that has no tag of its own, by the tag of what it is in."""
        self._ends: dict[Span, int] = {}
        """Where links and insertions end, by the tag."""
        self._heads: dict[Span, Span] = {}
        """What opens the runs that have a tag of their own, by the tag."""
        self._parts: dict[Span, Span] = {}
        """What opens the run of a break or a tab."""
        self._walk(node.inner, None)

    def segments(self, lines: LineNumbers, context: str) -> Iterator[Segment]:
        """Yields the paragraph as a segment, or one for each part between breaks, if it has words."""
        self._cut()
        del self._inline  # there are many paragraphs
        shared = [number for number in range(1, len(self._found)) if self._is_shared(number)]
        for number, (tagged, span, around) in enumerate(self._found if self._runs else ()):
            edits = partial(self._edits, span, number in shared, number + 1 in shared)
            yield Segment(tagged, lines(self._start), edits, context=context, span=span, around=around)

    def _cut(self) -> None:
        """Ends a sentence."""
        around, found = self._inline.extent, self._inline.take()
        self._found += [] if found is None else [(*found, around)]

    def _is_shared(self, number: int) -> bool:
        """Whether a text begins in the run that the one before it ends in."""
        run = self._run_at(self._found[number][1][0])
        return run is not None and run == self._run_at(self._found[number - 1][1][1])

    def _walk(self, tokens: Sequence[Token], container: Span | None, depth: int = 0) -> None:
        """
        :raises DataError: too many links or insertions are in each other.
        """
        if depth > _DEEPEST:
            line = self._text.count("\n", 0, self._start) + 1
            raise DataError(f"line {line} has more than {_DEEPEST} links or insertions in each other")
        runs: dict[int, _Run] = {}
        sizes: Counter[str] = Counter()
        for node in children(tokens):
            if node.name == "w:r" and (run := self._run(node)) is not None:
                runs[node.start] = run
                sizes[run.style] += sum(child.end - child.inside[0] for child in node.elements if child.name == "w:t")
        base = sizes.most_common(1)[0][0] if sizes else ""
        opened: tuple[str, Span] | None = None  # the style of the pair that runs are in
        fields = self._fields(tokens)
        behind = 0  # a field
        waiting: list[Element] = []  # what is not seen behind a pair that may go on

        def end_pair(following: _Run | None = None) -> None:
            """Ends the pair, unless what follows is a run of its style."""
            nonlocal opened
            if opened is not None and (following is None or following.style != opened[0]):
                self._inline.close(*opened[1], opened[0])
                opened = None
            for each in waiting:
                self._inline.point(each.start, each.end)
            waiting.clear()

        for node in children(tokens):  # once more, so that they are not all there at a time
            if node.start < behind:
                continue
            if node.start in fields:
                end_pair()
                self._take_field(tokens, node.start, fields[node.start], depth)
                behind = fields[node.start][1]
                continue
            found = runs.get(node.start)
            if node.name in _INVISIBLE or (node.name == "w:r" and found is None and self._is_unseen(node)):
                waiting.append(node)
                if opened is None:
                    end_pair()
                continue
            end_pair(found)
            if found is not None:
                self._runs.append(found)
                is_base = found.style == base
                if is_base:
                    self._base.setdefault(container, found.head)
                elif opened is None:
                    self._inline.open(*found.head, found.style)
                    self._heads[found.head] = found.head
                self._add_run(node, found, is_base=is_base)
                if not is_base:
                    opened = found.style, (node.end, node.end)
            elif node.name in _CONTAINERS:
                self._within((node.start, node.inside[0]), node.inner, (node.inside[1], node.end), depth)
            elif (content := self._content(node)) is not None:
                self._within((node.start, content.inside[0]), content.inner, (content.inside[1], node.end), depth)
            elif node.name == "w:r" and self._stays(node):
                self._cut()
            elif node.name not in _PROPERTIES:
                is_note = any(child.name in _NOTES for child in node.elements)
                add = self._inline.mark if is_note else self._inline.opaque
                add(node.start, node.end)
                if node.name == "w:sdt" and _SHOWN in self._text[node.start : node.end]:
                    self.shown += node.elements[1:]
                elif node.name == "w:sdt" or any(each.name == "w:t" for each in node.elements):
                    self.left.append(Part(node.start, node.end, "code, or one of a list"))
        end_pair()

    def _within(self, first: Span, inner: Sequence[Token], last: Span, depth: int) -> None:
        """Takes a pair of tags and the runs in it."""
        properties = next(children(inner), None)
        if properties is not None and properties.name in _PROPERTIES:
            first = first[0], properties.end
        self._ends[first] = last[0]
        self._inline.open(*first, "within")
        self._walk(inner, first, depth + 1)
        self._inline.close(*last, "within")

    def _take_field(self, tokens: Sequence[Token], start: int, last: Span, depth: int) -> None:
        """Takes a field, and the text in it where it is a link.

        :param last: its end
        """
        place, end = (bisect_left(tokens, at, key=lambda token: token.start) for at in (start, last[0]))
        nodes = [*children(tokens[place:end])]
        head = next((node for node in nodes if '"separate"' in self._text[node.start : node.end]), nodes[0])
        is_link = head is not nodes[0] and _LINK.search(self._text, start, head.end) is not None
        if is_link and not any(map(self._field, nodes[1:])):  # with no other field in it
            inner = tokens[bisect_left(tokens, head.end, key=lambda token: token.start) : end]
            self._within((start, head.end), inner, last, depth)
        else:
            self._inline.opaque(start, last[1])
            self.left.append(Part(start, last[1], "field"))

    def _stays(self, node: Element) -> bool:
        """Whether a run stays where it is, and a sentence ends there: a break, or a part of a field that goes on."""
        names = {child.name for child in node.elements}
        raw = self._text[node.start : node.end] if names & _OF_FIELDS else ""
        return not names.isdisjoint(_BREAKS) or (raw != "" and not ('"begin"' in raw and '"end"' in raw))

    def _content(self, node: Element) -> Element | None:
        """Returns the content of a control whose text is free."""
        inside = {each.name: each for each in node.elements} if node.name == "w:sdt" else {}
        properties = inside["w:sdtPr"].elements if "w:sdtPr" in inside else []
        return None if any(each.name in _CHOSEN for each in properties) else inside.get("w:sdtContent")

    def _run(self, node: Element) -> _Run | None:
        """Returns a run that has text, and is no part of a field."""
        if any(child.name in _OF_FIELDS for child in node.elements):
            return None
        if not any(child.name == _HYPHEN or self._is_text(child) for child in node.elements):
            return None
        properties = next((child for child in node.elements if child.name == "w:rPr"), None)
        head = node.start, node.inside[0] if properties is None else properties.end
        style = "" if properties is None else self._text[properties.start : properties.end]
        used = _USED.search(style)
        if used is not None and used[1] == "r" and self._is_code(used[2]):
            return None
        return _Run(node.start, node.end, head, _NO_STYLE.sub("", _NO_STYLE.sub("", style)))

    @staticmethod
    def _is_unseen(node: Element) -> bool:
        """Whether a run has nothing in it, a comment, or a hyphen that shows at the end of a line alone."""
        shown = (child for child in node.elements if child.name not in ("w:rPr", _COMMENT))
        return all(child.name in _UNSEEN and child.end <= child.inside[0] for child in shown)

    @staticmethod
    def _is_text(child: Element) -> bool:
        return child.name == "w:t" and child.end > child.inside[0]

    def _add_run(self, node: Element, run: _Run, *, is_base: bool) -> None:
        for child in node.elements:
            if self._is_text(child):
                self._inline.text(*child.inside)
                self._texts.append(child.inside)
            elif child.name == _HYPHEN:
                self._inline.text(child.start, child.end)
            elif child.name in _BREAKS:
                if not is_base:
                    self._inline.close(child.start, child.start, run.style)
                self._cut()
                if not is_base:
                    self._inline.open(child.end, child.end, run.style)
                    self._heads[child.end, child.end] = run.head
            elif child.name not in _UNSEEN:
                self._parts[(child.start, child.end)] = run.head
                add = self._inline.mark if child.name in _NOTES else self._inline.opaque
                add(child.start, child.end)

    def _field(self, node: Element) -> int:
        """Returns 1 for what begins a field, -1 for what ends one."""
        raw = self._text[node.start : node.end] if node.name == "w:r" and len(node.elements) < 4 else ""
        if "<w:fldChar" not in raw:
            return 0
        return 1 if '"begin"' in raw else -1 if '"end"' in raw else 0

    def _fields(self, tokens: Sequence[Token]) -> dict[int, Span]:
        """Returns what ends the fields that begin here and end here, too, by where they begin."""
        opened: list[int] = []
        ending: dict[int, Span] = {}
        for node in children(tokens):
            kind = self._field(node)
            if kind > 0:
                opened.append(node.start)
            elif kind < 0 and opened:
                ending[opened.pop()] = node.start, node.end
        return ending

    def _edits(self, span: Span, shares_first: bool, shares_last: bool, translation: Tagged, _: Tell) -> list[Edit]:
        """Returns new runs for those that the text is in, of which the first and the last may have others in them."""
        start, end = span
        first, last = self._run_at(start), self._run_at(end)
        pieces: Pieces = []
        if first is not None and shares_first:
            pieces.append(self._closing(start))
        elif first is not None:
            if self._has_content(first.head[1], start):
                pieces += [(first.start, start), self._closing(start)]
            start = first.start
        around = slice(*(bisect_left(self._runs, place, key=lambda run: run.start) for place in (start, end)))
        is_one = first is not None and all(run.style == first.style for run in self._runs[around])
        base = None if is_one else self._base.get(self._container(first))
        fallback = base or (first.head if first is not None else self._runs[0].head)
        pieces += self._render(translation.text, translation.tags, 0, len(translation.text), fallback)
        if last is not None and shares_last:
            pieces += [last.head, self._opening(end)]
        elif last is not None:
            if self._has_content(end, last.end):
                pieces += [last.head, self._opening(end), (end, last.end)]
            end = last.end
        return [Edit(start, end, pieces)]

    def _closing(self, start: int) -> str:
        """Returns what closes a run before a text, which may begin with a picture in place of a word."""
        return _CLOSE if self._is_in_text(start) else "</w:r>"

    def _opening(self, end: int) -> str:
        """Returns what opens the rest of a run behind a text, which may end with a picture."""
        return _OPEN if self._is_in_text(end) else ""

    def _is_in_text(self, place: int) -> bool:
        number = bisect_left(self._texts, (place + 1, 0)) - 1
        return number >= 0 and place <= self._texts[number][1]

    def _run_at(self, place: int) -> _Run | None:
        """Returns the run that a place is in."""
        number = bisect_left(self._runs, place, key=lambda run: run.start) - 1
        return self._runs[number] if number >= 0 and place < self._runs[number].end else None

    def _has_content(self, start: int, end: int) -> bool:
        """Whether there is anything that is seen in a part of a run."""
        return re.sub(r"</?w:(?:t|r)\b[^>]*>", "", self._text[start:end]) != ""

    def _container(self, run: _Run | None) -> Span | None:
        """Returns the tag of the link that a run is in, where all of the text is in it."""
        if run is None:
            return None
        inner = [span for span in self._base if span is not None and span[0] < run.start]
        return next((span for span in reversed(inner) if self._ends[span] > run.start), None)

    def _render(self, text: str, tags: Sequence[Tag], start: int, end: int, head: Span) -> Iterator[str | Span]:
        def said(left: int, right: int) -> Pieces:
            written = xml_escape(text[left:right].replace("\n", " ").replace("\t", " "))
            return [head, _OPEN, written, _CLOSE] if left < right else []

        place = start
        for tag in tags:
            yield from said(place, tag.start)
            place = tag.end
            if tag.open in self._heads:  # a style
                yield from self._render(text, tag.children, tag.start, tag.end, self._heads[tag.open])
            elif tag.open in self._parts:
                yield from (self._parts[tag.open], tag.open, "</w:r>")
            elif tag.close is None:
                first, last = map(self._run_at, tag.open)  # those that a word which is copied is a part of
                yield from (first.head, _OPEN) if first else ()
                yield tag.open
                yield _CLOSE if last else ""
            else:
                yield tag.open
                yield from self._render(text, tag.children, tag.start, tag.end, self._base.get(tag.open, head))
                yield tag.close
        yield from said(place, end)
