"""What became of drafts and where tokens came from, as pure functions over iterations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from specmt.options import DecodingOptions

if TYPE_CHECKING:
    from specmt.decoding.trace import Candidate, Iteration

Verdict = Literal["accepted", "rejected", "unseen"]
"""Of a drafted token; unseen is what the walk did not come by, or did not need."""

Origin = Literal["accepted", "corrected", "added"]
"""Of a committed token: a draft, the verifier's own in place of drafts, or the verifier's own where none was."""


def path(iteration: Iteration) -> list[int]:
    """Returns the places of the accepted nodes that were committed, from the root on."""
    return iteration.accepted[: len(iteration.emitted)]


def reached(iteration: Iteration) -> list[int]:
    """Returns the place that each committed token follows."""
    return [0, *path(iteration)][: len(iteration.emitted)]


def origins(iteration: Iteration) -> list[Origin]:
    """Returns where each committed token came from."""
    parents = {node.parent for node in iteration.nodes}
    last: Origin = "corrected" if reached(iteration)[-1] in parents else "added"
    accepted: list[Origin] = ["accepted"] * len(path(iteration))
    return [*accepted, last][: len(iteration.emitted)]


def verdicts(iteration: Iteration, options: DecodingOptions) -> list[Verdict]:
    """Returns the verdict on each node."""
    accepted = set(path(iteration))
    rejected = _rejected(iteration, options)
    return [
        "accepted" if place in accepted else "rejected" if place in rejected else "unseen"
        for place in range(1, len(iteration.nodes) + 1)
    ]


def ruled_out(candidates: Sequence[Candidate], options: DecodingOptions) -> list[bool]:
    """Returns which of the verifier's candidates lie too far below the best for τ; none where there is no τ."""
    if options.lossless or options.samples:
        return [False] * len(candidates)
    return [candidates[0].log_prob - each.log_prob > options.tolerance for each in candidates]


def mask_slots(iteration: Iteration, options: DecodingOptions) -> int:
    """Returns the number of [MASK] slots, at least as many as the draft tree is deep; 0 without the masked drafter."""
    if "masked" not in options.drafters or not iteration.nodes:
        return 0
    depths = [0]
    for node in iteration.nodes:
        depths.append(depths[node.parent] + 1)
    return options.block_size or max(depths)


def _rejected(iteration: Iteration, options: DecodingOptions) -> set[int]:
    """Returns the places of the drafts that were looked at and would not do."""
    if options.samples:
        return {trial.place for trial in iteration.trials if not trial.accepted}
    rejected = set()
    places = set(reached(iteration))
    for place, node in enumerate(iteration.nodes, start=1):
        if node.parent in places:
            candidates = iteration.verified[node.parent][: 1 if options.lossless else None]
            out = ruled_out(candidates, options)
            if node.token not in {each.token for each, is_out in zip(candidates, out, strict=True) if not is_out}:
                rejected.add(place)
    return rejected
