"""Glossaries: what is found in a text, what a translation must have, and bad input."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from specmt.errors import DataError, InputNotFoundError, UsageError
from specmt.models.folder import ASSETS
from specmt.options import DecodingOptions
from specmt.text import required
from specmt.text.glossary import Entry, Glossary, make_glossary, read_glossary
from specmt.text.pieces import load_pieces
from specmt.text.required import Required
from specmt.translator import Translator
from tests.growth import least

PIECES = load_pieces(["pieces.model"], lambda name: ASSETS / "de-en" / name)


def glossary(*terms: str) -> Glossary:
    return Glossary((Entry(term, ("x",), number) for number, term in enumerate(terms, 1)), "terms.tsv")


@pytest.mark.parametrize(
    ("terms", "text", "found"),
    [
        (["Datei"], "Die Datei, Dateien und die DATEI.", ["Datei"]),
        (["datei"], "Die Datei und die DATEI.", ["Datei", "DATEI"]),
        (["neue datei", "datei", "datei öffnen"], "Neue Datei öffnen, Datei öffnen", ["Neue Datei", "Datei öffnen"]),
        (["C++", "C"], "C++ ist nicht C.", ["C++", "C"]),
        (["Hof", "Bahn"], "Bahnhof Hof-Bahn", ["Hof", "Bahn"]),
        (["i̇stanbul", "x"], "İ x", ["x"]),
        ([], "nichts", []),
    ],
)
def test_terms_are_whole_words_from_the_left_and_the_longest_ones(
    terms: list[str], text: str, found: list[str]
) -> None:
    assert [text[start:end] for (start, end), *_ in map(vars_of, glossary(*terms)(text))] == found


def vars_of(required: Required) -> tuple[tuple[int, int], str]:
    return required.span, required.source


@pytest.mark.parametrize(
    ("form", "translation", "found"),
    [
        ("file", "The File.", True),
        ("file", "The files.", False),
        ("File", "the file", False),
        ("3", "3.5 percent", False),
        ("3", "1,3 or x3", False),
        ("3", "He has 3.", True),
        ("C++", "in C++.", True),
    ],
)
def test_a_form_is_there_as_whole_words(form: str, translation: str, found: bool) -> None:
    assert (Required((0, 1), "", ("nothing", form)).found(translation) == form) == found


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Datei\tfile\nServer", "line 2 must be source, tab, target, but has no tab"),
        ("Datei\t", "line 1 must be term, tab, translation, but one of them is empty"),
        ("\tfile", "line 1 must be term, tab, translation"),
        ("Datei\tfile|", "line 1 must be term, tab, translation"),
        ("Datei\tfile\n\nDatei\tdocument", "line 3 must translate 'Datei' as line 1 does, 'file', but has 'document'"),
        ("Datei\t" + "ab" * 200, "line 1 must have forms of 1 to 40 pieces, but 'ababab"),
        ("Datei\t" + "|".join("abcdefghi"), "line 1 must have at most 8 forms, but has 9"),
        (b"Datei\t\xff", "line 1 is not valid UTF-8"),
    ],
)
def test_bad_glossaries_are_refused_with_file_and_line(tmp_path: Path, text: str | bytes, message: str) -> None:
    path = written(tmp_path / "terms.tsv", text)
    with pytest.raises(DataError) as error:
        read_glossary(path, PIECES, "de", "en")
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


def test_a_glossary_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "terms.tsv", "\ufeffDatei\tfile| document \tnote\n\nDatei\tfile|document\n")
    assert read_glossary(path, PIECES, "de", "en").entries["Datei"].targets == ("file", "document")
    with pytest.raises(InputNotFoundError):
        read_glossary(tmp_path / "none.tsv", PIECES, "de", "en")


TBX = """<?xml version="1.0"?><martif><text><body>
<termEntry><langSet xml:lang="de-DE"><tig><term>Datei</term></tig><tig><term>File</term></tig></langSet>
<langSet xml:lang="en"><ntig><termGrp><term>file</term></termGrp></ntig><tig><term> big
document </term></tig></langSet><langSet xml:lang="fr"><tig><term>fichier</term></tig></langSet></termEntry>
<conceptEntry><langSec xml:lang="de"><termSec><term>Server</term></termSec></langSec></conceptEntry>
</body></text></martif>"""


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("Kunde zahlt.", ("The client", "the client")),
        ("- „Kunde zahlt.“", ("The client", "the client")),
        ("Der Kunde zahlt.", ("the client",)),
        ("kunde zahlt.", ("the client",)),
        ("Der KUNDE zahlt.", ("THE CLIENT",)),
    ],
)
def test_a_form_has_the_capitals_of_its_term(text: str, forms: tuple[str, ...]) -> None:
    (required,) = Glossary([Entry("kunde", ("the client",), 1)], "terms.tsv")(text)
    assert required.forms == forms


def test_tbx_has_terms_in_many_languages(tmp_path: Path) -> None:
    path = written(tmp_path / "terms.tbx", TBX)
    entries = read_glossary(path, PIECES, "de", "en-US").entries
    assert {term: (entry.targets, entry.line) for term, entry in entries.items()} == {
        "Datei": (("file", "big document"), 2),
        "File": (("file", "big document"), 2),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TBX.replace("fr", "en").replace('"en"', '"it"'), "has no terms in both de and en"),
        (TBX[:200], "is not well-formed XML"),
        ('<!DOCTYPE m [<!ENTITY a "b">]><m>&a;</m>', "line 1 declares the entity a, which it must not"),
        (TBX.replace("fichier", "x" * 70_000), "line 4 has an entry with terms of more than 65536 characters"),
        (TBX.replace("file", "f " * 60), "line 2 must have forms of 1 to 40 pieces"),
    ],
)
def test_bad_tbx_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_glossary(written(tmp_path / "terms.tbx", text), PIECES, "de", "en")


def test_fifty_thousand_terms_are_no_slower_than_one() -> None:
    many = glossary("Datei", *(f"Wort{number} mit {number}" for number in range(50_000)))
    text = "Die Datei ist wortreich, mit Wort4711 mit 4711. " * 50
    one = glossary("Datei")
    assert {required.source for required in one(text)} == {"Datei"}
    assert len(many(text)) == 100
    assert least(lambda: many(text)) < 50 * least(lambda: one(text)) + 0.05


@pytest.mark.parametrize(
    ("more", "what"),
    [({"strategy": "beam"}, "beam search"), ({"temperature": 1.0}, "sampling"), ({"shortlist": True}, "a `shortlist`")],
)
def test_beams_samples_and_shortlists_take_no_terms(more: dict[str, object], what: str) -> None:
    with pytest.raises(UsageError, match=f"`glossary` does not go together with {what}"):
        DecodingOptions(**more, glossary=Path("terms.tsv"))  # type: ignore[arg-type]


LINES = ["Diese Datei ist leer.", "Der Server ist neu.", "Siehe <b>die Datei</b> im Ordner /tmp auf dem Server."]


def test_translations_have_the_terms(translator: Translator) -> None:
    free = list(translator.translate(LINES))
    assert [each.terms for each in free] == [[], [], []]
    found = list(translator.translate(LINES, glossary={"Datei": ["document"], "Server": ["server", "host"]}))
    assert found[0].text == "This document is empty."
    assert found[1].text == free[1].text
    assert "<b>" in found[2].text and "document" in found[2].text and "/tmp" in found[2].text
    uses = [(use.source, use.found, use.met) for each in found for use in each.terms]
    assert uses == [
        ("Datei", "document", "by constraint"),
        ("Server", "server", "freely"),
        ("Server", "server", "freely"),
        ("Datei", "document", "by constraint"),
    ]
    assert not any(each.warnings for each in found)


def test_terms_do_not_depend_on_the_batch(translator: Translator) -> None:
    terms = {"Datei": ["document"], "Server": ["host"]}
    texts = [
        [each.text for each in translator.translate(LINES * 3, DecodingOptions(batch_size=size), glossary=terms)]
        for size in (1, 32)
    ]
    assert texts[0] == texts[1] == texts[0][:3] * 3


def test_a_call_keeps_the_terms_that_it_began_with_and_the_next_has_those_of_the_file(
    translator: Translator, tmp_path: Path
) -> None:
    path, digests = tmp_path / "terms.tsv", set()
    options = DecodingOptions(glossary=path)

    def said() -> Iterator[str]:
        digests.add(translator.signature(options)["glossary"])
        return (form for each in translator.translate(["Der Hund."] * 2, options) for form in each.terms[0].forms)

    path.write_text("Hund\tcat\n")
    first = said()
    path.write_text("Hund\tgoat\n")
    second = said()
    assert [*first] == ["cat"] * 2 and [*second] == [*said()] == ["goat"] * 2
    assert len(digests) == 2


def test_glossaries_and_forms_are_not_held_for_ever(translator: Translator, tmp_path: Path) -> None:
    for number in range(20):
        path = tmp_path / f"{number}.tsv"
        path.write_text("Hund\tdog\n")
        translator.cutter(DecodingOptions(glossary=path))
    for number in range(5000):
        assert Required((0, 1), "", (f"form {number}",)).found("no") is None
    assert len(translator._held) <= 4
    assert required._pattern.cache_info().currsize <= 1024


def test_a_glossary_that_is_being_written_is_refused(
    translator: Translator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "terms.tsv"
    path.write_text("Hund\tdog\n")

    def read(path: Path, *_: object) -> Glossary:
        path.write_text("Hund\tdog\nKatze\tcat\n")
        return glossary("Hund")

    monkeypatch.setattr("specmt.text.glossary.read_glossary", read)
    with pytest.raises(DataError, match="has changed while it was read"):
        translator.cutter(DecodingOptions(glossary=path))


def test_what_cannot_be_had_is_warned_of(translator: Translator) -> None:
    line = "Datei " * 3 + "."
    (found,) = translator.translate([line], glossary={"Datei": ["document " * 12 + "end", "x " * 15 + "end"]})
    uses = {use.met for use in found.terms}
    assert uses <= {"by constraint", "not"}
    assert bool(found.warnings) == ("not" in uses)


def test_a_glossary_in_memory_is_checked() -> None:
    with pytest.raises(DataError, match="glossary: line 2 must be term, tab, translation"):
        make_glossary({"a": ["b"], "c": []}, PIECES)
