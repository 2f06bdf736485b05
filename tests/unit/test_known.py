"""Pairs of texts for translation memories and glossaries: from files by key and structure, from records, as terms."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specmt.cli.documents import report_page
from specmt.cli.main import run
from specmt.documents import Selection
from specmt.errors import DataError
from specmt.formats.document import FormatOptions
from specmt.options import DecodingOptions
from specmt.pairs import read_pairs
from specmt.text.likeness import Nearest
from specmt.text.memory import read_memory
from specmt.text.terms import suggest
from specmt.update.known import Approved, approved_in, known_texts
from specmt.update.plan import PlanOptions
from specmt.update.store import Files, record_beside
from specmt.update.update import open_update, update_all
from tests.documents import Shouting
from tests.documents import run as run_documents
from tests.unit.test_check import BOTH, FORMS, PLAIN, SUFFIX, page, sentence
from tests.updating import Pair, raised

GERMAN = "# Anfang\n\nDas ist gut, 2026.\n\n- Eins `a`\n- Zwei\n\nNoch ein Absatz mit [Link](x.md).\n"
ENGLISH = "# Start\n\nThis is good, 2026.\n\n- One `a`\n- Two\n\nAnother paragraph with a [link](x.md).\n"


def texts(folder: Path, name: str, source: str, target: str, *, approved: bool = False) -> list[tuple[str, str, int]]:
    paths = folder / f"de.{name}", folder / f"en.{name}"
    for path, text in zip(paths, (source, target), strict=True):
        path.write_text(text)
    file_format = {"md": "markdown", "xml": "android"}.get(name, name)
    files = Files(*paths, record_beside(paths[1]), file_format)
    return [(each.source, each.target, each.line) for each in known_texts(files, FormatOptions(), approved=approved)]


def test_catalogues_are_paired_by_key_whatever_their_order(tmp_path: Path) -> None:
    source = '{"a": {"x": "Haus", "y": "Datei"}, "b": "Baum", "c": "neu", "l": ["eins", "zwei"]}'
    target = '{"l": ["one", "two"],\n"b": "Tree", "a": {"y": "File", "x": "House"}, "d": "old"}'
    found = texts(tmp_path, "json", source, target)
    assert found == [(one, other, 1) for one, other in zip(
        ["Haus", "Datei", "Baum", "eins", "zwei"], ["House", "File", "Tree", "one", "two"], strict=True
    )]  # fmt: skip


@pytest.mark.parametrize("file_format", FORMS | {"markdown": PLAIN, "rst": PLAIN, "asciidoc": PLAIN})
def test_pairs_of_every_format(file_format: str, tmp_path: Path) -> None:
    texts = [sentence(number) for number in range(6)]
    source, target = (tmp_path / f"{side}.{SUFFIX.get(file_format, file_format)}" for side in ("source", "target"))
    for path in (source, target):
        path.write_bytes(page(file_format, texts, is_target=path == target))
    files = Files(source, target, record_beside(target), file_format)
    known = (
        [(each.source, each.target) for each in known_texts(files, FormatOptions())] if file_format not in BOTH else []
    )
    assert (known or [*read_pairs(target, "de", "en")]) == texts


def test_messages_are_paired_by_what_they_translate(tmp_path: Path) -> None:
    source = 'msgid "Haus"\nmsgstr ""\n\nmsgid "Baum"\nmsgstr ""\n'
    target = 'msgid "Baum"\nmsgstr "Tree"\n\nmsgid "Haus"\nmsgstr "House"\n'
    assert texts(tmp_path, "po", source, target) == [("Haus", "House", 1), ("Baum", "Tree", 4)]


def test_pages_are_paired_by_structure_and_those_of_other_pages_are_refused(tmp_path: Path) -> None:
    found = texts(tmp_path, "md", GERMAN, ENGLISH)
    assert found[:2] == [("Anfang", "Start", 1), ("Das ist gut, 2026.", "This is good, 2026.", 3)]
    assert len(found) == 5
    heads = [f"---\ntitle: {title}\n---\n\n" for title in ("Titel", "Title")]
    assert texts(tmp_path, "md", heads[0] + GERMAN, heads[1] + ENGLISH)[:2] == [
        ("Titel", "Title", 2), ("Anfang", "Start", 5)
    ]  # fmt: skip
    with pytest.raises(DataError, match=r"en\.md: is not surely a translation of .*de\.md: \d of 5 blocks are"):
        texts(tmp_path, "md", GERMAN, "- One\n- Two 3\n\n# End 5\n\nOther text, 7 of 8.\n")


def test_of_a_record_only_what_people_wrote_counts(tmp_path: Path) -> None:
    page = Pair(tmp_path, "page.md")
    page.update("Eins.\n\nZwei.\n\nDrei.\n")
    page.edit("ZWEI.", "Two.")
    options = FormatOptions()
    assert [*known_texts(page.files, options, approved=True)] == []  # not known before an update
    page.update()
    (found,) = known_texts(page.files, options, approved=True)
    assert (found.source, found.target, found.line) == ("Zwei.", "Two.", 3)
    page.source.write_text("Eins.\n\nZwei und mehr.\n\nDrei.\n")
    assert [*known_texts(page.files, options, approved=True)] == []


def test_an_update_takes_what_people_approved_elsewhere(tmp_path: Path) -> None:
    page, other = Pair(tmp_path, "page.md"), Pair(tmp_path, "other.md")
    page.update("Eins.\n\nZwei.\n\nDrei.\n")
    page.revise("ZWEI.", "Two.")
    other.source.write_text("Drei.\n\nZwei.\n")
    update = open_update(other.files, FormatOptions(), PlanOptions())
    assert update is not None
    damaged = replace(page.files, record=other.source, target=page.target)
    pairs = [(damaged, FormatOptions()), (page.files, FormatOptions())]
    other.source.write_text("x h \n")
    translator, approved = Shouting(), Approved(lambda: approved_in(pairs))
    (found,) = update_all(
        [update], translator, DecodingOptions(), language="de", fail=raised, selection=Selection(known=approved)
    )  # fmt: skip
    assert found.data == b"DREI.\n\nTwo.\n"
    assert translator.asked == ["Drei."]
    assert dict(approved) == {"Zwei.": "Two."}


def test_a_memory_of_a_project_and_of_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = Pair(tmp_path, "page.md")
    page.update("Eins.\n\nZwei.\n")
    page.revise("ZWEI.", "Two.")
    record = tmp_path / ".specmt/record/en/page.md.rec"
    record.parent.mkdir(parents=True)
    page.files.record.rename(record)
    page.target.parent.rename(tmp_path / "en")
    (tmp_path / "specmt.toml").write_text(
        'version = 1\nfrom = "de"\nto = ["en", "fr"]\n[[files]]\nsource = "*.md"\ntarget = "{to}/{path}"\n'
    )
    monkeypatch.chdir(tmp_path)
    memory = tmp_path / "memory.tmx"
    assert run(["memory", "export", "-o", str(memory)]) == 2
    assert "`to` must be one of en, fr, but is left out." in capsys.readouterr().err
    assert run(["memory", "export", "--to", "en", "-o", str(memory)]) == 0
    assert [*read_memory(memory, "de", "en")] == [("Zwei.", "Two.")]
    Path("de.json").write_text('{"a": "Haus", "b": "Das Haus"}')
    Path("en.json").write_text('{"a": "house", "b": "the house"}')
    pair = ["--pair", "de.json", "en.json", "--from", "de", "--to", "en"]
    assert run(["memory", "export", str(memory), *pair, "-o", "all.tmx"]) == 0
    assert [*read_memory(Path("all.tmx"), "de", "en")] == [
        ("Zwei.", "Two."),
        ("Haus", "house"),
        ("Das Haus", "the house"),
    ]
    assert run(["glossary", "suggest", *pair, "--least", "2", "-o", "terms.tsv"]) == 0
    assert Path("terms.tsv").read_text() == "Haus\thouse\t2 of 2\tde.json:1, de.json:1\n"
    assert run(["memory", "export", "--pair", "de.json", "memory.tmx"]) == 2


def test_what_a_memory_has_something_like_is_shown() -> None:
    known = {"Das rote Haus ist sehr groß.": "The red house is very large.", "Guten Tag.": "Hello."}
    nearest = Nearest(known)
    assert nearest("Das rote Haus ist sehr klein.") == ("Das rote Haus ist sehr groß.", pytest.approx(5 / 6))
    assert nearest("Das Haus ist leer.") is None
    assert nearest("") is None
    selection = Selection(known=known, nearest=nearest)
    page = "markdown", "Das rote Haus ist sehr klein.\n\nGuten Tag.\n"
    (finished,) = run_documents(Shouting(), page, selection=selection)
    ((like, remark),) = finished.summary.near
    assert (like, remark.line) == (pytest.approx(5 / 6), 1)
    assert remark.text.endswith("klein. ≈ Das rote Haus ist sehr groß. → The red house is very large.")
    assert "<h2>Near matches</h2>" in report_page([("a.md", finished.summary)], finished.summary)
    assert "<td>83%</td>" in report_page([("a.md", finished.summary)], finished.summary)


def test_terms_are_what_is_translated_alike() -> None:
    pairs = [
        ("Die rote Datei ist hier.", "The red file is here.", "1"),
        ("Keine Datei mit dem Namen.", "No file of that name.", "2"),
        ("Eine Datei und ein Ordner.", "One file and one folder.", "3"),
        ("Der Ordner ist leer.", "The folder is empty.", "4"),
        ("Der Ordner fehlt.", "There is no directory.", "5"),
        ("Der Ordner fehlt.", "There is no directory.", "6"),
        ("Eine Umgebungsvariable fehlt.", "An environment variable is missing.", "7"),
        ("Die Umgebungsvariable heißt so.", "The environment variable is called so.", "8"),
        ("Jede Umgebungsvariable", "Every environment variable", "9"),
    ]
    found = suggest(pairs, 3)
    assert [each[:4] for each in found] == [
        ("Datei", "file", 3, 3),
        ("Umgebungsvariable", "environment variable", 3, 3),
    ]
    assert found[0].places == ("1", "2", "3")
    assert {each.source for each in suggest(pairs[:6], 2)} == {"Datei"}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (
            "app_en.ts",
            '<TS version="2.1" language="en" sourcelanguage="de"><context><name>a</name><message><source>Haus</source>'
            '<translation>House</translation></message><message><source>Baum</source><translation type="unfinished">Tre'
            "</translation></message></context></TS>",
        ),
        (
            "Localizable.xcstrings",
            '{"sourceLanguage": "de", "strings": {"Haus": {"localizations": {"en": {"stringUnit": '
            '{"state": "translated", "value": "House"}}}}, "Baum": {"localizations": {"en": {"stringUnit": '
            '{"state": "needs_review", "value": "Tre"}}}}}, "version": "1.0"}',
        ),
    ],
)
def test_what_is_reviewed_of_files_with_both_languages_is_a_memory(tmp_path: Path, name: str, data: str) -> None:
    path = tmp_path / name
    path.write_text(data)
    assert [*read_pairs(path, "de", "en")] == [("Haus", "House")]
    assert {*read_pairs(path, "de", "en", unsure=True)} == {("Haus", "House"), ("Baum", "Tre")}
