"""Calls of fixed shapes, each captured once as a CUDA graph and replayed; elsewhere the same calls are just made.

A captured call has its inputs and outputs where they were when it was captured. That holds on the CPU, too, so that all
but capture and replay themselves is tested there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor

Function: TypeAlias = Callable[..., tuple[Tensor, ...]]

WARM_UPS: Final = 2
"""Calls before a capture: libraries choose their kernels and take their workspaces in the first ones."""


@dataclass(frozen=True)
class GraphPolicy:
    """The shapes that calls may have; bits may differ between them, but never within one."""

    groups: tuple[int, ...]
    """Numbers of rows, ascending; dummy rows fill a call up."""

    widths: tuple[int, ...]
    """Numbers of tokens of a window, ascending; dummy tokens fill it up, and a wider window is run in parts."""

    bucket: int = 64
    """Keys are attended to in this number times a power of 2, the smallest that reaches a token's own position."""

    ordered: bool = False
    """Whether every token has its keys laid out as those of trees have: slower, where windows have other bits."""

    def rows(self, count: int) -> int:
        """Returns how many rows a call for so many has: no fewer, unless there is no larger one."""
        return _smallest(self.groups, count)

    def width(self, count: int) -> int:
        """Returns how many tokens a window of so many has, likewise."""
        return _smallest(self.widths, count)

    def length(self, count: int) -> int:
        """Returns how many positions are attended to where so many count."""
        return self.bucket << max(0, (count - 1) // self.bucket).bit_length()


ONE: Final = GraphPolicy((32,), (16,))
"""One shape whatever the batch: a row has the same bits in any company, and in blocks and single steps."""

ORDERED: Final = GraphPolicy((32,), (16,), ordered=True)
"""The same where trees would have other bits than chains."""

MANY: Final = GraphPolicy((1, 8, 32, 128), (1, 4, 8, 16, 32))
"""The shape that is nearest: a translation may depend on its batch in the last bits."""


def _smallest(sizes: Sequence[int], count: int) -> int:
    return next((size for size in sizes if size >= count), sizes[-1])


class Graphs:
    """The calls of one network that were captured."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.calls: dict[Hashable, _Call] = {}
        self._memory = self._new_memory()

    def __call__(self, key: Hashable, function: Function, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Returns what a function makes of tensors; it is overwritten by the next call with the same key.

        :param key: stands for the function and for the shapes of its inputs
        :param function: must read nothing on the host, and do no harm if it is run twice
        """
        call = self.calls.get(key)
        if call is None:
            call = self.calls[key] = _Call(function, inputs, self.device, self._memory)
        else:
            for kept, given in zip(call.inputs, inputs, strict=True):
                kept.copy_(given, non_blocking=True)
        call.replay()
        return call.outputs

    def forget(self) -> None:
        """Drops all calls, as must be done when something that they read or write has moved."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        self.calls.clear()
        self._memory = self._new_memory()

    def _new_memory(self) -> Any:
        # One for all calls: what one uses in between, another may use after it. Outputs are kept and stay apart.
        return torch.cuda.graph_pool_handle() if self.device.type == "cuda" else None


class _Call:
    """A function with its inputs and outputs, which stay where they are."""

    def __init__(
        self,
        function: Function,
        inputs: Sequence[Tensor],
        device: torch.device,
        memory: Any,
    ) -> None:
        self.inputs = [given.to(device, copy=True) for given in inputs]
        self.replay: Callable[[], None]
        if device.type == "cuda":
            self.outputs, self.replay = _capture(function, self.inputs, memory)
            return
        self.outputs = tuple(made.clone() for made in function(*self.inputs))

        def again() -> None:
            for kept, made in zip(self.outputs, function(*self.inputs), strict=True):
                kept.copy_(made)

        self.replay = again


def _capture(
    function: Function, inputs: Sequence[Tensor], memory: Any
) -> tuple[tuple[Tensor, ...], Callable[[], None]]:
    """Returns the outputs of a captured function and what replays it."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UPS):
            function(*inputs)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=memory):
        outputs = function(*inputs)
    return outputs, graph.replay


def pin_precision() -> None:
    """Makes CUDA compute matrix products as they are asked for, for the whole process.

    TF32 would round the factors of float32 to 10 bits, and reduced-precision reductions would sum parts in 16 bits,
    where the number of parts depends on the shape: both cost accuracy, and the second the same bits in any shape.
    Attention needs no pinning: it is made of matrix products and a softmax (specmt.engine.transformer.attend), not of
    the fused kernels that torch would choose by shape.
    """
    torch.backends.cuda.matmul.fp32_precision = "ieee"
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
