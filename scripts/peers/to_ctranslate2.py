"""The verifier of a model folder as a CTranslate2 model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ctranslate2
import numpy as np

from specmt.engine.architecture import sinusoids
from specmt.engine.arrays import Floats
from specmt.engine.weights import floats
from specmt.models.folder import PIECES, VERIFIER, ModelFolder
from specmt.text.pieces import Pieces
from specmt.types import BOS, EOS, UNK


def write_ctranslate2(folder: ModelFolder, out: Path) -> None:
    """Writes the verifier of a model folder as a CTranslate2 model."""
    config = folder.verifier
    weights = {name: np.array(floats(weight)) for name, weight in folder.weights(VERIFIER).items()}
    spec = ctranslate2.specs.TransformerSpec.from_config(
        (config.encoder_layers, config.decoder_layers),
        config.num_heads,
        pre_norm=True,
        activation=ctranslate2.specs.common_spec.Activation.RELU,
    )
    table = weights["encoder_frontend.embed.weight"]
    spec.encoder.embeddings[0].weight = table  # scaled by the square root of its width where nothing else is said
    spec.decoder.embeddings.weight = table
    spec.decoder.projection.weight = table
    for name, stack in (("encoder", spec.encoder), ("decoder", spec.decoder)):
        stack.position_encodings.encodings = sinusoids(config.max_length, config.model_dim, config)
        _set_norm(stack.layer_norm, weights, f"{name}.layer_norm")
        for number, layer in enumerate(stack.layer):
            _set_layer(layer, weights, f"{name}.layers.{number}", cross=name == "decoder")

    pieces = Pieces(folder.verified(PIECES))
    vocabulary = pieces.pieces(range(len(pieces)))
    spec.register_source_vocabulary(vocabulary)
    spec.register_target_vocabulary(vocabulary)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = pieces.pieces([UNK, BOS, EOS])
    spec.config.decoder_start_token = spec.config.bos_token
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = 1e-5
    out.mkdir(parents=True, exist_ok=True)
    spec.validate()
    spec.optimize()
    spec.save(str(out))


def _set_layer(layer: Any, weights: Mapping[str, Floats], name: str, *, cross: bool) -> None:
    """Fills a layer, whose projections of the same input CTranslate2 keeps side by side."""
    attention = layer.self_attention
    _set_norm(attention.layer_norm, weights, f"{name}.self_attn_layer_norm")
    _set_linear(attention.linear[0], weights, *(f"{name}.self_attn.{part}_proj" for part in "qkv"))
    _set_linear(attention.linear[1], weights, f"{name}.self_attn.output_proj")
    if cross:
        attention = layer.attention
        _set_norm(attention.layer_norm, weights, f"{name}.encoder_decoder_attn_layer_norm")
        _set_linear(attention.linear[0], weights, f"{name}.encoder_decoder_attn.q_proj")
        _set_linear(attention.linear[1], weights, *(f"{name}.encoder_decoder_attn.{part}_proj" for part in "kv"))
        _set_linear(attention.linear[2], weights, f"{name}.encoder_decoder_attn.output_proj")
    _set_norm(layer.ffn.layer_norm, weights, f"{name}.ffn_layer_norm")
    _set_linear(layer.ffn.linear_0, weights, f"{name}.ffn.inner_proj")
    _set_linear(layer.ffn.linear_1, weights, f"{name}.ffn.output_proj")


def _set_linear(spec: Any, weights: Mapping[str, Floats], *names: str) -> None:
    spec.weight = np.concatenate([weights[f"{name}.weight"] for name in names])
    spec.bias = np.concatenate([weights[f"{name}.bias"] for name in names])


def _set_norm(spec: Any, weights: Mapping[str, Floats], name: str) -> None:
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]
