"""Tables of figures, for terminals and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Group


@dataclass(frozen=True)
class Table:
    """Cells of text under a title; the first column names a row."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = field(default=())
    """What a reader must know of the figures, a sentence each: below the table."""

    def rich(self) -> Group:
        """Returns the table for a terminal, figures to the right."""
        from rich.console import Group
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable()
        for number, column in enumerate(self.columns):
            table.add_column(Text(column), justify="right" if number else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*map(Text, row))  # Text: square brackets in a cell are no markup
        title = [Text(self.title, "bold")] if self.title else []
        return Group(*title, table, *(Text(note, "dim") for note in self.notes))

    def markdown(self) -> str:
        """Returns the table as GitHub's Markdown, with its title in bold above and its notes below."""
        lines = [self.columns, ["-"] + ["-:"] * (len(self.columns) - 1), *self.rows]
        table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines)
        title = f"**{self.title}**" if self.title else ""
        return "\n\n".join(filter(None, (title, table, " ".join(self.notes)))) + "\n"
