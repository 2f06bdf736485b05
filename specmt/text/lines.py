"""Bytes to lines and back: n lines in, n lines out, and nothing half-written left behind."""

from __future__ import annotations

import gzip
import os
import queue
import secrets
import stat
import sys
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Final, Literal, cast, final

from specmt.errors import DataError, InputNotFoundError, OutputError, SpecmtError
from specmt.types import Line

Errors = Literal["strict", "replace"]

STDIN: Final = "standard input"
STDOUT: Final = "standard output"

_STREAMS: Final = ("/dev/std", "/dev/fd/", "/proc/")
"""Where an existing name stands for an open stream, which a rename would cut off."""

_BOM: Final = b"\xef\xbb\xbf"


@final
class Windows(Iterator[list[Line]]):
    """The lines of one input, window by window, and how far the reading has come."""

    def __init__(self, stream: BinaryIO, name: str, *, window: int, errors: Errors) -> None:
        status = os.fstat(stream.fileno())
        regular = stat.S_ISREG(status.st_mode)
        lines = _lines(stream, name, errors)
        self._stream = stream
        self._windows = _full_windows(lines, window) if regular else _waiting_windows(lines, window)
        self.name: Final = name
        """How messages name the input."""
        self.size: Final = status.st_size if regular else None
        """The bytes of a regular file (compressed, if it is), ``None`` for a pipe."""

    def __next__(self) -> list[Line]:
        return next(self._windows)

    @property
    def position(self) -> int:
        """The bytes of a regular file that were read so far; 0 for a pipe."""
        if self.size is None:
            return 0
        return self.size if self._stream.closed else os.lseek(self._stream.fileno(), 0, os.SEEK_CUR)


def read_windows(path: Path | None, *, window: int, errors: Errors = "strict") -> Windows:
    """Opens a file (``None``: standard input; gzip by the name ``.gz``) and returns its lines, window by window.

    A regular file comes in full windows. From anything else a thread reads ahead by one window at most, and each window
    is what is waiting: a line alone comes at once. A failure is raised after the lines before it have come.

    :raises InputNotFoundError: the input cannot be opened or read.
    :raises DataError: the input is not UTF-8 (unless ``errors`` is ``replace``) or damaged gzip; while iterating.
    """
    return Windows(open_input(path), _name(path), window=window, errors=errors)


def open_input(path: Path | None) -> BinaryIO:
    """Opens a file (``None``: standard input) to read its bytes, decompressed if its name ends in ``.gz``.

    :raises InputNotFoundError: it cannot be opened.
    """
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


def _name(path: Path | None) -> str:
    return STDIN if path is None else str(path)


@contextmanager
def reading(stream: BinaryIO, name: str) -> Iterator[None]:
    """Closes an input in the end, and says what is wrong with it where reading fails.

    :raises DataError: it is damaged gzip.
    :raises InputNotFoundError: it cannot be read.
    """
    try:
        with stream:
            yield
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{name}: is damaged or no gzip file ({error}).") from error
    except OSError as error:
        raise InputNotFoundError(f"{name}: cannot be read ({error.strerror}).") from error


def _lines(stream: BinaryIO, name: str, errors: Errors) -> Iterator[Line]:
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
                text = body.decode("utf-8", errors)
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{name}: line {index + 1} is not valid UTF-8 at byte offset {offset + start + error.start}; "
                    "convert it, or use `--errors replace`."
                ) from error
            yield Line(index, text, ending)
            offset += len(raw)


def _full_windows(lines: Iterator[Line], window: int) -> Iterator[list[Line]]:
    chunk: list[Line] = []
    try:
        for line in lines:
            chunk.append(line)
            if len(chunk) == window:
                yield chunk
                chunk = []
    except SpecmtError:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


def _waiting_windows(lines: Iterator[Line], window: int) -> Iterator[list[Line]]:
    # Filled from now on, so that lines that come while a model loads are waiting when the first window is asked for.
    waiting: queue.Queue[Line | Exception | None] = queue.Queue(maxsize=window)

    def read() -> None:
        try:
            for line in lines:
                waiting.put(line)
        except Exception as error:
            waiting.put(error)
        else:
            waiting.put(None)

    threading.Thread(target=read, name="specmt-reader", daemon=True).start()
    return _drain(waiting, window)


def _drain(waiting: queue.Queue[Line | Exception | None], window: int) -> Iterator[list[Line]]:
    while True:
        item = waiting.get()
        chunk: list[Line] = []
        while isinstance(item, Line):
            chunk.append(item)
            if len(chunk) == window or waiting.empty():
                break
            item = waiting.get()
        if chunk:
            yield chunk
        if item is None:
            return
        if isinstance(item, Exception):
            raise item


@final
class Output:
    """A text file that appears under its name only when it is complete; used in a ``with`` statement.

    A path ending in ``.gz`` is compressed. An existing file keeps its mode, and a symbolic link stays one. Standard
    output (``None``), devices and pipes are written to directly, at once.
    """

    def __init__(self, path: Path | None) -> None:
        self._name = STDOUT if path is None else str(path)
        self._path = path
        self._target = ""
        self._temporary: str | None = None
        self._file: BinaryIO | None = None
        self._stream: BinaryIO | None = None

    def __enter__(self) -> Output:
        """
        :raises OutputError: the file cannot be written.
        """
        try:
            self._open()
        except OSError as error:
            self._discard()
            raise self._failure(error) from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            if kind is None:
                self._close()
                if self._temporary is not None:
                    os.replace(self._temporary, self._target)
                    self._temporary = None
        except BrokenPipeError:
            raise
        except OSError as failure:
            raise self._failure(failure) from failure
        finally:
            self._discard()

    def write(self, text: str) -> None:
        """Writes text, of any number of lines.

        :raises OutputError: writing failed.
        :raises BrokenPipeError: nobody reads standard output any more.
        """
        self.write_bytes(text.encode("utf-8"))

    def write_bytes(self, data: bytes) -> None:
        """Writes bytes, of a picture for instance.

        :raises OutputError: writing failed.
        :raises BrokenPipeError: nobody reads standard output any more.
        """
        assert self._stream is not None, "`Output` is used outside of its `with` statement."
        rest = memoryview(data)
        try:
            while rest:  # an unbuffered stream may take a part only
                rest = rest[self._stream.write(rest) :]
        except BrokenPipeError:
            raise
        except OSError as error:
            raise self._failure(error) from error

    def _open(self) -> None:
        path = self._path
        if path is None:
            if sys.stdout is None:
                raise OutputError(f"{STDOUT}: is closed.")
            self._stream = self._file = open(sys.stdout.fileno(), "wb", buffering=0, closefd=False)  # noqa: SIM115
            return
        try:
            mode: int | None = os.stat(path).st_mode
        except FileNotFoundError:
            mode = None
        if mode is not None and stat.S_ISDIR(mode):
            raise OutputError(f"{path}: is a directory, not a file.")
        if mode is not None and (not stat.S_ISREG(mode) or str(path).startswith(_STREAMS)):
            self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND), "wb", buffering=0)
        else:
            if mode is not None and not os.access(path, os.W_OK):
                raise OutputError(f"{path}: cannot be written (Permission denied).")
            self._target = os.path.realpath(path)
            name = os.path.join(os.path.dirname(self._target), f".specmt-{secrets.token_hex(6)}.tmp")
            descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            self._temporary = name
            self._file = os.fdopen(descriptor, "wb")
            if mode is not None:
                os.fchmod(descriptor, stat.S_IMODE(mode))
        # No name and no time inside, so that equal text gives equal bytes.
        compressed = path.suffix == ".gz"
        self._stream = (
            cast(BinaryIO, gzip.GzipFile(filename="", mode="wb", fileobj=self._file, mtime=0))
            if compressed
            else self._file
        )

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        if self._file is not None:
            self._file.close()

    def _discard(self) -> None:
        try:
            self._close()
        except (OSError, ValueError):  # what is thrown away need not be flushed
            pass
        finally:
            if self._temporary is not None:
                Path(self._temporary).unlink(missing_ok=True)
                self._temporary = None

    def _failure(self, error: OSError) -> OutputError:
        return OutputError(f"{self._name}: cannot be written ({error.strerror or error}).")
