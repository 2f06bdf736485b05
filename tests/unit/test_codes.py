"""Drafters in codes of four bits: what weights are rounded to, and that the kernels compute with just that."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from specmt.engine.backend import EncoderOutput
from specmt.engine.native import NativeDecoder
from specmt.engine.packed import Rows, pack, pack_autoregressive
from specmt.engine.structures import CODES, LEVELS
from specmt.models.config import AutoregressiveConfig
from specmt.models.hub import decoder_sizes
from specmt.models.modules import create_autoregressive
from specmt.training.validate import weights_of
from tests.networks import autoregressive_network

CPU = torch.device("cpu")
CONFIG = AutoregressiveConfig(layers=2, vocab_size=437, model_dim=96, num_heads=2, ffn_dim=160, max_length=64)


def in_bytes(panels: Tensor) -> Tensor:
    """Returns the levels of codes (P, U, 16) as panels (P, 2 U, 16) in int8."""
    four = panels.view(torch.uint8).view(*panels.shape, 4)
    codes = torch.stack([four & 15, four >> 4], dim=2).long()
    return torch.tensor(LEVELS, dtype=torch.int8)[codes].view(torch.int32).view(len(panels), -1, 16)


def test_weights_are_rounded_to_the_nearest_level() -> None:
    torch.manual_seed(4)
    weight = torch.randn(83, 512)
    weight[7] = 0.0
    layer = dict(pack("layer", CODES, Rows(weight)))
    panels = in_bytes(layer["layer.weight"])
    levels = panels.view(torch.int8).view(len(panels), -1, 16, 4).transpose(1, 2).flatten(2).flatten(0, 1)[:83]
    scale = layer["layer.scale"][:83, None]
    nearest = (weight[..., None] / scale[..., None] - torch.tensor(LEVELS)).abs().amin(-1)
    assert torch.equal((weight / scale - levels).abs(), nearest)
    assert torch.equal(layer["layer.offset"][:83], 128 * levels.sum(1, dtype=torch.int32))
    # The least that 16 levels allow is 0.009497 (Max 1960, table I).
    error = (levels * scale - weight).square().mean() / weight.square().mean()
    assert 0.009 < error < 0.0105


@pytest.mark.usefixtures("needs_kernels")
@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 7, 12, 13, 40])
def test_the_kernels_compute_with_the_levels(rows: int, listed: bool) -> None:
    torch.manual_seed(5)
    sizes = decoder_sizes(CONFIG)
    codes = dict(pack_autoregressive(weights_of(create_autoregressive(CONFIG, CPU)), sizes, CODES))
    levels = {
        name: in_bytes(each) if each.dtype == torch.int32 and each.ndim == 3 else each for name, each in codes.items()
    }
    lists = [torch.arange(4 + row % 5, 437, 3) for row in range(rows)]
    encoded = EncoderOutput(torch.randn(rows * 5, 96), torch.full((rows,), 5), lists if listed else None)
    tokens = torch.randint(4, 437, (rows, 3))
    logits = []
    for packed, dtype in ((codes, CODES), (levels, torch.int8)):
        drafter = NativeDecoder(packed, sizes, dtype)
        state = drafter.new_state(rows)
        drafter.start(state, torch.arange(rows), encoded)
        logits.append(drafter.score(tokens, torch.zeros(rows, dtype=torch.int64), state))
    assert logits[0][logits[0].isfinite()].std() > 0.01
    assert torch.equal(*logits)


@pytest.mark.usefixtures("needs_kernels")
@pytest.mark.parametrize(("width", "heads", "dtype"), [(320, 5, torch.int8), (384, 4, CODES)])
def test_wide_drafters_alone_are_in_codes(width: int, heads: int, dtype: torch.dtype) -> None:
    config = AutoregressiveConfig(layers=1, vocab_size=99, model_dim=width, num_heads=heads, ffn_dim=64, max_length=16)
    weights = weights_of(create_autoregressive(config, CPU))
    assert autoregressive_network(weights, config, CPU, torch.int8).dtype == dtype
    assert autoregressive_network(weights, config, CPU, torch.float32).dtype == torch.float32
