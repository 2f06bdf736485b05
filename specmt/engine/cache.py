"""The key-value cache: rows of their own length, and a rollback that is only a smaller length."""

from __future__ import annotations

from copy import copy

import torch
from torch import Tensor

GRANULE = 16
"""Caches grow by this many positions; with any smaller unit the sums of attention come out in another order for other
lengths (DESIGN §2.5).
"""


START = 64
"""Positions that a cache has room for at first: growing it costs more than most sentences need."""


def round_up(length: int, unit: int = GRANULE) -> int:
    """Returns the smallest multiple of a unit that is not under a length."""
    return -(-length // unit) * unit


class KVCache:
    """Self-attention keys and values of B rows, each with a length of its own.

    Say row 0 has committed 5 tokens and row 1 has 9, and a window of 3 is scored: row 0's keys land on positions
    5, 6, 7 and row 1's on 9, 10, 11. If row 0 keeps one of its three and row 1 keeps all, the lengths become 6 and
    12; positions 6 and 7 of row 0 are overwritten by the next window. Nobody clears them: a query sees only keys up
    to its own position.
    """

    def __init__(
        self, layers: int, rows: int, heads: int, head_dim: int, *, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.data = torch.zeros(layers, 2, rows, heads, START, head_dim, dtype=dtype, device=device)
        # (L, 2, B, H, T, D_h)

    @property
    def capacity(self) -> int:
        """The positions that a row has room for."""
        return self.data.shape[4]

    def reserve(self, length: int) -> None:
        """Makes room for positions under a length; what is there stays."""
        if length > self.capacity:
            self.data = _widened(self.data, 4, round_up(max(length, 2 * self.capacity)))

    def grow(self, rows: int) -> None:
        """Makes room for so many rows; what is there stays."""
        self.data = _widened(self.data, 2, rows)

    def extent(self, places: Tensor, limits: Tensor, granule: int) -> int:
        """Makes room for a window and returns how many positions its queries are to look at.

        :param places: (B', W) where its keys go, consecutive in each row
        :param limits: (B', W) the last position that each query sees
        """
        self.reserve(round_up(int(places[:, -1].max()) + 1, granule))
        return round_up(int(limits.max()) + 1, granule)

    def compact(self, starts: Tensor, places: Tensor) -> None:
        """Moves the accepted branch of each draft tree to where a chain would have been.

        :param starts: (B') the positions of the roots
        :param places: (B', A) where the nodes of the branch lie, counted from there
        """
        chain = torch.arange(1, places.shape[1] + 1, device=places.device)
        if torch.equal(places, chain.expand_as(places)):
            return
        row = torch.arange(len(starts), device=starts.device)[:, None]
        data = self.data.permute(2, 4, 0, 1, 3, 5)  # (B, T, L, 2, H, D_h)
        data[row, starts[:, None] + chain] = data[row, starts[:, None] + places]

    def move(self, source: int, target: int, length: int) -> None:
        """Copies one row, of which so many positions count, over another."""
        self.data[:, :, target, :, :length] = self.data[:, :, source, :, :length]

    def put(self, rows: Tensor, other: KVCache, length: int) -> None:
        """Copies all rows of another cache, of which so many positions count, over rows (B')."""
        self.reserve(length)
        self.data[:, :, rows, :, :length] = other.data[:, :, :, :, :length]

    def row(self, number: int) -> KVCache:
        """Returns a view of one row, which must not be asked to grow."""
        view = copy(self)
        view.data = self.data[:, :, number : number + 1]
        return view


class CrossCache:
    """Cross-attention keys and values of B rows, computed once per sentence, with a mask over padded positions."""

    def __init__(
        self, layers: int, rows: int, heads: int, head_dim: int, *, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.data = torch.zeros(layers, 2, rows, heads, START, head_dim, dtype=dtype, device=device)
        # (L, 2, B, H, S, D_h)
        self.lengths = torch.ones(rows, dtype=torch.int64, device=device)  # (B)

    def reserve(self, length: int) -> None:
        """Makes room for sources of a length; what is there stays."""
        if length > self.data.shape[4]:
            self.data = _widened(self.data, 4, round_up(length))

    def grow(self, rows: int) -> None:
        """Makes room for so many rows; what is there stays."""
        self.data = _widened(self.data, 2, rows)
        self.lengths = torch.nn.functional.pad(self.lengths, (0, rows - len(self.lengths)), value=1)

    def fill(self, rows: Tensor, keys_values: Tensor, lengths: Tensor) -> None:
        """Stores the keys and values of new sentences.

        :param rows: (B') the rows they take
        :param keys_values: (L, 2, B', H, S, D_h), S a multiple of the granule
        :param lengths: (B') the true source lengths
        """
        width = keys_values.shape[4]
        self.reserve(width)
        self.data[:, :, rows, :, :width] = keys_values
        self.lengths[rows] = lengths

    def extent(self, rows: int, granule: int) -> int:
        """Returns how many source positions the first rows are to look at."""
        return round_up(int(self.lengths[:rows].max()), granule)

    def move(self, source: int, target: int) -> None:
        """Copies one row over another."""
        length = int(self.lengths[source])
        self.data[:, :, target, :, :length] = self.data[:, :, source, :, :length]
        self.lengths[target] = length

    def row(self, number: int) -> CrossCache:
        """Returns a view of one row, which must not be asked to grow."""
        view = copy(self)
        view.data, view.lengths = self.data[:, :, number : number + 1], self.lengths[number : number + 1]
        return view


def append(data: Tensor, keys_values: Tensor, positions: Tensor) -> None:
    """Writes a window of keys and values into those of a layer (2, B, H, T, D_h).

    :param keys_values: (B', W, 2, H, D_h) for the first B' rows
    :param positions: (B', W)
    """
    row = torch.arange(keys_values.shape[0], device=positions.device)[:, None]
    data.permute(1, 3, 0, 2, 4)[row, positions] = keys_values


def _widened(data: Tensor, dimension: int, size: int) -> Tensor:
    """Returns a tensor with a dimension made larger, zero where it is new."""
    shape = list(data.shape)
    shape[dimension] = size
    wide = data.new_zeros(shape)
    wide.narrow(dimension, 0, data.shape[dimension]).copy_(data)
    return wide
