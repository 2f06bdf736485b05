"""`specmt prepare`: parallel text to training data."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

PAIR: Final = (click.Path(path_type=Path, dir_okay=False), click.Path(path_type=Path, dir_okay=False))


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--train",
    type=PAIR,
    multiple=True,
    required=True,
    metavar="SOURCE TARGET",
    help="Parallel training files, plain or .gz; repeat for more, name one twice to count it twice.",
)
@click.option("--valid", type=PAIR, multiple=True, metavar="SOURCE TARGET", help="Parallel validation files.")
@click.option("--vocab-size", default=8000, show_default=True, help="Number of pieces, shared by both languages.")
@click.option("--max-length", default=128, show_default=True, help="Leave out pairs with more pieces on a side.")
@click.option("--max-ratio", default=3.0, show_default=True, help="Leave out pairs whose sides differ by more.")
@click.option("--sample", default=400_000, show_default=True, help="Pairs that the SentencePiece model is trained on.")
@click.option(
    "--pieces", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="Use this SentencePiece model."
)
def prepare(folder: Path, **values: Any) -> None:
    """Train a SentencePiece model and encode parallel text into FOLDER.

    \b
    Example:
      specmt prepare runs/data --train a.de.gz a.en.gz --train b.de b.en --valid v.de v.en
    """
    from specmt.cli.progress import spinner
    from specmt.training.prepare import PrepareOptions
    from specmt.training.prepare import prepare as run

    with spinner("preparing") as report:
        result = run(folder, PrepareOptions(**values), progress=report)
    click.echo(f"{folder}: {result.kept} pairs kept, {result.left_out} left out, {result.vocab_size} pieces", err=True)
