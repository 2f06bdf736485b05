"""`specmt memory`: translation memories of what was translated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specmt.cli.console import note
from specmt.cli.options import PATH, F, add_options, language_options
from specmt.errors import InputNotFoundError, UsageError
from specmt.formats import format_of
from specmt.languages import primary

if TYPE_CHECKING:
    from specmt.update.known import Known


def known_options(function: F) -> F:
    """Adds what names texts and their translations: ``languages``, and ``known``, which yields them."""

    @wraps(function)
    def command(
        files: tuple[Path, ...],
        pairs: tuple[tuple[Path, Path], ...],
        source: str | None,
        target: str | None,
        output: Path | None,
        **values: Any,
    ) -> Any:
        read = [*files, *(path for pair in pairs for path in pair)]
        if output is not None and any(output.exists() and path.exists() and output.samefile(path) for path in read):
            raise UsageError(f"`output` and an input are the same file, {output}.")
        for path in read:
            if not path.exists():
                raise InputNotFoundError(f"{path}: no such file.")
        for one, other in pairs:
            if format_of(one.name) != format_of(other.name):
                raise UsageError(f"`pair` must be two files of one format, but {other} is not of that of {one}.")
        if not read:
            languages, known = _in_project(source, target)
        else:
            from specmt.models.folder import pair_of

            languages = pair_of(source, target)
            known = _named(files, pairs, languages)
        return function(languages=languages, known=known, output=output, **values)

    options: list[Callable[[Any], Any]] = [
        click.argument("files", type=PATH, nargs=-1, metavar="[FILE]..."),
        click.option(
            "--pair",
            "pairs",
            type=(PATH, PATH),
            multiple=True,
            metavar="SOURCE TARGET",
            help="A document and its translation, of one format: paired by keys, or by structure. Can be repeated.",
        ),
        language_options,
        click.option("-o", "--output", type=PATH, metavar="FILE", help="Write to this file."),
    ]
    return add_options(options, command)  # type: ignore[return-value]


@click.group()
def memory() -> None:
    """Make a translation memory of translated documents."""


@memory.command()
@known_options
def export(languages: tuple[str, str], known: Iterator[Known], output: Path | None) -> None:
    """Write what FILES and pairs have in both languages as TMX, each pair once.

    FILES can be PO, XLIFF, TS, xcstrings, TMX, and TSV as of `specmt translate --format tsv`; what is marked to
    be reviewed is left out. Without any, what people wrote or accepted in the project, by its records.

    \b
    Examples:
      specmt memory export messages.po manual.xlf -o memory.tmx
      specmt memory export --pair start.de.md start.md --pair de.json en.json -o memory.tmx
      specmt translate new.po --memory memory.tmx -o new.de.po
    """
    from specmt.pairs import write_tmx
    from specmt.text.lines import Output

    count = 0
    with Output(output) as out:
        for text in write_tmx(((each.source, each.target) for each in known), *languages):
            out.write(text)
            count += text.startswith("<tu>")
    note(f"{count} pair{'s' * (count != 1)}")


def _named(files: Sequence[Path], pairs: Sequence[tuple[Path, Path]], languages: tuple[str, str]) -> Iterator[Known]:
    from specmt.formats.document import FormatOptions
    from specmt.pairs import read_pairs
    from specmt.update.known import Known, known_texts
    from specmt.update.store import Files, record_beside

    for path in files:
        for number, (one, other) in enumerate(read_pairs(path, *languages), 1):
            yield Known(one, other, str(path), number)
    for source, target in pairs:
        pair = Files(source, target, record_beside(target), format_of(source.name) or "text")
        yield from known_texts(pair, FormatOptions(source=languages[0], target=languages[1]))


def _in_project(source: str | None, target: str | None) -> tuple[tuple[str, str], Iterator[Known]]:
    """Returns the languages of the project, and what people approved there.

    :raises UsageError: there is none, it is from another language, or it is into several.
    """
    from specmt.project import NAME, find_project
    from specmt.update.known import known_texts, translations_in

    project = find_project(Path.cwd())
    if project is None:
        raise UsageError(f"FILE or `pair` must be given where there is no {NAME}.")
    wanted = [to for to in project.languages if target is None or primary(to) == primary(target)]
    if len(wanted) != 1:
        said = "is left out" if target is None else f"is {target} instead"
        raise UsageError(f"`to` must be one of {', '.join(project.languages)}, but {said}.")
    if source is not None and primary(source) != primary(project.source_language):
        raise UsageError(f"`from` must be {project.source_language}, as in {NAME}, but is {source} instead.")

    def known() -> Iterator[Known]:
        for files, options in translations_in(project, wanted[0]):
            yield from known_texts(files, options, approved=True)

    return (project.source_language, wanted[0]), known()
