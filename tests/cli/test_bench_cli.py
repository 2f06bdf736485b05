"""`specmt bench` from the command line, in this process: a start costs seconds, and little is measured."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specmt.cli.bench import ASSETS
from specmt.cli.main import run
from specmt.engine.kernels import library
from specmt.evaluation import bench as measuring
from specmt.evaluation import runs

TINY = ["--rows", "1,2", "--batch-sizes", "1,2", "--block-sizes", "2", "--repeats", "1", "--threads", "1"]
CPU = ["--device", "cpu", "--dtype", "float32"]


@pytest.fixture(autouse=True)
def little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "BUDGET", 0.0)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.1, 0.2, 0.3))
    monkeypatch.setattr(library, "why_absent", str)  # a note of its own


@pytest.fixture
def default_interrupt() -> Iterator[None]:
    """A test runner in the background may ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.long
def test_the_bundled_model_on_the_bundled_sample(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (2.25, 0.0, 0.0))
    lines = (ASSETS / "sample.de").read_text(encoding="utf-8").split("\n")[:12]
    (tmp_path / "sample.de").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setattr("specmt.cli.bench.ASSETS", tmp_path)
    json_, picture = tmp_path / "bench.json", tmp_path / "bench.png"
    assert run(["bench", "--quick", *TINY, "--json", str(json_), "--plot", str(picture)]) == 0
    out, err = capfd.readouterr()
    assert err == "specmt: note: other work keeps 2.2 processors busy; times will be too long, and ratios off.\n"
    for words in ("A verifier call", "added row", "Speed on sample.de", "fastest"):
        assert words in out
    assert "Partial" not in out
    found = json.loads(json_.read_text(encoding="utf-8"))
    assert found["signature"]["model"] == "de-en"
    assert out.strip().split("\n")[-1].startswith(f"specmt:{found['signature']['specmt']}|")
    assert found["sentences"] == len(lines)
    # Options win over --quick.
    assert found["options"]["rows"] == [1, 2] and found["options"]["repeats"] == 1
    assert [list(ways) for ways in found["speeds"].values()] == [["greedy", "k=2", "tree", "auto"]] * 2
    assert found["load_average"] == 2.25
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_text_of_ones_own(tiny_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text, json_ = tmp_path / "text.de", tmp_path / "bench.json"
    text.write_text("Ein Haus.\n\n" + "Wort " * 200 + "\nZwei Hunde.\n", encoding="utf-8")
    arguments = [*TINY, *CPU, "--drafter", "autoregressive", "--json", str(json_), "--model", str(tiny_model)]
    assert run(["bench", str(text), *arguments]) == 0
    found = json.loads(json_.read_text(encoding="utf-8"))
    assert (found["text"], found["sentences"]) == (str(text), 2)  # no blank line, and none that is too long
    assert found["options"]["drafter"] == "autoregressive"


def test_an_interrupt_leaves_what_is_there(
    tiny_model: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    default_interrupt: None,
) -> None:
    measure, calls = runs.measure, []

    def interrupted(*arguments: Any, **options: Any) -> None:
        calls.append(arguments)
        if len(calls) == 2:  # after the first batch size
            os.kill(os.getpid(), signal.SIGINT)
        measure(*arguments, **options)

    monkeypatch.setattr(runs, "measure", interrupted)
    json_, picture = tmp_path / "bench.json", tmp_path / "bench.svg"
    arguments = [*TINY, *CPU, "--model", str(tiny_model), "--json", str(json_), "--plot", str(picture)]
    assert run(["bench", *arguments]) == 130
    out, err = capfd.readouterr()
    assert "Partial" in out and "Speed on sample.de" in out
    assert err == "specmt: note: stopped; the figures are partial.\n"
    found = json.loads(json_.read_text(encoding="utf-8"))
    assert found["partial"] and list(found["speeds"]) == ["1"]
    assert "partial" in picture.read_text(encoding="utf-8")


def test_a_lack_of_memory_leaves_what_is_there(
    tiny_model: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")

    monkeypatch.setattr(runs, "measure", fail)
    assert run(["bench", *TINY, *CPU, "--model", str(tiny_model), "-q"]) == 1
    out, err = capfd.readouterr()
    assert "Partial" in out and "A verifier call" in out
    assert err.startswith("specmt: error: out of memory") and err.count("\n") == 1


def test_models_that_lack_what_it_takes(
    tiny_model_without_drafter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("specmt.models.hub.load_model", lambda *_, **__: pytest.fail("loaded"))
    for drafter in ("masked", "autoregressive"):
        assert run(["bench", "--model", str(tiny_model_without_drafter), "--drafter", drafter]) == 69
        assert f"the model has no {drafter} drafter; train one" in capfd.readouterr().err
    foreign = tmp_path / "foreign"
    shutil.copytree(tiny_model_without_drafter, foreign)
    config = json.loads((foreign / "config.json").read_text(encoding="utf-8"))
    (foreign / "config.json").write_text(json.dumps(config | {"source": "fi"}), encoding="utf-8")
    assert run(["bench", "--model", str(foreign), "--drafter", "self"]) == 2
    assert "There is no sample in fi, which the model translates from; name a FILE." in capfd.readouterr().err
