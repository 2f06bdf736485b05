"""The verifier as a drafter of its own: a replica in a cheaper type, for which a smaller drafter drafts in turn.

Staged speculative decoding (Spector and Re 2023, section 3.2). The replica reads the verifier's keys and values of the
source and of committed tokens, and writes its own behind them, where verifying writes the verifier's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from specmt.decoding.accept import accept_exact
from specmt.decoding.drafters.base import Drafter, Waiting
from specmt.decoding.policy import confident, survival
from specmt.decoding.request import Request
from specmt.decoding.shortlist import Shortlist
from specmt.decoding.tree import Tree, no_tree, prune
from specmt.engine.backend import EncoderOutput, Scorer, State
from specmt.engine.fused import Confidence, Drafting
from specmt.errors import is_out_of_memory
from specmt.types import EOS

logger = logging.getLogger(__name__)

AHEAD: Final = 5
CONFIDENCE: Final = Confidence(1.0, 0.0, floor=0.05, margin=0.5)
"""How far the smaller drafter goes ahead, as long as it is sure enough: rows cost the replica much beside a step."""


class StagedDrafter(Drafter):
    """Drafts chains: what a replica of the verifier says, which verifies drafts itself if anybody drafts for it."""

    def __init__(
        self, make_replica: Callable[[], Scorer], inner: Drafter | None = None, shortlist: Shortlist | None = None
    ) -> None:
        """
        :param make_replica: returns the replica; called when something is drafted
        :param inner: drafts for the replica
        :param shortlist: what the replica chooses from; by default all that the verifier may say
        """
        self.make_replica = make_replica
        self.inner = inner
        self.waiting = Waiting(shortlist)
        self.state: State | None = None  # the verifier's caches, and what the replica may say
        self.is_absent = False  # for lack of memory

    @override
    def load(self) -> None:
        if self.is_absent:
            return
        try:
            self.make_replica()
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            logger.warning("memory is too small for the verifier's replica, which drafts nothing")
            self.is_absent = True

    @override
    def share(self, state: State) -> None:
        self.state = replace(state, shortlists={})

    @override
    def start(self, rows: Tensor, encoded: EncoderOutput, requests: Sequence[Request]) -> None:
        self.waiting.add(rows, encoded, requests)
        if self.inner is not None:
            self.inner.start(rows, encoded, requests)

    @override
    def propose(self, tokens: Tensor, lengths: Tensor, ahead: int, confidence: Confidence | None) -> Tree:
        count = len(lengths)
        if self.is_absent:
            return no_tree(count, tokens.device)
        replica, state = self._begin(count)
        room = int(lengths.max()) + ahead + AHEAD + 1 - tokens.shape[1]
        said = torch.nn.functional.pad(tokens, (0, max(room, 0)))
        log_probs = torch.full((count, ahead), -torch.inf)
        ends = lengths.clone()
        going = torch.ones(count, dtype=torch.bool)
        while going.any():
            # Sentences that wait for others read their last tokens again.
            tree = no_tree(count, tokens.device)
            if self.inner is not None:
                for row in range(count):
                    self.inner.rewind(row, int(ends[row]) - 1)
                tree = self.inner.propose(said, ends, AHEAD, CONFIDENCE)
            window = torch.cat([said.gather(1, ends[:, None] - 1), tree.tokens], dim=1)
            logits = replica.score(window, ends - 1, state)
            verdict = accept_exact(tree, logits)
            likely = replica.log_probs(logits, verdict.tokens)
            for row in np.flatnonzero(going.numpy()).tolist():
                begin, first = int(ends[row]), int(ends[row] - lengths[row])
                fresh = verdict.tokens[row, : int(verdict.accepted[row]) + 1].tolist()
                fresh = fresh[: fresh.index(EOS) + 1 if EOS in fresh else None][: ahead - first]
                end = first + len(fresh)
                said[row, begin : begin + len(fresh)] = torch.tensor(fresh)
                log_probs[row, first:end] = likely[row, : len(fresh)]
                ends[row] += len(fresh)
                going[row] = fresh[-1] != EOS and end < ahead and not _doubts(log_probs[row, :end], confidence)
        if self.inner is not None:
            for row in range(count):
                self.inner.rewind(row, int(lengths[row]) - 1)
        places = lengths[:, None] + torch.arange(ahead)
        chains = Tree(said.gather(1, places.clamp(max=said.shape[1] - 1)), log_probs=log_probs)
        return confident(prune(chains, log_probs.numpy() > -np.inf), confidence)

    @override
    def fused(self, rows: int, ahead: int, confidence: Confidence | None) -> Drafting | None:
        if self.is_absent:
            return Drafting(0)
        replica, state = self._begin(rows)
        stage = Drafting(0) if self.inner is None else self.inner.fused(rows, AHEAD, CONFIDENCE)
        return None if stage is None else Drafting(ahead, replica, state, confidence=confidence, stage=stage)

    def _begin(self, rows: int) -> tuple[Scorer, State]:
        """Returns the replica and its caches, when it knows what may be said of the first sentences."""
        if self.state is None:
            raise RuntimeError("The drafter was asked for drafts before it shared the verifier's caches.")
        replica = self.make_replica()
        self.waiting.start(replica, self.state, rows)
        return replica, self.state

    @override
    def rewind(self, row: int, length: int) -> None:
        if self.inner is not None:
            self.inner.rewind(row, length)

    @override
    def move(self, source: int, target: int) -> None:
        if not self.waiting.move(source, target) and self.state is not None:
            self.state.allow(torch.tensor([target]), [self.state.shortlists.get(source)])
        if self.inner is not None:
            self.inner.move(source, target)


def _doubts(log_probs: Tensor, confidence: Confidence | None) -> bool:
    """Returns whether a chain with log-probabilities (K) is too unlikely to be gone on with."""
    if confidence is None or confidence.floor == 0.0:
        return False
    chances = survival(log_probs[None].double().numpy(force=True), confidence.scale, confidence.shift)
    return bool(chances[0, -1] < confidence.margin)
