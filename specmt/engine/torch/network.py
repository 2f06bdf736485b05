"""What verifier and drafters have in common: embeddings, caches, a decoder and a projection to the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from specmt.engine.architecture import Architecture, Sizes, embedding_scale, sinusoids
from specmt.engine.arrays import Ids
from specmt.engine.cache import Cache, State, round_up
from specmt.engine.protocols import EncoderOutput, Network
from specmt.engine.torch.door import entered, memory_errors, to_tensor
from specmt.engine.torch.invariance import STATIC_ROWS, ShapePolicy
from specmt.engine.torch.linear import Linear
from specmt.engine.torch.transformer import Decoder
from specmt.engine.torch.windows import Seen
from specmt.engine.weights import Tables

NEVER: Final = -30_000.0
"""The least output bias in float16. Imported models give ids that are never said one at the end of its range, which a
logit would take past it, to −inf.
"""


class Encoded(EncoderOutput):
    """Encoder output of B sentences on a device (B, S, D), padded."""

    @override
    def states_of(self, numbers: list[int]) -> Tensor:
        states: Tensor = self.states[numbers]
        return states


class Embedding:
    """Scaled token embeddings plus positions."""

    def __init__(self, table: Tensor, max_length: int, architecture: Architecture) -> None:
        """
        :param table: (V, D)
        """
        width = table.shape[1]
        self.table = table
        self.scale = embedding_scale(width, architecture)
        self.positions = torch.from_numpy(sinusoids(max_length, width, architecture)).to(table)  # (T, D)

    def __call__(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Returns (B, W, D) for ids (B, W) at positions (B, W)."""
        # Scaled here: the table may be the projection, too, and large.
        return functional.embedding(tokens, self.table) * self.scale + functional.embedding(positions, self.positions)


class TorchNetwork(Network):
    """Embeddings, a decoder and a projection."""

    def __init__(self, weights: Mapping[str, Tensor], tables: Tables, sizes: Sizes, shapes: ShapePolicy) -> None:
        """
        :param weights: on the device that computes, in the type that it computes in
        """
        table = weights[tables.target]
        self.sizes = sizes
        self.shapes = shapes
        self.embed = Embedding(table, sizes.max_length, sizes.architecture)
        self.decoder = Decoder(weights, "decoder", sizes.decoder_layers, sizes.heads, sizes.architecture)
        self.project = Linear(weights[tables.output], within_range(weights.get(tables.bias or "")))
        self.width, self.dtype, self.device = table.shape[1], table.dtype, table.device

    @override
    def new_state(self, rows: int) -> State:
        if self.shapes.static:
            rows = round_up(rows, STATIC_ROWS)
        shape = (self.sizes.decoder_layers, rows, self.sizes.heads, self.width // self.sizes.heads)
        planes, cross = self.sizes.architecture.planes, partial(self._zeros, self.dtype)
        cells = partial(self._zeros, torch.promote_types(self.dtype, torch.float32))
        own = Cache(*shape, cross if planes == 2 else cells, planes=planes)
        state = State(own, Cache(*shape, cross), np.ones(rows, dtype=np.int64))
        if self.shapes.static:
            # All positions at once: shapes must not change. What windows are padded with lies behind the last one.
            state.own.reserve(self.sizes.max_length + self.shapes.static[-1])
            state.cross.reserve(self.sizes.max_length)
        return state

    def _zeros(self, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
        # Caches are changed outside of inference mode, too.
        with memory_errors(), torch.inference_mode(False):
            return torch.zeros(shape, dtype=dtype, device=self.device)

    @override
    @entered
    def start(self, state: State, rows: Ids, encoded: EncoderOutput) -> None:
        if not isinstance(encoded, Encoded):
            raise TypeError(f"`encoded` must come from a verifier on PyTorch, but is {type(encoded)} instead.")
        for some in np.split(np.arange(len(rows)), len(rows)) if self.shapes.alone else [np.arange(len(rows))]:
            cross = self.decoder.cross(encoded.states[some].to(self.dtype))
            width = cross.shape[4]
            state.cross.reserve(width)
            state.cross.data[:, :, to_tensor(rows[some], self.device), :, :width] = cross
        state.sources[rows] = encoded.lengths
        lists: Sequence[Ids | None] = encoded.shortlists or [None] * len(rows)
        for row, ids in zip(rows.tolist(), lists, strict=True):
            state.allow(row, None if ids is None else to_tensor(ids, self.device))

    def _decode(
        self, embedded: Tensor, places: Ids, limits: Ids, state: State, rows: slice | Ids, order: Ids | None = None
    ) -> Tensor:
        """Runs windows through the decoder, for which there is room made; returns hidden states (B, W, D).

        :param embedded: (B, W, D)
        :param places: (B, W) where what is kept of tokens goes, consecutive in each row
        :param limits: (B, W) the last position that each token sees; its own where nothing later is seen
        :param rows: (B) of the state
        :param order: (B, W, T) the place of what stands at each position that a token sees, where branches differ
        """
        granule = self.shapes.granule
        state.own.reserve(round_up(int(places[:, -1].max()) + 1, granule))
        sources = state.sources[rows]
        seen = Seen(
            rows if isinstance(rows, slice) else to_tensor(rows, self.device),
            to_tensor(places, self.device),
            to_tensor(limits, self.device),
            round_up(int(limits.max()) + 1, granule),
            None if order is None else to_tensor(order, self.device),
        )
        cross = state.cross.data[:, :, :, :, : round_up(int(sources.max()), granule)]
        return self.decoder(embedded, state.own.data, cross, to_tensor(sources, self.device), seen, self.shapes)

    def _embed(self, tokens: Ids, positions: Ids) -> Tensor:
        return self.embed(to_tensor(tokens, self.device), self._positions(positions))

    def _positions(self, positions: Ids) -> Tensor:
        # A window may reach past the last position; what lies there is never committed.
        return to_tensor(np.minimum(positions, self.sizes.max_length - 1), self.device)

    @staticmethod
    def _restrict(logits: Tensor, state: State, rows: Ids | None) -> Tensor:
        """Returns logits (B, W, V), −inf where a row's sentence must not go; those of rows without a list as they are.

        :param rows: (B) of the state; ``None``: the first B
        """
        if not state.shortlists:
            return logits
        restricted = torch.full_like(logits, -torch.inf)
        for number, row in enumerate(range(len(logits)) if rows is None else rows.tolist()):
            ids = state.shortlists.get(row, slice(None))
            restricted[number, :, ids] = logits[number, :, ids]
        return restricted


def within_range(bias: Tensor | None) -> Tensor | None:
    """Returns an output bias (V) to compute with in its type: in float16 none takes a logit out of its range."""
    return bias if bias is None or bias.dtype != torch.float16 else bias.clamp(min=NEVER)
