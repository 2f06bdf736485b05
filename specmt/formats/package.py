"""Zip files of which some members are text: how DOCX, EPUB, ODT, PPTX and XLSX are read and written."""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, final

from specmt.errors import DataError
from specmt.formats.document import MAX_BYTES, Edit, LineNumbers, Part, RefusedError, Segment, TextDocument, write
from specmt.formats.encoding import decode_xml
from specmt.formats.inline import Inline, in_place
from specmt.formats.left import told
from specmt.formats.markup import quoted, reference, value_of, xml_tokens, xml_unescape
from specmt.types import Tagged

_DAMAGED: Final = zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, ValueError, OSError
"""What zipfile raises of what is damaged, encrypted (RuntimeError) or packed in unknown ways (NotImplementedError)."""

_MOST_MEMBERS: Final = 65536
_PROPERTIES: Final = frozenset(("docProps/core.xml", "meta.xml"))
_LEFT: Final = {"omment": "it is remarks of reviewers", "/content.xml": "it is an object of another program"}
"""Why members are left, by a part of their name."""

_TEXT: Final = re.compile(r">([^<>]+)<")
_SAID: Final = re.compile(
    r"""\s(?:w:)?(?P<key>alt|descr|displayText|error(?:Title)?|prompt(?:Title)?|string|title|tooltip|val)=
        (?P<quote>["'])(?P<said>(?:(?!(?P=quote)).)+)""",
    re.VERBOSE | re.DOTALL,
)
_DESCRIBED: Final = re.compile(
    r"""<(?P<name>dc:(?:title|description)|(?:svg|table):(?:title|desc))\b[^<>]*>(?P<said>[^<]+)</(?P=name)>
        | <(?:(?:\w+:)?(?:docPr|cNvPr|dataValidation|hlinkClick|hyperlink)
            |v:(?:shape|textpath)|w:(?:listEntry|listItem|tblCaption|tblDescription))\b(?:[^"'<>]|"[^"]*"|'[^']*')*>""",
    re.VERBOSE,
)
"""What is said of a document, of pictures and links in it, and of what may be chosen."""

_MOST: Final = {"error": 255, "errorTitle": 32, "prompt": 255, "promptTitle": 32, "tooltip": 255}
"""The most characters that Excel reads in an attribute."""

_NEW_LINE: Final = re.compile(r"(?i)(?:_x000d_)?_x000a_")


@final
class Package:
    """A document that is a zip file with documents in it."""

    def __init__(
        self,
        data: bytes,
        file_format: str,
        is_text: Callable[[str], object],
        find: Callable[[str], Iterable[Segment | Part]],
        *,
        finish: Callable[[str], Iterable[Edit]] = lambda _: (),
    ) -> None:
        """
        :param is_text: whether a member of that name has text
        :param find: returns the segments in the text of a member, which is XML, and what is left of it
        :param finish: returns what else changes in a member where any is translated
        :raises DataError: a member is damaged, encrypted or packed in an unusual way, or it unpacks to more than is
            read.
        """
        self._data = data
        self.documents: Final[list[tuple[str, TextDocument, int]]] = []
        segments: list[Segment] = []
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                _check(archive)
                if (damaged := archive.testzip()) is not None:
                    raise DataError(f"has the damaged member {damaged!r}")
                for member in archive.infolist():
                    if is_text(member.filename) or member.filename in _PROPERTIES:
                        document = _read(archive, member, file_format, find, finish)
                        self.documents.append((member.filename, document, len(segments)))
                        segments += document.segments
                    elif reason := next((said for name, said in _LEFT.items() if name in member.filename), ""):
                        with suppress(DataError, ValueError):
                            segments += _left(member.filename, decode_xml(archive.read(member))[0], reason)
        except _DAMAGED as error:
            raise DataError(f"line 1 is no package that can be read ({error})") from error
        if not self.documents:
            raise DataError("line 1 is a package without the text of a document")
        self.segments: Sequence[Segment] = segments

    def write(self, translations: Mapping[int, Tagged], tell: Callable[[int, str], None]) -> bytes:
        """Returns the package; members without translations are as they were, and all of it, if that is true of all."""
        changed: dict[str, bytes] = {}
        for name, document, first in self.documents:
            numbers = range(first, first + len(document.segments))
            own = {number - first: translations[number] for number in numbers if number in translations}
            if own:
                changed[name] = write(document, own, lambda number, what, first=first: tell(first + number, what))  # type: ignore[misc]
        if not changed:
            return self._data
        out = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(self._data)) as archive, zipfile.ZipFile(out, "w") as written:
            written.comment = archive.comment
            for member in archive.infolist():
                content = changed[member.filename] if member.filename in changed else archive.read(member)
                written.writestr(member, content, member.compress_type)
        return out.getvalue()


def _check(archive: zipfile.ZipFile) -> None:
    """
    :raises DataError: it would unpack to more than is read.
    """
    members = archive.infolist()
    if len(members) > _MOST_MEMBERS:
        raise DataError(f"has {len(members)} members, more than the {_MOST_MEMBERS} that are read")
    total = sum(member.file_size for member in members)
    if total > MAX_BYTES:
        raise DataError(f"unpacks to {total} bytes, more than the {MAX_BYTES >> 20} MiB that are read")
    names: set[str] = set()
    for member in members:
        if member.filename in names:
            raise DataError(f"has the member {member.filename!r} twice")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError(f"has the member {member.filename!r}, which is not packed as such documents are")
        names.add(member.filename)


def _read(
    archive: zipfile.ZipFile,
    member: zipfile.ZipInfo,
    file_format: str,
    find: Callable[[str], Iterable[Segment | Part]],
    finish: Callable[[str], Iterable[Edit]],
) -> TextDocument:
    # No more than it says: what says less than it holds is damaged.
    with archive.open(member) as stream:
        content = stream.read(member.file_size + 1)
    if len(content) != member.file_size:
        raise DataError(f"has the member {member.filename!r}, which has another size than it says")
    try:
        text, encoding = decode_xml(content)
        found = [*find(text), *_described(text)]
        segments = [each for each in found if isinstance(each, Segment)]
        parts = [each for each in found if isinstance(each, Part)]
        document = TextDocument(text, encoding, segments, finish=lambda _: finish(text), escape=reference, parts=parts)
        document = told(document, file_format)
        document.segments = [replace(each, member=member.filename) for each in document.segments]
        return document
    except DataError as error:
        raise DataError(f"{member.filename}: {error}") from error


def _left(name: str, text: str, reason: str) -> Iterator[Segment]:
    """Yields what a member that is left says, if it has text."""
    said = " ".join(" ".join(_TEXT.findall(text)).split())
    if any(map(str.isalpha, said)):
        yield Segment(Tagged(said), 1, lambda *_: (), "skipped", reason=f"left as it is: {reason}", member=name)


def _described(text: str) -> Iterator[Segment]:
    """Yields what is said of a document and of the pictures in it."""
    lines = LineNumbers(text)
    for match in _DESCRIBED.finditer(text):
        for each in [match] if match["said"] else _SAID.finditer(text, *match.span()):
            key, quote = (each["key"], each["quote"]) if each is not match else ("", '"')
            found = _NEW_LINE.search(each["said"])
            line_break = found[0] if found else "&#10;"
            inline = Inline(text, lambda raw, by=line_break: xml_unescape(raw.replace(by, "\n")))  # type: ignore[misc]
            inline.text(*each.span("said"))
            yield from in_place(inline, lines, partial(_as_attribute, quote, line_break, _MOST.get(key)))


def _as_attribute(quote: str, line_break: str, most: int | None, said: str) -> str:
    """Returns a text as it is written between quotes.

    :raises RefusedError: it is longer than is read there.
    """
    if most is not None and len(said) > most:
        raise RefusedError(f"it may have no more than {most} characters")
    return quoted(said, quote)[1:-1].replace("\n", line_break)


def members_of(data: bytes, is_wanted: Callable[[str], object]) -> Iterator[str]:
    """Yields the texts of members by their names, but of those that cannot be read, which reading the package says."""
    with suppress(*_DAMAGED, DataError), zipfile.ZipFile(io.BytesIO(data)) as archive:
        _check(archive)
        for name in filter(is_wanted, archive.namelist()):
            with suppress(*_DAMAGED, DataError):
                yield decode_xml(archive.read(name))[0]


def member_of(data: bytes, name: str) -> str:
    """Returns the text of a member; nothing where it cannot be read."""
    return next(members_of(data, name.__eq__), "")


def tags(text: str, names: Collection[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields the elements of some names with their attributes; nothing where the text is not well-formed."""
    with suppress(DataError):
        for token in xml_tokens(text):
            if token.name in names and token.kind != "close":
                yield token.name, {name: value_of(text, span) for name, span in token.attributes(text).items()}
