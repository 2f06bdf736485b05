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
SECONDS: Final = 90.0
"""How many lines are decoded at most, and how long that may take, roughly: on slow machines fewer are."""

_NOTEWORTHY: Final = 1.03


def measure_payoff(
    model: Model,
    texts: Sequence[str],
    *,
    drafter: str = "masked",
    report: Callable[[str, float], None] = lambda name, share: None,
) -> Bench:
    """Translates lines in all ways.

    :param report: is told what is being done, and the share of the whole that is
    """
    signature: dict[str, object] = {"model": model.path.name, "dtype": model.dtype, **describe_machine()}
    most = model.block_size or OPTIONS.block_sizes[-1]
    sizes = tuple(size for size in OPTIONS.block_sizes if size <= most) or (most,)
    options = replace(OPTIONS, drafter=drafter, sentences=len(texts), block_sizes=sizes)
    bench = Bench(options, signature, text=f"{len(texts)} held-out lines", sentences=len(texts))
    seconds = SECONDS / (len(options.batch_sizes) * (options.repeats + 1))
    measure(bench, model, texts, seconds_a_pass=seconds, report=report)
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
