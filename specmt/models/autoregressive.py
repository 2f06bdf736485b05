"""The autoregressive drafter as a fairseq2 module: used for training and as the reference forward pass."""

from __future__ import annotations

import torch
from fairseq2.models.transformer.attention_bias import CausalAttentionBias
from fairseq2.nn import BatchLayout
from torch import Tensor
from torch.nn import Dropout, Module
from torch.nn.functional import linear
from typing_extensions import override

from specmt.engine.transformer import embedding_scale
from specmt.models.config import AutoregressiveConfig
from specmt.models.verifier import LayerFactory


class AutoregressiveDrafter(Module):
    """A shallow causal decoder over the verifier's encoder memory, with a tied embedding table of its own.

    It is what the verifier's decoder is, but for the number of layers, so that the engine runs it by the same code.
    """

    def __init__(self, config: AutoregressiveConfig, device: torch.device) -> None:
        super().__init__()
        factory = LayerFactory(config, device)
        self.config = config
        self.embed = factory.embedding()
        self.places = factory.positions()
        self.scale = embedding_scale(config.model_dim, config)
        self.dropout = Dropout(config.dropout)
        self.decoder = factory.decoder(config.layers, CausalAttentionBias())

    @override
    def forward(self, tokens: Tensor, memory: Tensor, memory_layout: BatchLayout) -> Tensor:
        """Returns the last hidden states of a teacher-forced batch.

        :param tokens: (B, T) ids, starting with BOS; what stands behind the end is seen by nobody before it
        :param memory: (B, S, D)
        :returns: (B, T, D)
        """
        layout = BatchLayout.of(tokens)
        embedded = self.embed(tokens) * self.scale
        return self.decoder(self.dropout(self.places(embedded, layout)), layout, memory, memory_layout)

    def logits(self, states: Tensor) -> Tensor:
        """Returns the logits (..., V) of the tokens that follow those with hidden states (..., D)."""
        return linear(states, self.embed.weight)


def create_autoregressive(config: AutoregressiveConfig, device: torch.device | None = None) -> AutoregressiveDrafter:
    """Builds an autoregressive drafter with fresh weights."""
    return AutoregressiveDrafter(config, device or torch.get_default_device())
