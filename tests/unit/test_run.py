"""What the kernels do when they run the loop by themselves is what the loop does."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from specmt.decoding import batch, trials
from specmt.decoding.batch import decode
from specmt.decoding.plan import Costs
from specmt.engine.backend import Drafting, Ran, Sentences
from specmt.engine.native import NativeVerifier
from specmt.models.hub import Model, load_model
from specmt.options import Calibration, DecodingOptions
from specmt.types import BOS, Hypothesis

pytestmark = pytest.mark.usefixtures("needs_kernels")

WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"strategy": "greedy"},
    "masked 1": {"block_size": 1},
    "masked 5": {"block_size": 5},
    "masked 25": {"block_size": 25},
    "autoregressive": {"drafter": "autoregressive", "block_size": 4},
    "self": {"drafter": "self", "block_size": 6},
}

# Every further row costs a little, every further draft a little less: not all drafts are worth it, none is a loss.
COSTS = Costs(verify=((1, 1.0), (9, 1.4)), draft=((1, 0.01), (8, 0.01)))


class NoRunner:
    """Stands for an engine that cannot run by itself."""


@pytest.fixture(params=["float32", "bfloat16", "int8"])
def native(tiny_model: Path, request: pytest.FixtureRequest) -> Model:
    model = load_model(tiny_model, dtype=request.param)
    assert isinstance(model.verifier, NativeVerifier)
    return model


@pytest.fixture
def step_by_step(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    with monkeypatch.context() as patch:
        patch.setattr(batch, "Runner", NoRunner)
        yield patch


def counts(hypotheses: list[Hypothesis]) -> list[tuple[list[int], int, int, int, int]]:
    return [(h.tokens, h.stats.tokens, h.stats.verifier_calls, h.stats.drafted, h.stats.accepted) for h in hypotheses]


@pytest.mark.parametrize("batch_size", [1, 3, 8, 33])
@pytest.mark.parametrize("way", WAYS)
def test_it_says_and_counts_what_the_loop_does(
    native: Model, sources: list[list[int]], way: str, batch_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The last source is long: caches have to grow on the way.
    sources = [*sources, (sources[0] * 40)[:45]]
    options = DecodingOptions(batch_size=batch_size, **WAYS[way])
    calls: list[int] = []
    run = native.verifier.run  # type: ignore[attr-defined]

    def counted(*arguments: Any, **named: Any) -> Ran:
        ran: Ran = run(*arguments, **named)
        calls.append(len(ran.windows))
        return ran

    monkeypatch.setattr(native.verifier, "run", counted)
    got = decode(native, sources, options)
    assert sum(calls) > len(calls) > 0
    calls.clear()
    monkeypatch.setattr(batch, "Runner", NoRunner)
    wanted = decode(native, sources, options)
    assert not calls
    if way in ("autoregressive", "self"):
        # How many tokens are drafted past the end of a sentence depends on when others end.
        for h in (*got, *wanted):
            h.stats.drafted = 0
    assert counts(got) == counts(wanted)
    assert max(h.stats.tokens for h in got) > 64


@pytest.mark.parametrize("batch_size", [1, 8])
def test_it_keeps_the_drafts_that_are_worth_it(
    tiny_model: Path,
    sources: list[list[int]],
    batch_size: int,
    monkeypatch: pytest.MonkeyPatch,
    step_by_step: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch, "costs_of", lambda *_: COSTS)
    monkeypatch.setattr(trials, "TRIAL", math.inf)  # time decides about nothing
    calibration = Calibration(acceptance=(0.8, 0.7, 0.6, 0.5, 0.4, 0.35, 0.3, 0.25), scale=0.9, shift=-0.4)
    drafted = []
    for _ in range(2):
        model = load_model(tiny_model, dtype="float32")
        model.folder = replace(model.folder, calibration=calibration)
        hypotheses = decode(model, sources, DecodingOptions(batch_size=batch_size))
        drafted.append(counts(hypotheses))
        step_by_step.undo()
    if batch_size == 1:
        assert drafted[0] == drafted[1]
    windows = {row[3] / row[2] for row in drafted[1]}
    assert len(windows) > 3
    assert [row[0] for row in drafted[0]] == [row[0] for row in drafted[1]]


def sentences_of(rows: int, room: int) -> Sentences:
    tokens = torch.zeros(rows, room, dtype=torch.int64)
    tokens[:, 0] = BOS
    lengths, limits, *others = (np.zeros(rows, dtype=np.int64) for _ in Sentences.COUNTS)
    lengths.fill(1)
    limits.fill(room)
    return Sentences(tokens, lengths, limits, *others)


def test_it_comes_back_when_enough_sentences_have_ended(native: Model, sources: list[list[int]]) -> None:
    verifier = native.verifier
    assert isinstance(verifier, NativeVerifier)
    some = sources[:6]
    ended = []
    for enough in (1, 3, 6):
        state = verifier.new_state(6)
        verifier.start(state, torch.arange(6), verifier.encode(some))
        sentences = sentences_of(6, 50)
        sentences.limits[:] = [5, 9, 9, 20, 30, 40]
        verifier.run(state, sentences, Drafting(0), iterations=50, enough=enough, end=-1)
        ended.append(int((sentences.lengths == sentences.limits).sum()))
        # Those that have not ended went as far as the one that ended last.
        assert (sentences.lengths == np.minimum(sentences.limits, sentences.lengths.max())).all()
        assert (sentences.calls == sentences.lengths - 1).all()
    assert ended == [1, 3, 6]


def test_it_stops_after_so_many_iterations_and_goes_on_from_there(native: Model, sources: list[list[int]]) -> None:
    verifier = native.verifier
    assert isinstance(verifier, NativeVerifier)
    tokens = []
    for iterations in (30, 7):
        state = verifier.new_state(2)
        verifier.start(state, torch.arange(2), verifier.encode(sources[:2]))
        sentences = sentences_of(2, 31)
        lengths = [0]
        while (sentences.lengths < 31).all():
            ran = verifier.run(state, sentences, Drafting(0), iterations=iterations, enough=2, end=-1)
            assert (ran.gained == 1.0).all()
            assert not ran.windows.any()
            lengths.append(len(ran.windows))
        assert all(length <= iterations for length in lengths)
        assert sum(lengths) == 30
        assert iterations == 30 or all(earlier <= 7 for earlier, _ in pairwise(lengths))
        tokens.append(sentences.tokens)
    assert torch.equal(*tokens)
