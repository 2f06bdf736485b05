"""The verifier as fairseq2 modules: used for training, for the reference forward pass and for beam search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

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
    Projection,
    SinusoidalPositionEncoder,
    StandardEmbedding,
    StandardLayerNorm,
    TiedProjection,
    init_scaled_embedding,
)
from torch import Tensor
from torch.nn import GELU, Module, Parameter, ReLU, SiLU

from specmt.engine.transformer import sinusoids, verifier_tables
from specmt.models.config import DecoderConfig, VerifierConfig
from specmt.types import PAD

EMBEDDING: Final = "decoder_frontend.embed.weight"
"""The name of the target's embedding table, under which a module has it even where the source shares it."""

_ACTIVATIONS: Final[Mapping[str, type[Module]]] = {"relu": ReLU, "swish": SiLU, "gelu": GELU}


class LayerFactory:
    """Builds the Transformer layers that verifier and drafters are made of.

    Device and gangs are always passed: without them fairseq2 initialises itself globally, which takes seconds.
    """

    def __init__(self, config: VerifierConfig | DecoderConfig, device: torch.device) -> None:
        self._config = config
        self._place: dict[str, Any] = {"device": device, "gangs": create_fake_gangs(device)}
        self._device = device

    def embedding(self, pieces: int | None = None) -> StandardEmbedding:
        """
        :param pieces: how many; by default those of the target
        """
        width = self._config.model_dim
        pieces = pieces or self._config.vocab_size
        return StandardEmbedding(pieces, width, PAD, init_fn=init_scaled_embedding, device=self._device)

    def positions(self) -> SinusoidalPositionEncoder:
        width, length = self._config.model_dim, self._config.max_length
        encoder = SinusoidalPositionEncoder(width, length, device=self._device)
        encoder.freqs[1:] = sinusoids(length, width, self._config)  # row 0 is padding's
        return encoder

    def frontend(self, embed: StandardEmbedding) -> TransformerEmbeddingFrontend:
        config = self._config
        return TransformerEmbeddingFrontend(
            config.model_dim,
            embed,
            self.positions(),
            no_scale=not config.scaled_embedding,
            dropout_p=config.dropout,
            device=self._device,
        )

    def norm(self) -> StandardLayerNorm:
        return StandardLayerNorm(self._config.model_dim, bias=True, device=self._device)

    def attention(self, bias: AttentionBias) -> StandardMultiheadAttention:
        # Plain batched products: on short sentences the backward pass of the fused kernel takes a fifth of a step.
        sdpa = NaiveSDPA(bias)
        return StandardMultiheadAttention(self._config.model_dim, self._config.num_heads, sdpa, **self._place)

    def ffn(self) -> StandardFeedForwardNetwork:
        config = self._config
        activation = _ACTIVATIONS[config.activation]()
        return StandardFeedForwardNetwork(
            config.model_dim, config.ffn_dim, bias=True, inner_activation=activation, **self._place
        )

    @property
    def _order(self) -> TransformerNormOrder:
        return TransformerNormOrder.POST if self._config.norm == "post" else TransformerNormOrder.PRE

    def _last_norm(self) -> StandardLayerNorm | None:
        return None if self._config.norm == "post" else self.norm()

    def encoder(self, num_layers: int) -> StandardTransformerEncoder:
        layers = [
            StandardTransformerEncoderLayer(
                self.attention(IdentityBias()),
                self.norm(),
                self.ffn(),
                self.norm(),
                norm_order=self._order,
                dropout_p=self._config.dropout,
                device=self._device,
            )
            for _ in range(num_layers)
        ]
        return StandardTransformerEncoder(layers, self._last_norm())

    def decoder(self, num_layers: int, self_attention_bias: AttentionBias) -> StandardTransformerDecoder:
        layers = [
            StandardTransformerDecoderLayer(
                self.attention(self_attention_bias),
                self.norm(),
                self.attention(IdentityBias()),
                self.norm(),
                self.ffn(),
                self.norm(),
                norm_order=self._order,
                dropout_p=self._config.dropout,
                device=self._device,
            )
            for _ in range(num_layers)
        ]
        return StandardTransformerDecoder(layers, self._last_norm())


def create_verifier(config: VerifierConfig, device: torch.device | None = None) -> TransformerModel:
    """Builds a verifier with fresh weights (Vaswani et al. 2017)."""
    device = device or torch.get_default_device()
    factory = LayerFactory(config, device)
    target = factory.frontend(factory.embedding())
    shared = config.source_vocab_size is None
    return TransformerModel(
        config.model_dim,
        target if shared else factory.frontend(factory.embedding(config.source_vocab_size)),
        factory.encoder(config.encoder_layers),
        target,
        factory.decoder(config.decoder_layers, CausalAttentionBias()),
        _projection(config, factory, target, device),
        PAD,
        config.max_length,
        config.max_length,
        device=device,
    )


def _projection(
    config: VerifierConfig, factory: LayerFactory, target: TransformerEmbeddingFrontend, device: torch.device
) -> Projection:
    table = target.embed if config.tied_output else factory.embedding()
    bias = Parameter(torch.zeros(config.vocab_size, device=device)) if config.output_bias else None
    return TiedProjection(cast(StandardEmbedding, table).weight, bias)


def tie_weights(weights: Mapping[str, Tensor]) -> dict[str, object]:
    """Returns weights by every name that tables have in a verifier, shared ones too, in float32."""
    tables = verifier_tables(weights)
    tied = {"decoder_frontend.embed.weight": tables.target, "final_proj.weight": tables.output}
    return {name: tensor.float() for name, tensor in {**weights, **tied}.items()}


def load_verifier_weights(model: TransformerModel, weights: Mapping[str, Tensor]) -> None:
    """Copies weights, each table under one name, into a verifier."""
    model.load_state_dict(tie_weights(weights))
