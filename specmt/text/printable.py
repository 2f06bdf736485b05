"""Text of strangers as a terminal may see it, and names of files."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_CONTROL_IN_LINES: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def printable(text: str, *, lines: bool = False) -> str:
    r"""Returns a text with control characters (C0, C1, DEL) and lone surrogates shown as ``\x1b``.

    :param lines: whether line feeds and tabs stay
    """
    return (_CONTROL_IN_LINES if lines else _CONTROL).sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    # A lone surrogate stands for a byte of a file name that is no UTF-8.
    return f"\\x{ord(found[0]) & 0xFF:02x}"


def shown(path: Path) -> str:
    """Returns how a file is named: from where the user is, if it is below."""
    near = Path(os.path.relpath(path)).as_posix()
    return path.as_posix() if near.startswith("../") else near
