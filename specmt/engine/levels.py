"""Trees that a decoder drafts level by level, whoever computes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import numpy as np
from typing_extensions import override

from specmt.engine.arrays import Floats, Ids
from specmt.engine.protocols import Expander
from specmt.engine.window import Branches, Window


@final
class LevelExpander(Expander):
    """The distributions of a decoder: each level of a tree is an input for the next."""

    def __init__(self, run: Callable[[Window], tuple[Ids, Floats]], root: Window, first: tuple[Ids, Floats]) -> None:
        """
        :param run: runs a level and returns what `expand` does
        :param root: where the last committed tokens stand
        :param first: what is returned for them, which have been run
        """
        self._run, self._root, self._first = run, root, first
        self._paths: Ids | None = None  # (B, W, P) of the last level
        self._count = 1  # tokens in the tree so far, the root included

    @override
    def expand(self, tokens: Ids, parents: Ids) -> tuple[Ids, Floats]:
        if self._paths is None:
            self._paths = parents[:, :, None]
            return self._first
        width = tokens.shape[1]
        own = np.broadcast_to(np.arange(self._count, self._count + width), tokens.shape)
        before = np.take_along_axis(self._paths, parents[:, :, None], axis=1)
        self._paths = np.concatenate([before, own[:, :, None]], axis=2)
        depths = np.full(tokens.shape, self._paths.shape[2] - 1)
        level = self._root._replace(tokens=tokens, branches=Branches(depths, self._paths, self._count))
        self._count += width
        return self._run(level)
