"""Who asks: keys, how much they may ask for, and how often."""

from __future__ import annotations

import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

from specmt.errors import DataError
from specmt.serve.errors import RefusedError
from specmt.text.lines import read_lines

MOST_CLIENTS: Final = 10_000
"""How many clients are remembered at most, for their rate."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a server lets pass."""

    characters: int | None = 100_000
    """Of the texts of a request."""

    texts: int | None = 1000
    """In a request."""

    requests: int | None = None
    """A minute, of a client."""

    queue: int = 4_000_000
    """Characters that wait for models, those included that are arriving."""

    seconds: float = 300.0
    """Until a request is given up."""

    cache: int = 64 << 20
    """Bytes of answers that are kept."""

    upload: int = 16 << 20
    """Bytes of a document."""


@dataclass
class Account:
    """What belongs to a key, or to all who need none."""

    name: str
    """What logs call it by: the key itself stays out of them."""

    limit: int | None = None
    """The most characters that it may send; ``None`` for any number."""

    used: int = 0
    """The characters that it has sent since the server started."""

    @contextmanager
    def charged(self, characters: int) -> Iterator[None]:
        """Counts characters, which are given back where they are not answered: where the block fails.

        :raises RefusedError: it has not so many left.
        """
        if self.limit is not None and self.used + characters > self.limit:
            raise RefusedError(456, "Quota exceeded: the character limit of this key is reached.")
        self.used += characters
        try:
            yield
        except BaseException:
            self.used -= characters
            raise


def _digest(key: str) -> str:
    # Looked up by digest, so that the time that it takes says nothing about the keys.
    return hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()


@final
class Keys:
    """Accounts by key."""

    def __init__(self, accounts: dict[str, int | None]) -> None:
        """
        :param accounts: the most characters that each key may send
        """
        self._accounts = {_digest(key): Account(_digest(key)[:8], limit) for key, limit in accounts.items()}

    @classmethod
    def read(cls, path: Path) -> Keys:
        """Reads a file with a key a line and, after a space, the most characters that it may send.

        :raises DataError: a line is something else.
        :raises InputNotFoundError: the file cannot be read.
        """
        accounts: dict[str, int | None] = {}
        for line in read_lines(path):
            words = line.text.split()
            if not words or words[0].startswith("#"):
                continue
            if len(words) > 2 or not all(word.isascii() and word.isdecimal() for word in words[1:]):
                raise DataError(f"{path}:{line.index + 1}: must be a key and perhaps a number of characters.")
            accounts[words[0]] = int(words[1]) if len(words) > 1 else None
        if not accounts:
            raise DataError(f"{path}: there is no key in it.")
        return cls(accounts)

    def find(self, key: str) -> Account | None:
        """Returns the account of a key, if there is one."""
        return self._accounts.get(_digest(key))


@final
class Rate:
    """How often clients may ask: so many requests a minute, all of them at once if they like."""

    def __init__(self, limit: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        """
        :param limit: requests a minute; ``None`` for any number
        """
        self._limit = limit
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # requests, and when that was

    def take(self, client: str) -> None:
        """Counts a request.

        :raises RefusedError: there were too many.
        """
        if self._limit is None:
            return
        now, a_second = self._clock(), self._limit / 60.0
        left, then = self._left.pop(client, (float(self._limit), now))
        left = min(left + (now - then) * a_second, float(self._limit))
        self._left[client] = (left - 1.0 if left >= 1.0 else left), now
        while len(self._left) > MOST_CLIENTS:
            self._left.popitem(last=False)
        if left < 1.0:
            wait = math.ceil((1.0 - left) / a_second)
            raise RefusedError(429, f"Slowdown: Too many requests per minute ({self._limit})", retry_after=wait)
