"""What is in a model folder, told without loading a weight."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from specmt.errors import ModelError
from specmt.models import folder
from specmt.models.folder import AUTOREGRESSIVE, CARD, DRAFTER, VERIFIER, ModelFolder

PARTS: Final = {
    "encoder_frontend": "embedding",
    "embed": "embedding",
    "decoder_frontend": "target embedding",
    "mask_embedding": "mask",
    "encoder": "encoder",
    "decoder": "decoder",
    "correction": "correction",
    "final_proj": "output projection",
}
"""What the names of weights begin with, and what those parts of a network are called here, in the order of data."""


def describe(model: ModelFolder) -> dict[str, Any]:
    """Returns what a model folder holds: languages, networks with their parameters, files with sizes, the card's facts.

    :raises ModelError: a file is missing, or is no safetensors file.
    """
    drafters: dict[str, Any] = {}
    if model.drafter is not None:
        drafters["masked"] = {"config": asdict(model.drafter), "parameters": count_parameters(model.path / DRAFTER)}
        if model.calibration is not None:
            drafters["masked"]["calibration"] = asdict(model.calibration)
    if model.autoregressive is not None:
        parameters = count_parameters(model.path / AUTOREGRESSIVE)
        drafters["autoregressive"] = {"config": asdict(model.autoregressive), "parameters": parameters}
    card = read_card(model)
    return {
        "name": model.path.name,
        "path": str(model.path),
        "from": "the program" if model.path.parent == folder.ASSETS else "the user",
        "source": model.source,
        "target": model.target,
        "licence": find_licence(card),
        "sha256": model.sha256,
        "verifier": {"config": asdict(model.verifier), "parameters": count_parameters(model.path / VERIFIER)},
        "drafters": drafters,
        "shortlist": None if model.shortlist is None else asdict(model.shortlist),
        "files": {name: {"bytes": _size(model.path / name), "sha256": hash_} for name, hash_ in model.files.items()},
        "scores": find_scores(card),
    }


def count_parameters(path: Path) -> dict[str, int]:
    """Returns the numbers of parameters in a safetensors file by part of the network, from its header alone.

    :raises ModelError: the file is missing, or is no safetensors file.
    """
    counts: Counter[str] = Counter()
    for name, tensor in _read_header(path).items():
        if name != "__metadata__":
            part = name.partition(".")[0]
            counts[PARTS.get(part, part)] += math.prod(tensor["shape"])
    return {part: counts[part] for part in dict.fromkeys([*PARTS.values(), *counts]) if part in counts}


def _read_header(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if length > path.stat().st_size:
                raise ValueError("its header is cut off")
            header = json.loads(stream.read(length))
            if not isinstance(header, dict):
                raise ValueError("its header is no JSON object")
            return header
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); fetch the model again.") from error
    except ValueError as error:
        raise ModelError(f"{path}: is not a safetensors file ({error}).") from error


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); fetch the model again.") from error


def read_card(model: ModelFolder) -> str:
    """Returns the model card, Markdown; empty where there is none."""
    try:
        return (model.path / CARD).read_text(encoding="utf-8")
    except OSError:
        return ""


def find_licence(card: str) -> str | None:
    """Returns what a card says of the licence of the weights."""
    said = re.search(r"\*\*Licen[cs]e[^*\n]*\*\*:?\s*(.+?)\s*(?=\n\s*\n|\n[-#]|\Z)", card, re.DOTALL)
    said = said or re.search(r"\A---\n(?:.*\n)*?license:\s*(\S+)", card)
    return " ".join(said[1].split()) if said else None


def find_scores(card: str) -> list[dict[str, str]]:
    """Returns the rows of the first table under a card's heading "Scores"."""
    section = re.search(r"^## Scores\n(.*?)(?=^## |\Z)", card, re.DOTALL | re.MULTILINE)
    table = re.search(r"^\|.*\|\n\|[-:| ]+\|\n(?:\|.*\|\n?)+", section[1], re.MULTILINE) if section else None
    if table is None:
        return []
    head, _, *rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in table[0].strip().split("\n"))
    return [dict(zip(head, row, strict=False)) for row in rows]
