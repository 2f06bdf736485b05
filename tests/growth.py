"""How the time that some work takes grows with its size."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import FrameType


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


def assert_at_most(seconds: float, work: Callable[[], object]) -> None:
    """Checks how long something takes, in seconds of a processor that takes a 250th of one for a known loop."""
    for _ in range(3):
        limit = seconds * 250 * least(lambda: sum(n * n for n in range(50_000)))
        taken = least(work, enough=limit)
        if taken <= limit:
            return
    raise AssertionError(f"{taken:.3f} s, where at most {limit:.3f} s were expected")


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


class Counted(str):
    """A text whose comparisons are steps."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        return str.__hash__(self)


def assert_linear_steps(work: Callable[[int], object], size: int) -> None:
    """Checks that eight times as much takes at most nine times as many lines of Python, whatever the machine does."""
    few, many = steps(lambda: work(size)), steps(lambda: work(8 * size))
    assert many <= 9 * few, f"{many} lines for 8 times as much, where at most {9 * few} are linear"


def steps(work: Callable[[], object]) -> int:
    """Returns how many lines of Python are run."""
    count = 0

    def trace(_: FrameType, event: str, __: object) -> object:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        work()
    finally:
        sys.settrace(before)
    return count
