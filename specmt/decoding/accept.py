"""Acceptance rules: which drafted tokens stand, as pure functions over tensors (DESIGN §2.2)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from specmt.engine.backend import best_tokens


class Verdict(NamedTuple):
    """What the verifier made of a chain of drafts."""

    accepted: Tensor
    """(B) how many drafted tokens stand."""

    tokens: Tensor
    """(B, K + 1) the drafted tokens with the verifier's own token after the last that stands; the rest is noise."""


def leading(stands: Tensor) -> Tensor:
    """Returns how many leading places of each row are true; (B, K) → (B)."""
    return stands.cumprod(1).sum(1)


def verdict(drafts: Tensor, stands: Tensor, own: Tensor) -> Verdict:
    """Returns the verdict, given which drafts would stand on their own.

    :param drafts: (B, K)
    :param stands: (B, K)
    :param own: (B, K + 1) the verifier's token at each position
    """
    accepted = leading(stands)
    places = torch.arange(own.shape[1], device=own.device)
    kept = torch.nn.functional.pad(drafts, (0, 1))
    return Verdict(accepted, torch.where(places < accepted[:, None], kept, own))


def accept_exact(drafts: Tensor, logits: Tensor) -> Verdict:
    """Accepts a draft if it is the verifier's best token, so that the output is that of greedy decoding.

    :param drafts: (B, K)
    :param logits: (B, K + 1, V)
    """
    own = best_tokens(logits)
    # What stands is the verifier's own token anyway.
    return Verdict(leading(drafts == own[:, :-1]), own)


def accept_tolerant(drafts: Tensor, logits: Tensor, *, beta: int, tolerance: float) -> Verdict:
    """Accepts a draft among the verifier's best β tokens and at most τ below the best (Xia et al. 2023, section 3.2).

    Among equal logits the lower id ranks first. β = 1 or τ = 0 is exact acceptance.

    :param drafts: (B, K)
    :param logits: (B, K + 1, V)
    :param tolerance: τ, a difference of log-probabilities
    """
    if beta == 1 or tolerance == 0.0:
        return accept_exact(drafts, logits)
    own = best_tokens(logits)
    scores = logits[:, :-1].float()
    drafted = scores.gather(2, drafts[:, :, None])  # (B, K, 1)
    ids = torch.arange(scores.shape[2], device=drafts.device)
    ahead = (scores > drafted) | ((scores == drafted) & (ids < drafts[:, :, None]))
    # A difference of logits at one position is the difference of log-probabilities.
    gap = scores.max(2).values - drafted[:, :, 0]
    return verdict(drafts, (ahead.sum(2) < beta) & (gap <= tolerance), own)
