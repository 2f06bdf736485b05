"""Ends the program at once, and silently, on SIGINT, SIGTERM, SIGHUP and SIGQUIT, without leaving temporary files.

The handler is in C (`_signals.c`). Where that was not compiled, one in Python does the same, later: it has to wait
until the main thread runs Python code. Signals are left alone before :func:`install`, which only the program calls.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType

try:
    from specmt import _signals as compiled
except ImportError:
    compiled = None  # type: ignore[assignment]

_folders: set[str] = set()
_installed = False


def install() -> None:
    """Sets the handlers; a signal that the process was started to ignore stays ignored.

    Where memory is limited (`ulimit -v`), a library that aborts for want of it ends the program in one line, too.
    """
    global _installed
    if not _installed:
        _installed = True
        if compiled is not None:
            compiled.install()
        else:
            import signal

            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    signal.signal(number, _leave)


def memory_is_full() -> bool:
    """Whether memory is limited, and too little is left for the program to go on; `_signals.c` alone knows."""
    return compiled is not None and compiled.is_full()


def register(folder: str) -> None:
    """Has a folder and the files in it removed when a signal ends the program.

    :param folder: an absolute path; it need not exist yet
    """
    if compiled is not None:
        compiled.register(folder)
    else:
        _folders.add(folder)


def unregister(folder: str) -> None:
    """Takes a folder back."""
    if compiled is not None:
        compiled.unregister(folder)
    else:
        _folders.discard(folder)


def set_reset(sequence: bytes) -> None:
    """Sets what is written to standard error when a signal ends the program: what puts a terminal in order.

    Without the compiled handler a terminal stays as it is.

    :param sequence: at most 64 bytes
    """
    if compiled is not None:
        compiled.set_reset(sequence)


@contextmanager
def graceful(numbers: Iterable[int], stop: Callable[[], object]) -> Iterator[None]:
    """In this block the first of these signals calls a function in the main thread, and the next ends the program.

    It belongs to the main thread. A signal that is ignored stays so.
    """
    import signal

    told = False

    def handle(number: int, _: FrameType | None) -> None:
        nonlocal told
        if told:
            os._exit(128 + number)
        told = True
        stop()

    before = {number: handler for number in numbers if (handler := signal.getsignal(number)) is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, handle)
        if compiled is not None and _installed:
            compiled.hand(number, True)  # so that the next one need not wait for Python
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
            if compiled is not None and _installed:
                compiled.hand(number, False)


class interruptible:  # noqa: N801  (a context manager, named like those of contextlib)
    """In this block SIGINT raises ``KeyboardInterrupt``, once; a second one before that happens ends the program.

    For commands that keep what they have found out when they are interrupted. It does nothing where :func:`install` was
    not called or SIGINT is ignored, and belongs to the main thread.
    """

    def __enter__(self) -> None:
        import signal

        self._number = signal.SIGINT
        self._active = _installed and signal.getsignal(self._number) is not signal.SIG_IGN
        if self._active:
            signal.signal(self._number, _interrupt)
            if compiled is not None:
                compiled.hand(self._number, True)

    def __exit__(self, *_: object) -> None:
        if not self._active:
            return
        if compiled is not None:
            compiled.hand(self._number, False)
        else:
            import signal

            signal.signal(self._number, _leave)


def _interrupt(number: int, _: FrameType | None) -> None:
    if compiled is not None:
        compiled.hand(number, True)
    raise KeyboardInterrupt


def _leave(number: int, _: FrameType | None) -> None:
    for folder in _folders:
        remove_folder(folder)
    os._exit(128 + number)


def remove_folder(folder: str) -> None:
    """Removes a folder and the files in it, as far as that is possible."""
    try:
        for entry in os.scandir(folder):
            os.unlink(entry.path)
        os.rmdir(folder)
    except OSError:
        pass
