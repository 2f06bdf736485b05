"""Beam search: fairseq2's, whatever computes it and whatever it is batched with."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from peers.fairseq2_search import search

from specmt.decoding import session as session_module
from specmt.decoding.beam import advance, ranked
from specmt.decoding.drafters.base import NO_DRAFT, Arm, Plan
from specmt.decoding.policy import FixedPolicy, Policy
from specmt.decoding.session import decode
from specmt.engine.fused import Beams, Drafting, Ran
from specmt.errors import UsageError
from specmt.models.hub import Model, load_model
from specmt.options import DecodingOptions
from specmt.types import BOS, EOS, Found
from tests.decoding_helpers import (
    BACKENDS,
    Hypotheses,
    Sources,
    has_ended,
    load_on,
    sources_for,
    tokens_of,
    total_of,
)
from tests.networks import opened

Searched = Callable[[DecodingOptions], list[list[Found]]]
FIVE = DecodingOptions(strategy="beam", beam_size=5, n_best=5, scores=True)


@pytest.fixture(scope="module")
def model(tiny_model: Path, kernels: bool) -> Model:
    """The tiny model in float32, on either backend."""
    return load_model(tiny_model, device="cpu", dtype="float32", kernels=kernels)


KINDS = [*BACKENDS, "kernels-int8"]


@pytest.fixture(scope="module", params=KINDS)
def any_model(request: pytest.FixtureRequest, tiny_model: Path) -> Model:
    return load_on(request.param, tiny_model, request)


@pytest.fixture
def unfused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets Python search."""
    monkeypatch.setattr(session_module, "FusedBeam", type("Nobody", (), {}))


def lists_of(hypotheses: Hypotheses) -> list[list[Found]]:
    """Returns n-best lists."""
    return [[Found(each.tokens, each.score), *each.alternatives] for each in hypotheses]


@pytest.fixture(scope="module")
def searched(tiny_model: Path, sources: Sources) -> Searched:
    """Returns what fairseq2 finds of the first sources, which takes long, once for both backends."""
    model = load_model(tiny_model, device="cpu")
    return cache(lambda options: [search(model, [source], options)[0] for source in sources[:10]])


@pytest.mark.parametrize(("beam_size", "length_penalty"), [(1, 1.0), (2, 0.0), (5, 1.0), (5, -1.0), (12, 0.6)])
def test_translations_are_those_of_fairseq2(
    model: Model, sources: Sources, searched: Searched, beam_size: int, length_penalty: float
) -> None:
    options = replace(FIVE, beam_size=beam_size, n_best=beam_size, length_penalty=length_penalty, batch_size=7)
    found = lists_of(decode(model, sources[:10], options))
    for ours, theirs in zip(found, searched(options), strict=True):
        assert [each.tokens for each in ours] == [each.tokens for each in theirs]
        assert [each.score for each in ours] == pytest.approx([each.score for each in theirs], abs=1e-4)
    lengths = [{len(each.tokens) for each in ours} for ours in found]
    assert any(len(each) > 1 for each in lengths) == (beam_size > 1)


@pytest.mark.crossed("any_model", "batch_size")
@pytest.mark.parametrize("batch_size", [1, 2, 8, 40])
def test_a_translation_does_not_depend_on_the_batch(any_model: Model, sources: Sources, batch_size: int) -> None:
    sources = sources_for(any_model, sources)
    alone = replace(FIVE, drafter="none")  # the number of calls is up to the machine, else
    wanted = decode(any_model, sources, replace(alone, batch_size=3))
    mixed = sorted(range(len(sources)), key=lambda number: number < len(sources) // 2)
    got = decode(any_model, [sources[number] for number in mixed], replace(alone, batch_size=batch_size))
    assert got == [wanted[number] for number in mixed]
    assert all(math.isfinite(each.score) for each in got)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.usefixtures("needs_kernels")
def test_the_fused_search_is_the_search_in_python(
    tiny_model: Path, sources: Sources, dtype: str, request: pytest.FixtureRequest
) -> None:
    model = load_model(tiny_model, device="cpu", dtype=dtype)
    alone = replace(FIVE, drafter="none", batch_size=6)
    fused = {size: decode(model, sources, replace(alone, beam_size=size)) for size in (5, 9)}
    request.getfixturevalue("unfused")
    for size, wanted in fused.items():
        assert decode(model, sources, replace(alone, beam_size=size)) == wanted


class Turns:
    """A policy that looks ahead every other time, a few calls long."""

    def __init__(self, ahead: int) -> None:
        self.plans = cycle(Plan(arm, iterations=2) for arm in (Arm(0, 1, 1, ahead), NO_DRAFT))

    def choose(self, rows: int, promising: bool, waiting: int = 0) -> Plan:
        return next(self.plans)

    def observe(self, plan: Plan, ran: Ran, seconds: float) -> None:
        active = ran.accepted >= 0
        assert active[0].all() and (ran.drafted >= 0).tolist() == active.tolist()
        assert ran.accepted[active].max() <= (1 if plan.arm.drafts else 0)


AHEAD: list[Callable[[], Policy]] = [
    lambda: FixedPolicy(Arm(0, 1, 1, 5)),
    lambda: FixedPolicy(Arm(0, 1, 1, 60)),
    lambda: Turns(30),
]
WIDTHS = [(1, 4), (2, 1), (5, 6)]
"""Beam sizes and batch sizes."""


@pytest.mark.parametrize(
    ("dtype", "policy", "widths"),
    [
        (dtype, policy, WIDTHS if dtype == "bfloat16" else [WIDTHS[(row + column) % 3]])
        for row, dtype in enumerate(["float32", "bfloat16", "int8"])
        for column, policy in enumerate(AHEAD)
    ],
)
@pytest.mark.usefixtures("needs_kernels")
def test_what_is_verified_ahead_changes_the_number_of_calls_alone(
    tiny_model: Path,
    sources: Sources,
    dtype: str,
    policy: Callable[[], Policy],
    widths: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session_module, "make_beam_policy", lambda *_: policy())
    model = load_model(tiny_model, device="cpu", dtype=dtype)
    for beam_size, batch_size in widths:
        options = replace(FIVE, beam_size=beam_size, n_best=beam_size, batch_size=batch_size)
        plain = decode(model, sources, replace(options, drafter="none"))
        ahead = decode(model, sources, options)
        assert lists_of(ahead) == lists_of(plain)
        assert total_of(plain).drafted == 0 < total_of(ahead).drafted
        for one, other in zip(ahead, plain, strict=True):
            assert one.stats.verifier_calls + one.stats.accepted == other.stats.verifier_calls
    assert total_of(ahead).accepted > 0


@pytest.mark.usefixtures("needs_kernels")
def test_a_search_goes_on_where_caches_have_to_grow(model: Model, sources: Sources) -> None:
    """128 hypotheses do not fit into the positions that a cache begins with."""
    wide = replace(FIVE, beam_size=128, n_best=2, batch_size=2)
    some = sources[4:7] if model.backend.name == "kernels" else sources[5:6]
    got = decode(model, some, wide)
    for source, hypothesis in zip(some, got, strict=True):
        assert hypothesis.tokens == search(model, [source], wide)[0][0].tokens


def test_a_beam_of_one_is_greedy(model: Model, sources: Sources) -> None:
    greedy = decode(model, sources, DecodingOptions(strategy="greedy"))
    beams = decode(model, sources, DecodingOptions(strategy="beam", beam_size=1))
    for one, other in zip(beams, greedy, strict=True):
        # At the limit greedy decoding breaks off, and a hypothesis ends.
        assert one.tokens == (other.tokens if has_ended(other) else other.tokens[:-1])


def test_wider_beams_find_better_scores(model: Model, sources: Sources) -> None:
    options = DecodingOptions(strategy="beam", beam_size=1, length_penalty=0.0, batch_size=4, scores=True)
    narrow, wide = (decode(model, sources[:20], replace(options, beam_size=size)) for size in (1, 5))
    assert sum(each.score for each in wide) > sum(each.score for each in narrow)
    assert total_of(wide).sentences == 20
    assert not any({BOS, EOS} & set(tokens) for tokens in tokens_of(wide))


def test_as_many_translations_as_asked_for(model: Model, sources: Sources) -> None:
    every = lists_of(decode(model, sources[:6], FIVE))
    for count in (1, 3):
        assert lists_of(decode(model, sources[:6], replace(FIVE, n_best=count))) == [each[:count] for each in every]
    with pytest.raises(UsageError, match="`n_best` must be at most 5, but is 6"):
        replace(FIVE, n_best=6)


def one_sentence(scores: list[float], width: int, *, limit: int = 9, length: int = 2) -> Beams:
    beams = Beams.empty(1, width, 12)
    beams.scores[0, : len(scores)] = scores
    beams.counts[0], beams.lengths[0], beams.limits[0] = len(scores), length, limit
    beams.tokens[0, :, 0], beams.tokens[0, :, 1] = BOS, range(10, 10 + width)
    return beams


def test_ends_count_among_the_first_and_hypotheses_among_twice_as_many() -> None:
    beams = one_sentence([0.0, -1.0], 2)
    # By the sum: 20 (−0.5), EOS (−0.75), 21 after the second (−1.5), EOS after the second (−2).
    parents = advance(beams, 0, [[20, EOS, 9], [21, EOS, 8]], [[-0.5, -0.75, -7.0], [-0.5, -1.0, -7.0]])
    assert parents == [0, 1]
    assert beams.tokens[0, :, :3].tolist() == [[BOS, 10, 20], [BOS, 11, 21]]
    assert beams.scores[0].tolist() == [-0.5, -1.5]
    assert (beams.found[0], beams.lengths[0], beams.found_lengths[0, 0]) == (1, 3, 3)
    assert beams.found_tokens[0, 0, :3].tolist() == [BOS, 10, EOS]


def test_among_equals_the_earlier_hypothesis_and_the_lower_token_go_on() -> None:
    beams = one_sentence([-1.0, -1.0, -1.0], 3)
    parents = advance(beams, 0, [[30, 20], [10, 40], [5, 6]], [[-1.0] * 2] * 3)
    assert parents == [0, 0, 1]
    assert beams.tokens[0, :, 2].tolist() == [20, 30, 10]


@pytest.mark.parametrize("limit", [3, 4])
def test_a_sentence_ends_with_its_last_translation_or_at_its_limit(limit: int) -> None:
    beams = one_sentence([-1.0, -2.0], 2, limit=limit)
    beams.found[0] = limit - 3
    assert advance(beams, 0, [[EOS], [EOS]], [[-1.0], [-1.0]]) == []
    assert (beams.counts[0], beams.found[0]) == (0, 2)


def test_scores_are_divided_by_a_power_of_the_length() -> None:
    beams = one_sentence([], 3)
    beams.found[0], beams.found_lengths[0], beams.found_scores[0] = 3, [3, 5, 3], [-3.0, -4.0, -3.0]
    assert [number for number, _ in ranked(beams, 0, 0.0)] == [0, 2, 1]
    assert ranked(beams, 0, 1.0) == [(1, -1.0), (0, -1.5), (2, -1.5)]


@pytest.mark.usefixtures("needs_kernels")
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("lengths", 9, "`lengths` must be under `limits`"),
        ("counts", 6, r"`counts` must be in 0 … 5"),
        ("tokens", 400, r"`tokens` must be in 0 … 399"),
        ("slots", -1, r"`slots` must be in"),
    ],
)
def test_what_kernels_are_handed_is_checked(tiny_model: Path, name: str, value: int, message: str) -> None:
    verifier: Any = load_model(tiny_model, device="cpu", dtype="float32").verifier
    state = opened(verifier, verifier.encode([[7, 8]]))
    beams = one_sentence([0.0], 5, length=3)
    getattr(beams, name)[...] = value
    with pytest.raises(ValueError, match=message):
        verifier.search(state, beams, Drafting(0), iterations=1, enough=1)
