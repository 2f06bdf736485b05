"""The best tokens that the engine finds by itself: through a filter in int8, or while outputs pass strip by strip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from specmt.engine.arrays import Floats
from specmt.engine.fused import Drafting, Sentences
from specmt.engine.kernels.structures import Filter
from specmt.engine.kernels.verifier import KernelVerifier
from specmt.engine.window import Window
from specmt.models.config import VerifierConfig
from specmt.models.reference.modules import create_verifier
from specmt.training.validate import weights_of
from specmt.types import BOS, EOS
from tests.conftest import set_threads
from tests.networks import arrays_of, opened, verifier_network, zeros

pytestmark = pytest.mark.usefixtures("needs_kernels")

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


def close(table: Floats) -> Floats:
    """Returns a table in which every output has others that differ by next to nothing, and by nothing."""
    table = table[np.arange(len(table)) % 60]
    steps = np.random.default_rng(2).integers(-1, 2, (240, table.shape[1]))
    table[60:300] *= 1 + np.float32(0.004) * steps.astype(np.float32)
    return table


def outlying(table: Floats) -> Floats:
    """Returns a table that int8 is far too coarse for."""
    table = table.copy()
    table[:, 3] = 20.0
    return table


TABLES: dict[str, Callable[[Floats], Floats]] = {
    "random": lambda table: table,
    "close": close,
    "outlying": outlying,
    "all alike": lambda table: table[:1] + np.float32(1e-3) * table,
    "small": lambda table: np.float32(1e-20) * table,
    "nothing": np.zeros_like,
}
BIASES: dict[str, Callable[[Floats], Floats]] = {
    "biased": lambda bias: bias,
    "below zero": lambda bias: bias - np.float32(1000.0),  # outputs that fill a register up must not win
    "none": np.zeros_like,  # some outputs are equal
}


def make_verifier(table: str, bias: str, format: str, config: VerifierConfig = CONFIG) -> KernelVerifier:
    torch.manual_seed(1)
    weights = arrays_of(weights_of(create_verifier(config, torch.device("cpu"))))
    noise = np.random.default_rng(1)
    for array in weights.values():
        array += noise.standard_normal(array.shape, np.float32) * np.float32(0.1)
    given = noise.standard_normal((config.vocab_size, config.model_dim), np.float32) * np.float32(0.3)
    weights["final_proj.weight"] = TABLES[table](given)
    weights["final_proj.bias"] = BIASES[bias](noise.standard_normal(config.vocab_size, np.float32))
    # No sentence ends: another token is always a little better.
    weights["final_proj.weight"][EOS] = weights["final_proj.weight"][0]
    weights["final_proj.bias"][EOS] = weights["final_proj.bias"][0] - 1.0
    verifier = verifier_network(weights, config, format)
    assert isinstance(verifier, KernelVerifier)
    return verifier


def differences(verifier: KernelVerifier, block_size: int) -> int:
    """Returns how many of the tokens that the engine says by itself are not the best by the logits."""
    rows, room = len(SOURCES), 60
    encoded = verifier.encode(SOURCES)
    state = opened(verifier, encoded)
    tokens = np.zeros((rows, room + block_size + 1), dtype=np.int64)
    tokens[:, 0] = BOS
    sentences = Sentences(tokens, np.ones(rows, dtype=np.int64), np.full(rows, 40))
    while (sentences.lengths < 40).any():  # the caches have to grow on the way
        assert (sentences.lengths < 40).all()
        verifier.run(state, sentences, Drafting(block_size), iterations=64, enough=rows)
    said = tokens[:, :40]
    logits = verifier.score(Window(said[:, :-1], zeros(rows)), opened(verifier, encoded))
    assert np.isfinite(logits.values).all()
    return int((logits.best() != said[:, 1:]).sum())


@pytest.mark.crossed("format", "table", "bias", "block_size", every=3)
@pytest.mark.parametrize("block_size", [0, 4, 14])
@pytest.mark.parametrize("bias", BIASES)
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("format", ["float32", "bfloat16"])
def test_the_best_token_is_that_of_the_logits(format: str, table: str, bias: str, block_size: int) -> None:
    verifier = make_verifier(table, bias, format)
    assert verifier.decoder.struct.filter.project.weight
    assert differences(verifier, block_size) == 0


@pytest.mark.parametrize("format", ["float32", "bfloat16"])
def test_it_is_the_bound_that_sees_to_that(format: str) -> None:
    found = 0
    for table in TABLES:
        verifier = make_verifier(table, "biased", format)
        known = verifier.decoder.struct.filter
        verifier.decoder.struct.filter = Filter(known.project, 0.0, 0.0, 0.0)
        found += differences(verifier, 0)
    assert found > 0


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("table", TABLES)
def test_int8_has_no_use_for_it(table: str, threads: int) -> None:
    set_threads(threads)
    verifier = make_verifier(table, "none", "int8", replace(CONFIG, vocab_size=2501))  # of several strips a thread
    assert not verifier.decoder.struct.filter.project.weight
    assert differences(verifier, 3) == 0
