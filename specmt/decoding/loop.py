"""The one loop: draft, verify, commit, on rows that advance and finish on their own (DESIGN §2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from typing_extensions import override

from specmt.decoding.accept import Verdict
from specmt.decoding.constraints import Lacking, Placed, place_terms
from specmt.decoding.drafters import Drafter
from specmt.decoding.policy import Arm, Policy
from specmt.decoding.request import Request
from specmt.decoding.rows import Finished, Rows
from specmt.decoding.shortlist import Shortlist, restricted
from specmt.decoding.trace import Recorder
from specmt.decoding.tree import Tree, no_tree, nodes_of
from specmt.engine.backend import Attention, EncoderOutput, State, Verifier
from specmt.engine.fused import EXACT, Confidence, Drafting, FusedLoop, Ran, Rule, Sentences
from specmt.engine.window import branches
from specmt.options import AlignmentHeads
from specmt.types import EOS, Hypothesis, Stats

Acceptor = Callable[[Tree, Tensor, Sequence[int], Sequence[Request]], Verdict]
"""Judges draft trees, given logits (B, N + 1, V), the positions that the first level is for, and whose they are."""

Trust = Callable[[Arm, int], Confidence | None]
"""Returns which drafts of an arm are worth making and verifying for a number of active rows."""


@dataclass
class _Row:
    """A sentence being decoded."""

    request: Request
    limit: int
    """The most tokens it may have, EOS included; it depends on the sentence alone."""

    log_probs: list[float] = field(default_factory=list)
    """Of the committed tokens, where scores are asked for; added up at the end, however many came at a time."""

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
        trust: Trust = lambda arm, rows: None,
        recorder: Recorder | None = None,
        fused: FusedLoop | None = None,
        rule: Rule = EXACT,
        shortlist: Shortlist | None = None,
        heads: AlignmentHeads | None = None,
    ) -> None:
        """
        :param scores: whether to sum up log-probabilities
        :param recorder: notes every verifier call
        :param fused: the verifier, if it can run these iterations by itself and nobody wants to watch
        :param rule: what it accepts, as the acceptor
        :param shortlist: which tokens may be said of a sentence; by default all
        :param heads: whose attention hypotheses are to carry
        """
        super().__init__(verifier, capacity=capacity, max_source_tokens=max_source_tokens)
        self.drafters = drafters
        self.policy = policy
        self.acceptor = acceptor
        self.scores = scores
        self.trust = trust
        self.recorder = recorder
        self.fused = fused
        self.rule = rule
        self.shortlist = shortlist
        self.heads = heads
        self.opening = torch.tensor(verifier.prefixes.start, device=verifier.device)  # what every target begins with
        self.state: State | None = None
        self.tokens = torch.zeros(0, verifier.sizes.max_length, dtype=torch.int64, device=verifier.device)  # (B, T)
        self.log_probs = torch.zeros(0, verifier.sizes.max_length)  # (B, T) of the committed tokens, from a fused loop

    @override
    @torch.inference_mode()
    def turn(self) -> list[Finished]:
        self._admit()
        if not self.rows or self.state is None:
            return []
        count = len(self.rows)
        promising = any(drafter.is_promising(count) for drafter in self.drafters)
        arm = self.policy.choose(count, promising)
        if arm.drafter is not None:
            self.drafters[arm.drafter].load()
        started = perf_counter()
        drafting = None if self.fused is None else self._drafting(arm, count)
        if self.fused is None or drafting is None:
            finished, gained = self._step(self.state, arm)
        else:
            iterations = self.policy.iterations(count, promising)
            finished, gained = self._run_fused(self.fused, self.state, drafting, iterations)
        self.policy.observe(count, promising, arm, gained, perf_counter() - started)
        return list(self._finish(self._complete(self.state, finished)))

    def _admit(self) -> None:
        """Encodes waiting sentences into free rows."""
        new = self.admissible()
        if not new:
            return
        encoded = restricted(self.verifier.encode([request.source for request in new]), new, self.shortlist)
        first, count = len(self.rows), len(self.rows) + len(new)
        state = self._make_room(count)
        rows = torch.arange(first, count, device=self.verifier.device)
        self._start(state, rows, encoded)
        for drafter in self.drafters:
            drafter.start(rows, encoded, new)
        self.tokens[first:count, : len(self.opening)] = self.opening
        self.queue.take(len(new))
        for request in new:
            stats = Stats(sentences=1, source_tokens=len(request.source) + 1)
            self.rows.append(_Row(request, self.limit(request), stats=stats))

    def _make_room(self, rows: int) -> State:
        """Makes sure that there are caches and tokens for so many rows; returns the caches."""
        if self.state is None:
            self.state = self.verifier.new_state(rows)
            for drafter in self.drafters:
                drafter.share(self.state)
        self.state.grow(rows, self.capacity)
        missing = self.state.rows - len(self.tokens)
        if missing > 0:
            self.tokens = torch.nn.functional.pad(self.tokens, (0, 0, 0, missing))
            self.log_probs = torch.nn.functional.pad(self.log_probs, (0, 0, 0, missing))
        return self.state

    def _start(self, state: State, rows: Tensor, encoded: EncoderOutput) -> None:
        """Gives rows (B') new sentences, and lets the verifier read what every target begins with, but for the last."""
        read = len(self.opening) - 1
        if read == 0:
            self.verifier.start(state, rows, encoded)
            return
        # In caches of their own: the verifier scores first rows, and these are the last.
        fresh = self.verifier.new_state(len(rows))
        self.verifier.start(fresh, torch.arange(len(rows), device=rows.device), encoded)
        self.verifier.score(self.opening[:read].expand(len(rows), -1), torch.zeros_like(rows), fresh)
        state.put(rows, fresh, read)

    def _drafting(self, arm: Arm, rows: int) -> Drafting | None:
        """Returns how a fused loop is to draft; ``None`` if the arm's drafter cannot."""
        if arm.drafter is None:
            return Drafting(0)
        return self.drafters[arm.drafter].fused(rows, arm.ahead, self.trust(arm, rows))

    def _run_fused(
        self, fused: FusedLoop, state: State, drafting: Drafting, iterations: int
    ) -> tuple[list[int], float]:
        """Lets the verifier run iterations over the active rows by itself.

        :param iterations: how many at most
        :returns: the rows that finished, and how many tokens a sentence got, on average
        """
        count, opening = len(self.rows), len(self.opening)
        done = [row.stats.tokens for row in self.rows]
        sentences = Sentences(
            self.tokens[:count],
            lengths=np.array(done) + opening,
            limits=np.array([opening + row.limit for row in self.rows]),
            log_probs=self.log_probs[:count] if self.scores else None,
            hints=[row.hint for row in self.rows] if self.rule == EXACT else (),
        )
        ran = fused.run(state, sentences, drafting, iterations=iterations, enough=self.enough(), rule=self.rule)
        gained = self._count(ran, sentences.lengths - opening - done)
        for number, row in enumerate(self.rows):
            row.stats.tokens = int(sentences.lengths[number]) - opening
            if self.scores:
                fresh = self.log_probs[number, opening + done[number] : opening + row.stats.tokens]
                row.log_probs += fresh.tolist()
        last = self.tokens.numpy()[np.arange(count), sentences.lengths - 1]
        ended = (last == EOS) | (sentences.lengths >= sentences.limits)
        return np.flatnonzero(ended).tolist(), gained

    def _count(self, ran: Ran, committed: npt.NDArray[np.int64]) -> float:
        """Adds up what came of the iterations of a fused loop; returns how many tokens a sentence got, on average.

        :param committed: (B) how many tokens each sentence got
        """
        active = ran.accepted >= 0  # (I, B)
        drafted = ran.drafted.sum(0, where=active).tolist()
        for number, row in enumerate(self.rows):
            row.stats.count_calls(np.bincount(ran.accepted[active[:, number], number]).tolist())
            row.stats.drafted += drafted[number]
        sentences = active.sum() / max(len(active), 1)  # side by side, on average
        return float(committed.sum() / sentences) if sentences else 0.0

    def _step(self, state: State, arm: Arm) -> tuple[list[int], float]:
        """Runs one iteration over the active rows.

        :returns: the rows that finished, and how many tokens a sentence got, on average
        """
        count = len(self.rows)
        positions = [len(self.opening) + row.stats.tokens for row in self.rows]
        lengths = torch.tensor(positions, device=self.tokens.device)
        tree = no_tree(count, self.tokens.device)
        if arm.drafter is not None:
            confidence = self.trust(arm, count)
            tree = self.drafters[arm.drafter].propose(self.tokens[:count], lengths, arm.ahead, confidence)
        starts = lengths - 1
        last = self.tokens[:count].gather(1, starts[:, None])
        window = torch.cat([last, tree.tokens], dim=1)
        shape = None if tree.parents is None else branches(tree.parents)
        logits = self.verifier.score(window, starts, state, shape)  # (B', N + 1, V)
        verdict = self.acceptor(tree, logits, positions, [row.request for row in self.rows])
        if verdict.places is not None:
            state.cache.compact(starts, verdict.places)
        log_probs = self._log_probs_of(logits, verdict) if self.scores else None
        accepted, tokens = verdict.accepted.tolist(), verdict.tokens.tolist()  # the only wait for the device
        drafted = [tree.tokens.shape[1]] * count if tree.counts is None else tree.counts.tolist()

        finished: list[int] = []
        gained = 0
        for number, row in enumerate(self.rows):
            emitted = tokens[number][: accepted[number] + 1]
            if EOS in emitted:
                emitted = emitted[: emitted.index(EOS) + 1]
            emitted = emitted[: row.limit - row.stats.tokens]
            if self.recorder is not None:
                prefix = self.tokens[number, : positions[number]].tolist()
                nodes, path = nodes_of(tree, number), verdict.path(number)
                trials = [] if verdict.trials is None else verdict.trials[number]
                self.recorder.record(row.request, prefix, nodes, logits[number], path, emitted, trials)
            gained += len(emitted)
            row.stats.tokens += len(emitted)
            row.stats.drafted += drafted[number]
            row.stats.count_call(min(len(emitted), accepted[number]))
            if log_probs is not None:
                row.log_probs += log_probs[number][: len(emitted)]
            if emitted[-1] == EOS or row.stats.tokens >= row.limit:
                finished.append(number)
        self._write(lengths, verdict.tokens)
        return finished, gained / count

    def _said(self, number: int) -> list[int]:
        """Returns what a row has said, without EOS."""
        ids: list[int] = self.tokens[number, len(self.opening) :][: self.rows[number].stats.tokens].tolist()
        return ids[:-1] if ids[-1] == EOS else ids

    def _complete(self, state: State, finished: Sequence[int]) -> list[int]:
        """Puts terms into finished rows that lack some, which then go on; returns the others, in ascending order."""
        complete: list[int] = []
        while finished:
            lacking = [self._lacking(number) for number in finished]
            complete += [number for number, one in zip(finished, lacking, strict=True) if one is None]
            some = [one for one in lacking if one is not None]
            finished = []
            for one, placed in zip(some, place_terms(self.verifier, state, some), strict=True):
                if placed is None:
                    complete.append(one.row)
                elif self._place(one, placed):
                    finished.append(one.row)
        return sorted(complete)

    def _lacking(self, number: int) -> Lacking | None:
        """Returns what a finished row lacks."""
        row, missing = self.rows[number], self.rows[number].request.missing
        if missing is None or (constraint := missing(said := self._said(number), row.given)) is None:
            return None
        # At the limit, the last token was not read.
        return Lacking(number, constraint, said[: row.stats.tokens - 1], row.given, row.limit)

    def _place(self, lacking: Lacking, placed: Placed) -> bool:
        """Goes on behind a term that was put into a row; returns whether that was finished thereby."""
        number, row = lacking.row, self.rows[lacking.row]
        row.hint = [*lacking.free[placed.place :], EOS]
        row.stats.tokens = placed.place + len(placed.tokens)
        row.given = row.stats.tokens - 1
        row.stats.drafted += placed.nodes
        row.stats.count_call(len(placed.tokens) - 1)
        row.log_probs[placed.place :] = placed.log_probs if self.scores else []
        begin = len(self.opening) + placed.place
        self.tokens[number, begin : begin + len(placed.tokens)] = torch.tensor(placed.tokens).to(self.tokens)
        for drafter in self.drafters:
            drafter.rewind(number, begin)
        return placed.tokens[-1] == EOS or row.stats.tokens >= row.limit

    def _finish(self, finished: Sequence[int]) -> Iterator[Finished]:
        """Yields the hypotheses of rows, in ascending order, and frees them."""
        said = [self._said(number) for number in finished]
        aligned = [each for each in zip(finished, said, strict=True) if self.rows[each[0]].request.aligned]
        attention: dict[int, Attention] = {}
        if self.heads is not None and self.state is not None and aligned:
            rows, texts = [number for number, _ in aligned], [ids for _, ids in aligned]
            attention = dict(zip(rows, self.verifier.attention(self.state, rows, texts, self.heads), strict=True))
        for number, ids in zip(finished, said, strict=True):
            row = self.rows[number]
            for drafter in self.drafters:
                drafter.finish(number, ids)
            score = math.fsum(row.log_probs) if self.scores else math.nan
            yield row.request.key, Hypothesis(ids, score, row.stats, attention.get(number), row.given)
        for number in reversed(finished):
            self.remove(number)

    def _write(self, lengths: Tensor, tokens: Tensor) -> None:
        """Writes tokens (B', W) behind those committed; the next iteration overwrites what is noise."""
        width = tokens.shape[1]
        spare = self.verifier.sizes.max_length + width - self.tokens.shape[1]
        if spare > 0:
            self.tokens = torch.nn.functional.pad(self.tokens, (0, spare))
            self.log_probs = torch.nn.functional.pad(self.log_probs, (0, spare))
        places = lengths[:, None] + torch.arange(width, device=lengths.device)
        self.tokens[: len(tokens)].scatter_(1, places, tokens)

    def _log_probs_of(self, logits: Tensor, verdict: Verdict) -> list[list[float]]:
        """Returns the log-probabilities of the tokens that stand, with noise behind them."""
        if verdict.places is not None:
            places = torch.nn.functional.pad(verdict.places, (1, 0))
            logits = logits.gather(1, places[:, :, None].clamp(max=logits.shape[1] - 1).expand(-1, -1, logits.shape[2]))
        scores: list[list[float]] = self.verifier.log_probs(logits, verdict.tokens).tolist()
        return scores

    @override
    def remove(self, number: int) -> None:
        last = len(self.rows) - 1
        if number != last and self.state is not None:
            self.state.move(last, number, len(self.opening) - 1 + self.rows[last].stats.tokens)
            for drafter in self.drafters:
                drafter.move(last, number)
            self.tokens[number] = self.tokens[last]
            self.rows[number] = self.rows[last]
        self.rows.pop()
