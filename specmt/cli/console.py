"""What commands print: on standard output, which may be a terminal with colours or none, and notes on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console


def printed(write: Callable[[Console], object], *, width: int | None = 120) -> str:
    """Returns what is written to a console, without spaces at the ends of lines.

    :param width: characters in a line where there is no terminal; ``None``: as the environment says
    """
    from rich.console import Console

    console = Console(highlight=False, width=None if sys.stdout.isatty() else width)
    with console.capture() as capture:
        write(console)
    return "\n".join(line.rstrip(" ") for line in capture.get().split("\n"))


def note(message: str) -> None:
    """Writes a note to standard error."""
    click.echo(f"specmt: note: {message}", err=True)


def missing_kernels(model: Any) -> str | None:
    """Returns what to tell of a loaded model that could use the C++ kernels, if only they were there."""
    from specmt.engine import library

    reason = library.why_absent()
    if not reason or model.device != "cpu" or model.dtype not in ("float32", "bfloat16"):
        return None
    return f"PyTorch computes, 4 to 8 times slower than the C++ kernels, because {reason}."
