"""Sequence-level distillation: the verifier's greedy output over a corpus, as training data for a drafter."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from specmt.decoding.session import decode
from specmt.errors import DataError, UsageError
from specmt.files import write_whole
from specmt.models.hub import Model
from specmt.options import DecodingOptions
from specmt.text.lines import read_lines
from specmt.training.data import ParallelData

T = TypeVar("T")

WORK: Final = "distill.json"
"""Says what is done in a folder."""

SHARD = 4096
"""Sentences decoded between two saves."""


def distill(
    folder: Path,
    model: Model,
    files: Sequence[Path],
    *,
    limit: int | None = None,
    max_length: int = 100,
    batch_size: int = 64,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> int:
    """Writes ``train.source`` and ``train.target`` of the verifier's greedy output; returns the number of pairs.

    Lines are taken once each, evenly spaced if there are more than ``limit``.

    :raises UsageError: the folder holds shards of other text, of another model or in other numerics.
    :raises DataError: no sentence is left.
    """
    lines = distinct_lines(files)
    lines = lines if limit is None else evenly(lines, limit)
    sources = [s for s in model.pieces.encode_batch(lines) if 1 <= len(s) < max_length]
    return distill_sources(folder, model, sources, model.sha256, shard=SHARD, batch_size=batch_size, report=report)


def distill_sources(
    folder: Path,
    model: Model,
    sources: Sequence[list[int]],
    name: str,
    *,
    shard: int,
    batch_size: int,
    is_enough: Callable[[], bool] = lambda: False,
    report: Callable[[int, int], None],
) -> int:
    """Writes the verifier's greedy output over sentences given as ids without EOS; returns the number of pairs.

    The work is saved shard by shard; a second call goes on after the last whole one. Sentences whose output hit the
    length limit are left out.

    :param name: what stands for the verifier
    :param shard: how many sentences are decoded between two saves
    :param is_enough: is asked after each shard whether to leave out the others
    :raises UsageError: the folder holds shards of other text, of another model or in other numerics.
    :raises DataError: no sentence is left.
    """
    if not sources:
        raise DataError("No sentence is left to distil; see `max_length`.")
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(json.dumps(sources).encode()).hexdigest()
    work = {"model": name, "numerics": model.numerics, "sentences": len(sources), "sources_sha256": digest}
    check_same_work(folder, {**work, "shard": shard})
    begins = range(0, len(sources), shard)
    paths = [folder / f"shard-{number:05d}.json" for number in range(len(begins))]
    for begin, path in zip(begins, paths, strict=True):
        if not path.exists():
            if begin > 0 and is_enough():
                paths = [path for path in paths if path.exists()]
                break
            write_whole(path, json.dumps(translate_whole(model, sources[begin : begin + shard], batch_size)))
        report(min(len(sources), begin + shard), len(sources))
    pairs = [pair for path in paths for pair in json.loads(path.read_text(encoding="utf-8"))]
    if not pairs:
        for path in (folder / WORK, *paths):
            path.unlink()
        raise DataError("No sentence is left to distil: none of the translations comes to an end.")
    ParallelData.of(pairs).save(folder, "train")
    return len(pairs)


def translate_whole(model: Model, sources: Sequence[list[int]], batch_size: int) -> list[tuple[list[int], list[int]]]:
    """Returns sentences with the verifier's greedy output, but for those whose output hit the length limit."""
    options = DecodingOptions(strategy="greedy", batch_size=batch_size, batch_tokens=batch_size * 128)
    return [
        (source, hypothesis.tokens)
        for source, hypothesis in zip(sources, decode(model, sources, options), strict=True)
        if 0 < len(hypothesis.tokens) < hypothesis.stats.tokens  # one more than the tokens: EOS was reached
    ]


def distinct_lines(files: Sequence[Path]) -> list[str]:
    """Returns the lines of files that are not blank, once each."""
    texts = (line.text for path in files for line in read_lines(path))
    return list(dict.fromkeys(text for text in texts if text.strip()))


def evenly(items: Sequence[T], count: int) -> list[T]:
    """Returns so many items at even distances, or all if there are no more."""
    count = min(count, len(items))
    return [items[number * len(items) // count] for number in range(count)]


def check_same_work(folder: Path, work: dict[str, object]) -> None:
    """Notes in a folder what is done there; a note beside which nothing was done gives way.

    :raises UsageError: other work was done there.
    """
    path = folder / WORK
    noted = json.loads(path.read_text(encoding="utf-8")) if path.exists() else work
    if noted != work and any(folder.glob("*[0-9].json")):
        raise UsageError(
            f"{folder}: holds the distillation of other text, of another model or in other numerics; name a new folder."
        )
    write_whole(path, json.dumps(work, indent=2) + "\n")
