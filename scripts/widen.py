#!/usr/bin/env python3
"""Makes models of another width, drafters included, that say the same, and runs `specmt` with them: for measuring speed
at real sizes.

Every dimension is repeated N times. Each copy computes what the narrow model does, so that translations, drafts and
acceptance stay what they are, up to rounding, while a step costs what it costs at N times the width. Layers that change
nothing and pieces that are never said can be added.

    python scripts/widen.py write specmt/assets/de-en 4 wide
    python scripts/widen.py run wide -- translate letter.de

Each copy has the positions of the narrow model. Only this script knows of such a table of positions: without it
`specmt` refuses the model.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import numpy as np
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from specmt.__main__ import main as run_specmt
from specmt.cli.main import cli
from specmt.engine.architecture import POSITIONS
from specmt.engine.arrays import Floats
from specmt.engine.weights import Weights, floats
from specmt.errors import SpecmtError, UsageError
from specmt.files import write_whole
from specmt.models.config import Config, NetworkConfig
from specmt.models.folder import AUTOREGRESSIVE, CONFIG, DRAFTER, SHORTLIST, VERIFIER, ModelFolder, read_record
from specmt.models.tensors import read_arrays
from specmt.models.writing import add_drafter, add_shortlist, write_folder
from specmt.text.lexicon import LEXICON
from specmt.text.pieces import PIECES
from specmt.types import UNK

LAST_NORM = "decoder.layer_norm."
TABLES = ("encoder_frontend.embed.weight", "decoder_frontend.embed.weight", "final_proj.weight", "embed.weight")
NARROW = ("final_proj.bias", "correction.gates.bias")
"""Vectors over pieces and over the correction's state, which stays as wide as it is."""


def add_positions(name: str) -> None:
    """Adds a table of positions to those that there are: ``TABLE:N``, N copies of another one side by side."""
    narrow, _, copies = name.rpartition(":")
    if narrow in POSITIONS and copies.isdecimal():
        table, count = POSITIONS[narrow], int(copies)
        POSITIONS[name] = lambda length, width, first: np.tile(table(length, width // count, first), (1, count))


def widen_config(config: Config, copies: int) -> Config:
    """Returns the configuration of a network with every dimension repeated.

    :raises UsageError: the network has norms behind its residual sums.
    """
    if config.norm != "pre":
        raise UsageError("`norm` must be pre: logits of a network without a last norm cannot be kept as they are.")
    add_positions(positions := f"{config.positions}:{copies}")
    return replace(
        config,
        model_dim=config.model_dim * copies,
        num_heads=config.num_heads * copies,
        ffn_dim=config.ffn_dim * copies,
        positions=positions,
    )


def widen(weights: Weights, config: NetworkConfig, copies: int) -> dict[str, Floats]:
    """Returns the weights of a network with every dimension repeated; a sum over all copies counts once."""
    # What a table is multiplied by makes up for this where it grows with the width.
    table = copies**-0.5 if config.scaled_embedding else 1.0
    last = 1 / (copies * table)  # of the last norm, whose sums with the table are the logits
    wide: dict[str, Floats] = {}
    for name, stored in weights.items():
        weight = floats(stored)
        if name in NARROW:
            wide[name] = weight
        elif name in TABLES:
            wide[name] = np.tile(weight, (1, copies)) * table
        elif name == "correction.gates.weight":  # (2 R, 2 D + R) over hidden states, scaled embeddings and states
            hidden, embedded, state = np.split(weight, (config.model_dim, 2 * config.model_dim), axis=1)
            parts = np.tile(hidden, (1, copies)) / (copies * last), np.tile(embedded, (1, copies)) / copies, state
            wide[name] = np.concatenate(parts, axis=1)
        elif name == "correction.output.weight":  # (D, R), multiplied by the table
            wide[name] = np.tile(weight, (copies, 1)) / (copies * table)
        elif weight.ndim == 2:
            wide[name] = np.tile(weight, (copies, copies)) / copies
        else:
            wide[name] = np.tile(weight, copies) * (last if name.startswith(LAST_NORM) else 1.0)
    return wide


def deepen(weights: dict[str, Floats], stack: str, layers: int, wanted: int) -> None:
    """Adds layers to a stack of which nothing comes out, so that its residual sums stay what they are."""
    first = f"{stack}.layers.0."
    for name in [name for name in weights if name.startswith(first)]:
        silent = "output_proj" in name
        for number in range(layers, wanted):
            added = np.zeros_like(weights[name]) if silent else weights[name]
            weights[f"{stack}.layers.{number}.{name.removeprefix(first)}"] = added


def add_pieces(path: Path, wanted: int) -> None:
    """Adds unused pieces to a SentencePiece model, up to a number of them."""
    model = ModelProto.FromString(path.read_bytes())
    for number in range(len(model.pieces), wanted):
        model.pieces.add(piece=f"<unused {number}>", score=0.0, type=ModelProto.SentencePiece.UNUSED)
    path.write_bytes(model.SerializeToString())


def lengthen(weights: dict[str, Floats], wanted: int) -> None:
    """Adds rows to the tables of a network; they are those of UNK, which comes first and so is said instead of them."""
    for name in TABLES:
        if (table := weights.get(name)) is not None:
            weights[name] = np.concatenate([table, np.tile(table[UNK], (wanted - len(table), 1))])


def write_wide(
    model: Path, copies: int, out: Path, layers: int | None = None, pieces: int | None = None
) -> ModelFolder:
    """Writes a model folder with the dimensions of another repeated; see above.

    :raises ModelError: there is no such model.
    :raises UsageError: it cannot be widened, or the folder is there.
    """
    folder = ModelFolder.read(model)
    if out.exists():
        raise UsageError(f"{out} is there already.")
    config = widen_config(folder.verifier, copies)
    weights = widen(folder.weights(VERIFIER), folder.verifier, copies)
    if layers is not None:
        for stack, now in (("encoder", config.encoder_layers), ("decoder", config.decoder_layers)):
            if layers < now:
                raise UsageError(f"`--layers` must be at least {now}, but is {layers} instead.")
            deepen(weights, stack, now, layers)
        config = replace(config, encoder_layers=layers, decoder_layers=layers)
    piece_files = [name for name in folder.files if not name.endswith(".safetensors")]
    count = pieces or config.vocab_size
    if count < config.vocab_size or (count > config.vocab_size and {*piece_files} - {LEXICON} != {PIECES}):
        raise UsageError(
            f"`--pieces` must be at least {config.vocab_size}, of a model with one {PIECES}, but is {count} instead."
        )
    with TemporaryDirectory() as scratch:
        copied = [Path(shutil.copy(folder.verified(name), scratch)) for name in piece_files]
        if count > config.vocab_size:
            add_pieces(Path(scratch, PIECES), count)
            lengthen(weights, count)
        wide = write_folder(
            out,
            source=folder.source,
            target=folder.target,
            pieces=copied,
            verifier=replace(config, vocab_size=count),
            verifier_weights=weights,
            exact=True,
            protect=folder.protect,
        )
    for kind, name, drafter in (
        ("masked", DRAFTER, folder.drafter),
        ("autoregressive", AUTOREGRESSIVE, folder.autoregressive),
    ):
        if drafter is not None:
            calibration = folder.calibrations.get(kind)
            drafter_weights = widen(folder.weights(name), drafter, copies)
            lengthen(drafter_weights, count)
            wide_config = replace(widen_config(drafter, copies), vocab_size=count)
            wide = add_drafter(out, wide, wide_config, drafter_weights, calibration)
    if folder.shortlist is not None:
        lists = read_arrays(folder.verified(SHORTLIST))
        starts = lists["starts"]
        lists["starts"] = np.pad(starts, (0, count + 1 - len(starts)), mode="edge")
        add_shortlist(out, folder.shortlist, lists)
    measured = {name: value for name, value in read_record(model).items() if name in ("alignment", "longest")}
    write_whole(out / CONFIG, json.dumps(read_record(out) | measured, indent=2) + "\n")
    return ModelFolder.read(out)


@click.group()
def main() -> None:
    """Makes models of another width, and runs `specmt` with them."""


@main.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("copies", metavar="N", type=click.IntRange(1, 64))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--layers", type=click.IntRange(1, 1000), help="Layers of encoder and decoder, at least as many as now.")
@click.option("--pieces", type=click.IntRange(1, 1 << 24), help="Pieces, at least as many as now.")
def write(model: Path, copies: int, out: Path, layers: int | None, pieces: int | None) -> None:
    """Writes the folder OUT with the MODEL folder's dimensions repeated N times."""
    write_wide(model, copies, out, layers, pieces)


@main.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("command", nargs=-1, required=True)
@click.pass_context
def run(context: click.Context, model: Path, command: tuple[str, ...]) -> None:
    """Runs a command of `specmt` where there is the wide MODEL's table of positions, and with MODEL as its --model."""
    add_positions(str(read_record(model).get("verifier", {}).get("positions")))
    name, *arguments = command
    known = cli.get_command(context, name)
    if known is not None and any("--model" in each.opts for each in known.params):
        arguments = ["--model", str(model), *arguments]
    sys.argv = ["specmt", name, *arguments]
    run_specmt()


if __name__ == "__main__":
    try:
        main()
    except SpecmtError as error:  # a model cannot be read or written
        raise SystemExit(f"widen.py: error: {error}") from error
