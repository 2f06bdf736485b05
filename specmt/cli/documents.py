"""`specmt translate` for documents: which files, where their translations go, and what was done with them."""

from __future__ import annotations

import html
import os
import re
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Final, final

import click

import specmt
from specmt.cli.console import note
from specmt.cli.options import DocumentOptions
from specmt.cli.pages import Pages
from specmt.cli.progress import share_bar
from specmt.cli.tasks import Task
from specmt.errors import DataError, OutputError
from specmt.formats import read_document
from specmt.formats.document import KEPT, MAX_BYTES, Document, FormatOptions, TagRules
from specmt.options import DecodingOptions
from specmt.text.lines import Output, open_input, reading
from specmt.types import Line, Stats

if TYPE_CHECKING:
    from specmt.documents import Remark, Remember, Selection, Summary, TranslatesLines

_MOST_TOLD: Final = 100
_QUOTED: Final = re.compile("'.*'")


def tasks_sentences(
    languages: tuple[str, str], tasks: Sequence[Task], options: DecodingOptions, documents: DocumentOptions
) -> Iterator[Line]:
    """Returns the sentences that :func:`translate_tasks` has translated."""
    from specmt.documents import sentences_of

    selection, format_options = reading_options(languages, options, documents)
    read = ((task.name, document) for task, document in _read(tasks, Pages(tasks), format_options))
    return sentences_of(read, selection, language=languages[0] if options.split else None)


def translate_tasks(
    translator: TranslatesLines,
    languages: tuple[str, str],
    tasks: Sequence[Task],
    options: DecodingOptions,
    documents: DocumentOptions,
    report: Output | None,
    *,
    damaged: list[str],
    remember: Remember | None = None,
    quiet: bool,
) -> Stats:
    """Translates documents, each written as soon as it is complete; returns the totals.

    :param damaged: takes what is wrong with those of several that cannot be read
    :param remember: takes what the documents have translations of, for drafts
    :raises DataError: the only one cannot be read.
    """
    from specmt.documents import LEFT, Summary, translate_documents
    from specmt.text.likeness import Nearest

    selection, format_options = reading_options(languages, options, documents)
    if report is not None and selection.known:
        selection = replace(selection, nearest=Nearest(selection.known))
    sizes = {task: 0 if task.source is None else task.source.stat().st_size for task in tasks}
    read: deque[tuple[Task, Document]] = deque()
    pages = Pages(tasks)

    def named() -> Iterator[tuple[str, Document]]:
        for task, document in _read(tasks, pages, format_options, damaged):
            read.append((task, document))
            yield task.name, document

    total, done, stats = Summary(), 0, Stats()
    rows: list[tuple[str, Summary]] = []
    started = time.perf_counter()
    with share_bar(quiet=quiet) as show:
        finished = translate_documents(translator, named(), options, selection, remember, language=languages[0])
        for each in finished:
            task, document = read.popleft()
            _write(task.target, each.data)
            pages.note(task, document, each.data)
            done += sizes[task]
            show(task.name, done / max(1, sum(sizes.values())))
            for line in told(task.name, each.summary.warnings) if not quiet else ():
                click.echo(f"specmt: warning: {line}", err=True)
            total += each.summary
            rows.append((task.name, each.summary))
            stats += each.stats
    for target, data in pages.relinked(format_options):
        _write(target, data)
    stats.seconds = time.perf_counter() - started
    if options.check:
        stats.warnings += sum(warning.text.startswith((KEPT, LEFT)) for warning in total.warnings)
    if not quiet:
        note(_sentence(total, len(rows)))
    if report is not None:
        report.write(report_page(rows, total))
    return stats


def told(name: str, warnings: Sequence[Remark]) -> Iterator[str]:
    """Yields what is told of a document: each warning with its place, or one line of a kind of which there are many."""
    kinds = [_QUOTED.sub("'…'", warning.text) for warning in warnings]
    counts = Counter(kinds)
    for warning, kind in zip(warnings, kinds, strict=True):
        if counts[kind] <= _MOST_TOLD:
            where = f"{name}:{warning.line}" + (f" ({warning.context})" if warning.context else "")
            yield f"{where}: {warning.text}"
    for kind, count in counts.items():
        if count > _MOST_TOLD:
            yield f"{name}: {count} times: {kind}"


def reading_options(
    languages: tuple[str, str], options: DecodingOptions, documents: DocumentOptions
) -> tuple[Selection, FormatOptions]:
    """Returns which segments are translated, and how documents are read."""
    from specmt.documents import Selection
    from specmt.formats.accelerators import plain
    from specmt.pairs import read_pairs

    source, target = languages
    known: dict[str, str] = {}
    memories = documents.memories or filter(None, [options.memory])
    for memory in memories if documents.exact else ():
        for one, other in () if memory.is_fifo() else read_pairs(memory, source, target):
            known.setdefault(one, other)
            known.setdefault(plain(one), plain(other))
    given: dict[str, Any] = {"columns": documents.column, "keys": documents.key}
    return (
        Selection(fuzzy=documents.retranslate_fuzzy, translated=documents.everything, known=known),
        FormatOptions(
            source=source,
            target=target,
            fuzzy=documents.fuzzy,
            fuzzy_below=documents.fuzzy_below,
            dialect=documents.dialect,
            anchors=documents.anchors,
            tags=TagRules(ignored=frozenset(documents.keep)),
            **{name: value for name, value in given.items() if value},
        ),
    )


def _read(
    tasks: Sequence[Task], pages: Pages, options: FormatOptions, damaged: list[str] | None = None
) -> Iterator[tuple[Task, Document]]:
    """Yields the documents that can be read.

    :param damaged: takes what is wrong with the others, of several
    :raises DataError: the only one cannot be read.
    """
    for task in tasks:
        try:
            document = _read_one(task, pages.options(task, options))
        except DataError as error:
            if len(tasks) == 1:
                raise
            if damaged is not None:
                damaged.append(str(error))
                click.echo(f"specmt: error: {error}", err=True)
            continue
        yield task, document


def _read_one(task: Task, options: FormatOptions) -> Document:
    stream = open_input(task.source)
    with reading(stream, task.name):
        before = os.fstat(stream.fileno())
        data = stream.read(MAX_BYTES + 1)
        after = os.fstat(stream.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) and task.source is not None:
        raise DataError(f"{task.name}: changed while it was read.")
    document = read_document(data, task.name, task.file_format, options)
    return _Skipping(document, options) if options.skip_keys else document


@final
class _Skipping:
    """A document of which the texts of some keys stay as they are."""

    def __init__(self, document: Document, options: FormatOptions) -> None:
        self.segments: Final = [
            replace(each, state="skipped") if options.skips(each.context) else each for each in document.segments
        ]
        self.write: Final = document.write


def _write(path: Path | None, data: bytes) -> None:
    if path is not None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{path.parent}: cannot be made ({error.strerror}).") from error
    with Output(path) as out:
        out.write_bytes(data)


def _sentence(total: Summary, count: int) -> str:
    segments = f"{total.segments} segment{'s' * (total.segments != 1)}"
    said = [f"{count} document{'s' * (count != 1)}, {segments}: {total.translated} translated"]
    said[0] += f" ({total.repeated} repeated)" if total.repeated else ""
    more = {"from memory": total.reused, "kept": total.kept, "skipped": total.skipped, "warnings": len(total.warnings)}
    said += [f"{number} {name}" for name, number in more.items() if number]
    return ", ".join(said)


def report_page(own: Sequence[tuple[str, Summary]], total: Summary) -> str:
    """Returns the report on some documents."""
    names = ("segments", "translated", "repeated", "reused", "kept", "skipped")
    head = "".join(f"<th>{name}</th>" for name in ("document", *names, "warnings"))
    table = "".join(
        f"<tr><td>{html.escape(name) or 'all'}</td>"
        + "".join(f'<td class="n">{getattr(summary, each)}</td>' for each in names)
        + f'<td class="n">{len(summary.warnings)}</td></tr>\n'
        for name, summary in (*own, ("", total))
    )
    warnings = "".join(_row(name, warning) for name, summary in own for warning in summary.warnings)
    sure = sorted(((*each, name) for name, summary in own for each in summary.confidences), key=itemgetter(0))
    near = sorted(((*each, name) for name, summary in own for each in summary.near), key=itemgetter(0), reverse=True)
    likely = f"Of {len(sure)} segments, about {sum(each[0] for each in sure):.0f} are acceptable. "
    sections = (
        _section("Warnings", "", ("warning",), warnings),
        _section("Least sure", f"{likely}These are least likely to be.", ("translation", "acceptable"), _shares(sure)),
        _section("Near matches", "Of these the memory has something like it.", ("text", "alike"), _shares(near)),
    )
    template = Template((Path(specmt.__file__).with_name("assets") / "documents.html").read_text(encoding="utf-8"))
    return template.substitute(head=head, table=table, sections="".join(sections))


def _section(title: str, said: str, columns: Sequence[str], rows: str) -> str:
    head = "".join(f"<th>{name}" for name in ("place", "context", *columns))
    return f"<h2>{title}</h2>\n<p>{said}</p>\n<table><tr>{head}</tr>\n{rows}</table>\n" if rows else ""


def _shares(found: Sequence[tuple[float, Remark, str]]) -> str:
    return "".join(_row(name, remark, f"{share:.0%}") for share, remark, name in found[:_MOST_TOLD])


def _row(name: str, remark: Remark, *more: str) -> str:
    cells = "".join(f"<td>{html.escape(each)}</td>" for each in (remark.context, remark.text, *more))
    return f"<tr><td>{html.escape(name)}:{remark.line}</td>{cells}</tr>\n"
