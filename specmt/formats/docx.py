"""Word documents.

Word cuts a sentence into runs: where the spelling was checked, where a word is bold. Runs of one style are one text
here. The style that most of a paragraph has is its own; other styles, links and insertions are tags in it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from specmt.errors import DataError
from specmt.formats.document import Document, Edit, FormatOptions, LineNumbers, Pieces, Segment, Tell
from specmt.formats.inline import Inline
from specmt.formats.markup import Element, Token, children, xml_escape, xml_tokens, xml_unescape
from specmt.formats.package import Package
from specmt.types import Span, Tag, Tagged

_MEMBERS: Final = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes)\.xml")
_CONTAINERS: Final = frozenset(("w:hyperlink", "w:ins", "w:smartTag"))
_INVISIBLE_NAMES: Final = (
    "w:bookmarkStart w:bookmarkEnd w:proofErr w:del w:moveFrom w:commentRangeStart w:commentRangeEnd "
    "w:permStart w:permEnd w:moveFromRangeStart w:moveFromRangeEnd w:moveToRangeStart w:moveToRangeEnd"
)
_INVISIBLE: Final = frozenset(_INVISIBLE_NAMES.split())
_NO_STYLE: Final = re.compile(r'<w:(?:lang|noProof|rFonts w:hint)\b[^>]*/>|<w:rPr>\s*</w:rPr>|\s+w:rsid\w*="[^"]*"')
"""What tells runs apart without being seen."""

_DEEPEST: Final = 50
"""How many paragraphs may be in each other, or insertions and links: what is in one is looked through each time."""

_OPEN: Final = '<w:t xml:space="preserve">'
_CLOSE: Final = "</w:t></w:r>"


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads the paragraphs of a document, of its headers, footers and notes.

    :raises DataError: it is damaged, or unpacks to more than is read.
    """
    return Package(data, lambda name: _MEMBERS.fullmatch(name) is not None, _segments)


@dataclass(frozen=True, slots=True)
class _Run:
    """A run of text."""

    start: int
    end: int
    head: Span
    """What opens it and says its style."""
    style: str


def _segments(text: str) -> Iterator[Segment]:
    lines = LineNumbers(text)
    for paragraph in _paragraphs(xml_tokens(text), lines):
        yield from _Paragraph(text, paragraph).segments(lines)


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

    __slots__ = ("_base", "_heads", "_inline", "_parts", "_runs", "_start", "_text")

    def __init__(self, text: str, node: Element) -> None:
        self._text = text
        self._start = node.start
        self._inline = Inline(text, xml_unescape)
        self._runs: list[_Run] = []
        self._base: dict[Span | None, Span] = {}
        """What opens a run that has no tag of its own, by the tag of what it is in."""
        self._heads: set[Span] = set()
        """What opens the runs that have a tag of their own."""
        self._parts: dict[Span, Span] = {}
        """What opens the run of a break or a tab."""
        self._walk(node.inner, None)

    def segments(self, lines: LineNumbers) -> Iterator[Segment]:
        """Yields the paragraph as a segment, if it has words."""
        found = self._inline.take()
        del self._inline  # there are many paragraphs
        if found is not None and self._runs:
            tagged, span = found

            def edits(translation: Tagged, _: Tell) -> list[Edit]:
                return [self._edit(translation, span)]

            yield Segment(tagged, lines(self._start), edits)

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
        ending = self._fields(tokens)
        fields = 0
        field_start = 0
        for node in children(tokens):  # once more, so that they are not all there at a time
            kind = self._field(node)
            if kind > 0 and fields == 0 and node.start in ending:
                field_start = node.start
            fields += kind if kind > 0 or fields else 0
            if fields or (kind < 0 and field_start):
                if not fields:
                    self._inline.opaque(field_start, node.end)
                    field_start = 0
                if field_start or kind < 0:
                    continue
                fields = 0  # one that ends in another paragraph
            found = runs.get(node.start)
            if opened is not None and node.name not in _INVISIBLE and (found is None or found.style != opened[0]):
                self._inline.close(*opened[1], opened[0])
                opened = None
            if found is not None:
                self._runs.append(found)
                if found.style == base:
                    self._base.setdefault(container, found.head)
                elif opened is None:
                    self._inline.open(*found.head, found.style)
                    self._heads.add(found.head)
                if found.style != base:
                    opened = found.style, (node.end, node.end)
                self._add_run(node, found)
            elif node.name in _CONTAINERS:
                span = node.start, node.inside[0]
                self._inline.open(*span, node.name)
                self._walk(node.inner, span, depth + 1)
                self._inline.close(node.end - len(f"</{node.name}>"), node.end, node.name)
            elif node.name in _INVISIBLE:
                self._inline.point(node.start, node.end)
            elif node.name != "w:pPr":
                is_note = any(child.name in ("w:footnoteReference", "w:endnoteReference") for child in node.elements)
                add = self._inline.mark if is_note else self._inline.opaque
                add(node.start, node.end)
        if opened is not None:
            self._inline.close(*opened[1], opened[0])

    def _run(self, node: Element) -> _Run | None:
        """Returns a run that has text, and breaks and tabs at most."""
        allowed = ("w:rPr", "w:t", "w:br", "w:tab", "w:lastRenderedPageBreak", "w:noBreakHyphen", "w:softHyphen")
        if any(child.name not in allowed for child in node.elements):
            return None
        if not any(child.name == "w:t" and child.end > child.inside[0] for child in node.elements):
            return None
        properties = next((child for child in node.elements if child.name == "w:rPr"), None)
        head = node.start, node.inside[0] if properties is None else properties.end
        style = "" if properties is None else self._text[properties.start : properties.end]
        return _Run(node.start, node.end, head, _NO_STYLE.sub("", _NO_STYLE.sub("", style)))

    def _add_run(self, node: Element, run: _Run) -> None:
        for child in node.elements:
            if child.name == "w:t" and child.end > child.inside[0]:
                self._inline.text(child.inside[0], child.end - len("</w:t>"))
            elif child.name in ("w:br", "w:tab", "w:noBreakHyphen", "w:softHyphen"):
                self._parts[(child.start, child.end)] = run.head
                self._inline.opaque(child.start, child.end)

    def _field(self, node: Element) -> int:
        """Returns 1 for what begins a field, -1 for what ends one."""
        raw = self._text[node.start : node.end] if node.name == "w:r" and len(node.elements) < 4 else ""
        if "<w:fldChar" not in raw:
            return 0
        return 1 if '"begin"' in raw else -1 if '"end"' in raw else 0

    def _fields(self, tokens: Sequence[Token]) -> set[int]:
        """Returns where the fields begin that end here, too."""
        opened: list[int] = []
        ending: set[int] = set()
        for node in children(tokens):
            kind = self._field(node)
            if kind > 0:
                opened.append(node.start)
            elif kind < 0 and opened:
                ending.add(opened.pop())
        return ending

    def _edit(self, translation: Tagged, span: Span) -> Edit:
        """Returns new runs for those that the text is in."""
        start, end = span
        first, last = self._run_at(start), self._run_at(end)
        pieces: Pieces = []
        if first is not None:
            if self._has_content(first.head[1], start):
                pieces += [(first.start, start), _CLOSE]
            start = first.start
        base = self._base.get(self._container(first))
        fallback = base or (first.head if first is not None else self._runs[0].head)
        pieces += self._render(translation.text, translation.tags, 0, len(translation.text), fallback)
        if last is not None:
            if self._has_content(end, last.end):
                pieces += [last.head, _OPEN, (end, last.end)]
            end = last.end
        return Edit(start, end, pieces)

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
        return next(
            (span for span in reversed(inner) if self._text.find("</w:hyperlink>", span[1]) > run.start),
            None,
        )

    def _render(self, text: str, tags: Sequence[Tag], start: int, end: int, head: Span) -> Iterator[str | Span]:
        def said(left: int, right: int) -> Pieces:
            written = xml_escape(text[left:right].replace("\n", " ").replace("\t", " "))
            return [head, _OPEN, written, _CLOSE] if left < right else []

        place = start
        for tag in tags:
            yield from said(place, tag.start)
            place = tag.end
            if tag.open in self._heads:  # a style
                yield from self._render(text, tag.children, tag.start, tag.end, tag.open)
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
