"""Acceptance rules: which drafted tokens stand, as pure functions over small arrays (DESIGN §2.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol, final

import numpy as np
from typing_extensions import override

from specmt.decoding.noise import Spot
from specmt.decoding.trace import Trial
from specmt.decoding.tree import Tree
from specmt.engine.arrays import Ids
from specmt.engine.fused import Rule
from specmt.engine.protocols import Logits


class Accepted(NamedTuple):
    """What the verifier made of draft trees."""

    counts: Ids
    """(B) how many drafted tokens stand."""

    places: Ids
    """(B, A) their places in the window, with those of a chain behind."""

    tokens: Ids
    """(B, A + 1) the drafted tokens that stand, then the verifier's own; padding behind."""

    trials: Sequence[list[Trial]] = ()
    """(B) when sampling, what was tested in each sentence."""

    def path(self, row: int) -> list[int]:
        """Returns the places of a sentence's accepted nodes."""
        path: list[int] = self.places[row, : self.counts[row]].tolist()
        return path


class Acceptor(Protocol):
    """Judges draft trees."""

    rule: Rule | None
    """What a fused loop can judge by itself; ``None`` where it cannot."""

    def accept(self, tree: Tree, logits: Logits, spots: Sequence[Spot]) -> Accepted:
        """Returns what stands.

        :param logits: of the windows, (B, N + 1, V)
        :param spots: (B) what the first level is for
        """


@final
class Within(Acceptor):
    """Accepts a draft among the verifier's β best tokens and at most τ below the best (Xia et al. 2023, section 3.2).

    Among equal logits the lower id ranks first, and among siblings that stand the one that the verifier likes best is
    taken. With β = 1 or τ = 0 the output is that of greedy decoding.
    """

    def __init__(self, rule: Rule) -> None:
        self.rule: Rule = rule

    @override
    def accept(self, tree: Tree, logits: Logits, spots: Sequence[Spot]) -> Accepted:
        own, parents = logits.best(), tree.all_parents()  # (B, N + 1), (B, N)
        if self.rule.is_exact:
            worth = np.where(np.take_along_axis(own, parents, 1) == tree.tokens, 0.0, -np.inf)
        else:
            ranks, gaps = logits.ranks(tree.tokens, parents)
            worth = np.where((ranks < self.rule.beta) & (gaps <= self.rule.tolerance), -ranks, -np.inf)
        each = zip(parents.tolist(), worth.tolist(), tree.counts.tolist(), strict=True)
        paths = [walk(before[:count], values[:count]) for before, values, count in each]
        return along(tree, paths, [int(own[row, path[-1] if path else 0]) for row, path in enumerate(paths)])


def walk(parents: Sequence[int], worth: Sequence[float]) -> list[int]:
    """Returns the places on the way from the root along the best nodes that stand.

    :param parents: (N) places
    :param worth: (N) of each node; −inf if it does not stand. Among equals the first is best.
    """
    best: dict[int, tuple[float, int]] = {}
    for place, (parent, value) in enumerate(zip(parents, worth, strict=True), start=1):
        if value > best.get(parent, (-math.inf, 0))[0]:
            best[parent] = value, place
    path: list[int] = []
    place = 0
    while place in best:
        place = best[place][1]
        path.append(place)
    return path


def along(tree: Tree, paths: Sequence[list[int]], own: Sequence[int], trials: Sequence[list[Trial]] = ()) -> Accepted:
    """Returns what accepts given paths.

    :param own: (B) the verifier's token at the end of each
    """
    longest = max(map(len, paths))
    places = np.tile(np.arange(1, longest + 1), (len(paths), 1))
    tokens = np.zeros((len(paths), longest + 1), dtype=np.int64)
    for row, (path, last) in enumerate(zip(paths, own, strict=True)):
        places[row, : len(path)] = path
        tokens[row, : len(path) + 1] = [*(tree.tokens[row, place - 1] for place in path), last]
    return Accepted(np.array([*map(len, paths)], dtype=np.int64), places, tokens, trials)
