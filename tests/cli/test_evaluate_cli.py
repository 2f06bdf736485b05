"""`specmt evaluate`: what it says of bad input, of a real run, and when it is interrupted."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from specmt.cli.main import run
from specmt.engine.kernels import library
from tests.commands import COMMAND, ENVIRONMENT, ROOT, TIMEOUT, execute, model_options

SOURCE = ["Ein Hund läuft.", "", "Wo ist der Bahnhof?", "Das ist ein Haus.", "Guten Tag und auf Wiedersehen."]
FIRST = ["A dog runs.", "", "Where is the station?", "This is a house.", "Hello and goodbye. \r"]


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def test_a_model_without_drafter_says_so_at_once(
    tiny_model_without_drafter: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, reference = write(tmp_path / "a.de", SOURCE), write(tmp_path / "a.en", FIRST)
    strategies = ["--strategies", "greedy,speculative:drafter=masked"]
    arguments = ["evaluate", str(source), str(reference), *strategies, *model_options(tiny_model_without_drafter)]
    assert run(arguments) == 69
    said = "the model has no masked drafter; train one with `specmt train drafter`, or decode without it."
    assert said in capfd.readouterr().err


def sacrebleu(folder: Path, references: list[str], hypotheses: str, *arguments: str) -> list[dict[str, Any]]:
    """Returns what sacreBLEU's command says, with twelve digits."""
    command = [*references, "-i", hypotheses, "-w", "12", "--confidence", "--confidence-n", "200", *arguments]
    result = execute(sys.executable, "-m", "sacrebleu", *command, folder=folder)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    return found if isinstance(found, list) else [found]


@pytest.mark.long
def test_scores_are_those_of_the_sacrebleu_command(tmp_path: Path) -> None:
    """A whole run of the bundled model: several references, a named set, every file that can be written."""
    source, reference = (
        (ROOT / "data" / f"sample.{side}").read_text(encoding="utf-8").split("\n")[40:49] for side in ("de", "en")
    )
    source[3] = reference[3] = ""
    other = [line.replace("the", "a") + " \r" for line in reference]
    for name, lines in {"a.de": source, "a.en": reference, "b.en": other}.items():
        write(tmp_path / name, lines)
    named = tmp_path / "sacrebleu" / "wmt14"
    named.mkdir(parents=True)
    for field, lines in {"src": source, "ref": other, "docid": other, "genre": other, "origlang": other}.items():
        write(named / f"wmt14.de-en.{field}", lines)
    sets = ["a.de", "a.en", "b.en", "--set", "x=a.de:b.en", "-t", "wmt14", "-l", "de-en"]
    strategies = "speculative:4,greedy,loose=tolerant:3:9:block-size=4,tree=speculative:4:tree=best-first"
    timing = ["--repeats", "2", "--latency-lines", "3", "--batch-size", "2", "--bootstrap", "200"]
    files = ["--json", "-", "--plot", "out.png", "--report", "report"]
    result = execute(
        *[*COMMAND, "evaluate", "-q", *sets, "--strategies", strategies, *timing, *files, "--threads", "1"],
        folder=tmp_path,
        SACREBLEU=str(tmp_path / "sacrebleu"),
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == b""
    record = json.loads(result.stdout)
    report = tmp_path / "report"
    assert json.loads((report / "results.json").read_text(encoding="utf-8")) == record
    assert (tmp_path / "out.png").read_bytes() == (report / "figures.png").read_bytes()
    names = ["speculative:4", "greedy", "loose", "tree"]
    pairs = [(row["test_set"], row["strategy"]) for row in record["results"]]
    assert pairs == [(name, strategy) for name in ("a", "x", "wmt14.de-en") for strategy in names]
    assert record["baseline"] == "greedy"
    assert record["load_seconds"] > 0

    found = {(each["test_set"], each["strategy"]): each for each in record["results"]}
    greedy, loose = found["a", "greedy"], found["a", "loose"]
    for references, strategy in (
        (["../a.en", "../b.en"], "greedy"),
        (["a.reference1.txt", "a.reference2.txt"], "loose"),
    ):
        hypotheses = f"a.{strategy}.txt"
        expected = sacrebleu(report, references, hypotheses, "-m", "bleu", "chrf", "ter")
        expected += sacrebleu(report, references, hypotheses, "-m", "chrf", "--chrf-word-order", "2")
        assert {each["name"] for each in expected} == {"BLEU", "chrF2", "chrF2++", "TER"}
        for each in expected:
            own = found["a", strategy]["scores"][each["name"]]
            assert 0 < own["value"] < 100
            assert f"{own['value']:.12f}" == f"{each['score']:.12f}"
            assert own["signature"] == each["signature"]
            assert own["mean"] == pytest.approx(each["confidence_mean"], rel=1e-6)  # sacreBLEU takes them two ways
            assert own["interval"] == pytest.approx(each["confidence_var"], rel=1e-6)
    assert found["wmt14.de-en", "greedy"]["scores"] == found["x", "greedy"]["scores"] != greedy["scores"]
    assert loose["same"] < 1.0 == found["a", "tree"]["same"]
    assert found["a", "tree"]["scores"]["BLEU"]["p_value"] == 1.0

    # Every line is there, blank ones too; what was drafted was counted, and timed as often as asked.
    assert (report / "a.greedy.txt").read_text(encoding="utf-8").count("\n") == len(source)
    tree = found["a", "tree"]
    assert tree["batched"]["lines"] == len(source)
    assert tree["batched"]["verifier_calls"] < greedy["batched"]["verifier_calls"]
    assert tree["batched"]["accepted"] > 0
    assert 0 < len(tree["batched"]["acceptance"]) <= 4
    assert tree["single"]["lines"] == 3 == len(tree["latency_lines"]) == len(tree["latencies"][1])
    assert len(tree["latencies"]) == len(tree["batched"]["seconds"]) == 2
    assert 0 < tree["latency"]["p50"] <= tree["latency"]["p95"] <= tree["latency"]["p99"]
    signature = record["signatures"]["loose"]
    for key in ("model_sha256", "strategy", "block_size", "beta", "tolerance", "tree", "dtype", "threads", "processor"):
        assert key in signature
    assert (signature["tolerance"], signature["block_size"], signature["batch_size"]) == (9.0, 4, 2)
    text = (report / "report.md").read_text(encoding="utf-8")
    assert "sacrebleu a.reference1.txt a.reference2.txt -i a.greedy.txt" in text
    assert signature["split"] is False  # references are of whole lines
    assert signature["model_sha256"] in text
    assert not (tmp_path / ".specmt").exists()


def test_tables_fit_in_80_columns_and_strategies_may_be_without_greedy(either_model: Path, tmp_path: Path) -> None:
    write(tmp_path / "a.de", SOURCE)
    write(tmp_path / "a.en", FIRST)
    strategies = ["--strategies", "tolerant:3:1,speculative:drafter=autoregressive:block-size=5"]
    result = execute(
        *[*COMMAND, "evaluate", "-q", "a.de", "a.en", "--limit", "3", *strategies],
        *["--repeats", "1", "--latency-lines", "2", "--bootstrap", "20", *model_options(either_model)],
        folder=tmp_path,
        COLUMNS="80",
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr == b""
    out = result.stdout.decode()
    cells = [line for line in out.split("\n") if line.startswith(("┏", "┃", "│", "└"))]
    assert len(cells) > 20
    assert all(len(line) <= 80 for line in cells)
    assert "…" not in "".join(cells)
    assert "a: quality (3 lines)" in out
    assert "× tolerant:3:1" in out


def test_ctrl_c_shows_what_there_is(tiny_model: Path, tmp_path: Path) -> None:
    write(tmp_path / "a.de", SOURCE * 20)
    write(tmp_path / "a.en", FIRST * 20)
    files = ["--json", "out.json", "--report", "report"]
    command = ["specmt", "evaluate", "a.de", "a.en", "--repeats", "100000", "--batch-size", "1", "--bootstrap", "20"]

    def restore() -> None:
        # A test runner in the background may ignore it, and children inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)

    ours, theirs = pty.openpty()
    with (tmp_path / "tables.txt").open("wb") as tables:
        process = subprocess.Popen(
            [sys.executable, "-m", *command, *files, *model_options(tiny_model)],
            cwd=tmp_path,
            env={**ENVIRONMENT, "TERM": "xterm", "COLUMNS": "100"},
            stdout=tables,
            stderr=theirs,
            preexec_fn=restore,
        )
    os.close(theirs)
    with process, suppress(OSError):  # which ends the reading of a terminal
        seen, sent = b"", False
        while select.select([ours], [], [], TIMEOUT)[0]:
            seen += os.read(ours, 65536)
            # The bar shows a rate as soon as some lines are done; it is drawn several times a second.
            if not sent and len(re.findall(rb"\d lines/s", seen)) >= 10:
                process.send_signal(signal.SIGINT)
                sent = True
        process.kill()
    os.close(ours)
    assert process.returncode == 130, seen
    assert b"interrupted; the results so far follow" in seen
    assert b"Traceback" not in seen
    text = (tmp_path / "tables.txt").read_text(encoding="utf-8")
    assert re.search(r"a: quality \(\d+ lines, partial\)", text)
    assert "Interrupted: the figures are of the lines and repeats" in text
    record = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert record["partial"] is True
    greedy, fast = record["results"]
    assert greedy["batched"]["lines"] == fast["batched"]["lines"] > 0
    assert set(greedy["scores"]) == {"BLEU", "chrF2", "chrF2++", "TER"}
    assert "# Evaluation (partial)" in (tmp_path / "report" / "report.md").read_text(encoding="utf-8")


def test_an_interrupt_before_anything_was_measured_leaves_nothing(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("specmt.evaluation.runs.measure", interrupt)
    write(Path("a.de"), SOURCE)
    write(Path("a.en"), FIRST)
    assert run(["evaluate", "a.de", "a.en", "--json", "out.json", "-q", *model_options(tiny_model)]) == 130
    assert capfd.readouterr() == ("", "")
    assert sorted(os.listdir()) == ["a.de", "a.en"]


def test_commands_that_translate_say_once_that_the_kernels_are_missing(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(library, "why_absent", lambda: "it is a test")
    source, reference = write(tmp_path / "a.de", SOURCE), write(tmp_path / "a.en", FIRST)
    little = ["--repeats", "0", "--latency-lines", "0", "--bootstrap", "0"]
    evaluate = ["evaluate", str(source), str(reference), *little, *model_options(tiny_model)]
    distil = ["distill", str(tmp_path / "out"), str(source), *model_options(tiny_model)]
    for command in (evaluate, ["trace", "Hund", *model_options(tiny_model)], distil):
        assert run(command) == 0
        notes = re.findall("specmt: note: .*", capfd.readouterr().err)
        assert notes == [
            "specmt: note: PyTorch computes, 4 to 8 times slower than the C++ kernels, because it is a test."
        ]
    assert run([*evaluate, "-q"]) == 0
    assert capfd.readouterr().err == ""
