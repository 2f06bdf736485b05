"""Decoding options, checked once when they are made."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, get_args

from specmt.errors import UsageError

Strategy = Literal["speculative", "greedy", "beam"]
DrafterName = Literal["masked", "self", "none"]
DTypeName = Literal["auto", "float32", "float64", "bfloat16", "float16", "int8"]

STRATEGIES: Final[tuple[str, ...]] = get_args(Strategy)
DRAFTERS: Final[tuple[str, ...]] = get_args(DrafterName)
DTYPES: Final[tuple[str, ...]] = get_args(DTypeName)


REPLAY: Final = 16
"""Tokens that the drafter ``self`` decodes between two replays, by default."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """How far a drafter can be trusted, measured on text that it was not trained on.

    A token drafted with probability p after accepted ones is accepted with probability
    1 / (1 + exp(−scale · log(p / (1 − p)) − shift)).
    """

    acceptance: tuple[float, ...]
    """The probability that the first 1 … K tokens of a block are all accepted."""

    scale: float
    shift: float


@dataclass(frozen=True, kw_only=True)
class DecodingOptions:
    """How to decode. All values are checked when an instance is made.

    :raises UsageError: a value is out of range.
    """

    strategy: Strategy = "speculative"
    """``speculative`` (draft and verify), ``greedy`` (the same loop without a drafter) or ``beam``."""

    drafter: DrafterName = "masked"
    """Who proposes tokens in the speculative strategy: the masked drafter, the verifier itself in its fastest shape and
    type, or nobody."""

    block_size: int | None = None
    """The number of tokens K drafted ahead; ``None`` is what yields most on this machine (lossy: the model's own)."""

    beta: int = 3
    """How many of the verifier's best tokens the tolerance acceptor considers."""

    tolerance: float = 0.0
    """How far (in log-probability) an accepted token may lie below the best one; 0 is lossless."""

    beam_size: int = 5
    """The number of beams, for the strategy ``beam``."""

    length_penalty: float = 1.0
    """The exponent of the length normalisation, for the strategy ``beam``."""

    batch_size: int = 32
    """The most sentences decoded side by side."""

    batch_tokens: int = 16384
    """The most source pieces (padded) decoded side by side."""

    scores: bool = False
    """Whether hypotheses carry their log-probability."""

    def __post_init__(self) -> None:
        _check_choice("strategy", self.strategy, STRATEGIES)
        _check_choice("drafter", self.drafter, DRAFTERS)
        for name in ("beta", "beam_size", "batch_size", "batch_tokens"):
            _check_at_least_one(name, getattr(self, name))
        if self.block_size is not None:
            _check_at_least_one("block_size", self.block_size)
        if not self.tolerance >= 0.0 or math.isinf(self.tolerance):
            raise UsageError(f"`tolerance` must be a number of at least 0, but is {self.tolerance} instead.")
        if not math.isfinite(self.length_penalty):
            raise UsageError(f"`length_penalty` must be a finite number, but is {self.length_penalty} instead.")

        if self.drafter == "self" and not self.lossless:
            raise UsageError(f"`tolerance` must be 0 with the drafter self, but is {self.tolerance} instead.")

    @property
    def lossless(self) -> bool:
        """Whether the output equals that of greedy decoding (of beam search for ``beam``)."""
        return self.strategy != "speculative" or self.tolerance == 0.0 or self.beta == 1


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"`{name}` must be one of {', '.join(choices)}, but is {value!r} instead.")


def _check_at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise UsageError(f"`{name}` must be at least 1, but is {value} instead.")
