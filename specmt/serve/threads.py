"""Threads beside the event loop, which waits for none of them."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, final

from typing_extensions import ParamSpec, override

_P = ParamSpec("_P")
_T = TypeVar("_T")

Item = tuple[Future[Any], Callable[[], Any]]


@final
class Threads(ThreadPoolExecutor):
    """Does work in threads, each of which is started when no other is free.

    `Thread.start` waits until the thread has begun, and for ever where no memory is left for that (CPython's issue
    140746): the loop would stand still. Here nobody waits, and what such a thread was for is done by the next one.
    """

    def __init__(self, most: int) -> None:
        """
        :param most: threads
        """
        super().__init__(most)  # which starts none; a loop takes no executor of another kind
        self._most = most
        self._more = threading.Semaphore(most)  # that can be started
        self._free = threading.Semaphore(0)  # that wait for work
        self._todo: SimpleQueue[Item | None] = SimpleQueue()

    @override
    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        future: Future[_T] = Future()
        self._todo.put((future, partial(fn, *args, **kwargs)))
        if not self._free.acquire(blocking=False) and self._more.acquire(blocking=False):
            try:
                _thread.start_new_thread(self._run, ())
            except RuntimeError:  # the system has no more: the work waits for one that there is
                self._more.release()
        return future

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends threads as they come to be free; waits for none."""
        for _ in range(self._most):
            self._todo.put(None)

    def _run(self) -> None:
        try:
            while (item := self._next()) is not None:
                _do(*item)
                del item  # or what was done is held until there is more to do
        finally:
            self._more.release()

    def _next(self) -> Item | None:
        try:
            return self._todo.get_nowait()
        except Empty:
            self._free.release()
            return self._todo.get()


def _do(future: Future[Any], work: Callable[[], Any]) -> None:
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)
            del future, work  # which the error holds through this frame
