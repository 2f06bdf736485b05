"""An evaluation as a picture."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from specmt.evaluation.report import by_set
from specmt.evaluation.results import Evaluation, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw(evaluation: Evaluation) -> bytes:
    """Returns a PNG with a row for each test set: speed-up against BLEU, acceptance by position, latencies."""
    from matplotlib.figure import Figure

    sets = by_set(evaluation)
    figure = Figure(figsize=(13, 4.2 * max(1, len(sets))), layout="constrained")
    if evaluation.partial:
        figure.suptitle("partial: interrupted", color="tab:red")
    colours = {label: f"C{number % 10}" for number, label in enumerate(evaluation.strategies)}
    for row, results in enumerate(sets):
        panels = [figure.add_subplot(len(sets), 3, 3 * row + column) for column in (1, 2, 3)]
        _speed_up(panels[0], results, evaluation.baseline, colours)
        _acceptance(panels[1], results, colours)
        _latency(panels[2], results, colours)
        for axes in panels:
            axes.grid(alpha=0.3)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110)
    return out.getvalue()


def _speed_up(axes: Axes, results: Sequence[Result], baseline: str, colours: dict[str, str]) -> None:
    """One at a time with filled marks, in batches with hollow ones; without BLEU, the first of the other scores."""
    title = next(iter(results[0].scores), None)
    for result in results:
        if title is None:
            continue
        score, colour = result.scores[title], colours[result.strategy]
        for speed, filled in ((result.batched, False), (result.single, True)):
            ratio = None if speed is None else speed.speed_up
            if ratio is None and result.strategy != baseline:
                continue
            middle, low, high = (ratio.median, ratio.low, ratio.high) if ratio else (1.0, 1.0, 1.0)
            axes.errorbar(
                [middle],
                [score.value],
                xerr=[[middle - low], [high - middle]],
                yerr=score.interval,
                elinewidth=0.6,
                fmt="o",
                color=colour,
                markerfacecolor=colour if filled else "white",
                capsize=3,
                label=result.strategy if filled or results[0].single is None else None,
            )
    sizes = ", ".join(sorted({str(result.batched.batch_size) for result in results}))
    axes.set(
        title=f"{results[0].test_set}: speed-up against {title}",
        xlabel=f"times as fast as {baseline}\n(filled: one at a time, hollow: batches of {sizes})",
        ylabel=title or "",
    )
    axes.axvline(1.0, color="grey", linewidth=0.8)
    _legend(axes)


def _acceptance(axes: Axes, results: Sequence[Result], colours: dict[str, str]) -> None:
    from matplotlib.ticker import MaxNLocator

    for result in results:
        for speed, style in ((result.batched, ":"), (result.single, "-")):
            if speed is not None and speed.acceptance:
                places = range(1, len(speed.acceptance) + 1)
                way = "one at a time" if speed is result.single else f"batches of {speed.batch_size}"
                label = f"{result.strategy}, {way}"
                axes.plot(places, speed.acceptance, style, marker=".", color=colours[result.strategy], label=label)
    axes.set(title="acceptance by position", xlabel="tokens ahead", ylabel="share of drafts accepted", ylim=(0, 1))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _legend(axes)


def _latency(axes: Axes, results: Sequence[Result], colours: dict[str, str]) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    for result in results:
        values = sorted(1e3 * value for repeat in result.latencies for value in repeat)
        if values:
            shares = [(number + 1) / len(values) for number in range(len(values))]
            axes.step(values, shares, where="post", color=colours[result.strategy], label=result.strategy)
    axes.set(title="latency, one at a time", xlabel="ms", ylabel="share of lines at most as slow", xscale="log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    _legend(axes)


def _legend(axes: Axes) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize="small")
