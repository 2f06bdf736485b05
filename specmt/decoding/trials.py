"""Whether drafting pays, learnt from the seconds that iterations with and without drafts really took."""

from __future__ import annotations

from typing import Final, final

TRIAL: Final = 24
"""The tokens of a sentence that a trial of the other way lasts: about a line."""

HOLD: Final = 64
"""The tokens of a sentence after which the way is chosen anew, if no new sentences come before."""

FIRST: Final = 4
SELDOM: Final = 64
"""After how many times the tokens of a trial there is the first one, and how many it is in the end, at least."""

HASTE: Final = 0.05
SHARE: Final = 0.015
"""The share of the time that trials may cost: as long as greedy decoding was never timed, and later."""

WORST: Final = 6.0
"""How many times as long the other way is thought to take at most."""

MEMORY: Final = 384.0
"""The tokens of a sentence after which what was seen counts half."""

FADED: Final = 0.6
"""What earlier trials count when there is another."""

CHUNK: Final = 16.0
"""The tokens of a sentence that are looked at together: hiccups are told from what they are alike."""

HICCUP: Final = 3.0
"""More than so many times the usual seconds count as so many: something else had the machine."""


@final
class Yield:
    """Tokens a second: a ratio of sums in which what is long ago fades."""

    def __init__(self) -> None:
        self.count = 0
        self.newest = 0.0, 0.0  # tokens and seconds that are no chunk yet
        self.tokens = 0.0
        self.seconds = 0.0

    def add(self, tokens: float, seconds: float) -> None:
        """Adds what a sentence got, on average, in so many seconds."""
        self.newest = tokens, seconds = self.newest[0] + tokens, self.newest[1] + seconds
        if tokens < CHUNK:
            return
        self.newest = 0.0, 0.0
        if self.count == 1:  # the first time much is touched that never was before
            self.seconds = min(self.seconds, self.tokens * seconds / tokens)
        if self.count > 0:
            seconds = min(seconds, HICCUP * tokens * self.seconds / self.tokens)
        self.count += 1
        self.fade(0.5 ** (tokens / MEMORY))
        self.tokens += tokens
        self.seconds += seconds

    def fade(self, share: float) -> None:
        """Lets what was seen count less."""
        self.tokens *= share
        self.seconds *= share


@final
class Trials:
    """Chooses between drafting and greedy decoding, whichever turns out to yield more tokens a second.

    The leader is what yields most so far, at first what is thought to. The other way is tried now and then: the worse
    it was, the more seldom, so that trials cost a small share of the time whatever it is like.
    """

    def __init__(self, worth: float, *, first: int = FIRST) -> None:
        """
        :param worth: how many times the yield of greedy decoding drafting is thought to have
        :param first: after how many times the tokens of a trial there is the first one, at least
        """
        self.drafts = worth > 1.0
        self._thought = worth
        self._first = self._gap = first
        self._leads = self.drafts
        self._seen = Yield(), Yield()  # without and with drafts
        self._since = 0.0  # tokens by the leader since there was a trial
        self._left = 0.0  # tokens until the way is chosen anew

    @property
    def worth(self) -> float:
        """How many times the yield of greedy decoding drafting has."""
        greedy, drafting = self._seen
        if min(greedy.seconds, drafting.seconds) <= 0.0:
            return self._thought
        return (drafting.tokens / drafting.seconds) / (greedy.tokens / greedy.seconds)

    def begin(self) -> None:
        """Hears that there are new sentences only, so that the way can be chosen anew at no cost."""
        if self.drafts == self._leads:
            self._left = 0.0

    def choose(self) -> bool:
        """Returns whether to draft."""
        if self._left <= 0.0:
            self._choose()
        return self.drafts

    def learn(self, drafted: bool, tokens: float, seconds: float) -> None:
        """Hears how many tokens a sentence got, on average, in how many seconds, with or without drafts."""
        self._seen[drafted].add(tokens, seconds)
        self._left -= tokens if drafted == self.drafts else 0.0
        self._since += tokens if drafted == self._leads else 0.0

    def _choose(self) -> None:
        worth = self.worth
        if self._leads != (worth > 1.0):
            self._leads = not self._leads
            self._since, self._gap = 0.0, self._first
        loss = min(max(worth, 1.0 / worth), WORST) - 1.0  # of a trial, for each of its tokens, in tokens
        share = SHARE if self._seen[False].seconds > 0.0 else HASTE
        tries = self._since >= TRIAL * max(self._gap, loss / share)
        if tries:
            self._since, self._gap = 0.0, min(2 * self._gap, SELDOM)
            self._seen[not self._leads].fade(FADED)
        self.drafts = self._leads != tries
        self._left = TRIAL if tries else HOLD
