"""Imports Marian models: OPUS-MT as Hugging Face has it, and what Marian itself writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from specmt.errors import ModelError
from specmt.models.config import VerifierConfig
from specmt.models.folder import CARD, ModelFolder
from specmt.models.interop.checkpoint import locate, open_checkpoint
from specmt.models.interop.foreign import (
    Foreign,
    Options,
    Vocabulary,
    importing,
    licence_of,
    number_pieces,
    write_model,
)
from specmt.models.interop.hugging_face import (
    CONFIG,
    GENERATION,
    TOKENIZER,
    banned,
    check_positions,
    configure,
    fairseq_name,
    read_settings,
    read_weight,
)
from specmt.models.interop.languages import choose_token, language_of, languages_of, name_languages, tokens_of
from specmt.models.interop.marian_native import read_native
from specmt.models.parameters import verifier_shapes
from specmt.models.reading import read_bytes, read_json

_VOCABULARY: Final = "vocab.json"
_TARGET_VOCABULARY: Final = "target_vocab.json"
_FILES: Final = (CARD, CONFIG, GENERATION, TOKENIZER, _VOCABULARY, _TARGET_VOCABULARY, "source.spm", "target.spm")
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
    :param languages: source and target; ``None``: as in the model's files or its name.
    :param token: what selects the target of a multilingual model, such as ``>>deu<<``; by default that of the language;
        an empty one is none.
    :param progress: called with what is being done
    """
    with importing(source, folder) as new:
        progress("looking for the model")
        path = locate(source, _FILES)
        record: dict[str, Any] = {}
        if path.is_dir() and (path / CONFIG).exists():
            foreign = _read_hugging_face(path)
            record = read_json(path / TOKENIZER) if (path / TOKENIZER).exists() else {}
        else:
            foreign = read_native(path)
        home = path if path.is_dir() else path.parent
        named = languages_of(home.resolve().name if Path(source).exists() else source, record)
        pieces = (foreign.source or foreign.target).pieces
        chosen = choose_token(tokens_of(pieces), token=token, language=languages[1] or named[1])
        sides = languages[0] or named[0], languages[1] or (language_of(chosen) if chosen else named[1])
        pair = name_languages(sides, foreign.origin)
        notes = []
        if chosen:
            prefix = ((foreign.source or foreign.target).ids()[pieces.index(chosen)],)
            foreign = replace(foreign, config=replace(foreign.config, source_prefix=prefix))
            notes = [f"**Target token:** `{chosen}`, before every source"]
        write_model(
            new,
            foreign,
            name=source,
            languages=pair,
            licence=licence_of(home),
            notes=notes,
            progress=progress,
        )
    return ModelFolder.read(folder)


def _read_hugging_face(folder: Path) -> Foreign:
    record = Options(folder / CONFIG, read_json(folder / CONFIG))
    kind = record.get("model_type")
    if kind != "marian":
        hint = "; `specmt import nllb` may know it" if kind in ("m2m_100", "nllb") else ""
        raise ModelError(f"{folder / CONFIG}: `model_type` must be 'marian', but is {kind!r} instead{hint}.")
    settings = read_settings(folder, record)
    checkpoint = open_checkpoint(folder)
    shared = record.get("share_encoder_decoder_embeddings", True)
    separate = (folder / _TARGET_VOCABULARY).exists()
    target = _vocabulary(folder / (_TARGET_VOCABULARY if separate else _VOCABULARY), settings)
    source = None
    if not shared:
        source = replace(_vocabulary(folder / _VOCABULARY, Options(folder, {})), start=None)
    elif separate:
        raise ModelError(f"{folder}: has {_TARGET_VOCABULARY}, but only one table of embeddings.")
    config = _config(record, target, source)
    tables = (name for name in checkpoint if not {*name.split(".")}.isdisjoint(_TABLES))
    checkpoint.check_names({*tables, *(f"model.{fairseq_name(name)}" for name in verifier_shapes(config))})
    check_positions(checkpoint, config)
    return Foreign(
        origin=checkpoint.origin,
        kind="Marian (Hugging Face)",
        config=config,
        target=target,
        source=source,
        source_spm=read_bytes(folder / "source.spm"),
        target_spm=read_bytes(folder / "target.spm"),
        read=partial(read_weight, checkpoint, shared=shared),
        never=banned(settings),
    )


def _config(record: Options, target: Vocabulary, source: Vocabulary | None) -> VerifierConfig:
    record.require(
        {
            "normalize_before": (False,),
            "normalize_embedding": (False,),
            "add_final_layer_norm": (False,),
            "static_position_embeddings": (True,),
        }
    )
    return configure(
        record,
        target,
        source_vocab_size=None if source is None else len(source.rows()),
        norm="post",
        activation=record.activation("activation_function", "gelu"),
        positions="marian",
        scaled_embedding=bool(record.get("scale_embedding", False)),
        tied_output=bool(record.get("tie_word_embeddings", True)),
    )


def _vocabulary(path: Path, settings: Options) -> Vocabulary:
    """Returns a vocabulary, after checking that it agrees with the settings of generation."""
    ids = read_json(path)
    pieces = number_pieces(ids, path)
    special = {}
    for key, piece in (("pad", "<pad>"), ("unk", "<unk>"), ("eos", "</s>")):
        if piece not in ids:
            raise ModelError(f"{path}: has no {piece}.")
        wanted = settings.get(f"{key}_token_id", ids[piece])
        if wanted not in (ids[piece], [ids[piece]]):
            raise ModelError(f"{path}: {piece} must be {wanted}, as {CONFIG} says, but is {ids[piece]} instead.")
        special[key] = ids[piece]
    start = settings.get("decoder_start_token_id", special["pad"])
    if start not in range(len(ids)):
        raise ModelError(f"{path}: has no piece {start!r}, which {CONFIG} starts the decoder with.")
    return Vocabulary(pieces=pieces, start=start, **special)
