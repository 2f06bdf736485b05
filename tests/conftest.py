"""A tiny model, trained for seconds on a toy language, that every test may load."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import Module, functional

from specmt.decoding.session import decode
from specmt.engine import library
from specmt.models.config import (
    AutoregressiveConfig,
    DrafterConfig,
    VerifierConfig,
    autoregressive_config_for,
    drafter_config_for,
)
from specmt.models.folder import ModelFolder, add_drafter
from specmt.models.hub import Model, load_model
from specmt.models.modules import create_autoregressive, create_drafter, create_verifier
from specmt.options import DecodingOptions
from specmt.training.drafter import BlockOptions, autoregressive_loss, drafter_loss, initialise_from, lay_blocks
from specmt.training.prepare import train_pieces
from specmt.training.validate import weights_of
from specmt.training.verifier import target_states
from specmt.types import BOS, EOS, PAD
from tests.folders import write_model

from fairseq2.models.transformer import TransformerModel  # isort: skip  (specmt.models makes it importable)

SAMPLE = Path(__file__).parents[1] / "data" / "sample"
VOCAB = 400
STEPS = 200

VERIFIER = VerifierConfig(
    model_dim=32, num_heads=2, ffn_dim=64, encoder_layers=2, decoder_layers=2, vocab_size=VOCAB, max_length=128
)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(1)


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


@pytest.fixture(scope="session", params=[True, False], ids=["kernels", "pytorch"])
def kernels(request: pytest.FixtureRequest) -> bool:
    """Whether a network is to run on the C++ kernels: both backends, one after the other."""
    if request.param:
        request.getfixturevalue("needs_kernels")
    return bool(request.param)


@pytest.fixture(scope="session")
def pieces_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SentencePiece model of 400 pieces with byte fallback."""
    path = tmp_path_factory.mktemp("pieces") / "pieces.model"
    pair = (SAMPLE.with_suffix(".de"), SAMPLE.with_suffix(".en"))
    train_pieces([pair], path, vocab_size=VOCAB, sample=1000)
    return path


@pytest.fixture(scope="session")
def verifier_config() -> VerifierConfig:
    return VERIFIER


@pytest.fixture(scope="session")
def drafter_config() -> DrafterConfig:
    return drafter_config_for(VERIFIER, layers=1, block_size=4, correction_rank=16)


@pytest.fixture(scope="session")
def autoregressive_config() -> AutoregressiveConfig:
    return autoregressive_config_for(VERIFIER)


@pytest.fixture(scope="session")
def sources() -> list[list[int]]:
    """40 varied sources of 1 to 60 pieces."""
    generator = random.Random(7)
    lengths = [1, 1, 2, 3, 15, 16, 17, 31, 32, 33, 60, *(generator.randint(1, 24) for _ in range(29))]
    return [[generator.randrange(4, VOCAB) for _ in range(length)] for length in lengths]


@pytest.fixture(scope="session")
def tiny_verifier() -> TransformerModel:
    """A verifier that has learnt to copy its source, not too well: its output varies, and mostly ends."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = create_verifier(VERIFIER, torch.device("cpu"))

    def loss() -> Tensor:
        lengths, source = toy_batch()
        target = functional.pad(source, (1, 0), value=BOS)
        wanted = target[:, 1:]
        logits = model.final_proj(target_states(model, source, lengths, target[:, :-1]))
        return functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=PAD)

    optimise(model, loss)
    return model


@pytest.fixture(scope="session")
def tiny_model_without_drafter(
    tiny_verifier: TransformerModel, pieces_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    path = tmp_path_factory.mktemp("models") / "without"
    write_model(path, pieces_path, VERIFIER, weights_of(tiny_verifier))
    return path


@pytest.fixture(scope="session")
def tiny_model(
    tiny_verifier: TransformerModel,
    tiny_model_without_drafter: Path,
    drafter_config: DrafterConfig,
    autoregressive_config: AutoregressiveConfig,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A model folder whose drafters have learnt a little from the verifier's own output."""
    teacher = load_model(tiny_model_without_drafter, device="cpu")
    torch.manual_seed(2)
    sentences = [source[:length] for _ in range(6) for length, source in zip(*toy_lists(), strict=True)]
    outputs = [h.tokens for h in decode(teacher, sentences, DecodingOptions(strategy="greedy", batch_size=64))]
    drafter = create_drafter(drafter_config, torch.device("cpu"))
    initialise_from(drafter, tiny_verifier, VERIFIER.decoder_layers)
    tiny_verifier.eval().requires_grad_(False)

    def distilled_batch() -> tuple[Tensor, Tensor, Tensor]:
        picks = torch.randint(len(sentences), (16,)).tolist()
        source = padded([[*sentences[pick], EOS] for pick in picks])
        return source, (source != PAD).sum(1), padded([[BOS, *outputs[pick], EOS] for pick in picks])

    def loss() -> Tensor:
        source, lengths, target = distilled_batch()
        blocks = lay_blocks(
            target, (target != PAD).sum(1), block_size=4, options=BlockOptions(), generator=torch.default_generator
        )
        total, weight = drafter_loss(drafter, tiny_verifier, blocks, source, lengths)
        return total / weight

    optimise(drafter, loss)
    path = tmp_path_factory.mktemp("models") / "tiny"
    add_drafter(path, teacher.folder, drafter_config, weights_of(drafter))

    autoregressive = create_autoregressive(autoregressive_config, torch.device("cpu"))
    initialise_from(autoregressive, tiny_verifier, VERIFIER.decoder_layers)

    def autoregressive_batch_loss() -> Tensor:
        source, lengths, target = distilled_batch()
        total, count = autoregressive_loss(autoregressive, tiny_verifier, target, source, lengths)
        return total / count

    optimise(autoregressive, autoregressive_batch_loss)
    add_drafter(path, ModelFolder.read(path), autoregressive_config, weights_of(autoregressive))
    return path


@pytest.fixture(scope="session")
def model(tiny_model: Path) -> Model:
    """The tiny model, loaded in float32."""
    return load_model(tiny_model, device="cpu", dtype="float32")


def toy_batch() -> tuple[Tensor, Tensor]:
    """Returns lengths (B) and sources (B, S) with EOS."""
    lengths = torch.randint(2, 17, (24,))
    source = torch.randint(4, VOCAB, (24, 16))
    places = torch.arange(16)
    source = source.masked_fill(places == lengths[:, None] - 1, EOS).masked_fill(places >= lengths[:, None], PAD)
    return lengths, source


def toy_lists() -> tuple[list[int], list[list[int]]]:
    """Returns lengths and sources, without EOS."""
    lengths, source = toy_batch()
    return (lengths - 1).tolist(), source.tolist()


def padded(rows: list[list[int]]) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


def optimise(model: Module, loss: Callable[[], Tensor]) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=STEPS)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    optimizer.zero_grad()
    model.eval()
