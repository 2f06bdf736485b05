"""`specmt train drafter --corpus`: what `specmt distill` and `--data` do, and the drafter into the model folder."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from specmt import signals
from specmt.cli.console import load, printed
from specmt.cli.progress import counting_bar, share_bar, spinner
from specmt.cli.train_on_data import train_drafter
from specmt.errors import UsageError
from specmt.files import check_writable
from specmt.options import check_threads
from specmt.text.lines import open_input

if TYPE_CHECKING:
    from specmt.training.data import ParallelData
    from specmt.training.options import TrainOptions

READING: Final = 0.25
TRAINING: Final = 0.95
"""The shares of the hours after which no further text is distilled, and training ends."""

VALIDATIONS: Final = 5
"""How often a drafter is validated as it is trained."""

SAVE_EVERY: Final = 50
"""Updates that an interrupt may cost."""


def train_from_corpus(
    files: Sequence[Path],
    given: Collection[str],
    *,
    folder: Path | None,
    verifier_path: Path,
    hours: float | None,
    limit: int,
    max_length: int,
    into: Path | None,
    device: str,
    threads: int | None,
    validation_lines: int,
    **values: Any,
) -> None:
    """Makes a drafter for a verifier, or goes on with it.

    :param given: the names of the options that the user gave a value; others depend on the text
    """
    begun = time.monotonic()
    check_threads(threads)
    if "RANK" in os.environ:
        raise UsageError("`--corpus` is for one process; with torchrun, use `specmt distill` and `--data`.")
    from specmt.engine.backends import needing_torch
    from specmt.evaluation.bench_report import tables
    from specmt.evaluation.payoff import MOST_LINES, advice, best_block_size, measure_payoff
    from specmt.models.config import DrafterConfig
    from specmt.models.folder import ModelFolder
    from specmt.training import corpus as steps
    from specmt.training.distill import evenly

    with needing_torch("Training"):
        from specmt.models.reference.weights import to_arrays
        from specmt.training.plan import DrafterPlan
        from specmt.training.processes import start_processes
        from specmt.training.validate import Validator

    for path in files:
        open_input(path).close()
    parent = ModelFolder.read(verifier_path)
    run, place = folder or Path(f"{verifier_path.resolve()}.training"), into or verifier_path
    plan = DrafterPlan.of(parent, **values)
    steps.check_place(place, parent, run, plan.file)
    for each in (run, place):
        check_writable(each)
    with spinner("loading the verifier"):
        model = load(verifier_path, device=device, threads=threads)
    with spinner("reading the text"):
        corpus = steps.read_corpus(model, files, limit=limit, max_length=max_length)

    def left(share: float) -> float:
        """Returns the seconds until a share of the hours has passed."""
        return math.inf if hours is None else begun + share * 3600 * hours - time.monotonic()

    say("Ctrl-C stops it, and the same command goes on.")
    distilled = run / steps.DISTILLED
    try:
        with signals.interruptible(), counting_bar("distilling") as count:
            data = steps.distil(distilled, model, corpus, seconds=left(READING), report=count)
        plan = replace(plan, options=_options(plan.options, data, given))
        say(f"training on {len(data)} sentences, {plan.options.updates} updates")
        lines = validation_lines if "validation_lines" in given else steps.HELD_OUT
        validator, machine = Validator(distilled, model.pieces, lines=lines), start_processes(device, threads)
        with signals.interruptible():
            seconds = max(1.0, left(TRAINING))
            trained = train_drafter(plan, run / steps.TRAINED, data, machine, model, validator, seconds=seconds)
        assert trained is not None  # there is one process
        with signals.interruptible(), share_bar() as share:
            payoff = measure_payoff(model, evenly(corpus.held_out, MOST_LINES), drafter=plan.kind, report=share)
        config = plan.config
        if isinstance(config, DrafterConfig):
            config = replace(config, block_size=best_block_size(payoff))
        steps.install(place, run, parent.path, plan.file, config, to_arrays(trained.weights), trained.calibration)
    except KeyboardInterrupt:
        say("stopped; the same command goes on where it was.")
        raise
    (run / "measured.json").write_text(json.dumps(payoff.record(), indent=2) + "\n", encoding="utf-8")
    click.echo(printed(lambda console: console.print(tables(payoff)[1].rich(), advice(payoff))).rstrip("\n"))
    say(f"the drafter is in {place}; `specmt translate --model {place}` uses it.")


def _options(options: TrainOptions, data: ParallelData, given: Collection[str]) -> TrainOptions:
    """Returns the options of training with what depends on the data, unless the user says otherwise."""
    from specmt.training.corpus import choose_updates

    updates = options.updates if "updates" in given else choose_updates(data, options.tokens_per_update)
    chosen: dict[str, Any] = {
        "save_every": SAVE_EVERY,
        "validate_every": -(-updates // VALIDATIONS),
        "warmup": min(options.warmup, updates // 5),
    }
    return replace(options, updates=updates, **{name: each for name, each in chosen.items() if name not in given})


def say(text: str) -> None:
    """Writes to standard error."""
    click.echo(f"specmt: {text}", err=True)
