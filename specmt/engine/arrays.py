"""Arrays that travel between layers, and number formats that NumPy does not have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

Ids: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float32]
Array: TypeAlias = npt.NDArray[Any]

BFLOAT16: Final = np.dtype(np.uint16)
"""How bfloat16 is held: by its bits, which nothing else is that a network reads."""

ALIGNMENT: Final = 64
"""Bytes of a cache line: NumPy begins at 16 bytes modulo 64, from which wide vectors are slow to load."""


def zeros(shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
    """Returns zeros that begin at a cache line; pages are touched when they are written."""
    return _laid(np.zeros, shape, np.dtype(dtype))


def empty(shape: Sequence[int], dtype: npt.DTypeLike) -> Array:
    """Returns an array that begins at a cache line, of whatever was there before."""
    return _laid(np.empty, shape, np.dtype(dtype))


def _laid(make: Callable[..., Array], shape: Sequence[int], kind: np.dtype[Any]) -> Array:
    size = prod(shape) * kind.itemsize
    raw = make(size + ALIGNMENT, dtype=np.uint8)
    begin = -raw.ctypes.data % ALIGNMENT
    return raw[begin : begin + size].view(kind).reshape(shape)


def to_floats(array: Array) -> Floats:
    """Returns what is held in any format of floating point, in float32."""
    if array.dtype == BFLOAT16:
        return (array.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(over="ignore"):
        return array.astype(np.float32, copy=False)


def to_bfloat16(values: Floats) -> npt.NDArray[np.uint16]:
    """Returns the bits of finite numbers in bfloat16, rounded to the nearest, ties to even."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
