"""The verifier: a decoder, and an encoder before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from specmt.engine.architecture import NO_PREFIXES, Prefixes, Sizes
from specmt.engine.arrays import Floats
from specmt.engine.cache import State, round_up
from specmt.engine.protocols import Verifier
from specmt.engine.torch.decoder import TorchDecoder
from specmt.engine.torch.door import entered, to_floats, to_tensor
from specmt.engine.torch.invariance import GRANULAR, ShapePolicy
from specmt.engine.torch.network import Embedding, Encoded
from specmt.engine.torch.transformer import Encoder
from specmt.engine.weights import verifier_tables
from specmt.options import AlignmentHeads
from specmt.types import EOS, PAD


class TorchVerifier(TorchDecoder, Verifier):
    """The verifier (names of weights as in the fairseq2 model)."""

    def __init__(
        self,
        weights: Mapping[str, Tensor],
        sizes: Sizes,
        shapes: ShapePolicy = GRANULAR,
        prefixes: Prefixes = NO_PREFIXES,
    ) -> None:
        tables = verifier_tables(weights)
        super().__init__(weights, tables, sizes, shapes)
        self.prefixes = prefixes
        self.embed_source = self.embed
        if tables.source != tables.target:
            self.embed_source = Embedding(weights[tables.source], sizes.max_length, sizes.architecture)
        self.encoder = Encoder(weights, "encoder", sizes.encoder_layers, sizes.heads, sizes.architecture)

    @override
    @entered
    def encode(self, sources: Sequence[Sequence[int]]) -> Encoded:
        whole = [[*self.prefixes.source, *source, EOS] for source in sources]
        together = [[each] for each in whole] if self.shapes.alone else [whole]
        states = torch.cat([self._encode(some) for some in together])
        return Encoded(states, np.array([len(each) for each in whole], dtype=np.int64))

    def _encode(self, sources: Sequence[Sequence[int]]) -> Tensor:
        """Returns the encoder's output (B, S, D) for sources given as ids with prefix and EOS."""
        lengths = np.array([len(source) for source in sources])
        width = round_up(int(lengths.max()), self.shapes.granule)
        ids = np.array([[*source, *[PAD] * (width - len(source))] for source in sources])
        positions = np.broadcast_to(np.arange(width), ids.shape)
        embedded = self.embed_source(to_tensor(ids, self.device), self._positions(positions))
        return self.encoder(embedded, to_tensor(lengths, self.device), self.shapes)

    @override
    @entered
    def attention(
        self, state: State, rows: Sequence[int], targets: Sequence[Sequence[int]], heads: AlignmentHeads
    ) -> list[Floats]:
        found = []
        # One by one, so that there is nothing to pad.
        for row, target, ids in zip(rows, targets, self.prefixes.read(targets, heads), strict=True):
            length = int(state.sources[row])
            embedded = self._embed(np.array([ids], dtype=np.int64), np.arange(len(ids))[None])
            cross = state.cross.data[:, :, row : row + 1, :, :length]
            weights = self.decoder.attention(embedded, cross, heads.layer, heads.heads, self.shapes)
            found.append(self.prefixes.pick(to_floats(weights), target, length, heads))
        return found
