"""PyTorch's calls of few shapes, compiled as on a GPU; here on the CPU, one of them through inductor. What memory it
lacks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from specmt.decoding.session import decode
from specmt.engine.torch import linear
from specmt.engine.torch.backend import TorchBackend
from specmt.engine.torch.door import entered
from specmt.engine.torch.invariance import COMPILED, ShapePolicy, is_invariant, one_shape
from specmt.engine.torch.verifier import TorchVerifier
from specmt.engine.window import Window, branches
from specmt.models.folder import AUTOREGRESSIVE, VERIFIER
from specmt.models.hub import Model, decoder_sizes, load_model, make_verifier
from specmt.options import DecodingOptions
from specmt.translator import Translator
from tests.folders import with_ssru
from tests.networks import scores, verifier_network


def compiled(model: Model, shapes: ShapePolicy) -> Model:
    """Returns a model whose calls are compiled."""
    backend = TorchBackend("cpu", "float32", shapes=shapes)
    verifier = make_verifier(model.folder.weights(VERIFIER), model.folder.verifier, backend)
    made = replace(model, backend=backend, verifier=verifier)
    config = model.folder.autoregressive
    assert config is not None
    made.networks["autoregressive"] = backend.drafter(
        "autoregressive", model.folder.weights(AUTOREGRESSIVE), decoder_sizes(config)
    )
    return made


@pytest.mark.long
@pytest.mark.parametrize("shapes", [COMPILED, one_shape(128)], ids=["free", "one shape"])
def test_compiled_calls_say_what_ordinary_ones_do(
    tiny_model: Path, sources: list[list[int]], monkeypatch: pytest.MonkeyPatch, shapes: ShapePolicy
) -> None:
    monkeypatch.setattr(linear, "can_pack", lambda _: False)  # packed weights are for the CPU alone
    if not shapes.alone:  # inductor compiles five graphs in a minute: they are traced as for it, and run as they are
        monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="aot_eager"))
    torch.compiler.reset()
    model = load_model(tiny_model, device="cpu", dtype="float32", kernels=False)
    made, greedy = compiled(model, shapes), DecodingOptions(strategy="greedy")
    sources = [*sources[1:12:2], sources[10]]  # short ones and long ones
    wanted = [h.tokens for h in decode(model, sources, greedy)]
    with torch._dynamo.config.patch(recompile_limit=8, fail_on_recompile_limit_hit=True):  # so few shapes
        ways = [
            greedy,
            replace(greedy, batch_size=5),
            DecodingOptions(drafter="masked", tree="best-first", nodes=12, block_size=4),
            DecodingOptions(drafter="autoregressive", block_size=3),  # one more network of the same code: once will do
        ]
        for options in ways[:3] if shapes.alone else ways:
            assert [h.tokens for h in decode(made, sources, options)] == wanted
        if shapes.alone:
            assert isinstance(made.verifier, TorchVerifier)
            assert is_invariant(made.verifier)


@pytest.mark.parametrize("shapes", [COMPILED, one_shape(128)], ids=["free", "one shape"])
@pytest.mark.parametrize("tree", [True, False])
@pytest.mark.parametrize("ssru", [False, True])
def test_some_rows_of_static_shapes_leave_the_others_alone(
    tiny_model: Path, shapes: ShapePolicy, tree: bool, ssru: bool
) -> None:
    folder = load_model(tiny_model).folder
    weights, config = folder.weights(VERIFIER), folder.verifier
    if ssru:
        weights, config = with_ssru(weights, config)
    network = verifier_network(weights, config, "float32", kernels=False, shapes=shapes)
    assert isinstance(network, TorchVerifier)
    network._step = network._run_step  # the same calls, not compiled
    random = np.random.default_rng(0)
    state = network.new_state(5)
    network.start(state, np.arange(5), network.encode([[5, 6], [7] * 20, [8], [9, 4], [30, 31, 32]]))
    scores(network, Window(random.integers(4, 400, (5, 12)), np.zeros(5, dtype=np.int64)), state)
    rows, starts, tokens = np.array([4, 1]), np.array([12, 7]), random.integers(4, 400, (2, 11))
    shape = branches(np.array([[0, 0, 1, 2, 2, 5, 0, 7, 8, 9], range(10)])) if tree else None
    before = state.own.data.clone()
    window = Window(tokens, starts, counts=np.array([11, 3]), rows=rows, branches=shape)
    got = scores(network, window, state)
    others = [0, 2, 3]
    assert torch.equal(state.own.data[:, :, others, :, :128], before[:, :, others, :, :128])
    alone = verifier_network(weights, config, "float32", kernels=False)
    plain = alone.new_state(5)
    alone.start(plain, np.arange(5), alone.encode([[5, 6], [7] * 20, [8], [9, 4], [30, 31, 32]]))
    plain.own.reserve(128)
    plain.own.data[:, :, :, :, :128] = before[:, :, :5, :, :128]
    np.testing.assert_allclose(got, scores(alone, window, plain), rtol=1e-4, atol=1e-4)


def test_lack_of_memory_is_said_as_elsewhere(tiny_model: Path) -> None:
    folder = load_model(tiny_model).folder
    network = verifier_network(folder.weights(VERIFIER), folder.verifier, "float32", kernels=False)
    with pytest.raises(MemoryError, match="not enough memory for PyTorch"):
        network.new_state(10**12)
    state = network.new_state(1)
    with pytest.raises(MemoryError):
        state.grow(10**12, 10**12)
    with pytest.raises(MemoryError):
        entered(torch.empty)(10**15)
    with pytest.raises(RuntimeError, match="expand"):
        entered(torch.ones(2).expand)(3)


def test_samples_are_the_same_beside_those_of_other_threads(tiny_model: Path) -> None:
    shared = Translator(load_model(tiny_model, kernels=False))
    options = DecodingOptions(drafter="masked", temperature=1.0, block_size=3, batch_size=4, seed=5)
    texts = [[" ".join("abcdefg"[first : first + 3]) for first in range(start, start + 4)] for start in range(4)]

    def sample(lines: list[str]) -> list[str]:
        return [each.text for each in shared.translate(lines, options)]

    alone = [sample(lines) for lines in texts]
    assert alone[0] != sample(texts[0][::-1])  # they depend on their lines
    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(sample, texts)] == alone
