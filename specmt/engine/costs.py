"""What a call costs on this machine: measured once, kept in the user's cache folder."""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch

from specmt.engine.backend import Drafter, Verifier, best_tokens
from specmt.types import BOS, UNK

SOURCE: Final = 24
PREFIX: Final = 16
FRESH: Final = 3
"""Pieces of a source, tokens committed before a window, and tokens new to the drafter, while measuring."""

SECONDS: Final = 0.06
"""How long a call is repeated for its median."""


@dataclass(frozen=True)
class Costs:
    """The seconds that calls over a number of sentences side by side take."""

    verify: tuple[tuple[int, float], ...]
    """Pairs of a window's width and the seconds to score it, by width."""

    draft: tuple[tuple[int, float], ...]
    """Pairs of a block's size and the seconds to draft it, by size."""

    def verifying(self, widest: int) -> list[float]:
        """Returns the seconds for windows of 1 … ``widest`` tokens."""
        return _interpolate(self.verify, widest)

    def drafting(self, largest: int) -> list[float]:
        """Returns the seconds for blocks of 1 … ``largest`` slots."""
        return _interpolate(self.draft, largest)


def _interpolate(points: tuple[tuple[int, float], ...], largest: int) -> list[float]:
    sizes, seconds = zip(*points, strict=True)
    return [float(value) for value in np.interp(np.arange(1, largest + 1), sizes, seconds)]


@torch.inference_mode()
def measure(verifier: Verifier, drafter: Drafter, rows: int, block_size: int) -> Costs:
    """Measures calls over a number of sentences, with windows up to a block and one token more."""
    memory = verifier.encode([[UNK] * SOURCE] * rows)
    everything = torch.arange(rows, device=verifier.device)
    state, drafting = verifier.new_state(rows), drafter.new_state(rows)
    verifier.start(state, everything, memory)
    drafter.start(drafting, everything, memory)
    starts = torch.full((rows,), PREFIX, device=verifier.device)
    prefix = torch.full((rows, PREFIX), BOS, device=verifier.device)
    verifier.score(prefix, torch.zeros_like(starts), state)
    drafter.propose(prefix, torch.zeros_like(starts), starts, 1, drafting)

    def verify(width: int) -> float:
        window = torch.full((rows, width), UNK, device=verifier.device)
        return _median_seconds(lambda: best_tokens(verifier.score(window, starts, state)).tolist())

    def draft(size: int) -> float:
        fresh, counts = torch.full((rows, FRESH), UNK, device=verifier.device), torch.full_like(starts, FRESH)
        return _median_seconds(lambda: drafter.propose(fresh, starts, counts, size, drafting)[0].tolist())

    widths = sorted({1, 2, *range(3, block_size + 1, 3), block_size + 1})
    sizes = sorted({1, (block_size + 1) // 2, block_size})
    return Costs(tuple((width, verify(width)) for width in widths), tuple((size, draft(size)) for size in sizes))


def _median_seconds(call: Callable[[], object]) -> float:
    call()
    seconds: list[float] = []
    end = time.perf_counter() + SECONDS
    while len(seconds) < 3 or (len(seconds) < 50 and time.perf_counter() < end):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def cached(key: str, work: Callable[[], Costs]) -> Costs:
    """Returns the costs kept under a key, or measures and keeps them; a cache that cannot be used is done without."""
    path = cache_folder() / f"costs-{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["key"] == key:
            return Costs(*(tuple((int(n), float(s)) for n, s in record[name]) for name in ("verify", "draft")))
    costs = work()
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps({"key": key, "verify": costs.verify, "draft": costs.draft}), encoding="utf-8")
        temporary.replace(path)
    return costs


def cache_folder() -> Path:
    """Returns the program's folder for what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "specmt"


def machine() -> str:
    """Returns what tells this machine from others as far as speed goes."""
    model = ""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    return f"{model} x {os.cpu_count()}, {device}, torch {torch.__version__}"
