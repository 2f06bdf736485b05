"""What pages of Markdown need to know of the others of a run: which headings are linked, and where files lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Final, final

from specmt.cli.tasks import Task
from specmt.formats.anchors import fragments, rebase
from specmt.formats.dialects import dialect_in
from specmt.formats.document import FormatOptions


@final
class Pages:
    """The pages among documents."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks: Final = tasks

    @cached_property
    def _linked(self) -> frozenset[str]:
        """The ids that links name; what cannot be read is told of later."""
        paths = [task.source for task in self._tasks if task.file_format == "markdown" and task.source is not None]
        texts = (path.read_bytes().decode(errors="replace") for path in paths if path.is_file())
        return frozenset().union(*map(fragments, texts)) if len(paths) > 1 else frozenset()

    @cached_property
    def _sources(self) -> frozenset[Path]:
        return frozenset(task.source.resolve() for task in self._tasks if task.source is not None)

    def options(self, task: Task, options: FormatOptions) -> FormatOptions:
        """Returns how a document is read."""
        options = replace(options, insists=task.insists, rebase=task.rebase)
        if task.settings is not None:
            options = task.settings.options(options)
        if task.file_format != "markdown":
            return options
        dialect, page = options.dialect, task.source
        if dialect == "auto":
            dialect = "" if page is None else dialect_in(page.resolve().parent)
        options = replace(options, dialect=dialect, linked=self._linked)
        if page is None or task.target is None or task.rebase is not None:
            return options
        source, folder = page.resolve().parent, task.target.resolve().parent
        if len(source.parts) == len(folder.parts):
            return options
        return replace(options, rebase=partial(rebase, source=str(source), folder=str(folder), place=self._place))

    def _place(self, named: str) -> str | None:
        """Returns where a file is, if it is there and is not translated, too."""
        path = Path(named)
        return named if path.exists() and path.resolve() not in self._sources else None
