"""The recurrent unit that decoder layers may have in the place of attention to earlier target tokens."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from specmt.engine.torch.invariance import ShapePolicy
from specmt.engine.torch.linear import Linear, linear_of
from specmt.engine.torch.windows import Seen


class Ssru:
    """A simpler simple recurrent unit: c ← σ(f) c + (1 − σ(f)) W x, and relu(c) comes of it (Kim et al. 2019, section
    3.1). Cells are in float32 at least: each token changes them a little.
    """

    def __init__(self, weights: Mapping[str, Tensor], name: str) -> None:
        self.inputs = Linear(weights[f"{name}.ssru.input_proj.weight"], None)
        self.forget = linear_of(weights, f"{name}.ssru.forget_proj")

    def whole(self, x: Tensor, mask: Tensor, shapes: ShapePolicy) -> Tensor:
        """Returns what comes of whole targets (B, T, D), of which nothing is kept."""
        rows, length, width = x.shape
        cells = x.new_zeros(1, rows, 1, length, width, dtype=torch.promote_types(x.dtype, torch.float32))
        places = torch.arange(length, device=x.device).expand(rows, -1)
        return self(x, cells, Seen(slice(rows), places, places, length), shapes)

    def __call__(self, x: Tensor, cache: Tensor, seen: Seen, shapes: ShapePolicy) -> Tensor:
        """Returns what comes of windows (B', W, D), and writes their cells into a cache (1, B, H, T, D_h).

        Tokens come behind those that they follow.
        """
        cells = cache[0]
        fresh, forget = self.inputs(x).to(cells.dtype), self.forget(x, activation="sigmoid").to(cells.dtype)
        found = []
        for token in range(x.shape[1]):
            parents = seen.parents[:, token]
            before = cells[seen.numbers, :, parents.clamp(min=0)].flatten(1)  # (B', D)
            before = before.where(parents[:, None] >= 0, 0.0)
            cell = fresh[:, token] + forget[:, token] * (before - fresh[:, token])
            cells[seen.numbers, :, seen.places[:, token]] = cell.view(len(cell), cells.shape[1], -1)
            found.append(cell)
        return torch.stack(found, 1).relu().to(x.dtype)
