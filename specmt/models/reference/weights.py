"""Weights as PyTorch has them, for the reference and for training, and back."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from specmt.engine.arrays import Array
from specmt.engine.weights import Weights, floats
from specmt.models.tensors import SCALE, is_scale


def to_tensors(weights: Weights) -> dict[str, Tensor]:
    """Returns weights in float32, in memory of their own: those of files are mapped, and cannot be written."""
    return {name: torch.from_numpy(np.array(floats(weight))) for name, weight in weights.items()}


def to_arrays(tensors: Mapping[str, Tensor]) -> dict[str, Array]:
    """Returns tensors in a format that NumPy has, wherever they are."""
    return {name: tensor.numpy(force=True) for name, tensor in tensors.items()}


def from_stored(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns what a file of weights holds in float32, matrices in int8 multiplied by their scales."""
    weights = {name: tensor.float() for name, tensor in tensors.items() if not is_scale(name, tensors)}
    for name, weight in weights.items():
        if name + SCALE in tensors:
            weight.mul_(tensors[name + SCALE][:, None])
    return weights
