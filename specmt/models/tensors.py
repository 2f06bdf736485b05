"""Tensors in safetensors files, as arrays: those of strangers, too, of which nothing is believed that was not checked.

Matrices may be stored in int8, a scale an output row: what is stored is the model. A scale has the eight significant
bits of bfloat16, so that its products are exact in float32. Whoever rounds such weights to int8 by row again, as the
C++ kernels do, gets the same numbers and scales.

A file that is damaged, or holds what is not read here, raises `ModelError`.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Container, Mapping
from math import prod
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from specmt.engine.arrays import BFLOAT16, Array, to_floats
from specmt.engine.weights import Outline, Rounded, Weight, Weights
from specmt.errors import ModelError
from specmt.models.reading import MOST_JSON, check_regular
from specmt.text.printable import printable

SCALE: Final = ".scale"
"""What the name of a matrix's scales ends in, behind its own."""

_DTYPES: Final[Mapping[str, np.dtype[np.generic]]] = {
    "F16": np.dtype(np.float16),
    "BF16": BFLOAT16,
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
    "I8": np.dtype(np.int8),
    "I16": np.dtype(np.int16),
    "I32": np.dtype(np.int32),
    "I64": np.dtype(np.int64),
    "U8": np.dtype(np.uint8),
    "BOOL": np.dtype(np.bool_),
}
"""The formats that are read, and what they are here; whole numbers of 16 bits without a sign would be bfloat16."""

_INFINITY: Final = {"F16": 0x7C00, "BF16": 0x7F80, "F32": 0x7F800000, "F64": 0x7FF0000000000000}
"""The formats that weights may have, and the bits of infinity in them."""

_BROKEN: Final = (SafetensorError, OSError, ValueError, TypeError, KeyError, AttributeError, RuntimeError)
"""What comes of a file that is no safetensors file."""


class _Entry(NamedTuple):
    """What the head of a file says of a tensor."""

    format: str
    shape: tuple[int, ...]
    begin: int
    """Its first byte in the file."""

    end: int


def read_tensors(path: Path) -> dict[str, Weight]:
    """Returns the weights in the safetensors file of a network, all of them finite.

    Nothing is read that is not looked at: the file is mapped, and its arrays, which may be written to, never reach it.
    """
    entries = _read_head(path)
    arrays = _map(path, entries)
    weights: dict[str, Weight] = {}
    for name, array in arrays.items():
        kind = entries[name].format
        if kind == "I8":
            weights[name] = _rounded(path, name, array, arrays.get(name + SCALE))
        elif is_scale(name, arrays):
            continue
        elif kind not in _INFINITY:
            raise ModelError(f"{path}: {printable(name)} must be of floating point, but is {array.dtype} instead.")
        else:
            _check_finite(path, name, is_finite=_is_finite(array, _INFINITY[kind]))
            weights[name] = array
    return weights


def read_arrays(path: Path) -> dict[str, Array]:
    """Returns the tensors in a safetensors file as they are, mapped; those in bfloat16 by their bits."""
    return _map(path, _read_head(path))


def read_outline(path: Path) -> dict[str, Outline]:
    """Returns the shapes and formats of the weights in the safetensors file of a network."""
    entries = _read_head(path)
    outline = {}
    for name, entry in entries.items():
        if is_scale(name, entries):
            continue
        if entry.format != "I8" and entry.format not in _INFINITY:
            raise ModelError(f"{path}: is not a safetensors file of a network ({printable(name)} is {entry.format}).")
        outline[name] = Outline(entry.shape, _DTYPES[entry.format])
    return outline


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the tensors in a safetensors file but for scales, whatever their formats."""
    entries = _read_head(path)
    return {name: entry.shape for name, entry in entries.items() if not is_scale(name, entries)}


def write_tensors(path: Path, weights: Weights) -> None:
    """Writes a safetensors file; those in bfloat16 take float32, which NumPy has.

    :raises SafetensorError: it cannot be written.
    """
    arrays: dict[str, Array] = {}
    for name, weight in weights.items():
        if isinstance(weight, Rounded):
            arrays |= {name: weight.values, name + SCALE: weight.scale}
        else:
            arrays[name] = to_floats(weight) if weight.dtype == BFLOAT16 else weight
    save_file({name: np.asarray(array, order="C") for name, array in arrays.items()}, path)


def is_scale(name: str, names: Container[str]) -> bool:
    """Returns whether a tensor is the scales of another."""
    return name.endswith(SCALE) and name.removesuffix(SCALE) in names


def _read_head(path: Path) -> dict[str, _Entry]:
    """Returns what there is in a file that the library has checked."""
    try:
        with safe_open(check_regular(path), "np"), path.open("rb") as stream:
            size = int.from_bytes(stream.read(8), "little")
            head = stream.read(min(size, MOST_JSON))
        record = json.loads(head)
        if len(head) != size:
            raise ValueError("its head is cut off")
        return {name: _entry(8 + size, **each) for name, each in record.items() if name != "__metadata__"}
    except (*_BROKEN, RecursionError) as error:
        raise ModelError(f"{path}: is not a safetensors file ({printable(str(error))}).") from error


def _entry(start: int, dtype: str, shape: list[int], data_offsets: list[int]) -> _Entry:
    begin, end = data_offsets
    if begin < 0:
        raise ValueError("a tensor begins before all")
    return _Entry(dtype, tuple(shape), start + begin, start + end)


def _map(path: Path, entries: Mapping[str, _Entry]) -> dict[str, Array]:
    try:
        with path.open("rb") as stream:
            # Written to without reaching the file: PyTorch warns of what cannot be written.
            memory = np.frombuffer(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY), dtype=np.uint8)
        return {name: _view(memory, name, entry) for name, entry in entries.items()}
    except _BROKEN as error:
        raise ModelError(f"{path}: is not a safetensors file ({printable(str(error))}).") from error


def _view(memory: Array, name: str, entry: _Entry) -> Array:
    """Returns a tensor of a file.

    :raises ValueError: it is in a format that is not read, or the file is another one by now.
    """
    if entry.format not in _DTYPES:
        raise ValueError(f"{name} is {entry.format}")
    dtype, begin, end = _DTYPES[entry.format], entry.begin, entry.end
    if not 0 <= begin <= end <= len(memory) or prod(entry.shape) * dtype.itemsize != end - begin:
        raise ValueError(f"{name} does not fit")
    array = memory[begin:end].view(dtype).reshape(entry.shape)
    return array if array.flags.aligned else array.copy()


def _rounded(path: Path, name: str, values: Array, scale: Array | None) -> Rounded:
    """Returns a matrix in int8 with its scales."""
    if scale is None or values.ndim != 2 or scale.shape != values.shape[:1] or scale.dtype != np.float32:
        raise ModelError(f"{path}: {printable(name)} must have a scale for each row, in float32.")
    with np.errstate(over="ignore"):
        _check_finite(path, name, is_finite=bool(np.isfinite(scale * np.float32(np.iinfo(np.int8).min)).all()))
    return Rounded(values, scale)


def _check_finite(path: Path, name: str, *, is_finite: bool) -> None:
    if not is_finite:
        raise ModelError(f"{path}: {printable(name)} must be finite, but has NaN or infinite values.")


def _is_finite(array: Array, infinity: int) -> bool:
    # Read as whole numbers, infinity and NaN come behind all finite numbers of their sign.
    bits = array.view(f"i{array.itemsize}")
    sign = 1 << (8 * array.itemsize - 1)
    return array.size == 0 or bool(bits.max() < infinity and bits.view(f"u{array.itemsize}").max() < sign + infinity)
