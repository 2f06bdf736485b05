"""Drafters: who proposes tokens ahead of the verifier."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from typing_extensions import override

from specmt.decoding.plan import Plan
from specmt.engine import backend
from specmt.engine.backend import Memory, State, Verifier, best_tokens
from specmt.types import EOS


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
        self.waiting: dict[int, tuple[Memory, int]] = {}
        """The memory, and the number in it, of the sentences of rows that nothing was drafted for yet."""

    @override
    def start(self, rows: Tensor, memory: Memory) -> None:
        self.seen[rows] = 0
        self.waiting |= {row: (memory, number) for number, row in enumerate(rows.tolist())}

    @override
    def propose(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        slots = self.plan.slots(len(lengths))
        if slots == 0:
            return tokens.new_empty(len(lengths), 0)
        self._start_waiting(len(lengths))
        starts = self.seen[: len(lengths)]
        counts = lengths - starts
        offsets = torch.arange(int(counts.max()), device=tokens.device)
        fresh = tokens.gather(1, (starts[:, None] + offsets).clamp(max=tokens.shape[1] - 1))
        drafts, log_probs = self.network.propose(fresh, starts, counts, slots, self.state)
        starts.copy_(lengths)
        return drafts[:, : self.plan.keep(log_probs)]

    def _start_waiting(self, active: int) -> None:
        """Gives the first rows the sentences that wait; what waits behind them has been decoded without drafts."""
        while self.waiting:
            _, (memory, _) = next(iter(self.waiting.items()))
            group = {row: number for row, (other, number) in self.waiting.items() if other is memory}
            self.waiting = {row: pair for row, pair in self.waiting.items() if row not in group}
            rows = [row for row in group if row < active]
            if rows:
                places = torch.tensor(rows, device=self.seen.device)
                self.network.start(self.state, places, memory.pick([group[row] for row in rows]))

    @override
    def move(self, source: int, target: int) -> None:
        self.waiting.pop(target, None)
        if source in self.waiting:
            self.waiting[target] = self.waiting.pop(source)
        else:
            self.state.move(source, target)
        self.seen[target] = self.seen[source]


class SelfDrafter(Drafter):
    """The verifier itself, decoding ahead token by token in a fast shape and type (DESIGN §2).

    What it says is replayed by the verifier in its own shape and type, and only what both agree on stands: the output
    is the verifier's, whatever batch and rounding the fast path had.
    """

    def __init__(self, network: Verifier, rows: int, block_size: int) -> None:
        self.network = network
        self.block_size = block_size
        self.state: State = network.new_state(rows)
        self.seen = torch.zeros(rows, dtype=torch.int64, device=network.device)  # (B) tokens whose keys are cached

    @override
    def start(self, rows: Tensor, memory: Memory) -> None:
        self.network.start(self.state, rows, memory)
        self.seen[rows] = 0

    @override
    def propose(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        count = len(lengths)
        # As many tokens as the row that has most to read; rows that have less read old ones again, or noise.
        window = int((lengths - self.seen[:count]).max())
        starts = (lengths - window).clamp(min=0)
        offsets = torch.arange(window, device=tokens.device)
        fresh = tokens.gather(1, (starts[:, None] + offsets).clamp(max=tokens.shape[1] - 1))
        rows = torch.arange(count, device=tokens.device)
        logits = self.network.score(fresh, starts, self.state)[rows, lengths - 1 - starts]
        drafts = [best_tokens(logits)]
        for ahead in range(1, self.block_size):
            if bool((drafts[-1] == EOS).all()):
                break
            logits = self.network.score(drafts[-1][:, None], lengths + (ahead - 1), self.state)[:, 0]
            drafts.append(best_tokens(logits))
        self.seen[:count] = lengths
        return torch.stack(drafts, dim=1)

    @override
    def move(self, source: int, target: int) -> None:
        self.state.move(source, target)
        self.seen[target] = self.seen[source]
