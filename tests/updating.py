"""Updates of translations with a translator that writes in capitals."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specmt.errors import DataError
from specmt.formats import format_of
from specmt.formats.document import FormatOptions
from specmt.formats.known import CATALOGUES
from specmt.options import DecodingOptions
from specmt.update.links import Links
from specmt.update.plan import PlanOptions
from specmt.update.record import Record, parse
from specmt.update.store import Files, record_beside, store
from specmt.update.update import Updated, open_update, update_all
from tests.documents import Shouting


@dataclass
class Pair:
    """A source and its translation in a folder."""

    folder: Path
    name: str
    asked: list[str] = field(default_factory=list)
    """What was translated, of the last update."""

    remarks: list[str] = field(default_factory=list)
    options: FormatOptions = field(default_factory=FormatOptions)

    @property
    def source(self) -> Path:
        return self.folder / self.name

    @property
    def target(self) -> Path:
        return self.folder / "into" / self.name

    @property
    def files(self) -> Files:
        return Files(self.source, self.target, record_beside(self.target), format_of(self.name) or "text")

    @property
    def record(self) -> Record:
        return parse(self.files.record.read_text())

    def origins(self) -> str:
        return "".join(each.origin for each in self.record.entries)

    def update(
        self,
        source: str | None = None,
        was: bytes | None = None,
        translator: Shouting | None = None,
        links: Links | None = None,
        **options: Any,
    ) -> str:
        """Returns the translation after an update, of a source that was changed before if one is given."""
        if source is not None:
            self.source.write_text(source)
        files, translator = self.files, translator or Shouting()
        if files.file_format not in CATALOGUES:
            options["obsolete"] = None
        plans = PlanOptions(**{"obsolete": "keep"} | options)
        update = open_update(files, self.options, plans, lambda _: was)
        updates = [] if update is None else [update]
        self.asked, self.remarks = translator.asked, []
        for each in update_all(updates, translator, DecodingOptions(), language="de", fail=raised):
            self.keep(each)
            if links is not None:
                links.note(each)
        return self.target.read_text(errors="replace")  # packages

    def keep(self, updated: Updated) -> None:
        if updated.record is not None:
            store(updated.files, updated.data, updated.record)
        self.remarks = [f"{remark.line}: {remark.text}" for remark in updated.remarks]

    def edit(self, old: str, new: str) -> None:
        """Does what a person does to the translation."""
        text = self.target.read_text()
        assert old in text
        self.target.write_text(text.replace(old, new, 1))

    def revise(self, old: str, new: str) -> None:
        """Does what a person does to the translation, and has an update know it."""
        self.edit(old, new)
        self.update()


def raised(error: DataError) -> None:
    raise error
