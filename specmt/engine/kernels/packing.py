"""Weights as the C++ kernels want them: every array that a network on them reads, by name.

What is here follows from weights, sizes and format alone, so that it can be made once and kept
(specmt.engine.kernels.mapping).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from specmt.engine.architecture import Sizes, embedding_scale, query_scale
from specmt.engine.arrays import BFLOAT16, Array, zeros
from specmt.engine.cache import round_up
from specmt.engine.kernels.library import required
from specmt.engine.kernels.stack import linear_of
from specmt.engine.kernels.structures import LANES, TOGETHER, TYPES, Linear, Packing, Products, Stored, type_of
from specmt.engine.threads import thread_count
from specmt.engine.weights import DRAFTER_TABLES, Outline, Rounded, Tables, Weight, floats, verifier_tables

LAYOUT: Final = 3
"""To be raised with every change of what is packed, so that nothing is read that was kept before it."""

AT_ONCE: Final = 4096
"""How many rows of a table are in float32 at once: those of a large vocabulary would not fit often in memory."""

FLOAT32: Final = np.dtype(np.float32)
INT32: Final = np.dtype(np.int32)
TABLE_TYPES: Final = (FLOAT32, BFLOAT16, np.dtype(np.float16))
KINDS: Final = ("weight", "bias")

Given: TypeAlias = Weight | Outline
"""A weight, or what is known of one."""


class Part(NamedTuple):
    """An array that a network reads."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]

    fill: Callable[[Array], object]
    """Writes it into an array without gaps. Parts are filled as they come; those of outlines are not."""


Parts: TypeAlias = Iterator[Part]


class Rows(NamedTuple):
    """Outputs of a linear layer."""

    weight: Given
    """(N_out, N_in)"""

    bias: Given | None = None
    """(N_out)"""

    scale: float = 1.0
    """What both are multiplied by."""


def pack_verifier(weights: Mapping[str, Given], sizes: Sizes, format: str) -> Parts:
    """Yields what a verifier reads."""
    tables = verifier_tables(weights)
    yield from pack_decoder(weights, tables, sizes, format)
    if format != "int8":
        # Outputs that cannot be the largest, however far off they are, need not be computed in the format that counts.
        yield from pack("filter", "int8", _output(weights, tables), beside=format)
    if tables.source != tables.target:
        yield _table("encoder.table", weights[tables.source])
    yield from _stack(weights, "encoder", sizes.encoder_layers, sizes, format)


def pack_replica(weights: Mapping[str, Given], sizes: Sizes, format: str) -> Parts:
    """Yields what a replica of a verifier reads, whose keys and values of the source are the verifier's."""
    for part in pack_decoder(weights, verifier_tables(weights), sizes, format):
        if ".cross_key_value." not in part.name:
            yield part


def pack_autoregressive(weights: Mapping[str, Given], sizes: Sizes, format: str) -> Parts:
    """Yields what an autoregressive drafter reads."""
    yield from pack_decoder(weights, DRAFTER_TABLES, sizes, format)


def pack_masked(weights: Mapping[str, Given], sizes: Sizes, format: str) -> Parts:
    """Yields what a masked drafter reads."""
    yield from pack_decoder(weights, DRAFTER_TABLES, sizes, format)
    yield _vector("decoder.mask", weights["mask_embedding"])
    table = weights[DRAFTER_TABLES.target]
    width = table.shape[1]
    gates, shift = (weights[f"correction.gates.{kind}"] for kind in KINDS)
    yield from pack("known", "float32", Rows(_columns(gates, slice(width))))
    yield from pack("carried", "float32", Rows(_columns(gates, slice(2 * width, None))))
    # What a token contributes to the gates: (V, 2 R)
    embedded = Rows(_columns(gates, slice(width, 2 * width)), shift)
    yield _products("embedded", table, embedded, embedding_scale(width, sizes.architecture))
    # What a state adds to the logit of a token: (V, R)
    yield _products("corrected", table, Rows(_transposed(weights["correction.output.weight"])))


def pack_decoder(weights: Mapping[str, Given], tables: Tables, sizes: Sizes, format: str) -> Parts:
    """Yields what a decoder reads, its projection to the vocabulary included."""
    yield _table("decoder.table", weights[tables.target])
    yield from pack("project", format, _output(weights, tables))
    yield from _stack(weights, "decoder", sizes.decoder_layers, sizes, format)


def pack(name: str, format: str, *parts: Rows, beside: str | None = None) -> Parts:
    """Yields a linear layer, its parts one below the other, in panels of 16 outputs.

    Within a panel the inputs stand one after the other, in bfloat16 by two, in int8 by four, in codes by eight: units
    of four bytes.

    :param parts: all but the last with a multiple of 16 outputs
    :param beside: the format of the layer that this one, of one part in int8, is the filter of: it has bounds, too
    """
    layer = _Layer(format, parts, beside)
    yield Part(f"{name}.weight", layer.shape, INT32, layer.fill)
    for kind, array in layer.others.items():
        yield Part(f"{name}.{kind}", array.shape, array.dtype, partial(np.copyto, src=array))


class _Layer:
    """A linear layer that is packed when its panels are: what else belongs to it is kept until it is asked for."""

    def __init__(self, format: str, parts: tuple[Rows, ...], beside: str | None) -> None:
        self._format, self._parts, self._beside = format, parts, beside
        self._inputs = parts[0].weight.shape[1]
        outputs = round_up(sum(len(part.weight) for part in parts), LANES)
        self.shape = outputs // LANES, self._inputs // TOGETHER[format], LANES
        self.others: dict[str, Array] = {}
        """By kind."""
        if any(part.bias is not None for part in parts):
            self.others["bias"] = zeros([outputs], FLOAT32)
        if format in ("int8", "codes"):
            self.others |= {"scale": zeros([outputs], FLOAT32), "offset": zeros([outputs], INT32)}
        if beside is not None:
            self.others["bounds"] = zeros([3], FLOAT32)  # of error, norm and bias

    def fill(self, panels: Array) -> None:
        """Packs the layer."""
        begin = 0
        for weight, bias, scale in self._parts:
            stored, _kept = _stored(weight, scale)
            end = begin + round_up(stored.rows, LANES)
            to = Linear(outputs=end - begin, inputs=self._inputs, weight=panels[begin // LANES :].ctypes.data)
            if "scale" in self.others:
                to.scale, to.offset = (self.others[kind][begin:].ctypes.data for kind in ("scale", "offset"))
            call = Packing(threads=thread_count(), type=TYPES[self._format], stored=stored, to=to)
            if self._beside is not None:
                call.bounds, call.exact = self.others["bounds"].ctypes.data, TYPES[self._beside]
            required().specmt_pack(call)
            if bias is not None:
                self.others["bias"][begin : begin + len(bias)] = floats(_read(bias)) * np.float32(scale)
            begin = end
        if self._beside is not None and "bias" in self.others:
            self.others["bounds"][2] = np.abs(self.others["bias"]).max()


def _products(name: str, table: Given, rows: Rows, scale: float = 1.0) -> Part:
    """Returns the products (V, N) of a table (V, D), times a scale, and rows (N, D), a multiple of 16 of them."""

    def fill(array: Array) -> None:
        parts = [*pack("rows", "float32", rows)]
        packed = {part.name: zeros(part.shape, part.dtype) for part in parts}
        for part in parts:
            part.fill(packed[part.name])
        stored, _kept = _stored(table, scale)
        linear = linear_of(packed, "rows", "float32")
        call = Products(threads=thread_count(), table=stored, linear=linear, products=array.ctypes.data)
        required().specmt_products(call)

    return Part(name, (len(table), len(rows.weight)), FLOAT32, fill)


def _table(name: str, table: Given) -> Part:
    """Returns embeddings (V, D) as they are kept, beside their packed copy that is the projection.

    They stay in the format that they are stored in.
    """
    dtype = FLOAT32 if isinstance(table, Rounded) or table.dtype not in TABLE_TYPES else table.dtype

    def fill(array: Array) -> None:
        weight = _read(table)
        if not isinstance(weight, Rounded) and weight.dtype == dtype:
            array[:] = weight
            return
        for begin in range(0, len(array), AT_ONCE):
            rows = slice(begin, begin + AT_ONCE)
            array[rows] = floats(weight, rows)

    return Part(name, table.shape, dtype, fill)


def _vector(name: str, vector: Given) -> Part:
    return Part(name, vector.shape, FLOAT32, lambda array: np.copyto(array, floats(_read(vector))))


def _output(weights: Mapping[str, Given], tables: Tables) -> Rows:
    return Rows(weights[tables.output], None if tables.bias is None else weights[tables.bias])


def _columns(weight: Given, columns: slice) -> Given:
    if isinstance(weight, Rounded):
        return Rounded(weight.values[:, columns], weight.scale)
    if isinstance(weight, Outline):
        rows, width = weight.shape
        return Outline((rows, len(range(width)[columns])), weight.dtype)
    return weight[:, columns]


def _transposed(weight: Given) -> Given:
    return Outline(weight.shape[::-1], weight.dtype) if isinstance(weight, Outline) else floats(weight).T


def _stored(weight: Given, factor: float) -> tuple[Stored, object]:
    """Returns a matrix as the kernels read it, and what must live as long."""
    weight = _read(weight)
    scales = np.ascontiguousarray(weight.scale) if isinstance(weight, Rounded) else None
    values = weight.values if isinstance(weight, Rounded) else weight
    if values.dtype == np.float64:
        values = floats(values)
    if values.strides[1] != values.itemsize:
        values = np.ascontiguousarray(values)
    stored = Stored(
        values=values.ctypes.data,
        scales=None if scales is None else scales.ctypes.data,
        stride=values.strides[0] // values.itemsize,
        type=type_of(values),
        rows=len(values),
        inputs=values.shape[1],
        factor=factor,
    )
    return stored, (values, scales)


def _read(weight: Given) -> Weight:
    if isinstance(weight, Outline):
        raise TypeError("An outline has nothing to be packed.")
    return weight


def _stack(weights: Mapping[str, Given], name: str, layers: int, sizes: Sizes, format: str) -> Parts:
    for number in range(layers):
        yield from _layer(weights, f"{name}.layers.{number}", sizes.heads, format)
    if sizes.architecture.norm == "pre":
        yield from _norm(weights, f"{name}.layer_norm", f"{name}.norm")


def _layer(weights: Mapping[str, Given], name: str, heads: int, format: str) -> Parts:
    def rows(of: str, scale: float = 1.0) -> Rows:
        return Rows(weights[f"{name}.{of}.weight"], weights[f"{name}.{of}.bias"], scale)

    def linear(own: str, packed: str) -> Parts:
        return pack(f"{name}.{packed}", format, rows(own))

    def projections(attention: str, parts: str, packed: str) -> Parts:
        width = len(weights[f"{name}.{attention}.q_proj.weight"])
        scales = {"q": query_scale(width, heads)}
        each = (rows(f"{attention}.{part}_proj", scales.get(part, 1.0)) for part in parts)
        return pack(f"{name}.{packed}", format, *each)

    yield from _norm(weights, f"{name}.self_attn_layer_norm", f"{name}.attention_norm")
    if f"{name}.ssru.input_proj.weight" in weights:
        inputs = Rows(weights[f"{name}.ssru.input_proj.weight"])
        yield from pack(f"{name}.ssru", format, rows("ssru.forget_proj"), inputs)
    else:
        yield from projections("self_attn", "qkv", "qkv")
        yield from linear("self_attn.output_proj", "attention_out")
    cross = "encoder_decoder_attn"
    if f"{name}.{cross}.q_proj.weight" in weights:
        yield from _norm(weights, f"{name}.{cross}_layer_norm", f"{name}.cross_norm")
        yield from projections(cross, "q", "cross_query")
        yield from projections(cross, "kv", "cross_key_value")
        yield from linear(f"{cross}.output_proj", "cross_out")
    yield from _norm(weights, f"{name}.ffn_layer_norm", f"{name}.ffn_norm")
    yield from linear("ffn.inner_proj", "ffn_in")
    yield from linear("ffn.output_proj", "ffn_out")


def _norm(weights: Mapping[str, Given], name: str, packed: str) -> Parts:
    for kind in KINDS:
        yield _vector(f"{packed}.{kind}", weights[f"{name}.{kind}"])
