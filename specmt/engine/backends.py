"""The two ways to compute: C++ kernels, and PyTorch, which runs everywhere."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Final, final

import torch
from torch import Tensor
from typing_extensions import override

from specmt.engine import library, native
from specmt.engine.backend import NO_PREFIXES, Backend, Drafter, Prefixes, Scorer, Sizes, Verifier
from specmt.engine.mapped import pack_or_map
from specmt.engine.networks import DecoderNetwork, DrafterNetwork, VerifierNetwork
from specmt.engine.nodes import allowed_nodes, spread
from specmt.engine.packed import Parts, pack_autoregressive, pack_masked, pack_replica, pack_verifier
from specmt.engine.pool import only_kernels
from specmt.engine.shapes import FREE, GRANULAR, ShapePolicy
from specmt.engine.stack import Packed
from specmt.engine.stored import StoredWeights
from specmt.engine.structures import CODES
from specmt.engine.transformer import Weights, drafter_tables

NARROW: Final = 320
"""Up to this width a step on the kernels is bound by computing, beyond it by reading weights."""

BROAD: Final = ("avx512", "amx")
"""How the names of variants begin that multiply so fast that further tokens cost little."""


@final
class KernelBackend(Backend):
    """The C++ kernels, on the CPU: every sum is taken in one order, so that nothing need be padded."""

    name = "kernels"
    shortlists_pay = True

    def __init__(self, dtype: torch.dtype) -> None:
        self.device = torch.device("cpu")
        self.dtype = dtype

    @property
    @override
    def numerics(self) -> str:
        return library.numerics(self.dtype)

    @override
    def row_cost(self, width: int) -> float:
        narrow, wide = (0.2, 0.04) if library.variant().startswith(BROAD) else (0.4, 0.15)
        return narrow if width <= NARROW else wide

    @override
    def own_threads(self) -> AbstractContextManager[None]:
        return only_kernels()

    @override
    def for_drafts(self) -> Backend:
        # A draft need not be exact: it was accepted as often in int8 as in bfloat16, and costs a third less.
        return KernelBackend(torch.int8)

    @override
    def verifier(self, weights: Weights, sizes: Sizes, prefixes: Prefixes = NO_PREFIXES) -> Verifier:
        return native.NativeVerifier(self._packed(pack_verifier, weights, sizes), sizes, self.dtype, prefixes)

    @override
    def replica_bits(self, width: int) -> int | None:
        bits = 4 if width > NARROW else 8
        # Keys and values of a replica are in bfloat16, as those of all types but one.
        return None if self.dtype == torch.float32 or bits == 8 * self.dtype.itemsize else bits

    @override
    def replica(self, weights: Weights, sizes: Sizes) -> Scorer:
        width = _outline(weights)["encoder_frontend.embed.weight"].shape[1]
        kind = CODES if self.replica_bits(width) == 4 else torch.int8
        return native.NativeReplica(KernelBackend(kind)._packed(pack_replica, weights, sizes), sizes, kind)

    @override
    def masked_drafter(self, weights: Weights, sizes: Sizes) -> Drafter:
        return native.NativeDrafter(self._packed(pack_masked, weights, sizes), sizes, self.dtype)

    @override
    def autoregressive_drafter(self, weights: Weights, sizes: Sizes) -> Scorer:
        if self.dtype == torch.int8 and _outline(weights)["embed.weight"].shape[1] > NARROW:
            # All weights are read again for every token: half the bytes are worth a draft in a hundred.
            return KernelBackend(CODES).autoregressive_drafter(weights, sizes)
        return native.NativeDecoder(self._packed(pack_autoregressive, weights, sizes), sizes, self.dtype)

    def _packed(self, pack: Callable[[Weights, Sizes, torch.dtype], Parts], weights: Weights, sizes: Sizes) -> Packed:
        # Packing is many short calls of PyTorch: other threads of its would cost more time than they save.
        with only_kernels(), spread(allowed_nodes()):
            purpose = f"{pack.__name__}, {self.dtype}, {sizes}"
            return pack_or_map(weights, purpose, lambda given: pack(given, sizes, self.dtype))


@final
class TorchBackend(Backend):
    """PyTorch on any device; how calls are shaped decides whether bits depend on the batch."""

    name = "torch"
    shortlists_pay = False

    def __init__(self, device: torch.device, dtype: torch.dtype, shapes: ShapePolicy = GRANULAR) -> None:
        self.device = device
        self.dtype = dtype
        self.shapes = shapes
        if device.type == "cuda":
            # Products in the full precision of their type.
            torch.backends.cuda.matmul.allow_tf32 = False
            torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False

    @property
    @override
    def numerics(self) -> str:
        return f"torch-{torch.__version__}-{self.device.type}-{_name(self.dtype)}"

    @override
    def row_cost(self, width: int) -> float:
        return 0.04

    @override
    def own_threads(self) -> AbstractContextManager[None]:
        return nullcontext()

    @override
    def for_drafts(self) -> Backend:
        # Rounding a draft otherwise than the output costs nothing but the draft.
        return self

    @override
    def verifier(self, weights: Weights, sizes: Sizes, prefixes: Prefixes = NO_PREFIXES) -> Verifier:
        return VerifierNetwork(self._placed(weights), sizes, self.shapes, prefixes)

    @override
    def replica_bits(self, width: int) -> int | None:
        return None

    @override
    def replica(self, weights: Weights, sizes: Sizes) -> Scorer:
        raise RuntimeError("There are no replicas on PyTorch; ask `replica_bits` first.")

    @override
    def masked_drafter(self, weights: Weights, sizes: Sizes) -> Drafter:
        return DrafterNetwork(self._placed(weights), sizes, FREE if self.shapes is FREE else GRANULAR)

    @override
    def autoregressive_drafter(self, weights: Weights, sizes: Sizes) -> Scorer:
        weights = self._placed(weights)
        return DecoderNetwork(weights, drafter_tables(weights), sizes, self.shapes)

    def _placed(self, weights: Weights) -> dict[str, Tensor]:
        return {name: tensor.to(self.device, self.dtype) for name, tensor in weights.items()}


def _outline(weights: Weights) -> Weights:
    """Returns weights that may have shapes alone: those of stored ones are not read for that."""
    return weights.outline if isinstance(weights, StoredWeights) else weights


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
