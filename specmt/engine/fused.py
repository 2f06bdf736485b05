"""The contracts of verifiers that run iterations of the loop, or steps of beam search, by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from specmt.engine.arrays import Floats, Ids
from specmt.engine.cache import State
from specmt.engine.protocols import DraftNetwork, Scorer


class Sentences(NamedTuple):
    """The first B rows of a state, for a fused loop, which changes what is here."""

    tokens: Ids
    """(B, T) the committed tokens, from BOS on."""

    lengths: Ids
    """(B) how many they are."""

    limits: Ids
    """(B) how many they may become."""

    log_probs: Floats | None = None
    """(B, T) in float32, the log-probability of each token that is committed; ``None`` where nobody asks."""

    hints: Sequence[Sequence[int]] = ()
    """(B) what sentences may go on with, from some place on; none for none. They are drafted where they fit."""


class Confidence(NamedTuple):
    """Decides what is drafted and which nodes are verified: paths that are likely enough to be accepted.

    A token drafted with probability p after accepted ones is accepted with probability
    1 / (1 + exp(−scale · log(p / (1 − p)) − shift)); a path with the product of those of its nodes. Nothing is behind
    EOS.
    """

    scale: float
    shift: float

    floor: float
    """The least probability of a path whose last node is verified: that costs a row of a window. With 0 everything is
    drafted and verified."""

    margin: float = 0.0
    """The least probability, of all paths together that a draft could go on with, of going on: that costs a step of the
    drafter."""


class Drafting(NamedTuple):
    """How a fused loop drafts."""

    block_size: int
    """How many tokens ahead; 0 for none."""

    network: DraftNetwork | Scorer | None = None
    """The drafter's network; ``None`` where nothing is drafted."""

    state: State | None = None
    """The drafter's caches."""

    seen: Ids | None = None
    """(B) how many of the committed tokens are in them."""

    nodes: int = 0
    """The most nodes N of best-first trees; 0 drafts chains."""

    breadth: int = 1
    """How many candidates β may follow a token of a tree."""

    confidence: Confidence | None = None
    """Without, all drafts are verified."""

    stage: Drafting | None = None
    """How what the network says is drafted in turn, by a loop inside the loop. The network is then a replica of the
    verifier, and its caches are the verifier's: it stops where the confidence says, and not before."""


class Rule(NamedTuple):
    """When a draft stands: among the verifier's β best tokens and at most τ below the best in log-probability."""

    beta: int
    tolerance: float

    @property
    def is_exact(self) -> bool:
        """Whether nothing but the best stands."""
        return self.beta == 1 or self.tolerance == 0.0


EXACT: Final = Rule(1, 0.0)
"""Nothing but the best stands."""


class Ran(NamedTuple):
    """What came of the iterations of a fused loop, −1 where a sentence had ended before."""

    drafted: Ids
    """(I, B) how many drafted tokens were verified."""

    accepted: Ids
    """(I, B) how many of them were accepted."""


@runtime_checkable
class FusedLoop(Protocol):
    """A verifier that runs iterations of the loop by itself, with exact or tolerant acceptance."""

    def run(
        self,
        state: State,
        sentences: Sentences,
        drafting: Drafting,
        *,
        iterations: int,
        enough: int,
        rule: Rule = EXACT,
    ) -> Ran:
        """Drafts, verifies and commits, so many iterations at most, or until enough sentences have ended.

        It comes back after about 50 ms, so that signals are handled, and where caches have to grow.

        :raises MemoryError: there is not enough; what was committed stands.
        """


class Beams(NamedTuple):
    """The hypotheses of B sentences, K each, for beam search, which changes what is here; arrays are in C order."""

    tokens: Ids
    """(B, K, T) those that go on, from BOS on, the best first."""

    scores: Floats
    """(B, K) the sums of their log-probabilities."""

    counts: Ids
    """(B) how many go on; 0 where a sentence has ended."""

    lengths: Ids
    """(B) how many tokens they have."""

    limits: Ids
    """(B) the most tokens."""

    slots: Ids
    """(B, K, T) where a fused search keeps the keys and values of each token, in the sentence's row of the cache."""

    extents: Ids
    """(B) one more than the last such place that was used."""

    found_tokens: Ids
    """(B, K, T) hypotheses that have ended, in the order in which they did."""

    found_lengths: Ids
    """(B, K)"""

    found_scores: Floats
    """(B, K)"""

    found: Ids
    """(B) how many have ended."""

    calls: Ids
    """(B) how many calls were made."""

    drafted: Ids
    """(B) how many continuations were verified ahead."""

    accepted: Ids
    """(B) how many calls made two steps, since those were right."""

    reads: Ids
    """(B, K) how many tokens of hypotheses a drafter has read."""

    @classmethod
    def empty(cls, rows: int, width: int, length: int) -> Beams:
        """Returns room for sentences.

        :param width: K
        :param length: T
        """
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("tokens", "slots", "found_tokens"), (rows, width, length))
        shapes |= dict.fromkeys(("scores", "reads", "found_scores", "found_lengths"), (rows, width))
        return cls(*(np.zeros(shapes.get(name, (rows,)), dtype=cls.type_of(name)) for name in cls._fields))

    @staticmethod
    def type_of(name: str) -> npt.DTypeLike:
        """Returns the type of what an array has."""
        return np.float32 if name in ("scores", "found_scores") else np.int64

    def part(self, rows: slice) -> Beams:
        """Returns a view of some rows."""
        return Beams(*(each[rows] for each in self._asdict().values()))

    def put(self, rows: slice, other: Beams) -> None:
        """Copies other rows over some."""
        for mine, others in zip(self._asdict().values(), other, strict=True):
            mine[rows] = others


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
