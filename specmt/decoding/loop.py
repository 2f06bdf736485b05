"""The one loop: draft, verify, commit, on rows that advance and finish on their own (DESIGN §2)."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import torch
from torch import Tensor

from specmt.decoding.accept import Verdict
from specmt.decoding.drafters import Drafter
from specmt.decoding.request import Request
from specmt.decoding.shortlist import Shortlist, restricted
from specmt.decoding.trace import Recorder
from specmt.decoding.tree import Tree, nodes_of
from specmt.engine.backend import Drafting, EncoderOutput, Runner, Sentences, State, Verifier
from specmt.engine.window import branches
from specmt.types import EOS, Hypothesis, Stats

Acceptor = Callable[[Tree, Tensor, Sequence[int], Sequence[Request]], Verdict]
"""Judges draft trees, given logits (B, N + 1, V), the positions that the first level is for, and whose they are."""

ITERATIONS: Final = 16
"""How many an engine runs by itself before it is asked anew how far to look ahead."""


@dataclass
class _Row:
    """A sentence being decoded."""

    request: Request
    limit: int
    """The most tokens it may have, EOS included; it depends on the sentence alone."""

    score: float = 0.0
    stats: Stats = field(default_factory=Stats)


def target_limit(source_length: int, max_length: int) -> int:
    """Returns the most tokens that the translation of a source may have, EOS included.

    :param max_length: the positions that there are for it, BOS included
    """
    return min(max_length - 1, 2 * source_length + 24)


class Loop:
    """Decodes sentences side by side; when one is finished, a waiting one takes its row at once."""

    def __init__(
        self,
        verifier: Verifier,
        drafter: Drafter,
        acceptor: Acceptor,
        rows: int,
        *,
        max_source_tokens: int,
        scores: bool = False,
        recorder: Recorder | None = None,
        runner: Runner | None = None,
        shortlist: Shortlist | None = None,
    ) -> None:
        """
        :param rows: the most sentences side by side.
        :param max_source_tokens: the most padded source ids side by side; one sentence is always let in.
        :param scores: whether to sum up log-probabilities.
        :param recorder: is told of every pass over a sentence.
        :param runner: the verifier, if it can run exact acceptance of chains by itself and nobody wants to watch.
        :param shortlist: says which tokens may be said of a sentence; by default all.
        """
        self.verifier = verifier
        self.drafter = drafter
        self.acceptor = acceptor
        self.scores = scores
        self.recorder = recorder
        self.runner = runner
        self.shortlist = shortlist
        self.max_source_tokens = max_source_tokens
        self.state: State = verifier.new_state(rows)
        self.capacity = rows
        self.rows: list[_Row] = []
        device = verifier.device
        self.opening = torch.tensor(verifier.prefixes.start, device=device)  # what every target begins with
        self.tokens = torch.zeros(rows, verifier.sizes.max_length, dtype=torch.int64, device=device)  # (B, T)

    @torch.inference_mode()
    def run(self, requests: Iterable[Request]) -> Iterator[tuple[int, Hypothesis]]:
        """Yields key and hypothesis of each request, in the order in which they finish."""
        waiting = deque(requests)
        while waiting or self.rows:
            self.admit(waiting)
            drafting = None if self.runner is None else self.drafter.drafting(len(self.rows))
            if self.runner is None or drafting is None:
                finished = self.step()
            else:
                # While sentences wait, a row that has become free stays so a moment: coming back costs time, too.
                enough = max(1, len(self.rows) // 8) if waiting else len(self.rows)
                finished = self.run_by_itself(self.runner, drafting, enough)
            yield from self._finish(finished)

    def admit(self, waiting: deque[Request]) -> None:
        """Encodes waiting sentences into free rows."""
        new: list[Request] = []
        extra = len(self.verifier.prefixes.source) + 1  # EOS
        widest = int(self.state.cross.lengths[: len(self.rows)].max()) if self.rows else 0
        while waiting and len(self.rows) + len(new) < self.capacity:
            widest = max(widest, len(waiting[0].source) + extra)
            count = len(self.rows) + len(new) + 1
            if count > 1 and count * widest > self.max_source_tokens:
                break
            new.append(waiting.popleft())
        if not new:
            return
        memory = restricted(self.verifier.encode([request.source for request in new]), new, self.shortlist)
        first = len(self.rows)
        rows = torch.arange(first, first + len(new), device=self.verifier.device)
        self._start(rows, memory)
        self.drafter.start(rows, memory, new)
        self.tokens[rows, : len(self.opening)] = self.opening
        room = self.verifier.sizes.max_length - len(self.verifier.prefixes.target)
        for request in new:
            source_length = len(request.source) + 1
            limit = target_limit(source_length, room)
            self.rows.append(_Row(request, limit, stats=Stats(sentences=1, source_tokens=source_length)))

    def _start(self, rows: Tensor, memory: EncoderOutput) -> None:
        """Gives rows (B') new sentences, and lets the verifier read what every target begins with, but for the last."""
        read = len(self.opening) - 1
        if read == 0:
            self.verifier.start(self.state, rows, memory)
            return
        # In caches of their own: the verifier scores first rows, and these are the last.
        fresh = self.verifier.new_state(len(rows))
        self.verifier.start(fresh, torch.arange(len(rows), device=rows.device), memory)
        self.verifier.score(self.opening[:read].expand(len(rows), -1), torch.zeros_like(rows), fresh)
        self.state.put(rows, fresh, read)

    def run_by_itself(self, runner: Runner, drafting: Drafting, enough: int) -> list[int]:
        """Lets the engine run iterations over the active rows; returns those that it finished.

        :param enough: how many rows may finish before it comes back
        """
        count = len(self.rows)
        opening = len(self.opening)
        done = [row.stats for row in self.rows]
        sentences = Sentences(
            self.tokens[:count],
            lengths=np.array([opening + stats.tokens for stats in done]),
            limits=np.array([opening + row.limit for row in self.rows]),
            **{name: np.zeros(count, dtype=np.int64) for name in ("calls", "drafted", "accepted")},
        )
        ran = runner.run(self.state, sentences, drafting, iterations=ITERATIONS, enough=enough)
        self.drafter.told(count, float(ran.gained.sum()))
        counts = (sentences.lengths - opening, sentences.calls, sentences.drafted, sentences.accepted)
        for stats, *new in zip(done, *(values.tolist() for values in counts), strict=True):
            stats.tokens = new[0]
            stats.verifier_calls += new[1]
            stats.drafted += new[2]
            stats.accepted += new[3]
        last = self.tokens[torch.arange(count), torch.from_numpy(sentences.lengths - 1)].numpy(force=True)
        return [int(row) for row in np.flatnonzero((last == EOS) | (sentences.lengths >= sentences.limits))]

    def step(self) -> list[int]:
        """Runs one iteration over the active rows and returns those that it finished."""
        count = len(self.rows)
        positions = [len(self.opening) + row.stats.tokens for row in self.rows]
        lengths = torch.tensor(positions, device=self.tokens.device)
        tree = self.drafter.propose(self.tokens[:count], lengths)
        starts = lengths - 1
        last = self.tokens[:count].gather(1, starts[:, None])
        window = torch.cat([last, tree.tokens], dim=1)
        shape = None if tree.parents is None else branches(tree.parents)
        logits = self.verifier.score(window, starts, self.state, shape)  # (B', N + 1, V)
        verdict = self.acceptor(tree, logits, positions, [row.request for row in self.rows])
        if verdict.places is not None:
            self.state.cache.compact(starts, verdict.places)
        log_probs = self._log_probs(logits, verdict) if self.scores else None
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
            row.stats.verifier_calls += 1
            row.stats.drafted += drafted[number]
            row.stats.accepted += min(len(emitted), accepted[number])
            if log_probs is not None:
                row.score += math.fsum(log_probs[number][: len(emitted)])
            if emitted[-1] == EOS or row.stats.tokens >= row.limit:
                finished.append(number)
        self._write(lengths, verdict.tokens)
        self.drafter.told(count, gained / count)
        return finished

    def _finish(self, finished: Sequence[int]) -> Iterator[tuple[int, Hypothesis]]:
        """Yields the hypotheses of rows, in ascending order, and frees them."""
        for number in finished:
            row = self.rows[number]
            opening = len(self.opening)
            ids = self.tokens[number, opening : opening + row.stats.tokens].tolist()
            score = row.score if self.scores else math.nan
            if ids[-1] == EOS:
                ids.pop()
            self.drafter.finish(number, ids)
            yield row.request.key, Hypothesis(ids, score, row.stats)
        for number in reversed(finished):
            self._remove(number)

    def _write(self, lengths: Tensor, tokens: Tensor) -> None:
        """Writes tokens (B', W) behind those committed; the next iteration overwrites what is noise."""
        width = tokens.shape[1]
        spare = self.verifier.sizes.max_length + width - self.tokens.shape[1]
        if spare > 0:
            self.tokens = torch.nn.functional.pad(self.tokens, (0, spare))
        places = lengths[:, None] + torch.arange(width, device=lengths.device)
        self.tokens[: len(tokens)].scatter_(1, places, tokens)

    def _log_probs(self, logits: Tensor, verdict: Verdict) -> list[list[float]]:
        if verdict.places is not None:
            places = torch.nn.functional.pad(verdict.places, (1, 0))
            logits = logits.gather(1, places[:, :, None].clamp(max=logits.shape[1] - 1).expand(-1, -1, logits.shape[2]))
        chosen = logits.float().log_softmax(2).gather(2, verdict.tokens[:, :, None])[:, :, 0]
        return [[float(value) for value in row] for row in chosen.tolist()]

    def _remove(self, number: int) -> None:
        """Frees a row by moving the last active one into its place, so that active rows stay in front."""
        last = len(self.rows) - 1
        if number != last:
            self.state.move(last, number, len(self.opening) - 1 + self.rows[last].stats.tokens)
            self.drafter.move(last, number)
            self.tokens[number] = self.tokens[last]
            self.rows[number] = self.rows[last]
        self.rows.pop()
