from __future__ import annotations

import time

import pytest

from specmt.text.segment import segment, split_layout, split_sentences


def words(text: str) -> int:
    return len(text.split())


def join(parts: list[tuple[str, str]]) -> str:
    return "".join(text + separator for text, separator in parts)


@pytest.mark.parametrize(
    "sentences",
    [
        ["Das ist gut.", "Das nicht!", "Oder doch?", "Ja …", "Nein."],
        ["Er kam am 3. Oktober um 10.30 Uhr an.", "Es regnete."],
        ["Sie kaufte z. B. Äpfel, d. h. Obst, bzw. Birnen.", "Dann ging sie."],
        ["Dr. Müller wohnt in der Nr. 5, Prof. Weiß ggf. nicht.", "Wer weiß?"],
        ["Johann S. Bach und J. R. R. Tolkien trafen sich nie.", "Schade!"],
        ["Es kostet ca. 3.50 Euro usw. Das reicht."],
        ["Mr. Smith, i.e. John, met Mrs. Jones, e.g. Mary.", "They talked."],
        ["Ludwig XIV. Herrschte lange.", "Er starb 1715.", "Danach kam sein Urenkel."],
        ["„Komm!“, sagte er.", "„Nein.“", "(So war es.)", "Ende."],
        ["„Was?“ fragte sie.", "»Nichts.«", "Gut."],
        ["So sei es ... oder nicht.", "Gewiss."],
        ["Kein Punkt"],
    ],
)
def test_sentences(sentences: list[str]) -> None:
    assert split_sentences(" ".join(sentences)) == [(s, " ") for s in sentences[:-1]] + [(sentences[-1], "")]


def test_text_that_fits_stays_whole() -> None:
    assert segment("One. Two.", 2, words) == [("One. Two.", "")]


def test_sentences_then_clauses_then_words_then_characters() -> None:
    assert segment("One two.  Three four.", 3, words) == [("One two.", "  "), ("Three four.", "")]
    assert segment("a b c, d e f g h", 6, words) == [("a b c,", " "), ("d e f g h", "")]
    assert segment("a b c d e", 2, words) == [("a b", " "), ("c d", " "), ("e", "")]
    assert segment("abcdefgh", 3, len) == [("abc", ""), ("def", ""), ("gh", "")]


def test_characters_keep_their_marks() -> None:
    text = "e\u0301" * 9
    parts = segment(text, 5, len)
    assert join(parts) == text
    assert all(not part.startswith("\u0301") for part, _ in parts)


def test_a_character_over_the_limit_is_returned_alone() -> None:
    parts = segment("ab", 2, lambda text: 3 * len(text))
    assert parts == [("a", ""), ("b", "")]


def test_layout_is_separated_exactly() -> None:
    text = "Name \t Wert\u2028neu\rEnde"
    assert split_layout(text) == [("Name", " \t "), ("Wert", "\u2028"), ("neu", "\r"), ("Ende", "")]
    assert split_layout("kein Umbruch") == [("kein Umbruch", "")]
    assert split_layout("") == [("", "")]


@pytest.mark.parametrize("unit", ["Ein Satz. ", "wort ", "x", ".", " ", "a. ", '()" ', "e\u0301"])
def test_a_long_line_takes_linear_time(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    started = time.process_time()
    parts = segment(text, 100, lambda piece: len(piece) // 4)
    # A generous bound, which quadratic time misses by orders of magnitude.
    assert time.process_time() - started < 10
    assert join(parts) == text
    assert all(len(part) // 4 <= 100 for part, _ in parts)
