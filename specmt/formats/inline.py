"""The text of a segment and the inline markup in it, taken from a document and put back into it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache, partial
from itertools import groupby
from typing import Final, final

from specmt.errors import DataError
from specmt.formats.beside import begins_with_space, with_cuts, with_icons
from specmt.formats.document import KEPT, Edit, Pieces, Segment, State, Tell
from specmt.formats.encoding import ENTITY, spellings
from specmt.formats.glued import Item, apart, glue, pair
from specmt.formats.icu import Branch, find_quoted, split
from specmt.types import Span, Tag, Tagged

_SPACE: Final = re.compile(r"[ \t\r\n\f]+")
_GAP: Final = re.compile(r"[ \t]+(?![\r\n])")
_MOST_DEEP: Final = 100
_LETTER: Final = re.compile(r"\{t(x*)")
_DIRECTION: Final = re.compile(
    r"(?P<open>[\u2066-\u2068\u202a\u202b\u202d\u202e]|(?<!\\)\\u(?:206[678]|202[abde]))"
    r"|(?P<close>[\u2069\u202c]|(?<!\\)\\u(?:2069|202c))"
    r"|(?P<point>[\u200e\u200f\u061c]|&(?:lrm|rlm|#[xX]200[efEF]|#820[67]);|(?<!\\)\\u(?:200[ef]|061c))"
)
_SHOWN_TAG: Final = re.compile("&lt;[A-Za-z/!]")
_WRITTEN: Final = re.compile(rf"(?P<kept></?[A-Za-z!][^<>]*>|{ENTITY.pattern})|[\s\S]")
_BREAK: Final = re.compile(r"(?<![\w:.\\/])(?:\\n)+|(?<=[^\W\d_A-Z])(?:\\n)+(?![a-z])|(?<=[^\W\d_A-Z]{2}[.:])(?:\\n)+")
r"""``\n`` between lines, and not in ``C:\new``."""

_FENCE: Final = re.compile(r"(?:(?P<line>\n|\\n)|(?<![^\"'>]))(?P<marks>[ \t]*(?P<fence>`{3,}|~{3,}))")
"""Marks that code in a message may begin with; in a line, it may end with them."""

_PAIRED: Final = frozenset(("open", "close"))
_STAND_IN: Final = re.compile(r"\{[a-z]+\d+\}")
_PICTURE: Final = "picture"


@cache
def _edges(escaped: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Returns what is left out at the beginning of a text, and at its end beside white space."""
    if not escaped:
        return re.compile(r"\s*"), re.compile("(?!)")
    return re.compile(rf"(?:\s|{escaped})*"), re.compile(rf"(?<!\\)(?:{escaped})\Z")


@final
class Inline:
    """Collects what is in a paragraph, in the order of the document."""

    __slots__ = ("_collapses", "_decode", "_head", "_items", "_last", "source")

    def __init__(
        self, source: str, decode: Callable[[str], str] = str, *, collapses: bool = False, escaped: str = ""
    ) -> None:
        """
        :param source: the text of the document
        :param decode: returns what raw text means
        :param collapses: whether line breaks and runs of spaces mean a space
        :param escaped: what else, beside white space, is left out at both ends as it stands
        """
        self.source: Final = source
        self._decode = decode
        self._collapses = collapses
        self._head, self._last = _edges(escaped)
        self._items: list[Item] = []

    def text(self, start: int, end: int) -> None:
        """Takes raw text."""
        if start < end:
            self._items.append(Item("text", (start, end)))

    def open(self, start: int, end: int, name: str) -> None:
        """Takes what opens a pair."""
        self._items.append(Item("open", (start, end), name))

    def close(self, start: int, end: int, name: str) -> None:
        """Takes what closes a pair."""
        self._items.append(Item("close", (start, end), name))

    def point(self, start: int, end: int) -> None:
        """Takes markup that no reader sees and that stays beside a word."""
        self._items.append(Item("point", (start, end)))

    def mark(self, start: int, end: int) -> None:
        """Takes the mark of a note: it stays behind the word that it touches, and beside a space it is opaque."""
        self._items.append(Item("mark", (start, end)))

    def opaque(self, start: int, end: int) -> None:
        """Takes what stands in the sentence as a word does and stays as it is: an image, code, a variable."""
        self._items.append(Item("opaque", (start, end)))

    def picture(self, start: int, end: int) -> None:
        """Takes what is opaque, and none of the sentence where it is before it: the icon of a button."""
        self._items.append(Item("opaque", (start, end), _PICTURE))

    def cut(self, start: int, end: int) -> None:
        """Takes a break or the mark of a paragraph, where a text ends if the document can be written in parts."""
        self._items.append(Item("cut", (start, end)))

    def space(self, place: int) -> None:
        """Takes a space that is between words without being written."""
        self._items.append(Item("space", (place, place)))

    def apart(self, find: Callable[[str, Span], Iterable[Item]]) -> None:
        """Takes apart the text collected.

        :param find: returns what is no text in a part of the document
        """
        items, self._items = self._items, []
        for item in items:
            self._items += apart(item.span, find(self.source, item.span)) if item.kind == "text" else [item]

    def whole(self, names: re.Pattern[str]) -> None:
        """Makes pairs, by their names, opaque with all that is in them."""
        partners = pair(self._items) if any(names.fullmatch(item.name) for item in self._items) else {}
        items, self._items, end = self._items, [], 0
        for number, item in enumerate(items):
            last = partners.get(number, number) if names.fullmatch(item.name) else number
            if last > number >= end:
                end = last + 1
                self._items.append(Item("opaque", (item.span[0], items[last].span[1])))
            elif number >= end:
                self._items.append(item)

    def read_entities(self) -> Callable[[str], str]:
        """Reads the entities that a message mostly writes characters as; returns what writes them so again."""
        text = (self.source[slice(*item.span)] for item in self._items if item.kind == "text")
        spelt = _spelt("".join(map(self._decode, text)))
        if not spelt:
            return str
        decode, table = self._decode, str.maketrans(spelt)
        self._decode = lambda raw: _unspelt(decode(raw), spelt)
        return lambda text: _WRITTEN.sub(lambda match: match["kept"] or match[0].translate(table), text)

    def read_breaks(self) -> Callable[[str], str]:
        r"""Reads the line breaks that a message writes as ``\n``; returns what writes them so again."""
        text = [self.source[slice(*item.span)] for item in self._items if item.kind == "text"]
        said = "".join(map(self._decode, text)) if any("\\n" in raw for raw in text) else ""
        if "\n" in said or _BREAK.search(said) is None:
            return str
        decode = self._decode
        self._decode = lambda raw: _BREAK.sub(lambda match: match[0].replace("\\n", "\n"), decode(raw))
        return lambda text: text.replace("\n", "\\n")

    def part_elements(self) -> None:
        """Cuts what was collected where elements touch that are texts of their own."""
        items = self._items
        if len(items) > 1:
            low, high = self._trim(items, pair(items))
            inner = with_cuts(items[low:high], lambda span: self._decode(self.source[slice(*span)]))
            self._items = [*items[:low], *inner, *items[high:]]

    def cuts(self) -> list[Inline]:
        """Returns the texts between breaks."""
        if all(item.kind != "cut" for item in self._items):
            return [self]
        groups = groupby(self._items, lambda item: item.kind == "cut")
        return [self._of(items) for is_cut, items in groups if not is_cut]

    def branches(self) -> list[tuple[Branch, Inline]]:
        """Returns the texts of a message with plurals or selects of ICU; none where it has none.

        :raises ValueError: one cannot be read.
        """
        return [(branch, self._of(branch.items)) for branch in split(self._items, self.source)]

    def _of(self, items: Iterable[Item]) -> Inline:
        part = copy(self)
        part._items = [*items]
        return part

    def clear(self) -> None:
        """Begins anew."""
        self._items = []

    @property
    def extent(self) -> Span:
        """Where what was collected is."""
        return (self._items[0].span[0], self._items[-1].span[1]) if self._items else (0, 0)

    def plain(self) -> str:
        """Returns what was collected, as it means."""
        return self._decode(self.source[slice(*self.extent)])

    def take(self) -> tuple[Tagged, Span] | None:
        """Returns the text collected and where it is, without the space and markup around it; begins anew.

        Returns nothing where there are no words.
        """
        items, self._items, partners = self._items, [], {}
        if [item.kind for item in items] != ["text"]:  # as most are
            items = glue(items, self.source, self._decode)
            low, high = self._trim(items, pair(items))
            items = [*with_icons(items[low:high], self.source)]
            if not any(item.kind == "text" for item in items):
                return None
            partners = pair(items)
        if items[0].kind == "text":
            start, end = items[0].span
            match = self._head.match(self.source, start, end)
            items[0] = Item("text", (match.end() if match else start, end))
        if items[-1].kind == "text":
            start, end = items[-1].span
            items[-1] = Item("text", (start, self._end(start, end)))
        tagged = self._build(items, partners)
        if not any(map(str.isalpha, _STAND_IN.sub("", tagged.text))):
            return None
        return tagged, (items[0].span[0], items[-1].span[1])

    def _end(self, start: int, end: int) -> int:
        """Returns where raw text ends without the space at its end."""
        before = -1
        while before != end:
            before = end
            end = start + len(self.source[start:end].rstrip())
            match = self._last.search(self.source, max(start, end - 8), end)
            end = match.start() if match else end
        return end

    def _trim(self, items: Sequence[Item], partners: dict[int, int]) -> tuple[int, int]:
        low, high = 0, len(items)
        while low < high:
            if self._is_edge(items[low]) or (items[low].kind in _PAIRED and low not in partners):
                low += 1
            elif self._is_edge(items[high - 1]) or (items[high - 1].kind in _PAIRED and high - 1 not in partners):
                high -= 1
            elif items[low].kind == "open" and partners[low] == high - 1:
                low, high = low + 1, high - 1
            elif items[low].name == _PICTURE and begins_with_space(items[low + 1 : low + 2], self.source):
                low += 1
            elif items[low].kind == "open" and not self._has_words(items[low : partners[low]]):
                low = partners[low] + 1
            elif items[high - 1].kind == "close" and not self._has_words(items[partners[high - 1] : high]):
                high = partners[high - 1]
            else:
                break
        return low, high

    def _has_words(self, items: Sequence[Item]) -> bool:
        return not all(self._is_edge(item) or item.kind in _PAIRED for item in items)

    def _is_edge(self, item: Item) -> bool:
        if item.kind == "text":
            match = self._head.match(self.source, *item.span)
            return match is not None and match.end() == item.span[1]
        return item.kind in ("point", "mark", "space", "cut")

    def _build(self, items: Sequence[Item], partners: dict[int, int]) -> Tagged:
        raw = self.source[items[0].span[0] : items[-1].span[1]]
        if len(items) == 1:
            return Tagged(self._decode(_SPACE.sub(" ", raw) if self._collapses else raw))
        letter = max((f"t{said}x" for said in _LETTER.findall(raw)), key=len) if "{t" in raw else "t"
        text: list[str] = []
        size = 0
        count = 0
        tags: list[list[Tag]] = [[]]
        opened: list[tuple[int, Span]] = []

        def add(said: str) -> None:
            nonlocal size
            if self._collapses and said[:1] == " " and text and text[-1].endswith(" "):
                said = said[1:]
            if said:
                text.append(said)
                size += len(said)

        for number, item in enumerate(items):
            if item.kind == "text":
                raw = self.source[slice(*item.span)]
                add(self._decode(_SPACE.sub(" ", raw) if self._collapses else raw))
            elif item.kind == "open" and number in partners:
                opened.append((size, item.span))
                tags.append([])
                if len(opened) > _MOST_DEEP:
                    line = self.source.count("\n", 0, item.span[0]) + 1
                    raise DataError(f"line {line} has more than {_MOST_DEEP} inline tags in each other")
            elif item.kind == "close" and number in partners:
                start, span = opened.pop()
                children = tuple(tags.pop())
                tags[-1].append(Tag(start, size, span, item.span, children))
            elif item.kind == "space":
                add(" " if text and not text[-1].endswith(" ") else "")
            elif item.kind in ("opaque", "cut"):
                count += 1
                start = size
                add(f"{{{letter}{count}}}")
                tags[-1].append(Tag(start, size, item.span))
            else:
                start, end = item.span
                if self._collapses and text and text[-1].endswith(" ") and (space := _GAP.match(self.source, end)):
                    end = min(space.end(), items[number + 1].span[1])  # else only one of two spaces would be written
                tags[-1].append(Tag(size, size, (start, end)))
        return Tagged("".join(text), tuple(tags[0]))


def render(tagged: Tagged, encode: Callable[[str], str] = str) -> Pieces:
    """Returns what is written for a text and its tags.

    :param encode: returns text as the document writes it
    """

    def part(start: int, end: int, tags: Sequence[Tag]) -> Iterator[str | Span]:
        place = start
        for tag in tags:
            yield encode(tagged.text[place : tag.start])
            yield tag.open
            if tag.close is not None:
                yield from part(tag.start, tag.end, tag.children)
                yield tag.close
            place = tag.end
        yield encode(tagged.text[place:end])

    return [piece for piece in part(0, len(tagged.text), tagged.tags) if piece != ""]


def singles(tags: Sequence[Tag]) -> Iterator[Tag]:
    """Yields the tags that are no pairs, those in pairs too."""
    for tag in tags:
        if tag.close is None:
            yield tag
        yield from singles(tag.children)


def wrap(
    pieces: Pieces,
    column: int,
    width: int,
    line_break: str,
    may_start: re.Pattern[str] | None = None,
    source: str = "",
) -> Pieces:
    """Returns what is written, with spaces made line breaks where lines would be too long.

    :param column: where the first line starts
    :param line_break: the line break, and what every line starts with
    :param may_start: what a word must match that starts a line
    :param source: the text of the document, for words that are parts of it; without it these take up none of a line
    """
    words: list[Pieces] = [[]]
    for piece in pieces:
        first, *rest = piece.split(" ") if isinstance(piece, str) else [piece]
        words[-1].append(first)
        words += [[word] for word in rest]
    indent = len(line_break.lstrip("\r\n"))
    out: Pieces = [*words[0]]
    column += len(written(source, words[0]))
    for word in words[1:]:
        said = written(source, word)
        is_escape = isinstance(out[-1], str) and out[-1].endswith("\\")
        is_long = said != "" and column + 1 + len(said) > width
        if is_long and not is_escape and (may_start is None or may_start.match(said)):
            out.append(line_break)
            column = indent + len(said)
        else:
            out.append(" ")
            column += 1 + len(said)
        out += word
    return out


def wrap_alike(
    pieces: Pieces, source: str, span: Span, margin: str = " \t", may_start: re.Pattern[str] | None = None
) -> Pieces:
    """Returns what is written for a part of a text, in lines as long as its own where it has several.

    :param margin: the characters that its lines may begin with
    :param may_start: what a word must match that starts a line
    """
    raw = source[slice(*span)]
    if raw.count("\n") == sum(source.count("\n", *piece) for piece in pieces if not isinstance(piece, str)):
        return pieces  # all of them are in tags
    column = span[0] - source.rfind("\n", 0, span[0]) - 1
    first, *rest = raw.split("\n")
    width = max(column + len(first.rstrip()), *(len(line.rstrip()) for line in rest))
    second = next(filter(str.strip, rest), "")
    indent = second[: len(second) - len(second.lstrip(margin))]
    return wrap(pieces, column, width, ("\r\n" if first.endswith("\r") else "\n") + indent, may_start, source)


def written(text: str, pieces: Pieces) -> str:
    """Returns what pieces of a text are together."""
    return "".join(piece if isinstance(piece, str) else text[slice(*piece)] for piece in pieces)


def meant(text: str) -> str:
    """Returns what a message says, its entities read as :meth:`Inline.read_entities` reads those of a source."""
    return _unspelt(text, _spelt(text))


def _spelt(text: str) -> dict[str, str]:
    """Returns the characters that a message mostly writes as entities, and these."""
    if "&" not in text or ENTITY.search(text) is None:
        return {}
    found = spellings(text, 0, len(text), "<>" if _SHOWN_TAG.search(text) else "")
    return {chr(char): spelling for char, spelling in found.items() if spelling in text}


def _unspelt(text: str, spelt: Mapping[str, str]) -> str:
    chars = {spelling: char for char, spelling in spelt.items()}
    return ENTITY.sub(lambda match: chars.get(match[0], match[0]), text) if chars else text


def replacing(span: Span, encode: Callable[[str], str] = str) -> Callable[[Tagged, Tell], list[Edit]]:
    """Returns how a segment is written whose translation takes its place."""
    return lambda translation, _: [Edit(*span, render(translation, encode))]


def in_place(
    inline: Inline,
    lines: Callable[[int], int],
    encode: Callable[[str], str] = str,
    *,
    state: State = "new",
    context: str = "",
    wraps: bool = False,
    may_start: re.Pattern[str] | None = None,
    guard: Callable[[Pieces, int], Pieces] = lambda pieces, _: pieces,
    forms: Sequence[str] = (),
    entities: bool = False,
) -> Iterator[Segment]:
    """Yields what was collected as a segment that its translation replaces, or nothing.

    :param entities: whether it is a message, that may be part of a page
    :param guard: returns what is written at a place so that it is read as text
    :param wraps: whether the translation of a text in several lines is written in lines as long as those
    :param may_start: what a word must match that starts such a line
    :param forms: the plural forms of the target, where plurals and selects of ICU are messages of their own
    """
    inline.apart(directions)
    if entities:
        inline.apart(fenced)
        inline.apart(find_quoted)
    spell, line = (inline.read_entities(), inline.read_breaks()) if entities else (str, str)
    write_as: Callable[[str], str] = encode if spell is line is str else lambda text: encode(line(spell(text)))
    reason = ""
    parts: list[tuple[Branch | None, Inline]] = []
    try:
        parts += inline.branches() if forms else ()
    except ValueError as error:
        reason = f"{KEPT}: {error}"
    parts = parts or [(None, each) for each in inline.cuts()]  # none where all of it are breaks
    whole = (inline.plain() if len(parts) > 1 else "", "")
    if all(part is not inline for _, part in parts):
        inline.clear()
    for branch, part in parts:
        found = part.take() if branch is None or branch.is_text(inline.source, forms) else None
        if found is not None:
            tagged, span = found
            encoded = _in_section(inline.source, span) if not tagged.tags else None
            write = _Written(span, inline.source if wraps else "", may_start, encoded or write_as, guard)
            edits = write if branch is None else partial(_with_forms, write, branch, forms)
            state = "skipped" if reason else state
            yield Segment(
                tagged, lines(span[0]), edits, state, context=context, reason=reason, written=whole, span=span
            )


def _in_section(source: str, span: Span) -> Callable[[str], str] | None:
    """Returns how a text is written that is a CDATA section of XML, with the space at its ends; of others, nothing."""
    start, end = span[0] + len("<![CDATA["), span[1] - len("]]>")
    if not source.startswith("<![CDATA[", span[0]) or source.find("]]>", start, span[1]) != end:
        return None
    raw = source[start:end]
    first, last = raw[: len(raw) - len(raw.lstrip())], raw[len(raw.rstrip()) :]
    return lambda text: f"<![CDATA[{first}{text.strip().replace(']]>', ']]]]><![CDATA[>')}{last}]]>"


def fenced(text: str, span: Span) -> Iterator[Item]:
    """Yields code in a message, between lines of marks."""
    opening: re.Match[str] | None = None
    for match in _FENCE.finditer(text, *span):
        if opening is None:
            opening = match
        elif match["line"] and match["fence"].startswith(opening["fence"]):
            yield Item("cut", (opening.start("marks"), match.end()))
            opening = None


def directions(text: str, span: Span) -> Iterator[Item]:
    """Yields marks of the direction of writing, which the model would lose: ends and beginnings, and others."""
    for match in _DIRECTION.finditer(text, *span):
        yield Item(match.lastgroup, match.span(), "direction")  # type: ignore[arg-type]


@dataclass(slots=True)
class _Written:
    """Writes a translation in its place; a function with these would take three times the memory, of each segment."""

    span: Span
    wrapped: str
    may_start: re.Pattern[str] | None
    encode: Callable[[str], str]
    guard: Callable[[Pieces, int], Pieces]

    def __call__(self, translation: Tagged, _: Tell) -> list[Edit]:
        span, source = self.span, self.wrapped
        pieces = self.guard(render(translation, self.encode), span[0])
        return [Edit(*span, wrap_alike(pieces, source, span, may_start=self.may_start) if source else pieces)]


def _with_forms(
    write: Callable[[Tagged, Tell], list[Edit]], branch: Branch, forms: Sequence[str], translation: Tagged, tell: Tell
) -> list[Edit]:
    (edit,) = write(translation, tell)
    return [edit, *branch.more(edit, forms)]
