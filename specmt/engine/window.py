"""Windows of draft trees: where their tokens stand, and which cached keys each of them sees (DESIGN §2.5).

The tokens of a window lie side by side in the cache, in whatever order they were drafted. A token sees what was
committed, then its own branch from the root on: its keys come in position order, as they would in a chain, so that its
bits are the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad


@dataclass(frozen=True)
class Branches:
    """Where tokens of draft trees stand; places and depths count from the first token of the tree's window."""

    depths: Tensor
    """(B, W) how far each token is from the root."""

    paths: Tensor
    """(B, W, P) the places of the tokens at depths 0, 1, … of its branch, up to its own; noise behind."""

    first: int = 0
    """How many tokens of the window were run in earlier calls, and are in the cache."""

    def part(self, rows: slice, tokens: slice) -> Branches:
        """Returns the branches of some of the tokens that are run in this call."""
        return Branches(self.depths[rows, tokens], self.paths[rows, tokens], self.first + tokens.start)

    def pad(self, width: int, rows: int | None = None) -> Branches:
        """Returns branches of a wider window, with tokens behind that see the root alone, and of more rows."""
        more, below = width - self.depths.shape[1], 0 if rows is None else rows - len(self.depths)
        return Branches(pad(self.depths, (0, more, 0, below)), pad(self.paths, (0, 0, 0, more, 0, below)), self.first)

    def order(self, starts: Tensor, length: int) -> Tensor:
        """Returns the places (B, W, T) in the cache of the keys that each token sees, by position; noise behind.

        :param starts: (B) the positions of the roots
        :param length: T
        """
        positions = torch.arange(length, device=starts.device).expand(*self.depths.shape, -1)
        from_root = positions - starts[:, None, None]
        last = self.paths.shape[2] - 1
        branch = starts[:, None, None] + self.paths.gather(2, from_root.clamp(0, last))
        return torch.where(from_root < 0, positions, branch)


def branches(parents: Tensor) -> Branches:
    """Returns the branches of windows that are whole trees, given the places of the parents of their nodes (B, N)."""
    # Lists: trees are small, and calls on tensors are not.
    windows = []
    for row in parents.tolist():
        paths = [[0]]
        for place, parent in enumerate(row, start=1):
            paths.append([*paths[parent], place])
        windows.append(paths)
    longest = max(len(path) for paths in windows for path in paths)
    laid = np.array([[path + [0] * (longest - len(path)) for path in paths] for paths in windows], dtype=np.int64)
    depths = np.array([[len(path) - 1 for path in paths] for paths in windows], dtype=np.int64)
    device = parents.device
    return Branches(torch.from_numpy(depths).to(device), torch.from_numpy(laid).to(device))
