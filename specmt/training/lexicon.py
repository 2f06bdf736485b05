"""Learns which target pieces a source piece may lead to, from the verifier's own greedy output."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from specmt.errors import DataError, UsageError
from specmt.models.config import ShortlistConfig
from specmt.text.pieces import PieceModel
from specmt.text.shortlist import DRAFTED_ALWAYS, DRAFTED_EACH, Shortlist
from specmt.training.data import Array, ParallelData, Sequences
from specmt.training.distill import evenly
from specmt.types import EOS, UNK

FREQUENT: Final = 1500
ASSOCIATED: Final = 100
ITERATIONS: Final = 4

HELD_OUT: Final = 20
"""One sentence in so many is not learnt from, but measured on."""

Mask = npt.NDArray[np.bool_]


def read_distilled(folder: Path, pieces: PieceModel, *, limit: int) -> ParallelData:
    """Returns what `specmt distill` wrote, evenly spaced if there are more sentences than ``limit``.

    :raises InputNotFoundError: there is nothing.
    :raises UsageError: it was written with the pieces of another model.
    """
    data = ParallelData.load(folder, "train")
    for sequences, size in ((data.source, pieces.source_size), (data.target, len(pieces))):
        if sequences.ids.max(initial=0) >= size:
            raise UsageError(f"{folder}: was distilled from a model with other pieces.")
    taken = np.zeros(len(data), dtype=np.bool_)
    taken[evenly(range(len(data)), limit)] = True
    return _some(data, taken)


def learn_shortlist(
    data: ParallelData, pieces: PieceModel, *, frequent: int = FREQUENT, associated: int = ASSOCIATED
) -> tuple[Shortlist, ShortlistConfig]:
    """Learns a shortlist from sources and what the verifier said of them.

    The most frequent target pieces, bytes, UNK and EOS may always be said; a source piece allows itself, where the
    target has it, and those that it is likeliest to be translated by.

    :param frequent: how many of the most frequent target pieces, at least 1
    :param associated: how many of the likeliest for each source piece, at least 1
    :raises DataError: there are too few sentences.
    """
    if len(data) < HELD_OUT:
        raise DataError(f"A shortlist needs {HELD_OUT} sentences to learn from, but there are {len(data)}.")
    held_out = np.arange(len(data)) % HELD_OUT == HELD_OUT - 1
    known = _some(data, ~held_out)
    size = len(pieces)
    always = _always(known.target, pieces, frequent)
    keys, probabilities = translation_probabilities(known, pieces.source_size, size)
    useful = (keys < pieces.source_size * size) & ~np.isin(keys % size, always[:DRAFTED_ALWAYS])
    keys, probabilities = keys[useful], probabilities[useful]
    keys = keys[np.lexsort((-probabilities, keys // size))]
    more = ~np.isin(keys % size, always)
    # Drafts are chosen from less, so that what may always be said is not always there for them.
    wanted = (_rank(keys // size) < DRAFTED_EACH) | (more & (_rank(keys // size, more) < associated))
    copies = np.array(pieces.to_target(range(pieces.source_size)), dtype=np.int64)
    copied = np.flatnonzero(copies > EOS)
    # Copies first, and not twice.
    keys = np.concatenate([copied * size + copies[copied], keys[wanted]])
    keys = keys[np.sort(np.unique(keys, return_index=True)[1])]
    keys = keys[np.argsort(keys // size, kind="stable")]
    shortlist = Shortlist(
        always=always.astype(np.int32),
        starts=np.searchsorted(keys // size, np.arange(pieces.source_size + 1)).astype(np.int64),
        targets=(keys % size).astype(np.int32),
    )
    return shortlist, _measured(shortlist, _some(data, held_out), frequent, associated, len(known))


def translation_probabilities(
    data: ParallelData, source_size: int, target_size: int
) -> tuple[Array, npt.NDArray[np.float64]]:
    """Returns the probabilities t(target piece | source piece) of IBM's Model 1 (Brown et al. 1993).

    A few iterations of expectation maximisation, from equal probabilities on; the empty word has the number of source
    pieces for its id. It takes about 50 bytes for each pair of pieces that meet in a sentence.

    :returns: source id · ``target_size`` + target id in ascending order, for pairs that meet, and their probabilities
    """
    sources = np.insert(data.source.ids.astype(np.int64), data.source.offsets[:-1], source_size)
    begins = data.source.offsets[:-1] + np.arange(len(data))
    # Target piece after target piece, with all source pieces of its sentence.
    widths = np.repeat(data.source.lengths + 1, data.target.lengths)
    ends = np.cumsum(widths)
    places = np.arange(ends[-1]) + np.repeat(np.repeat(begins, data.target.lengths) - (ends - widths), widths)
    met = sources[places] * target_size + np.repeat(data.target.ids.astype(np.int64), widths)
    keys, index = np.unique(met, return_inverse=True)
    del places, met
    owners = keys // target_size
    probabilities = np.ones(len(keys))
    for _ in range(ITERATIONS):
        weights = probabilities[index]
        weights /= np.repeat(np.add.reduceat(weights, ends - widths), widths)
        counts = np.bincount(index, weights)
        probabilities = counts / np.bincount(owners, counts)[owners]
    return keys, probabilities


def _rank(owners: Array, counted: Mask | None = None) -> Array:
    """Returns how many stand before each item with the same owner, of those that are counted; owners are in order."""
    ones = np.ones(len(owners), dtype=np.int64) if counted is None else counted.astype(np.int64)
    before = np.cumsum(ones) - ones
    return before - before[np.searchsorted(owners, owners)]


def _always(target: Sequences, pieces: PieceModel, frequent: int) -> Array:
    counts = np.bincount(target.ids, minlength=len(pieces))
    best = np.argsort(-counts, kind="stable")[:frequent]
    named = enumerate(pieces.pieces(range(len(pieces))))
    in_bytes = [i for i, piece in named if re.fullmatch("<0x[0-9A-F]{2}>", piece)]
    found = np.concatenate([[EOS], best[counts[best] > 0], [UNK], in_bytes])
    return found[np.sort(np.unique(found, return_index=True)[1])].astype(np.int64)  # each where it comes first


def _measured(
    shortlist: Shortlist, data: ParallelData, frequent: int, associated: int, sentences: int
) -> ShortlistConfig:
    allowed = [shortlist.of(source) for source in map(data.source.__getitem__, range(len(data)))]
    said = [np.isin(data.target[number], ids) for number, ids in enumerate(allowed)]
    return ShortlistConfig(
        frequent=frequent,
        associated=associated,
        sentences=sentences,
        recall=float(np.concatenate(said).mean()),
        whole=float(np.mean([each.all() for each in said])),
        allowed=float(np.mean([len(ids) for ids in allowed])),
    )


def _some(data: ParallelData, taken: Mask) -> ParallelData:
    """Returns some of the pairs."""
    return ParallelData(*(_some_of(sequences, taken) for sequences in (data.source, data.target)))


def _some_of(sequences: Sequences, taken: Mask) -> Sequences:
    ids = sequences.ids[np.repeat(taken, sequences.lengths)]
    return Sequences(ids, np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sequences.lengths[taken])]))
