"""The figures of a benchmark as tables, of those that are there."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import TypeVar

from specmt.evaluation.bench_results import AUTO, GREEDY, Bench, describe_break_even, way_of
from specmt.evaluation.spread import Spread
from specmt.evaluation.tables import Table

K = TypeVar("K")
T = TypeVar("T")


def tables(bench: Bench) -> list[Table]:
    """Returns the tables of all figures that are there."""
    makers = (
        (bench.verify, _verify),
        (bench.verify and len(bench.options.rows) > 1, _added_rows),
        (bench.draft, _draft),
        (bench.acceptance, _acceptance),
        (bench.predicted, _predicted),
        (bench.speed, _measured),
        (bench.predicted, _best),
    )
    return [make(bench) for there, make in makers if there]


def _verify(bench: Bench) -> Table:
    return _by_batch(
        "A verifier call, ms",
        "rows",
        bench.verify,
        _milliseconds,
        notes=[
            "Sentences of 24 pieces, after 24 tokens.",
            "A row is a position of a sentence that is scored: the last token, or a draft.",
        ],
    )


def _added_rows(bench: Bench) -> Table:
    rows = {size: {row: bench.added_row(size, row) for row in calls if row > 1} for size, calls in bench.verify.items()}
    return _by_batch(
        "What an added row costs, in calls of one row",
        "rows",
        rows,
        lambda cost: f"{cost:.3f}",
        notes=["The mean of all rows but the first; 1 would be as dear as a call of its own."],
    )


def _draft(bench: Bench) -> Table:
    values = {
        size: {**{str(block): seconds for block, seconds in drafts.items()}, "encoder": bench.encode[size]}
        for size, drafts in bench.draft.items()
    }
    title = f"Drafting ({bench.options.drafter}), and encoding a batch, ms"
    return _by_batch(title, "block size", values, _milliseconds)


def _acceptance(bench: Bench) -> Table:
    rows = []
    for place, measured in enumerate(bench.acceptance):
        foretold = bench.calibrated[place : place + 1]
        rows.append((str(place + 1), f"{measured:.3f}", "".join(f"{value:.3f}" for value in foretold)))
    length = 1 + sum(bench.acceptance)
    return Table(
        "Acceptance by position: how often all drafts up to it are accepted",
        ("position", f"on {bench.text}", "by calibration"),
        rows,
        notes=[f"{bench.passes} passes over {bench.sentences} sentences; up to {length:.2f} tokens a verifier call."],
    )


def _predicted(bench: Bench) -> Table:
    return _by_batch(
        "Predicted tokens/s",
        "block size",
        {size: dict(enumerate(tokens)) for size, tokens in bench.predicted.items()},
        lambda tokens: f"{tokens:.0f}",
        notes=["From acceptance on the text and what calls cost, the encoder's too. Block size 0 is greedy decoding."],
    )


def _measured(bench: Bench) -> Table:
    there = {size: bench.speed_ups(size) for size in bench.speed}
    ways = [way for way in next(iter(there.values())) if way != GREEDY]
    rows = []
    for size, ratios in there.items():
        greedy = statistics.median(bench.speed[size][GREEDY])
        rows.append((str(size), f"{greedy:.1f}", *(_ratio(ratios[way]) for way in ways)))
    points = bench.break_evens()
    sizes = list(there)
    rows.append(("even at", "", *(describe_break_even(points[way], sizes) for way in ways)))
    return Table(
        "Measured speed: sentences/s of greedy decoding, others times greedy",
        ("batch", GREEDY, *ways),
        rows,
        notes=[
            "Medians of repeats taken in turns ± half of their range.",
            "Even at: the break-even point, the batch size from which greedy decoding is faster.",
        ],
    )


def _best(bench: Bench) -> Table:
    rows = []
    for size in bench.predicted:
        best = bench.best_predicted(size)
        expected = bench.expected.get(size)
        measured = auto = ""
        if size in bench.speed:
            ratios = bench.speed_ups(size)
            fastest = bench.best_measured(size)
            measured = f"{fastest} ({ratios[way_of(fastest)].median:.2f})"
            auto = f"{ratios[AUTO].median:.2f}" if AUTO in ratios else ""
        foretold = f"{best} ({bench.predicted_speed_ups(size)[best]:.2f})"
        rows.append((str(size), "" if expected is None else str(expected), foretold, measured, auto))
    predicted = describe_break_even(bench.break_evens()["predicted"], list(bench.predicted))
    return Table(
        "The best block size (times greedy)",
        ("batch", "by calibration", "predicted", "measured", "auto"),
        rows,
        notes=[f"0 is greedy decoding. Predicted break-even: {predicted}."],
    )


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.2f}" if seconds < 0.1 else f"{1e3 * seconds:.0f}"


def _ratio(ratio: Spread) -> str:
    return f"{ratio.median:.2f} ±{(ratio.high - ratio.low) / 2:.2f}"


def _by_batch(
    title: str,
    name: str,
    values: Mapping[int, Mapping[K, T]],
    cell: Callable[[T], str],
    notes: list[str] | None = None,
) -> Table:
    """Returns a table with a column for each batch size, as narrow as a terminal."""
    keys = next(iter(values.values()))
    rows = [(str(key), *(cell(column[key]) for column in values.values())) for key in keys]
    return Table(f"{title}, by batch size", (name, *map(str, values)), rows, notes=notes or ())
