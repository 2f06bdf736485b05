"""The fused loop and the fused beam search of the C++ kernels: many iterations in one call."""

from __future__ import annotations

import ctypes
from typing import Final

import numpy as np
from typing_extensions import override

from specmt.engine.arrays import Ids
from specmt.engine.cache import State
from specmt.engine.fused import EXACT, Beams, Drafting, FusedBeam, FusedLoop, Ran, Rule, Sentences
from specmt.engine.kernels.boundary import check_beams, check_counts, check_range, writable
from specmt.engine.kernels.decoder import KernelDecoder
from specmt.engine.kernels.masked import KernelMaskedDrafter
from specmt.engine.kernels.network import MOST_AHEAD, padded
from specmt.engine.kernels.short_projection import array_of
from specmt.engine.kernels.structures import Beam, Run, cache_view
from specmt.engine.protocols import CANDIDATES
from specmt.engine.threads import thread_count
from specmt.types import EOS, PAD, UNK

RECALLED: Final = 4
"""How many tokens of a hint are drafted at a time."""

STEPS_AHEAD: Final = 8
"""For how many steps of beam search there must be room at least: caches that grow are copied."""


class KernelRunner(KernelDecoder, FusedLoop, FusedBeam):
    """A decoder that runs iterations, and steps of beam search, by itself."""

    @override
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
        tokens = writable("tokens", sentences.tokens, np.int64, count, None)
        check_counts(sentences, tokens.shape[1])
        longest = int(sentences.lengths.max())
        ahead = max(_reach(drafting), RECALLED)
        state.own.reserve(longest + ahead)
        self.check_state(state, count)
        drafted, accepted = np.full((2, max(iterations, 0), count), -1, dtype=np.int64)
        call = Run(
            threads=thread_count(),
            sentences=count,
            iterations=iterations,
            enough=enough,
            room=state.own.capacity - ahead,
            end=EOS,
            filler=UNK,
            verifier=ctypes.pointer(self.decoder.struct),
            self=cache_view(state.own.data),
            cross=cache_view(state.cross.data),
            shortlists=array_of(state.shortlists, count),
            sources=state.sources.ctypes.data,
            tokens=tokens.ctypes.data,
            stride=tokens.strides[0] // tokens.itemsize,
            lengths=sentences.lengths.ctypes.data,
            limits=sentences.limits.ctypes.data,
            drafted=drafted.ctypes.data,
            accepted=accepted.ctypes.data,
            beta=rule.beta,
            tolerance=rule.tolerance,
        )
        stage = self._draft_by(drafting, state, call, longest)
        if sentences.log_probs is not None:
            log_probs = writable("log_probs", sentences.log_probs, np.float32, count, None)
            if log_probs.shape[1] < tokens.shape[1]:
                raise ValueError(f"`log_probs` must be as wide as `tokens`, but is {log_probs.shape[1]} instead.")
            call.log_probs, call.log_stride = log_probs.ctypes.data, log_probs.strides[0] // log_probs.itemsize
        if any(sentences.hints):
            hints, hint_lengths = padded(sentences.hints)
            check_range("hints", hints, 0, self.vocab_size)
            if len(hints) != count:
                raise ValueError(f"`hints` must be for {count} sentences, but are for {len(hints)} instead.")
            call.hints, call.hint_stride, call.recalled = hints.ctypes.data, hints.shape[1], RECALLED
            call.hint_lengths = hint_lengths.ctypes.data
        made = self.library.specmt_run(call)
        del stage
        return Ran(drafted[:made], accepted[:made])

    @override
    def search(self, state: State, beams: Beams, drafting: Drafting, *, iterations: int, enough: int) -> None:
        """Goes on with hypotheses as `FusedBeam.search` says."""
        count, width, length = beams.tokens.shape
        ahead = drafting.nodes
        if not 0 <= ahead <= MOST_AHEAD:
            raise ValueError(f"`drafting` must look ahead by at most {MOST_AHEAD}, but is {drafting} instead.")
        state.own.reserve(int(beams.extents.max()) + STEPS_AHEAD * (width + ahead))
        self.check_state(state, count)
        check_beams(beams, state.own.capacity - width, self.vocab_size)
        arrays = {name: array.ctypes.data for name, array in beams._asdict().items()}
        call = Beam(
            threads=thread_count(),
            sentences=count,
            width=width,
            iterations=iterations,
            enough=enough,
            room=state.own.capacity,
            end=EOS,
            never=PAD,
            network=ctypes.pointer(self.decoder.struct),
            self=cache_view(state.own.data),
            cross=cache_view(state.cross.data),
            sources=state.sources.ctypes.data,
            stride=length,
            ahead=ahead,
            **arrays,
        )
        seen = None
        if drafting.network is not None:
            check_range("reads", beams.reads, 0, length + 1)
            seen = _name_drafter(drafting, call, state.own.capacity, 0)
        self.library.specmt_beam(call)
        if seen is not None:
            seen[:count] = beams.extents

    def _draft_by(self, drafting: Drafting, state: State, call: Run, longest: int) -> Run | None:
        """Completes a call by who drafts, and how; returns the call that it leads to, if there is one.

        :param state: the verifier's
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
            return self._draft_in_stages(drafting, drafting.stage, state, call, longest)
        # A tree goes on from a beam as wide as it is broad.
        network, reach = drafting.network, call.block
        if isinstance(network, KernelMaskedDrafter):
            call.choice = ctypes.pointer(network.choice())
            call.nodes = tree_size(call.nodes, call.breadth, call.block) if call.nodes else 0
        elif call.nodes:
            reach = max(1, (call.block - 1) * call.breadth)
        seen = _name_drafter(drafting, call, longest, reach)
        check_range("seen", seen[: call.sentences], 0, longest)
        call.seen = seen.ctypes.data
        return None

    def _draft_in_stages(self, drafting: Drafting, stage: Drafting, state: State, call: Run, longest: int) -> Run:
        """Completes a call by the loop that drafts for it, which is returned."""
        network, own = drafting.network, drafting.state
        if not isinstance(network, KernelDecoder) or own is None:
            raise TypeError("`drafting` must have a decoder on the kernels, and the verifier's caches.")
        alike = network.sizes == self.sizes and network.vocab_size == self.vocab_size and network.forms == self.forms
        shared = own.own is state.own and own.cross is state.cross
        if not (alike and shared) or drafting.nodes or stage.stage is not None:
            raise ValueError(
                "`drafting` must be of chains in two stages, by what is like the verifier and uses its caches."
            )
        network.check_state(own, call.sentences)
        inner = Run.from_buffer_copy(call)
        inner.verifier = ctypes.pointer(network.decoder.struct)
        inner.self, inner.cross = cache_view(own.own.data), cache_view(own.cross.data)
        inner.shortlists = array_of(own.shortlists, call.sentences)
        inner.beta, inner.tolerance = EXACT
        inner.scale = inner.shift = inner.floor = inner.margin = 0.0
        inner.room += drafting.block_size
        self._draft_by(stage, state, inner, longest + drafting.block_size)
        call.room = min(call.room, inner.room - drafting.block_size)
        call.stage = ctypes.addressof(inner)
        return inner


def tree_size(nodes: int, breadth: int, block_size: int) -> int:
    """Returns how many nodes a tree of so many slots can have, at most those asked for."""
    breadth, largest = min(breadth, CANDIDATES), 0
    for depth in range(1, block_size + 1):
        largest += breadth**depth
        if largest >= nodes:
            return nodes
    return largest


def _reach(drafting: Drafting) -> int:
    """Returns how many places behind the committed tokens verifying drafts may take.

    :raises ValueError: they are too many.
    """
    block, nodes = drafting.block_size, drafting.nodes
    if not (0 <= block <= MOST_AHEAD and 0 <= nodes <= MOST_AHEAD and 1 <= drafting.breadth <= MOST_AHEAD):
        raise ValueError(f"`drafting` must look ahead by at most {MOST_AHEAD}, but is {drafting} instead.")
    return max(block, nodes) + (0 if drafting.stage is None else _reach(drafting.stage))


def _name_drafter(drafting: Drafting, call: Run | Beam, places: int, reach: int) -> Ids:
    """Completes a call by a drafter's network and its caches; returns what those hold.

    :param places: that a row of the caches has at least, but for those that drafts may take
    :param reach: how many they are
    """
    network, state, seen = drafting.network, drafting.state, drafting.seen
    if not isinstance(network, KernelMaskedDrafter | KernelDecoder) or state is None or seen is None:
        raise TypeError("`drafting` must have a network on the kernels, its caches and what they hold.")
    state.own.reserve(places + reach)
    network.check_state(state, call.sentences)
    call.room = min(call.room, state.own.capacity - reach)
    call.drafter = ctypes.pointer(network.decoder.struct)
    call.draft_self = cache_view(state.own.data)
    call.draft_cross = cache_view(state.cross.data)
    call.draft_shortlists = array_of(state.shortlists, call.sentences)
    call.draft_sources = state.sources.ctypes.data
    if len(writable("seen", seen, np.int64, None)) < call.sentences:
        raise ValueError(f"`seen` must be for {call.sentences} sentences, but is for {len(seen)} instead.")
    return seen
