"""The masked drafter as a fairseq2 module: used for training and as the reference forward pass."""

from __future__ import annotations

import math

import torch
from fairseq2.data_type import DataType
from fairseq2.device import Device
from fairseq2.models.transformer.attention_bias import AttentionBias, AttentionBiasCache
from fairseq2.nn import BatchLayout
from torch import Tensor
from torch.nn import Dropout, Embedding, Module, Parameter
from torch.nn.functional import linear
from typing_extensions import override

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
    """The low-rank effect of the token at one position on the logits of the next."""

    def __init__(self, vocab_size: int, rank: int, device: torch.device) -> None:
        super().__init__()
        self.previous = Embedding(vocab_size, rank, device=device)
        self.following = Embedding(vocab_size, rank, device=device)
        torch.nn.init.normal_(self.previous.weight, std=rank**-0.5)
        torch.nn.init.zeros_(self.following.weight)

    @override
    def forward(self, previous: Tensor) -> Tensor:
        """Returns what to add to the logits (P, V) after previous tokens (P)."""
        return linear(self.previous(previous), self.following.weight)


class MaskedDrafter(Module):
    """A shallow decoder over the verifier's encoder memory that fills [MASK] slots in one pass.

    After Xia et al. 2023 (Speculative Decoding, section 3.1), with a shared encoder, a causal prefix that can be
    cached, and the previous-token correction.
    """

    def __init__(self, config: DrafterConfig, device: torch.device) -> None:
        super().__init__()
        factory = LayerFactory(config, device)
        self.config = config
        self.embed = factory.embedding()
        self.places = factory.positions()
        self.dropout = Dropout(config.dropout)
        self.decoder = factory.decoder(config.layers, GivenBias())
        self.mask_embedding = Parameter(torch.randn(config.model_dim, device=device))
        self.correction = Correction(config.vocab_size, config.correction_rank, device)

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
        embedded = self.embed(tokens) * math.sqrt(self.config.model_dim)
        states = torch.where(slots[:, :, None], self.mask_embedding, embedded)
        states = self.dropout(states + self.places.freqs[1 + positions])  # row 0 of the table is padding's
        cache = AttentionBiasCache()
        cache.set(GivenBias(), "tensor", bias)
        layout = BatchLayout.of(states)
        for layer in self.decoder.layers:
            states = layer(states, layout, memory, memory_layout, cache)
        return states if self.decoder.layer_norm is None else self.decoder.layer_norm(states)

    def logits(self, states: Tensor, previous: Tensor) -> Tensor:
        """Returns the logits (P, V) of slots with hidden states (P, D) after the tokens (P) before them."""
        correction: Tensor = self.correction(previous)
        return linear(states, self.embed.weight) + correction


def create_drafter(config: DrafterConfig, device: torch.device | None = None) -> MaskedDrafter:
    """Builds a masked drafter with fresh weights."""
    return MaskedDrafter(config, device or torch.get_default_device())
