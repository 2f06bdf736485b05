"""Verifier and drafters as fairseq2 modules: for training, for the reference forward pass and for beam search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import torch
from fairseq2.data_type import DataType
from fairseq2.device import Device
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
from fairseq2.models.transformer.attention_bias import (
    AttentionBias,
    AttentionBiasCache,
    CausalAttentionBias,
    IdentityBias,
)
from fairseq2.models.transformer.sdpa.naive import NaiveSDPA
from fairseq2.nn import (
    BatchLayout,
    SinusoidalPositionEncoder,
    StandardEmbedding,
    StandardLayerNorm,
    TiedProjection,
    init_scaled_embedding,
)
from torch import Tensor
from torch.nn import GELU, Dropout, Linear, Module, Parameter, ReLU, SiLU
from torch.nn.functional import linear
from typing_extensions import override

from specmt.engine.architecture import embedding_scale, sinusoids
from specmt.engine.weights import verifier_tables
from specmt.errors import UsageError
from specmt.models.config import DecoderConfig, DrafterConfig, NetworkConfig, VerifierConfig
from specmt.models.folder import VERIFIER, ModelFolder
from specmt.models.reference.weights import to_tensors
from specmt.types import PAD

EMBEDDING: Final = "decoder_frontend.embed.weight"
"""The name of the target's embedding table, under which a module has it even where the source shares it."""

_ACTIVATIONS: Final[Mapping[str, type[Module]]] = {"relu": ReLU, "swish": SiLU, "gelu": GELU}


class LayerFactory:
    """Builds the Transformer layers that verifier and drafters are made of.

    Device and gangs are always passed: without them fairseq2 initialises itself globally, which takes seconds.
    """

    def __init__(self, config: NetworkConfig, device: torch.device) -> None:
        self._config = config
        self._place: dict[str, Any] = {"device": device, "gangs": create_fake_gangs(device)}
        self._device = device
        order = TransformerNormOrder.POST if config.norm == "post" else TransformerNormOrder.PRE
        self._layer: dict[str, Any] = {"norm_order": order, "dropout_p": config.dropout, "device": device}

    def embedding(self, pieces: int | None = None) -> StandardEmbedding:
        """
        :param pieces: how many; by default those of the target
        """
        pieces = pieces or self._config.vocab_size
        return StandardEmbedding(
            pieces, self._config.model_dim, PAD, init_fn=init_scaled_embedding, device=self._device
        )

    def positions(self) -> SinusoidalPositionEncoder:
        width, length = self._config.model_dim, self._config.max_length
        encoder = SinusoidalPositionEncoder(width, length, device=self._device)
        encoder.freqs[1:] = torch.from_numpy(sinusoids(length, width, self._config))  # row 0 is padding's
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

    def encoder(self, num_layers: int) -> StandardTransformerEncoder:
        layers = [
            StandardTransformerEncoderLayer(
                self._attention(IdentityBias()), self._norm(), self._ffn(), self._norm(), **self._layer
            )
            for _ in range(num_layers)
        ]
        return StandardTransformerEncoder(layers, self._last_norm())

    def decoder(self, num_layers: int, self_attention_bias: AttentionBias) -> StandardTransformerDecoder:
        layers = [
            StandardTransformerDecoderLayer(
                self._attention(self_attention_bias),
                self._norm(),
                self._attention(IdentityBias()),
                self._norm(),
                self._ffn(),
                self._norm(),
                **self._layer,
            )
            for _ in range(num_layers)
        ]
        return StandardTransformerDecoder(layers, self._last_norm())

    def _attention(self, bias: AttentionBias) -> StandardMultiheadAttention:
        # Plain batched products: on short sentences the backward pass of the fused kernel takes a fifth of a step.
        sdpa = NaiveSDPA(bias)
        return StandardMultiheadAttention(self._config.model_dim, self._config.num_heads, sdpa, **self._place)

    def _ffn(self) -> StandardFeedForwardNetwork:
        config = self._config
        activation = _ACTIVATIONS[config.activation]()
        return StandardFeedForwardNetwork(
            config.model_dim, config.ffn_dim, bias=True, inner_activation=activation, **self._place
        )

    def _norm(self) -> StandardLayerNorm:
        return StandardLayerNorm(self._config.model_dim, bias=True, eps=self._config.norm_epsilon, device=self._device)

    def _last_norm(self) -> StandardLayerNorm | None:
        return None if self._config.norm == "post" else self._norm()


def create_verifier(config: VerifierConfig, device: torch.device | None = None) -> TransformerModel:
    """Builds a verifier with fresh weights (Vaswani et al. 2017).

    :raises UsageError: its decoder is one that fairseq2 does not have.
    """
    if config.decoder != "attention":
        raise UsageError(f"`decoder` must be attention for fairseq2, but is {config.decoder} instead.")
    device = device or torch.get_default_device()
    factory = LayerFactory(config, device)
    target = factory.frontend(factory.embedding())
    shared = config.source_vocab_size is None
    table = target.embed if config.tied_output else factory.embedding()
    bias = Parameter(torch.zeros(config.vocab_size, device=device)) if config.output_bias else None
    return TransformerModel(
        config.model_dim,
        target if shared else factory.frontend(factory.embedding(config.source_vocab_size)),
        factory.encoder(config.encoder_layers),
        target,
        factory.decoder(config.decoder_layers, CausalAttentionBias()),
        TiedProjection(cast(StandardEmbedding, table).weight, bias),
        PAD,
        config.max_length,
        config.max_length,
        device=device,
    )


def tie_weights(weights: Mapping[str, object]) -> dict[str, object]:
    """Returns weights by every name that tables have in a verifier, shared ones too."""
    tables = verifier_tables(weights)
    return {**weights, EMBEDDING: weights[tables.target], "final_proj.weight": weights[tables.output]}


def load_verifier_weights(model: TransformerModel, weights: Mapping[str, Tensor]) -> None:
    """Copies weights, each table under one name, into a verifier."""
    model.load_state_dict(tie_weights(weights))


def reference_of(folder: ModelFolder, device: torch.device) -> TransformerModel:
    """Returns the verifier of a model folder as fairseq2 modules with the same weights."""
    module = create_verifier(folder.verifier, device)
    load_verifier_weights(module, to_tensors(folder.weights(VERIFIER)))
    return module


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


class DrafterModule(Module):
    """What drafters have in common: a table of embeddings, and a shallow decoder over the encoder output."""

    def __init__(self, config: DecoderConfig, bias: AttentionBias, device: torch.device) -> None:
        super().__init__()
        factory = LayerFactory(config, device)
        self.embed = factory.embedding()
        self.places = factory.positions()
        self.scale = embedding_scale(config.model_dim, config)
        self.dropout = Dropout(config.dropout)
        self.decoder = factory.decoder(config.layers, bias)

    def embedded(self, tokens: Tensor) -> Tensor:
        """Returns the scaled embeddings (B, T, D) of ids (B, T)."""
        embedded: Tensor = self.embed(tokens)
        return embedded * self.scale


class MaskedDrafter(DrafterModule):
    """A shallow decoder over the encoder output that fills [MASK] slots in one pass.

    After Xia et al. 2023 (Speculative Decoding, section 3.1), with a shared encoder, a causal prefix that can be
    cached, and the correction by the tokens before a slot.
    """

    def __init__(self, config: DrafterConfig, device: torch.device) -> None:
        super().__init__(config, GivenBias(), device)
        self.config = config
        self.embed.requires_grad_(config.own_table)
        self.mask_embedding = Parameter(torch.randn(config.model_dim, device=device))
        self.correction = Correction(config.model_dim, config.correction_rank, device)

    @override
    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        slots: Tensor,
        bias: Tensor,
        encoded: Tensor,
        encoded_layout: BatchLayout,
    ) -> Tensor:
        """Returns the last hidden states of prefix tokens and slots, all in one sequence.

        :param tokens: (B, Q) ids; what stands under a slot is not looked at
        :param positions: (B, Q)
        :param slots: (B, Q) whether a place is a [MASK] slot
        :param bias: (B, 1, Q, Q) 0 where a query sees a key, −inf elsewhere
        :param encoded: (B, S, D)
        :returns: (B, Q, D)
        """
        embedded = self.embedded(tokens)
        states = torch.where(slots[:, :, None], self.mask_embedding, embedded)
        states = self.dropout(states + self.places.freqs[1 + positions])  # row 0 of the table is padding's
        cache = AttentionBiasCache()
        cache.set(GivenBias(), "tensor", bias)
        layout = BatchLayout.of(states)
        for layer in self.decoder.layers:
            states = layer(states, layout, encoded, encoded_layout, cache)
        return states if self.decoder.layer_norm is None else self.decoder.layer_norm(states)

    def logits(self, states: Tensor, previous: Tensor) -> Tensor:
        """Returns the logits (P, K, V) of blocks with hidden states (P, K, D) after the tokens (P, K) before them."""
        return linear(self.corrected(states, previous), self.embed.weight)

    def corrected(self, states: Tensor, previous: Tensor) -> Tensor:
        """Returns what the logits of blocks are made of, (P, K, D), from the same."""
        correction: Tensor = self.correction(states, self.embedded(previous))
        return states + correction


def create_drafter(config: DrafterConfig, device: torch.device | None = None) -> MaskedDrafter:
    """Builds a masked drafter with fresh weights."""
    return MaskedDrafter(config, device or torch.get_default_device())


class AutoregressiveDrafter(DrafterModule):
    """A shallow causal decoder over the encoder output, with a tied embedding table of its own.

    It is what the verifier's decoder is, but for the number of layers, so that the engine runs it by the same code.
    """

    def __init__(self, config: DecoderConfig, device: torch.device) -> None:
        super().__init__(config, CausalAttentionBias(), device)

    @override
    def forward(self, tokens: Tensor, encoded: Tensor, encoded_layout: BatchLayout) -> Tensor:
        """Returns the last hidden states of a teacher-forced batch.

        :param tokens: (B, T) ids, starting with BOS; what stands behind the end is seen by nobody before it
        :param encoded: (B, S, D)
        :returns: (B, T, D)
        """
        layout = BatchLayout.of(tokens)
        states = self.dropout(self.places(self.embedded(tokens), layout))
        return self.decoder(states, layout, encoded, encoded_layout)

    def logits(self, states: Tensor) -> Tensor:
        """Returns the logits (..., V) of the tokens that follow those with hidden states (..., D)."""
        return linear(states, self.embed.weight)


def create_autoregressive(config: DecoderConfig, device: torch.device | None = None) -> AutoregressiveDrafter:
    """Builds an autoregressive drafter with fresh weights."""
    return AutoregressiveDrafter(config, device or torch.get_default_device())
