"""The metrics of a training run as a picture."""

from __future__ import annotations

import json
import math
from pathlib import Path


def plot_metrics(metrics: Path, picture: Path) -> None:
    """Draws the metrics of a run, one panel each, as a PNG file."""
    from matplotlib.figure import Figure

    rows = [json.loads(line) for line in metrics.read_text(encoding="utf-8").splitlines()]
    skipped = {"update", "epoch", "seconds", "tokens", "validation_seconds"}
    names = list(dict.fromkeys(name for row in rows for name in row if name not in skipped))
    figure = Figure(figsize=(4 * min(3, len(names)), 3 * math.ceil(len(names) / 3)), layout="constrained")
    for number, name in enumerate(names, 1):
        axes = figure.add_subplot(math.ceil(len(names) / 3), min(3, len(names)), number)
        points = [(row["update"], row[name]) for row in rows if name in row]
        axes.plot(*zip(*points, strict=True), marker="." if len(points) < 60 else "")
        axes.set(title=name.replace("_", " "), xlabel="update")
        axes.grid(alpha=0.3)
    figure.savefig(picture, dpi=120)
