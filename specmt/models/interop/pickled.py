"""Reads pickles of PyTorch, the only weights of other programs that need it; nothing in them is ever executed."""

from __future__ import annotations

import pickle
import re
import zipfile
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

import torch

from specmt.engine.arrays import BFLOAT16, Array
from specmt.errors import ModelError
from specmt.models.reading import check_regular


def read_pickle(path: Path) -> dict[str, Array]:
    """Returns the tensors in a file, or in its ``model``, by name; those of an archive are mapped into memory."""
    # Before PyTorch 1.6, files were no archives; these cannot be mapped into memory.
    mmap = zipfile.is_zipfile(check_regular(path))
    try:
        with torch.serialization.safe_globals([Namespace]):  # fairseq's settings: names and plain values
            state = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except pickle.UnpicklingError as error:
        found = re.search(r"GLOBAL ([\w.]+)", str(error))
        what = f" (it asks for {found[1]})" if found else ""
        raise ModelError(
            f"{path}: is a pickle with more than tensors in it{what}, which could run code; it was not loaded. "
            "Look for the model as model.safetensors."
        ) from error
    except (OSError, RuntimeError, ValueError, KeyError, EOFError, AttributeError, TypeError) as error:
        raise ModelError(f"{path}: cannot be read as weights of PyTorch ({error}).") from error
    if not isinstance(state, Mapping):
        raise ModelError(f"{path}: must hold tensors by name, but holds a {type(state).__name__} instead.")
    if isinstance(state.get("model"), Mapping):
        state = state["model"]
    return {str(name): _array(value) for name, value in state.items() if isinstance(value, torch.Tensor)}


def _array(tensor: torch.Tensor) -> Array:
    tensor = tensor.detach()
    return tensor.view(torch.int16).numpy().view(BFLOAT16) if tensor.dtype == torch.bfloat16 else tensor.numpy()
