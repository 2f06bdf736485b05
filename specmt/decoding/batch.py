"""Decodes many sentences by any strategy; results come back in the order of the sources."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Final

import torch

from specmt.decoding.accept import accept_exact, accept_tolerant
from specmt.decoding.autoregressive import AutoregressiveDrafter
from specmt.decoding.costs import costs_of
from specmt.decoding.drafters import CombinedDrafter, Drafter, NoDrafter
from specmt.decoding.lookup import LookupDrafter, Plans
from specmt.decoding.loop import Acceptor, Loop
from specmt.decoding.masked import MaskedDrafter
from specmt.decoding.memory import TranslationMemory
from specmt.decoding.plan import Adaptive, Fixed, Learning, Plan
from specmt.decoding.request import Request
from specmt.decoding.sample import Sampling, accept_by_rejection
from specmt.decoding.shape import BestFirst, Chain, Sampled, Shape
from specmt.decoding.shortlist import Shortlist
from specmt.decoding.trace import Recorder
from specmt.engine.backend import Network, Runner
from specmt.engine.pool import only_kernels
from specmt.errors import ModelError
from specmt.options import DecodingOptions
from specmt.types import Hypothesis

if TYPE_CHECKING:
    from specmt.models.hub import Model


logger = logging.getLogger(__name__)

MOST_NODES: Final = 24
"""The nodes of a best-first tree, where nobody says how many and none is too many."""

WORTH: Final = 1.05
WORTH_OF_LIKENESS: Final = 2.0
"""How many times the yield of greedy decoding drafts are thought to have before they were tried: not much more, or, of
lookups for sentences like others, so much."""


def decode(
    model: Model,
    sources: Sequence[list[int]],
    options: DecodingOptions,
    places: Sequence[tuple[int, int]] | None = None,
    *,
    memory: TranslationMemory | None = None,
    recorder: Recorder | None = None,
) -> list[Hypothesis]:
    """Decodes sentences given as ids without EOS.

    Sentences of similar length are decoded side by side; neither that nor the batch size changes an output.

    :param memory: what lookups copy from; what they lead to is added. By default one that starts empty.
    :param places: the line that each comes from, and its number in the line, which samples depend on
    :param recorder: is told of every pass over a sentence
    :raises ModelError: a drafter or a shortlist is asked for that the model does not have.
    """
    if options.strategy == "beam":
        from specmt.decoding.search import beam_search

        return beam_search(model.reference, sources, options, model.verifier.prefixes)
    options = options.for_model(has_drafter=model.has_drafter)
    places = places or [(number, 0) for number in range(len(sources))]
    pairs = enumerate(zip(sources, places, strict=True))
    requests = [Request(number, source, *place) for number, (source, place) in pairs]
    # Longest first: the short ones fill the rows that become free towards the end.
    waiting = sorted(requests, key=lambda request: -len(request.source))
    hypotheses: dict[int, Hypothesis] = {}
    while waiting:
        rows = min(options.batch_size, model.most_rows or len(waiting), len(waiting))
        try:
            for key, hypothesis in _run(model, waiting, rows, options, memory, recorder):
                hypotheses[key] = hypothesis
        except (MemoryError, RuntimeError) as error:
            if rows == 1 or not is_out_of_memory(error):
                raise
            model.most_rows = rows // 2
            logger.warning("memory is too small for %d sentences side by side; going on with %d", rows, rows // 2)
        waiting = [request for request in waiting if request.key not in hypotheses]
    return [hypotheses[number] for number in range(len(sources))]


def _run(
    model: Model,
    requests: Sequence[Request],
    rows: int,
    options: DecodingOptions,
    memory: TranslationMemory | None,
    recorder: Recorder | None,
) -> Iterator[tuple[int, Hypothesis]]:
    verifier = model.verifier
    is_plain = options.lossless and not (options.samples or options.scores) and recorder is None
    runner = verifier if is_plain and isinstance(verifier, Runner) else None
    if runner is not None and options.shortlist and not runner.minds_shortlists:
        runner = None
    # From the start: torch's threads would still be spinning, after empty caches were filled, when the kernels begin.
    with only_kernels() if verifier.own_threads else nullcontext():
        loop = Loop(
            verifier,
            make_drafter(model, rows, options, memory, by_itself=runner is not None),
            make_acceptor(options),
            rows,
            max_source_tokens=options.batch_tokens * rows // min(options.batch_size, len(requests)),
            scores=options.scores,
            recorder=recorder,
            runner=runner,
            shortlist=model.shortlist if options.shortlist else None,
        )
        yield from loop.run(requests)


def is_out_of_memory(error: BaseException) -> bool:
    """Returns whether an error says that there is no memory left, on whichever device."""
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def make_acceptor(options: DecodingOptions) -> Acceptor:
    """Returns the acceptor that the options ask for."""
    if options.samples:
        return partial(accept_by_rejection, how=sampling(options))
    if options.lossless:
        return lambda tree, logits, *_: accept_exact(tree, logits)
    tolerant = partial(accept_tolerant, beta=options.beta, tolerance=options.tolerance)
    return lambda tree, logits, *_: tolerant(tree, logits)


def sampling(options: DecodingOptions) -> Sampling:
    """Returns how tokens are drawn."""
    return Sampling(options.temperature, options.top_k, options.seed)


def make_drafter(
    model: Model,
    rows: int,
    options: DecodingOptions,
    memory: TranslationMemory | None = None,
    *,
    by_itself: bool = False,
) -> Drafter:
    """Returns the drafter that the options ask for.

    :param by_itself: whether the engine runs the loop by itself where it can: what is learnt holds for that
    :raises ModelError: the model does not have it.
    """
    options = options.for_model(has_drafter=model.has_drafter)
    if options.strategy == "greedy":
        return NoDrafter()
    drafters = [_make_drafter(name, model, rows, options, memory, by_itself) for name in options.drafters]
    return drafters[0] if len(drafters) == 1 else CombinedDrafter(drafters)


def _make_drafter(
    name: str, model: Model, rows: int, options: DecodingOptions, memory: TranslationMemory | None, by_itself: bool
) -> Drafter:
    if name == "none":
        return NoDrafter()
    if name == "lookup":
        kinds = {"alike": WORTH_OF_LIKENESS, "unlike": WORTH}
        plans = {kind: make_plan(model, options, name, (kind, by_itself), worth) for kind, worth in kinds.items()}
        memory, start = TranslationMemory() if memory is None else memory, model.verifier.prefixes.start
        return LookupDrafter(memory, model.pieces, Plans(**plans), start)
    shape = make_shape(options)
    if name == "self":
        return AutoregressiveDrafter(model.fast_verifier, rows, Fixed(options.ahead(name)), shape)
    if name == "autoregressive":
        if model.autoregressive is None:
            raise ModelError(
                f"{model.path}: the model has no autoregressive drafter; train one with "
                "`specmt train drafter --kind autoregressive`, or use another."
            )
        plan = make_plan(model, options, name, (shape, by_itself))
        shortlist = drafted_of(model, model.autoregressive, options)
        return AutoregressiveDrafter(model.autoregressive, rows, plan, shape, shortlist)
    if model.drafter is None:
        raise ModelError(
            f"{model.path}: the model has no masked drafter; train one with `specmt train drafter`, "
            "or leave --drafter out."
        )
    plan = make_masked_plan(model, options, shape, by_itself=by_itself)
    return MaskedDrafter(model.drafter, rows, plan, shape, drafted_of(model, model.drafter, options))


def drafted_of(model: Model, network: Network, options: DecodingOptions) -> Shortlist | None:
    """Returns what a drafter chooses from.

    Exact outputs do not depend on it: where it saves no work there is no need of it. Others do.
    """
    return model.draft_shortlist if network.shortens or options.samples or not options.lossless else None


def make_shape(options: DecodingOptions) -> Shape:
    """Returns the shape of draft trees that the options ask for."""
    if options.samples:
        return Sampled(options.width if options.tree == "sampled" else 1, sampling(options))
    return BestFirst(options.nodes or MOST_NODES, options.beta) if options.tree == "best-first" else Chain()


def make_masked_plan(model: Model, options: DecodingOptions, shape: Shape, *, by_itself: bool = False) -> Plan:
    """Returns how far the masked drafter looks ahead; what is learnt outlives a batch."""
    block_size = model.block_size(options)
    calibration = model.folder.calibration
    if block_size is not None or calibration is None:
        return Fixed(block_size or 1)
    nodes = shape.nodes if isinstance(shape, BestFirst) else len(calibration.acceptance)
    key = options.drafters, shape, by_itself, options.shortlist
    if key not in model.plans:
        shortlist = model.shortlist if options.shortlist else None
        drafted = None if model.drafter is None else drafted_of(model, model.drafter, options)
        model.plans[key] = Adaptive(
            calibration, lambda rows: costs_of(model, rows, nodes, shape, shortlist, drafted), nodes
        )
    return model.plans[key]


def make_plan(model: Model, options: DecodingOptions, name: str, kind: object, worth: float = WORTH) -> Plan:
    """Returns how far another drafter looks ahead, whose costs nobody knows; what is learnt outlives a batch.

    :param kind: of drafts, sentences and loops
    :param worth: how many times the yield of greedy decoding drafting is thought to have
    """
    ahead = options.ahead(name)
    if model.block_size(options) is not None or len(options.drafters) > 1:
        return Fixed(ahead)
    key = (options.drafters, options.shortlist), kind
    return model.plans.setdefault(key, Learning(ahead, worth=worth))
