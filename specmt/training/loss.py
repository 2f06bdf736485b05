"""Cross-entropy over a large vocabulary without keeping float32 logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

CHUNK = 256
"""Rows worked on at a time, so that their float32 logits stay in the processor's cache."""


class _CrossEntropy(Function):
    @staticmethod
    def forward(
        ctx: Any, states: Tensor, table: Tensor, bias: Tensor | None, wanted: Tensor, weights: Tensor, smoothing: float
    ) -> Tensor:
        kind = states.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else states.dtype
        inputs, outputs = states.to(dtype), table.to(dtype)
        total = torch.zeros((), device=states.device)
        for_states = torch.empty_like(inputs)
        for_table = torch.zeros_like(table) if ctx.needs_input_grad[1] else None
        for_bias = torch.zeros_like(bias) if bias is not None else None
        for begin in range(0, len(inputs), CHUNK):
            part = slice(begin, begin + CHUNK)
            block, ids, weight = (inputs[part] @ outputs.T).float(), wanted[part, None], weights[part, None]
            if bias is not None:
                block += bias
            log_sum = block.logsumexp(1, keepdim=True)
            losses = log_sum - (1 - smoothing) * block.gather(1, ids)
            if smoothing > 0:
                losses -= smoothing * block.mean(1, keepdim=True)
            total += (losses * weight).sum()
            block.sub_(log_sum).exp_()
            if smoothing > 0:
                block -= smoothing / len(table)
            block.scatter_add_(1, ids, torch.full_like(log_sum, smoothing - 1)).mul_(weight)
            if for_bias is not None:
                for_bias += block.sum(0)
            gradient = block.to(dtype)
            for_states[part] = gradient @ outputs
            if for_table is not None:
                for_table += gradient.T @ inputs[part]
        ctx.save_for_backward(for_states.to(states.dtype), for_table, for_bias)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        found = (None if each is None else each.mul_(grad) for each in ctx.saved_tensors)
        return *found, None, None, None


def cross_entropy(
    states: Tensor,
    table: Tensor,
    wanted: Tensor,
    weights: Tensor,
    *,
    bias: Tensor | None = None,
    smoothing: float = 0.0,
) -> Tensor:
    """Returns the weighted sum of label-smoothed cross-entropies of what a table makes of hidden states.

    Its gradient is made in the same pass. Logits are there for a few rows at a time only: a vocabulary may have 256,000
    pieces.

    :param states: (P, D)
    :param table: (V, D)
    :param wanted: (P)
    :param weights: (P)
    :param bias: (V) what is added to the logits
    :param smoothing: the probability mass spread evenly over the vocabulary
    """
    loss: Tensor = _CrossEntropy.apply(states, table, bias, wanted, weights, smoothing)  # type: ignore[no-untyped-call]
    return loss
