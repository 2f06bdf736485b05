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

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from specmt.evaluation.acceptance import Tally
from specmt.evaluation.quality import Score, loops
from specmt.evaluation.runs import Run
from specmt.evaluation.sets import EvaluationSet
from specmt.evaluation.spread import Spread, spread_if_any
from specmt.types import Line, Stats


@dataclass(frozen=True)
class Speed:
    """How fast a strategy was, and how it got there, in one way of feeding it."""

    batch_size: int
    lines: int

    sentences_per_second: Spread | None
    """Of those that went through the model: blank lines do not count. ``None`` where nothing was timed."""

    tokens_per_second: Spread | None
    """Target pieces, end-of-sentence included."""

    words_per_second: Spread | None
    """Source words, between spaces."""

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
    """For positions 1, 2, …: of the calls that drafted so far ahead, the share in which that draft was accepted."""

    peak_bytes: int
    """The most memory that the process held meanwhile."""


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
    """In windows of batches, as ``specmt translate`` reads files."""

    single: Speed | None
    """A sample of lines, one at a time."""

    latency_lines: list[int]
    """The numbers of those lines, from 0."""

    latencies: list[list[float]]
    """For each repeat, the seconds that each of them took."""

    def latency(self, percent: float) -> float | None:
        """Returns a percentile of the latencies, in seconds, interpolated between neighbours."""
        return percentile([value for repeat in self.latencies for value in repeat], percent)


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
        record = asdict(self)
        for values, result in zip(record["results"], self.results, strict=True):
            values["latency"] = {f"p{percent}": result.latency(percent) for percent in (50, 95, 99)}
        return record


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
        return [each.text for group in self.batched.translations(label) for each in group]

    @property
    def references(self) -> list[list[str]]:
        """The references of the lines that were translated."""
        return [texts[: self.batched.lines] for texts in self.test_set.references]

    def results(self, baseline: str) -> list[Result]:
        """Returns the figures of every strategy, none where no line was translated."""
        if not self.batched.lines:
            return []
        first = self.hypotheses(baseline)
        results = []
        for strategy in self.batched.strategies:
            label = strategy.label
            own = self.hypotheses(label)
            results.append(
                Result(
                    test_set=self.test_set.name,
                    strategy=label,
                    scores={title: scores[label] for title, scores in self.scores.items()},
                    same=sum(one == other for one, other in zip(own, first, strict=True)) / len(own),
                    loops=sum(map(loops, own)) / len(own),
                    batched=speed(self.batched, label, baseline, strategy.options.batch_size),
                    single=speed(self.single, label, baseline, 1) if self.single.lines else None,
                    latency_lines=[line.index for (line,) in self.single.groups],
                    latencies=self.single.times(label),
                )
            )
        return results


def speed(run: Run, label: str, baseline: str, batch_size: int) -> Speed:
    """Returns what a run says of a strategy.

    :param baseline: the strategy that the speed-up is against.
    """
    groups, times = run.translations(label), run.times(label)
    stats = [sum((each.stats for each in group), Stats()) for group in groups]
    total = sum(stats, Stats())
    tally = Tally()
    for group in run.counted:
        tally.add(group[label].tally)

    def rate(counts: Sequence[int]) -> Spread | None:
        return spread_if_any([sum(counts[: len(repeat)]) / sum(repeat) for repeat in times])

    ratios = [sum(theirs) / sum(own) for theirs, own in zip(run.times(baseline), times, strict=True)]
    return Speed(
        batch_size=batch_size,
        lines=run.lines,
        sentences_per_second=rate([each.sentences for each in stats]),
        tokens_per_second=rate([each.tokens for each in stats]),
        words_per_second=rate([sum(map(_words, group)) for group in run.groups]),
        speed_up=None if label == baseline else spread_if_any(ratios),
        seconds=list(map(sum, times)),
        verifier_calls=total.verifier_calls,
        tokens=total.tokens,
        drafted=total.drafted,
        accepted=total.accepted,
        mean_accepted_length=total.mean_accepted_length,
        acceptance=tally.rates(),
        peak_bytes=max(group[label].peak for group in run.counted),
    )


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Returns a percentile, interpolated between neighbours; ``None`` of nothing."""
    if not values:
        return None
    values = sorted(values)
    place = (len(values) - 1) * percent / 100
    low = int(place)
    return values[low] + (values[min(low + 1, len(values) - 1)] - values[low]) * (place - low)


def _words(line: Line) -> int:
    return len(line.text.split())
