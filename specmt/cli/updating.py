"""What `specmt update` does once its options are read: brings groups of translations up to date, and says so."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import click

from specmt.cli.console import load, note
from specmt.cli.documents import report_page, told
from specmt.cli.groups import Group, Job, in_project, named
from specmt.cli.options import DocumentOptions
from specmt.cli.projects import say_rest
from specmt.documents import Selection, Summary
from specmt.errors import DataError, InputNotFoundError, UsageError
from specmt.options import DecodingOptions
from specmt.project import find_project
from specmt.text.likeness import Nearest
from specmt.text.lines import Output
from specmt.text.printable import shown
from specmt.types import Line, Translation
from specmt.update.known import Approved
from specmt.update.links import Links
from specmt.update.outcome import Counts
from specmt.update.plan import PlanOptions
from specmt.update.renamed import find_renamed, move
from specmt.update.store import Files, Locks, read_whole, store
from specmt.update.update import Update, Updated, open_update, update_all

if TYPE_CHECKING:
    from specmt.text.memory import Pair
    from specmt.translator import Translator

_COMMIT: Final = re.compile(r"^\s*(?:sourceCommit|default_lang_commit):\s*[\"']?([0-9a-f]{7,40})\b", re.MULTILINE)
_FRONT: Final = 4096
"""How many bytes of a translation are looked through for the commit of its source."""


def bring_up_to_date(
    sources: tuple[Path, ...],
    into: Path | None,
    was: str | None,
    plans: PlanOptions,
    model: str | None,
    loading: dict[str, Any],
    options: DecodingOptions,
    documents: DocumentOptions,
    given: Collection[str],
    *,
    is_dry: bool,
    quiet: bool,
) -> None:
    """Brings translations up to date, those of a project or what the user names.

    :raises UsageError: what is meant is not clear.
    :raises DataError: a document is damaged, or does not belong to its source.
    """
    damaged: list[str] = []
    project = find_project(Path.cwd() if not sources else sources[0].absolute().parent) if into is None else None
    if into is not None and sources:
        groups = [named(sources, into, model, loading, options, documents, plans, damaged, quiet=quiet)]
    elif project is not None:
        for line in say_rest(project, sources) if not quiet else ():
            note(line)
        groups = in_project(project, sources, model, loading, options, documents, plans, given)
    else:
        raise UsageError("SOURCE and `into` must be given where there is no specmt.toml.")
    jobs = [job for group in groups for job in group.jobs]
    count = len(jobs)
    if was is not None and count > 1 and not was.startswith("git:"):
        raise UsageError("`was` must be git:REV for several files, as each has its own.")
    if was is not None and not quiet and (known := sum(job.files.record.exists() for job in jobs)):
        note(f"`--was` has no effect on {known} of {count} documents, which have a record.")
    run = _Run(was, damaged, is_dry=is_dry, is_alone=count == 1, quiet=quiet)
    report = documents.report
    with nullcontext() if report is None else Output(report) as out:
        for group in groups:
            run.bring(group, _Late(partial(_load, group.model, group.loading, quiet=quiet)), shows=out is not None)
        if out is not None:
            out.write(report_page(run.rows, run.summary))
    if not quiet:
        note(run.sentence())
    if damaged:
        many = len(damaged) > 1
        raise DataError(
            f"{len(damaged)} document{'s' * many} {'are' if many else 'is'} left; the others are up to date."
        )


class _Run:
    """Brings translations up to date, and says what was done."""

    def __init__(self, was: str | None, damaged: list[str], *, is_dry: bool, is_alone: bool, quiet: bool) -> None:
        self._was = was
        self._damaged = damaged
        self._is_dry = is_dry
        self._is_alone = is_alone
        self._quiet = quiet
        self._total = Counts()
        self.rows: list[tuple[str, Summary]] = []
        """The names of translations, and what was done with their segments."""
        self.summary = Summary()
        """Of all of them."""
        self._count = self._same = self._unknown = 0

    def bring(self, group: Group, late: _Late, *, shows: bool) -> None:
        """Brings some up to date.

        :param shows: whether what texts are like is shown
        :raises DataError: the only one is damaged, or does not belong to its source.
        """
        links = Links((job.files, job.formats) for job in group.jobs)
        with Locks() as locks:
            updates = self._prepared(group, locks)
            done: Iterable[Update | Updated] = updates
            if not self._is_dry:
                approved = Approved(group.approved)
                done = update_all(
                    updates,
                    late,
                    group.options,
                    late.remember,
                    language=group.language,
                    fail=self._fail,
                    selection=Selection(known=approved, nearest=Nearest(approved) if shows else None),
                )
            for each in done:
                if isinstance(each, Updated):
                    links.note(each)
                    self.rows.append((each.files.name, each.summary))
                    self.summary += each.summary
                    if each.record is not None:
                        store(each.files, each.data, each.record)
                for line in told(each.files.name, [*each.remarks]) if not self._quiet else ():
                    click.echo(f"specmt: warning: {line}", err=True)
                if self._is_dry and not self._is_alone and not self._quiet and (what := _said(each.counts)):
                    note(f"{each.files.name}: would be {what}")
                self._total += each.counts
                self._count += 1
            for made in links.relinked():
                store(*made)

    def _prepared(self, group: Group, locks: Locks) -> Iterator[Update]:
        for job in group.jobs:
            try:
                if not self._is_dry:
                    locks.hold(job.files)
                files = self._follow(job, group.orphans)
                made_of = partial(_earlier, job.files.source, self._was)
                update = open_update(files, job.formats, job.plans, made_of, is_dry=self._is_dry)
            except DataError as error:
                self._fail(error)
                continue
            self._same += update is None
            if update is not None:
                self._unknown += update.known is None and bool(update.outdated)
                yield update
        for old in group.orphans if not self._quiet else ():
            if old.target.exists() and not old.source.exists():
                note(f"{old.name}: its source, {shown(old.source)}, is gone")

    def _follow(self, job: Job, orphans: list[Files]) -> Files:
        """Moves the translation of a source that was renamed; returns where it is."""
        old = find_renamed(job.files, orphans, job.formats) if orphans else None
        if old is None:
            return job.files
        orphans.remove(old)
        if not self._quiet:
            note(f"{old.name} {'would become' if self._is_dry else 'is now'} {job.files.name}, as its source")
        if self._is_dry:
            return replace(job.files, target=old.target, record=old.record)
        move(old, job.files)
        return job.files

    def _fail(self, error: DataError) -> None:
        if self._is_alone:
            raise error
        self._damaged.append(str(error))
        click.echo(f"specmt: error: {error}", err=True)

    def sentence(self) -> str:
        """Returns what was done."""
        count = self._count + self._same
        said = f"{count} document{'s' * (count != 1)}, {self._same} of them as before"
        done = _said(self._total)
        advice = f"; {self._unknown} without a record: `--adopt` takes them as up to date" if self._unknown else ""
        return (f"{said}: {'would be ' * self._is_dry}{done}" if done else said) + advice


def _said(counts: Counts) -> str:
    names = ("translated", "outdated", "deleted", "removed")
    return ", ".join(f"{number} {name}" for name in names if (number := getattr(counts, name)))


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

    return Translator(load(model, quiet=quiet, **loading), **loading)


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
