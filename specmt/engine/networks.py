"""Verifier and masked drafter on PyTorch: they run everywhere and are what the C++ kernels are checked against."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specmt.engine.backend import Memory, Sizes, State
from specmt.engine.cache import CrossCache, KVCache, round_up
from specmt.engine.chain import Correction, best_chain
from specmt.engine.linear import Linear
from specmt.engine.transformer import Decoder, Embedding, Encoder, Weights
from specmt.types import EOS, PAD


class _Network:
    """What verifier and drafter have in common: embeddings, a decoder and a projection to the vocabulary."""

    def __init__(self, weights: Weights, table: Tensor, sizes: Sizes) -> None:
        self.sizes = sizes
        self.embed = Embedding(table, sizes.max_length)
        self.decoder = Decoder(weights, "decoder", sizes.decoder_layers, sizes.heads)
        self.project = Linear(table, None)
        self.width, self.dtype, self.device = table.shape[1], table.dtype, table.device

    def new_state(self, rows: int) -> State:
        """Returns empty caches for a number of rows."""
        shape = (self.sizes.decoder_layers, rows, self.sizes.heads, self.width // self.sizes.heads)
        return State(
            KVCache(*shape, dtype=self.dtype, device=self.device),
            CrossCache(*shape, dtype=self.dtype, device=self.device),
        )

    def start(self, state: State, rows: Tensor, memory: Memory) -> None:
        """Gives rows (B') new sentences with the verifier's memory (B', S, D) of them."""
        state.cross.fill(rows, self.decoder.cross(memory.states), memory.lengths)

    def _clamp(self, positions: Tensor) -> Tensor:
        # A window may reach past the last position; what lies there is never committed.
        return positions.clamp(max=self.sizes.max_length - 1)


class VerifierNetwork(_Network):
    """The verifier (names of weights as in the fairseq2 model)."""

    def __init__(self, weights: Weights, sizes: Sizes) -> None:
        super().__init__(weights, weights["encoder_frontend.embed.weight"], sizes)
        self.encoder = Encoder(weights, "encoder", sizes.encoder_layers, sizes.heads)

    def encode(self, sources: Sequence[Sequence[int]]) -> Memory:
        """Returns the memory (B, S, D) of sources given as ids without EOS."""
        lengths = torch.tensor([len(source) + 1 for source in sources])
        width = round_up(int(lengths.max()))
        ids = torch.tensor([[*source, EOS, *[PAD] * (width - len(source) - 1)] for source in sources])
        ids, lengths = ids.to(self.device), lengths.to(self.device)
        positions = torch.arange(width, device=self.device).expand(len(sources), -1)
        return Memory(self.encoder(self.embed(ids, self._clamp(positions)), lengths), lengths)

    def score(self, tokens: Tensor, starts: Tensor, state: State) -> Tensor:
        """Runs a window and returns the logits of what follows each of its tokens.

        :param tokens: (B', W) the last committed token and the draft, for the first B' rows of the state
        :param starts: (B') the position of the first
        :returns: (B', W, V)
        """
        positions = starts[:, None] + torch.arange(tokens.shape[1], device=tokens.device)
        embedded = self.embed(tokens, self._clamp(positions))
        hidden = self.decoder(embedded, positions, positions, state.cache, state.cross)
        return self.project(hidden)


class DrafterNetwork(_Network):
    """The masked drafter: committed tokens run causally and are cached, [MASK] slots see them and each other.

    A slot predicts the token at its own position. What was chosen at earlier slots corrects the scores of its best
    candidates (specmt.engine.chain).
    """

    def __init__(self, weights: Weights, sizes: Sizes) -> None:
        super().__init__(weights, weights["embed.weight"], sizes)
        self.mask_embedding = weights["mask_embedding"]  # (D)
        self.correction = Correction(weights, weights["embed.weight"])

    def propose(
        self, tokens: Tensor, starts: Tensor, counts: Tensor, block_size: int, state: State
    ) -> tuple[Tensor, Tensor]:
        """Reads newly committed tokens into the cache and drafts a block after them.

        :param tokens: (B', M) tokens committed since the last call, padded on the right
        :param starts: (B') the position of the first of them
        :param counts: (B') how many there are, at least 1
        :returns: drafted tokens (B', K) and their log-probabilities (B', K)
        """
        widest = tokens.shape[1]
        offsets = torch.arange(widest + block_size, device=tokens.device)
        positions = starts[:, None] + offsets  # (B', W)
        ends = counts[:, None] + block_size
        slot = (offsets >= counts[:, None]) & (offsets < ends)
        embedded = self.embed(torch.nn.functional.pad(tokens, (0, block_size)), self._clamp(positions))
        places = torch.nn.functional.embedding(self._clamp(positions), self.embed.positions)
        embedded = torch.where(slot[:, :, None], self.mask_embedding + places, embedded)
        limits = torch.where(slot, starts[:, None] + ends - 1, positions)
        hidden = self.decoder(embedded, positions, limits, state.cache, state.cross)
        slots = counts[:, None] + torch.arange(block_size, device=tokens.device)  # (B', K)
        hidden = hidden.gather(1, slots[:, :, None].expand(-1, -1, self.width))
        last = tokens.gather(1, counts[:, None] - 1)[:, 0]
        return best_chain(self.project(hidden), hidden, last, self.correction)
