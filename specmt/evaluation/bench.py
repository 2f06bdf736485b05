"""What calls cost on this machine, what drafts are worth on a text, and what comes of both: speed by batch size."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

import specmt
from specmt.config import AHEAD, DecodingOptions
from specmt.decoding.batch import decode, make_drafter
from specmt.decoding.costs import SOURCE, Constant, iteration, seconds_in_turns
from specmt.decoding.plan import Costs, best_block, yields
from specmt.decoding.request import Request
from specmt.decoding.trace import Recorder, Trial
from specmt.decoding.tree import Node
from specmt.engine.backend import Verifier
from specmt.engine.pool import only_kernels
from specmt.errors import UsageError
from specmt.evaluation.bench_results import AUTO, GREEDY, Bench, BenchOptions, default_blocks, way_of
from specmt.evaluation.machine import describe_machine
from specmt.types import BOS, EOS, UNK

if TYPE_CHECKING:
    from specmt.decoding.autoregressive import AutoregressiveDrafter
    from specmt.decoding.masked import MaskedDrafter
    from specmt.models.hub import Model

Clock = Callable[[], float]

PREFIX: Final = 24
"""Target tokens before the window of a verifier call."""

UNREAD: Final = 2
"""Tokens that a drafter reads before it drafts: about as many as the iteration before committed."""

SENTENCES: Final = 128
"""The most sentences of a text that are decoded."""

LEAST_SENTENCES: Final = 32
"""The fewest sentences whose decoding is timed, or twice the batch size, if that is more; they repeat as needed."""

_MOST: Final = 20
_BUDGET: Final = 0.4
"""How often calls are timed at most, and for how many seconds beyond the repeats asked for."""


@dataclass(frozen=True)
class Stage:
    """A part of the work, after which the figures are consistent."""

    name: str

    share: float
    """Of the whole, roughly: in seconds where a sentence takes 10 ms."""

    run: Callable[[], None]


class Tally(Recorder):
    """Counts how many leading tokens of drafts are accepted."""

    def __init__(self, block_size: int) -> None:
        super().__init__(beta=1)
        self.passes = 0
        self.counts = np.zeros(block_size, dtype=np.int64)

    @override
    def record(
        self,
        request: Request,
        prefix: list[int],
        nodes: list[Node],
        logits: Tensor,
        accepted: list[int],
        emitted: list[int],
        trials: list[Trial],
    ) -> None:
        self.passes += 1
        tokens = [nodes[place - 1].token for place in accepted]
        # What is drafted after the end of the sentence is never committed.
        self.counts[: tokens.index(EOS) + 1 if EOS in tokens else len(tokens)] += 1

    @property
    def acceptance(self) -> list[float]:
        """How often the first 1 … K tokens were all accepted."""
        return [float(count) / self.passes for count in self.counts]


def stages_of_calls(bench: Bench, verifier: Verifier, *, clock: Clock = time.perf_counter) -> list[Stage]:
    """Returns the stages that time verifier calls.

    :raises UsageError: a sentence cannot have so many rows.
    """
    _check("rows", bench.options.rows[-1], verifier)

    def run(size: int) -> None:
        bench.verify[size] = verifying_seconds(verifier, bench.options, size, clock)

    return [Stage(f"verifier calls, batch {size}", 1.0 + size / 16, partial(run, size)) for size in _sizes(bench)]


def stages_of_drafting(
    bench: Bench, model: Model, sources: Sequence[list[int]], *, clock: Clock = time.perf_counter
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
        tally = Tally(largest)
        decode(model, sources, _options(bench, block_size=largest), recorder=tally)
        bench.acceptance, bench.passes = tally.acceptance, tally.passes

    def draft(size: int) -> None:
        costs = costs_of_iterations(model, bench.options, size, sources, clock)
        bench.draft[size] = dict(costs.draft)
        bench.predicted[size] = predict(bench.acceptance, costs, size)
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


@torch.inference_mode()
def verifying_seconds(
    verifier: Verifier, options: BenchOptions, batch_size: int, clock: Clock = time.perf_counter
) -> dict[int, float]:
    """Returns the seconds of a verifier call by rows a sentence, for sentences of 24 pieces and a prefix as long."""
    place: dict[str, Any] = {"dtype": torch.int64, "device": verifier.device}
    with _alone(verifier):
        state = verifier.new_state(batch_size)
        verifier.start(state, torch.arange(batch_size, **place), verifier.encode([[UNK] * SOURCE] * batch_size))
        verifier.score(torch.full((batch_size, PREFIX), UNK, **place), torch.zeros(batch_size, **place), state)
        starts = torch.full((batch_size,), PREFIX, **place)

        def call(window: Tensor) -> float:
            return float(verifier.score(window, starts, state)[-1, -1, 0])  # waits for the device

        windows = [torch.full((batch_size, rows), UNK, **place) for rows in options.rows]
        medians = _medians([partial(call, window) for window in windows], options, clock)
    return dict(zip(options.rows, medians, strict=True))


@torch.inference_mode()
def costs_of_iterations(
    model: Model,
    options: BenchOptions,
    batch_size: int,
    sources: Sequence[list[int]],
    clock: Clock = time.perf_counter,
) -> Costs:
    """Returns what iterations of the loop cost, in which verifying is all but drafting.

    :param sources: sentences as ids without EOS, of which the longest are drafted for
    """
    largest, block_sizes = depth(model, options)
    widths = sorted({1, 2, *range(3, largest + 1, 3), largest + 1})
    sizes = sorted({1, *block_sizes, largest})
    with _alone(model.verifier):
        iterations = [iteration(model.verifier, Constant(width - 1), batch_size) for width in widths]
        verifying = _medians(iterations, options, clock)
        drafts = _drafts(model, options, sizes, batch_size, sources)
        drafting = _medians(drafts, options, clock)
    return Costs(tuple(zip(widths, verifying, strict=True)), tuple(zip(sizes, drafting, strict=True)))


def _drafts(
    model: Model, options: BenchOptions, sizes: Sequence[int], batch_size: int, sources: Sequence[list[int]]
) -> list[Callable[[], object]]:
    """Returns calls that draft blocks of some sizes in the middle of sentences, the longest ones of a text."""
    longest = list(islice(cycle(sorted(sources, key=len, reverse=True)[:batch_size]), batch_size))
    device = model.verifier.device
    translations = decode(model, longest, DecodingOptions(strategy="greedy"))
    prefixes = [[BOS, *each.tokens[: (len(each.tokens) + 1) // 2]] for each in translations]
    lengths = torch.tensor([len(prefix) for prefix in prefixes], device=device)
    width = int(lengths.max())
    tokens = torch.tensor([prefix + [UNK] * (width - len(prefix)) for prefix in prefixes], device=device)
    memory = model.verifier.encode(longest)
    requests = [Request(number, source) for number, source in enumerate(longest)]

    def draft(drafter: MaskedDrafter | AutoregressiveDrafter) -> None:
        # Whatever the drafter knows of the last tokens, it is to read them again.
        drafter.seen[:] = (lengths - UNREAD).clamp(min=0)
        drafter.propose(tokens, lengths).tokens.tolist()  # waits for the device

    calls: list[Callable[[], object]] = []
    for size in sizes:
        chosen = DecodingOptions(drafter=options.drafter, block_size=size)
        drafter = cast("MaskedDrafter | AutoregressiveDrafter", make_drafter(model, batch_size, chosen))
        drafter.start(torch.arange(batch_size, device=device), memory, requests)
        drafter.propose(tokens, lengths)
        calls.append(partial(draft, drafter))
    return calls


def speeds_of(
    model: Model,
    sources: Sequence[list[int]],
    ways: dict[str, DecodingOptions],
    batch_size: int,
    clock: Clock = time.perf_counter,
) -> dict[str, float]:
    """Returns the sentences a second of each way of decoding, one after the other."""
    speeds = {}
    for way, options in ways.items():
        started = clock()
        decode(model, sources, replace(options, batch_size=batch_size))
        speeds[way] = len(sources) / (clock() - started)
    return speeds


def predict(acceptance: Sequence[float], costs: Costs, batch_size: int) -> list[float]:
    """Returns the tokens a second with blocks of 0 … K, the encoder left out.

    :param acceptance: (K) the probability that the first 1 … K tokens of a block are all accepted
    """
    verifying, drafting = np.array(costs.verifying(len(acceptance) + 1)), np.array(costs.drafting(len(acceptance)))
    return [float(value) for value in batch_size * yields(acceptance, verifying, drafting)]


def depth(model: Model, options: BenchOptions) -> tuple[int, tuple[int, ...]]:
    """Returns the largest block size of predictions, and the block sizes whose speed is measured."""
    if options.drafter != "masked":
        own = AHEAD[options.drafter]
    elif model.folder.calibration is not None:
        own = len(model.folder.calibration.acceptance)
    else:
        own = 1 if model.folder.drafter is None else model.folder.drafter.block_size
    block_sizes = options.block_sizes or default_blocks(own)
    return max(own, *block_sizes), block_sizes


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
    from specmt.models.hub import choose_device, choose_dtype, verifier_network
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
    most = verifier.sizes.max_length - PREFIX
    if rows > most:
        raise UsageError(f"`{name}` must not make more than {most} rows of a sentence here, but makes {rows} instead.")


def _options(bench: Bench, *, block_size: int | None = None) -> DecodingOptions:
    return DecodingOptions(drafter=bench.options.drafter, block_size=block_size)


def _sizes(bench: Bench) -> tuple[int, ...]:
    return bench.options.batch_sizes


def _medians(calls: Sequence[Callable[[], object]], options: BenchOptions, clock: Clock) -> list[float]:
    least = min(options.repeats, _MOST)
    seconds = seconds_in_turns(calls, least=least, most=_MOST, budget=_BUDGET, clock=clock)
    return [statistics.median(times) for times in seconds]


@contextmanager
def _alone(verifier: Verifier) -> Iterator[None]:
    """Leaves the threads to the kernels, as decoding does."""
    with only_kernels() if verifier.own_threads else nullcontext():
        yield
