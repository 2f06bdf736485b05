"""What calls cost on this machine, what drafts are worth on a text, and what comes of both: speed by batch size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from time import perf_counter
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

import specmt
from specmt.decoding.batch import decode
from specmt.decoding.costs import SOURCE
from specmt.decoding.plan import Costs, best_block, yields
from specmt.engine.backend import Verifier
from specmt.errors import UsageError
from specmt.evaluation.acceptance import Tally
from specmt.evaluation.bench_results import AUTO, GREEDY, Bench, way_of
from specmt.evaluation.bench_timing import (
    Clock,
    costs_of_iterations,
    depth,
    encoding_seconds,
    speeds_of,
    verifying_seconds,
)
from specmt.evaluation.machine import describe_machine
from specmt.options import DecodingOptions

if TYPE_CHECKING:
    from specmt.models.hub import Model

LEAST_SENTENCES: Final = 32
"""The fewest sentences whose decoding is timed, or twice the batch size, if that is more; they repeat as needed."""


@dataclass(frozen=True)
class Stage:
    """A part of the work, after which the figures are consistent."""

    name: str

    share: float
    """Of the whole, roughly: in seconds where a sentence takes 10 ms."""

    run: Callable[[], None]


def stages_of_calls(bench: Bench, verifier: Verifier, *, clock: Clock = perf_counter) -> list[Stage]:
    """Returns the stages that time verifier calls.

    :raises UsageError: a sentence cannot have so many rows.
    """
    _check("rows", bench.options.rows[-1], verifier)

    def run(size: int) -> None:
        bench.verify[size] = verifying_seconds(verifier, bench.options, size, clock)

    return [Stage(f"verifier calls, batch {size}", 1.0 + size / 16, partial(run, size)) for size in _sizes(bench)]


def stages_of_drafting(
    bench: Bench, model: Model, sources: Sequence[list[int]], *, clock: Clock = perf_counter
) -> list[Stage]:
    """Returns the stages that time drafts and decoding, after those of verifier calls.

    :param sources: sentences as ids without EOS
    :raises UsageError: a sentence cannot have so many rows.
    :raises ModelError: the model lacks the drafter; when a stage runs.
    """
    largest, block_sizes = depth(model, bench.options)
    _check("block_sizes", block_sizes[-1] + 1, model.verifier)
    ways = {way_of(size): _options(bench, block_size=size) for size in block_sizes}
    ways = {GREEDY: DecodingOptions(strategy="greedy"), **ways}
    calibration = model.folder.calibration if bench.options.drafter == "masked" else None
    if calibration is not None:
        ways[AUTO] = _options(bench)
        bench.calibrated = list(calibration.acceptance)

    def accept() -> None:
        tally = Tally()
        hypotheses = decode(model, sources, _options(bench, block_size=largest), recorder=tally)
        bench.acceptance = [tally.accepted[depth] / tally.calls for depth in range(1, largest + 1)]
        bench.passes = tally.calls
        bench.tokens = sum(hypothesis.stats.tokens for hypothesis in hypotheses)

    def draft(size: int) -> None:
        costs = costs_of_iterations(model, bench.options, size, sources, clock)
        bench.encode[size] = encoding_seconds(model.verifier, bench.options, list(islice(cycle(sources), size)), clock)
        bench.draft[size] = dict(costs.draft)
        encoding = bench.encode[size] / size * bench.sentences / bench.tokens
        bench.predicted[size] = predict(bench.acceptance, costs, size, encoding)
        if calibration is not None:
            verifying = np.array(costs.verifying(len(calibration.acceptance) + 1))
            drafting = np.array(costs.drafting(len(calibration.acceptance)))
            bench.expected[size] = best_block(calibration.acceptance, verifying, drafting)

    def time_ways(size: int, repeat: int) -> None:
        if repeat == 0:
            model.plans.clear()  # what was learnt of other batch sizes
        count = max(LEAST_SENTENCES, 2 * size)
        speeds = speeds_of(model, list(islice(cycle(sources), count)), ways, size, clock)
        if repeat > 0:  # before that it is warming up
            before = bench.speed.get(size, {})
            # At once, so that an interrupt leaves all ways with as many repeats.
            bench.speed[size] = {way: [*before.get(way, ()), speed] for way, speed in speeds.items()}

    stages = [Stage("acceptance", len(sources) / 100, accept)]
    stages += [Stage(f"drafts, batch {size}", 1.0 + size / 16, partial(draft, size)) for size in _sizes(bench)]
    for size in _sizes(bench):
        share = len(ways) * max(LEAST_SENTENCES, 2 * size) / 100
        stages += [
            Stage(f"decoding, batch {size}", share, partial(time_ways, size, repeat))
            for repeat in range(bench.options.repeats + 1)
        ]
    return stages


def run(bench: Bench, stages: Sequence[Stage], report: Callable[[str, float], None]) -> None:
    """Runs stages one after the other.

    :param report: is told what comes next, and the share of the whole that is done.
    """
    whole = sum(stage.share for stage in stages)
    done = 0.0
    for stage in stages:
        report(stage.name, done / whole)
        stage.run()
        done += stage.share
    report("done", 1.0)
    bench.complete = True


def predict(acceptance: Sequence[float], costs: Costs, batch_size: int, encoding: float) -> list[float]:
    """Returns the tokens a second with blocks of 0 … K.

    :param acceptance: (K) the probability that the first 1 … K tokens of a block are all accepted
    :param encoding: the seconds of the encoder for a target token
    """
    verifying, drafting = np.array(costs.verifying(len(acceptance) + 1)), np.array(costs.drafting(len(acceptance)))
    seconds = 1 / (batch_size * yields(acceptance, verifying, drafting)) + encoding
    return [float(value) for value in 1 / seconds]


def signature_of(verifier: Verifier, **facts: object) -> dict[str, object]:
    """Returns everything that figures depend on, the text aside.

    :param facts: what there is to say of the model
    """
    dtype = str(verifier.dtype).removeprefix("torch.")
    kind = type(verifier).__name__
    return {
        "specmt": specmt.__version__,
        **facts,
        "device": str(verifier.device),
        "dtype": dtype,
        "engine": kind,
        "threads": torch.get_num_threads(),
        **describe_machine(),
    }


def random_verifier(arch: str, *, device: str, dtype: str, threads: int | None) -> Verifier:
    """Returns a verifier of an architecture with random weights, whose calls cost what those of a trained one cost.

    :raises UsageError: architecture, device or type are unknown or not there.
    """
    from specmt.models.config import verifier_config
    from specmt.models.device import choose_device, choose_dtype
    from specmt.models.hub import verifier_network
    from specmt.models.shapes import verifier_shapes

    config = verifier_config(arch)
    place = choose_device(device)
    kind = choose_dtype(dtype, place)
    if threads is not None:
        torch.set_num_threads(threads)
    generator = torch.Generator().manual_seed(1)
    weights = {name: 0.02 * torch.randn(shape, generator=generator) for name, shape in verifier_shapes(config).items()}
    return verifier_network(weights, config, place, kind)


def _check(name: str, rows: int, verifier: Verifier) -> None:
    most = verifier.sizes.max_length - SOURCE
    if rows > most:
        raise UsageError(f"`{name}` must not make more than {most} rows of a sentence here, but makes {rows} instead.")


def _options(bench: Bench, *, block_size: int | None = None) -> DecodingOptions:
    return DecodingOptions(drafter=bench.options.drafter, block_size=block_size)


def _sizes(bench: Bench) -> tuple[int, ...]:
    return bench.options.batch_sizes
