"""What was made before and may be needed again, within a bound."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from sys import getsizeof
from typing import Final, Generic, TypeVar, final

_ENTRY: Final = 300
"""About how many bytes an entry takes beside its texts."""

V = TypeVar("V")


@final
class Cache(Generic[V]):
    """Values by key, the least recently used dropped first."""

    def __init__(self, size: int) -> None:
        """
        :param size: the most bytes to hold; 0 holds nothing
        """
        self._most = size
        self._size = 0
        self._entries: OrderedDict[Hashable, tuple[V, int]] = OrderedDict()

    def get(self, key: Hashable) -> V | None:
        """Returns what was put."""
        found = self._entries.get(key)
        if found is None:
            return None
        self._entries.move_to_end(key)
        return found[0]

    def put(self, key: Hashable, value: V, size: int) -> None:
        """Holds a value for as long as there is room."""
        if size > self._most or key in self._entries:
            return
        self._entries[key] = value, size
        self._size += size
        while self._size > self._most:
            _, (_, freed) = self._entries.popitem(last=False)
            self._size -= freed


def size_of(*texts: str) -> int:
    """Returns about how many bytes an entry of texts takes."""
    return sum(map(getsizeof, texts)) + _ENTRY
