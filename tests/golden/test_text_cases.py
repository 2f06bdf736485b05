"""What people reported of other translators, with the bundled models: each line is one of a kind."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path

import pytest

from specmt.documents import translate_documents
from specmt.formats import read_document
from specmt.formats.document import FormatOptions
from specmt.models.folder import bundled
from specmt.options import DecodingOptions
from specmt.text.checks import check
from specmt.translator import Translator
from tests.golden.hostile import Made, find_faults

GREEDY = DecodingOptions(strategy="greedy")

SENTENCES = ["Anna lives in Boston.", "He works as a cook.", "The dog is here.", "School starts tomorrow."] * 4
DATED = ["{}", "Am {} wurde er geboren.", "Geboren am {} in Ulm.", "Gültig vom 01.01.2024 bis {}."]
FIXED = ["194688523062", "4111 1111 1111 1111", "3.14159265358979323846", "6171-1231-1311-1231", "20240000117788"]
UNLEARNT = ["हिन्दी", "தமிழ்", "ไทย", "Երևան", "√2 ≈", "π ≠ 3; 5 ≤ 6; ∞", "H₂O", "├──"]
NAMES = ["@zeitung", "#Klimawandel", ":sonne:", "4711-A"]
LETTERLESS = ["-" * 78, "=" * 42, "*" * 10, "?" * 10, "?!", "„“", "!!!", "||", "10" * 19, "1" * 34]
CAPITALS = ["DO NOT TOUCH", "KEEP OUT OF REACH OF CHILDREN", "ADD TO CART", "THE PRICE INCLUDES ALL TAXES."]
UPPER = r"(?=.*[A-Z])(?!.*\b(?:TOUCH|KEEP|CHILDREN|ADD|CART|PRICE|INCLUDES|TAXES)\b)[^a-zäöüß]*"
BESIDE = {
    "Read the %1$sterms of use%2$s and continue.": r"\S.*%1\$s\w.*\w%2\$s .*",
    "Please %slog in%s to see this page.": r"Bitte %s\w.*\w%s\W.*",
    "Click {link}here{/link} to continue.": r".*\{link\}hier\{/link\}.*",
    "{{#if admin}}You are an admin.{{/if}}": r"\{\{#if admin\}\}Sie .*\.\{\{/if\}\}",
    "Hello😀world": "Hallo😀Welt",
}
"""Words beside placeholders, and what becomes of them."""

LINES = {
    "de": [
        *(
            Made(each.format(date), pattern=r"(?!.*\d,\d).*")
            for date in ("20.05.1995", "3.10.1990", "31.12.2024")
            for each in DATED
        ),
        *(Made(each, parts=("", each)) for each in FIXED + LETTERLESS),
        *(Made(f"Die Nummer lautet {each}.", (each,)) for each in FIXED),
        Made("866.413,02 €", pattern=r"[^\d,.€]*€866,413\.02[^\d,.€]*"),
        *(
            Made(unicodedata.normalize("NFD", each), parts=(each,))
            for each in ("München ist schön.", "Fünf Äpfel sind grün.", "Café am Platz")
        ),
        *(Made(f"Das Wort {each} steht auf dem Schild.", (each,)) for each in UNLEARNT),
        *(Made(f"Alle reden über {each} und mehr.", (each,)) for each in NAMES),
    ],
    "en": [
        Made(" ".join(SENTENCES), parts=tuple(" ".join(SENTENCES).replace(". ", ".\0 \0").split("\0"))),
        *(Made(each, pattern=UPPER) for each in CAPITALS),
        Made("I am VERY happy about this.", pattern=r"Ich bin SEHR .*[a-z]\W"),
        *(Made(line, pattern=rf"(?!.*\b(?:terms|log|here|You|world)\b){each}") for line, each in BESIDE.items()),
    ],
}
"""Cases 01 to 04, 07 to 09, 11 and 25."""


@pytest.fixture(scope="module")
def translators() -> Mapping[str, Translator]:
    return {folder.source: Translator.from_pretrained(folder.path) for folder in bundled()}


@pytest.mark.parametrize("language", LINES)
def test_what_must_hold_of_lines(language: str, translators: Mapping[str, Translator]) -> None:
    assert not find_faults(translators[language], LINES[language], GREEDY)


def in_document(translator: Translator, name: str, text: str) -> str:
    document = read_document(text.encode(), name, name.rpartition(".")[2], FormatOptions())
    (done,) = translate_documents(translator, [(name, document)], GREEDY, language=translator.model.languages[0])
    return done.data.decode()


def test_what_has_no_width_changes_nothing(translators: Mapping[str, Translator]) -> None:
    """Case 06."""
    marked = "<p>Der Benutzer&shy;name ist falsch.</p>\n<p>Die Haus&#8203;tür ist offen.</p>\n"
    plain = re.sub("&[^;]+;", "", marked)
    assert in_document(translators["de"], "a.html", marked) == in_document(translators["de"], "a.html", plain)


def test_raised_and_lowered_marks_stay_on_what_they_mark(translators: Mapping[str, Translator]) -> None:
    """Case 10."""
    kept = ["m<sup>2</sup>", "CO<sub>2</sub>", '<a href="#f1"><sup>1</sup></a>', '<sup><a href="#f2">2</a></sup>']
    lines = ["Die Fläche beträgt 20 {}.", "{} ist ein Gas.", "Das ist wichtig.{}", "Und das auch.{}"]
    page = "".join(f"<p>{line.format(each)}</p>\n" for line, each in zip(lines, kept, strict=True))
    said = in_document(translators["de"], "a.html", page)
    assert [said.count(each) for each in kept] == [1] * 4
    assert re.search(r"\.<a.*\n.*\.<sup>", said)
    assert re.search(r"study<sup>1</sup>", in_document(translators["de"], "a.html", "<p>Die Studie<sup>1</sup>.</p>"))


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


def test_what_programs_put_in_messages_stays(translators: Mapping[str, Translator]) -> None:
    """Case 24."""
    texts = {
        "Welcome, ${user.firstName || 'guest'}!": r"Willkommen, \$\{user\.firstName \|\| 'guest'\}!",
        "{0} There are none|{1} There is one|[2,*] There are :count": r"\{0\} .+\|\{1\} [^|]+\|\[2,\*\] [^|]+ :count",
        "no apples | one apple | {count} apples": r"[^|]+\w \| [^|]+\w \| \{count\} Äpfel",
        "Use '{'braces'}' here": r"(?=.*'\{'Klammern'\}').*",
        "See '''bold''' text and [[Main Page|the main page]]": r"(?=.*'''\w+''').*\[\[Main Page\|[^|]+\]\].*",
    }
    said = json.loads(in_document(translators["en"], "v.json", json.dumps(dict(enumerate(texts)))))
    for translation, pattern in zip(said.values(), texts.values(), strict=True):
        assert re.fullmatch(pattern, translation), translation


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


def test_terms_are_written_as_the_text_writes_them(translators: Mapping[str, Translator], tmp_path: Path) -> None:
    """Case 29."""
    terms = {"apple tech news": ["apple tech news"], "client": ["Auftraggeber"], "contractor": ["Auftragnehmer"]}
    lines = ["Read the Apple Tech News of today.", "The CLIENT shall pay the CONTRACTOR."]
    one, other = (each.text for each in translators["en"].translate(lines, GREEDY, glossary=terms))
    assert "Apple Tech News" in one
    assert [other.count(word) for word in ("AUFTRAGGEBER", "AUFTRAGNEHMER", "CLIENT", "CONTRACTOR")] == [1, 1, 0, 0]
