"""Draft trees of the likeliest paths, which grow level by level (DESIGN §2.3)."""

from __future__ import annotations

import numpy as np

from specmt.decoding.confidence import survival
from specmt.decoding.tree import Node, Tree, make_tree
from specmt.engine.arrays import Ids
from specmt.engine.fused import Confidence
from specmt.engine.protocols import Expander
from specmt.types import EOS, PAD


def best_first_tree(
    expander: Expander,
    last: Ids,
    nodes: int,
    breadth: int,
    *,
    beam: int,
    depth: int,
    confidence: Confidence | None = None,
) -> Tree:
    """Returns the trees of the N likeliest paths among those that a beam comes by: with a beam of N, of all paths.

    :param last: (B) the last committed tokens
    :param nodes: N
    :param breadth: how many candidates may follow a token
    :param beam: how many nodes of a level are gone on from
    :param confidence: when to go on; ``None`` for to the end
    """
    grown = [_Paths(confidence) for _ in range(len(last))]
    tokens, parents = last[:, None], np.zeros_like(last)[:, None]
    for _ in range(depth):
        candidates, scores = expander.expand(tokens, parents)
        ids, log_probs = candidates[:, :, :breadth].tolist(), scores[:, :, :breadth].tolist()
        rows = zip(grown, ids, log_probs, strict=True)
        chosen = [paths.grow(tokens_of, scores_of, beam) for paths, tokens_of, scores_of in rows]
        tokens, parents = (np.array(part, dtype=np.int64) for part in zip(*chosen, strict=True))
        if not any(any(paths.beam) for paths in grown):
            break
    return make_tree([paths.best(nodes) for paths in grown])


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
