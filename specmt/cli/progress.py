"""Progress on stderr, for terminals only."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from specmt.text.lines import Windows

_BAR_AFTER: Final = 1.0


@contextmanager
def spinner(text: str) -> Iterator[Callable[[str], None]]:
    """Shows a spinner with a changing text while the block runs; yields the function that changes the text."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status(text) as status:
        yield lambda message: status.update(message)


@contextmanager
def metrics_bar(total: int, *, quiet: bool = False) -> Iterator[Callable[[dict[str, float]], None]]:
    """Yields a function that takes metrics with the key ``update``: a bar on a terminal, plain lines elsewhere."""
    if quiet:
        yield lambda _: None
    elif not sys.stderr.isatty():
        yield lambda metrics: print(_format(metrics), file=sys.stderr, flush=True)
    else:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
        with Progress(*columns, console=Console(stderr=True)) as progress:
            task = progress.add_task("", total=total)

            def report(metrics: dict[str, float]) -> None:
                progress.update(task, completed=metrics["update"], description=_format(metrics))

            yield report


@contextmanager
def counting_bar(text: str) -> Iterator[Callable[[int, int], None]]:
    """Yields a function that takes how much is done and how much there is."""
    if not sys.stderr.isatty():
        yield lambda done, total: print(f"{text}: {done}/{total}", file=sys.stderr, flush=True)
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task(text, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@contextmanager
def share_bar(*, enabled: bool) -> Iterator[Callable[[str, float], None]]:
    """Yields a function that takes what comes next and the share of the whole that is done, and shows the time left."""
    if not enabled:
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=1.0)
        yield lambda name, share: progress.update(task, completed=share, description=name)


@contextmanager
def line_bar(windows: Windows, *, enabled: bool) -> Iterator[Callable[[int], None]]:
    """Yields a function that takes how many lines are done: a bar that shows up once the work has taken a second."""
    if not enabled:
        yield lambda _: None
        return
    show_at = time.perf_counter() + _BAR_AFTER
    with ExitStack() as stack:
        update: Callable[[int], None] | None = None

        def show(lines: int) -> None:
            nonlocal update
            if update is None and time.perf_counter() >= show_at:
                update = stack.enter_context(_shown_line_bar(windows))
            if update is not None:
                update(lines)

        yield show


@contextmanager
def rate_bar(total: int, *, enabled: bool) -> Iterator[Callable[[int], None]]:
    """Yields a function that takes how many more lines are done: a bar with lines a second and the time left."""
    if not enabled:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[rate]} lines/s"), TimeRemainingColumn())
    started = time.perf_counter()
    with Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=120) as progress:
        task = progress.add_task("", total=total, rate="")

        def advance(lines: int) -> None:
            done = progress.tasks[0].completed + lines
            progress.update(task, completed=done, rate=f"{done / (time.perf_counter() - started):.1f}")

        yield advance


@contextmanager
def _shown_line_bar(windows: Windows) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.fields[lines]} lines"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=windows.size, lines=0)
        yield lambda lines: progress.update(task, completed=windows.position, lines=lines)


def _format(metrics: dict[str, float]) -> str:
    shown = {name: value for name, value in metrics.items() if name not in ("epoch", "tokens")}
    return "  ".join(f"{name} {value:.6g}" for name, value in shown.items())
