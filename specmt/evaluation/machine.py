"""What figures depend on besides the model: the machine and the versions of libraries."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from specmt.engine.threads import processor

_PACKAGES: Final = ("fairseq2", "numpy", "sacrebleu", "sentencepiece", "torch")


def describe_machine(packages: tuple[str, ...] = _PACKAGES) -> dict[str, object]:
    """Returns processor, number of processors that this process may use, system and versions of packages."""
    machine: dict[str, object] = {
        "processor": processor() or platform.processor() or "unknown",
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
    for package in packages:
        with suppress(PackageNotFoundError):
            machine[package] = version(package)
    return machine


def format_signature(signature: Mapping[str, object]) -> str:
    """Returns a signature in one line, as sacreBLEU writes its own: ``key:value|key:value``."""
    return "|".join(f"{key}:{value}" for key, value in signature.items())
