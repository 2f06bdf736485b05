"""Who drafts and how far ahead, learnt from the tokens a second that each choice really brings (DESIGN §2.6).

An arm is a drafter with a block size, or no draft. For each number of active sentences the policy is a bandit: it plays
the arm that has brought most tokens a second, and tries the others now and then, the worse they were the more seldom,
so that trials cost a small share of the time. It begins without drafts; which arm is tried first is up to a simple
model of costs, which is believed no further: a trial that goes badly ends after a few tokens. Exact output never
depends on any of this.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, final

from typing_extensions import override

TRIAL: Final = 24.0
"""The tokens of a sentence that a trial of another arm lasts: about a line."""

HOLD: Final = 64.0
"""The tokens of a sentence after which the arm is chosen anew."""

SHARE_AT_FIRST: Final = 0.02
SHARE: Final = 0.012
"""The share of the time that all trials together may cost: of arms never tried, and later."""

WORST: Final = 4.0
"""How many times as long as the best an arm is thought to take at most."""

HALF_LIFE: Final = 384.0
"""The tokens of a sentence after which an observation counts half."""

CHUNK: Final = 16.0
"""The tokens of a sentence that are judged together, so that one hiccup of the machine is told from them."""

GLIMPSE: Final = 6.0
HOPELESS: Final = 0.75
"""A trial ends after so many tokens already if it brings less than this share of what no draft does."""

ITERATIONS: Final = 16
ITERATIONS_ALONE: Final = 64
ITERATIONS_OF_TRIAL: Final = 3
"""How many iterations run before the arm is chosen anew: of several sentences, of one or where there is no choice, and
in a trial, which is judged at least as often."""

HICCUP: Final = 3.0
"""More than so many times the usual seconds count as so many."""

ACCEPTANCE: Final = 0.72
"""The share of drafted tokens thought to be accepted after accepted ones, where nothing was calibrated."""


class Arm(NamedTuple):
    """A choice: which drafter, and how far ahead."""

    drafter: int | None = None
    """The number of the drafter; ``None`` drafts nothing."""

    ahead: int = 0
    """The block size K."""

    margin: float = 0.0
    """The least probability of the paths, together, that are gone on with."""

    paths: int = 1
    """How many those are at most."""


NO_DRAFT: Final = Arm()


class Policy(Protocol):
    """Chooses an arm for each iteration."""

    def choose(self, rows: int, promising: bool) -> Arm:
        """Returns the arm for so many active sentences.

        :param promising: whether lookups are likely to find the translations of these sentences
        """

    def iterations(self, rows: int, promising: bool) -> int:
        """Returns how many iterations the chosen arm may run before `choose` is asked again."""
        return ITERATIONS if rows > 1 else ITERATIONS_ALONE

    def observe(self, rows: int, promising: bool, arm: Arm, tokens: float, seconds: float) -> None:
        """Takes in what an arm brought: tokens of a sentence, on average, and seconds."""


@final
class FixedPolicy(Policy):
    """Always the same arm, but for another where lookups are promising."""

    def __init__(self, arm: Arm, promising: Arm | None = None) -> None:
        self.arm = arm
        self.promising = promising or arm

    @override
    def choose(self, rows: int, promising: bool) -> Arm:
        return self.promising if promising else self.arm

    @override
    def iterations(self, rows: int, promising: bool) -> int:
        return ITERATIONS_ALONE

    @override
    def observe(self, rows: int, promising: bool, arm: Arm, tokens: float, seconds: float) -> None:
        return


@dataclass
class _Rate:
    """Tokens a second of an arm: a ratio of sums in which what is long ago fades."""

    prior: float
    """The rate that it is thought to have, in rates of decoding without drafts."""

    tokens: float = 0.0
    seconds: float = 0.0
    count: int = 0
    tried: float = 0.0
    """The tokens by all arms when it was last tried."""

    newest: tuple[float, float] = (0.0, 0.0)

    def add(self, tokens: float, seconds: float) -> None:
        self.newest = self.newest[0] + tokens, self.newest[1] + seconds
        if self.newest[0] >= CHUNK:
            self.settle()

    def is_hopeless(self, other: _Rate) -> bool:
        """Returns whether the newest tokens came much slower than those of another arm."""
        tokens, seconds = self.newest
        return tokens >= GLIMPSE and tokens * other.seconds < HOPELESS * other.tokens * seconds

    def settle(self) -> None:
        """Judges the newest tokens."""
        (tokens, seconds), self.newest = self.newest, (0.0, 0.0)
        if self.count == 1:  # the first chunk touched caches and weights for the first time
            self.seconds = min(self.seconds, self.tokens * seconds / tokens)
        if self.count > 0:
            seconds = min(seconds, HICCUP * tokens * self.seconds / self.tokens)
        self.count += 1
        fade = 0.5 ** (tokens / HALF_LIFE)
        self.tokens = self.tokens * fade + tokens
        self.seconds = self.seconds * fade + seconds


@final
class _Bandit:
    """Chooses among arms for one number of active sentences."""

    def __init__(self, priors: dict[Arm, float]) -> None:
        self.rates = {arm: _Rate(prior) for arm, prior in priors.items()}
        self.leader = self.arm = NO_DRAFT
        self.total = 0.0
        self.left = 0.0  # tokens until the arm is chosen anew

    def choose(self) -> Arm:
        if self.left <= 0.0:
            self._choose()
        return self.arm

    @property
    def is_trial(self) -> bool:
        """Whether the chosen arm drafts and is not known to be the best."""
        return self.arm != NO_DRAFT and (self.arm != self.leader or self.rates[self.arm].count == 0)

    def observe(self, arm: Arm, tokens: float, seconds: float) -> None:
        rate = self.rates[arm]
        rate.add(tokens, seconds)
        self.total += tokens
        if arm == self.arm:
            self.left -= tokens
        if self.is_trial and arm == self.arm and rate.is_hopeless(self.rates[NO_DRAFT]):
            rate.settle()
            self.left = 0.0

    def _choose(self) -> None:
        if self.rates[NO_DRAFT].count == 0:
            self.arm, self.left = NO_DRAFT, CHUNK  # the others are judged by it
            return
        rates = self._estimates()
        self.leader = max(rates, key=lambda arm: rates[arm])
        self.arm, self.left = self.leader, HOLD
        challengers = [arm for arm in rates if arm != self.leader]
        if self.rates[self.leader].count == 0:
            self.left, self.rates[self.leader].tried = TRIAL, self.total
            return
        for arm in sorted(challengers, key=lambda each: -rates[each]):
            rate = self.rates[arm]
            loss = min(rates[self.leader] / max(rates[arm], 1e-9), WORST) - 1.0
            share = (SHARE if rate.count else SHARE_AT_FIRST) / len(challengers)
            length = GLIMPSE if rate.count and rates[arm] < HOPELESS * rates[NO_DRAFT] else TRIAL
            if self.total - rate.tried >= max(length * loss / share, 4.0 * TRIAL):
                rate.tried = self.total
                self.arm, self.left = arm, TRIAL
                return

    def _estimates(self) -> dict[Arm, float]:
        """Returns the rate of each arm: measured, or else its prior on the scale of what was measured."""
        measured = {arm: rate.tokens / rate.seconds for arm, rate in self.rates.items() if rate.seconds > 0.0}
        scales = [math.log(value / self.rates[arm].prior) for arm, value in measured.items()]
        scale = math.exp(sum(scales) / len(scales)) if scales else 1.0
        return {arm: measured.get(arm, scale * rate.prior) for arm, rate in self.rates.items()}


@final
class BanditPolicy(Policy):
    """The arm that brings most tokens a second, learnt apart for each number of active sentences (to a power of 2)."""

    def __init__(self, arms: Sequence[Arm], prior: Callable[[Arm, int, bool], float]) -> None:
        """
        :param prior: returns the rate that an arm is thought to have for a number of sentences, in rates of no draft
        """
        self._arms = [NO_DRAFT, *arms]
        self._prior = prior
        self._bandits: dict[tuple[int, bool], _Bandit] = {}

    @override
    def choose(self, rows: int, promising: bool) -> Arm:
        return self._bandit(rows, promising).choose()

    @override
    def iterations(self, rows: int, promising: bool) -> int:
        return ITERATIONS_OF_TRIAL if self._bandit(rows, promising).is_trial else super().iterations(rows, promising)

    @override
    def observe(self, rows: int, promising: bool, arm: Arm, tokens: float, seconds: float) -> None:
        self._bandit(rows, promising).observe(arm, tokens, seconds)

    def _bandit(self, rows: int, promising: bool) -> _Bandit:
        size = 1 << (rows - 1).bit_length()
        if (size, promising) not in self._bandits:
            priors = {arm: self._prior(arm, size, promising) for arm in self._arms}
            self._bandits[size, promising] = _Bandit(priors)
        return self._bandits[size, promising]


@dataclass(frozen=True)
class Costs:
    """A simple model of what iterations cost, in steps of one sentence: it stands in until arms were tried."""

    row: float
    """What each further token in a window costs, in steps; a step of one token costs 1."""

    draft: float = 0.1
    """What drafting a token for one sentence costs, in steps, where tokens are drafted one after the other."""

    block: float = 0.5
    """What filling a whole block of slots costs."""

    def step(self, tokens: float) -> float:
        """Returns the cost of scoring so many tokens, of all sentences together."""
        return 1.0 + self.row * (tokens - 1)

    def rate(self, tokens: float, rows: int, ahead: float, drafting: float) -> float:
        """Returns tokens a second of an arm, in those of decoding without drafts.

        :param tokens: that a verifier call is expected to commit, per sentence
        :param drafting: the cost of drafting for all sentences
        """
        return tokens * self.step(rows) / (self.step(rows * (1 + ahead)) + drafting)

    def floor(self, rows: int) -> float:
        """Returns the least probability of acceptance that makes verifying one more drafted token worth its cost."""
        return min(0.9, self.row * rows / self.step(rows))


def expected_tokens(ahead: int, acceptance: Sequence[float] = ()) -> float:
    """Returns the tokens that a call is expected to commit, given how often the first 1 … K tokens are all accepted."""
    known = list(acceptance[:ahead])
    while len(known) < ahead:
        known.append((known[-1] if known else 1.0) * ACCEPTANCE)
    return 1.0 + sum(known)
