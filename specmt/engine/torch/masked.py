"""The masked drafter: committed tokens run causally and are cached, [MASK] slots see them and each other.

A slot predicts the token at its own position. What was chosen at earlier slots corrects the scores of its best
candidates (specmt.engine.torch.correction).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from specmt.engine.architecture import Sizes
from specmt.engine.arrays import Floats, Ids
from specmt.engine.cache import State
from specmt.engine.protocols import DraftNetwork, Expander
from specmt.engine.torch.correction import Correction, Slots, best_chain, expand
from specmt.engine.torch.door import entered, to_floats, to_ids, to_tensor
from specmt.engine.torch.invariance import GRANULAR, ShapePolicy
from specmt.engine.torch.network import TorchNetwork
from specmt.engine.weights import DRAFTER_TABLES
from specmt.engine.window import Window


class TorchMasked(TorchNetwork, DraftNetwork):
    """The masked drafter."""

    def __init__(self, weights: Mapping[str, Tensor], sizes: Sizes, shapes: ShapePolicy = GRANULAR) -> None:
        super().__init__(weights, DRAFTER_TABLES, sizes, shapes)
        self.mask_embedding = weights["mask_embedding"]  # (D)
        self.correction = Correction(weights, self.embed.table, self.embed.scale)

    @override
    @entered
    def chain(self, read: Window, ahead: int, state: State) -> tuple[Ids, Floats]:
        tokens, log_probs = best_chain(self._fill(read, ahead, state), self.correction)
        return to_ids(tokens), to_floats(log_probs)

    @override
    @entered
    def expander(self, read: Window, ahead: int, state: State) -> Expander:
        return _SlotExpander(self._fill(read, ahead, state), self.correction)

    def _fill(self, read: Window, block_size: int, state: State) -> Slots:
        """Reads newly committed tokens into the cache and fills a block of slots after them."""
        tokens, starts, counts, numbers, _ = read
        count, widest = tokens.shape
        counts = np.full(count, widest) if counts is None else counts
        offsets = np.arange(widest + block_size)
        positions = starts[:, None] + offsets  # (B, W)
        ends = counts[:, None] + block_size
        slot = (offsets >= counts[:, None]) & (offsets < ends)
        embedded = self._embed(np.pad(tokens, ((0, 0), (0, block_size))), positions)
        masked = self.mask_embedding + functional.embedding(self._positions(positions), self.embed.positions)
        embedded = torch.where(to_tensor(slot[:, :, None], self.device), masked, embedded)
        limits = np.where(slot, starts[:, None] + ends - 1, positions)
        rows = slice(count) if numbers is None else numbers
        hidden = self._decode(embedded, positions, limits, state, rows)
        slots = to_tensor(counts[:, None] + np.arange(block_size), self.device)  # (B, K)
        hidden = hidden.gather(1, slots[:, :, None].expand(-1, -1, self.width))
        logits = self._restrict(self.project(hidden), state, numbers)
        return Slots.of(logits, hidden, to_tensor(tokens[np.arange(count), counts - 1], self.device))


class _SlotExpander(Expander):
    """The distributions of a masked drafter's slots after what was chosen at earlier ones."""

    def __init__(self, slots: Slots, correction: Correction) -> None:
        self._slots, self._correction = slots, correction
        self._slot = 0
        self._states = slots.new_states(correction.rank)

    @override
    @entered
    def expand(self, tokens: Ids, parents: Ids) -> tuple[Ids, Floats]:
        device = self._states.device
        before = to_tensor(parents[:, :, None], device).expand(-1, -1, self._correction.rank)
        states = self._states.gather(1, before)
        ids, log_probs, self._states = expand(
            self._slots, self._slot, to_tensor(tokens, device), states, self._correction
        )
        self._slot += 1
        ids, by_id = ids.sort(2)
        log_probs, order = log_probs.gather(2, by_id).sort(dim=2, descending=True, stable=True)
        return to_ids(ids.gather(2, order)), to_floats(log_probs)
