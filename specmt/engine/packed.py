"""Weights as the C++ kernels want them."""

from __future__ import annotations

from ctypes import Array
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import pad

from specmt.engine.backend import Sizes
from specmt.engine.structures import ACTIVATIONS, LANES, TOGETHER, TYPES, Filter, Layer, Linear, Network, Norm
from specmt.engine.transformer import Weights, embedding_scale, scale_queries, sinusoids

AT_ONCE: Final = 4096
"""How many outputs are packed at once: the weights of a large vocabulary in float32 would not fit often in memory."""

TABLE_TYPES: Final = (torch.float32, torch.bfloat16, torch.float16)
KINDS: Final = ("weight", "bias")


def pack(weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> tuple[Linear, dict[str, Tensor]]:
    """Returns a linear layer (N_out, N_in) in panels of 16 outputs, and what must be kept for as long as it is used.

    Within a panel the inputs stand one after the other, in bfloat16 by two, in int8 by four: units of four bytes.
    """
    outputs, inputs = weight.shape
    padding = -outputs % LANES
    units = inputs // TOGETHER[dtype]
    tensors = {"weight": torch.empty((outputs + padding) // LANES, units, LANES, dtype=torch.int32)}
    if bias is not None:
        tensors["bias"] = pad(bias.float(), (0, padding)).contiguous()
    if dtype == torch.int8:
        tensors |= {
            "scale": torch.empty(outputs + padding),
            "offset": torch.empty(outputs + padding, dtype=torch.int32),
        }
    for begin in range(0, outputs, AT_ONCE):
        part = weight[begin : begin + AT_ONCE]
        padded = pad(part, (0, 0, 0, -len(part) % LANES))
        places = slice(begin, begin + len(padded))
        if dtype == torch.int8:
            padded = padded.float()
            scale = padded.abs().amax(1).clamp(min=1e-30) / 127
            padded = (padded / scale[:, None]).round()
            tensors["scale"][places] = scale
            tensors["offset"][places] = (128 * padded.sum(1)).int()
        panels = slice(begin // LANES, places.stop // LANES)
        tensors["weight"][panels] = padded.to(dtype).view(torch.int32).view(-1, LANES, units).transpose(1, 2)
    pointers = {name: tensor.data_ptr() for name, tensor in tensors.items()}
    return Linear(outputs=outputs + padding, inputs=inputs, **pointers), tensors


def make_filter(weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> tuple[Filter, object]:
    """Returns a linear layer (N_out, N_in) in int8 with how far off it can be, and what must be kept for it.

    Outputs that cannot be the largest, however far off they are, need not be computed in the type that counts.

    :param dtype: that of the layer that counts
    """
    project, kept = pack(weight, bias, torch.int8)
    error = norm = 0.0
    for begin in range(0, len(weight), AT_ONCE):
        part = weight[begin : begin + AT_ONCE].float()
        scale = kept["scale"][begin : begin + len(part), None]
        rough = ((part / scale).round() * scale).double()
        norm = max(norm, float(rough.norm(dim=1).max()))
        error = max(error, float((part.to(dtype).double() - rough).norm(dim=1).max()))
    return Filter(project, error, norm, 0.0 if bias is None else float(bias.abs().max())), kept


def keep_table(table: Tensor) -> Tensor:
    """Returns embeddings (V, D) as they are kept, beside their packed copy that is the projection.

    They stay in the type that they are stored in. They are copied: what a file was mapped to changes with it.
    """
    kept = table if table.dtype in TABLE_TYPES else table.float()
    return kept.clone(memory_format=torch.contiguous_format)


class Stack:
    """A stack of layers with its weights packed."""

    def __init__(
        self,
        weights: Weights,
        name: str,
        layers: int,
        *,
        sizes: Sizes,
        table: Tensor,
        mask: Tensor | None = None,
        project: Linear | None = None,
        dtype: torch.dtype,
    ) -> None:
        """
        :param table: embeddings (V, D), kept by `keep_table`
        :param mask: the embedding (D) of [MASK], which becomes id V, in drafters
        :param project: the projection to the vocabulary, of decoders; the caller keeps its weights
        """
        self._weights = weights
        self._dtype = dtype
        self._kept: list[object] = [table]  # what the structure points to
        architecture = sizes.architecture
        vocab, width = table.shape
        array = (Layer * layers)(*(self._layer(f"{name}.layers.{number}", sizes.heads) for number in range(layers)))
        self._kept.append(array)
        is_post = architecture.norm == "post"
        last = _shift_norms(array) if is_post else self._norm(f"{name}.layer_norm")
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
            mask=None if mask is None else self._pin(mask),
            positions=self._pin(sinusoids(sizes.max_length, width, architecture)),
            layer=array,
            norm=last,
            project=project or Linear(),
        )
        del self._weights  # packed by now

    def _pin(self, tensor: Tensor) -> int:
        tensor = tensor.float().contiguous()
        self._kept.append(tensor)
        return tensor.data_ptr()

    def _norm(self, name: str) -> Norm:
        return Norm(self._pin(self._weights[f"{name}.weight"]), self._pin(self._weights[f"{name}.bias"]))

    def _pack(self, weight: Tensor, bias: Tensor | None) -> Linear:
        linear, kept = pack(weight, bias, self._dtype)
        self._kept.append(kept)
        return linear

    def _linear(self, *names: str) -> Linear:
        weight, bias = (torch.cat([self._weights[f"{name}.{kind}"].float() for name in names]) for kind in KINDS)
        return self._pack(weight, bias)

    def _layer(self, name: str, heads: int) -> Layer:
        layer = Layer(
            attention_norm=self._norm(f"{name}.self_attn_layer_norm"),
            qkv=self._projections(f"{name}.self_attn", "qkv", heads),
            attention_out=self._linear(f"{name}.self_attn.output_proj"),
            ffn_norm=self._norm(f"{name}.ffn_layer_norm"),
            ffn_in=self._linear(f"{name}.ffn.inner_proj"),
            ffn_out=self._linear(f"{name}.ffn.output_proj"),
        )
        cross = f"{name}.encoder_decoder_attn"
        if f"{cross}.q_proj.weight" in self._weights:
            layer.cross_norm = self._norm(f"{cross}_layer_norm")
            layer.cross_query = self._projections(cross, "q", heads)
            layer.cross_key_value = self._projections(cross, "kv", heads)
            layer.cross_out = self._linear(f"{cross}.output_proj")
        return layer

    def _projections(self, name: str, parts: str, heads: int) -> Linear:
        # In float32 before they are scaled: what is stored may have fewer bits.
        names = [f"{name}.{part}_proj.{kind}" for part in parts for kind in KINDS]
        weights = {key: self._weights[key].float() for key in names}
        weight, bias = (scale_queries(weights, name, parts, kind, heads) for kind in KINDS)
        return self._pack(weight, bias)


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
