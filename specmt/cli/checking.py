"""What `specmt check` does once its options are read: finds the translations that are meant, and says what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from specmt.check.checker import Pair, check_pair
from specmt.check.findings import Finding, baseline_of, new_ones
from specmt.check.reports import REPORTS
from specmt.check.rules import Rules, read_terms
from specmt.cli.console import note
from specmt.cli.projects import say_rest
from specmt.cli.tasks import find_tasks
from specmt.errors import DataError, UsageError
from specmt.project import Project, Settings, find_project
from specmt.text.lines import Output, open_input, reading
from specmt.text.printable import printable
from specmt.update.store import record_beside, record_in


def look(
    paths: Sequence[Path],
    source: str | None,
    target: str | None,
    settings: Settings,
    glossary: Path | None,
    ignore: Sequence[str],
    output: str,
    fail_on: str | None,
    baseline: Path | None,
    *,
    write_baseline: bool,
) -> None:
    """Looks for what is wrong, and writes it.

    :raises UsageError: what is meant is not clear.
    :raises DataError: something is wrong that counts.
    """
    project = find_project(paths[0] if paths else Path())
    if project is not None and not _are_two(project, paths):
        for line in say_rest(project, paths):
            note(line)
        pairs = _of_project(project, paths, target, ignore)
        fail_on, baseline = fail_on or project.check.fail_on, baseline or project.check.baseline
    elif len(paths) == 2:
        pairs = [_of_two(paths[0], paths[1], (source or "de", target or "en"), settings, glossary, ignore)]
    else:
        raise UsageError("SOURCE and TARGET must be given, or a project (specmt.toml).")
    if write_baseline and baseline is None:
        raise UsageError("`write_baseline` needs `baseline`, the file that is written.")
    findings = [finding for pair in pairs for finding in _found(pair)]
    if write_baseline and baseline is not None:
        with Output(baseline) as out:
            out.write(baseline_of(findings))
        return
    if baseline is not None and (baseline.exists() or project is None or baseline != project.check.baseline):
        findings = list(new_ones(findings, baseline))
    for line in REPORTS[output](findings):
        click.echo(printable(line, lines=True))
    errors = sum(finding.level == "error" for finding in findings)
    if errors or (findings and fail_on != "error"):
        counts = (errors, "error"), (len(findings) - errors, "warning"), (len(pairs), "translation")
        said = "{} and {} in {}.".format(*(f"{number} {name}{'s' * (number != 1)}" for number, name in counts))
        if fail_on != "never":
            raise DataError(said)
        note(said)


def _found(pair: Pair) -> Iterator[Finding]:
    """Yields what is wrong with a translation; a source or a record that is damaged keeps no other from being told."""
    try:
        yield from check_pair(pair)
    except DataError as error:
        yield Finding(pair.shown, 1, "parse", str(error))


def _are_two(project: Project, paths: Sequence[Path]) -> bool:
    """Whether paths are a source and its translation that are no part of a project."""
    known = [project.knows(path) for path in paths]
    return len(paths) == 2 and not any(known) and all(path.is_file() for path in paths)


def _of_two(
    source: Path,
    target: Path,
    languages: tuple[str, str],
    settings: Settings,
    glossary: Path | None,
    ignore: Sequence[str],
) -> Pair:
    """Returns two files that are to be compared.

    :raises UsageError: their format is not known.
    :raises InputNotFoundError: one of them is not there.
    """
    known = find_tasks([source], source, settings.format, language=languages[0]).tasks
    with reading(open_input(target), str(target)):
        pass
    terms = None if glossary is None else read_terms(glossary)
    rules = Rules(languages=languages, glossary=terms, ignore=frozenset(ignore))
    file_format = known[0].file_format if known else "text"
    return Pair(source, target, file_format, settings, rules, record=record_beside(target), is_strict=True)


def _of_project(project: Project, paths: Sequence[Path], only: str | None, ignore: Sequence[str]) -> list[Pair]:
    """Returns the translations of a project that are looked at.

    :param only: the language that is meant, if it is one
    """
    glossaries = {to: read_terms(path) for to, path in project.glossary.items()}
    found = []
    for each in project.pairs(paths, only):
        rules = Rules(
            languages=(project.source_language, each.to),
            glossary=glossaries.get(each.to),
            forbidden=project.forbidden.get(each.to, ()),
            keep=project.keep,
            ignore=frozenset((*ignore, *project.check.ignore)),
            mapped=project.rebase(each),
        )
        tone = project.tone.get(each.to)
        record = record_in(project.folder, each.to, each.source.relative_to(project.folder))
        found.append(Pair(each.source, each.target, each.file_format, each.settings, rules, tone, record))
    return found
