"""What pages of Markdown need to know of the others of a run: which headings are linked, or move, where files lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Final, final

from specmt.cli.tasks import Task
from specmt.formats import read_document
from specmt.formats.anchors import follow, fragments, rebase, targets_in
from specmt.formats.dialects import dialect_in
from specmt.formats.document import Document, FormatOptions
from specmt.formats.encoding import decode


@final
class Pages:
    """The pages among documents."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self._tasks: Final = tasks
        self._moved: dict[str, Mapping[str, str]] = {}
        """What the ids of headings have become, by the files that were written."""

        self._linking: list[Task] = []
        """Those whose translations link headings of other pages."""

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

    def note(self, task: Task, document: Document, data: bytes) -> None:
        """Takes in what was written."""
        if task.file_format != "markdown" or task.target is None or len(self._tasks) == 1:
            return
        from specmt.formats.shape import Checked  # late, for other formats need no parser of Markdown

        if isinstance(document, Checked) and document.moved:
            self._moved[str(task.target.resolve())] = document.moved
        if any("#" in target[1:] for target in targets_in(data.decode(errors="replace"))):
            self._linking.append(task)

    def relinked(self, options: FormatOptions) -> Iterator[tuple[Path, bytes]]:
        """Yields the pages whose links to headings of others change, as those have moved, once all are written."""
        from specmt.formats.shape import Checked

        for task in self._linking if self._moved else ():
            assert task.target is not None
            data = task.target.read_bytes()
            folder = task.target.resolve().parent
            change = partial(follow, page=f"{folder}/", moved=lambda name: self._moved.get(name, {}))
            if any(change(target) != target for target in targets_in(decode(data)[0])):
                page = read_document(data, str(task.target), task.file_format, self.options(task, options))
                if isinstance(page, Checked):
                    yield task.target, page.relinked(change)

    def _place(self, named: str) -> str | None:
        """Returns where a file is, if it is there and is not translated, too."""
        path = Path(named)
        return named if path.exists() and path.resolve() not in self._sources else None
