"""`specmt shortlist`: teaches a model which target pieces may be said of a source."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from specmt.cli.options import FILE, FOLDER, place_options
from specmt.errors import UsageError


@click.command()
@click.argument("model", metavar="NAME|DIR")
@click.argument("files", nargs=-1, type=FILE)
@click.option(
    "--distilled", type=FOLDER, metavar="DIR", help="What `specmt distill` wrote with this model, instead of FILES."
)
@click.option("--limit", default=20_000, show_default=True, help="The most sentences, taken at even distances.")
@click.option("--frequent", default=1500, show_default=True, help="So many target pieces may always be said.")
@click.option("--associated", default=100, show_default=True, help="So many more, at most, for each source piece.")
@click.option("--batch-size", default=64, show_default=True, help="Sentences side by side.")
@place_options
def shortlist(
    model: str,
    files: tuple[Path, ...],
    distilled: Path | None,
    limit: int,
    frequent: int,
    associated: int,
    batch_size: int,
    loading: dict[str, Any],
) -> None:
    """Learn which target pieces may be said of a source, for `specmt translate --shortlist`.

    FILES hold text in the source language, plain or .gz. What the model says of it is all that is learnt from; a
    sentence in 20 is kept apart to measure on. The result goes into the model's folder.

    \b
    Examples:
      specmt shortlist nllb-de-en news.de.gz
      specmt shortlist runs/drafter/model --distilled runs/distilled
    """
    if bool(files) == (distilled is not None):
        raise UsageError("Name either FILES or `--distilled`.")
    for name, value in (("limit", limit), ("frequent", frequent), ("associated", associated)):
        if value < 1:
            raise UsageError(f"`{name}` must be at least 1, but is {value} instead.")

    from specmt.cli.console import load
    from specmt.cli.progress import counting_bar
    from specmt.models.folder import ASSETS, find
    from specmt.models.writing import add_shortlist
    from specmt.text.pieces import load_pieces
    from specmt.training.distill import distill
    from specmt.training.lexicon import learn_shortlist, read_distilled

    folder = find(model)
    if folder.path.parent == ASSETS:
        raise UsageError(f"{folder.path} comes with the program and stays as it is; copy it and name the copy.")
    pieces = load_pieces(folder.files, folder.verified)
    with TemporaryDirectory() as place:
        if distilled is None:
            loaded = load(folder.path, **loading)
            with counting_bar("translating") as report:
                distill(Path(place), loaded, files, limit=limit, batch_size=batch_size, report=report)
        data = read_distilled(distilled or Path(place), pieces, limit=limit)
    learnt, config = learn_shortlist(data, pieces, frequent=frequent, associated=associated)
    add_shortlist(folder.path, config, asdict(learnt))
    click.echo(
        f"{folder.path}: of {len(pieces):,} pieces a sentence may say {config.allowed:,.0f}; of the sentences kept "
        f"apart, {config.recall:.2%} of what the model says is among them, and {config.whole:.1%} stay as they are",
        err=True,
    )
