"""Imports NLLB-200 and M2M100: one model of many languages becomes a model folder for one direction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from specmt.errors import ModelError
from specmt.models.folder import CARD, ModelFolder
from specmt.models.interop.checkpoint import locate, open_checkpoint
from specmt.models.interop.fairseq import SPM, fetch_card, filled, is_checkpoint, pieces_of, read_fairseq
from specmt.models.interop.foreign import (
    Foreign,
    Options,
    Vocabulary,
    importing,
    licence_of,
    number_pieces,
    write_model,
)
from specmt.models.interop.hugging_face import CONFIG, TOKENIZER, configure, read_weight
from specmt.models.interop.languages import find_language, shorten
from specmt.models.reading import check_regular, read_bytes, read_json

_VOCABULARY: Final = "vocab.json"
_SPECIAL: Final = "special_tokens_map.json"
_ADDED: Final = "added_tokens.json"
_FILES: Final = (CARD, CONFIG, SPM, _VOCABULARY, TOKENIZER, _SPECIAL, _ADDED)
"""The files that are of use, beside the weights."""


def import_nllb(
    source: str, folder: Path, *, languages: tuple[str, str], progress: Callable[[str], object] = lambda _: None
) -> ModelFolder:
    """Writes one direction of an NLLB or M2M100 model as a model folder with the same greedy output.

    :param source: a folder with a model of Hugging Face or of fairseq2, a checkpoint, a name on the Hugging Face Hub,
        or the name of one of fairseq2's asset cards
    :param languages: codes of source and target language, long or short
    """
    with importing(source, folder) as new:
        progress("looking for the model")
        foreign, name, licence = _find(source)
        known, codes = foreign.target.languages, languages
        if known:  # without, it is of one direction only
            codes = (find_language(languages[0], known), find_language(languages[1], known))
            source_id, target_id = (foreign.target.ids()[known[code]] for code in codes)
            config = replace(foreign.config, source_prefix=(source_id,), target_prefix=(target_id,))
            foreign = replace(foreign, config=config)
        write_model(
            new,
            foreign,
            name=name,
            languages=(shorten(codes[0]), shorten(codes[1])),
            licence=licence,
            notes=[f"Direction: {'→'.join(codes)}."],
            progress=progress,
        )
    return ModelFolder.read(folder)


def _find(source: str) -> tuple[Foreign, str, str | None]:
    """Returns a model, its name and its licence."""
    if not Path(source).exists() and "/" not in source:
        card = fetch_card(source)
        if card is not None:
            return read_fairseq(card[0], card[1]), f"fairseq2's {source}", None
    path = locate(source, _FILES)
    if not path.is_dir() or (not (path / CONFIG).exists() and is_checkpoint(path)):
        return read_fairseq(path), source, None
    return _read_m2m100(path), source, licence_of(path)


def _read_m2m100(folder: Path) -> Foreign:
    """Reads all but the weights of a folder of Hugging Face's M2M100, which NLLB-200 is too."""
    values = read_json(folder / CONFIG)
    record = Options(folder / CONFIG, {name: value for name, value in values.items() if value is not None})
    kind = record["model_type"]
    if kind == "nllb-moe":
        raise ModelError(f"{record.where}: is of a mixture of experts, which cannot be imported; dense NLLB can.")
    if kind != "m2m_100":
        hint = "; use `specmt import marian`" if kind == "marian" else ""
        raise ModelError(f"{record.where}: `model_type` must be m2m_100 (NLLB, M2M100), but is {kind!r} instead{hint}.")
    is_m2m = (folder / _VOCABULARY).is_file()
    vocabulary = _read_vocabulary(folder, record, is_m2m=is_m2m)
    checkpoint = open_checkpoint(folder)
    return Foreign(
        origin=checkpoint.origin,
        kind=f"Hugging Face {'M2M100' if is_m2m else 'NLLB'}",
        config=configure(
            record,
            vocabulary,
            activation=record.activation("activation_function", "relu"),
            first_position=record.get("pad_token_id", 1) + 1,
            scaled_embedding=record.get("scale_embedding", True),
            tied_output=record.get("tie_word_embeddings", True),
            dropout=0.0,
        ),
        target=vocabulary,
        source_spm=read_bytes(folder / SPM),
        target_spm=read_bytes(folder / SPM),
        read=partial(read_weight, checkpoint),
    )


def _read_vocabulary(folder: Path, record: Options, *, is_m2m: bool) -> Vocabulary:
    rows = record["vocab_size"]
    if is_m2m:
        check_regular(folder / SPM)
        pieces = number_pieces(read_json(folder / _VOCABULARY), folder / _VOCABULARY)
    else:
        pieces = pieces_of(folder / SPM, is_old=True)
    own = len(pieces)
    pieces = filled([*pieces, *_added_pieces(folder, own, rows)], rows, folder)
    ids = {piece: i for i, piece in reversed(list(enumerate(pieces)))}
    for piece in ("<pad>", "<unk>"):
        if piece not in ids:
            raise ModelError(f"{folder}: its vocabulary has no {piece}.")
    eos = record["eos_token_id"]
    start = record.get("decoder_start_token_id", eos)
    for name, i in (("eos_token_id", eos), ("decoder_start_token_id", start)):
        if i not in range(rows):
            raise ModelError(f"{record.where}: `{name}` must be under {rows}, but is {i} instead.")
    return Vocabulary(
        pieces=pieces,
        pad=ids["<pad>"],
        unk=ids["<unk>"],
        eos=eos,
        start=start,
        added=range(own, rows),
        displaced_last=True,
    )


def _added_pieces(folder: Path, first: int, rows: int) -> list[str]:
    """Returns what the tokenizer has beside its own pieces, languages above all, in the order of ids.

    :param rows: how many there can be with its own; of more, one is enough to be too many.
    """
    numbered: dict[int, str] = {}
    if (folder / TOKENIZER).exists():
        added = read_json(folder / TOKENIZER).get("added_tokens_decoder", {})
        numbered = {int(i): _text(token) for i, token in added.items()}
    if (folder / _ADDED).exists():
        numbered |= {i: token for token, i in read_json(folder / _ADDED).items()}
    numbered = {i: token for i, token in numbered.items() if i >= first}
    if numbered:
        return [numbered.get(i, f"<unused {i}>") for i in range(first, min(max(numbered), rows) + 1)]
    if (folder / _SPECIAL).exists():
        special = read_json(folder / _SPECIAL)
        tokens = [_text(token) for token in special.get("additional_special_tokens", [])]
        return [*tokens, _text(special["mask_token"])] if "mask_token" in special else tokens
    return []


def _text(token: str | Mapping[str, Any]) -> str:
    return token if isinstance(token, str) else str(token["content"])
