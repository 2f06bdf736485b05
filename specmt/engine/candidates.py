"""Choosing tokens for a block of slots among their best candidates, each corrected by the tokens chosen before it."""

from __future__ import annotations

import heapq

import torch
from torch import Tensor
from torch.nn import functional

from specmt.engine.backend import Slots
from specmt.engine.linear import Linear
from specmt.engine.transformer import Weights

CANDIDATES = 16
"""How many of a slot's best tokens the correction is applied to, and can be drafted."""


class Correction:
    """The effect of the tokens chosen at earlier slots on the next (specmt.models.modules.Correction)."""

    def __init__(self, weights: Weights, table: Tensor, scale: float) -> None:
        """
        :param table: (V, D) token embeddings
        :param scale: what they are multiplied by where they are read
        """
        self.table = table
        self.scale = scale
        width = table.shape[1]
        gates = weights["correction.gates.weight"]  # (2 R, 2 D + R)
        self.known = Linear(gates[:, : 2 * width].contiguous(), weights["correction.gates.bias"])
        self.carried = Linear(gates[:, 2 * width :].contiguous(), None)
        self.output = Linear(weights["correction.output.weight"], None)  # (D, R)
        self.rank = gates.shape[0] // 2

    def step(self, hidden: Tensor, previous: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns what to add to hidden states (B, D) of slots after tokens (B), and the state (B, R) they leave."""
        embedded = functional.embedding(previous, self.table) * self.scale
        gate, new = (self.known(torch.cat([hidden, embedded], dim=1)) + self.carried(state)).chunk(2, dim=1)
        state = torch.lerp(state, new.tanh(), gate.sigmoid())
        return self.output(state), state


def expand(
    slots: Slots, slot: int, before: Tensor, states: Tensor, correction: Correction
) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the candidates (B, W, C) of a slot after each of W tokens, in no order, and their log-probabilities.

    Probabilities are over the candidates alone (DESIGN §2.1).

    :param before: (B, W) the tokens
    :param states: (B, W, R) the states that they were scored with; zeros before the first slot
    :returns: candidates, log-probabilities and the new states (B, W, R)
    """
    rows, width = before.shape
    logits = slots.logits[:, slot].float()
    values, candidates = logits.topk(min(CANDIDATES, logits.shape[1]), dim=1)  # (B, C)
    hidden = slots.hidden[:, slot].repeat_interleave(width, 0)
    change, new = correction.step(hidden, before.flatten(), states.flatten(0, 1).to(hidden.dtype))
    table = functional.embedding(candidates, correction.table)[:, None]  # (B, 1, C, D)
    # A matrix product with one column has other bits in other batches.
    scores = values[:, None] + (table * change.view(rows, width, 1, -1)).float().sum(3)
    return candidates[:, None].expand_as(scores), scores.log_softmax(2), new.view_as(states)


def new_states(slots: Slots, width: int, rank: int) -> Tensor:
    """Returns the states (B, W, R) before the first slot."""
    return slots.hidden.new_zeros(len(slots.last), width, rank)


def best_chain(slots: Slots, correction: Correction) -> tuple[Tensor, Tensor]:
    """Returns a block of tokens (B, K), each the best given those before, and their log-probabilities (B, K)."""
    states, last = new_states(slots, 1, correction.rank), slots.last[:, None]
    tokens, log_probs = [], []
    for slot in range(slots.logits.shape[1]):
        candidates, scores, states = expand(slots, slot, last, states, correction)
        log_prob, index = scores.max(2, keepdim=True)
        last = candidates.gather(2, index)[:, :, 0]
        tokens.append(last)
        log_probs.append(log_prob[:, :, 0])
    return torch.cat(tokens, dim=1), torch.cat(log_probs, dim=1)


def tree_size(nodes: int, breadth: int, block_size: int) -> int:
    """Returns how many nodes a tree of so many slots can have, at most those asked for."""
    breadth, largest = min(breadth, CANDIDATES), 0
    for depth in range(1, block_size + 1):
        largest += breadth**depth
        if largest >= nodes:
            return nodes
    return largest


def best_first(slots: Slots, breadth: int, nodes: int, correction: Correction) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the trees of the N likeliest paths, a node at a time the likeliest that is left (DESIGN §2.3).

    :param breadth: how many candidates may follow a token
    :param nodes: N, no more than :func:`tree_size` allows
    :returns: tokens, places of parents and log-probabilities (B, N), nodes in the order in which they were added
    """
    trees = [_best_first(slots.row(row), breadth, nodes, correction) for row in range(len(slots.last))]
    tokens, parents, log_probs = zip(*(zip(*tree, strict=True) for tree in trees), strict=True)
    device = slots.last.device
    return (
        torch.tensor(tokens, device=device),
        torch.tensor(parents, device=device),
        torch.tensor(log_probs, device=device),
    )


def _best_first(slots: Slots, breadth: int, nodes: int, correction: Correction) -> list[tuple[int, int, float]]:
    """Returns token, parent and log-probability of each node of one sentence's tree."""
    tree: list[tuple[int, int, float]] = []
    leaves: list[tuple[float, int, int, float, int]] = []  # −log-probability of the path, parent, token, its own, depth
    states = [new_states(slots, 1, correction.rank)]

    def grow(node: int, token: Tensor, depth: int, total: float, state: Tensor) -> Tensor:
        candidates, scores, state = expand(slots, depth, token.view(1, 1), state, correction)
        ids = candidates[0, 0].tolist()
        found = sorted(zip((-scores[0, 0]).tolist(), ids, strict=True))
        for cost, candidate in found[:breadth]:
            heapq.heappush(leaves, (total + cost, node, candidate, -cost, depth + 1))
        return state

    states[0] = grow(0, slots.last, 0, 0.0, states[0])
    while len(tree) < nodes:
        total, parent, token, log_prob, depth = heapq.heappop(leaves)
        tree.append((token, parent, log_prob))
        state = states[parent]
        if depth < slots.logits.shape[1]:
            state = grow(len(tree), slots.last.new_tensor([token]), depth, total, state)
        states.append(state)
    return tree
