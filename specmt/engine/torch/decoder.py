"""Decoders over encoder output: a verifier's, and that of an autoregressive drafter."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from specmt.engine.arrays import Floats, Ids
from specmt.engine.cache import State, round_up
from specmt.engine.levels import LevelExpander
from specmt.engine.protocols import DraftNetwork, Expander, Scorer
from specmt.engine.torch.door import entered, to_floats, to_ids, to_tensor
from specmt.engine.torch.logits import TorchLogits
from specmt.engine.torch.network import TorchNetwork
from specmt.engine.torch.windows import Seen, order, part, widen
from specmt.engine.window import Branches, Window
from specmt.types import EOS, PAD


class TorchDecoder(TorchNetwork, Scorer, DraftNetwork):
    """A decoder over encoder output."""

    @override
    @entered
    def score(self, window: Window, state: State) -> TorchLogits:
        return TorchLogits(self._score(window, state), window.counts)

    @override
    @entered
    def chain(self, read: Window, ahead: int, state: State) -> tuple[Ids, Floats]:
        logits, last = self._read(read, state)
        drafts: list[Ids] = []
        log_probs: list[Tensor] = []
        for number in range(ahead):
            best = logits.argmax(-1)  # (B)
            log_probs.append(logits.float().log_softmax(1).gather(1, best[:, None]))
            drafts.append(to_ids(best)[:, None])
            if number == ahead - 1 or bool((drafts[-1] == EOS).all()):
                break
            logits = self._score(Window(drafts[-1], last + number + 1, rows=read.rows), state)[:, 0]
        return np.concatenate(drafts, axis=1), to_floats(torch.cat(log_probs, dim=1))

    @override
    @entered
    def expander(self, read: Window, ahead: int, state: State) -> Expander:
        logits, last = self._read(read, state)
        root, first = Window(read.tokens, last, rows=read.rows), TorchLogits(logits[:, None]).candidates()
        return LevelExpander(lambda level: self.score(level, state).candidates(), root, first)

    def _read(self, read: Window, state: State) -> tuple[Tensor, Ids]:
        """Runs newly committed tokens; returns the logits (B, V) behind the last ones, and the positions of these."""
        counts = np.full(len(read.tokens), read.tokens.shape[1]) if read.counts is None else read.counts
        rows = torch.arange(len(counts), device=self.device)
        return self._score(read, state)[rows, to_tensor(counts - 1, self.device)], read.starts + counts - 1

    def _score(self, window: Window, state: State) -> Tensor:
        """Runs a window and returns the logits (B, W, V) of what follows each of its tokens, noise behind counts."""
        if self.shapes.static:
            logits = self._run_static(window, state)
        elif self.shapes.window is None:
            rows = slice(len(window.tokens)) if window.rows is None else window.rows
            logits = self._run(window, state, rows)
        else:
            logits = self._run_alone(window, state, self.shapes.window)
        return self._restrict(logits, state, window.rows)

    def _run(self, window: Window, state: State, rows: slice | Ids) -> Tensor:
        """Runs windows of some rows at once."""
        tokens, starts, tree = window.tokens, window.starts, window.branches
        places = starts[:, None] + np.arange(tokens.shape[1])
        positions, seen = places, None
        if tree is not None:
            places = places + tree.first
            positions = starts[:, None] + tree.depths
            seen = order(tree, starts, round_up(int(positions.max()) + 1, self.shapes.granule))
        return self.project(self._decode(self._embed(tokens, positions), places, positions, state, rows, seen))

    def _run_alone(self, window: Window, state: State, size: int) -> Tensor:
        """Runs rows one by one, their tokens in windows of one size."""
        tokens, starts, _, numbers, tree = window
        count, width = tokens.shape
        tokens = np.pad(tokens, ((0, 0), (0, -width % size)), constant_values=PAD)
        if tree is not None:
            tree = widen(tree, tokens.shape[1], np.arange(count), count)
        rows = []
        for number, row in enumerate(range(count) if numbers is None else numbers.tolist()):
            one, parts = slice(number, number + 1), []
            for begin in range(0, tokens.shape[1], size):
                some = slice(begin, begin + size)
                some_of = None if tree is None else part(tree, one, some)
                first = starts[one] + (begin if tree is None else 0)
                call = Window(tokens[one, some], first, branches=some_of)
                parts.append(self._run(call, state, slice(row, row + 1)))
            rows.append(torch.cat(parts, dim=1))
        return torch.cat(rows)[:, :width]

    def _run_static(self, window: Window, state: State) -> Tensor:
        """Runs a window in calls of few shapes: with all rows of the state, padded to one of some sizes.

        Rows that are not asked for write behind the last position.
        """
        count, width = window.tokens.shape
        numbers = np.arange(count) if window.rows is None else window.rows
        size = next((size for size in self.shapes.static if size >= width), self.shapes.static[-1])
        tokens = np.full((state.rows, round_up(width, size)), PAD, dtype=np.int64)
        tokens[numbers, :width] = window.tokens
        starts = np.full(state.rows, self.sizes.max_length)
        starts[numbers] = window.starts
        tree = window.branches
        if tree is not None:
            tree = widen(tree, tokens.shape[1], numbers, state.rows)
        lengths = to_tensor(state.sources, self.device)
        parts = []
        for begin in range(0, tokens.shape[1], size):
            some = slice(begin, begin + size)
            places, positions, seen = self._lay(starts, size, begin, state.own.capacity, tree)
            given = (tokens[:, some], places, np.minimum(positions, self.sizes.max_length - 1))
            caches = state.own.data, state.cross.data, lengths
            seen_at = None if seen is None else to_tensor(seen, self.device)
            parts.append(self._step(*(to_tensor(each, self.device) for each in given), *caches, seen_at))
        logits = torch.cat(parts, dim=1)[:, :width]
        return logits[:count] if window.rows is None else logits[to_tensor(numbers, self.device)]

    def _lay(
        self, starts: Ids, size: int, begin: int, capacity: int, tree: Branches | None
    ) -> tuple[Ids, Ids, Ids | None]:
        """Returns places, positions and the order of keys of a part of a window that begins there."""
        places = starts[:, None] + np.arange(begin, begin + size)
        positions, seen = places, None
        if self.shapes.alone:  # the code of trees for chains, too
            seen = np.broadcast_to(np.arange(capacity), (*places.shape, capacity))
        if tree is not None:
            some = part(tree, slice(None), slice(begin, begin + size))
            places = starts[:, None] + np.arange(size) + some.first
            positions = starts[:, None] + some.depths
            seen = order(some, starts, capacity)
        return places.clip(max=capacity - 1), positions, None if seen is None else seen.clip(max=capacity - 1)

    @cached_property
    def _step(self) -> Callable[..., Tensor]:
        """Scores a window of one shape, compiled; on a GPU the calls of a shape become a graph."""
        return torch.compile(self._run_step, mode="reduce-overhead", dynamic=False)

    def _run_step(
        self,
        tokens: Tensor,
        places: Tensor,
        positions: Tensor,
        cache: Tensor,
        cross: Tensor,
        lengths: Tensor,
        seen: Tensor | None,
    ) -> Tensor:
        embedded = self.embed(tokens, positions)
        view = Seen(slice(len(tokens)), places, positions, cache.shape[4], seen)
        return self.project(self.decoder(embedded, cache, cross, lengths, view, self.shapes))
