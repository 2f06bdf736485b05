"""What becomes of ids before the first layer: token embeddings, scaled, and positions."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from specmt.engine.architecture import OURS, Architecture


def sinusoids(length: int, width: int, architecture: Architecture = OURS) -> Tensor:
    """Returns the sine and cosine position table (T, D) of Vaswani et al. 2017, section 3.5, halves side by side.

    In float32 these functions differ from one processor to another; rounded from float64 they do not.
    """
    half = width // architecture.copies // 2
    steps = half - 1 if architecture.positions == "sinusoidal" else half
    rates = (torch.arange(half, dtype=torch.float32) * (-math.log(10000.0) / steps)).double().exp().float()
    first = architecture.first_position
    angles = torch.outer(torch.arange(first, first + length, dtype=torch.float32), rates).double()
    return torch.cat([angles.sin(), angles.cos()], dim=1).float().repeat(1, architecture.copies)


def embedding_scale(width: int, architecture: Architecture) -> float:
    """Returns what token embeddings are multiplied by."""
    return math.sqrt(width) if architecture.scaled_embedding else 1.0


class Embedding:
    """Scaled token embeddings plus positions."""

    def __init__(self, table: Tensor, max_length: int, architecture: Architecture) -> None:
        width = table.shape[1]
        self.table = table  # (V, D)
        self.scale = embedding_scale(width, architecture)
        self.positions = sinusoids(max_length, width, architecture).to(table)  # (T, D)

    def __call__(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Returns (B, W, D) for ids (B, W) at positions (B, W)."""
        # Scaled here: the table may be the projection, too, and large.
        return functional.embedding(tokens, self.table) * self.scale + functional.embedding(positions, self.positions)
