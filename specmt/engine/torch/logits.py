"""What PyTorch's networks give each token of the vocabulary: small answers from the device that holds it."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from specmt.engine.arrays import Array, Floats, Ids
from specmt.engine.protocols import CANDIDATES, Logits
from specmt.engine.torch.door import entered, to_floats, to_ids, to_tensor
from specmt.types import PAD


class TorchLogits(Logits):
    """Logits on a device; every answer waits for it once."""

    def __init__(self, values: Tensor, counts: Ids | None = None) -> None:
        """
        :param values: (B, W, V)
        :param counts: (B) how many places of the window count; ``None``: W
        """
        self.values = values
        self._counts = counts

    @override
    @entered
    def best(self) -> Ids:
        return self._at_places(to_ids(self.values.argmax(-1)))

    @override
    @entered
    def log_probs(self, tokens: Ids, places: Ids) -> Floats:
        log_probs = self._behind(places).log_softmax(2)
        return to_floats(log_probs.gather(2, self._ids(tokens)[:, :, None])[:, :, 0])

    @override
    @entered
    def ranks(self, tokens: Ids, places: Ids) -> tuple[Ids, Floats]:
        scores, ids = self._behind(places), self._ids(tokens)[:, :, None]
        own = scores.gather(2, ids)  # (B, M, 1)
        lower = torch.arange(scores.shape[2], device=scores.device) < ids
        ranks = ((scores > own) | ((scores == own) & lower)).sum(2)
        return to_ids(ranks), to_floats(scores.amax(2) - own[:, :, 0])

    @override
    @entered
    def likeliest(self, count: int) -> tuple[Ids, Floats]:
        log_probs = self.values.float().log_softmax(2)
        log_probs[:, :, PAD] = -math.inf
        ids = top(log_probs, count)
        values = log_probs.gather(2, ids)
        return self._at_places(to_ids(ids)), self._at_places(to_floats(values))

    @entered
    def candidates(self) -> tuple[Ids, Floats]:
        """Returns the best tokens (B, W, C), best first, and their log-probabilities among themselves."""
        values = self.values.float()
        ids = top(values, CANDIDATES)
        return to_ids(ids), to_floats(values.gather(2, ids).log_softmax(2))

    @override
    @entered
    def row(self, row: int, place: int) -> Floats:
        return to_floats(self.values[row, place if self._counts is None else min(place, int(self._counts[row]) - 1)])

    def _behind(self, places: Ids) -> Tensor:
        """Returns what stands behind places (B, M), in float32; (B, M, V)."""
        if self._counts is not None:
            places = np.minimum(places, self._counts[:, None] - 1)
        rows = torch.arange(len(places), device=self.values.device)[:, None]
        return self.values[rows, self._ids(places)].float()

    def _at_places(self, answers: Array) -> Array:
        """Returns answers (B, W, …) in which those behind a row's count are its last."""
        if self._counts is None:
            return answers
        places = np.minimum(np.arange(answers.shape[1]), self._counts[:, None] - 1)
        return answers[np.arange(len(answers))[:, None], places]

    def _ids(self, ids: Ids) -> Tensor:
        return to_tensor(ids, self.values.device)


def top(values: Tensor, count: int) -> Tensor:
    """Returns the ids (…, C) of the greatest of values (…, V), in that order; the lowest among equals."""
    most = values.shape[-1]
    count, size = min(count, most), min(2 * count, most)
    found, ids = values.topk(size)
    # PyTorch takes any of equals, so that all of those must be there that are as great as the last one wanted.
    while size < most and bool((found[..., -1] == found[..., count - 1]).any()):
        size = min(2 * size, most)
        found, ids = values.topk(size)
    ids, by_id = ids.sort()
    order = found.gather(-1, by_id).sort(dim=-1, descending=True, stable=True)[1]
    return ids.gather(-1, order)[..., :count]
