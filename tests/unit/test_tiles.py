"""The kernels on processors that multiply tiles (AMX), and on those that do not: what holds for both."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from specmt.engine.arrays import Floats
from specmt.engine.kernels import library
from specmt.engine.kernels.verifier import KernelVerifier
from specmt.engine.window import Window
from specmt.models.config import VerifierConfig
from specmt.models.reference.modules import create_verifier
from specmt.training.validate import weights_of
from tests.networks import arrays_of, verifier_network

CONFIG = VerifierConfig(
    vocab_size=500, model_dim=128, num_heads=2, ffn_dim=192, encoder_layers=2, decoder_layers=2, max_length=64
)
SOURCE = [7, 9, 400, 8, 7]
TINY = range(20, 30)
"""Tokens whose weights are too small for bfloat16 but for its subnormal numbers, which tiles take for 0."""


@pytest.fixture(scope="module", params=["amx", "avx512-bf16"])
def variant(request: pytest.FixtureRequest, needs_kernels: None) -> Iterator[str]:
    if request.param not in library.variants():
        pytest.skip(f"the processor does not run {request.param}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(library.CHOICE, request.param)
        yield request.param


@pytest.fixture(scope="module", params=["bfloat16", "int8"])
def verifier(request: pytest.FixtureRequest, variant: str) -> KernelVerifier:
    torch.manual_seed(1)
    weights = arrays_of(weights_of(create_verifier(CONFIG, torch.device("cpu"))))
    noise = np.random.default_rng(1)
    for array in weights.values():
        array += noise.standard_normal(array.shape, np.float32) * np.float32(0.1)
    shape = CONFIG.vocab_size, CONFIG.model_dim
    weights["final_proj.weight"] = noise.standard_normal(shape, np.float32) * np.float32(0.1)
    weights["final_proj.weight"][TINY.start : TINY.stop] = 1e-39
    verifier = verifier_network(weights, CONFIG, request.param)
    assert isinstance(verifier, KernelVerifier)
    return verifier


def logits_of(verifier: KernelVerifier, rows: int, width: int) -> Floats:
    """Returns logits (B, W, V) of the same window in each of so many rows."""
    state = verifier.new_state(rows)
    verifier.start(state, np.arange(rows), verifier.encode([SOURCE] * rows))
    tokens = np.tile(np.arange(width) * 37 % 490 + 4, (rows, 1))
    logits = verifier.score(Window(tokens, np.zeros(rows, dtype=np.int64)), state)
    return logits.values.reshape(rows, width, -1)


@pytest.mark.parametrize("rows", [2, 3, 4, 15, 16, 17, 24, 31, 32, 33, 50])
def test_the_number_of_rows_changes_no_bit(verifier: KernelVerifier, rows: int) -> None:
    """One row or two are multiplied in ordinary registers, more of them by tile."""
    alone = logits_of(verifier, 1, 1)
    assert np.isfinite(alone).all() and alone.std() > 0.1
    assert np.array_equal(logits_of(verifier, rows, 1), alone.repeat(rows, axis=0))
    assert np.array_equal(logits_of(verifier, 1, rows)[:, :1], alone)


def test_sentences_are_encoded_alike_alone_and_together(verifier: KernelVerifier) -> None:
    alone = [verifier.encode([source]).states for source in ([5], SOURCE, list(range(40, 90)))]
    together = verifier.encode([[5], SOURCE, list(range(40, 90))]).states
    assert np.array_equal(np.concatenate(alone), together)


def test_tiny_weights_count_for_nothing_or_for_the_same(verifier: KernelVerifier) -> None:
    if verifier.format == "bfloat16":
        assert not logits_of(verifier, 1, 1)[..., TINY.start : TINY.stop].any()
    for rows in (1, 2, 5, 40):
        logits = logits_of(verifier, rows, 1)[..., TINY.start : TINY.stop]
        alone = logits_of(verifier, 1, 1)[..., TINY.start : TINY.stop]
        assert np.array_equal(logits, alone.repeat(rows, axis=0))
