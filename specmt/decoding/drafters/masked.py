"""The masked drafter: a block of [MASK] slots is filled in one pass (DESIGN §2.1)."""

from __future__ import annotations

from typing_extensions import override

from specmt.decoding.drafters.base import Arm, NetworkDrafter
from specmt.decoding.tables import Call


class MaskedDrafter(NetworkDrafter):
    """Fills a block of [MASK] slots in one pass."""

    name = "masked"
    is_stepwise = False

    @override
    def calls(self, arm: Arm, rows: float, longest: float) -> list[Call]:
        return [Call(self.name, rows * arm.ahead)]
