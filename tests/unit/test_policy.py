"""Who drafts and how far ahead: pure functions, and the bandit on machines that are made up, without a clock."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean

import numpy as np
import pytest
from typing_extensions import override

from specmt.decoding import session
from specmt.decoding.choice import DRAFTS, FURTHEST, LOOKED_UP, Choice, make_policy
from specmt.decoding.confidence import best_confidence, confident, log_odds, logistic, survival
from specmt.decoding.policy import (
    ACCEPTANCE,
    NO_DRAFT,
    Arm,
    BanditPolicy,
    Costs,
    FixedPolicy,
    Policy,
    expected_tokens,
)
from specmt.decoding.session import decode
from specmt.decoding.translation_memory import TranslationMemory
from specmt.decoding.tree import chains
from specmt.engine.fused import Confidence
from specmt.files import cached
from specmt.models.folder import ModelFolder
from specmt.models.hub import load_model
from specmt.models.writing import write_calibration
from specmt.options import Calibration, DecodingOptions, TreeName
from specmt.training.calibrate import calibrate, fit_logistic
from specmt.types import EOS
from tests.decoding_helpers import GREEDY, Sources, assert_same, total_of

CALIBRATION = Calibration(acceptance=(0.8, 0.6, 0.3, 0.1), scale=1.0, shift=0.0)


# Pure functions


def test_log_odds_are_finite() -> None:
    assert log_odds(np.log(np.array([0.5, 0.75]))) == pytest.approx(np.array([0.0, math.log(3)]))
    assert np.isfinite(log_odds(np.array([0.0, -50.0]))).all()
    assert logistic(np.array([-1e9, 0.0, 1e9])).tolist() == [0.0, 0.5, 1.0]


def test_survival_is_the_product_of_calibrated_chances() -> None:
    log_probs = np.log(np.array([[0.5, 0.9, 0.5]]))
    assert survival(log_probs, 1.0, 0.0) == pytest.approx(np.array([[0.5, 0.45, 0.225]]))
    assert survival(log_probs, 1.0, -1.0)[0, 0] == pytest.approx(1 / (1 + math.e))
    certain = survival(np.zeros((1, 3)), 1.0, 0.0)
    assert np.isfinite(certain).all()
    assert (certain > 0.99999).all()


@pytest.mark.parametrize(
    ("log_probs", "kept"), [([-0.01, -0.01], 2), ([-0.01, -4.0], 1), ([-6.0, -0.01], 0), ([-0.5, -0.5], 1), ([], 0)]
)
def test_a_chain_is_cut_where_it_is_no_longer_worth_verifying(log_probs: list[float], kept: int) -> None:
    tokens = np.arange(len(log_probs))[None]
    chain = chains(tokens, np.array([log_probs], dtype=np.float32))
    got = confident(chain, Confidence(scale=1.0, shift=0.0, floor=0.5))
    assert got.tokens.tolist() == [list(range(kept))]
    assert confident(chain, None) is chain
    unknown = chains(tokens)
    assert confident(unknown, Confidence(scale=1.0, shift=0.0, floor=0.5)) is unknown  # nothing is known of it


def test_chains_are_cut_each_in_its_own_place() -> None:
    log_probs = np.array([[-0.1, -0.1, -9.0], [-9.0, -0.1, -0.1], [-0.1, -9.0, -0.1]], dtype=np.float32)
    got = confident(chains(np.arange(9).reshape(3, 3), log_probs), Confidence(scale=1.0, shift=0.0, floor=0.5))
    assert got.tokens.tolist() == [[0, 1], [3, 4], [6, 7]]
    assert got.counts.tolist() == [2, 0, 1]


def test_nothing_is_drafted_behind_doubt_or_the_end() -> None:
    log_probs = np.log([[0.9, 0.5, 0.9, 0.9], [0.9, 0.9, 0.9, 0.9], [0.4, 0.9, 0.9, 0.9]]).astype(np.float32)
    tokens = np.array([[5, 6, 7, 8], [5, EOS, 7, 8], [5, 6, 7, 8]])
    got = confident(chains(tokens, log_probs), Confidence(scale=1.0, shift=0.0, floor=0.3, margin=0.5))
    assert got.counts.tolist() == [2, 2, 1]  # the first of doubt is verified still, and so is the end
    assert got.tokens.tolist() == [[5, 6], [5, EOS], [5, 6]]


@pytest.mark.parametrize("calibration", [None, CALIBRATION, replace(CALIBRATION, scale=0.7, shift=-0.4)])
def test_a_drafter_that_was_not_calibrated_is_trusted_as_it_says(calibration: Calibration | None) -> None:
    trusted = calibration or CALIBRATION
    wanted = Confidence(scale=trusted.scale, shift=trusted.shift, floor=0.25)
    assert best_confidence(calibration, 0.25) == wanted


@pytest.mark.parametrize(
    ("ahead", "acceptance", "wanted"),
    [
        (0, (), 1.0),
        (2, (0.8, 0.6, 0.3), 2.4),
        (4, (0.8, 0.6, 0.3), 2.7 + 0.3 * ACCEPTANCE),
        (2, (), 1 + ACCEPTANCE + ACCEPTANCE**2),
    ],
)
def test_expected_tokens(ahead: int, acceptance: Sequence[float], wanted: float) -> None:
    assert expected_tokens(ahead, acceptance) == pytest.approx(wanted)


@pytest.mark.parametrize("row", [0.0, 0.04, 0.2, 1.0])
def test_the_simple_model_of_costs(row: float) -> None:
    costs = Costs(row=row)
    for rows in (1, 2, 8, 33):
        assert costs.rate(1.0, rows, 0, 0.0) == 1.0  # no draft is the measure
        assert costs.rate(2.0, rows, 0, 0.0) == 2.0
        # Going further ahead for nothing, or drafting for longer, never pays.
        assert costs.rate(2.0, rows, 8, 0.0) <= costs.rate(2.0, rows, 4, 0.0) <= 2.0
        assert costs.rate(2.0, rows, 4, 1.0) < costs.rate(2.0, rows, 4, 0.5)
        assert 0.0 <= costs.floor(rows) <= 0.9
    assert costs.floor(1) <= costs.floor(8) <= costs.floor(33)
    # A node at the floor is worth what it costs: its rate is that of the call that it is in.
    if 0.0 < costs.floor(1) < 0.9:
        assert costs.rate(1.0 + costs.floor(1), 1, 1, 0.0) == pytest.approx(1.0)


def test_arms_are_the_lengths_of_each_drafter(tiny_model: Path) -> None:
    model = load_model(tiny_model)
    chains = [Arm(0, FURTHEST, margin) for paths, margin in DRAFTS if paths == 1]
    trees = [Arm(0, FURTHEST, margin, paths) for paths, margin in DRAFTS if paths > 1]
    assert chains and trees
    for names, drafter, tree, wanted in (
        (("masked",), "auto", "chain", [Arm(0, 2), Arm(0, 4)]),  # the one it was trained for, and half of it
        (("autoregressive", "masked"), "auto", "chain", [*chains, *trees, Arm(1, 2), Arm(1, 4)]),
        (("autoregressive",), "autoregressive", "chain", chains),
        (("autoregressive", "lookup"), "auto", "best-first", [*trees, Arm(1, LOOKED_UP)]),
    ):
        policy = make_policy(model, DecodingOptions(tree=tree, drafter=drafter), Choice(names, None))
        assert isinstance(policy, BanditPolicy)
        assert policy._arms == [NO_DRAFT, *wanted]
    assert make_policy(model, GREEDY, Choice((), 0)).choose(1, False) == NO_DRAFT


@pytest.mark.parametrize(
    ("names", "size", "wanted", "promising"),
    [
        (("masked",), 7, Arm(0, 7), Arm(0, 7)),
        (("masked",), None, Arm(0, 4), Arm(0, 4)),  # the drafter's own
        (("lookup",), None, Arm(0, 32), Arm(0, 32)),
        (("masked", "lookup"), 7, Arm(0, 7), Arm(1, 7)),
        (("autoregressive", "lookup"), None, Arm(0, 5), Arm(1, 32)),
    ],
)
def test_a_fixed_policy_looks_up_where_that_is_promising(
    tiny_model: Path, names: tuple[str, ...], size: int | None, wanted: Arm, promising: Arm
) -> None:
    policy = make_policy(load_model(tiny_model), DecodingOptions(block_size=size), Choice(names, 7))
    for rows in (1, 33):
        assert policy.choose(rows, False) == wanted
        assert policy.choose(rows, True) == promising
        policy.observe(rows, True, promising, 1.0, 1000.0)


# The bandit

ARMS = [Arm(0, 4), Arm(0, 8), Arm(1, 10)]
GAIN = {NO_DRAFT: 1.0, ARMS[0]: 2.5, ARMS[1]: 3.4, ARMS[2]: 2.9}
"""Tokens that an iteration brings."""

LINE = 30
SEEDS = range(12)


@dataclass
class Machine:
    """Without drafts a token takes a second; each arm has a rate, in tokens a second."""

    priors: Sequence[float]
    rates: Sequence[float]
    seed: int = 0
    noise: float = 0.0
    hiccups: float = 0.0
    """How often something else has the machine for as long as a line takes, or two."""

    fused: bool = True
    """Whether several iterations run before the policy is asked again."""

    seconds: float = 0.0
    tokens: Counter[Arm] = field(default_factory=Counter)
    log: list[Arm] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        known = dict(zip(ARMS, self.priors, strict=False))
        self.policy = BanditPolicy([*known], lambda arm, rows, promising: known.get(arm, 1.0))

    def translate(self, total: float, rows: int = 1, promising: bool = False) -> Machine:
        """Translates lines until so many tokens have come; counts anew."""
        self.seconds, self.tokens, self.log = 0.0, Counter(), []
        while self.tokens.total() < total:
            left = float(LINE)
            while left > 0:
                arm = self.policy.choose(rows, promising)
                self.log.append(arm)
                iterations = self.policy.iterations(rows, promising) if self.fused else 1
                tokens = min(left, iterations * GAIN[arm])
                seconds = tokens / {NO_DRAFT: 1.0, **dict(zip(ARMS, self.rates, strict=False))}[arm]
                self.seconds += seconds
                self.tokens[arm] += tokens
                left -= tokens
                seconds *= self.random.lognormvariate(0, self.noise)
                seconds += LINE * self.random.choice([1, 2]) * (self.random.random() < self.hiccups)
                self.policy.observe(rows, promising, arm, tokens, seconds)
        return self

    @property
    def rate(self) -> float:
        """Tokens a second, in those without drafts."""
        return self.tokens.total() / self.seconds

    @property
    def share(self) -> float:
        """How near that is to the best arm."""
        return self.rate / max(1.0, *self.rates)

    def part(self, arm: Arm) -> float:
        return self.tokens[arm] / self.tokens.total()


PRIORS = [(1.3,), (1.05,), (0.95,), (0.7,), (1.3, 1.0, 0.9), (1.85, 1.6, 1.4)]
"""What the simple model promises: too much, about right, too little."""


def spread(rate: float, priors: Sequence[float]) -> list[float]:
    return [rate * (1.0 - 0.1 * number) for number in range(len(priors))]


@pytest.mark.parametrize(
    ("rate", "priors", "fused"),
    [
        (rate, priors, (row + column) % 2 == 0)
        for row, rate in enumerate([0.3, 0.5, 0.7, 0.8, 0.9, 0.97])
        for column, priors in enumerate(PRIORS)
    ],
)
def test_short_files_lose_little_where_drafting_is_bad(rate: float, priors: Sequence[float], fused: bool) -> None:
    """Whatever was promised: 20 lines, one at a time, and 80."""
    rates = spread(rate, priors)
    machine = Machine(priors, rates, fused=fused)
    assert machine.translate(600).rate >= 0.97
    assert machine.translate(1800).rate >= 0.97
    machines = [Machine(priors, rates, seed, noise=0.1, fused=fused) for seed in SEEDS]
    assert mean(machine.translate(600).rate for machine in machines) > 0.965
    assert mean(machine.translate(1800).rate for machine in machines) > 0.97


@pytest.mark.parametrize(
    ("rate", "priors"),
    [
        (rate, priors)
        for row, rate in enumerate([0.3, 0.7, 0.95, 1.0, 1.05, 1.2, 1.5, 2.0])
        for column, priors in enumerate(PRIORS)
        if (row + column) % 2 == 0
    ],
)
def test_long_files_come_within_5_percent_of_the_best_arm(rate: float, priors: Sequence[float]) -> None:
    rates = spread(rate, priors)
    for better in (rates, rates[::-1]):
        for noise in (0.0, 0.15):
            assert all(Machine(priors, better, seed, noise=noise).translate(30_000).share >= 0.95 for seed in range(3))
        shares = [Machine(priors, better, seed, noise=0.15, hiccups=0.02).translate(30_000).share for seed in SEEDS]
        assert mean(shares) >= 0.94
        assert min(shares) > 0.8


@pytest.mark.parametrize("after", [0.5, 0.8, 1.2, 2.0])
@pytest.mark.parametrize("before", [0.5, 0.8, 1.2, 2.0])
def test_a_machine_that_changes_is_followed(before: float, after: float) -> None:
    for seed in SEEDS:
        machine = Machine((1.1,), (before,), seed, noise=0.1)
        machine.translate(9_000)
        machine.rates = (after,)
        machine.translate(6_000)
        assert machine.translate(9_000).share >= 0.95


def test_a_machine_that_slows_down_as_a_whole_is_still_the_same() -> None:
    """The arms that were not tried lately look better than they are, for a trial or two."""
    machine = Machine((1.5,), (1.5,))
    machine.translate(3_000)
    policy, ways = machine.policy, []
    for _ in range(600):
        arm = policy.choose(1, False)
        ways.append(arm)
        policy.observe(1, False, arm, 20.0, 60.0 / (1.0 if arm == NO_DRAFT else 1.5))
    assert ways.count(NO_DRAFT) < 60
    assert ways[-200:].count(NO_DRAFT) < 20


def test_it_begins_without_drafts_and_a_first_trial_comes_soon() -> None:
    for prior in (1.3, 1.0, 0.95):
        log = Machine((prior,), (1.5,), fused=False).translate(600).log
        assert log[0] == NO_DRAFT
        assert ARMS[0] in log[: 5 * LINE]
        assert log[-1] == ARMS[0]


def test_what_promises_less_is_tried_less_often() -> None:
    parts = [Machine((prior,), (0.6,)).translate(30_000).part(ARMS[0]) for prior in (0.9, 0.5, 0.2)]
    assert all(0.0 < part < 0.03 for part in parts)
    first = [Machine((prior,), (0.6,)).translate(30_000).log.index(ARMS[0]) for prior in (0.9, 0.5, 0.2)]
    assert first == sorted(set(first))
    # What was found to be far worse is tried less than what is nearly as good.
    tried = [Machine((0.9,), (rate,)).translate(30_000).part(ARMS[0]) for rate in (0.9, 0.7, 0.4)]
    assert tried == sorted(tried, reverse=True)


def test_numbers_of_rows_are_learnt_apart() -> None:
    """To a power of 2, and whether lookups are likely to find something."""
    machine = Machine((1.1,), (2.0,))
    for rows, promising, rate in ((1, False, 2.0), (8, False, 0.5), (8, True, 2.0), (1, True, 0.5)):
        machine.rates = (rate,)
        machine.translate(6_000, rows, promising)
    for rows, promising, rate in (
        (1, False, 2.0),
        (1, True, 0.5),
        *((rows, True, 2.0) for rows in (5, 6, 7)),
        *((rows, False, 0.5) for rows in (5, 6, 7)),
    ):
        machine.rates = (rate,)
        part = machine.translate(900, rows, promising).part(ARMS[0])
        assert part > 0.9 if rate > 1.0 else part < 0.1
    assert machine.translate(30, 9, False).log[0] == NO_DRAFT  # begun anew


def test_the_same_tokens_and_seconds_lead_to_the_same_choices() -> None:
    logs = [Machine((1.1, 0.9), (1.05, 1.0), 3, noise=0.2, hiccups=0.02).translate(9_000).log for _ in range(2)]
    assert logs[0] == logs[1]


@pytest.mark.parametrize("rate", [0.7, 1.5])
def test_a_hiccup_is_not_taken_at_its_word_but_what_lasts_is(rate: float) -> None:
    machine = Machine((1.1,), (rate,))
    machine.translate(3_000)
    best = NO_DRAFT if rate < 1.0 else ARMS[0]
    machine.policy.observe(1, False, best, 20.0, 5000.0)
    assert machine.translate(900).part(best) > 0.6
    assert machine.translate(3_000).part(best) > 0.9


def test_the_first_iterations_of_all_are_not_held_against_an_arm() -> None:
    """They touch caches and weights for the first time."""
    for slow in (NO_DRAFT, ARMS[0]):
        machine = Machine((1.2,), (1.5,))
        seen = False
        while not seen:
            arm = machine.policy.choose(1, False)
            seen = arm == slow
            machine.policy.observe(1, False, arm, 10.0, 500.0 if seen else 10.0)
        machine.translate(1_500)
        assert machine.translate(3_000).part(ARMS[0]) > 0.9


def test_the_share_of_trials_is_bounded_whatever_the_clock_says() -> None:
    generator = random.Random(3)
    policy = Machine((1.05,), ()).policy
    switches, before = 0, NO_DRAFT
    for _ in range(20_000):
        arm = policy.choose(1, False)
        switches += arm != before
        before = arm
        # So alike that the leader changes now and then.
        seconds = 0.0 if generator.random() < 0.1 else generator.expovariate(1.0)
        policy.observe(1, False, arm, generator.uniform(1.0, 60.0), seconds)
    assert switches < 0.3 * 20_000


# What the loop does with it


class Fickle(Policy):
    """Drafts or does not, at random, a little at a time."""

    def __init__(self, ahead: int, seed: int) -> None:
        self.ahead = ahead
        self.random = random.Random(seed)
        self.heard: Counter[bool] = Counter()
        self.tokens = 0.0

    @override
    def choose(self, rows: int, promising: bool) -> Arm:
        return Arm(0, self.random.randint(1, self.ahead)) if self.random.random() < 0.5 else NO_DRAFT

    @override
    def iterations(self, rows: int, promising: bool) -> int:
        return 3

    @override
    def observe(self, rows: int, promising: bool, arm: Arm, tokens: float, seconds: float) -> None:
        assert tokens > 0.0
        assert seconds > 0.0
        self.heard[arm != NO_DRAFT] += 1
        self.tokens += tokens


@pytest.mark.crossed("kernels", "drafter", "tree", "batch_size")
@pytest.mark.parametrize("batch_size", [1, 7])
@pytest.mark.parametrize("tree", ["chain", "best-first"])
@pytest.mark.parametrize("drafter", ["masked", "autoregressive", "lookup"])
def test_a_policy_that_changes_its_mind_at_any_time_changes_no_output(
    tiny_model: Path,
    sources: Sources,
    monkeypatch: pytest.MonkeyPatch,
    kernels: bool,
    drafter: str,
    tree: TreeName,
    batch_size: int,
) -> None:
    """Rows fall behind where nothing is drafted for a while, and catch up."""
    sources = sources[4:24]
    model = load_model(tiny_model, device="cpu", dtype="float32", kernels=kernels)
    greedy = decode(model, sources, GREEDY)
    memory = TranslationMemory()
    for source, hypothesis in zip(sources[::2], greedy[::2], strict=True):
        memory.add(source, hypothesis.tokens)
    policy = Fickle(4, batch_size)
    monkeypatch.setattr(session, "make_policy", lambda *_: policy)
    got = decode(model, sources, DecodingOptions(drafter=drafter, tree=tree, batch_size=batch_size), memory=memory)
    assert_same(got, greedy)
    assert min(policy.heard.values()) > 1 and len(policy.heard) == 2
    total = total_of(got)
    assert total.accepted > 0.05 * total.tokens
    if batch_size == 1:
        assert policy.tokens == pytest.approx(total.tokens)  # it hears of all


class OnlyFewRows(Policy):
    """Drafts for the last two sentences."""

    choose = staticmethod(lambda rows, promising: Arm(0, 4) if rows <= 2 else NO_DRAFT)


@pytest.mark.parametrize(("policy", "wanted"), [(FixedPolicy(NO_DRAFT), 0), (OnlyFewRows(), 2)])
def test_sentences_wait_for_the_drafter_until_it_drafts(
    tiny_model: Path, sources: Sources, monkeypatch: pytest.MonkeyPatch, policy: Policy, wanted: int
) -> None:
    model = load_model(tiny_model)
    assert model.drafter is not None
    started: list[int] = []
    start: Callable[..., None] = model.drafter.start
    monkeypatch.setattr(
        model.drafter, "start", lambda state, rows, encoded: (started.append(len(rows)), start(state, rows, encoded))
    )
    monkeypatch.setattr(session, "make_policy", lambda *_: policy)
    decode(model, sources, DecodingOptions(drafter="masked", batch_size=8))
    assert sum(started) == wanted


@pytest.mark.parametrize("batch_size", [1, 3, 33])
def test_what_is_learnt_changes_no_output(tiny_model: Path, sources: Sources, batch_size: int) -> None:
    model = load_model(tiny_model)
    greedy = decode(model, sources, GREEDY)
    for drafter in ("masked", "autoregressive"):
        assert_same(decode(model, sources, DecodingOptions(drafter=drafter, batch_size=batch_size)), greedy)


# How a drafter's confidence is calibrated


def test_the_logistic_fit_finds_scale_and_shift() -> None:
    generator = np.random.default_rng(0)
    inputs = generator.normal(0, 3, 200_000)
    outcomes = (generator.random(200_000) < logistic(0.7 * inputs + 0.4)).astype(float)
    assert fit_logistic(inputs, outcomes) == pytest.approx((0.7, 0.4), abs=0.02)
    # What a line separates has no steepest one.
    scale, shift = fit_logistic(np.array([-2.0, -1.0, 1.0, 2.0]), np.array([0.0, 0.0, 1.0, 1.0]))
    assert 1 < scale < 10
    assert abs(shift) < 1


def test_a_calibration_counts_what_is_accepted_and_is_kept_with_the_model(
    tiny_model: Path, sources: Sources, tmp_path: Path
) -> None:
    model = load_model(tiny_model)
    assert model.drafter is not None
    found = calibrate(model.verifier, model.drafter, sources, 4)
    assert len(found.acceptance) == 4
    assert list(found.acceptance) == sorted(found.acceptance, reverse=True)
    assert 0 < found.acceptance[0] < 1
    total = total_of(decode(model, sources, DecodingOptions(drafter="masked", block_size=4, batch_size=1)))
    # An end of sentence that is drafted and accepted leaves no room for the verifier's own token.
    assert total.tokens <= total.verifier_calls * (1.02 + sum(found.acceptance))
    assert total.tokens >= total.verifier_calls * sum(found.acceptance)
    for path in tiny_model.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    write_calibration(tmp_path, found)
    assert ModelFolder.read(tmp_path).calibration == found
    assert ModelFolder.read(tiny_model).calibration is None


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cached("kind", "this", lambda: [1, 2]) == [1, 2]
