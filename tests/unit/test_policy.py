"""Who drafts and how far ahead: tables, decisions on machines that are made up, without a clock, and kept tables."""

from __future__ import annotations

import gc
import json
import math
import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from specmt.decoding import session
from specmt.decoding.confidence import confident, log_odds, logistic, survival
from specmt.decoding.drafters.autoregressive import AutoregressiveDrafter
from specmt.decoding.drafters.base import NO_DRAFT, NOISE, Arm, Plan
from specmt.decoding.drafters.masked import MaskedDrafter
from specmt.decoding.policy import ALONE, PROBES, FixedPolicy, LearntPolicy, Policy
from specmt.decoding.session import Session, decode
from specmt.decoding.tables import (
    KNOWN,
    MOST,
    NEWEST,
    PRIOR,
    Acceptance,
    Call,
    Costs,
    Kind,
    Table,
    Text,
    checked,
    median_low,
)
from specmt.decoding.translation_memory import TranslationMemory
from specmt.decoding.tree import chains
from specmt.engine.fused import Confidence, Ran
from specmt.files import cache_folder, cached, keep, recall
from specmt.models import hub
from specmt.models.folder import ModelFolder
from specmt.models.hub import Model, load_model
from specmt.models.reads import share_of
from specmt.models.writing import add_drafter, write_calibration
from specmt.options import Calibration, DecodingOptions, TreeName
from specmt.training.calibrate import calibrate, fit_logistic
from specmt.types import EOS
from tests.decoding_helpers import GREEDY, Sources, assert_same, tokens_of, total_of
from tests.machines import EASY, HARD, Decoding, Machine, Proposer

CALIBRATED = Calibration(acceptance=(0.75, 0.57, 0.44, 0.34, 0.26, 0.2), scale=1.0, shift=0.0)
SLOTS = Calibration(acceptance=(0.67, 0.47, 0.31, 0.21, 0.14), scale=1.0, shift=0.0)


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


# What calls cost


def table(seconds: dict[float, float], times: int = KNOWN) -> Table:
    """Returns what was measured so many times."""
    return {at: [value] * times for at, value in seconds.items()}


def test_two_measurements_that_agree_are_believed() -> None:
    costs = Costs({}, {})
    for seconds, is_known in ((1.0, False), (1.5, False), (1.1, True)):
        costs.observe("none", 1.0, [Call("", 1.0)], seconds)
        assert costs.is_timed(1.0) == is_known != costs.is_beyond(1.0)


def test_costs_lie_between_those_that_were_measured_and_grow_beyond_them() -> None:
    costs = Costs({"verifier": table({1.0: 2.0, 4.0: 5.0, 16.0: 8.0})}, {"masked": 0.5})

    def of(tokens: float, network: str = "") -> float:
        return costs.seconds([Call(network, tokens)])

    assert [of(tokens) for tokens in (1.0, 2.0, 4.0, 10.0, 16.0)] == [2.0, 3.0, 5.0, 6.5, 8.0]
    assert of(31.0) == 8.0 + 15 * 0.4  # as the first and the last did, or the last two if that is more
    assert of(4.0, "masked") == 2.5
    assert costs.seconds([Call("", 4.0), Call("masked", 1.0, 3.0)]) == 5.0 + 3 * 1.0
    assert [costs.is_beyond(tokens) for tokens in (16.0, 20.0, 24.0)] == [False, False, True]
    alone = Costs({"verifier": table({4.0: 2.0})}, {})
    assert [alone.seconds([Call("", tokens)]) for tokens in (1.0, 4.0, 8.0)] == [2.0, 2.0, 4.0]
    steep = Costs({"verifier": table({1.0: 2.0, 4.0: 2.0, 16.0: 8.0})}, {})
    assert steep.seconds([Call("", 32.0)]) == 8.0 + 16 * 0.5


def test_what_cannot_be_was_disturbed() -> None:
    """A call of more tokens takes no less, and of four times as many no more than four times as long."""
    costs = Costs({"verifier": table({1.0: 9.0, 2.0: 1.0, 8.0: 99.0})}, {})
    assert [costs.seconds([Call("", tokens)]) for tokens in (1.0, 2.0, 8.0)] == [1.0, 1.0, 4.0]


def test_other_ways_to_verify_begin_as_the_plain_one() -> None:
    known: dict[str, Table] = {"verifier": table({1.0: 2.0})}
    costs = Costs(known, {}, "logits")
    costs.observe("none", 1.0, [Call("", 1.0)], 3.0)
    for _ in range(2 * NEWEST):
        costs.observe("none", 1.0, [Call("", 1.0)], 3.0)
    assert costs.seconds([Call("", 1.0)]) == pytest.approx(3.0)
    assert known["verifier"] == table({1.0: 2.0})


def test_a_way_to_draft_is_corrected_and_a_hiccup_is_not_believed() -> None:
    costs = Costs({"verifier": table({1.0: 1.0, 16.0: 1.0})}, {"ahead": 0.1})
    calls = [Call("", 5.0), Call("ahead", 1.0, 5.0)]
    assert costs.seconds(calls, "ahead 5") == pytest.approx(1.5)
    for seconds in (3.0, 3.0, 300.0, 3.0, 0.0, 3.0, 3.0):
        costs.observe("ahead 5", 1.0, calls, seconds)
    assert costs.seconds(calls, "ahead 5") == pytest.approx(3.0)
    assert costs.seconds(calls, "ahead 5", 8.0) == pytest.approx(3.0)  # of the nearest number of sentences
    assert costs.seconds(calls, "ahead 9") == pytest.approx(3.0)  # as of the best that is known
    costs.observe("ahead 5", 8.0, calls, 6.0)
    assert costs.seconds(calls, "ahead 5", 16.0) == pytest.approx(3.0)  # once may be a hiccup
    costs.observe("ahead 5", 8.0, calls, 6.0)
    assert costs.seconds(calls, "ahead 5", 16.0) == pytest.approx(6.0)
    assert costs.seconds(calls, "ahead 5", 1.0) == pytest.approx(3.0)


@pytest.mark.parametrize(("factor", "thought"), [(0.8, 1.0), (1.5, 1.5)])
def test_what_was_never_tried_takes_what_it_reads_or_what_others_take_more(factor: float, thought: float) -> None:
    known = {"verifier": table({1.0: 1.0}), "verifier, autoregressive 12": table({1.0: factor})}
    calls = [Call("", 1.0), Call("masked", 1.0)]
    assert Costs(known, {"masked": 0.5}).seconds(calls, "masked 10") == thought * 1.5


def test_what_goes_from_slot_to_slot_is_read_for_each(tiny_model: Path) -> None:
    model = load_model(tiny_model)
    assert model.folder.drafter is not None

    def share(rank: int, slots: int) -> float:
        drafter = replace(model.folder.drafter, correction_rank=rank, block_size=slots)
        return share_of(replace(model.folder, drafter=drafter), model.backend, "masked")

    more = share(32, 10) - share(32, 5)
    assert 0.0 < more == pytest.approx((share(64, 5) - share(32, 5)) / 3)


def test_a_machine_that_is_slower_is_slower_at_everything() -> None:
    """Whether since a moment ago or since yesterday: what is known well says how fast it is."""
    costs = Costs({"verifier": table({1.0: 1.0}), "verifier, ahead 5": table({1.0: 2.0})}, {"ahead": 0.1})
    calls = [Call("", 1.0), Call("ahead", 1.0, 5.0)]
    for _ in range(5):
        costs.observe("ahead 5", 1.0, calls, 2 * 2.0 * 1.5)
    assert costs.pace == pytest.approx(2.0)
    assert costs.seconds([Call("", 1.0)]) == pytest.approx(2.0)
    assert [median_low(costs.known[name][1.0]) for name in ("verifier", "verifier, ahead 5")] == [1.0, 2.0]


# How often drafts stand


def test_acceptance_begins_as_calibrated_and_is_counted() -> None:
    table = Acceptance((0.8, 0.6))
    tokens, nodes, longest = table.expect(2, 1)
    assert (tokens, nodes, longest) == pytest.approx((2.4, 1.8, 1.8))
    assert table.expect(3, 1)[0] == pytest.approx(2.4 + 0.6 * 0.7)
    assert table.expect(2, 100)[2] == pytest.approx(2.0)  # some sentence has both
    table.observe(2, np.array([2, 2, 0, 1] * 500), np.array([2, 0, 0, 1] * 500))
    tokens, nodes, _ = table.expect(2, 1)
    assert tokens == pytest.approx(1 + 0.5 + 0.25, abs=0.02)
    assert nodes == pytest.approx(0.75 + 0.5, abs=0.02)
    assert Acceptance((0.5,), 9).expect(MOST, 1)[1] == pytest.approx(9.0, abs=0.1)  # of a tree, all its nodes


def test_short_drafts_say_nothing_of_long_ones_and_what_is_long_ago_fades() -> None:
    table = Acceptance((0.5, 0.5, 0.5))
    before = table.expect(3, 1)[0] - table.expect(2, 1)[0]
    table.observe(2, np.full(10_000, 2), np.full(10_000, 2))
    assert table.expect(2, 1)[0] == pytest.approx(3.0, abs=0.01)
    assert table.expect(3, 1)[0] - table.expect(2, 1)[0] == before
    for _ in range(40):
        table.observe(2, np.full(200, 2), np.full(200, 0))
    assert table.expect(2, 1)[0] < 1.6
    assert table.asked[2] == PRIOR


@pytest.mark.parametrize("power", [0.6, 1.0, 1.6])
def test_how_hard_a_text_is_holds_for_drafters_that_have_drafted_nothing(power: float) -> None:
    """Where each token of one drafter stands s^h of the times, those of others are thought to."""
    text, kinds = Text(), [Kind(number, is_tree=False, promising=False, is_batch=False) for number in range(3)]
    lookup = text.of(kinds[0]._replace(promising=True), CALIBRATED.acceptance, 0)
    chain, other = (text.of(kind, CALIBRATED.acceptance, 0) for kind in kinds[:2])
    before = lookup.expect(6, 1), chain.expect(6, 1)
    text.settle()
    assert text.hardness == 1.0 and chain.expect(6, 1) == before[1]  # nothing was drafted yet
    stood = int(1000 * CALIBRATED.acceptance[0] ** power)
    for _ in range(9):  # however often it is asked
        chain.observe(1, np.full(1000, 1), np.array([1] * stood + [0] * (1000 - stood)))
        text.settle()
    assert text.hardness == pytest.approx(power, rel=0.03)
    later = text.of(kinds[2], SLOTS.acceptance, 0)
    for table, calibrated in ((other, CALIBRATED), (later, SLOTS)):
        wanted = 1.0 + sum(each**power for each in calibrated.acceptance)
        assert table.expect(len(calibrated.acceptance), 1)[0] == pytest.approx(wanted, rel=0.03)
    assert lookup.expect(6, 1) == before[0]


@pytest.mark.parametrize("calibrated", [0.0, 1.0])
def test_a_drafter_that_never_stood_or_always_did_says_nothing_absurd(calibrated: float) -> None:
    text = Text()
    table = text.of(Kind(0, is_tree=False, promising=False, is_batch=False), [calibrated], 0)
    for stood in (0, 1):
        table.observe(1, np.ones(99, dtype=int), np.full(99, stood))
        text.settle()
        assert 0.2 < text.hardness < 5.0 and math.isfinite(table.expect(8, 4)[0])


# Decisions, on machines that are made up

ARMS = [Arm(0, 5), Arm(0, 10), Arm(1, 3), Arm(1, 12), Arm(1, 12, 4, 11)]
FIXED = [NO_DRAFT, Arm(0, 5), Arm(0, 10), Arm(1, 3), Arm(1, 5), Arm(1, 8)]
SHARES = {"masked": 0.3, "autoregressive": 0.19}


def drafters(price: float = 0.0) -> list[Proposer]:
    return [Proposer(MaskedDrafter, price, SLOTS), Proposer(AutoregressiveDrafter, price, CALIBRATED)]


def learnt(price: float = 0.0, known: dict[str, Table] | None = None) -> LearntPolicy:
    return LearntPolicy(ARMS, drafters(price), Costs({} if known is None else known, SHARES))


def decoding(machine: Machine, policy: LearntPolicy, text: Any = EASY, rows: int = 1) -> Decoding:
    return Decoding(machine, policy, policy.drafters, text, rows)  # type: ignore[arg-type]


def loss(sentences: int, text: Any = EASY, rows: int = 1, *, price: float = 0.015, **machine: Any) -> float:
    """Returns how many times the seconds of the best fixed choice are taken, or of greedy decoding in batches."""
    taken = decoding(Machine(**machine), learnt(price), text, rows).run(sentences)
    fixed = FIXED if rows == 1 else [NO_DRAFT]
    return taken / min(
        Decoding(Machine(**machine), FixedPolicy(arm), drafters(price), text, rows).run(sentences) for arm in fixed
    )


@pytest.mark.parametrize("row", [0.04, 0.2, 0.5])
@pytest.mark.parametrize("text", [EASY, HARD], ids=["easy", "hard"])
def test_it_takes_hardly_longer_than_the_best_fixed_choice(text: Any, row: float) -> None:
    """Wherever further tokens cost little or much, and drafts stand or do not."""
    assert loss(60, text, row=row) < 1.10
    assert loss(400, text, row=row) < 1.03


def test_where_measurements_of_one_size_disagree_two_of_another_are_not_enough() -> None:
    for values, is_shared in (([1.0] * 5, False), ([1.0, 1.0, 1.0, 1.5, 2.0], True)):
        costs = Costs({"verifier": {4.0: [3e-3, 3.1e-3]}}, SHARES)
        for each in values:
            costs.observe("", 1.0, [Call("", 1.0)], 1e-3 * each)
        assert costs.is_beyond(4.0) == is_shared


def test_a_way_that_was_disturbed_says_nothing_of_the_pace() -> None:
    costs = Costs({"verifier": {1.0: [1e-3] * 5}, "verifier, masked 5": {1.0: [1.0, 1.0, 4.0, 4.0, 4.0]}}, SHARES)
    for _ in range(9):
        costs.observe("masked 5", 1.0, [Call("", 6.0), Call("masked", 5.0)], 1e-3 * (6.0 + 0.3 * 5.0))
    assert costs.pace == 1.0


def test_hiccups_of_a_shared_machine_do_not_decide() -> None:
    assert max(loss(250, hiccups=40.0, seed=seed) for seed in range(8)) < 1.10


@pytest.mark.parametrize("hiccups", [0.0, 20.0])
@pytest.mark.parametrize(("before", "after"), [(1.0, 0.5), (0.5, 1.0)])
def test_a_machine_whose_speed_changes_in_the_middle_is_followed(before: float, after: float, hiccups: float) -> None:
    def speed(now: float) -> float:
        return before if now < 2.0 else after

    assert max(loss(400, speed=speed, hiccups=hiccups, seed=seed) for seed in range(2)) < 1.10


@pytest.mark.parametrize("row", [0.04, 0.2])
@pytest.mark.parametrize("rows", [8, 32])
def test_batches_are_no_slower_than_without_drafts(rows: int, row: float) -> None:
    assert loss(200, rows=rows, row=row, noise=0.0) < 1.02
    assert loss(600, rows=rows, row=row, noise=0.0) < 1.02


def test_the_second_run_of_a_model_knows_what_calls_cost() -> None:
    known: dict[str, Table] = {}
    first, second = (decoding(Machine(seed=seed), learnt(0.0, known)) for seed in (1, 2))
    first.run(30)
    known = checked(json.loads(json.dumps(known)))
    second.policy = learnt(0.0, known)
    second.run(30)
    assert first.turns["noise 3"] == 2 and second.turns["noise 3"] == 0
    assert [plan.why for plan in first.log[:6]] == [*["probe"] * 5, "best"]  # the first of them cold
    assert second.log[0].why == "best" and second.log[0].arm.drafts


@pytest.mark.parametrize("row", [0.04, 0.2])
def test_a_run_that_was_disturbed_spoils_none_after_it(row: float) -> None:
    for seed in range(12):
        known: dict[str, Table] = {}
        decoding(Machine(seed=seed, row=row, hiccups=50.0), learnt(0.0, known)).run(20)
        known = checked(json.loads(json.dumps(known)))
        taken = decoding(Machine(row=row), learnt(0.0, known)).run(60)
        fixed = [Decoding(Machine(row=row), FixedPolicy(arm), drafters()) for arm in FIXED]
        assert taken < 1.10 * min(each.run(60) for each in fixed)


def test_the_end_of_a_batch_drafts_by_itself() -> None:
    """As soon as few sentences are left, what is there drafts for them, if it is known what that takes."""
    known: dict[str, Table] = {}
    for _ in range(2):
        decoding(Machine(row=0.08), learnt(known=known), rows=16).run(400)
    one = decoding(Machine(row=0.08), learnt(known=known), rows=16)
    one.run(400)
    drafted = [bool(plan.arm.drafts) for plan in one.log if plan.why == "best"]
    assert not any(drafted[: len(drafted) // 2])
    assert all(drafted[-2:])


def test_nothing_is_loaded_before_as_much_was_decoded_nor_for_nothing() -> None:
    policy = learnt(0.2)
    one = decoding(Machine(), policy)
    one.run(5)
    assert not any(each.loads for each in one.drafters) and policy.seconds < 0.2
    one.run(60)
    assert [min(1, each.loads) for each in one.drafters] in ([0, 1], [1, 0])
    assert policy.paid == 0.2
    never = decoding(Machine(row=0.9), learnt(0.05), HARD, rows=8)
    never.run(80)
    assert not any(each.loads for each in never.drafters)


def test_the_verifier_comes_back_as_soon_as_something_may_be_loaded() -> None:
    known = {"verifier": table({1.0: 0.7e-3, 4.0: 1e-3})}
    one, other = (decoding(Machine(noise=0.0), learnt(0.015, known)) for _ in range(2))
    one.next = 0
    one.run(5)
    other.run(9)
    assert other.log[0].arm.drafts  # what waits is worth it
    loaded = next(number for number, plan in enumerate(one.log) if plan.arm.drafts)
    assert all(plan.iterations < ALONE for plan in one.log[:loaded])
    assert 0.015 <= 0.7e-3 * sum(plan.iterations for plan in one.log[:loaded]) < 0.03


@pytest.mark.parametrize(("gain", "is_loaded"), [(1.15, False), (1.3, True)])
@pytest.mark.parametrize("is_seen", [False, True])
def test_what_was_never_seen_must_promise_more_to_be_loaded(gain: float, is_loaded: bool, is_seen: bool) -> None:
    ways = ["verifier, autoregressive 12", *["verifier, masked 10"] * is_seen]
    known = {"verifier": table({1.0: 1e-3, 16.0: 2e-3}), **{way: table({1.0: 1.0}) for way in ways}}
    policy = learnt(0.01, known)
    policy.drafters[1].load(1)
    policy.spent[1] = 1.0
    worth = {NO_DRAFT: 1.0, Arm(1, 12): 2.0, Arm(0, 10): 2.0 * gain}
    policy.prospects = lambda rows, promising: iter(worth.items())  # type: ignore[method-assign]
    assert policy.choose(1, False).arm == (Arm(0, 10) if is_loaded or is_seen else Arm(1, 12))


@pytest.mark.parametrize(("gain", "spent", "is_tried"), [(1.15, 1.0, False), (1.3, 1.0, True), (1.3, 0.01, False)])
def test_trees_never_seen_must_promise_more_and_repay_their_turns(gain: float, spent: float, is_tried: bool) -> None:
    known = {"verifier": table({1.0: 1e-3, 16.0: 2e-3}), "verifier, autoregressive 12": table({1.0: 1.0})}
    policy, tree = learnt(known=known), Arm(1, 12, 4, 11)
    policy.spent[1], policy.played[tree] = spent, 0.0
    worth = {NO_DRAFT: 1e3, Arm(1, 12): 2e3, tree: 2e3 * gain}
    policy.prospects = lambda rows, promising: iter(worth.items())  # type: ignore[method-assign]
    assert policy.choose(1, False).arm == (tree if is_tried else Arm(1, 12))


def test_what_is_new_has_its_turns_before_anything_is_chosen_anew() -> None:
    one = decoding(Machine(noise=0.0), learnt(known={"verifier": table({1.0: 1e-3, 4.0: 1.2e-3})}))
    one.run(4)
    first = next(number for number, plan in enumerate(one.log) if plan.arm.drafts)
    assert one.log[first] is one.log[first + 1] is one.log[first + 2]


def test_trials_are_for_what_is_there_and_cost_a_small_share() -> None:
    one = decoding(Machine(row=0.2), learnt(0.015))
    taken = one.run(1000)
    tried = [plan for plan in one.log if plan.why == "trial"]
    assert 0 < len(tried) < 0.1 * len(one.log)
    best = LearntPolicy([Arm(1, 12)], drafters(), Costs({}, SHARES))
    assert taken < 1.03 * decoding(Machine(row=0.2), best).run(1000)
    assert all(one.drafters[plan.arm.drafter].loads for plan in tried if plan.arm.drafts)


def test_the_same_turns_lead_to_the_same_choices() -> None:
    logs = []
    for _ in range(2):
        one = decoding(Machine(seed=3, hiccups=20.0), learnt(0.015))
        one.run(150)
        logs.append(one.log)
    assert logs[0] == logs[1]


def test_nothing_cold_is_judged() -> None:
    """The first turn of all, and the first one of each drafter, touch what they need for the first time."""
    policy = learnt()
    slow = Ran(np.array([[0]]), np.array([[0]]))
    policy.observe(policy.choose(1, False), slow, 100.0)
    assert policy.costs.known["verifier"] == {}
    for _ in range(2):
        policy.observe(policy.choose(1, False), slow, 0.001)
    plan = Plan(Arm(1, 12), why="trial")
    policy.observe(plan, Ran(np.array([[3]]), np.array([[2]])), 100.0)
    assert policy.costs.known.keys() == {"verifier"}
    policy.observe(plan, Ran(np.array([[3]]), np.array([[2]])), 0.001)
    assert policy.costs.known.keys() == {"verifier", "verifier, autoregressive 12"}


@pytest.mark.parametrize("row", [0.04, 0.5])
def test_a_token_is_verified_where_it_is_worth_its_seconds(row: float) -> None:
    """The dearer a token, the surer it must be; a drafter that goes step by step stops before that."""
    sizes = 1.0, 2.0, 4.0, 8.0, 16.0
    known: dict[str, Table] = {"verifier": table({size: 1e-3 * (1 + row * (size - 1)) for size in sizes})}
    policy = LearntPolicy([Arm(1, 12)], drafters(), Costs(known, SHARES))
    plan = policy.choose(1, False)
    assert plan.arm == Arm(1, 12) and plan.confidence is not None
    worth = dict(policy.prospects(1, False))[plan.arm]
    assert plan.confidence.floor == pytest.approx(worth * row * 1e-3)
    assert plan.confidence.margin > plan.confidence.floor
    masked = LearntPolicy([Arm(0, 10)], drafters(), Costs(known, SHARES)).choose(1, False).confidence
    assert masked is None or masked.margin <= masked.floor  # all is drafted at once


def test_what_is_best_goes_on_until_the_verifier_comes_back() -> None:
    ways: dict[str, Table] = {f"verifier, {arm.name(drafters())}": table({1.0: 1.0}) for arm in ARMS}
    known: dict[str, Table] = {"verifier": table({1.0: 0.01, 4.0: 0.01, 16.0: 0.01, 64.0: 0.02}), **ways}
    assert learnt(known=known).choose(1, False).iterations == ALONE
    fast: dict[str, Table] = {"verifier": table({1.0: 1e-5, 4.0: 1e-5})}
    assert learnt(known={**fast, **ways}).choose(1, False).iterations == 64
    assert learnt(known=fast).choose(1, False).iterations == PROBES  # nobody knows yet how long they are


def test_every_number_of_sentences_is_timed_before_drafts_are_thought_of() -> None:
    """What a call of 32 takes says nothing of one of 2: drafts would look as if they cost nothing there."""
    known: dict[str, Table] = {}
    one = decoding(Machine(row=1.0, noise=0.0), learnt(known=known), rows=32)
    one.run(80)
    sizes = [round(math.log2(rows)) for rows in one.sizes]
    firsts = [one.log[sizes.index(size)].why for size in sorted({*sizes})]
    assert len(firsts) >= 4
    assert firsts == ["probe"] * len(firsts)


def test_a_gain_that_is_doubtful_loads_nothing_for_a_batch() -> None:
    one = decoding(Machine(row=0.2, noise=0.0), learnt(0.015), rows=32)
    one.run(200)
    assert not any(each.loads for each in one.drafters)


# What the loop does with it


class Fickle(Policy):
    """Drafts or does not, at random, a little at a time."""

    def __init__(self, ahead: int, seed: int, *, is_tree: bool = False) -> None:
        self.ahead, self.is_tree = ahead, is_tree
        self.random = random.Random(seed)
        self.heard: Counter[bool] = Counter()
        self.tokens = 0

    @override
    def choose(self, rows: int, promising: bool, waiting: int = 0) -> Plan:
        ahead = self.random.randint(1, self.ahead) if self.random.random() < 0.5 else 0
        who = NOISE if self.random.random() < 0.2 else 0
        return Plan(Arm(who, ahead, *((2, 5) if self.is_tree else ())), iterations=3)

    @override
    def observe(self, plan: Plan, ran: Ran, seconds: float) -> None:
        assert seconds > 0.0
        active = ran.accepted >= 0
        assert (ran.drafted >= 0).tolist() == active.tolist()
        self.heard[plan.arm.drafts] += 1
        self.tokens += int(ran.accepted[active].sum() + active.sum())


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
    policy = Fickle(4, batch_size, is_tree=tree == "best-first")
    monkeypatch.setattr(session, "make_policy", lambda *_: policy)
    got = decode(model, sources, DecodingOptions(drafter=drafter, tree=tree, batch_size=batch_size), memory=memory)
    assert_same(got, greedy)
    assert min(policy.heard.values()) > 1 and len(policy.heard) == 2
    total = total_of(got)
    assert total.accepted > 0.05 * total.tokens
    # It hears of all, and of a token more where a draft reached the end.
    assert total.tokens <= policy.tokens <= total.tokens + len(sources)


class OnlyFewRows(Policy):
    """Drafts for the last two sentences."""

    choose = staticmethod(lambda rows, promising, waiting: Plan(Arm(0, 4) if rows <= 2 else NO_DRAFT))


@pytest.mark.parametrize(("policy", "wanted"), [(FixedPolicy(NO_DRAFT), [0]), (OnlyFewRows(), [1, 2])])
def test_sentences_wait_for_the_drafter_until_it_drafts(
    tiny_model: Path, sources: Sources, monkeypatch: pytest.MonkeyPatch, policy: Policy, wanted: list[int]
) -> None:
    model = load_model(tiny_model)
    drafter = model.network("masked")
    assert drafter is not None
    started: list[int] = []
    start: Callable[..., None] = drafter.start
    monkeypatch.setattr(
        drafter, "start", lambda state, rows, encoded: (started.append(len(rows)), start(state, rows, encoded))
    )
    monkeypatch.setattr(session, "make_policy", lambda *_: policy)
    decode(model, sources, DecodingOptions(drafter="masked", batch_size=8))
    assert sum(started) in wanted


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


@pytest.mark.parametrize("name", ["masked", "autoregressive"])
def test_a_calibration_counts_what_is_accepted(model: Model, sources: Sources, name: str) -> None:
    found = calibrate(model, name, sources, 4)
    assert len(found.acceptance) == 4
    assert list(found.acceptance) == sorted(found.acceptance, reverse=True)
    assert 0 < found.acceptance[0] < 1
    total = total_of(decode(model, sources, DecodingOptions(drafter=name, block_size=4, batch_size=1)))
    # An end of sentence that is drafted and accepted leaves no room for the verifier's own token.
    assert total.tokens <= total.verifier_calls * (1.02 + sum(found.acceptance))
    assert total.tokens >= total.verifier_calls * sum(found.acceptance)
    assert len(calibrate(model, name, sources[:3]).acceptance) == (4 if name == "masked" else 12)


def test_calibrations_are_kept_with_the_model_by_drafter(tiny_model: Path, tmp_path: Path) -> None:
    for path in tiny_model.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert ModelFolder.read(tmp_path).calibrations == {}
    write_calibration(tmp_path, "autoregressive", CALIBRATED)
    write_calibration(tmp_path, "masked", SLOTS)
    folder = ModelFolder.read(tmp_path)
    assert folder.calibrations == {"autoregressive": CALIBRATED, "masked": SLOTS}
    assert load_model(tmp_path).calibrations == folder.calibrations
    assert folder.autoregressive is not None
    # That of a drafter goes with it.
    replaced = add_drafter(tmp_path, folder, folder.autoregressive, folder.weights("autoregressive.safetensors"))
    assert replaced.calibrations == {"masked": SLOTS}
    # Earlier versions wrote one, of the masked drafter.
    config = json.loads((tmp_path / "config.json").read_text())
    config["calibration"] = config.pop("calibrations")["masked"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert ModelFolder.read(tmp_path).calibrations == {"masked": SLOTS}
    write_calibration(tmp_path, "autoregressive", CALIBRATED)
    assert ModelFolder.read(tmp_path).calibrations == {"autoregressive": CALIBRATED, "masked": SLOTS}
    assert "calibration" not in json.loads((tmp_path / "config.json").read_text())


# What is kept of a machine


ABSURD: dict[str, dict[str, dict[str, float]]] = {
    "none": {},
    "no time": {"verifier": {"1": 1e-7, "4": 1e-7, "16": 1e-7}},
    "a year": {"verifier": {"1": 1e3, "4": 1e3, "64": 1e3}},
    "upside down": {"verifier": {"1": 1.0, "4": 1e-3, "16": 1e-6}},
    "free drafts": {"verifier": {"1": 1.0}, **{f"verifier, masked {size}": {"1": 1e-7} for size in (2, 4)}},
    "dear drafts": {"verifier": {"1": 1e-7}, **{f"verifier, autoregressive {size}": {"1": 1e3} for size in (3, 12)}},
    "free trees": {"verifier": {"1": 1.0, "4": 1.0}, "verifier, autoregressive 12, 4 paths": {"1": 1e-7, "32": 1e-7}},
}
DAMAGED: dict[str, Any] = {
    "numbers": 5,
    "a list": [1, 2],
    "words": {"verifier": "fast"},
    "of earlier versions": {"verifier": {"1": 1.0}},
    "no measurement": {"verifier": {"1": []}},
    "no size": {"verifier": {"one": [1.0, 1.0]}},
    "negative": {"verifier": {"1": [-1.0, -1.0]}},
    "nothing": {"verifier": {"1": [0.0, 0.0]}},
    "not a number": {"verifier": {"1": [math.nan, math.nan]}},
    "endless": {"verifier": {"1": [math.inf, math.inf]}, "verifier, masked 4": {"1": [1e300, 1e300]}},
    "sizes": {"verifier": {"0": [1.0, 1.0], "-4": [1.0, 1.0], "1e300": [1.0, 1.0]}},
    "null": {"verifier": {"1": [None, None]}},
    "deep": {"verifier": {"1": {"1": [1.0, 1.0]}}},
}


@pytest.mark.parametrize("batch_size", [1, 5])
@pytest.mark.parametrize("name", [*ABSURD, *DAMAGED])
def test_whatever_tables_say_the_output_is_the_same(
    tiny_model: Path, sources: Sources, name: str, batch_size: int
) -> None:
    model = load_model(tiny_model)
    absurd = {kind: {at: [value] * KNOWN for at, value in each.items()} for kind, each in ABSURD.get(name, {}).items()}
    keep("costs", model.costs_key, DAMAGED.get(name, absurd))
    greedy = decode(model, sources, replace(GREEDY, scores=True))
    got = decode(model, sources, DecodingOptions(batch_size=batch_size, scores=True))
    assert_same(got, greedy)
    assert [each.score for each in got] == [each.score for each in greedy]
    beam = DecodingOptions(strategy="beam", batch_size=batch_size)
    assert tokens_of(decode(model, sources[:9], beam)) == tokens_of(
        decode(model, sources[:9], replace(beam, drafter="none"))
    )


def test_damaged_tables_are_none() -> None:
    assert all(checked(value) in ({}, {"verifier": {1.0: [1.0, 1.0]}}) for value in DAMAGED.values())
    kept = {"verifier": {"1": [9, *range(1, KNOWN + 1)], "4": [3.5]}, "x": {}, "y": {"1": "z"}}
    assert checked(kept) == {"verifier": {1.0: [1.0, 2.0, 3.0, 4.0, 5.0], 4.0: [3.5]}}  # the least


def costs_files() -> list[Path]:
    return sorted(cache_folder().glob("costs-*.json"))


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("own_folder")
def test_costs_are_kept_for_a_model_a_type_threads_and_a_processor(
    tiny_model: Path, sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(**loading: Any) -> Model:
        model = load_model(tiny_model, **loading)
        monkeypatch.setattr("specmt.decoding.policy.HOLD", 0.0)  # at once
        costs = session.make_costs(model, "verifier")
        lane = LearntPolicy([], [], costs, keep=session.keeper(model))
        for _ in range(65):  # to keep them a second time
            lane.observe(lane.choose(1, False), Ran(np.array([[0]]), np.array([[0]])), 0.25)
        return model

    key = run().costs_key
    assert len(costs_files()) == 1
    assert recall("costs", key)["verifier"]["1.0"] == NEWEST * [0.25]
    assert load_model(tiny_model).costs_key == key
    again = load_model(tiny_model)
    assert session.make_costs(again, "verifier").seconds([Call("", 1.0)]) == 0.25
    assert run(threads=3).costs_key != key
    run(dtype="float32")
    monkeypatch.setattr(hub, "processor", lambda: "another one")
    other = run()
    assert len(costs_files()) == 4
    costs_files()[0].write_text("{")
    keep("costs", other.costs_key, other.costs)  # two writers: the last one's stays, whole
    assert len(costs_files()) == 4


@pytest.mark.usefixtures("own_folder")
def test_a_short_run_keeps_costs_when_its_model_goes(tiny_model: Path) -> None:
    model = load_model(tiny_model)
    keep_costs, key = session.keeper(model), model.costs_key
    model.costs["verifier"] = {1.0: [2.0]}
    keep_costs()
    assert not costs_files()
    del model, keep_costs
    gc.collect()
    assert checked(recall("costs", key)) == {"verifier": {1.0: [2.0]}}


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"key": 1}', "[" * 100_000, "\0", '{"key": "x", "value": 1}'])
def test_a_damaged_file_is_done_without_and_written_anew(own_folder: Path, text: str) -> None:
    keep("costs", "x", {"verifier": {}})
    (path,) = costs_files()
    path.write_text(text)
    assert checked(recall("costs", "x")) == {}
    keep("costs", "x", {"verifier": {1.0: [2.0]}})
    assert checked(recall("costs", "x")) == {"verifier": {1.0: [2.0]}}
    assert recall("costs", "y") is None


@pytest.mark.parametrize("kind", ["read-only", "a file", "a folder"])
def test_where_nothing_can_be_kept_it_is_done_without(
    tiny_model: Path, sources: Sources, own_folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_model(tiny_model)
    if kind == "a file":
        (own_folder / "specmt").write_text("")
    elif kind == "a folder":
        keep("costs", model.costs_key, {})
        (path,) = costs_files()
        path.unlink()
        path.mkdir()
    else:
        own_folder.chmod(0o500)
        if os.access(own_folder, os.W_OK):  # root may write anywhere

            def refuse(*_: object, **__: object) -> None:
                raise PermissionError

            monkeypatch.setattr("specmt.files.write_whole", refuse)
    monkeypatch.setattr("specmt.decoding.policy.HOLD", 0.0)
    assert_same(decode(model, sources[:9], DecodingOptions(batch_size=2)), decode(model, sources[:9], GREEDY))
    keep("costs", model.costs_key, model.costs)
    assert recall("costs", model.costs_key) is None
    own_folder.chmod(0o700)


def test_turns_are_told_by_what_drafted(tiny_model: Path, sources: Sources) -> None:
    model = load_model(tiny_model)
    one = Session(model)
    said = [decode_in(one, sources, options) for options in (DecodingOptions(batch_size=2), GREEDY)]
    assert said[0] == said[1]
    told = one.tally
    assert {"none", "noise 3"} <= told.keys()
    assert sum(each.tokens for each in told.values()) == 2 * sum(said[0].values())
    assert all(each.turns > 0 and each.seconds > 0.0 for each in told.values())
    learnt_ways = [name for name in told if name not in ("none", "noise 3")]
    assert all(told[name].worth for name in learnt_ways)


def decode_in(session_: Session, sources: Sources, options: DecodingOptions) -> dict[int, int]:
    """Returns how many tokens sentences have."""
    from specmt.decoding.request import Request

    for key, source in enumerate(sources):
        session_.submit(Request(key, source, options=options))
    found = {}
    while len(session_):
        found |= {key: said.stats.tokens for key, said in session_.step()}
    return found


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert cached("kind", "this", lambda: [1, 2]) == [1, 2]
