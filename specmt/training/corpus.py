"""From text in a verifier's language to what a drafter is trained on, and the drafter into a model folder."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specmt.engine.weights import Weights
from specmt.errors import DataError, UsageError
from specmt.files import write_whole
from specmt.models.config import DecoderConfig
from specmt.models.folder import CONFIG, VERIFIER, ModelFolder, file_sha256
from specmt.models.hub import Model
from specmt.models.tensors import write_tensors
from specmt.models.writing import add_drafter
from specmt.options import Calibration
from specmt.training.data import ParallelData
from specmt.training.distill import distill_sources, distinct_lines, evenly

DISTILLED: Final = "distilled"
TRAINED: Final = "drafter"
WRITTEN: Final = "written.json"
"""What the folder of a run holds: text and what the verifier says of it, checkpoints, the hashes of finished drafters.
"""

LEAST: Final = 20
"""The fewest sentences; one in so many is held out."""

HELD_OUT: Final = 400
"""The most sentences that are held out."""

SHARD: Final = 1024
"""Sentences decoded between two saves."""

BATCH: Final = 64
"""Sentences that are distilled side by side."""

PASSES: Final = 3.0
FEWEST_UPDATES: Final = 300
MOST_UPDATES: Final = 5000
"""How often each sentence is trained on by default, as far as that is not too few or too many updates."""


@dataclass(frozen=True)
class Corpus:
    """Different sentences."""

    training: list[list[int]]
    """As ids without EOS."""

    held_out: list[str]
    """As text."""


def read_corpus(model: Model, files: Sequence[Path], *, limit: int, max_length: int) -> Corpus:
    """Reads sentences of at most so many pieces, evenly spaced if there are more than ``limit``.

    :raises InputNotFoundError: a file cannot be opened.
    :raises DataError: a line is not UTF-8, or there are too few.
    """
    longest = min(max_length, model.max_source_length - 1)  # EOS
    lines = [line.strip() for line in evenly(distinct_lines(files), limit)]
    # Lines that differ may still be the same to the model.
    sentences: dict[tuple[int, ...], str] = {}
    for line, ids in zip(lines, model.pieces.encode_batch(lines), strict=True):
        if 1 <= len(ids) <= longest:
            sentences.setdefault(tuple(ids), line)
    if len(sentences) < LEAST:
        names = ", ".join(map(str, files))
        raise DataError(
            f"{names}: must have at least {LEAST} different lines of 1 to {longest} pieces, but "
            f"{'has' if len(files) == 1 else 'have'} {len(sentences)} instead."
        )
    chosen = set(evenly([*sentences], min(HELD_OUT, len(sentences) // LEAST)))
    training = [list(ids) for ids in sentences if ids not in chosen]
    return Corpus(training, [line for ids, line in sentences.items() if ids in chosen])


def distil(
    folder: Path, model: Model, corpus: Corpus, *, seconds: float, report: Callable[[int, int], None]
) -> ParallelData:
    """Writes what the verifier says of a corpus, and the lines held out, into a folder; returns what was said.

    It goes on after the last part that is there, unless all was done before.

    :param seconds: after which no further part begins
    :raises UsageError: the folder holds the work on other text, of another model or in other numerics.
    """
    was_done = (folder / "train.target.offsets.npy").exists()
    end = time.monotonic() + seconds
    parts = -(-len(corpus.training) // SHARD)
    # Neighbours are alike: each part is of the whole text, should it be the last.
    sources = [source for first in range(parts) for source in corpus.training[first::parts]]
    distill_sources(
        folder,
        model,
        sources,
        model.folder.files[VERIFIER],  # not of the whole folder: the drafter will be in there
        shard=SHARD,
        batch_size=BATCH,
        is_enough=lambda: was_done or time.monotonic() > end,
        report=report,
    )
    held_out = {"source": corpus.held_out, "target": []}
    write_whole(folder / "valid.held_out.json", json.dumps(held_out, ensure_ascii=False))
    return ParallelData.load(folder, "train")


def choose_updates(data: ParallelData, tokens_per_update: int) -> int:
    """Returns how many updates see each pair some times over."""
    ids = sum(int(side.lengths.sum()) + len(side) for side in (data.source, data.target))
    return min(MOST_UPDATES, max(FEWEST_UPDATES, round(PASSES * ids / tokens_per_update)))


def check_place(folder: Path, verifier: ModelFolder, run: Path, file: str) -> None:
    """Checks that a drafter can go into a folder, and that nothing is lost by it.

    :param run: the folder of the run that makes the drafter
    :param file: the name of its file there
    :raises UsageError: a model of another verifier is there, or a drafter that is not of this run.
    """
    if not (folder / CONFIG).exists():
        return
    there = ModelFolder.read(folder)
    if there.files.get(VERIFIER) != verifier.files.get(VERIFIER):
        raise UsageError(f"{folder}: is the folder of another model; name a new one with `--into`.")
    if there.files.get(file) not in (None, *_written(run)):
        raise UsageError(f"{folder}: the model has a drafter already; name a new folder with `--into`.")


def install(
    folder: Path,
    run: Path,
    verifier: Path,
    file: str,
    config: DecoderConfig,
    weights: Weights,
    calibration: Calibration | None,
) -> None:
    """Writes a drafter into a model folder, the verifier's own or another one.

    :param weights: in float16
    :raises UsageError: something that was not there before would be lost (`check_place`).
    """
    parent = ModelFolder.read(verifier)
    check_place(folder, parent, run, file)
    place = ModelFolder.read(folder) if (folder / CONFIG).exists() else parent
    # Its hash first: a command that is stopped behind this line knows its own drafter again.
    write_tensors(run / file, weights)
    write_whole(run / WRITTEN, json.dumps(sorted({*_written(run), file_sha256(run / file)}), indent=2) + "\n")
    add_drafter(folder, place, config, weights, calibration)


def _written(run: Path) -> list[str]:
    path = run / WRITTEN
    return list(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else []
