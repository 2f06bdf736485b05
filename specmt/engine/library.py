"""The C++ kernels as a library: its structures, and how it is found."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from specmt.engine.backend import Sizes
from specmt.errors import UsageError

LANES: Final = 16
HEAD_DIMS: Final = (16, 32, 48, 64, 96, 128)
REVISION: Final = 14
"""The same number as in csrc/structures.h."""
TYPES: Final = {torch.float32: 0, torch.bfloat16: 1, torch.int8: 2, torch.float16: 3}
"""The numbers of types; float16 is for tables alone."""

ACTIVATIONS: Final = {"relu": 0, "swish": 1, "gelu": 2}
TOGETHER: Final = {torch.float32: 1, torch.bfloat16: 2, torch.int8: 4}
"""How many inputs of an output stand side by side."""

CHOICE: Final = "SPECMT_KERNELS"
"""The environment variable that says which variant is to compute, or `none` for PyTorch alone. For tests of other
builds it can be the path of one, too, and `path:variant`."""

OWN_BFLOAT16: Final = ("avx512-bf16", "amx")
"""Variants whose instructions round sums of products of bfloat16 in their own way. All others widen them to float32 and
give the same bits; so do all variants in float32 and int8."""

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
        ("beta", _int32),
        ("tolerance", ctypes.c_float),
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
    )


ALL, LAST, SLOTS = range(3)
"""Whose logits a step is asked for."""

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
    "likeliest": (_pointer, _int64, _int, _int, _int, _int64, _int, _pointer, _pointer),
    "align": (_network, ctypes.POINTER(Alignment)),
    "beam": (ctypes.POINTER(Beam),),
}
"""What functions that can fail are given."""


_STRUCTURES: Final = (Network, Layer, Shortlist, Step, Encoding, Crossing, Draft, Expansion, Run, Alignment, Beam)


class Kernels(SimpleNamespace):
    """The functions of one variant."""

    def __init__(self, library: ctypes.CDLL, variant: str) -> None:
        super().__init__()
        self.variant = variant
        """The family of instructions that it is compiled for."""
        prefix = f"specmt_{variant.replace('-', '_')}"
        for name, arguments in _CALLS.items():
            function = getattr(library, f"{prefix}_{name}")
            function.argtypes, function.errcheck = arguments, _check
            setattr(self, f"specmt_{name}", function)
        self.specmt_fail_allocation = getattr(library, f"{prefix}_fail_allocation")
        self.specmt_fail_allocation.argtypes, self.specmt_fail_allocation.restype = (_int64,), _int64


class _Found(NamedTuple):
    library: ctypes.CDLL | None
    variants: tuple[str, ...] = ()
    reason: str = ""
    """Why there are none."""


def variants() -> tuple[str, ...]:
    """Returns the variants that this machine runs, the fastest first, whatever the environment asks for."""
    return _load(_built()).variants


def kernels() -> Kernels | None:
    """Returns the kernels; ``None`` where there are none (`why_absent`).

    :raises UsageError: the environment asks for some that this machine cannot run.
    """
    return _choose(os.environ.get(CHOICE, ""))[0]


def why_absent() -> str:
    """Returns why there are no kernels, to stand behind "because"; empty where there are."""
    return _choose(os.environ.get(CHOICE, ""))[1]


def variant() -> str:
    """Returns the variant of the kernels that computes, or `none`."""
    found = kernels()
    return "none" if found is None else found.variant


def numerics(dtype: torch.dtype) -> str:
    """Returns the name of what the kernels compute in a type: bits differ from one to another, and not within one."""
    family = "kernels"
    if dtype == torch.bfloat16 and variant() in OWN_BFLOAT16:
        family += f"-{variant().replace('-', '')}"
    return f"{family}-{str(dtype).removeprefix('torch.')}"


@functools.cache
def _choose(choice: str) -> tuple[Kernels | None, str]:
    """Returns the kernels that are asked for, or why there are none."""
    if choice == "none":
        return None, f"the environment says {CHOICE}=none"
    path, _, wanted = choice.partition(":") if os.sep in choice else (_built(), "", choice)
    library, found, reason = _load(path)
    if wanted and wanted not in found:
        possible, because = ", ".join((*found, "none")), f", because {reason}" if reason else ""
        raise UsageError(f"`{CHOICE}` must be one of {possible} on this machine, but is {wanted!r} instead{because}.")
    return (None if library is None else Kernels(library, wanted or found[0])), reason


@functools.cache
def _load(path: str | None) -> _Found:
    if path is None:
        reason = "they were not built, which takes a C++20 compiler such as GCC 11 when specmt is installed"
        return _Found(None, reason=reason)
    try:
        library = ctypes.CDLL(path)
        if not library.specmt_matches(REVISION, ctypes.c_size_t(sum(map(ctypes.sizeof, _STRUCTURES)))):
            return _Found(None, reason="they were built for another version; install again")
        library.specmt_variants.restype = library.specmt_needed.restype = ctypes.c_char_p
        found = tuple(library.specmt_variants().decode().split())
        if not found:
            return _Found(None, reason=f"the processor lacks {library.specmt_needed().decode()}")
        return _Found(library, found)
    except (OSError, AttributeError) as error:
        return _Found(None, reason=f"they cannot be loaded: {error}")


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
