"""What commands print on standard output, which may be a terminal with colours or no terminal at all."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

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
