"""The masked drafter: a block of [MASK] slots is filled in one pass (DESIGN §2.1)."""

from __future__ import annotations

from typing_extensions import override

from specmt.decoding.drafters.base import Arm, NetworkDrafter
from specmt.decoding.tables import Call
from specmt.engine.fused import Confidence


class MaskedDrafter(NetworkDrafter):
    """Fills a block of [MASK] slots in one pass."""

    name = "masked"

    @override
    def calls(self, arm: Arm, rows: float, longest: float) -> list[Call]:
        return [Call(self.name, rows * arm.ahead)]

    @override
    def beam(self, arm: Arm) -> int:
        return arm.nodes

    @override
    def stops(self, confidence: Confidence | None) -> Confidence | None:
        return None  # all slots are there anyway
