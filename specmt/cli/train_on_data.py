"""`specmt train drafter --data`: a drafter from what `specmt distill` made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from specmt.cli.train import run_trainer, start_processes
from specmt.options import AHEAD, DecodingOptions, DrafterName


def train_on_data(
    folder: Path,
    data: Path,
    kind: DrafterName,
    verifier_path: Path,
    initial: Path | None,
    validation_data: Path | None,
    layers: int | None,
    block_size: int | None,
    correction_rank: int,
    spacing: float,
    decay: float,
    dropout: float,
    device: str,
    threads: int | None,
    validation_lines: int,
    **values: Any,
) -> None:
    """Trains a drafter of either kind in a folder."""
    from specmt.models.config import DrafterConfig, autoregressive_config_for, drafter_config_for
    from specmt.models.folder import AUTOREGRESSIVE, DRAFTER, VERIFIER, ModelFolder, add_drafter, write_calibration
    from specmt.models.hub import fitting_weights, load_model
    from specmt.models.shapes import autoregressive_shapes, drafter_shapes
    from specmt.text.pieces import load_pieces
    from specmt.training.data import ParallelData
    from specmt.training.drafter import BlockOptions
    from specmt.training.factory import drafter_trainer, load_teacher
    from specmt.training.options import TrainOptions
    from specmt.training.validate import Validator, snapshot, weights_of

    masked = kind == "masked"
    if block_size is None:
        block_size = 10 if masked else AHEAD["autoregressive"]
    decoding = DecodingOptions(drafter=kind, block_size=block_size)
    parent = ModelFolder.read(verifier_path)
    shape = {"dropout": dropout} if layers is None else {"dropout": dropout, "layers": layers}
    config = (
        drafter_config_for(parent.verifier, **shape, block_size=block_size, correction_rank=correction_rank)
        if masked
        else autoregressive_config_for(parent.verifier, **shape)
    )
    start = None
    if initial is not None:
        shapes = drafter_shapes(config) if isinstance(config, DrafterConfig) else autoregressive_shapes(config)
        start = fitting_weights(ModelFolder.read(initial), DRAFTER if masked else AUTOREGRESSIVE, shapes)
    options, blocks = TrainOptions(**values), BlockOptions(spacing=spacing, decay=decay)
    pairs = ParallelData.load(data, "train")
    place = start_processes(device, threads)
    pieces = load_pieces(parent.files, parent.verified)
    validator = None if validation_data is None else Validator(validation_data, pieces, lines=validation_lines)

    def validate(drafter: Any) -> dict[str, float]:
        weights = parent.weights(VERIFIER)
        model = snapshot(pieces, parent.verifier, weights, place, drafter=config, drafter_weights=weights_of(drafter))
        return {} if validator is None else validator.acceptance(model, decoding)

    trainer = drafter_trainer(
        folder,
        pairs,
        load_teacher(parent, place),
        parent.verifier,
        config,
        options,
        block_options=blocks,
        initial=start,
        device=place,
        validate=None if validator is None else validate,
    )
    weights = run_trainer(trainer)
    if weights is not None:
        path = folder / "model"
        add_drafter(path, parent, config, weights)
        if masked and validator is not None:
            write_calibration(path, validator.calibration(load_model(path, device=device), block_size))
        click.echo(f"{path}: verifier and drafter are ready", err=True)
