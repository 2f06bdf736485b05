"""Checks of what is handed to the C++ kernels, which read memory as they are told to."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from specmt.engine.backend import Sentences, State


def checked(name: str, tensor: Tensor, dtype: torch.dtype, *shape: int | None) -> Tensor:
    """Returns a tensor that is only read, without gaps.

    :param shape: ``None`` for dimensions of any size
    :raises TypeError: it is of another type.
    :raises ValueError: it has another shape, or is on another device.
    """
    _check(name, tensor, dtype, shape)
    return tensor.contiguous()


def writable(name: str, tensor: Tensor, dtype: torch.dtype, *shape: int | None) -> Tensor:
    """Returns a tensor that is written to, or that may be large: its last dimension must have no gaps.

    :raises TypeError: it is of another type.
    :raises ValueError: it has another shape, gaps, or is on another device.
    """
    _check(name, tensor, dtype, shape)
    if tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
        raise ValueError(f"`{name}` must be without gaps, but has strides of {tensor.stride()} instead.")
    return tensor


def _check(name: str, tensor: Tensor, dtype: torch.dtype, shape: tuple[int | None, ...]) -> None:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"`{name}` must be a tensor, but is of type {type(tensor).__name__} instead.")
    if tensor.dtype != dtype:
        raise TypeError(f"`{name}` must be in {dtype}, but is in {tensor.dtype} instead.")
    if not tensor.is_cpu:
        raise ValueError(f"`{name}` must be on the CPU, but is on {tensor.device} instead.")
    found = tensor.shape
    if len(found) != len(shape) or any(
        wanted is not None and wanted != size for wanted, size in zip(shape, found, strict=True)
    ):
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"`{name}` must have the shape ({wanted}), but has {tuple(found)} instead.")


def check_range(name: str, values: Tensor | npt.NDArray[np.int64], begin: int, end: int) -> None:
    """Checks whole numbers.

    :raises ValueError: there are none, or one is under ``begin``, or not under ``end``.
    """
    numbers = values.numpy() if isinstance(values, Tensor) else values
    if numbers.size == 0:
        raise ValueError(f"`{name}` must not be empty.")
    if (lowest := int(numbers.min())) < begin or (highest := int(numbers.max())) >= end:
        wrong = lowest if lowest < begin else highest
        raise ValueError(f"`{name}` must be in {begin} … {end - 1}, but one is {wrong} instead.")


def check_state(state: State, shape: tuple[int | None, ...], dtype: torch.dtype, rows: int) -> None:
    """Checks that caches are those of a network.

    :param shape: of keys and values
    :param rows: how many there must be at least
    :raises TypeError: they are in another type.
    :raises ValueError: they have another shape, or too few rows.
    """
    for name, cache in (("cache", state.cache), ("cross", state.cross)):
        data = writable(name, cache.data, dtype, *shape)
        if data.shape[2] < rows:
            raise ValueError(f"`{name}` must have at least {rows} rows, but has {data.shape[2]} instead.")
        if data.stride(4) != data.shape[5]:
            raise ValueError(f"`{name}` must have its positions side by side.")
    lengths = writable("cross.lengths", state.cross.lengths, torch.int64, state.cross.data.shape[2])
    if rows:
        check_range("cross.lengths", lengths[:rows], 1, state.cross.data.shape[4] + 1)


def check_counts(sentences: Sentences, room: int) -> None:
    """Checks how many tokens sentences have, and may have.

    :param room: the most
    :raises TypeError: they are not in int64.
    :raises ValueError: they do not fit.
    """
    lengths, limits = sentences.lengths, sentences.limits
    for name, counts in (("lengths", lengths), ("limits", limits)):
        if counts.dtype != np.int64 or not counts.flags.c_contiguous or counts.ndim != 1:
            raise TypeError(f"`{name}` must be a contiguous vector in int64, but is in {counts.dtype} instead.")
    if len(lengths) == 0 or len(limits) != len(lengths):
        raise ValueError(f"`limits` must be as many as `lengths`, and some, but they are {len(limits)} instead.")
    if not bool((lengths < limits).all()):
        raise ValueError("`lengths` must be under `limits`: sentences that have ended are none to run.")
    check_range("lengths", lengths, 1, room)
    check_range("limits", limits, 1, room + 1)
