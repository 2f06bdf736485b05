"""What is found out about a machine, kept in the user's cache folder."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import platformdirs
import torch

from specmt.engine.pool import thread_count
from specmt.files import write_whole


def kept(kind: str, description: str, find_out: Callable[[], Any]) -> Any:
    """Returns what was found out under a description on this machine, or finds it out and keeps it.

    A cache that cannot be read or written is done without.

    :param find_out: returns a value that JSON can hold.
    """
    key = f"{machine()}; {thread_count()} threads; {description}"
    path = cache_folder() / f"{kind}-{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["key"] == key:
            return record["value"]
    value = find_out()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps({"key": key, "value": value}))
    return value


def cache_folder() -> Path:
    """Returns the program's folder for what can be made again."""
    return platformdirs.user_cache_path("specmt")


def machine() -> str:
    """Returns what tells this machine and its libraries from others."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return f"{processor()} x {os.cpu_count()}, {device}, torch {torch.__version__}"


def processor() -> str:
    """Returns the name of the processor, where the system tells it."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return ""
