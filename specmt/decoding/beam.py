"""Beam search: the likeliest translations among those that a few hypotheses a sentence lead to.

Every step looks at the 2 K best continuations of a sentence's K hypotheses. Ends among the first K of them are found
translations, and the first K that are none go on. A sentence ends with its K-th found translation, or at its limit,
where hypotheses can only end. Found translations are compared by their log-probability divided by a power of their
length (Wu et al. 2016, section 7, without its constants), as fairseq2 does it.

A fused search may be speculative: where all hypotheses of the next step are among the continuations that a drafter
thinks likeliest, and that were verified ahead, a call makes two steps. What is found is the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple, final

import numpy as np
from typing_extensions import override

from specmt.decoding.drafters.base import Drafter
from specmt.decoding.policy import Policy
from specmt.decoding.request import Request
from specmt.decoding.rows import Finished, Rows
from specmt.engine.cache import State
from specmt.engine.fused import Beams, Drafting, FusedBeam, Ran
from specmt.engine.protocols import Logits, Verifier
from specmt.engine.window import Window
from specmt.options import AlignmentHeads, DecodingOptions
from specmt.types import EOS, Found, Hypothesis, Stats, Tally


class Continuation(NamedTuple):
    """A hypothesis with one more token; the better ones are less, among equals those of earlier hypotheses."""

    cost: np.float32
    """Minus the sum of its log-probabilities."""

    parent: int
    token: int


@dataclass
class _Row:
    """A sentence being decoded."""

    request: Request
    before: float
    """The log-probability of what was committed before anything was decoded."""


def advance(beams: Beams, row: int, ids: list[list[int]], log_probs: list[list[float]]) -> list[int]:
    """Takes the best continuations of a sentence's hypotheses.

    :param ids: (K', C) the likeliest tokens of each hypothesis that goes on
    :param log_probs: (K', C)
    :returns: the hypotheses that those which now go on come from; none if the sentence has ended
    """
    width, length = beams.tokens.shape[1], int(beams.lengths[row])
    scores = beams.scores[row]
    every = [
        Continuation(-(scores[parent] + np.float32(log_prob)), parent, token)
        for parent, (tokens, values) in enumerate(zip(ids, log_probs, strict=True))
        for token, log_prob in zip(tokens, values, strict=True)
        if log_prob > -math.inf
    ]
    best = sorted(every)[: 2 * width]
    beams.calls[row] += 1
    for each in best[:width]:
        if each.token == EOS and beams.found[row] < width:
            number = int(beams.found[row])
            beams.found_tokens[row, number, :length] = beams.tokens[row, each.parent, :length]
            beams.found_tokens[row, number, length] = EOS
            beams.found_lengths[row, number] = length + 1
            beams.found_scores[row, number] = -each.cost
            beams.found[row] += 1
    live = [each for each in best if each.token != EOS][:width]
    if beams.found[row] == width or length + 1 >= beams.limits[row]:
        live = []
    parents = [each.parent for each in live]
    count = beams.counts[row] = len(live)
    beams.tokens[row, :count, :length] = beams.tokens[row, parents, :length]
    beams.tokens[row, :count, length] = [each.token for each in live]
    beams.scores[row, :count] = [-each.cost for each in live]
    beams.lengths[row] += bool(live)
    return parents


def ranked(beams: Beams, row: int, length_penalty: float) -> list[tuple[int, float]]:
    """Returns the numbers of a sentence's found translations and what they are worth, the best first.

    Among equals it is the first found.
    """
    count = int(beams.found[row])
    lengths = (beams.found_lengths[row, :count] - 1).tolist()
    with np.errstate(divide="ignore", over="ignore"):
        divisors = np.array([np.float64(length) ** length_penalty for length in lengths], dtype=np.float32)
        values = beams.found_scores[row, :count] / divisors
    return sorted(enumerate(values.tolist()), key=lambda each: -each[1])


@final
class BeamSearch(Rows[_Row]):
    """Searches sentences side by side.

    A fused search keeps all hypotheses of a sentence in one row of the caches; the one in Python gives each a row,
    which moves as they do.
    """

    def __init__(
        self,
        verifier: Verifier,
        drafters: Sequence[Drafter],
        policy: Policy,
        options: DecodingOptions,
        *,
        capacity: int,
        max_source_tokens: int,
        tally: dict[str, Tally],
        fused: FusedBeam | None,
        heads: AlignmentHeads,
    ) -> None:
        """
        :param drafters: who goes ahead in a fused search, if anyone
        :param policy: when it does, and how many continuations are verified ahead
        :param fused: the verifier, if it can run steps by itself
        """
        super().__init__(
            verifier, drafters, policy, capacity=capacity, max_source_tokens=max_source_tokens, tally=tally, heads=heads
        )
        self.options = options
        self.fused = fused
        self.each = options.beam_size if fused is None else 1
        self.beams = self._room_for(0)

    @override
    def step(self) -> list[Finished]:
        state = self.admit()
        if state is None:
            return []
        beams = self.beams.part(slice(len(self.rows)))
        if self.fused is None:
            self._advance(state, beams)
        else:
            self._search(self.fused, state, beams)
        return self.finish(np.flatnonzero(beams.counts == 0).tolist())

    @override
    def open(self, state: State, first: int, requests: Sequence[Request], logits: Logits | None) -> list[_Row]:
        if state.rows // self.each > len(self.beams.counts):
            wider = self._room_for(state.rows // self.each)
            wider.put(slice(len(self.beams.counts)), self.beams)
            self.beams = wider
        beams, opening, before = self.beams, len(self.opening), [0.0] * len(requests)
        if logits is not None:
            asked = np.array(self.opening[1:]), np.arange(opening - 1)
            log_probs = logits.log_probs(*(np.tile(each, (len(requests), 1)) for each in asked))
            before = log_probs.cumsum(1)[:, -1].tolist()
        for row, request in enumerate(requests, first):
            for each in range(1, self.each):
                state.move(row * self.each, row * self.each + each, opening - 1)
            beams.tokens[row, 0, :opening] = self.opening
            beams.slots[row, 0, :opening] = np.arange(opening)
            beams.counts[row], beams.lengths[row], beams.extents[row] = 1, opening, opening - 1
            beams.limits[row] = opening + self.limit(request)
            beams.scores[row, 0] = before[row - first]
            for counts in (beams.found, beams.calls, beams.drafted, beams.accepted, beams.reads):
                counts[row] = 0
        return [_Row(*each) for each in zip(requests, before, strict=True)]

    def _room_for(self, rows: int) -> Beams:
        return Beams.empty(rows, self.options.beam_size, self.verifier.sizes.max_length + 1)

    def _search(self, fused: FusedBeam, state: State, beams: Beams) -> None:
        """Lets the verifier make steps by itself."""
        plan, drafter = self.choose()
        started, before = perf_counter(), [each.copy() for each in (beams.calls, beams.drafted, beams.accepted)]
        drafting = None if drafter is None else drafter.fused(len(beams.counts), plan)
        fused.search(state, beams, drafting or Drafting(0), iterations=plan.iterations, enough=self.enough())
        seconds, now = perf_counter() - started, (beams.calls, beams.drafted, beams.accepted)
        calls, drafted, accepted = (new - old for new, old in zip(now, before, strict=True))
        number = np.arange(calls.max())[:, None]
        # Which calls of a sentence made two steps is all the same.
        parts = drafted // np.maximum(calls, 1), (number < accepted).astype(np.int64)
        ran = Ran(*(np.where(number < calls, each, -1) for each in parts))
        self.observe(plan, ran, int((calls + accepted).sum()), seconds)

    def _advance(self, state: State, beams: Beams) -> None:
        """Makes one step."""
        count, width, _ = beams.tokens.shape
        last = np.repeat(beams.lengths - 1, width)
        tokens = beams.tokens.reshape(count * width, -1)[np.arange(count * width), last]
        # Rows beyond a sentence's hypotheses compute noise.
        logits = self.verifier.score(Window(tokens[:, None], last), state)
        ids, log_probs = (each[:, 0].tolist() for each in logits.likeliest(2 * width))
        at_limit = beams.lengths + 1 >= beams.limits
        ends: list[list[float]] = []
        if at_limit.any():
            ends = logits.log_probs(np.full((count * width, 1), EOS), np.zeros((count * width, 1), np.int64)).tolist()
        order = np.arange(count * width)
        for row in range(count):
            some = slice(row * width, row * width + int(beams.counts[row]))
            said = ([[EOS]] * len(ends[some]), ends[some]) if at_limit[row] else (ids[some], log_probs[some])
            parents = advance(beams, row, *said)
            order[row * width : row * width + len(parents)] = [row * width + parent for parent in parents]
        state.reorder(order, int(beams.lengths.max()))

    @override
    def hypothesis(self, number: int) -> Hypothesis:
        beams, row = self.beams, self.rows[number]
        order = ranked(beams, number, self.options.length_penalty)[: self.options.n_best]
        found = [
            Found(
                beams.found_tokens[number, each, len(self.opening) : beams.found_lengths[number, each] - 1].tolist(),
                float(beams.found_scores[number, each]) - row.before if self.options.scores else math.nan,
                order[0][1] - value,
            )
            for each, value in order
        ]
        if not found:  # where no number is one
            found = [Found([], math.nan)]
        stats = Stats(
            sentences=1,
            source_tokens=len(row.request.source) + 1,
            tokens=len(found[0].tokens) + 1,
            drafted=int(beams.drafted[number]),
        )
        twice = int(beams.accepted[number])
        stats.count_calls([int(beams.calls[number]) - twice, twice])
        return Hypothesis(found[0].tokens, found[0].score, stats, alternatives=tuple(found[1:]))

    @override
    def move(self, state: State, source: int, target: int) -> None:
        beams = self.beams
        length = int(beams.lengths[source] if self.fused is None else beams.extents[source])
        for each in range(self.each):
            state.move(source * self.each + each, target * self.each + each, length)
        beams.put(slice(target, target + 1), beams.part(slice(source, source + 1)))
