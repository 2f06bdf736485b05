"""The layout of encoder-decoder models at Hugging Face: names of weights, settings of generation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from specmt.engine.architecture import sinusoids
from specmt.engine.arrays import Array, to_floats
from specmt.errors import ModelError
from specmt.models.config import VerifierConfig
from specmt.models.interop.checkpoint import Checkpoint
from specmt.models.interop.foreign import OUTPUT_BIAS, OUTPUT_TABLE, SOURCE_TABLE, TARGET_TABLE, Options, Vocabulary
from specmt.models.reading import read_json

CONFIG: Final = "config.json"
GENERATION: Final = "generation_config.json"
TOKENIZER: Final = "tokenizer_config.json"

_PARTS: Final = (
    ("encoder_decoder_attn", "encoder_attn"),
    ("attn.output_proj", "attn.out_proj"),
    ("ffn.inner_proj", "fc1"),
    ("ffn.output_proj", "fc2"),
    ("ffn_layer_norm", "final_layer_norm"),
)
"""What fairseq calls parts of a layer; Hugging Face has its names behind ``model.``."""

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
    "encoder_repetition_penalty": (None, 1.0),
    "exponential_decay_length_penalty": (None,),
    "forced_bos_token_id": (None,),
    "min_length": (None, 0),
    "min_new_tokens": (None, 0),
    "no_repeat_ngram_size": (None, 0),
    "repetition_penalty": (None, 1.0),
    "sequence_bias": (None, []),
}
"""Settings that change greedy output, with the values that do not."""


def configure(record: Options, target: Vocabulary, **more: Any) -> VerifierConfig:
    """Returns our configuration of a model of Hugging Face.

    :param more: the fields in which kinds of models differ
    """
    record.require({f"decoder_{part}": (record[f"encoder_{part}"],) for part in ("ffn_dim", "attention_heads")})
    return record.configure(
        model_dim=record["d_model"],
        num_heads=record["encoder_attention_heads"],
        ffn_dim=record["encoder_ffn_dim"],
        encoder_layers=record["encoder_layers"],
        decoder_layers=record["decoder_layers"],
        vocab_size=len(target.rows()),
        max_length=record.get("max_position_embeddings", 1024),
        **more,
    )


def read_weight(checkpoint: Checkpoint, name: str, *, shared: bool = True) -> Array | None:
    """Returns a weight by our name; ``None`` for an output bias that is not there.

    :param shared: whether source and target have one table of embeddings
    """
    if name == OUTPUT_BIAS:
        return checkpoint.read(_BIAS) if _BIAS in checkpoint else None
    if name == SOURCE_TABLE and not shared:
        return checkpoint.read(_ENCODER)
    if name in _TABLES:
        return checkpoint.read(*_TABLES[name])
    return checkpoint.read(f"model.{fairseq_name(name)}")


def fairseq_name(name: str) -> str:
    """Returns what fairseq calls a weight of a layer, or of the norm behind a stack."""
    for ours, theirs in _PARTS:
        name = name.replace(ours, theirs)
    return name


def check_positions(checkpoint: Checkpoint, config: VerifierConfig) -> None:
    """Checks that positions, if the weights have them, are the sinusoids that are computed here, up to rounding."""
    for name in ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight"):
        if name in checkpoint:
            table = to_floats(checkpoint.read(name))
            wanted = sinusoids(len(table), config.model_dim, config)
            if table.shape != wanted.shape or np.abs(table - wanted).max() > 0.01:
                raise ModelError(f"{checkpoint.origin}: {name} must be sinusoids, but was learnt.")


def read_settings(folder: Path, record: Mapping[str, Any]) -> Options:
    """Returns the settings of generation, those of older models from their configuration."""
    path = folder / GENERATION
    settings = Options(path, {**record, **read_json(path)}) if path.exists() else Options(folder / CONFIG, record)
    settings.require(_NEUTRAL)
    return settings


def banned(settings: Options) -> set[int]:
    """Returns the ids that are never to be emitted."""
    words = settings.get("bad_words_ids") or []
    longer = [word for word in words if len(word) != 1]
    if longer:
        raise ModelError(f"{settings.where}: `bad_words_ids` must ban single tokens, but bans {longer[0]!r}.")
    return {word[0] for word in words} | set(settings.get("suppress_tokens") or [])
