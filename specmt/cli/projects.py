"""What a project says of the files that a command is given, where the command line says nothing else."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from specmt.cli.options import DocumentOptions
from specmt.cli.tasks import Task, say_left
from specmt.errors import UsageError
from specmt.languages import primary
from specmt.options import DecodingOptions
from specmt.project import NAME, Project, Settings, find_project

_SETTINGS: Final = {
    "key": "keys", "column": "columns", "keep": "elements", "dialect": "dialect", "anchors": "anchors",
}  # fmt: skip
"""The options of documents that are settings of a project, and their names there."""

Places = Sequence[tuple[Path | None, Path | None]]
"""Sources, and where their translations go; ``None``: standard input and output."""


def find_for(sources: Iterable[Path | None], loading: dict[str, Any]) -> Project | None:
    """Returns the project that files, or some files of folders, are sources of.

    :param loading: takes the language that is translated from; of another one there is no project
    :raises UsageError: they are of several, or what a project file says is not what it should be.
    """
    found = {}
    for path in filter(None, sources):
        project = find_project(path.absolute().parent if path.is_file() else path)
        if project is not None and project.has_source(path):
            found[project.folder] = project
    if len(found) > 1:
        raise UsageError(f"files of several projects, {' and '.join(map(str, found))}, need a command each.")
    project = next(iter(found.values()), None)
    if project is None or primary(loading["source"] or project.source_language) != primary(project.source_language):
        return None
    loading["source"] = project.source_language
    return project


def say_rest(project: Project, paths: Sequence[Path]) -> Iterator[str]:
    """Yields what is said of what a project names and does not have translated.

    :param paths: those that alone are meant
    """
    if left := project.left(paths):
        yield say_left(left)
    for source in project.unused if not paths else ():
        yield f"no file fits {source}"


def format_in(project: Project, path: Path) -> str | None:
    """Returns the format that a project says a file has."""
    pairs = project.translations_of(path)
    return pairs[0].settings.format if pairs else None


def language_into(project: Project, places: Places) -> str:
    """Returns the language that is translated into: that of the project's translations that are written, or its only.

    :raises UsageError: it is not clear which.
    """
    named = {
        pair.to
        for source, target in places
        if source is not None and target is not None
        for pair in project.translations_of(source)
        if pair.target == target.absolute()
    }
    languages = sorted(named) or project.languages
    if len(languages) > 1:
        raise UsageError(f"`to` must be given, as {project.folder / NAME} has {', '.join(languages)}.")
    return languages[0]


def settings_of(settings: Settings, documents: DocumentOptions, given: Collection[str]) -> Settings:
    """Returns what a project says of a file where the user does not.

    :param given: the names of the options that the user gave a value
    """
    said = {name: getattr(documents, option) for option, name in _SETTINGS.items() if option in given}
    return replace(settings, **said)


def in_its_project(project: Project, task: Task, documents: DocumentOptions, given: Collection[str], to: str) -> Task:
    """Returns a document with what its project says of it, if it is one of that."""
    assert task.source is not None  # find_for
    pairs = project.translations_of(task.source)
    if not pairs:
        return task
    settings = settings_of(pairs[0].settings, documents, given)
    own = next((pair for pair in pairs if pair.to == to), None)
    is_its = own is not None and task.target is not None and own.target == task.target.absolute()
    return replace(task, settings=settings, rebase=project.rebase(own) if own is not None and is_its else None)


def with_project(
    project: Project, options: DecodingOptions, documents: DocumentOptions, to: str
) -> tuple[DecodingOptions, DocumentOptions]:
    """Returns the options with the project's kept terms, glossary and memories, and what is marked for review."""
    options = replace(options, keep=project.keep, glossary=options.glossary or project.glossary.get(to))
    if options.memory is None:
        documents = replace(documents, memories=project.memory)
        # Drafts change no output, but beside other drafters, samples and the like there are none.
        if options.strategy == "speculative" and options.is_greedy and options.drafter == "auto":
            options = replace(options, memory=next(iter(project.memory), None))
    if documents.fuzzy_below is None and documents.fuzzy and options.is_greedy:
        documents = replace(documents, fuzzy_below=project.fuzzy_below)
    return options, documents
