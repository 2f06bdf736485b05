"""Files that are there whole or not at all, and leave nothing behind."""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import os
import re
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from typing import IO, Any, Final, final

import platformdirs

from specmt import signals
from specmt.errors import DataError, OutputError

STALE: Final = re.compile(r"\.specmt-[0-9a-f]{8}-\d+-\d+-\d+\.tmp")
"""The folder of a file that is being written, or was when its process died."""

_numbers: Final = itertools.count()


@final
class Temporary:
    """A file to write, which takes its name when it is complete.

    It lies in a folder of its own beside the place where it will be: whoever writes it may make further files there.
    The folder goes when the process ends, by a signal too. What a process left that was killed, or whose machine was
    switched off, is removed by the next that writes the same file.
    """

    def __init__(self, target: Path) -> None:
        """
        :param target: not a symbolic link
        :raises OSError: no file of that name can be made there.
        """
        remove_stale(target)
        process = f"{os.getpid()}-{_start_of(os.getpid())}"
        self._target: Final = target.absolute()
        self._folder: Final = str(self._target.parent / f"{_prefix(target)}{process}-{next(_numbers)}.tmp")
        self._lock: int | None = None
        self.path: Final = Path(self._folder, target.name)
        """The file, empty and with the mode that the umask says."""
        signals.register(self._folder)
        try:
            os.mkdir(self._folder, 0o700)
            self._lock = hold(self._folder)
            self.path.touch()
        except BaseException:
            self.discard()
            raise

    def keep(self) -> None:
        """Gives the file its name, in the place of one that has it."""
        os.replace(self.path, self._target)

    def discard(self) -> None:
        """Removes the file if it was not kept, and its folder."""
        signals.remove_folder(self._folder)
        signals.unregister(self._folder)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Yields a file to write, which takes the name ``path`` when the block ends, and vanishes if it fails.

    Who may read it says the umask, even where what writes it is stricter, as safetensors is.
    """
    temporary = Temporary(path)
    mode = temporary.path.stat().st_mode
    try:
        yield temporary.path
        temporary.path.chmod(mode)
        temporary.keep()
    finally:
        temporary.discard()


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Yields a folder to write files into, which takes the name ``path`` when the block ends; there must be none."""
    temporary = Temporary(path)
    folder, mode = temporary.path.parent, temporary.path.stat().st_mode
    try:
        temporary.path.unlink()
        yield folder
        folder.chmod(mode | (mode & 0o444) >> 2)  # who may read it may look into it
        os.rename(folder, path)
    finally:
        temporary.discard()


def stamp(path: Path) -> tuple[int, ...]:
    """Returns what changes where a regular file is written or replaced; nothing of others, as pipes are."""
    with suppress(OSError):
        status = path.stat()
        if S_ISREG(status.st_mode):
            return status.st_size, status.st_mtime_ns, status.st_ino
    return ()


def check_unchanged(path: Path, before: tuple[int, ...]) -> None:
    """
    :param before: its stamp
    :raises DataError: a file was written since.
    """
    if stamp(path) != before:
        raise DataError(f"{path}: has changed while it was read.")


def write_whole(path: Path, text: str) -> None:
    """Writes a text file under a temporary name and renames it."""
    with whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_writable(folder: Path) -> None:
    """Makes a folder where there is none.

    :raises OutputError: nothing can be written there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        Temporary(folder / "file").discard()
    except OSError as error:
        raise OutputError(f"{folder}: cannot be written ({error.strerror}).") from error


def _prefix(target: Path) -> str:
    # Not the name itself, which may be as long as a name can be.
    return f".specmt-{zlib.crc32(os.fsencode(target.name)):08x}-"


def remove_stale(target: Path) -> None:
    """Removes the folders of processes that wrote the same file and are no more."""
    pattern = re.compile(rf"{re.escape(_prefix(target))}(\d+)-(\d+)-\d+\.tmp")
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            found = pattern.fullmatch(entry.name)
            if found is None or _is_running(int(found[1]), found[2]):
                continue
            # A process of another machine or container has other numbers, but holds a lock.
            with suppress(OSError):
                lock = hold(entry.path)
                signals.remove_folder(entry.path)
                os.close(lock)


def _start_of(process: int) -> str:
    """Returns when a process was started, in ticks since the machine was, or 0 where there is no /proc.

    :raises OSError: there is no such process.
    """
    if not os.path.isdir("/proc/self"):
        os.kill(process, 0)
        return "0"
    return Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]


def _is_running(process: int, start: str) -> bool:
    try:
        return _start_of(process) == start
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:
        return True


def hold(folder: str | Path, *, patience: float = 0.0) -> int:
    """Returns a descriptor that locks a folder until it is closed.

    :raises BlockingIOError: another process has locked it, even after some seconds.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if not lock(descriptor, patience=patience):
        os.close(descriptor)
        raise BlockingIOError(str(folder))
    return descriptor


def lock(file: IO[Any] | int, kind: int = fcntl.LOCK_EX, *, patience: float = 0.0) -> bool:
    """Locks a file; returns whether nobody else has it, even after some seconds.

    Where the file system knows no locks nobody has: two may do the same work twice, no harm else.
    """
    until = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
            time.sleep(0.05)
            continue
        except OSError:
            pass
        return True


def cache_folder() -> Path:
    """Returns the program's folder for what can be made again."""
    return platformdirs.user_cache_path("specmt")


def cached(kind: str, key: str, find_out: Callable[[], Any]) -> Any:
    """Returns what was found out under a key by this user on any day, or finds it out and keeps it.

    :param find_out: returns a value that JSON can hold
    """
    if (value := recall(kind, key)) is None:
        value = find_out()
        keep(kind, key, value)
    return value


def recall(kind: str, key: str) -> Any:
    """Returns what was kept under a key; ``None`` if nothing was, or it cannot be read."""
    with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        record = json.loads(_cache_path(kind, key).read_text(encoding="utf-8"))
        if record["key"] == key:
            return record["value"]
    return None


def keep(kind: str, key: str, value: Any, folder: Path | None = None) -> None:
    """Keeps a value that JSON can hold under a key; a cache that cannot be written is done without.

    :param folder: the program's by default
    """
    path = _cache_path(kind, key, folder)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps({"key": key, "value": value}))


def _cache_path(kind: str, key: str, folder: Path | None = None) -> Path:
    return (folder or cache_folder()) / f"{kind}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"
