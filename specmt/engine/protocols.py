"""What decoding asks of verifiers and drafters, whoever computes them (`specmt.engine.backends`)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias

from specmt.engine.architecture import NO_PREFIXES, Prefixes, Sizes
from specmt.engine.arrays import Floats, Ids
from specmt.engine.cache import State
from specmt.engine.weights import Weights
from specmt.engine.window import Window
from specmt.options import AlignmentHeads

Kind: TypeAlias = Literal["masked", "autoregressive"]
"""The kinds of drafters that are networks."""

CANDIDATES: Final = 16
"""How many of a network's best tokens behind a place can be drafted there; the same number as in csrc."""


class Logits(Protocol):
    """What a network gives each token of the vocabulary behind each token of a window, (B, W, V).

    They stay where they were computed, and are valid until the network's next call. What a sentence must not say is at
    −inf. A place behind a row's count is its last.
    """

    def best(self) -> Ids:
        """Returns the best tokens (B, W), the lowest id among equals."""

    def log_probs(self, tokens: Ids, places: Ids) -> Floats:
        """Returns the log-probabilities (B, M) of tokens (B, M) behind places (B, M) of the window."""

    def ranks(self, tokens: Ids, places: Ids) -> tuple[Ids, Floats]:
        """Returns how many tokens beat tokens (B, M) behind places (B, M), and how far below the best these are.

        Among equals the lowest id is the best. A difference of logits at one place is the difference of
        log-probabilities.
        """

    def likeliest(self, count: int) -> tuple[Ids, Floats]:
        """Returns the likeliest tokens (B, W, C) but for PAD, best first, and their log-probabilities.

        Among equals the lowest id comes first.
        """

    def row(self, row: int, place: int) -> Floats:
        """Returns the logits (V) behind one place."""


@dataclass(frozen=True)
class EncoderOutput(ABC):
    """Encoder output of B sentences, in whatever form the network wants it back."""

    states: Any

    lengths: Ids
    """(B) source lengths, prefix and EOS included."""

    shortlists: Sequence[Ids] | None = None
    """(B) the ids that may be said of each sentence, in ascending order; without, all may."""

    @abstractmethod
    def states_of(self, numbers: list[int]) -> Any:
        """Returns the states of some of the sentences."""

    def pick(self, numbers: list[int]) -> EncoderOutput:
        """Returns the output of some of the sentences."""
        if numbers == list(range(len(self.lengths))):
            return self
        shortlists = None if self.shortlists is None else [self.shortlists[number] for number in numbers]
        return replace(self, states=self.states_of(numbers), lengths=self.lengths[numbers], shortlists=shortlists)

    def listed(self, shortlists: Sequence[Ids] | None) -> EncoderOutput:
        """Returns the same output with other shortlists."""
        return replace(self, shortlists=shortlists)


class Network(Protocol):
    """What verifier and drafters have in common."""

    sizes: Sizes

    def new_state(self, rows: int) -> State:
        """Returns empty caches for a number of rows."""

    def start(self, state: State, rows: Ids, encoded: EncoderOutput) -> None:
        """Gives rows (B') new sentences with the encoder's output for them, and what may be said of each."""


class Scorer(Network, Protocol):
    """Scores windows of target tokens."""

    def score(self, window: Window, state: State) -> Logits:
        """Runs a window, what is kept of it goes into the caches, and returns what follows each of its tokens."""


class Verifier(Scorer, Protocol):
    """Encodes sources, too."""

    prefixes: Prefixes

    def encode(self, sources: Sequence[Sequence[int]]) -> EncoderOutput:
        """Returns the encoder's output for sources given as ids without prefix and EOS."""

    def attention(
        self, state: State, rows: Sequence[int], targets: Sequence[Sequence[int]], heads: AlignmentHeads
    ) -> list[Floats]:
        """Returns the attention (T, S) that each token of targets has to each id of its source.

        Prefixes and EOS are left out on both sides, so that what a token has adds up to less than 1.

        :param rows: (B') where the sources are in the state
        :param targets: (B') translations as ids, whole
        """


class Expander(Protocol):
    """A drafter's distributions, level by level of its trees."""

    def expand(self, tokens: Ids, parents: Ids) -> tuple[Ids, Floats]:
        """Goes on to the next level.

        :param tokens: (B, W) the nodes of a level; the first level is the last committed token alone
        :param parents: (B, W) the number, in the level before, of the node that each follows
        :returns: candidates (B, W, C) after each, the best first, and their log-probabilities among themselves
        """


class DraftNetwork(Network, Protocol):
    """A network that goes ahead of what was committed, having read what was since its last call."""

    def chain(self, read: Window, ahead: int, state: State) -> tuple[Ids, Floats]:
        """Returns the best continuations (B, K), at most so many tokens, and their log-probabilities (B, K)."""

    def expander(self, read: Window, ahead: int, state: State) -> Expander:
        """Returns what the tokens of draft trees of at most so many levels are chosen from."""


class Kept(NamedTuple):
    """A file of a packed network."""

    seconds: float
    """What it took to make it."""

    size: int
    """Its bytes."""


class Backend(Protocol):
    """One way to compute a model's networks, on one device and in one number format."""

    name: str
    """``kernels`` or ``torch``."""

    device: str
    """``cpu`` or ``cuda:…``"""

    format: str
    """``float32``, ``bfloat16``, ``int8`` …"""

    shortlists_pay: bool
    """Whether it computes less where a sentence may say less."""

    @property
    def numerics(self) -> str:
        """What bits depend on beside model and sentence: kernel family and number format."""

    def bits(self, name: str, width: int) -> int | None:
        """Returns the bits of a weight of ``verifier``, a kind of drafter, or ``self``, the verifier's replica.

        :param width: of the network
        :returns: ``None`` for a replica that would be no cheaper
        """

    def verifier(self, weights: Weights, sizes: Sizes, prefixes: Prefixes = NO_PREFIXES) -> Verifier:
        """Returns the verifier over weights named as in the fairseq2 model."""

    def replica(self, weights: Weights, sizes: Sizes) -> Scorer:
        """Returns a verifier's decoder in a cheaper format, over the verifier's caches; only where that has bits."""

    def drafter(self, kind: Kind, weights: Weights, sizes: Sizes) -> DraftNetwork:
        """Returns a drafter over weights named as in the fairseq2 model, in the format that drafts want."""

    def kept(self, name: str, weights: Weights, sizes: Sizes) -> Kept | None:
        """Returns what is known of a network that was made on an earlier day, and is kept so that it is read at once.

        :param name: as for `bits`
        """
