"""Stacks of layers as the C++ kernels see them: structures that point into packed arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np

from specmt.engine.architecture import Architecture, Sizes, embedding_scale, sinusoids
from specmt.engine.arrays import Array, Floats, empty
from specmt.engine.kernels.structures import (
    ACTIVATIONS,
    LANES,
    TOGETHER,
    TYPES,
    Filter,
    Layer,
    Linear,
    Network,
    Norm,
    type_of,
)

Packed: TypeAlias = Mapping[str, Array]
"""What specmt.engine.kernels.packing yields, filled, by name."""

LINEARS: Final = ("qkv", "attention_out", "ssru", "cross_query", "cross_key_value", "cross_out", "ffn_in", "ffn_out")
NORMS: Final = ("attention_norm", "cross_norm", "ffn_norm")


class Stack:
    """A stack of layers, the embeddings before it and, of a decoder, the projection behind it."""

    def __init__(self, packed: Packed, name: str, layers: int, sizes: Sizes, format: str) -> None:
        """
        :param name: ``encoder`` or ``decoder``
        """
        table = packed.get(f"{name}.table", packed["decoder.table"])
        vocab, width = table.shape
        architecture = sizes.architecture
        array = (Layer * layers)(*(_layer(packed, f"{name}.layers.{number}", format) for number in range(layers)))
        own = {field.name: getattr(architecture, field.name) for field in fields(Architecture)}
        positions = _positions(sizes.max_length, width, Architecture(**own))
        self._kept = packed, positions, array  # what the structure points to
        is_post = architecture.norm == "post"
        self.struct = Network(
            type=TYPES[format],
            layers=layers,
            width=width,
            heads=sizes.heads,
            ffn=array[0].ffn_in.outputs,
            places=sizes.max_length,
            vocab=vocab,
            activation=ACTIVATIONS[architecture.activation],
            post=is_post,
            table_type=type_of(table),
            scale=embedding_scale(width, architecture),
            epsilon=architecture.norm_epsilon,
            table=table.ctypes.data,
            mask=_pointer(packed, f"{name}.mask"),
            positions=positions.ctypes.data,
            layer=array,
            norm=_shift_norms(array) if is_post else _norm(packed, f"{name}.norm"),
        )
        if name == "decoder":
            self.struct.project = linear_of(packed, "project", format)
            self.struct.filter = _filter(packed)


@lru_cache(maxsize=4)
def _positions(length: int, width: int, architecture: Architecture) -> Floats:
    """Returns the position table (T, D), which networks of a model have in common."""
    positions = empty((length, width), np.float32)
    positions[:] = sinusoids(length, width, architecture)
    return positions


def linear_of(packed: Packed, name: str, format: str) -> Linear:
    """Returns a linear layer that was packed under a name, or one without outputs where none was."""
    if f"{name}.weight" not in packed:
        return Linear()
    panels, units, _ = packed[f"{name}.weight"].shape
    pointers = {kind: _pointer(packed, f"{name}.{kind}") for kind in ("weight", "bias", "scale", "offset")}
    return Linear(outputs=panels * LANES, inputs=units * TOGETHER[format], **pointers)


def _pointer(packed: Packed, name: str) -> int | None:
    return packed[name].ctypes.data if name in packed else None


def _norm(packed: Packed, name: str) -> Norm:
    return Norm(*(_pointer(packed, f"{name}.{kind}") for kind in ("weight", "bias")))


def _layer(packed: Packed, name: str, format: str) -> Layer:
    linears = {part: linear_of(packed, f"{name}.{part}", format) for part in LINEARS}
    return Layer(**linears, **{part: _norm(packed, f"{name}.{part}") for part in NORMS})


def _filter(packed: Packed) -> Filter:
    if "filter.bounds" not in packed:
        return Filter()
    return Filter(linear_of(packed, "filter", "int8"), *packed["filter.bounds"].tolist())


def _shift_norms(layers: ctypes.Array[Layer]) -> Norm:
    """Gives each sublayer the norm behind the one before, the first none; returns the last.

    A norm behind a residual sum is one of the next sublayer's input: the kernels know no other.
    """
    norm = Norm()
    for layer in layers:
        names = ["attention_norm", *["cross_norm"] * bool(layer.cross_norm.weight), "ffn_norm"]
        for name in names:
            own = getattr(layer, name)
            behind = Norm(own.weight, own.bias)  # ctypes hands out views
            setattr(layer, name, norm)
            norm = behind
    return norm
