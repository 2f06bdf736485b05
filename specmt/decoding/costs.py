"""What an iteration of the loop costs on this machine: measured once, kept in the user's cache folder."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING, Final

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from specmt.decoding.accept import Verdict, accept_exact
from specmt.decoding.drafters import Drafter, NoDrafter
from specmt.decoding.loop import Loop
from specmt.decoding.masked import MaskedDrafter
from specmt.decoding.plan import Costs, Fixed
from specmt.decoding.request import Request
from specmt.decoding.shape import Shape
from specmt.decoding.shortlist import Shortlist
from specmt.decoding.tree import Tree
from specmt.engine import backend, keep
from specmt.engine.backend import Counts, Drafting, Runner, Sentences, State, Trust
from specmt.errors import ModelError
from specmt.types import EOS, UNK

if TYPE_CHECKING:
    from specmt.models.hub import Model

SOURCE: Final = 24
UNKNOWN: Final = (UNK,) * SOURCE
"""How long the sentences are that are measured on, and one of them."""

TOGETHER: Final = 4
"""Iterations timed as one."""

REPEATS: Final = 20
SECONDS: Final = 0.25
"""How often iterations are timed, and how long at most but for the first three."""


class Constant(NoDrafter):
    """Proposes so many tokens at no cost."""

    def __init__(self, size: int) -> None:
        self.size = size

    @override
    def propose(self, tokens: Tensor, lengths: Tensor) -> Tree:
        return Tree(torch.full((len(lengths), self.size), UNK, device=tokens.device))

    @override
    def drafting(self, rows: int) -> Drafting | None:
        return Drafting(self.size)


class _KeepNothing(Fixed):
    """Drafts a block and verifies none of it."""

    @override
    def keep(self, tree: Tree) -> int:
        return 0

    @override
    def trust(self, rows: int) -> Trust | None:
        return no_trust(self.block_size)


def no_trust(block_size: int) -> Trust:
    """Returns what lets an engine verify none of its drafts."""
    return Trust(np.array([1.0] + [np.inf] * block_size), 1.0, 0.0)


def _refuse(tree: Tree, logits: Tensor, starts: Sequence[int], requests: Sequence[Request]) -> Verdict:
    """Does the work of an exact acceptor, and lets every sentence go on for another token."""
    verdict = accept_exact(tree, logits)
    return Verdict(torch.zeros_like(verdict.accepted), torch.full_like(verdict.tokens, UNK))


@torch.inference_mode()
def measure(
    verifier: backend.Verifier,
    drafter: backend.Drafter,
    rows: int,
    block_size: int,
    widest: int,
    shape: Shape,
    source: Sequence[int] = UNKNOWN,
    shortlist: Shortlist | None = None,
    drafted: Shortlist | None = None,
) -> Costs:
    """Measures iterations over a number of sentences.

    :param widest: the tokens of the widest window
    :param shape: what drafts are made of blocks
    :param source: the sentence, as ids without EOS
    :param shortlist: what may be said of it; by default everything
    :param drafted: what drafts are chosen from; by default all that may be said
    """
    widths = sorted({1, 2, *range(3, widest, 3), widest})
    sizes = sorted({1, (block_size + 1) // 2, block_size})
    drafters: list[Drafter] = [Constant(width - 1) for width in widths]
    drafters += [MaskedDrafter(drafter, rows, _KeepNothing(size), shape, drafted) for size in sizes]
    calls = [iterations(verifier, each, rows, TOGETHER, source, shortlist) for each in drafters]
    seconds = [each / TOGETHER for each in median_seconds(calls)]
    verifying, drafting = seconds[: len(widths)], seconds[len(widths) :]
    return Costs(
        verify=tuple(zip(widths, verifying, strict=True)),
        draft=tuple((size, max(0.0, each - verifying[0])) for size, each in zip(sizes, drafting, strict=True)),
    )


def iterations(
    verifier: backend.Verifier,
    drafter: Drafter,
    rows: int,
    count: int,
    source: Sequence[int] = UNKNOWN,
    shortlist: Shortlist | None = None,
) -> Callable[[], object]:
    """Returns a call that runs so many iterations over sentences that do not end."""
    most = rows * verifier.sizes.max_length
    loop = Loop(verifier, drafter, _refuse, rows, max_source_tokens=most, shortlist=shortlist)
    loop.admit(deque(Request(number, list(source)) for number in range(rows)))
    for row in loop.rows:
        row.limit = verifier.sizes.max_length - 1  # that of such a short source would be reached on a quick machine
    drafting = drafter.drafting(rows) if isinstance(verifier, Runner) else None
    if not isinstance(verifier, Runner) or drafting is None:
        return lambda: [loop.step() for _ in range(count)]
    return repeated(verifier, loop.state, loop.tokens, np.full(rows, len(source)), drafting, unread=1, count=count)


def repeated(
    verifier: Runner,
    state: State,
    tokens: Tensor,
    lengths: Counts,
    drafting: Drafting,
    *,
    unread: int,
    count: int,
) -> Callable[[], object]:
    """Returns a call that lets the engine run so many iterations, always from the same place.

    :param tokens: (B, T) what was committed
    :param lengths: (B) how many tokens that is
    :param unread: how many of them the drafter has to read
    """
    zeros = (np.zeros_like(lengths) for _ in range(3))
    sentences = Sentences(tokens, lengths.copy(), np.full_like(lengths, verifier.sizes.max_length), *zeros)

    def run() -> None:
        sentences.lengths[:] = lengths
        if drafting.seen is not None:
            drafting.seen[:] = torch.from_numpy(lengths - unread).clamp(min=0)
        verifier.run(state, sentences, drafting, iterations=count, enough=len(lengths), end=-1)

    return run


def median_seconds(calls: Sequence[Callable[[], object]]) -> list[float]:
    """Returns the median time of each call, taken in turns."""
    return [statistics.median(times) for times in seconds_in_turns(calls, least=3, most=REPEATS, budget=SECONDS)]


def seconds_in_turns(
    calls: Sequence[Callable[[], object]],
    *,
    least: int,
    most: int,
    budget: float,
    clock: Callable[[], float] = time.perf_counter,
) -> list[list[float]]:
    """Times calls after running each once; they take turns, so that what else the machine does hits all alike.

    :param least: how often, at least
    :param most: how often, at most
    :param budget: after how many seconds to stop, the least number permitting
    :param clock: returns the seconds since some moment
    """
    seconds: list[list[float]] = [[] for _ in calls]
    end = clock() + budget
    for call in calls:
        call()
    while len(seconds[0]) < least or (len(seconds[0]) < most and clock() < end):
        for call, times in zip(calls, seconds, strict=True):
            started = clock()
            call()
            times.append(clock() - started)
    return seconds


def costs_of(
    model: Model,
    rows: int,
    nodes: int,
    shape: Shape,
    shortlist: Shortlist | None = None,
    drafted: Shortlist | None = None,
) -> Costs:
    """Returns what iterations over a number of sentences side by side cost with a model on this machine.

    :param nodes: the most that are verified for a sentence
    :param shape: what drafts are made of blocks
    :param shortlist: what may be said; by default everything
    :param drafted: what drafts are chosen from; by default all that may be said
    :raises ModelError: it has no calibrated drafter.
    """
    drafter, calibration = model.drafter, model.folder.calibration
    if drafter is None or calibration is None:
        raise ModelError(f"{model.path}: the model has no calibrated drafter.")
    largest = len(calibration.acceptance)
    kinds = f"{type(model.verifier).__name__} {model.dtype}, {type(drafter).__name__} {drafter.dtype}, {model.device}"
    work = f"{model.folder.verifier} {model.folder.drafter}; {rows} rows, {largest} slots, {nodes} nodes, {shape}"
    for kind, lists in (("listed", shortlist), ("to draft", drafted)):
        if lists is not None:
            work += f", {len(lists.always)} + {len(lists.targets)} {kind}"
    # Each piece allows others: some of all kinds.
    source = np.linspace(EOS + 1, model.folder.verifier.source_pieces - 1, SOURCE, dtype=np.int64).tolist()
    found = keep.kept(
        "costs",
        f"{kinds}; {work}; 5",  # raised when iterations change what they cost
        lambda: astuple(measure(model.verifier, drafter, rows, largest, nodes + 1, shape, source, shortlist, drafted)),
    )
    return Costs(*(tuple((int(size), float(seconds)) for size, seconds in pairs) for pairs in found))
