"""The masked drafter: a block of [MASK] slots is filled in one pass (DESIGN §2.1)."""

from __future__ import annotations

from typing_extensions import override

from specmt.decoding.drafters.base import NetworkDrafter
from specmt.decoding.shape import BestFirst
from specmt.engine.fused import Confidence


class MaskedDrafter(NetworkDrafter):
    """Fills a block of [MASK] slots in one pass."""

    @override
    def beam(self, shape: BestFirst) -> int:
        return shape.nodes

    @override
    def stops(self, confidence: Confidence | None) -> Confidence | None:
        return None  # all slots are there anyway
