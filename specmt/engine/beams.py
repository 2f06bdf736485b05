"""What a fused beam search works on, and who can run one."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from specmt.engine.backend import State
from specmt.engine.fused import Counts, Drafting


@dataclass(frozen=True)
class Beams:
    """The hypotheses of B sentences, K each, for beam search, which changes what is here; arrays are in C order."""

    tokens: Counts
    """(B, K, T) those that go on, from BOS on, the best first."""

    scores: npt.NDArray[np.float32]
    """(B, K) the sums of their log-probabilities."""

    counts: Counts
    """(B) how many go on; 0 where a sentence has ended."""

    lengths: Counts
    """(B) how many tokens they have."""

    limits: Counts
    """(B) the most tokens."""

    slots: Counts
    """(B, K, T) where a fused search keeps the keys and values of each token, in the sentence's row of the cache."""

    extents: Counts
    """(B) one more than the last such place that was used."""

    found_tokens: Counts
    """(B, K, T) hypotheses that have ended, in the order in which they did."""

    found_lengths: Counts
    """(B, K)"""

    found_scores: npt.NDArray[np.float32]
    """(B, K)"""

    found: Counts
    """(B) how many have ended."""

    calls: Counts
    """(B) how many calls were made."""

    drafted: Counts
    """(B) how many continuations were verified ahead."""

    accepted: Counts
    """(B) how many calls made two steps, since those were right."""

    reads: Counts
    """(B, K) how many tokens of hypotheses a drafter has read."""

    @classmethod
    def empty(cls, rows: int, width: int, length: int) -> Beams:
        """Returns room for sentences.

        :param width: K
        :param length: T
        """
        shapes = {1: (rows,), 2: (rows, width), 3: (rows, width, length)}
        dimensions = {
            "tokens": 3,
            "slots": 3,
            "found_tokens": 3,
            "scores": 2,
            "reads": 2,
            "found_scores": 2,
            "found_lengths": 2,
        }
        scores = ("scores", "found_scores")
        return cls(
            **{
                each.name: np.zeros(
                    shapes[dimensions.get(each.name, 1)], dtype=np.float32 if each.name in scores else np.int64
                )
                for each in fields(cls)
            }
        )

    def part(self, rows: slice) -> Beams:
        """Returns a view of some rows."""
        return Beams(*(getattr(self, each.name)[rows] for each in fields(self)))

    def put(self, rows: slice, other: Beams) -> None:
        """Copies other rows over some."""
        for each in fields(self):
            getattr(self, each.name)[rows] = getattr(other, each.name)


@runtime_checkable
class FusedBeam(Protocol):
    """A verifier that runs steps of beam search by itself."""

    def search(self, state: State, beams: Beams, drafting: Drafting, *, iterations: int, enough: int) -> None:
        """Goes on with hypotheses, so many calls at most, or until enough sentences have ended.

        Those of a sentence share a row of the state. The drafter goes one token ahead, and the best `nodes` of what it
        says are verified: where those are all hypotheses of the next step, a call makes two. It comes back after about
        50 ms, so that signals are handled, and where caches have to grow.

        :raises MemoryError: there is not enough.
        """
