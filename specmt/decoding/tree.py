"""Draft trees: what drafters propose and acceptors walk (DESIGN §2.3).

The window of a sentence is its last committed token, at place 0, and the nodes of its draft tree, at places 1 … N. The
parent of a node is the place of the token that it follows, always an earlier one.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Tree:
    """The draft trees of B sentences, with N nodes each."""

    tokens: Tensor
    """(B, N)"""

    parents: Tensor | None = None
    """(B, N) the place of the token that each node follows; ``None`` for chains, where that is the one before."""

    log_probs: Tensor | None = None
    """(B, N) what the drafter gave each node after those before it; ``None`` where it has no probabilities."""

    counts: Tensor | None = None
    """(B) how many nodes each sentence has, where it is not N for all; noise behind them fills the tree up."""
