"""What sets encoder-decoder Transformers apart, as data, and what all backends compute of it in the same way."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, NamedTuple

import numpy as np

from specmt.engine.arrays import Floats
from specmt.options import AlignmentHeads
from specmt.types import BOS


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """Holds what networks of the same sizes may differ in; the defaults are how our own models are built."""

    norm: Literal["pre", "post"] = "pre"
    """Where layer norms stand: before sublayers, with one more behind each stack; or behind each residual sum."""

    norm_epsilon: float = 1e-5
    """What layer norms add to a variance."""

    decoder: Literal["attention", "ssru"] = "attention"
    """What decoder layers know earlier target tokens by: attention to them, or the cell of a simpler simple recurrent
    unit (Kim et al. 2019, section 3.1)."""

    activation: Literal["relu", "swish", "gelu"] = "relu"
    """What stands between the projections of the feed-forward networks; gelu is the exact one."""

    positions: str = "sinusoidal"
    """The table of positions, by its name in `POSITIONS`."""

    first_position: int = 0
    """The position of the first token."""

    scaled_embedding: bool = True
    """Whether token embeddings are multiplied by √D."""

    @property
    def planes(self) -> int:
        """How many vectors decoder layers keep of a target token: its key and its value, or the cell behind it."""
        return 2 if self.decoder == "attention" else 1


OURS: Final = Architecture()


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of a network that its weights do not tell."""

    heads: int
    encoder_layers: int
    decoder_layers: int
    max_length: int
    architecture: Architecture = OURS


class Prefixes(NamedTuple):
    """What a verifier is given before every sentence and its translation."""

    source: tuple[int, ...] = ()
    """Ids before those of a source."""

    target: tuple[int, ...] = ()
    """Ids between BOS and a translation; they are committed when a sentence begins, and no part of what is said."""

    @property
    def start(self) -> tuple[int, ...]:
        """What is committed before anything is decoded."""
        return BOS, *self.target

    def read(self, targets: Sequence[Sequence[int]], heads: AlignmentHeads) -> list[list[int]]:
        """Returns what a decoder reads, so that every token of targets has its attention to the source."""
        end = None if heads.reads == "input" else -1
        return [[*self.start, *target][:end] for target in targets]

    def pick(self, weights: Floats, target: Sequence[int], source_length: int, heads: AlignmentHeads) -> Floats:
        """Returns the attention (T, S) of a target's tokens to the ids of a source, without prefix and EOS.

        :param weights: (R, S') of all that was read, added up over heads
        :param source_length: prefix and EOS included
        """
        before = len(self.start) - (heads.reads == "output")
        of_target = weights[before : before + len(target)]
        return of_target[:, len(self.source) : source_length - 1] / np.float32(len(heads.heads))


NO_PREFIXES: Final = Prefixes()


def sinusoids(length: int, width: int, architecture: Architecture = OURS) -> Floats:
    """Returns the table of positions (T, D) of an architecture."""
    return POSITIONS[architecture.positions](length, width, architecture.first_position)


def _table(length: int, width: int, first: int, *, less: int) -> Floats:
    """Returns the sine and cosine position table (T, D) of Vaswani et al. 2017, section 3.5, halves side by side.

    In float32 these functions differ from one processor to another; rounded from float64 they do not.

    :param less: rates are 10000^(−i / (D/2 − less))
    """
    half = width // 2
    exponents = np.arange(half, dtype=np.float32) * np.float32(-math.log(10000.0) / (half - less))
    # Of the math module, which does the same on all processors; NumPy's functions are compiled for each.
    rates = np.array([math.exp(each) for each in exponents.tolist()], dtype=np.float32)
    angles = np.outer(np.arange(first, first + length, dtype=np.float32), rates).astype(np.float64)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1).astype(np.float32)


POSITIONS: Final[dict[str, Callable[[int, int, int], Floats]]] = {
    "sinusoidal": partial(_table, less=1),
    "marian": partial(_table, less=0),
}
"""What makes a table of positions (T, D) of T, D and the position of the first token, by name: the sinusoids as
fairseq has them, and as Marian does.
"""


def embedding_scale(width: int, architecture: Architecture) -> float:
    """Returns what token embeddings are multiplied by."""
    return math.sqrt(width) if architecture.scaled_embedding else 1.0


def query_scale(width: int, heads: int) -> float:
    """Returns what queries are multiplied by, 1/√D_h."""
    return float((width // heads) ** -0.5)
