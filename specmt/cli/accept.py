"""`specmt accept`: a person says that translations hold for their present sources."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from specmt.cli.console import note
from specmt.errors import DataError, InputNotFoundError
from specmt.formats.dialects import DIALECTS, dialect_in

if TYPE_CHECKING:
    from specmt.update.record import Entry
    from specmt.update.sides import Side


@click.command()
@click.argument("places", nargs=-1, required=True, metavar="TARGET[:LINE]...")
@click.option("--key", multiple=True, metavar="NAME", help="A key of Markdown's front matter that is translated.")
@click.option("--dialect", type=click.Choice(DIALECTS), default="auto", show_default=True, help="The site of Markdown.")
def accept(places: tuple[str, ...], key: tuple[str, ...], dialect: str) -> None:
    """Say that the translation TARGET holds for its source as it was at the last `specmt update`.

    What is outdated is so no more. With LINE only the block there is meant, and it counts as approved even if the
    machine wrote it.

    \b
    Example:
      specmt accept manual/start.md:12
    """
    from specmt.formats.document import FormatOptions
    from specmt.update.record import blob_id
    from specmt.update.sides import Side
    from specmt.update.store import Files, Locks, read_whole, recall, store

    count = 0
    with Locks() as locks:
        for place in places:
            path, line = _place(place)
            files = Files(path, path, _record(path), "")
            data = read_whole(path)
            locks.hold(files)
            record = recall(files, data)
            if record is None:
                raise InputNotFoundError(f"{path}: has no record; `specmt update` makes one.")
            if record.target_blob != blob_id(data):
                raise DataError(f"{path}: has changed since the last `specmt update`; run that first.")
            there: frozenset[tuple[str, str, str]] | None = None
            if line is not None:
                options = FormatOptions(source=record.source_language, target=record.target_language)
                options = replace(options, keys=(*options.keys, *key))
                options = replace(options, dialect=dialect_in(path.resolve().parent) if dialect == "auto" else dialect)
                there = _blocks_on(Side(data, str(path), record.file_format, options, is_source=False), line)
            entries = [_accepted(each, there) for each in record.entries]
            changed = sum(one != other for one, other in zip(entries, record.entries, strict=True))
            if line is not None and not changed and not any(_name(each) in (there or ()) for each in entries):
                raise DataError(f"{path}:{line}: has nothing that was translated.")
            if changed:
                store(files, None, replace(record, entries=entries))
            count += changed
    note(f"{count} block{'s' * (count != 1)} accepted")


def _record(target: Path) -> Path:
    """Returns where the record of a translation is."""
    from specmt.project import find_project
    from specmt.update.store import record_beside, record_in

    project = find_project(target.absolute().parent)
    pair = None if project is None else project.pair_of(target)
    if project is None or pair is None:
        return record_beside(target)
    return record_in(project.folder, pair.to, pair.source.relative_to(project.folder))


def _place(place: str) -> tuple[Path, int | None]:
    """Returns a file, and the number of a line that is named behind it."""
    named = re.fullmatch(r"(.+):(\d+)", place, re.DOTALL)
    if named is None or Path(place).exists():
        return Path(place), None
    return Path(named[1]), int(named[2])


def _blocks_on(side: Side, line: int) -> frozenset[tuple[str, str, str]]:
    """Returns what the block on a line is."""
    number = bisect_right([side.line(number) for number in range(len(side.blocks))], line) - 1
    if number < 0:
        return frozenset()
    item = side.items[number]
    return frozenset([(item.kind, item.key, item.text)])


def _name(entry: Entry) -> tuple[str, str, str]:
    return entry.kind, entry.key, entry.target


def _accepted(entry: Entry, there: frozenset[tuple[str, str, str]] | None) -> Entry:
    if entry.origin == "o" if there is None else _name(entry) in there and entry.origin in "mo!":
        return replace(entry, origin="h", translated=tuple(f"{each[:8]}h" for each in entry.translated))
    return entry
