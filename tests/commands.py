"""What tests of commands share: real processes, and this one."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
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
Execute = Callable[..., subprocess.CompletedProcess[bytes]]
AS_SAID = ["--no-keep-numbers", "--no-protect"]
"""For models that talk nonsense, which would not be written otherwise."""

MACHINE = ["--device", "cpu", "--dtype", "float32", "--threads", "1"]


def model_options(model: Path) -> list[str]:
    return ["--model", str(model), *MACHINE]


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


def execute_here(
    capfd: pytest.CaptureFixture[bytes], *arguments: str | Path, data: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Runs a command of ours in this process, where the start of another is not what is tested."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        before = os.dup(0)
        os.dup2(file.fileno(), 0)
        try:
            code = specmt(*arguments)
        finally:
            os.dup2(before, 0)
            os.close(before)
    return subprocess.CompletedProcess(arguments, code, *capfd.readouterr())


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
