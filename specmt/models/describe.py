"""Describes a model folder without loading a weight."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from specmt.models import folder
from specmt.models.folder import CARD, DRAFTERS, VERIFIER, ModelFolder
from specmt.models.reading import check_regular, read_bytes
from specmt.models.tensors import read_shapes

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

IMPORTED: Final = "Imported from"
"""The heading of a card's table of files that a model was made from."""

MOST_CARD: Final = 1 << 20
"""The most bytes of a model card; the bundled ones have 9,000."""


def describe(model: ModelFolder) -> dict[str, Any]:
    """Returns what a model folder holds: languages, networks with their parameters, files with sizes, the card's facts.

    :raises ModelError: a file is missing, or is no safetensors file.
    """
    drafters: dict[str, Any] = {}
    for kind, config in model.drafters.items():
        drafters[kind] = {"config": asdict(config), "parameters": count_parameters(model.file(DRAFTERS[kind]))}
        if kind in model.calibrations:
            drafters[kind]["calibration"] = asdict(model.calibrations[kind])
    card = read_card(model)
    return {
        "name": model.path.name,
        "path": str(model.path),
        "from": "the program" if model.path.parent == folder.ASSETS else "the user",
        "source": model.source,
        "target": model.target,
        "licence": find_licence(card),
        "sha256": model.sha256,
        "protect": model.protect,
        "verifier": {"config": asdict(model.verifier), "parameters": count_parameters(model.file(VERIFIER))},
        "drafters": drafters,
        "shortlist": None if model.shortlist is None else asdict(model.shortlist),
        "files": {
            name: {"bytes": check_regular(model.file(name)).stat().st_size, "sha256": digest}
            for name, digest in model.files.items()
        },
        "imported": {row.get("file", ""): row.get("sha256", "") for row in find_table(card, IMPORTED)},
        "scores": find_table(card, "Scores"),
    }


def count_parameters(path: Path) -> dict[str, int]:
    """Returns the numbers of parameters in a safetensors file by part of the network, from its header alone.

    :raises ModelError: the file is missing, or is no safetensors file.
    """
    counts: Counter[str] = Counter()
    for name, shape in read_shapes(path).items():
        part = name.partition(".")[0]
        counts[PARTS.get(part, part)] += math.prod(shape)
    return {part: counts[part] for part in dict.fromkeys([*PARTS.values(), *counts]) if part in counts}


def read_card(model: ModelFolder) -> str:
    """Returns the model card, Markdown; empty where there is none."""
    path = model.path / CARD
    return read_bytes(path, most=MOST_CARD).decode(errors="replace") if os.path.exists(path) else ""


def find_licence(card: str) -> str | None:
    """Returns the licence of the weights that a card names."""
    found = re.search(r"\*\*Licen[cs]e[^*\n]*\*\*:?\s*(\S.*?)(?=\n[ \t]*\n|\n[-#]|\Z)", card, re.DOTALL)
    found = found or re.search(r"\A---\n(?:.*\n)*?license:\s*(\S+)", card)
    return " ".join(found[1].split()) if found else None


def find_table(card: str, heading: str) -> list[dict[str, str]]:
    """Returns the rows of the first table under one of a card's headings."""
    section = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", card, re.DOTALL | re.MULTILINE)
    table = re.search(r"^\|.*\|\n\|[-:| ]+\|\n(?:\|.*\|\n?)+", section[1], re.MULTILINE) if section else None
    if table is None:
        return []
    head, _, *rows = ([cell.strip() for cell in line[1:-1].split("|")] for line in table[0].strip().split("\n"))
    return [dict(zip(head, row, strict=False)) for row in rows]
