"""How many threads compute; PyTorch is told the same where it computes (specmt.engine.torch.backend)."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

MOST_THREADS: Final = 256
"""More than any processor has for one small model; each of them needs memory of its own."""

FAST: Final = 0.8
"""Of the fastest processor's speed: those of one kind differ by less, efficient cores are slower."""

SYSTEM: Final = Path("/sys/devices/system/cpu")
"""Where Linux describes processors."""

_used: int | None = None


def thread_count() -> int:
    """Returns how many threads compute in this process; what nobody said is looked up once."""
    global _used
    if _used is None:
        _used = available()
    return min(_used, MOST_THREADS)


def use_threads(count: int) -> None:
    """Says how many threads compute in this process from now on."""
    global _used
    _used = count


def available(system: Path = SYSTEM) -> int:
    """Returns $OMP_NUM_THREADS, or how many cores this process may run on: two threads of one share its units."""
    with suppress(KeyError, ValueError):
        if (wanted := int(os.environ["OMP_NUM_THREADS"])) > 0:
            return wanted
    processors = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))
    cores: set[object] = set()
    for number in processors:
        core: object = number
        with suppress(OSError):
            core = (system / f"cpu{number}/topology/thread_siblings_list").read_text(encoding="ascii")
        cores.add(core)
    return len(cores)


def choose_threads(width: int) -> int:
    """Returns how many threads to compute with by default: small models only get slower beyond a few."""
    most = available()
    return most if "OMP_NUM_THREADS" in os.environ else max(1, min(most, width // 64, count_fast()))


def count_fast(system: Path = SYSTEM) -> int:
    """Returns how many processors are about as fast as the fastest one, for a step waits for its slowest thread."""
    for name in ("cpu_capacity", "cpufreq/cpuinfo_max_freq"):
        with suppress(OSError, ValueError):
            if speeds := [int(path.read_text(encoding="ascii")) for path in system.glob(f"cpu[0-9]*/{name}")]:
                return sum(speed >= FAST * max(speeds) for speed in speeds)
    return os.cpu_count() or 1


def processor() -> str:
    """Returns the name of the processor, where the system tells it."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return ""
