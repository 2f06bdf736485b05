"""Memory that is spread over the nodes of a machine (NUMA), for what all threads read: weights."""

from __future__ import annotations

import ctypes
import platform
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_CALLS: Final = {"x86_64": (238, 239), "aarch64": (237, 236)}
"""The numbers of Linux's set_mempolicy and get_mempolicy."""

_DEFAULT, _INTERLEAVE = 0, 3


def allowed_nodes(status: Path = Path("/proc/self/status")) -> set[int]:
    """Returns the nodes whose memory this process may use; none where the system does not say.

    :param status: what Linux says of the process
    """
    with suppress(OSError):
        if found := re.search(r"^Mems_allowed_list:\s*([\d,-]+)$", status.read_text(encoding="ascii"), re.MULTILINE):
            spans = [tuple(map(int, span.split("-"))) for span in found[1].split(",")]
            return {node for span in spans for node in range(span[0], span[-1] + 1)}
    return set()


@contextmanager
def spread(nodes: set[int], least: int = 2) -> Iterator[None]:
    """Takes the pages that this thread touches first from nodes in turn: else they were all on the one it runs on.

    Nothing happens on other systems than Linux, or where the user has said otherwise, as with numactl.

    :param least: with fewer nodes nothing happens
    """
    numbers = _CALLS.get(platform.machine()) if platform.system() == "Linux" else None
    if numbers is None or len(nodes) < least:
        yield
        return
    call = ctypes.CDLL(None).syscall
    policy, words = ctypes.c_int(-1), [0] * (max(nodes) // 64 + 1)
    for node in nodes:
        words[node // 64] |= 1 << node % 64
    mask = (ctypes.c_uint64 * len(words))(*words)
    set_policy, get_policy = numbers
    call(get_policy, ctypes.byref(policy), None, ctypes.c_ulong(0), None, ctypes.c_ulong(0))
    ours = policy.value == _DEFAULT
    if ours:
        call(set_policy, _INTERLEAVE, mask, ctypes.c_ulong(64 * len(words) + 1))
    try:
        yield
    finally:
        if ours:
            call(set_policy, _DEFAULT, None, ctypes.c_ulong(0))
