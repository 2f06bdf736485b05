"""How far to look ahead: as far as it pays, from what calls cost and how sure the drafter is (DESIGN §2.3).

The yield of an iteration is the tokens it commits for a second of work. It never changes an exact output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from specmt.decoding.tree import Tree
from specmt.decoding.trials import FIRST, Trials
from specmt.engine.backend import Trust
from specmt.options import Calibration

Array = npt.NDArray[np.float64]
Ids = npt.NDArray[np.int64]


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
    """Decides how many slots are filled and how many drafts are verified."""

    def begin(self) -> None:
        """Hears that there are new sentences only."""
        return

    def slots(self, rows: int) -> int:
        """Returns the block size for iterations over a number of sentences side by side; 0 drafts nothing."""

    def trust(self, rows: int) -> Trust | None:
        """Returns what `keep` goes by; ``None`` keeps all."""
        return None

    def keep(self, tree: Tree) -> int:
        """Returns how many nodes of trees are worth verifying: the first ones, which must be the likeliest."""
        return tree.tokens.shape[1]

    def learn(self, rows: int, block_size: int, tokens: float, seconds: float) -> None:
        """Hears what iterations with blocks of a size brought: the tokens that a sentence got, on average."""
        return


class Fixed(Plan):
    """Always the same block, verified as a whole."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size

    @override
    def slots(self, rows: int) -> int:
        return self.block_size


HOPELESS: Final = 0.2
"""Drafting that is thought to yield less than this, in yields of greedy decoding, is never tried."""


class Learning(Plan):
    """A block or nothing ahead, whichever turns out to yield more tokens a second.

    What is learnt at a number of sentences side by side holds up to the next power of 2.
    """

    def __init__(self, block_size: int, *, worth: float, first: int = 1) -> None:
        """
        :param worth: how many times the yield of greedy decoding drafting is thought to have
        :param first: when it is tried whether that is so (`Trials`); at once by default
        """
        self.block_size = block_size
        self._worth = worth
        self._first = first
        self._trials: dict[int, Trials | None] = {}

    @override
    def begin(self) -> None:
        for trials in self._trials.values():
            if trials is not None:
                trials.begin()

    @override
    def slots(self, rows: int) -> int:
        trials = self._trials_of(rows)
        return self._thought(_rounded(rows))[0] if trials is not None and trials.choose() else 0

    @override
    def learn(self, rows: int, block_size: int, tokens: float, seconds: float) -> None:
        trials = self._trials_of(rows)
        if trials is not None and tokens > 0.0:
            trials.learn(block_size > 0, tokens, seconds)

    def _trials_of(self, rows: int) -> Trials | None:
        """Returns the trials at a number of sentences; ``None`` where drafting is hopeless."""
        size = _rounded(rows)
        if size not in self._trials:
            worth = self._thought(size)[1]
            self._trials[size] = None if worth < HOPELESS else Trials(worth, first=self._first)
        return self._trials[size]

    def _thought(self, rows: int) -> tuple[int, float]:
        """Returns the block size, and what drafting is thought to be worth."""
        return self.block_size, self._worth


class Adaptive(Learning):
    """What yields most tokens a second, nothing ahead included.

    What calls cost and what text of its kind taught about the drafter decide how far to look ahead. Text of another
    kind may bring less, and iterations may take longer than when they were measured, one after the other: what they
    really take and bring decides whether to look ahead.
    """

    def __init__(self, calibration: Calibration, costs: Callable[[int], Costs], nodes: int | None = None) -> None:
        """
        :param costs: returns the costs of calls over a number of sentences.
        :param nodes: the most nodes of a tree; those of a chain by default.
        """
        super().__init__(len(calibration.acceptance), worth=1.0, first=FIRST)
        self.calibration = calibration
        self.nodes = nodes or len(calibration.acceptance)
        self._costs = costs
        self._chosen: dict[int, tuple[int, float, Array]] = {}

    @override
    def trust(self, rows: int) -> Trust | None:
        return Trust(self._choose(rows)[2], self.calibration.scale, self.calibration.shift)

    @override
    def keep(self, tree: Tree) -> int:
        if tree.log_probs is None:
            return tree.tokens.shape[1]
        parents = None if tree.parents is None else tree.parents.numpy(force=True)
        chances = survival(tree.log_probs.double().numpy(force=True), self.calibration, parents)
        return best_window(chances.sum(0), len(chances), self._choose(len(chances))[2])

    @override
    def _thought(self, rows: int) -> tuple[int, float]:
        return self._choose(rows)[:2]

    def _choose(self, rows: int) -> tuple[int, float, Array]:
        """Returns the best block size, its worth, and the seconds of iterations that verify 0 … N of its tokens."""
        size = _rounded(rows)
        if size not in self._chosen:
            largest = len(self.calibration.acceptance)
            costs = self._costs(size)
            verifying = np.array(costs.verifying(max(self.nodes, largest) + 1))
            drafting = np.array(costs.drafting(largest))
            found = yields(self.calibration.acceptance, verifying[: largest + 1], drafting)
            best = int(found[1:].argmax())
            self._chosen[size] = best + 1, float(found[best + 1] / found[0]), verifying + drafting[best]
        return self._chosen[size]


def _rounded(rows: int) -> int:
    """Returns the next power of 2."""
    return 1 << (rows - 1).bit_length()


def best_block(acceptance: Sequence[float], verifying: Array, drafting: Array) -> int:
    """Returns the block size of the best yield; 0 if nothing ahead is better still."""
    return int(yields(acceptance, verifying, drafting).argmax())


def yields(acceptance: Sequence[float], verifying: Array, drafting: Array) -> Array:
    """Returns the tokens that a sentence gets a second (K + 1) from blocks of 0 … K slots.

    :param acceptance: (K) the probability that the first 1 … K tokens of a block are all accepted
    :param verifying: (K + 1) seconds to verify a window of 1 … K + 1 tokens
    :param drafting: (K) seconds to draft a block of 1 … K slots
    """
    tokens = 1 + np.concatenate([[0.0], np.cumsum(acceptance)])
    seconds = verifying + np.concatenate([[0.0], drafting])
    return np.asarray(tokens / seconds)


def best_window(gains: Array, rows: int, seconds: Array) -> int:
    """Returns how many drafted tokens to verify for the best yield.

    :param gains: (N) the sum over sentences of the probability that each token is accepted with all before it
    :param seconds: (N + 1) or more, of iterations that verify 0 … N tokens
    """
    tokens = rows + np.concatenate([[0.0], np.cumsum(gains)])
    return int((tokens / seconds[: len(tokens)]).argmax())


def survival(log_probs: Array, calibration: Calibration, parents: Ids | None = None) -> Array:
    """Returns the probability (B, N) that each node of draft trees is accepted, with all those before it.

    :param log_probs: (B, N) what the drafter gave each node
    :param parents: (B, N) places; chains by default
    """
    chances = logistic(calibration.scale * log_odds(log_probs) + calibration.shift)
    if parents is None:
        return chances.cumprod(1)
    row = np.arange(len(chances))
    whole = np.ones((len(chances), chances.shape[1] + 1))
    for node in range(chances.shape[1]):
        whole[:, node + 1] = chances[:, node] * whole[row, parents[:, node]]
    return whole[:, 1:]


def logistic(x: Array) -> Array:
    """Returns 1 / (1 + e^(−x)) without overflow."""
    chances: Array = np.exp(-np.logaddexp(0.0, -x))
    return chances


def log_odds(log_probs: Array) -> Array:
    """Returns log(p / (1 − p)) of probabilities p given by their logarithms, p = 1 taken for a little less."""
    likely = np.minimum(log_probs, -1e-6)
    return likely - np.log(-np.expm1(likely))
