"""Sampling from the verifier: by rejection of what a drafter drew, or outright (DESIGN §2.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from specmt.decoding.accept import Accepted, Acceptor, along
from specmt.decoding.noise import Role, Spot, generator
from specmt.decoding.trace import Candidate, Trial
from specmt.decoding.tree import Tree
from specmt.engine.arrays import Ids
from specmt.engine.protocols import Logits
from specmt.options import DecodingOptions

Floats = npt.NDArray[np.float64]

SHOWN = 5
"""How many of a residual's tokens a trial tells."""


class Sampling(NamedTuple):
    """How both models' distributions are changed before tokens are drawn from them."""

    temperature: float
    top_k: int | None
    seed: int

    def change(self, log_probs: Floats) -> Floats:
        """Returns log-probabilities (…, V) at the temperature, over the best k alone, normalised.

        Among equals at the k-th place the lower ids stay.
        """
        # The best are 0 before the division, which may leave the others nothing, but never overflows to infinity.
        with np.errstate(over="ignore"):
            scores = (log_probs - log_probs.max(axis=-1, keepdims=True)) / self.temperature
        if self.top_k is not None and self.top_k < scores.shape[-1]:
            least = -np.partition(-scores, self.top_k - 1, axis=-1)[..., self.top_k - 1, None]
            better, equal = scores > least, scores == least
            room = self.top_k - better.sum(axis=-1, keepdims=True)
            scores = np.where(better | (equal & (equal.cumsum(axis=-1) <= room)), scores, -np.inf)
        return normalise(scores)


def sampling(options: DecodingOptions) -> Sampling:
    """Returns how the options want tokens to be drawn."""
    return Sampling(options.temperature, options.top_k, options.seed)


def normalise(scores: Floats) -> Floats:
    """Returns log-probabilities (…, V) that are scores but for a constant; one of each V must be finite."""
    scores = scores - scores.max(axis=-1, keepdims=True)
    log_probs: Floats = scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    return log_probs


def pick(probs: Floats, uniform: float) -> int:
    """Returns the token whose part of the unit interval a number lies in, given probabilities (V)."""
    sums = probs.cumsum()
    index = int(np.searchsorted(sums, uniform * sums[-1], side="right"))
    # Rounding may lead past the last token that has a probability.
    return min(index, int(np.flatnonzero(probs)[-1]))


@final
class Rejection(Acceptor):
    """Accepts drafts so that what comes out is distributed as samples of the verifier are.

    Siblings are tried in the order in which they were drawn, without replacement: a token drawn from p is accepted
    with probability min(1, q / p); after a rejection q becomes what is left of it, max(q − p, 0) normalised, and p
    what is left without the token (Jeon et al. 2024, recursive rejection sampling; with one child each, speculative
    sampling of Leviathan et al. 2023, section 2.3).
    """

    rule = None

    def __init__(self, how: Sampling) -> None:
        self.how = how

    @override
    def accept(self, tree: Tree, logits: Logits, spots: Sequence[Spot]) -> Accepted:
        walked = [self._walk(tree, logits, row, spot) for row, spot in enumerate(spots)]
        return along(tree, *zip(*walked, strict=True))

    def _walk(self, tree: Tree, logits: Logits, row: int, spot: Spot) -> tuple[list[int], int, list[Trial]]:
        """Returns the places of one sentence that stand, the verifier's token behind them, and what was tested."""
        path: list[int] = []
        trials: list[Trial] = []
        children = tree.children(row)
        while True:
            place = path[-1] if path else 0
            here = spot._replace(position=spot.position + len(path))
            numbers = generator(self.how.seed, here, Role.ACCEPT)
            left: Floats = np.exp(self.how.change(logits.row(row, place).astype(np.float64)))
            drawn = tree.drawn(row, place)
            for child, token in children.get(place, ()):
                ids, drafts = drawn or (np.array([token]), np.zeros(1))  # what was not drawn is certain
                drafted = np.exp(drafts)
                p, q = float(drafted[ids == token].sum()), float(left[token])
                accepted = accepts(p, q, float(numbers.random()))
                if not accepted:
                    left = residual(left, ids, drafted)
                    drawn = drawn and (ids, without(drafts, ids == token))
                trials.append(Trial(child, p, q, accepted, () if accepted else _likeliest(left)))
                if accepted:
                    path.append(child)
                    break
            else:
                return path, pick(left, float(numbers.random())), trials


def accepts(drafter: float, verifier: float, uniform: float) -> bool:
    """Returns whether a token drawn with probability p is accepted: with probability min(1, q / p)."""
    return uniform * drafter < verifier


def residual(verifier: Floats, ids: Ids, drafter: Floats) -> Floats:
    """Returns max(q − p, 0), normalised, of probabilities (V); q where nothing is left but rounding.

    :param ids: (C) the tokens that p, given for them alone, is not zero for
    """
    left = verifier.copy()
    left[ids] = np.maximum(left[ids] - drafter, 0.0)
    total = float(left.sum())
    return left / total if total > 0.0 else verifier


def without(log_probs: Floats, drawn: npt.NDArray[np.bool_]) -> Floats:
    """Returns log-probabilities (C) of what is drawn next, without replacement; −inf where nothing is left.

    Logarithms, since what is left may be less than any number: at a low temperature the first candidate takes all.
    """
    left = np.where(drawn, -np.inf, log_probs)
    return normalise(left) if left.max() > -np.inf else left


def _likeliest(probs: Floats) -> tuple[Candidate, ...]:
    likely = np.argpartition(-probs, min(SHOWN, len(probs)) - 1)[:SHOWN].tolist()
    best = sorted(likely, key=lambda token: (-probs[token], token))
    return tuple(Candidate(token, math.log(probs[token])) for token in best if probs[token] > 0.0)
