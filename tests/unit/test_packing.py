"""Weights packed for the kernels: from every format to every format, with the bits that are written down here."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from specmt.engine.architecture import Sizes
from specmt.engine.arrays import Array, Floats, to_bfloat16, to_floats, zeros
from specmt.engine.kernels.library import kernels
from specmt.engine.kernels.mapping import pack_or_map
from specmt.engine.kernels.packing import Parts, Rows, pack, pack_masked
from specmt.engine.kernels.structures import TOGETHER
from specmt.engine.threads import use_threads
from specmt.engine.weights import Outline, Rounded, Weight, floats

pytestmark = pytest.mark.usefixtures("needs_kernels")

OUTPUTS, INPUTS = 37, 96
STORED = ["float32", "float64", "float16", "bfloat16", "int8"]
PACKED = ["float32", "bfloat16", "int8", "codes"]


@pytest.fixture(autouse=True, params=[1, 2, 5])
def threads(request: pytest.FixtureRequest) -> Iterator[None]:
    use_threads(request.param)
    yield
    use_threads(1)


def made(seed: int, *shape: int) -> Floats:
    """Returns numbers of very different sizes, and a row of zeros."""
    random = np.random.default_rng(seed)
    numbers = random.standard_normal(shape, dtype=np.float32)
    numbers *= np.logspace(-5, 3, shape[0], dtype=np.float32).reshape(-1, *[1] * (len(shape) - 1))
    numbers[3] = 0.0
    return numbers


def stored(values: Floats, format: str) -> Weight:
    if format == "bfloat16":
        return to_bfloat16(values)
    if format == "int8":
        scale = np.abs(made(9, len(values))) + np.float32(1e-3)
        return Rounded(np.random.default_rng(8).integers(-128, 128, values.shape, dtype=np.int8), scale)
    return values.astype(format)


def filled(parts: Parts) -> dict[str, Array]:
    arrays = {}
    for part in parts:
        arrays[part.name] = zeros(part.shape, part.dtype)
        part.fill(arrays[part.name])
    return arrays


def padded(values: Floats) -> Floats:
    return np.pad(values, [(0, -len(values) % 16), *[(0, 0)] * (values.ndim - 1)])


def in_panels(rows: Array, format: str) -> Array:
    """Returns rounded rows (N, I) as panels (P, U, 16)."""
    units = np.ascontiguousarray(rows).view(np.int32)
    return units.reshape(-1, 16, INPUTS // TOGETHER[format]).transpose(0, 2, 1)


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("format", PACKED[:-1])
@pytest.mark.parametrize("own", STORED)
def test_every_format_is_rounded_as_it_is_written_down(own: str, format: str, strided: bool) -> None:
    weight = stored(made(1, OUTPUTS, INPUTS), own)
    if strided and not isinstance(weight, Rounded):
        wide = np.concatenate([weight, weight, weight], axis=1)
        weight = wide[:, INPUTS : 2 * INPUTS]
    bias = stored(made(2, OUTPUTS), own) if own != "int8" else made(2, OUTPUTS)
    factor = np.float32(96 / 2) ** np.float32(-0.5)
    found = filled(pack("x", format, Rows(weight, bias, float(factor))))
    wanted = padded(floats(weight) * factor)
    assert np.array_equal(found["x.bias"], padded(floats(bias) * factor))
    if format == "int8":
        scale = np.maximum(np.abs(wanted).max(1), np.float32(1e-30)) / np.float32(127)
        rounded = np.rint(wanted / scale[:, None])
        if isinstance(weight, Rounded):  # which is not rounded again, but where it has what kernels do not multiply
            stands = np.flatnonzero(weight.values.min(1) > -128)
            assert 0 < len(stands) < OUTPUTS
            rounded[stands], scale[stands] = weight.values[stands], weight.scale[stands] * factor
        assert np.array_equal(found["x.scale"], scale)
        assert np.array_equal(found["x.offset"], 128 * rounded.astype(np.int32).sum(1))
        wanted = rounded.astype(np.int8)
    rows = to_bfloat16(wanted) if format == "bfloat16" else wanted
    assert np.array_equal(found["x.weight"], in_panels(rows, format))


@pytest.mark.parametrize("format", PACKED)
def test_parts_stand_one_below_the_other(format: str) -> None:
    weights = [made(seed, outputs, INPUTS) for seed, outputs in enumerate((32, 48, OUTPUTS))]
    biases = [made(seed, len(weight)) for seed, weight in enumerate(weights, 5)]
    together = filled(pack("x", format, *map(Rows, weights, biases)))
    alone = [filled(pack("x", format, Rows(weight, bias))) for weight, bias in zip(weights, biases, strict=True)]
    for name, array in together.items():
        assert np.array_equal(array, np.concatenate([each[name] for each in alone]))


@pytest.mark.parametrize("format", ["float32", "bfloat16"])
@pytest.mark.parametrize("own", STORED)
def test_bounds_of_a_filter_are_bounds(own: str, format: str) -> None:
    weight, bias = stored(made(1, OUTPUTS, INPUTS), own), made(2, OUTPUTS)
    found = filled(pack("filter", "int8", Rows(weight, bias), beside=format))
    values, scale = floats(weight), found["filter.scale"][:OUTPUTS, None]
    rough = (np.rint(values / scale) * scale).astype(np.float64)
    exact = to_floats(to_bfloat16(values)) if format == "bfloat16" else values
    error, norm, largest = found["filter.bounds"].tolist()
    assert error == pytest.approx(np.sqrt(np.square(exact - rough).sum(1)).max(), rel=1e-6)
    assert norm == pytest.approx(np.sqrt(np.square(rough).sum(1)).max(), rel=1e-6)
    assert largest == np.abs(bias).max()
    assert "filter.bounds" not in filled(pack("filter", "int8", Rows(weight, bias)))


def network(own: str) -> tuple[dict[str, Weight], Sizes]:
    """Returns the weights of a masked drafter without layers."""
    values = {
        "embed.weight": made(1, 99, 32),
        "mask_embedding": made(2, 32),
        "correction.gates.weight": made(3, 32, 2 * 32 + 16),
        "correction.gates.bias": made(4, 32),
        "correction.output.weight": made(5, 32, 16),
        "decoder.layer_norm.weight": made(6, 32),
        "decoder.layer_norm.bias": made(7, 32),
    }
    sizes = Sizes(heads=2, encoder_layers=0, decoder_layers=0, max_length=64)
    vectors = "float16" if own == "int8" else own
    return {name: stored(each, own if each.ndim == 2 else vectors) for name, each in values.items()}, sizes


@pytest.mark.parametrize("own", STORED)
def test_the_tables_of_a_masked_drafter(own: str) -> None:
    weights, sizes = network(own)
    found = pack_or_map(weights, "a test", lambda given: pack_masked(given, sizes, "int8"))
    assert all(array.ctypes.data % 64 == 0 for array in found.values())
    table, gates, output = (
        floats(weights[name]).astype(np.float64)
        for name in ("embed.weight", "correction.gates.weight", "correction.output.weight")
    )
    embedded = table * np.sqrt(32) @ gates[:, 32:64].T + floats(weights["correction.gates.bias"])
    for name, wanted in (("embedded", embedded), ("corrected", table @ output)):
        largest = np.abs(wanted).max(1, keepdims=True) + 1e-30
        assert (np.abs(found[name] - wanted) / largest).max() < 1e-5
    exact = floats(weights["correction.gates.weight"])
    for name, matrix in (("known", exact[:, :32]), ("carried", exact[:, 64:])):
        assert np.array_equal(found[f"{name}.weight"].view(np.float32), matrix.reshape(2, 16, -1).transpose(0, 2, 1))
    kept = found["decoder.table"]
    own_table = weights["embed.weight"]
    if isinstance(own_table, Rounded) or own == "float64":
        assert np.array_equal(kept, floats(own_table))
    else:
        assert kept.dtype == own_table.dtype and np.array_equal(kept, own_table)


def test_outlines_tell_what_comes() -> None:
    weights, sizes = network("int8")
    outline = {
        name: Outline(each.shape, np.dtype(np.int8) if isinstance(each, Rounded) else each.dtype)
        for name, each in weights.items()
    }
    for known, real in zip(pack_masked(outline, sizes, "int8"), pack_masked(weights, sizes, "int8"), strict=True):
        assert known[:3] == real[:3]
    part = next(iter(pack_masked(outline, sizes, "int8")))
    with pytest.raises(TypeError, match="nothing to be packed"):
        part.fill(zeros(part.shape, part.dtype))


def test_lack_of_memory_is_said_and_gets_over() -> None:
    library = kernels()
    assert library is not None
    weights, sizes = network("float16")

    def packed() -> dict[str, Array]:
        return filled(pack_masked(weights, sizes, "codes"))

    wanted, failed, number = packed(), 0, 1
    while True:
        library.specmt_fail_allocation(number)
        try:
            found = packed()
        except MemoryError:
            failed += 1
        if library.specmt_fail_allocation(0) > 0:
            break
        number += 1
    assert failed > 5
    assert found.keys() == wanted.keys() and all(np.array_equal(found[name], wanted[name]) for name in wanted)
