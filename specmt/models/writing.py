"""Writes model folders: whole ones, and what is added to them. The configuration comes last, so that what it names is
there whole at any time.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from specmt.engine.arrays import Array, to_bfloat16, to_floats
from specmt.engine.protocols import Kind
from specmt.engine.weights import Rounded, Weight, Weights, floats
from specmt.files import whole, write_whole
from specmt.models.config import DecoderConfig, DrafterConfig, ShortlistConfig, VerifierConfig
from specmt.models.folder import (
    CONFIG,
    DRAFTERS,
    FORMAT,
    NETWORKS,
    SHORTLIST,
    VERIFIER,
    ModelFolder,
    calibrations_of,
    file_sha256,
    read_record,
)
from specmt.models.tensors import write_tensors
from specmt.options import AlignmentHeads, Calibration
from specmt.text.lexicon import LEXICON, Lexicon, write_lexicon
from specmt.text.pieces import PIECES

AT_ONCE: Final = 4096
"""How many rows are looked at together: embedding tables are large."""

LARGEST: Final = np.float32(127)
"""The largest number in int8."""


def write_folder(
    path: Path,
    *,
    source: str,
    target: str,
    pieces: Path | Sequence[Path],
    verifier: VerifierConfig,
    verifier_weights: Weights,
    exact: bool = False,
    protect: bool = True,
) -> ModelFolder:
    """Writes a model folder without drafters (`add_drafter`), weights in float16.

    Float16 keeps 11 significant bits, more than any decoding in bfloat16 uses; the stored weights are the model.

    :param pieces: the SentencePiece model, or the files of imported pieces, under the names that they are to have
    :param exact: whether every bit of the verifier's weights is to be kept: those in int8 stay as they are, and others
        that float16 would change are stored in float32.
    :param protect: whether the model was trained with masks for placeholders
    """
    path.mkdir(parents=True, exist_ok=True)
    copies = {PIECES: pieces} if isinstance(pieces, Path) else {each.name: each for each in pieces}
    for name, copied in copies.items():
        (path / name).write_bytes(copied.read_bytes())
    weights = _exact(verifier_weights) if exact else _half(verifier_weights)
    with whole(path / VERIFIER) as temporary:
        write_tensors(temporary, weights)
    record: dict[str, Any] = {
        "format": FORMAT if any(isinstance(weight, Rounded) for weight in weights.values()) else 1,
        "source": source,
        "target": target,
        "protect": protect,
        "verifier": asdict(verifier),
        "drafter": None,
        "files": {name: file_sha256(path / name) for name in [*copies, VERIFIER]},
    }
    _write_config(path, record)
    return ModelFolder.read(path)


def add_drafter(
    path: Path,
    model: ModelFolder,
    config: DecoderConfig,
    weights: Weights,
    calibration: Calibration | None = None,
) -> ModelFolder:
    """Writes a model folder that is another one with a drafter of either kind put in, or put in its place.

    The model card stays behind, and so does the calibration of another drafter of its kind. The folder may be the
    model's own: what else is there stays as it is.

    :raises ModelError: a file of the other folder is missing or damaged.
    """
    kind: Kind = "masked" if isinstance(config, DrafterConfig) else "autoregressive"
    name = DRAFTERS[kind]
    path.mkdir(parents=True, exist_ok=True)
    if path.resolve() != model.path.resolve():
        for kept in model.files:
            if kept != name:
                shutil.copyfile(model.verified(kept), path / kept)
    record = _calibrated(read_record(model.path), kind, calibration)
    _add_file(path, {**record, "files": dict(model.files)}, name, _half(weights), config)
    return ModelFolder.read(path)


def add_shortlist(path: Path, config: ShortlistConfig, arrays: Mapping[str, Array]) -> None:
    """Adds a vocabulary shortlist to a model folder, or puts it in another's place."""
    _add_file(path, read_record(path), SHORTLIST, arrays, config)


def add_lexicon(path: Path, lexicon: Lexicon) -> None:
    """Adds a lexicon to a model folder, or puts it in another's place."""
    record = read_record(path)
    with whole(path / LEXICON) as temporary:
        write_lexicon(temporary, lexicon)
        files = {**record["files"], LEXICON: file_sha256(temporary)}
    _write_config(path, {**record, "files": files})


def write_calibration(path: Path, name: str, calibration: Calibration) -> None:
    """Adds the calibration of a drafter to a model folder."""
    _write_config(path, _calibrated(read_record(path), name, calibration))


def _calibrated(record: dict[str, Any], name: str, calibration: Calibration | None) -> dict[str, Any]:
    """Returns a configuration with a calibration of a drafter, or without one."""
    calibrations = {**calibrations_of(record)}
    calibrations.pop(name, None)
    if calibration is not None:
        calibrations[name] = asdict(calibration)
    return {key: value for key, value in record.items() if key != "calibration"} | {"calibrations": calibrations}


def write_heads(path: Path, heads: AlignmentHeads) -> None:
    """Adds the attention heads for alignments to a model folder."""
    _write_config(path, {**read_record(path), "alignment": asdict(heads)})


def store_in_int8(path: Path, model: ModelFolder) -> ModelFolder:
    """Writes a model folder that is another one with its networks in int8 (`to_int8`), without the card.

    :raises ModelError: a file of the other folder is missing or damaged.
    """
    path.mkdir(parents=True, exist_ok=True)
    for name in model.files:
        if name in NETWORKS:
            with whole(path / name) as temporary:
                write_tensors(temporary, to_int8(model.weights(name)))
        else:
            shutil.copyfile(model.verified(name), path / name)
    files = {name: file_sha256(path / name) for name in model.files}
    _write_config(path, {**read_record(model.path), "format": FORMAT, "files": files})
    return ModelFolder.read(path)


def to_int8(weights: Weights) -> dict[str, Weight]:
    """Returns all matrices in int8 (specmt.models.tensors), and other weights in float16."""
    return {name: _round(weight) if len(weight.shape) == 2 else _to_half(weight) for name, weight in weights.items()}


def _round(weight: Weight) -> Rounded:
    values = floats(weight)
    rounded = to_bfloat16(np.maximum(np.abs(values).max(1) / LARGEST, np.float32(1e-30)))
    scale = to_floats(rounded)
    return Rounded(np.rint(values / scale[:, None]).astype(np.int8), scale)


def _half(weights: Weights) -> dict[str, Weight]:
    return {name: _to_half(weight) for name, weight in weights.items()}


def _exact(weights: Weights) -> dict[str, Weight]:
    """Returns weights in int8 as they are, others in float16, or, where that would change one, in float32."""
    return {name: weight if isinstance(weight, Rounded) else _kept(weight) for name, weight in weights.items()}


def _kept(weight: Array) -> Array:
    parts = (weight[begin : begin + AT_ONCE] for begin in range(0, len(weight), AT_ONCE))
    return floats(weight) if any(map(_loses, parts)) else _to_half(weight)


def _loses(weight: Array) -> bool:
    exact = weight if weight.dtype == np.float64 else floats(weight)
    return bool((_to_half(exact) != exact).any())


def _to_half(weight: Weight) -> Array:
    with np.errstate(over="ignore"):
        return floats(weight).astype(np.float16)  # not from float64 at once, which would be rounded otherwise


def _add_file(
    path: Path,
    record: Mapping[str, Any],
    name: str,
    weights: Weights,
    config: DecoderConfig | ShortlistConfig,
) -> None:
    with whole(path / name) as temporary:
        write_tensors(temporary, weights)
        files = {**record["files"], name: file_sha256(temporary)}
    _write_config(path, {**record, Path(name).stem: asdict(config), "files": files})


def _write_config(path: Path, record: Mapping[str, Any]) -> None:
    write_whole(path / CONFIG, json.dumps(record, indent=2) + "\n")
