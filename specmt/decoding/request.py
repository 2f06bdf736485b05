"""What a session is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, NamedTuple

from specmt.options import AlignmentHeads, DecodingOptions

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from specmt.decoding.trace import Iteration
    from specmt.decoding.translation_memory import TranslationMemory
    from specmt.engine.protocols import EncoderOutput
    from specmt.text.shortlist import Shortlist


class Term(NamedTuple):
    """Something that a translation must contain."""

    pieces: tuple[int, ...]
    """Where it is among the source ids."""

    forms: tuple[tuple[int, ...], ...]
    """What it may be, as target ids."""


class Constraint(NamedTuple):
    """What a translation lacks."""

    terms: tuple[Term, ...]
    """All of it, at least one."""

    heads: AlignmentHeads
    """Whose attention tells where it belongs."""

    begins: npt.NDArray[np.bool_]
    """(V) whether a token is not within a word: the ones that may follow a term, and that one may stand before."""


Missing = Callable[[list[int], int], Constraint | None]
"""Returns what a translation lacks, given its tokens and how many of them were given; ``None`` if it will do."""


class Request(NamedTuple):
    """A sentence to decode."""

    key: int
    """What the caller knows it by."""

    source: list[int]
    """Source ids, without EOS."""

    line: int = 0
    part: int = 0
    """The line of the input that it comes from, and which of its sentences it is: its random numbers depend on them."""

    options: DecodingOptions = field(default_factory=DecodingOptions)
    """How to decode it; requests with equal options are decoded side by side."""

    aligned: bool = False
    """Whether its hypothesis must carry attention."""

    missing: Missing | None = None
    """Says what must be in its translation, once there is one."""

    memory: TranslationMemory | None = None
    """What lookups copy from; what they lead to is added."""

    recorder: Recorder | None = None
    """Notes every verifier call."""


class Recorder:
    """Writes down what the loop does, by the key of the request."""

    def __init__(self, beta: int) -> None:
        """
        :param beta: how many of the verifier's tokens to note for each place.
        """
        self.beta = beta
        self.iterations: dict[int, list[Iteration]] = {}

    def record(self, request: Request, iteration: Iteration) -> None:
        """Notes a pass over a sentence."""
        self.iterations.setdefault(request.key, []).append(iteration)


def listed(encoded: EncoderOutput, requests: Sequence[Request], shortlist: Shortlist | None) -> EncoderOutput:
    """Returns the encoder's output of sentences with what may be said of them; without a shortlist as it is."""
    if shortlist is None:
        return encoded
    return encoded.listed([shortlist.of(request.source) for request in requests])
