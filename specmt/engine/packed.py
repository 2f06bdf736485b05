"""Weights as the C++ kernels want them: every tensor that a network on them reads, by name.

What is here follows from weights, sizes and type alone, so that it can be made once and kept (specmt.engine.mapped).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from specmt.engine.backend import Sizes
from specmt.engine.embedding import embedding_scale
from specmt.engine.structures import CODES, LANES, LEVELS, TOGETHER
from specmt.engine.transformer import Tables, Weights, drafter_tables, query_scale, verifier_tables

LAYOUT: Final = 1
"""To be raised with every change of what is packed, so that nothing is read that was kept before it."""

AT_ONCE: Final = 4096
"""How many outputs are packed at once: the weights of a large vocabulary in float32 would not fit often in memory."""

LARGEST: Final = 2.733
"""The outermost level, where the mean square of what is quantised is 1 (Max 1960, table I)."""

TABLE_TYPES: Final = (torch.float32, torch.bfloat16, torch.float16)
KINDS: Final = ("weight", "bias")

Parts = Iterator[tuple[str, Tensor]]
"""Tensors by name, made one after the other; of weights on PyTorch's device `meta` their shapes and types alone."""


class Rows(NamedTuple):
    """Outputs of a linear layer."""

    weight: Tensor
    """(N_out, N_in)"""

    bias: Tensor | None = None
    """(N_out)"""

    scale: float = 1.0
    """What both are multiplied by."""


def pack_verifier(weights: Weights, sizes: Sizes, dtype: torch.dtype) -> Parts:
    """Yields what a verifier reads."""
    tables = verifier_tables(weights)
    yield from pack_decoder(weights, tables, sizes, dtype)
    if dtype != torch.int8:
        yield from _filter(tables, dtype)
    if tables.source is not tables.target:
        yield "encoder.table", keep_table(tables.source)
    yield from _stack(weights, "encoder", sizes.encoder_layers, sizes, dtype)


def pack_replica(weights: Weights, sizes: Sizes, dtype: torch.dtype) -> Parts:
    """Yields what a replica of a verifier reads, whose keys and values of the source are the verifier's."""
    for name, tensor in pack_decoder(weights, verifier_tables(weights), sizes, dtype):
        if ".cross_key_value." not in name:
            yield name, tensor


def pack_autoregressive(weights: Weights, sizes: Sizes, dtype: torch.dtype) -> Parts:
    """Yields what an autoregressive drafter reads."""
    yield from pack_decoder(weights, drafter_tables(weights), sizes, dtype)


def pack_masked(weights: Weights, sizes: Sizes, dtype: torch.dtype) -> Parts:
    """Yields what a masked drafter reads."""
    tables = drafter_tables(weights)
    yield from pack_decoder(weights, tables, sizes, dtype)
    yield "decoder.mask", _copy(weights["mask_embedding"])
    width = tables.target.shape[1]
    gates, shift = (weights[f"correction.gates.{kind}"].float() for kind in KINDS)
    known, embedded, carried = torch.tensor_split(gates, (width, 2 * width), dim=1)
    yield from pack("known", torch.float32, Rows(known))
    yield from pack("carried", torch.float32, Rows(carried))
    scale = embedding_scale(width, sizes.architecture)
    # What a token contributes to the gates: (V, 2 R)
    yield "embedded", _of_rows(tables.target, embedded.T, scale=scale, shift=shift)
    # What a state adds to the logit of a token: (V, R)
    yield "corrected", _of_rows(tables.target, weights["correction.output.weight"].float())


def pack_decoder(weights: Weights, tables: Tables, sizes: Sizes, dtype: torch.dtype) -> Parts:
    """Yields what a decoder reads, its projection to the vocabulary included."""
    yield "decoder.table", keep_table(tables.target)
    yield from pack("project", dtype, Rows(tables.output, tables.bias))
    yield from _stack(weights, "decoder", sizes.decoder_layers, sizes, dtype)


def pack(name: str, dtype: torch.dtype, *parts: Rows) -> Parts:
    """Yields a linear layer, its parts one below the other, in panels of 16 outputs.

    Within a panel the inputs stand one after the other, in bfloat16 by two, in int8 by four, in codes by eight: units
    of four bytes.

    :param parts: all but the last with a multiple of 16 outputs
    """
    device, inputs = parts[0].weight.device, parts[0].weight.shape[1]
    outputs = sum(len(part.weight) for part in parts)
    outputs, units = outputs + -outputs % LANES, inputs // TOGETHER[dtype]
    panels = torch.empty(outputs // LANES, units, LANES, dtype=torch.int32, device=device)
    biases = torch.zeros(outputs, device=device)
    scales = torch.empty(outputs, device=device)
    offsets = torch.empty(outputs, dtype=torch.int32, device=device)
    end = 0
    for weight, bias in () if panels.is_meta else _in_order(parts):
        padded = pad(weight, (0, 0, 0, -len(weight) % LANES)) if len(weight) % LANES else weight
        begin, end = end, end + len(padded)
        if bias is not None:
            biases[begin : begin + len(bias)] = bias
        if dtype == torch.int8:
            scales[begin:end] = padded.abs().amax(1).clamp(min=1e-30) / 127
            padded = (padded / scales[begin:end, None]).round()
            offsets[begin:end] = (128 * padded.sum(1)).int()
        elif dtype == CODES:
            scales[begin:end] = padded.square().mean(1).sqrt().clamp(min=1e-30) * (LARGEST / max(LEVELS))
            padded, sums = _codes(padded / scales[begin:end, None])
            offsets[begin:end] = (128 * sums).int()
        tiles = padded if dtype == CODES else padded.to(dtype)
        panels[begin // LANES : end // LANES] = tiles.view(torch.int32).view(-1, LANES, units).transpose(1, 2)
    yield f"{name}.weight", panels
    if parts[0].bias is not None:
        yield f"{name}.bias", biases
    if dtype in (torch.int8, CODES):
        yield f"{name}.scale", scales
        yield f"{name}.offset", offsets


def _codes(values: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the codes of the levels nearest to values (N, I), two in a byte (N, I / 2), and the levels' sums (N)."""
    # Levels are whole numbers, so that halves are what lies between them: numbers up to the same half have one code.
    most = 2 * max(LEVELS)
    halves = (values * 2).ceil_().clamp_(-most, most).add_(most).short().numpy()
    levels = np.array(LEVELS, dtype=np.float32)
    codes = np.searchsorted((levels[:-1] + levels[1:]) / 2, np.arange(-most, most + 1) / 2)
    sums = torch.from_numpy(levels[codes].take(halves)).sum(1)
    first, second = torch.from_numpy(codes.astype(np.uint8).take(halves)).view(len(values), -1, 2, 4).unbind(2)
    return (first | second << 4).flatten(1), sums


def _in_order(parts: Sequence[Rows]) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Yields weights and biases in float32, a few rows at a time."""
    for weight, bias, scale in parts:
        for begin in range(0, len(weight), AT_ONCE):
            rows = slice(begin, begin + AT_ONCE)
            yield _scaled(weight[rows], scale), None if bias is None else _scaled(bias[rows], scale)


def _scaled(tensor: Tensor, scale: float) -> Tensor:
    # In float32 before it is scaled: what is stored may have fewer bits.
    return tensor.float() if scale == 1.0 else tensor.float() * scale


def _filter(tables: Tables, dtype: torch.dtype) -> Parts:
    """Yields the projection in int8, and how far off its largest error, norm and bias let an output be.

    Outputs that cannot be the largest, however far off they are, need not be computed in the type that counts.

    :param dtype: that of the layer that counts
    """
    weight, bias = tables.output, tables.bias
    packed = dict(pack("filter", torch.int8, Rows(weight, bias)))
    yield from packed.items()
    error = norm = 0.0
    for begin in () if weight.is_meta else range(0, len(weight), AT_ONCE):
        part = weight[begin : begin + AT_ONCE].float()
        scale = packed["filter.scale"][begin : begin + len(part), None]
        rough = ((part / scale).round() * scale).double()
        norm = max(norm, float(rough.norm(dim=1).max()))
        error = max(error, float((part.to(dtype).double() - rough).norm(dim=1).max()))
    largest = 0.0 if bias is None or bias.is_meta else float(bias.abs().max())
    yield "filter.bounds", torch.tensor([error, norm, largest])


def keep_table(table: Tensor) -> Tensor:
    """Returns embeddings (V, D) as they are kept, beside their packed copy that is the projection.

    They stay in the type that they are stored in.
    """
    return _copy(table, table.dtype if table.dtype in TABLE_TYPES else torch.float32)


def _copy(tensor: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    # Even where it is as it should be: what a file was mapped to changes with it.
    return tensor.to(dtype, copy=True, memory_format=torch.contiguous_format)


def _of_rows(table: Tensor, weight: Tensor, *, scale: float = 1.0, shift: Tensor | float = 0.0) -> Tensor:
    """Returns the product (V, N) of a table (V, D), little of which is in float32 at a time, and a matrix (D, N)."""
    product = torch.empty(len(table), weight.shape[1], device=table.device)
    for begin in () if table.is_meta else range(0, len(table), AT_ONCE):
        product[begin : begin + AT_ONCE] = table[begin : begin + AT_ONCE].float() * scale @ weight + shift
    return product


def _stack(weights: Weights, name: str, layers: int, sizes: Sizes, dtype: torch.dtype) -> Parts:
    for number in range(layers):
        yield from _layer(weights, f"{name}.layers.{number}", sizes.heads, dtype)
    if sizes.architecture.norm == "pre":
        yield from _norm(weights, f"{name}.layer_norm", f"{name}.norm")


def _layer(weights: Weights, name: str, heads: int, dtype: torch.dtype) -> Parts:
    def rows(of: str, scale: float = 1.0) -> Rows:
        return Rows(weights[f"{name}.{of}.weight"], weights[f"{name}.{of}.bias"], scale)

    def linear(own: str, packed: str) -> Parts:
        return pack(f"{name}.{packed}", dtype, rows(own))

    def projections(attention: str, parts: str, packed: str) -> Parts:
        width = len(weights[f"{name}.{attention}.q_proj.weight"])
        scales = {"q": query_scale(width, heads)}
        each = (rows(f"{attention}.{part}_proj", scales.get(part, 1.0)) for part in parts)
        return pack(f"{name}.{packed}", dtype, *each)

    yield from _norm(weights, f"{name}.self_attn_layer_norm", f"{name}.attention_norm")
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


def _norm(weights: Weights, name: str, packed: str) -> Parts:
    for kind in KINDS:
        yield f"{packed}.{kind}", _copy(weights[f"{name}.{kind}"])
