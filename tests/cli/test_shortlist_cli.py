"""`specmt shortlist`, and what translates with what it has learnt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specmt.cli.main import run
from specmt.decoding.session import decode
from specmt.models.folder import SHORTLIST, ModelFolder
from specmt.models.hub import load_model
from specmt.options import DecodingOptions
from tests.commands import AS_SAID, COMMAND, MACHINE, execute

LINES = [f"Der Hund Nummer {number} sieht {number * 7} Katzen." for number in range(60)]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.de"
    path.write_text("\n".join([*LINES, "", LINES[0]]) + "\n", encoding="utf-8")
    return path


def test_what_is_learnt_goes_into_the_folder_and_is_used(
    folder: Path, text: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    learning = ["shortlist", str(folder), str(text), *MACHINE, "--frequent", "30", "--associated", "3"]
    assert run([*learning, "--limit", "40"]) == 0
    said = capfd.readouterr()
    config = ModelFolder.read(folder).shortlist
    assert config is not None
    assert (config.frequent, config.associated) == (30, 3)
    assert 20 <= config.sentences <= 38  # those that reached the length limit are left out
    assert said.out == ""
    assert f"of 400 pieces a sentence may say {config.allowed:,.0f}" in said.err
    assert f"{config.recall:.2%} of what the model says is among them" in said.err

    assert run(["models", "show", str(folder)]) == 0
    shown = capfd.readouterr().out
    assert SHORTLIST in shown and "Shortlist" in shown and f"{config.recall:g}" in shown
    assert run(["models", "show", str(folder), "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["shortlist"]["frequent"] == 30
    assert run(["models", "verify", str(folder)]) == 0

    translating = [*COMMAND, "translate", "--model", folder, *MACHINE, "--shortlist", "--format", "jsonl", *AS_SAID]
    result = execute(*translating, "--block-size", "3", data="\n".join(LINES[:5]).encode())
    assert result.returncode == 0
    assert result.stderr.decode().startswith(
        "specmt: note: with a shortlist, output may differ from that of the whole vocabulary.\n"
    )
    model = load_model(folder, device="cpu", dtype="float32")
    wanted = decode(
        model, model.pieces.encode_batch(LINES[:5]), DecodingOptions(strategy="greedy", shortlist=True, protect=False)
    )
    got = [json.loads(line)["tokens"] for line in result.stdout.decode().splitlines()]
    assert got == [model.pieces.pieces(hypothesis.tokens) for hypothesis in wanted]


def test_distilled_data_is_learnt_from_too(folder: Path, text: Path, tmp_path: Path) -> None:
    distilled = tmp_path / "distilled"
    assert run(["distill", str(distilled), str(text), "--model", str(folder), *MACHINE]) == 0
    assert run(["shortlist", str(folder), "--distilled", str(distilled)]) == 0
    once = (folder / SHORTLIST).read_bytes()
    assert run(["shortlist", str(folder), str(text), *MACHINE]) == 0
    assert (folder / SHORTLIST).read_bytes() == once


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["MODEL"], 2, "Name either FILES or `--distilled`."),
        (["MODEL", "TEXT", "--distilled", "x"], 2, "Name either FILES or `--distilled`."),
        (["MODEL", "TEXT", "--limit", "0"], 2, "`limit` must be at least 1, but is 0 instead."),
        (["MODEL", "TEXT", "--frequent", "0"], 2, "`frequent` must be at least 1, but is 0 instead."),
        (["MODEL", "TEXT", "--associated", "-1"], 2, "`associated` must be at least 1, but is -1 instead."),
        (["MODEL", "TEXT", "--limit", "3"], 65, "needs 20 sentences to learn from, but there are"),
        (["MODEL", "no-such-file"], 66, "no-such-file: no such file."),
        (["no-such-model", "TEXT"], 69, "no-such-model: is no model folder"),
        (["de-en", "TEXT"], 2, "comes with the program and stays as it is"),
    ],
)
def test_what_cannot_be_learnt_from(
    folder: Path, text: Path, arguments: list[str], code: int, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    places = {"MODEL": str(folder), "TEXT": str(text)}
    options = MACHINE if "MODEL" in arguments else []
    assert run(["shortlist", *(places.get(argument, argument) for argument in arguments), *options]) == code
    assert message in capfd.readouterr().err
    assert not (folder / SHORTLIST).exists()
