"""Several strategies on the same lines, in turn, so that whatever slows the machine down meets all of them."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from specmt.evaluation.memory import peak_bytes, reset_peak
from specmt.options import DecodingOptions
from specmt.types import Line, Translation

if TYPE_CHECKING:
    from specmt.evaluation.acceptance import Tally
    from specmt.evaluation.strategies import Strategy

Translate = Callable[[Sequence[Line], "Tally | None"], list[Translation]]
"""Translates lines; a tally, where there is one, is told of every pass."""

Start = Callable[[DecodingOptions], Translate]
"""Makes ready to translate, with nothing remembered of what was translated before."""


REST: Final = 0.02
"""Seconds between strategies."""


@dataclass(frozen=True)
class Counted:
    """What a strategy did with a group of lines in the pass that is not timed."""

    translations: list[Translation]
    tally: Tally

    peak: int
    """The most resident memory of the process meanwhile, in bytes."""


@dataclass
class Run:
    """Groups of lines, each translated at once, and what came of it as far as it came.

    Only groups that all strategies are done with are in it, so that figures can be compared whenever the run ends.
    """

    strategies: Sequence[Strategy]
    groups: Sequence[Sequence[Line]]

    counted: list[dict[str, Counted]] = field(default_factory=list)
    """For each group and strategy."""

    seconds: list[list[dict[str, float]]] = field(default_factory=list)
    """For each repeat, group and strategy."""

    @property
    def lines(self) -> int:
        """The number of lines that all strategies have translated."""
        return sum(map(len, self.groups[: len(self.counted)]))

    def translations(self, label: str) -> list[list[Translation]]:
        """Returns a strategy's translations of each group."""
        return [group[label].translations for group in self.counted]

    def times(self, label: str) -> list[list[float]]:
        """Returns for each repeat that came to something a strategy's seconds for each group."""
        return [[group[label] for group in repeat] for repeat in self.seconds if repeat]


def measure(
    run: Run,
    start: Start,
    repeats: int,
    *,
    clock: Callable[[], float] = time.perf_counter,
    rest: Callable[[float], None] = time.sleep,
    report: Callable[[int], None] = lambda _: None,
) -> None:
    """Translates all groups with each strategy: once to warm up and to count, then ``repeats`` times by the clock.

    Strategies take turns group by group, in an order drawn anew for each group, after a moment of rest: beam search
    leaves threads behind that spin for some milliseconds, and whoever came next would pay for it every time.

    :param rest: lets a number of seconds pass
    :param report: is told how many lines were translated, again and again.
    """

    def turns(number: int) -> Iterator[tuple[str, Translate, Sequence[Line]]]:
        for label in generator.sample(labels, len(labels)):
            rest(REST)
            yield label, translates[label], run.groups[number]
            report(len(run.groups[number]))

    labels = [strategy.label for strategy in run.strategies]
    generator = random.Random(len(labels))
    for repeat in range(repeats + 1):
        translates = {strategy.label: start(strategy.options) for strategy in run.strategies}
        if repeat > 0:
            run.seconds.append([])
        for number in range(len(run.groups)):
            # Added whole: an interrupt finds every strategy with as much done.
            if repeat == 0:
                run.counted.append({label: _count(translate, lines) for label, translate, lines in turns(number)})
            else:
                seconds = {label: _time(translate, lines, clock) for label, translate, lines in turns(number)}
                run.seconds[-1].append(seconds)


def windows(lines: Sequence[Line], size: int) -> list[Sequence[Line]]:
    """Returns lines in groups of a size; the last one may be smaller."""
    return [lines[start : start + size] for start in range(0, len(lines), size)]


def sample(lines: Sequence[Line], count: int) -> list[Sequence[Line]]:
    """Returns lines that are not blank, alone in their groups, evenly spread over all."""
    lines = [line for line in lines if line.text.strip()]
    count = min(count, len(lines))
    return [[lines[number * len(lines) // count]] for number in range(count)]


def _count(translate: Translate, lines: Sequence[Line]) -> Counted:
    from specmt.evaluation.acceptance import Tally

    tally = Tally()
    reset_peak()
    return Counted(translate(lines, tally), tally, peak_bytes())


def _time(translate: Translate, lines: Sequence[Line], clock: Callable[[], float]) -> float:
    started = clock()
    translate(lines, None)
    return clock() - started
