"""`specmt evaluate`: quality and speed of strategies, side by side."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specmt.cli.compare import compare
from specmt.cli.console import printed
from specmt.cli.options import model_options
from specmt.errors import OutputError, UsageError
from specmt.evaluation.quality import METRICS, make_metric
from specmt.evaluation.sets import EvaluationSet, SetFiles, name_of, named_set, parse_set, read_set
from specmt.evaluation.strategies import parse_strategies
from specmt.options import DecodingOptions
from specmt.text.lines import Output, open_input

if TYPE_CHECKING:
    from rich.console import Console

    from specmt.evaluation.results import Evaluation, Measured

_INTERRUPTED = 130
_file = click.Path(path_type=Path, allow_dash=True)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", type=click.Path(path_type=Path), nargs=-1, metavar="[SRC REF...]")
@click.option(
    "--strategies",
    default="greedy,speculative",
    show_default=True,
    metavar="LIST",
    help="What to compare, with commas between: greedy, speculative[:K], tolerant[:BETA:TAU], beam[:N], each with any "
    "more decoding options of `specmt translate` as :KEY=VALUE, and with LABEL= before it to call it so.",
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="[NAME=]SRC:REF[:REF...]",
    help="A test set, instead of SRC REF or besides; repeat for more.",
)
@click.option(
    "-t", "--test-set", "named", multiple=True, metavar="NAME", help="A test set of sacreBLEU's; repeat for more."
)
@click.option("-l", "--language-pair", "pair", metavar="de-en", help="Its languages.  [default: --from and --to]")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the first lines of each set.")
@model_options
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    default=DecodingOptions().batch_size,
    show_default=True,
    metavar="N",
    help="Most sentences decoded side by side.",
)
@click.option(
    "--repeats",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    metavar="N",
    help="How often everything is timed, after a first time that is not.",
)
@click.option(
    "--latency-lines",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    metavar="N",
    help="How many lines of each set are translated one at a time too, evenly spread.",
)
@click.option(
    "--metrics", default=",".join(METRICS), show_default=True, metavar="LIST", help="Scores, with commas between."
)
@click.option(
    "--bootstrap",
    type=click.IntRange(min=0),
    default=1000,
    show_default=True,
    metavar="N",
    help="Samples for intervals and paired tests; 0: neither.",
)
@click.option(
    "--json",
    "json_file",
    type=_file,
    metavar="FILE",
    help="Write everything as JSON, or print it with -; its keys: `pydoc specmt.evaluation.results`.",
)
@click.option(
    "--csv", "csv_file", type=_file, metavar="FILE", help="Write a row for each set and strategy, or print them with -."
)
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE.png", help="Draw the results.")
@click.option(
    "--report",
    type=click.Path(path_type=Path),
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
    csv_file: Path | None,
    plot: Path | None,
    report: Path | None,
    quiet: bool,
) -> None:
    """Translate SRC with several strategies, compare with the references REF, and measure the speed.

    Strategies take turns on the same lines, so that what slows the machine down meets all of them. Ctrl-C shows the
    results so far.

    \b
    Examples:
      specmt evaluate news.de news.en
      specmt evaluate news.de news.en --strategies greedy,speculative:8,tolerant:3:1,beam:5 --report runs/news
      specmt evaluate a.de a.en --strategies greedy,tree=speculative:drafter=autoregressive:tree=best-first:nodes=16
      specmt evaluate --set news=a.de:a1.en:a2.en --set talks=b.de:b.en --plot figures.png
      specmt evaluate -t wmt14 -l de-en --limit 500 --json - | jq '.results[].scores.BLEU'
    """
    # Whatever can go wrong with arguments and files does so before the model is loaded.
    chosen = parse_strategies(strategies, batch_size=batch_size)
    titles = metrics.split(",")
    for name in titles:
        if name not in METRICS or titles.count(name) > 1:
            raise UsageError(f"`metrics` must be different ones of {', '.join(METRICS)}, but has {name!r} instead.")
    languages = pair or f"{loading['source']}-{loading['target']}"
    tests = _read_sets(files, sets, named, languages, limit)
    target = languages.rpartition("-")[2]
    for name in titles:
        make_metric(name, [[""]], target)
    for strategy in chosen:
        memory = strategy.options.memory
        if memory is not None:
            if memory.is_fifo():
                raise UsageError(f"strategy {strategy.label!r}: `memory` must be a file, but {memory} is a pipe.")
            open_input(memory).close()
    _check_outputs(json_file, csv_file, plot)

    with ExitStack() as stack:
        with Output(None):
            pass  # it is open
        json_out, csv_out, plot_out = (_output(stack, path) for path in (json_file, csv_file, plot))
        if report is not None:
            _make_folder(report)

        evaluation, measured = compare(
            tests,
            chosen,
            model,
            loading,
            metrics=titles,
            language=target,
            repeats=repeats,
            latency_lines=latency_lines,
            bootstrap=bootstrap,
            quiet=quiet,
        )

        from specmt.evaluation.plot import draw
        from specmt.evaluation.report import as_csv

        record = json.dumps(evaluation.record(), indent=2, ensure_ascii=False) + "\n"
        rows = as_csv(evaluation)
        if json_out is not None:
            json_out.write(record)
        if csv_out is not None:
            csv_out.write(rows)
        if plot_out is not None:
            plot_out.write_bytes(draw(evaluation))
        if report is not None:
            _write_report(report, evaluation, measured, record, languages)
    # When the files are complete: a pipe that closes early costs none of them.
    with Output(None) as out:
        out.write(record if str(json_file) == "-" else rows if str(csv_file) == "-" else _shown(evaluation))
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


def _check_outputs(*paths: Path | None) -> None:
    names = [str(path.resolve()) if str(path) != "-" else "-" for path in paths if path is not None]
    if len(set(names)) < len(names):
        raise UsageError("`--json`, `--csv` and `--plot` must be different files.")


def _output(stack: ExitStack, path: Path | None) -> Output | None:
    return None if path is None or str(path) == "-" else stack.enter_context(Output(path))


def _make_folder(path: Path) -> None:
    """
    :raises OutputError: there can be no such folder, or it cannot be written to.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{path}: cannot be made a folder ({error.strerror}).") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise OutputError(f"{path}: cannot be written to (Permission denied).")


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
        for name, reference in zip(names.references, each.references, strict=True):
            texts[name] = "".join(f"{line}\n" for line in reference)
        for label, name in names.hypotheses.items():
            texts[name] = "".join(f"{line}\n" for line in each.hypotheses(label))
    for name, text in texts.items():
        with Output(folder / name) as out:
            out.write(text)
    with Output(folder / "figures.png") as out:
        out.write_bytes(draw(evaluation))


def _shown(evaluation: Evaluation) -> str:
    """Returns the tables for standard output."""
    from specmt.evaluation.report import metric_signatures, notes, signatures, tables

    def write(console: Console) -> None:
        for table in tables(evaluation):
            console.print(table.rich())
            console.print()
        for note in notes(evaluation):
            console.print(note, markup=False)
        for label, signature in (metric_signatures(evaluation) | signatures(evaluation, short=True)).items():
            console.print(f"{label}: {signature}", markup=False, style="dim", soft_wrap=True)

    return printed(write, width=None)
