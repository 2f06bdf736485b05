"""Parallel text to a SentencePiece model and encoded, memory-mapped training data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import sentencepiece

from specmt.errors import DataError, UsageError
from specmt.text.pieces import PIECES, Pieces
from specmt.training.data import ParallelData, read_pairs
from specmt.types import BOS, EOS, PAD, UNK

Pair = tuple[Path, Path]

RECORD: Final = "data.json"


@dataclass(frozen=True, kw_only=True)
class PrepareOptions:
    """What to prepare."""

    train: tuple[Pair, ...]
    """Parallel training files (source, target); one named twice counts twice."""

    valid: tuple[Pair, ...] = ()
    """Parallel validation files."""

    vocab_size: int = 8000
    """The number of pieces, shared by both languages."""

    max_length: int = 128
    """Training pairs with more pieces on either side are left out."""

    max_ratio: float = 3.0
    """Training pairs whose sides differ by more than this factor in pieces are left out (short ones excepted)."""

    sample: int = 400_000
    """How many sentences of each side the SentencePiece model is trained on."""

    pieces: Path | None = None
    """An existing SentencePiece model to use instead of training one."""


@dataclass(frozen=True)
class Prepared:
    """How many pairs were kept and left out."""

    kept: int
    left_out: int
    vocab_size: int


def train_pieces(pairs: Sequence[Pair], path: Path, *, vocab_size: int, sample: int) -> None:
    """Trains a joint BPE model with byte fallback on evenly spaced sentences of both sides.

    :raises UsageError: the text is too small for the vocabulary.
    """
    unique = list(dict.fromkeys(pairs))
    total = sum(1 for pair in unique for _ in read_pairs(*pair))
    step = max(1, total // sample)

    def sentences() -> Iterator[str]:
        lines = (pair for files in unique for pair in read_pairs(*files))
        for source, target in islice(lines, 0, None, step):
            yield source
            yield target

    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=sentences(),
            model_prefix=str(path.with_suffix("")),
            model_type="bpe",
            vocab_size=vocab_size,
            character_coverage=0.9995,
            byte_fallback=True,
            # Text must come back as it went in: no NFKC, no folding of anything but runs of spaces.
            normalization_rule_name="identity",
            split_digits=True,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            max_sentence_length=16384,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise UsageError(f"`vocab_size` {vocab_size} does not fit the training text: {error}") from error
    path.with_suffix(".vocab").unlink(missing_ok=True)


def prepare(folder: Path, options: PrepareOptions, *, progress: Callable[[str], None] = lambda _: None) -> Prepared:
    """Writes pieces model, encoded training and validation data and a record of their origin into a folder.

    What is there already is replaced at the end, when all has come out well.

    :raises DataError: the two sides of a pair of files differ in line count, or no pair is left.
    :raises ModelError: the pieces given are no SentencePiece model.
    """
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with TemporaryDirectory(dir=folder, prefix=".new-") as name:
            prepared = _prepare(Path(name), options, progress)
            for path in sorted(Path(name).iterdir(), key=lambda path: path.name == RECORD):  # the record last
                path.replace(folder / path.name)
    except BaseException:
        if new:
            folder.rmdir()
        raise
    return prepared


def _prepare(folder: Path, options: PrepareOptions, progress: Callable[[str], None]) -> Prepared:
    path = folder / PIECES
    if options.pieces is not None:
        path.write_bytes(options.pieces.read_bytes())
    else:
        progress("training the SentencePiece model")
        train_pieces(options.train, path, vocab_size=options.vocab_size, sample=options.sample)
    pieces = Pieces(path)
    if len(pieces) > 2**16:
        raise UsageError(f"`vocab_size` must be at most 65536, but is {len(pieces)} instead.")

    kept: list[tuple[list[int], list[int]]] = []
    left_out = 0
    for pair in options.train:
        progress(f"encoding {pair[0].name}")
        for source, target in _encode(pieces, pair):
            if _is_usable(len(source), len(target), options):
                kept.append((source, target))
            else:
                left_out += 1
    if not kept:
        raise DataError("No training pair is left; see `max_length` and `max_ratio`.")
    ParallelData.of(kept).save(folder, "train")
    for source_path, target_path in options.valid:
        pairs = list(read_pairs(source_path, target_path))
        name = source_path.name.removesuffix(".gz").rsplit(".", 1)[0]
        valid = {"source": [s for s, _ in pairs], "target": [t for _, t in pairs]}
        (folder / f"valid.{name}.json").write_text(json.dumps(valid, ensure_ascii=False), encoding="utf-8")
    record = {
        "train": [[p.name for p in pair] for pair in options.train],
        "pairs": len(kept),
        "left_out": left_out,
        "vocab_size": len(pieces),
        "pieces_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }
    (folder / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return Prepared(len(kept), left_out, len(pieces))


def _encode(pieces: Pieces, pair: Pair) -> Iterator[tuple[list[int], list[int]]]:
    lines = read_pairs(*pair)
    while pairs := list(islice(lines, 20_000)):
        sources = pieces.encode_batch([source for source, _ in pairs])
        targets = pieces.encode_batch([target for _, target in pairs])
        yield from zip(sources, targets, strict=True)


def _is_usable(source: int, target: int, options: PrepareOptions) -> bool:
    if not 1 <= min(source, target) <= max(source, target) <= options.max_length:
        return False
    return max(source, target) <= options.max_ratio * min(source, target) + 5
