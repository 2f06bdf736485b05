"""Which translations `specmt update` brings up to date: those that are named, or a project's, by language."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from specmt.cli.console import note
from specmt.cli.documents import reading_options
from specmt.cli.options import DocumentOptions, given_options
from specmt.cli.pages import Pages
from specmt.cli.projects import settings_of
from specmt.cli.tasks import Task, find_tasks, in_languages, say_left
from specmt.formats.document import FormatOptions
from specmt.formats.known import CATALOGUES, is_lines
from specmt.options import DecodingOptions
from specmt.pairs import read_pairs
from specmt.project import Project
from specmt.text.memory import Pair
from specmt.update.known import approved_in, translations_in
from specmt.update.plan import PlanOptions
from specmt.update.store import END, FOLDER, Files, record_beside, record_in, target_of


@dataclass(frozen=True)
class Job:
    """A translation, how it and its source are read, and what is done with blocks."""

    files: Files
    formats: FormatOptions
    plans: PlanOptions


@dataclass(frozen=True)
class Group:
    """Translations into one language."""

    language: str
    """That is translated from."""

    jobs: list[Job]
    model: str | None
    loading: dict[str, Any]
    options: DecodingOptions
    orphans: list[Files]
    """Records whose sources are gone."""

    known: Callable[[], Iterable[tuple[Files, FormatOptions]]]
    """Returns translations in which people may have approved some texts."""
    memory: Sequence[Path]

    def approved(self) -> Iterator[Pair]:
        """Yields what people approved, and what translation memories have."""
        yield from approved_in(self.known())
        for path in self.memory if self.jobs else ():
            yield from read_pairs(path, self.jobs[0].formats.source, self.jobs[0].formats.target)


def named(
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
) -> Group:
    """Returns the translations that the user names."""
    from specmt.models.folder import find

    file_format = documents.file_format or _lines(sources, loading["source"])
    tasks, left = find_tasks([*sources], into, file_format, language=loading["source"], columns=documents.column)
    if left and not quiet:
        note(say_left(left))
    tasks = in_languages(tasks, model, loading, damaged, is_sure="source" in given_options())
    folder = find(model, source=loading["source"], target=loading["target"])
    _, formats = reading_options((folder.source, folder.target), options, documents)
    pages = Pages(tasks)
    jobs = [
        Job(_files(task, record_beside(task.target)), pages.options(task, formats), _of_format(plans, task.file_format))
        for task in tasks
        if task.target is not None
    ]
    used = {job.files.record for job in jobs}
    records = into.rglob(f"{FOLDER}/*{END}") if into.is_dir() else ()
    unused = {path: target_of(path) for path in sorted(records) if path not in used}
    top = sources[0] if len(sources) == 1 and sources[0].is_dir() else into  # else nothing says where a source was
    orphans = [Files(top / target.relative_to(into), target, path, "") for path, target in unused.items()]
    memory = () if options.memory is None else (options.memory,)
    own = partial(map, attrgetter("files", "formats"), jobs)
    return Group(folder.source, jobs, model, loading, options, orphans, own, memory)


def in_project(
    project: Project,
    sources: Sequence[Path],
    model: str | None,
    loading: dict[str, Any],
    options: DecodingOptions,
    documents: DocumentOptions,
    plans: PlanOptions,
    given: Collection[str],
) -> list[Group]:
    """Returns the translations of a project, by language.

    :param given: the names of the options that the user gave a value, which go over what the project says
    """
    below = project.fuzzy_below if documents.fuzzy_below is None else documents.fuzzy_below
    documents = replace(documents, fuzzy_below=below)
    options = replace(options, scores=options.scores or below is not None, keep=project.keep)
    pairs = [*project.pairs(sources, loading["target"])]
    groups = []
    for to in dict.fromkeys(pair.to for pair in pairs):
        own = [pair for pair in pairs if pair.to == to]
        _, base = reading_options((project.source_language, to), replace(options, memory=None), documents)
        tasks = [
            Task(
                pair.source,
                pair.target,
                documents.file_format or pair.file_format,
                settings=settings_of(pair.settings, documents, given),
                rebase=project.rebase(pair),
            )
            for pair in own
        ]
        pages, jobs = Pages(tasks), []
        for task, pair in zip(tasks, own, strict=True):
            formats = pages.options(task, base)
            asked = plans if "obsolete" in given else replace(plans, obsolete=pair.settings.obsolete)
            record = record_in(project.folder, to, pair.source.relative_to(project.folder))
            jobs.append(Job(_files(task, record), formats, _of_format(asked, pair.file_format)))
        told = replace(options, glossary=options.glossary or project.glossary.get(to))
        memory = project.memory if options.memory is None else (options.memory,)
        told = replace(told, memory=next(iter(memory), None))
        languages = {"source": loading["source"] or project.source_language, "target": to}
        orphans = [] if sources else _orphans(project, to, {job.files.record for job in jobs})
        known = partial(translations_in, project, to)
        name, loaded = model or project.model, loading | languages
        groups.append(Group(project.source_language, jobs, name, loaded, told, orphans, known, memory))
    return groups


def _orphans(project: Project, to: str, used: Collection[Path]) -> list[Files]:
    """Returns the records of a project whose sources are gone, and where their translations are."""
    top = record_in(project.folder, to, Path("any")).parent
    found = []
    for path in sorted(top.rglob(f"*{END}")):
        source = project.folder / path.relative_to(top).with_name(path.name.removesuffix(END))
        target = next((pair.target for pair in project.translations_of(source) if pair.to == to), None)
        if path not in used and not source.exists() and target is not None:
            found.append(Files(source, target, path, ""))
    return found


def _files(task: Task, record: Path) -> Files:
    assert task.source is not None and task.target is not None
    return Files(task.source, task.target, record, task.file_format)


def _of_format(plans: PlanOptions, file_format: str) -> PlanOptions:
    return plans if file_format in CATALOGUES else replace(plans, obsolete=None)


def _lines(sources: Sequence[Path], language: str | None) -> str | None:
    """Returns the format of the only file if that is one of lines, which other commands do not take for a document."""
    is_one = len(sources) == 1 and not sources[0].is_dir()
    return "text" if is_one and is_lines(sources[0].name, language) else None
