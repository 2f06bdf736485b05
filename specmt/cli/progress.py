"""Progress on stderr, for terminals only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

from specmt import signals

if TYPE_CHECKING:
    from rich.progress import Progress

    from specmt.text.lines import Lines

_BAR_AFTER: Final = 1.0
"""Seconds before the bar of `specmt translate` shows up."""

_UPDATE_EVERY: Final = 0.1
_RESET: Final = b"\r\x1b[2K\x1b[?25h"
"""Clears the line and shows the cursor, for a terminal that a signal leaves in the middle of a bar."""


@contextmanager
def spinner(text: str) -> Iterator[Callable[[str], None]]:
    """Shows a spinner with a changing text while the block runs; yields the function that changes the text."""
    if not _has_terminal():
        yield lambda _: None
        return
    from rich.console import Console

    with _resetting(), Console(stderr=True).status(text) as status:
        yield status.update


@contextmanager
def metrics_bar(total: int, *, quiet: bool = False) -> Iterator[Callable[[dict[str, float]], None]]:
    """Yields a function that takes metrics with the key ``update``: a bar on a terminal, plain lines elsewhere."""
    if quiet:
        yield lambda _: None
    elif not _has_terminal():
        yield lambda metrics: print(_format(metrics), file=sys.stderr, flush=True)
    else:
        with _bar("bar", "count", "left", "{task.description}", transient=False) as progress:
            task = progress.add_task("", total=total)
            yield lambda metrics: progress.update(task, completed=metrics["update"], description=_format(metrics))


@contextmanager
def counting_bar(text: str) -> Iterator[Callable[[int, int], None]]:
    """Yields a function that takes how much is done and how much there is."""
    if not _has_terminal():
        yield lambda done, total: print(f"{text}: {done}/{total}", file=sys.stderr, flush=True)
        return
    with _bar("{task.description}", "bar", "share", "left", transient=False) as progress:
        task = progress.add_task(text, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def share_bar(*, quiet: bool = False) -> Iterator[Callable[[str, float], None]]:
    """Yields a function that takes what comes next and the share of the whole that is done, and shows the time left."""
    if quiet or not _has_terminal():
        yield lambda *_: None
        return
    with _bar("bar", "share", "left", "{task.description}") as progress:
        task = progress.add_task("", total=1.0)
        yield lambda name, share: progress.update(task, completed=share, description=name)


@contextmanager
def rate_bar(total: int, *, before: int = 0, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """Yields a function that takes how many more lines are done: a bar with lines a second and the time left.

    :param before: how many of the lines were done before
    """
    if quiet or not _has_terminal():
        yield lambda _: None
        return
    started = time.perf_counter()
    with _bar("bar", "share", "{task.fields[rate]} lines/s", "left", speed_estimate_period=120) as progress:
        task = progress.add_task("", total=total, completed=before, rate="")

        def advance(lines: int) -> None:
            done = progress.tasks[0].completed + lines
            progress.update(task, completed=done, rate=f"{(done - before) / (time.perf_counter() - started):.1f}")

        yield advance


@contextmanager
def line_bar(lines: Lines, *, enabled: bool) -> Iterator[Callable[[int], None]]:
    """Yields a function that takes how many lines are done: a bar that shows up once the work has taken a second."""
    if not enabled:
        yield lambda _: None
        return
    show_at = time.perf_counter() + _BAR_AFTER
    with ExitStack() as stack:
        bar: Progress | None = None

        def show(done: int) -> None:
            nonlocal bar, show_at
            now = time.perf_counter()
            if now < show_at:
                return
            show_at = now + _UPDATE_EVERY
            if bar is None:
                bar = stack.enter_context(_bar("{task.fields[lines]} lines", "bar", "share", "elapsed"))
                bar.add_task("", total=lines.size, lines=0)
            bar.update(bar.task_ids[0], completed=lines.position, lines=done)

        yield show


def _has_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def _bar(*columns: str, transient: bool = True, **options: Any) -> Iterator[Progress]:
    """Shows a bar.

    :param columns: names of columns, or what texts are made of
    """
    from rich import progress
    from rich.console import Console

    known: dict[str, Callable[[], progress.ProgressColumn]] = {
        "bar": progress.BarColumn,
        "count": progress.MofNCompleteColumn,
        "share": progress.TaskProgressColumn,
        "elapsed": progress.TimeElapsedColumn,
        "left": progress.TimeRemainingColumn,
    }
    made = [known[name]() if name in known else progress.TextColumn(name) for name in columns]
    console = Console(stderr=True)
    with _resetting(), progress.Progress(*made, console=console, transient=transient, **options) as bar:
        yield bar


@contextmanager
def _resetting() -> Iterator[None]:
    """Has a signal put the terminal in order."""
    signals.set_reset(_RESET)
    try:
        yield
    finally:
        signals.set_reset(b"")


def _format(metrics: dict[str, float]) -> str:
    shown = {name: value for name, value in metrics.items() if name not in ("epoch", "tokens")}
    return "  ".join(f"{name} {value:.6g}" for name, value in shown.items())
