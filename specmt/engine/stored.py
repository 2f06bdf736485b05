"""Weights in files that need not be read where what was made of them is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import final

from torch import Tensor


@final
@dataclass(frozen=True, eq=False)
class StoredWeights(Mapping[str, Tensor]):
    """Tensors by name, all of which are read, and checked, when the first of them is asked for."""

    outline: Mapping[str, Tensor]
    """Their shapes and types, as tensors on PyTorch's device `meta`."""

    read: Callable[[], Mapping[str, Tensor]]

    identity: str
    """Which they are: of other values it is another."""

    files: tuple[Path, ...]
    """What they are read from."""

    count: int
    """How many numbers have to be read, and checked, to have them."""

    @cached_property
    def _tensors(self) -> Mapping[str, Tensor]:
        return self.read()

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name]

    def __contains__(self, name: object) -> bool:
        return name in self.outline

    def __iter__(self) -> Iterator[str]:
        return iter(self.outline)

    def __len__(self) -> int:
        return len(self.outline)
