"""`specmt train verifier|drafter`: the two training runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

import click

from specmt.cli.options import FILE, FOLDER, F, add_options, choice_option, given_options, number_option, value_option
from specmt.errors import InputNotFoundError, UsageError
from specmt.options import DecodingOptions
from specmt.training.options import TrainOptions

SHAPE: Final = {
    "model_dim": "architecture's width",
    "num_heads": "number of heads",
    "ffn_dim": "inner width of feed-forward networks",
    "encoder_layers": "number of encoder layers",
    "decoder_layers": "number of decoder layers",
}


@click.group()
def train() -> None:
    """Train a verifier, or a drafter for one. Both resume what their folder holds."""


OF_CORPUS: Final = ("hours", "limit", "max_length", "into")
"""What there is to say of a text alone."""

VERIFIER_ONLY: Final = ("label_smoothing", "short_first", "short_length")


def training_options(**defaults: float) -> Callable[[F], F]:
    """Returns the decorator that adds the options of training, with the defaults of a run; see `TrainOptions`."""
    options = [
        value_option(
            each.name,
            defaults.get(each.name, each.default),
            each.metadata["help"],
            type=click.Choice(each.metadata["choices"]) if each.metadata["choices"] else None,
        )
        for each in fields(TrainOptions)
        if each.name in defaults or each.name not in VERIFIER_ONLY
    ]
    options += [
        click.option("--dropout", default=defaults["dropout"], show_default=True, help="Dropout probability."),
        click.option("--validation-lines", default=100, show_default=True, help="Lines of each set to validate on."),
        click.option("--device", default="auto", show_default=True, help="auto, cpu or cuda[:i]."),
        click.option("--threads", type=click.IntRange(min=1), help="CPU threads; all by default."),
    ]
    return lambda function: add_options(options, function)


def shape_options(function: F) -> F:
    """Adds what may change the architecture of a verifier."""
    options = [value_option(name, None, f"Change the {text}.", type=int) for name, text in SHAPE.items()]
    return add_options(options, function)


@train.command("verifier")
@click.argument("folder", type=FOLDER)
@click.option("--data", required=True, type=FOLDER, help="Prepared data.")
@training_options(lr=3e-3, updates=20_000, warmup=200, dropout=0.1, label_smoothing=0.1, short_first=0, short_length=24)
@click.option(
    "--initial",
    type=FOLDER,
    help="Start from the verifier of this model folder, in its shape unless layers are added or left out; the data "
    "must have its pieces.",
)
@click.option("--arch", default="small", show_default=True, help="Architecture: small or base.")
@shape_options
@click.option("--from", "source", default="de", show_default=True, help="Source language.")
@click.option("--to", "target", default="en", show_default=True, help="Target language.")
def verifier(
    folder: Path,
    data: Path,
    initial: Path | None,
    arch: str,
    source: str,
    target: str,
    dropout: float,
    device: str,
    threads: int | None,
    validation_lines: int,
    **values: Any,
) -> None:
    """Train a verifier on data that `specmt prepare` made; the finished model is FOLDER/model.

    \b
    Example:
      specmt train verifier runs/verifier --data runs/data --updates 4000
      torchrun --nproc-per-node 4 -m specmt train verifier runs/verifier --data runs/data
    """
    from specmt.cli.train_on_data import run_trainer
    from specmt.engine.backends import needing_torch
    from specmt.models.config import verifier_config
    from specmt.models.folder import VERIFIER, ModelFolder, file_sha256
    from specmt.models.hub import fitting_weights
    from specmt.models.parameters import find_misfit, verifier_shapes
    from specmt.models.writing import write_folder
    from specmt.text.pieces import PIECES, Pieces
    from specmt.training.data import ParallelData

    with needing_torch("Training"):
        from specmt.models.reference.weights import to_arrays, to_tensors
        from specmt.training.factory import verifier_trainer
        from specmt.training.processes import start_processes
        from specmt.training.validate import Validator, snapshot, weights_of
        from specmt.training.verifier import with_layers

    changes = {name: value for name in SHAPE if (value := values.pop(name)) is not None}
    if not (data / PIECES).exists():
        raise InputNotFoundError(f"{data / PIECES}: no such file; run `specmt prepare` first.")
    pieces = Pieces(data / PIECES)
    start = None
    if initial is None:
        config = verifier_config(arch, vocab_size=len(pieces), dropout=dropout, **changes)
    else:
        parent = ModelFolder.read(initial)
        if file_sha256(data / PIECES) != file_sha256(parent.verified(PIECES)):
            raise UsageError(f"{data / PIECES}: is not {initial / PIECES}; see `specmt prepare --pieces`.")
        config = replace(parent.verifier, dropout=dropout, **changes)
        start = with_layers(
            fitting_weights(parent, VERIFIER, verifier_shapes(parent.verifier)), parent.verifier, config
        )
        misfit = find_misfit(verifier_shapes(config), {name: weight.shape for name, weight in start.items()})
        if misfit is not None:
            raise UsageError(f"{initial}: its verifier has another shape: {misfit}.")
    options = TrainOptions(**values)
    pairs = ParallelData.load(data, "train")
    place = start_processes(device, threads)
    validator = Validator(data, pieces, lines=validation_lines)
    greedy = DecodingOptions(strategy="greedy")

    def validate(model: Any) -> dict[str, float]:
        return {
            **validator.loss(model, place),
            **validator.bleu(snapshot(pieces, config, weights_of(model), place), greedy),
        }

    initial_weights = None if start is None else to_tensors(start)
    trainer = verifier_trainer(folder, pairs, config, options, initial=initial_weights, device=place, validate=validate)
    weights = run_trainer(trainer)
    if weights is not None:
        path, arrays = folder / "model", to_arrays(weights)
        write_folder(path, source=source, target=target, pieces=data / PIECES, verifier=config, verifier_weights=arrays)
        click.echo(f"{path}: the verifier is ready", err=True)


class ManyValues(click.Command):
    """Lets `--corpus` take all values up to the next option, as a shell writes them for a pattern."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        spread: list[str] = []
        many = False
        for arg in args:
            if many and not arg.startswith("-") and spread[-1] != "--corpus":
                spread.append("--corpus")
            elif arg.startswith("-"):
                many = arg == "--corpus"
            spread.append(arg)
        return super().parse_args(ctx, spread)


@train.command("drafter", cls=ManyValues)
@click.argument("folder", required=False, type=FOLDER)
@click.option("--verifier", "verifier_path", required=True, type=FOLDER, help="Model folder.")
@click.option(
    "--corpus", multiple=True, metavar="FILE...", type=FILE, help="Text in the source language (.gz too): do all steps."
)
@click.option("--data", type=FOLDER, help="Instead: train, and nothing else, on what `specmt distill` made.")
@click.option(
    "--hours",
    type=click.FloatRange(min=0, min_open=True),
    metavar="H",
    help="With --corpus: stop after about so long, with what has been learnt; a quarter of it is for reading.",
)
@number_option("limit", 240_000, "With --corpus: the most sentences, taken at even distances.", least=1)
@number_option("max_length", 64, "With --corpus: leave out sentences with more pieces.", least=1)
@click.option(
    "--into", type=FOLDER, help="With --corpus: the model folder that gets the drafter.  [default: the verifier's own]"
)
@training_options(lr=2e-3, updates=3000, warmup=100, dropout=0.0)
@choice_option(
    "kind",
    ("masked", "autoregressive"),
    "masked: fills a block of [MASK] slots in one pass. autoregressive: a small decoder, token by token.",
)
@click.option(
    "--initial", type=FOLDER, help="Start from the drafter of this model folder; by default from the verifier's layers."
)
@click.option("--layers", type=int, help="Decoder layers.  [default: 2; autoregressive: 1]")
@click.option(
    "--block-size", type=int, help="[MASK] slots K; autoregressive: only to validate.  [default: 10; autoregressive: 5]"
)
@click.option("--correction-rank", default=128, show_default=True, help="Width of the correction's state (masked).")
@click.option("--spacing", default=6.0, show_default=True, help="Target tokens for one mask block (masked).")
@value_option("decay", 0.9, "Weight of a slot's loss relative to the one before (masked).")
@click.option("--validation-data", type=FOLDER, help="Prepared data with validation sets.")
def drafter(corpus: tuple[Path, ...], **values: Any) -> None:
    """Train a drafter for a verifier, so that `specmt translate` says the same words sooner.

    With --corpus, one command does it all: the verifier translates the text (no references are needed), a drafter
    learns from what it said, is calibrated and timed on lines held out, and goes into the model folder. By default it
    sees each sentence three times. FOLDER keeps the work, by default beside the verifier's; Ctrl-C stops it, and the
    same command goes on.

    With --data, a drafter is trained on data that `specmt distill` made; FOLDER/model is the verifier's folder with the
    drafter in it.

    \b
    Examples:
      specmt train drafter --verifier opus-mt-de-en --corpus *.de.gz --hours 2
      specmt train drafter runs/drafter --verifier runs/verifier/model --data runs/distilled
      specmt train drafter runs/second --kind autoregressive --verifier runs/drafter/model --data runs/distilled
    """
    given = given_options()
    if bool(corpus) == (values["data"] is not None):
        raise UsageError("Name either a text with `--corpus` or distilled data with `--data`.")
    for name in ("validation_data",) if corpus else OF_CORPUS:
        if name in given:
            raise UsageError(f"`{name.replace('_', '-')}` is not for `--{'corpus' if corpus else 'data'}`.")
    if values["kind"] != "masked":
        for name in sorted(given & {"correction_rank", "spacing", "decay"}):
            raise UsageError(f"`{name}` is for drafters of the kind masked, but the kind is {values['kind']}.")
    limits = {name: values.pop(name) for name in OF_CORPUS}
    if corpus:
        from specmt.cli.train_from_corpus import train_from_corpus

        del values["data"], values["validation_data"]
        train_from_corpus(corpus, given, **limits, **values)
    elif values["folder"] is None:
        raise UsageError("Name the FOLDER of the run.")
    else:
        from specmt.cli.train_on_data import train_on_data

        train_on_data(**values)
