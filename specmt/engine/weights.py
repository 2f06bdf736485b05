"""Weights of networks by name, as stored: in files that need not be read where what was made of them is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeAlias, final

import numpy as np
import numpy.typing as npt

from specmt.engine.arrays import Array, Floats, to_floats


@final
@dataclass(frozen=True, eq=False)
class Rounded:
    """A matrix in int8 whose rows have a scale each."""

    values: npt.NDArray[np.int8]
    """(N, I)"""

    scale: Floats
    """(N)"""

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, I)"""
        return self.values.shape

    def __len__(self) -> int:
        return len(self.values)


Weight: TypeAlias = Array | Rounded
"""In float16, bfloat16 (specmt.engine.arrays.BFLOAT16), float32 or float64, or a matrix in int8."""

Weights: TypeAlias = Mapping[str, Weight]


class Outline(NamedTuple):
    """What is known of a weight before it is read."""

    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    """As stored; of a matrix in int8 that of its values."""

    def __len__(self) -> int:
        return self.shape[0]


def floats(weight: Weight, rows: slice = slice(None)) -> Floats:
    """Returns some rows of a weight in float32."""
    if isinstance(weight, Rounded):
        return weight.values[rows] * weight.scale[rows, None]
    return to_floats(weight[rows])


@final
@dataclass(frozen=True, eq=False)
class StoredWeights(Mapping[str, Weight]):
    """Weights by name, all of which are read, and checked, when the first of them is asked for."""

    outline: Mapping[str, Outline]

    read: Callable[[], Weights]

    identity: str
    """Which they are: of other values it is another."""

    files: tuple[Path, ...]
    """What they are read from."""

    count: int
    """How many numbers have to be read, and checked, to have them."""

    @cached_property
    def _weights(self) -> Weights:
        return self.read()

    def __getitem__(self, name: str) -> Weight:
        return self._weights[name]

    def __contains__(self, name: object) -> bool:
        return name in self.outline

    def __iter__(self) -> Iterator[str]:
        return iter(self.outline)

    def __len__(self) -> int:
        return len(self.outline)


class Tables(NamedTuple):
    """The names of what stands between ids and vectors; several of them may be one."""

    source: str
    """(V_s, D) embeddings of the encoder."""

    target: str
    """(V, D) embeddings of the decoder."""

    output: str
    """(V, D) the projection to the vocabulary."""

    bias: str | None = None
    """(V) of the projection."""


def verifier_tables(weights: Mapping[str, object]) -> Tables:
    """Returns the tables of a verifier: those that are not there of their own are shared."""
    source, target, output, bias = (
        "encoder_frontend.embed.weight",
        "decoder_frontend.embed.weight",
        "final_proj.weight",
        "final_proj.bias",
    )
    target = target if target in weights else source
    return Tables(source, target, output if output in weights else target, bias if bias in weights else None)


DRAFTER_TABLES = Tables(*["embed.weight"] * 3)
"""Those of a drafter, which are one."""
