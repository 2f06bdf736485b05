"""Sentences that wait for a row: the longest first, some batches at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, final

from specmt.decoding.request import Request

SORTED: Final = 4
"""How many batches of waiting sentences are sorted by length at a time."""


@final
class Queue:
    """Hands out requests sorted by length: sentences of like length end at about the same time.

    Only so many of those that came first are sorted at a time: no sentence waits for ever for longer ones.
    """

    def __init__(self) -> None:
        self._waiting: deque[Request] = deque()  # in the order in which they came
        self._sorted: deque[Request] = deque()  # the first of those that came, the longest first

    def __len__(self) -> int:
        """How many requests wait."""
        return len(self._sorted) + len(self._waiting)

    def __iter__(self) -> Iterator[Request]:
        """Yields them, the next one first as far as that is known."""
        yield from self._sorted
        yield from self._waiting

    def add(self, request: Request) -> None:
        """Takes in a request."""
        self._waiting.append(request)

    def cancel(self, key: int) -> bool:
        """Drops a request; returns whether it was there."""
        for queue in (self._sorted, self._waiting):
            found = next((request for request in queue if request.key == key), None)
            if found is not None:
                queue.remove(found)
                return True
        return False

    def ahead(self, batch: int) -> Iterator[Request]:
        """Yields requests in the order in which they are to be decoded; they stay.

        :param batch: the most sentences side by side
        """
        number = 0
        while len(self) > number:
            if number == len(self._sorted):
                oldest = [self._waiting.popleft() for _ in range(min(len(self._waiting), SORTED * batch))]
                self._sorted.extend(sorted(oldest, key=lambda request: -len(request.source)))
            yield self._sorted[number]
            number += 1

    def admissible(self, lengths: Sequence[int], extra: int, capacity: int, most: int) -> list[Request]:
        """Returns the requests that can join others; they stay.

        :param lengths: the source lengths of those others
        :param extra: what every source has beside its ids
        :param capacity: the most sentences side by side
        :param most: the most padded source ids side by side; one sentence is always let in
        """
        widest = max(lengths, default=0)
        new: list[Request] = []
        for request in self.ahead(capacity):
            widest = max(widest, len(request.source))
            count = len(lengths) + len(new) + 1
            if count > capacity or (count > 1 and count * (widest + extra) > most):
                break
            new.append(request)
        return new

    def take(self, count: int) -> None:
        """Removes the first ones that `ahead` yields."""
        for _ in range(count):
            self._sorted.popleft()
