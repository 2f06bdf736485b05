"""Logits of the C++ kernels: float32 rows in this process's memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from typing_extensions import override

from specmt.engine.arrays import Array, Floats, Ids
from specmt.engine.kernels.boundary import check_range, checked
from specmt.engine.kernels.library import Kernels
from specmt.engine.protocols import CANDIDATES, Logits
from specmt.engine.threads import thread_count
from specmt.types import PAD


class KernelLogits(Logits):
    """What follows each token of a window: a row for each that counts, one sentence after the other."""

    def __init__(self, library: Kernels, values: Floats, width: int, counts: Ids | None = None) -> None:
        """
        :param values: (R, V) in rows that are equally far apart
        :param width: W
        :param counts: (B) how many tokens each sentence has; ``None``: W
        """
        self.library = library
        self.values = values
        self.width = width
        self.counts = counts
        counts = np.full(len(values) // width, width) if counts is None else counts
        self._lasts: Ids = np.cumsum(counts) - 1
        self._firsts: Ids = self._lasts - counts + 1

    @override
    def best(self) -> Ids:
        return self._by_place(self.values.argmax(1))

    @override
    def log_probs(self, tokens: Ids, places: Ids) -> Floats:
        """Returns the log-probabilities (B, M) of tokens behind places, with the bits of a fused loop."""
        tokens, rows = self._asked(tokens, places)
        found: Floats = np.empty(tokens.shape, dtype=np.float32)
        if not tokens.size:
            return found
        side_by_side = bool((np.diff(rows) == 1).all())
        values = self.values[rows[0] : rows[-1] + 1] if side_by_side else self.values[rows]
        self.library.specmt_log_probs(
            *_rows(values), values.shape[1], thread_count(), tokens.ctypes.data, found.ctypes.data
        )
        return found

    @override
    def ranks(self, tokens: Ids, places: Ids) -> tuple[Ids, Floats]:
        """Returns ranks and distances (B, M) of tokens behind places."""
        tokens, rows = self._asked(tokens, places)
        ranks, gaps = np.empty(tokens.size, dtype=np.int64), np.empty(tokens.size, dtype=np.float32)
        for number, (row, token) in enumerate(zip(rows.tolist(), tokens.ravel().tolist(), strict=True)):
            values = self.values[row]
            own = values[token]
            ranks[number] = np.count_nonzero(values > own) + np.count_nonzero(values[:token] == own)
            gaps[number] = values.max() - own
        return ranks.reshape(tokens.shape), gaps.reshape(tokens.shape)

    @override
    def likeliest(self, count: int) -> tuple[Ids, Floats]:
        count = min(count, self.values.shape[1])
        return self._best(self.library.specmt_likeliest, count, count, PAD)

    def candidates(self) -> tuple[Ids, Floats]:
        """Returns the best tokens (B, W, C), best first, and their log-probabilities among themselves."""
        return self._best(self.library.specmt_candidates, min(CANDIDATES, self.values.shape[1]))

    @override
    def row(self, row: int, place: int) -> Floats:
        found: Floats = self.values[min(self._firsts[row] + place, self._lasts[row])]
        return found

    def _best(self, call: Callable[..., object], count: int, *more: int) -> tuple[Ids, Floats]:
        """Returns so many tokens, and log-probabilities, that a call finds for each row."""
        shape = len(self.values), count
        ids, log_probs = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.float32)
        outputs = ids.ctypes.data, log_probs.ctypes.data
        call(*_rows(self.values), self.values.shape[1], *more, thread_count(), *outputs)
        return self._by_place(ids), self._by_place(log_probs)

    def _by_place(self, values: Array) -> Array:
        """Returns by sentence and place what there is of each row; (R, …) → (B, W, …)."""
        if self.counts is None:
            return values.reshape(-1, self.width, *values.shape[1:])
        return values[self._rows_of(np.arange(self.width))]

    def _rows_of(self, places: Ids) -> Ids:
        """Returns the rows of places (B, M) or (M)."""
        rows: Ids = np.minimum(self._firsts[:, None] + places, self._lasts[:, None])
        return rows

    def _asked(self, tokens: Ids, places: Ids) -> tuple[Ids, Ids]:
        """Returns tokens (B, M) without gaps, and the rows (B · M) that they are looked for in."""
        tokens = checked("tokens", tokens, np.int64, len(self._firsts), None)
        places = checked("places", places, np.int64, *tokens.shape)
        if tokens.size:
            check_range("tokens", tokens, 0, self.values.shape[1])
            check_range("places", places, 0, np.iinfo(np.int64).max >> 1)
        return tokens, self._rows_of(places).ravel()


def _rows(values: Floats) -> tuple[int, int, int]:
    """Returns where rows begin, how far apart they are and how many there are."""
    return values.ctypes.data, values.strides[0] // values.itemsize, len(values)
