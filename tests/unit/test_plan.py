"""How far to look ahead, and how a drafter's confidence is calibrated."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from specmt.decoding import batch, costs, loop, trials
from specmt.decoding.batch import decode, make_masked_plan
from specmt.decoding.drafters import NoDrafter
from specmt.decoding.memory import TranslationMemory
from specmt.decoding.plan import Adaptive, Costs, Fixed, Plan, best_block, best_window, log_odds, survival
from specmt.decoding.shape import Chain
from specmt.decoding.tree import Tree
from specmt.engine import keep
from specmt.models.folder import ModelFolder, write_calibration
from specmt.models.hub import load_model
from specmt.options import Calibration, DecodingOptions, TreeName
from specmt.training.calibrate import calibrate, fit_logistic

CALIBRATION = Calibration(acceptance=(0.8, 0.6, 0.3, 0.1), scale=1.0, shift=0.0)
FREE_ROWS = Costs(verify=((1, 1.0), (5, 1.0)), draft=((1, 0.1), (4, 0.1)))
DEAR_ROWS = Costs(verify=((1, 1.0), (5, 5.0)), draft=((1, 0.1), (4, 0.1)))


def chain(log_probs: Tensor) -> Tree:
    """Returns chains of no matter what tokens."""
    return Tree(torch.zeros(log_probs.shape, dtype=torch.int64), log_probs=log_probs)


def test_costs_between_two_measurements() -> None:
    measured = Costs(verify=((1, 1.0), (2, 1.5), (4, 3.5)), draft=((1, 1.0), (3, 3.0)))
    assert measured.verifying(5) == [1.0, 1.5, 2.5, 3.5, 3.5]
    assert measured.drafting(3) == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("verifying", "drafting", "wanted"),
    [
        ([1, 1, 1, 1, 1], [0, 0, 0, 0], 4),  # rows cost nothing: as many as there are
        ([1, 2, 3, 4, 5], [0, 0, 0, 0], 0),  # a row costs as much as a call: nothing ahead
        ([1, 1.1, 1.2, 1.3, 1.4], [0.5, 0.5, 0.5, 0.5], 3),  # 1.8/1.6, 2.4/1.7, 2.7/1.8, 2.8/1.9
        ([1, 1, 1, 1, 1], [3, 3, 3, 3], 0),  # drafting is too dear
    ],
)
def test_the_best_block(verifying: list[float], drafting: list[float], wanted: int) -> None:
    assert best_block(CALIBRATION.acceptance, np.array(verifying), np.array(drafting)) == wanted


def test_the_best_window_grows_with_confidence() -> None:
    seconds = np.array([1.0, 1.2, 1.4, 1.6])
    assert best_window(np.array([0.01, 0.0, 0.0]), 1, seconds) == 0
    assert best_window(np.array([0.9, 0.1, 0.05]), 1, seconds) == 1
    assert best_window(np.array([0.95, 0.9, 0.85]), 1, seconds) == 3
    # The same for 8 sentences side by side, of which half are sure and half are not.
    assert best_window(np.array([4.0, 4.0, 4.0]), 8, seconds) == best_window(np.array([0.5, 0.5, 0.5]), 1, seconds)


def test_survival_is_the_product_of_calibrated_chances() -> None:
    log_probs = np.log(np.array([[0.5, 0.9, 0.5]]))
    assert survival(log_probs, CALIBRATION) == pytest.approx(np.array([[0.5, 0.45, 0.225]]))
    doubtful = survival(log_probs, replace(CALIBRATION, shift=-1.0))
    assert doubtful[0, 0] == pytest.approx(1 / (1 + math.e))
    certain = survival(np.zeros((1, 3)), CALIBRATION)
    assert np.isfinite(certain).all()
    assert (certain > 0.99999).all()


def test_the_adaptive_plan_follows_the_costs() -> None:
    asked: list[int] = []

    def measure(rows: int) -> Costs:
        asked.append(rows)
        return FREE_ROWS if rows <= 4 else DEAR_ROWS

    plan = Adaptive(CALIBRATION, measure)
    assert [plan.slots(rows) for rows in (1, 2, 3, 4, 5, 8)] == [4, 4, 4, 4, 0, 0]
    assert asked == [1, 2, 4, 8]
    assert plan.keep(chain(torch.tensor([[-0.1, -0.1, -0.1, -0.1]]))) == 4
    assert len(asked) == 4
    steep = Adaptive(CALIBRATION, lambda rows: Costs(verify=((1, 1.0), (5, 2.0)), draft=FREE_ROWS.draft))
    assert steep.slots(1) == 2
    assert steep.keep(chain(torch.tensor([[-0.01, -0.01]]))) == 2
    assert steep.keep(chain(torch.tensor([[-0.01, -4.0]]))) == 1
    assert steep.keep(chain(torch.tensor([[-6.0, -0.01]]))) == 0


def test_what_iterations_took_decides_whether_drafting_goes_on() -> None:
    """Costs that were measured promise 1.4 times the yield; iterations with drafts then take twice as long."""
    plan = Adaptive(CALIBRATION, lambda _: Costs(verify=((1, 1.0), (5, 1.5)), draft=((1, 0.3), (4, 0.3))))
    drafted = {1: 0, 8: 0}
    for _ in range(300):
        for rows, slow in ((1, 2.0), (8, 1.0)):
            plan.begin()
            block_size = plan.slots(rows)
            drafted[rows] += block_size > 0
            assert block_size in (0, 3)
            plan.learn(rows, block_size, 20.0, 20.0 / 1.4 * slow if block_size else 20.0)
    assert drafted[1] < 30
    assert drafted[8] > 280
    assert plan.slots(7) == 3  # what was learnt at 8


def test_what_is_hopeless_is_never_tried() -> None:
    hopeless = Costs(verify=((1, 1.0), (5, 61.0)), draft=FREE_ROWS.draft)
    plan = Adaptive(CALIBRATION, lambda rows: hopeless)
    for _ in range(10_000):
        plan.begin()
        assert plan.slots(1) == 0
        plan.learn(1, 0, 20.0, 20.0)


def test_the_logistic_fit_finds_scale_and_shift() -> None:
    generator = np.random.default_rng(0)
    inputs = generator.normal(0, 3, 200_000)
    outcomes = (generator.random(200_000) < 1 / (1 + np.exp(-0.7 * inputs - 0.4))).astype(float)
    assert fit_logistic(inputs, outcomes) == pytest.approx((0.7, 0.4), abs=0.02)


def test_the_logistic_fit_of_what_a_line_separates_is_finite() -> None:
    scale, shift = fit_logistic(np.array([-2.0, -1.0, 1.0, 2.0]), np.array([0.0, 0.0, 1.0, 1.0]))
    assert 1 < scale < 10
    assert abs(shift) < 1


@pytest.fixture
def calibrated(tiny_model: Path, tmp_path: Path) -> Path:
    """A copy of the tiny model with a calibration."""
    for path in tiny_model.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    write_calibration(tmp_path, CALIBRATION)
    return tmp_path


def test_a_calibration_is_kept_with_the_model(calibrated: Path, tiny_model: Path) -> None:
    assert ModelFolder.read(calibrated).calibration == CALIBRATION
    assert ModelFolder.read(tiny_model).calibration is None


def test_calibration_counts_what_is_accepted(tiny_model: Path, sources: list[list[int]]) -> None:
    model = load_model(tiny_model)
    assert model.drafter is not None
    found = calibrate(model.verifier, model.drafter, sources, 4)
    assert len(found.acceptance) == 4
    assert list(found.acceptance) == sorted(found.acceptance, reverse=True)
    assert 0 < found.acceptance[0] < 1
    options = DecodingOptions(block_size=4, batch_size=1)
    stats = [hypothesis.stats for hypothesis in decode(model, sources, options)]
    calls = sum(each.verifier_calls for each in stats)
    # An end of sentence that is drafted and accepted leaves no room for the verifier's own token.
    assert sum(each.tokens for each in stats) <= calls * (1 + sum(found.acceptance)) + calls * 0.02
    assert sum(each.tokens for each in stats) >= calls * sum(found.acceptance)


@pytest.mark.parametrize("measured", [FREE_ROWS, DEAR_ROWS], ids=["free", "dear"])
@pytest.mark.parametrize("batch_size", [1, 3, 33])
def test_what_calls_cost_changes_no_output(
    calibrated: Path,
    sources: list[list[int]],
    monkeypatch: pytest.MonkeyPatch,
    measured: Costs,
    batch_size: int,
) -> None:
    model = load_model(calibrated)
    monkeypatch.setattr(trials, "TRIAL", math.inf)  # time decides about nothing
    monkeypatch.setattr(batch, "costs_of", lambda model, rows, *_: measured)
    greedy = decode(model, sources, DecodingOptions(strategy="greedy"))
    got = decode(model, sources, DecodingOptions(batch_size=batch_size))
    assert [hypothesis.tokens for hypothesis in got] == [hypothesis.tokens for hypothesis in greedy]
    drafted = sum(hypothesis.stats.drafted for hypothesis in got)
    assert (drafted > 0) == (measured is FREE_ROWS)


def test_costs_that_change_from_call_to_call_change_no_output(
    calibrated: Path, sources: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows fall behind where nothing is drafted for a while, and catch up."""
    model = load_model(calibrated)
    monkeypatch.setattr(batch, "costs_of", lambda model, rows, *_: DEAR_ROWS if rows % 8 == 0 else FREE_ROWS)
    greedy = decode(model, sources, DecodingOptions(strategy="greedy"))
    for batch_size in (7, 8, 20):
        got = decode(model, sources, DecodingOptions(batch_size=batch_size))
        assert [hypothesis.tokens for hypothesis in got] == [hypothesis.tokens for hypothesis in greedy]


def test_a_quick_machine_measures_longer_than_a_sentence_lasts(tiny_model: Path) -> None:
    """The loop that is measured never ends."""
    verifier = load_model(tiny_model, device="cpu", kernels=False).verifier
    call = costs.iterations(verifier, NoDrafter(), 2, costs.TOGETHER)
    for _ in range(costs.REPEATS + 1):
        call()


class Fickle(Plan):
    """Drafts or does not, at random."""

    def __init__(self, block_size: int, seed: int) -> None:
        self.block_size = block_size
        self.random = random.Random(seed)
        self.heard: Counter[bool] = Counter()
        self.tokens = 0.0

    def slots(self, rows: int) -> int:
        return self.block_size if self.random.random() < 0.5 else 0  # a loop that drafts may ask twice

    def learn(self, rows: int, block_size: int, tokens: float, seconds: float) -> None:
        assert tokens > 0.0
        assert seconds > 0.0
        self.heard[block_size > 0] += 1
        self.tokens += tokens


@pytest.mark.parametrize("batch_size", [1, 7])
@pytest.mark.parametrize("tree", ["chain", "best-first"])
@pytest.mark.parametrize("drafter", ["masked", "autoregressive", "lookup"])
def test_a_plan_that_changes_its_mind_at_any_time_changes_no_output(
    tiny_model: Path,
    sources: list[list[int]],
    monkeypatch: pytest.MonkeyPatch,
    kernels: bool,
    drafter: str,
    tree: TreeName,
    batch_size: int,
) -> None:
    sources = sources[4:24]
    model = load_model(tiny_model, device="cpu", dtype="float32", kernels=kernels)
    greedy = decode(model, sources, DecodingOptions(strategy="greedy"))
    memory = TranslationMemory()
    for source, hypothesis in zip(sources[::2], greedy[::2], strict=True):
        memory.add(source, hypothesis.tokens)
    plan = Fickle(4, batch_size)
    monkeypatch.setattr(loop, "ITERATIONS", 3)
    monkeypatch.setattr(batch, "make_plan", lambda *_, **__: plan)
    monkeypatch.setattr(batch, "make_masked_plan", lambda *_, **__: plan)
    got = decode(model, sources, DecodingOptions(drafter=drafter, tree=tree, batch_size=batch_size), memory=memory)
    assert [hypothesis.tokens for hypothesis in got] == [hypothesis.tokens for hypothesis in greedy]
    assert min(plan.heard.values()) > 1 and len(plan.heard) == 2
    total = sum(hypothesis.stats.tokens for hypothesis in got)
    assert sum(hypothesis.stats.accepted for hypothesis in got) > 0.05 * total
    if batch_size == 1:
        assert plan.tokens == pytest.approx(total)  # it hears of all


def test_sentences_wait_for_the_drafter_until_it_drafts(
    calibrated: Path, sources: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_model(calibrated)
    assert model.drafter is not None
    started: list[int] = []
    start = model.drafter.start
    monkeypatch.setattr(
        model.drafter, "start", lambda state, rows, memory: (started.append(len(rows)), start(state, rows, memory))
    )
    monkeypatch.setattr(trials, "TRIAL", math.inf)
    monkeypatch.setattr(batch, "costs_of", lambda model, rows, *_: DEAR_ROWS)
    decode(model, sources, DecodingOptions(batch_size=8))
    assert not started
    model.plans.clear()
    monkeypatch.setattr(batch, "costs_of", lambda model, rows, *_: DEAR_ROWS if rows > 2 else FREE_ROWS)
    decode(model, sources, DecodingOptions(batch_size=8))
    assert sum(started) == 2  # the last two


def test_a_lossy_output_does_not_depend_on_the_machine(calibrated: Path) -> None:
    model = load_model(calibrated)
    plan = make_masked_plan(model, DecodingOptions(tolerance=1.0), Chain())
    assert isinstance(plan, Fixed)
    assert plan.block_size == 4
    assert isinstance(make_masked_plan(model, DecodingOptions(), Chain()), Adaptive)
    assert isinstance(make_masked_plan(model, DecodingOptions(block_size=3), Chain()), Fixed)


def test_costs_are_measured_once(
    calibrated: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr(costs, "SECONDS", 0.001)
    model = load_model(calibrated)
    first = costs.costs_of(model, 2, 4, Chain())
    assert [size for size, _ in first.verify] == [1, 2, 3, 5]
    assert [size for size, _ in first.draft] == [1, 2, 4]
    assert all(seconds > 0 for _, seconds in first.verify)
    assert all(seconds >= 0 for _, seconds in first.draft)
    (path,) = (cache / "specmt").iterdir()
    monkeypatch.setattr(costs, "measure", lambda *_: pytest.fail("measured again"))
    assert costs.costs_of(load_model(calibrated), 2, 4, Chain()) == first
    path.write_text("{}")
    monkeypatch.setattr(costs, "measure", lambda *_: FREE_ROWS)
    assert costs.costs_of(model, 2, 4, Chain()) == FREE_ROWS
    assert json.loads(path.read_text())["value"][0] == [[1, 1.0], [5, 1.0]]


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert keep.kept("kind", "this", lambda: [1, 2]) == [1, 2]


def test_log_odds_are_finite() -> None:
    assert log_odds(np.log(np.array([0.5, 0.75]))) == pytest.approx(np.array([0.0, math.log(3)]))
    assert np.isfinite(log_odds(np.array([0.0, -50.0]))).all()
