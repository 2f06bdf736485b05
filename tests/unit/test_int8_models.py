"""Models stored in int8: half the size, and the same values whatever they are computed in."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from specmt.decoding.session import decode
from specmt.engine.packed import Rows, pack
from specmt.models.describe import count_parameters
from specmt.models.folder import CONFIG, NETWORKS, VERIFIER, ModelFolder, store_in_int8
from specmt.models.hub import load_model
from specmt.models.int8 import from_int8, to_int8
from specmt.models.reading import read_outline
from specmt.options import DecodingOptions


@pytest.fixture(scope="module")
def stored(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    """The tiny model, stored in int8."""
    return store_in_int8(tmp_path_factory.mktemp("int8"), ModelFolder.read(tiny_model))


def matrix(rows: int = 64, width: int = 32, dtype: torch.dtype = torch.float32) -> Tensor:
    torch.manual_seed(1)
    return (torch.randn(rows, width) * torch.logspace(-6, 6, rows)[:, None]).to(dtype)


def test_values_are_the_nearest_and_exact() -> None:
    weights = {"layer.weight": matrix(), "zero.weight": torch.zeros(3, 4), "layer.bias": torch.ones(64)}
    found = from_int8(to_int8(weights))
    assert found.keys() == weights.keys()
    assert torch.equal(found["zero.weight"], weights["zero.weight"])
    most = weights["layer.weight"].abs().amax(1, keepdim=True)
    assert ((found["layer.weight"] - weights["layer.weight"]).abs() <= most / 127 * 0.51).all()
    # Float64 has room for every bit of the products.
    stored = to_int8(weights)
    exact = stored["layer.weight"].double() * stored["layer.weight.scale"].double()[:, None]
    assert torch.equal(found["layer.weight"].double(), exact)
    assert all(torch.equal(tensor, to_int8(found)[name]) for name, tensor in stored.items())


def test_kernels_round_to_what_is_stored() -> None:
    stored = to_int8({"layer.weight": matrix()})
    weight = from_int8(stored)["layer.weight"]
    again, once = (dict(pack("x", torch.int8, Rows(each))) for each in (weight, stored["layer.weight"].float()))
    assert torch.equal(again["x.weight"], once["x.weight"])
    assert torch.equal(again["x.scale"], stored["layer.weight.scale"])


def test_a_folder_in_int8(tiny_model: Path, stored: ModelFolder, tmp_path: Path) -> None:
    before = ModelFolder.read(tiny_model)
    assert (stored.verifier, stored.drafter, stored.autoregressive) == (
        before.verifier,
        before.drafter,
        before.autoregressive,
    )
    assert json.loads((stored.path / CONFIG).read_text())["format"] == 2
    for name in NETWORKS:
        old, new = before.weights(name), stored.weights(name)
        outline = read_outline(stored.path / name)
        assert {key: (tensor.shape, tensor.dtype) for key, tensor in new.items()} == {
            key: (tensor.shape, tensor.dtype) for key, tensor in outline.items()
        }
        assert old.keys() == new.keys()
        assert count_parameters(stored.path / name) == count_parameters(tiny_model / name)
        kinds = {tensor.dtype for tensor in load_file(stored.path / name).values()}
        assert kinds == {torch.int8, torch.float32, torch.float16}
    assert (stored.path / VERIFIER).stat().st_size < 0.7 * (tiny_model / VERIFIER).stat().st_size
    assert store_in_int8(tmp_path / "again", stored).sha256 == stored.sha256


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_models_in_int8_decode(
    stored: ModelFolder, sources: list[list[int]], dtype: str, request: pytest.FixtureRequest
) -> None:
    if dtype == "int8":
        request.getfixturevalue("needs_kernels")
    model = load_model(stored.path, device="cpu", dtype=dtype)
    greedy = [each.tokens for each in decode(model, sources, DecodingOptions(strategy="greedy"))]
    for drafter in ("masked", "autoregressive"):
        drafted = decode(model, sources, DecodingOptions(drafter=drafter))
        assert [each.tokens for each in drafted] == greedy
