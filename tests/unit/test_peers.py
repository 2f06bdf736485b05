"""Peers decode the same weights: what the scripts convert says what our own modules say."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
import torch
from compare_peers import TRIED, Peers, Result, Way, fastest
from torch import Tensor

from specmt.decoding.session import decode
from specmt.models.folder import VERIFIER, ModelFolder
from specmt.models.hub import Model, load_model
from specmt.models.reference.modules import create_verifier
from specmt.models.reference.weights import to_arrays
from specmt.options import DecodingOptions
from specmt.training.validate import weights_of
from specmt.training.verifier import target_states
from specmt.types import BOS, EOS, PAD
from tests.conftest import VERIFIER as CONFIG
from tests.folders import write_model

LINES = ["Der Hund schläft.", "Wo ist der Bahnhof, bitte?", "Nein!", "Das Haus am See ist alt und klein."]


@pytest.fixture(scope="module")
def folder(pieces_path: Path, tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    """A model of random weights, such that it says something else at every step."""
    torch.manual_seed(3)
    path = tmp_path_factory.mktemp("peers") / "model"
    verifier = create_verifier(CONFIG, torch.device("cpu"))
    for name, parameter in verifier.named_parameters():
        if "norm" in name:
            torch.nn.init.normal_(parameter, mean=float(name.endswith("weight")), std=0.1)
        else:
            torch.nn.init.normal_(parameter, std=0.3 if "embed" in name else 1.0)
    write_model(path, pieces_path, CONFIG, to_arrays(weights_of(verifier)))
    return ModelFolder.read(path)


@pytest.fixture(scope="module")
def random_model(folder: ModelFolder) -> Model:
    return load_model(folder.path, device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def batch() -> tuple[Tensor, Tensor, Tensor]:
    """Padded sources, their lengths, and targets."""
    sources = torch.tensor([[5, 9, 17, 30, EOS], [44, 8, EOS, PAD, PAD]])
    return sources, torch.tensor([5, 3]), torch.tensor([[BOS, 7, 60, 12], [BOS, 99, 5, 31]])


def say(model: Model, lines: list[str]) -> list[list[str]]:
    """Returns the pieces of greedy translations."""
    hypotheses = decode(model, model.pieces.encode_batch(lines), DecodingOptions(strategy="greedy"))
    said = [model.pieces.pieces(each.tokens) for each in hypotheses]
    assert len({piece for each in said for piece in each}) > 5, "the model must not say one thing only"
    return said


def test_m2m100_is_the_verifier(random_model: Model, batch: tuple[Tensor, Tensor, Tensor]) -> None:
    pytest.importorskip("transformers", reason="the peer is not installed")
    from peers.to_m2m100 import to_m2m100

    sources, lengths, targets = batch
    folder = random_model.folder
    converted = to_m2m100(folder.verifier, folder.weights(VERIFIER))
    with torch.inference_mode():
        found = converted(sources, attention_mask=(sources != PAD).long(), decoder_input_ids=targets).logits
        reference = random_model.reference
        wanted = reference.final_proj(target_states(reference, sources, lengths, targets))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-3)


def test_ctranslate2_says_what_greedy_decoding_says(random_model: Model, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2", reason="the peer is not installed")
    from peers.to_ctranslate2 import write_ctranslate2

    wanted = say(random_model, LINES)
    write_ctranslate2(random_model.folder, tmp_path / "converted")
    with closing(Peers(random_model, tmp_path / "converted", 1)) as peers:
        (way,) = peers.ctranslate2("float32", 2, 1)
        result = way.translate(LINES)
    assert [each[: len(own)] for each, own in zip(result.pieces, wanted, strict=True)] == wanted
    assert result.seconds > 0 and way.name == "CTranslate2 float32 greedy"


def test_the_fastest_setting_is_chosen_on_lines_from_all_over() -> None:
    asked: list[Sequence[str]] = []

    def way(setting: str, seconds: float) -> Way:
        def translate(lines: Sequence[str]) -> Result:
            asked.append(lines)
            return Result(seconds, list(lines))

        return Way("peer", setting, translate)

    lines = [str(number) for number in range(100)]
    assert fastest([way("slow", 2.0), way("quick", 1.0), way("slower", 3.0)], lines, 1).setting == "quick"
    assert asked[1] == [str(number) for number in range(0, 100, 100 // TRIED)][:TRIED]
    assert {len(each) for each in asked} == {2, TRIED}
    assert fastest([way("slow", 2.0), way("quick", 1.0)], lines, 32).setting == "quick"
    assert len(asked[-1]) == 64  # two batches
    asked.clear()
    assert fastest([way("only", 1.0)], lines, 1).setting == "only"
    assert not asked
