"""What the loop asks of verifier and drafter, and the choice of who computes it: C++ kernels or PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from specmt.engine.architecture import OURS, Architecture
from specmt.engine.cache import CrossCache, KVCache
from specmt.engine.window import Branches
from specmt.options import AlignmentHeads
from specmt.types import BOS

Attention: TypeAlias = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of a network that its weights do not tell."""

    heads: int
    encoder_layers: int
    decoder_layers: int
    max_length: int
    architecture: Architecture = OURS


class Prefixes(NamedTuple):
    """What a verifier is given before every sentence and its translation."""

    source: tuple[int, ...] = ()
    """Ids before those of a source."""

    target: tuple[int, ...] = ()
    """Ids between BOS and a translation; they are committed when a sentence begins, and no part of what is said."""

    @property
    def start(self) -> tuple[int, ...]:
        """What is committed before anything is decoded."""
        return BOS, *self.target


NO_PREFIXES: Final = Prefixes()


@dataclass
class State:
    """The caches of B rows of one decoder."""

    cache: KVCache
    cross: CrossCache

    shortlists: dict[int, Any] = field(default_factory=dict)
    """What rows may say, by their number, in whatever form the network wants it; the others may say everything."""

    @property
    def rows(self) -> int:
        """How many rows there are caches for."""
        return len(self.cross.lengths)

    def grow(self, rows: int, most: int) -> None:
        """Makes room for so many rows, and for some more to come; what is there stays.

        :param most: how many there will ever be
        """
        if rows > self.rows:
            size = min(max(rows, 2 * self.rows), max(rows, most))
            self.cache.grow(size)
            self.cross.grow(size)

    def allow(self, rows: Tensor, shortlists: Sequence[Any] | None) -> None:
        """Notes what rows (B') may say; without lists everything."""
        if shortlists is None and not self.shortlists:
            return
        for row, shortlist in zip(rows.tolist(), shortlists or [None] * len(rows), strict=True):
            self._allow(row, shortlist)

    def _allow(self, row: int, shortlist: object) -> None:
        if shortlist is None:
            self.shortlists.pop(row, None)
        else:
            self.shortlists[row] = shortlist

    def move(self, source: int, target: int, length: int) -> None:
        """Copies one row, of which so many positions count, over another."""
        self.cache.move(source, target, length)
        self.cross.move(source, target)
        self._allow(target, self.shortlists.get(source))

    def put(self, rows: Tensor, other: State, length: int) -> None:
        """Copies all rows of another state, of which so many positions count, over rows (B')."""
        self.cache.put(rows, other.cache, length)
        self.cross.fill(rows, other.cross.data, other.cross.lengths)
        for number, row in enumerate(rows.tolist() if self.shortlists or other.shortlists else ()):
            self._allow(row, other.shortlists.get(number))

    def row(self, number: int) -> State:
        """Returns a view of one row."""
        shortlists = {0: self.shortlists[number]} if number in self.shortlists else {}
        return State(self.cache.row(number), self.cross.row(number), shortlists)


@dataclass(frozen=True)
class EncoderOutput:
    """Encoder output of B sentences, in whatever form the network wants it back."""

    states: Tensor
    """(B, S, D) padded, or (R, D) with all sentences one after the other."""

    lengths: Tensor
    """(B) source lengths, prefix and EOS included."""

    shortlists: Sequence[Tensor] | None = None
    """(B) the ids that may be said of each sentence, in ascending order; without, all may."""

    def pick(self, numbers: list[int]) -> EncoderOutput:
        """Returns the memory of some of the sentences."""
        if numbers == list(range(len(self.lengths))):
            return self
        lengths = self.lengths[numbers]
        shortlists = None if self.shortlists is None else [self.shortlists[number] for number in numbers]
        if self.states.ndim == 3:
            return EncoderOutput(self.states[numbers], lengths, shortlists)
        parts = torch.split(self.states, self.lengths.tolist())
        return EncoderOutput(torch.cat([parts[number] for number in numbers]), lengths, shortlists)


@dataclass(frozen=True)
class Slots:
    """What a masked drafter makes of blocks of K [MASK] slots, before tokens are chosen for them."""

    logits: Tensor
    """(B, K, V)"""

    hidden: Tensor
    """(B, K, D) the last hidden states."""

    last: Tensor
    """(B) the last committed tokens."""

    def row(self, number: int) -> Slots:
        """Returns the block of one sentence."""
        return Slots(*(tensor[number, None] for tensor in (self.logits, self.hidden, self.last)))


class Network(Protocol):
    """What verifier and drafter have in common."""

    sizes: Sizes
    device: torch.device
    dtype: torch.dtype

    def new_state(self, rows: int) -> State:
        """Returns empty caches for a number of rows."""

    def start(self, state: State, rows: Tensor, memory: EncoderOutput) -> None:
        """Gives rows (B') new sentences with the verifier's memory of them, and what may be said of each."""


class Scorer(Network, Protocol):
    """Scores windows of target tokens: the decoder of a verifier, or an autoregressive drafter."""

    def score(self, tokens: Tensor, starts: Tensor, state: State, branches: Branches | None = None) -> Tensor:
        """Runs a window and returns the logits of what follows each of its tokens.

        :param tokens: (B', W) the last committed token and the draft, for the first B' rows of the state
        :param starts: (B') the position of the first token of the window
        :param branches: how the tokens follow each other, if not one after the other
        :returns: (B', W, V), −inf where a row's sentence must not go
        """

    def log_probs(self, logits: Tensor, tokens: Tensor) -> Tensor:
        """Returns the log-probabilities (B', W) of tokens (B', W), given logits (B', W, V), in float32."""

    def likeliest(self, logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Returns the likeliest tokens (B', C) but for PAD, best first, and their log-probabilities in float32.

        Among equals it is the lowest.

        :param logits: (B', V)
        """

    def candidates(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the best tokens (B', W, C), best first, and their log-probabilities among themselves.

        :param logits: (B', W, V)
        """

    def ahead(self, tokens: Tensor, starts: Tensor, counts: Tensor, count: int, state: State) -> tuple[Tensor, Tensor]:
        """Reads newly committed tokens into the cache and goes on with the best ones, until all sentences have ended.

        :param tokens: (B', M) tokens committed since the last call, padded on the right
        :param starts: (B') the position of the first of them
        :param counts: (B') how many there are, at least 1
        :returns: at most ``count`` tokens (B', K) and their log-probabilities (B', K)
        """


class Verifier(Scorer, Protocol):
    """Encodes sources, too."""

    prefixes: Prefixes

    def score_rows(
        self, rows: Tensor, tokens: Tensor, starts: Tensor, counts: Tensor, state: State, branches: Branches
    ) -> Tensor:
        """Runs windows of some rows, of different lengths, and returns the logits of what follows each of their tokens.

        :param rows: (B') of the state, each once
        :param tokens: (B', W) padded on the right
        :param starts: (B') the position of the first token of each window
        :param counts: (B') how many tokens each has, at least 1
        :returns: (R, V) of the tokens of all windows, one window after the other
        """

    def attention(
        self, state: State, rows: Sequence[int], targets: Sequence[Sequence[int]], heads: AlignmentHeads
    ) -> list[Attention]:
        """Returns the attention (T, S) that each token of targets has to each id of its source.

        Prefixes and EOS are left out on both sides, so that what a token has adds up to less than 1.

        :param rows: (B') where the sources are in the state
        :param targets: (B') translations as ids, whole
        """

    def encode(self, sources: Sequence[Sequence[int]]) -> EncoderOutput:
        """Returns the memory of sources given as ids without prefix and EOS."""


class Drafter(Network, Protocol):
    """Fills blocks of [MASK] slots."""

    @property
    def rank(self) -> int:
        """The width R of the correction's state."""

    def fill(self, tokens: Tensor, starts: Tensor, counts: Tensor, block_size: int, state: State) -> Slots:
        """Reads newly committed tokens into the cache and fills a block of slots after them.

        :param tokens: (B', M) tokens committed since the last call, padded on the right
        :param starts: (B') the position of the first of them
        :param counts: (B') how many there are, at least 1
        """

    def chain(self, slots: Slots) -> tuple[Tensor, Tensor]:
        """Returns the best chains of blocks (specmt.engine.candidates.best_chain)."""

    def tree(self, slots: Slots, breadth: int, nodes: int) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the best-first trees of blocks (specmt.engine.candidates.best_first)."""

    def expand(self, slots: Slots, slot: int, before: Tensor, states: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns candidates for a slot after given tokens (specmt.engine.candidates.expand)."""


class Backend(Protocol):
    """One way to compute a model's networks, on one device and in one number format."""

    name: str
    """``kernels`` or ``torch``."""

    device: torch.device
    dtype: torch.dtype

    shortlists_pay: bool
    """Whether it computes less where a sentence may say less."""

    @property
    def numerics(self) -> str:
        """What bits depend on beside model and sentence: kernel family and number format."""

    def row_cost(self, width: int) -> float:
        """Returns about what a further token in a step costs, in steps of one token, for a network of a width."""

    def own_threads(self) -> AbstractContextManager[None]:
        """Returns the context in which to call the networks: all threads are theirs."""

    def for_drafts(self) -> Backend:
        """Returns the backend for drafters, whose bits no exact output depends on."""

    def verifier(self, weights: Mapping[str, Tensor], sizes: Sizes, prefixes: Prefixes = NO_PREFIXES) -> Verifier:
        """Returns the verifier over weights named as in the fairseq2 model."""

    def replica_bits(self, width: int) -> int | None:
        """Returns the bits of a weight of a verifier's replica; ``None`` where there is none that would be cheaper."""

    def replica(self, weights: Mapping[str, Tensor], sizes: Sizes) -> Scorer:
        """Returns a verifier's decoder in a cheaper type, over the verifier's caches; only where that has bits."""

    def masked_drafter(self, weights: Mapping[str, Tensor], sizes: Sizes) -> Drafter:
        """Returns a masked drafter over weights named as in the fairseq2 model."""

    def autoregressive_drafter(self, weights: Mapping[str, Tensor], sizes: Sizes) -> Scorer:
        """Returns an autoregressive drafter over weights named as in the fairseq2 model."""


def best_tokens(logits: Tensor) -> Tensor:
    """Returns the best token of each position, the lowest id among equals; (..., V) → (...)."""
    if logits.device.type == "cpu" and logits.dtype == torch.float32:
        # torch would wake its own threads for this, which then fight with those of the kernels for the processors.
        return torch.from_numpy(logits.numpy().argmax(-1))
    return logits.argmax(-1)
