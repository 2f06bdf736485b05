"""Decoding options: every range, and what does not go together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specmt.errors import UsageError
from specmt.options import AHEAD, DecodingOptions

MEMORY = Path("memory.tsv")


def complaint(**options: Any) -> str:
    with pytest.raises(UsageError) as raised:
        DecodingOptions(**options)
    return str(raised.value)


@pytest.mark.parametrize(
    "name", ["beta", "beam_size", "batch_size", "batch_tokens", "width", "block_size", "nodes", "top_k"]
)
def test_counts_start_at_one(name: str) -> None:
    assert getattr(DecodingOptions(**{name: 1}), name) == 1
    for value in (0, -3):
        assert complaint(**{name: value}) == f"`{name}` must be at least 1, but is {value} instead."


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
        (
            {"drafter": "mask"},
            "`drafter` must be one of masked, autoregressive, self, lookup, none, but is 'mask' instead.",
        ),
        (
            {"drafter": "masked+oracle"},
            "`drafter` must be one of masked, autoregressive, self, lookup, none, but is 'oracle' instead.",
        ),
        (
            {"drafter": "masked+"},
            "`drafter` must be one of masked, autoregressive, self, lookup, none, but is '' instead.",
        ),
        ({"drafter": "masked+masked"}, "`drafter` must name different drafters, but is 'masked+masked' instead."),
        ({"drafter": "masked+none"}, "`drafter` must name different drafters, but is 'masked+none' instead."),
        ({"drafter": "none+none"}, "`drafter` must name different drafters, but is 'none+none' instead."),
        ({"drafter": "self", "tolerance": 1.0}, "`tolerance` must be 0 with the drafter self, but is 1.0 instead."),
        (
            {"drafter": "masked+self", "tolerance": 0.5},
            "`tolerance` must be 0 with the drafter self, but is 0.5 instead.",
        ),
        ({"drafter": "lookup", "tolerance": 2.0}, "`tolerance` must be 0 with the drafter lookup, but is 2.0 instead."),
        ({"memory": MEMORY, "tolerance": 2.0}, "`tolerance` must be 0 with the drafter lookup, but is 2.0 instead."),
        ({"tree": "sampled"}, "`tree` sampled needs a `temperature` above 0."),
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
            for drafter in ("self", "lookup", "masked+lookup", "masked+autoregressive")
        ),
        (
            {"memory": MEMORY, "temperature": 1.0},
            "`drafter` must be masked, autoregressive or none when sampling, but is 'masked+lookup' instead.",
        ),
    ],
)
def test_what_does_not_go_together(options: dict[str, Any], message: str) -> None:
    assert complaint(**options) == message


@pytest.mark.parametrize(
    "options",
    [
        {"drafter": "masked+lookup"},
        {"drafter": "lookup+self+autoregressive"},
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
    assert DecodingOptions(memory=MEMORY).drafters == ("masked", "lookup")
    assert DecodingOptions(memory=MEMORY, drafter="lookup+masked").drafters == ("lookup", "masked")
    assert DecodingOptions(drafter="lookup").looks_up
    assert not DecodingOptions(drafter="lookup", strategy="greedy").looks_up
    assert DecodingOptions().ahead("self") == AHEAD["self"]
    assert DecodingOptions(block_size=2).ahead("self") == 2


def test_who_drafts_for_a_model_with_a_masked_drafter_and_without() -> None:
    def drafter(*, has_drafter: bool = False, **options: Any) -> str | None:
        return DecodingOptions(**options).for_model(has_drafter=has_drafter).drafter

    assert DecodingOptions().drafter is None
    assert drafter(has_drafter=True) == drafter(has_drafter=True, tolerance=1.0) == "masked"
    assert drafter() == drafter(memory=MEMORY) == drafter(tree="best-first") == "lookup"
    assert DecodingOptions(memory=MEMORY).for_model(has_drafter=False).drafters == ("lookup",)
    # Without drafts there are no samples but the model's own, and nothing that τ could let pass.
    assert drafter(temperature=0.5) == drafter(temperature=0.5, tree="sampled") == "none"
    assert drafter(tolerance=1.0) == "masked"
    for name in ("masked", "autoregressive", "lookup", "none"):
        assert drafter(drafter=name) == name


def test_what_is_lossless() -> None:
    for options in ({}, {"tolerance": 1.0, "beta": 1}, {"temperature": 1.0}, {"tolerance": 1.0, "strategy": "beam"}):
        assert DecodingOptions(**options).lossless  # type: ignore[arg-type]
    assert not DecodingOptions(tolerance=1e-9).lossless
