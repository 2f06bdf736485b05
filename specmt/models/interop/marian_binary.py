"""Reads Marian's binary files: weights with the model's configuration, in float32, or in int8 as intgemm wants them.

All numbers are little-endian. A file begins with its version and the number of items, 8 bytes each; then come, for all
items, four numbers of 8 bytes (bytes of the name, type, dimensions, bytes of data), the names, the shapes in numbers of
4 bytes, padding with its length before it, and the data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, final

import numpy as np

from specmt.engine.arrays import Array
from specmt.engine.weights import Rounded, Weight
from specmt.errors import ModelError
from specmt.models.interop.checkpoint import Checkpoint
from specmt.text.printable import printable

_VERSION: Final = 1
_FLOAT32: Final = 0x0404
_INT8: Final = 0x0101
_INTGEMM8: Final = 0x4101
_PLAIN: Final[Mapping[int, np.dtype[Any]]] = {_FLOAT32: np.dtype("<f4"), _INT8: np.dtype(np.int8)}
_ACTIVATIONS: Final = "_QuantMultA"
"""What the names of factors end in that activations are multiplied by, of which nothing here makes use."""

_TABLE: Final = "Wemb"
"""What the names of embeddings have in them, the only matrices in int8 that are stored as they are."""


class _Item(NamedTuple):
    name: str
    type: int
    shape: tuple[int, ...]
    data: Array
    """Its bytes, and what fills them up."""


@final
class Reader:
    """Takes numbers from the bytes of a file, one part after another."""

    def __init__(self, path: Path, data: bytes) -> None:
        """
        :param path: what to name in errors
        """
        self.path: Final = path
        self._data: Final = np.frombuffer(data, dtype=np.uint8)
        self._place = 0

    def take(self, count: int, dtype: str, what: str) -> Array:
        """Returns the next numbers of a file.

        :param what: what they are, for the error
        """
        size = count * np.dtype(dtype).itemsize
        left = len(self._data) - self._place
        if size > left:
            raise ModelError(
                f"{self.path}: is damaged or cut off in {what}: {size:,} bytes must follow, but {left:,} do instead. "
                "Fetch it again."
            )
        begin = self._place
        self._place += size
        return self._data[begin : self._place].view(dtype)

    def one(self, dtype: str, what: str) -> int:
        """Returns the next number of a file."""
        return int(self.take(1, dtype, what)[0])

    @property
    def left(self) -> int:
        """How many bytes there are still."""
        return len(self._data) - self._place


def read_binary(path: Path, data: bytes) -> Checkpoint[Weight]:
    """Returns the weights in one of Marian's binary files.

    A matrix in int8 (inputs × outputs) is given as outputs × inputs, as it is stored, and embeddings piece by piece.
    What an item has no use for here is left out: the factors of activations.

    :param path: what to name in errors
    """
    reader = Reader(path, data)
    version = reader.one("<u8", "its head")
    if version != _VERSION:
        raise ModelError(
            f"{path}: is no binary file of Marian; its version must be {_VERSION}, but is {version} instead."
        )
    weights: dict[str, Weight] = {}
    for item in _items(reader):
        if item.name in weights:
            raise ModelError(f"{path}: is damaged: it has {printable(item.name)} twice.")
        if not item.name.endswith(_ACTIVATIONS):
            weights[item.name] = _weight(path, item)
    return Checkpoint(path, weights)


def _items(reader: Reader) -> Iterator[_Item]:
    heads = reader.take(4 * reader.one("<u8", "its head"), "<u8", "the list of its items").reshape(-1, 4).tolist()
    names = [reader.take(length, "u1", "the names of its items").tobytes() for length, *_ in heads]
    shapes = [reader.take(count, "<i4", "the shapes of its items").tolist() for _, _, count, _ in heads]
    reader.take(reader.one("<u8", "the padding before its data"), "u1", "the padding before its data")
    for (_, kind, _, size), name, shape in zip(heads, names, shapes, strict=True):
        try:
            text = name.removesuffix(b"\0").decode()
        except UnicodeDecodeError as error:
            raise ModelError(f"{reader.path}: is damaged in the names of its items; fetch it again.") from error
        yield _Item(text, kind, tuple(shape), reader.take(size, "u1", f"the data of {printable(text)}"))


def _weight(path: Path, item: _Item) -> Weight:
    name, shape, count = printable(item.name), item.shape, math.prod(item.shape)
    if not shape or min(shape) < 1:
        raise ModelError(f"{path}: is damaged: {name} has an impossible shape, {shape}.")
    kind = _PLAIN.get(_INT8 if item.type == _INTGEMM8 else item.type)
    if kind is None:
        raise ModelError(
            f"{path}: {name} must be in float32 or in int8 for intgemm, but is of type {item.type:#06x} instead."
        )
    factor_size = 4 if item.type == _INTGEMM8 else 0
    if count * kind.itemsize + factor_size > len(item.data):
        raise ModelError(f"{path}: is damaged: {name} has {len(item.data):,} bytes, too few for its shape, {shape}.")
    array: Array = item.data[: count * kind.itemsize].view(kind)
    if item.type != _INTGEMM8:
        _check(path, name, bool(np.isfinite(array).all()))
        return array.reshape(shape)
    # A code stands for its product with this in float32, as in the engine, which its quotient is not always.
    with np.errstate(divide="ignore", over="ignore"):
        unit = np.float32(1) / item.data[count : count + factor_size].view("<f4")[0]
    _check(path, name, bool(np.isfinite(unit * np.float32(127)) and unit > 0))
    if len(shape) != 2:
        raise ModelError(f"{path}: {name} must be a matrix, since it is in int8, but has the shape {shape} instead.")
    codes = array.reshape(shape if _TABLE in item.name else shape[::-1])
    return Rounded(codes, np.full(len(codes), unit, dtype=np.float32))


def _check(path: Path, name: str, is_finite: bool) -> None:
    if not is_finite:
        raise ModelError(f"{path}: is damaged: {name} must be finite, but has NaN or infinite values.")
