"""What a benchmark of this machine finds, and what follows from it; this module needs no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from specmt.errors import UsageError
from specmt.evaluation.spread import Spread, spread

GREEDY: Final = "greedy"
AUTO: Final = "auto"

DRAFTERS: Final = ("masked", "autoregressive", "self")
"""Those whose drafts have a block size and cost the same on any text."""


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """What to measure.

    :raises UsageError: a value is out of range.
    """

    drafter: str = "masked"

    rows: tuple[int, ...] = (1, 2, 4, 8, 16, 24, 32, 64)
    """The rows a sentence of verifier calls."""

    batch_sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)

    block_sizes: tuple[int, ...] | None = None
    """Those whose speed is measured; by default a few up to the drafter's own."""

    repeats: int = 5
    """How often each speed is measured, and each call at least."""

    def __post_init__(self) -> None:
        if self.drafter not in DRAFTERS:
            raise UsageError(f"`drafter` must be one of {', '.join(DRAFTERS)}, but is {self.drafter!r} instead.")
        for name in ("rows", "batch_sizes", "block_sizes"):
            values = getattr(self, name)
            if values is None:
                continue
            if not values:
                raise UsageError(f"`{name}` must name at least one number, but is empty instead.")
            if min(values) < 1:
                raise UsageError(f"`{name}` must be at least 1, but is {min(values)} instead.")
            # A ratio to a step of one row needs that step.
            first = (1,) if name == "rows" else ()
            object.__setattr__(self, name, tuple(sorted({*first, *values})))
        if self.repeats < 1:
            raise UsageError(f"`repeats` must be at least 1, but is {self.repeats} instead.")


QUICK: Final[dict[str, Any]] = {"rows": (1, 8, 32), "batch_sizes": (1, 8, 32), "block_sizes": (2, 5), "repeats": 2}
"""Options of a run of seconds."""


@dataclass
class Bench:
    """Figures by batch size, as far as they are there; times in seconds."""

    options: BenchOptions

    signature: dict[str, object]
    """Everything that the figures depend on, the text aside."""

    text: str | None = None
    """The name of the text; ``None`` if no text was decoded."""

    sentences: int = 0
    """The sentences of the text."""

    tokens: int = 0
    """The tokens of its translations, ends of sentences included."""

    load: float = 0.0
    """How many processors other work kept busy in the minute before."""

    complete: bool = False

    verify: dict[int, dict[int, float]] = field(default_factory=dict)
    """Of one verifier call, by batch size and rows a sentence."""

    encode: dict[int, float] = field(default_factory=dict)
    """Of encoding as many sentences as a batch has."""

    draft: dict[int, dict[int, float]] = field(default_factory=dict)
    """Of drafting, by batch size and block size."""

    acceptance: list[float] = field(default_factory=list)
    """How often the first 1 … K tokens of a block were all accepted on the text."""

    calibrated: list[float] = field(default_factory=list)
    """The same as the model's calibration foretells; empty if it has none."""

    passes: int = 0
    """Passes over sentences that acceptance was counted in."""

    predicted: dict[int, list[float]] = field(default_factory=dict)
    """Tokens a second with blocks of 0 … K, from acceptance on the text and what calls cost."""

    expected: dict[int, int] = field(default_factory=dict)
    """The best block size by calibration and what calls cost: what ``auto`` reckons with at first."""

    speed: dict[int, dict[str, list[float]]] = field(default_factory=dict)
    """Sentences a second of each repeat, by batch size and way: `GREEDY`, `way_of` block sizes, `AUTO`."""

    def added_row(self, batch_size: int, rows: int) -> float:
        """Returns what a row beyond the first costs on average, in calls of one row a sentence."""
        calls = self.verify[batch_size]
        return (calls[rows] / calls[1] - 1) / (rows - 1)

    def speed_ups(self, batch_size: int) -> dict[str, Spread]:
        """Returns how many times as fast as greedy decoding each way is, repeat by repeat."""
        speeds = self.speed[batch_size]
        return {
            way: spread([one / other for one, other in zip(values, speeds[GREEDY], strict=True)])
            for way, values in speeds.items()
        }

    def predicted_speed_ups(self, batch_size: int) -> list[float]:
        """Returns how many times as fast as greedy decoding blocks of 0 … K should be."""
        tokens = self.predicted[batch_size]
        return [value / tokens[0] for value in tokens]

    def best_predicted(self, batch_size: int) -> int:
        """Returns the block size of the best prediction; 0 is greedy decoding."""
        tokens = self.predicted[batch_size]
        return tokens.index(max(tokens))

    def best_measured(self, batch_size: int) -> int:
        """Returns the fastest block size of those measured; 0 is greedy decoding."""
        fixed = {block_of(way): ratio.median for way, ratio in self.speed_ups(batch_size).items() if way != AUTO}
        return max(fixed, key=lambda size: fixed[size])

    def break_evens(self) -> dict[str, float | None]:
        """Returns from which batch size on greedy decoding is faster than each way (`break_even`).

        ``predicted`` is the best block size of each batch by prediction.
        """
        points: dict[str, dict[int, float]] = {}
        for size in self.speed:
            for way, ratio in self.speed_ups(size).items():
                if way != GREEDY:
                    points.setdefault(way, {})[size] = ratio.median
        if self.predicted:
            points["predicted"] = {size: max(self.predicted_speed_ups(size)[1:]) for size in self.predicted}
        return {way: break_even(ratios) for way, ratios in points.items()}


def way_of(block_size: int) -> str:
    """Returns the name of decoding with a block size."""
    return f"k={block_size}" if block_size else GREEDY


def block_of(way: str) -> int:
    """Returns the block size of a way that has a fixed one; 0 is greedy decoding."""
    return 0 if way == GREEDY else int(way.removeprefix("k="))


def default_blocks(largest: int) -> tuple[int, ...]:
    """Returns a few block sizes up to a largest one."""
    return tuple(size for size in (1, 2, 3, 5, 8, 13, 21, 34) if size <= largest)


def break_even(ratios: Mapping[int, float]) -> float | None:
    """Returns the batch size from which on a way is slower than greedy decoding; ``None`` if it never is.

    Between two batch sizes the ratio is taken to change evenly with the logarithm. Where it is slower from the first
    one on, that is returned.

    :param ratios: speed in times greedy decoding, by batch size
    """
    sizes = sorted(ratios)
    slower = len(sizes)
    while slower > 0 and ratios[sizes[slower - 1]] < 1:
        slower -= 1
    if slower == len(sizes):
        return None
    if slower == 0:
        return float(sizes[0])
    before, after = sizes[slower - 1], sizes[slower]
    share = (ratios[before] - 1) / (ratios[before] - ratios[after])
    return float(math.exp(math.log(before) + share * math.log(after / before)))


def describe_break_even(batch_size: float | None, sizes: Sequence[int]) -> str:
    """Returns a break-even point in words.

    :param sizes: the batch sizes that were measured
    """
    if batch_size is None:
        return f"none up to {max(sizes)}"
    return f"already at {min(sizes)}" if batch_size == min(sizes) else f"{batch_size:.1f}"


def record(bench: Bench) -> dict[str, Any]:
    """Returns all figures as JSON can hold them."""
    return {
        "partial": not bench.complete,
        "signature": bench.signature,
        "load_average": bench.load,
        "options": asdict(bench.options),
        "text": None
        if bench.text is None
        else {"name": bench.text, "sentences": bench.sentences, "tokens": bench.tokens},
        "verify": [
            {"batch_size": size, "rows": rows, "ms": 1e3 * seconds}
            | {"added_row": None if rows == 1 else bench.added_row(size, rows)}
            for size, calls in bench.verify.items()
            for rows, seconds in calls.items()
        ],
        "encode": [{"batch_size": size, "ms": 1e3 * seconds} for size, seconds in bench.encode.items()],
        "draft": [
            {"batch_size": size, "block_size": block, "ms": 1e3 * seconds}
            for size, calls in bench.draft.items()
            for block, seconds in calls.items()
        ],
        "acceptance": {
            "passes": bench.passes,
            "measured": bench.acceptance or None,
            "calibrated": bench.calibrated or None,
        },
        "predicted": [
            {
                "batch_size": size,
                "tokens_per_second": tokens,
                "speed_up": bench.predicted_speed_ups(size),
                "best_block_size": bench.best_predicted(size),
                "best_block_size_by_calibration": bench.expected.get(size),
            }
            for size, tokens in bench.predicted.items()
        ],
        "measured": [
            {
                "batch_size": size,
                "best_block_size": bench.best_measured(size),
                "ways": {
                    way: {
                        "sentences_per_second": bench.speed[size][way],
                        "speed_up": ratio.median,
                        "speed_up_range": [ratio.low, ratio.high],
                    }
                    for way, ratio in bench.speed_ups(size).items()
                },
            }
            for size in bench.speed
        ],
        "break_even": bench.break_evens(),
    }
