"""Which drafters the options mean for a model, and whether how far they look ahead is fixed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from specmt.decoding.choice import Choice, choose, looks_ahead, make_beam_policy, make_policy
from specmt.decoding.policy import NO_DRAFT, Arm, BanditPolicy, FixedPolicy
from specmt.models.hub import Model
from specmt.options import DecodingOptions

MEMORY = Path("memory.tsv")


class Has(NamedTuple):
    drafters: tuple[str, ...]
    block_size: int | None = None


REPLICA, ALL = Has(("self",)), Has(("masked", "autoregressive", "self"), 10)
BOTH, MASKED, NONE = Has(("masked", "autoregressive"), 10), Has(("masked",), 10), Has(())
LOOKUP = Choice(("lookup",), None)
NOBODY = Choice((), 0)


@pytest.mark.parametrize(
    ("options", "model", "wanted"),
    [
        ({}, BOTH, Choice(("masked", "autoregressive"), None)),
        ({}, MASKED, Choice(("masked",), None)),
        ({}, NONE, LOOKUP),
        ({}, ALL, Choice(("masked", "autoregressive", "self"), None)),
        ({}, REPLICA, Choice(("self",), None)),
        # A replica drafts chains alone.
        ({"tree": "best-first"}, ALL, Choice(("masked", "autoregressive"), None)),
        ({"tree": "best-first"}, REPLICA, LOOKUP),
        ({"block_size": 8}, ALL, Choice(("masked",), 8)),
        ({"block_size": 8}, REPLICA, Choice(("self",), 8)),
        ({"temperature": 0.5}, REPLICA, NOBODY),
        ({"memory": MEMORY}, MASKED, Choice(("masked", "lookup"), None)),
        ({"memory": MEMORY}, NONE, LOOKUP),
        ({"block_size": 8}, BOTH, Choice(("masked",), 8)),
        ({"block_size": 8}, NONE, Choice(("lookup",), 8)),
        ({"block_size": 8, "memory": MEMORY}, BOTH, Choice(("masked", "lookup"), 8)),
        ({"strategy": "greedy"}, BOTH, NOBODY),
        ({"strategy": "beam"}, BOTH, NOBODY),
        ({"drafter": "none"}, BOTH, NOBODY),
        # What is drafted decides what comes out.
        ({"tolerance": 1.0}, BOTH, Choice(("masked",), 10)),
        ({"tolerance": 1.0}, NONE, Choice(("masked",), 10)),
        ({"tolerance": 1.0, "beta": 1}, MASKED, Choice(("masked",), None)),
        ({"temperature": 0.5}, BOTH, Choice(("masked",), 10)),
        ({"temperature": 0.5}, NONE, NOBODY),
        ({"temperature": 0.5, "drafter": "autoregressive"}, BOTH, Choice(("autoregressive",), 5)),
        ({"drafter": "autoregressive"}, NONE, Choice(("autoregressive",), None)),
        ({"drafter": "self"}, BOTH, Choice(("self",), 16)),
        ({"drafter": "self+lookup"}, REPLICA, Choice(("self", "lookup"), None)),
        ({"drafter": "masked+lookup"}, BOTH, Choice(("masked", "lookup"), None)),
        ({"drafter": "lookup+masked", "block_size": 6}, BOTH, Choice(("masked", "lookup"), 6)),  # lookups are last
        ({"drafter": "lookup+auto"}, MASKED, Choice(("masked", "lookup"), None)),
        ({"drafter": "masked", "memory": MEMORY}, BOTH, Choice(("masked", "lookup"), None)),
        ({"drafter": "lookup", "memory": MEMORY}, BOTH, LOOKUP),
    ],
)
def test_who_drafts(options: dict[str, Any], model: Has, wanted: Choice) -> None:
    assert choose(DecodingOptions(**options), model) == wanted


@pytest.mark.parametrize("tree", ["chain", "best-first"])
def test_what_a_policy_may_choose(model: Model, tree: Any) -> None:
    options = DecodingOptions(tree=tree)
    choice = choose(options, model)
    policy = make_policy(model, options, choice)
    assert isinstance(policy, BanditPolicy)
    arms = {policy.choose(rows, promising) for rows in (1, 8, 32, 1000) for promising in (False, True)}
    assert NO_DRAFT in arms  # with many sentences side by side there is nothing to gain
    assert all(arm.drafter is None or arm.drafter < len(choice.names) for arm in arms)


def test_when_beam_search_looks_ahead(model: Model) -> None:
    beam = DecodingOptions(strategy="beam")
    asked, refused = (DecodingOptions(strategy="beam", drafter=name) for name in ("autoregressive", "none"))
    assert [looks_ahead(beam, has) for has in (BOTH, MASKED, NONE)] == [True, False, False]
    assert looks_ahead(asked, NONE)
    assert not looks_ahead(refused, BOTH)
    policy = make_beam_policy(model, beam)
    assert policy.choose(1, False) == NO_DRAFT  # by which the rest is judged
    for _ in range(1000):
        arm = policy.choose(1, False)
        policy.observe(1, False, arm, 2.0 if arm.drafter == 0 else 1.0, 1.0)
    assert policy.choose(1, False) == Arm(0, 7)


def test_a_policy_that_is_fixed(model: Model) -> None:
    for options, arm in (
        (DecodingOptions(drafter="masked", block_size=3), Arm(0, 3)),
        (DecodingOptions(strategy="greedy"), NO_DRAFT),
    ):
        policy = make_policy(model, options, choose(options, model))
        assert isinstance(policy, FixedPolicy)
        assert policy.arm == arm
