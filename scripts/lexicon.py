#!/usr/bin/env python3
"""Writes into a model what its training text tells of characters and spellings; see docs/training.md.

scripts/lexicon.py specmt/assets/de-en --text runs/de-en/data/text
"""

from __future__ import annotations

from pathlib import Path

import click
from recipe.spellings import learn

from specmt.models.folder import ModelFolder
from specmt.models.writing import add_lexicon


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("model", type=click.Path(path_type=Path, exists=True))
@click.option("--text", required=True, type=click.Path(path_type=Path, exists=True), help="The folder of data.py.")
def main(model: Path, text: Path) -> None:
    """Write the lexicon of MODEL."""
    folder = ModelFolder.read(model)
    lexicon = learn(*(sorted(text.glob(f"*.{language}")) for language in (folder.source, folder.target)))
    add_lexicon(model, lexicon)
    click.echo(f"{model.name}: {len(lexicon.letters)} characters, {len(lexicon.spellings)} spellings")


if __name__ == "__main__":
    main()
