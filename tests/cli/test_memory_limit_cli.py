"""Where memory is limited, a command does its work or ends in one line, whatever library meets the end of it first."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from unittest.mock import Mock

import pytest

from specmt import signals
from tests.commands import COMMAND, ENVIRONMENT, MACHINE, TIMEOUT, specmt

MEBIBYTE = 1 << 20
TRANSLATE = ["translate", "-q", *MACHINE]
TEXT = b"Wo ist der Bahnhof?\nGuten Morgen.\n"
PEAK = """
import re
from specmt.cli.main import run
assert run({arguments}) == 0
print("peak", re.search(r"VmPeak:\\s*(\\d+)", open("/proc/self/status").read())[1])
"""

pytestmark = pytest.mark.skipif(
    signals.compiled is None or sys.platform != "linux", reason="aborts are heard where the handler was compiled"
)


def execute(command: list[str], limit: int | None = None) -> subprocess.CompletedProcess[bytes]:
    """Runs a command in so many bytes of address space."""

    def set_limit() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    return subprocess.run(
        command,
        input=TEXT,
        env=ENVIRONMENT,
        capture_output=True,
        timeout=TIMEOUT,
        preexec_fn=set_limit,
        check=False,
    )


@pytest.fixture(scope="module")
def peak() -> int:
    """The address space that a translation takes."""
    done = execute([sys.executable, "-c", PEAK.format(arguments=TRANSLATE)])
    *_, last = done.stdout.split(b"\n")[:-1]
    return int(last.removeprefix(b"peak ")) << 10


SIZES: dict[str, Callable[[int], int]] = {
    "20 MiB": lambda _: 20 * MEBIBYTE,
    **{f"{part}/20": lambda peak, part=part: peak * part // 20 for part in range(2, 21)},  # type: ignore[misc]
}


@pytest.mark.parametrize("size", SIZES)
def test_wherever_memory_ends_there_is_one_line(size: str, peak: int) -> None:
    done = execute([*COMMAND, *TRANSLATE], SIZES[size](peak))
    if done.returncode == 0:  # it does with less than it takes where there is more
        assert done.stdout.count(b"\n") == TEXT.count(b"\n")
    else:
        assert (done.returncode, done.stdout) == (1, b"")
        assert done.stderr == b"specmt: error: out of memory.\n"


@pytest.mark.parametrize("part", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_a_server_that_has_too_little_memory_ends(part: float, peak: int) -> None:
    done = execute([*COMMAND, "serve", "-q", "--port", "0"], int(part * peak))
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"specmt: error: out of memory.\n")


def test_a_server_that_cannot_begin_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("specmt.serve.worker.warm", Mock(side_effect=MemoryError))
    assert specmt("serve", "-q", "--port", "0") == 1
    assert capsys.readouterr().err == "specmt: error: out of memory.\n"


@pytest.mark.parametrize("name", ["_bootstrap", "_set_ident"])
def test_a_thread_that_ends_before_it_begins_ends_the_program(name: str, peak: int) -> None:
    started = f"import threading; thread = threading.Thread(); thread.{name} = lambda: bytearray(1 << 50)"
    code = f"from specmt import signals; signals.install(); {started}; thread.start()"
    done = execute([sys.executable, "-c", code], 4 * peak)
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"specmt: error: out of memory.\n")


def test_an_abort_for_another_reason_stays_one(peak: int) -> None:
    code = "from specmt import signals; signals.install(); import os; os.abort()"
    assert execute([sys.executable, "-c", code], peak).returncode == -6
    assert execute([sys.executable, "-c", code]).returncode == -6
