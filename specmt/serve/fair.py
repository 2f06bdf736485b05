"""Whose turn it is: clients take turns, and so do the requests of a client; and no client has all there is."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Generic, TypeVar, final
from weakref import WeakValueDictionary

from specmt.serve.errors import RefusedError

T = TypeVar("T")


@final
class FairQueue(Generic[T]):
    """Hands out requests to take one piece of: a book delays a sentence by one piece, not by a book."""

    def __init__(self) -> None:
        self._clients: OrderedDict[str, deque[T]] = OrderedDict()  # the next one first

    def __bool__(self) -> bool:
        return bool(self._clients)

    def add(self, client: str, request: T) -> None:
        """Takes in a request that has pieces."""
        self._clients.setdefault(client, deque()).append(request)

    def turn(self) -> T:
        """Returns the request whose turn it is, which is behind the others from then on."""
        client, requests = next(iter(self._clients.items()))
        self._clients.move_to_end(client)
        requests.rotate(-1)
        return requests[-1]

    def remove(self, client: str, request: T) -> None:
        """Drops a request, if it is there."""
        requests = self._clients.get(client, deque())
        if request in requests:
            requests.remove(request)
            if not requests:
                del self._clients[client]


@final
class Slots:
    """So many pieces of work at a time, of which a client has so many at most, and waits for others with no more."""

    def __init__(self, most: int, of_client: int) -> None:
        self._all = asyncio.Semaphore(most)
        self._of_client = of_client
        self._own: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()  # of those who work or wait

    @asynccontextmanager
    async def of(self, client: str) -> AsyncIterator[None]:
        """Waits until a client may work, which it does in the block."""
        own = self._own.setdefault(client, asyncio.Semaphore(self._of_client))
        async with own, self._all:
            yield

    async def run(self, client: str, seconds: float, work: Callable[[], Awaitable[T]]) -> T:
        """Does work when a client may.

        :raises RefusedError: it, or the waiting for it, takes longer.
        """

        async def in_turn() -> T:
            async with self.of(client):
                return await work()

        return await within(seconds, in_turn())


async def within(seconds: float, work: Awaitable[T]) -> T:
    """
    :raises RefusedError: work takes longer.
    """
    try:
        return await asyncio.wait_for(work, seconds)
    except asyncio.TimeoutError:
        raise RefusedError(503, f"This took longer than {seconds:g} seconds") from None
