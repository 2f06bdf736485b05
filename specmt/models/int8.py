"""Matrices stored in int8, a scale an output row: what is stored is the model.

A scale has the eight significant bits of bfloat16, so that its products are exact in float32. Whoever rounds such
weights to int8 by row again, as the C++ kernels do, gets the same numbers and scales.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from torch import Tensor

SCALE: Final = ".scale"
"""What the name of a matrix's scales ends in, behind its own."""

LARGEST: Final = 127


def to_int8(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns the int8 numbers and scales of all matrices, and other tensors in float16."""
    import torch

    stored = {}
    for name, tensor in weights.items():
        if tensor.dim() == 2:
            weight = tensor.detach().float()
            scale = (weight.abs().amax(1) / LARGEST).clamp(min=1e-30).bfloat16().float()
            stored[name] = (weight / scale[:, None]).round().to(torch.int8)
            stored[name + SCALE] = scale
        else:
            stored[name] = tensor.detach().half()
    return stored


def from_int8(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns matrices of stored tensors in float32, and others as they are.

    :raises ValueError: scales are missing, or are none.
    """
    import torch

    weights = {}
    for name, tensor in stored.items():
        if tensor.dtype == torch.int8:
            scale = stored.get(name + SCALE)
            if scale is None or scale.shape != tensor.shape[:1] or scale.dtype != torch.float32:
                raise ValueError(f"{name} must have a scale for each row, in float32.")
            weights[name] = tensor.float() * scale[:, None]
        elif not is_scale(name, stored):
            weights[name] = tensor
    return weights


def is_scale(name: str, names: Container[str]) -> bool:
    """Returns whether a tensor is the scales of another."""
    return name.endswith(SCALE) and name.removesuffix(SCALE) in names
