"""A tiny model of a toy language (tests/train_toy.py), and what tests say of this machine."""

from __future__ import annotations

import os
import random
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from specmt.engine.kernels import library
from specmt.engine.threads import use_threads
from specmt.models.config import (
    VerifierConfig,
    autoregressive_config_for,
    drafter_config_for,
)
from specmt.models.folder import VERIFIER as VERIFIER_FILE
from specmt.models.folder import ModelFolder
from specmt.models.hub import Model, load_model
from specmt.text.pieces import PIECES
from specmt.translator import Translator
from tests.commands import Execute, execute_here
from tests.folders import write_model, write_with_ssru

if TYPE_CHECKING:
    from fairseq2.models.transformer import TransformerModel

SAMPLE = Path(__file__).parents[1] / "data" / "sample"
VOCAB = 400

VERIFIER = VerifierConfig(
    model_dim=32, num_heads=2, ffn_dim=64, encoder_layers=2, decoder_layers=2, vocab_size=VOCAB, max_length=128
)
MASKED = drafter_config_for(VERIFIER, layers=1, block_size=4, correction_rank=16)
AHEAD = autoregressive_config_for(VERIFIER)
TOY = Path(__file__).parent / "toy"
"""The folder of the tiny model."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "crossed(first, *others, every=2): of these parameters some cases will do.")
    config.addinivalue_line("markers", "long: takes so long that nothing may be left to be done beside its end.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    values: dict[tuple[object, str], list[object]] = defaultdict(list)
    wanted = {item: is_wanted(item, values) for item in items}
    items[:] = sorted(
        (item for item in items if wanted[item]), key=lambda item: item.get_closest_marker("long") is None
    )
    config.hook.pytest_deselected(items=[item for item in wanted if not wanted[item]])


def is_wanted(item: pytest.Function, values: dict[tuple[object, str], list[object]]) -> bool:
    """Whether a case is among those of the first value of `first`, or one of `every` so many of its other values.

    Where two others have no fewer values than that, every pair of values of two parameters is among them.

    :param values: those seen so far, by function and parameter
    """
    if (mark := item.get_closest_marker("crossed")) is None:
        return True
    places = []
    for name in mark.args:
        seen, value = values[item.function, name], item.callspec.params[name]
        if value not in seen:
            seen.append(value)
        places.append(seen.index(value))
    return places[0] == 0 or sum(places) % mark.kwargs.get("every", 2) == 0


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    set_threads(1)
    yield
    set_threads(1)


def set_threads(count: int) -> None:
    """Says how many threads compute, on PyTorch too where it has been imported."""
    use_threads(count)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(count)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keeps what is found out about the machine away from the user's cache, in child processes too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def needs_kernels() -> None:
    """Skips a test where there are no C++ kernels."""
    if library.kernels() is None and os.environ.get("SPECMT_REQUIRE_KERNELS") == "1":
        pytest.fail(f"there are no kernels, because {library.why_absent()}")
    if library.kernels() is None:
        pytest.skip("the C++ kernels were not built, or this processor cannot run them")


@pytest.fixture(scope="module", params=[True, False], ids=["kernels", "pytorch"])
def kernels(request: pytest.FixtureRequest) -> bool:
    """Whether a network is to run on the C++ kernels: both backends, one after the other.

    For each module: else what a module has for both is made twice.
    """
    if request.param:
        request.getfixturevalue("needs_kernels")
    return bool(request.param)


@pytest.fixture
def here(capfdbinary: pytest.CaptureFixture[bytes]) -> Execute:
    """Runs commands of ours, given their words and what they read, in this process."""
    return partial(execute_here, capfdbinary)


@pytest.fixture(scope="session")
def pieces_path() -> Path:
    """A SentencePiece model of 400 pieces with byte fallback."""
    return TOY / PIECES


@pytest.fixture(scope="session")
def sources() -> list[list[int]]:
    """40 varied sources of 1 to 60 pieces."""
    generator = random.Random(7)
    lengths = [1, 1, 2, 3, 15, 16, 17, 31, 32, 33, 60, *(generator.randint(1, 24) for _ in range(29))]
    return [[generator.randrange(4, VOCAB) for _ in range(length)] for length in lengths]


@pytest.fixture(scope="session")
def tiny_verifier() -> TransformerModel:
    """A verifier that has learnt to copy its source, not too well: its output varies, and mostly ends."""
    import torch

    from specmt.models.reference.modules import create_verifier, load_verifier_weights
    from specmt.models.reference.weights import to_tensors

    module = create_verifier(VERIFIER, torch.device("cpu"))
    load_verifier_weights(module, to_tensors(ModelFolder.read(TOY).weights(VERIFIER_FILE)))
    return module.eval()


@pytest.fixture(scope="session")
def tiny_model_without_drafter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "without"
    write_model(path, TOY / PIECES, VERIFIER, ModelFolder.read(TOY).weights(VERIFIER_FILE))
    return path


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder whose drafters have learnt a little from the verifier's own output."""
    return Path(shutil.copytree(TOY, tmp_path_factory.mktemp("models") / "tiny"))


@pytest.fixture(scope="session")
def bundled() -> Model:
    """The bundled model from German to English."""
    return load_model(source="de", target="en", device="cpu", threads=1)


@pytest.fixture
def translator(bundled: Model) -> Translator:
    """Translates by the bundled model, and has seen nothing yet."""
    return Translator(bundled)


@pytest.fixture
def folder(tiny_model: Path, tmp_path: Path) -> Path:
    """A copy of the tiny model that a test may change."""
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


@pytest.fixture(scope="session")
def ssru_model(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model with SSRUs in the place of attention to the target, and all else as it was."""
    return write_with_ssru(tmp_path_factory.mktemp("models") / "ssru", tiny_model)


@pytest.fixture(scope="session", params=["tiny_model", "ssru_model"], ids=["attention", "ssru"])
def either_model(request: pytest.FixtureRequest) -> Path:
    """The tiny model, whose decoder attends to the target, and that with SSRUs."""
    path: Path = request.getfixturevalue(request.param)
    return path


@pytest.fixture(scope="session")
def model(tiny_model: Path) -> Model:
    """The tiny model, loaded in float32."""
    return load_model(tiny_model, device="cpu", dtype="float32")


@pytest.fixture
def no_curves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves out pictures of runs, which take longer than small runs do; tests/cli/test_training_cli.py has them."""
    monkeypatch.setattr("specmt.training.loop.plot_metrics", lambda metrics, picture: None)
