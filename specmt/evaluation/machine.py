"""What figures depend on besides the model: the machine and the versions of libraries."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

_PACKAGES: Final = ("fairseq2", "numpy", "sacrebleu", "sentencepiece", "torch")


def describe_machine(packages: tuple[str, ...] = _PACKAGES) -> dict[str, str | int]:
    """Returns processor, number of processors that this process may use, system and versions of packages."""
    machine: dict[str, str | int] = {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
    for package in packages:
        try:
            machine[package] = version(package)
        except PackageNotFoundError:
            continue
    return machine


def format_signature(signature: dict[str, object]) -> str:
    """Returns a signature in one line, as sacreBLEU writes its own: ``key:value|key:value``."""
    return "|".join(f"{key}:{value}" for key, value in signature.items())


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n")
    except OSError:
        return platform.processor() or "unknown"
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or "unknown"
