"""What a drafter brings on this machine: a small benchmark on lines that it was not trained on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from specmt.evaluation.bench import AUTO, TREE, Bench, BenchOptions, measure
from specmt.evaluation.machine import describe_machine

if TYPE_CHECKING:
    from specmt.models.hub import Model

OPTIONS: Final = BenchOptions(rows=(1, 8), batch_sizes=(1, 32), repeats=3)

MOST_LINES: Final = 64
FEWEST_LINES: Final = 8
SECONDS: Final = 90.0
"""How many lines are decoded: as many as fit into that time, within bounds."""

_NOTEWORTHY: Final = 1.03


def measure_payoff(
    model: Model, sources: Sequence[list[int]], *, report: Callable[[str, float], None] = lambda name, share: None
) -> Bench:
    """Decodes sentences, given as ids without EOS, in all ways.

    :param report: is told what comes next, and the share of the whole that is done
    """
    signature: dict[str, object] = {"model": model.path.name, "dtype": model.dtype, **describe_machine()}
    most = model.folder.drafter.block_size if model.folder.drafter is not None else OPTIONS.block_sizes[-1]
    block_sizes = tuple(size for size in OPTIONS.block_sizes if size <= most) or (most,)
    options = replace(OPTIONS, sentences=len(sources), block_sizes=block_sizes)
    bench = Bench(options, signature, text=f"{len(sources)} held-out lines", sentences=len(sources))
    for step in measure(bench, model, sources):
        report(*step)
    return bench


def best_block_size(bench: Bench) -> int:
    """Returns the fastest number of slots, where it must not depend on the batch: that of lines one at a time."""
    return int(bench.fastest(min(bench.speeds), fixed=True).removeprefix("k="))


def advice(bench: Bench) -> str:
    """Returns in a sentence whether the drafter pays for lines one at a time."""
    ratios = {way: ratio.median for way, ratio in bench.speed_ups(min(bench.speeds)).items()}
    chain = max(ratio for way, ratio in ratios.items() if way == AUTO or way.startswith("k="))
    if max(chain, ratios[TREE]) < _NOTEWORTHY:
        return "This drafter does not pay here yet: train longer, on more text or on text closer to yours."
    if ratios[TREE] > _NOTEWORTHY * chain:
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
    ways = len(OPTIONS.block_sizes) + 3
    return lines * ways * (OPTIONS.repeats + 1) * (seconds_alone + seconds_together)
