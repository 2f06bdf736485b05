"""`specmt memory`: translation memories of what was translated."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import click

from specmt.cli.console import note
from specmt.cli.options import PATH, language_options
from specmt.errors import UsageError
from specmt.pairs import read_pairs, write_tmx
from specmt.text.lines import Output


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def memory() -> None:
    """Make a translation memory of translated documents."""


@memory.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("files", type=PATH, nargs=-1, required=True, metavar="FILE...")
@language_options
@click.option("-o", "--output", type=PATH, metavar="FILE", help="Write to this file.")
def export(files: tuple[Path, ...], source: str | None, target: str | None, output: Path | None) -> None:
    """Write what FILEs have in both languages as TMX, each pair once.

    They can be PO, XLIFF, TMX, and TSV as `specmt translate --format tsv` writes it. Translations that are marked to be
    reviewed are left out.

    \b
    Examples:
      specmt memory export messages.po manual.xlf -o memory.tmx
      specmt translate new.po --memory memory.tmx -o new.de.po
    """
    if output is not None and any(output.exists() and path.exists() and output.samefile(path) for path in files):
        raise UsageError(f"`output` and an input are the same file, {output}.")
    from specmt.models.folder import pair_of

    source, target = pair_of(source, target)
    count = 0
    with Output(output) as out:
        pairs = chain.from_iterable(read_pairs(path, source, target) for path in files)
        for text in write_tmx(pairs, source, target):
            out.write(text)
            count += text.startswith("<tu>")
    note(f"{count} pairs")
