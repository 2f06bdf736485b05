"""The masked drafter as a fairseq2 module: used for training and as the reference forward pass."""

from __future__ import annotations

import torch
from fairseq2.data_type import DataType
from fairseq2.device import Device
from fairseq2.models.transformer.attention_bias import AttentionBias, AttentionBiasCache
from fairseq2.nn import BatchLayout
from torch import Tensor
from torch.nn import Dropout, Linear, Module, Parameter
from torch.nn.functional import linear
from typing_extensions import override

from specmt.engine.transformer import embedding_scale
from specmt.models.config import DrafterConfig
from specmt.models.verifier import LayerFactory


class GivenBias(AttentionBias):
    """Stands for an attention bias that the caller puts into the cache."""

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, GivenBias)

    @override
    def __hash__(self) -> int:
        return hash("given")

    @override
    def create_bias_tensor(self, q_len: int, k_len: int, device: Device, dtype: DataType) -> Tensor:
        raise RuntimeError("The attention bias must be put into the cache before the layer runs.")


class Correction(Module):
    """The effect of the tokens chosen at earlier slots on the next: a small recurrent state that is added to it.

    Slots are filled independently, so that neighbours may repeat each other or mix two translations. With hidden
    state h, the embedding e of the token before it, and the state s left by the slot before (0 at first):
    z, n = W [h; e; s] + b;  s ← s + σ(z) (tanh(n) − s);  the slot's logits are those of h + U s.
    """

    def __init__(self, width: int, rank: int, device: torch.device) -> None:
        super().__init__()
        self.rank = rank
        self.gates = Linear(2 * width + rank, 2 * rank, bias=True, device=device)
        self.output = Linear(rank, width, bias=False, device=device)
        torch.nn.init.zeros_(self.output.weight)

    @override
    def forward(self, hidden: Tensor, embedded: Tensor) -> Tensor:
        """Returns what to add to the hidden states of whole blocks.

        :param hidden: (P, K, D)
        :param embedded: (P, K, D) the embeddings of the tokens before them
        :returns: (P, K, D)
        """
        inputs = 2 * hidden.shape[2]
        weight = self.gates.weight
        known = linear(torch.cat([hidden, embedded], dim=2), weight[:, :inputs], self.gates.bias)  # (P, K, 2 R)
        state = hidden.new_zeros(len(hidden), self.rank)
        states = []
        for slot in range(hidden.shape[1]):
            gate, new = (known[:, slot] + linear(state, weight[:, inputs:])).chunk(2, dim=1)
            state = torch.lerp(state.to(new.dtype), new.tanh(), gate.sigmoid())
            states.append(state)
        return linear(torch.stack(states, dim=1), self.output.weight)


class MaskedDrafter(Module):
    """A shallow decoder over the verifier's encoder memory that fills [MASK] slots in one pass.

    After Xia et al. 2023 (Speculative Decoding, section 3.1), with a shared encoder, a causal prefix that can be
    cached, and the correction by the tokens before a slot.
    """

    def __init__(self, config: DrafterConfig, device: torch.device) -> None:
        super().__init__()
        factory = LayerFactory(config, device)
        self.config = config
        self.embed = factory.embedding()
        self.places = factory.positions()
        self.scale = embedding_scale(config.model_dim, config)
        self.dropout = Dropout(config.dropout)
        self.decoder = factory.decoder(config.layers, GivenBias())
        self.mask_embedding = Parameter(torch.randn(config.model_dim, device=device))
        self.correction = Correction(config.model_dim, config.correction_rank, device)

    @override
    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        slots: Tensor,
        bias: Tensor,
        memory: Tensor,
        memory_layout: BatchLayout,
    ) -> Tensor:
        """Returns the last hidden states of prefix tokens and slots, all in one sequence.

        :param tokens: (B, Q) ids; what stands under a slot is not looked at
        :param positions: (B, Q)
        :param slots: (B, Q) whether a place is a [MASK] slot
        :param bias: (B, 1, Q, Q) 0 where a query sees a key, −inf elsewhere
        :param memory: (B, S, D)
        :returns: (B, Q, D)
        """
        embedded = self._embedded(tokens)
        states = torch.where(slots[:, :, None], self.mask_embedding, embedded)
        states = self.dropout(states + self.places.freqs[1 + positions])  # row 0 of the table is padding's
        cache = AttentionBiasCache()
        cache.set(GivenBias(), "tensor", bias)
        layout = BatchLayout.of(states)
        for layer in self.decoder.layers:
            states = layer(states, layout, memory, memory_layout, cache)
        return states if self.decoder.layer_norm is None else self.decoder.layer_norm(states)

    def logits(self, states: Tensor, previous: Tensor) -> Tensor:
        """Returns the logits (P, K, V) of blocks with hidden states (P, K, D) after the tokens (P, K) before them."""
        correction: Tensor = self.correction(states, self._embedded(previous))
        return linear(states + correction, self.embed.weight)

    def _embedded(self, tokens: Tensor) -> Tensor:
        embedded: Tensor = self.embed(tokens)
        return embedded * self.scale


def create_drafter(config: DrafterConfig, device: torch.device | None = None) -> MaskedDrafter:
    """Builds a masked drafter with fresh weights."""
    return MaskedDrafter(config, device or torch.get_default_device())
