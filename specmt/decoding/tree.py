"""Draft trees: what drafters propose and acceptors walk (DESIGN §2.3).

The window of a sentence is its last committed token, at place 0, and the nodes of its draft tree, at places 1 … N. The
parent of a node is the place of the token that it follows, always an earlier one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from specmt.types import PAD


@dataclass(frozen=True)
class Choices:
    """What the children of each place were drawn from, when sampling: C candidates, with probability 0 what was not."""

    tokens: Tensor
    """(B, N + 1, C)"""

    log_probs: Tensor
    """(B, N + 1, C), normalised over the candidates, in float64."""


@dataclass(frozen=True)
class Tree:
    """The draft trees of B sentences, with N nodes each."""

    tokens: Tensor
    """(B, N)"""

    parents: Tensor | None = None
    """(B, N) the place of the token that each node follows; ``None`` for chains, where that is the one before."""

    log_probs: Tensor | None = None
    """(B, N) what the drafter gave each node after those before it; ``None`` where it has no probabilities."""

    counts: Tensor | None = None
    """(B) how many nodes each sentence has, where it is not N for all; noise behind them fills the tree up."""

    choices: Choices | None = None
    """Of sampled trees, whose siblings stand in the order in which they were drawn."""


def prune(tree: Tree, kept: npt.NDArray[np.bool_]) -> Tree:
    """Returns the trees of the kept nodes (B, N) alone; the ancestors of a kept node must be kept."""
    if kept.all():
        return tree
    if tree.parents is None:
        counts = kept.sum(1)
        widest = int(counts.max())
        ragged = None if int(counts.min()) == widest else torch.from_numpy(counts).to(tree.tokens.device)
        log_probs = None if tree.log_probs is None else tree.log_probs[:, :widest]
        return Tree(tree.tokens[:, :widest], log_probs=log_probs, counts=ragged)
    rows = []
    for row in range(len(tree.tokens)):
        places = {0: 0}
        nodes = []
        for number, node in enumerate(nodes_of(tree, row)):
            if kept[row, number]:
                nodes.append(Node(node.token, places[node.parent], node.log_prob))
                places[number + 1] = len(nodes)
        rows.append(nodes)
    return make_tree(rows, tree.tokens.device)


def no_tree(rows: int, device: torch.device) -> Tree:
    """Returns trees without nodes."""
    return Tree(torch.empty(rows, 0, dtype=torch.int64, device=device))


@dataclass(frozen=True)
class Node:
    """A drafted token of one sentence."""

    token: int

    parent: int
    """The place of the token that it follows: 0 is the last committed one, i the i-th node."""

    log_prob: float
    """What the drafter gave it after those before it; NaN where it has no probabilities."""


def nodes_of(tree: Tree, row: int) -> list[Node]:
    """Returns the nodes of one sentence's tree, without noise."""
    count = tree.tokens.shape[1] if tree.counts is None else int(tree.counts[row])
    tokens = tree.tokens[row, :count].tolist()
    parents = list(range(count)) if tree.parents is None else tree.parents[row, :count].tolist()
    log_probs = [float("nan")] * count if tree.log_probs is None else tree.log_probs[row, :count].tolist()
    return [Node(*node) for node in zip(tokens, parents, log_probs, strict=True)]


def make_tree(rows: Sequence[Sequence[Node]], device: torch.device) -> Tree:
    """Returns the trees of sentences with any number of nodes each."""
    width = max((len(nodes) for nodes in rows), default=0)
    filled = [[*nodes, *[Node(PAD, 0, float("-inf"))] * (width - len(nodes))] for nodes in rows]
    shape = len(rows), width
    return Tree(
        torch.tensor([[node.token for node in row] for row in filled], dtype=torch.int64, device=device).view(shape),
        torch.tensor([[node.parent for node in row] for row in filled], dtype=torch.int64, device=device).view(shape),
        torch.tensor([[node.log_prob for node in row] for row in filled], device=device).view(shape),
        torch.tensor([len(nodes) for nodes in rows], dtype=torch.int64, device=device),
    )


def merge(trees: Sequence[Tree]) -> Tree:
    """Returns trees with the nodes of several; what is in more than one counts as the first one's."""
    rows = len(trees[0].tokens)
    merged = []
    for row in range(rows):
        nodes: list[Node] = []
        places: dict[tuple[int, int], int] = {}
        for tree in trees:
            own = [0]  # the merged place of each of this tree's places
            for node in nodes_of(tree, row):
                parent = own[node.parent]
                if (parent, node.token) not in places:
                    nodes.append(Node(node.token, parent, node.log_prob))
                    places[parent, node.token] = len(nodes)
                own.append(places[parent, node.token])
        merged.append(nodes)
    return make_tree(merged, trees[0].tokens.device)
