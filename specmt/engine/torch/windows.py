"""What tokens of windows see, and those of draft trees in calls of other shapes: parts of windows, and wider ones."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from specmt.engine.arrays import Ids
from specmt.engine.window import Branches


class Seen:
    """What the tokens of windows see of those before them in the caches of target tokens."""

    def __init__(
        self, rows: slice | Tensor, places: Tensor, limits: Tensor, length: int, order: Tensor | None = None
    ) -> None:
        """
        :param rows: (B') of the caches
        :param places: (B', W) where what is kept of the tokens goes, consecutive in each row
        :param limits: (B', W) the last position that each sees; its own where nothing later is seen
        :param length: how many positions are looked at
        :param order: (B', W, T) the place of what stands at each position that a token sees, where branches differ
        """
        device = places.device
        self.rows, self.places, self.length, self.order = rows, places, length, order
        self.numbers = rows if isinstance(rows, Tensor) else torch.arange(rows.start or 0, rows.stop, device=device)
        hidden = torch.arange(length, device=device) > limits[:, :, None]
        # 0 at positions that are seen, −inf elsewhere: (B', 1, W, T)
        self.mask = torch.zeros(hidden.shape, device=device).masked_fill_(hidden, -math.inf)[:, None]
        before = limits - 1
        if order is not None:
            before = order.gather(2, before.clamp(min=0)[:, :, None])[:, :, 0].where(before >= 0, before)
        self.parents = before  # (B', W) the place of the token that each follows; −1 for none


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
