"""An evaluation as a picture."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from specmt.errors import ModelError
from specmt.evaluation.results import Evaluation, Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def check_matplotlib() -> None:
    """
    :raises ModelError: there is nothing to draw with.
    """
    if find_spec("matplotlib") is None:
        raise ModelError("A picture needs matplotlib, which is absent: `pip install 'specmt[plots]'`.")


def draw(evaluation: Evaluation) -> bytes:
    """Returns a PNG with a row for each test set: speed-up against BLEU, acceptance by position, latencies."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    sets = evaluation.sets
    figure = Figure(figsize=(13, 4.2 * max(1, len(sets))), layout="constrained")
    if evaluation.partial:
        figure.suptitle("partial: interrupted", color="tab:red")
    colours = {label: f"C{number % 10}" for number, label in enumerate(evaluation.strategies)}
    for row, results in enumerate(sets):
        speed_up, acceptance, latency = (figure.add_subplot(len(sets), 3, 3 * row + column) for column in (1, 2, 3))
        _speed_up(speed_up, results, evaluation.baseline, colours)
        for result in results:
            colour = colours[result.strategy]
            for speed, style in ((result.batched, ":"), (result.single, "-")):
                if speed is not None and speed.acceptance:
                    places = range(1, len(speed.acceptance) + 1)
                    label = f"{result.strategy}, batches of {speed.batch_size}"
                    acceptance.plot(places, speed.acceptance, style, marker=".", color=colour, label=label)
            values = sorted(1e3 * value for repeat in result.latencies for value in repeat)
            shares = [(number + 1) / len(values) for number in range(len(values))]
            latency.step(values, shares, where="post", color=colour, label=result.strategy)
        acceptance.set(
            title="acceptance by position", xlabel="drafted tokens", ylabel="share of calls that accept them"
        )
        acceptance.set_ylim(0, 1)
        acceptance.xaxis.set_major_locator(MaxNLocator(integer=True))
        latency.set(title="latency, one at a time", xlabel="ms", ylabel="share of lines at most as slow", xscale="log")
        latency.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        latency.xaxis.set_major_formatter("{x:g}")
        latency.xaxis.set_minor_formatter(NullFormatter())
        for axes in (speed_up, acceptance, latency):
            axes.grid(alpha=0.3)
            if axes.get_legend_handles_labels()[0]:
                axes.legend(fontsize="small")
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110)
    return out.getvalue()


def _speed_up(axes: Axes, results: Sequence[Result], baseline: str, colours: Mapping[str, str]) -> None:
    """One at a time with filled marks, in batches with hollow ones; without BLEU, the first of the other scores."""
    title = next(iter(results[0].scores), "")
    marks = [(result, speed) for result in results for speed in (result.batched, result.single) if title and speed]
    for result, speed in marks:
        ratio = speed.speed_up
        if ratio is None and result.strategy != baseline:
            continue
        middle, low, high = (ratio.median, ratio.low, ratio.high) if ratio else (1.0, 1.0, 1.0)
        score, colour = result.scores[title], colours[result.strategy]
        filled = speed is result.single
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
            label=result.strategy if filled or result.single is None else None,
        )
    axes.set(title=f"{results[0].test_set}: speed-up against {title}", ylabel=title)
    axes.set_xlabel(f"times as fast as {baseline}\n(filled: one at a time, hollow: in batches)")
    axes.axvline(1.0, color="grey", linewidth=0.8)
