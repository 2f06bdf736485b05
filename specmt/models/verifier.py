"""The verifier as fairseq2 modules: used for training, for the reference forward pass and for beam search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import torch
from fairseq2.gang import create_fake_gangs
from fairseq2.models.transformer import (
    StandardFeedForwardNetwork,
    StandardMultiheadAttention,
    StandardTransformerDecoder,
    StandardTransformerDecoderLayer,
    StandardTransformerEncoder,
    StandardTransformerEncoderLayer,
    TransformerEmbeddingFrontend,
    TransformerModel,
    TransformerNormOrder,
)
from fairseq2.models.transformer.attention_bias import AttentionBias, CausalAttentionBias, IdentityBias
from fairseq2.models.transformer.sdpa.naive import NaiveSDPA
from fairseq2.nn import (
    SinusoidalPositionEncoder,
    StandardEmbedding,
    StandardLayerNorm,
    TiedProjection,
    init_scaled_embedding,
)
from torch import Tensor

from specmt.models.config import DecoderConfig, VerifierConfig
from specmt.types import PAD

EMBEDDING: Final = "encoder_frontend.embed.weight"
"""The name of the embedding table, which is also the output projection."""


class LayerFactory:
    """Builds the Transformer layers that verifier and drafters are made of.

    Device and gangs are always passed: without them fairseq2 initialises itself globally, which takes seconds.
    """

    def __init__(self, config: VerifierConfig | DecoderConfig, device: torch.device) -> None:
        self._config = config
        self._place: dict[str, Any] = {"device": device, "gangs": create_fake_gangs(device)}
        self._device = device

    def embedding(self) -> StandardEmbedding:
        config = self._config
        return StandardEmbedding(
            config.vocab_size, config.model_dim, PAD, init_fn=init_scaled_embedding, device=self._device
        )

    def positions(self) -> SinusoidalPositionEncoder:
        return SinusoidalPositionEncoder(self._config.model_dim, self._config.max_length, device=self._device)

    def frontend(self, embed: StandardEmbedding) -> TransformerEmbeddingFrontend:
        config = self._config
        return TransformerEmbeddingFrontend(
            config.model_dim, embed, self.positions(), dropout_p=config.dropout, device=self._device
        )

    def norm(self) -> StandardLayerNorm:
        return StandardLayerNorm(self._config.model_dim, bias=True, device=self._device)

    def attention(self, bias: AttentionBias) -> StandardMultiheadAttention:
        # Plain batched products: on short sentences the backward pass of the fused kernel takes a fifth of a step.
        sdpa = NaiveSDPA(bias)
        return StandardMultiheadAttention(self._config.model_dim, self._config.num_heads, sdpa, **self._place)

    def ffn(self) -> StandardFeedForwardNetwork:
        return StandardFeedForwardNetwork(self._config.model_dim, self._config.ffn_dim, bias=True, **self._place)

    def encoder(self, num_layers: int) -> StandardTransformerEncoder:
        layers = [
            StandardTransformerEncoderLayer(
                self.attention(IdentityBias()),
                self.norm(),
                self.ffn(),
                self.norm(),
                norm_order=TransformerNormOrder.PRE,
                dropout_p=self._config.dropout,
                device=self._device,
            )
            for _ in range(num_layers)
        ]
        return StandardTransformerEncoder(layers, self.norm())

    def decoder(self, num_layers: int, self_attention_bias: AttentionBias) -> StandardTransformerDecoder:
        layers = [
            StandardTransformerDecoderLayer(
                self.attention(self_attention_bias),
                self.norm(),
                self.attention(IdentityBias()),
                self.norm(),
                self.ffn(),
                self.norm(),
                norm_order=TransformerNormOrder.PRE,
                dropout_p=self._config.dropout,
                device=self._device,
            )
            for _ in range(num_layers)
        ]
        return StandardTransformerDecoder(layers, self.norm())


def create_verifier(config: VerifierConfig, device: torch.device | None = None) -> TransformerModel:
    """Builds a verifier with fresh weights (Vaswani et al. 2017, pre-norm, tied embeddings)."""
    device = device or torch.get_default_device()
    factory = LayerFactory(config, device)
    embed = factory.embedding()
    frontend = factory.frontend(embed)
    return TransformerModel(
        config.model_dim,
        frontend,
        factory.encoder(config.encoder_layers),
        frontend,
        factory.decoder(config.decoder_layers, CausalAttentionBias()),
        TiedProjection(embed.weight, bias=None),
        PAD,
        config.max_length,
        config.max_length,
        device=device,
    )


def tie_weights(weights: Mapping[str, Tensor]) -> dict[str, object]:
    """Returns weights by every name that the tied embedding table has in a verifier, in float32."""
    table = weights[EMBEDDING]
    tied = {"decoder_frontend.embed.weight": table, "final_proj.weight": table}
    return {name: tensor.float() for name, tensor in {**weights, **tied}.items()}


def load_verifier_weights(model: TransformerModel, weights: Mapping[str, Tensor]) -> None:
    """Copies weights, with the embedding table under one name, into a verifier."""
    model.load_state_dict(tie_weights(weights))
