"""Several strategies on the same lines, in turn, so that whatever slows the machine down meets all of them."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from specmt.evaluation.timing import Clock
from specmt.options import DecodingOptions
from specmt.types import Line, Translation

if TYPE_CHECKING:
    from specmt.evaluation.strategies import Strategy
    from specmt.translator import Translator

Translate = Callable[[Sequence[Line]], list[Translation]]

Start = Callable[[DecodingOptions], Translate]
"""Makes ready to translate, with nothing remembered of what was translated before."""

REST: Final = 0.02
"""Seconds between strategies: some leave threads behind that spin for a moment."""


@dataclass
class Run:
    """Groups of lines, each translated at once by every strategy, and what came of it as far as it came.

    Only groups that all strategies are done with are in it, so that figures can be compared whenever the run ends.
    """

    strategies: Sequence[Strategy]
    groups: Sequence[Sequence[Line]]

    translated: list[dict[str, list[Translation]]] = field(default_factory=list)
    """For each group and strategy, in the pass that is not timed."""

    seconds: list[list[dict[str, float]]] = field(default_factory=list)
    """For each repeat, group and strategy."""

    @property
    def lines(self) -> int:
        """The number of lines that all strategies have translated."""
        return sum(map(len, self.groups[: len(self.translated)]))

    def translations(self, label: str) -> list[Translation]:
        """Returns a strategy's translations."""
        return [each for group in self.translated for each in group[label]]

    def times(self, label: str) -> list[list[float]]:
        """Returns for each repeat that came to something a strategy's seconds for each group."""
        return [[group[label] for group in repeat] for repeat in self.seconds if repeat]


def measure(
    run: Run,
    start: Start,
    repeats: int,
    *,
    seconds_a_pass: float = math.inf,
    clock: Clock = time.perf_counter,
    rest: Callable[[float], None] = time.sleep,
    report: Callable[[int], None] = lambda _: None,
) -> None:
    """Translates all groups with each strategy: once to warm up and to count, then ``repeats`` times by the clock.

    Strategies take turns group by group, in an order drawn anew for each group, after a moment of rest.

    :param seconds_a_pass: after so many, the first pass begins no further group; the others take those that it did
    :param rest: lets a number of seconds pass
    :param report: is told how many lines were translated, again and again
    """
    labels = [strategy.label for strategy in run.strategies]
    generator = random.Random(len(labels))
    end = clock() + seconds_a_pass
    for repeat in range(repeats + 1):
        translates = {strategy.label: start(strategy.options) for strategy in run.strategies}
        if repeat > 0:
            run.seconds.append([])
        for group in run.groups[: len(run.translated)] if repeat > 0 else run.groups:
            if repeat == 0 and run.translated and clock() > end:
                break
            found: dict[str, list[Translation]] = {}
            seconds: dict[str, float] = {}
            for label in generator.sample(labels, len(labels)):
                rest(REST)
                started = clock()
                found[label] = translates[label](group)
                seconds[label] = clock() - started
                report(len(group))
            # Added whole: an interrupt finds every strategy with as much done.
            if repeat > 0:
                run.seconds[-1].append(seconds)
            else:
                run.translated.append(found)


def starting(make: Callable[[], Translator]) -> Start:
    """Returns what makes ready a new translator for each strategy and pass."""

    def start(options: DecodingOptions) -> Translate:
        translator = make()
        translator.translate([], options)  # reads the translation memory
        return lambda lines: list(translator.translate(lines, options))

    return start


def groups_of(lines: Sequence[Line], size: int) -> list[Sequence[Line]]:
    """Returns lines in groups of a size; the last one may be smaller."""
    return [lines[start : start + size] for start in range(0, len(lines), size)]


def sample(lines: Sequence[Line], count: int) -> list[Sequence[Line]]:
    """Returns lines that are not blank, alone in their groups, evenly spread over all."""
    lines = [line for line in lines if line.text.strip()]
    count = min(count, len(lines))
    return [[lines[number * len(lines) // count]] for number in range(count)]
