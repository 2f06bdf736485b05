"""What a drafter brings on this machine: speculative against greedy decoding on lines that it was not trained on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from specmt.decoding.batch import decode
from specmt.decoding.plan import best_block
from specmt.errors import ModelError
from specmt.evaluation.bench_results import BenchOptions
from specmt.evaluation.bench_timing import Clock, costs_of_iterations, speeds_of
from specmt.evaluation.spread import Spread, spread
from specmt.evaluation.tables import Table
from specmt.options import DecodingOptions
from specmt.types import Stats

if TYPE_CHECKING:
    from specmt.models.hub import Model

GREEDY: Final = "greedy"
CHAIN: Final = "speculative"
TREE: Final = "best-first trees"
WAYS: Final = {
    GREEDY: DecodingOptions(strategy="greedy"),
    CHAIN: DecodingOptions(),
    TREE: DecodingOptions(tree="best-first"),
}

BATCH_SIZES: Final = (1, 32)
REPEATS: Final = 3
"""How often speeds are measured, after once to warm up and to count."""

MOST_LINES: Final = 64
FEWEST_LINES: Final = 8
SECONDS: Final = 90.0
"""How many lines are decoded: as many as fit into that time, within bounds."""

_NOTEWORTHY: Final = 1.03


@dataclass(frozen=True)
class Payoff:
    """Figures by batch size and way of decoding."""

    lines: int
    speeds: dict[int, dict[str, list[float]]]
    """Lines a second of each repeat."""

    lengths: dict[int, dict[str, float]]
    """Tokens a verifier call."""

    blocks: dict[int, int]
    """The block size that yields most; 0 is greedy decoding."""

    acceptance: Sequence[float]
    """The probability that the first 1 … K tokens of a block are all accepted."""

    @property
    def block_size(self) -> int:
        """The best number of slots where it must not depend on the batch: that of lines one at a time, at least 1."""
        return max(1, self.blocks[BATCH_SIZES[0]])

    def speed_up(self, batch_size: int, way: str) -> Spread:
        """Returns how many times as fast as greedy decoding a way is."""
        speeds = self.speeds[batch_size]
        return spread([one / other for one, other in zip(speeds[way], speeds[GREEDY], strict=True)])

    def table(self) -> Table:
        """Returns the figures for people to read."""
        rows = []
        for size in BATCH_SIZES:
            for way in WAYS:
                speed, ratio = spread(self.speeds[size][way]), self.speed_up(size, way)
                shown = "" if way == GREEDY else f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
                rows.append(
                    (f"{way}, {size} at a time", f"{speed.median:.1f}", shown, f"{self.lengths[size][way]:.2f}")
                )
        blocks = ", ".join(f"{block} with {size} at a time" for size, block in self.blocks.items())
        notes = [
            f"Medians of {REPEATS} repeats (lowest to highest).",
            f"A whole block of {len(self.acceptance)} drafts: {1 + sum(self.acceptance):.2f} tokens a verifier call.",
            f"Best block size: {blocks}; `specmt translate` finds it by itself.",
            self._advice(),
        ]
        columns = ("decoding", "lines/s", "speed-up", "tokens a verifier call")
        return Table(f"Greedy and speculative decoding, {self.lines} held-out lines", columns, rows, notes)

    def record(self) -> dict[str, Any]:
        """Returns the figures as JSON can hold them."""
        return {
            "lines": self.lines,
            "lines_per_second": self.speeds,
            "tokens_per_verifier_call": self.lengths,
            "best_block_size": self.blocks,
            "acceptance": list(self.acceptance),
        }

    def _advice(self) -> str:
        first = BATCH_SIZES[0]
        chain, tree = (self.speed_up(first, way).median for way in (CHAIN, TREE))
        if max(chain, tree) < _NOTEWORTHY:
            return "This drafter does not pay here yet: train longer, on more text or on text closer to yours."
        if tree > _NOTEWORTHY * chain:
            return "Best-first trees pay here: translate with `--tree best-first`."
        return "Best-first trees do not pay here: the default, a chain, is as fast."


def lines_within(seconds_alone: float, seconds_together: float) -> int:
    """Returns how many lines there is time for.

    :param seconds_alone: that greedy decoding takes for a line
    :param seconds_together: the same of many side by side
    """
    each = seconds_of_lines(1, seconds_alone, seconds_together)
    return max(FEWEST_LINES, min(MOST_LINES, int(SECONDS / each)))


def seconds_of_lines(lines: int, seconds_alone: float, seconds_together: float) -> float:
    """Returns how long measuring takes at most, from the seconds that greedy decoding takes for a line."""
    return lines * len(WAYS) * (REPEATS + 1) * (seconds_alone + seconds_together)


def measure(
    model: Model,
    sources: Sequence[list[int]],
    *,
    report: Callable[[str, float], None] = lambda name, share: None,
    clock: Clock = perf_counter,
) -> Payoff:
    """Decodes sentences, given as ids without EOS, in all ways.

    :param report: is told what comes next, and the share of the whole that is done
    :raises ModelError: the model has no calibrated drafter.
    """
    calibration = model.folder.calibration
    if calibration is None:
        raise ModelError(f"{model.path}: the model has no calibrated drafter.")
    largest = len(calibration.acceptance)
    speeds: dict[int, dict[str, list[float]]] = {}
    lengths: dict[int, dict[str, float]] = {}
    blocks: dict[int, int] = {}
    for number, size in enumerate(BATCH_SIZES):

        def tell(step: int, number: int = number, size: int = size) -> None:
            share = (number + step / (REPEATS + 2)) / len(BATCH_SIZES)
            report(f"{size} at a time", share)

        repeated = list(islice(cycle(sources), max(size, len(sources))))
        tell(0)
        model.plans.clear()  # what was learnt of other batch sizes
        costs = costs_of_iterations(model, BenchOptions(repeats=REPEATS), size, sources, clock)
        verifying, drafting = np.array(costs.verifying(largest + 1)), np.array(costs.drafting(largest))
        blocks[size] = best_block(calibration.acceptance, verifying, drafting)
        tell(1)
        lengths[size] = {way: _length(model, repeated, way, size) for way in WAYS}
        speeds[size] = {way: [] for way in WAYS}
        for repeat in range(REPEATS):
            tell(2 + repeat)
            for way, speed in speeds_of(model, repeated, WAYS, size, clock).items():
                speeds[size][way].append(speed)
    report("done", 1.0)
    return Payoff(len(sources), speeds, lengths, blocks, calibration.acceptance)


def _length(model: Model, sources: Sequence[list[int]], way: str, batch_size: int) -> float:
    hypotheses = decode(model, sources, replace(WAYS[way], batch_size=batch_size))
    return sum((hypothesis.stats for hypothesis in hypotheses), Stats()).mean_accepted_length
