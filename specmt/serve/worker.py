"""Documents in a process of their own: it has no model and little memory, dies in time, and asks for what it needs."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import pkgutil
import resource
import signal
import time
from collections.abc import Awaitable, Callable
from multiprocessing import forkserver
from typing import TYPE_CHECKING, Any, Final

from specmt import formats
from specmt.errors import SpecmtError
from specmt.serve.errors import RefusedError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerProcess

    from specmt.serve.dispatch import Gone
    from specmt.serve.markup import Work

MEMORY: Final = 1 << 30
"""The most bytes of a process, by default."""

_CONTEXT: Final = multiprocessing.get_context("forkserver")

Answer = Callable[..., Awaitable[Any]]
"""Answers what a process asks for, by its kind."""


def warm() -> None:
    """Starts what processes are forked from, with all formats loaded."""
    modules = [f"{formats.__name__}.{each.name}" for each in pkgutil.iter_modules(formats.__path__)]
    _CONTEXT.set_forkserver_preload(["specmt.serve.markup", *modules])
    forkserver.ensure_running()


async def run(work: Work, answer: Answer, gone: Gone, seconds: float, memory: int = MEMORY) -> list[bytes]:
    """Does work in a process of its own.

    :param seconds: after which it is given up
    :param memory: the most bytes that it may take
    :raises RefusedError: it took too long or too much memory, a document is damaged, nobody waits any more, or it was
        killed.
    """
    ours, its = _CONTEXT.Pipe()
    process = await asyncio.to_thread(_started, its, work, seconds, memory)
    why: list[tuple[int, str]] = []  # no errors, which would hold what holds them: this call, and the document

    def end(*reason: Any) -> None:
        why.append(reason)
        process.kill()

    its.close()
    timer = asyncio.get_running_loop().call_later(seconds, end, 503, f"This took longer than {seconds:g} seconds")
    watch = asyncio.ensure_future(gone())
    watch.add_done_callback(lambda _: end(499, "The client has gone away"))
    try:
        while True:
            kind, *said = await asyncio.to_thread(ours.recv)
            if kind == "written":
                found: list[bytes] = said[0]
                return found
            if kind == "refused":
                raise RefusedError(*said)
            if kind == "failed":
                raise RuntimeError(*said)
            await asyncio.to_thread(ours.send, await answer(kind, *said))
    except (EOFError, ConnectionError):
        await asyncio.to_thread(process.join)
        is_full = process.exitcode == -signal.SIGABRT  # libraries abort where memory ends
        why.append(_too_large(memory) if is_full else (503, "What read the document was killed"))
        raise RefusedError(*why[0]) from None
    finally:
        timer.cancel()
        watch.cancel()
        process.kill()
        await asyncio.to_thread(process.join)
        ours.close()


def _started(*arguments: Any) -> ForkServerProcess:
    """Returns a new process."""
    process = _CONTEXT.Process(target=_work, args=arguments, daemon=True)
    try:
        process.start()
    except (EOFError, OSError):  # what it is forked from died a moment ago
        time.sleep(0.1)
        process = _CONTEXT.Process(target=_work, args=arguments, daemon=True)
        process.start()
    return process


def _too_large(memory: int) -> tuple[int, str]:
    return 413, f"Invalid request: the document takes more than {memory >> 20} MiB of memory"


def _work(connection: Connection, work: Work, seconds: float, memory: int) -> None:
    """Does work, in the process."""
    gc.set_threshold(100_000)  # as in specmt/__main__.py: what a document is made of stays to the end
    for number in (signal.SIGINT, signal.SIGTERM):  # which let what was begun finish
        signal.signal(number, signal.SIG_IGN)
    for kind, most in ((resource.RLIMIT_AS, memory), (resource.RLIMIT_CPU, int(seconds) + 1)):
        held = resource.getrlimit(kind)[0]  # the server may be limited itself, and no process may take more
        most = most if held == resource.RLIM_INFINITY else min(most, held)
        resource.setrlimit(kind, (most, most))

    def ask(*question: Any) -> Any:
        connection.send(question)
        return connection.recv()

    try:
        connection.send(("written", work.run(ask)))
    except MemoryError:
        connection.send(("refused", *_too_large(memory)))
    except SpecmtError as error:
        connection.send(("refused", 400, f"Invalid request: {error}"))
    except EOFError:  # nobody waits any more
        pass
    except Exception as error:
        connection.send(("failed", type(error).__name__))
