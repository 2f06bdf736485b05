"""The C++ kernels as a library: its structures, how it is found, and how weights are packed for it."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from ctypes import Array
from typing import Final

import torch
from torch import Tensor
from torch.nn.functional import pad

from specmt.engine.backend import Sizes
from specmt.engine.transformer import Weights, embedding_scale, scale_queries, sinusoids

LANES: Final = 16
HEAD_DIMS: Final = (16, 32, 48, 64, 96, 128)
REVISION: Final = 12
"""The same number as in kernels.cpp."""
TYPES: Final = {torch.float32: 0, torch.bfloat16: 1, torch.int8: 2, torch.float16: 3}
"""The numbers of types; float16 is for tables alone."""

ACTIVATIONS: Final = {"relu": 0, "swish": 1, "gelu": 2}
TOGETHER: Final = {torch.float32: 1, torch.bfloat16: 2, torch.int8: 4}
"""How many inputs of an output stand side by side."""

AT_ONCE: Final = 4096
"""How many outputs are packed at once: the weights of a large vocabulary in float32 would not fit often in memory."""

TABLE_TYPES: Final = (torch.float32, torch.bfloat16, torch.float16)
KINDS: Final = ("weight", "bias")

# The structures of kernels.cpp, field by field.
_pointer, _int32, _int64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64


class Linear(ctypes.Structure):
    _fields_ = (
        ("weight", _pointer),
        ("bias", _pointer),
        ("scale", _pointer),
        ("offset", _pointer),
        ("outputs", _int32),
        ("inputs", _int32),
    )


class Norm(ctypes.Structure):
    _fields_ = (("weight", _pointer), ("bias", _pointer))


class Layer(ctypes.Structure):
    _fields_ = (
        ("attention_norm", Norm),
        ("qkv", Linear),
        ("attention_out", Linear),
        ("cross_norm", Norm),
        ("cross_query", Linear),
        ("cross_key_value", Linear),
        ("cross_out", Linear),
        ("ffn_norm", Norm),
        ("ffn_in", Linear),
        ("ffn_out", Linear),
    )


class Screen(ctypes.Structure):
    _fields_ = (("project", Linear), ("error", ctypes.c_float), ("norm", ctypes.c_float), ("bias", ctypes.c_float))


class Network(ctypes.Structure):
    _fields_ = (
        ("type", _int32),
        ("layers", _int32),
        ("width", _int32),
        ("heads", _int32),
        ("ffn", _int32),
        ("places", _int32),
        ("vocab", _int32),
        ("activation", _int32),
        ("post", _int32),
        ("table_type", _int32),
        ("scale", ctypes.c_float),
        ("table", _pointer),
        ("mask", _pointer),
        ("positions", _pointer),
        ("layer", ctypes.POINTER(Layer)),
        ("norm", Norm),
        ("project", Linear),
        ("screen", Screen),
    )


class Shortlist(ctypes.Structure):
    _fields_ = (("project", Linear), ("ids", _pointer), ("count", _int32))


class Cache(ctypes.Structure):
    _fields_ = (("data", _pointer), ("layer", _int64), ("value", _int64), ("row", _int64), ("head", _int64))


class Step(ctypes.Structure):
    _fields_ = (
        ("threads", _int32),
        ("sentences", _int32),
        ("width", _int32),
        ("slots", _int32),
        ("rows", _pointer),
        ("tokens", _pointer),
        ("starts", _pointer),
        ("counts", _pointer),
        ("sources", _pointer),
        ("depths", _pointer),
        ("paths", _pointer),
        ("longest", _int32),
        ("first", _int32),
        ("self", Cache),
        ("cross", Cache),
        ("shortlists", ctypes.POINTER(Shortlist)),
        ("compact", _int32),
        ("stride", _int64),
        ("logits", _pointer),
        ("hidden", _pointer),
        ("best", _pointer),
    )


class Encoding(ctypes.Structure):
    _fields_ = (
        ("threads", _int32),
        ("rows", _int32),
        ("sentences", _int32),
        ("tokens", _pointer),
        ("starts", _pointer),
        ("memory", _pointer),
    )


class Crossing(ctypes.Structure):
    _fields_ = (
        ("threads", _int32),
        ("rows", _int32),
        ("sentences", _int32),
        ("memory", _pointer),
        ("starts", _pointer),
        ("places", _pointer),
        ("cross", Cache),
    )


class Draft(ctypes.Structure):
    _fields_ = (
        ("threads", _int32),
        ("sentences", _int32),
        ("slots", _int32),
        ("vocab", _int32),
        ("width", _int32),
        ("rank", _int32),
        ("nodes", _int32),
        ("breadth", _int32),
        ("stride", _int64),
        ("logits", _pointer),
        ("hidden", _pointer),
        ("last", _pointer),
        ("embedded", _pointer),
        ("corrected", _pointer),
        ("known", Linear),
        ("carried", Linear),
        ("tokens", _pointer),
        ("log_probs", _pointer),
        ("parents", _pointer),
        ("shortlists", ctypes.POINTER(Shortlist)),
        ("rows", _pointer),
    )


class Expansion(ctypes.Structure):
    _fields_ = (
        ("slot", _int32),
        ("width", _int32),
        ("before", _pointer),
        ("states", _pointer),
        ("ids", _pointer),
        ("log_probs", _pointer),
    )


class Run(ctypes.Structure):
    _fields_ = (
        ("threads", _int32),
        ("sentences", _int32),
        ("iterations", _int32),
        ("enough", _int32),
        ("block", _int32),
        ("room", _int64),
        ("end", _int64),
        ("filler", _int64),
        ("verifier", ctypes.POINTER(Network)),
        ("drafter", ctypes.POINTER(Network)),
        ("choice", ctypes.POINTER(Draft)),
        ("self", Cache),
        ("cross", Cache),
        ("draft_self", Cache),
        ("draft_cross", Cache),
        ("shortlists", ctypes.POINTER(Shortlist)),
        ("draft_shortlists", ctypes.POINTER(Shortlist)),
        ("sources", _pointer),
        ("draft_sources", _pointer),
        ("tokens", _pointer),
        ("stride", _int64),
        ("lengths", _pointer),
        ("limits", _pointer),
        ("seen", _pointer),
        ("calls", _pointer),
        ("drafted", _pointer),
        ("accepted", _pointer),
        ("seconds", _pointer),
        ("scale", ctypes.c_double),
        ("shift", ctypes.c_double),
        ("windows", _pointer),
        ("gained", _pointer),
    )


@functools.cache
def kernels() -> ctypes.CDLL | None:
    """Returns the kernels, or ``None`` where they were not built or the processor cannot run them."""
    spec = importlib.util.find_spec("specmt.engine.kernels")
    if spec is None or spec.origin is None or not spec.origin.endswith(".so"):
        return None
    library = ctypes.CDLL(spec.origin)
    if not library.specmt_supported(REVISION):
        return None
    library.specmt_tiles(1)
    return library


def can_run(table: Tensor, sizes: Sizes, ffn: int, device: torch.device, dtype: torch.dtype) -> bool:
    """Returns whether the kernels are there and made for a network with an embedding table (V, D)."""
    width = table.shape[1]
    fits = width % LANES == 0 and ffn % LANES == 0 and width // sizes.heads in HEAD_DIMS
    return fits and device.type == "cpu" and dtype in TOGETHER and kernels() is not None


def pack(weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> tuple[Linear, dict[str, Tensor]]:
    """Returns a linear layer (N_out, N_in) in panels of 16 outputs, and what must be kept for as long as it is used.

    Within a panel the inputs stand one after the other, in bfloat16 by two, in int8 by four.
    """
    outputs, inputs = weight.shape
    padding = -outputs % LANES
    together = TOGETHER[dtype]
    tensors = {"weight": torch.empty((outputs + padding) // LANES, inputs // together, LANES, together, dtype=dtype)}
    if bias is not None:
        tensors["bias"] = pad(bias.float(), (0, padding)).contiguous()
    if dtype == torch.int8:
        tensors |= {
            "scale": torch.empty(outputs + padding),
            "offset": torch.empty(outputs + padding, dtype=torch.int32),
        }
    for begin in range(0, outputs, AT_ONCE):
        part = weight[begin : begin + AT_ONCE].float()
        padded = pad(part, (0, 0, 0, -len(part) % LANES))
        places = slice(begin, begin + len(padded))
        if dtype == torch.int8:
            scale = padded.abs().amax(1).clamp(min=1e-30) / 127
            padded = (padded / scale[:, None]).round()
            tensors["scale"][places] = scale
            tensors["offset"][places] = (128 * padded.sum(1)).int()
        panels = slice(begin // LANES, places.stop // LANES)
        tensors["weight"][panels] = padded.view(-1, LANES, inputs // together, together).transpose(1, 2)
    pointers = {name: tensor.data_ptr() for name, tensor in tensors.items()}
    return Linear(outputs=outputs + padding, inputs=inputs, **pointers), tensors


def make_screen(weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> tuple[Screen, object]:
    """Returns a linear layer (N_out, N_in) in int8 with how far off it can be, and what must be kept for it.

    It tells which outputs cannot be the best.

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
    return Screen(project, error, norm, 0.0 if bias is None else float(bias.abs().max())), kept


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
        weights = {key: tensor.float() for key, tensor in self._weights.items() if key.startswith(f"{name}.")}
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


def cache_view(data: Tensor) -> Cache:
    layer, value, row, head, _, _ = data.stride()
    return Cache(data.data_ptr(), layer, value, row, head)
