"""Exceptions that carry the exit code of DESIGN §6, so that the command line needs no table."""

from __future__ import annotations

import errno
import re
from typing import Final

_EXHAUSTED: Final = re.compile("(?i)can(no|')t allocate memory|out of memory|failed to map segment|bad_alloc")


class SpecmtError(Exception):
    """A failure that the user is told about in one line."""

    exit_code = 1


class UsageError(SpecmtError):
    """An option or argument has an impossible value."""

    exit_code = 2


class DataError(SpecmtError):
    """The input is not what it should be: bad UTF-8, line counts that differ."""

    exit_code = 65


class InputNotFoundError(SpecmtError):
    """An input file does not exist or cannot be opened."""

    exit_code = 66


class ModelError(SpecmtError):
    """A model is missing, damaged or lacks a part that was asked for."""

    exit_code = 69


class OutputError(SpecmtError):
    """Writing failed."""

    exit_code = 74


def is_out_of_memory(error: BaseException) -> bool:
    """Returns whether an error, or one that it was raised from, says that no memory is left, on whichever device.

    Libraries say so each in its own words.
    """
    if error.__cause__ is not None and is_out_of_memory(error.__cause__):
        return True
    if isinstance(error, SpecmtError):  # which may name files of any name
        return False
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno == errno.ENOMEM
    return isinstance(error, MemoryError) or _EXHAUSTED.search(str(error)) is not None
