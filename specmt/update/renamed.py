"""Sources that were renamed or moved: their translations and records follow them, known by what they say."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from specmt.errors import DataError, OutputError
from specmt.formats.document import FormatOptions
from specmt.update.record import NONE, Record, blob_id
from specmt.update.sides import Side
from specmt.update.store import Files, read_whole, recall

_SAME: Final = 0.5
"""How many of the blocks of a source must be those of another one that is gone, for it to be that one."""


def find_renamed(files: Files, orphans: Iterable[Files], formats: FormatOptions) -> Files | None:
    """Returns what a source and its translation were called before, if they have no record by their present names.

    :param orphans: records whose sources are gone
    :raises DataError: the source, or a record, is damaged.
    """
    if files.record.exists():
        return None
    target = read_whole(files.target) if files.target.exists() else None
    found: list[tuple[float, Files]] = []
    said: set[str] | None = None
    for old in orphans:
        record = recall(old, None, recovers=False)
        if record is None or record.file_format != files.file_format or not old.record.exists():
            continue
        if target is not None:
            # A run that was ended between both, or a person, has moved the translation already.
            if not old.target.exists() and record.target_blob == blob_id(target):
                return old
        elif old.target.exists():
            if said is None:
                source = Side(read_whole(files.source), str(files.source), files.file_format, formats, is_source=True)
                said = {each.text for each in source.items} - {NONE}
            found.append((_share(said, record), old))
    best = max(found, key=lambda each: each[0], default=None)
    return best[1] if best is not None and best[0] >= _SAME else None


def _share(said: set[str], record: Record) -> float:
    known = {each.source for each in record.entries} - {NONE}
    return len(said & known) / max(1, len(said), len(known))


def move(old: Files, new: Files) -> None:
    """Gives a translation and its record their new names; whenever that is ended, the next run goes on.

    :raises OutputError: they cannot be moved.
    :raises DataError: there is a translation of the new name.
    """
    try:
        for path in (new.target, new.record):
            path.parent.mkdir(parents=True, exist_ok=True)
        if old.target.exists():
            if new.target.exists():
                raise DataError(f"{new.target}: is there already.")
            os.rename(old.target, new.target)
        os.rename(old.record, new.record)
    except OSError as error:
        raise OutputError(f"{new.target}: cannot be written ({error.strerror}).") from error
