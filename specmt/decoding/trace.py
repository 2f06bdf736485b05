"""What the loop did for a sentence, pass by pass, for those who want to watch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from specmt.decoding.tree import Node

__all__ = ["Candidate", "Iteration", "Node", "Trace", "Trial"]


class Candidate(NamedTuple):
    """A token that a model considers."""

    token: int
    log_prob: float


class Trial(NamedTuple):
    """A drafted token put to the test of rejection sampling (DESIGN §2.2)."""

    place: int
    """The place of the node."""

    draft: float
    """Its probability p, among what was left to draw from."""

    verifier: float
    """Its probability q, in what earlier siblings left of the verifier's distribution."""

    accepted: bool

    residual: tuple[Candidate, ...] = ()
    """After a rejection, the most likely tokens of what is left of the verifier's distribution."""


class Iteration(NamedTuple):
    """One pass of the loop over one sentence."""

    prefix: list[int]
    """The committed tokens before it, BOS first."""

    nodes: list[Node]
    """The draft tree; the node at number i has place i + 1. Without nodes the pass is a step of greedy decoding."""

    verified: list[list[Candidate]]
    """The verifier's best β tokens after each place of the window (N + 1 of them), the best first."""

    accepted: list[int]
    """The places of the accepted nodes, from the root on."""

    emitted: list[int]
    """The tokens committed: those accepted, then the verifier's own, unless EOS or the limit came first."""

    trials: Sequence[Trial] = ()
    """When sampling, what was tested, in that order."""

    why: str = ""
    """Why that was drafted, or nothing, and what follows up to the next such choice; empty where there was none."""


class Trace(NamedTuple):
    """All passes over a sentence."""

    source: list[int]
    """Source ids, without EOS."""

    iterations: list[Iteration]

    tokens: list[int]
    """The translation, without BOS and EOS."""

    lossless: bool
    """Whether it is what greedy decoding would have said."""

    alignment: Sequence[tuple[int, int]] = ()
    """Pairs of a source word and a word of the translation that comes from it."""

    attempt: int = 0
    """0: the model said it freely; 1: with stand-ins for numbers and all that is copied; 2: what is between those was
    translated by itself, since the passes shown lost some of it."""

    line: str = ""
    """The sentence as users gave it."""

    text: str = ""
    """Its translation as users get it."""
