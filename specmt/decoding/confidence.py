"""How likely drafts are to be accepted, calibrated, and which are worth drafting and verifying (DESIGN §2.6)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from specmt.decoding.tree import Tree, prune
from specmt.engine.arrays import Ids
from specmt.engine.fused import Confidence
from specmt.types import EOS

Floats = npt.NDArray[np.float64]


def confident(tree: Tree, confidence: Confidence | None) -> Tree:
    """Returns draft trees without the nodes that are not worth drafting or verifying.

    Chains are cut at the first such node; a node's ancestors are always likelier than itself.
    """
    if confidence is None or confidence.floor == 0.0 or tree.log_probs is None or tree.tokens.shape[1] == 0:
        return tree
    tokens, parents = tree.tokens, tree.parents
    chances = survival(tree.log_probs.astype(np.float64), confidence.scale, confidence.shift, parents)
    stay = chances >= confidence.floor
    # How sure a tree must be to go on was asked when it was drafted.
    unsure = chances < confidence.margin if parents is None else np.zeros_like(stay)
    stops = np.pad(unsure | (tokens == EOS), ((0, 0), (1, 0)))
    row = np.arange(len(tokens))
    for node in range(tokens.shape[1]):
        stopped = stops[row, node if parents is None else parents[:, node]]
        stay[:, node] &= ~stopped
        stops[:, node + 1] |= stopped
    return prune(tree, stay)


def survival(log_probs: Floats, scale: float, shift: float, parents: Ids | None = None) -> Floats:
    """Returns the probability (B, N) that each node of draft trees is accepted, with all those before it.

    :param log_probs: (B, N) what the drafter gave each node
    :param parents: (B, N) places; chains by default
    """
    chances = logistic(scale * log_odds(log_probs) + shift)
    if parents is None:
        return chances.cumprod(1)
    row = np.arange(len(chances))
    whole = np.ones((len(chances), chances.shape[1] + 1))
    for node in range(chances.shape[1]):
        whole[:, node + 1] = chances[:, node] * whole[row, parents[:, node]]
    return whole[:, 1:]


def logistic(x: Floats) -> Floats:
    """Returns 1 / (1 + e^(−x))."""
    with np.errstate(over="ignore"):
        chances: Floats = 1.0 / (1.0 + np.exp(-x))
    return chances


def log_odds(log_probs: Floats) -> Floats:
    """Returns log(p / (1 − p)) of probabilities p given by their logarithms, p = 1 taken for a little less."""
    likely = np.minimum(log_probs, -1e-6)
    return likely - np.log(-np.expm1(likely))
