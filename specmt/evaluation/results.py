"""What an evaluation found: the keys of its JSON.

``strategies``, ``baseline``
    The names of the strategies, and of the one that others are compared with.
``partial``
    Whether it was interrupted; figures are then of the lines and repeats that all strategies were done with.
``load_seconds``
    How long loading the model took; it is in no other figure.
``signatures``
    For each strategy all that figures depend on, the machine included.
``results``
    A list of objects, one a test set and strategy; see `Result`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from itertools import accumulate
from typing import Any

import numpy as np

from specmt.evaluation.quality import Score, loops
from specmt.evaluation.runs import Run
from specmt.evaluation.sets import EvaluationSet
from specmt.evaluation.timing import Spread, ratios, spread
from specmt.types import Stats


@dataclass(frozen=True)
class Speed:
    """How fast a strategy was, and how it got there, in one way of feeding it."""

    batch_size: int
    lines: int

    sentences_per_second: Spread | None
    """Of those that went through the model: blank lines do not count. ``None`` where nothing was timed."""

    tokens_per_second: Spread | None
    """Target pieces, end-of-sentence included."""

    speed_up: Spread | None
    """The baseline's seconds for each of the strategy's, within a repeat; ``None`` for the baseline itself."""

    seconds: list[float]
    """Those of each repeat."""

    verifier_calls: int
    """Counted per sentence."""

    tokens: int
    drafted: int
    accepted: int

    mean_accepted_length: float
    """Tokens committed per verifier call, the verifier's own token included."""

    acceptance: list[float]
    """For positions 1, 2, …: the share of verifier calls that accepted at least so many drafted tokens."""


@dataclass(frozen=True)
class Result:
    """The figures of one strategy on one test set."""

    test_set: str
    strategy: str
    scores: dict[str, Score]

    same: float
    """The share of lines whose translation is the baseline's."""

    loops: float
    """The share of lines whose translation repeats itself, as in ``quality.loops``."""

    batched: Speed
    """In batches."""

    single: Speed | None
    """A sample of lines, one at a time."""

    latency_lines: list[int]
    """The numbers of those lines, from 0."""

    latencies: list[list[float]]
    """For each repeat, the seconds that each of them took."""

    latency: dict[str, float]
    """Percentiles ``p50``, ``p95`` and ``p99`` of all of them, interpolated between neighbours."""


@dataclass
class Evaluation:
    """What an evaluation found so far."""

    strategies: list[str]
    baseline: str
    load_seconds: float
    signatures: dict[str, dict[str, object]]
    results: list[Result] = field(default_factory=list)
    partial: bool = False

    def record(self) -> dict[str, Any]:
        """Returns everything as JSON has it."""
        return asdict(self)

    @property
    def sets(self) -> list[list[Result]]:
        """The results of each test set."""
        names = dict.fromkeys(result.test_set for result in self.results)
        return [[result for result in self.results if result.test_set == name] for name in names]


@dataclass
class Measured:
    """The runs of all strategies over one test set."""

    test_set: EvaluationSet
    batched: Run
    single: Run
    scores: dict[str, dict[str, Score]] = field(default_factory=dict)
    """For each metric and strategy."""

    def hypotheses(self, label: str) -> list[str]:
        """Returns the translations of a strategy."""
        return [each.text for each in self.batched.translations(label)]

    @property
    def references(self) -> list[list[str]]:
        """The references of the lines that were translated."""
        return [texts[: self.batched.lines] for texts in self.test_set.references]

    def result(self, label: str, baseline: str) -> Result:
        """Returns the figures of a strategy, of which some lines were translated."""
        own, first = self.hypotheses(label), self.hypotheses(baseline)
        latencies = self.single.times(label)
        values = [value for repeat in latencies for value in repeat]
        return Result(
            test_set=self.test_set.name,
            strategy=label,
            scores={title: scores[label] for title, scores in self.scores.items()},
            same=sum(one == other for one, other in zip(own, first, strict=True)) / len(own),
            loops=sum(map(loops, own)) / len(own),
            batched=speed(self.batched, label, baseline),
            single=speed(self.single, label, baseline) if self.single.lines else None,
            latency_lines=[line.index for (line,) in self.single.groups],
            latencies=latencies,
            latency={f"p{p}": float(np.percentile(values, p)) for p in (50, 95, 99)} if values else {},
        )


def speed(run: Run, label: str, baseline: str) -> Speed:
    """Returns what a run says of a strategy.

    :param baseline: the strategy that the speed-up is against.
    """
    stats = [sum((each.stats for each in group[label]), Stats()) for group in run.translated]
    total = sum(stats, Stats())
    times = run.times(label)
    seconds, others = (list(map(sum, each)) for each in (times, run.times(baseline)))
    # A repeat that was interrupted has fewer groups than there are.
    done = [sum(stats[: len(repeat)], Stats()) for repeat in times]
    (batch_size,) = (each.options.batch_size for each in run.strategies if each.label == label)
    return Speed(
        batch_size=batch_size,
        lines=run.lines,
        sentences_per_second=spread(ratios([each.sentences for each in done], seconds)),
        tokens_per_second=spread(ratios([each.tokens for each in done], seconds)),
        speed_up=None if label == baseline else spread(ratios(others, seconds)),
        seconds=seconds,
        verifier_calls=total.verifier_calls,
        tokens=total.tokens,
        drafted=total.drafted,
        accepted=total.accepted,
        mean_accepted_length=total.mean_accepted_length,
        acceptance=acceptance(total),
    )


def acceptance(stats: Stats) -> list[float]:
    """Returns for positions 1, 2, … the share of verifier calls that accepted at least so many drafted tokens."""
    at_least = list(accumulate(reversed(stats.accepted_counts)))[::-1]
    return [count / at_least[0] for count in at_least[1:] if count]
