"""What `specmt evaluate` measures: strategies side by side over test sets."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from specmt.cli.progress import rate_bar, spinner
from specmt.evaluation.quality import score
from specmt.evaluation.sets import EvaluationSet
from specmt.evaluation.strategies import Strategy, baseline_of
from specmt.options import DecodingOptions

if TYPE_CHECKING:
    from specmt.evaluation.results import Evaluation, Measured
    from specmt.evaluation.runs import Start, Translate
    from specmt.models.hub import Model


def compare(
    tests: Sequence[EvaluationSet],
    strategies: Sequence[Strategy],
    model: str | None,
    loading: dict[str, Any],
    *,
    metrics: Sequence[str],
    language: str,
    repeats: int,
    latency_lines: int,
    bootstrap: int,
    quiet: bool,
) -> tuple[Evaluation, list[Measured]]:
    """Loads a model and measures its strategies; after Ctrl-C, returns what there is.

    :param loading: how to load the model
    :param language: that of the references
    :raises KeyboardInterrupt: before anything was measured.
    """
    from specmt.models.hub import load_model

    started = time.perf_counter()
    loaded = load_model(model, **loading)
    evaluation = _evaluation(loaded, loading, strategies, time.perf_counter() - started)
    measured: list[Measured] = []
    try:
        _measure(measured, tests, strategies, _starter(loaded, loading), repeats, latency_lines, quiet=quiet)
    except KeyboardInterrupt:
        evaluation.partial = True
    measured = [each for each in measured if each.batched.lines]
    if not measured:
        raise KeyboardInterrupt
    if evaluation.partial and not quiet:
        click.echo("specmt: note: interrupted; the results so far follow (Ctrl-C: without scores)", err=True)
    try:
        _score(measured, metrics, language, evaluation.baseline, bootstrap)
    except KeyboardInterrupt:
        evaluation.partial = True
    evaluation.results = [result for each in measured for result in each.results(evaluation.baseline)]
    if not quiet:
        _warn(measured)
    return evaluation, measured


def _starter(model: Model, loading: dict[str, Any]) -> Start:
    """Returns what makes translators that remember nothing of each other's work."""
    from specmt.translator import Translator

    plans: dict[DecodingOptions, dict[object, Any]] = {}

    def start(options: DecodingOptions) -> Translate:
        translator = Translator(model, **loading)
        translator.translate([], options)  # reads the translation memory
        own = plans.setdefault(options, {})

        def translate(lines: Any, tally: Any) -> Any:
            model.plans = own  # what one strategy learns about its drafts must not help or mislead another
            return list(translator.translate(lines, options, window=len(lines), recorder=tally))

        return translate

    return start


def _evaluation(model: Model, loading: dict[str, Any], strategies: Sequence[Strategy], seconds: float) -> Evaluation:
    from specmt.evaluation.machine import describe_machine
    from specmt.evaluation.results import Evaluation
    from specmt.translator import Translator

    translator, machine = Translator(model, **loading), describe_machine()
    return Evaluation(
        strategies=[strategy.label for strategy in strategies],
        baseline=baseline_of(strategies).label,
        load_seconds=seconds,
        signatures={each.label: translator.signature(each.options) | machine for each in strategies},
    )


def _measure(
    measured: list[Measured],
    tests: Sequence[EvaluationSet],
    strategies: Sequence[Strategy],
    start: Start,
    repeats: int,
    latency_lines: int,
    *,
    quiet: bool,
) -> None:
    """Runs all strategies over all test sets; what was measured is in the list, however this ends."""
    from specmt.evaluation.results import Measured
    from specmt.evaluation.runs import Run, measure, sample, windows
    from specmt.translator import default_window

    window = max(default_window(strategy.options) for strategy in strategies)
    alone = [replace(strategy, options=replace(strategy.options, batch_size=1)) for strategy in strategies]
    pairs = [
        (test, Run(strategies, windows(test.lines, window)), Run(alone, sample(test.lines, latency_lines)))
        for test in tests
    ]
    for strategy in strategies:  # what a model cannot do, it says at once
        start(strategy.options)(tests[0].lines[:1], None)
    lines = sum(len(group) for _, *runs in pairs for run in runs for group in run.groups)
    enabled = sys.stderr is not None and sys.stderr.isatty() and not quiet
    with rate_bar(lines * len(strategies) * (repeats + 1), enabled=enabled) as report:
        for test, batched, single in pairs:
            measured.append(Measured(test, batched, single))
            for run in (batched, single):
                measure(run, start, repeats, report=report)


def _score(measured: Sequence[Measured], names: Sequence[str], language: str, baseline: str, samples: int) -> None:
    with spinner("scoring") as show:
        for each in measured:
            labels = sorted(
                (strategy.label for strategy in each.batched.strategies), key=lambda label: label != baseline
            )
            hypotheses = {label: each.hypotheses(label) for label in labels}
            for name in names:
                show(f"scoring {each.test_set.name}: {name}")
                title, scores = score(name, hypotheses, each.references, language=language, samples=samples)
                each.scores[title] = scores


def _warn(measured: Sequence[Measured]) -> None:
    """Says once what all strategies would say of the same lines."""
    for each in measured:
        for translations in each.batched.translations(each.batched.strategies[0].label):
            for line, warnings in ((every.line, every.warnings) for every in translations):
                for warning in warnings:
                    click.echo(f"specmt: warning: {each.test_set.name}:{line.index + 1}: {warning}", err=True)
