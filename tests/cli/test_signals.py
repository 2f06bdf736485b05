"""Signals end a real process at once, silently and without a trace, whenever they come."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.commands import ENVIRONMENT, TIMEOUT

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]

WITHOUT_COMPILED = "import sys; sys.modules['specmt._signals'] = None; from specmt.__main__ import main; main()"
"""The program where nothing could be compiled."""

KEEPING = """
import sys, time
from specmt import signals
signals.install()
print(1, flush=True)
try:
    with signals.interruptible():
        while True:
            time.sleep(0.01)
except KeyboardInterrupt:
    print(2, flush=True)
time.sleep(60)
"""

STUBBORN = """
import hashlib
from specmt import signals
signals.install()
print(1, flush=True)
with signals.interruptible():
    hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)  # minutes in which no Python code runs
"""


def start(*arguments: str | Path, ignored: int | None = None) -> subprocess.Popen[bytes]:
    def prepare() -> None:
        # A test runner in the background may ignore them, and children inherit that.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        if ignored is not None:
            signal.signal(ignored, signal.SIG_IGN)

    command = [sys.executable, *map(str, arguments)]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
        preexec_fn=prepare,
    )


def ended(process: subprocess.Popen[bytes], number: int, within: float = 5.0) -> None:
    """Sends a signal and demands its exit code, soon, and nothing on stderr."""
    sent = time.monotonic()
    process.send_signal(number)
    _, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, err) == (128 + number, b"")
    assert time.monotonic() - sent < within


def is_in_main(process: subprocess.Popen[bytes]) -> bool:
    """Whether the handler is set: `SigCgt` has the bit of SIGTERM, which Python itself does not catch."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def wait_for(what: object) -> None:
    until = time.monotonic() + TIMEOUT
    while not what():  # type: ignore[operator]
        assert time.monotonic() < until, "It never came."
        time.sleep(0.002)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """More than is translated in any test."""
    path = tmp_path / "in.de"
    path.write_text("Hund und Katze und Haus.\n" * 100_000)
    return path


@pytest.mark.parametrize("delay", [0.0, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 1.0, 1.3, 1.6, 2.0, 2.5])
def test_whenever_a_signal_comes_it_ends_the_program_at_once(
    tiny_model: Path, tmp_path: Path, text: Path, delay: float
) -> None:
    options = ["--model", tiny_model, "--device", "cpu", "--threads", "1", "--batch-size", "1"]
    process = start("-m", "specmt", "translate", text, "-o", tmp_path / "out", "--stats", tmp_path / "stats", *options)
    with process:
        wait_for(lambda: is_in_main(process))  # what comes before is Python's own start
        time.sleep(delay)
        ended(process, SIGNALS[int(delay * 10) % 4])
    assert list(tmp_path.iterdir()) == [text]


def test_what_kill_9_left_is_removed_by_the_next_run(tiny_model: Path, tmp_path: Path, text: Path) -> None:
    out, stats = tmp_path / "out", tmp_path / "stats"
    options = ["-o", out, "--stats", stats, "--model", tiny_model, "--device", "cpu", "--threads", "1"]
    killed = start("-m", "specmt", "translate", text, *options)
    with killed:
        wait_for(lambda: len(list(tmp_path.glob(".specmt-*"))) == 2)
        killed.kill()
    assert len(list(tmp_path.glob(".specmt-*"))) == 2
    with start("-m", "specmt", "translate", *options) as process:
        _, err = process.communicate(b"Hund\n", timeout=TIMEOUT)
    assert (process.returncode, err) == (0, b"")
    assert {each.name for each in tmp_path.iterdir()} == {"in.de", "out", "stats"}


@pytest.mark.parametrize("number", SIGNALS)
def test_without_a_compiler_signals_are_late_but_right(tiny_model: Path, tmp_path: Path, number: int) -> None:
    options = ["-o", tmp_path / "out", "--model", tiny_model, "--device", "cpu", "--threads", "1"]
    with start("-c", WITHOUT_COMPILED, "translate", *options) as process:
        wait_for(lambda: any(tmp_path.iterdir()))  # which waits for its input, the model loaded or not
        ended(process, number, within=60.0)
    assert not any(tmp_path.iterdir())


def test_ignored_signals_stay_ignored() -> None:
    with start("-m", "specmt", "translate", ignored=signal.SIGHUP) as process:
        wait_for(lambda: is_in_main(process))
        process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        assert process.poll() is None
        ended(process, signal.SIGTERM)


def test_a_command_may_keep_what_it_has_on_the_first_ctrl_c() -> None:
    with start("-c", KEEPING) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == b"2\n"
        ended(process, signal.SIGINT)


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_what_does_not_hear_the_first(first: int) -> None:
    with start("-c", STUBBORN) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        time.sleep(0.3)
        if first == signal.SIGINT:
            process.send_signal(first)
            time.sleep(0.3)
            assert process.poll() is None
        ended(process, first)


def test_the_cursor_comes_back() -> None:
    script = (
        "import time\nfrom specmt import signals\nfrom specmt.cli.progress import _bar\nsignals.install()\n"
        "with _bar('bar') as bar:\n    print(1, flush=True)\n    time.sleep(60)"
    )
    with start("-c", script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"1\n"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 130
        assert err.endswith(b"\x1b[?25h")
