"""`specmt update`: translations that follow their sources, and keep what people wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from specmt.cli.console import show_warnings
from specmt.cli.options import (
    ANCHORS,
    DOCUMENT_NAMES,
    PATH,
    DocumentOptions,
    choice_option,
    decoding_option,
    decoding_options,
    fuzzy_below_option,
    given_options,
    model_options,
)
from specmt.errors import UsageError
from specmt.formats.dialects import DIALECTS
from specmt.options import DecodingOptions, check_effects


@click.command()
@click.argument("sources", type=PATH, nargs=-1, metavar="[SOURCE]...")
@click.option(
    "--into", type=PATH, metavar="TARGET", help="The translation; a folder, of several.  [default: as specmt.toml says]"
)
@click.option("--dry-run", is_flag=True, help="Only say what would be done; no model is loaded.")
@click.option("--was", metavar="FILE|git:REV", help="The source that TARGET was made of, where there is no record.")
@click.option("--adopt", is_flag=True, help="Take TARGET for a translation of the present source, made by people.")
@click.option("--restore", is_flag=True, help="Translate again what a person deleted from TARGET.")
@click.option("--rebuild", is_flag=True, help="Make packages (DOCX, EPUB, …) anew of the source and the known texts.")
@click.option("--again", type=click.Choice(("m",)), multiple=True, help="Translate again what no person has edited.")
@choice_option("obsolete", ("keep", "remove"), "What becomes of entries of catalogues that their source has no more.")
@click.option("--file-format", metavar="FORMAT", help="Read all as this format.  [default: by suffix]")
@click.option("--fuzzy/--no-fuzzy", default=True, show_default=True, help="Mark translations for review.")
@fuzzy_below_option
@click.option("--column", multiple=True, metavar="NAME[=NAME]", help="A column of CSV or TSV that is translated.")
@click.option("--key", multiple=True, metavar="NAME", help="A key of Markdown's front matter that is translated.")
@choice_option("dialect", DIALECTS, "The site of Markdown.")
@choice_option("anchors", ANCHORS, "What keeps links to headings of Markdown.")
@model_options
@decoding_options(block_sizes="auto: chosen by speed; with --tolerance, the model's own number.")
@decoding_option("glossary", "Terms that must be used, TBX or TSV.", "FILE", type=PATH)
@click.option("--report", type=PATH, metavar="FILE", help="Write a page on what was done, as HTML.")
@click.option("-q", "--quiet", is_flag=True, help="No progress, notes and warnings.")
def update(
    sources: tuple[Path, ...],
    into: Path | None,
    dry_run: bool,
    was: str | None,
    adopt: bool,
    restore: bool,
    rebuild: bool,
    again: tuple[str, ...],
    obsolete: Any,
    model: str | None,
    loading: dict[str, Any],
    quiet: bool,
    **more: Any,
) -> None:
    """Bring TARGET, a translation of SOURCE, up to date: translate what is new or changed, and nothing else.

    What people wrote in TARGET stays as it is; where its source has changed, a draft is shown instead. Whatever was
    translated is remembered in `.specmt/`, which belongs into version control. A TARGET that is missing is made. In a
    project with a specmt.toml, SOURCE and TARGET can be left out: all is meant then, or what SOURCE names.

    \b
    Examples:
      specmt update handbuch/ --into manual/
      specmt update de.json --into en.json --dry-run
      specmt update README.de.md --into README.md --was git:v1.2
    """
    of_documents = {name: more.pop(name) for name in DOCUMENT_NAMES if name in more}
    documents = DocumentOptions(retranslate_fuzzy=False, everything=False, exact=True, **of_documents)
    report = documents.report
    options = DecodingOptions(**more, scores=documents.fuzzy_below is not None or report is not None)
    given = given_options()
    check_effects(options, given)
    show_warnings(quiet=quiet)
    if report is not None and dry_run:
        raise UsageError("`--report` does not go together with `--dry-run`; leave one out.")

    from specmt.cli.updating import bring_up_to_date
    from specmt.update.plan import PlanOptions

    plans = PlanOptions(adopt=adopt, restore=restore, rebuild=rebuild, again=frozenset(again), obsolete=obsolete)
    bring_up_to_date(sources, into, was, plans, model, loading, options, documents, given, is_dry=dry_run, quiet=quiet)
