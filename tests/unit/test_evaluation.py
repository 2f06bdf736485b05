"""Evaluation: strategies by name, test sets, timing in turn, scores and what is made of them."""

from __future__ import annotations

import io
import json
import math
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from sacrebleu.dataset import DATASETS

from specmt.errors import InputNotFoundError, UsageError
from specmt.evaluation.machine import describe_machine, format_signature
from specmt.evaluation.plot import draw
from specmt.evaluation.quality import loops, score
from specmt.evaluation.report import Files, markdown, notes, signatures, tables
from specmt.evaluation.results import Evaluation, Measured, Result, acceptance
from specmt.evaluation.runs import Run, Translate, groups_of, measure, sample
from specmt.evaluation.sets import EvaluationSet, SetFiles, named_set, parse_set, read_set
from specmt.evaluation.strategies import Strategy, baseline_of, parse_strategies
from specmt.evaluation.tables import Table
from specmt.options import DecodingOptions
from specmt.types import Line, Stats, Translation


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("greedy", {"strategy": "greedy"}),
        ("speculative", {}),
        ("speculative:8", {"block_size": 8}),
        ("speculative:auto", {"block_size": None}),
        ("tolerant", {"beta": 3, "tolerance": 1.0}),
        ("tolerant:5:3", {"beta": 5, "tolerance": 3.0}),
        ("tolerant:5:3:block-size=25", {"beta": 5, "tolerance": 3.0, "block_size": 25}),
        ("beam", {"strategy": "beam"}),
        ("beam:4:0.6", {"strategy": "beam", "beam_size": 4, "length_penalty": 0.6}),
        (
            "speculative:drafter=masked+lookup:tree=best-first:nodes=16:memory=old.tsv",
            {"drafter": "masked+lookup", "tree": "best-first", "nodes": 16, "memory": Path("old.tsv")},
        ),
        ("greedy:temperature=0.5:top_k=3:seed=7", {"strategy": "greedy", "temperature": 0.5, "top_k": 3, "seed": 7}),
        ("greedy:batch-size=1", {"strategy": "greedy", "batch_size": 1}),
        ("greedy:protect=false", {"strategy": "greedy", "protect": False}),
    ],
)
def test_a_strategy_says_how_to_decode(text: str, options: dict[str, Any]) -> None:
    expected = DecodingOptions(**{"batch_size": 16, **options})
    assert parse_strategies(text, batch_size=16) == [Strategy(text, expected)]
    assert parse_strategies(f"x={text}", batch_size=16) == [Strategy("x", expected)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "greedy,speculativ",
            "`strategies` must name greedy, speculative, tolerant, beam, but has 'speculativ' instead.",
        ),
        ("", "but has '' instead."),
        ("greedy,", "but has '' instead."),
        ("greedy,greedy", "`strategies` must differ, but 'greedy' is named 2 times."),
        ("a=greedy,a=beam", "`strategies` must differ, but 'a' is named 2 times."),
        ("greedy:5", "strategy 'greedy:5': '5' must be KEY=VALUE"),
        ("tolerant:3:1:2", "strategy 'tolerant:3:1:2': '2' must be KEY=VALUE"),
        ("speculative:trees=chain", "'trees=chain' must be KEY=VALUE, with a key of drafter, tree,"),
        ("speculative:strategy=beam", "'strategy=beam' must be KEY=VALUE"),
        ("tolerant:x:1", "strategy 'tolerant:x:1': `beta` must be a number, but is 'x' instead."),
        ("greedy:protect=no", "`protect` must be true or false, but is 'no' instead."),
        ("beam:5:x", "`length_penalty` must be a number, but is 'x' instead."),
        ("speculative:0", "strategy 'speculative:0': `block_size` must be at least 1, but is 0 instead."),
        ("speculative:tree=bush", "`tree` must be one of"),
        ("tolerant:drafter=self", "`tolerance` must be 0 with the drafter self"),
    ],
)
def test_impossible_strategies_are_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_strategies(text)
    assert message in str(error.value)


def test_the_baseline_is_greedy_or_the_first() -> None:
    for text, baseline in (
        ("beam,greedy", "greedy"),
        ("beam,speculative", "beam"),
        ("beam,greedy:temperature=1", "beam"),
    ):
        assert baseline_of(parse_strategies(text)).label == baseline


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("a/news.de:a/news.en", SetFiles("news", Path("a/news.de"), [Path("a/news.en")])),
        ("a.b.de.gz:x:y", SetFiles("a.b", Path("a.b.de.gz"), [Path("x"), Path("y")])),
        ("talks=a=b.de:b.en", SetFiles("talks", Path("a=b.de"), [Path("b.en")])),
    ],
)
def test_a_set_is_a_source_and_references(text: str, files: SetFiles) -> None:
    assert parse_set(text) == files


@pytest.mark.parametrize("text", ["", "a.de", "a.de:", ":a.en", "x=a.de", "a.de::a.en"])
def test_a_set_without_one_of_them_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="`set` must be"):
        parse_set(text)


def test_sets_are_read_by_the_line_contract(tmp_path: Path) -> None:
    source, one, other = (tmp_path / name for name in ("a.de", "a.en", "b.en"))
    source.write_bytes("\ufeffeins\u2028\r\n\nzwei".encode())
    one.write_bytes(b"one\n\ntwo\n")
    other.write_bytes(b"1\n\n2")
    found = read_set(SetFiles("a", source, [one, other]))
    assert [(line.index, line.text) for line in found.lines] == [(0, "eins\u2028"), (1, ""), (2, "zwei")]
    assert found.references == [["one", "", "two"], ["1", "", "2"]]
    assert read_set(SetFiles("a", source, [one]), limit=1).references == [["one"]]


def test_named_sets_are_those_of_sacrebleu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_outdir", "_rawdir"):
        monkeypatch.setattr(DATASETS["wmt14"], name, str(tmp_path))

    def refuse(*_: object) -> None:
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    with pytest.raises(InputNotFoundError, match=r"wmt14: is not on this machine, .* no network"):
        named_set("wmt14", "de-en")
    for field in ("src", "ref", "docid", "genre", "origlang"):
        (tmp_path / f"wmt14.de-en.{field}").write_text(f"{field}\n")
    found = read_set(named_set("wmt14", "de-en"))
    assert found == EvaluationSet("wmt14.de-en", [Line(0, "src")], [["ref"]])


class Machine:
    """Translates by upper case, at a pace that depends on the strategy and gets slower with every call."""

    def __init__(self, drift: float = 0.0, interrupt_at: int | None = None) -> None:
        self.now = 0.0
        self.drift = drift
        self.interrupt_at = interrupt_at
        self.calls: list[tuple[str, int]] = []
        self.starts = 0

    def clock(self) -> float:
        return self.now

    def rest(self, seconds: float) -> None:
        self.now += seconds  # not timed either

    def start(self, options: DecodingOptions) -> Translate:
        self.starts += 1
        self.now += 1e6  # getting ready is not timed

        def translate(lines: Sequence[Line]) -> list[Translation]:
            if len(self.calls) == self.interrupt_at:
                raise KeyboardInterrupt
            self.calls.append((options.strategy, lines[0].index))
            pace = {"greedy": 2.0, "speculative": 1.0, "beam": 10.0}[options.strategy]
            slower = 1 + self.drift * len(self.calls)
            self.now += pace * sum(len(line.text) for line in lines) * slower
            stats = Stats(
                lines=1, sentences=1, tokens=4, verifier_calls=2, drafted=2, accepted=1, accepted_counts=[1, 1]
            )
            return [Translation(line, self.translation(options, line), stats=stats) for line in lines]

        return translate

    @staticmethod
    def translation(options: DecodingOptions, line: Line) -> str:
        return line.text.upper() if options.lossless else line.text[::-1]


TEXTS = ["ein haus und noch ein haus", "", "zwei hunde laufen über die straße", "drei", "vier katzen schlafen hier"]
LINES = [Line(index, text) for index, text in enumerate(TEXTS)]
THREE = parse_strategies("speculative:8,greedy,beam")


def results_of(measured: Measured) -> list[Result]:
    return [measured.result(strategy.label, "greedy") for strategy in measured.batched.strategies]


def measured_of(machine: Machine, strategies: Sequence[Strategy] = THREE, repeats: int = 2) -> Measured:
    single = Run([replace(s, options=replace(s.options, batch_size=1)) for s in strategies], sample(LINES, 3))
    measured = Measured(
        EvaluationSet("toy", LINES, [[text.upper() for text in TEXTS]]), Run(strategies, groups_of(LINES, 2)), single
    )
    for run in (measured.batched, measured.single):
        measure(run, machine.start, repeats, clock=machine.clock, rest=machine.rest)
    return measured


def test_strategies_take_turns_and_the_first_pass_is_not_timed() -> None:
    machine = Machine()
    reported: list[int] = []
    run = Run(THREE, groups_of(LINES, 2))
    measure(run, machine.start, 2, clock=machine.clock, rest=machine.rest, report=reported.append)
    assert machine.starts == 3 * 3  # nothing is remembered from pass to pass
    turns = [machine.calls[i : i + 3] for i in range(0, len(machine.calls), 3)]
    assert [{place for _, place in turn} for turn in turns] == [{0}, {2}, {4}] * 3
    assert all(len({name for name, _ in turn}) == 3 for turn in turns)
    assert sum(reported) == 3 * 3 * len(LINES)
    lengths = [sum(len(line.text) for line in group) for group in run.groups]
    assert run.times("greedy") == [[2.0 * length for length in lengths]] * 2
    assert run.times("beam") == [[10.0 * length for length in lengths]] * 2


def test_figures_are_those_of_the_clock() -> None:
    fast, greedy, _ = results_of(measured_of(Machine()))
    length = sum(map(len, TEXTS))
    assert fast.batched.seconds == [length, length]
    assert fast.batched.speed_up is not None
    assert fast.batched.speed_up.median == fast.batched.speed_up.low == 2.0
    assert greedy.batched.speed_up is None
    assert greedy.batched.sentences_per_second is not None
    assert greedy.batched.sentences_per_second.median == 5 / (2 * length)
    assert (fast.batched.mean_accepted_length, fast.batched.verifier_calls) == (2.0, 2 * len(LINES))
    assert fast.latency_lines == [0, 2, 3]
    assert fast.latencies == [[len(TEXTS[0]), len(TEXTS[2]), len(TEXTS[3])]] * 2
    assert fast.latency["p50"] == len(TEXTS[0])
    assert fast.single is not None and fast.single.batch_size == 1
    assert fast.same == greedy.same == 1.0


def test_a_machine_that_slows_down_hits_all_alike() -> None:
    """One strategy after the other, the last one would look half as fast as it is."""
    machine = Machine(drift=0.02)
    fast, *_ = results_of(measured_of(machine, repeats=3))
    assert fast.batched.speed_up is not None
    assert fast.batched.speed_up.median == pytest.approx(2.0, rel=0.05)
    assert fast.batched.seconds[-1] > 1.15 * fast.batched.seconds[0]


@pytest.mark.parametrize("call", range(27))
def test_an_interrupt_at_any_call_leaves_all_with_as_much(call: int) -> None:
    machine = Machine(interrupt_at=call)
    run = Run(THREE, groups_of(LINES, 2))
    with pytest.raises(KeyboardInterrupt):
        measure(run, machine.start, 2, clock=machine.clock, rest=machine.rest)
    assert len(run.translated) == min(3, call // 3)
    assert run.lines == min(len(LINES), 2 * (call // 3))
    for label in ("greedy", "beam"):
        assert sum(map(len, run.times(label))) == max(0, call // 3 - 3)
    measured = Measured(EvaluationSet("toy", LINES, [TEXTS]), run, Run(THREE, []))
    assert len(measured.references[0]) == run.lines
    if call >= 12:
        fast = measured.result("speculative:8", "greedy").batched
        assert fast.speed_up is not None and fast.speed_up.median == 2.0


def test_samples_are_spread_evenly_and_never_blank() -> None:
    lines = [Line(index, "x" if index % 2 else " ") for index in range(100)]
    assert [line.index for (line,) in sample(lines, 5)] == [1, 21, 41, 61, 81]
    assert len(sample(lines, 80)) == 50
    assert sample(lines[:1], 5) == []


def test_acceptance_by_position_is_what_the_statistics_counted() -> None:
    """Of four calls one accepted nothing, two accepted a token and one accepted three."""
    assert acceptance(Stats(accepted_counts=[1, 2, 0, 1])) == [0.75, 0.25, 0.25]
    for counts in ([], [3], [0, 0]):
        assert acceptance(Stats(accepted_counts=counts)) == []


def test_no_strategy_always_comes_after_the_same() -> None:
    machine = Machine()
    many = [[Line(number, "ein haus")] for number in range(60)]
    measure(Run(THREE, many), machine.start, 0, clock=machine.clock, rest=machine.rest)
    names = [name for name, _ in machine.calls]
    turns = [names[i : i + 3] for i in range(0, len(names), 3)]
    after = Counter(pair for turn in turns for pair in pairwise(turn))
    assert len(after) == 6
    assert min(after.values()) > 10
    assert min(Counter(turn[0] for turn in turns).values()) > 10


HYPOTHESES = {
    "greedy": ["the cat sat on the mat .", "it rains today in the city", "we see a big house", "good morning to you"],
    "speculative:8": [
        "the cat sat on the mat . ",
        "it rains today in the city",
        "we see a big house",
        "good morning to you",
    ],
    "tolerant": ["a dog is there", "the weather", "house", "well hello"],
}
REFERENCES = [
    ["the cat sat on the mat .", "it rains today in the town", "we see a large house", "good morning to you"],
    ["a cat sat on a mat .", "today it rains in the city", "we see a big home", "good morning"],
]


@pytest.mark.parametrize("name", ["bleu", "chrf", "chrf++", "ter"])
def test_equal_translations_do_not_differ_by_chance(name: str) -> None:
    title, scores = score(name, HYPOTHESES, REFERENCES, language="en", samples=300)
    assert title.lower() in ("bleu", "chrf2", "chrf2++", "ter")
    greedy, same, other = scores.values()
    assert greedy.p_value is None
    assert same.p_value == 1.0
    assert replace(same, p_value=None) == greedy
    assert other.p_value is not None and other.p_value < 0.2
    assert "nrefs:2|bs:300|" in greedy.signature
    assert all(isinstance(value, float) for value in (greedy.value, greedy.mean, greedy.interval))


def test_without_bootstrap_there_are_scores_alone() -> None:
    _, sampled = score("bleu", HYPOTHESES, REFERENCES, language="en", samples=10)
    title, scores = score("bleu", HYPOTHESES, REFERENCES, language="en", samples=0)
    assert title == "BLEU"
    assert [each.value for each in scores.values()] == [each.value for each in sampled.values()]
    assert {(each.mean, each.interval, each.p_value) for each in scores.values()} == {(None, None, None)}
    assert "bs:" not in scores["greedy"].signature


def test_a_text_that_says_four_words_four_times_loops() -> None:
    assert not loops("")
    assert not loops("a b c d " * 3)
    assert loops("x a b c d " * 4)
    assert loops("no " * 7)
    assert not loops("no " * 6)


def test_a_tokenizer_that_is_not_installed_is_a_mistake_of_usage(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("ja-mecab")

    monkeypatch.setattr("sacrebleu.metrics.bleu._get_tokenizer", refuse)
    with pytest.raises(UsageError, match="`metrics` cannot be bleu for the language ja: "):
        score("bleu", HYPOTHESES, REFERENCES, language="ja", samples=0)


def evaluation_of(measured: Measured, names: Sequence[str] = ("bleu", "ter")) -> Evaluation:
    labels = [strategy.label for strategy in measured.batched.strategies]
    for name in names:
        hypotheses = {label: measured.hypotheses(label) for label in labels}
        title, scores = score(name, hypotheses, measured.references, language="en", samples=20)
        measured.scores[title] = scores
    baseline = baseline_of(measured.batched.strategies).label
    signatures = {label: {"model_sha256": "f" * 64, "strategy": label, "threads": 1} for label in labels}
    results = [measured.result(label, baseline) for label in labels]
    return Evaluation(labels, baseline, 0.25, signatures, results)


LOSSY = parse_strategies("greedy,speculative:8,tolerant:3:1")


def test_json_has_every_figure() -> None:
    evaluation = evaluation_of(measured_of(Machine(), LOSSY))
    record = json.loads(json.dumps(evaluation.record()))
    _, fast, lossy = record["results"]
    assert fast["scores"]["TER"]["value"] == 0.0
    assert lossy["same"] == 0.2  # the blank line
    assert fast["latency"]["p50"] == len(TEXTS[0])
    assert len(fast["latencies"]) == 2
    assert record["signatures"]["greedy"]["model_sha256"] == "f" * 64
    assert record["partial"] is False


def test_tables_and_report() -> None:
    measured = measured_of(Machine(), LOSSY)
    evaluation = evaluation_of(measured)
    quality, speeds, latency, drafts = tables(evaluation)
    assert quality.columns == ("", "BLEU", "TER", "same", "loops")
    bleu = measured.scores["BLEU"]["greedy"]
    assert quality.rows[1] == ("speculative:8", f"100.0 ±{bleu.interval:.1f}", "0.0 ±0.0", "100.0%", "0.0%")
    assert quality.rows[2][2].endswith("*")
    assert speeds.rows[1][3] == "2.00 (2.00–2.00)"
    assert latency.title == "toy: latency, one at a time (3 lines)"
    assert latency.rows[0][1] == f"{2e3 * len(TEXTS[0]):.1f}"
    assert ("speculative:8", "32", "2.00", "2.00", "50%") in drafts.rows
    assert all(len(row) == len(table.columns) for table in tables(evaluation) for row in table.rows)
    assert signatures(evaluation, short=True)["all"] == "model_sha256:ffffffffffff|threads:1"
    assert signatures(evaluation)["BLEU"].startswith("nrefs:1|bs:20|")

    files = Files(measured)
    assert files.hypotheses == {
        "greedy": "toy.greedy.txt",
        "speculative:8": "toy.speculative-8.txt",
        "tolerant:3:1": "toy.tolerant-3-1.txt",
    }
    text = markdown(evaluation, {"toy": files}, command="specmt evaluate x", picture="p.png", languages="de-en")
    assert "(partial)" not in text
    for part in ("| greedy | 100.0 ±", "![", "(p.png)", "f" * 64, "## toy"):
        assert part in text
    assert "sacrebleu toy.reference.txt -i toy.tolerant-3-1.txt -l de-en -w 2 --confidence -m bleu chrf ter\n" in text


def test_file_names_never_meet() -> None:
    strategies = parse_strategies("a:b=greedy".replace("a:b", "a/b") + ",a?b=beam,a-b=tolerant")
    files = Files(Measured(EvaluationSet("x/y", LINES, [TEXTS, TEXTS]), Run(strategies, []), Run(strategies, [])))
    assert list(files.hypotheses.values()) == ["x-y.a-b.txt", "x-y.a-b-.txt", "x-y.a-b--.txt"]
    assert files.references == ["x-y.reference1.txt", "x-y.reference2.txt"]


def interrupted(at: int) -> Measured:
    machine = Machine(interrupt_at=at)
    measured = Measured(
        EvaluationSet("toy", LINES, [TEXTS]), Run(LOSSY, groups_of(LINES, 2)), Run(LOSSY, sample(LINES, 3))
    )
    with pytest.raises(KeyboardInterrupt):
        for run in (measured.batched, measured.single):
            measure(run, machine.start, 2, clock=machine.clock, rest=machine.rest)
    return measured


@pytest.mark.parametrize(("at", "names"), [(4, ("bleu", "chrf")), (12, ()), (28, ("ter",)), (40, ("bleu",))])
def test_whatever_there_is_can_be_shown(at: int, names: Sequence[str]) -> None:
    """Before anything was timed, amid the repeats, without latencies, with a few; without scores too."""
    evaluation = evaluation_of(interrupted(at), names)
    evaluation.partial = True
    assert all("partial" in table.title for table in tables(evaluation))
    assert "Interrupted" in notes(evaluation)[0]
    assert json.loads(json.dumps(evaluation.record()))["partial"] is True
    assert draw(evaluation).startswith(b"\x89PNG")
    assert "# Evaluation (partial)" in markdown(evaluation, {}, command="", picture=None, languages="de-en")


def test_the_picture_has_a_row_for_each_set() -> None:
    evaluation = evaluation_of(measured_of(Machine(), LOSSY))
    one = draw(evaluation)
    evaluation.results = [*evaluation.results, *(replace(result, test_set="other") for result in evaluation.results)]
    heights = [int.from_bytes(picture[20:24], "big") for picture in (one, draw(evaluation))]
    assert math.isclose(heights[1], 2 * heights[0], abs_tol=2)


TABLE = Table("Speed", ("way", "sentences/s"), [("greedy [fast]", "12.5"), ("a|b, c", "3")], notes=["One run."])


def test_markdown_has_a_cell_for_every_figure_and_keeps_bars() -> None:
    lines = TABLE.markdown().split("\n")
    assert lines[0] == "**Speed**"
    assert lines[2:6] == ["| way | sentences/s |", "| - | -: |", "| greedy [fast] | 12.5 |", "| a\\|b, c | 3 |"]
    assert lines[7:] == ["One run.", ""]


def test_a_terminal_shows_brackets_as_they_are() -> None:
    out = io.StringIO()
    Console(file=out, width=60).print(TABLE.rich())
    assert "greedy [fast]" in out.getvalue()
    assert "One run." in out.getvalue()


def test_the_machine_is_named_with_the_versions_that_run() -> None:
    machine = describe_machine()
    assert machine["torch"] == torch.__version__.partition("+")[0] or machine["torch"] == torch.__version__
    assert isinstance(machine["cores"], int) and machine["cores"] >= 1
    assert machine["processor"]
    assert "no-such-package" not in describe_machine(("no-such-package",))
    assert format_signature({"model": "de-en", "beta": 3}) == "model:de-en|beta:3"
