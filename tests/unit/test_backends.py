"""Who computes: the kernels where they can, else PyTorch, which is imported where nothing else will do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from specmt.engine import backends
from specmt.engine.architecture import Sizes
from specmt.engine.backends import choose, choose_device, count_gpus, has_driver, needing_torch
from specmt.errors import ModelError, UsageError

SIZES = Sizes(heads=2, encoder_layers=1, decoder_layers=1, max_length=64)
WITHOUT = "Decoding without the C++ kernels (the environment says SPECMT_KERNELS=none)"


def run(code: str, **environment: str) -> str:
    """Returns what a program writes that begins with these imports."""
    begin = """
import sys
from specmt.engine.architecture import Sizes
from specmt.engine.backends import *
from specmt.errors import ModelError
sizes = Sizes(heads=2, encoder_layers=1, decoder_layers=1, max_length=64)
"""
    command = [sys.executable, "-c", begin + code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment})
    return done.stdout.strip()


@pytest.mark.usefixtures("needs_kernels")
def test_the_kernels_need_no_pytorch() -> None:
    code = """
found = [choose(*asked, sizes=sizes, width=32, ffn=64) for asked in (("cpu", "auto"), ("cpu", "bfloat16"))]
print(*(each.format for each in found), *{each.name for each in found}, "torch" in sys.modules)
"""
    assert run(code) == "int8 bfloat16 kernels False"


@pytest.mark.parametrize(
    ("asked", "kernels", "purpose"),
    [
        ('"cpu", "auto", width=32', "none", WITHOUT),
        ('"auto", "bfloat16", width=32', "none", WITHOUT),
        ('"cpu", "float32", width=32, kernels=False', "", "Decoding without the C++ kernels"),
        ('"cpu", "float64", width=32', "", "`dtype` float64"),
        ('"cpu", "float32", width=40', "", "A model of these sizes"),
        ('"cuda", "float32", width=32', "", "A GPU"),
    ],
)
@pytest.mark.usefixtures("needs_kernels")
def test_where_pytorch_is_absent_one_line_says_what_for(asked: str, kernels: str, purpose: str) -> None:
    code = f"""
import specmt.engine.backends as backends
sys.modules["torch"] = None
backends.has_driver = lambda: True
try:
    choose({asked}, ffn=64, sizes=sizes)
except ModelError as error:
    print(error)
"""
    wanted = f"{purpose} needs PyTorch, which is absent: `pip install 'specmt[torch]'`."
    assert run(code, SPECMT_KERNELS=kernels) == wanted


def test_what_else_is_absent_is_not_pytorch() -> None:
    with pytest.raises(ModuleNotFoundError), needing_torch("Nothing"):
        import specmt.engine.nothing  # type: ignore[import-not-found]  # noqa: F401
    with pytest.raises(ModelError, match=r"^Training needs PyTorch"), needing_torch("Training"):
        raise ModuleNotFoundError(name="torch")


def test_a_gpu_is_looked_for_where_there_is_a_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def no_library(name: str) -> None:
        raise OSError(name)

    monkeypatch.setattr("specmt.engine.torch.backend.count_gpus", lambda: 2)
    monkeypatch.setattr(backends, "DRIVERS", ((str(tmp_path / "proc"), "version"), (str(tmp_path), "nvidia[0-9]*")))
    monkeypatch.setattr("ctypes.CDLL", no_library)
    (tmp_path / "nvidiactl").touch()
    assert not has_driver() and count_gpus() == 0 and choose_device("auto") == "cpu"
    with pytest.raises(UsageError, match="'cuda', but this machine has 0 CUDA devices"):
        choose_device("cuda")
    (tmp_path / "nvidia7").touch()
    assert has_driver() and choose_device("auto") == "cuda" and choose_device("cuda:1") == "cuda:1"
    with pytest.raises(UsageError, match="'cuda:2', but this machine has 2 CUDA devices"):
        choose_device("cuda:2")
    monkeypatch.setattr(backends, "count_gpus", lambda: 0 / 0)
    assert choose_device("cpu") == "cpu"


@pytest.mark.parametrize("asked", [{"kernels": False}, {"width": 40}, {"device": "cuda"}])
def test_int8_is_for_the_kernels(asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "count_gpus", lambda: 1)
    with pytest.raises(UsageError, match=r"`dtype` int8 (needs the C\+\+ kernels|is not for the GPU)"):
        choose(**{"device": "cpu", "format": "int8", "sizes": SIZES, "width": 32, "ffn": 64, **asked})
