"""`specmt glossary`: glossaries of what was translated."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from specmt.cli.console import note
from specmt.cli.memory import known_options
from specmt.text.printable import shown
from specmt.text.terms import suggest as suggested

if TYPE_CHECKING:
    from specmt.update.known import Known

_PLACES = 3
"""How many places of a term are named."""


@click.group()
def glossary() -> None:
    """Propose a glossary of what people translated."""


@glossary.command()
@known_options
@click.option("--least", type=click.IntRange(2), default=3, show_default=True, help="In so many different texts.")
def suggest(languages: tuple[str, str], known: Iterator[Known], output: Path | None, least: int) -> None:
    """Write terms that are translated alike in at least four of five texts: term, translation, how often, places.

    Texts are those of FILES and pairs, as for `specmt memory export`; without any, what people wrote or accepted in the
    project. The list is to be read by a person: what is no term goes out. `--glossary` takes the rest as it is.

    \b
    Example:
      specmt glossary suggest messages.po --pair handbuch.md manual.md -o terms.tsv
    """
    from specmt.text.lines import Output

    terms = suggested(((each.source, each.target, f"{shown(Path(each.file))}:{each.line}") for each in known), least)
    with Output(output) as out:
        for term in terms:
            more = ", …" if len(term.places) > _PLACES else ""
            places = ", ".join(term.places[:_PLACES]) + more
            out.write(f"{term.source}\t{term.target}\t{term.alike} of {term.texts}\t{places}\n")
    note(f"{len(terms)} term{'s' * (len(terms) != 1)}, {languages[0]} to {languages[1]}")
