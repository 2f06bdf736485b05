"""Verifier and drafters on the C++ kernels: one call runs a whole stack, or the whole loop, and nothing is padded.

A row's bits depend on its own sentence alone, by construction (csrc/calls.h), so that no granule is needed here.
Keys and values are kept in bfloat16 where weights are in bfloat16 or int8; every sum over floats is taken in float32.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import fields
from typing import Final

import numpy as np
import torch
from torch import Tensor

from specmt.engine.attention import pick_weights, read_targets
from specmt.engine.backend import NO_PREFIXES, Attention, EncoderOutput, Prefixes, Sizes, State
from specmt.engine.beams import Beams
from specmt.engine.boundary import check_beams, check_counts, check_range, checked, writable
from specmt.engine.candidates import CANDIDATES, tree_size
from specmt.engine.fused import EXACT, Drafting, Ran, Rule, Sentences
from specmt.engine.native_drafter import NativeDrafter
from specmt.engine.native_network import MOST_AHEAD, NativeNetwork, begins, padded
from specmt.engine.pool import thread_count
from specmt.engine.shortlist import array_of
from specmt.engine.stack import Packed, Stack
from specmt.engine.structures import Alignment, Beam, Encoding, Run, cache_view
from specmt.engine.window import Branches
from specmt.options import AlignmentHeads
from specmt.types import EOS, PAD, UNK

__all__ = ["NativeDecoder", "NativeDrafter", "NativeReplica", "NativeVerifier"]

RECALLED: Final = 4
"""How many tokens of a hint are drafted at a time."""

STEPS_AHEAD: Final = 8
"""For how many steps of beam search there must be room at least: caches that grow are copied."""


def _reach(drafting: Drafting) -> int:
    """Returns how many places behind the committed tokens verifying drafts may take.

    :raises ValueError: they are too many.
    """
    block, nodes = drafting.block_size, drafting.nodes
    if not (0 <= block <= MOST_AHEAD and 0 <= nodes <= MOST_AHEAD and 1 <= drafting.breadth <= MOST_AHEAD):
        raise ValueError(f"`drafting` must look ahead by at most {MOST_AHEAD}, but is {drafting} instead.")
    return max(block, nodes) + (0 if drafting.stage is None else _reach(drafting.stage))


class NativeDecoder(NativeNetwork):
    """A decoder over encoder output."""

    def score(self, tokens: Tensor, starts: Tensor, state: State, branches: Branches | None = None) -> Tensor:
        """Runs a window (B', W) and returns the logits (B', W, V) of what follows each of its tokens."""
        logits = self.step(tokens, starts, None, state, branches=branches)
        return logits.view(*tokens.shape, -1)

    def log_probs(self, logits: Tensor, tokens: Tensor) -> Tensor:
        """Returns the log-probabilities (B', W) of tokens (B', W), given logits (B', W, V), as a fused loop does."""
        tokens = checked("tokens", tokens, torch.int64, None, None)
        check_range("tokens", tokens, 0, self.vocab_size)
        logits, stride = self.rows_of(logits, *tokens.shape)
        found = torch.empty(tokens.shape, dtype=torch.float32)
        self.library.specmt_log_probs(
            logits.data_ptr(),
            stride,
            tokens.numel(),
            self.vocab_size,
            thread_count(),
            tokens.data_ptr(),
            found.data_ptr(),
        )
        return found

    def likeliest(self, logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Returns the likeliest tokens (B', C) but for PAD, best first, and their log-probabilities in float32."""
        logits, stride = self.rows_of(logits[:, None], len(logits), 1)
        shape = len(logits), min(count, self.vocab_size)
        ids, log_probs = torch.empty(shape, dtype=torch.int64), torch.empty(shape, dtype=torch.float32)
        outputs = ids.data_ptr(), log_probs.data_ptr()
        rows, threads = len(logits), thread_count()
        self.library.specmt_likeliest(
            logits.data_ptr(), stride, rows, self.vocab_size, shape[1], PAD, threads, *outputs
        )
        return ids, log_probs

    def candidates(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the best tokens (B', W, C), best first, and their log-probabilities among themselves.

        :param logits: (B', W, V)
        """
        rows, width, _ = logits.shape
        logits, stride = self.rows_of(logits, rows, width)
        shape = rows, width, min(CANDIDATES, self.vocab_size)
        ids, log_probs = torch.empty(shape, dtype=torch.int64), torch.empty(shape, dtype=torch.float32)
        self.library.specmt_candidates(
            logits.data_ptr(),
            stride,
            rows * width,
            self.vocab_size,
            thread_count(),
            ids.data_ptr(),
            log_probs.data_ptr(),
        )
        return ids, log_probs

    def ahead(self, tokens: Tensor, starts: Tensor, counts: Tensor, count: int, state: State) -> tuple[Tensor, Tensor]:
        """Reads tokens (B', M) and goes on with the best ones: at most ``count`` (B', K), with log-probabilities."""
        call, _logits, _kept = self.call(tokens, starts, counts, state, ahead=count, compact=True)
        drafts = torch.empty(len(tokens), count, dtype=torch.int64)
        log_probs = torch.empty(len(tokens), count, dtype=torch.float32)
        made = self.library.specmt_ahead(self.decoder.struct, call, count, EOS, drafts.data_ptr(), log_probs.data_ptr())
        return drafts[:, :made], log_probs[:, :made]


class NativeReplica(NativeDecoder):
    """A verifier's decoder in a cheaper type, over the verifier's own caches."""

    def start(self, state: State, rows: Tensor, encoded: EncoderOutput) -> None:
        """Notes what may be said of new sentences; what is known of their sources is the verifier's."""
        self.allow(state, rows, encoded)


class NativeVerifier(NativeDecoder):
    """The verifier."""

    def __init__(self, packed: Packed, sizes: Sizes, dtype: torch.dtype, prefixes: Prefixes = NO_PREFIXES) -> None:
        super().__init__(packed, sizes, dtype)
        self.prefixes = prefixes
        self._encoder = Stack(packed, "encoder", sizes.encoder_layers, sizes, dtype)

    def encode(self, sources: Sequence[Sequence[int]]) -> EncoderOutput:
        """Returns the encoder's output (R, D) for sources given as ids without prefix and EOS, one after the other."""
        encoder = self._encoder.struct
        # Lists: sentences are short, and calls on arrays are not.
        flat = [token for source in sources for token in (*self.prefixes.source, *source, EOS)]
        tokens = np.array(flat, dtype=np.int64)
        lengths = [len(self.prefixes.source) + len(source) + 1 for source in sources]
        starts = begins(lengths)
        check_range("sources", tokens, 0, encoder.vocab)
        states = torch.empty(len(tokens), self.width, dtype=torch.float32)
        for some in self.parts(starts, encoder.layers * (4 * self.width + 2 * encoder.ffn)):
            begin, end = starts[some.start], starts[some.stop]
            call = Encoding(
                threads=thread_count(),
                rows=int(end - begin),
                sentences=some.stop - some.start,
                tokens=tokens[begin:].ctypes.data,
                starts=(part := starts[some.start : some.stop + 1] - begin).ctypes.data,
                states=states[begin:].data_ptr(),
            )
            self.library.specmt_encode(encoder, call)
            del part
        return EncoderOutput(states, torch.tensor(lengths))

    def score_rows(
        self, rows: Tensor, tokens: Tensor, starts: Tensor, counts: Tensor, state: State, branches: Branches
    ) -> Tensor:
        """Runs windows (B', W) of some rows and returns the logits (R, V) of what follows each of their tokens."""
        return self.step(tokens, starts, counts, state, branches=branches, rows=rows)

    def attention(
        self, state: State, rows: Sequence[int], targets: Sequence[Sequence[int]], heads: AlignmentHeads
    ) -> list[Attention]:
        """Returns the attention (T, S) that each token of targets has to each id of its source."""
        read = read_targets(self.prefixes, targets, heads)
        tokens = np.array([token for target in read for token in target], dtype=np.int64)
        starts = begins([len(target) for target in read])
        places = torch.tensor(rows)
        check_range("targets", tokens, 0, self.vocab_size)
        self.check_state(state, 0)
        check_range("rows", places, 0, state.cross.data.shape[2])
        counted = np.zeros(self.sizes.heads, dtype=np.int8)
        counted[list(heads.heads)] = 1
        sources = state.cross.lengths[places].tolist()
        weights = torch.empty(len(tokens), max(sources))
        for some in self.parts(starts, (heads.layer + 1) * (4 * self.width + 2 * self.decoder.struct.ffn)):
            begin = starts[some.start]
            call = Alignment(
                threads=thread_count(),
                sentences=some.stop - some.start,
                layer=heads.layer,
                tokens=tokens[begin:].ctypes.data,
                starts=(part := starts[some.start : some.stop + 1] - begin).ctypes.data,
                places=places[some.start :].data_ptr(),
                sources=state.cross.lengths.data_ptr(),
                cross=cache_view(state.cross.data),
                heads=counted.ctypes.data,
                stride=weights.shape[1],
                weights=weights[begin:].data_ptr(),
            )
            self.library.specmt_align(self.decoder.struct, call)
            del part
        each = zip(np.split(weights.numpy(), starts[1:-1]), targets, sources, strict=True)
        return [pick_weights(self.prefixes, *one, heads) for one in each]

    def run(
        self,
        state: State,
        sentences: Sentences,
        drafting: Drafting,
        *,
        iterations: int,
        enough: int,
        rule: Rule = EXACT,
    ) -> Ran:
        """Runs iterations as `FusedLoop.run` says."""
        count = len(sentences.lengths)
        tokens = writable("tokens", sentences.tokens, torch.int64, count, None)
        check_counts(sentences, tokens.shape[1])
        longest = int(sentences.lengths.max())
        ahead = max(_reach(drafting), RECALLED)
        state.cache.reserve(longest + ahead)
        self.check_state(state, count)
        drafted, accepted = np.full((2, max(iterations, 0), count), -1, dtype=np.int64)
        call = Run(
            threads=thread_count(),
            sentences=count,
            iterations=iterations,
            enough=enough,
            room=state.cache.capacity - ahead,
            end=EOS,
            filler=UNK,
            verifier=ctypes.pointer(self.decoder.struct),
            self=cache_view(state.cache.data),
            cross=cache_view(state.cross.data),
            shortlists=array_of(state.shortlists, count),
            sources=state.cross.lengths.data_ptr(),
            tokens=tokens.data_ptr(),
            stride=tokens.stride(0),
            lengths=sentences.lengths.ctypes.data,
            limits=sentences.limits.ctypes.data,
            drafted=drafted.ctypes.data,
            accepted=accepted.ctypes.data,
            beta=rule.beta,
            tolerance=rule.tolerance,
        )
        stages = self._draft_by(drafting, call, longest)
        if sentences.log_probs is not None:
            log_probs = writable("log_probs", sentences.log_probs, torch.float32, count, None)
            if log_probs.shape[1] < tokens.shape[1]:
                raise ValueError(f"`log_probs` must be as wide as `tokens`, but is {log_probs.shape[1]} instead.")
            call.log_probs, call.log_stride = log_probs.data_ptr(), log_probs.stride(0)
        if any(sentences.hints):
            hints, hint_lengths = padded(sentences.hints)
            check_range("hints", hints, 0, self.vocab_size)
            if len(hints) != count:
                raise ValueError(f"`hints` must be for {count} sentences, but are for {len(hints)} instead.")
            call.hints, call.hint_stride, call.recalled = hints.ctypes.data, hints.shape[1], RECALLED
            call.hint_lengths = hint_lengths.ctypes.data
        made = self.library.specmt_run(call)
        del stages
        return Ran(drafted[:made], accepted[:made])

    def search(self, state: State, beams: Beams, drafting: Drafting, *, iterations: int, enough: int) -> None:
        """Goes on with hypotheses as `FusedBeam.search` says."""
        count, width, length = beams.tokens.shape
        ahead = drafting.nodes
        if not 0 <= ahead <= MOST_AHEAD:
            raise ValueError(f"`drafting` must look ahead by at most {MOST_AHEAD}, but is {drafting} instead.")
        state.cache.reserve(int(beams.extents.max()) + STEPS_AHEAD * (width + ahead))
        self.check_state(state, count)
        check_beams(beams, state.cache.capacity - width, self.vocab_size)
        arrays = {each.name: getattr(beams, each.name).ctypes.data for each in fields(beams)}
        call = Beam(
            threads=thread_count(),
            sentences=count,
            width=width,
            iterations=iterations,
            enough=enough,
            room=state.cache.capacity,
            end=EOS,
            never=PAD,
            network=ctypes.pointer(self.decoder.struct),
            self=cache_view(state.cache.data),
            cross=cache_view(state.cross.data),
            sources=state.cross.lengths.data_ptr(),
            stride=length,
            ahead=ahead,
            **arrays,
        )
        seen = None
        if drafting.network is not None:
            check_range("reads", beams.reads, 0, length + 1)
            seen = self._name_drafter(drafting, call, state.cache.capacity, 0)
        self.library.specmt_beam(call)
        if seen is not None:
            seen[:count] = torch.from_numpy(beams.extents)

    def _draft_by(self, drafting: Drafting, call: Run, longest: int) -> Run | None:
        """Completes a call by who drafts, and how; returns the call that it leads to, if there is one.

        :param longest: the most tokens that a sentence has
        """
        call.block, call.nodes, call.breadth = drafting.block_size, drafting.nodes, drafting.breadth
        if drafting.confidence is not None:
            confidence = drafting.confidence
            call.scale, call.shift = confidence.scale, confidence.shift
            call.floor, call.margin = confidence.floor, confidence.margin
        if drafting.network is None:
            return None
        if drafting.stage is not None:
            return self._draft_in_stages(drafting, drafting.stage, call, longest)
        # A tree goes on from a beam as wide as it is broad.
        network, reach = drafting.network, call.block
        if isinstance(network, NativeDrafter):
            call.choice = ctypes.pointer(network.choice())
            call.nodes = tree_size(call.nodes, call.breadth, call.block) if call.nodes else 0
        elif call.nodes:
            reach = max(1, (call.block - 1) * call.breadth)
        seen = self._name_drafter(drafting, call, longest, reach)
        check_range("seen", seen[: call.sentences], 0, longest)
        call.seen = seen.data_ptr()
        return None

    def _draft_in_stages(self, drafting: Drafting, stage: Drafting, call: Run, longest: int) -> Run:
        """Completes a call by the loop that drafts for it, which is returned."""
        network, state = drafting.network, drafting.state
        if not isinstance(network, NativeReplica) or state is None:
            raise TypeError("`drafting` must have a replica of the verifier on the kernels, and the verifier's caches.")
        if network.dtype == torch.float32 or network.sizes != self.sizes or drafting.nodes:
            raise ValueError("`drafting` must be of chains, by a replica that keeps what the verifier does.")
        network.check_state(state, call.sentences)
        inner = Run.from_buffer_copy(call)
        inner.verifier = ctypes.pointer(network.decoder.struct)
        inner.self, inner.cross = cache_view(state.cache.data), cache_view(state.cross.data)
        inner.shortlists = array_of(state.shortlists, call.sentences)
        inner.beta, inner.tolerance = EXACT
        inner.scale = inner.shift = inner.floor = inner.margin = 0.0
        inner.room += drafting.block_size
        self._draft_by(stage, inner, longest + drafting.block_size)
        call.room = min(call.room, inner.room - drafting.block_size)
        call.stage = ctypes.addressof(inner)
        return inner

    @staticmethod
    def _name_drafter(drafting: Drafting, call: Run | Beam, places: int, reach: int) -> Tensor:
        """Completes a call by a drafter's network and its caches; returns what those hold.

        :param places: that a row of the caches has at least, but for those that drafts may take
        :param reach: how many they are
        """
        network, state, seen = drafting.network, drafting.state, drafting.seen
        if not isinstance(network, NativeDrafter | NativeDecoder) or state is None or seen is None:
            raise TypeError("`drafting` must have a network on the kernels, its caches and what they hold.")
        state.cache.reserve(places + reach)
        network.check_state(state, call.sentences)
        call.room = min(call.room, state.cache.capacity - reach)
        call.drafter = ctypes.pointer(network.decoder.struct)
        call.draft_self = cache_view(state.cache.data)
        call.draft_cross = cache_view(state.cross.data)
        call.draft_shortlists = array_of(state.shortlists, call.sentences)
        call.draft_sources = state.cross.lengths.data_ptr()
        return writable("seen", seen, torch.int64, None)
