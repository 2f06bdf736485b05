"""How long calls and decoding take on this machine."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import cycle, islice
from time import perf_counter
from typing import TYPE_CHECKING, Final, cast

import torch

from specmt.decoding.batch import decode, make_drafter
from specmt.decoding.costs import TOGETHER, Constant, iterations, no_trust, repeated, seconds_in_turns
from specmt.decoding.plan import Costs
from specmt.decoding.request import Request
from specmt.engine.backend import Verifier
from specmt.engine.native import NativeVerifier
from specmt.engine.pool import only_kernels
from specmt.evaluation.bench_results import BenchOptions, default_blocks
from specmt.options import AHEAD, DecodingOptions
from specmt.types import UNK

if TYPE_CHECKING:
    from specmt.decoding.autoregressive import AutoregressiveDrafter
    from specmt.decoding.masked import MaskedDrafter
    from specmt.models.hub import Model

Clock = Callable[[], float]

SMALL: Final = 256
"""Rows of a call that is timed several times in a row: the first one waits for weights that others drove out."""

UNREAD: Final = 2
"""Tokens that a drafter reads before it drafts: about as many as the iteration before committed."""

_MOST: Final = 20
_BUDGET: Final = 0.4
"""How often calls are timed at most, and for how many seconds beyond the repeats asked for."""


@torch.inference_mode()
def verifying_seconds(
    verifier: Verifier, options: BenchOptions, batch_size: int, clock: Clock = perf_counter
) -> dict[int, float]:
    """Returns the seconds of an iteration that verifies so many rows of each sentence, drafted at no cost."""
    counts = [TOGETHER if batch_size * rows <= SMALL else 1 for rows in options.rows]
    with _alone(verifier):
        calls = [
            iterations(verifier, Constant(rows - 1), batch_size, count)
            for rows, count in zip(options.rows, counts, strict=True)
        ]
        medians = _medians(calls, options, clock)
    return {rows: seconds / count for rows, count, seconds in zip(options.rows, counts, medians, strict=True)}


@torch.inference_mode()
def encoding_seconds(
    verifier: Verifier, options: BenchOptions, sources: Sequence[list[int]], clock: Clock = perf_counter
) -> float:
    """Returns the seconds that sentences side by side take before their first token."""
    state = verifier.new_state(len(sources))
    rows = torch.arange(len(sources), device=verifier.device)

    def call() -> float:
        memory = verifier.encode(sources)
        verifier.start(state, rows, memory)
        return float(state.cross.data[-1, -1, -1, -1, 0, 0])  # waits for the device

    with _alone(verifier):
        return _medians([call], options, clock)[0]


@torch.inference_mode()
def costs_of_iterations(
    model: Model,
    options: BenchOptions,
    batch_size: int,
    sources: Sequence[list[int]],
    clock: Clock = perf_counter,
) -> Costs:
    """Returns what iterations of the loop cost, in which verifying is all but drafting.

    :param sources: sentences as ids without EOS, of which the longest are drafted for
    """
    largest, block_sizes = depth(model, options)
    widths = sorted({1, 2, *range(3, largest + 1, 3), largest + 1})
    sizes = sorted({1, *block_sizes, largest})
    with _alone(model.verifier):
        calls = [iterations(model.verifier, Constant(width - 1), batch_size, TOGETHER) for width in widths]
        verifying = [seconds / TOGETHER for seconds in _medians(calls, options, clock)]
        drafts, alone = _drafts(model, options, sizes, batch_size, sources)
        drafting = [max(0.0, seconds - verifying[0] * alone) for seconds in _medians(drafts, options, clock)]
    return Costs(tuple(zip(widths, verifying, strict=True)), tuple(zip(sizes, drafting, strict=True)))


def _drafts(
    model: Model, options: BenchOptions, sizes: Sequence[int], batch_size: int, sources: Sequence[list[int]]
) -> tuple[list[Callable[[], object]], bool]:
    """Returns calls that draft blocks of some sizes in the middle of sentences, the longest ones of a text.

    The engine does so by itself where it can, and then verifies a token, too: whether that is so is the second result.
    """
    longest = list(islice(cycle(sorted(sources, key=len, reverse=True)[:batch_size]), batch_size))
    device = model.verifier.device
    translations = decode(model, longest, DecodingOptions(strategy="greedy"))
    start = model.verifier.prefixes.start
    prefixes = [[*start, *each.tokens[: (len(each.tokens) + 1) // 2]] for each in translations]
    lengths = torch.tensor([len(prefix) for prefix in prefixes], device=device)
    padding = model.verifier.sizes.max_length  # room for what may come
    tokens = torch.tensor([prefix + [UNK] * (padding - len(prefix)) for prefix in prefixes], device=device)
    memory = model.verifier.encode(longest)
    requests = [Request(number, source) for number, source in enumerate(longest)]

    def draft(drafter: MaskedDrafter | AutoregressiveDrafter) -> None:
        # Whatever the drafter knows of the last tokens, it is to read them again.
        drafter.seen[:] = (lengths - UNREAD).clamp(min=0)
        drafter.propose(tokens, lengths).tokens.tolist()  # waits for the device

    verifier = model.verifier
    native = verifier if isinstance(verifier, NativeVerifier) else None
    state = verifier.new_state(batch_size)
    verifier.start(state, torch.arange(batch_size, device=device), memory)
    calls: list[Callable[[], object]] = []
    for size in sizes:
        chosen = DecodingOptions(drafter=options.drafter, block_size=size)
        drafter = cast("MaskedDrafter | AutoregressiveDrafter", make_drafter(model, batch_size, chosen))
        drafter.start(torch.arange(batch_size, device=device), memory, requests)
        drafter.propose(tokens, lengths)
        drafting = None if native is None else drafter.drafting(batch_size)
        if native is None or drafting is None:
            calls.append(partial(draft, drafter))
        else:
            nothing = replace(drafting, trust=no_trust(size))
            calls.append(repeated(native, state, tokens, lengths.numpy(), nothing, unread=UNREAD, count=1))
    return calls, native is not None


def speeds_of(
    model: Model,
    sources: Sequence[list[int]],
    ways: dict[str, DecodingOptions],
    batch_size: int,
    clock: Clock = perf_counter,
) -> dict[str, float]:
    """Returns the sentences a second of each way of decoding, one after the other."""
    speeds = {}
    for way, options in ways.items():
        started = clock()
        decode(model, sources, replace(options, batch_size=batch_size))
        speeds[way] = len(sources) / (clock() - started)
    return speeds


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


def _medians(calls: Sequence[Callable[[], object]], options: BenchOptions, clock: Clock) -> list[float]:
    least = min(options.repeats, _MOST)
    seconds = seconds_in_turns(calls, least=least, most=_MOST, budget=_BUDGET, clock=clock)
    return [statistics.median(times) for times in seconds]


@contextmanager
def _alone(verifier: Verifier) -> Iterator[None]:
    """Leaves the threads to the kernels, as decoding does."""
    with only_kernels() if verifier.own_threads else nullcontext():
        yield
