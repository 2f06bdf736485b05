"""The folder of a job: its manifest, its finished shards, and a lock for each who works on it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, final

from specmt import signals
from specmt.errors import DataError, InputNotFoundError, OutputError, UsageError
from specmt.files import STALE, lock, whole, whole_folder
from specmt.jobs.manifest import Manifest
from specmt.text.lines import Output
from specmt.types import Stats, Translation

SUFFIX: Final = ".job"
MANIFEST: Final = "manifest.json"
LOCK: Final = "lock"

_PATIENCE = 5.0
"""Seconds in which the processes that a killed one had forked, and which have its lock, come to an end."""

_SHARD: Final = re.compile(r"shard-(\d{6,})")
_OURS: Final = re.compile(rf"{_SHARD.pattern}|{re.escape(MANIFEST)}|{LOCK}(?:-\d+-of-\d+)?|{STALE.pattern}")
"""The names of what is in the folder."""


@dataclass(slots=True)
class Shard:
    """What came of some lines."""

    output: bytearray = field(default_factory=bytearray)
    """Their part of the output."""

    stats: Stats = field(default_factory=Stats)

    warnings: list[tuple[int, str]] = field(default_factory=list)
    """What the user should be told of lines, by their position in the input."""

    def add(self, translation: Translation, render: Callable[[Translation], str]) -> None:
        """Adds the next line."""
        self.output += render(translation).encode()
        self.stats += translation.stats
        self.warnings += [(translation.line.index, warning) for warning in translation.warnings]


@final
class JobFolder:
    """The folder ``OUTPUT.job`` beside an output that is being made.

    A shard is a file: a line of JSON that says what is in it, then its part of the output as it stands. It is written
    aside, synced and renamed: whatever becomes of the process or the machine, a shard that has its name is whole.

    :raises DataError: a shard that is asked for is missing or damaged.
    :raises OutputError: something cannot be written.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest

    @staticmethod
    def of(output: Path) -> Path:
        """Returns where the job of an output is kept."""
        named = output if output.name.strip(".") else output.absolute().resolve()
        return named.with_name(named.name + SUFFIX)

    @classmethod
    def begin(cls, output: Path, manifest: Manifest) -> JobFolder:
        """Makes the folder, or goes on with one that is there.

        :raises UsageError: it is a job with other settings, or something else has its name.
        :raises DataError: it is a job over other text, or damaged.
        :raises OutputError: it cannot be made.
        """
        path = cls.of(output)
        try:
            if not os.path.lexists(path):
                with whole_folder(path) as made:
                    (made / MANIFEST).write_text(manifest.to_json(), encoding="utf-8")
                    sync(made / MANIFEST)
                sync(path.parent)
        except OSError as error:
            if not os.path.isdir(path):  # another process made it a moment ago
                raise OutputError(f"{path}: cannot be written ({error.strerror}).") from error
        if not (path / MANIFEST).exists():
            if os.path.isdir(path) and any(_SHARD.fullmatch(name) for name in os.listdir(path)):
                raise DataError(f"{path}: has shards but no {MANIFEST}; remove it to begin anew.")
            raise UsageError(f"{path}: is there already, but is no job; remove it, or name another output.")
        folder = cls.open(output)
        folder.manifest.check_same(manifest, str(path))
        return folder

    @classmethod
    def open(cls, output: Path) -> JobFolder:
        """Opens a job that was begun.

        :raises InputNotFoundError: there is none.
        :raises DataError: it is damaged.
        """
        path = cls.of(output) / MANIFEST
        try:
            return cls(path.parent, Manifest.from_json(path.read_text(encoding="utf-8"), str(path)))
        except (OSError, UnicodeDecodeError) as error:
            if isinstance(error, FileNotFoundError | NotADirectoryError):
                raise InputNotFoundError(f"{output}: no job was begun for it ({path} is not there).") from error
            raise DataError(f"{path}: cannot be read ({error}).") from error

    @contextmanager
    def locked(self, worker: str | None = None) -> Iterator[None]:
        """Keeps others away while the block runs: from the same part of the work, or, by default, from all of it.

        :param worker: what is worked on, ``1-of-4`` for instance; workers of different names go side by side
        :raises UsageError: another process has the lock.
        """
        with ExitStack() as stack:
            locks = [(LOCK, fcntl.LOCK_EX if worker is None else fcntl.LOCK_SH)]
            if worker is not None:
                locks.append((f"{LOCK}-{worker}", fcntl.LOCK_EX))
            for name, kind in locks:
                try:
                    file = stack.enter_context((self.path / name).open("w"))
                except OSError as error:
                    raise OutputError(f"{self.path / name}: cannot be written ({error.strerror}).") from error
                if not lock(file, kind, patience=_PATIENCE):
                    raise UsageError(f"{self.path}: another process is working on this job.")
            yield

    def done(self) -> set[int]:
        """Returns the shards that are there, as far as their sizes tell; a shorter one was damaged from outside."""
        return {shard for shard in self.written() if self._is_complete(shard)}

    def written(self) -> set[int]:
        """Returns the shards that are there, by their names alone."""
        found = (_SHARD.fullmatch(name) for name in os.listdir(self.path))
        numbers = {int(match[1]) for match in found if match}
        return {number for number in numbers if number < self.manifest.shards}

    def write(self, shard: int, part: Shard) -> None:
        """Writes a finished shard."""
        record = {
            "lines": len(self.manifest.span(shard)),
            "bytes": len(part.output),
            "sha256": hashlib.sha256(part.output).hexdigest(),
            "stats": asdict(part.stats),
            "warnings": part.warnings,
        }
        path = self._path(shard)
        try:
            with whole(path) as temporary:
                temporary.write_bytes(json.dumps(record).encode() + b"\n" + part.output)
                sync(temporary)
            sync(path.parent)
        except OSError as error:
            raise OutputError(f"{path}: cannot be written ({error.strerror or error}).") from error

    def read(self, shard: int) -> Shard:
        """Returns a shard."""
        path = self._path(shard)
        try:
            header, _, output = path.read_bytes().partition(b"\n")
            record = json.loads(header)
            if record["sha256"] == hashlib.sha256(output).hexdigest():
                warnings = [(index, warning) for index, warning in record["warnings"]]
                return Shard(bytearray(output), Stats(**record["stats"]), warnings)
        except FileNotFoundError:
            raise DataError(f"{path}: is missing; go on with the job first.") from None
        except (ValueError, KeyError, TypeError):
            pass
        raise DataError(f"{path}: is damaged; remove it, and go on with the job.")

    def merge(self, output: Path, warn: Callable[[int, str], None]) -> Stats:
        """Writes the output of all shards, whole or not at all, and removes the folder; returns the counts.

        :param warn: tells what the user should know of a line, by its position in the input
        """
        total = Stats()
        with Output(output) as out:
            for shard in range(self.manifest.shards):
                part = self.read(shard)
                out.write_bytes(part.output)
                total += part.stats
                for warning in part.warnings:
                    warn(*warning)
        self.remove([output])
        return total

    def remove(self, written: Iterable[Path]) -> None:
        """Removes the folder once what was made from its shards is on the disk; what others put into it stays.

        :param written: the files
        """
        for path in written:
            sync(path)
            sync(path.absolute().parent)
        with suppress(OSError):
            # The manifest goes last: without some shards it is a job all the same.
            for name in sorted(filter(_OURS.fullmatch, os.listdir(self.path)), key=MANIFEST.__eq__):
                if STALE.fullmatch(name):
                    signals.remove_folder(str(self.path / name))
                else:
                    (self.path / name).unlink()
            self.path.rmdir()

    def _is_complete(self, shard: int) -> bool:
        with self._path(shard).open("rb") as file:
            header = file.readline()
            size = os.fstat(file.fileno()).st_size
        try:
            return bool(size == len(header) + json.loads(header)["bytes"])
        except (ValueError, KeyError, TypeError):
            return False

    def _path(self, shard: int) -> Path:
        return self.path / f"shard-{shard:06d}"


def sync(path: Path) -> None:
    """Makes sure that a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
