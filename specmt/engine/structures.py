"""The structures of csrc/structures.h, field by field, and the functions that are given them."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import torch
from torch import Tensor

LANES: Final = 16
HEAD_DIMS: Final = (16, 32, 48, 64, 96, 128)
REVISION: Final = 17
"""The same number as in csrc/structures.h."""
CODES: Final[torch.dtype] = torch.uint4  # type: ignore[attr-defined]
"""The type of weights that are codes of levels, for which PyTorch has no more than the name."""

TYPES: Final = {torch.float32: 0, torch.bfloat16: 1, torch.int8: 2, torch.float16: 3, CODES: 4}
"""The numbers of types; float16 is for tables alone, codes are for drafters."""

ACTIVATIONS: Final = {"relu": 0, "swish": 1, "gelu": 2}
TOGETHER: Final = {torch.float32: 1, torch.bfloat16: 2, torch.int8: 4, CODES: 8}
"""How many inputs of an output stand side by side."""

LEVELS: Final = (-127, -96, -75, -58, -44, -31, -18, -6, 6, 18, 31, 44, 58, 75, 96, 127)
"""What codes stand for, as in csrc/structures.h."""

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


class Filter(ctypes.Structure):
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
        ("filter", Filter),
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
        ("wanted", _int32),
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
        ("filter", _int32),
    )


class Encoding(ctypes.Structure):
    _fields_ = (
        ("threads", _int32),
        ("rows", _int32),
        ("sentences", _int32),
        ("tokens", _pointer),
        ("starts", _pointer),
        ("states", _pointer),
    )


class Crossing(ctypes.Structure):
    _fields_ = (
        ("threads", _int32),
        ("rows", _int32),
        ("sentences", _int32),
        ("states", _pointer),
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
        ("nodes", _int32),
        ("breadth", _int32),
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
        ("log_probs", _pointer),
        ("log_stride", _int64),
        ("lengths", _pointer),
        ("limits", _pointer),
        ("seen", _pointer),
        ("hints", _pointer),
        ("hint_lengths", _pointer),
        ("hint_stride", _int64),
        ("recalled", _int32),
        ("scale", ctypes.c_double),
        ("shift", ctypes.c_double),
        ("floor", ctypes.c_double),
        ("margin", ctypes.c_double),
        ("drafted", _pointer),
        ("accepted", _pointer),
        ("beta", _int32),
        ("tolerance", ctypes.c_float),
        ("stage", _pointer),
    )


class Alignment(ctypes.Structure):
    _fields_ = (
        ("threads", _int32),
        ("sentences", _int32),
        ("layer", _int32),
        ("tokens", _pointer),
        ("starts", _pointer),
        ("places", _pointer),
        ("sources", _pointer),
        ("cross", Cache),
        ("heads", _pointer),
        ("stride", _int64),
        ("weights", _pointer),
    )


class Beam(ctypes.Structure):
    _fields_ = (
        ("threads", _int32),
        ("sentences", _int32),
        ("width", _int32),
        ("iterations", _int32),
        ("enough", _int32),
        ("room", _int64),
        ("end", _int64),
        ("never", _int64),
        ("network", ctypes.POINTER(Network)),
        ("self", Cache),
        ("cross", Cache),
        ("sources", _pointer),
        ("stride", _int64),
        ("tokens", _pointer),
        ("slots", _pointer),
        ("scores", _pointer),
        ("counts", _pointer),
        ("lengths", _pointer),
        ("limits", _pointer),
        ("extents", _pointer),
        ("found_tokens", _pointer),
        ("found_lengths", _pointer),
        ("found_scores", _pointer),
        ("found", _pointer),
        ("calls", _pointer),
        ("drafted", _pointer),
        ("accepted", _pointer),
        ("reads", _pointer),
        ("ahead", _int32),
        ("drafter", ctypes.POINTER(Network)),
        ("draft_self", Cache),
        ("draft_cross", Cache),
        ("draft_sources", _pointer),
        ("draft_shortlists", ctypes.POINTER(Shortlist)),
    )


ALL, LAST, SLOTS = range(3)
"""Whose logits a step is asked for."""

_network, _lists, _int = ctypes.POINTER(Network), ctypes.POINTER(Shortlist), ctypes.c_int
CALLS: Final[dict[str, tuple[Any, ...]]] = {
    "shorten": (_network, _lists, _int, _int),
    "step": (_network, ctypes.POINTER(Step)),
    "ahead": (_network, ctypes.POINTER(Step), _int, _int64, _pointer, _pointer),
    "encode": (_network, ctypes.POINTER(Encoding)),
    "cross": (_network, ctypes.POINTER(Crossing)),
    "candidates": (_pointer, _int64, _int, _int, _int, _pointer, _pointer),
    "log_probs": (_pointer, _int64, _int, _int, _int, _pointer, _pointer),
    "draft": (ctypes.POINTER(Draft),),
    "expand": (ctypes.POINTER(Draft), ctypes.POINTER(Expansion)),
    "run": (ctypes.POINTER(Run),),
    "likeliest": (_pointer, _int64, _int, _int, _int, _int64, _int, _pointer, _pointer),
    "align": (_network, ctypes.POINTER(Alignment)),
    "beam": (ctypes.POINTER(Beam),),
}
"""What functions that can fail are given."""

STRUCTURES: Final = (Network, Layer, Shortlist, Step, Encoding, Crossing, Draft, Expansion, Run, Alignment, Beam)


def cache_view(data: Tensor) -> Cache:
    layer, value, row, head, _, _ = data.stride()
    return Cache(data.data_ptr(), layer, value, row, head)
