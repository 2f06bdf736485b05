"""Drafters in codes of four bits: what weights are rounded to, and that the kernels compute with just that."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from specmt.engine.arrays import Array, Floats, Ids
from specmt.engine.kernels.backend import KernelBackend
from specmt.engine.kernels.decoder import KernelDecoder
from specmt.engine.kernels.mapping import pack_or_map
from specmt.engine.kernels.network import KernelEncoderOutput
from specmt.engine.kernels.packing import Rows, pack, pack_autoregressive
from specmt.engine.kernels.structures import LEVELS
from specmt.engine.window import Window
from specmt.models.config import DecoderConfig
from specmt.models.hub import decoder_sizes
from specmt.models.parameters import drafter_shapes
from specmt.models.reference.modules import create_autoregressive
from specmt.training.validate import weights_of
from tests.networks import opened, packed, zeros

pytestmark = pytest.mark.usefixtures("needs_kernels")

CONFIG = DecoderConfig(layers=2, vocab_size=437, model_dim=96, num_heads=2, ffn_dim=160, max_length=64)


def in_bytes(panels: Array) -> Array:
    """Returns the levels of codes (P, U, 16) as panels (P, 2 U, 16) in int8."""
    four = panels.view(np.uint8).reshape(*panels.shape, 4)
    codes = np.stack([four & 15, four >> 4], axis=2)
    return np.array(LEVELS, dtype=np.int8)[codes].view(np.int32).reshape(len(panels), -1, 16)


def test_weights_are_rounded_to_the_nearest_level() -> None:
    weight = np.random.default_rng(4).standard_normal((83, 512), np.float32)
    weight[7] = 0.0
    layer = pack_or_map({"weight": weight}, "a test", lambda given: pack("layer", "codes", Rows(given["weight"])))
    panels = in_bytes(layer["layer.weight"])
    levels = panels.view(np.int8).reshape(len(panels), -1, 16, 4).swapaxes(1, 2).reshape(-1, 512)[:83]
    scale = layer["layer.scale"][:83, None]
    nearest = np.abs(weight[..., None] / scale[..., None] - np.array(LEVELS, dtype=np.float32)).min(-1)
    assert np.array_equal(np.abs(weight / scale - levels), nearest)
    assert np.array_equal(layer["layer.offset"][:83], 128 * levels.sum(1, dtype=np.int32))
    # The least that 16 levels allow is 0.009497 (Max 1960, table I).
    error = np.square(levels * scale - weight).mean() / np.square(weight).mean()
    assert 0.009 < error < 0.0105


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7, 12, 13, 40])
def test_the_kernels_compute_with_the_levels(rows: int, listed: bool) -> None:
    torch.manual_seed(5)
    sizes = decoder_sizes(CONFIG)
    weights = weights_of(create_autoregressive(CONFIG, torch.device("cpu")))
    codes = packed(pack_autoregressive, weights, sizes, "codes")
    levels = {
        name: in_bytes(each) if each.dtype == np.int32 and each.ndim == 3 else each for name, each in codes.items()
    }
    lists: list[Ids] = [np.arange(4 + row % 5, 437, 3) for row in range(rows)]
    noise = np.random.default_rng(5)
    states = noise.standard_normal((rows * 5, 96), np.float32)
    encoded = KernelEncoderOutput(states, np.full(rows, 5), lists if listed else None)
    tokens = noise.integers(4, 437, (rows, 3))
    logits: list[Floats] = []
    for arrays, format in ((codes, "codes"), (levels, "int8")):
        drafter = KernelDecoder(arrays, sizes, format)
        logits.append(drafter.score(Window(tokens, zeros(rows)), opened(drafter, encoded)).values)
    assert logits[0][np.isfinite(logits[0])].std() > 0.01
    assert np.isfinite(logits[0]).all() != listed
    assert np.array_equal(*logits)


@pytest.mark.parametrize("format", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize(("width", "heads", "wanted"), [(320, 5, "int8"), (384, 4, "codes")])
def test_wide_drafters_alone_are_in_codes(width: int, heads: int, wanted: str, format: str) -> None:
    """Whatever format their verifier is in."""
    config = DecoderConfig(layers=1, vocab_size=99, model_dim=width, num_heads=heads, ffn_dim=64, max_length=16)
    weights = {name: np.ones(shape, dtype=np.float32) for name, shape in drafter_shapes(config).items()}
    drafter = KernelBackend(format).drafter("autoregressive", weights, decoder_sizes(config))
    assert isinstance(drafter, KernelDecoder)
    assert drafter.format == wanted
