"""Calibration of a drafter: how often what it is so and so sure of is accepted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from specmt.decoding.accept import Accepted, Acceptor, Within
from specmt.decoding.confidence import log_odds, logistic
from specmt.decoding.drafters import FURTHEST, make_drafter
from specmt.decoding.drafters.base import Arm
from specmt.decoding.loop import Loop
from specmt.decoding.noise import Spot
from specmt.decoding.policy import FixedPolicy
from specmt.decoding.request import Request
from specmt.decoding.tree import Tree
from specmt.engine.fused import EXACT
from specmt.engine.protocols import Logits
from specmt.models.hub import Model
from specmt.options import Calibration, DecodingOptions
from specmt.types import EOS

Array = npt.NDArray[np.float64]

ROWS: Final = 16
"""Sentences side by side."""


@final
class _Recorder(Acceptor):
    """Notes how sure the drafter was, and what came of it."""

    rule = None

    def __init__(self, ahead: int) -> None:
        """
        :param ahead: K
        """
        self.ahead = ahead
        self.log_probs: list[Array] = []
        self.accepted: list[Array] = []  # (B, K) 1 accepted, 0 the first that was not, NaN never looked at

    @override
    def accept(self, tree: Tree, logits: Logits, spots: Sequence[Spot]) -> Accepted:
        found = Within(EXACT).accept(tree, logits, spots)
        missing = (0, 0), (0, self.ahead - tree.tokens.shape[1])  # where all drafts ended before
        if tree.log_probs is not None:
            self.log_probs.append(np.pad(tree.log_probs.astype(np.float64), missing))
        slots, accepted = np.arange(tree.tokens.shape[1]), found.counts[:, None]
        outcome = np.where(slots < accepted, 1.0, np.where(slots == accepted, 0.0, np.nan))
        # What is drafted after the end of the sentence is never committed.
        is_end = tree.tokens == EOS
        ended = np.cumsum(is_end, axis=1) - is_end > 0
        self.accepted.append(np.pad(np.where(ended, np.nan, outcome), missing, constant_values=np.nan))
        return found


def calibrate(model: Model, name: str, sources: Sequence[list[int]], ahead: int | None = None) -> Calibration:
    """Decodes sentences given as ids without EOS and returns how a drafter's confidence is to be read.

    :param ahead: how many tokens to draft; by default as many as it drafts at most
    :raises ModelError: the model does not have it.
    """
    ahead = ahead or (model.block_size if name == "masked" else None) or FURTHEST
    verifier, recorder = model.verifier, _Recorder(ahead)
    loop = Loop(
        verifier,
        [make_drafter(name, model, ROWS, DecodingOptions(drafter=name))],
        FixedPolicy(Arm(0, ahead)),
        recorder,
        capacity=ROWS,
        max_source_tokens=ROWS * verifier.sizes.max_length,
    )
    for number, source in enumerate(sources):
        loop.add(Request(number, source))
    while loop.is_busy:
        loop.step()
    log_probs, accepted = np.concatenate(recorder.log_probs), np.concatenate(recorder.accepted)
    seen = ~np.isnan(accepted)
    scale, shift = fit_logistic(log_odds(log_probs[seen]), accepted[seen])
    acceptance = np.nan_to_num(accepted, nan=0.0).mean(0)
    return Calibration(
        acceptance=tuple(round(float(value), 4) for value in acceptance), scale=round(scale, 4), shift=round(shift, 4)
    )


def fit_logistic(inputs: Array, outcomes: Array) -> tuple[float, float]:
    """Returns scale and shift of the logistic curve that makes outcomes (N) of 0 and 1 likeliest, by Newton's method.

    A small penalty on the distance from the identity keeps both finite where a line separates the outcomes.
    """
    features = np.stack([inputs, np.ones_like(inputs)], axis=1)
    start = np.array([1.0, 0.0])
    weights = start.copy()
    for _ in range(50):
        chances = logistic(features @ weights)
        gradient = features.T @ (outcomes - chances) - (weights - start)
        curvature = (features * (chances * (1 - chances))[:, None]).T @ features + np.eye(2)
        step = np.linalg.solve(curvature, gradient)
        weights += step
        if np.abs(step).max() < 1e-9:
            break
    return float(weights[0]), float(weights[1])
