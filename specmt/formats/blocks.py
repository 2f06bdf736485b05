"""Blocks: spans that tile a document.

A block is an entry of a catalogue with what is said before it, a paragraph, an item of a list, a row of a table, or
what opens or closes a container of a tree; as whole lines, where these have nothing else. So blocks can be left out,
moved and put in between without a look at what is in them.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from specmt.formats.anchors import targets_in
from specmt.formats.commonmark import HEADER
from specmt.formats.document import KEPT, Document, RefusedError, Segment, TextDocument, edited_parts
from specmt.formats.front import FRONT
from specmt.formats.outline import OPENING, TAGGED, Mark, outline, tag_bounds
from specmt.formats.shape import Checked
from specmt.types import Span, Tag, Tagged

PROSE: Final = frozenset(("markdown", "rst", "asciidoc", "subtitles"))
"""The formats in which blank lines are between blocks."""

_BY_SOURCE: Final = frozenset(("po", "qt"))
"""The formats whose entries are named by what they translate."""

_UNITS: Final = {
    "po": re.compile(
        r"^(?:msgctxt.*\n(?:\".*\n)*)?msgid .*\n(?:\".*\n|msgid_plural.*\n)*(?:msgstr.*(?:\n\".*)*\n?)+|(?:^#~.*\n?)+",
        re.MULTILINE,
    ),
    "fluent": re.compile(
        r"^-?[A-Za-z][\w-]*[ \t]*=.*(?:\r?\n(?:[ \t}].*|(?=(?:[ \t]*\r?\n)+[ \t]+\S)))*", re.MULTILINE
    ),
    "strings": re.compile(
        r'^[ \t]*/\*(?:(?!/\*)[^*]|\*(?!/))*\*/(?:[ \t]*\r?\n[ \t]*"[^"\\]*(?:\\.[^"\\]*)*"[^";\n]*'
        r'"[^"\\]*(?:\\.[^"\\]*)*"[^;\n]*;)?',
        re.MULTILINE,
    ),
    "php": re.compile(r"^[ \t]*/\*(?:(?!\*/).)*\n(?:(?!\*/)[\s\S])*\*/", re.MULTILINE),
    "stringsdict": re.compile(r"^([ \t]+)<key>[^<]*</key>\s*?\n\1<dict>.*\n(?:(?!\1\S).*\n)*\1</dict>", re.MULTILINE),
}
"""What is an entry, or a remark, where that can have several lines."""

_KEYS: Final = {
    "fluent": re.compile(r"(?:[ \t]*(?:#.*)?\n)*(-?[A-Za-z][\w-]*)[ \t]*="),
    "properties": re.compile(r"(?:[ \t]*(?:[#!].*)?\n)*[ \t]*((?:[^\s:=\\#!])[^\s:=\\]*)[ \t]*[:=]"),
}
"""How entries begin whose texts may be none."""

_MESSAGE: Final = re.compile(
    r"^(?:msgctxt\s+(?=\S)(.*?))?^msgid\s+(?=\S)(.*?)(?=^msgid_plural|^msgstr)", re.MULTILINE | re.DOTALL
)
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_BEHIND_TEXT: Final = re.compile(
    r"(?:\][(\[][^()\[\]\n]*[)\]])?[])*_]*[ \t]*((?:\[\^[^\]\s]+\]|\{:?[ ]?(?:[.#]|[\w-]+=)[^{}\n]*\})+)"
)
"""What is behind a text and none of it: marks of notes and attributes."""

ITEM: Final = re.compile(
    r"[ \t>]*(?:\[\^[^\]\s]+\]:(?=\s)|(?:[-*+•]|\*{2,}|\.{1,5}|\d+[.)]|#\.)[ \t]|\||(?![:>])\S.*?:{2,4}(?=\s))"
)
_ROW: Final = re.compile(r"[ \t>]*\|(?!=|[ \t]*:?-)([^|\n]*)")
"""How a row of a table begins, and its first cell."""

AROUND: Final = re.compile(r"(?:\|={3,}|={4,}|\*{4,}|_{4,}|\+{4,}|--)\s*$")
"""A line that begins or ends a part of AsciiDoc, as behind a blank line or attributes."""

_HEADING: Final = re.compile(r"[ \t]*(#{1,6}|={1,6})[ \t]+\S")
_SAID: Final = re.compile(r"\s*\Z|[ \t]*(?:#(?!~)|//|/\*|\*|;|!|<!--|--)")
"""A blank line, or how one begins that says something about the entry behind it."""

_COMMA: Final = re.compile(r"[ \t]*,")
_REST: Final = re.compile(r"[ \t]*(?:(?://|#).*|/\*[^*\n]*\*/[ \t]*)?(?=\r|\n|\Z)")
"""What ends a line without beginning a block: nothing, or a remark on what is before it."""

_AROUND_TEXT: Final = re.compile(
    r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?"
    r"(\[[ xX]\](?=[ \t])|>[ \t>]*(?:\[![^\[\]\n]+\])?|(?:!!!|\?\?\?\+?)[\w \t-]*(?=\"))"
)
"""What is before the text of a block of Markdown: the box of a task, marks of a quotation or an alert, or the kind of
an admonition with a title."""

_CONTAINER: Final = re.compile(
    r"[ \t>]*(?::{3,}(?P<opens>[^\S\n]*\S)?"
    r"|\{(?:%|\{[<%])-?[ ]*(?:end|/|else\b|(?P<begins>))[^%>\n]*[%>]\}{1,2}[ \t]*\r?(?=\n|\Z))"
)
"""A line of Markdown that opens a container or ends one: colons, a macro alone."""

_FENCES: Final = {
    "markdown": re.compile(r"[ \t>]*(?:[-*+][ \t]+)?(`{3,}(?=[^`]*$)|~{3,})"),
    "asciidoc": re.compile(r"[ \t]*(`{3,}|(?:-{4,}|\.{4,})(?=\s*$))"),
}
"""How code begins that blank lines may be in."""


@dataclass(frozen=True, slots=True)
class Block:
    """A span of a document's text."""

    start: int
    end: int
    kind: str
    key: str = ""
    segments: range = range(0)


@dataclass(frozen=True, slots=True)
class Content:
    """What a block says."""

    texts: tuple[str, ...]
    """Its translatable texts, with stand-ins for markup that is in them."""

    markup: tuple[str, ...]
    """Its markup, targets of links and code."""

    first: str = ""
    """The first cell of a row of a table."""

    @property
    def is_plain(self) -> bool:
        """Whether it is one text without markup."""
        return len(self.texts) == 1 and not self.markup


def text_of(document: Document) -> TextDocument | None:
    """Returns the text that a document is, if it is one."""
    inner = document.document if isinstance(document, Checked) else document
    return inner if isinstance(inner, TextDocument) else None


def blocks_in(document: Document, file_format: str) -> list[Block]:
    """Returns the blocks of a document; none of one that nothing can be inserted into, as packages are."""
    inner = text_of(document)
    if inner is None:
        return []
    text = inner.text
    marks = outline(text, file_format)
    lines = [0, *(match.end() for match in re.finditer(r"\r\n|\n|\r(?!\n)", text))]
    if lines[-1] == len(text) and len(lines) > 1:
        lines.pop()
    is_tree, are_said = bool(marks) or file_format in TAGGED, file_format == "markdown"
    spans = [*_spans(document.segments, lines, is_tree=is_tree, are_said=are_said)]
    if file_format == "yaml":
        starts = lines
    else:
        starts = _starts(text, lines, [*_ends(text, marks), *tag_bounds(text, spans, file_format)])
    values = [(mark.start, mark.end) for mark in marks if mark.kind == "value"]
    unit = _UNITS.get(file_format)
    units = _merged(values + ([] if unit is None else [match.span() for match in unit.finditer(text)]))
    runs = _runs(spans, starts, units)
    ends = [*starts, len(text)]
    parts = [text[slice(*span)] for span in pairwise(ends)]
    if file_format in PROSE:
        bounds = _paragraphs(text, starts, parts, runs, file_format)
    else:
        whole = units if file_format in ("php", "po", "strings") else values
        bounds = _entries(parts, sorted({*runs, *_runs(whole, starts, ())}))
    blocks: list[Block] = []
    firsts = [first for first, _ in runs]
    for first, last in pairwise([*bounds, len(starts)]):
        segments = range(bisect_left(firsts, first), bisect_left(firsts, last))
        span = ends[first], ends[last]
        kind, key = _name(text[slice(*span)], [document.segments[each] for each in segments], file_format)
        blocks.append(Block(*span, kind, key, segments))
    return [*_with_marks(blocks, marks)]


def _starts(text: str, lines: Sequence[int], places: Iterable[int]) -> list[int]:
    """Returns where a block can begin: with a line, and where there is something on both sides in the same line."""
    starts = {*lines}
    for place in places:
        before = text[lines[bisect_right(lines, place) - 1] : place]
        if before.strip() and not _REST.match(text, place):
            starts.add(place)
    return sorted(starts)


def _ends(text: str, marks: Sequence[Mark]) -> Iterator[int]:
    """Yields what is behind the parts of a tree, and the commas behind them."""
    for mark in marks:
        if mark.start < mark.end:
            yield mark.end if (comma := _COMMA.match(text, mark.end)) is None else comma.end()


def _merged(spans: Iterable[Span]) -> list[Span]:
    """Returns spans in order, those that overlap as one."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def _runs(spans: Iterable[Span], starts: Sequence[int], units: Sequence[Span]) -> list[Span]:
    """Returns the first and the last of the parts that each segment and the entry around it have, in order."""
    begins = [start for start, _ in units]
    runs: list[Span] = []
    for start, end in spans:
        around = bisect_right(begins, start) - 1
        if around >= 0 and start < units[around][1]:
            start, end = min(start, units[around][0]), max(end, units[around][1])
        first = max(runs[-1][0] if runs else 0, bisect_right(starts, start) - 1)
        runs.append((first, max(first, bisect_right(starts, max(start, end - 1)) - 1)))
    return runs


def _spans(segments: Sequence[Segment], lines: Sequence[int], *, is_tree: bool, are_said: bool) -> Iterator[Span]:
    """Yields where each segment is; in what is no tree, from where its line begins.

    :param are_said: whether segments say it, which is found out else by writing them, and takes as long as to read them
    """
    for segment in segments:
        line = lines[min(segment.line, len(lines)) - 1] if segment.start < 0 else segment.start
        if are_said and segment.span[0] >= 0:
            yield min(line, segment.span[0]), max(line, segment.span[1])
            continue
        try:
            edits = list(segment.edits(Tagged(segment.source.text, segment.source.tags), lambda _: None))
        except RefusedError:
            edits = []
        starts = [edit.start for edit in edits]
        yield min(starts if is_tree and starts else [line, *starts]), max((edit.end for edit in edits), default=line)


def _with_marks(blocks: Sequence[Block], marks: Sequence[Mark]) -> Iterator[Block]:
    """Yields blocks of which those without a segment are named by what they open and close."""
    begins = [block.start for block in blocks]
    named: dict[int, Mark] = {}
    closed: defaultdict[int, list[Mark]] = defaultdict(list)
    for mark in marks:
        if mark.kind == "end" and mark.start == mark.end:
            closed[bisect_left(begins, mark.start) - 1].append(mark)
        else:
            named.setdefault(bisect_right(begins, mark.start) - 1, mark)
    for number, block in enumerate(blocks):
        found = named.get(number)
        is_entry = found is not None and found.kind == "value"
        if found is not None and not block.key and (is_entry or not block.segments):
            # An entry, be it a text or none: in another language it may be the other.
            yield replace(block, kind="entry" if is_entry else found.kind, key=found.key)
        else:
            yield block
        yield from (Block(block.end, block.end, end.kind, end.key) for end in closed[number])


def _entries(parts: Sequence[str], runs: Sequence[Span]) -> list[int]:
    """Returns the first part of each block: an entry with what is said before it, or a line beside entries."""
    bounds = {0}
    place = 0
    for first, last in [*runs, (len(parts), len(parts))]:
        said = first
        while place < said < len(parts) and _SAID.match(parts[said - 1]):
            said -= 1
        bounds.update(number for number in range(place, said) if parts[number].strip())
        if first >= place:
            bounds.add(said)
        place = max(place, last + 1)
    bounds.discard(len(parts))
    return sorted(bounds)


def _paragraphs(
    text: str, starts: Sequence[int], parts: Sequence[str], runs: Sequence[Span], file_format: str
) -> list[int]:
    """Returns the first line of each block: what is between blank lines, and items in it; front matter by lines."""
    has_items, has_rows = file_format != "subtitles", file_format in ("markdown", "asciidoc")
    fences, is_markdown = _FENCES.get(file_format), file_format == "markdown"
    front = FRONT.match(text)
    head = 0 if front is None else bisect_right(starts, front.end() - 1)
    begins = {first for first, _ in runs}
    inside = {line for first, last in runs for line in range(first + 1, last + 1)}
    bounds = [0]
    was_blank, fence, said_before = True, "", ""
    around: list[str] = []
    for line, said in enumerate(parts):
        is_blank = not said.strip()
        opened = fences.match(said) if fences is not None else None
        if opened and file_format == "asciidoc" and not (fence or was_blank) and said_before[0] not in ".[`+":
            opened = None if abs(len(said.strip()) - len(said_before.strip())) < 2 else opened  # below a heading
        if line < head:
            starts_here = not said.startswith((" ", "\t", "-")) or line == head - 1
        elif has_items and ((has_rows and _ROW.match(said)) or (line in begins and ITEM.match(said))):
            starts_here = True
        else:
            starts_here = not is_blank and (was_blank or line == head)
        if file_format == "asciidoc" and AROUND.match(said):
            if (mark := said.strip()) in around:
                del around[around.index(mark) :]
                starts_here = True
            elif was_blank or said_before.startswith(("[", ".")):
                around.append(mark)
        elif around and around[-1] == said_before.strip() and not is_blank:
            starts_here = True
        is_container = is_markdown and (opens(said) is not None or said.lstrip(" \t>").startswith("///"))
        if (starts_here or is_container) and line not in inside and not fence:
            bounds.append(line)
        if opened and line >= head and not fence:
            fence = opened[1]
        elif opened and (opened[1].startswith(fence) if is_markdown else opened[1] == fence):
            fence = fence if said.strip("> \t\r\n") != opened[1] else ""
        was_blank, said_before = is_blank or (is_markdown and not said.strip("> \t\r\n")), said
        if is_container or (is_markdown and HEADER.fullmatch(said.strip())):
            was_blank = True  # its body is a block of its own, also in the next line
    return sorted(set(bounds))


def opens(line: str) -> bool | None:
    """Whether a line of Markdown opens a container; ``None``: it is part of none."""
    match = _CONTAINER.match(line)
    return None if match is None else bool(match["opens"]) or match["begins"] is not None


def _name(text: str, segments: Sequence[Segment], file_format: str) -> tuple[str, str]:
    """Returns the kind and the key of a block."""
    if file_format == "po" and (named := _MESSAGE.search(text)) is not None:
        return "entry", "".join(_QUOTED.findall(named[1] or "")) + "\4" + "".join(_QUOTED.findall(named[2]))
    if not segments:
        named = _KEYS[file_format].match(text) if file_format in _KEYS else None
        return ("markup", "") if named is None else ("entry", named[1])
    if file_format in _BY_SOURCE:
        return "entry", " ".join(dict.fromkeys(f"{each.context}\4{each.source.text}" for each in segments))
    if any(each.context for each in segments):
        return "entry", " ".join(dict.fromkeys(each.context for each in segments))
    if file_format not in PROSE:
        return "line", ""
    heading = _HEADING.match(text)
    if heading:
        return f"heading{len(heading[1])}", ""
    return "item" if ITEM.match(text) else "paragraph", ""


def rendered(
    document: Document, translations: Mapping[int, Tagged], tell: Callable[[int, str], None], blocks: Sequence[Block]
) -> list[str]:
    """Returns the text of each block as the document would be written with these translations."""
    inner = text_of(document)
    assert inner is not None
    left = dict(translations)

    def told(number: int, what: str) -> None:
        tell(number, what)
        if what.startswith(KEPT):
            left.pop(number, None)

    document.write(translations, told)
    edits = inner.edits(left, lambda *_: None)
    parts = edited_parts(inner.text, edits, [(block.start, block.end) for block in blocks])
    return [part if block.start < block.end else "" for part, block in zip(parts, blocks, strict=True)]


def content(
    document: Document, block: Block, *, is_source: bool, said: Mapping[int, Tagged] = MappingProxyType({})
) -> Content:
    """Returns what a block says.

    :param is_source: whether, of what has a translation, that does not count
    :param said: what segments within markup say there instead, as descriptions of images
    """
    inner = text_of(document)
    assert inner is not None
    segments = [document.segments[number] for number in block.segments]
    texts = tuple(
        (each.source.text if is_source else each.target or each.source.text)
        for each in segments
        if each.state != "skipped"
    )
    markup = [each.source.text for each in segments if each.state == "skipped"]
    spans = [span for each in segments for tag in each.source.tags for span in _markup(tag)]
    markup += edited_parts(inner.text, inner.edits(said, lambda *_: None), spans)
    text = inner.text[block.start : block.end]
    if not texts:
        text = text.strip().removesuffix(",")
        markup = [text[-1:] if block.kind in (*OPENING, "end") and text[-1:] in "{}[]()" else text]
    elif inner.parts:
        markup += [each for each in targets_in(text) if not any(each in other for other in markup)]
    if texts and block.kind in ("item", "paragraph") and (before := _AROUND_TEXT.match(text)) is not None:
        markup.append(before[1].rstrip())
    end = max((each.span[1] for each in segments), default=0)
    if texts and (behind := _BEHIND_TEXT.match(inner.text, end, block.end)) is not None:
        markup.append(behind[1])
    row = _ROW.match(text) if block.kind == "item" else None
    return Content(texts, tuple(markup), "" if row is None else row[1].strip())


def _markup(tag: Tag) -> Iterator[Span]:
    yield tag.open
    for each in tag.children:
        yield from _markup(each)
    if tag.close is not None:
        yield tag.close
