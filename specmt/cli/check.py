"""`specmt check`: whether a translation has the blocks, links, code and tags of its source."""

from __future__ import annotations

from pathlib import Path

import click

from specmt.cli.options import PATH
from specmt.cli.tasks import find_tasks
from specmt.errors import DataError, UsageError
from specmt.formats.document import check_size
from specmt.formats.encoding import decode
from specmt.formats.shape import blocks_of, compare
from specmt.text.lines import open_input, reading


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("source", type=PATH)
@click.argument("target", type=PATH)
@click.option("--file-format", metavar="FORMAT", help="Read both as this format.  [default: by suffix]")
def check(source: Path, target: Path, file_format: str | None) -> None:
    """Compare TARGET, a translation, with SOURCE, block by block: markup, links, code, images, tags and attributes.

    A line for each difference, with the line of the source; exit code 65 where there is one. Markdown is read by cmark.

    \b
    Example:
      specmt check handbuch/start.md manual/start.md
    """
    tasks = find_tasks([source], None, file_format).tasks
    if not tasks or tasks[0].file_format != "markdown":
        raise UsageError(f"{source}: has a format that is not checked; Markdown is.")
    mdx = source.suffix == ".mdx"
    one, other = (blocks_of(_read(path), mdx=mdx) for path in (source, target))
    faults = list(compare(one, other))
    for fault in faults:
        click.echo(f"{source}:{fault.lines[0]}: {fault.text}")
    if faults:
        raise DataError(f"{target}: differs from {source} in {len(faults)} block{'s' * (len(faults) > 1)}.")


def _read(path: Path) -> str:
    stream = open_input(path)
    with reading(stream, str(path)):
        data = stream.read()
    try:
        check_size(len(data))
        return decode(data)[0]
    except DataError as error:
        raise DataError(f"{path}: {error}.") from error
