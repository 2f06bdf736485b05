"""Reads files that a stranger may have made: regular ones only, and nothing in them is trusted."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from specmt.errors import ModelError
from specmt.models.int8 import from_int8, is_scale
from specmt.text.printable import printable

if TYPE_CHECKING:
    from torch import Tensor

MOST_JSON: Final = 1 << 28
"""The most bytes of a JSON file; a vocabulary of 256,000 pieces has 7 million."""

_INFINITY: Final = {
    "torch.float16": 0x7C00,
    "torch.bfloat16": 0x7F80,
    "torch.float32": 0x7F800000,
    "torch.float64": 0x7FF0000000000000,
}
"""The types that weights may have, and the bits of infinity in them."""

_READ_AS: Final = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64", "I8": "float32"}
"""What is in safetensors files, and what it is in PyTorch once it was read: int8 is multiplied by its scales."""


def check_regular(path: Path) -> Path:
    """Returns a path after checking that it is a regular file: a FIFO would wait for ever, a device has no end.

    :raises ModelError: it is not, or it is missing.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a FIFO, a device or the like"
        raise ModelError(f"{path}: must be a regular file, but is {kind} instead.")
    return path


def read_bytes(path: Path, *, most: int = MOST_JSON) -> bytes:
    """Returns what is in a regular file.

    :param most: the most bytes that it may have
    :raises ModelError: it is missing or too large.
    """
    try:
        size = check_regular(path).stat().st_size
        if size > most:
            raise ModelError(f"{path}: must have at most {most:,} bytes, but has {size:,} instead.")
        return path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error


def read_text(path: Path) -> str:
    """Returns the text of a regular file in UTF-8.

    :raises ModelError: it is missing, too large or no text.
    """
    try:
        return read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise unreadable(path, error) from error


def read_json(path: Path, *, most: int = MOST_JSON) -> dict[str, Any]:
    """Returns the object in a JSON file.

    :param most: the most bytes that it may have
    :raises ModelError: the file is missing, too large, or has something else in it.
    """
    data = read_bytes(path, most=most)
    try:
        record = json.loads(data.decode())
    except RecursionError as error:
        raise ModelError(f"{path}: is not valid JSON (it is nested too deeply).") from error
    except ValueError as error:
        raise ModelError(f"{path}: is not valid JSON ({printable(str(error))}).") from error
    if not isinstance(record, dict):
        raise ModelError(f"{path}: must hold an object, but holds a {type(record).__name__} instead.")
    return record


def unreadable(path: Path, error: Exception) -> ModelError:
    """Returns what to raise where a file cannot be read."""
    said = error.strerror if isinstance(error, OSError) else error
    return ModelError(f"{path}: cannot be read ({said}); the model needs it.")


def read_tensors(path: Path, *, of_network: bool = True) -> dict[str, Tensor]:
    """Returns the tensors of a safetensors file.

    :param of_network: whether they are a network's: int8 is multiplied by its scales, and all must be numbers of
        floating point, none of them NaN or infinite.
    :raises ModelError: it is damaged or not what it should be.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = load_file(path)
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, RuntimeError) as error:
        raise ModelError(f"{path}: is not a safetensors file ({printable(str(error))}).") from error
    if not of_network:
        return tensors
    try:
        tensors = from_int8(tensors)
    except ValueError as error:
        raise ModelError(f"{path}: {printable(str(error))}") from error
    for name, tensor in tensors.items():
        if str(tensor.dtype) not in _INFINITY:
            raise ModelError(f"{path}: {printable(name)} must be of floating point, but is {tensor.dtype} instead.")
        if not _is_finite(tensor):
            raise ModelError(f"{path}: {printable(name)} must be finite, but has NaN or infinite values.")
    return tensors


def read_outline(path: Path) -> dict[str, Tensor]:
    """Returns the shapes and types of the tensors that a safetensors file is read as, on PyTorch's device `meta`.

    :raises ModelError: it is damaged, or holds what no network does.
    """
    import torch
    from safetensors import SafetensorError, safe_open

    outline = {}
    try:
        with safe_open(check_regular(path), "pt") as opened:
            names = set(opened.keys())
            for name in names:
                if is_scale(name, names):
                    continue
                part = opened.get_slice(name)
                kind = _READ_AS[part.get_dtype()]
                outline[name] = torch.empty(part.get_shape(), dtype=getattr(torch, kind), device="meta")
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, RuntimeError) as error:
        raise ModelError(f"{path}: is not a safetensors file of a network ({printable(str(error))}).") from error
    return outline


def _is_finite(tensor: Tensor) -> bool:
    import torch

    # Read as whole numbers, infinity and NaN come behind all finite numbers of their sign.
    size = tensor.element_size()
    signed = tensor.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[size]).numpy()
    infinity, sign = _INFINITY[str(tensor.dtype)], 1 << (8 * size - 1)
    return tensor.numel() == 0 or bool(signed.max() < infinity and signed.view(f"u{size}").max() < sign + infinity)
