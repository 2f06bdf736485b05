"""A trace as JSON, for programs.

Tokens are objects with ``id`` and ``piece`` (▁ is the space before it). Probabilities are natural logarithms named
``log_prob``, but for ``draft`` and ``verifier`` of trials. ``null`` is what is not known. A place is a token of the
window that one verifier call scores: 0 is the last committed token, i the i-th node.

``source``, ``translation``
    ``text`` and ``tokens``, without BOS and EOS.
``strategy``, ``drafter``, ``beta``, ``tolerance``, ``temperature``
    The options that decide what is accepted.
``lossless``
    Whether the translation is what greedy decoding says.
``stats``
    ``tokens`` (EOS included), ``verifier_calls``, ``drafted``, ``accepted``, ``mean_accepted_length``.
``line``, ``text``
    The sentence as it was given, and its translation as it is written.
``attempt``
    0 where that is what the model said freely, 1 with numbers and what is copied held fast, 2 where the texts between
    those were translated by themselves, since what is shown lost some of it.
``alignment``
    Pairs of a word of ``line`` and a word of ``text`` that comes from it, counted from 0.
``iterations``
    A list of objects, one a verifier call:

    ``prefix``
        The committed tokens before it, BOS first.
    ``mask_slots``
        How many [MASK] slots followed them in the drafter's input.
    ``nodes``
        The draft tree: tokens with ``place``, ``parent`` (a place), ``log_prob`` and ``verdict``: ``accepted``,
        ``rejected``, or ``unseen`` where the verdict did not depend on it.
    ``verified``
        For each place, the verifier's best tokens after it, with ``log_prob`` and ``ruled_out`` (by the tolerance).
    ``accepted``
        The places of the accepted nodes, from the root on.
    ``emitted``
        The tokens committed, with ``origin``: ``accepted`` (a draft), ``corrected`` (the verifier's own in place of
        drafts) or ``added`` (the verifier's own where nothing was drafted).
    ``trials``
        When sampling, what was tested, in that order: ``place``, ``draft`` (its probability p), ``verifier`` (q),
        ``accepted`` and, after a rejection, ``residual``: the likeliest tokens left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from specmt.decoding.verdicts import mask_slots, origins, ruled_out, verdicts
from specmt.options import DecodingOptions

if TYPE_CHECKING:
    from specmt.decoding.trace import Candidate, Iteration, Trace
    from specmt.text.pieces import PieceModel

Record = dict[str, Any]


def record(trace: Trace, pieces: PieceModel, options: DecodingOptions) -> Record:
    """Returns what is written of a trace.

    :param options: those that it was made with.
    """

    def tokens(ids: Sequence[int], **more: Sequence[object]) -> list[Record]:
        return _named(ids, pieces.pieces(ids), **more)

    def candidates(found: Sequence[Candidate], **more: Sequence[object]) -> list[Record]:
        return tokens([each.token for each in found], log_prob=[_number(each.log_prob) for each in found], **more)

    def iteration_of(iteration: Iteration) -> Record:
        nodes = iteration.nodes
        return {
            "prefix": tokens(iteration.prefix),
            "mask_slots": mask_slots(iteration, options),
            "nodes": tokens(
                [node.token for node in nodes],
                place=range(1, len(nodes) + 1),
                parent=[node.parent for node in nodes],
                log_prob=[_number(node.log_prob) for node in nodes],
                verdict=verdicts(iteration, options),
            ),
            "verified": [candidates(found, ruled_out=ruled_out(found, options)) for found in iteration.verified],
            "accepted": iteration.accepted,
            "emitted": tokens(iteration.emitted, origin=origins(iteration)),
            "trials": [{**vars(trial), "residual": candidates(trial.residual)} for trial in iteration.trials],
        }

    iterations = [iteration_of(iteration) for iteration in trace.iterations]
    verdicts_ = [node["verdict"] for iteration in iterations for node in iteration["nodes"]]
    count, calls = sum(len(iteration.emitted) for iteration in trace.iterations), len(iterations)
    source = _named(trace.source, pieces.source_pieces(trace.source))
    return {
        "source": {"text": pieces.decode_source(trace.source), "tokens": source},
        "translation": {"text": pieces.decode(trace.tokens), "tokens": tokens(trace.tokens)},
        "strategy": options.strategy,
        "drafter": options.drafter if options.strategy == "speculative" else "none",
        "beta": options.beta,
        "tolerance": options.tolerance,
        "temperature": options.temperature,
        "lossless": trace.lossless,
        "stats": {
            "tokens": count,
            "verifier_calls": calls,
            "drafted": len(verdicts_),
            "accepted": verdicts_.count("accepted"),
            "mean_accepted_length": count / calls if calls else 0.0,
        },
        "line": trace.line,
        "text": trace.text,
        "attempt": trace.attempt,
        "alignment": [list(pair) for pair in trace.alignment],
        "iterations": iterations,
    }


def _named(ids: Sequence[int], pieces: Sequence[str], **more: Sequence[object]) -> list[Record]:
    """Returns objects with an id, its piece and one value of each of the other columns."""
    columns = {"id": ids, "piece": pieces, **more}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _number(value: float) -> float | None:
    """Returns a number that JSON has."""
    return value if math.isfinite(value) else None
