"""Caches whose rows lie in one storage for all states of a network, so that captured calls find them (graphs.py)."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor
from typing_extensions import override

from specmt.engine.backend import State
from specmt.engine.cache import CrossCache, KVCache
from specmt.engine.graphs import Graphs

DUMMY: Final = 0
"""The row that dummy rows of calls read and write."""


class Pool:
    """Keys and values of R rows; when it grows, everything moves, and what was captured is dropped.

    The last place of each row is for dummy tokens, and is never read.
    """

    def __init__(
        self,
        layers: int,
        heads: int,
        head_dim: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
        length: int,
        graphs: Graphs,
    ) -> None:
        """
        :param length: positions that there is room for at first
        """
        self.graphs = graphs
        self.device = device
        self.free: list[int] = []
        self.keys = torch.zeros(layers, 2, 1, heads, length + 1, head_dim, dtype=dtype, device=device)
        # (L, 2, R, H, T, D_h)
        self.sources = torch.zeros(layers, 2, 1, heads, length, head_dim, dtype=dtype, device=device)
        # (L, 2, R, H, S, D_h)

    @property
    def capacity(self) -> int:
        """The positions that a row has room for."""
        return self.keys.shape[4] - 1

    @torch.inference_mode()
    def take(self, count: int) -> list[int]:
        """Returns rows that nobody has."""
        if len(self.free) < count:
            rows = self.keys.shape[2]
            wanted = 1 << (rows - len(self.free) + count - 1).bit_length()
            self.keys, self.sources = (_grown(data, wanted, data.shape[4]) for data in (self.keys, self.sources))
            self.free += range(rows, wanted)
            self.graphs.forget()
        taken, self.free = self.free[:count], self.free[count:]
        return taken

    def give(self, rows: Sequence[int]) -> None:
        """Takes rows back."""
        self.free += rows

    @torch.inference_mode()
    def reserve(self, length: int) -> None:
        """Makes room for positions under a length; what is there stays."""
        if length > self.capacity:
            self.keys = _grown(self.keys, self.keys.shape[2], max(length, 2 * self.capacity) + 1)
            self.graphs.forget()

    @torch.inference_mode()
    def reserve_sources(self, length: int) -> None:
        """Makes room for sources of a length; what is there stays."""
        if length > self.sources.shape[4]:
            self.sources = _grown(self.sources, self.sources.shape[2], length)
            self.graphs.forget()

    def state(self, count: int) -> State:
        """Returns caches for a number of rows, which they have for as long as they are there."""
        rows = Rows(self, self.take(count))
        return State(PooledCache(rows), PooledCross(rows))

    def seen(self, rows: Tensor, lengths: Tensor, *, length: int, reach: int, source: int) -> State:
        """Returns what a call sees of rows (G), given the true lengths (G) of their sources.

        :param length: how many positions are attended to
        :param reach: the keys of those lie at places under this number
        :param source: how many source positions are attended to
        """
        return State(GatheredCache(self.keys, rows, length, reach), GatheredCross(self.sources, rows, lengths, source))


class Rows:
    """The rows of a pool that a state has."""

    def __init__(self, pool: Pool, numbers: list[int]) -> None:
        self.pool = pool
        self.numbers = numbers
        self.lengths = torch.ones(len(numbers), dtype=torch.int64)  # (B) of the sources, on the host
        weakref.finalize(self, pool.give, numbers)

    def index(self) -> Tensor:
        """Returns the numbers (B) on the device."""
        return torch.tensor(self.numbers, device=self.pool.device)


def rows_of(state: State) -> Rows:
    """Returns the rows of a state from a pool.

    :raises TypeError: it is of another network.
    """
    if not isinstance(state.cache, PooledCache):
        raise TypeError("The state is not of a network with captured calls.")
    return state.cache.rows


class PooledCache(KVCache):
    """Self-attention keys and values of some rows of a pool."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    @property
    def data(self) -> Tensor:  # type: ignore[override]
        """A copy of what there is, (L, 2, B, H, T, D_h)."""
        return self.rows.pool.keys[:, :, self.rows.index()]

    @property
    @override
    def capacity(self) -> int:
        return self.rows.pool.capacity

    @override
    def reserve(self, length: int) -> None:
        self.rows.pool.reserve(length)

    @override
    @torch.inference_mode()
    def compact(self, starts: Tensor, places: Tensor) -> None:
        row = self.rows.index()[: len(starts), None]
        chain = torch.arange(1, places.shape[1] + 1, device=places.device)
        data = self.rows.pool.keys.permute(2, 4, 0, 1, 3, 5)  # (R, T, L, 2, H, D_h)
        data[row, starts[:, None] + chain] = data[row, starts[:, None] + places]

    @override
    def move(self, source: int, target: int, length: int) -> None:
        # The row moved from is free from now on: they may as well change places.
        numbers = self.rows.numbers
        numbers[source], numbers[target] = numbers[target], numbers[source]

    @override
    @torch.inference_mode()
    def put(self, rows: Tensor, other: KVCache, length: int) -> None:
        self.reserve(length)
        self.rows.pool.keys[:, :, self.rows.index()[rows], :, :length] = other.data[:, :, :, :, :length]


class PooledCross(CrossCache):
    """Cross-attention keys and values of some rows of a pool."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    @property
    def data(self) -> Tensor:  # type: ignore[override]
        """A copy of what there is, (L, 2, B, H, S, D_h)."""
        return self.rows.pool.sources[:, :, self.rows.index()]

    @property
    def lengths(self) -> Tensor:  # type: ignore[override]
        """(B) on the host."""
        return self.rows.lengths

    @override
    def reserve(self, length: int) -> None:
        self.rows.pool.reserve_sources(length)

    @override
    @torch.inference_mode()
    def fill(self, rows: Tensor, keys_values: Tensor, lengths: Tensor) -> None:
        width = keys_values.shape[4]
        self.reserve(width)
        self.rows.pool.sources[:, :, self.rows.index()[rows], :, :width] = keys_values
        self.lengths[rows.cpu()] = lengths.cpu()

    @override
    def move(self, source: int, target: int) -> None:
        # Keys and values went with the row (PooledCache.move).
        self.lengths[[source, target]] = self.lengths[[target, source]]


class GatheredCache(KVCache):
    """What a call of fixed shape sees of a pool: as many positions as it was told, and rows by their numbers."""

    def __init__(self, data: Tensor, rows: Tensor, length: int, reach: int) -> None:
        self.data = data
        self.rows = rows
        self.length = length
        self.reach = reach

    @property
    @override
    def capacity(self) -> int:
        return self.reach

    @override
    def extent(self, places: Tensor, limits: Tensor, granule: int) -> int:
        return self.length

    @override
    def append(self, layer: int, keys_values: Tensor, positions: Tensor) -> None:
        # Noise behind a window may lie past the end; its last place is for dummies.
        places = positions.clamp(max=self.data.shape[4] - 1)
        self.data[layer].permute(1, 3, 0, 2, 4)[self.rows[:, None], places] = keys_values

    @override
    def read(self, layer: int, rows: int, length: int) -> tuple[Tensor, Tensor]:
        keys, values = self.data[layer, :, :, :, :length].index_select(1, self.rows)
        return keys, values


class GatheredCross(CrossCache):
    """What a call of fixed shape sees of the sources in a pool."""

    def __init__(self, data: Tensor, rows: Tensor, lengths: Tensor, length: int) -> None:
        self.data = data
        self.rows = rows
        self.lengths = lengths
        self.length = length

    @override
    def extent(self, rows: int, granule: int) -> int:
        return self.length

    @override
    def read(self, layer: int, rows: int, length: int) -> tuple[Tensor, Tensor]:
        keys, values = self.data[layer, :, :, :, :length].index_select(1, self.rows)
        return keys, values


def _grown(data: Tensor, rows: int, length: int) -> Tensor:
    """Returns keys and values (L, 2, R, H, T, D_h) with more rows and positions, zero where they are new."""
    layers, two, old_rows, heads, old_length, head_dim = data.shape
    grown = data.new_zeros(layers, two, rows, heads, length, head_dim)
    grown[:, :, :old_rows, :, :old_length] = data
    return grown
