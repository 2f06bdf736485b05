"""Whose the threads are: torch's, or those of the kernels."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch

MOST_THREADS: Final = 256
"""More than any processor has for one small model; each of them needs memory of its own."""

_lock = threading.Lock()
_users = 0
_given = 0


def thread_count() -> int:
    """Returns how many threads the kernels may use."""
    return min(_given if _users else torch.get_num_threads(), MOST_THREADS)


@contextmanager
def only_kernels() -> Iterator[None]:
    """Leaves all threads to the kernels: torch computes what little it has to do without.

    Its own threads would wake up for every tensor of more than 32,768 numbers, spin for a while and fight with those of
    the kernels for the processors, which made batches three times slower.
    """
    global _users, _given
    with _lock:
        if _users == 0:
            _given = torch.get_num_threads()
            torch.set_num_threads(1)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                torch.set_num_threads(_given)
