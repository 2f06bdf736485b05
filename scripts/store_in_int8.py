"""Writes a model folder with its networks in int8, half the size of float16; what is stored is then the model.

Example: python scripts/store_in_int8.py runs/de-en/both/model runs/de-en/model
"""

from __future__ import annotations

from pathlib import Path

import click

from specmt.models.folder import ModelFolder
from specmt.models.writing import store_in_int8


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
def main(model: Path, out: Path) -> None:
    """Writes MODEL into OUT."""
    store_in_int8(out, ModelFolder.read(model))


if __name__ == "__main__":
    main()
