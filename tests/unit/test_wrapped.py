from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmt.text.lines import read_lines
from specmt.text.wrapped import MOST_LINES, WrapCounter, deal_out, join_lines, paragraphs, part_lines, unwrap
from specmt.types import Line
from tests.sessions import fake_translator


def lines_of(text: str) -> Iterator[Line]:
    """Yields all lines of a text, blank ones, too."""
    for number, line in enumerate(text.splitlines(keepends=True)):
        body = line.rstrip("\r\n")
        yield Line(number, body, line[len(body) :])


def groups(text: str) -> list[list[str]]:
    return [[line.text for line in group] for group in paragraphs(lines_of(text))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Das ist\nein Satz.\n\nUnd noch\neiner.", [["Das ist", "ein Satz."], [""], ["Und noch", "einer."]]),
        ("> eins\n> zwei\n>> drei\nvier", [["> eins", "> zwei"], [">> drei"], ["vier"]]),
        ("// eins\n// zwei\n# drei\n# vier", [["// eins", "// zwei"], ["# drei", "# vier"]]),
        ("# Titel\nText\n  anders", [["# Titel"], ["Text"], ["  anders"]]),
        ("Titel\n=====\nText", [["Titel"], ["====="], ["Text"]]),
        ("- eins\n  und mehr\n- zwei\nund mehr", [["- eins", "  und mehr"], ["- zwei", "und mehr"]]),
        ("Liste:\n1. eins\n2. zwei", [["Liste:"], ["1. eins"], ["2. zwei"]]),
        ("Er wurde am Ende nur\n16. Dann kam\n2010.", [["Er wurde am Ende nur", "16. Dann kam", "2010."]]),
        ("Am Abend des\n3. Oktober", [["Am Abend des", "3. Oktober"]]),
        ("[12:03] anna: eins\n[12:04] otto: zwei", [["[12:03] anna: eins"], ["[12:04] otto: zwei"]]),
        ("Text\nName\tZahl\nText", [["Text"], ["Name\tZahl"], ["Text"]]),
        ("", []),
    ],
)
def test_paragraphs(text: str, expected: list[list[str]]) -> None:
    assert groups(text) == expected


def test_a_paragraph_is_there_once_the_line_that_ends_it_is() -> None:
    read: list[int] = []

    def lines() -> Iterator[Line]:
        for line in lines_of("eins\nzwei\n\ndrei\n- vier\n" + "fünf\n" * MOST_LINES):
            read.append(line.index)
            yield line

    found = [(len(group), read[-1]) for group in paragraphs(lines())]
    # The line after the last of a paragraph is read, but none behind a full one.
    assert found == [(2, 2), (1, 2), (1, 4), (MOST_LINES, 3 + MOST_LINES), (1, 4 + MOST_LINES)]


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["> Das ist", ">   ein  Satz."], "Das ist ein Satz."),
        (["- Das ist", "  ein Satz."], "Das ist ein Satz."),
        (["Donau-", "dampfer"], "Donaudampfer"),
        (["Nord-", "und Südsee"], "Nord- und Südsee"),
        (["E-Mail-", "Adresse"], "E-Mail-Adresse"),
        (["Nord-", "Süd-", "Bahn"], "Nord-Süd-Bahn"),
        (["Typ-", "747"], "Typ-747"),
        (["Wörter\u00ad", "buch"], "Wörterbuch"),
        (["so -", "oder so"], "so - oder so"),
        (["nur", "16. Dann", "#eins"], "nur 16. Dann #eins"),
        ([""], ""),
    ],
)
def test_unwrap(lines: list[str], text: str) -> None:
    assert unwrap(lines) == text


def test_english_compounds_keep_their_hyphens() -> None:
    assert unwrap(["a well-", "known trans-", "lation of state-of-the-", "art"], "en") == (
        "a well-known translation of state-of-the-art"
    )


def test_a_translation_is_dealt_out_by_lengths() -> None:
    assert deal_out("one two three four five six", ["eins zwei drei", "vier", "fünf sechs"]) == [
        "one two three",
        "four",
        "five six",
    ]
    assert deal_out("a b c", ["> - lang und länger", ">   noch etwas  ", "> kurz"]) == ["> - a", ">   b  ", "> c"]
    assert deal_out("a", ["> eins", "> zwei"]) == ["> a", ">"]
    assert deal_out("", ["eins"]) == [""]


@given(st.lists(st.sampled_from(["> eins zwei", "- drei", "vier", "   fünf", "#", ""]), min_size=1), st.text("ab .\t"))
def test_as_many_lines_come_out_and_every_word(sources: list[str], translation: str) -> None:
    lines = deal_out(translation, sources)
    assert len(lines) == len(sources)
    words = translation.split()
    said = [word for line in lines for word in line.split() if word.strip("->#") or word in words]
    assert said == words
    if len(words) >= len(sources):
        assert all(line.strip() for line in lines)


@given(st.lists(st.text("a 1>#-.\t", max_size=6), max_size=30))
def test_every_line_is_in_one_paragraph(texts: list[str]) -> None:
    lines = [Line(index, text) for index, text in enumerate(texts)]
    assert [line for group in paragraphs(lines) for line in group] == lines


@pytest.mark.parametrize(
    ("lines", "is_wrapped"),
    [
        (["Dieser Satz ist lang und geht am Ende der", "zeile noch weiter, wie man sehen kann, und ist"] * 5, True),
        (["Dieser Satz ist lang und hört am Ende der Zeile auf."] * 10, False),
        (["Dieser Satz ist lang, hat aber keinen Punkt am Ende"] * 10, False),
        (["wort"] * 10, False),
        (["Dieser Satz ist lang und geht am Ende der", "zeile noch weiter, wie man sehen kann, und ist"] * 3, False),
    ],
)
def test_whether_text_is_wrapped(lines: list[str], is_wrapped: bool) -> None:
    counter = WrapCounter()
    for line in lines:
        counter.observe(line)
    assert counter.is_wrapped == is_wrapped


def test_paragraphs_are_translated_whole_and_dealt_out() -> None:
    text = "> Das ist\r\n> ein Satz.\n\n- eins\n- zwei drei"
    found = list(fake_translator().translate(join_lines(lines_of(text))))
    assert [each.line.text for each in found] == ["Das ist ein Satz.", "", "- eins", "- zwei drei"]
    assert "".join(map(part_lines, found)) == "> Satz. ein\r\n> ist Das\n\n- eins\n- drei zwei"
    assert [each.line.index for each in found] == [0, 2, 3, 4]
    assert [each.stats.lines for each in found] == [2, 1, 1, 1]


def test_a_pipe_gives_a_paragraph_at_its_end(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    writing = os.open(fifo, os.O_RDWR)
    lines = read_lines(fifo, through=join_lines)
    os.write(writing, b"eins\nzwei\n")
    assert not lines.ready()
    os.write(writing, b"\n")
    assert next(lines).text == "eins zwei"
    os.close(writing)
