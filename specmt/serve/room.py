"""How much all requests take together: bytes of bodies, and the characters that wait for a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from specmt.serve.errors import RefusedError

MOST_BYTES: Final = 256 << 20
"""Of all bodies that are there at a time."""


@final
class Room:
    """What there is room for."""

    def __init__(self, most: int, waiting: Callable[[], int]) -> None:
        """
        :param most: how many characters may wait before requests are refused
        :param waiting: returns how many wait for engines
        """
        self._most = most
        self._waiting = waiting
        self.bytes = 0
        """Of the bodies of all requests that are not answered."""
        self.arriving = 0
        """Of those, the ones that are no documents and that no engine has got yet."""

    def check(self, own: int = 0) -> None:
        """
        :param own: what of it is for the one who asks
        :raises RefusedError: too many characters wait.
        """
        if self.bytes > MOST_BYTES or self.arriving - own + self._waiting() >= self._most:
            raise RefusedError(429, "Too many requests are waiting; try again later", retry_after=1)


@final
class Claim:
    """What one request takes of the room."""

    def __init__(self, room: Room, *, is_document: bool = False) -> None:
        """
        :param is_document: whether its text goes to engines little by little
        """
        self._room = room
        self._is_document = is_document
        self._bytes = self._arrived = 0
        self._is_let_in = False

    def add(self, size: int) -> None:
        """Takes so many bytes of a body that arrives.

        :raises RefusedError: too much is there already.
        """
        self._bytes += size
        self._room.bytes += size
        if not self._is_document:
            self._arrived += size
            self._room.arriving += size
        if size:
            self._room.check(self._arrived)

    def pass_on(self) -> None:
        """Leaves to an engine what has arrived.

        :raises RefusedError: too many characters wait; what was let in once is so to its end.
        """
        if not self._is_let_in:
            self._room.check(self._arrived)
            self._is_let_in = True
        self._room.arriving -= self._arrived
        self._arrived = 0

    def close(self) -> None:
        """Gives everything back."""
        self._room.arriving -= self._arrived
        self._room.bytes -= self._bytes
        self._arrived = self._bytes = 0
