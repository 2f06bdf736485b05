"""Decoding options, checked once when they are made."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, get_args

from specmt.errors import UsageError

Strategy = Literal["speculative", "greedy", "beam"]
DrafterName = Literal["masked", "autoregressive", "self", "lookup", "none"]
TreeName = Literal["chain", "best-first", "sampled"]
DTypeName = Literal["auto", "float32", "float64", "bfloat16", "float16", "int8"]

STRATEGIES: Final[tuple[str, ...]] = get_args(Strategy)
DRAFTERS: Final[tuple[str, ...]] = get_args(DrafterName)
TREES: Final[tuple[str, ...]] = get_args(TreeName)
DTYPES: Final[tuple[str, ...]] = get_args(DTypeName)


AHEAD: Final = {"autoregressive": 5, "self": 16, "lookup": 32}
"""How many tokens drafters go ahead by default, other than the masked one."""


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

    drafter: str | None = None
    """Who proposes tokens in the speculative strategy: the masked drafter, a small autoregressive one, the verifier
    itself in its fastest shape and type, a lookup in texts, or nobody; names joined by + draft together. ``None`` is
    the masked drafter, and a lookup for a model that does not have one (`for_model`)."""

    tree: TreeName = "chain"
    """What is drafted: one token a position, the likeliest paths, or (when sampling) paths without replacement."""

    nodes: int | None = None
    """The most nodes of a best-first tree; ``None`` is what yields most on this machine."""

    width: int = 4
    """The number of paths W of a sampled tree."""

    memory: Path | None = None
    """A translation memory, TSV or TMX, whose translations are proposed as drafts."""

    block_size: int | None = None
    """The number of tokens K drafted ahead; ``None`` is what yields most on this machine (lossy: the model's own)."""

    beta: int = 3
    """How many candidates a position has: those that may follow a node of a best-first tree, and those of the verifier
    that the tolerance acceptor considers."""

    tolerance: float = 0.0
    """How far (in log-probability) an accepted token may lie below the best one; 0 is lossless."""

    temperature: float = 0.0
    """Above 0, translations are sampled from the model at this temperature."""

    top_k: int | None = None
    """When sampling, how many of the best tokens of a position can be drawn; by default all."""

    seed: int = 1
    """What samples depend on, with the line and the position."""

    beam_size: int = 5
    """The number of beams, for the strategy ``beam``."""

    length_penalty: float = 1.0
    """The exponent of the length normalisation, for the strategy ``beam``."""

    batch_size: int = 32
    """The most sentences decoded side by side."""

    batch_tokens: int = 16384
    """The most source pieces (padded) decoded side by side."""

    scores: bool = False
    """Whether hypotheses carry their log-probability; with a shortlist, that among what it allows."""

    shortlist: bool = False
    """Whether only pieces may be said that the model's shortlist allows for the source: faster with large vocabularies,
    and now and then another translation than without. Speculative output stays that of greedy decoding with it."""

    protect: bool = True
    """Whether addresses, placeholders, paths and emoji are kept from the model, to come out as they went in; samples
    are always the model's own."""

    def __post_init__(self) -> None:
        _check_choice("strategy", self.strategy, STRATEGIES)
        _check_choice("tree", self.tree, TREES)
        for name in self.drafters:
            _check_choice("drafter", name, DRAFTERS)
        for name in ("beta", "beam_size", "batch_size", "batch_tokens", "width"):
            _check_at_least_one(name, getattr(self, name))
        for name in ("block_size", "nodes", "top_k"):
            if getattr(self, name) is not None:
                _check_at_least_one(name, getattr(self, name))
        for name in ("tolerance", "temperature"):
            value = getattr(self, name)
            if not value >= 0.0 or math.isinf(value):
                raise UsageError(f"`{name}` must be a number of at least 0, but is {value} instead.")
        if not math.isfinite(self.length_penalty):
            raise UsageError(f"`length_penalty` must be a finite number, but is {self.length_penalty} instead.")
        if not 0 <= self.seed < 2**64:
            raise UsageError(f"`seed` must be at least 0 and less than 2^64, but is {self.seed} instead.")
        self._check_together()

    def _check_together(self) -> None:
        if len(set(self.drafters)) < len(self.drafters) or (len(self.drafters) > 1 and "none" in self.drafters):
            raise UsageError(f"`drafter` must name different drafters, but is {self.drafter!r} instead.")
        if "self" in self.drafters and not (self.tolerance == 0.0 or self.beta == 1):
            raise UsageError(f"`tolerance` must be 0 with the drafter self, but is {self.tolerance} instead.")
        if self.looks_up and not self.lossless:
            # What is drafted depends on what was translated before, and so would the output.
            raise UsageError(f"`tolerance` must be 0 with the drafter lookup, but is {self.tolerance} instead.")
        if self.shortlist and self.strategy == "beam":
            raise UsageError("`shortlist` must be false for beam search, but is true instead.")
        if self.tree == "sampled" and not self.samples:
            raise UsageError("`tree` sampled needs a `temperature` above 0.")
        if not self.samples:
            return
        if self.strategy == "beam":
            raise UsageError(f"`temperature` must be 0 for beam search, but is {self.temperature} instead.")
        if self.tolerance > 0.0:
            raise UsageError(f"`tolerance` must be 0 when sampling, but is {self.tolerance} instead.")
        if self.tree == "best-first":
            raise UsageError("`tree` must be chain or sampled when sampling, but is 'best-first' instead.")
        names = "+".join(self.drafters)
        if self.strategy == "speculative" and names not in ("masked", "autoregressive", "none"):
            raise UsageError(
                f"`drafter` must be masked, autoregressive or none when sampling, but is {names!r} instead."
            )

    @property
    def drafters(self) -> tuple[str, ...]:
        """The names of the drafters; a translation memory is looked up in, whatever they are."""
        names = (self.drafter or "masked").split("+")
        return tuple(names if self.memory is None or "lookup" in names else [*names, "lookup"])

    def for_model(self, *, has_drafter: bool) -> DecodingOptions:
        """Returns the options for a model that has a masked drafter, or has none: who drafts is named in them.

        A lookup never changes an output. Where what is drafted would, there must be a drafter, or none for samples.
        """
        if self.drafter is not None:
            return self
        if has_drafter or not self.lossless:
            return replace(self, drafter="masked")
        return replace(self, drafter="none" if self.samples else "lookup")

    @property
    def looks_up(self) -> bool:
        """Whether drafts are copied from earlier text: the drafter says so, or there is a translation memory."""
        return self.strategy == "speculative" and "lookup" in self.drafters

    def ahead(self, drafter: str) -> int:
        """Returns how many tokens a drafter other than the masked one goes ahead."""
        return self.block_size or AHEAD[drafter]

    @property
    def samples(self) -> bool:
        """Whether translations are drawn at random."""
        return self.temperature > 0.0

    @property
    def lossless(self) -> bool:
        """Whether the output is what the strategy says: that of greedy decoding, of beam search, or a fair sample.

        A shortlist holds for greedy decoding too.
        """
        return self.strategy != "speculative" or self.tolerance == 0.0 or self.beta == 1


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"`{name}` must be one of {', '.join(choices)}, but is {value!r} instead.")


def _check_at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise UsageError(f"`{name}` must be at least 1, but is {value} instead.")
