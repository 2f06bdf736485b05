"""What the loop asks of verifier and drafter, and the choice of who computes it: C++ kernels or PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from specmt.engine.architecture import OURS, Architecture
from specmt.engine.cache import CrossCache, KVCache
from specmt.engine.window import Branches
from specmt.types import BOS, EOS

Counts: TypeAlias = npt.NDArray[np.int64]


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


@dataclass(frozen=True)
class Sentences:
    """The first B rows of a state, for an engine that runs the loop by itself; it changes what is here."""

    tokens: Tensor
    """(B, T) the committed tokens, from BOS on."""

    lengths: Counts
    """(B) how many they are."""

    limits: Counts
    """(B) how many they may become."""

    calls: Counts
    drafted: Counts
    accepted: Counts
    """(B) what there was to do, added up."""

    COUNTS: ClassVar = ("lengths", "limits", "calls", "drafted", "accepted")


@dataclass(frozen=True)
class Trust:
    """What decides how many drafts are verified (specmt.decoding.plan)."""

    seconds: npt.NDArray[np.float64]
    """(K + 1) of iterations that verify 0 … K drafts."""

    scale: float
    shift: float
    """Of the calibration."""


@dataclass(frozen=True)
class Drafting:
    """How an engine that runs the loop by itself drafts chains."""

    block_size: int
    """How many tokens; 0 for none."""

    network: Drafter | Scorer | None = None
    """Who makes them; without, they are all UNK."""

    state: State | None = None
    """The drafter's caches."""

    seen: Tensor | None = None
    """(B) how many of the committed tokens are in them."""

    trust: Trust | None = None
    """Without, all drafts are verified."""


class Ran(NamedTuple):
    """What came of iterations."""

    windows: Counts
    """(I) how many drafts each verified."""

    gained: npt.NDArray[np.float64]
    """(I) how many tokens a sentence got, on average."""


@runtime_checkable
class Runner(Protocol):
    """A verifier that runs the loop by itself, with exact acceptance of chains."""

    sizes: Sizes

    minds_shortlists: bool
    """Whether it says only what sentences may say; one that does not must not be asked where there are lists."""

    def run(
        self, state: State, sentences: Sentences, drafting: Drafting, *, iterations: int, enough: int, end: int = EOS
    ) -> Ran:
        """Runs so many iterations at most, or until enough sentences have ended.

        :param end: the token that ends a sentence; −1 if none does
        """


class Network(Protocol):
    """What verifier and drafter have in common."""

    sizes: Sizes
    device: torch.device
    dtype: torch.dtype

    own_threads: bool
    """Whether it computes in threads of its own."""

    in_loop: bool
    """Whether it can draft for a verifier of its kind that runs the loop by itself."""

    shortens: bool
    """Whether it computes less where less may be said."""

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


def best_tokens(logits: Tensor) -> Tensor:
    """Returns the best token of each position, the lowest id among equals; (..., V) → (...)."""
    if logits.device.type == "cpu" and logits.dtype == torch.float32:
        # torch would wake its own threads for this, which then fight with those of the kernels for the processors.
        return torch.from_numpy(logits.numpy().argmax(-1))
    return logits.argmax(-1)
