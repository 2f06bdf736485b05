"""What a loop does for a sentence, for those who want to watch: always, or as it does it unwatched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain, repeat
from typing import final

from typing_extensions import override

from specmt.decoding.drafters.base import Plan
from specmt.decoding.model import Model
from specmt.decoding.policy import LearntPolicy, Policy
from specmt.decoding.request import Recorder
from specmt.decoding.session import decode
from specmt.decoding.trace import Iteration
from specmt.decoding.translation_memory import TranslationMemory
from specmt.engine.fused import Ran
from specmt.options import DecodingOptions
from specmt.types import Hypothesis


def watch(
    model: Model, source: list[int], options: DecodingOptions, memory: TranslationMemory | None, *, as_run: bool
) -> tuple[Hypothesis, list[Iteration]]:
    """Decodes a sentence, and returns what the loop did.

    :param as_run: whether that is what it does unwatched, as fast as it can: it is done first, and then again
    """
    recorder, notes = Recorder(options.beta), list[Note]()
    if as_run:  # what it leads to is remembered once, in the end
        decode(model, [source], options, memory=deepcopy(memory), wrap=lambda policy: Noting(policy, notes))
        (said,) = decode(model, [source], options, memory=memory, recorder=recorder, wrap=lambda _: Replay(notes))
    else:
        (said,) = decode(model, [source], options, memory=memory, recorder=recorder)
    reasons = chain((note.why * (call == 0) for note in notes for call in range(note.calls)), repeat(""))
    return said, [each._replace(why=why) for each, why in zip(recorder.iterations[0], reasons, strict=False)]


@dataclass(frozen=True)
class Note:
    """A turn of a loop."""

    plan: Plan
    calls: int
    """How many calls of the verifier it had."""

    why: str


@final
class Noting(Policy):
    """Does what another policy does, and notes what that was, and why."""

    def __init__(self, policy: Policy, notes: list[Note]) -> None:
        self.policy, self.notes = policy, notes
        self.why = ""

    @override
    def choose(self, rows: int, promising: bool, waiting: int = 0) -> Plan:
        plan = self.policy.choose(rows, promising, waiting)
        if isinstance(self.policy, LearntPolicy):
            self.why = "; ".join(_reasons(self.policy, plan, rows, promising))
        return plan

    @override
    def observe(self, plan: Plan, ran: Ran, seconds: float) -> None:
        self.policy.observe(plan, ran, seconds)
        self.notes.append(Note(plan, len(ran.accepted), self.why))


@final
class Replay(Policy):
    """Does what was noted, call by call."""

    def __init__(self, notes: Sequence[Note]) -> None:
        self.plans = iter([note.plan._replace(iterations=1) for note in notes for _ in range(note.calls)])

    @override
    def choose(self, rows: int, promising: bool, waiting: int = 0) -> Plan:
        return next(self.plans, Plan())


def _reasons(policy: LearntPolicy, plan: Plan, rows: int, promising: bool) -> Iterator[str]:
    if plan.why == "probe":
        tokens = rows * (1 + plan.arm.ahead)
        yield f"to see what a call of {tokens} token{'s' * (tokens > 1)} takes"
        return
    yield f"{plan.arm.name(policy.drafters)} ({'worth most' if plan.why == 'best' else 'to see what it is worth'})"
    for arm, worth in policy.prospects(rows, promising):
        if arm.drafts or not arm.ahead:
            load = f", after {1e3 * price:.0f} ms to load" if (price := policy.price(arm)) else ""
            yield f"{arm.name(policy.drafters)}: {worth:.0f} tokens/s{load}"
    yield f"decoded so far: {1e3 * policy.seconds:.0f} ms"
