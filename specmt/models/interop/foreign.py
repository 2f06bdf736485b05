"""What every importer of an encoder-decoder model says of it, and how that becomes a model folder."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from torch import Tensor

from specmt.errors import ModelError
from specmt.models.config import VerifierConfig
from specmt.models.folder import ModelFolder, write_folder
from specmt.models.interop.canonical import Vocabulary, output_bias, permute, write_pieces
from specmt.models.interop.output import write_card
from specmt.models.shapes import find_misfit, verifier_shapes

SOURCE_TABLE: Final = "encoder_frontend.embed.weight"
TARGET_TABLE: Final = "decoder_frontend.embed.weight"
OUTPUT_TABLE: Final = "final_proj.weight"
OUTPUT_BIAS: Final = "final_proj.bias"


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """A model of another program, its weights still to be read."""

    origin: Path
    """The file of its weights, for errors."""

    kind: str
    """What it is there, such as ``Marian (Hugging Face)``."""

    config: VerifierConfig

    target: Vocabulary

    source: Vocabulary | None = None
    """``None`` if it is shared."""

    source_spm: Path
    target_spm: Path

    read: Callable[[str], Tensor | None]
    """Returns a weight by our name, tables and the output bias in the foreign order; ``None`` for a bias of zeros."""

    never: Collection[int] = ()
    """The foreign ids that are never to be said, beside padding and the start."""


def write_model(
    folder: Path,
    foreign: Foreign,
    *,
    name: str,
    languages: tuple[str, str],
    licence: str | None = None,
    notes: Sequence[str] = (),
    progress: Callable[[str], object] = lambda _: None,
) -> ModelFolder:
    """Writes a foreign model as a model folder of ours, every bit of its weights kept.

    :param name: what it was imported from
    :param notes: what the model card is to say beside the usual, a sentence each
    :raises ModelError: a weight is missing, or of another shape than the configuration calls for.
    """
    config, shapes = foreign.config, verifier_shapes(foreign.config)
    weights: dict[str, Tensor] = {}
    for number, weight in enumerate(shapes, start=1):
        progress(f"reading {number} of {len(shapes)} weights")
        weights[weight] = _canonical(foreign, weight)
    misfit = find_misfit(shapes, {weight: tuple(tensor.shape) for weight, tensor in weights.items()})
    if misfit is not None:
        raise ModelError(f"{foreign.origin}: does not fit its configuration: {misfit}.")
    progress("writing")
    pieces = write_pieces(
        folder,
        source=foreign.source,
        target=foreign.target,
        source_spm=foreign.source_spm,
        target_spm=foreign.target_spm,
    )
    source, target = languages
    model = write_folder(
        folder, source=source, target=target, pieces=pieces, verifier=config, verifier_weights=weights, exact=True
    )
    write_card(model, origin=name, kind=foreign.kind, licence=licence, notes=list(notes))
    return model


def _canonical(foreign: Foreign, name: str) -> Tensor:
    tensor = foreign.read(name)
    if name == OUTPUT_BIAS:
        _check_rows(foreign, name, None if tensor is None else tensor.numel(), foreign.target)
        return output_bias(tensor, foreign.target, foreign.never)
    if tensor is None:
        raise ModelError(f"{foreign.origin}: has no {name}.")
    if name in (SOURCE_TABLE, TARGET_TABLE, OUTPUT_TABLE):
        vocabulary = foreign.source or foreign.target if name == SOURCE_TABLE else foreign.target
        _check_rows(foreign, name, len(tensor), vocabulary)
        return permute(tensor, vocabulary.rows())
    return tensor


def _check_rows(foreign: Foreign, name: str, rows: int | None, vocabulary: Vocabulary) -> None:
    if rows not in (None, len(vocabulary.pieces)):
        raise ModelError(
            f"{foreign.origin}: the vocabulary must have as many pieces as {name} has rows, {rows}, "
            f"but has {len(vocabulary.pieces)} instead."
        )
