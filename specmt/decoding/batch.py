"""Decodes many sentences by any strategy; results come back in the order of the sources."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from specmt.config import DecodingOptions
from specmt.decoding.accept import accept_exact, accept_tolerant
from specmt.decoding.costs import costs_of
from specmt.decoding.drafters import Drafter, MaskedDrafter, NoDrafter, SelfDrafter
from specmt.decoding.loop import Acceptor, Loop, Request
from specmt.decoding.plan import Adaptive, Fixed, Plan
from specmt.errors import ModelError
from specmt.types import Hypothesis

if TYPE_CHECKING:
    from specmt.models.hub import Model


def decode(model: Model, sources: Sequence[list[int]], options: DecodingOptions) -> list[Hypothesis]:
    """Decodes sentences given as ids without EOS.

    Sentences of similar length are decoded side by side; neither that nor the batch size changes an output.

    :raises ModelError: a drafter is asked for that the model does not have.
    """
    if options.strategy == "beam":
        from specmt.decoding.search import beam_search

        return beam_search(model.reference, sources, options)
    rows = min(options.batch_size, len(sources))
    drafter = make_drafter(model, rows, options)
    acceptor: Acceptor = accept_exact
    if not options.lossless:
        acceptor = partial(accept_tolerant, beta=options.beta, tolerance=options.tolerance)
    loop = Loop(model.verifier, drafter, acceptor, rows, max_source_tokens=options.batch_tokens, scores=options.scores)
    # Longest first: the short ones fill the rows that become free towards the end.
    order = sorted(range(len(sources)), key=lambda index: -len(sources[index]))
    hypotheses = dict(loop.run(Request(index, sources[index]) for index in order))
    return [hypotheses[index] for index in range(len(sources))]


def make_drafter(model: Model, rows: int, options: DecodingOptions) -> Drafter:
    """Returns the drafter that the options ask for.

    :raises ModelError: the model does not have it.
    """
    if options.strategy == "greedy" or options.drafter == "none":
        return NoDrafter()
    if options.drafter == "self":
        return SelfDrafter(model.fast_verifier, rows, model.block_size(options) or 1)
    if model.drafter is None:
        raise ModelError(
            f"{model.path}: the model has no masked drafter; train one with `specmt train drafter`, "
            "or use --drafter none."
        )
    return MaskedDrafter(model.drafter, rows, make_plan(model, options))


def make_plan(model: Model, options: DecodingOptions) -> Plan:
    """Returns how far to look ahead."""
    block_size = model.block_size(options)
    if block_size is None and model.folder.calibration is not None:
        return Adaptive(model.folder.calibration, lambda rows: costs_of(model, rows))
    return Fixed(block_size or 1)
