"""How likely a translation is to be acceptable, by how sure the model was of what it said.

A translation is acceptable where its chrF against a reference is at least a threshold that agrees best with verdicts of
people. A score, linear in a few features, becomes a probability by a curve that never falls (isotonic regression); both
are fitted on translations whose references are known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import fsum, log
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

FEATURES: Final = (
    "mean log-probability",
    "least log-probability",
    "log of pieces",
    "share copied",
    "characters a piece",
)

_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, kw_only=True)
class Confidence:
    """Tells the probability that a translation is acceptable."""

    threshold: float
    """The chrF from which a translation counts as acceptable."""

    weights: tuple[float, ...]
    """Those of the features, and a constant."""

    scores: tuple[float, ...]
    """(N) in ascending order."""

    chances: tuple[float, ...]
    """(N) what scores mean; between them it is interpolated."""

    def __call__(self, source: str, text: str, log_probs: Sequence[float]) -> float:
        """Returns the probability; what is copied without a word of the model is sure.

        :param log_probs: of the pieces of the translation
        """
        return self.of(features(source, text, log_probs)) if log_probs else 1.0

    def of(self, values: Sequence[float]) -> float:
        """Returns the probability by the features of a translation."""
        score = np.dot(self.weights, [*values, 1.0])
        return max(0.0001, round(float(np.interp(score, *self._curve)), 4))

    @cached_property
    def _curve(self) -> Floats:
        return np.array([self.scores, self.chances])


def features(source: str, text: str, log_probs: Sequence[float]) -> tuple[float, ...]:
    """Returns what a translation's score is linear in, in the order of `FEATURES`."""
    count, own = len(log_probs), {*map(str.lower, _WORD.findall(source))}
    words = _WORD.findall(text)
    copied = sum(map(own.__contains__, map(str.lower, words))) / max(1, len(words))
    return fsum(log_probs) / count, min(log_probs), log(count), copied, len(text) / count


def fit(inputs: Floats, outcomes: Floats, weights: Floats, threshold: float) -> Confidence:
    """Returns what makes outcomes likeliest: a logistic regression, and isotonic regression on top of it.

    :param inputs: (N, F) the features of translations
    :param outcomes: (N) 1 where a translation is acceptable, else 0
    :param weights: (N) how much each counts
    """
    rows, line = np.column_stack([inputs, np.ones(len(inputs))]), np.zeros(inputs.shape[1] + 1)
    for _ in range(30):  # Newton's method
        chances = 1.0 / (1.0 + np.exp(-rows @ line))
        curvature = (rows * (weights * chances * (1.0 - chances))[:, None]).T @ rows
        line += np.linalg.solve(curvature + 1e-6 * np.eye(len(line)), rows.T @ (weights * (outcomes - chances)))
    line = line.round(4)
    curve = isotonic(rows @ line, outcomes, weights)
    return Confidence(
        threshold=threshold,
        weights=tuple(line.tolist()),
        scores=tuple(round(score, 4) for score, _ in curve),
        chances=tuple(round(chance, 4) for _, chance in curve),
    )


def isotonic(scores: Floats, outcomes: Floats, weights: Floats) -> list[tuple[float, float]]:
    """Returns the mean scores and outcomes of the blocks of isotonic regression, by pooling adjacent violators."""
    blocks: list[tuple[float, float, float]] = []  # weight, and the sums of scores and outcomes
    for number in np.argsort(scores, kind="stable").tolist():
        weight, score, outcome = float(weights[number]), float(scores[number]), float(outcomes[number])
        block = weight, weight * score, weight * outcome
        while blocks and blocks[-1][2] / blocks[-1][0] >= block[2] / block[0]:
            last = blocks.pop()
            block = last[0] + block[0], last[1] + block[1], last[2] + block[2]
        blocks.append(block)
    return [(score / weight, outcome / weight) for weight, score, outcome in blocks]
