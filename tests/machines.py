"""Machines and texts that are made up, with a seed and without a clock, to see how policies do on them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from typing_extensions import override

from specmt.decoding.drafters.autoregressive import AutoregressiveDrafter
from specmt.decoding.drafters.base import UNKNOWN, Arm, Drafter, Plan
from specmt.decoding.drafters.masked import MaskedDrafter
from specmt.decoding.policy import Policy
from specmt.decoding.tables import Call
from specmt.engine.fused import Ran
from specmt.options import Calibration

LINE = (8, 40)
"""The least and the most tokens of a sentence."""

EASY = ((0.55, 0.97), (0.25, 0.75), (0.2, 0.3))
HARD = ((0.2, 0.97), (0.3, 0.6), (0.5, 0.2))
"""Texts: how many tokens of an autoregressive drafter are how likely to stand."""


class Proposer(Drafter):
    """Has a name, a price and a calibration."""

    def __init__(
        self,
        kind: type[AutoregressiveDrafter | MaskedDrafter],
        price: float = 0.0,
        calibration: Calibration | None = None,
    ) -> None:
        self.kind, self.cost, self.own = kind, price, calibration or UNKNOWN
        self.loads = 0

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.kind.name

    @override
    def price(self) -> float:
        return 0.0 if self.loads else self.cost

    @override
    def load(self, rows: int) -> None:
        self.loads += 1

    @override
    def calls(self, arm: Arm, rows: float, longest: float) -> list[Call]:
        return self.kind.calls(self, arm, rows, longest)  # type: ignore[arg-type]

    @override
    def calibration(self, promising: bool) -> Calibration:
        return self.own


@dataclass
class Machine:
    """Seconds of calls, with hiccups."""

    step: float = 0.7e-3
    """Of a call of the verifier with one token."""

    row: float = 0.15
    """What each further token costs, in such calls."""

    draft: float = 0.15
    """What a step of the autoregressive drafter costs, and a block of the masked one half as much a token, likewise."""

    turn: float = 1e-4
    """What coming back to Python costs."""

    noise: float = 0.05
    hiccups: float = 0.0
    """How many there are in a second in which something else has the machine for 1 to 20 ms."""

    speed: Callable[[float], float] = lambda now: 1.0
    """How fast it is after so many seconds."""

    seed: int = 0
    now: float = 0.0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def verify(self, tokens: float) -> float:
        return self.step * (1.0 + self.row * (tokens - 1.0))

    def propose(self, name: str, tokens: float) -> float:
        """Returns the seconds of a call of a drafter."""
        if name == "masked":
            return self.step * self.draft * (1.0 + 0.1 * tokens)
        return self.step * self.draft * (1.0 + 0.5 * self.row * (tokens - 1.0))

    def spend(self, seconds: float) -> float:
        """Lets time pass; returns how much."""
        taken = seconds / self.speed(self.now) * self.random.lognormvariate(0.0, self.noise)
        if self.random.random() < self.hiccups * taken:
            taken += self.random.uniform(0.001, 0.02)
        self.now += taken
        return taken


@dataclass
class Decoding:
    """Decodes sentences of a text on a machine as a policy says."""

    machine: Machine
    policy: Policy
    drafters: Sequence[Proposer]
    text: Sequence[tuple[float, float]] = EASY
    rows: int = 1
    seed: int = 1
    next: int = 64
    """How many of the sentences to come are known."""

    log: list[Plan] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    """How many sentences each of these plans was for."""

    turns: Counter[str] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def run(self, sentences: int) -> float:
        """Returns the seconds that they take."""
        began, waiting = self.machine.now, [self.random.randint(*LINE) for _ in range(sentences)]
        active: list[int] = []  # how many tokens are left of each
        while waiting or active:
            while waiting and len(active) < self.rows:
                active.append(waiting.pop())
            plan = self.policy.choose(len(active), False, sum(waiting[-self.next :] if self.next else []))
            drafter = self.drafters[plan.arm.drafter] if plan.arm.drafts else None
            if drafter is not None and (price := drafter.price()):
                self.machine.spend(price)
            if drafter is not None:
                drafter.load(len(active))
            enough = max(1, len(active) // 4 if waiting else (len(active) + 1) // 2)
            ran, seconds = self._turn(plan, active, drafter, enough)
            name = plan.arm.name(self.drafters)
            self.turns[name] += 1
            self.tokens[name] += int((ran.accepted + 1).sum())
            self.log.append(plan)
            self.sizes.append(ran.accepted.shape[1])
            self.policy.observe(plan, ran, seconds)
            active = [left for left in active if left > 0]
        return self.machine.now - began

    def _turn(self, plan: Plan, active: list[int], drafter: Proposer | None, enough: int) -> tuple[Ran, float]:
        drafted, accepted, seconds = [], [], self.machine.spend(self.machine.turn)
        for _ in range(plan.iterations):
            if sum(left <= 0 for left in active) >= enough or seconds > 0.05:
                break
            drafts = [self._draft(plan, drafter) if left > 0 else (-1, -1, 0) for left in active]
            drafted.append([one[0] for one in drafts])
            pairs = zip(drafts, active, strict=True)
            accepted.append([min(one[1], left - 1) if left > 0 else -1 for one, left in pairs])
            going = sum(left > 0 for left in active)
            spent = self.machine.verify(going + sum(max(0, one[0]) for one in drafts))
            if drafter is not None:
                steps = max(one[2] for one in drafts)
                ((network, tokens, many),) = drafter.calls(plan.arm, float(going), float(steps))
                many = steps if network == "autoregressive" and plan.arm.paths == 1 else many
                spent += many * self.machine.propose(network, tokens)
            seconds += self.machine.spend(spent)
            for number, stood in enumerate(accepted[-1]):
                active[number] -= max(0, stood + 1)
        return Ran(np.array(drafted), np.array(accepted)), seconds

    def _draft(self, plan: Plan, drafter: Proposer | None) -> tuple[int, int, int]:
        """Returns how many tokens are verified and how many stand, and how many steps were made."""
        if drafter is None:
            return plan.arm.ahead, 0, 0
        weights, chances = zip(*self.text, strict=True)
        kept = stood = steps = 0
        product, stands, going = 1.0, True, True
        for place in range(plan.arm.ahead):
            if plan.confidence is not None and product < plan.confidence.margin:
                break
            chance = self.random.choices(chances, weights)[0]
            if drafter.name == "masked":
                chance *= 0.93 ** (place + 1)
            if plan.arm.paths > 1:
                chance = 1.0 - (1.0 - chance) * 0.55
            steps += 1
            product *= chance
            going = going and (plan.confidence is None or product >= plan.confidence.floor)
            kept += going
            stands = stands and going and self.random.random() < chance
            stood += stands
        if plan.arm.nodes:
            kept = min(plan.arm.nodes, 3 * kept)
        return kept, stood, steps
