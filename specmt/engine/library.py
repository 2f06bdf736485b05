"""The C++ kernels as a library: its structures, and how it is found."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from specmt.engine.backend import Sizes

LANES: Final = 16
HEAD_DIMS: Final = (16, 32, 48, 64, 96, 128)
REVISION: Final = 13
"""The same number as in csrc/structures.h."""
TYPES: Final = {torch.float32: 0, torch.bfloat16: 1, torch.int8: 2, torch.float16: 3}
"""The numbers of types; float16 is for tables alone."""

ACTIVATIONS: Final = {"relu": 0, "swish": 1, "gelu": 2}
TOGETHER: Final = {torch.float32: 1, torch.bfloat16: 2, torch.int8: 4}
"""How many inputs of an output stand side by side."""

CHOICE: Final = "SPECMT_KERNELS"
"""The environment variable that says `none` for PyTorch alone, or which other build to load."""

# The structures of csrc/structures.h, field by field.
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
        ("scale", ctypes.c_double),
        ("shift", ctypes.c_double),
        ("floor", ctypes.c_double),
        ("drafted", _pointer),
        ("accepted", _pointer),
    )


ALL, LAST, SLOTS = range(3)
"""Whose logits a step is asked for."""

REASONS: Final = {
    1: "they were built for another version; install again",
    2: "the processor lacks AVX-512",
    3: "the processor lacks bfloat16 instructions (AVX512_BF16)",
    4: "the processor lacks int8 instructions (AVX512_VNNI)",
}
"""Why a processor does not run them, by what `specmt_support` returns."""

_network, _lists, _int = ctypes.POINTER(Network), ctypes.POINTER(Shortlist), ctypes.c_int
_CALLS: Final[dict[str, tuple[Any, ...]]] = {
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
}
"""What functions that can fail are given."""


_STRUCTURES: Final = (Network, Layer, Shortlist, Step, Encoding, Crossing, Draft, Expansion, Run)


class _Found(NamedTuple):
    library: ctypes.CDLL | None
    reason: str = ""
    tiles: bool = False
    """Whether the processor multiplies tiles (AMX), which gives other bits in bfloat16."""


def kernels() -> ctypes.CDLL | None:
    """Returns the kernels; ``None`` where there are none (`why_absent`)."""
    return _find(os.environ.get(CHOICE, "")).library


def why_absent() -> str:
    """Returns why there are no kernels, to stand behind "because"; empty where there are."""
    return _find(os.environ.get(CHOICE, "")).reason


def numerics() -> str:
    """Returns the name of the kernel family: bits differ from one to another."""
    return "kernels-amx" if _find(os.environ.get(CHOICE, "")).tiles else "kernels-avx512bf16"


@functools.cache
def _find(choice: str) -> _Found:
    if choice == "none":
        return _Found(None, f"the environment says {CHOICE}=none")
    path = choice or _built()
    if path is None:
        return _Found(None, "they were not built, which takes a C++20 compiler such as GCC 11 when specmt is installed")
    try:
        library = ctypes.CDLL(path)
        reason = library.specmt_support(REVISION, ctypes.c_size_t(sum(map(ctypes.sizeof, _STRUCTURES))))
    except (OSError, AttributeError) as error:
        return _Found(None, f"they cannot be loaded: {error}")
    if reason:
        return _Found(None, REASONS[reason])
    for name, arguments in _CALLS.items():
        function = getattr(library, f"specmt_{name}")
        function.argtypes, function.errcheck = arguments, _check
    library.specmt_fail_allocation.argtypes, library.specmt_fail_allocation.restype = (_int64,), _int64
    return _Found(library, tiles=bool(library.specmt_tiles(1)))


def _built() -> str | None:
    """Returns the path of the library, if it was built."""
    spec = importlib.util.find_spec("specmt.engine.kernels")
    return spec.origin if spec is not None and spec.origin is not None and spec.origin.endswith(".so") else None


def _check(code: int, function: object, arguments: object) -> int:
    """Raises what a call came back with."""
    if code == -1:
        raise MemoryError("There is not enough memory for the kernels.")
    if code < 0:
        raise RuntimeError("The kernels failed; this should not happen.")
    return code


def can_run(table: Tensor, sizes: Sizes, ffn: int, device: torch.device, dtype: torch.dtype) -> bool:
    """Returns whether the kernels are there and made for a network with an embedding table (V, D)."""
    width = table.shape[1]
    fits = width % LANES == 0 and ffn % LANES == 0 and width // sizes.heads in HEAD_DIMS
    return fits and device.type == "cpu" and dtype in TOGETHER and kernels() is not None


def cache_view(data: Tensor) -> Cache:
    layer, value, row, head, _, _ = data.stride()
    return Cache(data.data_ptr(), layer, value, row, head)
