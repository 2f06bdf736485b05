"""What a benchmark measures, and what it makes of it: counts and hand-worked figures, never real seconds."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from specmt.engine.window import Window
from specmt.errors import UsageError
from specmt.evaluation import bench as measuring
from specmt.evaluation.bench import AUTO, GREEDY, GROUP, TREE, Bench, BenchOptions, call_seconds, measure
from specmt.evaluation.bench_report import draw, tables
from specmt.evaluation.payoff import advice, best_block_size, measure_payoff
from specmt.evaluation.timing import Spread, median_seconds, ratios, spread
from specmt.models.hub import Model

SIGNATURE: dict[str, object] = {"model": "tiny", "dtype": "float32", "processor": "none"}
TINY = BenchOptions(rows=(1, 2, 4), batch_sizes=(1, 3), block_sizes=(2, 3), sentences=4, repeats=2)
TEXTS = ["Das Haus ist klein.", "Ja.", "Der Hund und die Katze.", "Wo ist es?", "Nein, danke."]
WAYS = [GREEDY, "k=2", "k=3", TREE, AUTO]


@pytest.fixture(autouse=True)
def little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "BUDGET", 0.0)


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


def bench_of(speeds: dict[int, dict[str, list[float]]] | None = None) -> Bench:
    return Bench(TINY, dict(SIGNATURE), text="toy", sentences=3, load_average=0.1, speeds=speeds or {})


def test_calls_are_timed_in_turns_after_running_once() -> None:
    clock, order = Clock(), []
    calls = [clock.takes(1.0, lambda: order.append("a")), clock.takes(0.25, lambda: order.append("b"))]
    assert median_seconds(calls, repeats=3, budget=0.0, clock=clock) == [1.0, 0.25]
    assert order == ["a", "b"] * 4
    order.clear()
    median_seconds(calls, repeats=1, budget=5.0, clock=clock)
    assert order == ["a", "b"] * 5  # the last turn begins before five seconds have passed


def test_spreads_and_ratios_are_taken_repeat_by_repeat() -> None:
    assert ratios([2.0, 6.0], [1.0, 2.0]) == [2.0, 3.0]
    assert spread([3.0, 1.0, 9.0]) == Spread(3.0, 1.0, 9.0)
    assert spread([]) is None


def test_verifier_calls_score_rows_after_a_committed_prefix(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[tuple[int, ...], list[int]]] = []
    score = type(model.verifier).score

    def spy(verifier: Any, window: Window, state: Any) -> Any:
        seen.append((window.tokens.shape, window.starts.tolist()))
        return score(verifier, window, state)

    monkeypatch.setattr(type(model.verifier), "score", spy)
    assert list(call_seconds(model, TINY, 3)) == [1, 2, 4]
    first, *calls = seen
    assert first == ((3, measuring.LENGTH), [0] * 3)
    assert {starts[0] for _, starts in calls} == {measuring.LENGTH}
    assert [shape for shape, _ in calls] == [(3, 1), (3, 2), (3, 4)] * (TINY.repeats + 1)


@pytest.mark.parametrize("values", [{"rows": (1, 200)}, {"block_sizes": (104,)}])
def test_rows_that_have_no_room_are_refused(model: Model, values: dict[str, Any]) -> None:
    bench = Bench(BenchOptions(**values), dict(SIGNATURE), text="toy", sentences=1)
    with pytest.raises(UsageError, match=r"must not make more than 104 rows of a sentence here"):
        measure(bench, model, ["Haus"])


def test_figures_by_hand() -> None:
    bench = bench_of({8: {GREEDY: [100.0, 50.0, 80.0], "k=2": [150.0, 60.0, 80.0], AUTO: [200.0, 55.0, 88.0]}})
    bench.calls = {8: {1: 1.0, 2: 1.25, 4: 1.75}}
    assert bench.added_row(8) == 0.25
    assert bench.speed_ups(8) == {GREEDY: Spread(1, 1, 1), "k=2": Spread(1.2, 1.0, 1.5), AUTO: Spread(1.1, 1.1, 2.0)}
    assert (bench.fastest(8), bench.fastest(8, fixed=True)) == ("k=2", "k=2")
    bench.speeds[8]["k=2"] = [90.0, 40.0, 72.0]
    assert (bench.fastest(8), bench.fastest(8, fixed=True)) == (AUTO, "k=2")
    calls, speeds = tables(bench)
    assert calls.rows[-1] == ("added row", "0.250")
    assert speeds.rows == [("8", "80.0", "0.90 ±0.05", "1.10 ±0.45", AUTO)]


def test_a_whole_benchmark(model: Model) -> None:
    bench, steps = bench_of(), list[tuple[str, float]]()
    measure(bench, model, TEXTS, report=lambda *step: steps.append(step))
    shares = [share for _, share in steps]
    assert shares == sorted(shares) and shares[0] == 0.0 and shares[-1] == 1.0
    assert steps[0][0] == "verifier calls, batch 1" and steps[-1][0] == "decoding, batch 3"

    found = json.loads(json.dumps(bench.record()))
    assert found["partial"] is False
    assert list(found["calls"]) == ["1", "3"] and list(found["calls"]["3"]) == ["1", "2", "4"]
    for size in ("1", "3"):
        assert list(found["speeds"][size]) == WAYS
        assert all(len(values) == TINY.repeats for values in found["speeds"][size].values())
    assert found["costs"]["verifier"] and "masked" in found["survival"]
    assert len(tables(bench)) == 4
    for table in tables(bench):
        assert {len(row) for row in table.rows} == {len(table.columns)}, table.title
    assert draw(bench, "png").startswith(b"\x89PNG")


@pytest.mark.parametrize(("after", "repeats"), [(0, None), (1, None), (10, None), (11, 1), (15, 1), (16, 2)])
def test_an_interrupt_leaves_all_ways_with_as_many_repeats(model: Model, after: int, repeats: int | None) -> None:
    """It may come after any translation of one of the five ways: first a warm-up, then two repeats."""
    bench, done = bench_of(), list[str]()

    def report(step: str, share: float) -> None:
        done.append(step)
        if len(done) == 3 + after:  # two of calls, and one before the first batch size
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(bench, model, TEXTS, report=report)
    assert bench.record()["partial"] and len(bench.calls) == 2
    found = {len(values) for ways in bench.speeds.values() for values in ways.values()}
    assert found == ({repeats} if repeats else set())
    assert len(tables(bench)) == (2 if repeats else 1)
    if after == 11:  # a picture takes longer than all else
        assert b"partial" in draw(bench, "svg")


def test_a_picture_of_nothing_is_one() -> None:
    assert draw(bench_of(), "png").startswith(b"\x89PNG")


def test_the_first_pass_takes_as_many_lines_as_there_is_time_for(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others take the same, and a batch size that is larger takes a batch at least."""
    seen: list[int] = []
    take = Bench.take
    monkeypatch.setattr(Bench, "take", lambda bench, size, run: (seen.append(run.lines), take(bench, size, run))[1])
    bench = bench_of()
    bench.options = replace(TINY, sentences=2 * GROUP, batch_sizes=(1, GROUP + 1))
    measure(bench, model, TEXTS, seconds_a_pass=0.0)
    assert seen == [GROUP, GROUP + 1]
    assert all(len(values) == TINY.repeats for ways in bench.speeds.values() for values in ways.values())


def test_acceptance_is_told_below_the_speeds() -> None:
    bench = bench_of({8: {way: [1.0] for way in WAYS}})
    bench.acceptance = [0.75, 0.25]
    assert "Calls that accept at least 1, 2, … of 3 drafted tokens: 0.75, 0.25." in tables(bench)[0].notes


def test_the_payoff_of_a_drafter(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specmt.evaluation.payoff.OPTIONS", TINY)
    steps: list[str] = []
    bench = measure_payoff(model, TEXTS[:3], report=lambda step, share: steps.append(step))
    assert bench.options.sentences == 3 and steps[0] == "verifier calls, batch 1"
    assert best_block_size(bench) in TINY.block_sizes

    def advice_at(chain: float, tree: float) -> str:
        return advice(bench_of({1: {GREEDY: [10.0], "k=2": [10 * chain], TREE: [10 * tree], AUTO: [10.0]}}))

    assert "`--tree best-first`" in advice_at(1.5, 1.9)
    assert "as fast" in advice_at(1.5, 1.51)
    assert "does not pay here yet" in advice_at(0.99, 1.0)
