"""Acceptance rules: which drafted tokens stand, as pure functions (DESIGN §2.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from specmt.decoding.trace import Trial
from specmt.decoding.tree import Tree
from specmt.engine.backend import best_tokens


class Verdict(NamedTuple):
    """What the verifier made of draft trees."""

    accepted: Tensor
    """(B) how many drafted tokens stand."""

    tokens: Tensor
    """(B, A + 1) the drafted tokens that stand with the verifier's own token after them; the rest is noise."""

    places: Tensor | None = None
    """(B, A) their places in the window, with those of a chain behind; ``None`` where drafts were chains."""

    trials: Sequence[list[Trial]] | None = None
    """When sampling, what was tested in each sentence."""

    def path(self, row: int) -> list[int]:
        """Returns the places of a sentence's accepted nodes."""
        count = int(self.accepted[row])
        return list(range(1, count + 1)) if self.places is None else self.places[row, :count].tolist()


def leading(stands: Tensor) -> Tensor:
    """Returns how many leading places of each row are true; (B, K) → (B)."""
    return stands.cumprod(1).sum(1)


def walk(parents: Sequence[int], worth: Sequence[float]) -> list[int]:
    """Returns the places on the way from the root along the best nodes that stand.

    :param parents: (N) places
    :param worth: (N) of each node; −inf if it does not stand. Among equals the first is best.
    """
    best: dict[int, tuple[float, int]] = {}
    for place, (parent, value) in enumerate(zip(parents, worth, strict=True), start=1):
        if value > best.get(parent, (float("-inf"), 0))[0]:
            best[parent] = value, place
    path: list[int] = []
    place = 0
    while place in best:
        place = best[place][1]
        path.append(place)
    return path


def verdict(tree: Tree, worth: Tensor, own: Tensor) -> Verdict:
    """Returns the verdict, given what drafts are worth.

    :param worth: (B, N) of each node given those before it; −inf if it does not stand
    :param own: (B, N + 1) the verifier's token after each place
    """
    if tree.counts is not None:
        real = torch.arange(worth.shape[1], device=worth.device) < tree.counts[:, None]
        worth = worth.masked_fill(~real, -torch.inf)
    if tree.parents is None:
        accepted = leading(worth > -torch.inf)
        places = torch.arange(own.shape[1], device=own.device)
        kept = torch.nn.functional.pad(tree.tokens, (0, 1))
        return Verdict(accepted, torch.where(places < accepted[:, None], kept, own))
    paths = [walk(*row) for row in zip(tree.parents.tolist(), worth.tolist(), strict=True)]
    ends = [path[-1] if path else 0 for path in paths]
    return along(tree, paths, [row[end] for row, end in zip(own.tolist(), ends, strict=True)])


def along(tree: Tree, paths: Sequence[list[int]], own: Sequence[int]) -> Verdict:
    """Returns the verdict that accepts given paths.

    :param own: (B) the verifier's token at the end of each
    """
    longest = max(len(path) for path in paths)
    tokens, places = [], []
    for drafted, path, last in zip(tree.tokens.tolist(), paths, own, strict=True):
        rest = longest - len(path)
        tokens.append([*(drafted[place - 1] for place in path), last, *[0] * rest])
        places.append([*path, *range(len(path) + 1, longest + 1)])
    device = tree.tokens.device
    return Verdict(
        torch.tensor([len(path) for path in paths], device=device),
        torch.tensor(tokens, device=device),
        torch.tensor(places, dtype=torch.int64, device=device).view(len(paths), longest),
    )


def before(tree: Tree, values: Tensor) -> Tensor:
    """Returns what values of places (B, N + 1, …) are at the parent of each node; (B, N, …)."""
    if tree.parents is None:
        return values[:, :-1]
    index = tree.parents.view(*tree.parents.shape, *[1] * (values.ndim - 2)).expand(-1, -1, *values.shape[2:])
    return values.gather(1, index)


def accept_exact(tree: Tree, logits: Tensor) -> Verdict:
    """Accepts a draft if it is the verifier's best token, so that the output is that of greedy decoding.

    :param logits: (B, N + 1, V)
    """
    own = best_tokens(logits)
    stands = before(tree, own) == tree.tokens
    if tree.parents is None and tree.counts is None:
        # What stands is the verifier's own token anyway.
        return Verdict(leading(stands), own)
    return verdict(tree, torch.where(stands, 0.0, -torch.inf), own)


def accept_tolerant(tree: Tree, logits: Tensor, *, beta: int, tolerance: float) -> Verdict:
    """Accepts a draft among the verifier's best β tokens and at most τ below the best (Xia et al. 2023, section 3.2).

    Among equal logits the lower id ranks first, and among siblings that stand the one that the verifier likes best
    is taken. β = 1 or τ = 0 is exact acceptance.

    :param logits: (B, N + 1, V)
    :param tolerance: τ, a difference of log-probabilities
    """
    if beta == 1 or tolerance == 0.0:
        return accept_exact(tree, logits)
    own = best_tokens(logits)
    scores = before(tree, logits.float())  # (B, N, V)
    drafted = scores.gather(2, tree.tokens[:, :, None])  # (B, N, 1)
    ids = torch.arange(scores.shape[2], device=scores.device)
    ahead = (scores > drafted) | ((scores == drafted) & (ids < tree.tokens[:, :, None]))
    rank = ahead.sum(2)
    # A difference of logits at one position is the difference of log-probabilities.
    gap = scores.amax(2) - drafted[:, :, 0]
    return verdict(tree, torch.where((rank < beta) & (gap <= tolerance), -rank.float(), -torch.inf), own)
