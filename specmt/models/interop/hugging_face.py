"""The layout of encoder-decoder models at Hugging Face: names of weights, settings of generation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from specmt.engine.transformer import sinusoids
from specmt.errors import ModelError
from specmt.models.config import VerifierConfig
from specmt.models.interop.checkpoint import Checkpoint
from specmt.models.interop.foreign import OUTPUT_BIAS, OUTPUT_TABLE, SOURCE_TABLE, TARGET_TABLE
from specmt.models.interop.source import read_json

CONFIG: Final = "config.json"
GENERATION: Final = "generation_config.json"
TOKENIZER: Final = "tokenizer_config.json"

_PARTS: Final = {
    ".self_attn.output_proj.": ".self_attn.out_proj.",
    ".encoder_decoder_attn_layer_norm.": ".encoder_attn_layer_norm.",
    ".encoder_decoder_attn.output_proj.": ".encoder_attn.out_proj.",
    ".encoder_decoder_attn.": ".encoder_attn.",
    ".ffn_layer_norm.": ".final_layer_norm.",
    ".ffn.inner_proj.": ".fc1.",
    ".ffn.output_proj.": ".fc2.",
}
"""What they call the parts of a layer, where they have other names, longer names of ours first."""

_SHARED: Final = "model.shared.weight"
_ENCODER: Final = "model.encoder.embed_tokens.weight"
_DECODER: Final = "model.decoder.embed_tokens.weight"
_HEAD: Final = "lm_head.weight"
_BIAS: Final = "final_logits_bias"

_TABLES: Final = {
    # Of weights that are one and the same, a file may have any.
    SOURCE_TABLE: (_SHARED, _ENCODER, _DECODER, _HEAD),
    TARGET_TABLE: (_DECODER, _HEAD),
    OUTPUT_TABLE: (_HEAD,),
}

_NEUTRAL: Final[Mapping[str, tuple[object, ...]]] = {
    "begin_suppress_tokens": (None, []),
    "encoder_no_repeat_ngram_size": (None, 0),
    "encoder_repetition_penalty": (None, 1, 1.0),
    "exponential_decay_length_penalty": (None,),
    "min_length": (None, 0),
    "min_new_tokens": (None, 0),
    "no_repeat_ngram_size": (None, 0),
    "repetition_penalty": (None, 1, 1.0),
    "sequence_bias": (None, []),
}
"""Settings that change what greedy decoding says, with the values that do not."""


def read_weight(checkpoint: Checkpoint, name: str, *, shared: bool = True) -> Tensor | None:
    """Returns a weight by our name; ``None`` for an output bias that is not there.

    :param shared: whether source and target have one table of embeddings
    :raises ModelError: another weight is not there, or cannot be read.
    """
    if name == OUTPUT_BIAS:
        return checkpoint.read(_BIAS) if _BIAS in checkpoint else None
    if name == SOURCE_TABLE and not shared:
        return checkpoint.read(_ENCODER)
    if name in _TABLES:
        return checkpoint.read(*_TABLES[name])
    return checkpoint.read(their_name(name))


def their_name(name: str) -> str:
    """Returns what they call a weight of a layer, or of the norm behind a stack."""
    for ours, theirs in _PARTS.items():
        if ours in name:
            return f"model.{name.replace(ours, theirs)}"
    return f"model.{name}"


def check_positions(checkpoint: Checkpoint, config: VerifierConfig) -> None:
    """Checks that positions, if the weights have them, are the sinusoids that are computed here, up to rounding.

    :raises ModelError: they are not.
    """
    for name in ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"):
        if name in checkpoint:
            table = checkpoint.read(name).float()
            wanted = sinusoids(len(table), config.model_dim, config)
            if table.shape != wanted.shape or float((table - wanted).abs().max()) > 0.01:
                raise ModelError(f"{checkpoint.origin}: {name} must be sinusoids, but was learnt.")


def read_settings(folder: Path, record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings of generation, those of older models from their configuration.

    :raises ModelError: a setting would make translations other than what our decoding says.
    """
    path = folder / GENERATION
    settings = {**record, **(read_json(path) if path.exists() else {})}
    for name, neutral in _NEUTRAL.items():
        if settings.get(name) not in neutral:
            where = path if path.exists() else folder / CONFIG
            raise ModelError(
                f"{where}: `{name}` must be absent or {neutral[-1]!r}, but is {settings[name]!r} instead; "
                "there is no such rule here."
            )
    return settings


def banned(folder: Path, settings: Mapping[str, Any]) -> set[int]:
    """Returns the ids that are never to be said.

    :raises ModelError: sequences of more than one token are banned.
    """
    words = settings.get("bad_words_ids") or []
    longer = [word for word in words if len(word) != 1]
    if longer:
        raise ModelError(
            f"{folder}: `bad_words_ids` must ban single tokens, but bans {longer[0]!r}; there is no such rule here."
        )
    return {word[0] for word in words} | set(settings.get("suppress_tokens") or [])
