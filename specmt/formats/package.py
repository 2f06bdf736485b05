"""Zip files of which some members are text: how DOCX, EPUB, ODT, PPTX and XLSX are read and written."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, final

from specmt.errors import DataError
from specmt.formats.document import MAX_BYTES, Document, Edit, Segment, TextDocument, write
from specmt.formats.encoding import decode_xml
from specmt.formats.markup import reference
from specmt.types import Tagged

_MOST_MEMBERS: Final = 65536


@final
class Package:
    """A document that is a zip file with documents in it."""

    def __init__(
        self,
        data: bytes,
        is_text: Callable[[str], bool],
        find: Callable[[str], Iterable[Segment]],
        *,
        finish: Callable[[str], Iterable[Edit]] = lambda _: (),
    ) -> None:
        """
        :param is_text: whether a member of that name has text
        :param find: returns the segments in the text of a member, which is XML
        :param finish: returns what else changes in a member where any is translated
        :raises DataError: a member is damaged, encrypted or packed in an unusual way, or it unpacks to more than is
            read.
        """
        self._data = data
        self._documents: list[tuple[str, Document, int]] = []
        segments: list[Segment] = []
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                _check(archive)
                if (damaged := archive.testzip()) is not None:
                    raise DataError(f"has the damaged member {damaged!r}")
                for member in archive.infolist():
                    if is_text(member.filename):
                        document = _read(archive, member, find, finish)
                        self._documents.append((member.filename, document, len(segments)))
                        segments += document.segments
        # What zipfile raises of damaged, encrypted (RuntimeError) and unknown ways of packing (NotImplementedError).
        except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, ValueError, OSError) as error:
            raise DataError(f"line 1 is no package that can be read ({error})") from error
        if not self._documents:
            raise DataError("line 1 is a package without the text of a document")
        self.segments: Sequence[Segment] = segments

    def write(self, translations: Mapping[int, Tagged], tell: Callable[[int, str], None]) -> bytes:
        """Returns the package; members without translations are as they were, and all of it, if that is true of all."""
        changed: dict[str, bytes] = {}
        for name, document, first in self._documents:
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
    find: Callable[[str], Iterable[Segment]],
    finish: Callable[[str], Iterable[Edit]],
) -> Document:
    # No more than it says: what says less than it holds is damaged.
    with archive.open(member) as stream:
        content = stream.read(member.file_size + 1)
    if len(content) != member.file_size:
        raise DataError(f"has the member {member.filename!r}, which has another size than it says")
    try:
        text, encoding = decode_xml(content)
        segments = [replace(each, member=member.filename) for each in find(text)]
        return TextDocument(text, encoding, segments, finish=lambda _: finish(text), escape=reference)
    except DataError as error:
        raise DataError(f"{member.filename}: {error}") from error


def member_of(data: bytes, name: str) -> str:
    """Returns the text of a member; nothing where it cannot be read, which reading the package says."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            _check(archive)
            return decode_xml(archive.read(name))[0]
    except (
        KeyError,
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        EOFError,
        RuntimeError,
        ValueError,
        OSError,
        DataError,
    ):
        return ""
