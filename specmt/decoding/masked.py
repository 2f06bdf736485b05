"""The masked drafter: a block of [MASK] slots is filled in one pass (DESIGN §2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor
from typing_extensions import override

from specmt.decoding.drafters import Planned, Requests, Waiting, unseen
from specmt.decoding.levels import sampled_tree
from specmt.decoding.plan import Plan
from specmt.decoding.request import Request
from specmt.decoding.shape import BestFirst, Chain, Sampled, Shape
from specmt.decoding.shortlist import Shortlist
from specmt.decoding.tree import Tree, no_tree
from specmt.engine import backend
from specmt.engine.backend import Drafting, Memory, Slots, State
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


class MaskedDrafter(Planned):
    """Fills a block of [MASK] slots in one pass, keeping the keys and values of the committed prefix."""

    def __init__(
        self,
        network: backend.Drafter,
        rows: int,
        plan: Plan,
        shape: Shape | None = None,
        shortlist: Shortlist | None = None,
    ) -> None:
        """
        :param shortlist: what drafts are chosen from; by default all that the verifier may say
        """
        super().__init__(plan)
        self.network = network
        self.shape = shape or Chain()
        self.requests = Requests(rows)
        self.waiting = Waiting(shortlist)
        self.rows = rows
        self.seen = torch.zeros(rows, dtype=torch.int64, device=network.device)  # (B) tokens whose keys are cached

    @cached_property
    def state(self) -> State:
        """The caches, once something is drafted."""
        return self.network.new_state(self.rows)

    @override
    def start(self, rows: Tensor, memory: Memory, requests: Sequence[Request]) -> None:
        super().start(rows, memory, requests)
        self.seen[rows] = 0
        self.requests.start(rows, requests)
        self.waiting.add(rows, memory, requests)

    @override
    def propose(self, tokens: Tensor, lengths: Tensor) -> Tree:
        count = self.slots(len(lengths))
        if count == 0:
            return no_tree(len(lengths), tokens.device)
        self.waiting.start(self.network, self.state, len(lengths))
        fresh, counts = unseen(tokens, self.seen, lengths)
        slots = self.network.fill(fresh, lengths - counts, counts, count, self.state)
        self.seen[: len(lengths)] = lengths
        return self._choose(slots, lengths)

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
        return tree.first(self.plan.keep(tree))

    @override
    def drafting(self, rows: int) -> Drafting | None:
        count = self.slots(rows)
        if count == 0:
            return Drafting(0)
        if not (isinstance(self.shape, Chain) and self.network.in_loop):
            return None
        self.waiting.start(self.network, self.state, rows)
        return Drafting(count, self.network, self.state, self.seen, self.plan.trust(rows))

    @override
    def finish(self, row: int, tokens: list[int]) -> None:
        pass

    @override
    def move(self, source: int, target: int) -> None:
        self.requests.move(source, target)
        if not self.waiting.move(source, target):
            self.state.move(source, target, int(self.seen[source]))
        self.seen[target] = self.seen[source]
