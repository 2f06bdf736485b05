"""Verifier and drafters in calls of fixed shapes, for GPUs: a row's bits depend on its sentence alone (DESIGN §2.5).

Rows are run in groups of a fixed size, their tokens in windows of a fixed width, over as many keys as the position of
each token, or the length of its source, calls for. What decides that is on the host: a call reads nothing back, and an
iteration waits for the device once, for the numbers of accepted tokens.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from specmt.engine.backend import (
    Memory,
    Sizes,
    Slots,
    State,
    best_tokens,
)
from specmt.engine.candidates import best_chain, best_first_together, expand
from specmt.engine.graphs import Function, GraphPolicy, Graphs
from specmt.engine.networks import DecoderNetwork, DrafterNetwork, _Network
from specmt.engine.pooled import DUMMY, Pool, rows_of
from specmt.engine.shapes import GRANULAR
from specmt.engine.shortlist import restrict
from specmt.engine.transformer import Tables, Weights
from specmt.engine.window import Branches

Ids = npt.NDArray[np.int64]

SHAPES = replace(GRANULAR, granule=1)
"""Attention is given 4 query rows at least, as everywhere; lengths are those of the calls."""


class Graphed(_Network, ABC):
    """What they have in common."""

    in_loop = True

    policy: GraphPolicy
    graphs: Graphs
    pool: Pool

    def _set_up(self, policy: GraphPolicy) -> None:
        self.policy = policy
        self.graphs = Graphs(self.device)
        self.pool = Pool(
            self.sizes.decoder_layers,
            self.sizes.heads,
            self.width // self.sizes.heads,
            dtype=self.dtype,
            device=self.device,
            length=4 * policy.bucket,
            graphs=self.graphs,
        )

    def new_state(self, rows: int) -> State:
        """Returns caches for a number of rows."""
        return self.pool.state(rows)

    @torch.inference_mode()
    def start(self, state: State, rows: Tensor, memory: Memory) -> None:
        """Gives rows (B') new sentences with the verifier's memory (B', S, D) of them."""
        own = rows_of(state)
        taken = [own.numbers[row] for row in rows.tolist()]
        sources = memory.lengths.cpu()
        own.lengths[rows.cpu()] = sources
        states = memory.states.to(self.device, self.dtype)
        lengths = [self.policy.length(count) for count in sources.tolist()]
        self.pool.reserve_sources(max(lengths))
        for group, length, size in self._groups(range(len(taken)), lengths):
            key = "cross", size, length
            numbers = self._padded([taken[row] for row in group], size, DUMMY)
            self.graphs(key, self._cross, self._pick(states[:, :length], group, size, length), numbers)
        lists = memory.shortlists
        state.allow(rows, None if lists is None else [self._put(ids) for ids in lists])

    def _cross(self, states: Tensor, numbers: Tensor) -> tuple[Tensor, ...]:
        self.pool.sources[:, :, numbers, :, : states.shape[1]] = self.decoder.cross(states)
        return ()

    def _groups(self, rows: Sequence[int], keys: Sequence[Any]) -> Iterator[tuple[list[int], Any, int]]:
        """Yields rows that are alike, as many together as a call has rows, with what is alike and that number.

        :param keys: what is to be alike, by row; comes in ascending order
        """
        alike: dict[Any, list[int]] = {}
        for row in rows:
            alike.setdefault(keys[row], []).append(row)
        for key in sorted(alike):
            waiting = alike[key]
            while waiting:
                size = self.policy.rows(len(waiting))
                yield waiting[:size], key, size
                waiting = waiting[size:]

    def _padded(self, values: Sequence[int], size: int, filler: int) -> Tensor:
        return torch.tensor([*values, *[filler] * (size - len(values))])

    def _pick(self, tensor: Tensor, rows: Sequence[int], size: int, length: int | None = None) -> Tensor:
        """Returns some rows of a tensor (B, …) on the device, dummies behind; and positions up to a length."""
        picked = tensor if list(rows) == list(range(len(tensor))) else tensor[self._put(list(rows))]
        spare = [0, 0] * (tensor.ndim - 2) + [0, 0 if length is None else length - tensor.shape[1]]
        return functional.pad(picked, [*spare[: 2 * (tensor.ndim - 1)], 0, size - len(rows)])

    def _put(self, values: Any) -> Tensor:
        """Returns integers on the device, without waiting for it."""
        return torch.from_numpy(np.asarray(values, dtype=np.int64)).to(self.device, non_blocking=True)

    def _seen(self, rows: Tensor, sources: Tensor, length: int, source: int, reach: int | None = None) -> State:
        return self.pool.seen(rows, sources, length=length, reach=reach or length, source=source)

    def _in_groups(self, key: Hashable, function: Function, *tensors: Tensor) -> list[Tensor]:
        """Returns what a function that treats rows alone makes of tensors (B, …), a group after the other."""
        count = len(tensors[0])
        parts = []
        for group, _, size in self._groups(range(count), [0] * count):
            made = self.graphs((key, size), function, *(self._pick(tensor, group, size) for tensor in tensors))
            parts.append([part[: len(group)].clone() for part in made])
        return [torch.cat(part) for part in zip(*parts, strict=True)]

    def _read(
        self,
        kind: str,
        function: Function,
        tokens: Tensor,
        offsets: Ids,
        starts: Ids,
        counts: Ids,
        count: int,
        state: State,
        rows: Sequence[int],
    ) -> Iterator[tuple[list[int], tuple[Tensor, ...]]]:
        """Reads new tokens and goes on by a number of tokens; yields rows with what came of them.

        :param function: takes ``count``, the lengths attended to, tokens (G, F) and numbers (4, G)
        :param tokens: (B, T), those of a row from its offset on; noise behind
        :param offsets: (B)
        :param starts: (B) the positions of the first ones
        :param counts: (B) how many there are
        """
        own = rows_of(state)
        widest = self.policy.widths[-1]
        sources = own.lengths.tolist()
        offsets, starts, left = offsets.copy(), starts.copy(), counts.copy()
        while True:
            # What does not fit is read before, drafts after it in vain.
            long = [row for row in rows if left[row] > widest]
            fits = np.minimum(left, widest)
            ends = np.minimum(starts + fits + count, self.sizes.max_length)
            now = long or rows
            lengths = {row: (self.policy.length(int(ends[row])), self.policy.length(sources[row])) for row in now}
            for group, (length, source), size in self._groups(now, [lengths.get(row) for row in range(len(tokens))]):
                width = self.policy.width(int(fits[group].max()))
                self.pool.reserve(length + width + count)
                spare = [0] * (size - len(group))
                index = np.array([group + spare, [*offsets[group], *spare]])
                numbers = np.array(
                    [
                        [own.numbers[row] for row in group] + [DUMMY] * len(spare),
                        [sources[row] for row in group] + [1] * len(spare),
                        [*starts[group], *spare],
                        [*fits[group], *[1] * len(spare)],
                    ]
                )
                picked, offset = self._put(index)
                places = offset[:, None] + torch.arange(width, device=self.device)
                fresh = tokens[picked[:, None], places.clamp(max=tokens.shape[1] - 1)]
                key = kind, size, width, count, length, source
                made = self.graphs(key, partial(function, count, length, source), fresh, torch.from_numpy(numbers))
                if not long:
                    yield group, made
            if not long:
                return
            for array, step in ((offsets, widest), (starts, widest), (left, -widest)):
                array[long] += step

    def draft(
        self, tokens: Tensor, seen: Ids, lengths: Ids, count: int, state: State, rows: Sequence[int]
    ) -> Iterator[tuple[list[int], Tensor]]:
        """Drafts chains after committed tokens (B, T) for some rows; yields rows and their drafts (B', K).

        :param seen: (B) how many tokens of each were read before
        :param lengths: (B) how many there are
        """
        counts = lengths - seen
        for group, made in self._read("draft", self._draft, tokens, seen, seen, counts, count, state, rows):
            yield group, made[0][: len(group)]

    @abstractmethod
    def _draft(self, count: int, length: int, source: int, tokens: Tensor, numbers: Tensor) -> tuple[Tensor, ...]:
        """Returns a chain (G, K) for each row, and its log-probabilities."""


class GraphedDecoder(Graphed, DecoderNetwork):
    """A decoder over the memory of a verifier, its own or another's."""

    def __init__(self, weights: Weights, tables: Tables, sizes: Sizes, policy: GraphPolicy) -> None:
        super().__init__(weights, tables, sizes, SHAPES)
        self._set_up(policy)

    @torch.inference_mode()
    def score(self, tokens: Tensor, starts: Tensor, state: State, branches: Branches | None = None) -> Tensor:
        """Runs a window (B', W) and returns the logits (B', W, V) of what follows each of its tokens.

        Each token attends to as many keys as its own position calls for, so that tokens far apart run in calls of
        their own. Where starts are on the device, it waits for them.
        """
        rows, width = tokens.shape
        own = rows_of(state)
        first = 0 if branches is None else branches.first
        begins = starts.numpy(force=True)[:, None]
        places = begins + first + np.arange(width)
        positions = places if branches is None else begins + branches.depths.numpy(force=True)
        positions = np.minimum(positions, self.sizes.max_length - 1)
        self.pool.reserve(int(places.max()) + 1)
        sources = own.lengths.tolist()
        # By length of keys and part, so that a token comes after those that it sees.
        jobs: dict[tuple[int, int, int], list[tuple[int, Ids]]] = {}
        widest = self.policy.widths[-1]
        for row in range(rows):
            lengths = np.array([self.policy.length(int(position) + 1) for position in positions[row]])
            for length in np.unique(lengths).tolist():
                mine = np.flatnonzero(lengths == length)
                for part in range(0, len(mine), widest):
                    key = length, part, self.policy.length(sources[row])
                    jobs.setdefault(key, []).append((row, mine[part : part + widest]))
        logits: Tensor | None = None
        for length, _, source in sorted(jobs):
            waiting = jobs[length, _, source]
            while waiting:
                size = self.policy.rows(len(waiting))
                group, waiting = waiting[:size], waiting[size:]
                window = self.policy.width(max(len(some) for _, some in group))
                which, real = np.zeros((2, size, window), dtype=np.int64), np.zeros((size, window), dtype=bool)
                put, at = np.full((size, window), self.pool.capacity), np.zeros((size, window), dtype=np.int64)
                numbers = np.array([[DUMMY] * size, [1] * size])
                for number, (row, some) in enumerate(group):
                    fill = number, slice(0, len(some))
                    which[0, number], which[1][fill], real[fill] = row, some, True
                    put[fill], at[fill] = places[row, some], positions[row, some]
                    numbers[:, number] = own.numbers[row], sources[row]
                picked = self._put(which)
                inputs = [
                    tokens[picked[0], picked[1]],
                    torch.from_numpy(np.stack([put, at])),
                    torch.from_numpy(numbers),
                ]
                reach = length
                if branches is not None:
                    # Dummies see their row's first token's branch, which is there.
                    depths, paths = (part[picked[0], picked[1]] for part in (branches.depths, branches.paths))
                    begin = starts.to(self.device)[picked[0, :, 0]]
                    reach = self.policy.length(length + first + width)
                    order = Branches(depths, paths).order(begin, length)
                    inputs.append(order.clamp(0, min(reach, self.pool.capacity) - 1))
                shape = "window", size, window, length, source, None if branches is None else reach
                (made,) = self.graphs(shape, partial(self._window, length, source, reach), *inputs)
                if logits is None:
                    logits = made.new_zeros(rows, width, made.shape[2])
                target, origin = self._put([np.stack([which[0][real], which[1][real]]), np.nonzero(real)])
                logits[target[0], target[1]] = made[origin[0], origin[1]]
        if logits is None:
            raise ValueError("`tokens` must not be empty.")
        return restrict(logits, state.shortlists)

    def _window(
        self,
        length: int,
        source: int,
        reach: int,
        tokens: Tensor,
        placed: Tensor,
        numbers: Tensor,
        order: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Returns the logits (G, W, V) of windows at places and positions (2, G, W)."""
        state = self._seen(numbers[0], numbers[1], length, source, min(reach, self.pool.capacity))
        return (self._logits(tokens, placed[0], placed[1], state, order),)

    def _logits(
        self, tokens: Tensor, places: Tensor, positions: Tensor, state: State, order: Tensor | None = None
    ) -> Tensor:
        length = state.cache.extent(places, positions, 1)
        if order is None and self.policy.ordered:
            order = torch.arange(length, device=tokens.device).repeat(*tokens.shape, 1)
        embedded = self.embed(tokens, self._clamp(positions))
        return self.project(self.decoder(embedded, places, positions, state.cache, state.cross, self.shapes, order))

    @torch.inference_mode()
    def ahead(self, tokens: Tensor, starts: Tensor, counts: Tensor, count: int, state: State) -> tuple[Tensor, Tensor]:
        """Reads tokens (B', M) and goes on with the best ones: ``count`` (B', K), with log-probabilities."""
        drafts = torch.zeros(len(tokens), count, dtype=torch.int64, device=self.device)
        log_probs = torch.zeros(len(tokens), count, device=self.device)
        begins, numbers = starts.numpy(force=True), counts.numpy(force=True)
        rows = range(len(tokens))
        offsets = np.zeros(len(tokens), dtype=np.int64)
        for group, made in self._read("draft", self._draft, tokens, offsets, begins, numbers, count, state, rows):
            index = self._put(group)
            drafts[index], log_probs[index] = (part[: len(group)] for part in made)
        return drafts, log_probs

    def _draft(self, count: int, length: int, source: int, tokens: Tensor, numbers: Tensor) -> tuple[Tensor, ...]:
        rows, sources, starts, counts = numbers
        state = self._seen(rows, sources, length, source)
        places = starts[:, None] + torch.arange(tokens.shape[1], device=tokens.device)
        logits = self._logits(tokens, places, places, state)
        logits = logits.gather(1, (counts - 1)[:, None, None].expand(-1, 1, logits.shape[2]))[:, 0]
        drafts, log_probs = [], []
        for number in range(count):
            drafts.append(best_tokens(logits))
            log_probs.append(logits.float().log_softmax(1).gather(1, drafts[-1][:, None])[:, 0])
            if number < count - 1:
                places = (starts + counts + number)[:, None]
                logits = self._logits(drafts[-1][:, None], places, places, state)[:, 0]
        return torch.stack(drafts, dim=1), torch.stack(log_probs, dim=1)


class GraphedDrafter(Graphed, DrafterNetwork):
    """The masked drafter."""

    def __init__(self, weights: Weights, sizes: Sizes, policy: GraphPolicy) -> None:
        super().__init__(weights, sizes, SHAPES)
        self._set_up(policy)

    @torch.inference_mode()
    def fill(self, tokens: Tensor, starts: Tensor, counts: Tensor, block_size: int, state: State) -> Slots:
        """Reads tokens (B', M) committed since the last call and fills a block of slots after them."""
        rows = len(tokens)
        begins, numbers = starts.numpy(force=True), counts.numpy(force=True)
        offsets = np.zeros(rows, dtype=np.int64)
        slots: list[Tensor] = []
        for group, made in self._read(
            "fill", self._fill, tokens, offsets, begins, numbers, block_size, state, range(rows)
        ):
            slots = slots or [part.new_zeros(rows, *part.shape[1:]) for part in made]
            for whole, part in zip(slots, made, strict=True):
                whole[self._put(group)] = part[: len(group)]
        return Slots(*slots)

    def _fill(self, count: int, length: int, source: int, tokens: Tensor, numbers: Tensor) -> tuple[Tensor, ...]:
        rows, sources, starts, counts = numbers
        slots = super().fill(tokens, starts, counts, count, self._seen(rows, sources, length, source))
        return slots.logits, slots.hidden, slots.last

    def _draft(self, count: int, length: int, source: int, tokens: Tensor, numbers: Tensor) -> tuple[Tensor, ...]:
        return best_chain(Slots(*self._fill(count, length, source, tokens, numbers)), self.correction)

    @torch.inference_mode()
    def chain(self, slots: Slots) -> tuple[Tensor, Tensor]:
        """Returns the best chains of blocks."""

        def run(*parts: Tensor) -> tuple[Tensor, ...]:
            return best_chain(Slots(*parts), self.correction)

        tokens, log_probs = self._in_groups(("chain", slots.logits.shape[1]), run, *_parts(slots))
        return tokens, log_probs

    @torch.inference_mode()
    def tree(self, slots: Slots, breadth: int, nodes: int) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the best-first trees of blocks."""

        def run(*parts: Tensor) -> tuple[Tensor, ...]:
            return best_first_together(Slots(*parts), breadth, nodes, self.correction)

        key = "tree", slots.logits.shape[1], breadth, nodes
        tokens, parents, log_probs = self._in_groups(key, run, *_parts(slots))
        return tokens, parents, log_probs

    @torch.inference_mode()
    def expand(self, slots: Slots, slot: int, before: Tensor, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns candidates for a slot after given tokens."""

        def run(before: Tensor, states: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
            return expand(Slots(*parts), 0, before, states, self.correction)

        one = Slots(slots.logits[:, slot, None], slots.hidden[:, slot, None], slots.last)
        key = "expand", before.shape[1]
        ids, log_probs, new = self._in_groups(key, run, before, states, *_parts(one))
        return ids, log_probs, new


def _parts(slots: Slots) -> tuple[Tensor, Tensor, Tensor]:
    return slots.logits, slots.hidden, slots.last
