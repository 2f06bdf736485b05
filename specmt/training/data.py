"""Encoded parallel text on disk, and batches of similar length drawn from it in a reproducible order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from specmt.errors import DataError, InputNotFoundError
from specmt.text.lines import read_lines
from specmt.types import PAD

Array = npt.NDArray[np.int64]
Ids: TypeAlias = "npt.NDArray[np.unsignedinteger[Any]]"


def read_pairs(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    """Yields the line pairs of two parallel files (`specmt.text.lines.read_lines`).

    :raises DataError: one file has more lines than the other.
    """
    for number, (left, right) in enumerate(zip_longest(read_lines(source), read_lines(target)), 1):
        if left is None or right is None:
            short = source if left is None else target
            raise DataError(f"{short}:{number}: the file ends here, but the other side has more lines.")
        yield left.text, right.text


class Sequences:
    """Many id sequences in two arrays, memory-mapped: all ids one after the other, and where each starts."""

    def __init__(self, ids: Ids, offsets: Array) -> None:
        self.ids = ids
        self.offsets = offsets
        self.lengths: Array = np.diff(offsets)

    @staticmethod
    def load(stem: Path) -> Sequences:
        """Maps ``stem.ids.npy`` and ``stem.offsets.npy``.

        :raises InputNotFoundError: one of them is missing.
        """
        try:
            ids = np.load(f"{stem}.ids.npy", mmap_mode="r", allow_pickle=False)
            return Sequences(ids, np.load(f"{stem}.offsets.npy", allow_pickle=False))
        except OSError as error:
            raise InputNotFoundError(f"{stem}.ids.npy: cannot be opened; run `specmt prepare` first.") from error

    @staticmethod
    def of(sequences: list[list[int]]) -> Sequences:
        """Returns sequences in memory, ids in 16 bits where all of them fit."""
        lengths = np.fromiter((len(s) for s in sequences), dtype=np.int64, count=len(sequences))
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
        ids = np.fromiter((i for s in sequences for i in s), dtype=np.uint32, count=int(offsets[-1]))
        fits = ids.max(initial=0) <= np.iinfo(np.uint16).max
        return Sequences(ids.astype(np.uint16) if fits else ids, offsets)

    def save(self, stem: Path) -> None:
        """Writes the two arrays."""
        np.save(f"{stem}.ids.npy", self.ids)
        np.save(f"{stem}.offsets.npy", self.offsets)

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> list[int]:
        return [int(i) for i in self.ids[self.offsets[index] : self.offsets[index + 1]]]

    def pad(self, indices: Array, *, before: Sequence[int] = (), after: int | None = None) -> tuple[Array, Array]:
        """Returns the sequences as padded ids (B, T) and their lengths (B), some ids put before and one after each."""
        start = len(before)
        lengths = self.lengths[indices] + start + (after is not None)
        batch = np.full((len(indices), int(lengths.max())), PAD, dtype=np.int64)
        for row, index in enumerate(indices):
            ids = self.ids[self.offsets[index] : self.offsets[index + 1]]
            batch[row, start : start + len(ids)] = ids
            if after is not None:
                batch[row, start + len(ids)] = after
        batch[:, :start] = before
        return batch, lengths


@dataclass(frozen=True)
class ParallelData:
    """Source and target sequences of equal number."""

    source: Sequences
    target: Sequences

    @staticmethod
    def of(pairs: Sequence[tuple[list[int], list[int]]]) -> ParallelData:
        """Returns pairs in memory."""
        return ParallelData(*(Sequences.of([pair[side] for pair in pairs]) for side in (0, 1)))

    def save(self, folder: Path, name: str) -> None:
        """Writes ``NAME.source`` and ``NAME.target`` into a folder."""
        self.source.save(folder / f"{name}.source")
        self.target.save(folder / f"{name}.target")

    @staticmethod
    def load(folder: Path, name: str) -> ParallelData:
        """Maps ``NAME.source`` and ``NAME.target`` of a prepared folder."""
        return ParallelData(Sequences.load(folder / f"{name}.source"), Sequences.load(folder / f"{name}.target"))

    def __len__(self) -> int:
        return len(self.source)


def make_batches(
    data: ParallelData, *, tokens: int, seed: int, epoch: int, max_length: int | None = None
) -> list[Array]:
    """Groups pair indices into batches of similar length, in an order that seed and epoch alone decide.

    A batch holds at most ``tokens`` padded ids, source and target together. With ``max_length``, longer pairs are
    left out (a curriculum starts with short ones).
    """
    generator = np.random.default_rng([seed, epoch])
    source, target = data.source.lengths + 1, data.target.lengths + 1
    longest = np.maximum(source, target)
    order = generator.permutation(len(data))
    if max_length is not None:
        order = order[longest[order] <= max_length]
    # Random among equals: the permutation decides, the sort is stable. Sorting by both lengths leaves little padding.
    order = order[np.lexsort((target[order] // 4, longest[order] // 2))]
    batches: list[Array] = []
    begin, widest_source, widest_target = 0, 0, 0
    for end, index in enumerate(order):
        widest_source, widest_target = max(widest_source, source[index]), max(widest_target, target[index])
        if end > begin and (end + 1 - begin) * (widest_source + widest_target) > tokens:
            batches.append(order[begin:end])
            begin, widest_source, widest_target = end, source[index], target[index]
    if begin < len(order):
        batches.append(order[begin:])
    return [batches[i] for i in generator.permutation(len(batches))]
