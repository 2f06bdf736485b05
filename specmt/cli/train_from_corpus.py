"""`specmt train drafter --corpus`: all steps from a verifier and text to a drafter in the model folder."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from specmt import signals
from specmt.cli.console import missing_kernels, note, printed
from specmt.cli.progress import counting_bar, metrics_bar, share_bar, spinner
from specmt.errors import UsageError
from specmt.files import check_writable
from specmt.options import check_threads
from specmt.text.lines import open_input

if TYPE_CHECKING:
    from specmt.training.work import Work

LIMIT: Final = 240_000
MAX_LENGTH: Final = 64
BLOCK_SIZE: Final = 10


def train_from_corpus(
    files: Sequence[Path],
    given: set[str],
    *,
    folder: Path | None,
    verifier_path: Path,
    hours: float | None,
    limit: int | None,
    max_length: int | None,
    into: Path | None,
    initial: Path | None,
    layers: int | None,
    block_size: int | None,
    correction_rank: int,
    spacing: float,
    decay: float,
    dropout: float,
    device: str,
    threads: int | None,
    **values: Any,
) -> None:
    """Makes a drafter for a verifier, or goes on with it.

    :param given: the names of the options that the user gave a value; others may depend on the machine
    """
    for name, value in (("hours", hours), ("limit", limit), ("max-length", max_length), ("threads", threads)):
        if value is not None and value <= 0:
            raise UsageError(f"`{name}` must be more than 0, but is {value} instead.")
    check_threads(threads)
    if "RANK" in os.environ:
        raise UsageError("`--corpus` is for one process; with torchrun, use `specmt distill` and `--data`.")
    from specmt.models.folder import ModelFolder
    from specmt.training import pipeline

    for path in files:
        open_input(path).close()
    parent = ModelFolder.read(verifier_path)
    run = folder or Path(f"{verifier_path.resolve()}.training")
    place = into or verifier_path
    pipeline.check_place(place, parent, run)
    for each in (run, place):
        check_writable(each)

    import torch

    from specmt.evaluation.bench_report import tables
    from specmt.evaluation.payoff import advice, best_block_size, lines_within, measure_payoff, seconds_of_lines
    from specmt.models.config import drafter_config_for
    from specmt.models.folder import DRAFTER
    from specmt.models.hub import fitting_weights, load_model
    from specmt.models.shapes import drafter_shapes
    from specmt.training.distill import evenly
    from specmt.training.drafter import BlockOptions
    from specmt.training.options import TrainOptions
    from specmt.training.work import VALIDATIONS, choose_work, go_on, identity, load_work, save_work, seconds_left

    sizes = {name: size for name, size in (("layers", layers), ("block_size", block_size)) if size is not None}
    sizes = {"block_size": BLOCK_SIZE, "correction_rank": correction_rank, **sizes}
    config = drafter_config_for(parent.verifier, dropout=dropout, **sizes)
    blocks = BlockOptions(spacing=spacing, decay=decay)
    options = TrainOptions(**values)
    ancestor = None if initial is None else ModelFolder.read(initial)
    start = None if ancestor is None else fitting_weights(ancestor, DRAFTER, drafter_shapes(config))

    if threads is not None:
        torch.set_num_threads(threads)
    all_threads = torch.get_num_threads()
    with spinner("loading the verifier"):
        model = load_model(verifier_path, device=device, threads=threads)
    if (missing := missing_kernels(model)) is not None:
        note(missing)
    with spinner("reading the text"):
        corpus = pipeline.read_corpus(model, files, limit=limit or LIMIT, max_length=max_length or MAX_LENGTH)
        of = identity(parent, corpus.sha256, config, blocks, ancestor)
        work = load_work(run, of)
    job = pipeline.Job(run, model, corpus, config, options, blocks, initial=start, threads=all_threads)
    with spinner("measuring how long it will take"):
        rates = job.measure_rates()
    lines = lines_within(rates.line, rates.sentence)
    checking = len(corpus.held_out) * rates.sentence + seconds_of_lines(lines, rates.line, rates.sentence)
    updates = options.updates if "updates" in given else None
    if work is None:
        amount = len(corpus.training)
        work = choose_work(amount, rates, checking, options.tokens_per_update, hours=hours, updates=updates)
    else:
        work = go_on(work, rates, checking, run, hours=hours, updates=updates)
    save_work(run, work, of)
    _announce(work, seconds_left(work, rates, run), checking)

    chosen: dict[str, Any] = {
        "save_every": work.save_every,
        "validate_every": -(-work.updates // VALIDATIONS),
        "warmup": min(options.warmup, work.updates // 5),
    }
    chosen = {name: value for name, value in chosen.items() if name not in given}
    job.options = replace(options, updates=work.updates, **chosen)
    try:
        with signals.interruptible(), counting_bar("distilling") as count:
            job.distil(work, count)
        with signals.interruptible(), metrics_bar(work.updates) as report:
            weights = job.train(report)
        del job.teacher
        with signals.interruptible(), spinner("calibrating"):
            calibration = job.calibrate(weights)
        with signals.interruptible(), share_bar() as share:
            payoff = measure_payoff(model, evenly(corpus.held_out, lines), report=share)
        job.install(place, replace(config, block_size=best_block_size(payoff)), weights, calibration)
    except KeyboardInterrupt:
        _say("stopped; the same command goes on where it was.")
        raise
    (run / "measured.json").write_text(json.dumps(payoff.record(), indent=2) + "\n", encoding="utf-8")
    click.echo(printed(lambda console: console.print(tables(payoff)[-1].rich(), advice(payoff))).rstrip("\n"))
    _say(f"the drafter is in {place}; `specmt translate --model {place}` uses it.")


def _announce(work: Work, left: tuple[float, float], checking: float) -> None:
    distilling, training = left
    for name, seconds in (
        (f"distilling {work.sentences} sentences", distilling),
        (f"training, {work.updates} updates", training),
        ("calibrating and measuring", checking),
        ("all", distilling + training + checking),
    ):
        _say(f"{name}: {_duration(seconds)}")
    _say("Ctrl-C stops it, and the same command goes on.")


def _duration(seconds: float) -> str:
    if seconds == 0:
        return "done"
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    return f"about {round(seconds / 60)} min" if seconds < 5400 else f"about {seconds / 3600:.1f} h"


def _say(text: str) -> None:
    click.echo(f"specmt: {text}", err=True)
