"""How many threads to compute with: as many as were fastest, since small models only get slower beyond a few."""

from __future__ import annotations

import os
import time
from typing import Final

import torch

from specmt.engine import keep
from specmt.engine.backend import Verifier
from specmt.types import UNK

REPEATS: Final = 15
WINDOWS: Final = (1, 6)
"""A step of greedy decoding, and one that checks drafts."""

WORTH: Final = 0.95
"""More threads must take less than this share of the time of fewer."""


def choose_threads(network: Verifier, description: str) -> int:
    """Returns the number of threads that a network is fastest with, which is measured once and then remembered.

    Whoever has said how many, by OMP_NUM_THREADS, is not asked again.
    """
    most = torch.get_num_threads()
    if most == 1 or "OMP_NUM_THREADS" in os.environ:
        return most
    return int(keep.kept("threads", f"{description}; {most} threads", lambda: fastest(network, most)))


@torch.inference_mode()
def fastest(network: Verifier, most: int) -> int:
    """Measures steps with 1, 2, 4, … threads and returns the best number."""
    state = network.new_state(1)
    network.start(state, torch.arange(1), network.encode([[UNK] * 24]))
    network.score(torch.full((1, 16), UNK), torch.tensor([0]), state)
    best, least = 1, float("inf")
    count = 1
    while count <= most:
        torch.set_num_threads(count)
        seconds = 0.0
        for width in WINDOWS:
            tokens, times = torch.full((1, width), UNK), []
            for _ in range(REPEATS):
                started = time.perf_counter()
                network.score(tokens, torch.tensor([16]), state)
                times.append(time.perf_counter() - started)
            seconds += min(times)  # whatever else the machine does only adds to it
        if seconds < WORTH * least:
            best, least = count, seconds
        count = most if count < most < 2 * count else 2 * count
    torch.set_num_threads(best)
    return best
