"""The tokens of draft trees in calls of other shapes: parts of windows, and windows made wider."""

from __future__ import annotations

import numpy as np

from specmt.engine.arrays import Ids
from specmt.engine.window import Branches


def part(branches: Branches, rows: slice, tokens: slice) -> Branches:
    """Returns the branches of some of the tokens, those that are run in a call."""
    return Branches(branches.depths[rows, tokens], branches.paths[rows, tokens], branches.first + tokens.start)


def widen(branches: Branches, width: int, rows: Ids, count: int) -> Branches:
    """Returns the branches of wider windows, with tokens behind that see the root alone, of more rows.

    :param rows: (B) which rows of the result those of the branches are
    :param count: how many rows the result has
    """
    depths = np.zeros((count, width), dtype=np.int64)
    paths = np.zeros((count, width, branches.paths.shape[2]), dtype=np.int64)
    window = branches.depths.shape[1]
    depths[rows, :window], paths[rows, :window] = branches.depths, branches.paths
    return Branches(depths, paths, branches.first)


def order(branches: Branches, starts: Ids, length: int) -> Ids:
    """Returns the places (B, W, T) in the cache of the keys that each token sees, by position; noise behind.

    :param starts: (B) the positions of the roots
    :param length: T
    """
    positions = np.broadcast_to(np.arange(length), (*branches.depths.shape, length))
    from_root = positions - starts[:, None, None]
    last = branches.paths.shape[2] - 1
    path = np.take_along_axis(branches.paths, from_root.clip(0, last), axis=2)
    return np.where(from_root < 0, positions, starts[:, None, None] + path)
