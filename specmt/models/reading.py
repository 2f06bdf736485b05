"""Reads files that a stranger may have made: regular ones only, and nothing in them is trusted.

What is missing, too large or not what it should be raises `ModelError`.
"""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any, Final

from specmt.errors import ModelError
from specmt.text.printable import printable

MOST_JSON: Final = 1 << 28
"""The most bytes of a JSON file; a vocabulary of 256,000 pieces has 7 million."""


def check_regular(path: Path) -> Path:
    """Returns a path after checking that it is a regular file: a FIFO would wait for ever, a device has no end."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a FIFO, a device or the like"
        raise ModelError(f"{path}: must be a regular file, but is {kind} instead.")
    return path


def read_bytes(path: Path, *, most: int = MOST_JSON) -> bytes:
    """Returns what is in a regular file.

    :param most: the most bytes that it may have
    """
    try:
        size = check_regular(path).stat().st_size
        if size > most:
            raise ModelError(f"{path}: must have at most {most:,} bytes, but has {size:,} instead.")
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error


def read_text(path: Path) -> str:
    """Returns the text of a regular file in UTF-8."""
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise unreadable(path, error) from error


def read_json(path: Path, *, most: int = MOST_JSON) -> dict[str, Any]:
    """Returns the object in a JSON file.

    :param most: the most bytes that it may have
    """
    data = read_bytes(path, most=most)
    try:
        record = json.loads(data.decode())
    except RecursionError as error:
        raise ModelError(f"{path}: is not valid JSON (it is nested too deeply).") from error
    except ValueError as error:
        raise ModelError(f"{path}: is not valid JSON ({printable(str(error))}).") from error
    if not isinstance(record, dict):
        raise ModelError(f"{path}: must hold an object, but holds a {type(record).__name__} instead.")
    return record


def unreadable(path: Path, error: Exception) -> ModelError:
    """Returns what to raise where a file cannot be read."""
    said = error.strerror if isinstance(error, OSError) else error
    return ModelError(f"{path}: cannot be read ({said}); the model needs it.")
