"""What setup.py does where the kernels cannot be compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("setuptools", reason="Python has no setuptools of its own from 3.12 on")

ROOT = Path(__file__).parents[2]
FORWARD = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[2:]).returncode)"
"""An installer, of whose extras setup.py learns from its command alone."""


def build(folder: Path, requirement: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Builds without a compiler, as if a requirement were installed."""
    command = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", folder, "--build-temp", folder / "temp"]
    return subprocess.run(
        list(map(str, [sys.executable, "-c", FORWARD, requirement, *command])),
        cwd=ROOT,
        env=os.environ | {"CC": "false", "CXX": "false"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_nothing_is_installed_that_cannot_compute(tmp_path: Path) -> None:
    made = build(tmp_path, ".")
    assert made.returncode == 1
    assert made.stderr.splitlines()[-1].startswith("specmt: without C++ kernels nothing would compute: install a C++20")


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="this system does not tell what command installs")
@pytest.mark.parametrize("requirement", [".[torch]", "specmt[hub, torch]==1", "-e.[all]", ".[dev]"])
def test_pytorch_computes_where_it_is_asked_for(tmp_path: Path, requirement: str) -> None:
    made = build(tmp_path, requirement)
    assert made.returncode == 0, made.stderr
    assert "networks will run on PyTorch alone" in made.stdout


def test_pytorch_alone(tmp_path: Path) -> None:
    made = build(tmp_path, ".", SPECMT_VARIANTS="none")
    assert made.returncode == 0, made.stderr
    assert "kernels" not in made.stdout + made.stderr


def test_variants_that_there_are_not(tmp_path: Path) -> None:
    made = build(tmp_path, ".", SPECMT_VARIANTS="avx2")
    assert made.returncode == 1
    assert made.stderr == "specmt: `SPECMT_VARIANTS` must be one of all, own, none, but is 'avx2' instead.\n"
