"""What a benchmark measures, and what it makes of it: counts and hand-worked figures, never real seconds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from specmt.decoding import costs
from specmt.decoding.costs import TOGETHER, seconds_in_turns
from specmt.decoding.plan import Costs
from specmt.engine.backend import Drafting, Ran, Sentences, State
from specmt.engine.native import NativeVerifier
from specmt.errors import UsageError
from specmt.evaluation import bench as measuring
from specmt.evaluation import bench_timing as timing
from specmt.evaluation.acceptance import Tally
from specmt.evaluation.bench import (
    Stage,
    predict,
    random_verifier,
    run,
    signature_of,
    stages_of_calls,
    stages_of_drafting,
)
from specmt.evaluation.bench_plot import plot
from specmt.evaluation.bench_results import (
    AUTO,
    GREEDY,
    Bench,
    BenchOptions,
    block_of,
    break_even,
    default_blocks,
    describe_break_even,
    record,
    way_of,
)
from specmt.evaluation.bench_tables import tables
from specmt.evaluation.bench_timing import UNREAD, costs_of_iterations, depth, speeds_of, verifying_seconds
from specmt.evaluation.spread import spread
from specmt.models.hub import Model, load_model
from specmt.options import Calibration, DecodingOptions
from specmt.training.calibrate import calibrate

CALIBRATION = Calibration(acceptance=(0.8, 0.6, 0.3, 0.1), scale=1.0, shift=0.0)
SIGNATURE = {"model": "tiny", "dtype": "float32", "threads": 1, "processor": "none"}
TINY = BenchOptions(rows=(1, 2, 4), batch_sizes=(1, 3), block_sizes=(2, 3), repeats=2)


@pytest.fixture(autouse=True)
def little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "LEAST_SENTENCES", 4)
    monkeypatch.setattr(timing, "_BUDGET", 0.0)
    monkeypatch.setattr(costs, "SECONDS", 0.0)


class Clock:
    """Stands still unless told how long something took."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def takes(self, seconds: float, note: Callable[[], object] = lambda: None) -> Callable[[], None]:
        def call() -> None:
            note()
            self.now += seconds

        return call


@pytest.fixture
def calibrated(model: Model) -> Iterator[Model]:
    """The tiny model with a calibration."""
    folder = model.folder
    model.folder = replace(folder, calibration=CALIBRATION)
    yield model
    model.folder = folder
    model.plans.clear()


def test_calls_are_timed_in_turns_after_running_once() -> None:
    clock, order = Clock(), ""

    def note(name: str) -> None:
        nonlocal order
        order += name

    calls = [clock.takes(1.0, lambda: note("a")), clock.takes(0.25, lambda: note("b"))]
    assert seconds_in_turns(calls, least=3, most=9, budget=0.0, clock=clock) == [[1.0] * 3, [0.25] * 3]
    assert order == "ab" * 4
    # The first turn, which is not timed, counts towards the budget: 1.25, 2.5, 3.75, 5.0, and stop.
    assert list(map(len, seconds_in_turns(calls, least=1, most=9, budget=5.0, clock=clock))) == [3, 3]
    assert list(map(len, seconds_in_turns(calls, least=1, most=4, budget=99.0, clock=clock))) == [4, 4]


def test_verifier_calls_are_timed_by_rows_and_batch_size(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    timed: list[tuple[int, int, int]] = []

    def iterations(verifier: Any, drafter: costs.Constant, rows: int, count: int) -> Callable[[], object]:
        def call() -> None:
            timed.append((rows, drafter.size + 1, count))
            clock.now += count * (1.0 + 0.1 * rows * (drafter.size + 1))

        return call

    monkeypatch.setattr(timing, "iterations", iterations)
    bench = Bench(replace(TINY, rows=(4, 2, 90)), dict(SIGNATURE))
    verifier: Any = SimpleNamespace(own_threads=False, sizes=SimpleNamespace(max_length=128))
    run(bench, stages_of_calls(bench, verifier, clock=clock), lambda *_: None)
    assert bench.complete
    assert bench.verify[1] == pytest.approx({1: 1.1, 2: 1.2, 4: 1.4, 90: 10.0})
    assert bench.verify[3] == pytest.approx({1: 1.3, 2: 1.6, 4: 2.2, 90: 28.0})
    assert bench.added_row(3, 4) == pytest.approx((2.2 / 1.3 - 1) / 3)
    # One to warm up and as many as asked for, short ones several times in a row.
    assert timed.count((3, 4, TOGETHER)) == 1 + TINY.repeats
    assert timed.count((3, 90, 1)) == 1 + TINY.repeats


def test_rows_that_have_no_room_are_refused(model: Model, sources: list[list[int]]) -> None:
    bench = Bench(replace(TINY, rows=(200,)), dict(SIGNATURE))
    with pytest.raises(UsageError, match=r"`rows` must not make more than 104 rows of a sentence here, but makes 200"):
        stages_of_calls(bench, model.verifier)
    bench = Bench(replace(TINY, block_sizes=(104,)), dict(SIGNATURE))
    with pytest.raises(UsageError, match=r"`block_sizes` must not make more than 104 rows .* makes 105 instead"):
        stages_of_drafting(bench, model, sources)


def test_the_prediction_by_hand() -> None:
    seconds = Costs(verify=((1, 1.0), (3, 2.0)), draft=((1, 0.5), (2, 1.0)))
    # Tokens: 1, 1.5, 1.75. Seconds: 1, 1.5 + 0.5, 2 + 1.
    assert predict([0.5, 0.25], seconds, 4, 0.0) == pytest.approx([4.0, 3.0, 4 * 1.75 / 3])
    # The encoder takes as long as a greedy step of a sentence of four, whatever the block size.
    assert predict([0.5, 0.25], seconds, 4, 0.25) == pytest.approx([2.0, 1 / (1 / 3 + 0.25), 1 / (3 / 7 + 0.25)])
    bench = Bench(TINY, dict(SIGNATURE), predicted={4: predict([0.9, 0.8], seconds, 4, 0.0)})
    assert bench.predicted_speed_ups(4) == pytest.approx([1.0, 0.95, 0.9])
    assert bench.best_predicted(4) == 0


@pytest.mark.parametrize(
    ("ratios", "wanted", "words"),
    [
        ({1: 1.5, 2: 1.2, 4: 1.0}, None, "none up to 4"),
        ({1: 0.9, 2: 0.8}, 1.0, "already at 1"),
        ({1: 1.5, 4: 0.5}, 2.0, "2.0"),  # half of the way, by the logarithm
        ({64: 0.7, 8: 1.3, 1: 1.6}, 8 * 8**0.5, "22.6"),  # in any order
        ({1: 1.2, 2: 0.9, 4: 1.1, 16: 0.9}, 8.0, "8.0"),  # slower for good only behind the second crossing
        ({1: 0.9, 2: 1.1}, None, "none up to 2"),
        ({8: 1.0}, None, "none up to 8"),
    ],
)
def test_from_where_on_greedy_is_faster(ratios: dict[int, float], wanted: float | None, words: str) -> None:
    found = break_even(ratios)
    assert found == (None if wanted is None else pytest.approx(wanted))
    assert describe_break_even(found, list(ratios)) == words


def test_speed_ups_pair_what_ran_in_the_same_turn() -> None:
    speed = {8: {GREEDY: [100.0, 50.0, 80.0], "k=3": [150.0, 60.0, 80.0], AUTO: [200.0, 55.0, 88.0]}}
    bench = Bench(TINY, dict(SIGNATURE), speed=speed)
    ratios = bench.speed_ups(8)
    assert (ratios["k=3"].low, ratios["k=3"].median, ratios["k=3"].high) == pytest.approx((1.0, 1.2, 1.5))
    assert ratios[GREEDY] == spread([1.0])
    assert bench.best_measured(8) == 3
    assert bench.break_evens() == {"k=3": None, AUTO: None}
    bench.speed[8]["k=3"] = [90.0, 40.0, 72.0]
    assert bench.best_measured(8) == 0


def test_names_of_ways() -> None:
    assert [way_of(size) for size in (0, 1, 12)] == [GREEDY, "k=1", "k=12"]
    assert [block_of(way_of(size)) for size in (0, 1, 12)] == [0, 1, 12]
    assert default_blocks(10) == (1, 2, 3, 5, 8)
    assert default_blocks(1) == (1,)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rows": (4, 0)}, "`rows` must be at least 1, but is 0 instead."),
        ({"batch_sizes": ()}, "`batch_sizes` must name at least one number, but is empty instead."),
        ({"block_sizes": (-2,)}, "`block_sizes` must be at least 1, but is -2 instead."),
        ({"repeats": 0}, "`repeats` must be at least 1, but is 0 instead."),
        ({"drafter": "lookup"}, "`drafter` must be one of masked, autoregressive, self, but is 'lookup' instead."),
    ],
)
def test_impossible_options(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        BenchOptions(**values)
    assert str(caught.value) == message


def test_numbers_are_put_in_order_with_the_row_to_compare_with() -> None:
    options = BenchOptions(rows=(8, 2, 8), batch_sizes=(32, 1), block_sizes=(5, 2))
    assert (options.rows, options.batch_sizes, options.block_sizes) == ((1, 2, 8), (1, 32), (2, 5))


def test_acceptance_is_what_calibration_counts(model: Model, sources: list[list[int]]) -> None:
    assert model.drafter is not None
    tally = Tally()
    options = DecodingOptions(block_size=4)
    hypotheses = measuring.decode(model, sources, options, recorder=tally)
    wanted = calibrate(model.verifier, model.drafter, sources, 4).acceptance
    # Calibration also counts what is accepted where a sentence may not go on.
    assert [tally.accepted[depth] / tally.calls for depth in range(1, 5)] == pytest.approx(wanted, abs=5e-3)
    assert tally.calls == sum(hypothesis.stats.verifier_calls for hypothesis in hypotheses)


@pytest.mark.parametrize("drafter", ["masked", "autoregressive", "self"])
def test_costs_of_iterations(model: Model, sources: list[list[int]], drafter: str) -> None:
    clock = Clock()
    options = replace(TINY, drafter=drafter)
    found = costs_of_iterations(model, options, 3, sources, clock)
    largest, _ = depth(model, options)
    assert largest == {"masked": 4, "autoregressive": 5, "self": 16}[drafter]
    assert [width for width, _ in found.verify] == sorted({1, 2, *range(3, largest + 1, 3), largest + 1})
    assert [size for size, _ in found.draft] == sorted({1, 2, 3, largest})


def test_drafts_are_made_again_and_again_of_the_same(
    tiny_model: Path, sources: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_model(tiny_model, dtype="float32", kernels=False)
    assert model.drafter is not None
    read: list[list[int]] = []
    ends: list[list[int]] = []
    fill = model.drafter.fill

    def spy(tokens: Tensor, starts: Tensor, counts: Tensor, block_size: int, state: Any) -> Any:
        read.append(counts.tolist())
        ends.append((starts + counts).tolist())
        return fill(tokens, starts, counts, block_size, state)

    monkeypatch.setattr(model.drafter, "fill", spy)
    costs_of_iterations(model, TINY, 3, sources, Clock())
    sizes = 4
    whole, again = read[:sizes], read[sizes:]
    assert all(counts == ends[0] and min(counts) > UNREAD for counts in whole)
    assert len(again) >= (1 + TINY.repeats) * sizes
    assert all(counts == [UNREAD] * 3 for counts in again)
    assert all(end == ends[0] for end in ends)


@pytest.mark.usefixtures("needs_kernels")
def test_drafts_that_the_engine_makes_are_those_of_the_same(
    model: Model, sources: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    verifier = model.verifier
    assert isinstance(verifier, NativeVerifier)
    unread: list[list[int]] = []
    run = verifier.run

    def spy(state: State, sentences: Sentences, drafting: Drafting, **others: Any) -> Ran:
        if drafting.seen is not None:
            unread.append((torch.from_numpy(sentences.lengths) - drafting.seen).tolist())
        ran = run(state, sentences, drafting, **others)
        assert drafting.seen is None or (ran.windows == 0).all()
        return ran

    monkeypatch.setattr(verifier, "run", spy)
    costs_of_iterations(model, TINY, 3, sources, Clock())
    assert len(unread) >= (1 + TINY.repeats) * 4
    assert all(counts == [UNREAD] * 3 for counts in unread)


def test_ways_of_decoding_take_turns(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    asked: list[DecodingOptions] = []

    def decode(model: Model, sources: list[list[int]], options: DecodingOptions) -> None:
        asked.append(options)
        clock.now += 2.0 if options.strategy == "greedy" else 0.5

    monkeypatch.setattr(timing, "decode", decode)
    ways = {GREEDY: DecodingOptions(strategy="greedy"), "k=3": DecodingOptions(block_size=3)}
    assert speeds_of(model, [[5]] * 10, ways, 7, clock) == {GREEDY: 5.0, "k=3": 20.0}
    assert [options.batch_size for options in asked] == [7, 7]


def test_a_whole_benchmark(calibrated: Model, sources: list[list[int]], tmp_path: Path) -> None:
    bench = Bench(TINY, signature_of(calibrated.verifier, model="tiny"), text="toy", sentences=len(sources))
    stages = stages_of_calls(bench, calibrated.verifier) + stages_of_drafting(bench, calibrated, sources)
    reports: list[tuple[str, float]] = []
    run(bench, stages, lambda *report: reports.append(report))
    shares = [share for _, share in reports]
    assert shares == sorted(shares) and shares[0] == 0.0 and shares[-1] == 1.0
    assert reports[0][0] == "verifier calls, batch 1"

    found = json.loads(json.dumps(record(bench)))
    assert not found["partial"]
    keys = "partial signature load_average options text verify encode draft acceptance predicted measured break_even"
    assert list(found) == keys.split()
    assert found["signature"]["model"] == "tiny" and "torch" in found["signature"]
    assert [(each["batch_size"], each["rows"]) for each in found["verify"]] == [
        (b, r) for b in (1, 3) for r in (1, 2, 4)
    ]
    assert all(each["ms"] > 0 for each in found["verify"] + found["draft"])
    assert [each["block_size"] for each in found["draft"]] == [1, 2, 3, 4] * 2
    assert [each["batch_size"] for each in found["encode"]] == [1, 3]
    assert found["text"]["tokens"] >= found["text"]["sentences"] == len(sources)
    assert found["acceptance"]["calibrated"] == list(CALIBRATION.acceptance)
    assert len(found["acceptance"]["measured"]) == 4
    for each in found["predicted"]:
        assert each["speed_up"][0] == 1.0 and len(each["tokens_per_second"]) == 5
        assert 0 <= each["best_block_size_by_calibration"] <= 4
    for each in found["measured"]:
        assert list(each["ways"]) == [GREEDY, "k=2", "k=3", AUTO]
        assert all(len(way["sentences_per_second"]) == TINY.repeats for way in each["ways"].values())
        low, high = each["ways"]["k=2"]["speed_up_range"]
        assert low <= each["ways"]["k=2"]["speed_up"] <= high
        assert each["best_block_size"] in (0, 2, 3)
    assert list(found["break_even"]) == ["k=2", "k=3", AUTO, "predicted"]

    shown = tables(bench)
    assert len(shown) == 7
    for table in shown:
        assert {len(row) for row in table.rows} == {len(table.columns)}, table.title
    plot(bench, tmp_path / "whole.png")
    assert (tmp_path / "whole.png").read_bytes().startswith(b"\x89PNG")


def test_what_is_there_is_shown_after_every_stage(calibrated: Model, sources: list[list[int]], tmp_path: Path) -> None:
    """An interrupt may come in any stage."""
    options = replace(TINY, batch_sizes=(1, 2), repeats=1)
    bench = Bench(options, dict(SIGNATURE), text="toy", sentences=3)
    stages = stages_of_calls(bench, calibrated.verifier) + stages_of_drafting(bench, calibrated, sources[4:7])
    counts = [len(tables(bench))]
    plot(bench, tmp_path / "nothing.png")

    def interrupt() -> None:
        raise KeyboardInterrupt

    for stage in stages:
        with pytest.raises(KeyboardInterrupt):
            run(bench, [stage, Stage("interrupted", 1.0, interrupt)], lambda *_: None)
        assert record(bench)["partial"]
        counts.append(len(tables(bench)))
    #       calls: 1  2  acceptance, drafts: 1  2  decoding, warming up, 1, warming up, 2
    assert counts == [0, 2, 2, 3, 6, 6, 6, 7, 7, 7]
    plot(bench, tmp_path / "partial.svg")
    assert "partial" in (tmp_path / "partial.svg").read_text(encoding="utf-8")


def test_other_drafters_have_no_automatic_block_size(calibrated: Model, sources: list[list[int]]) -> None:
    options = BenchOptions(drafter="autoregressive", rows=(1,), batch_sizes=(2,), repeats=1)
    bench = Bench(options, dict(SIGNATURE), text="toy", sentences=3)
    run(bench, stages_of_drafting(bench, calibrated, sources[4:7]), lambda *_: None)
    assert list(bench.speed[2]) == [GREEDY, "k=1", "k=2", "k=3", "k=5"]
    assert len(bench.predicted[2]) == 6
    assert not bench.calibrated and not bench.expected


def test_random_weights_of_an_architecture() -> None:
    verifier = random_verifier("small", device="cpu", dtype="float32", threads=1)
    seconds = verifying_seconds(verifier, BenchOptions(rows=(1, 2), repeats=1), 1, Clock())
    assert list(seconds) == [1, 2]
    with pytest.raises(UsageError, match="`arch` must be one of small, base, but is 'huge' instead"):
        random_verifier("huge", device="cpu", dtype="float32", threads=1)
