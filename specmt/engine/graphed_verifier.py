"""The verifier in calls of fixed shapes, and the loop that it runs by itself (specmt.engine.graphed)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from specmt.engine.backend import (
    NO_PREFIXES,
    Drafting,
    Memory,
    Prefixes,
    Ran,
    Sentences,
    Sizes,
    State,
    best_tokens,
)
from specmt.engine.graphed import SHAPES, Graphed, GraphedDecoder, Ids
from specmt.engine.graphs import GraphPolicy
from specmt.engine.networks import VerifierNetwork
from specmt.engine.pooled import DUMMY, rows_of
from specmt.engine.transformer import Weights
from specmt.types import EOS, PAD, UNK


class GraphedVerifier(GraphedDecoder, VerifierNetwork):
    """The verifier (names of weights as in the fairseq2 model)."""

    minds_shortlists = False

    def __init__(self, weights: Weights, sizes: Sizes, policy: GraphPolicy, prefixes: Prefixes = NO_PREFIXES) -> None:
        VerifierNetwork.__init__(self, weights, sizes, SHAPES, prefixes)
        self._set_up(policy)

    @torch.inference_mode()
    def encode(self, sources: Sequence[Sequence[int]]) -> Memory:
        """Returns the memory (B, S, D) of sources given as ids without prefix and EOS."""
        sources = [[*self.prefixes.source, *source, EOS] for source in sources]
        lengths = [self.policy.length(len(source)) for source in sources]
        states = torch.zeros(len(sources), max(lengths), self.width, dtype=self.dtype, device=self.device)
        for group, length, size in self._groups(range(len(sources)), lengths):
            ids = np.full((size, length), PAD)
            counts = np.ones(size, dtype=np.int64)
            for number, row in enumerate(group):
                counts[number] = len(sources[row])
                ids[number, : counts[number]] = sources[row]
            key = "encode", size, length
            (made,) = self.graphs(key, self._encoded, torch.from_numpy(ids), torch.from_numpy(counts))
            states[self._put(group), :length] = made[: len(group)]
        return Memory(states, torch.tensor([len(source) for source in sources]))

    def _encoded(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, ...]:
        positions = self._clamp(torch.arange(ids.shape[1], device=ids.device).expand_as(ids))
        return (self.encoder(self.embed_source(ids, positions), lengths, self.shapes),)

    @torch.inference_mode()
    def run(
        self, state: State, sentences: Sentences, drafting: Drafting, *, iterations: int, enough: int, end: int = EOS
    ) -> Ran:
        """Runs iterations of the loop by itself: drafts, verifies and commits what greedy decoding would have said.

        Each waits for the device once, for three numbers a row. All drafts are verified: a window of fixed width costs
        the same whatever is in it.

        :param sentences: what becomes of the first B' rows of the state
        :param enough: how many sentences may end before it comes back
        :param end: the token that ends a sentence; −1 if none does
        """
        count, lengths, limits = len(sentences.lengths), sentences.lengths, sentences.limits
        block = min(drafting.block_size, self.policy.widths[-1] - 1)
        width = self.policy.width(block + 1)
        # Behind the last position, too, noise must find room.
        tokens = functional.pad(sentences.tokens, (0, width))
        drafts = torch.full((count, width - 1), UNK, device=self.device)
        network = drafting.network
        seen = None if drafting.seen is None else drafting.seen[:count].numpy(force=True).copy()
        reports = torch.zeros(3, count, dtype=torch.int64, device=self.device)
        active = list(range(count))
        ended = np.zeros(count, dtype=bool)
        windows: list[int] = []
        gained: list[float] = []
        while active and len(windows) < iterations and ended.sum() < enough:
            if block and isinstance(network, Graphed) and drafting.state is not None and seen is not None:
                for group, made in network.draft(tokens, seen, lengths, block, drafting.state, active):
                    drafts[self._put(group), :block] = made
                seen[active] = lengths[active]
            self._verify(tokens, drafts, lengths, limits, block, end, state, active, reports)
            found = reports.numpy(force=True)[:, active]  # the only wait for the device
            lengths[active] += found[0]
            sentences.accepted[active] += found[1]
            sentences.calls[active] += 1
            sentences.drafted[active] += block
            ended[active] = (found[2] > 0) | (lengths[active] >= limits[active])
            windows.append(block)
            gained.append(float(found[0].mean()))
            active = [row for row in active if not ended[row]]
        sentences.tokens.copy_(tokens[:, : sentences.tokens.shape[1]])
        if drafting.seen is not None and seen is not None:
            drafting.seen[:count] = self._put(seen)
        return Ran(np.array(windows, dtype=np.int64), np.array(gained))

    def _verify(
        self,
        tokens: Tensor,
        drafts: Tensor,
        lengths: Ids,
        limits: Ids,
        block: int,
        end: int,
        state: State,
        rows: Sequence[int],
        reports: Tensor,
    ) -> None:
        """Verifies drafts (B, W − 1) and writes behind committed tokens (B, T) what is to be said."""
        own = rows_of(state)
        sources = own.lengths.tolist()
        keys = [(self.policy.length(int(n)), self.policy.length(s)) for n, s in zip(lengths, sources, strict=False)]
        width = drafts.shape[1] + 1
        offsets = torch.arange(width, device=self.device)
        for group, (length, source), size in self._groups(rows, keys):
            self.pool.reserve(length + width)
            starts = lengths[group] - 1
            # A token whose position calls for more keys is left to the next iteration.
            usable = np.minimum(block, length - 1 - starts)
            spare = size - len(group)
            numbers = np.array(
                [
                    [own.numbers[row] for row in group] + [DUMMY] * spare,
                    [sources[row] for row in group] + [1] * spare,
                    *(np.pad(part, (0, spare)) for part in (starts, usable, limits[group] - lengths[group])),
                    [end] * size,
                ]
            )
            index, places = self._put([group, starts])
            window = torch.cat([tokens[index, places][:, None], drafts[index]], dim=1)
            key = "advance", size, width, length, source
            advance = partial(self._advance, length, source)
            said, report = self.graphs(
                key, advance, functional.pad(window, (0, 0, 0, spare)), torch.from_numpy(numbers)
            )
            tokens[index[:, None], places[:, None] + 1 + offsets] = said[: len(group)]
            reports[:, index] = report[:, : len(group)]

    def _advance(self, length: int, source: int, window: Tensor, numbers: Tensor) -> tuple[Tensor, ...]:
        """Returns what is to be said (G, W), and its length, how many of it are drafts, and whether it ends (3, G)."""
        rows, sources, starts, usable, room, end = numbers
        offsets = torch.arange(window.shape[1], device=window.device)
        places = starts[:, None] + offsets
        logits = self._logits(window, places, places, self._seen(rows, sources, length, source))
        own = best_tokens(logits)
        stands = (own[:, :-1] == window[:, 1:]) & (offsets[1:] <= usable[:, None])
        accepted = stands.long().cumprod(1).sum(1)
        first_end = offsets.expand_as(own).masked_fill(own != end[:, None], window.shape[1]).amin(1)
        gained = torch.minimum(torch.minimum(accepted, first_end) + 1, room)
        return own, torch.stack([gained, torch.minimum(accepted, gained), (first_end < gained).long()])
