"""Whether drafting pays, found out on machines that are made up."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

import pytest

from specmt.decoding.trials import FIRST, HICCUP, TRIAL, Trials, Yield

RUN = 16
"""Iterations after which the loop hears how long they took."""


@dataclass
class Machine:
    """Greedy iterations take a second for a token; with drafts, sentences get tokens ``worth`` times as fast."""

    worth: float
    seed: int = 0
    length: int = 20
    """Tokens of a line, on average."""

    gain: float = 3.3
    """Tokens of an iteration with drafts, on average; each line has its own."""

    noise: float = 0.15
    hiccups: float = 0.02
    """How often something else has the machine for as long as a line takes, or two."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.start_anew()

    def start_anew(self) -> None:
        """Counts from here."""
        self.seconds = 0.0  # without noise and hiccups
        self.tokens = [0.0, 0.0]

    def translate(self, chooser: Trials, lines: int) -> list[bool]:
        """Translates lines one at a time; returns, for each, whether there were drafts at its end."""
        return [self._line(chooser) for _ in range(lines)]

    def _line(self, chooser: Trials) -> bool:
        chooser.begin()
        left = 1.0 + int(self.random.expovariate(1 / self.length))
        gain = self.gain * self.random.uniform(0.6, 1.4)
        seconds = self.gain / self.worth
        while left > 0:
            drafts = chooser.choose()
            tokens = min(left, RUN * gain if drafts else RUN)
            took = tokens / gain * seconds if drafts else tokens
            self.seconds += took
            self.tokens[drafts] += tokens
            took *= self.random.lognormvariate(0, self.noise)
            took += self.length * self.random.choice([1, 2]) * (self.random.random() < self.hiccups)
            chooser.learn(drafts, tokens, took)
            left -= tokens
        return drafts

    @property
    def share(self) -> float:
        """The share of tokens that came with drafts."""
        return self.tokens[1] / sum(self.tokens)

    @property
    def loss(self) -> float:
        """How much longer it took than it would have with the better way alone, all lines being alike."""
        return self.seconds * max(1.0, self.worth / 1.06) / sum(self.tokens) - 1.0  # 1.06: lines gain differently


SEEDS = range(8)


def mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)


@pytest.mark.parametrize(("worth", "thought"), [(1.5, 1.2), (3.0, 3.0), (2.0, 1.05), (2.0, 0.8)])
def test_drafting_that_pays_goes_on(worth: float, thought: float) -> None:
    machines = [Machine(worth, seed) for seed in SEEDS]
    for machine in machines:
        machine.translate(chooser := Trials(thought), 500)
        assert chooser.worth > 1.0
        assert machine.share > 0.75
    assert mean(machine.share for machine in machines) > (0.95 if thought > 1.0 else 0.88)
    assert mean(machine.loss for machine in machines) < (0.03 if thought > 1.0 else 0.1)


@pytest.mark.parametrize(("worth", "thought"), [(0.75, 1.2), (0.75, 1.05), (0.5, 1.4), (0.75, 0.8), (0.3, 0.6)])
def test_drafting_that_does_not_pay_costs_little(worth: float, thought: float) -> None:
    machines = [Machine(worth, seed) for seed in SEEDS]
    for machine in machines:
        machine.translate(chooser := Trials(thought), 1000)
        assert chooser.worth < 1.0
        assert machine.share < 0.08
    assert mean(machine.share for machine in machines) < 0.05
    assert mean(machine.loss for machine in machines) < 0.04


@pytest.mark.parametrize("worth", [0.25, 0.75, 1.5, 4.0])
def test_in_the_long_run_trials_cost_little(worth: float) -> None:
    machines = [Machine(worth, seed) for seed in SEEDS]
    for machine in machines:
        machine.translate(chooser := Trials(1.2), 300)
        machine.start_anew()
        machine.translate(chooser, 1000)
    assert mean(machine.loss for machine in machines) < 0.03


@pytest.mark.parametrize(("before", "after", "lines"), [(2.0, 0.5, 60), (0.6, 2.0, 400), (1.3, 0.7, 120)])
def test_a_machine_that_changes_is_followed(before: float, after: float, lines: int) -> None:
    for seed in SEEDS:
        machine = Machine(before, seed)
        machine.translate(chooser := Trials(before), 400)
        machine.worth = after
        machine.translate(chooser, lines)
        ways = machine.translate(chooser, 100)
        assert sum(way == (after > 1.0) for way in ways) > 85


def test_a_machine_that_slows_down_as_a_whole_is_still_the_same() -> None:
    """The way that was not tried lately looks better than it is, for a trial or two."""
    chooser = Trials(1.5)
    for drafts, slow in [(True, 1.0)] * 20 + [(False, 1.0)] * 2 + [(True, 1.0)] * 20:
        chooser.learn(drafts, 20.0, 20.0 * slow / (1.5 if drafts else 1.0))
    ways = []
    for _ in range(200):
        chooser.begin()
        ways.append(drafts := chooser.choose())
        chooser.learn(drafts, 20.0, 60.0 / (1.5 if drafts else 1.0))
    assert ways.count(False) < 30
    assert sum(ways[-100:]) > 90


def test_a_single_line_is_no_place_for_trials() -> None:
    for thought in (0.9, 1.05, 1.5):
        chooser = Trials(thought)
        chooser.begin()
        for _ in range(FIRST * TRIAL // RUN):
            assert chooser.choose() == (thought > 1.0)
            chooser.learn(chooser.drafts, RUN, RUN)


def test_a_way_is_kept_within_a_line() -> None:
    machine = Machine(0.75, length=40)
    chooser = Trials(1.05)
    machine.translate(chooser, 100)
    for _ in range(200):
        chooser.begin()
        ways = []
        for _ in range(3):
            ways.append(chooser.choose())
            chooser.learn(chooser.drafts, 10.0, 10.0)
        # A trial may end, none begins.
        assert ways in ([True, True, True], [False, False, False], [True, True, chooser.drafts])


def test_a_hiccup_is_not_taken_at_its_word() -> None:
    seen = Yield()
    for _ in range(50):
        seen.add(20.0, 20.0)
    seen.add(20.0, 5000.0)
    assert 1.0 < seen.seconds / seen.tokens < 1.0 + HICCUP / 10
    for _ in range(60):
        seen.add(20.0, 200.0)
    assert seen.seconds / seen.tokens == pytest.approx(10.0, rel=0.2)  # but what lasts is believed


def test_what_the_first_line_of_all_took_is_not_held_against_its_way() -> None:
    chooser = Trials(1.2)
    machine = Machine(1.5)
    chooser.begin()
    chooser.learn(chooser.choose(), 20.0, 2000.0)
    machine.translate(chooser, 200)
    assert machine.share > 0.9


def test_the_share_of_trials_is_bounded_whatever_the_clock_says() -> None:
    generator = random.Random(3)
    chooser = Trials(1.05)
    tried = total = 0.0
    for _ in range(20_000):
        chooser.begin()
        drafts = chooser.choose()
        tokens = generator.uniform(1.0, 60.0)
        # So alike that the leader changes now and then.
        chooser.learn(drafts, tokens, 0.0 if generator.random() < 0.1 else generator.expovariate(1.0))
        total += tokens
        tried += tokens * (drafts != (chooser.worth > 1.0))
    assert tried / total < 0.25
