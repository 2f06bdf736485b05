"""The masked drafter: a block of [MASK] slots is filled in one pass (DESIGN §2.1)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from typing_extensions import override

from specmt.decoding.drafters import Drafter, Requests, unseen
from specmt.decoding.levels import sampled_tree
from specmt.decoding.plan import Plan
from specmt.decoding.request import Request
from specmt.decoding.shape import BestFirst, Chain, Sampled, Shape
from specmt.decoding.tree import Tree, no_tree
from specmt.engine import backend
from specmt.engine.backend import Drafting, Memory, Ran, Slots, State
from specmt.engine.candidates import tree_size


class _SlotExpander:
    """The distributions of a masked drafter's slots after what was chosen at earlier ones."""

    def __init__(self, network: backend.Drafter, slots: Slots) -> None:
        self.network = network
        self.slots = slots
        self.slot = 0
        self.states = slots.hidden.new_zeros(len(slots.last), 1, network.rank)

    def expand(self, tokens: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
        index = parents[:, :, None].expand(-1, -1, self.states.shape[2])
        states = self.states.gather(1, index)
        ids, log_probs, self.states = self.network.expand(self.slots, self.slot, tokens, states)
        self.slot += 1
        return ids, log_probs


class MaskedDrafter(Drafter):
    """Fills a block of [MASK] slots in one pass, keeping the keys and values of the committed prefix."""

    def __init__(self, network: backend.Drafter, rows: int, plan: Plan, shape: Shape | None = None) -> None:
        self.network = network
        self.plan = plan
        self.shape = shape or Chain()
        self.requests = Requests(rows)
        self.window: int | None = None  # drafts verified in the last iteration, if there were any
        self.state: State = network.new_state(rows)
        self.seen = torch.zeros(rows, dtype=torch.int64, device=network.device)  # (B) tokens whose keys are cached
        self.waiting: dict[int, tuple[Memory, int]] = {}
        """The memory, and the number in it, of the sentences of rows that nothing was drafted for yet."""

    @override
    def start(self, rows: Tensor, memory: Memory, requests: Sequence[Request]) -> None:
        self.seen[rows] = 0
        self.requests.start(rows, requests)
        self.waiting |= {row: (memory, number) for number, row in enumerate(rows.tolist())}

    @override
    def propose(self, tokens: Tensor, lengths: Tensor) -> Tree:
        count = self.plan.slots(len(lengths))
        if count == 0:
            self.window = None
            return no_tree(len(lengths), tokens.device)
        self._start_waiting(len(lengths))
        fresh, counts = unseen(tokens, self.seen, lengths)
        if self.plan.learns:
            self._learn(counts)
        slots = self.network.fill(fresh, lengths - counts, counts, count, self.state)
        self.seen[: len(lengths)] = lengths
        return self._choose(slots, lengths)

    def _learn(self, counts: Tensor) -> None:
        """Tells the plan what came of the last draft: what was committed since, in rows that had one.

        :param counts: (B') the tokens of each row that were not read yet
        """
        known = counts[self.seen[: len(counts)] > 0]
        if self.window is not None and len(known):
            self.plan.learn(len(counts), self.window, float(known.sum()) / len(known))

    def _choose(self, slots: Slots, lengths: Tensor) -> Tree:
        """Returns the trees of blocks of slots."""
        count = slots.logits.shape[1]
        if isinstance(self.shape, Sampled):
            expander, requests = _SlotExpander(self.network, slots), self.requests.first(len(lengths))
            starts, width = lengths.tolist(), self.shape.width
            return sampled_tree(expander, slots.last, starts, requests, self.shape.how, width=width, depth=count)
        if isinstance(self.shape, BestFirst):
            nodes = tree_size(self.shape.nodes, self.shape.breadth, count)
            tokens, parents, log_probs = self.network.tree(slots, self.shape.breadth, nodes)
            tree = Tree(tokens, parents, log_probs)
        else:
            tokens, log_probs = self.network.chain(slots)
            tree = Tree(tokens, log_probs=log_probs)
        self.window = self.plan.keep(tree)
        return tree.first(self.window)

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
    def drafting(self, rows: int, iterations: int) -> Drafting | None:
        if not (isinstance(self.shape, Chain) and self.network.own_threads):
            return None
        count = self.plan.slots(rows, iterations)
        if count == 0:
            return Drafting(0)
        self._start_waiting(rows)
        return Drafting(count, self.network, self.state, self.seen, self.plan.trust(rows))

    @override
    def told(self, rows: int, ran: Ran) -> None:
        if self.plan.learns:
            for window, tokens in zip(*ran, strict=True):
                self.plan.learn(rows, int(window), float(tokens))

    @override
    def finish(self, row: int, tokens: list[int]) -> None:
        pass

    @override
    def move(self, source: int, target: int) -> None:
        self.requests.move(source, target)
        self.waiting.pop(target, None)
        if source in self.waiting:
            self.waiting[target] = self.waiting.pop(source)
        else:
            self.state.move(source, target, int(self.seen[source]))
        self.seen[target] = self.seen[source]
