"""`specmt evaluate`: quality and speed of strategies, side by side."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from specmt import signals
from specmt.cli.console import load, note, printed, warn
from specmt.cli.options import PATH, model_options, number_option, value_option
from specmt.cli.progress import rate_bar, spinner
from specmt.errors import UsageError
from specmt.evaluation.quality import METRICS, make_metric, score
from specmt.evaluation.sets import EvaluationSet, SetFiles, name_of, named_set, parse_set, read_set
from specmt.evaluation.strategies import Strategy, baseline_of, parse_strategies
from specmt.files import check_writable
from specmt.options import DecodingOptions
from specmt.text.lines import Output, open_input

if TYPE_CHECKING:
    from rich.console import Console

    from specmt.evaluation.results import Evaluation, Measured
    from specmt.translator import Translator

BATCHES: Final = 16
"""How many batches of lines a strategy translates in its turn."""

_INTERRUPTED = 130


@click.command()
@click.argument("files", type=PATH, nargs=-1, metavar="[SRC REF...]")
@value_option(
    "strategies",
    "greedy,speculative",
    "What to compare, with commas between: greedy, speculative[:K], tolerant[:BETA:TAU], beam[:N], each with any "
    "more decoding options of `specmt translate` as :KEY=VALUE, and with LABEL= before it to call it so.",
    metavar="LIST",
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="[NAME=]SRC:REF[:REF...]",
    help="A test set, instead of SRC REF or besides; repeat for more.",
)
@click.option("-t", "--test-set", "named", multiple=True, metavar="NAME", help="A test set of sacreBLEU's; repeatable.")
@click.option("-l", "--language-pair", "pair", metavar="de-en", help="Its languages.  [default: the model's]")
@number_option("limit", None, "Only the first lines of each set.", least=1)
@model_options
@number_option("batch_size", DecodingOptions().batch_size, "Most sentences decoded side by side.", least=1)
@number_option("repeats", 3, "How often everything is timed, after a first time that is not.")
@number_option("latency_lines", 100, "How many lines of each set are translated one at a time too, evenly spread.")
@click.option("--metrics", default=",".join(METRICS), show_default=True, metavar="LIST", help="Scores to compute.")
@number_option("bootstrap", 1000, "Samples for intervals and paired tests; 0: neither.")
@click.option(
    "--json",
    "json_file",
    type=PATH,
    metavar="FILE",
    help="Write everything as JSON, or print it with -; its keys: `pydoc specmt.evaluation.results`.",
)
@click.option("--plot", type=PATH, metavar="FILE.png", help="Draw the results.")
@click.option(
    "--report",
    type=PATH,
    metavar="DIR",
    help="Write report.md, results.json, figures.png and all translations into this folder.",
)
@click.option("-q", "--quiet", is_flag=True, help="No progress and notes.")
def evaluate(
    files: tuple[Path, ...],
    strategies: str,
    sets: tuple[str, ...],
    named: tuple[str, ...],
    pair: str | None,
    limit: int | None,
    model: str | None,
    loading: dict[str, Any],
    batch_size: int,
    repeats: int,
    latency_lines: int,
    metrics: str,
    bootstrap: int,
    json_file: Path | None,
    plot: Path | None,
    report: Path | None,
    quiet: bool,
) -> None:
    """Translate SRC with several strategies, compare with the references REF, and measure the speed.

    Lines are translated whole, as references are of whole segments; split=true cuts them. Strategies take turns on the
    same lines, so that what slows the machine down meets all of them. Ctrl-C shows the results so far.

    \b
    Examples:
      specmt evaluate news.de news.en
      specmt evaluate news.de news.en --strategies greedy,speculative:8,tolerant:3:1,beam:5 --report runs/news
      specmt evaluate a.de a.en --strategies greedy,tree=speculative:drafter=autoregressive:tree=best-first:nodes=16
      specmt evaluate --set news=a.de:a1.en:a2.en --set talks=b.de:b.en --plot figures.png
      specmt evaluate -t wmt14 -l de-en --limit 500 --json - | jq '.results[].scores.BLEU'
    """
    # Whatever can go wrong with arguments and files does so before the model is loaded.
    chosen = parse_strategies(strategies, batch_size=batch_size, split=False)
    titles = metrics.split(",")
    for name in titles:
        if name not in METRICS or titles.count(name) > 1:
            raise UsageError(f"`metrics` must be different ones of {', '.join(METRICS)}, but has {name!r} instead.")
    if pair is None:
        from specmt.models.folder import find

        folder = find(model, source=loading["source"], target=loading["target"])
        pair = f"{folder.source}-{folder.target}"
    tests = _read_sets(files, sets, named, pair, limit)
    target = pair.rpartition("-")[2]
    for name in titles:
        make_metric(name, [[""]], target)
    for strategy in chosen:
        memory = strategy.options.memory
        if memory is not None:
            if memory.is_fifo():
                raise UsageError(f"strategy {strategy.label!r}: `memory` must be a file, but {memory} is a pipe.")
            open_input(memory).close()
    if json_file is not None and plot is not None and json_file.resolve() == plot.resolve():
        raise UsageError("`--json` and `--plot` must be different files.")
    if plot is not None or report is not None:
        from specmt.evaluation.plot import check_matplotlib

        check_matplotlib()

    with ExitStack() as stack:
        with Output(None):
            pass  # it is open
        prints_json = str(json_file) == "-"
        json_out = None if json_file is None or prints_json else stack.enter_context(Output(json_file))
        plot_out = None if plot is None else stack.enter_context(Output(plot))
        if report is not None:
            check_writable(report)

        from specmt.evaluation.machine import describe_machine
        from specmt.evaluation.plot import draw
        from specmt.evaluation.results import Evaluation
        from specmt.translator import Translator

        started = time.perf_counter()
        loaded = load(model, quiet=quiet, **loading)
        seconds = time.perf_counter() - started
        translator, machine = Translator(loaded, **loading), describe_machine()
        labels, baseline = [strategy.label for strategy in chosen], baseline_of(chosen).label
        signatures = {each.label: translator.signature(each.options) | machine for each in chosen}
        evaluation = Evaluation(labels, baseline, seconds, signatures)
        measured: list[Measured] = []
        try:
            with signals.interruptible():
                _measure(measured, tests, chosen, lambda: Translator(loaded, **loading), repeats, latency_lines, quiet)
        except KeyboardInterrupt:
            evaluation.partial = True
        measured = [each for each in measured if each.batched.lines]
        if not measured:
            raise KeyboardInterrupt
        if evaluation.partial and not quiet:
            note("interrupted; the results so far follow (Ctrl-C: without scores)")
        try:
            with signals.interruptible():
                _score(measured, titles, target, baseline, bootstrap)
        except KeyboardInterrupt:
            evaluation.partial = True
        evaluation.results = [each.result(label, baseline) for each in measured for label in labels]
        if not quiet:
            _warn(measured)

        record = json.dumps(evaluation.record(), indent=2, ensure_ascii=False) + "\n"
        if json_out is not None:
            json_out.write(record)
        if plot_out is not None:
            plot_out.write_bytes(draw(evaluation))
        if report is not None:
            _write_report(report, evaluation, measured, record, pair)
    # When the files are complete: a pipe that closes early costs none of them.
    with Output(None) as out:
        out.write(record if prints_json else _shown(evaluation))
    if evaluation.partial:
        raise click.exceptions.Exit(_INTERRUPTED)


def _read_sets(
    files: Sequence[Path], sets: Sequence[str], named: Sequence[str], languages: str, limit: int | None
) -> list[EvaluationSet]:
    """Reads all test sets.

    :raises UsageError: there is none, one has no reference, or two have the same name.
    """
    given: list[SetFiles] = []
    if files:
        source, *references = files
        if not references:
            raise UsageError(f"SRC must come with a reference REF, but {source} comes alone.")
        given.append(SetFiles(name_of(source), source, references))
    given += map(parse_set, sets)
    given += [named_set(name, languages) for names in named for name in names.split(",")]
    if not given:
        raise UsageError("There is nothing to evaluate: give SRC and REF, `--set` or `--test-set`.")
    names = [each.name for each in given]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"`set` must have different names, but {name!r} comes twice; give one as NAME=SRC:REF.")
    return [read_set(each, limit) for each in given]


def _measure(
    measured: list[Measured],
    tests: Sequence[EvaluationSet],
    strategies: Sequence[Strategy],
    make: Callable[[], Translator],
    repeats: int,
    latency_lines: int,
    quiet: bool,
) -> None:
    """Runs all strategies over all test sets; what was measured is in the list, however this ends."""
    from specmt.evaluation.results import Measured
    from specmt.evaluation.runs import Run, groups_of, measure, sample, starting

    start, size = starting(make), BATCHES * max(strategy.options.batch_size for strategy in strategies)
    alone = [replace(strategy, options=replace(strategy.options, batch_size=1)) for strategy in strategies]
    for strategy in strategies:  # what a model cannot do, it says at once
        start(strategy.options)(tests[0].lines[:1])
    sets = [
        Measured(test, Run(strategies, groups_of(test.lines, size)), Run(alone, sample(test.lines, latency_lines)))
        for test in tests
    ]
    lines = sum(len(group) for each in sets for run in (each.batched, each.single) for group in run.groups)
    with rate_bar(lines * len(strategies) * (repeats + 1), quiet=quiet) as report:
        for each in sets:
            measured.append(each)
            for run in (each.batched, each.single):
                measure(run, start, repeats, report=report)


def _score(measured: Sequence[Measured], names: Sequence[str], language: str, baseline: str, samples: int) -> None:
    with spinner("scoring") as show:
        for each in measured:
            labels = [strategy.label for strategy in each.batched.strategies]
            hypotheses = {label: each.hypotheses(label) for label in dict.fromkeys([baseline, *labels])}
            for name in names:
                show(f"scoring {each.test_set.name}: {name}")
                title, scores = score(name, hypotheses, each.references, language=language, samples=samples)
                each.scores[title] = scores


def _warn(measured: Sequence[Measured]) -> None:
    """Says once what all strategies would say of the same lines."""
    for each in measured:
        for every in each.batched.translations(each.batched.strategies[0].label):
            for warning in every.warnings:
                warn(each.test_set.name, every.line.index, warning)


def _write_report(
    folder: Path, evaluation: Evaluation, measured: Sequence[Measured], record: str, languages: str
) -> None:
    from specmt.evaluation.plot import draw
    from specmt.evaluation.report import Files, markdown

    files = {each.test_set.name: Files(each) for each in measured}
    command = shlex.join(["specmt", *sys.argv[1:]])
    texts = {
        "report.md": markdown(evaluation, files, command=command, picture="figures.png", languages=languages),
        "results.json": record,
    }
    for each in measured:
        names = files[each.test_set.name]
        lines = dict(zip(names.references, each.references, strict=True))
        lines |= {name: each.hypotheses(label) for label, name in names.hypotheses.items()}
        texts |= {name: "".join(f"{line}\n" for line in own) for name, own in lines.items()}
    contents = {name: text.encode() for name, text in texts.items()} | {"figures.png": draw(evaluation)}
    for name, content in contents.items():
        with Output(folder / name) as out:
            out.write_bytes(content)


def _shown(evaluation: Evaluation) -> str:
    """Returns the tables for standard output."""
    from specmt.evaluation.report import notes, signatures, tables

    def write(console: Console) -> None:
        for table in tables(evaluation):
            console.print(table.rich())
            console.print()
        for said in notes(evaluation):
            console.print(said, markup=False)
        for label, signature in signatures(evaluation, short=True).items():
            console.print(f"{label}: {signature}", markup=False, style="dim", soft_wrap=True)

    return printed(write, width=None)
