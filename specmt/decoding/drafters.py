"""Drafters: who proposes tokens ahead of the verifier."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from time import perf_counter
from typing import Generic, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor
from typing_extensions import override

from specmt.decoding.plan import Plan
from specmt.decoding.request import Request
from specmt.decoding.shape import Chain, Shape
from specmt.decoding.shortlist import Shortlist, restricted
from specmt.decoding.tree import Tree, merge, no_tree
from specmt.engine import backend
from specmt.engine.backend import Drafting, EncoderOutput, Network, Scorer, State


class Drafter(Protocol):
    """Proposes draft trees; it may change the speed of decoding, never an exact output."""

    def start(self, rows: Tensor, memory: EncoderOutput, requests: Sequence[Request]) -> None:
        """Gives rows (B') new sentences with the verifier's memory of them."""

    def propose(self, tokens: Tensor, lengths: Tensor) -> Tree:
        """Returns drafts for the first B' rows; there may be none.

        :param tokens: (B', T) the committed tokens, from BOS on, with noise behind them
        :param lengths: (B') how many there are
        """

    def drafting(self, rows: int) -> Drafting | None:
        """Returns how an engine is to draft by itself for the first rows; ``None`` where only `propose` can."""
        return None

    def told(self, rows: int, tokens: float) -> None:
        """Hears how many tokens each of the first rows got, on average, since it was last asked for drafts."""
        return

    def finish(self, row: int, tokens: list[int]) -> None:
        """Tells of the translation of a row's sentence, without BOS and EOS, before the row is given away."""

    def move(self, source: int, target: int) -> None:
        """Copies one row over another."""


class NoDrafter(Drafter):
    """Proposes nothing: the loop is then greedy decoding."""

    @override
    def start(self, rows: Tensor, memory: EncoderOutput, requests: Sequence[Request]) -> None:
        pass

    @override
    def propose(self, tokens: Tensor, lengths: Tensor) -> Tree:
        return no_tree(len(lengths), tokens.device)

    @override
    def drafting(self, rows: int) -> Drafting | None:
        return Drafting(0)

    @override
    def finish(self, row: int, tokens: list[int]) -> None:
        pass

    @override
    def move(self, source: int, target: int) -> None:
        pass


class Planned(Drafter):
    """Drafts as a plan says, which hears what came of that and how long it took."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._block_size = 0
        self._began: float | None = None

    @override
    def start(self, rows: Tensor, memory: EncoderOutput, requests: Sequence[Request]) -> None:
        if 0 in rows.tolist():  # rows become free from behind: none is left of those before
            self.plan.begin()

    def slots(self, rows: int) -> int:
        """Returns the block size of the iterations that begin now; 0 for no drafts."""
        self._block_size = self.plan.slots(rows)
        if self._began is None:  # not before: the plan may have measured what calls cost
            self._began = perf_counter()
        return self._block_size

    @override
    def told(self, rows: int, tokens: float) -> None:
        if self._began is not None:
            self.plan.learn(rows, self._block_size, tokens, perf_counter() - self._began)
            self._began = None


class CombinedDrafter(Drafter):
    """Puts the drafts of several drafters into one tree."""

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        self.drafters = drafters

    @override
    def start(self, rows: Tensor, memory: EncoderOutput, requests: Sequence[Request]) -> None:
        for drafter in self.drafters:
            drafter.start(rows, memory, requests)

    @override
    def propose(self, tokens: Tensor, lengths: Tensor) -> Tree:
        return merge([drafter.propose(tokens, lengths) for drafter in self.drafters])

    @override
    def told(self, rows: int, tokens: float) -> None:
        for drafter in self.drafters:
            drafter.told(rows, tokens)

    @override
    def finish(self, row: int, tokens: list[int]) -> None:
        for drafter in self.drafters:
            drafter.finish(row, tokens)

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

    memory: EncoderOutput
    number: int
    """In the memory."""

    request: Request


class Waiting:
    """Sentences that a drafter's network is given when something is drafted for them, not before."""

    def __init__(self, shortlist: Shortlist | None = None) -> None:
        """
        :param shortlist: what drafts are chosen from; by default all that the verifier may say
        """
        self._shortlist = shortlist
        self._rows: dict[int, _Sentence] = {}

    def add(self, rows: Tensor, memory: EncoderOutput, requests: Sequence[Request]) -> None:
        self._rows |= {
            row: _Sentence(memory, number, request)
            for number, (row, request) in enumerate(zip(rows.tolist(), requests, strict=True))
        }

    def start(self, network: Network, state: State, active: int) -> None:
        """Gives a network those of the first rows; what waits behind them has been decoded without drafts."""
        while self._rows:
            memory = next(iter(self._rows.values())).memory
            group = {row: each for row, each in self._rows.items() if each.memory is memory}
            self._rows = {row: each for row, each in self._rows.items() if row not in group}
            rows = [row for row in group if row < active]
            if rows:
                picked = memory.pick([group[row].number for row in rows])
                listed = restricted(picked, [group[row].request for row in rows], self._shortlist)
                network.start(state, torch.tensor(rows, device=network.device), listed)

    def move(self, source: int, target: int) -> bool:
        """Copies one row over another; returns whether its sentence waits."""
        self._rows.pop(target, None)
        if source in self._rows:
            self._rows[target] = self._rows.pop(source)
        return target in self._rows


class Requests:
    """The sentences of rows."""

    def __init__(self, rows: int) -> None:
        self._requests: list[Request | None] = [None] * rows

    def start(self, rows: Tensor, requests: Sequence[Request]) -> None:
        for row, request in zip(rows.tolist(), requests, strict=True):
            self._requests[row] = request

    def first(self, count: int) -> list[Request]:
        return [request for request in self._requests[:count] if request is not None]

    def move(self, source: int, target: int) -> None:
        self._requests[target] = self._requests[source]


N = TypeVar("N", bound="backend.Drafter | Scorer")


class Networked(Planned, Generic[N]):
    """Drafts with a network of its own, keeping the keys and values of the committed prefix."""

    def __init__(
        self, network: N, rows: int, plan: Plan, shape: Shape | None = None, shortlist: Shortlist | None = None
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
    def start(self, rows: Tensor, memory: EncoderOutput, requests: Sequence[Request]) -> None:
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
        self.seen[: len(lengths)] = lengths
        return self.draft(fresh, lengths, counts, count)

    @abstractmethod
    def draft(self, fresh: Tensor, lengths: Tensor, counts: Tensor, count: int) -> Tree:
        """Reads newly committed tokens and drafts.

        :param fresh: (B', M) the tokens, padded on the right
        :param lengths: (B') how many are committed in all
        :param counts: (B') how many are new, at least 1
        :param count: how far to look ahead
        """

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
