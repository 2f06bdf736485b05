"""`specmt models`: the bundled models and the user's, in this process and without torch in a process of its own."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from specmt.cli.main import run
from specmt.errors import ModelError
from specmt.models.describe import count_parameters, find_licence, find_table
from specmt.models.folder import CARD, CONFIG, DRAFTER, VERIFIER, ModelFolder, find, user_models

CARD_TEXT = """# toy

- **Licence of the weights:** CC0,
  as it is.
- **Use:** tests.

## Scores

| set | BLEU |
|-|-:|
| a b | 12.5 |
| c | 3 |

## Data

| source | pairs |
|-|-:|
| x | 1 |
"""


@pytest.fixture
def toy(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny model among the user's models, with a card."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    path = user_models() / "toy"
    shutil.copytree(tiny_model, path)
    (path / CARD).write_text(CARD_TEXT, encoding="utf-8")
    return path


def output(capfd: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run(["models", *arguments]) == code
    return capfd.readouterr().out


def test_models_are_listed_with_what_they_have(toy: Path, capfd: pytest.CaptureFixture[str]) -> None:
    *bundled, mine = (line for line in output(capfd, "list").split("\n") if "→" in line)
    assert any(" de-en " in line and " de→en " in line and "the program" in line for line in bundled)
    size = sum((toy / name).stat().st_size for name in ModelFolder.read(toy).files) / 2**20
    for words in (" toy ", " de→en ", f" {size:.1f} MiB ", " 0.1 M ", "masked 0.0 M, autoregressive 0.0 M", "the user"):
        assert words in mine
    records = json.loads(output(capfd, "list", "--json"))
    assert len(records) == len(bundled) + 1
    assert records[-1]["path"] == str(toy)


def test_a_users_model_is_known_by_name(toy: Path) -> None:
    assert find("toy").path == toy
    with pytest.raises(ModelError, match="is no model folder"):
        find("toys")


def test_a_broken_model_does_not_hide_the_others(toy: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (toy / VERIFIER).write_bytes(b"\xff" * 20)
    assert run(["models", "list"]) == 0
    out, err = capfd.readouterr()
    assert "de-en" in out and "toy" not in out
    reason = "Error while deserializing header: header too large"
    assert err == f"specmt: warning: {toy / VERIFIER}: is not a safetensors file ({reason}).\n"


def test_all_of_a_model_as_json(toy: Path, capfd: pytest.CaptureFixture[str]) -> None:
    record = json.loads(output(capfd, "show", "toy", "--json"))
    weights = load_file(toy / VERIFIER)
    assert sum(record["verifier"]["parameters"].values()) == sum(tensor.numel() for tensor in weights.values())
    assert record["verifier"]["parameters"]["embedding"] == weights["encoder_frontend.embed.weight"].numel()
    assert record["verifier"]["config"]["model_dim"] == weights["encoder_frontend.embed.weight"].shape[1]
    assert set(record["drafters"]) == {"masked", "autoregressive"}
    assert set(record["drafters"]["masked"]["parameters"]) == {"embedding", "mask", "decoder", "correction"}
    assert record["files"][DRAFTER]["bytes"] == (toy / DRAFTER).stat().st_size
    assert record["files"][DRAFTER]["sha256"] == ModelFolder.read(toy).files[DRAFTER]
    assert record["licence"] == "CC0, as it is."
    assert record["scores"] == [{"set": "a b", "BLEU": "12.5"}, {"set": "c", "BLEU": "3"}]


def test_the_bundled_model_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    out = output(capfd, "show")
    for words in (
        "de→en",
        "Licence: CC BY-NC-SA 4.0",
        "Backend: ",
        "Placeholders: masked",
        "Parameters: verifier ",
        "pieces.model",
        "docs-test",
    ):
        assert words in out
    calibrations = find(None, source="de", target="en").calibrations
    bars = [line.split()[1:] for line in out.split("\n") if line.endswith(("█", *"▏▎▍▌▋▊▉"))]
    assert [*calibrations] == ["masked", "autoregressive"]
    for each in calibrations.values():
        own, bars = bars[: len(each.acceptance)], bars[len(each.acceptance) :]
        assert [share for share, _ in own] == [f"{share:.1%}" for share in each.acceptance]
        lengths = [len(bar) for _, bar in own]
        assert lengths == sorted(lengths, reverse=True) and lengths[0] == math.ceil(each.acceptance[0] * 40)
    assert not bars
    assert output(capfd, "show", "--card").startswith("# specmt de-en")


def test_a_model_without_drafter_and_card(tiny_model_without_drafter: Path, capfd: pytest.CaptureFixture[str]) -> None:
    name = str(tiny_model_without_drafter)
    out = output(capfd, "show", name)
    assert "the model card names none" in out and "drafter" not in out and "Scores" not in out
    assert run(["models", "show", name, "--card"]) == 69
    assert "the model has no card" in capfd.readouterr().err


def test_the_path_of_a_model(toy: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert output(capfd, "path", "toy") == f"{toy}\n"
    assert run(["models", "path", "none"]) == 69
    assert "none: is no model folder" in capfd.readouterr().err


def test_whole_models_are_found_whole(toy: Path, capfd: pytest.CaptureFixture[str]) -> None:
    *lines, end = output(capfd, "verify").split("\n")
    assert {"de-en", "toy"} <= {line.partition(":")[0] for line in lines} and not end
    assert all(line.endswith("all whole") for line in lines)
    assert output(capfd, "verify", "--quiet", str(toy)) == ""


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        ("flip", "is damaged or truncated"),
        ("truncate", "is damaged or truncated"),
        ("remove", "cannot be read (No such file or directory)"),
        ("config", "is not valid JSON"),
    ],
)
def test_damage_is_found(toy: Path, capfd: pytest.CaptureFixture[str], harm: str, message: str) -> None:
    path = toy / (CONFIG if harm == "config" else VERIFIER)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    if harm == "remove":
        path.unlink()
    else:
        path.write_bytes(data if harm == "flip" else data[: len(data) // 2])
    assert run(["models", "verify", "de-en", str(toy)]) == 69
    out, err = capfd.readouterr()
    assert out.startswith("de-en: ") and "toy" not in out  # the others are checked all the same
    assert err.startswith(f"specmt: error: {path}: ") and message in err and err.count("\n") == 1


def test_every_damaged_file_is_named(toy: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in (VERIFIER, DRAFTER):
        (toy / name).write_bytes(b"")
    assert run(["models", "verify", "toy", "nowhere"]) == 69
    errors = capfd.readouterr().err.strip().split("\n")
    assert [error.split(": ")[2] for error in errors] == ["nowhere", str(toy / VERIFIER), str(toy / DRAFTER)]


def test_nothing_but_verifying_reads_weights_and_nothing_imports_pytorch(toy: Path) -> None:
    code = f"""
import sys
from specmt.cli.main import run
from specmt.models import tensors
tensors._map = None
for arguments in (["list"], ["path", {str(toy)!r}], ["show", "toy", "--card"], ["verify"], ["show", "toy"]):
    assert run(["models", *arguments]) == 0
assert not {{"torch", "fairseq2"}} & set(sys.modules)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_parameters_are_counted_by_part(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    shapes = {"final_proj.bias": (5,), "other": (), "decoder.a.b": (2, 3), "encoder_frontend.embed.weight": (5, 4)}
    save_file({name: torch.zeros(shape) for name, shape in shapes.items()}, path, metadata={"format": "pt"})
    counts = {"embedding": 20, "decoder": 6, "output projection": 5, "other": 1}
    assert list(count_parameters(path).items()) == list(counts.items())
    with pytest.raises(ModelError, match="cannot be read"):
        count_parameters(tmp_path / "none")


def test_facts_of_a_card() -> None:
    assert find_licence("---\nlanguage: de\nlicense: cc-by-nc-4.0\n---\n\n# A model\n") == "cc-by-nc-4.0"
    assert find_licence("# A model\n\nNothing is said.\n") is None
    assert find_table("## Data\n\n| a |\n|-|\n| b |\n", "Scores") == []
    assert find_table("## Scores\n\nNone yet.\n", "Scores") == []
