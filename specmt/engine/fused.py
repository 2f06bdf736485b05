"""The contract of a fused loop: what a verifier needs and returns that runs iterations of the loop by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
from torch import Tensor

from specmt.engine.backend import Drafter, Scorer, State

Counts: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Sentences:
    """The first B rows of a state, for a fused loop, which changes what is here."""

    tokens: Tensor
    """(B, T) the committed tokens, from BOS on."""

    lengths: Counts
    """(B) how many they are."""

    limits: Counts
    """(B) how many they may become."""

    log_probs: Tensor | None = None
    """(B, T) in float32, the log-probability of each token that is committed; ``None`` where nobody asks."""

    hints: Sequence[Sequence[int]] = ()
    """(B) what sentences may go on with, from some place on; none for none. They are drafted where they fit."""


@dataclass(frozen=True)
class Confidence:
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

    paths: int = 1
    """How many paths are gone on with side by side, where the drafter can: one drafts a chain."""


@dataclass(frozen=True)
class Drafting:
    """How a fused loop drafts."""

    block_size: int
    """How many tokens ahead; 0 for none."""

    network: Drafter | Scorer | None = None
    """The drafter's network; ``None`` where nothing is drafted."""

    state: State | None = None
    """The drafter's caches."""

    seen: Tensor | None = None
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


EXACT: Final = Rule(1, 0.0)
"""Nothing but the best stands."""


class Ran(NamedTuple):
    """What came of the iterations of a fused loop, −1 where a sentence had ended before."""

    drafted: Counts
    """(I, B) how many drafted tokens were verified."""

    accepted: Counts
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
