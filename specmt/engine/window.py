"""Windows of tokens that networks read, and how those of draft trees stand in them (DESIGN §2.5).

The tokens of a window lie side by side in the cache, in whatever order they were drafted, but behind those that they
follow. A token sees what was committed, then its own branch from the root on: its keys come in position order, as they
would in a chain, so that its bits are the same. A cell comes from that of the token before alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from specmt.engine.arrays import Ids


class Branches(NamedTuple):
    """Where tokens of draft trees stand; places and depths count from the first token of the tree's window."""

    depths: Ids
    """(B, W) how far each token is from the root."""

    paths: Ids
    """(B, W, P) the places of the tokens at depths 0, 1, … of its branch, up to its own; noise behind."""

    first: int = 0
    """How many tokens of the window were run in earlier calls, and are in the cache."""


class Window(NamedTuple):
    """Tokens of B sentences that a network reads at once."""

    tokens: Ids
    """(B, W), padding behind those that count"""

    starts: Ids
    """(B) the position of the first token of each"""

    counts: Ids | None = None
    """(B) how many tokens each has, at least 1; ``None``: W"""

    rows: Ids | None = None
    """(B) of the state, each once; ``None``: the first B"""

    branches: Branches | None = None
    """How the tokens follow each other; ``None``: one after the other"""


def branches(parents: Ids) -> Branches:
    """Returns the branches of windows that are whole trees, given the places of the parents of their nodes (B, N)."""
    # Lists: trees are small, and calls on arrays are not.
    windows = []
    for row in parents.tolist():
        paths = [[0]]
        for place, parent in enumerate(row, start=1):
            paths.append([*paths[parent], place])
        windows.append(paths)
    longest = max(len(path) for paths in windows for path in paths)
    laid = [[path + [0] * (longest - len(path)) for path in paths] for paths in windows]
    depths = [[len(path) - 1 for path in paths] for paths in windows]
    return Branches(np.array(depths, dtype=np.int64), np.array(laid, dtype=np.int64))
