"""`specmt check`: whether translations are there, up to date and whole."""

from __future__ import annotations

from typing import Any

import click

from specmt.check.findings import KINDS
from specmt.check.reports import REPORTS
from specmt.cli.options import PATH
from specmt.errors import UsageError
from specmt.formats.dialects import DIALECTS


@click.command()
@click.argument("paths", type=PATH, nargs=-1, metavar="[PATH]... | SOURCE TARGET")
@click.option("--from", "source", metavar="LANG", help="Language of SOURCE.  [default: de]")
@click.option(
    "--to", "target", metavar="LANG", help="Language of TARGET, or the only one looked at.  [default: en; all]"
)
@click.option("--file-format", metavar="FORMAT", help="Read SOURCE and TARGET as this format.  [default: by suffix]")
@click.option("--column", multiple=True, metavar="NAME", help="A column of CSV or TSV that is compared.")
@click.option("--dialect", type=click.Choice(DIALECTS), default="auto", show_default=True, help="The site of Markdown.")
@click.option("--glossary", type=PATH, metavar="FILE", help="Terms that must be used, TSV.  [default: the project's]")
@click.option("--ignore", multiple=True, metavar="KIND", help=f"Say nothing of this: {', '.join(KINDS)}.")
@click.option("--output", type=click.Choice(tuple(REPORTS)), default="text", show_default=True, help="What is written.")
@click.option(
    "--fail-on",
    type=click.Choice(("error", "warning", "never")),
    help="What makes the exit code 65.  [default: the project's, else warning]",
)
@click.option("--baseline", type=PATH, metavar="FILE", help="Say nothing of what is in this file.")
@click.option("--write-baseline", is_flag=True, help="Write all that is found to --baseline, for later.")
def check(
    file_format: str | None, column: tuple[str, ...], dialect: str, ignore: tuple[str, ...], **values: Any
) -> None:
    """Look for translations that are missing, outdated, left in the source's language, or damaged.

    All of a project (specmt.toml), or those at PATH; or TARGET against SOURCE, without one. A line each, as
    `file:line: kind: what`; nothing is changed.

    \b
    Examples:
      specmt check
      specmt check docs/ --output github --fail-on error
      specmt check handbuch/start.md manual/start.md
    """
    for kind in ignore:
        if kind not in KINDS:
            raise UsageError(f"`ignore` must be one of {', '.join(KINDS)}, but is {kind!r} instead.")

    from specmt.cli.checking import look
    from specmt.project import Settings

    look(settings=Settings(file_format, columns=column, dialect=dialect), ignore=ignore, **values)
