"""The best chain through the candidates of a block of slots, each corrected by the tokens chosen before it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from specmt.engine.linear import Linear
from specmt.engine.transformer import Weights

CANDIDATES = 16
"""How many of a slot's best tokens the correction is applied to."""


class Correction:
    """The effect of the tokens chosen at earlier slots on the next (specmt.models.drafter.Correction)."""

    def __init__(self, weights: Weights, table: Tensor) -> None:
        """
        :param table: (V, D) token embeddings
        """
        self.table = table
        width = table.shape[1]
        gates = weights["correction.gates.weight"]  # (2 R, 2 D + R)
        self.known = Linear(gates[:, : 2 * width].contiguous(), weights["correction.gates.bias"])
        self.carried = Linear(gates[:, 2 * width :].contiguous(), None)
        self.output = Linear(weights["correction.output.weight"], None)  # (D, R)
        self.rank = gates.shape[0] // 2

    def step(self, hidden: Tensor, previous: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns what to add to hidden states (B, D) of slots after tokens (B), and the state (B, R) they leave."""
        embedded = functional.embedding(previous, self.table) * hidden.shape[1] ** 0.5
        gate, new = (self.known(torch.cat([hidden, embedded], dim=1)) + self.carried(state)).chunk(2, dim=1)
        state = torch.lerp(state, new.tanh(), gate.sigmoid())
        return self.output(state), state


def best_chain(logits: Tensor, hidden: Tensor, last: Tensor, correction: Correction) -> tuple[Tensor, Tensor]:
    """Returns a block of tokens (B, K), each the best given those before, and their log-probabilities (B, K).

    Probabilities are over each slot's candidates (DESIGN §2.1).

    :param logits: (B, K, V) of the slots
    :param hidden: (B, K, D) their hidden states
    :param last: (B) the last committed token
    """
    values, candidates = logits.float().topk(min(CANDIDATES, logits.shape[2]), dim=2)  # (B, K, C)
    rows = functional.embedding(candidates, correction.table)  # (B, K, C, D)
    state = hidden.new_zeros(len(last), correction.rank)
    tokens, log_probs = [], []
    for slot in range(logits.shape[1]):
        change, state = correction.step(hidden[:, slot], last, state)
        # A matrix product with one column has other bits in other batches.
        scores = values[:, slot] + (rows[:, slot] * change[:, None]).float().sum(2)
        log_prob, index = scores.log_softmax(1).max(1, keepdim=True)
        last = candidates[:, slot].gather(1, index)[:, 0]
        tokens.append(last)
        log_probs.append(log_prob[:, 0])
    return torch.stack(tokens, dim=1), torch.stack(log_probs, dim=1)
