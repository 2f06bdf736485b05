"""The masked drafter on the C++ kernels."""

from __future__ import annotations

import torch
from torch import Tensor

from specmt.engine.backend import Sizes, Slots, State
from specmt.engine.boundary import check_range, checked
from specmt.engine.candidates import CANDIDATES
from specmt.engine.native_network import NativeNetwork
from specmt.engine.pool import thread_count
from specmt.engine.stack import Packed, linear_of
from specmt.engine.structures import Draft, Expansion


class NativeDrafter(NativeNetwork):
    """The masked drafter."""

    def __init__(self, packed: Packed, sizes: Sizes, dtype: torch.dtype) -> None:
        super().__init__(packed, sizes, dtype)
        self._embedded, self._corrected = packed["embedded"], packed["corrected"]
        self._known, self._carried = (linear_of(packed, name, torch.float32) for name in ("known", "carried"))

    @property
    def rank(self) -> int:
        """The width R of the correction's state."""
        return self._corrected.shape[1]

    def fill(self, tokens: Tensor, starts: Tensor, counts: Tensor, block_size: int, state: State) -> Slots:
        """Reads tokens (B', M) committed since the last call and fills a block of slots after them."""
        rows = len(tokens)
        hidden = torch.empty(rows, block_size, self.width, dtype=torch.float32)
        logits = self.step(tokens, starts, counts, state, slots=block_size, hidden=hidden)
        return Slots(logits.view(rows, block_size, -1), hidden, tokens.gather(1, counts[:, None] - 1)[:, 0])

    def chain(self, slots: Slots) -> tuple[Tensor, Tensor]:
        """Does what :func:`specmt.engine.candidates.best_chain` does."""
        shape = slots.logits.shape[:2]
        tokens, log_probs = torch.empty(shape, dtype=torch.int64), torch.empty(shape, dtype=torch.float32)
        call, _kept = self._draft(slots, tokens=tokens.data_ptr(), log_probs=log_probs.data_ptr())
        self.library.specmt_draft(call)
        return tokens, log_probs

    def tree(self, slots: Slots, breadth: int, nodes: int) -> tuple[Tensor, Tensor, Tensor]:
        """Does what :func:`specmt.engine.candidates.best_first` does."""
        shape = len(slots.last), nodes
        tokens, parents = torch.empty(shape, dtype=torch.int64), torch.empty(shape, dtype=torch.int64)
        log_probs = torch.empty(shape, dtype=torch.float32)
        call, _kept = self._draft(
            slots,
            nodes=nodes,
            breadth=breadth,
            tokens=tokens.data_ptr(),
            log_probs=log_probs.data_ptr(),
            parents=parents.data_ptr(),
        )
        self.library.specmt_draft(call)
        return tokens, parents, log_probs

    def expand(self, slots: Slots, slot: int, before: Tensor, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Does what :func:`specmt.engine.candidates.expand` does."""
        before = checked("before", before, torch.int64, len(slots.last), None)
        check_range("before", before, 0, self.vocab_size)
        states = checked("states", states, torch.float32, *before.shape, self.rank).clone()
        shape = *before.shape, min(CANDIDATES, self.vocab_size)
        ids, log_probs = torch.empty(shape, dtype=torch.int64), torch.empty(shape, dtype=torch.float32)
        expansion = Expansion(
            slot=slot,
            width=before.shape[1],
            before=before.data_ptr(),
            states=states.data_ptr(),
            ids=ids.data_ptr(),
            log_probs=log_probs.data_ptr(),
        )
        call, _kept = self._draft(slots)
        self.library.specmt_expand(call, expansion)
        return ids, log_probs, states

    def choice(self, **slots: int) -> Draft:
        """Returns how tokens are chosen for slots, of which more may be said."""
        return Draft(
            threads=thread_count(),
            vocab=self.vocab_size,
            width=self.width,
            rank=self.rank,
            embedded=self._embedded.data_ptr(),
            corrected=self._corrected.data_ptr(),
            known=self._known,
            carried=self._carried,
            **slots,
        )

    def _draft(self, slots: Slots, **results: int) -> tuple[Draft, object]:
        """Returns a call that chooses tokens for slots, and what it needs."""
        rows, count, vocab = slots.logits.shape
        logits, stride = self.rows_of(slots.logits, rows, count)
        hidden = checked("hidden", slots.hidden, torch.float32, rows, count, self.width)
        last = checked("last", slots.last, torch.int64, rows)
        check_range("last", last, 0, vocab)
        call = self.choice(
            sentences=rows,
            slots=count,
            stride=stride,
            logits=logits.data_ptr(),
            hidden=hidden.data_ptr(),
            last=last.data_ptr(),
            **results,
        )
        return call, (logits, hidden, last)
