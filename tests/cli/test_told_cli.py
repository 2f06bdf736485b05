"""What `specmt translate` tells and is told: n-best lists, alignments, glossaries, numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specmt.cli.main import run

LINES = ["Diese Datei ist leer.", "", "Der Server hat 3 Platten.\tSiehe http://a.de/b!"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.de"
    path.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return path


def rows_of(capfd: pytest.CaptureFixture[str], *arguments: str | Path) -> list[list[str]]:
    assert run(["translate", *map(str, arguments), "--format", "tsv", "--threads", "1"]) == 0
    return [line.split("\t") for line in capfd.readouterr().out.splitlines()]


def test_columns_come_in_one_order_and_number(text: Path, capfd: pytest.CaptureFixture[str]) -> None:
    beam = ["--strategy", "beam", "--beam-size", "4"]
    plain = rows_of(capfd, text, *beam)
    rows = rows_of(capfd, text, *beam, "--n-best", "3", "--scores", "--alignments")
    assert {len(row) for row in rows} == {8}
    assert [row[:2] for row in rows] == plain
    first = rows[0]
    assert first[1] == "This file is empty." and first[3] == "0-0 1-1 2-2 3-3"
    assert len({first[1], first[4], first[6]}) == 3
    assert 0.0 > float(first[2]) > float(first[7])
    assert rows[1][3:] == [""] * 5
    assert [len(row) for row in rows_of(capfd, text, *beam, "--n-best", "3")] == [4] * 3


def test_objects_have_what_was_asked_for(text: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    terms = tmp_path / "terms.tsv"
    terms.write_text("Datei\tdocument\nServer\tserver|host\n", encoding="utf-8")
    command = ["translate", str(text), "--format", "jsonl", "--threads", "1"]
    assert run([*command, "--glossary", str(terms), "--keep-numbers", "--alignments"]) == 0
    records = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert records[0]["translation"] == "This document is empty."
    assert records[0]["terms"] == [
        {"source": "Datei", "forms": ["document"], "found": "document", "met": "by constraint"}
    ]
    assert "0-0" in records[0]["alignment"].split()
    assert "terms" not in records[1]
    assert {(use["source"], use["met"]) for use in records[2]["terms"]} >= {("Server", "freely")}
    assert run([*command, "--strategy", "beam", "--n-best", "2"]) == 0
    records = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [len(record.get("alternatives", [])) for record in records] == [1, 0, 1]
    assert records[0]["alternatives"][0]["score"] is None


def test_checks_warn_with_line_numbers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "text.de"
    path.write_text("Wo ist der Bahnhof?\n" + "x " * 150 + "12345\n", encoding="utf-8")
    assert run(["translate", str(path), "--check", "--threads", "1"]) == 0
    said = capfd.readouterr()
    assert said.out.count("\n") == 2
    assert all(
        line.startswith(f"specmt: warning: {path}:2: ") for line in said.err.splitlines() if ": warning: " in line
    )


def test_wrapped_text_keeps_its_lines(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mail.de"
    path.write_bytes(b"> Dieser Satz ist so lang, dass er nicht auf\n> eine einzige Zeile passt.\r\n\nKurz.\n" * 4)
    assert run(["translate", str(path), "--threads", "1"]) == 0
    assert "note: many lines end in the middle of a sentence; `--wrapped`" in capfd.readouterr().err
    stats = tmp_path / "stats.json"
    assert run(["translate", str(path), "--threads", "1", "--wrapped", "--stats", str(stats), "-v"]) == 0
    said = capfd.readouterr()
    lines = said.out.split("\n")
    assert [line[:2] == "> " for line in lines] == [True, True, False, False] * 4 + [False]
    assert [line.endswith("\r") for line in lines] == [False, True, False, False] * 4 + [False]
    assert "--wrapped" not in said.err and "attempts 8 / 0 / 0, 0 left in their language" in said.err
    assert [json.loads(stats.read_text())[name] for name in ("lines", "attempts", "left")] == [16, [8, 0, 0], 0]
