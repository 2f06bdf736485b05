"""The shapes of calls on PyTorch, chosen so that a row's bits do not depend on its batch (DESIGN §2.5).

The C++ kernels need none of this: each of their sums is taken in one order.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
import torch
from torch import Tensor

from specmt.engine.arrays import Ids
from specmt.engine.cache import GRANULE, State
from specmt.engine.protocols import Verifier
from specmt.engine.threads import processor, thread_count
from specmt.engine.torch.door import entered
from specmt.engine.torch.logits import TorchLogits
from specmt.engine.window import Window, branches
from specmt.files import cached
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


class Scored(Verifier, Protocol):
    """A verifier on PyTorch."""

    def score(self, window: Window, state: State) -> TorchLogits:
        """Returns logits whose bits can be looked at."""


def invariant_here(network: Scored, description: str) -> bool:
    """Returns whether a network is invariant on this machine, which is tried once and then remembered.

    :param description: what the network is, and where and in which format it computes
    """
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    machine = f"{processor()} x {os.cpu_count()}, {gpu}, torch {torch.__version__}; {thread_count()} threads"
    return bool(cached("invariance", f"{machine}; {description}", lambda: is_invariant(network)))


@entered
def is_invariant(network: Scored) -> bool:
    """Returns whether a network gives a row the same bits in one block, in single steps, in a tree and in company."""
    generator = torch.Generator().manual_seed(0)
    sources = [torch.randint(UNK, IDS, (length,), generator=generator).tolist() for length in (19, 5, 40, 33)]
    tokens = torch.randint(UNK, IDS, (len(sources), LENGTH), generator=generator).numpy()
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


def _run(network: Scored, sources: list[list[int]], tokens: Ids, windows: list[int]) -> Tensor:
    state = _open(network, sources)
    parts, start = [], 0
    for width in windows:
        window = Window(tokens[:, start : start + width], np.full(len(sources), start))
        parts.append(network.score(window, state).values)
        start += width
    return torch.cat(parts, dim=1)


def _run_tree(network: Scored, sources: list[list[int]], tokens: Ids) -> Tensor:
    """Runs half of the tokens as a window and the rest as a tree, in which each has a twin that leads nowhere."""
    count, root = len(sources), LENGTH // 2
    state = _open(network, sources)
    chain = network.score(Window(tokens[:, :root], np.zeros(count, dtype=np.int64)), state).values
    twins = tokens[:, root:].repeat(2, axis=1)[:, 1:]
    parents = np.array([max(0, place - 1 - place % 2) for place in range(twins.shape[1] - 1)])
    shape = branches(np.broadcast_to(parents, (count, len(parents))))
    tree = network.score(Window(twins, np.full(count, root), branches=shape), state).values
    return torch.cat([chain, tree[:, :1], tree[:, 1::2]], dim=1)


def _open(network: Scored, sources: list[list[int]]) -> State:
    state = network.new_state(len(sources))
    network.start(state, np.arange(len(sources)), network.encode(sources))
    return state
