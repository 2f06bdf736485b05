"""Bytes to lines and back: n lines in, n lines out, and nothing half-written left behind.

An input that cannot be opened or read raises `InputNotFoundError`, damaged gzip `DataError`.
"""

from __future__ import annotations

import gzip
import os
import re
import stat
import sys
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Literal, cast, final

from specmt.errors import DataError, InputNotFoundError, OutputError
from specmt.files import Temporary
from specmt.types import Line

Errors = Literal["strict", "replace"]

STDIN: Final = "standard input"
STDOUT: Final = "standard output"

_STREAMS: Final = ("/dev/std", "/dev/fd/", "/proc/")
"""Where an existing name stands for an open stream, which a rename would cut off."""

_ENDING: Final = re.compile(r"\r?\n(?:[ \t\r]{0,99}\n){0,999}")
_BOM: Final = b"\xef\xbb\xbf"

_MOST_LINES: Final = 1024
_MOST_CHARACTERS: Final = 1 << 20
"""How far a pipe is read ahead."""

_BUFFERED: Final = 1 << 16
_FLUSH_AFTER: Final = 0.5
"""Bytes and seconds after which what is written to a regular file is passed on."""


@final
class Lines(Iterator[Line]):
    """The lines of one input, how far the reading has come, and whether the next line would come at once."""

    def __init__(
        self, stream: BinaryIO, name: str, *, errors: Errors | None, through: Callable[[Iterator[Line]], Iterator[Line]]
    ) -> None:
        status = os.fstat(stream.fileno())
        regular = stat.S_ISREG(status.st_mode)
        lines = through(_lines(stream, name, errors))
        self._stream = stream
        self._ahead = None if regular else _ReadAhead(lines)
        self._lines = lines if self._ahead is None else self._ahead
        self.name: Final = name
        """How messages name the input."""
        self.size: Final = status.st_size if regular else None
        """The bytes of a regular file (compressed, if it is), ``None`` for a pipe or a terminal."""
        self.waited = 0.0
        """Seconds in which there was no line, on a pipe or a terminal."""

    def __next__(self) -> Line:
        if self.ready():
            return next(self._lines)
        started = time.perf_counter()
        try:
            return next(self._lines)
        finally:
            self.waited += time.perf_counter() - started

    def ready(self) -> bool:
        """Whether the next line, the end or a failure would come at once; always so for a regular file."""
        return self._ahead is None or self._ahead.ready()

    @property
    def position(self) -> int:
        """The bytes of a regular file that were read so far; 0 for a pipe or a terminal."""
        if self.size is None:
            return 0
        return self.size if self._stream.closed else os.lseek(self._stream.fileno(), 0, os.SEEK_CUR)


def read_lines(
    path: Path | None,
    *,
    errors: Errors | None = None,
    through: Callable[[Iterator[Line]], Iterator[Line]] = lambda lines: lines,
) -> Lines:
    """Opens a file (``None``: standard input; gzip by the name ``.gz``) and returns its lines.

    From anything but a regular file a thread reads ahead, from now on: 1,024 lines or 1 MiB at most. A failure is
    raised after the lines before it have come.

    :param errors: what bytes that are not UTF-8 are; ``None``: ``strict``, and whoever reads has no `--errors`
    :param through: what becomes of the lines before they are read ahead
    :raises InputNotFoundError: the input cannot be opened or read.
    :raises DataError: the input is not UTF-8 (unless ``errors`` is ``replace``) or damaged gzip; while iterating.
    """
    return Lines(open_input(path), _name(path), errors=errors, through=through)


def open_input(path: Path | None) -> BinaryIO:
    """Opens a file (``None``: standard input) to read its bytes, decompressed if its name ends in ``.gz``."""
    name = _name(path)
    try:
        if path is None:
            if sys.stdin is None:
                raise InputNotFoundError(f"{STDIN}: is closed.")
            # Not `sys.stdin.buffer`: a thread that still reads from it when the program ends is a fatal error.
            return open(0, "rb", closefd=False)
        return cast(BinaryIO, gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")
    except FileNotFoundError as error:
        raise InputNotFoundError(f"{name}: no such file.") from error
    except IsADirectoryError as error:
        raise InputNotFoundError(f"{name}: is a directory, not a file.") from error
    except OSError as error:
        raise InputNotFoundError(f"{name}: cannot be opened ({error.strerror}).") from error


def lines_of(text: str) -> Iterator[Line]:
    """Yields the lines of a text, as if it came from a file, but for blank ones: those are part of an ending."""
    place = 1 if text.startswith("\ufeff") else 0
    number = 0
    while place < len(text):
        found = _ENDING.search(text, place)
        start, end = found.span() if found else (len(text), len(text))
        yield Line(number, text[place:start], text[start:end])
        number += text.count("\n", start, end)
        place = end


def _name(path: Path | None) -> str:
    return STDIN if path is None else str(path)


@contextmanager
def reading(stream: BinaryIO, name: str) -> Iterator[None]:
    """Closes an input in the end, and says what is wrong with it where reading fails."""
    try:
        with stream:
            yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{name}: is damaged or no gzip file ({error}).") from error
    except OSError as error:
        raise InputNotFoundError(f"{name}: cannot be read ({error.strerror}).") from error


def _lines(stream: BinaryIO, name: str, errors: Errors | None) -> Iterator[Line]:
    offset = 0
    with reading(stream, name):
        for index, raw in enumerate(stream):
            start = len(_BOM) if index == 0 and raw.startswith(_BOM) else 0
            body, ending = raw[start:], ""
            if raw.endswith(b"\n"):
                ending = "\r\n" if raw.endswith(b"\r\n") else "\n"
                body = body[: -len(ending)]
            elif not body:  # nothing but a BOM
                return
            try:
                text = body.decode("utf-8", errors or "strict")
            except UnicodeDecodeError as error:
                place = f"{name}: line {index + 1} is not valid UTF-8 at byte offset {offset + start + error.start}"
                advice = "convert it" if errors is None else "convert it, or use `--errors replace`"
                raise DataError(f"{place}; {advice}.") from error
            yield Line(index, text, ending)
            offset += len(raw)


@final
class _ReadAhead(Iterator[Line]):
    """Lines that a thread takes from an iterator before they are asked for."""

    def __init__(self, lines: Iterator[Line]) -> None:
        self._waiting: deque[Line] = deque()
        self._characters = 0
        self._end: Exception | None = None
        self._changed = threading.Condition()
        threading.Thread(target=self._read, args=(lines,), name="specmt-reader", daemon=True).start()

    def __next__(self) -> Line:
        with self._changed:
            self._changed.wait_for(self.ready)
            if not self._waiting:
                assert self._end is not None
                raise self._end
            line = self._waiting.popleft()
            self._characters -= len(line.text)
            self._changed.notify_all()
            return line

    def ready(self) -> bool:
        return bool(self._waiting) or self._end is not None

    def _read(self, lines: Iterator[Line]) -> None:
        end: Exception = StopIteration()
        try:
            for line in lines:
                with self._changed:
                    self._changed.wait_for(self._has_room)
                    self._waiting.append(line)
                    self._characters += len(line.text)
                    self._changed.notify_all()
        except Exception as error:
            end = error
        with self._changed:
            self._end = end
            self._changed.notify_all()

    def _has_room(self) -> bool:
        return len(self._waiting) < _MOST_LINES and self._characters < _MOST_CHARACTERS


@final
class Output:
    """A text file that appears under its name only when it is complete; used in a ``with`` statement.

    A path ending in ``.gz`` is compressed. An existing file keeps its mode, and a symbolic link stays one. Standard
    output (``None``), devices and pipes are written to directly, at once; standard output that goes to a file, by half
    seconds.

    :raises OutputError: opening or writing failed.
    :raises BrokenPipeError: nobody reads standard output any more.
    """

    def __init__(self, path: Path | None) -> None:
        self._name = STDOUT if path is None else str(path)
        self._path = path
        self._temporary: Temporary | None = None
        self._file: BinaryIO | None = None
        self._stream: BinaryIO | None = None
        self._buffer: bytearray | None = None
        self._flushed = 0.0

    def __enter__(self) -> Output:
        """
        :raises OutputError: the file cannot be written.
        """
        try:
            with self._failing():
                self._open()
        except BaseException:
            self._discard()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            with self._failing():
                self._flush()
                if kind is None:
                    self._close()
                    if self._temporary is not None:
                        self._temporary.keep()
        finally:
            self._discard()

    def write(self, text: str) -> None:
        """Writes text, of any number of lines."""
        self.write_bytes(text.encode("utf-8"))

    def write_bytes(self, data: bytes | bytearray) -> None:
        """Writes bytes, of a picture for instance."""
        with self._failing():
            if self._buffer is None:
                self._pass_on(data)
                return
            self._buffer += data  # of whole lines, as the buffer always is
            if len(self._buffer) >= _BUFFERED or time.monotonic() >= self._flushed + _FLUSH_AFTER:
                self._flush()

    def _flush(self) -> None:
        if self._buffer:
            data, self._buffer = self._buffer, bytearray()
            self._pass_on(data)
            self._flushed = time.monotonic()

    def _pass_on(self, data: bytes | bytearray) -> None:
        assert self._stream is not None, "`Output` is used outside of its `with` statement."
        rest = memoryview(data)
        while rest:  # an unbuffered stream may take a part only
            rest = rest[self._stream.write(rest) :]

    def _open(self) -> None:
        path = self._path
        if path is None:
            if sys.stdout is None:
                raise OutputError(f"{STDOUT}: is closed.")
            self._stream = self._file = open(sys.stdout.fileno(), "wb", buffering=0, closefd=False)  # noqa: SIM115
            if stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
                self._buffer = bytearray()
            return
        mode: int | None = None
        with suppress(FileNotFoundError):
            mode = os.stat(path).st_mode
        if mode is not None and stat.S_ISDIR(mode):
            raise OutputError(f"{path}: is a directory, not a file.")
        if mode is not None and (not stat.S_ISREG(mode) or str(path).startswith(_STREAMS)):
            self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND), "wb", buffering=0)
        else:
            if mode is not None and not os.access(path, os.W_OK):
                raise OutputError(f"{path}: cannot be written (Permission denied).")
            self._temporary = Temporary(Path(os.path.realpath(path)))
            self._file = self._temporary.path.open("wb")
            if mode is not None:
                os.fchmod(self._file.fileno(), stat.S_IMODE(mode))
        self._stream = self._file
        if path.suffix == ".gz":
            # No name and no time inside, so that equal text gives equal bytes.
            self._stream = cast(BinaryIO, gzip.GzipFile(filename="", mode="wb", fileobj=self._file, mtime=0))

    def _close(self) -> None:
        for each in (self._stream, self._file):
            if each is not None:
                each.close()

    def _discard(self) -> None:
        try:
            with suppress(OSError, ValueError):  # what is thrown away need not be flushed
                self._close()
        finally:
            if self._temporary is not None:
                self._temporary.discard()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(f"{self._name}: cannot be written ({error.strerror or error}).") from error
