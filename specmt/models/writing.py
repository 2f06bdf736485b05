"""Writes model folders: whole ones, and what is added to them. What a configuration names is there whole at any time:
files are written beside those that they replace, and take their places once the configuration names them. Who writes
waits for others who do, and adds to what they wrote.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np

from specmt.engine.arrays import Array, to_bfloat16, to_floats
from specmt.engine.protocols import Kind
from specmt.engine.weights import Rounded, Weight, Weights, floats
from specmt.errors import ModelError, OutputError
from specmt.files import hold, whole
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
    place_beside,
    read_record,
)
from specmt.models.tensors import write_tensors
from specmt.options import AlignmentHeads, Calibration
from specmt.text.confidence import Confidence
from specmt.text.lexicon import LEXICON, Lexicon, write_lexicon
from specmt.text.pieces import PIECES

AT_ONCE: Final = 4096
"""How many rows are looked at together: embedding tables are large."""

LARGEST: Final = np.float32(127)
"""The largest number in int8."""

PATIENCE: Final = 60.0
"""Seconds to wait for another process that writes the same model."""

_DIGEST: Final = re.compile("[0-9a-f]{64}")


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
    copies = {PIECES: pieces} if isinstance(pieces, Path) else {each.name: each for each in pieces}
    weights = _exact(verifier_weights) if exact else _half(verifier_weights)
    record: dict[str, Any] = {
        "format": FORMAT if any(isinstance(weight, Rounded) for weight in weights.values()) else 1,
        "source": source,
        "target": target,
        "protect": protect,
        "verifier": asdict(verifier),
        "drafter": None,
    }
    with _writing(path, lambda: record) as new:
        for name, copied in copies.items():
            shutil.copyfile(copied, new(name))
        write_tensors(new(VERIFIER), weights)
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

    def changed() -> dict[str, Any]:
        return {**_calibrated(read_record(model.path), kind, calibration), Path(name).stem: asdict(config)}

    with _writing(path, changed) as new:
        if path.resolve() != model.path.resolve():
            for kept in model.files:
                if kept != name:
                    shutil.copyfile(model.verified(kept), new(kept))
        write_tensors(new(name), _half(weights))
    return ModelFolder.read(path)


def add_shortlist(path: Path, config: ShortlistConfig, arrays: Mapping[str, Array]) -> None:
    """Adds a vocabulary shortlist to a model folder, or puts it in another's place."""
    with _writing(path, lambda: {**read_record(path), Path(SHORTLIST).stem: asdict(config)}) as new:
        write_tensors(new(SHORTLIST), arrays)


def add_lexicon(path: Path, lexicon: Lexicon) -> None:
    """Adds a lexicon to a model folder, or puts it in another's place."""
    with _writing(path, lambda: read_record(path)) as new:
        write_lexicon(new(LEXICON), lexicon)


def write_calibration(path: Path, name: str, calibration: Calibration) -> None:
    """Adds the calibration of a drafter to a model folder."""
    with _writing(path, lambda: _calibrated(read_record(path), name, calibration)):
        pass


def _calibrated(record: dict[str, Any], name: str, calibration: Calibration | None) -> dict[str, Any]:
    """Returns a configuration with a calibration of a drafter, or without one."""
    calibrations = {**calibrations_of(record)}
    calibrations.pop(name, None)
    if calibration is not None:
        calibrations[name] = asdict(calibration)
    return {key: value for key, value in record.items() if key != "calibration"} | {"calibrations": calibrations}


def write_heads(path: Path, heads: AlignmentHeads) -> None:
    """Adds the attention heads for alignments to a model folder."""
    with _writing(path, lambda: {**read_record(path), "alignment": asdict(heads)}):
        pass


def write_confidence(path: Path, confidence: Confidence) -> None:
    """Adds what tells how likely translations are to be acceptable to a model folder."""
    with _writing(path, lambda: {**read_record(path), "confidence": asdict(confidence)}):
        pass


def store_in_int8(path: Path, model: ModelFolder) -> ModelFolder:
    """Writes a model folder that is another one with its networks in int8 (`to_int8`), without the card.

    :raises ModelError: a file of the other folder is missing or damaged.
    """
    with _writing(path, lambda: {**read_record(model.path), "format": FORMAT}) as new:
        for name in model.files:
            if name in NETWORKS:
                write_tensors(new(name), to_int8(model.weights(name)))
            else:
                shutil.copyfile(model.verified(name), new(name))
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


@contextmanager
def _writing(path: Path, find: Callable[[], Mapping[str, Any]]) -> Iterator[Callable[[str], Path]]:
    """Yields what says where to write a file; until all are written, the folder stays as it was.

    :param find: returns the configuration, of whose files those stay that are not written; called once nobody else
        writes
    :raises OutputError: another process writes for too long.
    """
    path.mkdir(parents=True, exist_ok=True)
    written: dict[str, Path] = {}
    with ExitStack() as ends:
        try:
            ends.callback(os.close, hold(path, patience=PATIENCE))
        except BlockingIOError:
            raise OutputError(f"{path}: another process is writing this model.") from None
        ends.callback(_settle, path)
        record = find()
        with whole(path / CONFIG) as config:
            mode = config.stat().st_mode

            def place(name: str) -> Path:
                written[name] = config.with_name(name)
                return written[name]

            yield place
            files = {**record.get("files", {}), **{name: file_sha256(each) for name, each in written.items()}}
            config.write_text(json.dumps({**record, "files": files}, indent=2) + "\n", encoding="utf-8")
            for name, each in written.items():
                each.chmod(mode)  # safetensors is stricter
                os.replace(each, place_beside(path / name, files[name]))


def _settle(path: Path) -> None:
    """Gives files their places that a configuration names, and removes those that none does: their writer failed."""
    with suppress(ModelError):  # there may be none yet
        files = read_record(path)["files"]
        for each in path.iterdir():
            name, _, digest = each.name.rpartition(".")
            if not _DIGEST.fullmatch(digest):
                continue
            if files.get(name) == digest:
                os.replace(each, path / name)
            else:
                each.unlink()
