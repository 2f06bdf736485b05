"""`specmt update` and `specmt accept`: translations that follow their sources, and keep what people wrote."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import click

from specmt.cli.console import missing_kernels, note, show_warnings
from specmt.cli.documents import DocumentOptions, reading_options, told
from specmt.cli.options import PATH, decoding_option, decoding_options, given_options, model_options
from specmt.cli.pages import Pages
from specmt.cli.tasks import find_tasks, in_languages, say_left
from specmt.errors import DataError, InputNotFoundError, UsageError
from specmt.formats.dialects import DIALECTS
from specmt.formats.known import CATALOGUES, is_lines
from specmt.options import DecodingOptions, check_effects
from specmt.types import Line, Translation
from specmt.update.store import read_whole

if TYPE_CHECKING:
    from specmt.text.memory import Pair
    from specmt.translator import Translator
    from specmt.update.store import Locks
    from specmt.update.update import Counts, Update

_COMMIT: Final = re.compile(r"^\s*(?:sourceCommit|default_lang_commit):\s*[\"']?([0-9a-f]{7,40})\b", re.MULTILINE)
_FRONT: Final = 4096
"""How many bytes of a translation are looked through for the commit of its source."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("sources", type=PATH, nargs=-1, required=True, metavar="SOURCE...")
@click.option("--into", type=PATH, required=True, metavar="TARGET", help="The translation; a folder, of several.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done; no model is loaded.")
@click.option("--was", metavar="FILE|git:REV", help="The source that TARGET was made of, where there is no record.")
@click.option("--adopt", is_flag=True, help="Take TARGET for a translation of the present source, made by people.")
@click.option("--restore", is_flag=True, help="Translate again what a person deleted from TARGET.")
@click.option("--rebuild", is_flag=True, help="Make DOCX, ODT, EPUB and PPTX anew of the source and the known texts.")
@click.option("--again", type=click.Choice(("m",)), multiple=True, help="Translate again what no person has edited.")
@click.option(
    "--obsolete",
    type=click.Choice(("keep", "remove")),
    default="keep",
    show_default=True,
    help="What becomes of entries of catalogues that their source has no more.",
)
@click.option("--file-format", metavar="FORMAT", help="Read all as this format.  [default: by suffix]")
@click.option("--fuzzy/--no-fuzzy", default=True, show_default=True, help="Mark translations in PO and XLIFF.")
@click.option("--column", multiple=True, metavar="NAME[=NAME]", help="A column of CSV or TSV that is translated.")
@click.option("--key", multiple=True, metavar="NAME", help="A key of Markdown's front matter that is translated.")
@click.option("--dialect", type=click.Choice(DIALECTS), default="auto", show_default=True, help="The site of Markdown.")
@click.option(
    "--anchors",
    type=click.Choice(("auto", "explicit", "rewrite", "keep")),
    default="auto",
    show_default=True,
    help="What keeps links to headings of Markdown.",
)
@model_options
@decoding_options(block_sizes="auto: chosen by speed; with --tolerance, the model's own number.")
@decoding_option("glossary", "Terms that must be used, TBX or TSV.", "FILE", type=PATH)
@click.option("-q", "--quiet", is_flag=True, help="No progress, notes and warnings.")
def update(
    sources: tuple[Path, ...],
    into: Path,
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
    translated is remembered in `.specmt/`, which belongs into version control. A TARGET that is missing is made.

    \b
    Examples:
      specmt update handbuch/ --into manual/
      specmt update de.json --into en.json --dry-run
      specmt update README.de.md --into README.md --was git:v1.2
    """
    given = {each.name: more.pop(each.name) for each in fields(DocumentOptions) if each.name in more}
    documents = DocumentOptions(retranslate_fuzzy=False, everything=False, exact=True, report=None, **given)
    options = DecodingOptions(**more)
    check_effects(options, given_options())
    show_warnings(quiet=quiet)
    tasks, left = find_tasks(
        [*sources], into, documents.file_format or _lines(sources), language=loading["source"], columns=documents.column
    )
    if left and not quiet:
        note(say_left(left))
    damaged: list[str] = []
    tasks = in_languages(tasks, model, loading, damaged, is_sure="source" in given_options())
    if was is not None and len(tasks) > 1 and not was.startswith("git:"):
        raise UsageError("`was` must be git:REV for several files, as each has its own.")

    from specmt.models.folder import find
    from specmt.update.plan import PlanOptions
    from specmt.update.store import Files, Locks, record_beside, store
    from specmt.update.update import Counts, Updated, open_update, update_all

    folder = find(model, source=loading["source"], target=loading["target"])
    languages = folder.source, folder.target
    plans = PlanOptions(adopt=adopt, restore=restore, rebuild=rebuild, again=frozenset(again), obsolete=obsolete)
    late = _Late(partial(_load, model, loading, quiet=quiet))
    total, count = Counts(), 0

    def fail(error: DataError) -> None:
        if len(tasks) == 1:
            raise error
        damaged.append(str(error))
        click.echo(f"specmt: error: {error}", err=True)

    _, format_options = reading_options(languages, options, documents)
    same = 0

    def prepared(locks: Locks) -> Iterator[Update]:
        nonlocal same
        pages = Pages(tasks)
        for task in tasks:
            assert task.source is not None and task.target is not None
            files = Files(task.source, task.target, record_beside(task.target), task.file_format)
            asked = plans if task.file_format in CATALOGUES else replace(plans, obsolete=None)
            try:
                if not dry_run:
                    locks.hold(files)
                made_of = partial(_earlier, task.source, was)
                each = open_update(files, pages.options(task, format_options), asked, made_of, is_dry=dry_run)
            except DataError as error:
                fail(error)
                continue
            same += each is None
            if each is not None:
                yield each

    with Locks() as locks:
        updates = prepared(locks)
        language = languages[0]
        done = updates if dry_run else update_all(updates, late, options, late.remember, language=language, fail=fail)
        for each in done:
            if isinstance(each, Updated) and each.record is not None:
                store(each.files, each.data, each.record)
            for line in told(each.files.name, [*each.remarks]) if not quiet else ():
                click.echo(f"specmt: warning: {line}", err=True)
            total += each.counts
            count += 1
    if not quiet:
        note(_sentence(total, count, same, is_dry=dry_run))
    if damaged:
        many = len(damaged) > 1
        raise DataError(
            f"{len(damaged)} document{'s' * many} {'are' if many else 'is'} left; the others are up to date."
        )


def _lines(sources: Sequence[Path]) -> str | None:
    """Returns the format of the only file if that is one of lines, which other commands do not take for a document."""
    return "text" if len(sources) == 1 and is_lines(sources[0].name) and not sources[0].is_dir() else None


def _earlier(source: Path, was: str | None, target: bytes) -> bytes | None:
    """Returns the source that a translation was made of, if the user or its own front matter says which.

    :raises InputNotFoundError: there is none as the user says.
    """
    if was is not None and not was.startswith("git:"):
        return read_whole(Path(was))
    said = _COMMIT.search(target[:_FRONT].decode("utf-8", "replace")) if was is None else None
    revision = said[1] if said else was.removeprefix("git:") if was is not None else None
    if revision is None:
        return None
    name = f"{revision}:./{source.name}"
    asked = ["git", "-C", str(source.resolve().parent), "show", "--end-of-options", name]
    try:
        shown = subprocess.run(asked, capture_output=True, check=False)
    except OSError as error:
        raise InputNotFoundError(f"git: cannot be run ({error.strerror}).") from error
    if shown.returncode and was is not None:
        raise InputNotFoundError(f"{source}: git does not have it as of {revision}.")
    return None if shown.returncode else shown.stdout


def _sentence(total: Counts, count: int, same: int, *, is_dry: bool) -> str:
    said = f"{count + same} document{'s' * (count + same != 1)}, {same} of them as before"
    names = ("translated", "outdated", "deleted", "removed")
    done = ", ".join(f"{number} {name}" for name in names if (number := getattr(total, name)))
    return f"{said}: {'would be ' * is_dry}{done}" if done else said


def _load(model: str | None, loading: dict[str, Any], *, quiet: bool) -> Translator:
    from specmt.translator import Translator

    translator = Translator.from_pretrained(model, **loading)
    if not quiet and (missing := missing_kernels(translator.model)) is not None:
        note(missing)
    return translator


@final
class _Late:
    """A translator that is loaded when the first line comes."""

    def __init__(self, load: Callable[[], Translator]) -> None:
        self._load = cache(load)

    def remember(self, pairs: Iterable[Pair], options: DecodingOptions) -> None:
        """Takes what drafts are copied from."""
        self._load().remember(pairs, options)

    def translate(self, lines: Iterable[Line], options: DecodingOptions) -> Iterator[Translation]:
        """Translates lines, in order."""
        lines = iter(lines)
        first = next(lines, None)
        if first is not None:
            yield from self._load().translate(chain([first], lines), options)
