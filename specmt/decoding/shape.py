"""The shapes that draft trees can have (DESIGN §2.3)."""

from __future__ import annotations

from dataclasses import dataclass

from specmt.decoding.sample import Sampling


@dataclass(frozen=True)
class Chain:
    """The best token of each position after those before it."""


@dataclass(frozen=True)
class BestFirst:
    """The N likeliest paths."""

    nodes: int

    breadth: int
    """How many candidates may follow a token."""


@dataclass(frozen=True)
class Sampled:
    """A draw of W paths without replacement; a chain with W = 1."""

    width: int
    how: Sampling


Shape = Chain | BestFirst | Sampled
