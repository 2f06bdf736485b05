"""The choice of who computes: the C++ kernels, or PyTorch, which runs everywhere and is imported where it is needed.

Where it is needed, or is to tell, and absent, `ModelError` says so.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from specmt.engine.architecture import Sizes
from specmt.engine.kernels import library
from specmt.engine.kernels.backend import KernelBackend
from specmt.engine.protocols import Backend
from specmt.errors import ModelError, UsageError

FORMATS: Final = ("float32", "float64", "bfloat16", "float16", "int8")
"""The number formats that can be asked for."""

PACKAGES: Final = {"torch": "PyTorch", "fairseq2": "fairseq2"}
"""What the extra `torch` brings, and how it is called; there is no fairseq2 for Python 3.13."""

DRIVERS: Final = (("/proc/driver/nvidia", "version"), ("/dev", "nvidia[0-9]*"))
"""Where Linux has what an NVIDIA driver brings: folders, and files in them."""


def choose(
    device: str,
    format: str,
    *,
    sizes: Sizes,
    width: int,
    ffn: int,
    deterministic: bool = True,
    kernels: bool = True,
) -> Backend:
    """Returns the fastest backend for a verifier and its drafters; the bits of some must not depend on the batch.

    Threads are to be chosen before (specmt.engine.threads).

    :param device: ``auto``, ``cpu`` or ``cuda[:i]``; ``auto`` is the GPU if there is one
    :param format: ``auto`` is int8 on the kernels, else bfloat16 where the device computes in it, else float32
    :param width: D
    :param ffn: the width of the feed-forward networks
    :param deterministic: whether bits must not depend on the batch; on the kernels they never do
    :param kernels: whether to run on the C++ kernels where they are there
    :raises UsageError: device or format are unknown or not there.
    """
    place = choose_device(device)
    usable = kernels and place == "cpu"
    if format == "auto" and usable and library.can_run(width, sizes, ffn, "int8"):
        return KernelBackend("int8")  # the fastest, as good as the others, and on all processors the same
    kind = choose_format(format, place)
    if usable and library.can_run(width, sizes, ffn, kind):
        return KernelBackend(kind)
    if kind == "int8":
        raise UsageError("`dtype` int8 needs the C++ kernels, which this machine or this model cannot use.")
    with needing_torch(_purpose(place, kind, kernels=kernels)):
        from specmt.engine.torch.backend import TorchBackend
    return TorchBackend(place, kind, deterministic=deterministic)


def choose_device(name: str) -> str:
    """Returns the device of a name; ``auto`` is the GPU if there is one.

    :raises UsageError: there is no such device.
    """
    if name == "cpu":
        return name
    if name == "auto":
        try:
            return "cuda" if count_gpus() > 0 else "cpu"
        except ModelError:  # without PyTorch a GPU is of no use
            return "cpu"
    found = re.fullmatch(r"cuda(?::(0|[1-9]\d*))?", name)
    if found is None:
        raise UsageError(f"`device` must be auto, cpu or cuda[:i], but is {name!r} instead.")
    count = count_gpus()
    if int(found[1] or 0) >= count:
        raise UsageError(f"`device` is {name!r}, but this machine has {count} CUDA devices.")
    return name


def choose_format(name: str, device: str) -> str:
    """Returns the number format of a name; ``auto`` is bfloat16 where the device computes in it, else float32.

    :raises UsageError: there is no such format, or the device has no use for it.
    """
    if name == "auto":
        return "bfloat16" if has_bfloat16(device) else "float32"
    if name not in FORMATS:
        raise UsageError(f"`dtype` must be one of auto, {', '.join(FORMATS)}, but is {name!r} instead.")
    for kind, place, other in (("float16", "cpu", "CPU"), ("int8", "cuda", "GPU")):
        if name == kind and device.startswith(place):
            raise UsageError(f"`dtype` {kind} is not for the {other}; use bfloat16 or float32 there.")
    return name


def has_bfloat16(device: str) -> bool:
    """Returns whether a device has instructions for bfloat16."""
    if device == "cpu" and (variants := library.variants()):
        return any(variant in library.OWN_BFLOAT16 for variant in variants)
    with needing_torch(_purpose(device, "auto")):
        from specmt.engine.torch import backend
    return backend.has_bfloat16(device)


def count_gpus() -> int:
    """Returns how many CUDA devices there are; PyTorch is asked only where there is a driver."""
    if not has_driver():
        return 0
    with needing_torch("A GPU"):
        from specmt.engine.torch import backend
    return backend.count_gpus()


def has_driver() -> bool:
    """Returns whether an NVIDIA driver is there."""
    if any(True for folder, files in DRIVERS for _ in Path(folder).glob(files)):
        return True
    try:
        ctypes.CDLL("libcuda.so.1")  # some virtual machines have it alone
    except OSError:
        return False
    return True


@contextmanager
def needing_torch(purpose: str) -> Iterator[None]:
    """Imports PyTorch, or what needs it or fairseq2, inside.

    :param purpose: what needs it, to begin a sentence with
    :raises ModelError: one of them is absent.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        needed = PACKAGES.get((error.name or "").partition(".")[0])
        if needed is None:
            raise
        raise ModelError(f"{purpose} needs {needed}, which is absent: `pip install 'specmt[torch]'`.") from error


def _purpose(device: str, format: str, *, kernels: bool = True) -> str:
    """Returns what PyTorch is needed for, to begin a sentence with."""
    if device != "cpu":
        return f"`device` {device}"
    if not kernels:
        return "Decoding without the C++ kernels"
    if reason := library.why_absent():
        return f"Decoding without the C++ kernels ({reason})"
    if format not in ("auto", "float32", "bfloat16"):
        return f"`dtype` {format}"
    return "A model of these sizes"
