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

from specmt.cli.trace.verdicts import mask_slots, origins, ruled_out, verdicts
from specmt.cli.trace.view import PieceNames
from specmt.options import DecodingOptions

if TYPE_CHECKING:
    from specmt.decoding.trace import Candidate, Iteration, Trace

Record = dict[str, Any]


def record(trace: Trace, pieces: PieceNames, options: DecodingOptions) -> Record:
    """Returns what is written of a trace.

    :param options: those that it was made with.
    """
    iterations = [_iteration(iteration, pieces, options) for iteration in trace.iterations]
    nodes = [node for iteration in iterations for node in iteration["nodes"]]
    tokens, calls = sum(len(iteration.emitted) for iteration in trace.iterations), len(iterations)
    return {
        "source": {
            "text": pieces.decode_source(trace.source),
            "tokens": _named(trace.source, pieces.source_pieces(trace.source)),
        },
        "translation": {"text": pieces.decode(trace.tokens), "tokens": _tokens(trace.tokens, pieces)},
        "strategy": options.strategy,
        "drafter": options.drafter if options.strategy == "speculative" else "none",
        "beta": options.beta,
        "tolerance": options.tolerance,
        "temperature": options.temperature,
        "lossless": trace.lossless,
        "stats": {
            "tokens": tokens,
            "verifier_calls": calls,
            "drafted": len(nodes),
            "accepted": sum(node["verdict"] == "accepted" for node in nodes),
            "mean_accepted_length": tokens / calls if calls else 0.0,
        },
        "iterations": iterations,
    }


def _iteration(iteration: Iteration, pieces: PieceNames, options: DecodingOptions) -> Record:
    nodes = _tokens([node.token for node in iteration.nodes], pieces)
    judged = verdicts(iteration, options)
    for place, (token, node, verdict) in enumerate(zip(nodes, iteration.nodes, judged, strict=True), start=1):
        token |= {"place": place, "parent": node.parent, "log_prob": _number(node.log_prob), "verdict": verdict}
    emitted = _tokens(iteration.emitted, pieces)
    for token, origin in zip(emitted, origins(iteration), strict=True):
        token["origin"] = origin
    verified = [_candidates(candidates, pieces) for candidates in iteration.verified]
    for tokens, candidates in zip(verified, iteration.verified, strict=True):
        for token, is_out in zip(tokens, ruled_out(candidates, options), strict=True):
            token["ruled_out"] = is_out
    return {
        "prefix": _tokens(iteration.prefix, pieces),
        "mask_slots": mask_slots(iteration, options),
        "nodes": nodes,
        "verified": verified,
        "accepted": iteration.accepted,
        "emitted": emitted,
        "trials": [
            {
                "place": trial.place,
                "draft": trial.draft,
                "verifier": trial.verifier,
                "accepted": trial.accepted,
                "residual": _candidates(trial.residual, pieces),
            }
            for trial in iteration.trials
        ],
    }


def _tokens(ids: Sequence[int], pieces: PieceNames) -> list[Record]:
    return _named(ids, pieces.pieces(ids))


def _named(ids: Sequence[int], pieces: Sequence[str]) -> list[Record]:
    return [{"id": token, "piece": piece} for token, piece in zip(ids, pieces, strict=True)]


def _candidates(candidates: Sequence[Candidate], pieces: PieceNames) -> list[Record]:
    tokens = _tokens([each.token for each in candidates], pieces)
    return [token | {"log_prob": _number(each.log_prob)} for token, each in zip(tokens, candidates, strict=True)]


def _number(value: float) -> float | None:
    """Returns a number that JSON has."""
    return value if math.isfinite(value) else None
