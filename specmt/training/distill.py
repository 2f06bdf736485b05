"""Sequence-level distillation: the verifier's greedy output over a corpus, as training data for a drafter."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from specmt.config import DecodingOptions
from specmt.decoding.batch import decode
from specmt.errors import DataError, UsageError
from specmt.models.hub import Model
from specmt.training.data import Sequences, read_lines

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

    Lines are taken once each, evenly spaced if there are more than ``limit``. The work is saved shard by shard; a
    second call goes on after the last whole one. Sentences whose output hit the length limit are left out.

    :raises UsageError: the folder holds shards of other text or of another model.
    :raises DataError: no sentence is left.
    """
    folder.mkdir(parents=True, exist_ok=True)
    sources = [s for s in model.pieces.encode_batch(_lines(files, limit)) if 1 <= len(s) < max_length]
    digest = hashlib.sha256(json.dumps(sources).encode()).hexdigest()
    _check_same_work(
        folder, {"model": model.sha256, "sentences": len(sources), "sources_sha256": digest, "shard": SHARD}
    )
    options = DecodingOptions(strategy="greedy", batch_size=batch_size, batch_tokens=batch_size * 128)
    shards = -(-len(sources) // SHARD)
    for shard in range(shards):
        path = folder / f"shard-{shard:05d}.json"
        if not path.exists():
            part = sources[shard * SHARD : (shard + 1) * SHARD]
            hypotheses = decode(model, part, options)
            finished = [
                (source, hypothesis.tokens)
                for source, hypothesis in zip(part, hypotheses, strict=True)
                if 0 < len(hypothesis.tokens) < hypothesis.stats.tokens  # one more than the tokens: EOS was reached
            ]
            _write(path, json.dumps(finished))
        report(min(len(sources), (shard + 1) * SHARD), len(sources))
    pairs = [pair for shard in range(shards) for pair in json.loads((folder / f"shard-{shard:05d}.json").read_text())]
    if not pairs:
        raise DataError("No sentence is left to distil; see `max_length`.")
    Sequences.save(folder / "train.source", [source for source, _ in pairs])
    Sequences.save(folder / "train.target", [target for _, target in pairs])
    return len(pairs)


def _lines(files: Sequence[Path], limit: int | None) -> list[str]:
    seen = list(dict.fromkeys(line for path in files for line in read_lines(path) if line.strip()))
    if limit is None or len(seen) <= limit:
        return seen
    return [seen[number * len(seen) // limit] for number in range(limit)]


def _check_same_work(folder: Path, work: dict[str, object]) -> None:
    path = folder / "distill.json"
    if not path.exists():
        _write(path, json.dumps(work, indent=2) + "\n")
    elif json.loads(path.read_text(encoding="utf-8")) != work:
        raise UsageError(f"{folder}: holds the distillation of other text or of another model; name a new folder.")


def _write(path: Path, text: str) -> None:
    """Writes a file under a temporary name and renames it."""
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
