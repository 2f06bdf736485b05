"""The shapes that draft trees can have (DESIGN §2.3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from specmt.decoding.sample import Sampling, sampling
from specmt.options import DecodingOptions

MOST_NODES: Final = 24
"""The nodes of a best-first tree where nobody says how many."""

FEW_NODES: Final = 11
"""Those of trees that are drafted because they pay: with the last committed token, a product of matrices is one pass
over the weights with AVX-512."""


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


def make_shape(options: DecodingOptions) -> Shape:
    """Returns the shape of draft trees that the options ask for."""
    if options.samples:
        return Sampled(options.width if options.tree == "sampled" else 1, sampling(options))
    return BestFirst(options.nodes or MOST_NODES, options.beta) if options.tree == "best-first" else Chain()
