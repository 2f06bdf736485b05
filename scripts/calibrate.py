#!/usr/bin/env python3
"""Measures how often drafts of a model's drafters stand, by how sure those are, on text that none was trained on.

    scripts/calibrate.py specmt/assets/en-de $SPECMT_CORPORA/tests/newstest2014.de-en.en --write

`auto` begins with that, and counts for itself from the first line on. Bits do not matter, nor does the machine.
"""

from __future__ import annotations

from pathlib import Path

import click

from specmt.models.hub import load_model
from specmt.models.writing import write_calibration
from specmt.text.lines import read_lines
from specmt.training.calibrate import calibrate


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("path", metavar="MODEL", type=click.Path(path_type=Path, exists=True))
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--lines", default=400, show_default=True, help="How many are read of each file, evenly spread.")
@click.option("--write", is_flag=True, help="Store it in the model's configuration.")
def main(path: Path, files: tuple[Path, ...], lines: int, write: bool) -> None:
    """Calibrate the drafters of MODEL on FILES, text in the language that it translates from."""
    model = load_model(path)
    texts: list[str] = []
    for file in files:
        every = [line.text.strip() for line in read_lines(file) if line.text.strip()]
        texts += every[:: max(1, len(every) // lines)]
    sources = [ids for ids in model.pieces.encode_batch(texts) if 1 <= len(ids) < model.max_source_length]
    for name in model.drafters:
        if name != "self":  # a replica says what the verifier does, or nearly so
            found = calibrate(model, name, sources)
            click.echo(f"{path.name}, {name}, {len(sources)} sentences: {found}")
            if write:
                write_calibration(path, name, found)


if __name__ == "__main__":
    main()
