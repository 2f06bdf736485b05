"""The shapes of calls on PyTorch, chosen so that a row's bits do not depend on its batch (DESIGN §2.5).

The C++ kernels need none of this: each of their sums is taken in one order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch

from specmt.engine import keep
from specmt.engine.backend import State, Verifier
from specmt.engine.cache import GRANULE
from specmt.engine.window import branches
from specmt.types import UNK


@dataclass(frozen=True)
class ShapePolicy:
    """A policy for the shapes of a network's calls."""

    granule: int
    """Keys are attended to in multiples of this number; what lies past a row's end is masked."""

    queries: int
    """Attention is given at least so many query rows; fewer take other code, with other bits."""

    window: int | None = None
    """If given, the one shape of all calls: rows one by one, their tokens in windows of this size."""

    static: tuple[int, ...] = ()
    """If given, the sizes that windows are padded to, in calls that always have all rows of a state and all positions:
    few shapes, which can be compiled and, on a GPU, captured."""

    @property
    def alone(self) -> bool:
        """Whether sources are encoded one by one, so that they, too, have one shape."""
        return self.window is not None or len(self.static) == 1


FREE: Final = ShapePolicy(granule=1, queries=1)
"""As fast as it goes; a translation may depend on its batch in the last bits, and so now and then in a word."""

GRANULAR: Final = ShapePolicy(granule=GRANULE, queries=4)
"""The same bits in any company, as far as measured; :func:`is_invariant` tells for a machine."""


COMPILED: Final = ShapePolicy(granule=GRANULE, queries=1, static=(1, 8, 32))
"""For a GPU, where calls are compiled once for each shape."""

STATIC_ROWS: Final = 32
"""The rows of a state whose calls are compiled; more are a multiple of them."""


def fixed(max_length: int) -> ShapePolicy:
    """Returns the policy for machines where granules do not do: one shape for everything, keys as long as can be."""
    return ShapePolicy(granule=max_length, queries=4, window=8)


def one_shape(max_length: int) -> ShapePolicy:
    """Returns the policy of one compiled shape for everything, so that all calls take the same code."""
    return ShapePolicy(granule=max_length, queries=1, static=(8,))


LENGTH: Final = 24
"""Target tokens that are tried."""

IDS: Final = 64
"""They and those of sources are under this number: there are so many in the smallest vocabulary, too."""


@torch.inference_mode()
def is_invariant(network: Verifier) -> bool:
    """Returns whether a network gives a row the same bits in one block, in single steps, in a tree and in company."""
    generator = torch.Generator().manual_seed(0)
    sources = [torch.randint(UNK, IDS, (length,), generator=generator).tolist() for length in (19, 5, 40, 33)]
    tokens = torch.randint(UNK, IDS, (len(sources), LENGTH), generator=generator).to(network.device)
    alone = []
    for number, source in enumerate(sources):
        block = _run(network, [source], tokens[number, None], [LENGTH])[0]
        steps = _run(network, [source], tokens[number, None], [1] * LENGTH)[0]
        if not (torch.equal(block, steps) and bool(block.isfinite().all())):
            return False
        alone.append(block)
    together = _run(network, sources, tokens, [3, 1, 7, 2, 11])
    branching = _run_tree(network, sources, tokens)
    return all(torch.equal(*pair) for got in (together, branching) for pair in zip(got, alone, strict=True))


def _run(network: Verifier, sources: list[list[int]], tokens: torch.Tensor, windows: list[int]) -> torch.Tensor:
    rows, state = _open(network, sources)
    parts, start = [], 0
    for window in windows:
        starts = torch.full_like(rows, start)
        parts.append(network.score(tokens[:, start : start + window], starts, state))
        start += window
    return torch.cat(parts, dim=1)


def _open(network: Verifier, sources: list[list[int]]) -> tuple[torch.Tensor, State]:
    rows = torch.arange(len(sources), device=network.device)
    state = network.new_state(len(sources))
    network.start(state, rows, network.encode(sources))
    return rows, state


def _run_tree(network: Verifier, sources: list[list[int]], tokens: torch.Tensor) -> torch.Tensor:
    """Runs half of the tokens as a window and the rest as a tree, in which each has a twin that leads nowhere."""
    rows, state = _open(network, sources)
    root = LENGTH // 2
    window = network.score(tokens[:, :root], torch.zeros_like(rows), state)
    twins = tokens[:, root:].repeat_interleave(2, dim=1)[:, 1:]
    parents = torch.tensor([max(0, place - 1 - place % 2) for place in range(twins.shape[1] - 1)])
    tree = network.score(twins, torch.full_like(rows, root), state, branches(parents.to(rows).expand(len(rows), -1)))
    return torch.cat([window, tree[:, :1], tree[:, 1::2]], dim=1)


def invariant_here(network: Verifier, description: str) -> bool:
    """Returns whether a network is invariant on this machine, which is tried once and then remembered."""
    return bool(keep.kept("trees", description, lambda: is_invariant(network)))
