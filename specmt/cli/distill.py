"""`specmt distill`: the verifier's output over a corpus, as training data for a drafter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from specmt.cli.options import FILE, FOLDER, place_options


@click.command()
@click.argument("folder", type=FOLDER)
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.option("--model", required=True, help="Model folder or name.")
@click.option("--limit", type=int, help="The most sentences, taken at even distances.")
@click.option("--max-length", default=100, show_default=True, help="Leave out sentences with more pieces.")
@click.option("--batch-size", default=64, show_default=True, help="Sentences side by side.")
@place_options
def distill(folder: Path, files: tuple[Path, ...], model: str, loading: dict[str, Any], **values: Any) -> None:
    """Write the model's greedy output over source-language FILES into FOLDER; a second call goes on.

    \b
    Example:
      specmt distill runs/distilled corpus.de.gz --model runs/verifier/model --limit 100000
    """
    from specmt.cli.console import load
    from specmt.cli.progress import counting_bar
    from specmt.training.distill import distill as run

    loaded = load(model, **loading)
    with counting_bar("distilling") as report:
        pairs = run(folder, loaded, files, report=report, **values)
    click.echo(f"{folder}: {pairs} pairs", err=True)
