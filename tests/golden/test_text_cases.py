"""What people reported of other translators, with the bundled models: each line is one of a kind."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from specmt.documents import translate_documents
from specmt.formats import read_document
from specmt.formats.document import FormatOptions
from specmt.models.folder import bundled
from specmt.options import DecodingOptions
from specmt.text.checks import check
from specmt.translator import Translator

GREEDY = DecodingOptions(strategy="greedy")

Translate = Callable[..., list[str]]


@pytest.fixture(scope="module")
def translators() -> Mapping[str, Translator]:
    return {folder.source: Translator.from_pretrained(folder.path) for folder in bundled()}


@pytest.fixture(scope="module")
def german(translators: Mapping[str, Translator]) -> Translate:
    return lambda *lines: [each.text for each in translators["de"].translate(lines, GREEDY)]


@pytest.fixture(scope="module")
def english(translators: Mapping[str, Translator]) -> Translate:
    return lambda *lines: [each.text for each in translators["en"].translate(lines, GREEDY)]


def in_document(translator: Translator, name: str, text: str) -> str:
    document = read_document(text.encode(), name, name.rpartition(".")[2], FormatOptions())
    (done,) = translate_documents(translator, [(name, document)], GREEDY, language=translator.model.languages[0])
    return done.data.decode()


def numbers(text: str) -> list[str]:
    return re.findall(r"\d+", text)


def test_a_line_of_many_sentences_is_their_translations(english: Translate) -> None:
    """Case 01."""
    sentences = ["Anna lives in Boston.", "He works as a cook.", "The dog is here.", "School starts tomorrow."] * 4
    assert english(" ".join(sentences)) == [" ".join(english(*sentences))]


def test_dates_stay_digit_for_digit(german: Translate) -> None:
    """Case 02."""
    dates = ["20.05.1995", "3.10.1990", "31.12.2024"]
    lines = ["{}", "Am {} wurde er geboren.", "Geboren am {} in Ulm.", "Gültig vom 01.01.2024 bis {}."]
    wanted = [line.format(date) for line in lines for date in dates]
    for line, said in zip(wanted, german(*wanted), strict=True):
        assert numbers(said) == numbers(line)
        assert not re.search(r"\d,\d", said)


def test_long_numbers_keep_their_digits(german: Translate) -> None:
    """Case 03."""
    fixed = ["194688523062", "4111 1111 1111 1111", "3.14159265358979323846", "6171-1231-1311-1231", "20240000117788"]
    assert german(*fixed) == fixed
    for number, said in zip(fixed, german(*(f"Die Nummer lautet {each}." for each in fixed)), strict=True):
        assert number in said
    assert re.findall(r"[\d,.€]+", german("866.413,02 €")[0]) == ["€866,413.02"]


def test_decomposed_letters_are_composed(german: Translate) -> None:
    """Case 04."""
    lines = ["München ist schön.", "Fünf Äpfel sind grün.", "Café am Platz"]
    assert german(*(unicodedata.normalize("NFD", line) for line in lines)) == german(*lines)


def test_what_has_no_width_changes_nothing(translators: Mapping[str, Translator]) -> None:
    """Case 06."""
    marked = "<p>Der Benutzer&shy;name ist falsch.</p>\n<p>Die Haus&#8203;tür ist offen.</p>\n"
    plain = re.sub("&[^;]+;", "", marked)
    assert in_document(translators["de"], "a.html", marked) == in_document(translators["de"], "a.html", plain)


@pytest.mark.parametrize("word", ["हिन्दी", "தமிழ்", "ไทย", "Երևան", "√2 ≈", "π ≠ 3; 5 ≤ 6; ∞", "H₂O", "├──"])
def test_what_was_not_learnt_is_copied(word: str, german: Translate) -> None:
    """Case 07."""
    (said,) = german(f"Das Wort {word} steht auf dem Schild.")
    assert word in said
    assert "\ufffd" not in said


def test_lines_without_letters_stay(german: Translate) -> None:
    """Case 08."""
    lines = ["-" * 78, "=" * 42, "*" * 10, "?" * 10, "?!", "„“", "!!!", "||", "10" * 19, "1" * 34]
    assert german(*lines) == lines


def test_capitals_are_translated(english: Translate) -> None:
    """Case 09."""
    lines = ["DO NOT TOUCH", "KEEP OUT OF REACH OF CHILDREN", "ADD TO CART", "THE PRICE INCLUDES ALL TAXES."]
    for line, said in zip(lines, english(*lines), strict=True):
        assert said.isupper()
        assert not {"TOUCH", "KEEP", "CHILDREN", "ADD", "CART", "PRICE", "INCLUDES", "TAXES"} & {*said.split()}, line
    assert re.fullmatch(r"Ich bin SEHR .*[a-z]\W", english("I am VERY happy about this.")[0])


def test_raised_and_lowered_marks_stay_on_what_they_mark(translators: Mapping[str, Translator]) -> None:
    """Case 10."""
    kept = ["m<sup>2</sup>", "CO<sub>2</sub>", '<a href="#f1"><sup>1</sup></a>', '<sup><a href="#f2">2</a></sup>']
    lines = ["Die Fläche beträgt 20 {}.", "{} ist ein Gas.", "Das ist wichtig.{}", "Und das auch.{}"]
    page = "".join(f"<p>{line.format(each)}</p>\n" for line, each in zip(lines, kept, strict=True))
    said = in_document(translators["de"], "a.html", page)
    assert [said.count(each) for each in kept] == [1] * 4
    assert re.search(r"\.<a.*\n.*\.<sup>", said)
    assert re.search(r"study<sup>1</sup>", in_document(translators["de"], "a.html", "<p>Die Studie<sup>1</sup>.</p>"))


@pytest.mark.parametrize(
    ("line", "pattern"),
    [
        ("Read the %1$sterms of use%2$s and continue.", r"\S.*%1\$s\w.*\w%2\$s .*"),
        ("Please %slog in%s to see this page.", r"Bitte %s\w.*\w%s\W.*"),
        ("Click {link}here{/link} to continue.", r".*\{link\}hier\{/link\}.*"),
        ("{{#if admin}}You are an admin.{{/if}}", r"\{\{#if admin\}\}Sie .*\.\{\{/if\}\}"),
        ("Hello😀world", "Hallo😀Welt"),
    ],
)
def test_words_beside_placeholders_are_translated(line: str, pattern: str, english: Translate) -> None:
    """Case 11."""
    (said,) = english(line)
    assert re.fullmatch(pattern, said), said
    assert not re.search(r"\b(terms|log|here|You|world)\b", said)


def test_accelerators_are_on_a_letter_of_the_translation(translators: Mapping[str, Translator]) -> None:
    """Case 12."""
    labels = ["&File", "E&xit", "Save && Close", "_Edit", "Add to _favorites", "Close &Tab", "Research & more"]
    catalogue = 'msgid ""\nmsgstr "Language: de\\nContent-Type: text/plain; charset=UTF-8\\n"\n'
    catalogue += "".join(f'\nmsgid "{label}"\nmsgstr ""\n' for label in labels)
    said = re.findall('msgstr "(.+)"', in_document(translators["en"], "a.po", catalogue))[-len(labels) :]
    for label, translation in zip(labels, said, strict=True):
        wanted = [mark for mark in "&_" if re.search(rf"(?<!{mark}){mark}\w", label)]
        assert [mark for mark in re.findall(r"(?<!&)[&_](?=\w)", translation)] == wanted, translation
    assert "&" not in said[2].replace("&&", "")


@pytest.mark.parametrize(
    ("line", "translation", "problem"),
    [
        ("Phone: (555) 123 | Fax: (555) 124", "Telefon: (55) 123 | Fax: (555) 124", "555"),
        ("Open Monday, 8:30 a.m.–6 p.m.", "Montag offen, 8:30 Uhr, 1:30 Uhr – 18 Uhr.", "1:30"),
        ("Dear Ms. Smith,", "Liebe Frau Smith", "','"),
    ],
)
def test_checks_see_what_is_lost(line: str, translation: str, problem: str) -> None:
    """Case 21."""
    assert any(problem in each for each in check(line, translation, ("en", "de")))


def test_names_and_codes_are_copied(german: Translate) -> None:
    """Case 25."""
    things = ["@zeitung", "#Klimawandel", ":sonne:", "4711-A"]
    for thing, said in zip(things, german(*(f"Alle reden über {each} und mehr." for each in things)), strict=True):
        assert said.count(thing) == 1


def test_terms_are_written_as_the_text_writes_them(translators: Mapping[str, Translator], tmp_path: Path) -> None:
    """Case 29."""
    terms = {"apple tech news": ["apple tech news"], "client": ["Auftraggeber"], "contractor": ["Auftragnehmer"]}
    lines = ["Read the Apple Tech News of today.", "The CLIENT shall pay the CONTRACTOR."]
    one, other = (each.text for each in translators["en"].translate(lines, GREEDY, glossary=terms))
    assert "Apple Tech News" in one
    assert [other.count(word) for word in ("AUFTRAGGEBER", "AUFTRAGNEHMER", "CLIENT", "CONTRACTOR")] == [1, 1, 0, 0]
