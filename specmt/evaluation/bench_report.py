"""The figures of a benchmark as tables and as a picture, of those that are there."""

from __future__ import annotations

import io
import statistics
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from specmt.evaluation.bench import GREEDY, LENGTH, TREE, Bench
from specmt.evaluation.tables import Table
from specmt.evaluation.timing import Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes


MOST_SHOWN: Final = 8
"""How many tokens of drafts are told of."""


def tables(bench: Bench) -> list[Table]:
    """Returns the tables of all figures that are there."""
    makers = ((bench.calls, _calls), (bench.speeds, _speeds), (bench.costs, _costs), (bench.survival, _survival))
    return [make(bench) for there, make in makers if there]


def _calls(bench: Bench) -> Table:
    rows = [(str(rows), *(_milliseconds(calls[rows]) for calls in bench.calls.values())) for rows in bench.options.rows]
    if len(rows) > 1:
        rows.append(("added row", *(f"{bench.added_row(size):.3f}" for size in bench.calls)))
    notes = (
        f"Sentences of {LENGTH} pieces, after {LENGTH} tokens. A row is a position that is scored: the last committed "
        "token, or a draft.",
        "Added row: what each row but the first costs, in calls of one row.",
    )
    return Table("A verifier call, ms, by batch size", ("rows", *map(str, bench.calls)), rows, notes)


def _speeds(bench: Bench) -> Table:
    rows = []
    for size, speeds in bench.speeds.items():
        ratios = [_ratio(ratio) for way, ratio in bench.speed_ups(size).items() if way != GREEDY]
        rows.append((str(size), f"{statistics.median(speeds[GREEDY]):.1f}", *ratios, bench.fastest(size)))
    largest = bench.options.block_sizes[-1]
    accepted = ", ".join(f"{share:.2f}" for share in bench.acceptance)
    notes = [
        f"k: tokens drafted ahead ({bench.options.drafter}); {TREE}: best-first, {largest} deep; auto: what "
        "`specmt translate` does by default.",
        "Medians of repeats taken in turns ± half of their range.",
        *([f"Calls that accept at least 1, 2, … of {largest} drafted tokens: {accepted}."] if accepted else ()),
    ]
    title = f"Speed on {bench.text}: sentences/s of greedy decoding, others times greedy, by batch size"
    return Table(title, ("batch", *bench.ways, "fastest"), rows, notes)


def _costs(bench: Bench) -> Table:
    sizes = sorted({size for table in bench.costs.values() for size in table})
    rows = []
    for name, table in bench.costs.items():
        kind, _, way = name.partition(", ")
        cells = {size: f"{each:.2f}" if way else _milliseconds(each) for size, each in table.items()}
        rows.append((f"{way} ({kind})" if way else kind, *(cells.get(size, "") for size in sizes)))
    notes = (
        "Calls of the verifier, ms, by tokens; below, how many times as long as expected ways to draft take, by "
        "sentences side by side.",
    )
    return Table("What calls cost, as auto has it", ("", *(f"{size:g}" for size in sizes)), rows, notes)


def _survival(bench: Bench) -> Table:
    places = range(1, MOST_SHOWN + 1)
    rows = [(name, *(f"{share:.2f}" for share in shares[:MOST_SHOWN])) for name, shares in bench.survival.items()]
    return Table("How often so many drafted tokens stand, as auto has it", ("", *map(str, places)), rows)


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.2f}" if seconds < 0.1 else f"{1e3 * seconds:.0f}"


def _ratio(ratio: Spread) -> str:
    return f"{ratio.median:.2f} ±{(ratio.high - ratio.low) / 2:.2f}"


def draw(bench: Bench, kind: str) -> bytes:
    """Returns a picture of what rows cost, and of speed-up by block size and by batch size.

    :param kind: png, svg or pdf
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 4.5), layout="constrained")
    calls, blocks, batches = figure.subplots(1, 3)
    for size, seconds in bench.calls.items():
        calls.plot(list(seconds), [1e3 * each for each in seconds.values()], marker=".", label=f"batch {size}")
    ratios = {size: bench.speed_ups(size) for size in bench.speeds}
    for size, ways in ratios.items():
        fixed = {0: ways[GREEDY]} | {int(way[2:]): ratio for way, ratio in ways.items() if way.startswith("k=")}
        _line(blocks, fixed, f"batch {size}")
    for way in bench.ways:
        if ratios and way != GREEDY:
            _line(batches, {size: ways[way] for size, ways in ratios.items()}, way)
    calls.set(title="A verifier call", xlabel="rows a sentence", ylabel="ms", yscale="log")
    blocks.set(title="Speed by block size", xlabel="block size (0: greedy)", ylabel="times greedy")
    batches.set(title="Speed by batch size", xlabel="batch size", ylabel="times greedy", xscale="log")
    calls.yaxis.set_major_formatter("{x:g}")
    calls.yaxis.set_minor_formatter("{x:g}")
    batches.set_xticks(list(ratios), [str(size) for size in ratios], minor=False)
    batches.minorticks_off()
    for panel in (calls, blocks, batches):
        panel.grid(alpha=0.3)
        if panel.has_data():
            panel.legend(fontsize="small")
    facts = ", ".join(f"{bench.signature.get(name)}" for name in ("model", "dtype", "processor"))
    figure.suptitle(f"{facts} (partial: stopped before the end)" if bench.partial else facts, fontsize="medium")
    out = io.BytesIO()
    figure.savefig(out, format=kind, dpi=120)
    return out.getvalue()


def _line(axes: Axes, points: Mapping[int, Spread], label: str) -> None:
    places = list(points)
    (line,) = axes.plot(places, [ratio.median for ratio in points.values()], ".-", label=label)
    low, high = ([getattr(ratio, end) for ratio in points.values()] for end in ("low", "high"))
    axes.fill_between(places, low, high, color=line.get_color(), alpha=0.08, linewidth=0)
