"""The door of the backend: arrays become tensors, answers become arrays, and lack of memory is what it is elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np
import torch
from torch import Tensor

from specmt.engine.arrays import Array, Floats, Ids
from specmt.engine.threads import thread_count
from specmt.engine.weights import Rounded, Weight, Weights, floats
from specmt.errors import is_out_of_memory

P = ParamSpec("P")
R = TypeVar("R")


def entered(function: Callable[P, R]) -> Callable[P, R]:
    """Returns a function that computes without gradients, with as many threads as compute in this process.

    :raises MemoryError: there is not enough, on whichever device.
    """

    @wraps(function)
    def enter(*args: P.args, **kwargs: P.kwargs) -> R:
        set_threads()
        with memory_errors(), torch.inference_mode():
            return function(*args, **kwargs)

    return enter


def set_threads() -> None:
    """Tells PyTorch how many threads compute in this process, which may change after a backend was made."""
    if torch.get_num_threads() != (count := thread_count()):
        torch.set_num_threads(count)


@contextmanager
def memory_errors() -> Iterator[None]:
    """Turns what PyTorch says of memory into a MemoryError."""
    try:
        yield
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise MemoryError("There is not enough memory for PyTorch.") from error
        raise


def to_tensor(array: Array, device: torch.device) -> Tensor:
    """Returns a copy of an array, which may be changed afterwards, on a device."""
    return torch.tensor(array, device=device)


def to_ids(tensor: Tensor) -> Ids:
    """Returns the ids in a tensor, when its device has computed them."""
    return np.asarray(tensor.cpu().numpy(), dtype=np.int64)


def to_floats(tensor: Tensor) -> Floats:
    """Returns the numbers in a tensor in float32, when its device has computed them."""
    return np.asarray(tensor.float().cpu().numpy())


def to_tensors(weights: Weights, device: torch.device, dtype: torch.dtype) -> dict[str, Tensor]:
    """Returns weights on a device in the type that it computes in."""
    return {name: _weight(weight).to(device, dtype) for name, weight in weights.items()}


def _weight(weight: Weight) -> Tensor:
    # A copy: stored weights may be mapped from files, which PyTorch warns of, and begin where it does not expect.
    tensor = torch.tensor(floats(weight) if isinstance(weight, Rounded) else weight)
    return tensor.view(torch.bfloat16) if tensor.dtype == torch.uint16 else tensor
