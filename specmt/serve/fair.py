"""Whose turn it is: clients take turns, and so do the requests of a client."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, Protocol, TypeVar, final


class Source(Protocol):
    """A request that is worked off piece by piece."""

    @property
    def client(self) -> str:
        """Whose it is."""

    @property
    def has_more(self) -> bool:
        """Whether there are pieces left."""


S = TypeVar("S", bound=Source)


@final
class FairQueue(Generic[S]):
    """Hands out requests to take one piece of: a book delays a sentence by one piece, not by a book."""

    def __init__(self) -> None:
        self._clients: OrderedDict[str, deque[S]] = OrderedDict()  # the next one first

    def __bool__(self) -> bool:
        return bool(self._clients)

    def add(self, source: S) -> None:
        """Takes in a request that has pieces."""
        self._clients.setdefault(source.client, deque()).append(source)

    def turn(self) -> S:
        """Returns the request whose turn it is; one piece is to be taken of it, and then :meth:`settle` called."""
        return next(iter(self._clients.values()))[0]

    def settle(self) -> None:
        """Puts the request whose turn it was behind the others, or drops it if it has no more."""
        client, sources = next(iter(self._clients.items()))
        if not sources[0].has_more:
            sources.popleft()
        sources.rotate(-1)
        if sources:
            self._clients.move_to_end(client)
        else:
            del self._clients[client]

    def remove(self, source: S) -> None:
        """Drops a request, if it is there."""
        sources = self._clients.get(source.client, deque())
        if source in sources:
            sources.remove(source)
            if not sources:
                del self._clients[source.client]
