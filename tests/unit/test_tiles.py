"""The kernels on processors that multiply tiles (AMX), and on those that do not: what holds for both."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from specmt.engine import library
from specmt.engine.backend import Verifier
from specmt.models.config import VerifierConfig
from specmt.models.modules import create_verifier
from specmt.training.validate import weights_of
from tests.networks import verifier_network

CPU = torch.device("cpu")
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


@pytest.fixture(scope="module", params=[torch.bfloat16, torch.int8], ids=str)
def verifier(request: pytest.FixtureRequest, variant: str) -> Verifier:
    torch.manual_seed(1)
    weights = weights_of(create_verifier(CONFIG, CPU))
    for tensor in weights.values():
        tensor += torch.randn_like(tensor) * 0.1
    weights["final_proj.weight"] = torch.randn(CONFIG.vocab_size, CONFIG.model_dim) * 0.1
    weights["final_proj.weight"][TINY.start : TINY.stop] = 1e-39
    return verifier_network(weights, CONFIG, CPU, request.param, kernels=True)


def logits_of(verifier: Verifier, rows: int, width: int) -> Tensor:
    """Returns logits (B, W, V) of the same window in each of so many rows."""
    state = verifier.new_state(rows)
    verifier.start(state, torch.arange(rows), verifier.encode([SOURCE] * rows))
    tokens = (torch.arange(width) * 37 % 490 + 4).expand(rows, -1)
    return verifier.score(tokens, torch.zeros(rows, dtype=torch.int64), state)


@pytest.mark.parametrize("rows", [2, 3, 4, 15, 16, 17, 24, 31, 32, 33, 50])
def test_the_number_of_rows_changes_no_bit(verifier: Verifier, rows: int) -> None:
    """One row or two are multiplied in ordinary registers, more of them by tile."""
    alone = logits_of(verifier, 1, 1)
    assert alone.isfinite().all() and alone.std() > 0.1
    assert torch.equal(logits_of(verifier, rows, 1), alone.expand(rows, -1, -1))
    assert torch.equal(logits_of(verifier, 1, rows)[:, :1], alone)


def test_sentences_are_encoded_alike_alone_and_together(verifier: Verifier) -> None:
    alone = [verifier.encode([source]).states for source in ([5], SOURCE, list(range(40, 90)))]
    together = verifier.encode([[5], SOURCE, list(range(40, 90))]).states
    assert torch.equal(torch.cat(alone), together)


def test_tiny_weights_count_for_nothing_or_for_the_same(verifier: Verifier) -> None:
    if verifier.dtype == torch.bfloat16:
        assert not logits_of(verifier, 1, 1)[..., TINY.start : TINY.stop].any()
    for rows in (1, 2, 5, 40):
        logits = logits_of(verifier, rows, 1)[..., TINY.start : TINY.stop]
        assert torch.equal(logits, logits_of(verifier, 1, 1)[..., TINY.start : TINY.stop].expand(rows, -1, -1))
