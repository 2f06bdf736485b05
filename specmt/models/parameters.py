"""The names and shapes of the weights that a configuration calls for."""

from __future__ import annotations

from collections.abc import Mapping

from specmt.models.config import DecoderConfig, DrafterConfig, VerifierConfig

Shapes = dict[str, tuple[int, ...]]


def verifier_shapes(config: VerifierConfig) -> Shapes:
    """Returns the weights of a verifier, each table once."""
    table = (config.vocab_size, config.model_dim)
    shapes: Shapes = {"encoder_frontend.embed.weight": (config.source_pieces, config.model_dim)}
    if config.source_vocab_size is not None:
        shapes["decoder_frontend.embed.weight"] = table
    if not config.tied_output:
        shapes["final_proj.weight"] = table
    if config.output_bias:
        shapes["final_proj.bias"] = (config.vocab_size,)
    return {
        **shapes,
        **_stack("encoder", config.encoder_layers, config, cross=False),
        **_stack("decoder", config.decoder_layers, config, cross=True),
    }


def drafter_shapes(config: DecoderConfig) -> Shapes:
    """Returns the weights of a drafter of either kind, without a table that is the verifier's."""
    shapes = {
        "embed.weight": (config.vocab_size, config.model_dim),
        **_stack("decoder", config.layers, config, cross=True),
    }
    if isinstance(config, DrafterConfig):
        if not config.own_table:
            del shapes["embed.weight"]
        inputs, outputs = 2 * config.model_dim + config.correction_rank, 2 * config.correction_rank
        shapes |= {"mask_embedding": (config.model_dim,), **_linear("correction.gates", inputs, outputs)}
        shapes["correction.output.weight"] = (config.model_dim, config.correction_rank)
    return shapes


def find_misfit(wanted: Mapping[str, tuple[int, ...]], actual: Mapping[str, tuple[int, ...]]) -> str | None:
    """Returns what is wrong with the first weight that is missing, of another shape or not called for."""
    for name in [*wanted, *actual]:
        if wanted.get(name) != actual.get(name):
            return f"{name} must be {_describe(wanted.get(name))}, but is {_describe(actual.get(name))} instead"
    return None


def _describe(shape: tuple[int, ...] | None) -> str:
    return "absent" if shape is None else " × ".join(map(str, shape))


def _stack(name: str, layers: int, config: VerifierConfig | DecoderConfig, *, cross: bool) -> Shapes:
    width = config.model_dim
    shapes = _norm(f"{name}.layer_norm", width) if config.norm == "pre" else {}
    for number in range(layers):
        layer = f"{name}.layers.{number}"
        if cross and config.decoder == "ssru":
            shapes |= {f"{layer}.ssru.input_proj.weight": (width, width)}
            shapes |= _linear(f"{layer}.ssru.forget_proj", width, width)
        else:
            shapes |= _attention(f"{layer}.self_attn", width)
        shapes |= _norm(f"{layer}.self_attn_layer_norm", width)
        if cross:
            shapes |= _attention(f"{layer}.encoder_decoder_attn", width)
            shapes |= _norm(f"{layer}.encoder_decoder_attn_layer_norm", width)
        shapes |= _linear(f"{layer}.ffn.inner_proj", width, config.ffn_dim)
        shapes |= _linear(f"{layer}.ffn.output_proj", config.ffn_dim, width)
        shapes |= _norm(f"{layer}.ffn_layer_norm", width)
    return shapes


def _attention(name: str, width: int) -> Shapes:
    shapes: Shapes = {}
    for part in ("q_proj", "k_proj", "v_proj", "output_proj"):
        shapes |= _linear(f"{name}.{part}", width, width)
    return shapes


def _linear(name: str, inputs: int, outputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _norm(name: str, width: int) -> Shapes:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}
