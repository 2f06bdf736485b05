"""Decoding options, checked once when they are made."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final, Literal, get_args

from specmt.errors import UsageError

Strategy = Literal["speculative", "greedy", "beam"]
DrafterName = Literal["auto", "masked", "autoregressive", "self", "lookup", "none"]
TreeName = Literal["chain", "best-first", "sampled"]
DTypeName = Literal["auto", "float32", "float64", "bfloat16", "float16", "int8"]

STRATEGIES: Final[tuple[str, ...]] = get_args(Strategy)
DRAFTERS: Final[tuple[str, ...]] = get_args(DrafterName)
TREES: Final[tuple[str, ...]] = get_args(TreeName)
DTYPES: Final[tuple[str, ...]] = get_args(DTypeName)


LIMITS: Final = {
    "block_size": 256,
    "nodes": 256,
    "width": 256,
    "beta": 1024,
    "top_k": 1 << 20,
    "beam_size": 128,
    "batch_size": 4096,
    "batch_tokens": 1 << 20,
}
"""The most that options of these names can be; all are at least 1."""

AHEAD: Final = {"masked": 10, "autoregressive": 5, "self": 16, "lookup": 32}
"""How many tokens drafters look ahead where that is fixed and neither the options nor the model say how many."""


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
class AlignmentHeads:
    """The attention heads that tell which source pieces a target piece comes from."""

    layer: int
    """The decoder layer, from 0."""

    heads: tuple[int, ...]
    """The heads of that layer, whose attention is averaged."""

    reads: Literal["input", "output"] = "input"
    """Whether a token's attention is that of the position where it is read, or of the one where it is predicted."""


@dataclass(frozen=True, kw_only=True)
class DecodingOptions:
    """How to decode. All values are checked when an instance is made.

    :raises UsageError: a value is out of range.
    """

    strategy: Strategy = "speculative"
    """``speculative`` (draft and verify), ``greedy`` (the same loop without a drafter) or ``beam``."""

    drafter: str = "auto"
    """Who proposes tokens in the speculative strategy: the masked drafter, a small autoregressive one, the verifier
    in a cheaper type, a lookup in texts, or nobody; with ``+lookup``, it or lookups, whichever promise more. ``auto``
    is whichever of those that the model has turns out to be fastest (specmt.decoding.drafters), also beside lookups. In
    beam search, the autoregressive one or nobody: what it says decides when two steps are made at once."""

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

    n_best: int = 1
    """How many translations of a line, for the strategy ``beam``: at most as many as there are beams."""

    batch_size: int = 32
    """The most sentences decoded side by side."""

    batch_tokens: int = 16384
    """The most source pieces (padded) decoded side by side."""

    scores: bool = False
    """Whether hypotheses carry their log-probability; with a shortlist, that among what it allows."""

    glossary: Path | None = None
    """Terms, as TSV, whose translations must be in those of the lines that they are in."""

    keep: tuple[str, ...] = ()
    """Terms that stay as they are."""

    split: bool = True
    """Whether lines are cut into sentences."""

    keep_numbers: bool = True
    """Whether the numbers of a line must be in its translation: a sentence that lost one is translated once more."""

    check: bool = False
    """Whether translations carry warnings of what may be wrong with them (specmt.text.checks)."""

    alignments: bool = False
    """Whether translations carry which words of the source their words come from."""

    shortlist: bool = False
    """Whether only pieces may be said that the model's shortlist allows for the source: faster with large vocabularies,
    and now and then another translation than without. Speculative output stays that of greedy decoding with it."""

    protect: bool | None = None
    """Whether addresses, placeholders, paths and emoji come out as they went in. True shows every model stand-ins for
    them; ``None`` those whose configuration says that they were made for that: others are asked freely and judged."""

    def __post_init__(self) -> None:
        _check_choice("strategy", self.strategy, STRATEGIES)
        _check_choice("tree", self.tree, TREES)
        for name in self.drafter.split("+"):
            _check_choice("drafter", name, DRAFTERS)
        for name, most in LIMITS.items():
            if getattr(self, name) is not None:
                _check_range(name, getattr(self, name), most)
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
        named = self.drafter.split("+")
        if len(named) > 1 and (len(named) > 2 or named.count("lookup") != 1):
            wanted = "must be one name, or one and lookup, as in masked+lookup"
            raise UsageError(f"`drafter` {wanted}, but is {self.drafter!r} instead.")
        if "none" in named and len(self.drafters) > 1:
            raise UsageError("`drafter` none does not go together with lookup or a `memory`; leave one out.")
        if "self" in self.drafters and not (self.tolerance == 0.0 or self.beta == 1):
            raise UsageError(f"`tolerance` must be 0 with the drafter self, but is {self.tolerance} instead.")
        if "lookup" in self.drafters and not self.lossless:
            # What is drafted depends on what was translated before, and so would the output.
            raise UsageError(f"`tolerance` must be 0 with the drafter lookup, but is {self.tolerance} instead.")
        if self.strategy == "beam" and self.drafter not in ("auto", "autoregressive", "none"):
            raise UsageError(
                f"`drafter` must be auto, autoregressive or none for beam search, but is {self.drafter!r} instead."
            )
        _check_range("n_best", self.n_best, self.beam_size)
        if self.shortlist and self.strategy == "beam":
            raise UsageError("`shortlist` must be false for beam search, but is true instead.")
        for name in ("glossary", "keep"):
            # Beams and samples are what the model says; a shortlist may lack what must be said.
            if getattr(self, name):
                self.check_constraint(name)
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
        if self.strategy == "speculative" and names not in ("auto", "masked", "autoregressive", "none"):
            raise UsageError(
                f"`drafter` must be masked, autoregressive or none when sampling, but is {names!r} instead."
            )

    def check_constraint(self, name: str) -> None:
        """Checks that translations can be made to contain something.

        :param name: the option that asks for it
        :raises UsageError: they are those of beam search, samples, or made with a shortlist.
        """
        if self.strategy == "beam" or self.samples or self.shortlist:
            what = "beam search" if self.strategy == "beam" else "sampling" if self.samples else "a `shortlist`"
            raise UsageError(f"`{name}` does not go together with {what}; leave one out.")

    @property
    def drafters(self) -> tuple[str, ...]:
        """The names of the drafters, ``auto`` among them; a translation memory is looked up in, whatever they are."""
        names = self.drafter.split("+")
        return tuple(names if self.memory is None or "lookup" in names else [*names, "lookup"])

    @property
    def samples(self) -> bool:
        """Whether translations are drawn at random."""
        return self.temperature > 0.0

    @property
    def is_greedy(self) -> bool:
        """Whether the output is that of greedy decoding with all pieces: what confidence was fitted on."""
        return self.lossless and self.strategy != "beam" and not (self.samples or self.shortlist)

    @cached_property
    def searched(self) -> DecodingOptions:
        """What a session is asked for: all that beam search finds, as the best may not be the best that will do."""
        return replace(self, n_best=self.beam_size) if self.strategy == "beam" else self

    @property
    def lossless(self) -> bool:
        """Whether the output is that of the same options without a drafter.

        Samples are fair ones of the model where nothing is asked again: without `keep_numbers` and `protect`.
        """
        return self.strategy != "speculative" or self.tolerance == 0.0 or self.beta == 1


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise UsageError(f"`{name}` must be one of {', '.join(choices)}, but is {value!r} instead.")


def _check_range(name: str, value: int, most: int) -> None:
    if value < 1:
        raise UsageError(f"`{name}` must be at least 1, but is {value} instead.")
    if value > most:
        raise UsageError(f"`{name}` must be at most {most}, but is {value} instead.")


_OF_DRAFTS: Final = ("tree", "block_size", "nodes", "width", "beta", "tolerance")

_Has = Callable[[DecodingOptions], bool]
_NEEDS: Final[tuple[tuple[tuple[str, ...], str, _Has], ...]] = (
    (("beam_size", "length_penalty", "n_best"), "`strategy` beam", lambda options: options.strategy == "beam"),
    (("memory", *_OF_DRAFTS), "`strategy` speculative", lambda options: options.strategy == "speculative"),
    (("drafter",), "`strategy` speculative or beam", lambda options: options.strategy != "greedy"),
    (_OF_DRAFTS, "a drafter", lambda options: options.drafters != ("none",)),
    (("nodes",), "`tree` best-first", lambda options: options.tree == "best-first"),
    (("width",), "`tree` sampled", lambda options: options.tree == "sampled"),
    (("top_k", "seed"), "a `temperature` above 0", lambda options: options.samples),
)
"""Options that mean something only beside others: what they need, and whether it is there."""


def check_effects(options: DecodingOptions, given: Collection[str]) -> None:
    """Refuses options that were given and change nothing beside the others; ``auto`` is as good as not given.

    :param given: the names of the options that the user gave a value
    :raises UsageError: one of them has no effect.
    """
    given = [name for name in given if getattr(options, name, None) not in (None, "auto")]
    for names, needed, has in _NEEDS:
        for name in names:
            if name in given and not has(options):
                raise UsageError(f"`{name}` has no effect without {needed}; leave it out.")
    if "beta" in given and "tolerance" not in given and options.lossless and options.tree != "best-first":
        raise UsageError("`beta` has no effect without `tree` best-first or a `tolerance`; leave it out.")


def most_threads() -> int:
    """Returns the most threads that can be asked for on this machine."""
    return max(16, 4 * (os.cpu_count() or 1))


def check_threads(threads: int | None) -> None:
    """
    :raises UsageError: there cannot be so many threads.
    """
    if threads is not None:
        _check_range("threads", threads, most_threads())


def check_environment(environment: Mapping[str, str]) -> None:
    """Checks the variables that say how many threads libraries start.

    :raises UsageError: one of them asks for more than there can be.
    """
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        first = environment.get(name, "").partition(",")[0].strip()  # OpenMP takes one number for each level
        if first.isdecimal() and int(first) > most_threads():
            raise UsageError(f"`{name}` must be at most {most_threads()}, but is {first} instead.")
