"""Models stored in int8: half the size, and the same values whatever they are computed in."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from specmt.decoding.session import decode
from specmt.engine.arrays import Array, Floats, to_bfloat16, to_floats, zeros
from specmt.engine.kernels.packing import Rows, pack
from specmt.engine.weights import Rounded, Weight, floats
from specmt.models.describe import count_parameters
from specmt.models.folder import CONFIG, NETWORKS, VERIFIER, ModelFolder
from specmt.models.hub import load_model
from specmt.models.tensors import read_arrays, read_outline
from specmt.models.writing import store_in_int8, to_int8
from specmt.options import DecodingOptions


@pytest.fixture(scope="module")
def stored(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> ModelFolder:
    """The tiny model, stored in int8."""
    return store_in_int8(tmp_path_factory.mktemp("int8"), ModelFolder.read(tiny_model))


def matrix(rows: int = 64, width: int = 32) -> Floats:
    numbers = np.random.default_rng(1).standard_normal((rows, width), dtype=np.float32)
    return numbers * np.logspace(-6, 6, rows, dtype=np.float32)[:, None]


def packed(weight: Weight) -> dict[str, Array]:
    arrays = {}
    for part in pack("x", "int8", Rows(weight)):
        arrays[part.name] = zeros(part.shape, part.dtype)
        part.fill(arrays[part.name])
    return arrays


def test_values_are_the_nearest_and_exact() -> None:
    weights = {"layer.weight": matrix(), "zero.weight": np.zeros((3, 4), np.float32), "layer.bias": np.ones(64)}
    stored = to_int8(weights)
    found = {name: floats(weight) for name, weight in stored.items()}
    assert found.keys() == weights.keys()
    assert np.array_equal(found["zero.weight"], weights["zero.weight"])
    most = np.abs(weights["layer.weight"]).max(1, keepdims=True)
    assert (np.abs(found["layer.weight"] - weights["layer.weight"]) <= most / 127 * 0.51).all()
    layer = stored["layer.weight"]
    assert isinstance(layer, Rounded)
    assert np.array_equal(to_floats(to_bfloat16(layer.scale)), layer.scale)
    # Float64 has room for every bit of the products.
    exact = layer.values.astype(np.float64) * layer.scale.astype(np.float64)[:, None]
    assert np.array_equal(found["layer.weight"].astype(np.float64), exact)
    again = to_int8(found)["layer.weight"]
    assert isinstance(again, Rounded)
    assert np.array_equal(again.values, layer.values) and np.array_equal(again.scale, layer.scale)


@pytest.mark.usefixtures("needs_kernels")
def test_kernels_round_to_what_is_stored() -> None:
    stored = to_int8({"layer.weight": matrix()})["layer.weight"]
    assert isinstance(stored, Rounded)
    wide, again, once = (packed(each) for each in (floats(stored), stored, stored.values.astype(np.float32)))
    assert all(np.array_equal(wide[name], again[name]) for name in wide)
    assert np.array_equal(again["x.weight"], once["x.weight"])
    assert np.array_equal(again["x.scale"], stored.scale)


@pytest.mark.usefixtures("needs_kernels")
def test_one_factor_of_a_whole_matrix_stands() -> None:
    """As in models of Marian, whose values are codes by a factor: rows need not come up to 127."""
    codes = np.random.default_rng(2).integers(-90, 91, (64, 32)).astype(np.int8)
    codes[5], codes[9, 3] = 0, 127
    scale = np.full(64, np.float32(1) / np.float32(173.3))
    found, again = packed(Rounded(codes, scale)), packed(codes.astype(np.float32))
    assert np.array_equal(found["x.scale"], scale)
    assert np.array_equal(found["x.offset"], 128 * codes.astype(np.int32).sum(1))
    assert np.array_equal(np.sort(found["x.weight"].view(np.int8), axis=None), np.sort(codes, axis=None))
    assert not np.array_equal(found["x.weight"], again["x.weight"])


def dtype_of(weight: Weight) -> np.dtype[np.generic]:
    return weight.values.dtype if isinstance(weight, Rounded) else weight.dtype


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
        assert {key: (weight.shape, dtype_of(weight)) for key, weight in new.items()} == {
            key: (known.shape, known.dtype) for key, known in outline.items()
        }
        assert old.keys() == new.keys()
        assert count_parameters(stored.path / name) == count_parameters(tiny_model / name)
        kinds = {array.dtype.name for array in read_arrays(stored.path / name).values()}
        assert kinds == {"int8", "float32", "float16"}
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


def test_fairseq2_is_given_the_same_values(stored: ModelFolder) -> None:
    """It reads the files by itself."""
    from safetensors.torch import load_file

    from specmt.models.reference.weights import from_stored, to_tensors

    for name in NETWORKS:
        theirs, ours = from_stored(load_file(stored.path / name)), to_tensors(stored.weights(name))
        assert theirs.keys() == ours.keys()
        assert all(tensor.equal(ours[key]) for key, tensor in theirs.items())
