"""Which drafters the options mean for a model, and whether how far they look ahead is fixed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from specmt.decoding.drafters import Choice, choose, make_drafter
from specmt.decoding.drafters.base import NO_DRAFT, NOISE, Arm
from specmt.decoding.policy import FixedPolicy, LearntPolicy
from specmt.decoding.session import GUESSES, looks_ahead, make_beam_policy, make_policy
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


CHAINS, TREE = [Arm(0, 3), Arm(0, 12)], Arm(0, 12, 4, 11)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"drafter": "masked"}, [Arm(0, 2), Arm(0, 4)]),  # the block it was trained for, and half of it
        ({"drafter": "masked", "tree": "best-first"}, [Arm(0, 4, 3, 24)]),
        ({"drafter": "autoregressive"}, CHAINS),
        ({"drafter": "autoregressive", "tree": "best-first", "nodes": 7, "beta": 2}, [Arm(0, 12, 2, 7)]),
        ({}, [Arm(0, 2), Arm(0, 4), *(each._replace(drafter=1) for each in [*CHAINS, TREE])]),
        ({"drafter": "masked+lookup"}, [Arm(0, 2), Arm(0, 4), Arm(1, 32)]),
    ],
)
def test_what_a_policy_may_choose(model: Model, options: dict[str, Any], wanted: list[Arm]) -> None:
    policy = policy_of(model, DecodingOptions(**options))
    assert isinstance(policy, LearntPolicy)
    assert policy.arms[0] == NO_DRAFT and policy.arms[1].drafter == NOISE and policy.arms[2:] == wanted


def policy_of(model: Model, options: DecodingOptions) -> FixedPolicy | LearntPolicy:
    choice = choose(options, model)
    drafters = [make_drafter(name, model, 4, options) for name in choice.names]
    policy = make_policy(model, options, choice, drafters)
    assert isinstance(policy, FixedPolicy | LearntPolicy)
    return policy


def test_when_beam_search_looks_ahead(model: Model) -> None:
    beam = DecodingOptions(strategy="beam")
    asked, refused = (DecodingOptions(strategy="beam", drafter=name) for name in ("autoregressive", "none"))
    assert [looks_ahead(beam, has) for has in (BOTH, MASKED, NONE)] == [True, False, False]
    assert looks_ahead(asked, NONE)
    assert not looks_ahead(refused, BOTH)
    policy = make_beam_policy(model, make_drafter("autoregressive", model, 4, beam), 5)
    assert isinstance(policy, LearntPolicy)
    assert (policy.arms, policy.width) == ([NO_DRAFT, Arm(0, 1, 5, GUESSES)], 5)


@pytest.mark.parametrize(
    ("options", "wanted", "promising"),
    [
        ({"strategy": "greedy"}, NO_DRAFT, NO_DRAFT),
        ({"drafter": "masked", "block_size": 3}, Arm(0, 3), Arm(0, 3)),
        ({"drafter": "masked", "tolerance": 1.0}, Arm(0, 4), Arm(0, 4)),  # its own
        ({"drafter": "masked", "block_size": 3, "tree": "best-first", "beta": 2}, Arm(0, 3, 2, 24), Arm(0, 3, 2, 24)),
        ({"drafter": "masked", "temperature": 1.0}, Arm(0, 4), Arm(0, 4)),
        ({"drafter": "masked", "temperature": 1.0, "tree": "sampled", "width": 3}, Arm(0, 4, 3), Arm(0, 4, 3)),
        ({"drafter": "lookup", "block_size": 9}, Arm(0, 9), Arm(0, 9)),
        ({"drafter": "masked+lookup", "block_size": 7}, Arm(0, 7), Arm(1, 7)),
        ({"drafter": "self"}, Arm(0, 16), Arm(0, 16)),
    ],
)
def test_a_policy_that_is_fixed(model: Model, options: dict[str, Any], wanted: Arm, promising: Arm) -> None:
    policy = policy_of(model, DecodingOptions(**options))
    assert isinstance(policy, FixedPolicy)
    for rows in (1, 33):
        assert [policy.choose(rows, each).arm for each in (False, True)] == [wanted, promising]
        assert policy.choose(rows, True).confidence is None
