"""Sentences that are decoded side by side, and those that wait for a row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Final, Generic, Protocol, TypeVar

import numpy as np

from specmt.decoding.drafters.base import Drafter, Plan
from specmt.decoding.policy import Policy
from specmt.decoding.queue import Queue
from specmt.decoding.request import Request, listed
from specmt.engine.cache import State
from specmt.engine.fused import Ran
from specmt.engine.protocols import Logits, Verifier
from specmt.engine.window import Window
from specmt.options import AlignmentHeads
from specmt.text.shortlist import Shortlist
from specmt.types import Hypothesis, Tally

Finished = tuple[int, Hypothesis]
"""The key of a request and what became of it."""


NEXT: Final = 64
"""Requests that are looked at before their turn: enough to know what is worth being made ready for them."""


class Row(Protocol):
    """A sentence being decoded."""

    request: Request


R = TypeVar("R", bound=Row)


class Rows(ABC, Generic[R]):
    """Decodes sentences side by side; when one is finished, a waiting one takes its row at once.

    Active rows stand in front: row numbers change when a sentence in the middle finishes.
    """

    each = 1
    """How many rows of the caches a sentence has."""

    shortlist: Shortlist | None = None
    """Which tokens may be said of a sentence; by default all."""

    def __init__(
        self,
        verifier: Verifier,
        drafters: Sequence[Drafter],
        policy: Policy,
        *,
        capacity: int,
        max_source_tokens: int,
        tally: dict[str, Tally] | None,
        heads: AlignmentHeads | None,
    ) -> None:
        """
        :param capacity: the most sentences side by side
        :param max_source_tokens: the most padded source ids side by side; one sentence is always let in
        :param tally: counts what comes of each way to draft
        :param heads: whose attention hypotheses are to carry
        """
        self.verifier = verifier
        self.drafters = drafters
        self.policy = policy
        self.capacity = capacity
        self.max_source_tokens = max_source_tokens
        self.tally = {} if tally is None else tally
        self.heads = heads
        self.opening = verifier.prefixes.start  # what every target begins with
        self.state: State | None = None
        self.queue = Queue()
        self.rows: list[R] = []

    @property
    def is_busy(self) -> bool:
        """Whether there are requests that are not finished."""
        return bool(self.rows or self.queue)

    @property
    def requests(self) -> list[Request]:
        """The requests that are not finished, those being decoded first."""
        return [*(row.request for row in self.rows), *self.queue]

    def add(self, request: Request) -> None:
        """Takes in a request."""
        self.queue.add(request)

    def cancel(self, key: int) -> bool:
        """Drops a request; returns whether it was there."""
        for number, row in enumerate(self.rows):
            if row.request.key == key:
                self.remove(number)
                return True
        return self.queue.cancel(key)

    @abstractmethod
    def step(self) -> list[Finished]:
        """Admits waiting sentences, makes an iteration or several, and returns what finished."""

    @abstractmethod
    def hypothesis(self, number: int) -> Hypothesis:
        """Returns what came of a row that is finished, without attention."""

    def finish(self, finished: Sequence[int]) -> list[Finished]:
        """Returns the hypotheses of rows, in ascending order, and frees them."""
        found = {number: self.hypothesis(number) for number in finished}
        aligned = [number for number in finished if self.rows[number].request.aligned]
        if self.heads is not None and self.state is not None and aligned:
            rows, targets = [number * self.each for number in aligned], [found[number].tokens for number in aligned]
            attention = self.verifier.attention(self.state, rows, targets, self.heads)
            found |= {n: replace(found[n], attention=each) for n, each in zip(aligned, attention, strict=True)}
        keyed = [(self.rows[number].request.key, hypothesis) for number, hypothesis in found.items()]
        for number in reversed(finished):
            self.remove(number)
        return keyed

    def remove(self, number: int) -> None:
        """Frees a row by moving the last active one into its place, so that active rows stay in front."""
        last = len(self.rows) - 1
        if number != last and self.state is not None:
            self.move(self.state, last, number)
            for drafter in self.drafters:
                drafter.move(last, number)
            self.rows[number] = self.rows[last]
        self.rows.pop()

    @abstractmethod
    def move(self, state: State, source: int, target: int) -> None:
        """Copies what is known of one sentence over another."""

    def admit(self) -> State | None:
        """Encodes waiting sentences into free rows; returns the caches, if any sentence is being decoded."""
        extra = len(self.verifier.prefixes.source) + 1  # EOS
        lengths = [len(row.request.source) for row in self.rows]
        new = self.queue.admissible(lengths, extra, self.capacity, self.max_source_tokens)
        if new:
            encoded = listed(self.verifier.encode([request.source for request in new]), new, self.shortlist)
            first, count = len(self.rows), len(self.rows) + len(new)
            if self.state is None:
                self.state = self.verifier.new_state(count * self.each)
            self.state.grow(count * self.each, self.capacity * self.each)
            numbers, logits = np.arange(first, count), None
            rows = numbers * self.each
            self.verifier.start(self.state, rows, encoded)
            if len(self.opening) > 1:  # all but the last is read
                read = np.tile(np.array(self.opening[:-1]), (len(new), 1))
                logits = self.verifier.score(Window(read, np.zeros_like(rows), rows=rows), self.state)
            for drafter in self.drafters:
                drafter.start(self.state, numbers, encoded, new)
            opened = self.open(self.state, first, new, logits)
            self.queue.take(len(new))  # last: whatever failed, no request is lost
            self.rows += opened
        return self.state if self.rows else None

    @abstractmethod
    def open(self, state: State, first: int, requests: Sequence[Request], logits: Logits | None) -> list[R]:
        """Returns new rows for requests, which become those from `first` on.

        :param logits: of what every target begins with, but for the last; ``None`` where that is all
        """

    def choose(self) -> tuple[Plan, Drafter | None]:
        """Returns what is to be done in a turn, and who drafts, made ready for it."""
        count = len(self.rows)
        promising = any(drafter.is_promising(count) for drafter in self.drafters)
        plan = self.policy.choose(count, promising, self.waiting())
        drafter = self.drafters[plan.arm.drafter] if plan.arm.drafts else None
        if drafter is not None:
            drafter.load(count)
        return plan, drafter

    def observe(self, plan: Plan, ran: Ran, tokens: int, seconds: float) -> None:
        """Takes in what came of a turn, and how many tokens were committed."""
        if len(ran.accepted):
            self.tally.setdefault(plan.arm.name(self.drafters), Tally()).count(tokens, seconds, plan.worth)
            self.policy.observe(plan, ran, seconds)

    def enough(self) -> int:
        """Returns how many rows may finish before a fused loop comes back."""
        # While sentences wait, a row that has become free stays so a moment: coming back costs time, too. Else half as
        # many may be worth drafting for.
        return max(1, len(self.rows) // 4 if self.queue else (len(self.rows) + 1) // 2)

    def waiting(self) -> int:
        """Returns the source tokens of the requests that come next."""
        return sum(len(request.source) for request in islice(self.queue, NEXT))

    def limit(self, request: Request) -> int:
        """Returns the most tokens that the translation of a request may have, EOS included."""
        room = self.verifier.sizes.max_length - len(self.verifier.prefixes.target)
        return target_limit(len(request.source) + 1, room)


def target_limit(source_length: int, max_length: int) -> int:
    """Returns the most tokens that the translation of a source may have, EOS included.

    :param max_length: the positions that there are for it, BOS included
    """
    return min(max_length - 1, 2 * source_length + 24)
