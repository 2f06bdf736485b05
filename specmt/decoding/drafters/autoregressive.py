"""The autoregressive drafter: a small decoder over the encoder's output that goes ahead token by token."""

from __future__ import annotations

from typing_extensions import override

from specmt.decoding.drafters.base import Arm, NetworkDrafter
from specmt.decoding.tables import Call


class AutoregressiveDrafter(NetworkDrafter):
    """Goes ahead level by level, each level being an input for the next."""

    name = "autoregressive"
    is_stepwise = True

    @override
    def calls(self, arm: Arm, rows: float, longest: float) -> list[Call]:
        return [Call(self.name, rows * arm.paths, min(float(arm.ahead), 1.0 + longest / arm.paths))]
