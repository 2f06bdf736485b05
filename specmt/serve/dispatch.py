"""Work for engines, for as long as somebody waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from specmt.serve.engine import Engine, Job, StoppedError
from specmt.serve.errors import RefusedError

Gone = Callable[[], Awaitable[object]]
"""Returns when the client has gone away."""


async def run_jobs(work: Sequence[tuple[Engine, Job]], gone: Gone, seconds: float) -> None:
    """Waits until jobs are done; drops them if nobody waits any more.

    :param seconds: after which they are given up
    :raises RefusedError: they were dropped, or not taken in, or one of them failed.
    """
    if not work:
        return
    loop = asyncio.get_running_loop()
    end: asyncio.Future[tuple[int, str] | None] = loop.create_future()
    left = len(work)

    def settle(*reason: Any) -> None:
        if not end.done():
            end.set_result(reason or None)

    def count() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            settle()

    def done(_: Job) -> None:
        loop.call_soon_threadsafe(count)

    by_engine: dict[Engine, list[Job]] = {}
    for engine, job in work:
        job.done = done
        by_engine.setdefault(engine, []).append(job)
    taken: list[Engine] = []
    timer = loop.call_later(seconds, settle, 503, f"This took longer than {seconds:g} seconds")
    watch = asyncio.ensure_future(gone())
    watch.add_done_callback(lambda _: settle(499, "The client has gone away"))
    try:
        for engine, jobs in by_engine.items():
            engine.submit(jobs)
            taken.append(engine)
        if (reason := await end) is not None:
            raise RefusedError(*reason)
    except StoppedError:
        raise RefusedError(503, "The server is stopping", retry_after=5) from None
    finally:
        timer.cancel()
        watch.cancel()
        if left:
            for engine in taken:
                engine.cancel(by_engine[engine])
    for _, job in work:
        if job.error is not None:
            raise RefusedError(500, f"Cannot translate text: {type(job.error).__name__}")
