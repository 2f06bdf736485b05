"""Which files `specmt translate` reads as documents, what of a folder is left, and the languages that files name."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from specmt.errors import InputNotFoundError, UsageError
from specmt.formats import all_suffixes, find_format, format_in_folder, format_of
from specmt.formats.known import HEAD, has_magic, is_binary, is_lines, kind_of, said_languages
from specmt.languages import primary
from specmt.text.lines import STDIN, open_input, reading
from specmt.text.printable import shown

if TYPE_CHECKING:
    from specmt.project import Settings

_MOST_NAMED: Final = 20


@dataclass(frozen=True, slots=True)
class Task:
    """A document to translate."""

    source: Path | None
    """``None``: standard input."""

    target: Path | None
    """``None``: standard output."""

    file_format: str

    said: tuple[str | None, str | None] = (None, None)
    """The languages that the document says it is in, and is to be translated into."""

    insists: bool = False
    """Whether the user knows better which language it is in."""

    settings: Settings | None = None
    """How the project that it is of has it read."""

    rebase: Callable[[str], str] | None = None
    """Makes the targets of its links those of its translation, where the project says where that is."""

    @property
    def name(self) -> str:
        """How messages name it."""
        return STDIN if self.source is None else str(self.source)


class Found(NamedTuple):
    """What is to be translated; no documents where there is one file, of lines."""

    tasks: list[Task]
    left: list[tuple[Path, str]]
    """The files of folders that stay as they are, and what they are."""


def find_tasks(
    files: Sequence[Path | None],
    output: Path | None,
    file_format: str | None,
    *,
    language: str | None = None,
    columns: Collection[str] = (),
    said: Callable[[Path], str | None] | None = None,
) -> Found:
    """Returns the documents that are to be translated.

    Of a folder these are the files of known formats in it, hidden ones and those of the output left out.

    :param language: that is translated from, if that is known
    :param columns: of tables, without which those of folders are left
    :param said: returns which format a project says that a file has
    :raises UsageError: it is not clear where the translations belong, or what format a file has.
    :raises InputNotFoundError: there is no such file, or nothing in a folder.
    """
    if file_format is not None:
        find_format(file_format)
    found: list[tuple[Path | None, Path, str, bytes]] = []
    left: list[tuple[Path, str]] = []
    is_many = len(files) > 1 or any(path is not None and path.is_dir() for path in files)
    for path in files:
        if path is not None and path.is_dir():
            before, named = len(found), Path(os.path.abspath(path))  # as it is called, not where a link leads
            for each in _walk(path, output):
                if not each.is_file():
                    left.append((each, "a pipe or broken link"))
                    continue
                head = _head(each)
                known = (
                    file_format
                    or (said and said(each))
                    or format_in_folder(named / each.relative_to(path), head, language)
                )
                if known is None or (known == "csv" and not columns) or (is_binary(head) and known == "text"):
                    left.append((each, kind_of(each.name, head)))
                else:
                    found.append((each, each.relative_to(path), known, head))
            if len(found) == before:
                raise InputNotFoundError(f"{path}: has no file of a known format.")
            continue
        head = b"" if path is None else _head(path)
        ordered = file_format or (None if path is None or said is None else said(path))
        known = ordered or (None if path is None else format_of(os.path.abspath(path), head))
        if (
            not is_many
            and ordered is None
            and (path is None or (is_lines(path.name, language) and not has_magic(head)))
        ):
            return Found([], [])
        if known is None or (ordered is None and known == "text" and has_magic(head)):
            raise UsageError(_unknown(path, head, language))
        found.append((path, Path("-" if path is None else path.name), known, head))
    if is_many and output is None:
        raise UsageError("`output` must be a folder for several files, but is left out.")
    into = output if output is not None and (is_many or output.is_dir()) else None
    if is_many and output is not None and output.exists() and not output.is_dir():
        raise UsageError(f"`output` must be a folder for several files, but is the file {output}.")
    tasks = [
        Task(path, output if into is None else into / relative, known, said_languages(known, head))
        for path, relative, known, head in found
    ]
    targets: dict[Path, Path | None] = {}
    for task in tasks:
        if task.target is not None and targets.setdefault(task.target, task.source) is not task.source:
            raise UsageError(f"{targets[task.target]} and {task.source} would both be written to {task.target}.")
    return Found(tasks, left)


def is_in_project(paths: Iterable[Path]) -> bool:
    """Whether there is a project file above one of some files or folders."""
    return any((each / "specmt.toml").is_file() for path in paths for each in (path, *path.absolute().parents))


def _unknown(path: Path | None, head: bytes, language: str | None) -> str:
    if path is None or (is_lines(path.name, language) and not has_magic(head)):
        return f"{STDIN if path is None else path}: has an unknown format; `--file-format` says it."
    if not path.exists():
        raise InputNotFoundError(f"{path}: no such file.")
    listed = " ".join(all_suffixes())
    named = format_of(path.name)
    kind = kind_of(path.name, head)
    texts = f"; `--file-format {named}` reads it as a file of texts" if named in ("php", "yaml") else ""
    texts = "; `--file-format xml` translates its elements" if kind in ("DITA", "XML") else texts
    advice = "" if is_binary(head) else f"{texts}; `--file-format text` translates its lines"
    return f"{path}: has a format that is not read ({kind}){advice}. Read are {listed}."


def _head(path: Path) -> bytes:
    """Returns how a file begins; nothing of a pipe, which can be read only once, and of none."""
    if not path.is_file():
        return b""
    stream = open_input(path)
    with reading(stream, str(path)):
        return stream.read(HEAD)


def _walk(folder: Path, output: Path | None) -> Iterator[Path]:
    made = None if output is None else os.path.abspath(output)
    for place, folders, names in os.walk(folder):
        shown = (name for name in folders if not name.startswith("."))
        folders[:] = sorted(name for name in shown if os.path.abspath(os.path.join(place, name)) != made)
        yield from (Path(place, name) for name in sorted(names) if not name.startswith("."))


def say_left(left: Sequence[tuple[Path, str]]) -> str:
    """Returns what is said of files that are left as they are: the names of those that might have been documents."""
    known = [f"{shown(path)} ({kind})" for path, kind in left if not kind.startswith((".", "no suffix", "a "))]
    others = Counter(kind for _, kind in left if kind.startswith((".", "no suffix", "a ")))
    named = known[:_MOST_NAMED] + ([f"{len(known) - _MOST_NAMED} more of such"] if len(known) > _MOST_NAMED else [])
    return "left as they are: " + ", ".join(named + [f"{count} of {kind}" for kind, count in sorted(others.items())])


def _choose(tasks: Sequence[Task], source: str | None, target: str | None) -> tuple[str | None, str | None]:
    """Returns the languages to translate from and into, as the documents say where the user does not.

    :raises UsageError: they say several.
    """
    if source is not None or target is not None:
        return source, target
    chosen: list[str | None] = []
    for number, option in enumerate(("from", "to")):
        said = {primary(code): code for task in tasks if (code := task.said[number])}
        if len(said) > 1:
            raise UsageError(f"`{option}` must be given, as the documents say {', '.join(sorted(said))}.")
        chosen.append(next(iter(said), None))
    return chosen[0], chosen[1]


def _contradiction(task: Task, source: str, target: str) -> str | None:
    """Returns what is wrong where a document says other languages than it is to be translated between, if anything."""
    pairs = zip(task.said, (source, target), strict=True)
    if all(said is None or primary(said) == primary(code) for said, code in pairs):
        return None
    said = f"{task.said[0] or '…'} to {task.said[1]}" if task.said[1] else f"{task.said[0]}"
    return f"{task.name}: says that it is {said}, not {source} to {target}."


def in_languages(
    tasks: list[Task], model: str | None, loading: dict[str, Any], damaged: list[str], *, is_sure: bool
) -> list[Task]:
    """Returns the documents that are in the language of the model, which is theirs where the user names none.

    :param damaged: takes what is wrong with others of several
    :param is_sure: whether the user names the language, which web pages know less well
    :raises UsageError: the only one says another language.
    """
    from specmt.models.folder import find

    if model is None:
        loading["source"], loading["target"] = _choose(tasks, loading["source"], loading["target"])
    folder = find(model, source=loading["source"], target=loading["target"])
    kept = []
    for task in tasks:
        problem = _contradiction(task, folder.source, folder.target)
        if problem is None:
            kept.append(task)
        elif is_sure and task.file_format == "html":
            click.echo(f"specmt: warning: {problem}", err=True)
            kept.append(replace(task, insists=True))
        elif len(tasks) == 1:
            raise UsageError(problem)
        else:
            click.echo(f"specmt: error: {problem}", err=True)
            damaged.append(problem)
    return kept
