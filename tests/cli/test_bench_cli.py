"""`specmt bench` from the command line, in this process: a start costs seconds, and little is measured."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specmt.cli.bench import ASSETS
from specmt.cli.main import run
from specmt.decoding import costs
from specmt.evaluation import bench as measuring
from specmt.evaluation import bench_timing as timing

TINY = ["--rows", "1,2", "--batch-sizes", "1,2", "--block-sizes", "2", "--repeats", "1", "--threads", "1"]
CPU = ["--device", "cpu", "--dtype", "float32"]


@pytest.fixture(autouse=True)
def little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "LEAST_SENTENCES", 4)
    monkeypatch.setattr(timing, "_BUDGET", 0.0)
    monkeypatch.setattr(costs, "SECONDS", 0.0)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.1, 0.2, 0.3))


@pytest.fixture
def default_interrupt() -> Iterator[None]:
    """A test runner in the background may ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_the_bundled_model_on_the_bundled_sample(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    json_, picture = tmp_path / "bench.json", tmp_path / "bench.png"
    assert run(["bench", "--quick", *TINY, "--json", str(json_), "--plot", str(picture)]) == 0
    out, err = capfd.readouterr()
    assert not err
    for words in ("A verifier call", "Drafting (masked)", "on sample.de", "Predicted", "break-even", "best block size"):
        assert words in out
    assert "Partial" not in out
    found = json.loads(json_.read_text(encoding="utf-8"))
    assert found["signature"]["model"] == "de-en"
    assert out.strip().split("\n")[-1].startswith(f"specmt:{found['signature']['specmt']}|model:de-en|model_sha256:")
    assert found["text"]["name"] == "sample.de"
    assert found["text"]["sentences"] == (ASSETS / "sample.de").read_text(encoding="utf-8").count("\n")
    # Options win over --quick.
    assert found["options"]["rows"] == [1, 2] and found["options"]["repeats"] == 1
    assert len(found["acceptance"]["measured"]) == len(found["acceptance"]["calibrated"]) == 10
    # The drafter was made for such text.
    assert found["acceptance"]["measured"][0] > 0.5
    assert [list(each["ways"]) for each in found["measured"]] == [["greedy", "k=2", "auto"]] * 2
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_text_of_ones_own(tiny_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text.de"
    text.write_text("Ein Haus.\n\n" + "Wort " * 200 + "\nZwei Hunde.\n", encoding="utf-8")
    json_ = tmp_path / "bench.json"
    arguments = [
        str(text),
        "--model",
        str(tiny_model),
        *TINY,
        *CPU,
        "--drafter",
        "autoregressive",
        "--json",
        str(json_),
    ]
    assert run(["bench", *arguments]) == 0
    found = json.loads(json_.read_text(encoding="utf-8"))
    assert found["text"]["name"] == str(text)
    assert found["text"]["sentences"] == 2  # no blank line, and none that is too long
    assert found["signature"]["drafter"] == "autoregressive"
    assert found["acceptance"]["calibrated"] is None
    assert "auto" not in found["break_even"]


def test_random_weights_on_a_busy_machine(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (2.25, 0.0, 0.0))
    json_ = tmp_path / "bench.json"
    assert run(["bench", "--arch", "small", *TINY, *CPU, "--json", str(json_)]) == 0
    out, err = capfd.readouterr()
    assert "A verifier call" in out and "Drafting" not in out
    assert err == "specmt: note: other work keeps 2.2 processors busy; times will be too long, and ratios off.\n"
    found = json.loads(json_.read_text(encoding="utf-8"))
    assert found["load_average"] == 2.25
    assert found["signature"]["model"] == "small (random weights)"
    assert not found["partial"] and found["text"] is None and len(found["verify"]) == 4


def test_an_interrupt_leaves_what_is_there(
    tiny_model: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    default_interrupt: None,
) -> None:
    decode = measuring.decode
    calls = 0

    def interrupted(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        # Acceptance, two translations to draft for, then two ways twice at the first batch size.
        if calls == 8:
            os.kill(os.getpid(), signal.SIGINT)
        return decode(*arguments, **options)

    for module in (measuring, timing):
        monkeypatch.setattr(module, "decode", interrupted)
    json_, picture = tmp_path / "bench.json", tmp_path / "bench.svg"
    arguments = [*TINY, *CPU, "--model", str(tiny_model), "--json", str(json_), "--plot", str(picture)]
    assert run(["bench", *arguments]) == 130
    out, err = capfd.readouterr()
    assert "Partial" in out and "Predicted tokens/s" in out
    assert err == "specmt: note: stopped; the figures are partial.\n"
    found = json.loads(json_.read_text(encoding="utf-8"))
    assert found["partial"]
    assert len(found["predicted"]) == 2
    assert [each["batch_size"] for each in found["measured"]] == [1]
    assert "partial" in picture.read_text(encoding="utf-8")


def test_a_lack_of_memory_leaves_what_is_there(
    tiny_model: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode(*_: Any, **__: Any) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")

    monkeypatch.setattr(measuring, "decode", decode)
    assert run(["bench", *TINY, *CPU, "--model", str(tiny_model), "-q"]) == 1
    out, err = capfd.readouterr()
    assert "Partial" in out and "A verifier call" in out
    assert err.startswith("specmt: error: out of memory") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--rows", "0"], 2, "`rows` must be at least 1, but is 0 instead."),
        (["--batch-sizes", ","], 2, "`batch_sizes` must name at least one number, but is empty instead."),
        (["--block-sizes", "2,x"], 2, "must be whole numbers with commas between, but is '2,x' instead."),
        (["--repeats", "0"], 2, "`repeats` must be at least 1"),
        (["--drafter", "lookup"], 2, "'lookup' is not one of"),
        (["--threads", "0"], 2, "`threads` must be at least 1"),
        (["--arch", "base", "in.de"], 2, "leave them out"),
        (["--plot", "bench.txt"], 2, "`plot` must end in .png, .svg, .pdf, but is 'bench.txt' instead."),
        (["--plot", "x.png", "--json", "x.png"], 2, "the same file"),
        (["--plot", "none/x.png"], 74, "none/x.png: cannot be written"),
        (["--json", "none/x.json"], 74, "none/x.json: cannot be written"),
        (["none.de"], 66, "none.de: no such file."),
        (["in.de"], 65, "in.de: has no line of text."),
        (["--from", "fi"], 69, "No bundled model translates fi→en"),
        (["--model", "none"], 69, "none: is no model folder"),
    ],
)
def test_mistakes_are_told_before_the_model_is_loaded(
    arguments: list[str],
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("specmt.models.hub.load_model", lambda *_, **__: pytest.fail("loaded"))
    monkeypatch.chdir(tmp_path)
    Path("in.de").write_text(" \n\n", encoding="utf-8")
    assert run(["bench", *arguments]) == code
    out, err = capfd.readouterr()
    assert message in err
    assert not out
    assert os.listdir() == ["in.de"]


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


def test_help_does_not_import_torch() -> None:
    script = (
        "import sys; from specmt.cli.main import run\n"
        "assert run(['bench', '--help']) == 0\n"
        "heavy = {'torch', 'numpy', 'matplotlib', 'fairseq2', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "--block-sizes" in result.stdout
