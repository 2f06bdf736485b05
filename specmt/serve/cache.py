"""Answers that were given before: the same text has the same translation, so that one never grows stale."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from sys import getsizeof
from typing import Final, final

_ENTRY: Final = 300
"""About how many bytes an entry takes beside its texts."""


@final
class Cache:
    """Texts by key, the least recently used dropped first."""

    def __init__(self, size: int) -> None:
        """
        :param size: the most bytes to hold; 0 holds nothing
        """
        self._most = size
        self._size = 0
        self._texts: OrderedDict[tuple[Hashable, str], str] = OrderedDict()

    def get(self, kind: Hashable, text: str) -> str | None:
        """Returns what was put."""
        found = self._texts.get((kind, text))
        if found is not None:
            self._texts.move_to_end((kind, text))
        return found

    def put(self, kind: Hashable, text: str, answer: str) -> None:
        """Holds an answer for as long as there is room."""
        size = self._bytes(text, answer)
        if size > self._most or (kind, text) in self._texts:
            return
        self._texts[kind, text] = answer
        self._size += size
        while self._size > self._most:
            (_, old), answer = self._texts.popitem(last=False)
            self._size -= self._bytes(old, answer)

    @staticmethod
    def _bytes(text: str, answer: str) -> int:
        return getsizeof(text) + getsizeof(answer) + _ENTRY
