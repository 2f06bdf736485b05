"""Sampling from the verifier: by rejection of what a drafter drew, or outright (DESIGN §2.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import Tensor

from specmt.decoding.accept import Verdict, along
from specmt.decoding.noise import Role, generator
from specmt.decoding.request import Request
from specmt.decoding.trace import Candidate, Trial
from specmt.decoding.tree import Tree
from specmt.options import DecodingOptions

Floats = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]

SHOWN = 5
"""How many of a residual's tokens a trial tells."""


@dataclass(frozen=True)
class Sampling:
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


def accept_by_rejection(
    tree: Tree, logits: Tensor, starts: Sequence[int], requests: Sequence[Request], *, how: Sampling
) -> Verdict:
    """Walks sampled trees so that what comes out is distributed as samples of the verifier are.

    Siblings are tried in the order in which they were drawn, without replacement: a token drawn from p is accepted
    with probability min(1, q / p); after a rejection q becomes what is left of it, max(q − p, 0) normalised, and p
    what is left without the token (Jeon et al. 2024, recursive rejection sampling; with one child each, speculative
    sampling of Leviathan et al. 2023, section 2.3).

    :param logits: (B, N + 1, V)
    :param starts: (B) the positions that the first level is for
    """
    paths: list[list[int]] = []
    own: list[int] = []
    tested: list[list[Trial]] = []
    for row, request in enumerate(requests):
        children = _children(tree, row)
        path: list[int] = []
        trials: list[Trial] = []
        while True:
            place = path[-1] if path else 0
            numbers = generator(how.seed, request, starts[row] + len(path), Role.ACCEPT)
            left: Floats = np.exp(how.change(logits[row, place].double().numpy(force=True)))
            if tree.choices is not None:
                ids: Ids = tree.choices.tokens[row, place].numpy()
                drafts: Floats = tree.choices.log_probs[row, place].numpy()
            accepted = False
            for child, token in children.get(place, []):
                if tree.choices is None:
                    ids, drafts = np.array([token]), np.zeros(1)  # what was not drawn is certain
                drafted = np.exp(drafts)
                p, q = float(drafted[ids == token].sum()), float(left[token])
                accepted = accepts(p, q, float(numbers.random()))
                if not accepted:
                    left = residual(left, ids, drafted)
                    drafts = without(drafts, ids == token)
                trials.append(Trial(child, p, q, accepted, () if accepted else _likeliest(left)))
                if accepted:
                    path.append(child)
                    break
            if not accepted:
                own.append(pick(left, float(numbers.random())))
                break
        paths.append(path)
        tested.append(trials)
    return along(tree, paths, own)._replace(trials=tested)


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


def _children(tree: Tree, row: int) -> dict[int, list[tuple[int, int]]]:
    """Returns places and tokens of the children of each place, in the order in which they were drawn."""
    width = tree.tokens.shape[1]
    count = width if tree.counts is None else int(tree.counts[row])
    parents = list(range(width)) if tree.parents is None else tree.parents[row].tolist()
    children: dict[int, list[tuple[int, int]]] = {}
    for number, token in enumerate(tree.tokens[row, :count].tolist()):
        children.setdefault(parents[number], []).append((number + 1, token))
    return children


def _likeliest(probs: Floats) -> tuple[Candidate, ...]:
    likely = np.argpartition(-probs, min(SHOWN, len(probs)) - 1)[:SHOWN].tolist()
    best = sorted(likely, key=lambda token: (-probs[token], token))
    return tuple(Candidate(token, math.log(probs[token])) for token in best if probs[token] > 0.0)
