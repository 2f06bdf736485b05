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
from typing_extensions import override

from specmt.decoding.accept import Within
from specmt.decoding.confidence import confident, survival
from specmt.decoding.drafters.base import Arm, Drafter, Plan, Waiting
from specmt.decoding.request import Request
from specmt.decoding.tables import Call
from specmt.decoding.tree import Tree, chains, no_tree
from specmt.engine.arrays import Floats, Ids
from specmt.engine.cache import State
from specmt.engine.fused import EXACT, Confidence, Drafting
from specmt.engine.protocols import EncoderOutput, Scorer
from specmt.engine.window import Window
from specmt.errors import is_out_of_memory
from specmt.options import Calibration
from specmt.text.shortlist import Shortlist
from specmt.types import EOS

logger = logging.getLogger(__name__)

INNER: Final = Plan(Arm(0, 5), confidence=Confidence(1.0, 0.0, floor=0.05, margin=0.5))
"""How far the smaller drafter goes ahead, as long as it is sure enough: rows cost the replica much beside a step."""

ALIKE: Final = Calibration(acceptance=tuple(0.85**count for count in range(1, 13)), scale=1.0, shift=0.0)
"""What the same weights say, rounded a little more, is mostly right, as long as it was not counted."""

EXACTLY: Final = Within(EXACT)


class StagedDrafter(Drafter):
    """Drafts chains: what a replica of the verifier says, which verifies drafts itself if anybody drafts for it."""

    name = "self"

    def __init__(
        self,
        make_replica: Callable[[], Scorer],
        inner: Drafter | None = None,
        shortlist: Callable[[], Shortlist | None] = lambda: None,
        price: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """
        :param make_replica: returns the replica; called when something is drafted
        :param inner: drafts for the replica
        :param shortlist: returns what the replica chooses from; by default all that the verifier may say
        :param price: returns the seconds that making the replica takes
        """
        self.make_replica = make_replica
        self.make_price = price
        self.inner = inner
        self.waiting = Waiting(shortlist)
        self.state: State | None = None  # the verifier's caches, and what the replica may say
        self.is_absent = False  # for lack of memory

    @override
    def price(self) -> float:
        return 0.0 if self.is_absent else self.make_price() + (0.0 if self.inner is None else self.inner.price())

    @override
    def calls(self, arm: Arm, rows: float, longest: float) -> list[Call]:
        """Returns the calls of the replica, and those that draft for it: with them each says two tokens or so."""
        if self.inner is None:
            return [Call(self.name, rows, max(1.0, longest))]
        many, said = max(1.0, longest / 2.0), 2.0
        inner = self.inner.calls(INNER.arm, rows, said)
        return [Call(self.name, rows * (1.0 + said), many), *(each._replace(many=many * each.many) for each in inner)]

    @override
    def calibration(self, promising: bool) -> Calibration:
        return ALIKE

    @override
    def load(self, rows: int) -> None:
        if self.is_absent:
            return
        try:
            self.make_replica()
            if self.inner is not None:
                self.inner.load(rows)
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            logger.warning("memory is too small for the verifier's replica, which drafts nothing")
            self.is_absent = True

    @override
    def start(self, state: State, rows: Ids, encoded: EncoderOutput, requests: Sequence[Request]) -> None:
        # Anew each time: growth replaces what is known of sources.
        self.state = replace(state, shortlists={} if self.state is None else self.state.shortlists)
        self.waiting.add(rows, encoded, requests)
        if self.inner is not None:
            self.inner.start(state, rows, encoded, requests)

    @override
    def propose(self, tokens: Ids, lengths: Ids, plan: Plan) -> Tree:
        count, row = len(lengths), np.arange(len(lengths))
        ahead, confidence = plan.arm.ahead, plan.confidence
        if self.is_absent:
            return no_tree(count)
        replica, state = self._begin(count)
        said = np.pad(tokens, ((0, 0), (0, ahead + INNER.arm.ahead + 1)))
        log_probs = np.full((count, ahead), -np.inf, dtype=np.float32)
        ends, going = lengths.copy(), np.ones(count, dtype=np.bool_)
        while going.any():
            # Sentences that wait for others read their last tokens again.
            tree = no_tree(count)
            if self.inner is not None:
                for number, end in enumerate(ends.tolist()):
                    self.inner.rewind(number, end - 1)
                tree = self.inner.propose(said, ends, INNER)
            window = np.column_stack([said[row, ends - 1], tree.tokens])
            logits = replica.score(Window(window, ends - 1, tree.counts + 1), state)
            found = EXACTLY.accept(tree, logits, ())
            likely = logits.log_probs(found.tokens, np.pad(found.places, ((0, 0), (1, 0))))
            for number in np.flatnonzero(going).tolist():
                begin, first = int(ends[number]), int(ends[number] - lengths[number])
                fresh = found.tokens[number, : int(found.counts[number]) + 1].tolist()
                fresh = fresh[: fresh.index(EOS) + 1 if EOS in fresh else None][: ahead - first]
                end = first + len(fresh)
                said[number, begin : begin + len(fresh)] = fresh
                log_probs[number, first:end] = likely[number, : len(fresh)]
                ends[number] += len(fresh)
                going[number] = fresh[-1] != EOS and end < ahead and not _doubts(log_probs[number, :end], confidence)
        if self.inner is not None:
            for number, length in enumerate(lengths.tolist()):
                self.inner.rewind(number, length - 1)
        places = lengths[:, None] + np.arange(ahead)
        return confident(chains(np.take_along_axis(said, places, 1), log_probs, ends - lengths), confidence)

    @override
    def fused(self, rows: int, plan: Plan) -> Drafting | None:
        if self.is_absent:
            return Drafting(0)
        replica, state = self._begin(rows)
        stage = Drafting(0) if self.inner is None else self.inner.fused(rows, INNER)
        if stage is None:
            return None
        return Drafting(plan.arm.ahead, replica, state, confidence=plan.confidence, stage=stage)

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
            self.state.allow(target, self.state.shortlists.get(source))
        if self.inner is not None:
            self.inner.move(source, target)


def _doubts(log_probs: Floats, confidence: Confidence | None) -> bool:
    """Returns whether a chain with log-probabilities (K) is too unlikely to be gone on with."""
    if confidence is None or confidence.floor == 0.0:
        return False
    chances = survival(log_probs[None].astype(np.float64), confidence.scale, confidence.shift)
    return bool(chances[0, -1] < confidence.margin)
