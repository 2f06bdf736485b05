"""The C++ kernels as a backend: which networks there are, in which formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, final

from typing_extensions import override

from specmt.engine.architecture import NO_PREFIXES, Prefixes, Sizes
from specmt.engine.kernels import library
from specmt.engine.kernels.decoder import KernelDecoder, KernelReplica
from specmt.engine.kernels.mapping import kept, pack_or_map
from specmt.engine.kernels.masked import KernelMaskedDrafter
from specmt.engine.kernels.numa import allowed_nodes, spread
from specmt.engine.kernels.packing import Given, Parts, pack_autoregressive, pack_masked, pack_replica, pack_verifier
from specmt.engine.kernels.stack import Packed
from specmt.engine.kernels.verifier import KernelVerifier
from specmt.engine.protocols import Backend, DraftNetwork, Kept, Kind, Scorer, Verifier
from specmt.engine.weights import StoredWeights, Weights

NARROW: Final = 320
"""Up to this width a step on the kernels is bound by computing, beyond it by reading weights."""

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
    def bits(self, name: str, width: int) -> int | None:
        bits = BITS[self._format_of(name, width)]
        # Keys and values of a replica are in bfloat16, as those of all formats but one.
        useless = name == "self" and (self.format == "float32" or bits == BITS[self.format])
        return None if useless else bits

    @override
    def verifier(self, weights: Weights, sizes: Sizes, prefixes: Prefixes = NO_PREFIXES) -> Verifier:
        return KernelVerifier(packed(pack_verifier, weights, sizes, self.format), sizes, self.format, prefixes)

    @override
    def replica(self, weights: Weights, sizes: Sizes) -> Scorer:
        format = self._format_of("self", _width(weights))
        return KernelReplica(packed(pack_replica, weights, sizes, format), sizes, format)

    @override
    def drafter(self, kind: Kind, weights: Weights, sizes: Sizes) -> DraftNetwork:
        format = self._format_of(kind, _width(weights))
        if kind == "masked":
            return KernelMaskedDrafter(packed(pack_masked, weights, sizes, format), sizes, format)
        return KernelDecoder(packed(pack_autoregressive, weights, sizes, format), sizes, format)

    @override
    def kept(self, name: str, weights: Weights, sizes: Sizes) -> Kept | None:
        return kept(weights, *_purpose(_PACKS[name], sizes, self._format_of(name, _width(weights))))

    def _format_of(self, name: str, width: int) -> str:
        """Returns the format of a network, named as for `bits`.

        A draft need not be exact: it was accepted as often in int8 as in bfloat16, and costs a third less. Where all
        weights are read again for every token, half the bytes are worth a draft in a hundred.
        """
        if name == "verifier":
            return self.format
        return "codes" if name != "masked" and width > NARROW else "int8"


_Pack = Callable[[Mapping[str, Given], Sizes, str], Parts]

_PACKS: Final[Mapping[str, _Pack]] = {
    "verifier": pack_verifier,
    "self": pack_replica,
    "masked": pack_masked,
    "autoregressive": pack_autoregressive,
}
"""What packs the weights of a network, by the names of `bits`."""


def packed(pack: _Pack, weights: Weights, sizes: Sizes, format: str) -> Packed:
    """Returns the weights of a network, packed for a format.

    :raises ModelError: they have to be read, and are damaged.
    """
    with spread(allowed_nodes()):
        return pack_or_map(weights, *_purpose(pack, sizes, format))


def _purpose(pack: _Pack, sizes: Sizes, format: str) -> tuple[str, Callable[[Mapping[str, Given]], Parts]]:
    """Returns what decides what weights are packed to, and what packs them."""
    return f"{pack.__name__}, {format}, {sizes}", lambda given: pack(given, sizes, format)


def _width(weights: Weights) -> int:
    """Returns the width of a network; stored weights are not read for that."""
    outline = weights.outline if isinstance(weights, StoredWeights) else weights
    return next(outline[name].shape[1] for name in ("embed.weight", "encoder_frontend.embed.weight") if name in outline)
