from __future__ import annotations

import pytest

from specmt.text.layout import split_columns, split_prefix
from tests.growth import assert_linear

PREFIXES = [
    "[12:03] anna: ", "[12:03:44] <anna> ", "12:03 <anna> ", "<anna> ", "[01.01.26, 12:03:11] Anna Meier: ",
    "01.01.26, 12:03 - Anna Meier: ", "2026-01-01 10:00 INFO ", "2026-01-01 10:00:00,123 - root - WARNING - ",
    "2026-01-01 10:00:00 [main] ERROR com.example.Server - ", "2026-01-01T10:00:00Z host app[123]: ",
    "Jan  1 10:00:00 host kernel: ", "[Wed Oct 11 14:32:52 2000] [error] [client 127.0.0.1] ", "[INFO] ", "> ",
    ">> ", "> > ", "- ", "  * ", "• ", "– ", "- [ ] ", "1. ", "12.) ", "a) ", "(3) ", "(iv) ", "1.2.3 ", "# ",
    "### ", "// ", "> 2. ", "# - ", "\t",
]  # fmt: skip


@pytest.mark.parametrize("prefix", PREFIXES)
def test_prefixes_are_split_off(prefix: str) -> None:
    assert split_prefix(f"{prefix}Guten Morgen") == (prefix, "Guten Morgen")


@pytest.mark.parametrize(
    "text",
    [
        "1. Mai ist Feiertag", "3. Oktober 1990", "3. 10. 1990", "3. und 4. Stunde", "1. FC Neustadt gewinnt",
        "2. Kreisliga Nord", "- 5 Grad", "2024 war gut", "2026-01-01 war gut", "12:03 Uhr ist es", "anna: hallo",
        "Hinweis: Tür schließen", ">= 5 Punkte", "#eins zwei", "z. B. das", "(z. B.) das", "§ 5 gilt", "%1 und %2",
        "<b> fett </b>", "",
    ],
)  # fmt: skip
def test_text_that_is_like_a_prefix_is_not(text: str) -> None:
    assert split_prefix(text) == ("", text)


def test_what_only_one_language_has() -> None:
    assert split_prefix("1. May I come in?", "en") == ("1. ", "May I come in?")
    assert split_prefix("1. Platz", "en") == ("1. ", "Platz")
    assert split_prefix("1. Platz", "de-AT") == ("", "1. Platz")


def test_words_before_a_message_are_no_name() -> None:
    assert split_prefix("[12:03] Achtung: Ende") == ("[12:03] ", "Achtung: Ende")
    assert split_prefix("2026-01-01 10:00 INFO Ende: gut") == ("2026-01-01 10:00 INFO ", "Ende: gut")


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("Name  Anzahl   Preis", [("Name", "  "), ("Anzahl", "   "), ("Preis", "")]),
        ("eins\tzwei\t\tdrei", [("eins", "\t"), ("zwei", "\t\t"), ("drei", "")]),
        ("list  shows all", [("list", "  "), ("shows all", "")]),
        ("Ende.  Anfang", [("Ende.  Anfang", "")]),
        ("(Ende.)   Anfang", [("(Ende.)", "   "), ("Anfang", "")]),
        ("Er geht nach  links.", [("Er geht nach  links.", "")]),
        ("Er hat dort einen  Hund.", [("Er hat dort einen  Hund.", "")]),
        ("    eingerückt  ", [("    eingerückt  ", "")]),
        ("ein Wort", [("ein Wort", "")]),
        ("", [("", "")]),
    ],
)
def test_columns(text: str, cells: list[tuple[str, str]]) -> None:
    assert split_columns(text) == cells


@pytest.mark.parametrize(
    "unit", [" ", "a  ", "a.  ", "a b  ", "\t", "> ", ">", "# ", "- ", "1. ", "1.", "[12:03] ", "<a> ", "x."]
)
def test_a_long_line_takes_linear_time(unit: str) -> None:
    def check(size: int) -> None:
        text = unit * (size // len(unit))
        assert "".join(split_prefix(text)) == text
        assert "".join(cell + gap for cell, gap in split_columns(text)) == text

    assert_linear(check, 12_500)
