"""What all networks on the C++ kernels have in common: caches, and windows of tokens that a stack is run on.

A row's bits depend on its own sentence alone, by construction (csrc/calls.h), so that nothing is padded. Keys and
values are in bfloat16 where weights are in fewer bits than 32; cells, which each token changes a little, and every sum
over floats are in float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from itertools import accumulate
from typing import Final

import numpy as np
from typing_extensions import override

from specmt.engine.architecture import Sizes
from specmt.engine.arrays import BFLOAT16, Floats, Ids, empty, zeros
from specmt.engine.cache import Cache, State
from specmt.engine.kernels.boundary import Form, check_range, check_state, checked
from specmt.engine.kernels.library import required
from specmt.engine.kernels.short_projection import array_of, shorten
from specmt.engine.kernels.stack import Packed, Stack
from specmt.engine.kernels.structures import ALL, SLOTS, Crossing, Step, cache_view
from specmt.engine.protocols import EncoderOutput, Network
from specmt.engine.threads import thread_count
from specmt.engine.window import Window

AT_ONCE: Final = 2e10
"""About how many products a call may compute: it cannot be interrupted, and takes a fraction of a second."""

MOST_AHEAD: Final = 1024
"""The most tokens or nodes that a fused loop drafts for a sentence."""


class KernelEncoderOutput(EncoderOutput):
    """Encoder output of B sentences, one after the other (R, D)."""

    @override
    def states_of(self, numbers: list[int]) -> Floats:
        parts = np.split(self.states, np.cumsum(self.lengths)[:-1])
        return np.concatenate([parts[number] for number in numbers])


class KernelNetwork(Network):
    """What verifier and drafters have in common."""

    def __init__(self, packed: Packed, sizes: Sizes, format: str) -> None:
        self.library = required()
        self.sizes = sizes
        self.format = format
        self.vocab_size, self.width = packed["decoder.table"].shape
        self.decoder = Stack(packed, "decoder", sizes.decoder_layers, sizes, format)

    @cached_property
    def forms(self) -> tuple[Form, Form]:
        """Those of caches of target tokens and of source tokens."""
        layers, heads, planes = self.sizes.decoder_layers, self.sizes.heads, self.sizes.architecture.planes
        wide = np.dtype(np.float32)
        cross = Form(
            (layers, 2, None, heads, None, self.width // heads), wide if self.format == "float32" else BFLOAT16
        )
        return (cross if planes == 2 else Form((layers, planes, *cross.shape[2:]), wide)), cross

    @override
    def new_state(self, rows: int) -> State:
        shape = self.sizes.decoder_layers, rows, self.sizes.heads, self.width // self.sizes.heads
        planes = self.sizes.architecture.planes
        own, cross = (partial(zeros, dtype=form.dtype) for form in self.forms)
        return State(Cache(*shape, own, planes=planes), Cache(*shape, cross), np.ones(rows, dtype=np.int64))

    @override
    def start(self, state: State, rows: Ids, encoded: EncoderOutput) -> None:
        """Gives rows (B') new sentences with the encoder's output for them, and what may be said of each."""
        if not isinstance(encoded, KernelEncoderOutput):
            raise TypeError(f"`encoded` must be of the kernels, but is of type {type(encoded).__name__} instead.")
        rows = checked("rows", rows, np.int64, None)
        lengths = checked("lengths", encoded.lengths, np.int64, len(rows))
        starts = begins(lengths.tolist())
        states = checked("states", encoded.states, np.float32, int(starts[-1]), self.width)
        self.check_state(state, 0)
        check_range("rows", rows, 0, state.rows)
        check_range("lengths", lengths, 1, len(states) + 1)
        state.cross.reserve(int(lengths.max()))
        state.sources[rows] = lengths
        for some in self.parts(starts, self.sizes.decoder_layers * 2 * self.width):
            own = starts[some.start : some.stop + 1] - starts[some.start]
            call = Crossing(
                threads=thread_count(),
                rows=int(own[-1]),
                sentences=some.stop - some.start,
                states=states[starts[some.start] :].ctypes.data,
                starts=own.ctypes.data,
                places=rows[some].ctypes.data,
                cross=cache_view(state.cross.data),
            )
            self.library.specmt_cross(self.decoder.struct, call)
        self.allow(state, rows, encoded)

    def allow(self, state: State, rows: Ids, encoded: EncoderOutput) -> None:
        """Notes what may be said of new sentences in rows (B')."""
        lists = encoded.shortlists
        short = [None] * len(rows) if lists is None else shorten(self.library, self.decoder.struct, lists, self.format)
        for row, each in zip(rows.tolist(), short, strict=True):
            state.allow(row, each)

    def parts(self, starts: Ids, products: int) -> Iterator[slice]:
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
        """Checks that caches are those of such a network, and of so many rows at least (`boundary.check_state`)."""
        check_state(state, self.forms, rows)

    def call(
        self,
        window: Window,
        state: State,
        wanted: int = ALL,
        *,
        slots: int = 0,
        ahead: int = 0,
        hidden: Floats | None = None,
        compact: bool = False,
    ) -> tuple[Step, Floats, object]:
        """Returns a call that runs a window with slots behind it, its logits (R, V) and what has to outlive it.

        :param wanted: whose logits: those of all tokens that count, of the last of each sentence, or of slots
        :param ahead: how many tokens more to make room for
        :param hidden: (B slots, D) where to write the last hidden states of slots
        :param compact: whether logits may be those of shortlists alone, one after the other; else the others are −inf
        """
        tokens = checked("tokens", window.tokens, np.int64, None, None)
        count, width = tokens.shape
        starts = checked("starts", window.starts, np.int64, count)
        check_range("tokens", tokens, 0, self.vocab_size)
        check_range("starts", starts, 0, MOST_AHEAD + self.sizes.max_length)
        call = Step(
            threads=thread_count(),
            sentences=count,
            width=width,
            slots=slots,
            wanted=wanted,
            tokens=tokens.ctypes.data,
            starts=starts.ctypes.data,
            compact=compact,
            hidden=None if hidden is None else hidden.ctypes.data,
        )
        needed: list[object] = [tokens, starts, hidden]
        number, used = count * width, count
        if window.counts is not None:
            counts = checked("counts", window.counts, np.int64, count)
            check_range("counts", counts, 1, width + 1)
            number = int(counts.sum())
            call.counts = counts.ctypes.data
            needed.append(counts)
        if window.rows is not None:
            rows = checked("rows", window.rows, np.int64, count)
            check_range("rows", rows, 0, state.rows)
            used = int(rows.max()) + 1
            call.rows = rows.ctypes.data
            needed.append(rows)
        if window.branches is not None:
            first = call.first = window.branches.first
            if first < 0:
                raise ValueError(f"`first` must not be negative, but is {first} instead.")
            depths = checked("depths", window.branches.depths, np.int64, count, width)
            paths = checked("paths", window.branches.paths, np.int64, count, width, None)
            check_range("depths", depths, 0, paths.shape[2])
            check_range("paths", paths, 0, first + width)
            call.depths, call.paths, call.longest = depths.ctypes.data, paths.ctypes.data, paths.shape[2]
            needed += [depths, paths]
        state.own.reserve(int(starts.max()) + call.first + width + slots + ahead)
        self.check_state(state, used)
        if wanted != ALL:
            number = count * (slots if wanted == SLOTS else 1)
        logits: Floats = empty((number, self.decoder.struct.project.outputs), np.float32)
        shortlists = array_of(state.shortlists, used)
        if shortlists is not None and not compact:
            logits.fill(-np.inf)
        call.self, call.cross = cache_view(state.own.data), cache_view(state.cross.data)
        call.sources = state.sources.ctypes.data
        call.shortlists, call.stride, call.logits = shortlists, logits.shape[1], logits.ctypes.data
        return call, logits[:, : self.vocab_size], (needed, shortlists, logits)

    def step(
        self, window: Window, state: State, wanted: int = ALL, *, slots: int = 0, hidden: Floats | None = None
    ) -> Floats:
        """Runs a window and returns logits (R, V), rows of an array without gaps between them but for padding."""
        call, logits, needed = self.call(window, state, wanted, slots=slots, hidden=hidden)
        self.library.specmt_step(self.decoder.struct, call)
        del needed
        return logits


def counted(read: Window) -> tuple[Window, Ids]:
    """Returns what a drafter is to read, with how many tokens of each sentence (B) that is.

    :raises ValueError: those are no chains.
    """
    if read.branches is not None:
        raise ValueError("`read` must be of chains, but has branches instead.")
    counts = np.full(read.tokens.shape[:1], read.tokens.shape[1]) if read.counts is None else read.counts
    return read._replace(counts=counts), counts


def begins(lengths: Sequence[int]) -> Ids:
    """Returns where each of several sequences begins, and where the last ends; (B) → (B + 1)."""
    return np.array([0, *accumulate(lengths)], dtype=np.int64)


def padded(sequences: Sequence[Sequence[int]]) -> tuple[Ids, Ids]:
    """Returns sequences (B, L), zeros behind them, and their lengths (B)."""
    lengths = np.array([len(each) for each in sequences], dtype=np.int64)
    table = np.zeros((len(sequences), max(1, int(lengths.max()))), dtype=np.int64)
    for row, each in zip(table, sequences, strict=True):
        row[: len(each)] = each
    return table, lengths
