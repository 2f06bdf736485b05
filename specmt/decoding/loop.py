"""The one loop: draft, verify, commit, on rows that advance and finish on their own (DESIGN §2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import final

import numpy as np
from typing_extensions import override

from specmt.decoding.accept import Accepted, Acceptor
from specmt.decoding.constraints import Lacking, Placed, place_terms
from specmt.decoding.drafters.base import Drafter, Plan
from specmt.decoding.noise import Spot
from specmt.decoding.policy import Policy
from specmt.decoding.request import Recorder, Request
from specmt.decoding.rows import Finished, Rows
from specmt.decoding.trace import Candidate, Iteration
from specmt.decoding.tree import Tree, chains
from specmt.engine.arrays import Floats, Ids
from specmt.engine.cache import State
from specmt.engine.fused import Drafting, FusedLoop, Ran, Sentences
from specmt.engine.protocols import Logits, Verifier
from specmt.engine.window import Window, branches
from specmt.options import AlignmentHeads
from specmt.text.shortlist import Shortlist
from specmt.types import EOS, UNK, Hypothesis, Stats, Tally


@dataclass
class _Row:
    """A sentence being decoded."""

    request: Request

    given: int = 0
    """How many of its tokens were given, for the sake of terms that must be in it."""

    hint: list[int] = field(default_factory=list)
    """What it said behind the place of a term before that was put in: much of that it will say again."""

    stats: Stats = field(default_factory=Stats)


@final
class Loop(Rows[_Row]):
    """Drafts, verifies and commits, an iteration at a time or as many as a fused loop runs by itself."""

    def __init__(
        self,
        verifier: Verifier,
        drafters: Sequence[Drafter],
        policy: Policy,
        acceptor: Acceptor,
        *,
        capacity: int,
        max_source_tokens: int,
        scores: bool = False,
        tally: dict[str, Tally] | None = None,
        recorder: Recorder | None = None,
        fused: FusedLoop | None = None,
        shortlist: Shortlist | None = None,
        heads: AlignmentHeads | None = None,
    ) -> None:
        """
        :param scores: whether to sum up log-probabilities
        :param recorder: notes every verifier call
        :param fused: the verifier, if it can run iterations by itself and nobody wants to watch
        """
        super().__init__(
            verifier, drafters, policy, capacity=capacity, max_source_tokens=max_source_tokens, tally=tally, heads=heads
        )
        self.acceptor = acceptor
        self.scores = scores
        self.recorder = recorder
        self.fused = fused
        self.shortlist = shortlist
        room = 0, verifier.sizes.max_length
        self.tokens: Ids = np.zeros(room, dtype=np.int64)  # (B, T) committed, noise behind
        self.log_probs: Floats = np.zeros(room, dtype=np.float32)  # (B, T) of them, where scores are asked for
        self.lengths: Ids = np.zeros(0, dtype=np.int64)  # (B) how many they are
        self.limits: Ids = np.zeros(0, dtype=np.int64)  # (B) how many they may become
        self.drafted: Ids = np.zeros(0, dtype=np.int64)  # (B) tokens that were drafted
        self.calls: Ids = np.zeros((0, 1), dtype=np.int64)  # (B, A + 1) in how many calls 0 … A of them stood

    @override
    def step(self) -> list[Finished]:
        state = self.admit()
        if state is None:
            return []
        count = len(self.rows)
        plan, drafter = self.choose()
        started, sentences = perf_counter(), self._sentences(count)
        before = sentences.lengths.copy()
        drafting = Drafting(plan.arm.ahead) if drafter is None else drafter.fused(count, plan)
        rule = self.acceptor.rule
        if self.fused is None or rule is None or drafting is None:
            ran = self._iterate(state, drafter, plan)
        else:
            ran = self.fused.run(
                state, sentences, drafting, iterations=plan.iterations, enough=self.enough(), rule=rule
            )
        self._count(ran)
        self.observe(plan, ran, int((sentences.lengths - before).sum()), perf_counter() - started)
        return self.finish(self._complete(state, self._ended(count)))

    @override
    def open(self, state: State, first: int, requests: Sequence[Request], logits: Logits | None) -> list[_Row]:
        missing = state.rows - len(self.tokens)
        if missing > 0:
            self.lengths, self.limits = np.pad(self.lengths, (0, missing)), np.pad(self.limits, (0, missing))
            self.drafted, self.calls = np.pad(self.drafted, (0, missing)), np.pad(self.calls, ((0, missing), (0, 0)))
            self._widen(missing, 0)
        rows = slice(first, first + len(requests))
        self.tokens[rows, : len(self.opening)] = self.opening
        self.lengths[rows] = len(self.opening)
        self.limits[rows] = [len(self.opening) + self.limit(request) for request in requests]
        self.drafted[rows] = self.calls[rows] = 0
        return [_Row(each, stats=Stats(sentences=1, source_tokens=len(each.source) + 1)) for each in requests]

    def _widen(self, rows: int, tokens: int) -> None:
        """Makes room for more rows, and for more tokens in each."""
        self.tokens = np.pad(self.tokens, ((0, rows), (0, tokens)))
        self.log_probs = np.pad(self.log_probs, ((0, rows), (0, tokens)))

    def _sentences(self, count: int) -> Sentences:
        """Returns views of the first rows, for whoever runs them."""
        rule = self.acceptor.rule
        return Sentences(
            self.tokens[:count],
            lengths=self.lengths[:count],
            limits=self.limits[:count],
            log_probs=self.log_probs[:count] if self.scores else None,
            hints=[row.hint for row in self.rows] if rule is not None and rule.is_exact else (),
        )

    def _iterate(self, state: State, drafter: Drafter | None, plan: Plan) -> Ran:
        """Drafts for the active rows, verifies and commits: what a fused loop does, once."""
        count = len(self.rows)
        row, lengths = np.arange(count), self.lengths[:count]
        if drafter is None:
            tree = chains(np.full((count, plan.arm.ahead), UNK))
        else:
            tree = drafter.propose(self.tokens[:count], lengths, plan)
        starts = lengths - 1
        window = np.column_stack([self.tokens[row, starts], tree.tokens])  # (B, N + 1)
        counts = None if (tree.counts == tree.tokens.shape[1]).all() else tree.counts + 1
        shape = None if tree.parents is None else branches(tree.parents)
        logits = self.verifier.score(Window(window, starts, counts, branches=shape), state)
        requests = [each.request for each in self.rows]
        positions = zip(requests, lengths.tolist(), strict=True)
        found = self.acceptor.accept(tree, logits, [Spot(one.line, one.part, position) for one, position in positions])
        state.compact(starts, found.places)
        said = np.arange(found.tokens.shape[1])
        ends = (found.tokens == EOS) & (said <= found.counts[:, None])
        fresh = np.where(ends.any(1), ends.argmax(1) + 1, found.counts + 1)
        fresh = np.minimum(fresh, self.limits[:count] - lengths)
        self._write(row[:, None], lengths[:, None] + said, found, logits)
        if self.recorder is not None:
            self._record(self.recorder, tree, logits, found, fresh.tolist())
        lengths += fresh
        return Ran(tree.counts[None], np.minimum(found.counts, fresh)[None])

    def _write(self, rows: Ids, places: Ids, found: Accepted, logits: Logits) -> None:
        """Writes tokens behind those committed; the next iteration overwrites what is noise."""
        spare = int(places.max()) + 1 - self.tokens.shape[1]
        if spare > 0:
            self._widen(0, spare)
        self.tokens[rows, places] = found.tokens
        if self.scores:
            after = np.pad(found.places, ((0, 0), (1, 0)))  # the place that each token follows
            self.log_probs[rows, places] = logits.log_probs(found.tokens, after)

    def _record(self, recorder: Recorder, tree: Tree, logits: Logits, found: Accepted, fresh: list[int]) -> None:
        """Notes what became of drafts, before lengths tell."""
        ids, log_probs = (each.tolist() for each in logits.likeliest(recorder.beta))
        for number, row in enumerate(self.rows):
            nodes, length = tree.nodes(number), int(self.lengths[number])
            verified = [
                [Candidate(*each) for each in zip(*best, strict=True)]
                for best in zip(ids[number][: len(nodes) + 1], log_probs[number], strict=False)
            ]
            prefix, emitted = self.tokens[number, :length].tolist(), found.tokens[number, : fresh[number]].tolist()
            trials = found.trials[number] if found.trials else []
            recorder.record(row.request, Iteration(prefix, nodes, verified, found.path(number), emitted, trials))

    def _count(self, ran: Ran) -> None:
        """Adds up what came of iterations."""
        active = ran.accepted >= 0  # (I, B)
        self.drafted[: active.shape[1]] += ran.drafted.sum(0, where=active)
        spare = int(ran.accepted.max(initial=0)) + 1 - self.calls.shape[1]
        if spare > 0:
            self.calls = np.pad(self.calls, ((0, 0), (0, spare)))
        np.add.at(self.calls, (active.nonzero()[1], ran.accepted[active]), 1)

    def _ended(self, count: int) -> list[int]:
        """Returns those of the first rows that have come to EOS or to their limit."""
        lengths = self.lengths[:count]
        ended = (self.tokens[np.arange(count), lengths - 1] == EOS) | (lengths >= self.limits[:count])
        return np.flatnonzero(ended).tolist()

    def _said(self, number: int) -> list[int]:
        """Returns what a row has said, without EOS."""
        ids: list[int] = self.tokens[number, len(self.opening) : self.lengths[number]].tolist()
        return ids[:-1] if ids[-1] == EOS else ids

    def _complete(self, state: State, ended: list[int]) -> list[int]:
        """Puts terms into rows that ended and lack some, which then go on; returns the others, in ascending order."""
        complete: list[int] = []
        while ended:
            lacking = [self._lacking(number) for number in ended]
            complete += [number for number, one in zip(ended, lacking, strict=True) if one is None]
            some = [one for one in lacking if one is not None]
            ended = []
            for one, placed in zip(some, place_terms(self.verifier, state, some), strict=True):
                if placed is None:
                    complete.append(one.row)
                elif self._place(one, placed):
                    ended.append(one.row)
        return sorted(complete)

    def _lacking(self, number: int) -> Lacking | None:
        """Returns what a row that has ended lacks."""
        row, missing = self.rows[number], self.rows[number].request.missing
        if missing is None or (constraint := missing(said := self._said(number), row.given)) is None:
            return None
        opening = len(self.opening)
        # At the limit, the last token was not read.
        read = said[: int(self.lengths[number]) - opening - 1]
        return Lacking(number, constraint, read, row.given, int(self.limits[number]) - opening)

    def _place(self, lacking: Lacking, placed: Placed) -> bool:
        """Goes on behind a term that was put into a row; returns whether that has ended thereby."""
        number, row = lacking.row, self.rows[lacking.row]
        row.hint = [*lacking.free[placed.place :], EOS]
        row.given = placed.place + len(placed.tokens) - 1
        row.stats.drafted += placed.nodes
        row.stats.count_call(len(placed.tokens) - 1)
        begin = len(self.opening) + placed.place
        end = begin + len(placed.tokens)
        self.tokens[number, begin:end] = placed.tokens
        self.log_probs[number, begin:end] = placed.log_probs
        self.lengths[number] = end
        for drafter in self.drafters:
            drafter.rewind(number, begin)
        return placed.tokens[-1] == EOS or end >= int(self.limits[number])

    @override
    def hypothesis(self, number: int) -> Hypothesis:
        row, ids, opening, end = self.rows[number], self._said(number), len(self.opening), int(self.lengths[number])
        row.stats.tokens = end - opening
        row.stats.drafted += int(self.drafted[number])
        counts: list[int] = self.calls[number].tolist()
        while counts and not counts[-1]:
            counts.pop()
        row.stats.count_calls(counts)
        for drafter in self.drafters:
            drafter.finish(number, ids)
        if not self.scores:
            return Hypothesis(ids, math.nan, row.stats, given=row.given)
        log_probs = tuple(self.log_probs[number, opening:end].tolist())
        return Hypothesis(ids, math.fsum(log_probs), row.stats, log_probs=log_probs, given=row.given)

    @override
    def move(self, state: State, source: int, target: int) -> None:
        state.move(source, target, int(self.lengths[source]) - 1)
        for each in (self.tokens, self.log_probs, self.lengths, self.limits, self.drafted, self.calls):
            each[target] = each[source]
