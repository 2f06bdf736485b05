"""Documents in processes of their own: whatever becomes of one, the server answers and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import resource
import signal
import weakref
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import forkserver
from typing import Any, cast

import pytest

from specmt import formats
from specmt.options import DecodingOptions
from specmt.serve import worker
from specmt.serve.errors import RefusedError
from specmt.serve.markup import Ask, Work


class Asking:
    def run(self, ask: Ask) -> list[bytes]:
        return [ask("twice", b"a"), ask("twice", b"b"), str(os.getpid()).encode()]


class Limited(Asking):
    """Comes to a process that may take less already, as that of a server that is limited itself."""

    def __getstate__(self) -> int:
        return (1 << 29) - 4096

    def __setstate__(self, most: int) -> None:
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


class Large:
    """Makes what a large document is made of; returns how often garbage was looked for in it."""

    def run(self, ask: Ask) -> list[bytes]:
        kept: list[list[int]] = []
        before = [each["collections"] for each in gc.get_stats()]
        kept += ([] for _ in range(50_000))
        return [str(sum(each["collections"] for each in gc.get_stats()) - sum(before)).encode()]


class Hanging:
    def run(self, ask: Ask) -> list[bytes]:
        signal.raise_signal(signal.SIGTERM)  # as whoever stops the server sends to all of its processes
        while True:
            pass


class Greedy:
    def run(self, ask: Ask) -> list[bytes]:
        return [bytes(1 << 29)]


class Dying:
    def __init__(self, number: signal.Signals) -> None:
        self.number = number

    def run(self, ask: Ask) -> list[bytes]:
        os.kill(os.getpid(), self.number)
        return []


class Failing:
    def run(self, ask: Ask) -> list[bytes]:
        return [b"a" * (1 // 0)]


def run(work: object, seconds: float = 60.0, *, gone: Callable[[], Any] | None = None) -> list[bytes]:
    async def answer(kind: str, said: bytes) -> bytes:
        if said == b"refused":
            raise RefusedError(429, "Too many")
        return {"twice": 2}[kind] * said

    async def start() -> list[bytes]:
        return await worker.run(cast(Work, work), answer, gone or asyncio.Event().wait, seconds, 1 << 29)

    worker.warm()
    try:
        return asyncio.run(start())
    finally:
        assert multiprocessing.active_children() == []


def refused(work: object, seconds: float = 60.0, **more: Any) -> int:
    with pytest.raises(RefusedError) as error:
        run(work, seconds, **more)
    return error.value.status


def test_work_is_done_elsewhere_and_gets_answers() -> None:
    twice, again, process = run(Asking())
    assert (twice, again) == (b"aa", b"bb") and int(process) != os.getpid()


def test_no_garbage_is_looked_for_in_what_a_document_is_made_of() -> None:
    assert run(Large()) == [b"0"]


def test_a_server_that_is_limited_itself_does_work() -> None:
    assert run(Limited())[0] == b"aa"


def test_work_that_takes_too_long_or_too_much_or_dies_is_refused() -> None:
    assert refused(Hanging(), 0.5) == 503
    assert refused(Hanging(), gone=lambda: asyncio.sleep(0.2)) == 499
    assert refused(Greedy()) == 413
    assert refused(Dying(signal.SIGABRT)) == 413
    assert refused(Dying(signal.SIGKILL)) == 503  # by whom is not known, and not its document's fault
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run(Failing())


def test_what_processes_are_forked_from_comes_back() -> None:
    run(Asking())
    server = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    os.kill(server, signal.SIGKILL)
    assert run(Asking())[0] == b"aa"
    assert forkserver._forkserver._forkserver_pid != server  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("make", "seconds", "gone"),
    [
        (Hanging, 0.5, asyncio.Event().wait),
        (Hanging, 60.0, lambda: asyncio.sleep(0.2)),
        (lambda: Dying(signal.SIGKILL), 60.0, asyncio.Event().wait),
        (lambda: Dying(signal.SIGABRT), 60.0, asyncio.Event().wait),
    ],
)
def test_nothing_of_a_document_that_was_refused_waits_for_a_collection(
    make: Callable[[], Any], seconds: float, gone: Callable[[], Any]
) -> None:
    async def is_dropped() -> bool:
        kept = weakref.ref(work := make())
        with suppress(RefusedError):
            await worker.run(work, never, gone, seconds)
        del work
        for _ in range(500):  # the thread that waited for it may have it a moment longer
            if kept() is None:
                return True
            await asyncio.sleep(0.01)
        return False

    never = cast(worker.Answer, None)
    worker.warm()
    gc.disable()
    try:
        assert asyncio.run(is_dropped())
    finally:
        gc.enable()


def test_a_document_whose_language_is_found_out_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read, sizes = formats.read_document, []

    def ask(kind: str, *question: Any) -> Any:
        if kind == "pairs":
            return [("de", "en")] * len(question[0])
        return [(line.text.upper(), None, [], 0, []) for line in question[1]]

    monkeypatch.setattr(formats, "read_document", lambda data, *given: sizes.append(len(data)) or read(data, *given))
    written = Work([b"<p>a", b"<p>bc"], "html", None, "en", DecodingOptions()).run(ask)
    assert (written, sizes) == ([b"<p>A", b"<p>BC"], [4, 5])


@pytest.mark.parametrize(
    ("file_format", "data"), [("html", b"<p>a" * 1000), ("po", b"\xff"), ("csv", b"a,b"), ("docx", b"")]
)
def test_damage_is_told_as_in_a_thread(file_format: str, data: bytes) -> None:
    async def answer(kind: str, *question: Any) -> Any:
        if kind == "pairs":
            return [("de", "en")]
        return [(line.text.upper(), None, [], 0, []) for line in question[1]]

    work = Work([data], file_format, "de", "en", DecodingOptions())
    try:
        written = asyncio.run(worker.run(work, answer, asyncio.Event().wait, 60.0))
        assert written == [b"<p>A" * 1000]
    except RefusedError as error:
        assert error.status == 400 and error.message.startswith("Invalid request: ") and file_format != "html"
