"""Linear layers whose result for a row does not depend on the other rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional

_ACTIVATIONS: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {
    "relu": functional.relu,
    "swish": functional.silu,
    "gelu": functional.gelu,
    "sigmoid": functional.sigmoid,
}


class Linear:
    """A linear layer with weights packed once for oneDNN where that is possible.

    Packed layers gave the same bits for a row whatever the number of rows and threads, and are the fastest
    (DESIGN §2.5, §4). Other devices and float64 take the ordinary path.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        """
        :param weight: (N_out, N_in)
        :param bias: (N_out) or ``None``
        """
        self.bias = bias
        self.packed = can_pack(weight)
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight) if self.packed else weight

    def __call__(self, x: Tensor, *, activation: str = "none") -> Tensor:
        """Returns (R, N_out) for rows (R, N_in), with relu, swish, gelu or sigmoid applied if asked for."""
        if self.packed:
            # The last argument is the kind of gelu: "none" is the exact one.
            out: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, activation, [], "none")
            return out
        out = functional.linear(x, self.weight, self.bias)
        return out if activation == "none" else _ACTIVATIONS[activation](out)


def linear_of(weights: Mapping[str, Tensor], name: str) -> Linear:
    """Returns the linear layer of a name, with its bias."""
    return Linear(weights[f"{name}.weight"], weights[f"{name}.bias"])


def can_pack(weight: Tensor) -> bool:
    """Returns whether oneDNN has packed linear layers for the device and type of a weight."""
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if weight.dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return weight.dtype == torch.float32
