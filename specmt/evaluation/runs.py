"""Several strategies on the same lines, in turn, so that whatever slows the machine down meets all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from specmt.config import DecodingOptions
from specmt.evaluation.memory import peak_bytes, reset_peak
from specmt.types import Line, Translation

if TYPE_CHECKING:
    from specmt.evaluation.acceptance import Tally
    from specmt.evaluation.strategies import Strategy

Translate = Callable[[Sequence[Line], "Tally | None"], list[Translation]]
"""Translates lines; a tally, where there is one, is told of every pass."""

Start = Callable[[DecodingOptions], Translate]
"""Makes ready to translate, with nothing remembered of what was translated before."""


@dataclass
class Counted:
    """What a strategy did in the pass that is not timed."""

    tally: Tally
    translations: list[list[Translation]] = field(default_factory=list)
    """Those of each group of lines."""

    peak: int = 0
    """The most resident memory of the process meanwhile, in bytes."""


@dataclass
class Run:
    """Groups of lines, each translated at once, and what came of it as far as it came.

    Only groups that all strategies are done with count, so that figures can be compared whenever the run ends.
    """

    strategies: Sequence[Strategy]
    groups: Sequence[Sequence[Line]]
    counted: dict[str, Counted] = field(default_factory=dict)
    seconds: list[dict[str, list[float]]] = field(default_factory=list)
    """For each repeat and strategy, how long the groups took."""

    @property
    def lines(self) -> int:
        """The number of lines that all strategies have translated."""
        done = next((len(counted.translations) for counted in self.counted.values()), 0)
        return sum(map(len, self.groups[:done]))


def measure(
    run: Run,
    start: Start,
    repeats: int,
    *,
    clock: Callable[[], float] = time.perf_counter,
    report: Callable[[int], None] = lambda _: None,
) -> None:
    """Translates all groups with each strategy: once to warm up and to count, then ``repeats`` times by the clock.

    Strategies take turns group by group, and each is first as often as the others.

    :param report: is told how many lines were translated, again and again.
    """
    from specmt.evaluation.acceptance import Tally

    run.counted = {strategy.label: Counted(Tally()) for strategy in run.strategies}
    for repeat in range(repeats + 1):
        translates = {strategy.label: start(strategy.options) for strategy in run.strategies}
        if repeat > 0:
            run.seconds.append({label: [] for label in translates})
        for number, group in enumerate(run.groups):
            order = _rotate(list(translates.items()), number + repeat)
            if repeat == 0:
                found = {}
                for label, translate in order:
                    tally = Tally()
                    reset_peak()
                    found[label] = translate(group, tally), tally, peak_bytes()
                    report(len(group))
                for label, (translations, tally, peak) in found.items():
                    counted = run.counted[label]
                    counted.translations.append(translations)
                    counted.tally.add(tally)
                    counted.peak = max(counted.peak, peak)
            else:
                seconds = {}
                for label, translate in order:
                    started = clock()
                    translate(group, None)
                    seconds[label] = clock() - started
                    report(len(group))
                for label, value in seconds.items():
                    run.seconds[-1][label].append(value)


def windows(lines: Sequence[Line], size: int) -> list[Sequence[Line]]:
    """Returns lines in groups of a size; the last one may be smaller."""
    return [lines[start : start + size] for start in range(0, len(lines), size)]


def sample(lines: Sequence[Line], count: int) -> list[Sequence[Line]]:
    """Returns lines that are not blank, alone in their groups, evenly spread over all."""
    lines = [line for line in lines if line.text.strip()]
    count = min(count, len(lines))
    return [[lines[number * len(lines) // count]] for number in range(count)]


def _rotate(items: list[tuple[str, Translate]], by: int) -> list[tuple[str, Translate]]:
    by %= len(items)
    return items[by:] + items[:by]
