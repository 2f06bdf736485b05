"""The key-value cache: rows of their own length, and a rollback that is only a smaller length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, final

import numpy as np

from specmt.engine.arrays import Ids

GRANULE: Final = 16
"""Caches grow by this many positions; with any smaller unit the sums of attention come out in another order for other
lengths (DESIGN §2.5).
"""

START: Final = 64
"""Positions that a cache has room for at first: growing it costs more than most sentences need."""

Zeros: TypeAlias = Callable[[tuple[int, ...]], Any]
"""Makes what caches are kept in, of a shape: an array, or a tensor on a device."""


def round_up(length: int, unit: int = GRANULE) -> int:
    """Returns the smallest multiple of a unit that is not under a length."""
    return -(-length // unit) * unit


@final
class Cache:
    """Keys and values of B rows, or other vectors, each row with a length of its own, over a target or over a source.

    Say row 0 has committed 5 tokens and row 1 has 9, and a window of 3 is scored: row 0's keys land on positions
    5, 6, 7 and row 1's on 9, 10, 11. If row 0 keeps one of its three and row 1 keeps all, the lengths become 6 and
    12; positions 6 and 7 of row 0 are overwritten by the next window. Nobody clears them: a query sees only keys up
    to its own position.
    """

    def __init__(self, layers: int, rows: int, heads: int, head_dim: int, zeros: Zeros, *, planes: int = 2) -> None:
        """
        :param planes: how many vectors P there are of a position: its key and its value, or a cell alone
        """
        self._zeros = zeros
        self.data = zeros((layers, planes, rows, heads, START, head_dim))  # (L, P, B, H, T, D_h)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.data.shape[2])

    @property
    def capacity(self) -> int:
        """The positions that a row has room for."""
        return int(self.data.shape[4])

    def reserve(self, length: int) -> None:
        """Makes room for positions under a length; what is there stays."""
        if length > self.capacity:
            self._widen(4, round_up(max(length, 2 * self.capacity)))

    def grow(self, rows: int) -> None:
        """Makes room for so many rows; what is there stays."""
        self._widen(2, rows)

    def move(self, source: int, target: int, length: int) -> None:
        """Copies one row, of which so many positions count, over another."""
        self.data[:, :, target, :, :length] = self.data[:, :, source, :, :length]

    def compact(self, starts: Ids, places: Ids) -> None:
        """Moves the accepted branch of each draft tree to where a chain would have been.

        :param starts: (B') the positions of the roots
        :param places: (B', A) where the nodes of the branch lie, counted from there
        """
        chain = np.arange(1, places.shape[1] + 1)
        moved = np.flatnonzero((places != chain).any(1))
        if len(moved) == 0:
            return
        row, begin = moved[:, None], starts[moved, None]
        self.data[:, :, row, :, begin + chain] = self.data[:, :, row, :, begin + places[moved]]

    def reorder(self, rows: Ids, length: int) -> None:
        """Puts into the first rows what is in rows (B'), of which so many positions count."""
        self.data[:, :, : len(rows), :, :length] = self.data[:, :, rows, :, :length]

    def _widen(self, dimension: int, size: int) -> None:
        shape = list(self.data.shape)
        shape[dimension] = size
        wide = self._zeros(tuple(shape))
        wide[tuple(slice(extent) for extent in self.data.shape)] = self.data
        self.data = wide


@dataclass
class State:
    """The caches of B rows of one decoder."""

    own: Cache
    """Of target tokens."""

    cross: Cache
    """Of source tokens, computed once per sentence."""

    sources: Ids
    """(B) how long sources are; 1 where a row has none yet."""

    shortlists: dict[int, Any] = field(default_factory=dict)
    """What rows may say, by their number, in whatever form the network wants it; the others may say everything."""

    @property
    def rows(self) -> int:
        """How many rows there are caches for."""
        return len(self.sources)

    def grow(self, rows: int, most: int) -> None:
        """Makes room for so many rows, and for some more to come; what is there stays.

        :param most: how many there will ever be
        """
        if rows > self.rows:
            size = min(max(rows, 2 * self.rows), max(rows, most))
            self.own.grow(size)
            self.cross.grow(size)
            self.sources = np.pad(self.sources, (0, size - self.rows), constant_values=1)

    def allow(self, row: int, shortlist: object) -> None:
        """Notes what a row may say; with ``None`` everything."""
        if shortlist is None:
            self.shortlists.pop(row, None)
        else:
            self.shortlists[row] = shortlist

    def move(self, source: int, target: int, length: int) -> None:
        """Copies one row, of which so many positions count, over another."""
        self.own.move(source, target, length)
        self.cross.move(source, target, int(self.sources[source]))
        self.sources[target] = self.sources[source]
        self.allow(target, self.shortlists.get(source))

    def compact(self, starts: Ids, places: Ids) -> None:
        """Moves accepted branches (B', A) to where chains would have been (`Cache.compact`)."""
        self.own.compact(starts, places)

    def reorder(self, rows: Ids, length: int) -> None:
        """Puts into the first rows the target tokens of rows (B') that have the same sources."""
        self.own.reorder(rows, length)
