"""The C++ kernels as a backend: which networks there are, in which formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, final

from typing_extensions import override

from specmt.engine.architecture import NO_PREFIXES, Prefixes, Sizes
from specmt.engine.kernels import library
from specmt.engine.kernels.decoder import KernelDecoder, KernelReplica
from specmt.engine.kernels.mapping import pack_or_map
from specmt.engine.kernels.masked import KernelMaskedDrafter
from specmt.engine.kernels.numa import allowed_nodes, spread
from specmt.engine.kernels.packing import Given, Parts, pack_autoregressive, pack_masked, pack_replica, pack_verifier
from specmt.engine.kernels.stack import Packed
from specmt.engine.kernels.verifier import KernelVerifier
from specmt.engine.protocols import Backend, DraftNetwork, Kind, Scorer, Verifier
from specmt.engine.weights import StoredWeights, Weights

NARROW: Final = 320
"""Up to this width a step on the kernels is bound by computing, beyond it by reading weights."""

BROAD: Final = ("avx512", "amx")
"""How the names of variants begin that multiply so fast that further tokens cost little."""

BITS: Final = {"float32": 32, "bfloat16": 16, "int8": 8, "codes": 4}
"""Of a weight, by format."""


@final
class KernelBackend(Backend):
    """The C++ kernels, on the CPU: every sum is taken in one order, so that nothing need be padded."""

    name = "kernels"
    device = "cpu"
    shortlists_pay = True

    def __init__(self, format: str) -> None:
        """
        :param format: ``float32``, ``bfloat16`` or ``int8``
        """
        self.format = format

    @property
    @override
    def numerics(self) -> str:
        return library.numerics(self.format)

    @override
    def row_cost(self, width: int) -> float:
        narrow, wide = (0.2, 0.04) if library.variant().startswith(BROAD) else (0.4, 0.15)
        return narrow if width <= NARROW else wide

    @override
    def verifier(self, weights: Weights, sizes: Sizes, prefixes: Prefixes = NO_PREFIXES) -> Verifier:
        return KernelVerifier(packed(pack_verifier, weights, sizes, self.format), sizes, self.format, prefixes)

    @override
    def replica_bits(self, width: int) -> int | None:
        bits = 4 if width > NARROW else 8
        # Keys and values of a replica are in bfloat16, as those of all formats but one.
        return None if self.format == "float32" or bits == BITS[self.format] else bits

    @override
    def replica(self, weights: Weights, sizes: Sizes) -> Scorer:
        format = "codes" if self.replica_bits(_width(weights, "encoder_frontend.embed.weight")) == 4 else "int8"
        return KernelReplica(packed(pack_replica, weights, sizes, format), sizes, format)

    @override
    def drafter(self, kind: Kind, weights: Weights, sizes: Sizes) -> DraftNetwork:
        # A draft need not be exact: it was accepted as often in int8 as in bfloat16, and costs a third less.
        if kind == "masked":
            return KernelMaskedDrafter(packed(pack_masked, weights, sizes, "int8"), sizes, "int8")
        # All weights are read again for every token: half the bytes are worth a draft in a hundred.
        format = "codes" if _width(weights, "embed.weight") > NARROW else "int8"
        return KernelDecoder(packed(pack_autoregressive, weights, sizes, format), sizes, format)


def packed(
    pack: Callable[[Mapping[str, Given], Sizes, str], Parts], weights: Weights, sizes: Sizes, format: str
) -> Packed:
    """Returns the weights of a network, packed for a format.

    :raises ModelError: they have to be read, and are damaged.
    """
    with spread(allowed_nodes()):
        return pack_or_map(weights, f"{pack.__name__}, {format}, {sizes}", lambda given: pack(given, sizes, format))


def _width(weights: Weights, table: str) -> int:
    """Returns the width of a table; stored weights are not read for that."""
    return (weights.outline if isinstance(weights, StoredWeights) else weights)[table].shape[1]
