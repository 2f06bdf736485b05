"""The figures of a benchmark as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from specmt.evaluation.bench_results import AUTO, GREEDY, Bench, block_of, describe_break_even
from specmt.evaluation.spread import Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot(bench: Bench, picture: Path) -> None:
    """Draws four panels, in the format that the file's name says: what rows cost, acceptance, speed-up by block size
    and by batch size; a panel without figures says so."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 8), layout="constrained")
    measured = {size: bench.speed_ups(size) for size in bench.speed}
    panels = figure.subplots(2, 2).ravel()
    _rows(panels[0], bench)
    _acceptance(panels[1], bench)
    _block_sizes(panels[2], bench, measured)
    _batch_sizes(panels[3], bench, measured)
    for axes in panels:
        if axes.has_data():
            axes.grid(alpha=0.3)
            axes.legend(fontsize="small")
        else:
            axes.text(0.5, 0.5, "not measured", ha="center", va="center", transform=axes.transAxes, color="gray")
    facts = bench.signature
    title = f"{facts['model']}, {facts['dtype']}, threads: {facts['threads']}, {facts['processor']}"
    figure.suptitle(title if bench.complete else f"{title} (partial: stopped before the end)", fontsize="medium")
    figure.savefig(picture, dpi=120)


def _rows(axes: Axes, bench: Bench) -> None:
    for size, calls in bench.verify.items():
        axes.plot(list(calls), [1e3 * seconds for seconds in calls.values()], marker=".", label=f"batch {size}")
    axes.set(title="A verifier call", xlabel="rows a sentence", ylabel="ms", yscale="log")
    axes.yaxis.set_major_formatter("{x:g}")
    _numbered(axes, bench.options.rows)


def _acceptance(axes: Axes, bench: Bench) -> None:
    for values, label, style in (
        (bench.acceptance, f"on {bench.text}", "o-"),
        (bench.calibrated, "by calibration", "s--"),
    ):
        if values:
            axes.plot(range(1, len(values) + 1), values, style, label=label)
    axes.set(title="Drafts accepted, all before them included", xlabel="position in the block", ylabel="share")
    if axes.has_data():
        axes.set_ylim(0, 1)


def _block_sizes(axes: Axes, bench: Bench, measured: dict[int, dict[str, Spread]]) -> None:
    size = min(bench.options.batch_sizes)
    if size in bench.predicted:
        axes.plot(bench.predicted_speed_ups(size), ".-", label="predicted")
    if size in measured:
        ratios = measured[size]
        blocks = {block_of(way): ratio for way, ratio in ratios.items() if way != AUTO}
        low = [ratio.median - ratio.low for ratio in blocks.values()]
        high = [ratio.high - ratio.median for ratio in blocks.values()]
        medians = [ratio.median for ratio in blocks.values()]
        axes.errorbar(list(blocks), medians, yerr=[low, high], fmt="o", capsize=3, label="measured")
        if AUTO in ratios:
            axes.axhline(ratios[AUTO].median, linestyle="--", color="tab:green", label="auto, measured")
    axes.set(title=f"Speed by block size, batch {size}", xlabel="block size", ylabel="times greedy")


def _batch_sizes(axes: Axes, bench: Bench, measured: dict[int, dict[str, Spread]]) -> None:
    points = bench.break_evens()
    ways = [way for way in next(iter(measured.values()), ()) if way != GREEDY]
    for way in ways:
        label = f"{way}: {describe_break_even(points[way], list(measured))}"
        (line,) = axes.plot(list(measured), [ratios[way].median for ratios in measured.values()], ".-", label=label)
        _spread(axes, measured, way, line.get_color())
        _mark(axes, points[way], line.get_color())
    if bench.predicted:
        best = [max(bench.predicted_speed_ups(size)[1:]) for size in bench.predicted]
        label = f"best predicted: {describe_break_even(points['predicted'], list(bench.predicted))}"
        axes.plot(list(bench.predicted), best, ":", color="black", label=label)
        _mark(axes, points["predicted"], "black")
    axes.set(title="Speed by batch size, and where greedy takes over (×)", xlabel="batch size", ylabel="times greedy")
    if axes.has_data():
        axes.axhline(1, color="gray", linewidth=1)
        _numbered(axes, bench.options.batch_sizes)


def _spread(axes: Axes, measured: dict[int, dict[str, Spread]], way: str, colour: Any) -> None:
    low, high = ([getattr(ratios[way], end) for ratios in measured.values()] for end in ("low", "high"))
    axes.fill_between(list(measured), low, high, color=colour, alpha=0.07, linewidth=0)


def _mark(axes: Axes, break_even: float | None, colour: Any) -> None:
    if break_even is not None:
        axes.plot([break_even], [1], marker="x", markersize=10, markeredgewidth=2.5, color=colour)


def _numbered(axes: Axes, numbers: tuple[int, ...]) -> None:
    """Spaces an axis by powers of two, with the numbers that were measured below."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(numbers, [str(number) for number in numbers])
