"""Reads Marian's binary shortlists: which target pieces may be said of a source, as Bergamot's engine reads them.

All numbers are little-endian: six of 8 bytes (what all such files begin with, a checksum of all that follows it, the
number of first pieces, that of the best for each source piece, the numbers of offsets and of entries), the offsets in 8
bytes each, one more than source pieces, and the entries in 4 bytes, target pieces in ascending order.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np

from specmt.engine.arrays import Array
from specmt.errors import ModelError
from specmt.models.config import ShortlistConfig
from specmt.models.interop.foreign import Vocabulary
from specmt.models.interop.marian_binary import Reader
from specmt.text.shortlist import Shortlist
from specmt.types import EOS, UNK

_MAGIC: Final = 0xF11A48D5013417F5


def read_shortlist(
    path: Path, data: bytes, source: Vocabulary, target: Vocabulary
) -> tuple[Shortlist, ShortlistConfig]:
    """Returns what may be said of a source by our ids, and what is known of that.

    As in the engine, EOS counts as a source piece of every sentence, and, with one vocabulary for both languages, a
    piece may stand for itself. The engine fills lists up to multiples of eight with what follows the first pieces, by
    what else is in a batch; here, nothing of a batch is in a translation.

    :param path: what to name in errors
    """
    reader = Reader(path, data)
    if reader.one("<u8", "its head") != _MAGIC:
        raise ModelError(f"{path}: is no binary shortlist of Marian.")
    checksum, first, best, offset_count, entry_count = reader.take(5, "<u8", "its head").tolist()
    rest = (len(data) - 16) // 8
    if _checksum(np.frombuffer(data, "<u8", rest, 16).tolist()) != checksum:
        raise ModelError(f"{path}: is damaged; its checksum is another one. Fetch it again.")
    pieces, said = len(source.pieces), len(target.pieces)
    if offset_count != pieces + 1:
        raise ModelError(
            f"{path}: must be for {pieces:,} source pieces, as the vocabulary, but is for {offset_count - 1:,} instead."
        )
    offsets = reader.take(offset_count, "<u8", "its offsets")
    entries = reader.take(entry_count, "<u4", "its entries")
    is_ordered = offsets[0] == 0 and offsets[-1] == entry_count and bool((offsets[:-1] <= offsets[1:]).all())
    if reader.left or not is_ordered or int(entries.max(initial=0)) >= said:
        raise ModelError(f"{path}: is damaged, or for other vocabularies than those of the model. Fetch it again.")
    return _ours(offsets.astype(np.int64), entries.astype(np.int64), first, source, target), ShortlistConfig(
        frequent=min(first, said), associated=best, sentences=0, recall=None, whole=None, allowed=None
    )


def _ours(offsets: Array, entries: Array, first: int, source: Vocabulary, target: Vocabulary) -> Shortlist:
    ids = np.full(len(target.pieces), UNK)
    for theirs, our in target.ids().items():
        ids[theirs] = our
    listed = [ids[entries[begin:end]] for begin, end in pairwise(offsets)]
    always = np.concatenate([[EOS], ids[:first], listed[source.eos]])
    copied = [[our] if source is target and our > EOS else [] for our in range(len(source.rows()))]
    parts = [
        np.concatenate([itself, listed[theirs] if theirs >= 0 else []])
        for itself, theirs in zip(copied, source.rows(), strict=True)
    ]
    parts = [_distinct(part) for part in parts]
    starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    return Shortlist(
        _distinct(always).astype(np.int32), starts.astype(np.int64), np.concatenate(parts).astype(np.int32)
    )


def _distinct(ids: Array) -> Array:
    """Returns ids once each, where they come first, without UNK, which is never said."""
    ids = ids[ids != UNK].astype(np.int64)
    return ids[np.sort(np.unique(ids, return_index=True)[1])]


def _checksum(words: list[int]) -> int:
    seed = 0
    for word in words:
        seed ^= (word + 0x9E3779B9 + (seed << 6) + (seed >> 2)) & 0xFFFF_FFFF_FFFF_FFFF
    return seed
