"""Choosing tokens for a block of slots among their best candidates, each corrected by the tokens chosen before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from specmt.engine.protocols import CANDIDATES
from specmt.engine.torch.linear import Linear
from specmt.engine.torch.logits import top


class Slots(NamedTuple):
    """What a masked drafter makes of blocks of K [MASK] slots, before tokens are chosen for them."""

    candidates: Tensor
    """(B, K, C) the best tokens of each."""

    logits: Tensor
    """(B, K, C) theirs, in float32."""

    hidden: Tensor
    """(B, K, D) the last hidden states."""

    last: Tensor
    """(B) the last committed tokens."""

    @classmethod
    def of(cls, logits: Tensor, hidden: Tensor, last: Tensor) -> Slots:
        """Returns slots with the best of their tokens, given logits (B, K, V)."""
        logits = logits.float()
        candidates = top(logits, CANDIDATES)
        return cls(candidates, logits.gather(2, candidates), hidden, last)

    def new_states(self, rank: int) -> Tensor:
        """Returns the states (B, 1, R) before the first slot."""
        return self.hidden.new_zeros(len(self.last), 1, rank)


class Correction:
    """The effect of the tokens chosen at earlier slots on the next (specmt.models.reference.modules.Correction)."""

    def __init__(self, weights: Mapping[str, Tensor], table: Tensor, scale: float) -> None:
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
    """Returns the candidates (B, W, C) of a slot after each of W tokens, in one order, and their log-probabilities.

    Probabilities are over the candidates alone (DESIGN §2.1).

    :param before: (B, W) the tokens
    :param states: (B, W, R) the states that they were scored with; zeros before the first slot
    :returns: candidates, log-probabilities and the new states (B, W, R)
    """
    rows, width = before.shape
    candidates = slots.candidates[:, slot]  # (B, C)
    hidden = slots.hidden[:, slot].repeat_interleave(width, 0)
    change, new = correction.step(hidden, before.flatten(), states.flatten(0, 1).to(hidden.dtype))
    table = functional.embedding(candidates, correction.table)[:, None]  # (B, 1, C, D)
    # A matrix product with one column has other bits in other batches.
    scores = slots.logits[:, slot, None] + (table * change.view(rows, width, 1, -1)).float().sum(3)
    return candidates[:, None].expand_as(scores), scores.log_softmax(2), new.view_as(states)


def best_chain(slots: Slots, correction: Correction) -> tuple[Tensor, Tensor]:
    """Returns a block of tokens (B, K), each the best given those before, and their log-probabilities (B, K).

    Among equals it is the lowest.
    """
    states, last = slots.new_states(correction.rank), slots.last[:, None]
    tokens, log_probs = [], []
    for slot in range(slots.logits.shape[1]):
        candidates, scores, states = expand(slots, slot, last, states, correction)
        best = scores.amax(2)  # (B, 1)
        last = torch.where(scores == best[:, :, None], candidates, torch.iinfo(torch.int64).max).amin(2)
        tokens.append(last)
        log_probs.append(best)
    return torch.cat(tokens, dim=1), torch.cat(log_probs, dim=1)
