"""Drafters: who proposes tokens ahead of the verifier."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Generic, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor
from typing_extensions import override

from specmt.decoding.policy import confident
from specmt.decoding.request import Request
from specmt.decoding.shape import FEW_NODES, BestFirst, Chain, Sampled, Shape
from specmt.decoding.shortlist import Shortlist, restricted
from specmt.decoding.tree import Tree, merge
from specmt.engine import backend
from specmt.engine.backend import EncoderOutput, Network, Scorer, State
from specmt.engine.fused import Confidence, Drafting


class Drafter(Protocol):
    """Proposes draft trees; it may change the speed of decoding, never exact output."""

    def load(self) -> None:
        """Makes ready what is made once, when something is first drafted, and may take seconds."""
        return

    def share(self, state: State) -> None:
        """Takes in where the verifier's caches are, which only grow in place."""
        return

    def start(self, rows: Tensor, encoded: EncoderOutput, requests: Sequence[Request]) -> None:
        """Gives rows (B') new sentences with the encoder's output for them."""

    def propose(self, tokens: Tensor, lengths: Tensor, ahead: int, confidence: Confidence | None) -> Tree:
        """Returns drafts for the first B' rows; there may be none.

        :param tokens: (B', T) the committed tokens, from BOS on, with noise behind them
        :param lengths: (B') how many there are
        :param ahead: the block size K
        :param confidence: which nodes are worth verifying; ``None`` for all
        """

    def fused(self, rows: int, ahead: int, confidence: Confidence | None) -> Drafting | None:
        """Returns how a fused loop drafts for the first rows; ``None`` where only `propose` can."""
        return None

    def is_promising(self, rows: int) -> bool:
        """Returns whether the drafter is likely to know the translations of the first rows already."""
        return False

    def finish(self, row: int, tokens: list[int]) -> None:
        """Takes in the translation of a row's sentence, without BOS and EOS, before the row is given away."""
        return

    def rewind(self, row: int, length: int) -> None:
        """Forgets what a row has committed, but for so many tokens, BOS included."""
        return

    def move(self, source: int, target: int) -> None:
        """Copies one row over another."""


class CombinedDrafter(Drafter):
    """Puts the drafts of several drafters into one tree."""

    def __init__(self, drafters: Sequence[Drafter], aheads: Sequence[int]) -> None:
        """
        :param aheads: the block size of each
        """
        self.drafters = drafters
        self.aheads = aheads

    @override
    def load(self) -> None:
        for drafter in self.drafters:
            drafter.load()

    @override
    def share(self, state: State) -> None:
        for drafter in self.drafters:
            drafter.share(state)

    @override
    def start(self, rows: Tensor, encoded: EncoderOutput, requests: Sequence[Request]) -> None:
        for drafter in self.drafters:
            drafter.start(rows, encoded, requests)

    @override
    def propose(self, tokens: Tensor, lengths: Tensor, ahead: int, confidence: Confidence | None) -> Tree:
        pairs = zip(self.drafters, self.aheads, strict=True)
        return merge([drafter.propose(tokens, lengths, own, confidence) for drafter, own in pairs])

    @override
    def is_promising(self, rows: int) -> bool:
        return any(drafter.is_promising(rows) for drafter in self.drafters)

    @override
    def finish(self, row: int, tokens: list[int]) -> None:
        for drafter in self.drafters:
            drafter.finish(row, tokens)

    @override
    def rewind(self, row: int, length: int) -> None:
        for drafter in self.drafters:
            drafter.rewind(row, length)

    @override
    def move(self, source: int, target: int) -> None:
        for drafter in self.drafters:
            drafter.move(source, target)


def unseen(tokens: Tensor, seen: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the tokens (B', M) of each row that a drafter has not read yet, padded on the right, and their numbers.

    :param tokens: (B', T)
    :param seen: (B) how many it has read
    :param lengths: (B') how many there are
    """
    starts = seen[: len(lengths)]
    counts = lengths - starts
    offsets = torch.arange(int(counts.max()), device=tokens.device)
    return tokens.gather(1, (starts[:, None] + offsets).clamp(max=tokens.shape[1] - 1)), counts


class _Sentence(NamedTuple):
    """One that waits."""

    encoded: EncoderOutput
    number: int
    """In the encoder output."""

    request: Request


class Waiting:
    """Sentences that a drafter's network is given when something is drafted for them, not before."""

    def __init__(self, shortlist: Shortlist | None = None) -> None:
        """
        :param shortlist: what drafts are chosen from; by default all that the verifier may say
        """
        self._shortlist = shortlist
        self._rows: dict[int, _Sentence] = {}

    def add(self, rows: Tensor, encoded: EncoderOutput, requests: Sequence[Request]) -> None:
        self._rows |= {
            row: _Sentence(encoded, number, request)
            for number, (row, request) in enumerate(zip(rows.tolist(), requests, strict=True))
        }

    def start(self, network: Network, state: State, active: int) -> None:
        """Gives a network those of the first rows; what waits behind them has been decoded without drafts."""
        while self._rows:
            encoded = next(iter(self._rows.values())).encoded
            group = {row: each for row, each in self._rows.items() if each.encoded is encoded}
            self._rows = {row: each for row, each in self._rows.items() if row not in group}
            rows = [row for row in group if row < active]
            if rows:
                picked = encoded.pick([group[row].number for row in rows])
                listed = restricted(picked, [group[row].request for row in rows], self._shortlist)
                network.start(state, torch.tensor(rows, device=network.device), listed)

    def move(self, source: int, target: int) -> bool:
        """Copies one row over another; returns whether its sentence waits."""
        self._rows.pop(target, None)
        if source in self._rows:
            self._rows[target] = self._rows.pop(source)
        return target in self._rows


N = TypeVar("N", bound="backend.Drafter | Scorer")


class NetworkDrafter(Drafter, Generic[N]):
    """Drafts with a network of its own, keeping the keys and values of the committed prefix."""

    def __init__(
        self, network: N, capacity: int, shape: Shape | None = None, shortlist: Shortlist | None = None
    ) -> None:
        """
        :param capacity: the most rows
        :param shortlist: what drafts are chosen from; by default all that the verifier may say
        """
        self.network = network
        self.shape = shape or Chain()
        self.waiting = Waiting(shortlist)
        self.capacity = capacity
        self.state: State | None = None  # until something is drafted
        self.requests: dict[int, Request] = {}
        self.seen = torch.zeros(capacity, dtype=torch.int64, device=network.device)  # (B) tokens whose keys are cached

    @override
    def start(self, rows: Tensor, encoded: EncoderOutput, requests: Sequence[Request]) -> None:
        self.seen[rows] = 0
        self.requests |= zip(rows.tolist(), requests, strict=True)
        self.waiting.add(rows, encoded, requests)

    @override
    def propose(self, tokens: Tensor, lengths: Tensor, ahead: int, confidence: Confidence | None) -> Tree:
        self._begin(len(lengths))
        fresh, counts = unseen(tokens, self.seen, lengths)
        self.seen[: len(lengths)] = lengths
        return confident(self.draft(fresh, lengths, counts, ahead, confidence), confidence)

    @abstractmethod
    def draft(
        self, fresh: Tensor, lengths: Tensor, counts: Tensor, ahead: int, confidence: Confidence | None = None
    ) -> Tree:
        """Reads newly committed tokens and drafts.

        :param fresh: (B', M) the tokens, padded on the right
        :param lengths: (B') how many are committed in all
        :param counts: (B') how many are new, at least 1
        :param ahead: the block size K
        :param confidence: when to go on; ``None`` for to the end
        """

    def shape_by(self, confidence: Confidence | None) -> Shape:
        """Returns the shape of drafts: that of the options, or what is found to pay."""
        if confidence is None or confidence.paths == 1 or not isinstance(self.shape, Chain):
            return self.shape
        return BestFirst(FEW_NODES, confidence.paths)

    @override
    def fused(self, rows: int, ahead: int, confidence: Confidence | None) -> Drafting | None:
        shape = self.shape_by(confidence)
        if isinstance(shape, Sampled):
            return None
        state = self._begin(rows)
        drafting = Drafting(ahead, self.network, state, self.seen, confidence=confidence)
        if isinstance(shape, Chain):
            return drafting
        return replace(drafting, nodes=shape.nodes, breadth=shape.breadth)

    def _begin(self, rows: int) -> State:
        """Makes sure that the caches have the first rows, and the network their sentences."""
        if self.state is None:
            self.state = self.network.new_state(rows)
        self.state.grow(rows, self.capacity)
        self.waiting.start(self.network, self.state, rows)
        return self.state

    def first_requests(self, rows: int) -> list[Request]:
        """Returns the requests of the first rows."""
        return [self.requests[row] for row in range(rows)]

    @override
    def rewind(self, row: int, length: int) -> None:
        self.seen[row] = min(int(self.seen[row]), length)

    @override
    def move(self, source: int, target: int) -> None:
        self.requests[target] = self.requests[source]
        if not self.waiting.move(source, target) and self.state is not None and source < self.state.rows:
            self.state.move(source, target, int(self.seen[source]))
        self.seen[target] = self.seen[source]
