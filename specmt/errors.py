"""Exceptions that carry the exit code of DESIGN §6, so that the command line needs no table."""

from __future__ import annotations


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
