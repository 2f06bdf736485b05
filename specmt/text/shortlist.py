"""Vocabulary shortlists: what may be said of a sentence, or drafted for it, decided by its source pieces alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from typing_extensions import override

Ids = npt.NDArray[np.int32]
Places = npt.NDArray[np.int64]

DRAFTED_ALWAYS: Final = 256
DRAFTED_EACH: Final = 16
"""How much of a shortlist drafts are chosen from: missing a token costs a draft, a longer list costs every draft."""


@dataclass(frozen=True, eq=False)
class Shortlist:
    """The target pieces that may always be said, and those that each source piece allows besides.

    The former are the most frequent ones, the latter its likeliest translations (Jean et al. 2015). What a sentence may
    say depends on no other, so that neither its batch nor its neighbours change a translation.
    """

    always: Ids
    """(A), EOS first, then the most frequent"""

    starts: Places
    """(V_source + 1) where the target pieces of each source piece begin, and where the last end."""

    targets: Ids
    """The target pieces of all source pieces, one after the other, the likeliest first."""

    def fits(self, source_pieces: int, target_pieces: int) -> bool:
        """Returns whether this is one for so many source and target pieces."""
        pieces = self.always, self.targets
        if not all(part.ndim == 1 and part.dtype.kind == "i" for part in (*pieces, self.starts)):
            return False
        places = np.concatenate([[0], self.starts, [len(self.targets)]])
        return (
            len(self.starts) == source_pieces + 1
            and bool((np.diff(places) >= 0).all())
            and all(part.min(initial=0) >= 0 and part.max(initial=0) < target_pieces for part in pieces)
        )

    def of(self, source: Sequence[int]) -> Places:
        """Returns what may be said of a source given as ids without EOS, in ascending order, once each."""
        ids = np.sort(np.concatenate([self.always, *map(self.likeliest, set(source))])).astype(np.int64)
        return ids[np.diff(ids, prepend=-1) > 0]  # numpy.unique imports modules for 15 ms

    def likeliest(self, piece: int) -> Ids:
        """Returns what a source piece allows, the likeliest first."""
        return self.targets[self.starts[piece] : self.starts[piece + 1]]

    def narrow(self, always: int, each: int) -> Shortlist:
        """Returns the first pieces alone: so many that may always be said, and so many for each source piece."""
        return _Narrow(self.always[:always], self.starts, self.targets, each)


@dataclass(frozen=True, eq=False)
class _Narrow(Shortlist):
    """The first pieces of a shortlist, of which nothing is copied: a table takes longer to narrow than to use."""

    each: int
    """The most pieces of a source piece."""

    @override
    def likeliest(self, piece: int) -> Ids:
        return super().likeliest(piece)[: self.each]
