"""Imports Marian models: OPUS-MT as Hugging Face has it, and what Marian itself writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from specmt.errors import ModelError, UsageError
from specmt.models.config import VerifierConfig
from specmt.models.folder import CARD, ModelFolder
from specmt.models.interop.canonical import Vocabulary
from specmt.models.interop.checkpoint import Checkpoint, open_checkpoint
from specmt.models.interop.foreign import Foreign, write_model
from specmt.models.interop.hugging_face import (
    CONFIG,
    GENERATION,
    TOKENIZER,
    banned,
    check_positions,
    read_settings,
    read_weight,
    their_name,
)
from specmt.models.interop.marian_native import read_native
from specmt.models.interop.output import licence_of, new_folder
from specmt.models.interop.source import locate, read_json
from specmt.models.interop.targets import choose_token, language_of, languages_of, tokens_of
from specmt.models.shapes import verifier_shapes

_VOCABULARY: Final = "vocab.json"
_TARGET_VOCABULARY: Final = "target_vocab.json"
_FILES: Final = (
    CARD,
    CONFIG,
    GENERATION,
    TOKENIZER,
    _VOCABULARY,
    _TARGET_VOCABULARY,
    "source.spm",
    "target.spm",
)
_ACTIVATIONS: Final[Mapping[str, Literal["relu", "swish", "gelu"]]] = {
    "relu": "relu",
    "swish": "swish",
    "silu": "swish",
    "gelu": "gelu",
}
_TABLES: Final = ("shared", "embed_tokens", "embed_positions", "lm_head", "final_logits_bias")
"""Parts of the names of weights that are not in layers."""


def import_marian(
    source: str,
    folder: Path,
    *,
    languages: tuple[str | None, str | None] = (None, None),
    token: str | None = None,
    progress: Callable[[str], object] = lambda _: None,
) -> ModelFolder:
    """Writes a Marian model as a model folder.

    :param source: a folder of Hugging Face's or of Marian's, an .npz file, or a name on the Hugging Face Hub
    :param languages: source and target; ``None`` is what the model's files or its name say.
    :param token: what tells a multilingual model its target, such as ``>>deu<<``; by default that of the language;
        an empty one is none.
    :param progress: is told what is being done.
    :raises ModelError: there is no such model, it is damaged, or it is something that cannot be run here.
    :raises UsageError: the languages or the token are not clear, or the folder is taken.
    """
    with new_folder(folder) as new:
        progress("looking for the model")
        path = locate(source, _FILES)
        record: dict[str, Any] = {}
        if path.is_dir() and (path / CONFIG).exists():
            foreign = _read_hugging_face(path)
            record = read_json(path / TOKENIZER) if (path / TOKENIZER).exists() else {}
        else:
            foreign = read_native(path)
        home = path if path.is_dir() else path.parent
        said = languages_of(home.resolve().name if Path(source).exists() else source, record)
        foreign, chosen = _for_languages(foreign, languages, said, token)
        notes = _notes(foreign)
        write_model(
            new, foreign, name=source, languages=chosen, licence=licence_of(home), notes=notes, progress=progress
        )
    return ModelFolder.read(folder)


def _for_languages(
    foreign: Foreign, asked: tuple[str | None, str | None], said: tuple[str | None, str | None], token: str | None
) -> tuple[Foreign, tuple[str, str]]:
    """Returns a model that is told its target language, and the languages."""
    tokens = tokens_of((foreign.source or foreign.target).pieces)
    chosen = choose_token(tokens, token=token, language=asked[1] or said[1])
    source, target = asked[0] or said[0], asked[1] or (language_of(chosen) if chosen else said[1])
    if source is None or target is None:
        option, side = ("--from", "source") if source is None else ("--to", "target")
        raise UsageError(f"{foreign.origin}: nothing says what the {side} language is; name it with {option}.")
    if chosen:
        vocabulary = foreign.source or foreign.target
        prefix = (vocabulary.id_of(vocabulary.pieces.index(chosen)),)
        foreign = replace(foreign, config=replace(foreign.config, source_prefix=prefix))
    return foreign, (source, target)


def _notes(foreign: Foreign) -> list[str]:
    prefix = foreign.config.source_prefix
    if not prefix:
        return []
    token = (foreign.source or foreign.target).ordered()[prefix[0]]
    return [f"**Target token:** `{token}`, before every source"]


def _read_hugging_face(folder: Path) -> Foreign:
    record = read_json(folder / CONFIG)
    kind = record.get("model_type")
    if kind != "marian":
        hint = "; `specmt import nllb` may know it" if kind in ("m2m_100", "nllb") else ""
        raise ModelError(f"{folder / CONFIG}: `model_type` must be 'marian', but is {kind!r} instead{hint}.")
    settings = read_settings(folder, record)
    if settings.get("forced_bos_token_id") is not None:
        raise ModelError(f"{folder}: `forced_bos_token_id` must be absent, but is {settings['forced_bos_token_id']!r}.")
    checkpoint = open_checkpoint(folder)
    shared = record.get("share_encoder_decoder_embeddings", True)
    separate = (folder / _TARGET_VOCABULARY).exists()
    target = _vocabulary(folder / (_TARGET_VOCABULARY if separate else _VOCABULARY), settings)
    source = None
    if not shared:
        source = replace(_vocabulary(folder / _VOCABULARY, {}), start=None)
    elif separate:
        raise ModelError(f"{folder}: has {_TARGET_VOCABULARY}, but only one table of embeddings.")
    config = _config(folder / CONFIG, record, target, source)
    _check_names(checkpoint, config)
    check_positions(checkpoint, config)
    return Foreign(
        origin=checkpoint.origin,
        kind="Marian (Hugging Face)",
        config=config,
        target=target,
        source=source,
        source_spm=folder / "source.spm",
        target_spm=folder / "target.spm",
        read=partial(read_weight, checkpoint, shared=shared),
        never=banned(folder, settings),
    )


def _config(path: Path, record: Mapping[str, Any], target: Vocabulary, source: Vocabulary | None) -> VerifierConfig:
    activation = record.get("activation_function", "gelu")
    if activation not in _ACTIVATIONS:
        known = ", ".join(_ACTIVATIONS)
        raise ModelError(f"{path}: `activation_function` must be one of {known}, but is {activation!r} instead.")
    for name, wanted in (
        ("normalize_before", False),
        ("normalize_embedding", False),
        ("add_final_layer_norm", False),
        ("static_position_embeddings", True),
        ("decoder_attention_heads", record.get("encoder_attention_heads")),
        ("decoder_ffn_dim", record.get("encoder_ffn_dim")),
    ):
        if record.get(name, wanted) != wanted:
            raise ModelError(f"{path}: `{name}` must be {wanted!r}, but is {record[name]!r} instead.")
    try:
        return VerifierConfig(
            model_dim=record["d_model"],
            num_heads=record["encoder_attention_heads"],
            ffn_dim=record["encoder_ffn_dim"],
            encoder_layers=record["encoder_layers"],
            decoder_layers=record["decoder_layers"],
            vocab_size=len(target.ordered()),
            source_vocab_size=None if source is None else len(source.ordered()),
            max_length=record.get("max_position_embeddings", 1024),
            norm="post",
            activation=_ACTIVATIONS[activation],
            positions="marian",
            scaled_embedding=bool(record.get("scale_embedding", False)),
            output_bias=True,
            tied_output=bool(record.get("tie_word_embeddings", True)),
        )
    except KeyError as error:
        raise ModelError(f"{path}: has no `{error.args[0]}`.") from error
    except UsageError as error:
        raise ModelError(f"{path}: cannot be run: {error}") from error


def _vocabulary(path: Path, settings: Mapping[str, Any]) -> Vocabulary:
    """Returns a vocabulary, after checking that it agrees with the settings of generation."""
    ids = read_json(path)
    if sorted(ids.values()) != list(range(len(ids))):
        raise ModelError(f"{path}: the ids of its {len(ids)} pieces must be 0 to {len(ids) - 1}, each once.")
    special = {}
    for key, piece in (("pad", "<pad>"), ("unk", "<unk>"), ("eos", "</s>")):
        if piece not in ids:
            raise ModelError(f"{path}: has no {piece}.")
        said = settings.get(f"{key}_token_id", ids[piece])
        if said not in (ids[piece], [ids[piece]]):
            raise ModelError(f"{path}: {piece} must be {said}, as {CONFIG} says, but is {ids[piece]} instead.")
        special[key] = ids[piece]
    start = settings.get("decoder_start_token_id", special["pad"])
    if start not in range(len(ids)):
        raise ModelError(f"{path}: has no piece {start!r}, which {CONFIG} starts the decoder with.")
    return Vocabulary(pieces=sorted(ids, key=ids.__getitem__), start=start, **special)


def _check_names(checkpoint: Checkpoint, config: VerifierConfig) -> None:
    """Checks that no weight would be left out.

    :raises ModelError: there is one that the configuration has no place for.
    """
    known = {their_name(name) for name in verifier_shapes(config)}
    for name in checkpoint:
        if name not in known and not any(part in name.split(".") for part in _TABLES):
            raise ModelError(f"{checkpoint.origin}: has {name}, which its configuration has no place for.")
