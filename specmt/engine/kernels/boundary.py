"""Checks of what is handed to the C++ kernels, which read memory as they are told to.

Here, and in whatever of the kernels is handed arrays, `TypeError` says that one is of another type, `ValueError` that
its shape or what it holds does not fit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from specmt.engine.arrays import Array, Ids
from specmt.engine.cache import State
from specmt.engine.fused import Beams, Sentences


def checked(name: str, array: Array, dtype: npt.DTypeLike, *shape: int | None) -> Array:
    """Returns an array that is only read, without gaps; it has to outlive the call that is given its address.

    :param shape: ``None`` for dimensions of any size
    """
    _check(name, array, np.dtype(dtype), shape)
    return np.ascontiguousarray(array)


def writable(name: str, array: Array, dtype: npt.DTypeLike, *shape: int | None) -> Array:
    """Returns an array that is written to: its last dimension must have no gaps."""
    _check(name, array, np.dtype(dtype), shape)
    if array.shape[-1] > 1 and array.strides[-1] != array.itemsize:
        raise ValueError(f"`{name}` must be without gaps, but has strides of {array.strides} bytes instead.")
    if not array.flags.writeable:
        raise ValueError(f"`{name}` must be an array that may be changed, but is one for reading alone instead.")
    return array


def _check(name: str, array: Array, dtype: np.dtype[np.generic], shape: tuple[int | None, ...]) -> None:
    if not isinstance(array, np.ndarray):
        raise TypeError(f"`{name}` must be an array, but is of type {type(array).__name__} instead.")
    if array.dtype != dtype:
        raise TypeError(f"`{name}` must be in {dtype}, but is in {array.dtype} instead.")
    found = array.shape
    if len(found) != len(shape) or any(
        wanted is not None and wanted != size for wanted, size in zip(shape, found, strict=True)
    ):
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        raise ValueError(f"`{name}` must have the shape ({wanted}), but has {found} instead.")


def check_range(name: str, numbers: Ids, begin: int, end: int) -> None:
    """Checks whole numbers."""
    if numbers.size == 0:
        raise ValueError(f"`{name}` must not be empty.")
    if (lowest := int(numbers.min())) < begin or (highest := int(numbers.max())) >= end:
        wrong = lowest if lowest < begin else highest
        raise ValueError(f"`{name}` must be in {begin} … {end - 1}, but one is {wrong} instead.")


class Form(NamedTuple):
    """What a cache has to be."""

    shape: tuple[int | None, ...]
    """(L, P, B, H, T, D_h); ``None`` for any size"""

    dtype: np.dtype[np.generic]


def check_state(state: State, forms: tuple[Form, Form], rows: int) -> None:
    """Checks that caches are those of a network.

    :param forms: those of the caches of target tokens and of source tokens
    :param rows: how many there must be at least
    """
    for name, cache, form in zip(("own", "cross"), (state.own, state.cross), forms, strict=True):
        data = writable(name, cache.data, form.dtype, *form.shape)
        if data.shape[2] < rows:
            raise ValueError(f"`{name}` must have at least {rows} rows, but has {data.shape[2]} instead.")
        if data.strides[4] != data.shape[5] * data.itemsize:
            raise ValueError(f"`{name}` must have its positions side by side.")
    sources = writable("sources", state.sources, np.int64, state.cross.rows)
    if rows:
        check_range("sources", sources[:rows], 1, state.cross.capacity + 1)


def check_counts(sentences: Sentences, room: int) -> None:
    """Checks how many tokens sentences have, and may have.

    :param room: the most
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


def check_beams(beams: Beams, room: int, vocab_size: int) -> None:
    """Checks the hypotheses of a beam search.

    :param room: the most places of the cache that they may have used
    """
    rows, width, length = beams.tokens.shape
    shapes = {1: (rows,), 2: (rows, width), 3: (rows, width, length)}
    for name, array in beams._asdict().items():
        if array.dtype != beams.type_of(name) or not array.flags.c_contiguous or array.shape != shapes.get(array.ndim):
            raise TypeError(f"`{name}` must be an array in C order for {rows} sentences, but is {array!r} instead.")
    active = beams.counts > 0
    check_range("counts", beams.counts, 0, width + 1)
    check_range("found", beams.found, 0, width + 1)
    check_range("extents", beams.extents, 0, room + 1)
    if not active.any():
        return
    lengths = beams.lengths[active]
    check_range("limits", beams.limits[active], 2, length + 1)
    check_range("lengths", lengths, 1, length)
    if not bool((lengths < beams.limits[active]).all()):
        raise ValueError("`lengths` must be under `limits`: sentences that have ended are none to run.")
    for row in np.flatnonzero(active):
        hypotheses = slice(0, int(beams.counts[row])), slice(0, int(beams.lengths[row]))
        check_range("tokens", beams.tokens[row][hypotheses], 0, vocab_size)
        if beams.lengths[row] > 1:
            check_range("slots", beams.slots[row][hypotheses][:, :-1], 0, room)
