"""What all networks on the C++ kernels have in common: caches, and windows of tokens that a stack is run on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

import numpy as np
import torch
from torch import Tensor

from specmt.engine.backend import EncoderOutput, Sizes, State
from specmt.engine.boundary import check_range, check_state, checked, writable
from specmt.engine.cache import CrossCache, KVCache
from specmt.engine.fused import Counts
from specmt.engine.library import kernels, why_absent
from specmt.engine.pool import thread_count
from specmt.engine.shortlist import array_of, shorten
from specmt.engine.stack import Packed, Stack
from specmt.engine.structures import ALL, LAST, SLOTS, Crossing, Step, cache_view
from specmt.engine.window import Branches

AT_ONCE: Final = 2e10
"""About how many products a call may compute: it cannot be interrupted, and takes a fraction of a second."""

MOST_AHEAD: Final = 1024
"""The most tokens or nodes that a fused loop drafts for a sentence."""


class NativeNetwork:
    """What verifier and drafter have in common."""

    def __init__(self, packed: Packed, sizes: Sizes, dtype: torch.dtype) -> None:
        library = kernels()
        if library is None:
            raise RuntimeError(f"There are no kernels, because {why_absent()}; ask `can_run` first.")
        self.library = library
        self.sizes = sizes
        self.dtype = dtype
        self.device = torch.device("cpu")
        self.vocab_size, self.width = packed["decoder.table"].shape
        self.decoder = Stack(packed, "decoder", sizes.decoder_layers, sizes, dtype)

    @property
    def _kept(self) -> torch.dtype:
        """The type of keys and values."""
        return torch.float32 if self.dtype == torch.float32 else torch.bfloat16

    def new_state(self, rows: int) -> State:
        """Returns empty caches for a number of rows."""
        shape = (self.sizes.decoder_layers, rows, self.sizes.heads, self.width // self.sizes.heads)
        caches = (kind(*shape, dtype=self._kept, device=self.device) for kind in (KVCache, CrossCache))
        return State(*caches)  # type: ignore[arg-type]

    def start(self, state: State, rows: Tensor, encoded: EncoderOutput) -> None:
        """Gives rows (B') new sentences with the encoder's output (R, D) for them."""
        rows = checked("rows", rows, torch.int64, None)
        lengths = checked("lengths", encoded.lengths, torch.int64, len(rows))
        starts = begins(sizes := lengths.tolist())
        states = checked("states", encoded.states, torch.float32, int(starts[-1]), self.width)
        self.check_state(state, 0)
        check_range("rows", rows, 0, state.cross.data.shape[2])
        state.cross.reserve(max(sizes))
        state.cross.lengths[rows] = lengths
        for some in self.parts(starts, self.sizes.decoder_layers * 2 * self.width):
            call = Crossing(
                threads=thread_count(),
                rows=int(starts[some.stop] - starts[some.start]),
                sentences=some.stop - some.start,
                states=states[starts[some.start] :].data_ptr(),
                starts=(part := starts[some.start : some.stop + 1] - starts[some.start]).ctypes.data,
                places=rows[some].data_ptr(),
                cross=cache_view(state.cross.data),
            )
            self.library.specmt_cross(self.decoder.struct, call)
            del part
        self.allow(state, rows, encoded)

    def allow(self, state: State, rows: Tensor, encoded: EncoderOutput) -> None:
        """Notes what may be said of new sentences in rows (B')."""
        lists = encoded.shortlists
        state.allow(rows, None if lists is None else shorten(self.library, self.decoder.struct, lists, self.dtype))

    def parts(self, starts: Counts, products: int) -> Iterator[slice]:
        """Yields ranges of sentences that can be computed in one call.

        :param starts: (B + 1) where each sentence begins
        :param products: how many a row takes, in units of the width
        """
        most = AT_ONCE / (products * self.width)
        if starts[-1] <= most:
            yield slice(0, len(starts) - 1)
            return
        begin = 0
        while begin < len(starts) - 1:
            end = max(begin + 1, int(np.searchsorted(starts, starts[begin] + most, side="right")) - 1)
            yield slice(begin, end)
            begin = end

    def check_state(self, state: State, rows: int) -> None:
        shape = self.sizes.decoder_layers, 2, None, self.sizes.heads, None, self.width // self.sizes.heads
        check_state(state, shape, self._kept, rows)

    def call(
        self,
        tokens: Tensor,
        starts: Tensor,
        counts: Tensor | None,
        state: State,
        *,
        slots: int = 0,
        ahead: int = 0,
        hidden: Tensor | None = None,
        branches: Branches | None = None,
        rows: Tensor | None = None,
        compact: bool = False,
    ) -> tuple[Step, Tensor, object]:
        """Returns a call that runs windows of tokens (B', W) with slots behind, its logits (R, V) and what it needs.

        Logits are those of all tokens; of slots alone where there are some; of last tokens alone of chains with counts.

        :param starts: (B') the position of the first token of each
        :param counts: (B') how many tokens each has, by default W
        :param ahead: how many tokens more to make room for
        :param hidden: (B' slots, D) where to write the last hidden states of slots
        :param rows: (B') of the state that the windows are for, by default the first
        :param compact: whether logits may be those of shortlists alone, one after the other; else the others are −inf
        """
        tokens = checked("tokens", tokens, torch.int64, None, None)
        count, width = tokens.shape
        starts = checked("starts", starts, torch.int64, count)
        check_range("tokens", tokens, 0, self.vocab_size)
        check_range("starts", starts, 0, MOST_AHEAD + self.sizes.max_length)
        if counts is not None:
            counts = checked("counts", counts, torch.int64, count)
            check_range("counts", counts, 1, width + 1)
        used = count
        if rows is not None:
            rows = checked("rows", rows, torch.int64, count)
            check_range("rows", rows, 0, state.rows)
            used = int(rows.max()) + 1
        first = 0 if branches is None else branches.first
        state.cache.reserve(int(starts.max()) + first + width + slots + ahead)
        self.check_state(state, used)
        depths = paths = None
        if branches is not None:
            depths = checked("depths", branches.depths, torch.int64, count, width)
            paths = checked("paths", branches.paths, torch.int64, count, width, None)
            check_range("depths", depths, 0, paths.shape[2])
            check_range("paths", paths, 0, first + width)
        wanted = SLOTS if slots else LAST if counts is not None and branches is None else ALL
        number = count * (slots or 1)
        if wanted == ALL:
            number = count * width if counts is None else int(counts.sum())
        shortlists = array_of(state.shortlists, used)
        shape = number, self.decoder.struct.project.outputs
        if shortlists is None or compact:
            logits = torch.empty(shape, dtype=torch.float32)
        else:
            logits = torch.full(shape, -torch.inf, dtype=torch.float32)
        call = Step(
            threads=thread_count(),
            sentences=count,
            width=width,
            slots=slots,
            wanted=wanted,
            rows=None if rows is None else rows.data_ptr(),
            tokens=tokens.data_ptr(),
            starts=starts.data_ptr(),
            counts=None if counts is None else counts.data_ptr(),
            sources=state.cross.lengths.data_ptr(),
            depths=None if depths is None else depths.data_ptr(),
            paths=None if paths is None else paths.data_ptr(),
            longest=0 if paths is None else paths.shape[2],
            first=first,
            self=cache_view(state.cache.data),
            cross=cache_view(state.cross.data),
            shortlists=shortlists,
            compact=compact,
            stride=shape[1],
            logits=logits.data_ptr(),
            hidden=None if hidden is None else hidden.data_ptr(),
        )
        return call, logits[:, : self.vocab_size], (tokens, starts, counts, depths, paths, rows, shortlists)

    def step(
        self,
        tokens: Tensor,
        starts: Tensor,
        counts: Tensor | None,
        state: State,
        *,
        slots: int = 0,
        hidden: Tensor | None = None,
        branches: Branches | None = None,
        rows: Tensor | None = None,
    ) -> Tensor:
        """Runs windows of tokens (B', W) and returns logits (R, V)."""
        call, logits, _kept = self.call(
            tokens, starts, counts, state, slots=slots, hidden=hidden, branches=branches, rows=rows
        )
        self.library.specmt_step(self.decoder.struct, call)
        return logits

    def rows_of(self, logits: Tensor, rows: int, width: int) -> tuple[Tensor, int]:
        """Returns logits (B', W, V) whose rows are equally far apart, and how far."""
        if logits.stride(2) != 1 or (rows > 1 and width > 1 and logits.stride(0) != width * logits.stride(1)):
            logits = logits.contiguous()
        writable("logits", logits, torch.float32, rows, width, self.vocab_size)
        return logits, logits.stride(1 if width > 1 else 0)  # that of a dimension of 1 says nothing


def begins(lengths: Sequence[int]) -> Counts:
    """Returns where each of several sequences begins, and where the last ends; (B) → (B + 1)."""
    return np.array([0, *accumulate(lengths)], dtype=np.int64)


def padded(sequences: Sequence[Sequence[int]]) -> tuple[Counts, Counts]:
    """Returns sequences (B, L), zeros behind them, and their lengths (B)."""
    lengths = np.array([len(each) for each in sequences], dtype=np.int64)
    table = np.zeros((len(sequences), max(1, int(lengths.max()))), dtype=np.int64)
    for row, each in zip(table, sequences, strict=True):
        row[: len(each)] = each
    return table, lengths
