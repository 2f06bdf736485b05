"""The masked drafter: a block of [MASK] slots is filled in one pass (DESIGN §2.1)."""

from __future__ import annotations

from torch import Tensor
from typing_extensions import override

from specmt.decoding.drafters.base import NetworkDrafter
from specmt.decoding.levels import sampled_tree
from specmt.decoding.shape import BestFirst, Sampled
from specmt.decoding.tree import Tree
from specmt.engine import backend
from specmt.engine.backend import Slots
from specmt.engine.candidates import tree_size
from specmt.engine.fused import Confidence


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


class MaskedDrafter(NetworkDrafter[backend.Drafter]):
    """Fills a block of [MASK] slots in one pass."""

    @override
    def draft(
        self, fresh: Tensor, lengths: Tensor, counts: Tensor, ahead: int, confidence: Confidence | None = None
    ) -> Tree:
        if self.state is None:
            raise RuntimeError("The drafter was asked for drafts before it had a state.")
        slots = self.network.fill(fresh, lengths - counts, counts, ahead, self.state)
        shape = self.shape_by(confidence)
        if isinstance(shape, Sampled):
            expander, requests = _SlotExpander(self.network, slots), self.first_requests(len(lengths))
            starts, width = lengths.tolist(), shape.width
            return sampled_tree(expander, slots.last, starts, requests, shape.how, width=width, depth=ahead)
        if isinstance(shape, BestFirst):
            nodes = tree_size(shape.nodes, shape.breadth, ahead)
            tokens, parents, log_probs = self.network.tree(slots, shape.breadth, nodes)
            return Tree(tokens, parents, log_probs)
        tokens, log_probs = self.network.chain(slots)
        return Tree(tokens, log_probs=log_probs)
