"""Draft trees drawn without replacement, level by level (DESIGN §2.3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specmt.decoding.noise import Role, Spot, generator
from specmt.decoding.sample import Floats, Sampling
from specmt.decoding.tree import Choices, Node, Tree, make_tree
from specmt.engine.arrays import Ids
from specmt.engine.protocols import Expander
from specmt.types import PAD


def perturb(scores: Floats, noise: Floats, parents: Floats) -> Floats:
    """Returns the perturbed log-probabilities of nodes, the best of which are a draw without replacement.

    Stochastic beam search (Kool et al. 2019, algorithm 1 and appendix B.3): Gumbel variables of the children, given
    that the greatest of each parent's is the parent's own.

    :param scores: (W, C) log-probabilities of whole paths
    :param noise: (W, C) of the standard Gumbel distribution
    :param parents: (W) perturbed log-probabilities of the parents
    """
    free = scores + noise
    greatest = free.max(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        v = parents[:, None] - free + np.log(-np.expm1(free - greatest))
        found: Floats = parents[:, None] - np.maximum(0.0, v) - np.log1p(np.exp(-np.abs(v)))
    # What cannot be drawn, and what has no parent.
    found[np.isneginf(scores) | np.isneginf(parents)[:, None]] = -np.inf
    return found


class _Beams:
    """The nodes of one sentence's tree, and those of its last level."""

    def __init__(self, width: int) -> None:
        self.nodes: list[Node] = []
        self.choices: dict[int, tuple[Ids, Floats]] = {}
        self.places = [0] + [-1] * (width - 1)
        self.totals = np.array([0.0] + [-np.inf] * (width - 1))
        self.perturbed = self.totals.copy()

    def grow(self, candidates: Ids, log_probs: Floats, noise: Floats) -> tuple[list[int], list[int]]:
        """Draws the next level; returns its tokens and their parents' numbers, noise where there are too few.

        :param candidates: (W, C)
        """
        width = len(self.places)
        for number, place in enumerate(self.places):
            if place >= 0:
                self.choices[place] = candidates[number], log_probs[number]
        totals = self.totals[:, None] + log_probs
        perturbed = perturb(totals, noise, self.perturbed).ravel()
        order = np.argsort(-perturbed, kind="stable")[:width]
        order = order[perturbed[order] > -np.inf]
        parents = (order // candidates.shape[1]).tolist()
        tokens = candidates.ravel()[order].tolist()
        places = [self.places[parent] for parent in parents]
        chosen = log_probs.ravel()[order].tolist()
        self.places = [len(self.nodes) + 1 + number for number in range(len(order))]
        self.nodes += [Node(*node) for node in zip(tokens, places, chosen, strict=True)]
        rest = width - len(order)
        self.places += [-1] * rest
        self.totals = np.append(totals.ravel()[order], [-np.inf] * rest)
        self.perturbed = np.append(perturbed[order], [-np.inf] * rest)
        return tokens + [PAD] * rest, parents + [0] * rest


def sampled_tree(
    expander: Expander,
    last: Ids,
    spots: Sequence[Spot],
    how: Sampling,
    *,
    width: int,
    depth: int,
) -> Tree:
    """Returns trees of a number of levels, each the best of a draw without replacement (DESIGN §2.3).

    With a width of 1 they are chains, drawn token by token.

    :param last: (B) the last committed tokens
    :param spots: (B) what the first level is for
    """
    beams = [_Beams(width) for _ in spots]
    tokens, parents = last[:, None], np.zeros_like(last)[:, None]
    for level in range(depth):
        candidates, scores = expander.expand(tokens, parents)
        log_probs = how.change(scores.astype(np.float64))
        drawn = []
        for row, spot in enumerate(spots):
            numbers = generator(how.seed, spot._replace(position=spot.position + level), Role.DRAFT)
            noise = numbers.gumbel(size=(width, candidates.shape[2]))
            # The root is the only node of the level before the first.
            shape = noise.shape
            drawn.append(beams[row].grow(np.resize(candidates[row], shape), np.resize(log_probs[row], shape), noise))
        tokens, parents = (np.array(part, dtype=np.int64) for part in zip(*drawn, strict=True))
    places = 1 + max(len(each.nodes) for each in beams)
    return make_tree([each.nodes for each in beams], _collect(beams, places))


def _collect(beams: Sequence[_Beams], places: int) -> Choices:
    """Returns what the children of each place were drawn from; zeros where a place was not gone on from."""
    count = len(beams[0].choices[0][0])
    tokens = np.zeros((len(beams), places, count), dtype=np.int64)
    log_probs = np.full((len(beams), places, count), -np.inf)
    for row, each in enumerate(beams):
        for place, (ids, scores) in each.choices.items():
            tokens[row, place], log_probs[row, place] = ids, scores
    return Choices(tokens, log_probs)
