"""Draft trees that grow level by level: the likeliest paths, or a draw without replacement (DESIGN §2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from specmt.decoding.noise import Role, generator
from specmt.decoding.policy import survival
from specmt.decoding.request import Request
from specmt.decoding.sample import Floats, Ids, Sampling
from specmt.decoding.shape import BestFirst
from specmt.decoding.tree import Choices, Node, Tree, make_tree
from specmt.engine.fused import Confidence
from specmt.types import EOS, PAD


class Expander(Protocol):
    """A drafter's distributions, level by level of its trees."""

    def expand(self, tokens: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
        """Goes on to the next level.

        :param tokens: (B, W) the nodes of a level; the first level is the last committed token alone
        :param parents: (B, W) the number, in the level before, of the node that each follows
        :returns: candidates (B, W, C) after each, and their log-probabilities; for `level_tree`, the best first
        """


def level_tree(
    expander: Expander, last: Tensor, shape: BestFirst, *, depth: int, confidence: Confidence | None = None
) -> Tree:
    """Returns the trees of the likeliest paths among those of a beam as wide as the tree is broad.

    :param last: (B) the last committed tokens
    :param confidence: when to go on; ``None`` for to the end
    """
    grown = [_Paths(confidence) for _ in range(len(last))]
    tokens, parents = last[:, None], torch.zeros_like(last)[:, None]
    for _ in range(depth):
        candidates, scores = expander.expand(tokens, parents)
        ids, log_probs = candidates[:, :, : shape.breadth].tolist(), scores[:, :, : shape.breadth].tolist()
        rows = zip(grown, ids, log_probs, strict=True)
        chosen = [paths.grow(tokens_of, scores_of, shape.breadth) for paths, tokens_of, scores_of in rows]
        tokens, parents = (torch.tensor(part, device=last.device) for part in zip(*chosen, strict=True))
        if not any(any(paths.beam) for paths in grown):
            break
    return make_tree([paths.best(shape.nodes) for paths in grown], last.device)


class _Paths:
    """All nodes that one sentence's beam has come by."""

    def __init__(self, confidence: Confidence | None) -> None:
        self.confidence = confidence if confidence is not None and confidence.floor > 0.0 else None
        self.nodes: list[Node] = []
        self.totals: list[float] = []
        self.chances: list[float] = []
        self.beam: list[int | None] = [0]  # the places, among all nodes, that the next level goes on from

    def grow(self, ids: list[list[int]], log_probs: list[list[float]], width: int) -> tuple[list[int], list[int]]:
        """Adds the children of the beam, best first; returns the next beam's tokens and their parents' numbers."""
        level = []
        for number, (place, tokens, scores) in enumerate(zip(self.beam, ids, log_probs, strict=True)):
            if place is None:
                continue
            total, chance = (self.totals[place - 1], self.chances[place - 1]) if place else (0.0, 1.0)
            for token, score in zip(tokens, scores, strict=True):
                self.nodes.append(Node(token, place, score))
                self.totals.append(total + score)
                self.chances.append(chance * self._chance(score))
                level.append((total + score, len(self.nodes), number))
        best = sorted(level, key=lambda each: -each[0])[:width]
        if self.confidence is not None:
            best = [each for each in best if self.nodes[each[1] - 1].token != EOS]
            if sum(self.chances[place - 1] for _, place, _ in best) < self.confidence.margin:
                best = []
        noise = width - len(best)
        self.beam = [place for _, place, _ in best] + [None] * noise
        tokens = [self.nodes[place - 1].token for _, place, _ in best]
        return tokens + [PAD] * noise, [number for _, _, number in best] + [0] * noise

    def _chance(self, score: float) -> float:
        """Returns the probability that a node is accepted after those before it."""
        if self.confidence is None:
            return 1.0
        return float(survival(np.array([[score]]), self.confidence.scale, self.confidence.shift)[0, 0])

    def best(self, count: int) -> list[Node]:
        """Returns the nodes of the likeliest paths; a node is never likelier than its parent, which comes first."""
        order = sorted(range(len(self.nodes)), key=lambda index: -self.totals[index])[:count]
        places = {0: 0} | {index + 1: number + 1 for number, index in enumerate(order)}
        nodes = (self.nodes[index] for index in order)
        return [Node(node.token, places[node.parent], node.log_prob) for node in nodes]


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
    last: Tensor,
    starts: Sequence[int],
    requests: Sequence[Request],
    how: Sampling,
    *,
    width: int,
    depth: int,
) -> Tree:
    """Returns trees of a number of levels, each the best of a draw without replacement (DESIGN §2.3).

    With a width of 1 they are chains, drawn token by token.

    :param last: (B) the last committed tokens
    :param starts: (B) the positions that the first level is for
    """
    beams = [_Beams(width) for _ in requests]
    tokens, parents = last[:, None], torch.zeros_like(last)[:, None]
    for level in range(depth):
        candidates, scores = expander.expand(tokens, parents)
        ids: Ids = candidates.numpy(force=True)
        log_probs = how.change(scores.double().numpy(force=True))
        drawn = []
        for row, request in enumerate(requests):
            noise = generator(how.seed, request, starts[row] + level, Role.DRAFT).gumbel(size=(width, ids.shape[2]))
            # The root is the only node of the level before the first.
            shape = noise.shape
            drawn.append(beams[row].grow(np.resize(ids[row], shape), np.resize(log_probs[row], shape), noise))
        tokens, parents = (torch.tensor(part, device=last.device) for part in zip(*drawn, strict=True))
    tree = make_tree([each.nodes for each in beams], last.device)
    return Tree(tree.tokens, tree.parents, tree.log_probs, tree.counts, _collect(beams, tree.tokens.shape[1] + 1))


def _collect(beams: Sequence[_Beams], places: int) -> Choices:
    """Returns what the children of each place were drawn from; zeros where a place was not gone on from."""
    count = len(beams[0].choices[0][0])
    tokens = np.zeros((len(beams), places, count), dtype=np.int64)
    log_probs = np.full((len(beams), places, count), -np.inf)
    for row, each in enumerate(beams):
        for place, (ids, scores) in each.choices.items():
            tokens[row, place], log_probs[row, place] = ids, scores
    return Choices(torch.from_numpy(tokens), torch.from_numpy(log_probs))
