"""Drafters: who proposes tokens ahead of the verifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from typing_extensions import override

from specmt.decoding.request import Request
from specmt.decoding.tree import Tree, merge, no_tree
from specmt.engine.backend import Drafting, Memory, Ran


class Drafter(Protocol):
    """Proposes draft trees; it may change the speed of decoding, never an exact output."""

    def start(self, rows: Tensor, memory: Memory, requests: Sequence[Request]) -> None:
        """Gives rows (B') new sentences with the verifier's memory of them."""

    def propose(self, tokens: Tensor, lengths: Tensor) -> Tree:
        """Returns drafts for the first B' rows; there may be none.

        :param tokens: (B', T) the committed tokens, from BOS on, with noise behind them
        :param lengths: (B') how many there are
        """

    def drafting(self, rows: int, iterations: int) -> Drafting | None:
        """Returns how an engine is to draft by itself for the first rows; ``None`` where only `propose` can."""
        return None

    def told(self, rows: int, ran: Ran) -> None:
        """Hears what came of that."""
        return

    def finish(self, row: int, tokens: list[int]) -> None:
        """Tells of the translation of a row's sentence, without BOS and EOS, before the row is given away."""

    def move(self, source: int, target: int) -> None:
        """Copies one row over another."""


class NoDrafter(Drafter):
    """Proposes nothing: the loop is then greedy decoding."""

    @override
    def start(self, rows: Tensor, memory: Memory, requests: Sequence[Request]) -> None:
        pass

    @override
    def propose(self, tokens: Tensor, lengths: Tensor) -> Tree:
        return no_tree(len(lengths), tokens.device)

    @override
    def drafting(self, rows: int, iterations: int) -> Drafting | None:
        return Drafting(0)

    @override
    def finish(self, row: int, tokens: list[int]) -> None:
        pass

    @override
    def move(self, source: int, target: int) -> None:
        pass


class CombinedDrafter(Drafter):
    """Puts the drafts of several drafters into one tree."""

    def __init__(self, drafters: Sequence[Drafter]) -> None:
        self.drafters = drafters

    @override
    def start(self, rows: Tensor, memory: Memory, requests: Sequence[Request]) -> None:
        for drafter in self.drafters:
            drafter.start(rows, memory, requests)

    @override
    def propose(self, tokens: Tensor, lengths: Tensor) -> Tree:
        return merge([drafter.propose(tokens, lengths) for drafter in self.drafters])

    @override
    def finish(self, row: int, tokens: list[int]) -> None:
        for drafter in self.drafters:
            drafter.finish(row, tokens)

    @override
    def move(self, source: int, target: int) -> None:
        for drafter in self.drafters:
            drafter.move(source, target)


def unseen(tokens: Tensor, seen: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the tokens (B', M) of each row that a drafter has not read yet, padded on the right, and their numbers.

    :param tokens: (B', T)
    :param seen: (B) how many it has read
    :param lengths: (B') how many there are
    """
    starts = seen[: len(lengths)]
    counts = lengths - starts
    offsets = torch.arange(int(counts.max()), device=tokens.device)
    return tokens.gather(1, (starts[:, None] + offsets).clamp(max=tokens.shape[1] - 1)), counts


class Requests:
    """The sentences of rows."""

    def __init__(self, rows: int) -> None:
        self._requests: list[Request | None] = [None] * rows

    def start(self, rows: Tensor, requests: Sequence[Request]) -> None:
        for row, request in zip(rows.tolist(), requests, strict=True):
            self._requests[row] = request

    def first(self, count: int) -> list[Request]:
        return [request for request in self._requests[:count] if request is not None]

    def move(self, source: int, target: int) -> None:
        self._requests[target] = self._requests[source]
