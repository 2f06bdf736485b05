from __future__ import annotations

import pytest

from specmt.text.segment import MOST, in_pieces, segment, split_layout, split_sentences
from tests.growth import assert_linear


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
        ["Es kostet ca. 3.50 Euro usw.", "Das reicht."],
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


GERMAN = """
Anna wohnt in Neustadt. | Ihr Bruder auch! | Wirklich? | Ja …
ich komme morgen. | bis dann. | hast du zeit?
wir sehen uns am 3. oktober, z. b. im park usw. und dann nicht mehr.
Das ist wichtig.1 | Und das.[2] | Und dies.%1 | Und jenes.“3,4 | Und mehr.¹ | Ende.
Siehe %1. | Dann weiter. | %2 ist da! | %3 Danke.
Es gab Äpfel, Birnen usw. | Der Rest war leer.
Dipl.-Ing. Karl fährt ein Auto Bj. 2010 aus der Hauptstr. 12 nach Süden.
Dr. Meier, u. a. Karl, d. h. Er, traf Nr. %1 vs. Berlin und Maj. Otto.
Im 19. Jahrhundert, am 12. März und beim 100. Geburtstag war es so.
Nach § 5 Abs. 2 Satz 1 gilt Kap. 3 nicht.
Er ist 42. | Dann kam Karl V. Otto und das Vitamin C. | Das war 1995. | Karl ging.
1. Öffnen Sie die Tür. | 2. Schließen Sie sie.
Er kam und ... dann ging er. | ... Und dann?
Die Firma Yahoo! Inc wartet.
„Wirklich?“, fragte er. | „Wirklich?“ fragte sie. | „Wirklich!“ | So war es.
Version 3.5 ist da. | 4.0 kommt.
Die Serviceartikelnr. 4 aus dem ABl. L 12 ist da. */
DAS IST AM 3. UND 4. MAI. | ENDE.
"""
ENGLISH = """
We met at 5 p.m. | Then he left. | We met at 6 a.m. | Trains ran. | We met at 7 p.m. Monday.
He joined Example Inc. | The firm grew. | Example Inc. Chairman Smith left.
See No. 5, Sec. 4 and Fig. 2 there. | I said no. | He said yes.
Smith et al. (2010) met Rep. Jones, Mr. He and J. R. R. Smith in the U.S. Senate.
He left the U.S. | The plane was late. | Cities, e.g. Berlin, i.e. The City, are big.
He is 42. | Peter is 12. | It was World War II. | Peter was there.
i will come. | see you then. | do you have time? | yes
"Really?" he asked. | "Really?" | He asked again.
She has a Ph.D. | He has none (p. 5). | Of course.
"""


@pytest.mark.parametrize(
    ("language", "line"),
    [("de", line) for line in GERMAN.strip().splitlines()] + [("en", line) for line in ENGLISH.strip().splitlines()],
)
def test_sentences_end_where_they_do_in(language: str, line: str) -> None:
    sentences = line.split(" | ")
    assert [sentence for sentence, _ in split_sentences(" ".join(sentences), language)] == sentences


@pytest.mark.parametrize(
    ("language", "text", "sentences"),
    [
        ("es", "¿Cuándo llega el Sr. Gómez? Mañana.", [("¿Cuándo llega el Sr. Gómez?", " "), ("Mañana.", "")]),
        ("it", "Il Dott. Rossi è qui.  Perché?", [("Il Dott. Rossi è qui.", "  "), ("Perché?", "")]),
        ("ja", "これはペンです。本当ですか？", [("これはペンです。", ""), ("本当ですか？", "")]),
        ("hi-IN", "यह एक घर है। वह कौन है?", [("यह एक घर है।", " "), ("वह कौन है?", "")]),
        ("de-AT", "Am 3. Mai. Ja.", [("Am 3. Mai.", " "), ("Ja.", "")]),
        ("fr", "", [("", "")]),
    ],
)
def test_sentences_of_other_languages(language: str, text: str, sentences: list[tuple[str, str]]) -> None:
    assert split_sentences(text, language) == sentences


def test_text_that_fits_stays_whole() -> None:
    assert segment("One. Two.", 2, words) == [("One. Two.", "")]


def test_sentences_then_clauses_then_words_then_characters() -> None:
    assert segment("One two.  Three four.", 3, words) == [("One two.", "  "), ("Three four.", "")]
    assert segment("a b c, d e f g h", 6, words) == [("a b c,", " "), ("d e f g h", "")]
    assert segment("a b c d e", 2, words) == [("a b", " "), ("c d", " "), ("e", "")]
    assert segment("abcdefgh", 3, len) == [("abc", ""), ("def", ""), ("gh", "")]


def test_a_character_over_the_limit_is_returned_alone() -> None:
    parts = segment("ab", 2, lambda text: 3 * len(text))
    assert parts == [("a", ""), ("b", "")]


def test_layout_is_separated_exactly() -> None:
    text = "Name \t Wert\u2028neu\rEnde"
    assert split_layout(text) == [("Name", " \t "), ("Wert", "\u2028"), ("neu", "\r"), ("Ende", "")]
    assert split_layout("kein Umbruch") == [("kein Umbruch", "")]
    assert split_layout("") == [("", "")]


@pytest.mark.parametrize(
    "unit", ["Ein Satz. ", "wort ", "x", ".", " ", "a. ", '()" ', "e\u0301", ".%1", "a.[1]", "! ", "1.1,", "a.)"]
)
def test_a_long_line_takes_linear_time(unit: str) -> None:
    def check(size: int) -> None:
        text = unit * (size // len(unit))
        parts = segment(text, 100, lambda piece: len(piece) // 4)
        assert join(parts) == text
        assert all(len(part) // 4 <= 100 for part, _ in parts)

    assert_linear(check, 12_500)


@pytest.mark.parametrize(
    "unit", ["Ein Satz. ", "wort ", "ä", "語", "語。", " ", "Das ist 1. ", "a" * 5000 + " ", "ä " + "é" * 4090]
)
def test_a_long_line_comes_in_pieces(unit: str) -> None:
    def check(size: int) -> None:
        found = list(in_pieces(unit * (size // len(unit)), "de"))
        assert join(found) == unit * (size // len(unit))
        assert all(len(piece) <= MOST or (piece.isascii() and " " not in piece) for piece, _ in found)
        assert len(found) <= 3 * size / MOST + 2
        if unit[-2:] == ". ":
            assert all(piece[-1] == "." and space == " " for piece, space in found[:-1])

    assert_linear(check, 25_000)
    assert list(in_pieces(unit[:10], "de")) == [(unit[:10], "")]


@pytest.mark.parametrize(
    "character",
    [
        "e\u0301", "👍🏽", "👨\u200d👩\u200d👧\u200d👦", "🏳️\u200d🌈", "🇩🇪", "1️⃣",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "\u1112\u1161\u11ab", "ا\u200f",
        "\u2067א\u2069", "می\u200c", "x\u2060",
    ],
)  # fmt: skip
def test_nothing_that_reads_as_one_character_is_cut_in_two(character: str) -> None:
    text = character * 20
    for limit in (len(character), len(character) + 1, 17, 20):
        parts = segment(text, limit, len)
        assert join(parts) == text
        assert all(len(part) % len(character) == 0 or "ی" in part for part, _ in parts)
        assert all(not part.startswith("\u200c") for part, _ in parts)


def test_text_without_spaces_is_cut_after_its_full_stops() -> None:
    text = "我们今天去北京，明天去上海。然后回家吃饭睡觉。" * 3
    parts = segment(text, 20, len)
    assert join(parts) == text
    assert all(part.endswith(("。", "，")) for part, _ in parts)


def test_a_stand_in_is_not_cut_in_two() -> None:
    for limit in range(4, 9):
        assert all("%12" in part or "%" not in part for part, _ in segment("ab%12c7" * 9, limit, len))
