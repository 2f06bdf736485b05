"""The verifier drafts for itself: a replica in a cheaper type over the verifier's caches, drafted for in turn."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from specmt.decoding import session
from specmt.decoding.drafters.base import NO_DRAFT, Arm, Plan
from specmt.decoding.policy import FixedPolicy, Policy
from specmt.decoding.request import Request
from specmt.decoding.session import decode
from specmt.engine.fused import Confidence, Drafting, Sentences
from specmt.engine.kernels import backend as backend_module
from specmt.engine.kernels.decoder import KernelReplica
from specmt.engine.kernels.mapping import pack_or_map
from specmt.engine.kernels.packing import pack_replica
from specmt.engine.kernels.verifier import KernelVerifier
from specmt.engine.weights import floats
from specmt.models.folder import VERIFIER
from specmt.models.hub import Model, load_model, verifier_sizes
from specmt.options import DecodingOptions
from specmt.types import BOS, Hypothesis
from tests.decoding_helpers import (
    NotFused,
    assert_same,
    counts,
    has_ended,
    sources_for,
    total_of,
    with_doubts,
)

pytestmark = pytest.mark.usefixtures("needs_kernels")

GREEDY = DecodingOptions(strategy="greedy", batch_size=7)
DOUBTS = {"all": None, "far": Confidence(1.0, 0.0, 0.05, 0.2), "near": Confidence(1.1, 2.0, 0.3, 0.6)}


@pytest.fixture(params=["bfloat16 by codes", "bfloat16 by int8", "int8 by codes"])
def staged(tiny_model: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Model:
    """A model with a replica."""
    verifier, _, kind = request.param.partition(" by ")
    if kind == "codes":
        monkeypatch.setattr(backend_module, "NARROW", 0)  # as wide ones are
    model = load_model(tiny_model, dtype=verifier)
    assert format_of(model) == kind
    return model


def format_of(model: Model) -> str:
    """Returns that of the replica."""
    assert isinstance(model.replica, KernelReplica)
    return model.replica.format


def replica_of(model: Model, noise: float, format: str) -> KernelReplica:
    """Returns a replica of a verifier whose weights are off by some noise, in standard deviations of theirs."""
    random = np.random.default_rng(6)
    weights = {name: floats(each) for name, each in model.folder.weights(VERIFIER).items()}
    wrong = {
        name: (each + noise * each.std() * random.standard_normal(each.shape)).astype(np.float32)
        for name, each in weights.items()
    }
    sizes = verifier_sizes(model.folder.verifier)
    packed = pack_or_map(wrong, "a test", lambda given: pack_replica(given, sizes, format))
    return KernelReplica(packed, sizes, format)


@pytest.mark.crossed("staged", "doubt", "batch_size", "alone", every=3)
@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("batch_size", [1, 3, 33])
@pytest.mark.parametrize("doubt", DOUBTS)
def test_both_loops_draft_and_say_the_same(
    staged: Model,
    sources: list[list[int]],
    batch_size: int,
    doubt: str,
    alone: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "make_policy", with_doubts(DOUBTS[doubt]))
    if alone:
        staged.folder = replace(staged.folder, autoregressive=None)
    # The last source is long: caches have to grow on the way.
    sources = [*sources[::2], (sources[0] * 40)[:45]]
    options = DecodingOptions(drafter="self", block_size=6, batch_size=batch_size)
    fused = decode(staged, sources, options)
    greedy = decode(staged, sources, GREEDY)
    assert_same(fused, greedy)
    most = 0.5 if doubt == "all" else 0.9
    assert total_of(fused).verifier_calls < most * total_of(greedy).verifier_calls
    monkeypatch.setattr(session, "FusedLoop", NotFused)
    in_python = decode(staged, sources, options)
    for h in (*fused, *in_python):
        if not has_ended(h):  # there, drafts go on behind the limit that the fused loop knows
            h.stats.drafted = 0
    assert counts(in_python) == counts(fused)


@pytest.mark.crossed("staged", "noise", "block_size", every=3)
@pytest.mark.parametrize("noise", [0.05, 0.5, 50.0])
@pytest.mark.parametrize("block_size", [1, 7, 25])
def test_whatever_the_replica_says_the_output_is_the_verifiers(
    staged: Model, sources: list[list[int]], noise: float, block_size: int
) -> None:
    staged.__dict__["replica"] = replica_of(staged, noise, format_of(staged))
    greedy = decode(staged, sources, replace(GREEDY, scores=True))
    drafted = decode(staged, sources, DecodingOptions(drafter="self", block_size=block_size, batch_size=5, scores=True))
    assert_same(drafted, greedy)
    assert [h.score for h in drafted] == [h.score for h in greedy]
    assert total_of(drafted).verifier_calls <= total_of(greedy).verifier_calls
    if noise == 50.0:
        assert total_of(drafted).accepted < 0.1 * total_of(drafted).drafted


class Fickle(Policy):
    """Chooses among some arms at random, a little at a time."""

    def __init__(self, plans: list[Plan]) -> None:
        self.plans = plans
        self.random = random.Random(3)

    @override
    def choose(self, rows: int, promising: bool, waiting: int = 0) -> Plan:
        return self.random.choice(self.plans)


@pytest.mark.parametrize("batch_size", [1, 7])
@pytest.mark.parametrize("fused", [True, False])
def test_taking_turns_with_others_changes_nothing(
    staged: Model, sources: list[list[int]], batch_size: int, fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert staged.drafters == ("masked", "autoregressive", "self")
    greedy = decode(staged, sources, GREEDY)
    arms = [NO_DRAFT, Arm(0, 4), Arm(1, 5), Arm(1, 5, 4, 11), Arm(2, 8), Arm(2, 3)]
    plans = [Plan(arm, confidence=Confidence(1.0, 0.0, 0.05, 0.1 * arm.drafter), iterations=2) for arm in arms]
    monkeypatch.setattr(session, "make_policy", lambda *_: Fickle(plans))
    if not fused:
        monkeypatch.setattr(session, "FusedLoop", NotFused)
    got = decode(staged, sources, DecodingOptions(batch_size=batch_size))
    assert_same(got, greedy)
    assert total_of(got).accepted > 0


@pytest.mark.parametrize("fused", [True, False])
def test_caches_grow_while_drafts_are_made(
    staged: Model, sources: list[list[int]], fused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sentences come while others are decoded."""

    def one_at_a_time(model: Model, options: DecodingOptions, choice: object, drafters: list[object]) -> Policy:
        return Fickle([Plan(Arm(0, 2) if drafters else NO_DRAFT, iterations=1)])

    monkeypatch.setattr(session, "make_policy", one_at_a_time)
    if not fused:
        monkeypatch.setattr(session, "FusedLoop", NotFused)
    some = sorted(sources, key=len)[-14:]
    lane, found = session.Session(staged), dict[int, Hypothesis]()
    options = DecodingOptions(drafter="self", block_size=2, batch_size=33)
    for number, source in enumerate(some):
        lane.submit(Request(number, source, options=options))
        if number in (0, 3, 7):
            found |= lane.step()
    assert len(lane) > 8
    while len(lane):
        found |= lane.step()
    got = [found[number] for number in range(len(some))]
    greedy = decode(staged, some, GREEDY)
    assert_same(got, greedy)
    assert total_of(got).verifier_calls < 0.6 * total_of(greedy).verifier_calls


def test_nothing_is_packed_before_it_drafts(tiny_model: Path, sources: list[list[int]]) -> None:
    model = load_model(tiny_model, dtype="bfloat16")
    lane = session.Session(model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "make_policy", lambda *_: FixedPolicy(NO_DRAFT))
        decode(model, sources[:3], DecodingOptions())
    assert "replica" not in model.__dict__ and len(lane) == 0
    decode(model, sources[:3], DecodingOptions(drafter="self"))
    assert "replica" in model.__dict__


@pytest.mark.parametrize(
    ("fused", "error"),
    [
        (True, MemoryError()),
        (False, RuntimeError("DefaultCPUAllocator: can't allocate memory")),
        (False, MemoryError()),
    ],
    ids=str,
)
def test_where_memory_is_too_small_for_it_the_verifier_goes_on_alone(
    tiny_model: Path,
    sources: list[list[int]],
    fused: bool,
    error: Exception,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = load_model(tiny_model, dtype="bfloat16")
    greedy = decode(model, sources, GREEDY)
    if not fused:
        monkeypatch.setattr(session, "FusedLoop", NotFused)

    def fail(*_: object) -> KernelReplica:
        raise error

    monkeypatch.setattr(model.backend, "replica", fail)
    drafted = decode(model, sources, DecodingOptions(drafter="self"))
    assert_same(drafted, greedy)
    assert total_of(drafted).drafted == 0
    assert caplog.text.count("too small for the verifier's replica") == 1


def test_who_has_a_replica(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    costs: dict[tuple[str, int], float | None] = {}
    for narrow in (0, 320):
        monkeypatch.setattr(backend_module, "NARROW", narrow)
        for dtype in ("float32", "bfloat16", "int8"):
            model = load_model(tiny_model, dtype=dtype)
            costs[dtype, narrow] = model.share("self") if "self" in model.drafters else None
        assert "self" not in load_model(tiny_model, kernels=False, dtype="bfloat16").drafters
    # Keys and values in float32 are none for others; int8 is no cheaper than int8.
    assert costs["float32", 0] is costs["float32", 320] is costs["int8", 320] is None
    codes, eight, of_int8 = costs["bfloat16", 0], costs["bfloat16", 320], costs["int8", 0]
    assert codes is not None and eight is not None and of_int8 is not None
    assert codes == pytest.approx(eight / 2) and 0.2 < codes < 0.35 < of_int8 < 0.6


@pytest.mark.crossed("kernels", "alone", "fused")
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("alone", [True, False])
def test_where_no_format_is_cheaper_the_verifier_drafts_for_itself(
    tiny_model: Path,
    sources: list[list[int]],
    kernels: bool,
    alone: bool,
    fused: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Over its own caches: what it drafts is always right."""
    model = load_model(tiny_model, device="cpu", dtype="float32", kernels=kernels)
    assert model.replica is model.verifier
    if alone:
        model.folder = replace(model.folder, autoregressive=None)
    if not fused:
        monkeypatch.setattr(session, "FusedLoop", NotFused)
    sources = sources_for(model, sources)
    greedy = decode(model, sources, GREEDY)
    for batch_size in (1, 5):
        drafted = decode(model, sources, DecodingOptions(drafter="self", block_size=8, batch_size=batch_size))
        assert_same(drafted, greedy)
        assert all(h.stats.verifier_calls == -(-h.stats.tokens // 9) for h in drafted)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda d, model: d._replace(nodes=4), "chains"),
        (lambda d, model: d._replace(block_size=5000), "look ahead"),
        (lambda d, model: d._replace(stage=Drafting(5000)), "look ahead"),
        (lambda d, model: d._replace(stage=d), "two stages"),
        (lambda d, model: d._replace(network=model.network("masked")), "a decoder on the kernels"),
        (lambda d, model: d._replace(network=model.network("autoregressive")), "like the verifier"),
        (lambda d, model: d._replace(network=load_model(model.path, dtype="float32").verifier), "like the verifier"),
        (lambda d, model: d._replace(state=None), "the verifier's caches"),
        (lambda d, model: d._replace(state=model.verifier.new_state(1)), "uses its caches"),
        (lambda d, model: d._replace(state=replace(d.state, cross=model.verifier.new_state(1).cross)), "its caches"),
    ],
)
def test_what_cannot_be_run_is_refused(
    staged: Model, sources: list[list[int]], change: Callable[[Drafting, Any], Drafting], error: str
) -> None:
    assert isinstance(staged.verifier, KernelVerifier)
    state = staged.verifier.new_state(1)
    staged.verifier.start(state, np.array([0]), staged.verifier.encode(sources[:1]))
    drafting = change(Drafting(5, staged.replica, state, stage=Drafting(0)), staged)
    sentences = Sentences(np.full((1, 64), BOS), np.ones(1, dtype=np.int64), np.array([9]))
    with pytest.raises((ValueError, TypeError), match=error):
        staged.verifier.run(state, sentences, drafting, iterations=5, enough=1)
    assert sentences.lengths.tolist() == [1]
