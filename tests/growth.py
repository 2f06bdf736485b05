"""How the time that some work takes grows with its size."""

from __future__ import annotations

import time
from collections.abc import Callable


def assert_linear(work: Callable[[int], object], size: int) -> None:
    """Checks that eight times as much takes at most twelve times as long, where quadratic time is 64 times as long.

    A machine that others use, too, may be slower for one of the two; so what fails is measured twice more.

    :param work: does as much as it is told
    """
    for _ in range(3):
        # Where both are next to nothing, the clock has a say, too.
        limit = 12 * least(lambda: work(size)) + 0.01
        taken = least(lambda: work(8 * size), enough=limit)
        if taken <= limit:
            return
    raise AssertionError(f"{taken:.3f} s for 8 times as much, where at most {limit:.3f} s are linear")


def least(work: Callable[[], object], *, enough: float = 0.0) -> float:
    """Returns the least of three times, in seconds of this process: whatever disturbs one only makes it longer.

    :param enough: with so little no other time is taken
    """
    found: list[float] = []
    while len(found) < 3 and min(found, default=enough + 1) > enough:
        started = time.process_time()
        work()
        found.append(time.process_time() - started)
    return min(found)
