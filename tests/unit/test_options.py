"""Decoding options: every range, and what does not go together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specmt.errors import UsageError
from specmt.models.hub import load_model
from specmt.options import LIMITS, DecodingOptions, check_effects, check_environment, check_threads, most_threads

MEMORY = Path("memory.tsv")
SUM = "`drafter` must be one name, or one and lookup, as in masked+lookup, but is '{}' instead."
ONE_OF = "`drafter` must be one of auto, masked, autoregressive, self, lookup, none, but is '{}' instead."
NO_TOLERANCE = "`tolerance` must be 0 with the drafter {}, but is {} instead."
NOT_NONE = "`drafter` none does not go together with lookup or a `memory`; leave one out."


def complaint(**options: Any) -> str:
    with pytest.raises(UsageError) as raised:
        DecodingOptions(**options)
    return str(raised.value)


@pytest.mark.parametrize("name", LIMITS)
def test_counts_have_limits(name: str) -> None:
    for value in (1, LIMITS[name]):
        assert getattr(DecodingOptions(**{name: value}), name) == value
    for value in (0, -3):
        assert complaint(**{name: value}) == f"`{name}` must be at least 1, but is {value} instead."
    for value in (LIMITS[name] + 1, 10**30):
        assert complaint(**{name: value}) == f"`{name}` must be at most {LIMITS[name]}, but is {value} instead."


def test_threads_have_limits() -> None:
    most = most_threads()
    for threads in (None, 1, most):
        check_threads(threads)
    for threads, bound in ((0, "least 1"), (most + 1, f"most {most}"), (100_000, f"most {most}")):
        with pytest.raises(UsageError) as raised:
            check_threads(threads)
        assert str(raised.value) == f"`threads` must be at {bound}, but is {threads} instead."
    with pytest.raises(UsageError, match="`threads` must be at most"):
        load_model(threads=100_000)
    for value in ("", "2", "2,1", "x", f"{most}", "-1"):
        check_environment({"OMP_NUM_THREADS": value})
    for value in (f"{most + 1}", "100000,2"):
        with pytest.raises(UsageError, match=r"`MKL_NUM_THREADS` must be at most \d+, but is \d+ instead."):
            check_environment({"MKL_NUM_THREADS": value})


@pytest.mark.parametrize("name", ["tolerance", "temperature"])
def test_numbers_are_finite_and_not_negative(name: str) -> None:
    for value in (0.0, 5e-324, 1e308):
        assert getattr(DecodingOptions(**{name: value}), name) == value
    for value in (-1e-9, float("inf"), float("nan")):
        assert complaint(**{name: value}) == f"`{name}` must be a number of at least 0, but is {value} instead."


def test_the_length_penalty_is_finite() -> None:
    assert DecodingOptions(length_penalty=-2.0).length_penalty == -2.0
    for value in (float("inf"), float("nan")):
        wanted = f"`length_penalty` must be a finite number, but is {value} instead."
        assert complaint(length_penalty=value) == wanted


def test_seeds_have_64_bits() -> None:
    assert [DecodingOptions(seed=seed).seed for seed in (0, 2**64 - 1)] == [0, 2**64 - 1]
    for seed in (-1, 2**64):
        assert complaint(seed=seed) == f"`seed` must be at least 0 and less than 2^64, but is {seed} instead."


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategy": "best"}, "`strategy` must be one of speculative, greedy, beam, but is 'best' instead."),
        ({"tree": "bush"}, "`tree` must be one of chain, best-first, sampled, but is 'bush' instead."),
        ({"drafter": "mask"}, ONE_OF.format("mask")),
        ({"drafter": "masked+oracle"}, ONE_OF.format("oracle")),
        ({"drafter": "masked+"}, ONE_OF.format("")),
        *(
            ({"drafter": drafter}, SUM.format(drafter))
            for drafter in (
                *("masked+masked", "lookup+lookup", "none+none", "masked+auto", "masked+none", "masked+autoregressive"),
                *("self+lookup+masked", "auto+lookup+lookup"),
            )
        ),
        ({"drafter": "none", "memory": MEMORY}, NOT_NONE),
        ({"drafter": "none+lookup"}, NOT_NONE),
        ({"drafter": "self", "tolerance": 1.0}, NO_TOLERANCE.format("self", 1.0)),
        ({"drafter": "self+lookup", "tolerance": 0.5}, NO_TOLERANCE.format("self", 0.5)),
        ({"drafter": "lookup", "tolerance": 2.0}, NO_TOLERANCE.format("lookup", 2.0)),
        ({"memory": MEMORY, "tolerance": 2.0}, NO_TOLERANCE.format("lookup", 2.0)),
        ({"tree": "sampled"}, "`tree` sampled needs a `temperature` above 0."),
        ({"strategy": "beam", "shortlist": True}, "`shortlist` must be false for beam search, but is true instead."),
        (
            {"strategy": "beam", "drafter": "masked"},
            "`drafter` must be auto, autoregressive or none for beam search, but is 'masked' instead.",
        ),
        (
            {"strategy": "beam", "temperature": 1.0},
            "`temperature` must be 0 for beam search, but is 1.0 instead.",
        ),
        ({"tolerance": 0.5, "temperature": 1.0}, "`tolerance` must be 0 when sampling, but is 0.5 instead."),
        (
            {"tree": "best-first", "temperature": 1.0},
            "`tree` must be chain or sampled when sampling, but is 'best-first' instead.",
        ),
        *(
            (
                {"drafter": drafter, "temperature": 1.0},
                f"`drafter` must be masked, autoregressive or none when sampling, but is '{drafter}' instead.",
            )
            for drafter in ("self", "lookup", "masked+lookup")
        ),
        (
            {"memory": MEMORY, "temperature": 1.0},
            "`drafter` must be masked, autoregressive or none when sampling, but is 'auto+lookup' instead.",
        ),
    ],
)
def test_what_does_not_go_together(options: dict[str, Any], message: str) -> None:
    assert complaint(**options) == message


@pytest.mark.parametrize(
    "options",
    [
        {"drafter": "masked+lookup"},
        {"drafter": "lookup+autoregressive"},
        {"drafter": "self", "tolerance": 1.0, "beta": 1},
        {"drafter": "lookup", "tolerance": 1.0, "beta": 1},
        {"tree": "best-first", "drafter": "autoregressive", "tolerance": 1.0},
        {"tree": "sampled", "temperature": 0.5, "top_k": 3, "width": 9},
        {"tree": "sampled", "temperature": 0.5, "drafter": "autoregressive"},
        {"temperature": 0.5, "drafter": "none"},
        {"temperature": 0.5, "strategy": "greedy", "drafter": "self"},
        {"temperature": 0.5, "strategy": "greedy", "memory": MEMORY},
    ],
)
def test_what_does(options: dict[str, Any]) -> None:
    assert DecodingOptions(**options).samples == ("temperature" in options)


def test_drafters_by_name() -> None:
    assert DecodingOptions(drafter="lookup+self").drafters == ("lookup", "self")
    assert DecodingOptions().drafters == ("auto",)
    assert DecodingOptions(memory=MEMORY).drafters == ("auto", "lookup")
    assert DecodingOptions(memory=MEMORY, drafter="lookup+masked").drafters == ("lookup", "masked")


def test_what_is_lossless() -> None:
    for options in ({}, {"tolerance": 1.0, "beta": 1}, {"temperature": 1.0}, {"tolerance": 1.0, "strategy": "beam"}):
        assert DecodingOptions(**options).lossless  # type: ignore[arg-type]
    assert not DecodingOptions(tolerance=1e-9).lossless


GREEDY = {"strategy": "greedy"}
NO_EFFECT = [
    ("beam_size", {"beam_size": 5}, "`strategy` beam"),
    ("length_penalty", GREEDY, "`strategy` beam"),
    *((name, GREEDY, "`strategy` speculative") for name in ("tree", "beta", "tolerance", "width")),
    *((name, {**GREEDY, name: 3}, "`strategy` speculative") for name in ("nodes", "block_size")),
    ("drafter", {**GREEDY, "drafter": "masked"}, "`strategy` speculative or beam"),
    ("memory", {**GREEDY, "memory": MEMORY}, "`strategy` speculative"),
    ("tree", {"drafter": "none"}, "a drafter"),
    ("block_size", {"drafter": "none", "block_size": 4}, "a drafter"),
    ("nodes", {"nodes": 8}, "`tree` best-first"),
    ("width", {"temperature": 0.5}, "`tree` sampled"),
    ("top_k", {"top_k": 4}, "a `temperature` above 0"),
    ("seed", {}, "a `temperature` above 0"),
    ("beta", {}, "`tree` best-first or a `tolerance`"),
]


@pytest.mark.parametrize(("name", "options", "needed"), NO_EFFECT)
def test_what_has_no_effect_is_refused(name: str, options: dict[str, Any], needed: str) -> None:
    with pytest.raises(UsageError) as raised:
        check_effects(DecodingOptions(**options), {name, "strategy"})
    assert str(raised.value) == f"`{name}` has no effect without {needed}; leave it out."


@pytest.mark.parametrize(
    "options",
    [
        {"strategy": "beam", "beam_size": 3, "length_penalty": 0.5, "drafter": "none"},
        {"tree": "best-first", "nodes": 8, "beta": 2, "drafter": "autoregressive", "block_size": 3},
        {"tree": "sampled", "temperature": 0.5, "top_k": 3, "width": 9, "seed": 3, "protect": False},
        {"beta": 3, "tolerance": 0.0},
        {"strategy": "greedy", "drafter": "auto", "nodes": None, "block_size": None, "batch_size": 3, "protect": True},
        {"memory": MEMORY, "drafter": "lookup", "block_size": 3},
    ],
)
def test_what_has_an_effect_is_not(options: dict[str, Any]) -> None:
    check_effects(DecodingOptions(**options), options.keys() | {"quiet"})
