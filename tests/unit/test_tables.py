"""Tables of figures, and what they depend on."""

from __future__ import annotations

import csv
import io

import torch
from rich.console import Console

from specmt.evaluation.machine import describe_machine, format_signature
from specmt.evaluation.tables import Table

TABLE = Table("Speed", ("way", "sentences/s"), [("greedy [fast]", "12.5"), ("a|b, c", "3")], notes=["One run."])


def test_markdown_has_a_cell_for_every_figure_and_keeps_bars() -> None:
    lines = TABLE.markdown().split("\n")
    assert lines[0] == "**Speed**"
    assert lines[2:6] == ["| way | sentences/s |", "| - | -: |", "| greedy [fast] | 12.5 |", "| a\\|b, c | 3 |"]
    assert lines[7:] == ["One run.", ""]


def test_a_terminal_shows_brackets_as_they_are() -> None:
    out = io.StringIO()
    Console(file=out, width=60).print(TABLE.rich())
    assert "greedy [fast]" in out.getvalue()
    assert "One run." in out.getvalue()


def test_csv_can_be_read_back() -> None:
    assert list(csv.reader(io.StringIO(TABLE.csv()))) == [list(TABLE.columns), *map(list, TABLE.rows)]


def test_the_machine_is_named_with_the_versions_that_run() -> None:
    machine = describe_machine()
    assert machine["torch"] == torch.__version__.partition("+")[0] or machine["torch"] == torch.__version__
    assert isinstance(machine["cores"], int) and machine["cores"] >= 1
    assert machine["processor"]


def test_packages_that_are_not_there_are_left_out() -> None:
    assert "no-such-package" not in describe_machine(("no-such-package",))


def test_a_signature_is_one_line() -> None:
    assert format_signature({"model": "de-en", "beta": 3}) == "model:de-en|beta:3"
