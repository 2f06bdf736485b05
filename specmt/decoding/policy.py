"""Who drafts and how far ahead: by what calls cost on this machine, and how often drafts stand in this text.

Of B sentences side by side, a call of the verifier commits 1 + Σ s_k tokens each, where s_k is how often the first k
drafted tokens all stand. So an arm, a way to draft, is worth

    B · (1 + Σ s_k) / (seconds to verify B · (1 + nodes) tokens + seconds to draft them)

tokens a second, be it chains, blocks or trees. Seconds are the machine's, and steady: those of the newest calls, kept
from day to day. Acceptance is the text's, and noisy: it is counted from every draft, begins as the drafter was
calibrated, for a text as hard as the drafts of others say, and fades (`specmt.decoding.tables`). The arm of most worth
is played, others are tried now and then; what takes time to load, or to try, gets it once as much was decoded or waits,
if it is worth most. A token is drafted, and verified, where it is likely enough to stand to be worth its own seconds,
in tokens of the best arm. Exact output depends on none of this.

The constants are of time and of statistics, never of a model or a machine; of each is said what half and twice do.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol, final

import numpy as np
from typing_extensions import override

from specmt.decoding.drafters.base import NO_DRAFT, NOISE, Arm, Drafter, Plan
from specmt.decoding.tables import MOST, Acceptance, Call, Costs, Kind, Text
from specmt.engine.fused import Confidence, Ran

HOLD: Final = 0.05  # seconds that a choice stands. Half: choosing takes 1% of all; twice: a small batch drafts later
REST: Final = 20.0 * HOLD  # seconds between trials of an arm. Half: alike arms take turns; twice: changes are seen late
SHARE: Final = 0.0075  # of the time, for trials. Half: a better arm is found half as soon; twice: they cost 1.5%
PROBED: Final = 8  # tokens of calls that are timed at once. Half: pairs draft later; twice: batches of 4 lose 1%
PROBES: Final = 4  # calls of a turn that says what they take. Half: what Python adds blurs it; twice: more is lost
DOUBT: Final = 0.2  # a gain so small loads no drafter, and tries no tree, never seen. Half: more in vain; twice: later
NEW: Final = 2.5  # turns of a new arm, its price: a cold one, and two. Half: it is chosen anew; twice: later
ALONE: Final = 64  # calls of a turn at most. Half: Python takes 0.2% more; twice: nothing, as sentences end before


class Policy(Protocol):
    """Chooses what is done next, and hears what came of it."""

    def choose(self, rows: int, promising: bool, waiting: int = 0) -> Plan:
        """Returns what to do with so many sentences; promising are those whose translations lookups may find.

        :param waiting: source tokens of those that come next
        """

    def observe(self, plan: Plan, ran: Ran, seconds: float) -> None:
        """Takes in what came of a turn."""
        return


@final
class FixedPolicy(Policy):
    """Always the same arm, but for another where lookups are promising."""

    def __init__(self, arm: Arm, promising: Arm | None = None) -> None:
        self.plans = Plan(arm), Plan(promising or arm, promising=True)

    @override
    def choose(self, rows: int, promising: bool, waiting: int = 0) -> Plan:
        return self.plans[promising]


@final
class LearntPolicy(Policy):
    """The arm of most worth, by costs and acceptance."""

    def __init__(
        self,
        arms: Sequence[Arm],
        drafters: Sequence[Drafter],
        costs: Costs,
        *,
        width: int = 1,
        prior: Sequence[float] = (),
        keep: Callable[[], object] = lambda: None,
    ) -> None:
        """
        :param costs: whose base verifies
        :param width: how many tokens of a sentence are verified without drafts
        :param prior: how often drafts are thought to stand; by default as drafters were calibrated
        :param keep: keeps what costs have become
        """
        noise = [Arm(NOISE, 3)] if width == 1 else []  # says what further tokens cost
        self.arms, self.drafters, self.costs = [NO_DRAFT, *noise, *arms], drafters, costs
        self.width, self.prior, self.keep = width, prior, keep
        self.seconds = self.until = self.paid = 0.0  # decoded; when choices are made anew; paid for arms
        self.spent: dict[int, float] = defaultdict(float)  # seconds decoded, by numbers of sentences
        self.kept = HOLD / 128.0  # when, in seconds decoded; next after 64 times as many, first after half of HOLD
        self.plans: dict[tuple[int, bool], Plan] = {}
        self.timed: set[int] = set()  # numbers of sentences whose calls are known
        self.played = dict.fromkeys(self.arms, 0.0)  # when
        self.warm: set[int] = set()  # who was at it before
        self.fresh: dict[Plan, list[tuple[Ran, float]]] = defaultdict(list)  # turns, and their seconds
        self.text = Text()

    @override
    def choose(self, rows: int, promising: bool, waiting: int = 0) -> Plan:
        if rows not in self.timed:
            if (arm := self._unknown(rows)) is not None:
                return Plan(arm, promising, None, PROBES, "probe")
            self.timed.add(rows)
        if self.seconds >= self.until:
            self._digest()
            self.plans, self.timed, self.until = {}, set(), self.seconds + HOLD
        key = _class(rows), promising
        if key not in self.plans:
            self.plans[key] = self._plan(*key, waiting)
        return self.plans[key]

    @override
    def observe(self, plan: Plan, ran: Ran, seconds: float) -> None:
        self.seconds += seconds
        self.spent[_class(ran.accepted.shape[1])] += seconds
        self.played[plan.arm] = self.seconds
        self.fresh[plan].append((ran, seconds))
        if plan.why != "best":  # what a trial says is wanted at once
            self._digest()

    def _digest(self) -> None:
        """Takes in what turns were like since it was done last: of the costs of each plan the middle one's."""
        for plan, turns in self.fresh.items():
            arm, who = plan.arm, plan.arm.drafter if plan.arm.drafts else NOISE
            warm = turns[who not in self.warm :]  # nothing cold is judged
            self.warm.add(who)
            if arm.drafts:
                drafted, accepted = (np.concatenate([ran[i][ran.accepted >= 0] for ran, _ in turns]) for i in (0, 1))
                rows = len(accepted) / sum(len(ran.accepted) for ran, _ in turns)
                self._acceptance(arm, rows, plan.promising).observe(reach(arm), drafted, accepted)
            warm.sort(key=lambda turn: turn[1] / len(turn[0].accepted))
            for ran, seconds in warm[(len(warm) - 1) // 2 :][:1]:
                calls, active = len(ran.accepted), ran.accepted >= 0  # (I, B)
                rows, sizes = float(active.sum()) / calls, (ran.drafted[active].mean(), ran.drafted.max(1).mean())
                made = self._calls(arm, active.shape[1] if plan.why == "probe" else rows, *map(float, sizes))
                self.costs.observe(arm.name(self.drafters), rows, made, seconds / calls)
        self.fresh.clear()
        self.text.settle()
        if self.seconds >= 64.0 * self.kept:
            self.kept = self.seconds
            self.keep()

    def prospects(self, rows: int, promising: bool) -> Iterator[tuple[Arm, float]]:
        """Yields what each arm promises in tokens a second, of all sentences together; the one without drafts first."""
        for arm in self.arms:
            tokens, *sizes = self._expect(arm, rows, promising)
            seconds = self.costs.seconds(self._calls(arm, rows, *sizes), arm.name(self.drafters), rows)
            yield arm, rows * tokens / seconds

    def price(self, arm: Arm) -> float:
        """Returns the seconds that it takes to load what an arm needs; 0 where that is there."""
        return self.drafters[arm.drafter].price() if arm.drafts else 0.0

    def survival(self) -> dict[str, list[float]]:
        """Returns how often the first 1, 2, … tokens of drafts stand, by who drafts, and for what."""
        self._digest()
        return self.text.survival([each.name for each in self.drafters])

    def _unknown(self, rows: int) -> Arm | None:
        """Returns what is to be timed now: the verifier alone, then with noise, in batches once that is affordable."""
        if not self.costs.is_timed(rows * self.width):
            return NO_DRAFT
        arm = next(iter(self.arms[1:]), NO_DRAFT)
        tokens = float(rows * (self.width + arm.ahead))
        is_dear = tokens > PROBED and PROBES * self.costs.seconds([Call("", tokens)]) > SHARE * self.seconds
        return arm if arm.drafter == NOISE and self.costs.is_beyond(tokens) and not is_dear else None

    def _plan(self, rows: int, promising: bool, waiting: int) -> Plan:
        # Nothing is drafted for a batch before it is known what more tokens cost.
        is_open = rows == 1 or self.width > 1 or not self.costs.is_beyond(float(rows * (1 + self.arms[1].ahead)))
        worth = {arm: each for arm, each in self.prospects(rows, promising) if is_open or not arm.drafts}
        seen = [arm for arm in worth if not arm.drafts or self.costs.is_measured(arm.name(self.drafters))]
        load, drafts = {arm: self.price(arm) for arm in worth}, [arm for arm in worth if arm.drafts]
        known, others = {arm.drafter for arm in drafts if arm in seen}, any(not load[arm] for arm in drafts)
        new = [arm for arm in drafts if arm not in seen]
        unsure = [arm for arm in new if arm.nodes or (others and load[arm] and arm.drafter not in known)]
        thought = {arm: each / (1.0 + DOUBT * (arm in unsure)) for arm, each in worth.items()}
        turn = {arm: PROBES * rows * self._expect(arm, rows, promising)[0] / worth[arm] for arm in worth}
        tries = {arm: NEW * turn[arm] for arm in new if known and not self.played[arm]}
        price = {arm: load[arm] or tries.get(arm, 0.0) for arm in worth}
        best = max((arm for arm in worth if not price[arm] and arm.drafter != NOISE), key=thought.__getitem__)
        due = [arm for arm in worth if not load[arm] and self._is_due(arm, thought[arm] / thought[best], turn[arm])]
        # What an arm of more worth needs is bought, first what saves most, when that is little of the seconds that are
        # known, and saves as much of them: those decoded and, as long as there is no drafter, those to be decoded.
        made, time = ALONE, self.spent[rows] + (0.0 if others else waiting / worth[best])
        gain = {arm: each / thought[best] - 1.0 for arm, each in thought.items() if price[arm] and each > thought[best]}
        for arm in sorted(gain, key=lambda arm: price[arm] - time * gain[arm] / (1.0 + gain[arm])):
            if (wait := self.paid + price[arm] / min(gain[arm], 1.0) - time) <= 0.0:
                best, due, made = arm, [], ALONE
                self.paid += price[arm]
                break
            calls = wait * worth[best] / (rows * self._expect(best, rows, promising)[0])
            self.until, made = min(self.until, self.seconds + wait), min(made, max(math.ceil(calls), PROBES))
        arm = min(due, key=self.played.__getitem__, default=best)
        if arm != best or arm not in seen:  # what that takes is seen before there is more of it: twice, if it is new
            made, self.until = PROBES, self.seconds + NEW * turn[arm] * (arm not in seen)
        confidence = self._confidence(arm, rows, promising, worth[best]) if arm.drafts else None
        return Plan(arm, promising, confidence, made, "best" if arm == best else "trial", worth[arm])

    def _is_due(self, arm: Arm, share: float, turn: float) -> bool:
        """Returns whether to try an arm that is worth such a share of the best for a turn."""
        since = self.seconds - self.played[arm]
        return share < 1.0 and since > max(REST, (1.0 - share) * turn * len(self.arms) / SHARE)

    def _confidence(self, arm: Arm, rows: int, promising: bool, worth: float) -> Confidence:
        """Returns which tokens are worth verifying, and drafting: what four more would cost says what one does."""
        _, nodes, longest = self._expect(arm, rows, promising)
        table, calibration = self._acceptance(arm, rows, promising), self.drafters[arm.drafter].calibration(promising)
        name = arm.name(self.drafters)
        now, then = self._calls(arm, rows, nodes, longest), self._calls(arm, rows, nodes + 4.0, longest + 4.0)
        verify, draft = (
            worth / (4.0 * rows) * (self.costs.seconds(then[i], name, rows) - self.costs.seconds(now[i], name, rows))
            for i in (slice(1), slice(1, None))
        )
        # The next token must stand, too; what is drafted all at once is judged by how it turned out.
        margin = (verify + draft) * table.drafted[0] / max(table.stood[0], 1e-9) if draft > 0.0 else 0.0
        # Chances show half of how hard a text is: in an easy one, drafts are surer than they say.
        hardness = 1.0 if promising else self.text.hardness
        floor, margin = (float(min(max(limit**hardness**-0.5, 1e-3), 0.9)) for limit in (verify, margin))
        return Confidence(calibration.scale, calibration.shift, floor, margin)

    def _expect(self, arm: Arm, rows: int, promising: bool) -> tuple[float, float, float]:
        """Returns tokens and nodes of a sentence, and nodes of the one that has most."""
        if not arm.drafts:
            return 1.0, float(arm.ahead), float(arm.ahead)
        return self._acceptance(arm, rows, promising).expect(reach(arm), rows)

    def _calls(self, arm: Arm, rows: float, nodes: float, longest: float) -> list[Call]:
        """Returns the calls of an iteration: one that verifies, and those that draft."""
        drafts = self.drafters[arm.drafter].calls(arm, rows, longest) if arm.drafts else []
        return [Call("", rows * (self.width + nodes)), *drafts]

    def _acceptance(self, arm: Arm, rows: float, promising: bool) -> Acceptance:
        """Returns what is counted of an arm: apart for trees, promising sentences, and batches, which ask for more."""
        kind = Kind(arm.drafter, arm.nodes > 0, promising, rows > 4.0)
        return self.text.of(kind, self.prior or self.drafters[arm.drafter].calibration(promising).acceptance, arm.nodes)


def _class(rows: int) -> int:
    """Returns the number of sentences that stands for so many: the next power of 2."""
    return 1 << (rows - 1).bit_length()


def reach(arm: Arm) -> int:
    """Returns how many tokens its drafts can have, of those that are counted."""
    return MOST if arm.nodes else min(arm.ahead, MOST)
