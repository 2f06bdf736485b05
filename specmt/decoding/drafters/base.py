"""Drafters: who proposes tokens ahead of the verifier."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from typing_extensions import override

from specmt.decoding.best_first import best_first_tree
from specmt.decoding.confidence import confident
from specmt.decoding.noise import Spot
from specmt.decoding.request import Request
from specmt.decoding.rows import listed
from specmt.decoding.shape import FEW_NODES, BestFirst, Chain, Sampled, Shape
from specmt.decoding.stochastic_beam import sampled_tree
from specmt.decoding.tree import Tree, chains
from specmt.engine.arrays import Ids
from specmt.engine.cache import State
from specmt.engine.fused import Confidence, Drafting
from specmt.engine.protocols import DraftNetwork, EncoderOutput, Network
from specmt.engine.window import Window
from specmt.text.shortlist import Shortlist


class Drafter(Protocol):
    """Proposes draft trees; it may change the speed of decoding, never exact output."""

    def load(self) -> None:
        """Makes ready what is made once, when something is first drafted, and may take seconds."""
        return

    def start(self, state: State, rows: Ids, encoded: EncoderOutput, requests: Sequence[Request]) -> None:
        """Gives rows (B') new sentences with the encoder's output for them.

        :param state: the verifier's caches, which only grow in place
        """

    def propose(self, tokens: Ids, lengths: Ids, ahead: int, confidence: Confidence | None) -> Tree:
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


def unseen(tokens: Ids, seen: Ids, lengths: Ids) -> Window:
    """Returns the tokens of each row that a drafter has not read yet.

    :param tokens: (B', T)
    :param seen: (B) how many it has read
    :param lengths: (B') how many there are
    """
    starts = seen[: len(lengths)].copy()
    counts = lengths - starts
    places = starts[:, None] + np.arange(counts.max())
    return Window(np.take_along_axis(tokens, places.clip(max=tokens.shape[1] - 1), 1), starts, counts)


class _Sentence(NamedTuple):
    """One that waits."""

    encoded: EncoderOutput
    number: int
    """In the encoder output."""

    request: Request


class Waiting:
    """Sentences that a drafter's network is given when something is drafted for them, not before."""

    def __init__(self, shortlist: Callable[[], Shortlist | None] = lambda: None) -> None:
        """
        :param shortlist: returns what drafts are chosen from; by default all that the verifier may say
        """
        self.shortlist = shortlist
        self._rows: dict[int, _Sentence] = {}

    def add(self, rows: Ids, encoded: EncoderOutput, requests: Sequence[Request]) -> None:
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
                requests = [group[row].request for row in rows]
                network.start(state, np.array(rows), listed(picked, requests, self.shortlist()))

    def move(self, source: int, target: int) -> bool:
        """Copies one row over another; returns whether its sentence waits."""
        self._rows.pop(target, None)
        if source in self._rows:
            self._rows[target] = self._rows.pop(source)
        return target in self._rows


class NetworkDrafter(Drafter):
    """Drafts with a network of its own, keeping the keys and values of the committed prefix."""

    def __init__(
        self,
        make_network: Callable[[], DraftNetwork | None],
        capacity: int,
        shape: Shape | None = None,
        shortlist: Callable[[], Shortlist | None] = lambda: None,
    ) -> None:
        """
        :param make_network: returns the network, which there must be; called when something is drafted
        :param capacity: the most rows
        :param shortlist: returns what drafts are chosen from; by default all that the verifier may say
        """
        self.make_network = make_network
        self.shape = shape or Chain()
        self.waiting = Waiting(shortlist)
        self.capacity = capacity
        self.state: State | None = None  # until something is drafted
        self.requests: dict[int, Request] = {}
        self.seen = np.zeros(capacity, dtype=np.int64)  # (B) tokens whose keys are cached

    @cached_property
    def network(self) -> DraftNetwork:
        """The network, made when it is first asked for."""
        network = self.make_network()
        if network is None:
            raise RuntimeError("There is no network to draft with; ask for the model's `drafters` first.")
        return network

    @override
    def load(self) -> None:
        _ = self.network, self.waiting.shortlist()

    @abstractmethod
    def beam(self, shape: BestFirst) -> int:
        """Returns how many nodes of a level of a best-first tree are gone on from."""

    @abstractmethod
    def stops(self, confidence: Confidence | None) -> Confidence | None:
        """Returns what says when to draft no further; ``None`` where that saves nothing."""

    @override
    def start(self, state: State, rows: Ids, encoded: EncoderOutput, requests: Sequence[Request]) -> None:
        self.seen[rows] = 0
        self.requests |= zip(rows.tolist(), requests, strict=True)
        self.waiting.add(rows, encoded, requests)

    @override
    def propose(self, tokens: Ids, lengths: Ids, ahead: int, confidence: Confidence | None) -> Tree:
        state, read = self._begin(len(lengths)), unseen(tokens, self.seen, lengths)
        self.seen[: len(lengths)] = lengths
        return confident(self._draft(state, read, lengths, ahead, confidence), confidence)

    def _draft(self, state: State, read: Window, lengths: Ids, ahead: int, confidence: Confidence | None) -> Tree:
        shape = self.shape_by(confidence)
        if isinstance(shape, Chain):
            return chains(*self.network.chain(read, ahead, state))
        expander = self.network.expander(read, ahead, state)
        last = read.tokens[np.arange(len(lengths)), lengths - read.starts - 1]
        if isinstance(shape, BestFirst):
            beam, stops = self.beam(shape), self.stops(confidence)
            return best_first_tree(expander, last, shape, beam=beam, depth=ahead, confidence=stops)
        requests = [self.requests[row] for row in range(len(lengths))]
        spots = [Spot(each.line, each.part, length) for each, length in zip(requests, lengths.tolist(), strict=True)]
        return sampled_tree(expander, last, spots, shape.how, width=shape.width, depth=ahead)

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

    @override
    def rewind(self, row: int, length: int) -> None:
        self.seen[row] = min(int(self.seen[row]), length)

    @override
    def move(self, source: int, target: int) -> None:
        self.requests[target] = self.requests[source]
        if not self.waiting.move(source, target) and self.state is not None and source < self.state.rows:
            self.state.move(source, target, int(self.seen[source]))
        self.seen[target] = self.seen[source]
