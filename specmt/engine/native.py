"""Verifier and masked drafter on the C++ kernels: one call runs a whole stack, nothing is padded.

A row's bits depend on its own sentence alone, by construction (kernels.cpp), so that no granule is needed here. Keys
and values are kept in float32; with bfloat16 weights every sum is still taken in float32.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from specmt.engine.backend import Memory, Sizes, State
from specmt.engine.cache import CrossCache, KVCache
from specmt.engine.library import Chain, Crossing, Encoding, Stack, Step, cache_view, kernels
from specmt.engine.transformer import Weights
from specmt.types import EOS

Ids = npt.NDArray[np.int64]


class _NativeNetwork:
    """What verifier and drafter have in common."""

    def __init__(self, weights: Weights, table: Tensor, mask: Tensor | None, sizes: Sizes, dtype: torch.dtype) -> None:
        """
        :param table: token embeddings (V, D)
        :param mask: the embedding (D) of [MASK], which becomes id V
        """
        library = kernels()
        if library is None:
            raise RuntimeError("The kernels are not there; ask `can_run` first.")
        self._library = library
        self.sizes = sizes
        self.dtype = dtype
        self.device = torch.device("cpu")
        self.vocab_size, self.width = table.shape
        self._table = table.float() * self.width**0.5
        extended = self._table if mask is None else torch.cat([self._table, mask.float()[None]])
        self._decoder = Stack(
            weights, "decoder", sizes.decoder_layers, sizes=sizes, table=extended, project=table, dtype=dtype
        )

    def new_state(self, rows: int) -> State:
        """Returns empty caches for a number of rows."""
        shape = (self.sizes.decoder_layers, rows, self.sizes.heads, self.width // self.sizes.heads)
        return State(
            KVCache(*shape, dtype=torch.float32, device=self.device),
            CrossCache(*shape, dtype=torch.float32, device=self.device),
        )

    def start(self, state: State, rows: Tensor, memory: Memory) -> None:
        """Gives rows (B') new sentences with the verifier's memory (R, D) of them."""
        state.cross.reserve(int(memory.lengths.max()))
        state.cross.lengths[rows] = memory.lengths
        starts = _starts(memory.lengths.numpy())
        call = Crossing(
            threads=torch.get_num_threads(),
            rows=len(memory.states),
            sentences=len(rows),
            memory=memory.states.data_ptr(),
            starts=starts.ctypes.data,
            places=rows.data_ptr(),
            cross=cache_view(state.cross.data),
        )
        self._library.specmt_cross(ctypes.byref(self._decoder.struct), ctypes.byref(call))

    def _run(self, tokens: Ids, sentences: Ids, positions: Ids, limits: Ids, projected: Ids, state: State) -> Tensor:
        """Runs single rows (R) of any sentences; returns the logits (R', V) of those in ``projected`` (R')."""
        state.cache.reserve(int(positions.max()) + 1)
        logits = torch.empty(len(projected), self._decoder.struct.project.outputs, dtype=torch.float32)
        call = Step(
            threads=torch.get_num_threads(),
            rows=len(tokens),
            projected=len(projected),
            tokens=tokens.ctypes.data,
            sentences=sentences.ctypes.data,
            positions=positions.ctypes.data,
            limits=limits.ctypes.data,
            sources=state.cross.lengths.data_ptr(),
            project=projected.ctypes.data,
            self=cache_view(state.cache.data),
            cross=cache_view(state.cross.data),
            logits=logits.data_ptr(),
        )
        self._library.specmt_step(ctypes.byref(self._decoder.struct), ctypes.byref(call))
        return logits[:, : self.vocab_size]


class NativeVerifier(_NativeNetwork):
    """The verifier (names of weights as in the fairseq2 model)."""

    def __init__(self, weights: Weights, sizes: Sizes, dtype: torch.dtype) -> None:
        super().__init__(weights, weights["encoder_frontend.embed.weight"], None, sizes, dtype)
        self._encoder = Stack(
            weights, "encoder", sizes.encoder_layers, sizes=sizes, table=self._table, project=None, dtype=dtype
        )

    def encode(self, sources: Sequence[Sequence[int]]) -> Memory:
        """Returns the memory (R, D) of sources given as ids without EOS, one sentence after the other."""
        lengths = np.array([len(source) + 1 for source in sources], dtype=np.int64)
        starts = _starts(lengths)
        tokens = np.array([token for source in sources for token in (*source, EOS)], dtype=np.int64)
        positions = np.arange(len(tokens)) - np.repeat(starts[:-1], lengths)
        states = torch.empty(len(tokens), self.width, dtype=torch.float32)
        call = Encoding(
            threads=torch.get_num_threads(),
            rows=len(tokens),
            sentences=len(sources),
            tokens=tokens.ctypes.data,
            positions=positions.ctypes.data,
            starts=starts.ctypes.data,
            memory=states.data_ptr(),
        )
        self._library.specmt_encode(ctypes.byref(self._encoder.struct), ctypes.byref(call))
        return Memory(states, torch.from_numpy(lengths))

    def score(self, tokens: Tensor, starts: Tensor, state: State) -> Tensor:
        """Runs a window (B', W) and returns the logits (B', W, V) of what follows each of its tokens."""
        rows, window = tokens.shape
        positions = (starts.numpy()[:, None] + np.arange(window)).reshape(-1)
        sentences = np.repeat(np.arange(rows), window)
        ids = np.ascontiguousarray(tokens.numpy()).reshape(-1)
        logits = self._run(ids, sentences, positions, positions, np.arange(rows * window), state)
        return logits.view(rows, window, -1)


class NativeDrafter(_NativeNetwork):
    """The masked drafter."""

    def __init__(self, weights: Weights, sizes: Sizes, dtype: torch.dtype) -> None:
        super().__init__(weights, weights["embed.weight"], weights["mask_embedding"], sizes, dtype)
        self.previous = weights["correction.previous.weight"].float().contiguous()  # (V, R)
        self.following = weights["correction.following.weight"].float().contiguous()  # (V, R)

    def propose(
        self, tokens: Tensor, starts: Tensor, counts: Tensor, block_size: int, state: State
    ) -> tuple[Tensor, Tensor]:
        """Reads tokens (B', M) committed since the last call and drafts a block (B', K) with log-probabilities."""
        rows, widest = tokens.shape
        offsets = np.arange(widest + block_size)
        first, fresh = starts.numpy()[:, None], counts.numpy()[:, None]
        real = offsets < fresh + block_size
        slots = real & (offsets >= fresh)
        ids = np.pad(tokens.numpy(), ((0, 0), (0, block_size)))
        ids[slots] = self.vocab_size
        positions = first + offsets
        limits = np.where(slots, first + fresh + block_size - 1, positions)
        sentences = np.repeat(np.arange(rows), fresh[:, 0] + block_size)
        projected = np.flatnonzero(slots[real])
        logits = self._run(ids[real], sentences, positions[real], limits[real], projected, state)
        return self._chain(logits, tokens.gather(1, counts[:, None] - 1), block_size)

    def _chain(self, logits: Tensor, last: Tensor, block_size: int) -> tuple[Tensor, Tensor]:
        """Does what :func:`specmt.engine.chain.best_chain` does, for logits (B' K, V)."""
        drafts = torch.empty(len(last), block_size, dtype=torch.int64)
        log_probs = torch.empty(len(last), block_size, dtype=torch.float32)
        call = Chain(
            sentences=len(last),
            slots=block_size,
            vocab=self.vocab_size,
            rank=self.previous.shape[1],
            stride=logits.stride(0),
            logits=logits.data_ptr(),
            last=last.data_ptr(),
            previous=self.previous.data_ptr(),
            following=self.following.data_ptr(),
            tokens=drafts.data_ptr(),
            log_probs=log_probs.data_ptr(),
        )
        self._library.specmt_chain(ctypes.byref(call))
        return drafts, log_probs


def _starts(lengths: Ids) -> Ids:
    """Returns where each of several sequences begins, and where the last ends; (B) → (B + 1)."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
