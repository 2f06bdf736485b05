"""Where to compute, and in which type."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import torch

from specmt.engine import library
from specmt.errors import UsageError

FAST: Final = 0.8
"""Of the fastest processor's speed: those of one kind differ by less, efficient cores are slower."""

DTYPES: Final = {
    "float32": torch.float32,
    "float64": torch.float64,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "int8": torch.int8,
}


def choose_device(name: str) -> torch.device:
    """Returns the device of a name; ``auto`` is the GPU if there is one.

    :raises UsageError: there is no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise UsageError(f"`device` must be auto, cpu or cuda[:i], but is {name!r} instead.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UsageError(f"`device` is {name!r}, but this machine has {torch.cuda.device_count()} CUDA devices.")
    return device


def choose_dtype(name: str, device: torch.device) -> torch.dtype:
    """Returns the type of a name; ``auto`` is PyTorch's: bfloat16 where the device computes in it, else float32.

    :raises UsageError: there is no such type, or the device has no use for it.
    """
    if name == "auto":
        return torch.bfloat16 if has_bfloat16(device) else torch.float32
    if name not in DTYPES:
        raise UsageError(f"`dtype` must be one of auto, {', '.join(DTYPES)}, but is {name!r} instead.")
    for kind, place, other in (("float16", "cuda", "CPU"), ("int8", "cpu", "GPU")):
        if name == kind and device.type != place:
            raise UsageError(f"`dtype` {kind} is not for the {other}; use bfloat16 or float32 there.")
    return DTYPES[name]


def has_bfloat16(device: torch.device) -> bool:
    """Returns whether a device has instructions for bfloat16."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return bool(torch.cpu._is_avx512_bf16_supported()) or "neon-bf16" in library.variants()


def choose_threads(width: int) -> int:
    """Returns how many threads to compute with by default: small models only get slower beyond a few."""
    most = torch.get_num_threads()
    return most if "OMP_NUM_THREADS" in os.environ else max(1, min(most, width // 64, count_fast()))


def count_fast(system: Path = Path("/sys/devices/system/cpu")) -> int:
    """Returns how many processors are about as fast as the fastest one, for a step waits for its slowest thread.

    :param system: where Linux describes them
    """
    for name in ("cpu_capacity", "cpufreq/cpuinfo_max_freq"):
        with suppress(OSError, ValueError):
            if speeds := [int(path.read_text(encoding="ascii")) for path in system.glob(f"cpu[0-9]*/{name}")]:
                return sum(speed >= FAST * max(speeds) for speed in speeds)
    return os.cpu_count() or 1
