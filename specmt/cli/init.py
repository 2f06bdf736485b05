"""`specmt init`: a project file, by what is there."""

from __future__ import annotations

from pathlib import Path

import click

from specmt.cli.console import note
from specmt.cli.options import PATH
from specmt.errors import InputNotFoundError, UsageError
from specmt.files import write_whole
from specmt.project import NAME
from specmt.proposal import Rule, propose
from specmt.text.printable import printable


@click.command()
@click.argument("folder", type=PATH, default=Path())
@click.option("--from", "source", metavar="LANG", help="The language that is translated from.  [default: as is found]")
@click.option("--to", "languages", metavar="LANG", multiple=True, help="One to translate into.  [default: as is found]")
@click.option("--write", is_flag=True, help="Write it, too.")
@click.option("--force", is_flag=True, help="Replace one that is there.")
def init(folder: Path, source: str | None, languages: tuple[str, ...], write: bool, force: bool) -> None:
    """Propose a project file, specmt.toml, for FOLDER, and show it.

    It says what fits the files that are there: those of Docusaurus, MkDocs, Hugo, VitePress, Sphinx, Rails, Android,
    Qt, gettext and Apple, what crowdin.yml says, and names with the code of a language.

    \b
    Examples:
      specmt init
      specmt init --from de --to en --write
    """
    if not folder.is_dir():
        raise InputNotFoundError(f"{folder}: no such folder.")
    path = folder / NAME
    if write and path.exists() and not force:
        raise UsageError(f"{path}: is there already; --force replaces it.")
    proposal = propose(folder, source, languages)
    click.echo(printable(str(proposal), lines=True), nl=False)
    for rule in proposal.rules:
        counts = ", ".join(f"{to} {rule.translated[to]}" for to in proposal.languages if rule.translated[to])
        note(f"{rule.source}: {_files(rule)}; translated: {counts or 'none'}")
        if rule.maker:
            note(f"`{rule.maker}` makes them")
    for rule in proposal.others:
        note(f"{rule.source} is left out: {_files(rule)}, none translated")
    if write:
        write_whole(path, str(proposal))
    else:
        note(f"{path} is not written; --write does.")


def _files(rule: Rule) -> str:
    return f"{len(rule.sources)} file{'s' * (len(rule.sources) != 1)}"
