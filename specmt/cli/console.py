"""What commands print: on standard output, which may be a terminal with colours or none, and notes on stderr."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specmt.errors import DataError
from specmt.types import Stats

if TYPE_CHECKING:
    from rich.console import Console

    from specmt.models.hub import Model


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


def warn(name: str, index: int, message: str) -> None:
    """Writes a warning of a line to standard error.

    :param index: the line's position in the input, from 0
    """
    click.echo(f"specmt: warning: {name}:{index + 1}: {message}", err=True)


def check_warnings(total: Stats) -> None:
    """
    :raises DataError: the check warned.
    """
    if total.warnings:
        raise DataError(f"the check has {total.warnings} warning{'s' * (total.warnings > 1)}; the output is written.")


def load(name: str | Path | None, *, quiet: bool = False, **loading: Any) -> Model:
    """Loads a model (`specmt.models.hub.load_model`), with a note where the kernels are missing."""
    from specmt.models.hub import load_model

    model = load_model(name, **loading)
    if not quiet and (missing := missing_kernels(model)) is not None:
        note(missing)
    return model


def missing_kernels(model: Any) -> str | None:
    """Returns what to tell of a loaded model that could use the C++ kernels, if only they were there."""
    from specmt.engine.kernels import library

    reason = library.why_absent()
    if not reason or model.device != "cpu" or model.dtype not in ("float32", "bfloat16"):
        return None
    return f"PyTorch computes, 4 to 8 times slower than the C++ kernels, because {reason}."


def show_warnings(*, quiet: bool) -> None:
    """Sends what the library warns of to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("specmt: warning: %(message)s"))
    logger = logging.getLogger("specmt")
    logger.handlers = [handler]
    logger.propagate = False
    logger.setLevel(logging.ERROR if quiet else logging.WARNING)
