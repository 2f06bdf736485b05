"""Random numbers that depend on what they are for alone, so that batching changes no sample (DESIGN §2.2)."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from specmt.decoding.request import Request


class Role(IntEnum):
    """What random numbers are drawn for."""

    DRAFT = 0
    ACCEPT = 1


def generator(seed: int, request: Request, position: int, role: Role) -> np.random.Generator:
    """Returns the source of random numbers for a position of a sentence."""
    key = np.array([seed, request.line], dtype=np.uint64)
    counter = np.array([0, position, role, request.part], dtype=np.uint64)  # the first word counts what is drawn
    return np.random.Generator(np.random.Philox(key=key, counter=counter))
