"""PyTorch on any device; how calls are shaped decides whether bits depend on the batch."""

from __future__ import annotations

from typing import final

import torch
from typing_extensions import override

from specmt.engine.architecture import NO_PREFIXES, Prefixes, Sizes
from specmt.engine.protocols import Backend, DraftNetwork, Kept, Kind, Scorer, Verifier
from specmt.engine.torch.decoder import TorchDecoder
from specmt.engine.torch.door import memory_errors, set_threads, to_tensors
from specmt.engine.torch.invariance import COMPILED, FREE, GRANULAR, ShapePolicy, fixed, invariant_here, one_shape
from specmt.engine.torch.masked import TorchMasked
from specmt.engine.torch.verifier import TorchVerifier
from specmt.engine.weights import DRAFTER_TABLES, Weights


@final
class TorchBackend(Backend):
    """PyTorch, with as many threads as compute in this process (specmt.engine.threads)."""

    name = "torch"
    shortlists_pay = False

    def __init__(
        self,
        device: str = "cpu",
        format: str = "float32",
        *,
        deterministic: bool = True,
        shapes: ShapePolicy | None = None,
    ) -> None:
        """
        :param device: ``cpu`` or ``cuda[:i]``
        :param format: ``float32``, ``float64``, ``bfloat16`` or ``float16``
        :param deterministic: whether bits must not depend on the batch
        :param shapes: of calls; by default the fastest that do, where a verifier is found to be so with them
        """
        self.device = device
        self.format = format
        self._deterministic = deterministic
        self._shapes = shapes
        self._falls_back = False
        set_threads()
        if device != "cpu":
            # Products in the full precision of their type.
            torch.backends.cuda.matmul.allow_tf32 = False
            torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False

    @property
    @override
    def numerics(self) -> str:
        return f"torch-{torch.__version__}-{self.device.partition(':')[0]}-{self.format}"

    @override
    def bits(self, name: str, width: int) -> int | None:
        return None if name == "self" else torch.finfo(getattr(torch, self.format)).bits

    @override
    def verifier(self, weights: Weights, sizes: Sizes, prefixes: Prefixes = NO_PREFIXES) -> Verifier:
        with memory_errors():
            network = TorchVerifier(self._tensors(weights), sizes, self._choose_shapes(sizes), prefixes)
        if self._deterministic and self._shapes is None:
            shapes = sorted({tuple(weight.shape) for weight in weights.values()})
            self._falls_back = not invariant_here(network, f"{sizes} {shapes} {self.format} {self.device}")
            network.shapes = self._choose_shapes(sizes)
        return network

    @override
    def replica(self, weights: Weights, sizes: Sizes) -> Scorer:
        raise RuntimeError("There are no replicas on PyTorch; ask `bits` first.")

    @override
    def drafter(self, kind: Kind, weights: Weights, sizes: Sizes) -> DraftNetwork:
        # In the verifier's format: rounding a draft otherwise than the output costs nothing but the draft.
        shapes = self._choose_shapes(sizes)
        with memory_errors():
            if kind == "masked":
                return TorchMasked(self._tensors(weights), sizes, FREE if shapes is FREE else GRANULAR)
            return TorchDecoder(self._tensors(weights), DRAFTER_TABLES, sizes, shapes)

    @override
    def kept(self, name: str, weights: Weights, sizes: Sizes) -> Kept | None:
        return None

    def _tensors(self, weights: Weights) -> dict[str, torch.Tensor]:
        return to_tensors(weights, torch.device(self.device), getattr(torch, self.format))

    def _choose_shapes(self, sizes: Sizes) -> ShapePolicy:
        """Returns the shapes of a network's calls."""
        if self._shapes is not None:
            return self._shapes
        if self._falls_back:
            return fixed(sizes.max_length)
        if self.device == "cpu":
            return GRANULAR if self._deterministic else FREE
        return one_shape(sizes.max_length) if self._deterministic else COMPILED


def count_gpus() -> int:
    """Returns how many CUDA devices PyTorch can use."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def has_bfloat16(device: str) -> bool:
    """Returns whether a device has instructions for bfloat16."""
    if device != "cpu":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return bool(torch.cpu._is_avx512_bf16_supported())
