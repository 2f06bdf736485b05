"""How far to look ahead: as far as it pays, from what calls cost and how sure the drafter is (DESIGN §2.3).

The yield of an iteration is the tokens it commits for a second of work. It never changes an exact output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
from torch import Tensor
from typing_extensions import override

from specmt.config import Calibration

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Costs:
    """The seconds that iterations over a number of sentences side by side take."""

    verify: tuple[tuple[int, float], ...]
    """Pairs of a window's width and the seconds of an iteration that scores it, by width."""

    draft: tuple[tuple[int, float], ...]
    """Pairs of a block's size and the seconds that drafting it adds, by size."""

    def verifying(self, widest: int) -> list[float]:
        """Returns the seconds for windows of 1 … ``widest`` tokens."""
        return _interpolate(self.verify, widest)

    def drafting(self, largest: int) -> list[float]:
        """Returns the seconds for blocks of 1 … ``largest`` slots."""
        return _interpolate(self.draft, largest)


def _interpolate(points: tuple[tuple[int, float], ...], largest: int) -> list[float]:
    sizes, seconds = zip(*points, strict=True)
    return [float(value) for value in np.interp(np.arange(1, largest + 1), sizes, seconds)]


class Plan(Protocol):
    """Decides how many slots are drafted and how many drafts are verified."""

    def slots(self, rows: int) -> int:
        """Returns the block size for a number of sentences side by side; 0 drafts nothing."""

    def keep(self, log_probs: Tensor) -> int:
        """Returns how many tokens of blocks with log-probabilities (B, K) are worth verifying."""


class Fixed(Plan):
    """Always the same block, verified as a whole."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size

    @override
    def slots(self, rows: int) -> int:
        return self.block_size

    @override
    def keep(self, log_probs: Tensor) -> int:
        return log_probs.shape[1]


class Adaptive(Plan):
    """What yields most tokens a second, nothing ahead included."""

    def __init__(self, calibration: Calibration, costs: Callable[[int], Costs]) -> None:
        """
        :param costs: returns the costs of calls over a number of sentences.
        """
        self.calibration = calibration
        self._costs = costs
        self._chosen: dict[int, tuple[int, Array]] = {}

    @override
    def slots(self, rows: int) -> int:
        return self._choose(rows)[0]

    @override
    def keep(self, log_probs: Tensor) -> int:
        chances = survival(log_probs.double().numpy(force=True), self.calibration)
        return best_window(chances.sum(0), len(chances), self._choose(len(chances))[1])

    def _choose(self, rows: int) -> tuple[int, Array]:
        """Returns the block size and the seconds of iterations that verify 0 … K of its tokens."""
        if rows not in self._chosen:
            largest = len(self.calibration.acceptance)
            costs = self._costs(1 << (rows - 1).bit_length())
            verifying = np.array(costs.verifying(largest + 1))
            size = best_block(self.calibration.acceptance, verifying, np.array(costs.drafting(largest)))
            drafting = costs.drafting(size)[-1] if size else 0.0
            self._chosen[rows] = size, verifying[: size + 1] + drafting
        return self._chosen[rows]


def best_block(acceptance: Sequence[float], verifying: Array, drafting: Array) -> int:
    """Returns the block size of the best yield; 0 if nothing ahead is better still.

    :param acceptance: (K) the probability that the first 1 … K tokens of a block are all accepted
    :param verifying: (K + 1) seconds to verify a window of 1 … K + 1 tokens
    :param drafting: (K) seconds to draft a block of 1 … K slots
    """
    tokens = 1 + np.concatenate([[0.0], np.cumsum(acceptance)])
    seconds = verifying + np.concatenate([[0.0], drafting])
    return int((tokens / seconds).argmax())


def best_window(gains: Array, rows: int, seconds: Array) -> int:
    """Returns how many drafted tokens to verify for the best yield.

    :param gains: (K) the sum over sentences of the probability that the first 1 … K tokens are all accepted
    :param seconds: (K + 1) of an iteration that verifies 0 … K tokens
    """
    tokens = rows + np.concatenate([[0.0], np.cumsum(gains)])
    return int((tokens / seconds).argmax())


def survival(log_probs: Array, calibration: Calibration) -> Array:
    """Returns the probability (B, K) that a block's first 1 … K tokens, drafted with (B, K), are all accepted."""
    return logistic(calibration.scale * log_odds(log_probs) + calibration.shift).cumprod(1)


def logistic(x: Array) -> Array:
    """Returns 1 / (1 + e^(−x)) without overflow."""
    chances: Array = np.exp(-np.logaddexp(0.0, -x))
    return chances


def log_odds(log_probs: Array) -> Array:
    """Returns log(p / (1 − p)) of probabilities p given by their logarithms, p = 1 taken for a little less."""
    likely = np.minimum(log_probs, -1e-6)
    return likely - np.log(-np.expm1(likely))
