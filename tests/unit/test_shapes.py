"""Shape policies of the PyTorch path: what is tried at the start, and the fallback where granules do not do."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from specmt.decoding.session import decode
from specmt.engine import shapes
from specmt.engine.backend import State
from specmt.engine.networks import VerifierNetwork
from specmt.engine.shapes import FREE, GRANULAR, ShapePolicy, fixed, is_invariant
from specmt.engine.window import Branches
from specmt.models import hub
from specmt.models.folder import VERIFIER
from specmt.models.hub import Model, load_model
from specmt.options import DecodingOptions
from tests.networks import verifier_network

CPU = torch.device("cpu")


def network_of(path: Path, policy: ShapePolicy, dtype: torch.dtype = torch.float32) -> VerifierNetwork:
    model = load_model(path)
    weights = model.folder.weights(VERIFIER)
    network = verifier_network(weights, model.folder.verifier, CPU, dtype, shapes=policy, kernels=False)
    assert isinstance(network, VerifierNetwork)
    return network


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_one_fixed_shape_is_invariant(tiny_model: Path, dtype: torch.dtype) -> None:
    assert is_invariant(network_of(tiny_model, fixed(128), dtype))


def test_what_depends_on_the_company_is_found_out(tiny_model: Path) -> None:
    network = network_of(tiny_model, GRANULAR)
    score = network.score

    def depend_on_rows(tokens: Tensor, starts: Tensor, state: State, *shape: Branches) -> Tensor:
        return score(tokens, starts, state, *shape) * (1 + 1e-6 * (len(tokens) - 1))

    def depend_on_windows(tokens: Tensor, starts: Tensor, state: State, *shape: Branches) -> Tensor:
        return score(tokens, starts, state, *shape) * (1 + 1e-6 * (tokens.shape[1] == 1))

    def depend_on_branches(tokens: Tensor, starts: Tensor, state: State, *shape: Branches) -> Tensor:
        # The last ones alone.
        logits = score(tokens, starts, state, *shape)
        logits[:, -2:] *= 1 + 1e-6 * len(shape)
        return logits

    def give_nothing(tokens: Tensor, starts: Tensor, state: State, *shape: Branches) -> Tensor:
        return score(tokens, starts, state, *shape) * float("nan")

    assert is_invariant(network)
    for fault in (depend_on_rows, depend_on_windows, depend_on_branches, give_nothing):
        network.score = fault  # type: ignore[method-assign]
        assert not is_invariant(network)


@pytest.mark.parametrize("policy", [FREE, fixed(128)], ids=["free", "fixed"])
def test_policies_agree_but_for_rounding(tiny_model: Path, policy: ShapePolicy) -> None:
    networks = [network_of(tiny_model, each) for each in (GRANULAR, policy)]
    sources = [[5, 9, 200], [7] * 20, [30, 31]]
    tokens = torch.randint(4, 400, (3, 21))
    logits = []
    for network in networks:
        state = network.new_state(3)
        network.start(state, torch.arange(3), network.encode(sources))
        parts = [
            network.score(tokens[:, a:b], torch.full((3,), a), state) for a, b in ((0, 1), (1, 12), (12, 13), (13, 21))
        ]
        logits.append(torch.cat(parts, dim=1))
    torch.testing.assert_close(logits[0], logits[1], rtol=1e-4, atol=1e-4)


def test_machines_where_granules_fail_fall_back(
    tiny_model: Path, sources: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = decode(load_model(tiny_model, dtype="float32"), sources[:8], DecodingOptions(strategy="greedy"))
    monkeypatch.setattr(hub, "invariant_here", lambda *_: False)
    model = load_model(tiny_model, dtype="float32", kernels=False)
    assert isinstance(model.verifier, VerifierNetwork)
    assert model.verifier.shapes == fixed(model.folder.verifier.max_length)
    for options in (DecodingOptions(batch_size=5), DecodingOptions(block_size=11, batch_size=1)):
        got = decode(model, sources[:8], options)
        assert [hypothesis.tokens for hypothesis in got] == [hypothesis.tokens for hypothesis in wanted]
    free = load_model(tiny_model, dtype="float32", kernels=False, deterministic=False)
    assert isinstance(free.verifier, VerifierNetwork)
    assert free.verifier.shapes == FREE


def test_a_machine_is_tried_once(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tried: list[int] = []

    def try_out(network: VerifierNetwork) -> bool:
        tried.append(1)
        return is_invariant(network)

    monkeypatch.setattr(shapes, "is_invariant", try_out)
    models: list[Model] = [load_model(tiny_model, dtype="float32", kernels=False) for _ in range(3)]
    assert len(tried) == 1
    load_model(tiny_model, dtype="float32")  # the kernels need not be tried
    assert len(tried) <= 2
    assert all(isinstance(model.verifier, VerifierNetwork) for model in models)
