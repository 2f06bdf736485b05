"""The autoregressive drafter: a small decoder over the encoder's output that goes ahead token by token."""

from __future__ import annotations

from typing_extensions import override

from specmt.decoding.drafters.base import NetworkDrafter
from specmt.decoding.shape import BestFirst
from specmt.engine.fused import Confidence


class AutoregressiveDrafter(NetworkDrafter):
    """Goes ahead level by level, each level being an input for the next."""

    @override
    def beam(self, shape: BestFirst) -> int:
        return shape.breadth  # every level is a step

    @override
    def stops(self, confidence: Confidence | None) -> Confidence | None:
        return confidence
