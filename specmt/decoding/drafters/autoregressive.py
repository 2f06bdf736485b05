"""Drafters that go ahead token by token: a small decoder, or the verifier itself in its fastest shape and type."""

from __future__ import annotations

import torch
from torch import Tensor
from typing_extensions import override

from specmt.decoding.drafters.base import NetworkDrafter
from specmt.decoding.levels import level_tree, sampled_tree
from specmt.decoding.shape import BestFirst, Chain
from specmt.decoding.tree import Tree
from specmt.engine.backend import Scorer, State
from specmt.engine.fused import Confidence
from specmt.engine.window import Branches


class _LevelExpander:
    """The distributions of an autoregressive drafter: each level of a tree is an input for the next."""

    def __init__(self, network: Scorer, state: State, starts: Tensor, logits: Tensor) -> None:
        """
        :param starts: (B) the positions of the last committed tokens
        :param logits: (B, V) of what follows them
        """
        self.network, self.state, self.starts = network, state, starts
        self.logits = logits
        self.paths: Tensor | None = None  # (B, W, P) of the last level
        self.count = 1  # tokens in the tree so far, the root included

    def expand(self, tokens: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
        if self.paths is None:
            self.paths = parents[:, :, None]  # the root, whose logits are there
            logits = self.logits[:, None]
        else:
            width = tokens.shape[1]
            index = parents[:, :, None].expand(-1, -1, self.paths.shape[2])
            own = torch.arange(self.count, self.count + width, device=tokens.device).expand_as(tokens)
            self.paths = torch.cat([self.paths.gather(1, index), own[:, :, None]], dim=2)
            depths = torch.full_like(tokens, self.paths.shape[2] - 1)
            level = Branches(depths, self.paths, self.count)
            logits = self.network.score(tokens, self.starts, self.state, level)
            self.count += width
        return self.network.candidates(logits)


class AutoregressiveDrafter(NetworkDrafter[Scorer]):
    """A decoder that goes ahead level by level, each level being an input for the next.

    It may be a small one over the encoder output, or the verifier itself in a fast shape and type (DESIGN §2). What
    the latter says is then replayed by the verifier in its own shape and type, and only what both agree on stands: the
    output is the verifier's, whatever batch and rounding the fast path had.
    """

    @override
    def draft(
        self, fresh: Tensor, lengths: Tensor, counts: Tensor, ahead: int, confidence: Confidence | None = None
    ) -> Tree:
        if self.state is None:
            raise RuntimeError("The drafter was asked for drafts before it had a state.")
        starts, shape = lengths - counts, self.shape_by(confidence)
        if isinstance(shape, Chain):
            drafts, log_probs = self.network.ahead(fresh, starts, counts, ahead, self.state)
            return Tree(drafts, log_probs=log_probs)
        rows = torch.arange(len(lengths), device=fresh.device)
        logits = self.network.score(fresh, starts, self.state)[rows, counts - 1]
        expander = _LevelExpander(self.network, self.state, lengths - 1, logits)
        last = fresh[rows, counts - 1]
        if isinstance(shape, BestFirst):
            return level_tree(expander, last, shape, depth=ahead, confidence=confidence)
        requests = self.first_requests(len(lengths))
        return sampled_tree(expander, last, lengths.tolist(), requests, shape.how, width=shape.width, depth=ahead)
