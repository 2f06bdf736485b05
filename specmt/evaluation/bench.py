"""What verifying costs on this machine, and what drafting brings, by block size and by batch size."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import cycle, islice
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from specmt.errors import UsageError
from specmt.evaluation import runs
from specmt.evaluation.runs import Run, groups_of, starting
from specmt.evaluation.strategies import Strategy
from specmt.evaluation.timing import Clock, Spread, median_seconds, ratios, spread
from specmt.options import DecodingOptions
from specmt.types import EOS, UNK, Line, Stats

if TYPE_CHECKING:
    from specmt.engine.protocols import Verifier
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

GROUP: Final = 8
"""How many lines all ways are done with, at least, before others are begun where there is little time."""


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

    costs: dict[str, dict[float, float]] = field(default_factory=dict)
    """Seconds of calls of the verifier, by tokens, and how many times as long as expected ways to draft take, by
    sentences, as `AUTO` has it (specmt.decoding.tables)."""

    survival: dict[str, list[float]] = field(default_factory=dict)
    """How often the first 1, 2, … tokens of drafts stand, as it has that, by who drafts, and for what."""

    @property
    def ways(self) -> dict[str, DecodingOptions]:
        """The ways of decoding that are timed."""
        drafter, sizes, plain = self.options.drafter, self.options.block_sizes, DecodingOptions(split=False)
        blocks = {f"k={size}": replace(plain, drafter=drafter, block_size=size) for size in sizes}
        tree = replace(plain, drafter=drafter, tree="best-first", block_size=sizes[-1])
        return {GREEDY: replace(plain, strategy="greedy"), **blocks, TREE: tree, AUTO: plain}

    def take(self, size: int, run: Run) -> None:
        """Takes in what a run found, as far as it came: all ways have as much."""
        from specmt.evaluation.results import acceptance

        lines = [sum(map(len, run.groups[: len(groups)])) for groups in run.seconds if groups]
        if lines:
            self.speeds[size] = {way: ratios(lines, [*map(sum, run.times(way))]) for way in self.ways}
        if run.lines:
            largest = run.translations(f"k={self.options.block_sizes[-1]}")
            self.acceptance = acceptance(sum((each.stats for each in largest), Stats()))

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
    bench: Bench,
    model: Model,
    texts: Sequence[str],
    *,
    seconds_a_pass: float = math.inf,
    report: Callable[[str, float], None] = lambda name, share: None,
    clock: Clock = perf_counter,
) -> None:
    """Fills in the figures.

    :param texts: lines to translate, again and again as needed
    :param seconds_a_pass: after so many, those lines are enough that all ways were done with
    :param report: is told what is being done, and the share of the whole that is
    :raises UsageError: a sentence cannot have so many rows.
    :raises ModelError: the model lacks the drafter.
    """
    from specmt.decoding.session import Session
    from specmt.decoding.tables import median_low
    from specmt.translator import Translator

    sessions: list[Session] = []

    def make() -> Translator:
        sessions.append(Session(model))
        return Translator(model, session=sessions[-1])

    options, ways = bench.options, bench.ways
    _check("rows", options.rows[-1], model.verifier)
    _check("block_sizes", options.block_sizes[-1] + 1, model.verifier)
    counts = {size: max(options.sentences, size) for size in options.batch_sizes}
    whole = len(ways) * ((options.repeats + 1) * sum(counts.values()) + options.sentences * len(counts))
    done = 0
    for size in options.batch_sizes:
        report(f"verifier calls, batch {size}", done / whole)
        bench.calls[size] = call_seconds(model, options, size, clock=clock)
        done += len(ways) * options.sentences
    for size, count in counts.items():
        lines = [Line(number, text) for number, text in enumerate(islice(cycle(texts), count))]
        strategies = [Strategy(way, replace(each, batch_size=size)) for way, each in ways.items()]
        run = Run(strategies, groups_of(lines, count if seconds_a_pass == math.inf else max(size, GROUP)))
        before = done

        def advance(translated: int, size: int = size) -> None:
            nonlocal done
            done += translated
            report(f"decoding, batch {size}", done / whole)

        try:
            report(f"decoding, batch {size}", done / whole)
            runs.measure(
                run, starting(make), options.repeats, seconds_a_pass=seconds_a_pass, clock=clock, report=advance
            )
        finally:
            bench.take(size, run)
        done = before + len(ways) * (options.repeats + 1) * count
    bench.costs = {
        name: {at: median_low(table[at]) for at in sorted(table)} for name, table in model.costs.items() if table
    }
    bench.survival = {name: each for one in sessions for name, each in one.survival.items()}
    bench.partial = False


def call_seconds(
    model: Model, options: BenchOptions, batch_size: int, *, clock: Clock = perf_counter
) -> dict[int, float]:
    """Returns the seconds of verifier calls (B, W) for each number of rows W, after `LENGTH` committed tokens."""
    import numpy as np

    from specmt.engine.window import Window

    verifier = model.verifier
    source = list(range(EOS + 1, EOS + 1 + LENGTH))

    def call(start: int, rows: int) -> None:
        window = Window(np.full((batch_size, rows), UNK), np.full(batch_size, start))
        verifier.score(window, state).row(batch_size - 1, rows - 1)  # waits for the device

    state = verifier.new_state(batch_size)
    verifier.start(state, np.arange(batch_size), verifier.encode([source] * batch_size))
    call(0, LENGTH)
    calls = [lambda rows=rows: call(LENGTH, rows) for rows in options.rows]
    medians = median_seconds(calls, repeats=options.repeats, budget=BUDGET, clock=clock)
    return dict(zip(options.rows, medians, strict=True))


def _check(name: str, rows: int, verifier: Verifier) -> None:
    most = verifier.sizes.max_length - LENGTH
    if rows > most:
        raise UsageError(f"`{name}` must not make more than {most} rows of a sentence here, but makes {rows} instead.")
