"""Verifier and masked drafter for inference: ids in, logits or candidates out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specmt.engine.cache import CrossCache, KVCache, round_up
from specmt.engine.linear import Linear
from specmt.engine.transformer import Decoder, Embedding, Encoder, Weights
from specmt.types import EOS, PAD


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of a network that its weights do not tell."""

    heads: int
    encoder_layers: int
    decoder_layers: int
    max_length: int


@dataclass
class State:
    """The caches of B rows of one decoder."""

    cache: KVCache
    cross: CrossCache

    def move(self, source: int, target: int) -> None:
        """Copies one row over another."""
        self.cache.move(source, target)
        self.cross.move(source, target)


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

    def start(self, state: State, rows: Tensor, memory: Tensor, lengths: Tensor) -> None:
        """Gives rows (B') new sentences with encoder memory (B', S, D) and source lengths (B')."""
        state.cross.fill(rows, self.decoder.cross(memory), lengths)

    def _clamp(self, positions: Tensor) -> Tensor:
        # A window may reach past the last position; what lies there is never committed.
        return positions.clamp(max=self.sizes.max_length - 1)


class VerifierNetwork(_Network):
    """The verifier (names of weights as in the fairseq2 model)."""

    def __init__(self, weights: Weights, sizes: Sizes) -> None:
        super().__init__(weights, weights["encoder_frontend.embed.weight"], sizes)
        self.encoder = Encoder(weights, "encoder", sizes.encoder_layers, sizes.heads)

    def encode(self, sources: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Returns the memory (B, S, D) of sources given as ids without EOS, and their lengths (B) with EOS."""
        lengths = torch.tensor([len(source) + 1 for source in sources])
        width = round_up(int(lengths.max()))
        ids = torch.tensor([[*source, EOS, *[PAD] * (width - len(source) - 1)] for source in sources])
        ids, lengths = ids.to(self.device), lengths.to(self.device)
        positions = torch.arange(width, device=self.device).expand(len(sources), -1)
        return self.encoder(self.embed(ids, self._clamp(positions)), lengths), lengths

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

    A slot predicts the token at its own position. The logits of slot j gain a low-rank term for the token chosen at
    j − 1, applied to each slot's best candidates only.
    """

    CANDIDATES = 16

    def __init__(self, weights: Weights, sizes: Sizes) -> None:
        super().__init__(weights, weights["embed.weight"], sizes)
        self.mask_embedding = weights["mask_embedding"]  # (D)
        self.previous = weights["correction.previous.weight"]  # (V, R)
        self.following = weights["correction.following.weight"]  # (V, R)

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
        last = tokens.gather(1, counts[:, None] - 1)  # (B', 1)
        return self.chain(self.project(hidden), last)

    def chain(self, logits: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the chain of best tokens under the previous-token correction, and their log-probabilities.

        :param logits: (B', K, V) of the slots
        :param last: (B', 1) the last committed token
        """
        block_size = logits.shape[1]
        values, candidates = logits.float().topk(min(self.CANDIDATES, logits.shape[2]), dim=2)  # (B', K, C)
        following = self.following[candidates].float()  # (B', K, C, R)
        if block_size > 1:
            previous = self.previous[candidates[:, :-1]].float()
            links = torch.matmul(previous, following[:, 1:].transpose(2, 3))  # (B', K − 1, C, C)
            links = (links + values[:, 1:, None, :]).log_softmax(3)
            best, choice = links.max(3)  # (B', K − 1, C): after each candidate, the best of the next slot
        first = torch.matmul(following[:, 0], self.previous[last[:, 0]].float()[:, :, None])[:, :, 0] + values[:, 0]
        log_prob, index = first.log_softmax(1).max(1, keepdim=True)  # (B', 1)
        indices, log_probs = [index], [log_prob]
        for slot in range(block_size - 1):
            log_probs.append(best[:, slot].gather(1, indices[-1]))
            indices.append(choice[:, slot].gather(1, indices[-1]))
        chosen = torch.cat(indices, dim=1)  # (B', K)
        return candidates.gather(2, chosen[:, :, None])[:, :, 0], torch.cat(log_probs, dim=1)
