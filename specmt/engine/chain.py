"""The best chain through the candidates of a block of slots, each corrected by the token before it."""

from __future__ import annotations

import torch
from torch import Tensor

CANDIDATES = 16
"""How many of a slot's best tokens the correction is applied to."""


def best_chain(logits: Tensor, last: Tensor, previous: Tensor, following: Tensor) -> tuple[Tensor, Tensor]:
    """Returns a block of tokens (B, K), each the best given the one before, and their log-probabilities (B, K).

    The token at one position adds a low-rank term, previous · following, to the logits of the next (DESIGN §2.1).
    Probabilities are over each slot's candidates.

    :param logits: (B, K, V) of the slots
    :param last: (B, 1) the last committed token
    :param previous: (V, R)
    :param following: (V, R)
    """
    block_size = logits.shape[1]
    values, candidates = logits.float().topk(min(CANDIDATES, logits.shape[2]), dim=2)  # (B, K, C)
    after = following[candidates].float()  # (B, K, C, R)
    before = previous[torch.cat([last, candidates[:, :-1].flatten(1)], dim=1)].float()
    first = torch.matmul(after[:, 0], before[:, 0, :, None])[:, :, 0] + values[:, 0]
    log_prob, index = first.log_softmax(1).max(1, keepdim=True)  # (B, 1)
    indices, log_probs = [index], [log_prob]
    if block_size > 1:
        before = before[:, 1:].view(len(last), block_size - 1, values.shape[2], -1)  # (B, K − 1, C, R)
        links = torch.matmul(before, after[:, 1:].transpose(2, 3)).add_(values[:, 1:, None, :]).log_softmax(3)
        best, choice = links.max(3)  # (B, K − 1, C): after each candidate, the best of the next slot
        for slot in range(block_size - 1):
            log_probs.append(best[:, slot].gather(1, indices[-1]))
            indices.append(choice[:, slot].gather(1, indices[-1]))
    chosen = torch.cat(indices, dim=1)  # (B, K)
    return candidates.gather(2, chosen[:, :, None])[:, :, 0], torch.cat(log_probs, dim=1)
