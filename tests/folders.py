"""What tests of model folders share."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from specmt.engine.weights import Weights
from specmt.models.config import VerifierConfig
from specmt.models.folder import CONFIG, ModelFolder, file_sha256
from specmt.models.writing import write_folder

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
