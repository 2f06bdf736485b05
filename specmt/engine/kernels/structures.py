"""The structures of csrc/structures.h and the calls of csrc/calls.h, as those files declare them.

A new field, call or constant is written there alone; a new structure has two lines here, behind those it has inside.
"""

from __future__ import annotations

import ctypes
import re
from typing import Any, Final

from specmt.engine.arrays import BFLOAT16, Array
from specmt.engine.kernels import header

_TEXT: Final = header.structures()
_BODIES: Final = dict(re.findall(r"(?:struct|enum) (\w+)[^{;]* {(.*?)};", _TEXT))
_CONSTANTS: Final = dict(re.findall(r"constexpr \w+ (\w+)[^=]*= {?([-\d, ]+)", _TEXT))
_SCALARS: Final[dict[str, Any]] = {
    "int": ctypes.c_int,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}


def _numbers(name: str) -> tuple[int, ...]:
    """Returns the values of a constant."""
    return tuple(map(int, _CONSTANTS[name].split(",")))


def _members(name: str) -> dict[str, int]:
    """Returns the members of an enumeration."""
    return {member.lower(): int(value) for member, value in re.findall(r"(\w+) = (\d+)", _BODIES[name])}


def _type(name: str, is_pointer: bool) -> Any:
    """Returns a type: addresses of numbers, and of structures that are not known yet, are addresses of anything."""
    if not is_pointer:
        return _SCALARS.get(name) or globals()[name]
    return ctypes.POINTER(globals()[name]) if name in globals() else ctypes.c_void_p


def _fields(name: str) -> list[tuple[str, Any]]:
    """Returns the fields of a structure."""
    fields = []
    for kind, star, names in re.findall(r"(?:const )?(\w+)(\*?) ([^;]+);", _BODIES[name]):
        fields += [(each.strip("* "), _type(kind, "*" in star + each)) for each in names.split(",")]
    return fields


LANES: Final = _numbers("LANES")[0]
HEAD_DIMS: Final = _numbers("HEAD_DIMS")

LEVELS: Final = _numbers("LEVELS")
"""What codes stand for."""

TYPES: Final = _members("Type")
"""The numbers of formats; float16 is for tables alone, codes are for drafters."""

ACTIVATIONS: Final = _members("Activation")
TOGETHER: Final = {"float32": 1, "bfloat16": 2, "int8": 4, "codes": 8}
"""How many inputs of an output stand side by side, by format."""

ALL, LAST, SLOTS = _members("Wanted").values()
"""Whose logits a step is asked for."""


class Linear(ctypes.Structure):
    _fields_ = _fields("Linear")


class Stored(ctypes.Structure):
    _fields_ = _fields("Stored")


class Packing(ctypes.Structure):
    _fields_ = _fields("Packing")


class Products(ctypes.Structure):
    _fields_ = _fields("Products")


class Norm(ctypes.Structure):
    _fields_ = _fields("Norm")


class Layer(ctypes.Structure):
    _fields_ = _fields("Layer")


class Filter(ctypes.Structure):
    _fields_ = _fields("Filter")


class Network(ctypes.Structure):
    _fields_ = _fields("Network")


class Shortlist(ctypes.Structure):
    _fields_ = _fields("Shortlist")


class Cache(ctypes.Structure):
    _fields_ = _fields("Cache")


class Step(ctypes.Structure):
    _fields_ = _fields("Step")


class Encoding(ctypes.Structure):
    _fields_ = _fields("Encoding")


class Crossing(ctypes.Structure):
    _fields_ = _fields("Crossing")


class Draft(ctypes.Structure):
    _fields_ = _fields("Draft")


class Expansion(ctypes.Structure):
    _fields_ = _fields("Expansion")


class Run(ctypes.Structure):
    _fields_ = _fields("Run")


class Alignment(ctypes.Structure):
    _fields_ = _fields("Alignment")


class Beam(ctypes.Structure):
    _fields_ = _fields("Beam")


def _parameters(text: str) -> tuple[Any, ...]:
    found = re.findall(r"(?:const )?(\w+)(\*?) \w+", text)
    return tuple(_type(kind, bool(star)) for kind, star in found)


CALLS: Final = {name: (_type(result, False), _parameters(parameters)) for result, name, parameters in header.calls()}
"""What each call of a variant returns, and what it is given."""


def type_of(array: Array) -> int:
    """Returns the number of the type of what an array has."""
    return TYPES["bfloat16" if array.dtype == BFLOAT16 else array.dtype.name]


def cache_view(data: Array) -> Cache:
    """Returns where keys and values, or cells, (L, P, B, H, T, D) lie; the array has to outlive it."""
    layer, value, row, head, _, _ = (stride // data.itemsize for stride in data.strides)
    return Cache(data.ctypes.data, layer, value, row, head, data.shape[1], data.itemsize)
