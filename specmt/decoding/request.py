"""What the loop is asked for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """A sentence to decode."""

    key: int
    """What the caller knows it by."""

    source: list[int]
    """Source ids, without EOS."""

    line: int = 0
    part: int = 0
    """The line of the input that it comes from, and which of its sentences it is: its random numbers depend on them."""
