"""Shapes of calls on PyTorch: what is tried at the start, and the fallback where granules do not do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from specmt.decoding.session import decode
from specmt.engine.cache import State
from specmt.engine.torch import backend, invariance
from specmt.engine.torch.invariance import FREE, GRANULAR, ShapePolicy, fixed, is_invariant
from specmt.engine.torch.logits import TorchLogits
from specmt.engine.torch.verifier import TorchVerifier
from specmt.engine.window import Window
from specmt.models.folder import VERIFIER
from specmt.models.hub import Model, load_model
from specmt.options import DecodingOptions
from tests.networks import opened, scores, verifier_network


def network_of(path: Path, policy: ShapePolicy, format: str = "float32") -> TorchVerifier:
    folder = load_model(path).folder
    network = verifier_network(folder.weights(VERIFIER), folder.verifier, format, shapes=policy, kernels=False)
    assert isinstance(network, TorchVerifier)
    return network


@pytest.mark.parametrize("format", ["float32", "bfloat16"])
def test_one_fixed_shape_is_invariant(tiny_model: Path, format: str) -> None:
    assert is_invariant(network_of(tiny_model, fixed(128), format))


def test_what_depends_on_the_company_is_found_out(tiny_model: Path) -> None:
    network = network_of(tiny_model, GRANULAR)
    score = network.score

    def depend_on_rows(window: Window, state: State) -> TorchLogits:
        return TorchLogits(score(window, state).values * (1 + 1e-6 * (len(window.tokens) - 1)))

    def depend_on_windows(window: Window, state: State) -> TorchLogits:
        return TorchLogits(score(window, state).values * (1 + 1e-6 * (window.tokens.shape[1] == 1)))

    def depend_on_branches(window: Window, state: State) -> TorchLogits:
        # The last ones alone.
        logits = score(window, state)
        logits.values[:, -2:] *= 1 + 1e-6 * (window.branches is not None)
        return logits

    def give_nothing(window: Window, state: State) -> TorchLogits:
        return TorchLogits(score(window, state).values * float("nan"))

    assert is_invariant(network)
    for fault in (depend_on_rows, depend_on_windows, depend_on_branches, give_nothing):
        network.score = fault  # type: ignore[method-assign]
        assert not is_invariant(network)


@pytest.mark.parametrize("policy", [FREE, fixed(128)], ids=["free", "fixed"])
def test_policies_agree_but_for_rounding(tiny_model: Path, policy: ShapePolicy) -> None:
    networks = [network_of(tiny_model, each) for each in (GRANULAR, policy)]
    sources = [[5, 9, 200], [7] * 20, [30, 31]]
    tokens = np.random.default_rng(0).integers(4, 400, (3, 21))
    logits = []
    for network in networks:
        state = opened(network, network.encode(sources))
        parts = [
            scores(network, Window(tokens[:, a:b], np.full(3, a)), state)
            for a, b in ((0, 1), (1, 12), (12, 13), (13, 21))
        ]
        logits.append(np.concatenate(parts, axis=1))
    np.testing.assert_allclose(logits[0], logits[1], rtol=1e-4, atol=1e-4)


def test_machines_where_granules_fail_fall_back(
    tiny_model: Path, sources: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = decode(load_model(tiny_model, dtype="float32"), sources[:8], DecodingOptions(strategy="greedy"))
    monkeypatch.setattr(backend, "invariant_here", lambda *_: False)
    model = load_model(tiny_model, dtype="float32", kernels=False)
    assert isinstance(model.verifier, TorchVerifier)
    assert model.verifier.shapes == fixed(model.folder.verifier.max_length)
    for options in (DecodingOptions(batch_size=5), DecodingOptions(block_size=11, batch_size=1)):
        got = decode(model, sources[:8], options)
        assert [hypothesis.tokens for hypothesis in got] == [hypothesis.tokens for hypothesis in wanted]
    free = load_model(tiny_model, dtype="float32", kernels=False, deterministic=False)
    assert isinstance(free.verifier, TorchVerifier)
    assert free.verifier.shapes == FREE


def test_a_machine_is_tried_once(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tried: list[int] = []

    def try_out(network: TorchVerifier) -> bool:
        tried.append(1)
        return is_invariant(network)

    monkeypatch.setattr(invariance, "is_invariant", try_out)
    models: list[Model] = [load_model(tiny_model, dtype="float32", kernels=False) for _ in range(3)]
    assert len(tried) == 1
    load_model(tiny_model, dtype="float32")  # the kernels need not be tried
    assert len(tried) <= 2
    assert all(isinstance(model.verifier, TorchVerifier) for model in models)
