"""Verifier and masked drafter on the C++ kernels: one call runs a whole stack, nothing is padded.

A row's bits depend on its own sentence alone, by construction (kernels.cpp), so that no granule is needed here. Keys
and values are kept in bfloat16 where weights are in bfloat16 or int8; every sum over floats is taken in float32.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from specmt.engine.backend import NO_PREFIXES, Drafting, EncoderOutput, Prefixes, Ran, Sentences, Sizes, Slots, State
from specmt.engine.cache import CrossCache, KVCache
from specmt.engine.candidates import CANDIDATES
from specmt.engine.library import (
    Crossing,
    Draft,
    Encoding,
    Expansion,
    Run,
    Step,
    cache_view,
    kernels,
)
from specmt.engine.packed import Stack, keep_table, make_screen, pack
from specmt.engine.pool import thread_count
from specmt.engine.shortlist import array_of, shorten
from specmt.engine.transformer import Tables, Weights, drafter_tables, embedding_scale, verifier_tables
from specmt.engine.window import Branches
from specmt.types import EOS, UNK

Ids = npt.NDArray[np.int64]


class _NativeNetwork:
    """What verifier and drafter have in common."""

    own_threads = True
    in_loop = True
    shortens = True

    def __init__(
        self, weights: Weights, tables: Tables, sizes: Sizes, dtype: torch.dtype, *, mask: Tensor | None = None
    ) -> None:
        """
        :param mask: the embedding (D) of [MASK], which becomes id V
        """
        library = kernels()
        if library is None:
            raise RuntimeError("The kernels are not there; ask `can_run` first.")
        self._library = library
        self.sizes = sizes
        self.dtype = dtype
        self.device = torch.device("cpu")
        self.vocab_size, self.width = tables.target.shape
        self._table = keep_table(tables.target)
        project, self._project = pack(tables.output, tables.bias, dtype)
        self._decoder = Stack(
            weights,
            "decoder",
            sizes.decoder_layers,
            sizes=sizes,
            table=self._table,
            mask=mask,
            project=project,
            dtype=dtype,
        )

    def new_state(self, rows: int) -> State:
        """Returns empty caches for a number of rows."""
        shape = (self.sizes.decoder_layers, rows, self.sizes.heads, self.width // self.sizes.heads)
        dtype = torch.float32 if self.dtype == torch.float32 else torch.bfloat16
        return State(
            KVCache(*shape, dtype=dtype, device=self.device), CrossCache(*shape, dtype=dtype, device=self.device)
        )

    def start(self, state: State, rows: Tensor, memory: EncoderOutput) -> None:
        """Gives rows (B') new sentences with the verifier's memory (R, D) of them."""
        state.cross.reserve(int(memory.lengths.max()))
        state.cross.lengths[rows] = memory.lengths
        starts = _starts(memory.lengths.numpy())
        call = Crossing(
            threads=thread_count(),
            rows=len(memory.states),
            sentences=len(rows),
            memory=memory.states.data_ptr(),
            starts=starts.ctypes.data,
            places=rows.data_ptr(),
            cross=cache_view(state.cross.data),
        )
        self._library.specmt_cross(ctypes.byref(self._decoder.struct), ctypes.byref(call))
        lists = memory.shortlists
        state.allow(rows, None if lists is None else shorten(self._library, self._decoder.struct, lists, self.dtype))

    def _call(
        self,
        tokens: Tensor,
        starts: Tensor,
        counts: Tensor | None,
        state: State,
        *,
        slots: int = 0,
        ahead: int = 0,
        hidden: Tensor | None = None,
        branches: Branches | None = None,
        compact: bool = False,
    ) -> tuple[Step, Tensor, object]:
        """Returns a call that runs windows of tokens (B', W) with slots behind, its logits (R, V) and what it needs.

        Logits are those of all tokens; of slots alone where there are some; else, with counts, of last tokens alone.

        :param starts: (B') the position of the first token of each
        :param counts: (B') how many tokens each has, by default W
        :param ahead: how many tokens more to make room for
        :param hidden: (B' slots, D) where to write the last hidden states of slots
        :param compact: whether logits may be those of shortlists alone, one after the other; else the others are −inf
        """
        rows, width = tokens.shape
        tokens, starts = tokens.contiguous(), starts.contiguous()
        counts = None if counts is None else counts.contiguous()
        first = 0 if branches is None else branches.first
        state.cache.reserve(int(starts.max()) + first + width + slots + ahead)
        depths = None if branches is None else branches.depths.contiguous()
        paths = None if branches is None else branches.paths.contiguous()
        wanted = slots or (width if counts is None else 1)
        shortlists = array_of(state.shortlists, rows)
        shape = rows * wanted, self._decoder.struct.project.outputs
        if shortlists is None or compact:
            logits = torch.empty(shape, dtype=torch.float32)
        else:
            logits = torch.full(shape, -torch.inf, dtype=torch.float32)
        call = Step(
            threads=thread_count(),
            sentences=rows,
            width=width,
            slots=slots,
            tokens=tokens.data_ptr(),
            starts=starts.data_ptr(),
            counts=None if counts is None else counts.data_ptr(),
            sources=state.cross.lengths.data_ptr(),
            depths=None if depths is None else depths.data_ptr(),
            paths=None if paths is None else paths.data_ptr(),
            longest=0 if paths is None else paths.shape[2],
            first=first,
            self=cache_view(state.cache.data),
            cross=cache_view(state.cross.data),
            shortlists=shortlists,
            compact=compact,
            stride=shape[1],
            logits=logits.data_ptr(),
            hidden=None if hidden is None else hidden.data_ptr(),
        )
        return call, logits[:, : self.vocab_size], (tokens, starts, counts, depths, paths, shortlists)

    def _step(
        self,
        tokens: Tensor,
        starts: Tensor,
        counts: Tensor | None,
        state: State,
        *,
        slots: int = 0,
        hidden: Tensor | None = None,
        branches: Branches | None = None,
    ) -> Tensor:
        """Runs windows of tokens (B', W) and returns logits (R, V)."""
        call, logits, _kept = self._call(tokens, starts, counts, state, slots=slots, hidden=hidden, branches=branches)
        self._library.specmt_step(ctypes.byref(self._decoder.struct), ctypes.byref(call))
        return logits


class NativeDecoder(_NativeNetwork):
    """A decoder over the memory of a verifier, its own or another's."""

    def score(self, tokens: Tensor, starts: Tensor, state: State, branches: Branches | None = None) -> Tensor:
        """Runs a window (B', W) and returns the logits (B', W, V) of what follows each of its tokens."""
        rows, window = tokens.shape
        return self._step(tokens, starts, None, state, branches=branches).view(rows, window, -1)

    def ahead(self, tokens: Tensor, starts: Tensor, counts: Tensor, count: int, state: State) -> tuple[Tensor, Tensor]:
        """Reads tokens (B', M) and goes on with the best ones: at most ``count`` (B', K), with log-probabilities."""
        call, _logits, _kept = self._call(tokens, starts, counts, state, ahead=count, compact=True)
        drafts = torch.empty(len(tokens), count, dtype=torch.int64)
        log_probs = torch.empty(len(tokens), count, dtype=torch.float32)
        pointers = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (drafts, log_probs))
        made = self._library.specmt_ahead(
            ctypes.byref(self._decoder.struct), ctypes.byref(call), count, ctypes.c_int64(EOS), *pointers
        )
        return drafts[:, :made], log_probs[:, :made]


class NativeVerifier(NativeDecoder):
    """The verifier (names of weights as in the fairseq2 model)."""

    minds_shortlists = True

    def __init__(self, weights: Weights, sizes: Sizes, dtype: torch.dtype, prefixes: Prefixes = NO_PREFIXES) -> None:
        tables = verifier_tables(weights)
        super().__init__(weights, tables, sizes, dtype)
        self.prefixes = prefixes
        if dtype != torch.int8:
            self._decoder.struct.screen, self._screen = make_screen(tables.output, tables.bias, dtype)
        table = self._table if tables.source is tables.target else keep_table(tables.source)
        self._encoder = Stack(weights, "encoder", sizes.encoder_layers, sizes=sizes, table=table, dtype=dtype)

    def encode(self, sources: Sequence[Sequence[int]]) -> EncoderOutput:
        """Returns the memory (R, D) of sources given as ids without prefix and EOS, one sentence after the other."""
        sources = [[*self.prefixes.source, *source, EOS] for source in sources]
        lengths = np.array([len(source) for source in sources], dtype=np.int64)
        starts = _starts(lengths)
        tokens = np.concatenate([np.array(source, dtype=np.int64) for source in sources])
        states = torch.empty(len(tokens), self.width, dtype=torch.float32)
        call = Encoding(
            threads=thread_count(),
            rows=len(tokens),
            sentences=len(sources),
            tokens=tokens.ctypes.data,
            starts=starts.ctypes.data,
            memory=states.data_ptr(),
        )
        self._library.specmt_encode(ctypes.byref(self._encoder.struct), ctypes.byref(call))
        return EncoderOutput(states, torch.from_numpy(lengths))

    def run(
        self, state: State, sentences: Sentences, drafting: Drafting, *, iterations: int, enough: int, end: int = EOS
    ) -> Ran:
        """Runs iterations of the loop by itself: drafts, verifies and commits what greedy decoding would have said.

        It comes back earlier where caches have to grow.

        :param sentences: what becomes of the first B' rows of the state
        :param enough: how many sentences may end before it comes back
        :param end: the token that ends a sentence; −1 if none does
        :raises MemoryError: there is not enough.
        """
        block, lengths = drafting.block_size, sentences.lengths
        caches = [state.cache] if drafting.state is None else [state.cache, drafting.state.cache]
        for cache in caches:
            cache.reserve(int(lengths.max()) + block)
        windows, gained = np.zeros(iterations, dtype=np.int64), np.zeros(iterations)
        call = Run(
            threads=thread_count(),
            sentences=len(lengths),
            iterations=iterations,
            enough=enough,
            block=block,
            room=min(cache.capacity for cache in caches),
            end=end,
            filler=UNK,
            verifier=ctypes.pointer(self._decoder.struct),
            self=cache_view(state.cache.data),
            cross=cache_view(state.cross.data),
            shortlists=array_of(state.shortlists, len(lengths)),
            sources=state.cross.lengths.data_ptr(),
            tokens=sentences.tokens.data_ptr(),
            stride=sentences.tokens.stride(0),
            **{name: getattr(sentences, name).ctypes.data for name in Sentences.COUNTS},
            windows=windows.ctypes.data,
            gained=gained.ctypes.data,
        )
        if drafting.state is not None:
            network = cast("NativeDrafter | NativeDecoder", drafting.network)
            call.drafter = ctypes.pointer(network._decoder.struct)
            if isinstance(network, NativeDrafter):
                call.choice = ctypes.pointer(network.choice())
            call.draft_self = cache_view(drafting.state.cache.data)
            call.draft_cross = cache_view(drafting.state.cross.data)
            call.draft_shortlists = array_of(drafting.state.shortlists, len(lengths))
            call.draft_sources = drafting.state.cross.lengths.data_ptr()
            call.seen = cast(Tensor, drafting.seen).data_ptr()
        if drafting.trust is not None:
            call.seconds = drafting.trust.seconds.ctypes.data
            call.scale, call.shift = drafting.trust.scale, drafting.trust.shift
        count = self._library.specmt_run(ctypes.byref(call))
        if count < 0:
            raise MemoryError
        return Ran(windows[:count], gained[:count])


class NativeDrafter(_NativeNetwork):
    """The masked drafter."""

    def __init__(self, weights: Weights, sizes: Sizes, dtype: torch.dtype) -> None:
        super().__init__(weights, drafter_tables(weights), sizes, dtype, mask=weights["mask_embedding"])
        gates = weights["correction.gates.weight"].float()  # (2 R, 2 D + R)
        known, embedded, carried = torch.tensor_split(gates, (self.width, 2 * self.width), dim=1)
        # What a token contributes to the gates: (V, 2 R)
        table, scale = self._table.float(), embedding_scale(self.width, sizes.architecture)
        self._embedded = table * scale @ embedded.T + weights["correction.gates.bias"].float()
        # What a state adds to the logit of a token: (V, R)
        self._corrected = table @ weights["correction.output.weight"].float()
        packed = [pack(weight, None, torch.float32) for weight in (known, carried)]
        self._kept = [kept for _, kept in packed]
        self._known, self._carried = (linear for linear, _ in packed)

    @property
    def rank(self) -> int:
        """The width R of the correction's state."""
        return self._corrected.shape[1]

    def fill(self, tokens: Tensor, starts: Tensor, counts: Tensor, block_size: int, state: State) -> Slots:
        """Reads tokens (B', M) committed since the last call and fills a block of slots after them."""
        rows = len(tokens)
        hidden = torch.empty(rows, block_size, self.width, dtype=torch.float32)
        logits = self._step(tokens, starts, counts, state, slots=block_size, hidden=hidden)
        return Slots(logits.view(rows, block_size, -1), hidden, tokens.gather(1, counts[:, None] - 1)[:, 0])

    def chain(self, slots: Slots) -> tuple[Tensor, Tensor]:
        """Does what :func:`specmt.engine.candidates.best_chain` does."""
        shape = slots.logits.shape[:2]
        tokens, log_probs = torch.empty(shape, dtype=torch.int64), torch.empty(shape, dtype=torch.float32)
        call = self._draft(slots, tokens=tokens.data_ptr(), log_probs=log_probs.data_ptr())
        self._library.specmt_draft(ctypes.byref(call))
        return tokens, log_probs

    def tree(self, slots: Slots, breadth: int, nodes: int) -> tuple[Tensor, Tensor, Tensor]:
        """Does what :func:`specmt.engine.candidates.best_first` does."""
        shape = len(slots.last), nodes
        tokens, parents = torch.empty(shape, dtype=torch.int64), torch.empty(shape, dtype=torch.int64)
        log_probs = torch.empty(shape, dtype=torch.float32)
        call = self._draft(
            slots,
            nodes=nodes,
            breadth=breadth,
            tokens=tokens.data_ptr(),
            log_probs=log_probs.data_ptr(),
            parents=parents.data_ptr(),
        )
        self._library.specmt_draft(ctypes.byref(call))
        return tokens, parents, log_probs

    def expand(self, slots: Slots, slot: int, before: Tensor, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Does what :func:`specmt.engine.candidates.expand` does."""
        rows, width = before.shape
        shape = rows, width, min(CANDIDATES, self.vocab_size)
        ids, log_probs = torch.empty(shape, dtype=torch.int64), torch.empty(shape, dtype=torch.float32)
        before, states = before.contiguous(), states.clone(memory_format=torch.contiguous_format)
        expansion = Expansion(
            slot=slot,
            width=width,
            before=before.data_ptr(),
            states=states.data_ptr(),
            ids=ids.data_ptr(),
            log_probs=log_probs.data_ptr(),
        )
        self._library.specmt_expand(ctypes.byref(self._draft(slots)), ctypes.byref(expansion))
        return ids, log_probs, states

    def choice(self, **slots: int) -> Draft:
        """Returns how tokens are chosen for slots, of which more may be said."""
        return Draft(
            threads=thread_count(),
            vocab=self.vocab_size,
            width=self.width,
            rank=self.rank,
            embedded=self._embedded.data_ptr(),
            corrected=self._corrected.data_ptr(),
            known=self._known,
            carried=self._carried,
            **slots,
        )

    def _draft(self, slots: Slots, **results: int) -> Draft:
        rows, count, _ = slots.logits.shape
        return self.choice(
            sentences=rows,
            slots=count,
            stride=slots.logits.stride(1 if count > 1 else 0),  # that of a dimension of 1 says nothing
            logits=slots.logits.data_ptr(),
            hidden=slots.hidden.data_ptr(),
            last=slots.last.data_ptr(),
            **results,
        )


def _starts(lengths: Ids) -> Ids:
    """Returns where each of several sequences begins, and where the last ends; (B) → (B + 1)."""
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
