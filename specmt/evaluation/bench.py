"""What verifying costs on this machine, and what drafting brings, by block size and by batch size."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import cycle, islice
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from specmt.errors import UsageError
from specmt.evaluation.timing import Clock, Spread, median_seconds, ratios, spread
from specmt.options import DecodingOptions
from specmt.types import EOS, UNK, Stats

if TYPE_CHECKING:
    from specmt.engine.backend import Verifier
    from specmt.models.hub import Model

GREEDY: Final = "greedy"
TREE: Final = "tree"
AUTO: Final = "auto"

DRAFTERS: Final = ("masked", "autoregressive", "self")
"""Those whose drafts have a block size and cost the same on any text."""

LENGTH: Final = 24
"""Source pieces of the sentences of verifier calls, and the tokens that are committed before the call."""

BUDGET: Final = 0.4
"""Seconds in which verifier calls of one batch size are timed again and again."""


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """What to measure; all numbers are at least 1 and in ascending order."""

    drafter: str = "masked"

    rows: tuple[int, ...] = (1, 2, 4, 8, 16, 24, 32, 64)
    """The rows (tokens that are scored) a sentence of verifier calls, 1 among them."""

    batch_sizes: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)

    block_sizes: tuple[int, ...] = (2, 3, 5, 8)
    """How many tokens are drafted ahead, where the speed of decoding is measured."""

    sentences: int = 64
    """How many are decoded, or as many as a batch has, if that is more; those of the text repeat as needed."""

    repeats: int = 5
    """How often each speed is measured, and each call at least."""


QUICK: Final[dict[str, Any]] = {"rows": (1, 8, 32), "batch_sizes": (1, 8, 32), "block_sizes": (2, 5), "repeats": 2}
"""Options of a run of seconds."""


@dataclass
class Bench:
    """The figures, as far as they are there: the keys of the JSON."""

    options: BenchOptions

    signature: dict[str, object]
    """Everything that the figures depend on, the text aside."""

    text: str
    sentences: int

    load_average: float = field(default_factory=lambda: os.getloadavg()[0])
    """How many processors other work kept busy in the minute before."""

    partial: bool = True

    calls: dict[int, dict[int, float]] = field(default_factory=dict)
    """Seconds of a verifier call, by batch size and rows a sentence."""

    speeds: dict[int, dict[str, list[float]]] = field(default_factory=dict)
    """Sentences a second of each repeat, by batch size and way: `GREEDY`, ``k=`` and a block size, `TREE`, `AUTO`."""

    acceptance: list[float] = field(default_factory=list)
    """For positions 1, 2, …: the share of verifier calls that accepted at least so many tokens of the largest block."""

    @property
    def ways(self) -> dict[str, DecodingOptions]:
        """The ways of decoding that are timed."""
        drafter, sizes = self.options.drafter, self.options.block_sizes
        blocks = {f"k={size}": DecodingOptions(drafter=drafter, block_size=size) for size in sizes}
        tree = DecodingOptions(drafter=drafter, tree="best-first", block_size=sizes[-1])
        return {GREEDY: DecodingOptions(strategy="greedy"), **blocks, TREE: tree, AUTO: DecodingOptions()}

    def added_row(self, batch_size: int) -> float:
        """Returns what a row beyond the first costs on average, in calls of one row a sentence."""
        calls = self.calls[batch_size]
        most = max(calls)
        return (calls[most] / calls[1] - 1) / (most - 1) if most > 1 else 0.0

    def speed_ups(self, batch_size: int) -> dict[str, Spread]:
        """Returns how many times as fast as greedy decoding each way is, repeat by repeat."""
        speeds = self.speeds[batch_size]
        found = {way: spread(ratios(values, speeds[GREEDY])) for way, values in speeds.items()}
        return {way: ratio for way, ratio in found.items() if ratio is not None}

    def fastest(self, batch_size: int, *, fixed: bool = False) -> str:
        """Returns the fastest way.

        :param fixed: whether only chains of a fixed block size count.
        """
        ratios = {way: ratio.median for way, ratio in self.speed_ups(batch_size).items()}
        return max((way for way in ratios if not fixed or way.startswith("k=")), key=ratios.__getitem__)

    def record(self) -> dict[str, Any]:
        """Returns everything as JSON has it."""
        return asdict(self)


def measure(
    bench: Bench, model: Model, sources: Sequence[list[int]], *, clock: Clock = perf_counter
) -> Iterator[tuple[str, float]]:
    """Fills in the figures; yields before each step its name, and the share of the whole that is done.

    :param sources: sentences as ids without EOS
    :raises UsageError: a sentence cannot have so many rows.
    :raises ModelError: the model lacks the drafter.
    """
    options = bench.options
    _check("rows", options.rows[-1], model.verifier)
    _check("block_sizes", options.block_sizes[-1] + 1, model.verifier)
    counts = {size: max(options.sentences, size) for size in options.batch_sizes}
    whole = (options.repeats + 1) * sum(counts.values()) + options.sentences * len(counts)
    done = 0
    for size in options.batch_sizes:
        yield f"verifier calls, batch {size}", done / whole
        bench.calls[size] = call_seconds(model, options, size, clock=clock)
        done += options.sentences
    for size, count in counts.items():
        repeated = list(islice(cycle(sources), count))
        for repeat in range(options.repeats + 1):
            yield f"decoding, batch {size}", done / whole
            found = _speeds(bench, model, repeated, size, clock)
            done += count
            if repeat > 0:  # before that it is warming up
                before = bench.speeds.get(size, {})
                # At once, so that an interrupt leaves all ways with as many repeats.
                bench.speeds[size] = {way: [*before.get(way, ()), speed] for way, speed in found.items()}
    bench.partial = False


def _speeds(
    bench: Bench, model: Model, sources: Sequence[list[int]], batch_size: int, clock: Clock
) -> Mapping[str, float]:
    """Returns sentences a second of each way, one after the other; notes what was accepted."""
    from specmt.decoding.session import decode
    from specmt.evaluation.results import acceptance

    speeds = {}
    for way, options in bench.ways.items():
        started = clock()
        hypotheses = decode(model, sources, replace(options, batch_size=batch_size))
        speeds[way] = len(sources) / (clock() - started)
        if way == f"k={bench.options.block_sizes[-1]}":
            bench.acceptance = acceptance(sum((each.stats for each in hypotheses), Stats()))
    return speeds


def call_seconds(
    model: Model, options: BenchOptions, batch_size: int, *, clock: Clock = perf_counter
) -> dict[int, float]:
    """Returns the seconds of verifier calls (B, W) for each number of rows W, after `LENGTH` committed tokens."""
    import torch

    verifier = model.verifier
    source = list(range(EOS + 1, EOS + 1 + LENGTH))
    device = verifier.device

    def call(start: int, rows: int) -> None:
        tokens = torch.full((batch_size, rows), UNK, device=device)
        logits = verifier.score(tokens, torch.full((batch_size,), start, device=device), state)
        logits[-1, -1, -1].item()  # waits for the device

    with torch.inference_mode(), model.backend.own_threads():
        state = verifier.new_state(batch_size)
        verifier.start(state, torch.arange(batch_size, device=device), verifier.encode([source] * batch_size))
        call(0, LENGTH)
        calls = [lambda rows=rows: call(LENGTH, rows) for rows in options.rows]
        medians = median_seconds(calls, repeats=options.repeats, budget=BUDGET, clock=clock)
    return dict(zip(options.rows, medians, strict=True))


def _check(name: str, rows: int, verifier: Verifier) -> None:
    most = verifier.sizes.max_length - LENGTH
    if rows > most:
        raise UsageError(f"`{name}` must not make more than {most} rows of a sentence here, but makes {rows} instead.")
