"""What tests of commands share: real processes, and this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from specmt.cli.main import run

ROOT = Path(__file__).parents[1]
COMMAND = [sys.executable, "-m", "specmt"]
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name not in ("COLUMNS", "FORCE_COLOR", "NO_COLOR")},
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
}
TIMEOUT = 120
AS_SAID = ["--no-keep-numbers", "--no-protect"]
"""For models that talk nonsense, which would not be written otherwise."""

MACHINE = ["--device", "cpu", "--dtype", "float32", "--threads", "1"]


def execute(
    *command: str | Path, data: bytes = b"", folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Runs a command in a process of its own."""
    return subprocess.run(
        [*map(str, command)],
        input=data,
        cwd=folder,
        env=ENVIRONMENT | environment,
        capture_output=True,
        timeout=TIMEOUT,
        check=False,
    )


def specmt(*arguments: str | Path) -> int:
    """Runs a command of ours in this process; returns its exit code."""
    return run([str(argument) for argument in arguments])


def fails(capfd: pytest.CaptureFixture[str], arguments: list[str | Path] | list[str], code: int, message: str) -> None:
    """Runs a command that is to fail in one line."""
    assert specmt(*arguments) == code, arguments
    out, error = capfd.readouterr()
    assert error.startswith("specmt: error: ") and error.count("\n") == 1
    assert message in error, arguments
    assert out == ""
