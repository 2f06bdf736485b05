"""`specmt update` and `specmt accept`: translations that follow their sources, and keep what people wrote."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import click

from specmt.cli.console import missing_kernels, note, show_warnings
from specmt.cli.documents import reading_options, told
from specmt.cli.options import (
    PATH,
    DocumentOptions,
    decoding_option,
    decoding_options,
    fuzzy_below_option,
    given_options,
    model_options,
)
from specmt.cli.pages import Pages
from specmt.cli.tasks import Task, find_tasks, in_languages, say_left
from specmt.errors import DataError, InputNotFoundError, UsageError
from specmt.formats.dialects import DIALECTS
from specmt.formats.document import FormatOptions
from specmt.formats.known import CATALOGUES, is_lines
from specmt.options import DecodingOptions, check_effects
from specmt.pairs import read_pairs
from specmt.project import Project, find_project
from specmt.types import Line, Translation
from specmt.update.known import Approved, approved_in, translations_in
from specmt.update.outcome import Counts
from specmt.update.plan import PlanOptions
from specmt.update.renamed import find_renamed, move
from specmt.update.store import END, FOLDER, Files, Locks, read_whole, record_beside, record_in, store, target_of
from specmt.update.update import Update, Updated, open_update, update_all

if TYPE_CHECKING:
    from specmt.text.memory import Pair
    from specmt.translator import Translator

_COMMIT: Final = re.compile(r"^\s*(?:sourceCommit|default_lang_commit):\s*[\"']?([0-9a-f]{7,40})\b", re.MULTILINE)
_FRONT: Final = 4096
"""How many bytes of a translation are looked through for the commit of its source."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("sources", type=PATH, nargs=-1, metavar="[SOURCE]...")
@click.option(
    "--into", type=PATH, metavar="TARGET", help="The translation; a folder, of several.  [default: as specmt.toml says]"
)
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
@fuzzy_below_option
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
    given = {each.name: more.pop(each.name) for each in fields(DocumentOptions) if each.name in more}
    documents = DocumentOptions(retranslate_fuzzy=False, everything=False, exact=True, report=None, **given)
    options = DecodingOptions(**more, scores=documents.fuzzy_below is not None)
    check_effects(options, given_options())
    show_warnings(quiet=quiet)
    plans = PlanOptions(adopt=adopt, restore=restore, rebuild=rebuild, again=frozenset(again), obsolete=obsolete)
    damaged: list[str] = []
    project = find_project(Path.cwd() if not sources else sources[0].absolute().parent) if into is None else None
    if into is not None and sources:
        groups = [_named(sources, into, model, loading, options, documents, plans, damaged, quiet=quiet)]
    elif project is not None:
        groups = _in_project(project, sources, model, loading, options, plans, documents.fuzzy_below)
    else:
        raise UsageError("SOURCE and `into` must be given where there is no specmt.toml.")
    count = sum(len(group.jobs) for group in groups)
    if was is not None and count > 1 and not was.startswith("git:"):
        raise UsageError("`was` must be git:REV for several files, as each has its own.")
    run = _Run(was, damaged, is_dry=dry_run, is_alone=count == 1, quiet=quiet)
    for group in groups:
        run.bring(group, _Late(partial(_load, group.model, group.loading, quiet=quiet), group.keep))
    if not quiet:
        note(run.sentence())
    if damaged:
        many = len(damaged) > 1
        raise DataError(
            f"{len(damaged)} document{'s' * many} {'are' if many else 'is'} left; the others are up to date."
        )


@dataclass(frozen=True)
class _Job:
    files: Files
    formats: FormatOptions
    plans: PlanOptions


@dataclass(frozen=True)
class _Group:
    """Translations into one language."""

    language: str
    """That is translated from."""

    jobs: list[_Job]
    model: str | None
    loading: dict[str, Any]
    options: DecodingOptions
    orphans: list[Files]
    """Records whose sources are gone."""

    known: Callable[[], Iterable[tuple[Files, FormatOptions]]]
    """Returns translations in which people may have approved some texts."""
    memory: Sequence[Path]
    keep: Sequence[str] = ()
    """Terms that stay as they are."""

    def approved(self) -> Iterator[Pair]:
        """Yields what people approved, and what translation memories have."""
        yield from approved_in(self.known())
        for path in self.memory if self.jobs else ():
            yield from read_pairs(path, self.jobs[0].formats.source, self.jobs[0].formats.target)


def _named(
    sources: Sequence[Path],
    into: Path,
    model: str | None,
    loading: dict[str, Any],
    options: DecodingOptions,
    documents: DocumentOptions,
    plans: PlanOptions,
    damaged: list[str],
    *,
    quiet: bool,
) -> _Group:
    """Returns the translations that the user names."""
    from specmt.models.folder import find

    file_format = documents.file_format or _lines(sources)
    tasks, left = find_tasks([*sources], into, file_format, language=loading["source"], columns=documents.column)
    if left and not quiet:
        note(say_left(left))
    tasks = in_languages(tasks, model, loading, damaged, is_sure="source" in given_options())
    folder = find(model, source=loading["source"], target=loading["target"])
    _, formats = reading_options((folder.source, folder.target), options, documents)
    pages = Pages(tasks)
    jobs = [
        _Job(
            _files(task, record_beside(task.target)), pages.options(task, formats), _of_format(plans, task.file_format)
        )
        for task in tasks
        if task.target is not None
    ]
    used = {job.files.record for job in jobs}
    records = into.rglob(f"{FOLDER}/*{END}") if into.is_dir() else ()
    orphans = [Files(path, target_of(path), path, "") for path in sorted(records) if path not in used]
    memory = () if options.memory is None else (options.memory,)
    own = partial(map, attrgetter("files", "formats"), jobs)
    return _Group(folder.source, jobs, model, loading, options, orphans, own, memory)


def _in_project(
    project: Project,
    sources: Sequence[Path],
    model: str | None,
    loading: dict[str, Any],
    options: DecodingOptions,
    plans: PlanOptions,
    fuzzy_below: float | None,
) -> list[_Group]:
    """Returns the translations of a project, by language."""
    fuzzy_below = project.fuzzy_below if fuzzy_below is None else fuzzy_below
    options = replace(options, scores=fuzzy_below is not None)
    pairs = [*project.pairs(sources)]
    groups = []
    for to in dict.fromkeys(pair.to for pair in pairs):
        own = [pair for pair in pairs if pair.to == to]
        tasks = [Task(pair.source, pair.target, pair.file_format) for pair in own]
        pages, jobs = Pages(tasks), []
        for task, pair in zip(tasks, own, strict=True):
            base = pair.settings.options(FormatOptions(source=project.source_language, target=to))
            base = replace(base, fuzzy_below=fuzzy_below)
            formats = replace(pages.options(task, base), rebase=project.rebase(pair))
            asked = plans if plans.obsolete == "remove" else replace(plans, obsolete=pair.settings.obsolete)
            record = record_in(project.folder, to, pair.source.relative_to(project.folder))
            jobs.append(_Job(_files(task, record), formats, _of_format(asked, pair.file_format)))
        told = replace(options, glossary=options.glossary or project.glossary.get(to))
        memory = project.memory if options.memory is None else (options.memory,)
        told = replace(told, memory=next(iter(memory), None))
        languages = {"source": loading["source"] or project.source_language, "target": loading["target"] or to}
        orphans = [] if sources else _orphans(project, to, {job.files.record for job in jobs})
        known = partial(translations_in, project, to)
        name, loaded = model or project.model, loading | languages
        groups.append(_Group(project.source_language, jobs, name, loaded, told, orphans, known, memory, project.keep))
    return groups


def _orphans(project: Project, to: str, used: Collection[Path]) -> list[Files]:
    """Returns the records of a project whose sources are gone, and where their translations are."""
    top = record_in(project.folder, to, Path("any")).parent
    found = []
    for path in sorted(top.rglob(f"*{END}")):
        source = project.folder / path.relative_to(top).with_name(path.name.removesuffix(END))
        target = project.target_of(source, to)
        if path not in used and not source.exists() and target is not None:
            found.append(Files(source, target, path, ""))
    return found


def _files(task: Task, record: Path) -> Files:
    assert task.source is not None and task.target is not None
    return Files(task.source, task.target, record, task.file_format)


def _of_format(plans: PlanOptions, file_format: str) -> PlanOptions:
    return plans if file_format in CATALOGUES else replace(plans, obsolete=None)


class _Run:
    """Brings translations up to date, and says what was done."""

    def __init__(self, was: str | None, damaged: list[str], *, is_dry: bool, is_alone: bool, quiet: bool) -> None:
        self._was = was
        self._damaged = damaged
        self._is_dry = is_dry
        self._is_alone = is_alone
        self._quiet = quiet
        self._total = Counts()
        self._count = self._same = 0

    def bring(self, group: _Group, late: _Late) -> None:
        """Brings some up to date.

        :raises DataError: the only one is damaged, or does not belong to its source.
        """
        with Locks() as locks:
            updates = self._prepared(group, locks)
            done: Iterable[Update | Updated] = updates
            if not self._is_dry:
                done = update_all(
                    updates,
                    late,
                    group.options,
                    late.remember,
                    language=group.language,
                    fail=self._fail,
                    approved=Approved(group.approved),
                )
            for each in done:
                if isinstance(each, Updated) and each.record is not None:
                    store(each.files, each.data, each.record)
                for line in told(each.files.name, [*each.remarks]) if not self._quiet else ():
                    click.echo(f"specmt: warning: {line}", err=True)
                self._total += each.counts
                self._count += 1

    def _prepared(self, group: _Group, locks: Locks) -> Iterator[Update]:
        for job in group.jobs:
            try:
                if not self._is_dry:
                    locks.hold(job.files)
                self._follow(job, group.orphans)
                made_of = partial(_earlier, job.files.source, self._was)
                update = open_update(job.files, job.formats, job.plans, made_of, is_dry=self._is_dry)
            except DataError as error:
                self._fail(error)
                continue
            self._same += update is None
            if update is not None:
                yield update

    def _follow(self, job: _Job, orphans: list[Files]) -> None:
        """Moves the translation of a source that was renamed."""
        old = find_renamed(job.files, orphans, job.formats) if orphans else None
        if old is None:
            return
        orphans.remove(old)
        if not self._quiet:
            note(f"{old.target} {'would become' if self._is_dry else 'is now'} {job.files.target}, as its source")
        if not self._is_dry:
            move(old, job.files)

    def _fail(self, error: DataError) -> None:
        if self._is_alone:
            raise error
        self._damaged.append(str(error))
        click.echo(f"specmt: error: {error}", err=True)

    def sentence(self) -> str:
        """Returns what was done."""
        count = self._count + self._same
        said = f"{count} document{'s' * (count != 1)}, {self._same} of them as before"
        names = ("translated", "outdated", "deleted", "removed")
        done = ", ".join(f"{number} {name}" for name in names if (number := getattr(self._total, name)))
        return f"{said}: {'would be ' * self._is_dry}{done}" if done else said


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


def _load(model: str | None, loading: dict[str, Any], *, quiet: bool) -> Translator:
    from specmt.translator import Translator

    translator = Translator.from_pretrained(model, **loading)
    if not quiet and (missing := missing_kernels(translator.model)) is not None:
        note(missing)
    return translator


@final
class _Late:
    """A translator that is loaded when the first line comes."""

    def __init__(self, load: Callable[[], Translator], keep: Sequence[str]) -> None:
        self._load = cache(load)
        self._given: dict[str, Any] = {"glossary": {term: [term] for term in keep}} if keep else {}

    def remember(self, pairs: Iterable[Pair], options: DecodingOptions) -> None:
        """Takes what drafts are copied from."""
        self._load().remember(pairs, options)

    def translate(self, lines: Iterable[Line], options: DecodingOptions) -> Iterator[Translation]:
        """Translates lines, in order."""
        lines = iter(lines)
        first = next(lines, None)
        if first is not None:
            yield from self._load().translate(chain([first], lines), options, **self._given)
