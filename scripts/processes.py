"""`specmt` in processes of its own: commands, their seconds, servers, and what a process has and has started."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "data" / "sample.de"
SPECMT = [sys.executable, "-m", "specmt"]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", "")))),
}


def run_seconds(command: Sequence[str | Path], **how: Any) -> float:
    """Runs a command; returns its seconds."""
    started = time.perf_counter()
    subprocess.run(command, check=True, **how)
    return time.perf_counter() - started


def decoding_seconds(*arguments: str | Path, program: Sequence[str] = SPECMT, **how: Any) -> float:
    """Translates in a fresh process; returns the seconds of decoding, as `--stats` has them, without the start."""
    with TemporaryDirectory() as folder:
        stats = Path(folder, "stats.json")
        subprocess.run([*program, "translate", "--quiet", "--stats", stats, *arguments], check=True, **how)
        return float(json.loads(stats.read_text(encoding="utf-8"))["seconds"])


class Server(NamedTuple):
    """A server that is ready: where it is, its process, and the file that it writes its log to."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path


@contextmanager
def server(*options: str, program: Sequence[str] = SPECMT) -> Iterator[Server]:
    """Yields a server of the program."""
    with (
        TemporaryDirectory() as folder,
        Path(folder, "log").open("wb") as errors,
        subprocess.Popen([*program, "serve", "--port", "0", *options], stderr=errors) as process,
    ):
        log = Path(errors.name)
        try:
            while (found := re.search(r"http://[^/\s]+", log.read_text(errors="replace"))) is None:
                assert process.poll() is None, "the server did not start"
                time.sleep(0.1)
            while httpx.get(f"{found[0]}/readyz").status_code != 200:
                time.sleep(0.1)
            yield Server(found[0], process, log)
        finally:
            process.kill()


def memory_of(process: int, name: str = "VmRSS", file: str = "status") -> int:
    """Returns the bytes that a process has, by a row of a file of `/proc`."""
    rows = Path(f"/proc/{process}/{file}").read_text(encoding="utf-8")
    return int(re.findall(rf"(?m)^{name}:\s+(\d+)", rows)[0]) << 10


def children() -> defaultdict[int, list[int]]:
    """Returns the processes that each process of this machine has started."""
    found: defaultdict[int, list[int]] = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parent = path.read_text(errors="replace").rpartition(")")[2].split()[1]
            found[int(parent)].append(int(path.parent.name))
    return found
