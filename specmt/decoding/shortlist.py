"""Vocabulary shortlists: what may be said of a sentence, decided by its source pieces alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Shortlist:
    """The target pieces that may always be said, and those that each source piece allows besides.

    The former are the most frequent ones, the latter its likeliest translations (Jean et al. 2015). What a sentence may
    say depends on no other, so that neither its batch nor its neighbours change a translation.
    """

    always: Ids
    """(A)"""

    starts: Places
    """(V_source + 1) where the target pieces of each source piece begin, and where the last end."""

    targets: Ids
    """The target pieces of all source pieces, one after the other."""

    def fits(self, source_pieces: int, target_pieces: int) -> bool:
        """Returns whether this is one for so many source and target pieces."""
        ids = np.concatenate([self.always, self.targets])
        places = np.concatenate([[0], self.starts, [len(self.targets)]])
        return (
            len(self.starts) == source_pieces + 1
            and bool((np.diff(places) >= 0).all())
            and bool(((ids >= 0) & (ids < target_pieces)).all())
        )

    def of(self, source: Sequence[int]) -> Places:
        """Returns what may be said of a source given as ids without EOS, in ascending order, once each."""
        parts = [self.targets[self.starts[piece] : self.starts[piece + 1]] for piece in set(source)]
        return np.unique(np.concatenate([self.always, *parts])).astype(np.int64)
