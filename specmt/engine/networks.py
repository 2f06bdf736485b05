"""Verifier and masked drafter on PyTorch: they run everywhere and are what the C++ kernels are checked against."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from specmt.engine.attention import pick_weights, read_targets
from specmt.engine.backend import NO_PREFIXES, Attention, EncoderOutput, Prefixes, Sizes, Slots, State, best_tokens
from specmt.engine.cache import CrossCache, KVCache, round_up
from specmt.engine.candidates import CANDIDATES, Correction, best_chain, best_first, expand
from specmt.engine.embedding import Embedding
from specmt.engine.linear import Linear
from specmt.engine.shapes import GRANULAR, STATIC_ROWS, ShapePolicy
from specmt.engine.shortlist import restrict
from specmt.engine.transformer import Decoder, Encoder, Tables, Weights, drafter_tables, verifier_tables, within_range
from specmt.engine.window import Branches
from specmt.options import AlignmentHeads
from specmt.types import EOS, PAD


class _Network:
    """What verifier and drafter have in common: embeddings, a decoder and a projection to the vocabulary."""

    def __init__(self, weights: Weights, tables: Tables, sizes: Sizes, shapes: ShapePolicy) -> None:
        table = tables.target
        self.sizes = sizes
        self.shapes = shapes
        self.embed = Embedding(table, sizes.max_length, sizes.architecture)
        self.decoder = Decoder(weights, "decoder", sizes.decoder_layers, sizes.heads, sizes.architecture)
        self.project = Linear(tables.output, tables.bias)
        self.width, self.dtype, self.device = table.shape[1], table.dtype, table.device

    def new_state(self, rows: int) -> State:
        """Returns empty caches for a number of rows."""
        if self.shapes.static:
            rows = round_up(rows, STATIC_ROWS)
        shape = (self.sizes.decoder_layers, rows, self.sizes.heads, self.width // self.sizes.heads)
        state = State(
            KVCache(*shape, dtype=self.dtype, device=self.device),
            CrossCache(*shape, dtype=self.dtype, device=self.device),
        )
        if self.shapes.static:
            # All positions at once: shapes must not change. What windows are padded with lies behind the last one.
            state.cache.reserve(self.sizes.max_length + self.shapes.static[-1])
            state.cross.reserve(self.sizes.max_length)
        return state

    def start(self, state: State, rows: Tensor, encoded: EncoderOutput) -> None:
        """Gives rows (B') new sentences with the encoder's output (B', S, D) for them."""
        for part in torch.split(torch.arange(len(rows)), 1 if self.shapes.alone else len(rows)):
            cross = self.decoder.cross(encoded.states[part].to(self.dtype))
            state.cross.fill(rows[part], cross, encoded.lengths[part].to(self.device))
        lists = encoded.shortlists
        state.allow(rows, None if lists is None else [ids.to(self.device) for ids in lists])

    def _clamp(self, positions: Tensor) -> Tensor:
        # A window may reach past the last position; what lies there is never committed.
        return positions.clamp(max=self.sizes.max_length - 1)


class DecoderNetwork(_Network):
    """A decoder over encoder output."""

    def score(self, tokens: Tensor, starts: Tensor, state: State, branches: Branches | None = None) -> Tensor:
        """Runs a window and returns the logits of what follows each of its tokens.

        :param tokens: (B', W) the last committed token and the draft, for the first B' rows of the state
        :param starts: (B') the position of the first token of the window
        :param branches: how the tokens follow each other, if not one after the other
        :returns: (B', W, V)
        """
        window = self.shapes.window
        if self.shapes.static:
            return self._score_static(tokens, starts, state, branches)
        if window is None:
            return self._score(tokens, starts, state, branches)
        width = tokens.shape[1]
        tokens = functional.pad(tokens, (0, -width % window), value=PAD)
        if branches is not None:
            branches = branches.pad(tokens.shape[1])
        # Room for all rows at once: a row is a view, which must not be grown.
        first = 0 if branches is None else branches.first
        state.cache.reserve(round_up(int(starts.max()) + first + tokens.shape[1], self.shapes.granule))
        rows = []
        for number in range(len(tokens)):
            row = slice(number, number + 1)
            parts = []
            for begin in range(0, tokens.shape[1], window):
                part = slice(begin, begin + window)
                if branches is None:
                    parts.append(self._score(tokens[row, part], starts[row] + begin, state.row(number), None))
                else:
                    some = branches.part(row, part)
                    parts.append(self._score(tokens[row, part], starts[row], state.row(number), some))
            rows.append(torch.cat(parts, dim=1))
        return torch.cat(rows)[:, :width]

    def _score_static(self, tokens: Tensor, starts: Tensor, state: State, branches: Branches | None) -> Tensor:
        """Scores a window in calls of few shapes: with all rows of the state, padded to one of some sizes."""
        rows, width = tokens.shape
        static = self.shapes.static
        size = next((size for size in static if size >= width), static[-1])
        tokens = functional.pad(tokens, (0, -width % size, 0, state.rows - rows), value=PAD)
        starts = functional.pad(starts, (0, state.rows - rows))
        if branches is not None:
            branches = branches.pad(tokens.shape[1], state.rows)
        capacity, last = state.cache.capacity, self.sizes.max_length - 1
        parts = []
        for begin in range(0, tokens.shape[1], size):
            window = slice(begin, begin + size)
            places = starts[:, None] + torch.arange(begin, begin + size, device=tokens.device)
            positions, order = places, None
            if self.shapes.alone:  # the code of trees for chains, too
                order = torch.arange(capacity, device=tokens.device).expand(*places.shape, -1)
            if branches is not None:
                part = branches.part(slice(None), window)
                places = starts[:, None] + torch.arange(size, device=tokens.device) + part.first
                positions = starts[:, None] + part.depths
                order = part.order(starts, capacity)
            places, order = places.clamp(max=capacity - 1), None if order is None else order.clamp(max=capacity - 1)
            caches = state.cache.data, state.cross.data, state.cross.lengths
            parts.append(self._step(tokens[:, window], places, positions.clamp(max=last), *caches, order))
        return restrict(torch.cat(parts, dim=1)[:rows, :width], state.shortlists)

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
        order: Tensor | None,
    ) -> Tensor:
        embedded = self.embed(tokens, positions)
        length = cache.shape[4]
        hidden = self.decoder.run(embedded, places, positions, cache, cross, lengths, length, self.shapes, order)
        return self.project(hidden)

    def log_probs(self, logits: Tensor, tokens: Tensor) -> Tensor:
        """Returns the log-probabilities (B', W) of tokens (B', W), given logits (B', W, V), in float32."""
        return logits.float().log_softmax(2).gather(2, tokens[:, :, None])[:, :, 0]

    def likeliest(self, logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Returns the likeliest tokens (B', C) but for PAD, best first, and their log-probabilities in float32."""
        log_probs = logits.float().log_softmax(1)
        log_probs[:, PAD] = -math.inf
        # Whole numbers in the order of the log-probabilities, and of ids among equals, so that no two are the same.
        bits = log_probs.view(torch.int32).long()
        order = torch.where(bits < 0, bits ^ 0x7FFFFFFF, bits) << 32
        ids = (order - torch.arange(logits.shape[1], device=logits.device)).topk(min(count, logits.shape[1]))[1]
        return ids, log_probs.gather(1, ids)

    def candidates(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the best tokens (B', W, C), best first, and their log-probabilities among themselves.

        :param logits: (B', W, V)
        """
        values, ids = logits.float().topk(min(CANDIDATES, logits.shape[2]), dim=2)
        return ids, values.log_softmax(2)

    def ahead(self, tokens: Tensor, starts: Tensor, counts: Tensor, count: int, state: State) -> tuple[Tensor, Tensor]:
        """Reads tokens (B', M) and goes on with the best ones: at most ``count`` (B', K), with log-probabilities."""
        rows = torch.arange(len(tokens), device=tokens.device)
        logits = self.score(tokens, starts, state)[rows, counts - 1]
        drafts, log_probs = [], []
        for number in range(count):
            drafts.append(best_tokens(logits))
            log_probs.append(logits.float().log_softmax(1).gather(1, drafts[-1][:, None])[:, 0])
            if number == count - 1 or bool((drafts[-1] == EOS).all()):
                break
            logits = self.score(drafts[-1][:, None], starts + counts + number, state)[:, 0]
        return torch.stack(drafts, dim=1), torch.stack(log_probs, dim=1)

    def _score(self, tokens: Tensor, starts: Tensor, state: State, branches: Branches | None) -> Tensor:
        places = starts[:, None] + torch.arange(tokens.shape[1], device=tokens.device)
        positions, order = places, None
        if branches is not None:
            places = places + branches.first
            positions = starts[:, None] + branches.depths
            order = branches.order(starts, round_up(int(positions.max()) + 1, self.shapes.granule))
        embedded = self.embed(tokens, self._clamp(positions))
        hidden = self.decoder(embedded, places, positions, state.cache, state.cross, self.shapes, order)
        return restrict(self.project(hidden), state.shortlists)


class VerifierNetwork(DecoderNetwork):
    """The verifier (names of weights as in the fairseq2 model)."""

    def __init__(
        self, weights: Weights, sizes: Sizes, shapes: ShapePolicy = GRANULAR, prefixes: Prefixes = NO_PREFIXES
    ) -> None:
        tables = within_range(verifier_tables(weights))
        super().__init__(weights, tables, sizes, shapes)
        self.prefixes = prefixes
        shared = tables.source is tables.target
        self.embed_source = self.embed if shared else Embedding(tables.source, sizes.max_length, sizes.architecture)
        self.encoder = Encoder(weights, "encoder", sizes.encoder_layers, sizes.heads, sizes.architecture)

    def encode(self, sources: Sequence[Sequence[int]]) -> EncoderOutput:
        """Returns the encoder's output (B, S, D) for sources given as ids without prefix and EOS."""
        sources = [[*self.prefixes.source, *source, EOS] for source in sources]
        if not self.shapes.alone:
            return self._encode(sources)
        alone = [self._encode([source]) for source in sources]
        return EncoderOutput(torch.cat([each.states for each in alone]), torch.cat([each.lengths for each in alone]))

    def _encode(self, sources: Sequence[Sequence[int]]) -> EncoderOutput:
        lengths = torch.tensor([len(source) for source in sources])
        width = round_up(int(lengths.max()), self.shapes.granule)
        ids = torch.tensor([[*source, *[PAD] * (width - len(source))] for source in sources])
        ids, lengths = ids.to(self.device), lengths.to(self.device)
        positions = torch.arange(width, device=self.device).expand(len(sources), -1)
        return EncoderOutput(
            self.encoder(self.embed_source(ids, self._clamp(positions)), lengths, self.shapes), lengths
        )

    def score_rows(
        self, rows: Tensor, tokens: Tensor, starts: Tensor, counts: Tensor, state: State, branches: Branches
    ) -> Tensor:
        """Runs windows (B', W) of some rows and returns the logits (R, V) of what follows each of their tokens."""
        # A row is a view, which must not be grown.
        width = round_up(tokens.shape[1], self.shapes.window or 1)
        state.cache.reserve(round_up(int(starts.max()) + branches.first + width, self.shapes.granule))
        found = []
        for number, (row, count) in enumerate(zip(rows.tolist(), counts.tolist(), strict=True)):
            only, some = slice(number, number + 1), slice(0, count)
            part = branches.part(only, some)
            found.append(self.score(tokens[only, some], starts[only], state.row(row), part)[0])
        return torch.cat(found)

    def attention(
        self, state: State, rows: Sequence[int], targets: Sequence[Sequence[int]], heads: AlignmentHeads
    ) -> list[Attention]:
        """Returns the attention (T, S) that each token of targets has to each id of its source."""
        found = []
        # One by one, so that there is nothing to pad.
        read = read_targets(self.prefixes, targets, heads)
        for row, target, ids in zip(rows, targets, read, strict=True):
            length = int(state.cross.lengths[row])
            tokens = torch.tensor([ids], dtype=torch.int64, device=self.device)
            embedded = self.embed(tokens, self._clamp(torch.arange(len(ids), device=self.device)[None]))
            cross = state.cross.data[:, :, row : row + 1, :, :length]
            weights = self.decoder.attention(embedded, cross, heads.layer, heads.heads, self.shapes)
            found.append(pick_weights(self.prefixes, weights.cpu().numpy(), target, length, heads))
        return found


class DrafterNetwork(_Network):
    """The masked drafter: committed tokens run causally and are cached, [MASK] slots see them and each other.

    A slot predicts the token at its own position. What was chosen at earlier slots corrects the scores of its best
    candidates (specmt.engine.candidates).
    """

    def __init__(self, weights: Weights, sizes: Sizes, shapes: ShapePolicy = GRANULAR) -> None:
        super().__init__(weights, drafter_tables(weights), sizes, shapes)
        self.mask_embedding = weights["mask_embedding"]  # (D)
        self.correction = Correction(weights, self.embed.table, self.embed.scale)
        self.rank = self.correction.rank

    def fill(self, tokens: Tensor, starts: Tensor, counts: Tensor, block_size: int, state: State) -> Slots:
        """Reads newly committed tokens into the cache and fills a block of slots after them.

        :param tokens: (B', M) tokens committed since the last call, padded on the right
        :param starts: (B') the position of the first of them
        :param counts: (B') how many there are, at least 1
        """
        widest = tokens.shape[1]
        offsets = torch.arange(widest + block_size, device=tokens.device)
        positions = starts[:, None] + offsets  # (B', W)
        ends = counts[:, None] + block_size
        slot = (offsets >= counts[:, None]) & (offsets < ends)
        embedded = self.embed(functional.pad(tokens, (0, block_size)), self._clamp(positions))
        places = functional.embedding(self._clamp(positions), self.embed.positions)
        embedded = torch.where(slot[:, :, None], self.mask_embedding + places, embedded)
        limits = torch.where(slot, starts[:, None] + ends - 1, positions)
        hidden = self.decoder(embedded, positions, limits, state.cache, state.cross, self.shapes)
        slots = counts[:, None] + torch.arange(block_size, device=tokens.device)  # (B', K)
        hidden = hidden.gather(1, slots[:, :, None].expand(-1, -1, self.width))
        logits = restrict(self.project(hidden), state.shortlists)
        return Slots(logits, hidden, tokens.gather(1, counts[:, None] - 1)[:, 0])

    def chain(self, slots: Slots) -> tuple[Tensor, Tensor]:
        """Returns the best chains of blocks."""
        return best_chain(slots, self.correction)

    def tree(self, slots: Slots, breadth: int, nodes: int) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the best-first trees of blocks."""
        return best_first(slots, breadth, nodes, self.correction)

    def expand(self, slots: Slots, slot: int, before: Tensor, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns candidates for a slot after given tokens."""
        return expand(slots, slot, before, states, self.correction)
