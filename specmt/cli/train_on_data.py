"""`specmt train drafter --data`: a drafter from what `specmt distill` made."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from specmt.options import Calibration, DecodingOptions

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from specmt.models.hub import Model
    from specmt.training.data import ParallelData
    from specmt.training.loop import Trainer
    from specmt.training.plan import DrafterPlan
    from specmt.training.validate import Validator


class Trained(NamedTuple):
    """A drafter that was trained."""

    weights: dict[str, Tensor]
    """In float16, as they are stored."""

    calibration: Calibration | None
    """Where there are sentences to measure it on."""


def train_on_data(
    folder: Path,
    verifier_path: Path,
    data: Path,
    validation_data: Path | None,
    validation_lines: int,
    device: str,
    threads: int | None,
    **values: Any,
) -> None:
    """Trains a drafter of either kind in a folder, in which a model folder with it is made."""
    from specmt.engine.backends import needing_torch
    from specmt.models.folder import ModelFolder
    from specmt.models.hub import load_model
    from specmt.models.writing import add_drafter
    from specmt.text.pieces import load_pieces
    from specmt.training.data import ParallelData

    with needing_torch("Training"):
        from specmt.models.reference.weights import to_arrays
        from specmt.training.plan import DrafterPlan
        from specmt.training.processes import start_processes
        from specmt.training.validate import Validator

    plan = DrafterPlan.of(ModelFolder.read(verifier_path), **values)
    pairs, place = ParallelData.load(data, "train"), start_processes(device, threads)
    validator = model = None
    if validation_data is not None:
        pieces = load_pieces(plan.parent.files, plan.parent.verified)
        validator = Validator(validation_data, pieces, lines=validation_lines)
        if os.environ.get("RANK", "0") == "0":
            model = load_model(verifier_path, device=device, threads=threads)
    trained = train_drafter(plan, folder, pairs, place, model, validator)
    if trained is not None:
        path, weights = folder / "model", to_arrays(trained.weights)
        add_drafter(path, plan.parent, plan.config, weights, trained.calibration)
        click.echo(f"{path}: verifier and drafter are ready", err=True)


def train_drafter(
    plan: DrafterPlan,
    folder: Path,
    data: ParallelData,
    device: torch.device,
    model: Model | None,
    validator: Validator | None,
    *,
    seconds: float = math.inf,
) -> Trained | None:
    """Trains a drafter in a folder; returns it in the process that writes it, ``None`` in the others.

    :param model: the verifier, to validate and calibrate the drafter with; it is in there then
    :param seconds: how long training may take
    """
    from specmt.models.parameters import drafter_shapes
    from specmt.models.reference.weights import to_tensors
    from specmt.training.factory import drafter_trainer, load_teacher
    from specmt.training.validate import equip, weights_of

    decoding = DecodingOptions(drafter=plan.kind, block_size=plan.block_size)

    def validate(drafter: Any) -> dict[str, float]:
        assert model is not None and validator is not None
        equip(model, plan.config, weights_of(drafter))
        return validator.acceptance(model, decoding)

    trainer = drafter_trainer(
        folder,
        data,
        load_teacher(plan.parent, device),
        plan.parent.verifier,
        plan.config,
        plan.options,
        block_options=plan.blocks,
        initial=to_tensors(plan.start()),
        device=device,
        validate=None if validator is None else validate,
        identity=plan.identity,
    )
    learnt = run_trainer(trainer, seconds)
    if learnt is None:
        return None
    # With the table, even where it is the verifier's.
    weights = {name: weight.half() for name, weight in {**weights_of(trainer.model), **learnt}.items()}
    calibration = None
    if model is not None and validator is not None:
        equip(model, plan.config, weights)
        calibration = validator.calibration(model, plan.kind, plan.block_size)
        equip(model, plan.config, weights, calibration)
    return Trained({name: weights[name] for name in drafter_shapes(plan.config)}, calibration)


def run_trainer(trainer: Trainer, seconds: float = math.inf) -> dict[str, Tensor] | None:
    """Trains with a progress bar; returns the final weights in the process that writes them, ``None`` in the others."""
    from safetensors.torch import load_file

    from specmt.cli.progress import metrics_bar

    with metrics_bar(trainer.options.updates, quiet=trainer.rank > 0) as report:
        trainer.run(seconds=seconds, report=report)
    return load_file(trainer.folder / "final.safetensors") if trainer.rank == 0 else None
