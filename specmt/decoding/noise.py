"""Random numbers that depend on what they are for alone, so that batching changes no sample (DESIGN §2.2)."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np


class Role(IntEnum):
    """What random numbers are drawn for."""

    DRAFT = 0
    ACCEPT = 1


class Spot(NamedTuple):
    """Where a token stands in the input: what its random numbers depend on."""

    line: int
    part: int
    """Which sentence of the line it is in."""

    position: int


def generator(seed: int, spot: Spot, role: Role) -> np.random.Generator:
    """Returns the source of random numbers for a token."""
    key = np.array([seed, spot.line], dtype=np.uint64)
    counter = np.array([0, spot.position, role, spot.part], dtype=np.uint64)  # the first word counts what is drawn
    return np.random.Generator(np.random.Philox(key=key, counter=counter))
