"""The C++ kernels as a library: its variants, and how it is found."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
from types import SimpleNamespace
from typing import Final, NamedTuple

from specmt.engine.architecture import Sizes
from specmt.engine.kernels import header
from specmt.engine.kernels.structures import CALLS, HEAD_DIMS, LANES, TOGETHER
from specmt.errors import UsageError, is_out_of_memory

CHOICE: Final = "SPECMT_KERNELS"
"""The environment variable that says which variant is to compute, or `none` for PyTorch alone. For tests of other
builds it can be the path of one, too, and `path:variant`."""

OWN_BFLOAT16: Final = ("avx512-bf16", "amx", "neon-bf16")
"""Variants whose instructions round sums of products of bfloat16 in their own way. All others widen them to float32 and
give the same bits; so do all variants in float32 and int8."""


class Kernels(SimpleNamespace):
    """The functions of one variant."""

    def __init__(self, library: ctypes.CDLL, variant: str) -> None:
        super().__init__()
        self.variant = variant
        """The family of instructions that it is compiled for."""
        prefix = f"specmt_{variant.replace('-', '_')}"
        for name, (result, parameters) in CALLS.items():
            function = getattr(library, f"{prefix}_{name}")
            function.restype, function.argtypes = result, parameters
            if result is ctypes.c_int:
                function.errcheck = _check
            setattr(self, f"specmt_{name}", function)


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


def required() -> Kernels:
    """Returns the kernels for whoever has made sure of them with `can_run`."""
    library = kernels()
    if library is None:
        raise RuntimeError(f"There are no kernels, because {why_absent()}; ask `can_run` first.")
    return library


def why_absent() -> str:
    """Returns why there are no kernels, to stand behind "because"; empty where there are."""
    return _choose(os.environ.get(CHOICE, ""))[1]


def variant() -> str:
    """Returns the variant of the kernels that computes, or `none`."""
    found = kernels()
    return "none" if found is None else found.variant


def numerics(format: str) -> str:
    """Returns the name of what the kernels compute in a format: bits differ from one to another, and not within one."""
    family = "kernels"
    if format == "bfloat16" and variant() in OWN_BFLOAT16:
        family += f"-{variant().replace('-', '')}"
    return f"{family}-{format}"


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
        if not library.specmt_matches(ctypes.c_uint32(header.number())):
            return _Found(None, reason="they were built for another version; install again")
        library.specmt_variants.restype = library.specmt_needed.restype = ctypes.c_char_p
        if (listed := library.specmt_variants()) is None:
            raise MemoryError("There is not enough memory to load the kernels.")
        possible = listed.decode().split()
        if not possible:
            return _Found(None, reason=f"the processor lacks {library.specmt_needed().decode()}")
        found = tuple(each for each in possible if hasattr(library, f"specmt_{each.replace('-', '_')}_run"))
        if not found:
            return _Found(None, reason="they were built for another processor alone; install again")
        return _Found(library, found)
    except (OSError, AttributeError) as error:
        if is_out_of_memory(error):
            raise MemoryError("There is not enough memory to load the kernels.") from error
        return _Found(None, reason=f"they cannot be loaded: {error}")


def _built() -> str | None:
    """Returns the path of the library, if it was built."""
    spec = importlib.util.find_spec("specmt.engine.kernels._kernels")
    return spec.origin if spec is not None and spec.origin is not None and spec.origin.endswith(".so") else None


def _check(code: int, function: object, arguments: object) -> int:
    """Raises what a call came back with."""
    if code == -1:
        raise MemoryError("There is not enough memory for the kernels.")
    if code < 0:
        raise RuntimeError("The kernels failed; this should not happen.")
    return code


def can_run(width: int, sizes: Sizes, ffn: int, format: str) -> bool:
    """Returns whether the kernels are there and made for a network of a width in a format."""
    fits = width % LANES == 0 and ffn % LANES == 0 and width // sizes.heads in HEAD_DIMS
    return fits and format in TOGETHER and kernels() is not None
