"""Stacks of layers as the C++ kernels see them: structures that point into packed tensors."""

from __future__ import annotations

from collections.abc import Mapping
from ctypes import Array

import torch
from torch import Tensor

from specmt.engine.backend import Sizes
from specmt.engine.embedding import embedding_scale, sinusoids
from specmt.engine.structures import ACTIVATIONS, LANES, TOGETHER, TYPES, Filter, Layer, Linear, Network, Norm

Packed = Mapping[str, Tensor]
"""What specmt.engine.packed yields, by name."""

LINEARS = ("qkv", "attention_out", "cross_query", "cross_key_value", "cross_out", "ffn_in", "ffn_out")
NORMS = ("attention_norm", "cross_norm", "ffn_norm")


class Stack:
    """A stack of layers, the embeddings before it and, of a decoder, the projection behind it."""

    def __init__(self, packed: Packed, name: str, layers: int, sizes: Sizes, dtype: torch.dtype) -> None:
        """
        :param name: ``encoder`` or ``decoder``
        """
        table = packed.get(f"{name}.table", packed["decoder.table"])
        vocab, width = table.shape
        architecture = sizes.architecture
        array = (Layer * layers)(*(_layer(packed, f"{name}.layers.{number}", dtype) for number in range(layers)))
        positions = sinusoids(sizes.max_length, width, architecture)
        self._kept = packed, positions, array  # what the structure points to
        is_post = architecture.norm == "post"
        self.struct = Network(
            type=TYPES[dtype],
            layers=layers,
            width=width,
            heads=sizes.heads,
            ffn=array[0].ffn_in.outputs,
            places=sizes.max_length,
            vocab=vocab,
            activation=ACTIVATIONS[architecture.activation],
            post=is_post,
            table_type=TYPES[table.dtype],
            scale=embedding_scale(width, architecture),
            table=table.data_ptr(),
            mask=_pointer(packed, f"{name}.mask"),
            positions=positions.data_ptr(),
            layer=array,
            norm=_shift_norms(array) if is_post else _norm(packed, f"{name}.norm"),
        )
        if name == "decoder":
            self.struct.project = linear_of(packed, "project", dtype)
            self.struct.filter = _filter(packed)


def linear_of(packed: Packed, name: str, dtype: torch.dtype) -> Linear:
    """Returns a linear layer that was packed under a name, or one without outputs where none was."""
    if f"{name}.weight" not in packed:
        return Linear()
    panels, units, _ = packed[f"{name}.weight"].shape
    pointers = {kind: _pointer(packed, f"{name}.{kind}") for kind in ("weight", "bias", "scale", "offset")}
    return Linear(outputs=panels * LANES, inputs=units * TOGETHER[dtype], **pointers)


def _pointer(packed: Packed, name: str) -> int | None:
    return packed[name].data_ptr() if name in packed else None


def _norm(packed: Packed, name: str) -> Norm:
    return Norm(*(_pointer(packed, f"{name}.{kind}") for kind in ("weight", "bias")))


def _layer(packed: Packed, name: str, dtype: torch.dtype) -> Layer:
    linears = {part: linear_of(packed, f"{name}.{part}", dtype) for part in LINEARS}
    return Layer(**linears, **{part: _norm(packed, f"{name}.{part}") for part in NORMS})


def _filter(packed: Packed) -> Filter:
    if "filter.bounds" not in packed:
        return Filter()
    return Filter(linear_of(packed, "filter", torch.int8), *packed["filter.bounds"].tolist())


def _shift_norms(layers: Array[Layer]) -> Norm:
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
