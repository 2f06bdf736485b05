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
        scores = log_probs / self.temperature
        if self.top_k is not None and self.top_k < scores.shape[-1]:
            order = np.argsort(-scores, axis=-1, kind="stable")[..., self.top_k :]
            scores = scores.copy()
            np.put_along_axis(scores, order, -np.inf, axis=-1)
        scores = scores - scores.max(axis=-1, keepdims=True)
        changed: Floats = scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
        return changed


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
            drafted = np.zeros_like(left)
            if place in children and tree.choices is not None:
                ids = tree.choices.tokens[row, place].numpy()
                drafted[ids] = np.exp(tree.choices.log_probs[row, place].numpy())
            accepted = False
            for child, token in children.get(place, []):
                p, q = float(drafted[token]), float(left[token])
                accepted = float(numbers.random()) * p < q
                if not accepted:
                    left = residual(left, drafted)
                    drafted[token] = 0.0
                    drafted /= max(float(drafted.sum()), math.ulp(0.0))
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


def residual(verifier: Floats, drafter: Floats) -> Floats:
    """Returns max(q − p, 0), normalised, given probabilities (V); q where nothing is left but rounding."""
    left = np.maximum(verifier - drafter, 0.0)
    total = float(left.sum())
    return left / total if total > 0.0 else verifier


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
    best = np.argsort(-probs, kind="stable")[:SHOWN].tolist()
    return tuple(Candidate(token, math.log(probs[token])) for token in best if probs[token] > 0.0)
