"""Links to headings, of the same page or of others, that follow these where an update moves their ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import Final, final

from specmt.documents import Summary
from specmt.errors import DataError
from specmt.formats.anchors import follow, targets_in
from specmt.formats.document import FormatOptions
from specmt.formats.encoding import decode
from specmt.formats.shape import Checked
from specmt.types import Stats
from specmt.update.plan import PlanOptions
from specmt.update.record import Record
from specmt.update.sides import Side
from specmt.update.store import Files, read_whole, recall
from specmt.update.update import Updated, open_update


@final
class Links:
    """The pages of a run, and where the ids of their headings went."""

    def __init__(self, pages: Iterable[tuple[Files, FormatOptions]]) -> None:
        self._pages: Final = {
            str(files.target.resolve()): (files, formats)
            for files, formats in pages
            if files.file_format == "markdown" and formats.anchors != "keep"
        }
        self._updated: Final[dict[str, Mapping[str, str]]] = {}
        self._other: Final = cache(self._read)

    def note(self, updated: Updated) -> None:
        """Takes in what was updated."""
        self._updated[str(updated.files.target.resolve())] = updated.moved

    def relinked(self) -> Iterator[tuple[Files, bytes, Record]]:
        """Yields the pages whose links change, and their records, once all that were updated are stored."""
        for name, (files, formats) in self._pages.items() if self._updated else ():
            with suppress(DataError):  # of which the update told
                data = read_whole(files.target) if files.target.exists() else b""
                change = partial(follow, page=name, moved=partial(self._moved, is_updated=name in self._updated))
                record = recall(files, data, recovers=False)
                if record is None or all(change(target) == target for target in targets_in(decode(data)[0])):
                    continue
                before = Side(data, str(files.target), files.file_format, formats, is_source=False)
                assert isinstance(before.document, Checked)
                new = before.document.relinked(change)
                after = Side(new, str(files.target), files.file_format, formats, is_source=False)
                now = {old.text: item.text for old, item in zip(before.items, after.items, strict=True)}
                entries = [replace(entry, target=now.get(entry.target, entry.target)) for entry in record.entries]
                yield files, new, replace(record, target_blob=after.blob, entries=entries)

    def _moved(self, name: str, *, is_updated: bool) -> Mapping[str, str]:
        """
        :param is_updated: whether the page that has the link is; what is in others was right before
        """
        return self._updated.get(name) or (self._other(name) if is_updated and name in self._pages else {})

    def _read(self, name: str) -> Mapping[str, str]:
        files, formats = self._pages[name]
        with suppress(DataError):
            update = open_update(files, formats, PlanOptions(), is_dry=True, origins="mhc-!o")
            return {} if update is None else update.finish(Summary(), Stats()).moved
        return {}
