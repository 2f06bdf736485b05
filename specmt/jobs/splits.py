"""How the processors of a machine are best shared: few processes of many threads, or many of few."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, final

from specmt.jobs import processes as forked
from specmt.options import DecodingOptions

if TYPE_CHECKING:
    from specmt.models.hub import Model


@final
class Split(NamedTuple):
    """What a way to share the processors yields."""

    processes: int
    threads: int
    """Of each process."""

    speed: float
    """Sentences a second of all processes."""

    mebibytes: float | None
    """The memory of all processes, what they share counted once; ``None`` where the system does not tell."""


def ways(processors: int) -> list[tuple[int, int]]:
    """Returns processes and threads: one of each, and all that use all processors, with as many threads each."""
    whole = [(processors // threads, threads) for threads in range(processors, 0, -1) if processors % threads == 0]
    return list(dict.fromkeys([(1, 1), *whole]))


def measure(model: Model, sources: Sequence[list[int]], processors: int) -> Iterator[Split]:
    """Decodes the same sentences in each process, and yields what came of each way.

    :param model: loaded with one thread, since it is shared by forking
    :param sources: sentences as ids without EOS
    """
    import torch

    from specmt.decoding.session import decode

    decode(model, sources[:1], DecodingOptions())  # what is loaded late is shared, too
    for count, threads in ways(processors):
        context = multiprocessing.get_context("fork")
        barrier, found = context.Barrier(count), context.Array("d", 3 * (count + 1), lock=False)

        def work(number: int, threads: int = threads, barrier: Any = barrier, found: Any = found) -> None:
            torch.set_num_threads(threads)
            decode(model, sources, DecodingOptions())  # learns how far to draft
            barrier.wait()
            found[3 * number] = time.perf_counter()
            decode(model, sources, DecodingOptions())
            found[3 * number + 1] = time.perf_counter()
            barrier.wait()
            found[3 * number + 2] = proportional_memory(os.getpid())
            if number == 1:
                found[2] = proportional_memory(os.getppid())
            barrier.wait()

        forked.run(count, work, lambda: None)
        seconds = max(found[4::3]) - min(found[3::3])
        total = sum(found[2::3])
        yield Split(count, threads, count * len(sources) / seconds, total or None)


def proportional_memory(process: int) -> float:
    """Returns the memory of a process in MiB, of what several share its part; 0 where the system does not tell."""
    try:
        rows = Path(f"/proc/{process}/smaps_rollup").read_text(encoding="ascii").split("\n")
    except OSError:
        return 0.0
    return next((int(row.split()[1]) / 1024 for row in rows if row.startswith("Pss:")), 0.0)
