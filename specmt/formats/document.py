"""The seam between documents and translations: segments, edits, and the one way in which a document is written.

A format reads bytes and returns a :class:`Document`. What it writes are edits: parts of the original text that others
replace. Everything else is copied, so that nothing of a document is lost that no one thought of.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, final

from specmt.errors import DataError, SpecmtError
from specmt.formats.encoding import Encoding
from specmt.languages import primary
from specmt.types import Span, Tagged

MAX_BYTES: Final = 128 << 20
"""The largest document that is read, and the most that one may unpack to; it is held in memory as a whole."""

KEPT: Final = "kept as it was"
"""How begins what is told of a segment that stays in its language though it is text, for which `--strict` fails."""

FAILED: Final = f"{KEPT}: it cannot be written"
"""What is told of a segment where the program fails."""

NO_WORDS: Final = "no words"
"""Why a part of a text is left in which there may be others, such as images."""

State = Literal["new", "fuzzy", "translated", "skipped"]
"""Whether a segment has a translation, one to be looked at again, none, or is not to be translated."""

Pieces = list[str | Span]
"""What is written: new text, and parts of the original text, with the edits in them."""

Tell = Callable[[str], None]
"""Takes a warning about a segment."""


class RefusedError(Exception):
    """A translation that a document cannot hold; the message says why, and the segment stays as it was."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A part of a text and what replaces it."""

    start: int
    end: int
    pieces: Pieces


@dataclass(frozen=True, slots=True)
class Segment:
    """A text to translate."""

    source: Tagged
    """The text, and the inline tags in it."""

    line: int
    """Where in the document it is: the number of its line, from 1."""

    edits: Callable[[Tagged, Tell], Iterable[Edit]] = field(repr=False)
    """Returns what changes where this is its translation; raises :class:`RefusedError`."""

    state: State = "new"

    target: str = ""
    """The translation that it has, without tags."""

    context: str = ""
    """What tells it from others of the same text: a message context, a key."""

    near: tuple[tuple[str, str], ...] = ()
    """Texts like it and their translations: what it was before a change, what a memory suggested."""

    reason: str = ""
    """Why it is not to be translated, where the user would expect that it is."""

    written: tuple[str, str] = ("", "")
    """It and the translation that it has as they are written, where that has tags which are not in it.

    Of a branch of a plural or select of ICU: the whole message.
    """

    accelerators: tuple[bool, bool] = (False, False)
    """Whether it and the translation that it has are labels with an accelerator, which neither shows."""

    member: str = ""
    """The file in the document that it is in."""

    start: int = -1
    """Where in the text it is, if its edits do not say so."""

    span: Span = (-1, -1)
    """What of the text it says, in XML and Markdown."""

    around: Span | None = None
    """The same with the inline tags around it, in pages of HTML and documents of word processors."""

    forms: Sequence[str] = ()
    """The plural forms of the target, where it may be a message with plurals or selects of ICU."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a text, which is a segment's or is left as it is."""

    start: int
    end: int

    reason: str
    """Why it is left; nothing where it is a segment's."""

    pages: Sequence[tuple[int, TextDocument]] = ()
    """What is in it, where those are pages of their own, as cells are; with the lines in which they begin."""


def unread(text: str, parts: Iterable[Part]) -> list[Part]:
    """Returns what of a text has letters and is in no part."""
    place, found = 0, []
    for part in [*sorted(parts, key=lambda part: part.start), Part(len(text), len(text), "")]:
        if any(map(str.isalpha, text[place : part.start])):
            found.append(Part(place, part.start, "not understood"))
        place = max(place, part.end)
    return found


def unread_segments(text: str, parts: Iterable[Part], line: Callable[[int], int]) -> Iterator[Segment]:
    """Yields what of a text has letters and is in no part, as segments that are left.

    :param line: returns the number of the line of a place
    """
    for part in unread(text, parts):
        said = Tagged(text[part.start : part.end].strip())
        yield Segment(said, line(part.start), lambda *_: (), "skipped", reason=f"{KEPT}: it is {part.reason}")


@dataclass(frozen=True, kw_only=True)
class TagRules:
    """What HTML and XML elements of some names are, whatever they would be."""

    ignored: frozenset[str] = frozenset()
    """They stay as they are, in the sentence that they stand in."""

    inside: frozenset[str] = frozenset()
    """They are inline."""

    splitting: frozenset[str] = frozenset()
    """A sentence ends where they begin or end."""

    detects: bool = True
    """Whether, of XML, the others are judged by the text around them; if not, they are inline."""


@dataclass(frozen=True, kw_only=True)
class FormatOptions:
    """What formats need to know beside the bytes."""

    source: str = "de"
    """The language of the document."""

    target: str = "en"
    """The language of the translation."""

    insists: bool = False
    """Whether a document that says it is in the target language is translated nevertheless."""

    fuzzy: bool = True
    """Whether translations are marked to be reviewed, where the format can say so."""

    fuzzy_below: float | None = None
    """The confidence from which they are not marked; those whose confidence is not known are."""

    keys: tuple[str, ...] = (
        "title",
        "description",
        "summary",
        "subtitle",
        "linkTitle",
        "sidebar_label",
        "excerpt",
        "tagline",
        "details",
        "text",
        "alt",
        "caption",
        "pagination_label",
    )
    """The keys of a Markdown file's front matter that are translated."""

    dialect: str = ""
    """The site that a Markdown file is written for, as ``mkdocs``; empty: not known."""

    mdx: bool = False
    """Whether it is MDX."""

    anchors: Literal["auto", "explicit", "rewrite", "keep"] = "auto"
    """What keeps links to headings that are translated: their old ids, where the dialect can; other links; nothing."""

    linked: frozenset[str] = frozenset()
    """The ids of headings that other files link to."""

    rebase: Callable[[str], str] | None = None
    """Returns the targets of links as they are from where the translation goes."""

    tags: TagRules = TagRules()
    """What elements of HTML and XML are."""

    skip_keys: tuple[str, ...] = ()
    """The keys of catalogues whose texts stay as they are, or the last parts of these."""

    columns: tuple[str, ...] = ()
    """The columns of a table that are translated: name or number, and after = another for the translation."""

    def skips(self, key: str) -> bool:
        """Whether the text of a key stays as it is."""
        return not {key, key.rpartition(".")[2]}.isdisjoint(self.skip_keys)

    def new_language(self, found: re.Match[str] | None) -> Iterator[Edit]:
        """Yields what makes a language that a document says, where it is that of the source, that of the target."""
        if found is not None and primary(found[1]) == primary(self.source):
            yield Edit(*found.span(1), [self.target])

    def is_fuzzy(self, translations: Iterable[Tagged]) -> bool:
        """Whether the translation that these make up is marked to be reviewed."""
        least = self.fuzzy_below
        if least is None or not self.fuzzy:
            return self.fuzzy
        return any(each.confidence is None or each.confidence < least for each in translations)


class Document(Protocol):
    """A document that was read."""

    @property
    def segments(self) -> Sequence[Segment]:
        """Its texts, in order."""

    def write(self, translations: Mapping[int, Tagged], tell: Callable[[int, str], None]) -> bytes:
        """Returns the document with some segments translated, and byte for byte as it was everywhere else.

        :param translations: by the number of the segment
        :param tell: takes the number of a segment and what the user should know about it; a segment of which it is
            told that it is ``kept`` stays as it was
        """


@final
class TextDocument:
    """A document that is one text."""

    def __init__(
        self,
        text: str,
        encoding: Encoding,
        segments: Sequence[Segment],
        *,
        finish: Callable[[Mapping[int, Tagged]], Iterable[Edit]] = lambda _: (),
        escape: Callable[[str], str] | None = None,
        parts: Sequence[Part] = (),
    ) -> None:
        """
        :param finish: returns what else changes where those segments are translated
        :param escape: writes a character that the encoding lacks
        :param parts: what is known of parts of the text
        """
        self.segments = list(segments)
        self.parts = list(parts)
        self.text: Final = text
        self.encoding: Final = encoding
        self._finish = finish
        self._escape = escape

    def write(self, translations: Mapping[int, Tagged], tell: Callable[[int, str], None]) -> bytes:
        return self.encoding.encode(edited(self.text, self.edits(translations, tell)))

    def edits(self, translations: Mapping[int, Tagged], tell: Callable[[int, str], None]) -> list[Edit]:
        """Returns what changes where some segments are translated; the parameters are those of writing."""
        edits: list[Edit] = []
        written: dict[int, Tagged] = {}
        for number, translation in translations.items():
            try:
                edits += [
                    self._fit(edit)
                    for edit in self.segments[number].edits(translation, lambda what, n=number: tell(n, what))  # type: ignore[misc]
                ]
                written[number] = translation
            except RefusedError as error:
                tell(number, f"{KEPT}: {error}")
            except Exception as error:
                fail(error, [number], tell)
        if written:
            edits += map(self._fit, self._finish(written))
        return edits

    def _fit(self, edit: Edit) -> Edit:
        """Returns an edit as the encoding can write it."""
        if self.encoding.can_encode("".join(piece for piece in edit.pieces if isinstance(piece, str))):
            return edit
        if (escape := self._escape) is None:
            raise RefusedError(f"{self.encoding.codec} cannot write it")

        def fit(said: str) -> str:
            return "".join(c if self.encoding.can_encode(c) else escape(c) for c in said)

        return Edit(edit.start, edit.end, [fit(piece) if isinstance(piece, str) else piece for piece in edit.pieces])


def fail(error: Exception, numbers: Iterable[int], tell: Callable[[int, str], None]) -> None:
    """Tells of segments that they are kept because of a failure of the program; others are raised."""
    if isinstance(error, MemoryError | SpecmtError):
        raise error
    for number in numbers:
        tell(number, f"{FAILED} ({type(error).__name__})")


def write(document: Document, translations: Mapping[int, Tagged], tell: Callable[[int, str], None]) -> bytes:
    """Returns a document with some segments translated, or as it was if that fails."""
    try:
        return document.write(translations, tell)
    except Exception as error:
        fail(error, translations, tell)
        return document.write({}, tell)


def edited(text: str, edits: list[Edit], span: Span | None = None) -> str:
    """Returns a text, or a part of it, as edits leave it.

    :param edits: of two that start at the same place, the outer one comes first
    """
    return edited_parts(text, edits, [span or (0, len(text))])[0]


def edited_parts(text: str, edits: list[Edit], spans: Iterable[Span]) -> list[str]:
    """Returns parts of a text as edits leave them; an edit that is not in one part alone is left out."""
    edits.sort(key=lambda edit: (edit.start, -edit.end))
    starts = [edit.start for edit in edits]

    def part(span: Span, outer: Edit | None = None) -> Iterator[str]:
        """
        :param outer: the edit that copies this part
        """
        place, end = span
        for edit in edits[bisect_left(starts, place) : bisect_right(starts, end)]:
            if edit.start < place or edit.end > end or edit is outer or (outer and edit.start == edit.end == end):
                continue
            yield text[place : edit.start]
            for piece in edit.pieces:
                if isinstance(piece, str):
                    yield piece
                else:
                    yield from part(piece, edit)
            place = edit.end
        yield text[place:end]

    return ["".join(part(span)) for span in spans]


@final
class LineNumbers:
    """Which line of a text a place is in."""

    def __init__(self, text: str) -> None:
        self._ends = [match.start() for match in re.finditer("\n", text)]

    def __call__(self, place: int) -> int:
        return bisect_left(self._ends, place) + 1


def check_size(size: int, most: int = MAX_BYTES) -> None:
    """
    :raises DataError: a document is too large to be held in memory.
    """
    if size > most:
        raise DataError(f"is larger than {most >> 20} MiB, the most that is read")
