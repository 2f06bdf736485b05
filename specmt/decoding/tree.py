"""Draft trees: what drafters propose and acceptors walk (DESIGN §2.3).

The window of a sentence is its last committed token, at place 0, and the nodes of its draft tree, at places 1 … N. The
parent of a node is the place of the token that it follows, always an earlier one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from specmt.engine.arrays import Floats, Ids
from specmt.types import PAD


class Choices(NamedTuple):
    """What the children of each place were drawn from, when sampling: C candidates, with probability 0 what was not."""

    tokens: Ids
    """(B, N + 1, C)"""

    log_probs: npt.NDArray[np.float64]
    """(B, N + 1, C), normalised over the candidates."""


class Node(NamedTuple):
    """A drafted token of one sentence."""

    token: int

    parent: int
    """The place of the token that it follows: 0 is the last committed one, i the i-th node."""

    log_prob: float
    """What the drafter gave it after those before it; NaN where it has no probabilities."""


class Tree(NamedTuple):
    """The draft trees of B sentences, with at most N nodes each."""

    tokens: Ids
    """(B, N), padding behind a sentence's nodes"""

    counts: Ids
    """(B) how many nodes each sentence has."""

    parents: Ids | None = None
    """(B, N) the place of the token that each node follows; ``None`` for chains, where that is the one before."""

    log_probs: Floats | None = None
    """(B, N) what the drafter gave each node after those before it; ``None`` where it has no probabilities."""

    choices: Choices | None = None
    """Of sampled trees, whose siblings stand in the order in which they were drawn."""

    def all_parents(self) -> Ids:
        """Returns the place of the token that each node follows, (B, N)."""
        return (
            np.broadcast_to(np.arange(self.tokens.shape[1]), self.tokens.shape)
            if self.parents is None
            else self.parents
        )

    def is_real(self) -> npt.NDArray[np.bool_]:
        """Returns which nodes (B, N) are no padding."""
        return np.arange(self.tokens.shape[1]) < self.counts[:, None]

    def nodes(self, row: int) -> list[Node]:
        """Returns the nodes of one sentence's tree."""
        count = int(self.counts[row])
        tokens, parents = self.tokens[row, :count].tolist(), self.all_parents()[row, :count].tolist()
        log_probs = [float("nan")] * count if self.log_probs is None else self.log_probs[row, :count].tolist()
        return [Node(*node) for node in zip(tokens, parents, log_probs, strict=True)]

    def children(self, row: int) -> dict[int, list[tuple[int, int]]]:
        """Returns places and tokens of the children of each place, in the order in which they were drawn."""
        found: dict[int, list[tuple[int, int]]] = {}
        for place, node in enumerate(self.nodes(row), start=1):
            found.setdefault(node.parent, []).append((place, node.token))
        return found

    def drawn(self, row: int, place: int) -> tuple[Ids, npt.NDArray[np.float64]] | None:
        """Returns what the children of a place were drawn from, ids (C) and log-probabilities; ``None``: not drawn."""
        if self.choices is None:
            return None
        return self.choices.tokens[row, place], self.choices.log_probs[row, place]


def chains(tokens: Ids, log_probs: Floats | None = None, counts: Ids | None = None) -> Tree:
    """Returns drafts (B, K) that are chains; all are as long where there are no counts."""
    return Tree(tokens, np.full(len(tokens), tokens.shape[1]) if counts is None else counts, log_probs=log_probs)


def no_tree(rows: int) -> Tree:
    """Returns trees without nodes."""
    return chains(np.empty((rows, 0), dtype=np.int64))


def make_tree(rows: Sequence[Sequence[Node]], choices: Choices | None = None) -> Tree:
    """Returns the trees of sentences with any number of nodes each."""
    width = max((len(nodes) for nodes in rows), default=0)
    tokens = np.full((len(rows), width), PAD, dtype=np.int64)
    parents, log_probs = np.zeros_like(tokens), np.full(tokens.shape, -np.inf, dtype=np.float32)
    for row, nodes in enumerate(rows):
        for number, node in enumerate(nodes):
            tokens[row, number], parents[row, number], log_probs[row, number] = node.token, node.parent, node.log_prob
    return Tree(tokens, np.array([len(nodes) for nodes in rows], dtype=np.int64), parents, log_probs, choices)


def prune(tree: Tree, stay: npt.NDArray[np.bool_]) -> Tree:
    """Returns the trees of the nodes (B, N) alone that stay; the ancestors of one that stays must stay, too."""
    stay = stay & tree.is_real()
    counts = stay.sum(1)
    if (counts == tree.counts).all():
        return tree
    if tree.parents is None:
        widest = int(counts.max())
        log_probs = None if tree.log_probs is None else tree.log_probs[:, :widest]
        return Tree(tree.tokens[:, :widest], counts, log_probs=log_probs)
    rows = []
    for row in range(len(tree.tokens)):
        places = {0: 0}
        nodes: list[Node] = []
        for number, node in enumerate(tree.nodes(row)):
            if stay[row, number]:
                nodes.append(Node(node.token, places[node.parent], node.log_prob))
                places[number + 1] = len(nodes)
        rows.append(nodes)
    return make_tree(rows)
