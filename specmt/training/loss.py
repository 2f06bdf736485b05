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
    def forward(ctx: Any, logits: Tensor, wanted: Tensor, weights: Tensor, smoothing: float) -> Tensor:
        total = torch.zeros((), device=logits.device)
        gradient = torch.empty_like(logits)
        vocab = logits.shape[1]
        for begin in range(0, len(logits), CHUNK):
            part = slice(begin, begin + CHUNK)
            block, ids, weight = logits[part].float(), wanted[part, None], weights[part, None]
            log_sum = block.logsumexp(1, keepdim=True)
            losses = log_sum - (1 - smoothing) * block.gather(1, ids)
            if smoothing > 0:
                losses -= smoothing * block.mean(1, keepdim=True)
            total += (losses * weight).sum()
            block = block.sub_(log_sum).exp_()
            if smoothing > 0:
                block -= smoothing / vocab
            block.scatter_add_(1, ids, torch.full_like(log_sum, smoothing - 1))
            gradient[part] = block.mul_(weight)
        ctx.save_for_backward(gradient)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,) = ctx.saved_tensors
        return gradient.mul_(grad), None, None, None


class _TableCrossEntropy(Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, table: Tensor, wanted: Tensor, weights: Tensor) -> Tensor:
        kind = states.device.type
        dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else states.dtype
        inputs, outputs = states.to(dtype), table.to(dtype)
        total = torch.zeros((), device=states.device)
        for_states = torch.empty_like(inputs)
        for_table = torch.zeros_like(table) if ctx.needs_input_grad[1] else None
        for begin in range(0, len(inputs), CHUNK):
            part = slice(begin, begin + CHUNK)
            block, ids, weight = (inputs[part] @ outputs.T).float(), wanted[part, None], weights[part, None]
            log_sum = block.logsumexp(1, keepdim=True)
            total += ((log_sum - block.gather(1, ids)) * weight).sum()
            block.sub_(log_sum).exp_().scatter_add_(1, ids, torch.full_like(log_sum, -1))
            gradient = block.mul_(weight).to(dtype)
            for_states[part] = gradient @ outputs
            if for_table is not None:
                for_table += gradient.T @ inputs[part]
        ctx.save_for_backward(for_states.to(states.dtype), for_table)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        for_states, for_table = ctx.saved_tensors
        return for_states.mul_(grad), None if for_table is None else for_table.mul_(grad), None, None


def cross_entropy(logits: Tensor, wanted: Tensor, weights: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Returns the weighted sum of label-smoothed cross-entropies; its gradient is made in the same pass.

    :param logits: (P, V), of any floating type
    :param wanted: (P)
    :param weights: (P)
    :param smoothing: the probability mass spread evenly over the vocabulary
    """
    loss: Tensor = _CrossEntropy.apply(logits, wanted, weights, smoothing)  # type: ignore[no-untyped-call]
    return loss


def table_cross_entropy(states: Tensor, table: Tensor, wanted: Tensor, weights: Tensor) -> Tensor:
    """Returns the weighted sum of cross-entropies of what a table makes of hidden states.

    Logits are there for a few rows at a time only: a vocabulary may have 256,000 pieces.

    :param states: (P, D)
    :param table: (V, D)
    :param wanted: (P)
    :param weights: (P)
    """
    loss: Tensor = _TableCrossEntropy.apply(states, table, wanted, weights)  # type: ignore[no-untyped-call]
    return loss
