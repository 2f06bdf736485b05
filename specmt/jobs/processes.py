"""Work in several processes that share what was loaded before they were forked."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import ForkProcess
from typing import Final

from specmt.errors import SpecmtError

_LOOK: Final = 1.0
"""Seconds between two looks at how far they are."""


def run(count: int, work: Callable[[int], None], watch: Callable[[], None]) -> None:
    """Runs ``work(1)`` to ``work(count)``, each in a process of its own, until all are done or one has failed.

    The processes are forked: memory that nobody writes to, weights above all, is there once. They end when this one
    does, however that ends.

    :param watch: called about once a second meanwhile
    :raises SpecmtError: a process was killed. What one of them raises is raised here, after the others have ended.
    """
    context = multiprocessing.get_context("fork")
    processes: list[tuple[ForkProcess, Connection]] = []
    try:
        for number in range(1, count + 1):
            mine, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_child, args=(number, work, theirs), name=f"specmt-{number}", daemon=True)
            process.start()
            theirs.close()
            processes.append((process, mine))
        running = list(processes)
        while running:
            multiprocessing.connection.wait([process.sentinel for process, _ in running], timeout=_LOOK)
            watch()
            for number, (process, pipe) in enumerate(processes, 1):
                if (process, pipe) in running and not process.is_alive():
                    running.remove((process, pipe))
                    _check(number, process, pipe)
    finally:
        for process, pipe in processes:
            process.terminate()
            process.join()
            pipe.close()


def _check(number: int, process: ForkProcess, pipe: Connection) -> None:
    """Raises what a process that has ended failed of."""
    if pipe.poll():
        try:
            error = pipe.recv()
        except EOFError:
            error = None
        if isinstance(error, BaseException):
            raise error
    if process.exitcode:
        how = f"by signal {-process.exitcode}" if process.exitcode < 0 else f"with exit code {process.exitcode}"
        raise SpecmtError(f"process {number} ended {how}; the same command goes on from here.")


def _child(number: int, work: Callable[[int], None], pipe: Connection) -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    try:
        work(number)
    except Exception as error:
        pipe.send(error)
    finally:
        pipe.close()


def _end_with(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)
