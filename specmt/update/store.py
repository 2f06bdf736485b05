"""Where records are, and how they and the files that they speak of are read and written without loss."""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from specmt.errors import DataError, OutputError
from specmt.files import check_unchanged, hold, remove_stale, stamp, write_whole
from specmt.formats.document import MAX_BYTES
from specmt.text.lines import Output, open_input, reading
from specmt.text.printable import shown
from specmt.update.record import Record, blob_id, parse, written

FOLDER: Final = ".specmt"
"""The folder of records, beside the project's file or beside the translations."""

END: Final = ".rec"
"""How the names of records end."""


@dataclass(frozen=True, slots=True)
class Files:
    """A source, its translation and the record of both."""

    source: Path
    target: Path
    record: Path
    file_format: str

    @property
    def name(self) -> str:
        """How messages name them."""
        return shown(self.target)


def read_whole(path: Path) -> bytes:
    """Returns what is in a file, at most a byte more than is read of a document.

    :raises DataError: it was written while it was read.
    :raises InputNotFoundError: there is none.
    """
    before = stamp(path)
    stream = open_input(path)
    with reading(stream, str(path)):
        data = stream.read(MAX_BYTES + 1)
    check_unchanged(path, before)
    return data


def record_beside(target: Path) -> Path:
    """Returns where the record of a translation is that belongs to no project."""
    return target.parent / FOLDER / f"{target.name}{END}"


def target_of(record: Path) -> Path:
    """Returns the translation whose record belongs to no project."""
    return record.parent.parent / record.name.removesuffix(END)


def record_in(project: Path, language: str, source: Path) -> Path:
    """
    Returns where the record of a translation is that belongs to a project.

    :param source: within the project's folder
    """
    return project / FOLDER / "record" / language / source.with_name(f"{source.name}{END}")


@final
class Locks:
    """The folders of records that an update holds, for one update at a time."""

    def __init__(self) -> None:
        self._held: dict[Path, int] = {}

    def hold(self, files: Files) -> None:
        """
        :raises DataError: another update holds the folder of the record.
        :raises OutputError: the folder cannot be made.
        """
        folder = files.record.parent
        if folder in self._held:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._held[folder] = hold(folder)
        except BlockingIOError:
            raise DataError(f"{files.name}: another update is at work in {folder}.") from None
        except OSError as error:
            raise OutputError(f"{folder}: cannot be made ({error.strerror}).") from error

    def __enter__(self) -> Locks:
        return self

    def __exit__(self, *_: object) -> None:
        while self._held:
            os.close(self._held.popitem()[1])


def recall(
    files: Files, target: bytes | None, present: Collection[str] = (), *, recovers: bool = True
) -> Record | None:
    """Returns the record of two files, if there is one; one of a run that ended before its time counts if it fits.

    :param target: the translation, as it is
    :param present: the hashes of its blocks
    :param recovers: whether what such a run left is put in order
    :raises DataError: the record is damaged.
    """
    new = _new(files)
    if recovers:
        for path in (new, files.target):
            remove_stale(path)
    text = _text(new)
    if text is not None and target is not None and text.split("\n", 1)[0].endswith(f" {blob_id(target)}"):
        if recovers:
            os.replace(new, files.record)
    else:
        if recovers and text is not None:
            new.unlink()
        text = _text(files.record)
    try:
        return None if text is None else parse(text, present)
    except DataError as error:
        raise DataError(f"{files.record}: {error}.") from error


def store(files: Files, data: bytes | None, record: Record) -> None:
    """Writes a translation and its record; whenever that is ended, the next run finds both as they belong together.

    :param data: the translation; ``None``: it is as it was
    """
    new = _new(files)
    try:
        files.record.parent.mkdir(parents=True, exist_ok=True)
        files.target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(new, written(record))
        if data is not None:
            with Output(files.target) as out:
                out.write_bytes(data)
        os.replace(new, files.record)
    except OSError as error:
        raise OutputError(f"{files.record}: cannot be written ({error.strerror}).") from error


def _new(files: Files) -> Path:
    return files.record.with_name(f"{files.record.name}.new")


def _text(path: Path) -> str | None:
    with suppress(FileNotFoundError):
        return path.read_bytes().decode("utf-8", "replace")
    return None
