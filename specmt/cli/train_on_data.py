"""`specmt train drafter --data`: a drafter from what `specmt distill` made."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from specmt.cli.train import is_first_process, start_processes, training_progress
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
    from specmt.models.config import autoregressive_config_for, drafter_config_for
    from specmt.models.folder import (
        AUTOREGRESSIVE,
        DRAFTER,
        VERIFIER,
        ModelFolder,
        add_drafter,
        write_calibration,
    )
    from specmt.models.hub import fitting_weights, load_model
    from specmt.models.shapes import autoregressive_shapes, drafter_shapes
    from specmt.models.verifier import create_verifier, load_verifier_weights
    from specmt.text.pieces import load_pieces
    from specmt.training.autoregressive import train_autoregressive
    from specmt.training.drafter import BlockOptions, train_drafter
    from specmt.training.loop import TrainOptions
    from specmt.training.validate import Validator, snapshot, weights_of

    masked = kind == "masked"
    if block_size is None:
        block_size = 10 if masked else AHEAD["autoregressive"]
    decoding = DecodingOptions(drafter=kind, block_size=block_size)
    options = TrainOptions(**values)
    parent = ModelFolder.read(verifier_path)
    shape = {"dropout": dropout} if layers is None else {"dropout": dropout, "layers": layers}
    config: Any
    run: Callable[..., Any]
    if masked:
        config = drafter_config_for(parent.verifier, **shape, block_size=block_size, correction_rank=correction_rank)
        file, shapes = DRAFTER, drafter_shapes(config)
        run = partial(train_drafter, block_options=BlockOptions(spacing=spacing, decay=decay))
    else:
        config = autoregressive_config_for(parent.verifier, **shape)
        file, shapes = AUTOREGRESSIVE, autoregressive_shapes(config)
        run = train_autoregressive
    start = None if initial is None else fitting_weights(ModelFolder.read(initial), file, shapes)
    place = start_processes(device, threads)
    weights = parent.weights(VERIFIER)
    model = create_verifier(parent.verifier, place)
    load_verifier_weights(model, weights)
    validate = validator = None
    if validation_data is not None:
        pieces = load_pieces(parent.files, parent.verified)
        validator = Validator(validation_data, pieces, lines=validation_lines)

        def validate(drafter: Any) -> dict[str, float]:
            current = snapshot(
                pieces, parent.verifier, weights, place, drafter=config, drafter_weights=weights_of(drafter)
            )
            return validator.acceptance(current, decoding)

    with training_progress(options.updates) as report:
        run(
            folder,
            data,
            model,
            parent.verifier,
            config,
            options,
            initial=start,
            device=place,
            validate=validate,
            report=report,
        )
    if is_first_process():
        from safetensors.torch import load_file

        path = folder / "model"
        add_drafter(path, parent, config, load_file(folder / "final.safetensors"))
        if masked and validator is not None:
            write_calibration(path, validator.calibration(load_model(path, device=device), block_size))
        click.echo(f"{path}: verifier and drafter are ready", err=True)
