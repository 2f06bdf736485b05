"""Drafters: who proposes tokens ahead of the verifier."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from typing_extensions import override

from specmt.decoding.plan import Plan
from specmt.engine import backend
from specmt.engine.backend import Memory, State


class Drafter(Protocol):
    """Proposes a chain of tokens for each row; it may change the speed of decoding, never an exact output."""

    def start(self, rows: Tensor, memory: Memory) -> None:
        """Gives rows (B') new sentences with the verifier's memory of them."""

    def propose(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Returns a draft (B', K) for the first B' rows; K may be 0.

        :param tokens: (B', T) the committed tokens, BOS first, with noise behind them
        :param lengths: (B') how many there are
        """

    def move(self, source: int, target: int) -> None:
        """Copies one row over another."""


class NoDrafter(Drafter):
    """Proposes nothing: the loop is then greedy decoding."""

    @override
    def start(self, rows: Tensor, memory: Memory) -> None:
        pass

    @override
    def propose(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        return tokens.new_empty(len(lengths), 0)

    @override
    def move(self, source: int, target: int) -> None:
        pass


class MaskedDrafter(Drafter):
    """Fills a block of [MASK] slots in one pass, keeping the keys and values of the committed prefix."""

    def __init__(self, network: backend.Drafter, rows: int, plan: Plan) -> None:
        self.network = network
        self.plan = plan
        self.state: State = network.new_state(rows)
        self.seen = torch.zeros(rows, dtype=torch.int64, device=network.device)  # (B) tokens whose keys are cached

    @override
    def start(self, rows: Tensor, memory: Memory) -> None:
        self.network.start(self.state, rows, memory)
        self.seen[rows] = 0

    @override
    def propose(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        slots = self.plan.slots(len(lengths))
        if slots == 0:
            return tokens.new_empty(len(lengths), 0)
        starts = self.seen[: len(lengths)]
        counts = lengths - starts
        offsets = torch.arange(int(counts.max()), device=tokens.device)
        fresh = tokens.gather(1, (starts[:, None] + offsets).clamp(max=tokens.shape[1] - 1))
        drafts, log_probs = self.network.propose(fresh, starts, counts, slots, self.state)
        starts.copy_(lengths)
        return drafts[:, : self.plan.keep(log_probs)]

    @override
    def move(self, source: int, target: int) -> None:
        self.state.move(source, target)
        self.seen[target] = self.seen[source]
