"""What tests of model folders share."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from specmt.engine.weights import Weights
from specmt.models.config import VerifierConfig
from specmt.models.folder import CONFIG, VERIFIER, ModelFolder, file_sha256
from specmt.models.tensors import write_tensors
from specmt.models.writing import write_folder
from specmt.types import EOS

LATER = -3.0
"""The bias of the end where translations would end at once, else."""

Change = Callable[[dict[str, Any]], object]


def write_model(
    path: Path, pieces: Path | Sequence[Path], config: VerifierConfig, weights: Weights, **more: Any
) -> ModelFolder:
    """Writes a model folder from German to English."""
    return write_folder(
        path, source="de", target="en", pieces=pieces, verifier=config, verifier_weights=weights, **more
    )


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def change_config(folder: Path, change: Change) -> None:
    record = json.loads((folder / CONFIG).read_text())
    change(record)
    (folder / CONFIG).write_text(json.dumps(record))


def trust(folder: Path, name: str) -> None:
    """Enters a file's present sha256 into the configuration, as its author would."""
    change_config(folder, lambda record: record["files"].update({name: file_sha256(folder / name)}))


def with_ssru(weights: Weights, config: VerifierConfig) -> tuple[dict[str, Any], VerifierConfig]:
    """Returns a verifier with SSRUs, of the projections of values and keys, in the place of attention to the target."""
    changed = {}
    for name, weight in weights.items():
        layer, attention, rest = name.partition(".self_attn.")
        if not attention or not name.startswith("decoder."):
            changed[name] = weight
        elif rest == "v_proj.weight":
            changed[f"{layer}.ssru.input_proj.weight"] = weight
        elif rest.startswith("k_proj."):
            changed[f"{layer}.ssru.{rest.replace('k_proj', 'forget_proj')}"] = weight
    return changed, replace(config, decoder="ssru")


def write_with_ssru(path: Path, folder: Path) -> Path:
    """Writes a model folder that is another one with SSRUs in its decoder, which says something else."""
    shutil.copytree(folder, path)
    own = ModelFolder.read(folder)
    weights, config = with_ssru(own.weights(VERIFIER), own.verifier)
    bias = np.zeros(config.vocab_size, dtype=np.float32)
    bias[EOS] = LATER
    write_tensors(path / VERIFIER, {**weights, "final_proj.bias": bias})
    change_config(path, lambda record: record.update(verifier=asdict(replace(config, output_bias=True))))
    trust(path, VERIFIER)
    return path
