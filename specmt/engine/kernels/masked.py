"""The masked drafter on the C++ kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from typing_extensions import override

from specmt.engine.architecture import Sizes
from specmt.engine.arrays import Floats, Ids, empty
from specmt.engine.cache import State
from specmt.engine.kernels.boundary import check_range, checked, writable
from specmt.engine.kernels.network import KernelNetwork, counted
from specmt.engine.kernels.stack import Packed, linear_of
from specmt.engine.kernels.structures import SLOTS, Draft, Expansion
from specmt.engine.protocols import CANDIDATES, DraftNetwork, Expander
from specmt.engine.threads import thread_count
from specmt.engine.window import Window


class Slots(NamedTuple):
    """Blocks of K [MASK] slots, before tokens are chosen for them."""

    logits: Floats
    """(B · K, V) in rows that are equally far apart"""

    hidden: Floats
    """(B, K, D) the last hidden states."""

    last: Ids
    """(B) the last committed tokens."""


class KernelMaskedDrafter(KernelNetwork, DraftNetwork):
    """The masked drafter: it fills a block of slots in one pass, and corrects each by the tokens chosen before it."""

    def __init__(self, packed: Packed, sizes: Sizes, format: str) -> None:
        super().__init__(packed, sizes, format)
        self._embedded, self._corrected = packed["embedded"], packed["corrected"]
        self._known, self._carried = (linear_of(packed, name, "float32") for name in ("known", "carried"))

    @property
    def rank(self) -> int:
        """The width R of the correction's state."""
        return int(self._corrected.shape[1])

    @override
    def chain(self, read: Window, ahead: int, state: State) -> tuple[Ids, Floats]:
        return self.best_chain(self.fill(read, ahead, state))

    @override
    def expander(self, read: Window, ahead: int, state: State) -> Expander:
        return _SlotExpander(self, self.fill(read, ahead, state))

    def fill(self, read: Window, block_size: int, state: State) -> Slots:
        """Reads newly committed tokens into the cache and fills a block of slots behind them."""
        read, counts = counted(read)
        rows = len(read.tokens)
        hidden = empty((rows, block_size, self.width), np.float32)
        logits = self.step(read, state, SLOTS, slots=block_size, hidden=hidden)
        return Slots(logits, hidden, read.tokens[np.arange(rows), counts - 1])

    def best_chain(self, slots: Slots) -> tuple[Ids, Floats]:
        """Returns the best chains (B, K) of blocks, and their log-probabilities (B, K) among candidates."""
        shape = slots.hidden.shape[:2]
        tokens, log_probs = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.float32)
        call, needed = self.draft(slots, tokens=tokens.ctypes.data, log_probs=log_probs.ctypes.data)
        self.library.specmt_draft(call)
        del needed
        return tokens, log_probs

    def expand(self, slots: Slots, slot: int, before: Ids, states: Floats) -> tuple[Ids, Floats, Floats]:
        """Returns the candidates (B, W, C) of a slot after each of W tokens, best first, and their log-probabilities.

        :param before: (B, W) the tokens
        :param states: (B, W, R) of the correction, that they were scored with; zeros before the first slot
        :returns: candidates, log-probabilities and the new states (B, W, R)
        :raises ValueError: they do not fit, or there is no such slot.
        """
        rows, block_size, _ = slots.hidden.shape
        if not 0 <= slot < block_size:
            raise ValueError(f"`slot` must be in 0 … {block_size - 1}, but is {slot} instead.")
        before = checked("before", before, np.int64, rows, None)
        check_range("before", before, 0, self.vocab_size)
        states = checked("states", states, np.float32, *before.shape, self.rank).copy()
        shape = *before.shape, min(CANDIDATES, self.vocab_size)
        ids, log_probs = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.float32)
        expansion = Expansion(
            slot=slot,
            width=before.shape[1],
            before=before.ctypes.data,
            states=states.ctypes.data,
            ids=ids.ctypes.data,
            log_probs=log_probs.ctypes.data,
        )
        call, needed = self.draft(slots)
        self.library.specmt_expand(call, expansion)
        del needed
        # They come in ascending order, which among equals stays.
        order = np.argsort(-log_probs, axis=2, kind="stable")
        return np.take_along_axis(ids, order, 2), np.take_along_axis(log_probs, order, 2), states

    def choice(self, **slots: int) -> Draft:
        """Returns how tokens are chosen for slots, of which more may be said."""
        return Draft(
            threads=thread_count(),
            vocab=self.vocab_size,
            width=self.width,
            rank=self.rank,
            embedded=self._embedded.ctypes.data,
            corrected=self._corrected.ctypes.data,
            known=self._known,
            carried=self._carried,
            **slots,
        )

    def draft(self, slots: Slots, **results: int) -> tuple[Draft, object]:
        """Returns a call that chooses tokens for slots, and what has to outlive it.

        :param results: fields of the call, where what it finds is to be written
        """
        hidden = checked("hidden", slots.hidden, np.float32, None, None, self.width)
        rows, block_size, _ = hidden.shape
        logits = writable("logits", slots.logits, np.float32, rows * block_size, self.vocab_size)
        last = checked("last", slots.last, np.int64, rows)
        check_range("last", last, 0, self.vocab_size)
        call = self.choice(
            sentences=rows,
            slots=block_size,
            stride=logits.strides[0] // logits.itemsize,
            logits=logits.ctypes.data,
            hidden=hidden.ctypes.data,
            last=last.ctypes.data,
            **results,
        )
        return call, (logits, hidden, last)


class _SlotExpander(Expander):
    """The distributions of slots after what was chosen at earlier ones."""

    def __init__(self, network: KernelMaskedDrafter, slots: Slots) -> None:
        self.network = network
        self.slots = slots
        self.slot = 0
        self.states: Floats = np.zeros((len(slots.last), 1, network.rank), dtype=np.float32)

    @override
    def expand(self, tokens: Ids, parents: Ids) -> tuple[Ids, Floats]:
        states = np.take_along_axis(self.states, parents[:, :, None], axis=1)
        ids, log_probs, self.states = self.network.expand(self.slots, self.slot, tokens, states)
        self.slot += 1
        return ids, log_probs
