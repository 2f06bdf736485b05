"""Tables of figures, for terminals and for Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table as RichTable


@dataclass(frozen=True)
class Table:
    """Cells of text under a title; the first column names a row."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = field(default=())
    """What a reader must know of the figures, a sentence each: below the table."""

    def rich(self) -> RichTable:
        """Returns the table for a terminal, figures to the right."""
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(title=self.title, title_justify="left", caption="\n".join(self.notes), caption_justify="left")
        for number, column in enumerate(self.columns):
            table.add_column(Text(column), justify="right" if number else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*map(Text, row))  # Text: square brackets in a cell are no markup
        return table

    def markdown(self) -> str:
        """Returns the table as GitHub's Markdown, with its title in bold above and its notes below."""
        lines = [self.columns, ["-"] + ["-:"] * (len(self.columns) - 1), *self.rows]
        table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines)
        return (
            "\n\n".join(filter(None, (f"**{self.title}**" if self.title else "", table, " ".join(self.notes)))) + "\n"
        )

    def csv(self) -> str:
        """Returns columns and rows as comma-separated values."""
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows([self.columns, *self.rows])
        return out.getvalue()
