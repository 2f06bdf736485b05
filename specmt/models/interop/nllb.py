"""Imports NLLB-200 and M2M100: one model of many languages becomes a model folder for one direction."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import torch
from torch import Tensor

from specmt.errors import ModelError, UsageError
from specmt.models.config import VerifierConfig
from specmt.models.folder import ModelFolder, write_folder
from specmt.models.interop.fairseq import fetch_card, is_checkpoint, read_fairseq
from specmt.models.interop.languages import find_language, shorten
from specmt.models.interop.m2m100 import CONFIG, FILES, read_m2m100
from specmt.models.interop.multilingual import Found
from specmt.models.interop.output import new_folder, write_card
from specmt.models.interop.source import locate
from specmt.models.shapes import find_misfit, verifier_shapes
from specmt.text.pieces import SOURCE_PIECES, VOCABULARY
from specmt.types import BOS, EOS, PAD

NEVER: Final = -65504.0
"""The output bias of what is never said: float16 has it, and it leaves no probability."""

TABLE: Final = "encoder_frontend.embed.weight"
_CONTROL: Final = ("<pad>", "<unk>", "<s>", "</s>")
_OUTPUT: Final = "final_proj.weight"
_BIAS: Final = "final_proj.bias"


def import_nllb(
    source: str, folder: Path, *, languages: tuple[str, str], progress: Callable[[str], None] = lambda _: None
) -> ModelFolder:
    """Writes a model folder that says what an NLLB or M2M100 model says in one direction, word for word.

    :param source: a folder with a model of Hugging Face or of fairseq2, a checkpoint, a name on the Hugging Face Hub,
        or the name of one of fairseq2's asset cards
    :param languages: codes of source and target language, long or short
    :raises ModelError: there is no such model, it is of another architecture, or a file is missing or damaged.
    :raises UsageError: the model does not know a language, or the folder is there already.
    :raises OutputError: the folder cannot be written.
    """
    with new_folder(folder) as inside, TemporaryDirectory() as scratch:
        progress("looking at the model")
        found = _find(source)
        config, codes = _configure(found, languages)
        progress("reading weights")
        weights = _read_weights(found, config)
        progress("writing")
        model = write_folder(
            inside,
            source=shorten(codes[0]),
            target=shorten(codes[1]),
            pieces=_write_pieces(found, Path(scratch)),
            verifier=config,
            verifier_weights=weights,
            exact=True,
        )
        write_card(
            model, origin=found.origin, kind=found.kind, licence=found.licence, notes=[f"Direction: {'→'.join(codes)}."]
        )
    return replace(model, path=folder)


def _find(source: str) -> Found:
    path = Path(source)
    if not path.exists() and "/" not in source:
        card = fetch_card(source)
        if card is not None:
            return read_fairseq(card[0], f"fairseq2's {source}", card[1])
    path = locate(source, FILES)
    if path.is_file() or (not (path / CONFIG).is_file() and is_checkpoint(path)):
        return read_fairseq(path, source)
    return read_m2m100(path, source)


def _configure(found: Found, languages: tuple[str, str]) -> tuple[VerifierConfig, tuple[str, str]]:
    """Returns our configuration, and the model's own codes of the languages."""
    vocabulary = found.vocabulary
    known = vocabulary.languages
    order = vocabulary.order()
    prefixes: dict[str, Any] = {}
    codes = languages
    if known:  # without, it is of one direction only
        codes = (find_language(languages[0], known), find_language(languages[1], known))
        ids = {theirs: ours for ours, theirs in enumerate(order)}
        prefixes = {
            name: (ids[known[code]],) for name, code in zip(("source_prefix", "target_prefix"), codes, strict=True)
        }
    try:
        config = VerifierConfig(
            **found.architecture,
            **prefixes,
            vocab_size=len(order),
            output_bias=True,
            tied_output=found.output is None,
            dropout=0.0,
        )
    except (UsageError, TypeError) as error:
        raise ModelError(f"{found.origin}: cannot be run here: {error}") from error
    return config, codes


def _read_weights(found: Found, config: VerifierConfig) -> dict[str, Tensor]:
    """Returns the weights by our names, rows of tables in our order."""
    order = torch.tensor(found.vocabulary.order())
    bias = torch.zeros(config.vocab_size)
    bias[PAD] = NEVER
    if found.vocabulary.copies_start:
        bias[BOS] = NEVER  # its row is that of the other token, which has to win
    weights = {TABLE: _rows(found, found.table, order), _BIAS: bias}
    if found.output is not None:
        weights[_OUTPUT] = _rows(found, (found.output,), order)
    wanted = verifier_shapes(config)
    for name in wanted:
        if name not in weights:
            weights[name] = found.checkpoint.read(found.name_of(name))
    misfit = find_misfit(wanted, {name: tuple(tensor.shape) for name, tensor in weights.items()})
    if misfit is not None:
        raise ModelError(f"{found.checkpoint.origin}: does not fit its configuration: {misfit}.")
    return weights


def _rows(found: Found, names: tuple[str, ...], order: Tensor) -> Tensor:
    table = found.checkpoint.read(*names)
    if len(table) != len(found.vocabulary.tokens):
        raise ModelError(
            f"{found.checkpoint.origin}: {names[0]} must have {len(found.vocabulary.tokens)} rows, one for each token, "
            f"but has {len(table)} instead."
        )
    return table[order]


def _write_pieces(found: Found, folder: Path) -> list[Path]:
    vocabulary = found.vocabulary
    tokens = [vocabulary.tokens[i] for i in vocabulary.order()]
    tokens[: EOS + 1] = _CONTROL
    silent = [*_CONTROL, *(vocabulary.tokens[i] for i in vocabulary.added)]
    record = {"source": None, "target": tokens, "silent": silent}
    (folder / VOCABULARY).write_text(json.dumps(record, ensure_ascii=False), encoding="utf-8")
    (folder / SOURCE_PIECES).write_bytes(vocabulary.processor.read_bytes())
    return [folder / SOURCE_PIECES, folder / VOCABULARY]
