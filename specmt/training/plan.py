"""What drafter is to be trained for a verifier, and how."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from specmt.engine.protocols import Kind
from specmt.engine.weights import Weights
from specmt.models.config import DecoderConfig, autoregressive_config_for, drafter_config_for
from specmt.models.folder import DRAFTERS, VERIFIER, ModelFolder
from specmt.models.hub import fitting_weights
from specmt.models.parameters import drafter_shapes
from specmt.options import AHEAD
from specmt.training.drafter import BlockOptions
from specmt.training.options import TrainOptions


@dataclass(frozen=True, kw_only=True)
class DrafterPlan:
    """A drafter of either kind, for a verifier."""

    parent: ModelFolder
    """That of the verifier."""

    kind: Kind
    config: DecoderConfig

    block_size: int
    """How far it goes ahead when it is validated."""

    options: TrainOptions
    blocks: BlockOptions

    initial: ModelFolder | None = None
    """Whose drafter it starts from; by default some of the verifier's layers."""

    @staticmethod
    def of(parent: ModelFolder, *, kind: Kind, initial: Path | None, **values: Any) -> DrafterPlan:
        """Returns the plan that options of the command line make.

        :param values: those of `TrainOptions` and `BlockOptions`, and of the drafter's shape; ``None`` for defaults
        :raises UsageError: one has an impossible value.
        :raises ModelError: the other drafter has another shape, or is not there.
        """
        shape = {name: values[name] for name in ("dropout", "layers") if values[name] is not None}
        block_size = values["block_size"]
        if block_size is None:
            block_size = 10 if kind == "masked" else AHEAD["autoregressive"]
        config: DecoderConfig
        if kind == "masked":
            rank = values["correction_rank"]
            config = drafter_config_for(parent.verifier, **shape, block_size=block_size, correction_rank=rank)
        else:
            config = autoregressive_config_for(parent.verifier, **shape)
        plan = DrafterPlan(
            parent=parent,
            kind=kind,
            config=config,
            block_size=block_size,
            options=TrainOptions(
                **{each.name: values[each.name] for each in fields(TrainOptions) if each.name in values}
            ),
            blocks=BlockOptions(spacing=values["spacing"], decay=values["decay"]),
            initial=None if initial is None else ModelFolder.read(initial),
        )
        plan.start()
        return plan

    @property
    def file(self) -> str:
        """The file of a model folder that such a drafter is in."""
        return DRAFTERS[self.kind]

    @property
    def identity(self) -> dict[str, object]:
        """What must be the same when its training is resumed."""
        return {
            "verifier": self.parent.files[VERIFIER],
            "drafter": asdict(self.config),
            "blocks": asdict(self.blocks),
            "initial": None if self.initial is None else self.initial.files[self.file],
        }

    def start(self) -> Weights:
        """Returns the weights to start from; none for the verifier's layers.

        :raises ModelError: they have another shape, or are not there.
        """
        return {} if self.initial is None else fitting_weights(self.initial, self.file, drafter_shapes(self.config))
