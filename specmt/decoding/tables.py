"""What decisions about drafts are made from: what calls cost on this machine, and how often drafts stand in this text.

The constants are of statistics; of each is said what half and twice as much do.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, final

import numpy as np

from specmt.engine.arrays import Ids

PACE: Final = 5  # turns whose median is how fast the machine is now. Half: two hiccups are believed; twice: it lags
NEWEST: Final = 15  # turns whose lower quarter says what a way costs. Half: noise decides; twice: it lags
KNOWN: Final = 5  # turns that are kept, and that say the pace. Half: noise decides; twice: errors stay
AGREE: Final = 1.2  # how far two measurements are apart at most to agree. Half as far: more of them; twice: hiccups
FADE: Final = 2000.0  # tokens until drafts count half. Half: noise of 3% decides; twice: new text is noticed late
PRIOR: Final = 20.0  # drafts that a calibration counts for. Half: one odd line decides; twice: odd text waits two lines
HARDEST: Final = 4.0  # how hard a text is at most, and how easy. Half: not as hard as some are; twice: noise counts
MOST: Final = 32  # tokens of a draft that are counted. Half: long copies look short; twice: nothing but time

VERIFIER: Final = "verifier"
"""Calls that find the best tokens of all, and nothing else; what other calls of the verifier cost begins as that."""

LEAST: Final = 1e-7
LONGEST: Final = 1e3
"""What is believed of a clock: between these are seconds of a call, and how many times as long as expected it took."""

Table = dict[float, list[float]]
"""What was measured, the newest last, by powers of 2."""


class Call(NamedTuple):
    """Calls of a network in an iteration."""

    network: str
    """The name of a drafter, or none for the verifier."""

    tokens: float
    """In each of them."""

    many: float = 1.0


@final
class Costs:
    """Seconds of calls of the verifier, by tokens, and how many times as long as expected a way to draft takes.

    What drafters do is expected to take as much of the verifier's seconds as they read of its bytes, times what the
    best of the ways that were measured takes more, if it does. All of it is at one pace: a machine that is slower now,
    or on another day, is slower at everything.
    """

    def __init__(self, known: dict[str, Table], shares: Mapping[str, float], base: str = VERIFIER) -> None:
        """
        :param known: seconds and factors as they were measured; changed as calls are made
        :param shares: what calls of drafters cost, in calls of the verifier
        :param base: the kind of calls of the verifier
        """
        self.known, self.shares, self.base = known, shares, base
        self.pace = 1.0
        self.paces: deque[float] = deque(maxlen=PACE)
        self.curve: list[tuple[float, float]] = []
        self.is_shared = False
        known.setdefault(base, {at: [*values] for at, values in known.get(VERIFIER, {}).items()})

    def is_beyond(self, tokens: float) -> bool:
        """Returns whether a call of the verifier is larger than any that is known."""
        timed = [size for size, values in self.known[self.base].items() if self._is_settled(values)]
        return nearest(tokens) > max(timed, default=0.0)

    def is_timed(self, tokens: float) -> bool:
        """Returns whether it is known what a call of the verifier of about so many tokens takes."""
        return self._is_settled(self.known[self.base].get(nearest(tokens), ()))

    def is_measured(self, way: str) -> bool:
        """Returns whether it is known what a way to draft takes, for any number of sentences."""
        return any(self._is_settled(values) for values in self.known.get(f"{self.base}, {way}", {}).values())

    def seconds(self, calls: Sequence[Call], way: str = "", rows: float = 1.0) -> float:
        """Returns the seconds of calls.

        :param way: how it is drafted, and for how many sentences, if that is corrected: by what was measured twice of
            the nearest number of them
        """
        if len(calls) == 1:
            return self.pace * self._expected(calls)
        factor = self._factor(f"{self.base}, {way}", rows)
        if factor is None:
            others = (self._factor(each, rows) for each in self.known if each.startswith(f"{self.base}, "))
            factor = max(1.0, min((each for each in others if each is not None), default=1.0))
        return self.pace * factor * self._expected(calls)

    def _is_settled(self, values: Sequence[float]) -> bool:
        """Returns whether measurements are to be believed: two of them agree, as what is seen once may be a hiccup.

        On a machine that is shared, so that many of one size disagree, both may be hiccups.
        """
        least = sorted(values)[:2]
        return len(values) >= KNOWN or (len(least) > 1 and least[1] <= AGREE * least[0] and not self.is_shared)

    def _factor(self, way: str, rows: float) -> float | None:
        table = self.known.get(way, {})
        sizes = [each for each, values in table.items() if len(values) >= (KNOWN if self.is_shared else 2)]
        at = min(sizes, key=lambda each: abs(math.log2(each / rows)), default=None)
        return None if at is None else typical(table[at])

    def observe(self, way: str, rows: float, calls: Sequence[Call], seconds: float) -> None:
        """Takes in what calls took together; one call is of the verifier alone."""
        if len(calls) > 1:
            self._note(f"{self.base}, {way}", nearest(rows), seconds / self._expected(calls))
            return
        tokens, size = calls[0].tokens, nearest(calls[0].tokens)
        same = self._verify(size) / self._verify(tokens) if self.known[self.base] else 1.0
        self._note(self.base, size, seconds * same)
        self.curve = []

    def _note(self, name: str, at: float, value: float) -> None:
        """Takes in a value of a table: what is well known says how fast the machine is, and at that pace it counts."""
        values = self.known.setdefault(name, {}).setdefault(at, [])
        if len(values) >= KNOWN and (middle := median_low(values)) <= AGREE * typical(values):
            self.paces.append(value / middle)
            self.pace = min(max(median_low(self.paces), LEAST), LONGEST)
        values.append(min(max(value / self.pace, LEAST), LONGEST))
        del values[:-NEWEST]
        if name == self.base and len(values) >= KNOWN:
            self.is_shared = sorted(values)[2 * len(values) // 3] > AGREE * typical(values)

    def _expected(self, calls: Sequence[Call]) -> float:
        return sum(each.many * self.shares.get(each.network, 1.0) * self._verify(each.tokens) for each in calls)

    def _verify(self, tokens: float) -> float:
        """Returns the seconds of a call of the verifier, in proportion between those that were measured.

        Beyond them it is as between the last two, or between the first and the last if that is more.
        """
        self.curve = self.curve or curve(self.known[self.base])
        right = min(bisect_left(self.curve, (tokens,)), len(self.curve) - 1)
        after, more = self.curve[right]
        if not right:
            return more * max(1.0, tokens / after)
        others = [self.curve[right - 1], *self.curve[: tokens > after]]
        slope = max((more - less) / (after - before) for before, less in others)
        return more + slope * (tokens - after)


@final
class Acceptance:
    """How often the first 1 … K tokens of a draft are there, and how often all of them stand.

    A text that is harder than those that drafters were calibrated on is so for all of them, and for each token: where
    k tokens stood s_k of the times, they stand s_k^h times, and h is hardly another one for other drafters.
    """

    def __init__(self, survival: Sequence[float], nodes: int = 0) -> None:
        """
        :param survival: how often those of the first tokens are thought to stand; each one more 0.7 times as often
        :param nodes: how many are thought to be there; by default one more than stand
        """
        known = [*survival[:MOST]]
        known += [known[-1] * 0.7**more for more in range(1, MOST + 1 - len(known))]
        self.calibrated, self.nodes, self.hardness = np.array(known), nodes, 1.0
        self.thought = np.full(MOST, PRIOR)  # what counts, of what is asked, as calibrated
        self.asked, self.stood = np.full(MOST, PRIOR), PRIOR * self.calibrated
        self.drafted = np.append(PRIOR, self.stood[:-1])
        self.drafted[:nodes] = PRIOR
        self.expected: dict[tuple[int, int], tuple[float, float, float]] = {}  # asked often, until more is counted

    def observe(self, reach: int, drafted: Ids, accepted: Ids) -> None:
        """Takes in how many tokens of drafts (D) there were, and stood, where there could be so many."""
        fade, k = 0.5 ** (float(accepted.sum() + len(accepted)) / FADE), np.arange(1, reach + 1)
        fresh = len(drafted), (drafted[:, None] >= k).sum(0), (accepted[:, None] >= k).sum(0)
        for table, more in zip((self.asked, self.drafted, self.stood), fresh, strict=True):
            table[:reach] = fade * table[:reach] + more
        self.thought[:reach] *= fade
        self.expected = {}

    def lean(self, hardness: float) -> None:
        """Takes the text for so hard, where nothing was counted."""
        more = self.thought * (self.calibrated**hardness - self.calibrated**self.hardness)
        self.stood += more
        first = max(1, self.nodes)
        self.drafted[first:] += more[first - 1 : -1]
        self.hardness, self.expected = hardness, {}

    def expect(self, reach: int, rows: int) -> tuple[float, float, float]:
        """Returns tokens that a call commits of a sentence, its nodes, and those of the one of all that has most."""
        if (reach, rows) not in self.expected:
            stood, drafted = (each[:reach] / self.asked[:reach] for each in (self.stood, self.drafted))
            sums = 1.0 + stood.sum(), drafted.sum(), (1.0 - (1.0 - drafted) ** rows).sum()
            self.expected[reach, rows] = (float(sums[0]), float(sums[1]), float(sums[2]))
        return self.expected[reach, rows]


class Kind(NamedTuple):
    """What is counted apart."""

    drafter: int
    is_tree: bool
    promising: bool
    is_batch: bool
    """Of more than a few sentences, in which more is asked of drafts."""


@final
class Text:
    """How often drafts stand in a text, by their kinds, and how hard it is."""

    def __init__(self) -> None:
        self.tables: dict[Kind, Acceptance] = {}
        self.hardness = 1.0

    def of(self, kind: Kind, survival: Sequence[float], nodes: int) -> Acceptance:
        """Returns what is counted of a kind; it begins as is thought (`Acceptance`), for so hard a text."""
        if kind not in self.tables:
            self.tables[kind] = Acceptance(survival, nodes)
            self.tables[kind].lean(1.0 if kind.promising else self.hardness)
        return self.tables[kind]

    def settle(self) -> None:
        """Finds how hard the text is, h, by how often first tokens stood; as calibrated where nothing was drafted."""
        stood = thought = 0.0
        for kind, each in self.tables.items():
            asked, fresh, as_calibrated = each.asked[0], each.thought[0], max(each.calibrated[0], 1e-3)
            if asked > fresh and not any(kind[1:]):
                first = each.stood[0] - fresh * (as_calibrated**each.hardness - as_calibrated)
                stood += asked * math.log(min(max(first / asked, 1e-3), 1.0))
                thought += asked * math.log(as_calibrated)
        self.hardness = min(max(stood / thought, 1.0 / HARDEST), HARDEST) if thought else 1.0
        for kind, each in self.tables.items():
            if not kind.promising:
                each.lean(self.hardness)

    def survival(self, names: Sequence[str]) -> dict[str, list[float]]:
        """Returns how often the first 1, 2, … tokens of drafts stand, by who drafts, and for what."""
        told = {}
        for (drafter, is_tree, promising, is_batch), table in self.tables.items():
            kinds = ", trees" * is_tree, ", promising" * promising, ", batches" * is_batch
            told["".join([names[drafter], *kinds])] = (table.stood / table.asked).tolist()
        return told


def nearest(tokens: float) -> float:
    """Returns the power of 2 that is nearest to a number of tokens, by their ratio."""
    return 2.0 ** round(math.log2(max(tokens, 1.0)))


def curve(table: Table) -> list[tuple[float, float]]:
    """Returns sizes of calls, in ascending order, and their seconds.

    A larger one takes no less, and one of n times as many tokens no more than n: what says otherwise was disturbed.
    """
    seconds = {size: typical(values) for size, values in table.items()}
    return [(size, min(each * max(1.0, size / at) for at, each in seconds.items())) for size in sorted(seconds)]


def checked(value: Any) -> dict[str, Table]:
    """Returns the newest costs in what was kept, as far as it has any: whoever can may have written there."""
    found: dict[str, Table] = {}
    with suppress(AttributeError, LookupError, TypeError, ValueError, OverflowError):
        for network, table in value.items():
            each = {
                float(at): sorted(float(value) for value in values[-NEWEST:])[:KNOWN] for at, values in table.items()
            }
            is_some = bool(each) and all(each.values()) and all(1.0 <= at <= 2.0**20 for at in each)
            if is_some and all(LEAST <= value <= LONGEST for values in each.values() for value in values):
                found[network] = each
    return found


def typical(values: Sequence[float]) -> float:
    """Returns what is believed of measurements, which hiccups make longer: the least of few, or the lower quarter."""
    return sorted(values)[(len(values) - 1) // 4]


def median_low(values: Iterable[float]) -> float:
    """Returns the middle value, of two the lower; the module of statistics would take longer to import."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2]
