"""The projection in int8 that goes before the one that counts: what it leaves out is never the best."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from specmt.engine.backend import best_tokens
from specmt.engine.fused import Drafting, Sentences
from specmt.engine.native import NativeVerifier
from specmt.engine.structures import Filter
from specmt.models.config import VerifierConfig
from specmt.models.modules import create_verifier
from specmt.training.validate import weights_of
from specmt.types import BOS, EOS
from tests.networks import verifier_network

pytestmark = pytest.mark.usefixtures("needs_kernels")

CPU = torch.device("cpu")
CONFIG = VerifierConfig(
    vocab_size=437,  # fills no register
    model_dim=64,
    num_heads=2,
    ffn_dim=96,
    encoder_layers=1,
    decoder_layers=2,
    max_length=128,
    tied_output=False,
    output_bias=True,
)
SOURCES = [[7, 9, 400, 8, 7], [20], [30, 31, 32], list(range(40, 75)), [5, 5]]


def close(table: Tensor) -> Tensor:
    """Returns a table in which every output has others that differ by next to nothing, and by nothing."""
    table = table[torch.arange(len(table)) % 60].clone()
    table[60:300] *= 1 + 0.004 * torch.randint(-1, 2, (240, table.shape[1]))
    return table


def outlying(table: Tensor) -> Tensor:
    """Returns a table that int8 is far too coarse for."""
    table = table.clone()
    table[:, 3] = 20.0
    return table


TABLES: dict[str, Callable[[Tensor], Tensor]] = {
    "random": lambda table: table,
    "close": close,
    "outlying": outlying,
    "all alike": lambda table: table[:1] + 1e-3 * table,
    "small": lambda table: 1e-20 * table,
    "nothing": torch.zeros_like,
}
BIASES: dict[str, Callable[[Tensor], Tensor]] = {
    "biased": lambda bias: bias,
    "below zero": lambda bias: bias - 1000.0,  # outputs that fill a register up must not win
}


def make_verifier(table: str, bias: str, dtype: torch.dtype) -> NativeVerifier:
    torch.manual_seed(1)
    weights = weights_of(create_verifier(CONFIG, CPU))
    for tensor in weights.values():
        tensor += torch.randn_like(tensor) * 0.1
    weights["final_proj.weight"] = TABLES[table](torch.randn(CONFIG.vocab_size, CONFIG.model_dim) * 0.3)
    weights["final_proj.bias"] = BIASES[bias](torch.randn(CONFIG.vocab_size))
    # No sentence ends: another token is always a little better.
    weights["final_proj.weight"][EOS] = weights["final_proj.weight"][0]
    weights["final_proj.bias"][EOS] = weights["final_proj.bias"][0] - 1.0
    verifier = verifier_network(weights, CONFIG, CPU, dtype, kernels=True)
    assert isinstance(verifier, NativeVerifier)
    return verifier


def differences(verifier: NativeVerifier, block_size: int) -> int:
    """Returns how many of the tokens that the engine says by itself are not the best by the logits."""
    rows, room = len(SOURCES), 60
    state = verifier.new_state(rows)
    memory = verifier.encode(SOURCES)
    verifier.start(state, torch.arange(rows), memory)
    tokens = torch.zeros(rows, room + block_size + 1, dtype=torch.int64)
    tokens[:, 0] = BOS
    sentences = Sentences(tokens, np.ones(rows, dtype=np.int64), np.full(rows, 40))
    while (sentences.lengths < 40).any():  # the caches have to grow on the way
        assert (sentences.lengths < 40).all()
        verifier.run(state, sentences, Drafting(block_size), iterations=64, enough=rows)
    said = tokens[:, :40]
    fresh = verifier.new_state(rows)
    verifier.start(fresh, torch.arange(rows), memory)
    logits = verifier.score(said[:, :-1], torch.zeros(rows, dtype=torch.int64), fresh)
    assert logits.isfinite().all()
    return int((best_tokens(logits) != said[:, 1:]).sum())


@pytest.mark.parametrize("block_size", [0, 4, 14])
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_the_best_token_is_that_of_the_logits(dtype: torch.dtype, table: str, bias: str, block_size: int) -> None:
    verifier = make_verifier(table, bias, dtype)
    assert verifier.decoder.struct.filter.project.weight
    assert differences(verifier, block_size) == 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_it_is_the_bound_that_sees_to_that(dtype: torch.dtype) -> None:
    found = 0
    for table in TABLES:
        verifier = make_verifier(table, "biased", dtype)
        known = verifier.decoder.struct.filter
        verifier.decoder.struct.filter = Filter(known.project, 0.0, 0.0, 0.0)
        found += differences(verifier, 0)
    assert found > 0


def test_int8_has_no_use_for_it() -> None:
    verifier = make_verifier("random", "biased", torch.int8)
    assert not verifier.decoder.struct.filter.project.weight
    assert differences(verifier, 3) == 0
