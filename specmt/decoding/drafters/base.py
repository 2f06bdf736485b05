"""Drafters: who proposes tokens ahead of the verifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import ClassVar, Final, Literal, NamedTuple, Protocol

import numpy as np
from typing_extensions import override

from specmt.decoding.best_first import best_first_tree
from specmt.decoding.confidence import confident
from specmt.decoding.noise import Spot
from specmt.decoding.request import Request, listed
from specmt.decoding.sample import Sampling
from specmt.decoding.stochastic_beam import sampled_tree
from specmt.decoding.tables import Call
from specmt.decoding.tree import Tree, chains
from specmt.engine.arrays import Ids
from specmt.engine.cache import State
from specmt.engine.fused import Confidence, Drafting
from specmt.engine.protocols import DraftNetwork, EncoderOutput, Network
from specmt.engine.window import Window
from specmt.options import Calibration
from specmt.text.shortlist import Shortlist
from specmt.types import UNK

NOISE: Final = -1
"""Nobody, as the drafter: what is verified is noise, to see what that takes."""

UNKNOWN: Final = Calibration(acceptance=tuple(0.6**count for count in range(1, 9)), scale=1.0, shift=0.0)
"""Of a drafter that was not calibrated: it is trusted as it says itself."""


class Arm(NamedTuple):
    """A way to draft, or not to."""

    drafter: int = 0
    """Its number, or `NOISE`."""

    ahead: int = 0
    """How many tokens ahead, K; 0 for no drafts."""

    paths: int = 1
    """How many candidates a node may have of a best-first tree, and how many paths there are of a sampled one."""

    nodes: int = 0
    """The most nodes N of a best-first tree; 0 for others."""

    @property
    def drafts(self) -> bool:
        """Whether somebody drafts."""
        return self.ahead > 0 and self.drafter != NOISE

    def name(self, drafters: Sequence[Drafter]) -> str:
        """Returns what it is called where its turns are told."""
        if self.ahead == 0:
            return "none"
        paths = f", {self.paths} paths" if self.paths > 1 else ""
        return f"{drafters[self.drafter].name if self.drafts else 'noise'} {self.ahead}{paths}"


NO_DRAFT: Final = Arm()


class Plan(NamedTuple):
    """What is done in a turn."""

    arm: Arm = NO_DRAFT
    promising: bool = False
    """Whether lookups are likely to find the translations of the sentences."""

    confidence: Confidence | None = None
    """Which nodes are worth drafting and verifying; ``None`` for all."""

    iterations: int = 64
    """How many calls the verifier makes at most."""

    why: Literal["fixed", "probe", "best", "trial"] = "fixed"
    """There is no choice; to see what calls cost; worth most; to see what another is worth."""

    worth: float | None = None
    """Tokens a second of all sentences together, as predicted."""


class Drafter(Protocol):
    """Proposes draft trees; it may change the speed of decoding, never exact output."""

    name: ClassVar[str] = ""
    """As options name it."""

    def price(self) -> float:
        """Returns the seconds that `load` takes; 0 where it takes none."""
        return 0.0

    def load(self, rows: int) -> None:
        """Makes ready what is made once, when something is first drafted, for the first rows; it may take seconds."""
        return

    def calls(self, arm: Arm, rows: float, longest: float) -> list[Call]:
        """Returns the calls that draft once, at least one.

        :param longest: the nodes of the sentence that has most
        """
        return [Call(self.name, rows, 0.0)]

    def calibration(self, promising: bool) -> Calibration:
        """Returns how far its drafts can be trusted, as long as few were counted."""
        return UNKNOWN

    def start(self, state: State, rows: Ids, encoded: EncoderOutput, requests: Sequence[Request]) -> None:
        """Gives rows (B') new sentences with the encoder's output for them.

        :param state: the verifier's caches, which only grow in place
        """

    def propose(self, tokens: Ids, lengths: Ids, plan: Plan) -> Tree:
        """Returns drafts for the first B' rows; there may be none.

        :param tokens: (B', T) the committed tokens, from BOS on, with noise behind them
        :param lengths: (B') how many there are
        """

    def fused(self, rows: int, plan: Plan) -> Drafting | None:
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

    is_stepwise: ClassVar[bool]
    """Whether every level of a tree is a step of its own; otherwise all of them are there anyway."""

    def __init__(
        self,
        make_network: Callable[[], DraftNetwork | None],
        capacity: int,
        shortlist: Callable[[], Shortlist | None] = lambda: None,
        *,
        sampling: Sampling | None = None,
        price: Callable[[], float] = lambda: 0.0,
        calibration: Calibration | None = None,
    ) -> None:
        """
        :param make_network: returns the network, which there must be; called when something is drafted
        :param capacity: the most rows
        :param shortlist: returns what drafts are chosen from; by default all that the verifier may say
        :param sampling: how drafts are drawn, where samples are asked for
        :param price: returns the seconds that making the network takes; 0 once it is there
        :param calibration: of the drafter, if it was measured
        """
        self.make_network = make_network
        self.sampling = sampling
        self.make_price = price
        self.own_calibration = calibration or UNKNOWN
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
    def price(self) -> float:
        return self.make_price()

    @override
    def load(self, rows: int) -> None:
        """Makes the network, and has it draft: what is touched for the first time takes long."""
        if "network" not in self.__dict__ and self.sampling is None:
            state = self._begin(rows)
            # What that leaves in the caches is overwritten: nothing was read yet.
            self.network.chain(Window(np.array([[UNK]]), np.array([0]), np.array([1])), 2, state)

    @override
    def calibration(self, promising: bool) -> Calibration:
        return self.own_calibration

    @override
    def start(self, state: State, rows: Ids, encoded: EncoderOutput, requests: Sequence[Request]) -> None:
        self.seen[rows] = 0
        self.requests |= zip(rows.tolist(), requests, strict=True)
        self.waiting.add(rows, encoded, requests)

    @override
    def propose(self, tokens: Ids, lengths: Ids, plan: Plan) -> Tree:
        state, read = self._begin(len(lengths)), unseen(tokens, self.seen, lengths)
        self.seen[: len(lengths)] = lengths
        return confident(self._draft(state, read, lengths, plan), plan.confidence)

    def _draft(self, state: State, read: Window, lengths: Ids, plan: Plan) -> Tree:
        arm = plan.arm
        if self.sampling is None and arm.nodes == 0:
            return chains(*self.network.chain(read, arm.ahead, state))
        expander = self.network.expander(read, arm.ahead, state)
        last = read.tokens[np.arange(len(lengths)), lengths - read.starts - 1]
        if self.sampling is None:
            size = arm.nodes, arm.paths
            beam, stops = (arm.paths, plan.confidence) if self.is_stepwise else (arm.nodes, None)
            return best_first_tree(expander, last, *size, beam=beam, depth=arm.ahead, confidence=stops)
        requests = [self.requests[row] for row in range(len(lengths))]
        spots = [Spot(each.line, each.part, length) for each, length in zip(requests, lengths.tolist(), strict=True)]
        return sampled_tree(expander, last, spots, self.sampling, width=arm.paths, depth=arm.ahead)

    @override
    def fused(self, rows: int, plan: Plan) -> Drafting | None:
        if self.sampling is not None:
            return None
        arm, state = plan.arm, self._begin(rows)
        return Drafting(arm.ahead, self.network, state, self.seen, arm.nodes, arm.paths, plan.confidence)

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
