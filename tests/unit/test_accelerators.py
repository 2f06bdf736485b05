"""Accelerators of labels: hidden from the model, and one in the translation."""

from __future__ import annotations

import re

import polib
import pytest

from specmt.formats.accelerators import find, hide, plain
from specmt.formats.document import Edit, Segment
from specmt.types import Tagged
from tests.documents import Shouting, read, run
from tests.growth import assert_linear

HEAD = 'msgid ""\nmsgstr ""\n"Language: de\\n"\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'


def translated(answers: dict[str, str], *labels: str) -> tuple[list[str], list[str]]:
    """Returns what is asked for labels of a catalogue, and their translations."""
    translator = Shouting(answers)
    source = HEAD + "\n".join(f'msgid "{label}"\nmsgstr ""\n' for label in labels)
    (document,) = run(translator, ("po", source), source="en", target="de")
    return translator.asked, [entry.msgstr for entry in polib.pofile(document.data.decode())]


def written(label: str, said: str) -> str:
    """Returns what a translation becomes."""
    (segment,) = hide([Segment(Tagged(label), 1, lambda translation, _: [Edit(0, 0, [translation.text])])])
    (edit,) = segment.edits(Tagged(said), lambda *_: None)
    return "".join(map(str, edit.pieces))


@pytest.mark.parametrize(
    ("label", "shown"),
    [
        ("&File", "File"),
        ("E&xit", "Exit"),
        ("Be&enden", "Beenden"),
        ("_Edit", "Edit"),
        ("E_xit", "Exit"),
        ("~Datei", "Datei"),
        ("Zeile ein~fügen…", "Zeile einfügen…"),
        ("Add to _favorites", "Add to favorites"),
        ("Suchen && &Ersetzen…", "Suchen & Ersetzen…"),
        ("Fahr zu R&D und &weiter", "Fahr zu R&D und weiter"),
        ("<b>_Fett</b>", "<b>Fett</b>"),
        ("ファイル(&F)", "ファイル"),
        ("開く (_O)…", "開く…"),
        ("<span size='large'><b>&Datei</b></span>", "<span size='large'><b>Datei</b></span>"),
    ],
)
def test_the_accelerator_of_a_label_is_hidden(label: str, shown: str) -> None:
    assert find(label) is not None
    assert plain(label) == shown


@pytest.mark.parametrize(
    "text",
    [
        *("AT&T", "R&D", "Q&A", "Plug&Play", "Copy&paste", "Text & mehr", "a &amp; b", "ein&nbsp;Wort", "&#160;x"),
        *(
            "snake_case", "__init__", "_foo_", "_Foo bar_", "MAX_SIZE", "jede_r Nutzer_innen", "_id", "<b>_id</b>",
            "<a href='_blank'>Seite</a>", "<b>Ein</b> &Haus", "~5 Minuten", "~~alt~~ neu", "https://a.b/?x=1&y",
        ),
        *("&Eins &Zwei", "Das ist ein Satz mit &Mark.", "Das ist &" + "lang" * 30, ""),
    ],
)  # fmt: skip
def test_what_is_no_accelerator_stays(text: str) -> None:
    assert find(text) is None
    assert plain(text) == text


def test_an_accelerator_stays_in_the_tags_around_a_label() -> None:
    asked, said = translated({"<b>Close</b>": "<b>Schließen</b>"}, "<b>_Close</b>")
    assert (asked, said) == (["<b>Close</b>"], ["<b>_Schließen</b>"])


def test_each_translation_has_one() -> None:
    answers = {
        "Exit": "Beenden",
        "Add to favorites": "Zu den Favoriten",
        "Close Tab": "Tab schließen",
        "Undo": "Zurück",
    }
    asked, said = translated(answers, "E&xit", "Add to _favorites", "Close &Tab", "&Undo", "Save && Close", "AT&T")
    assert asked == ["Exit", "Add to favorites", "Close Tab", "Undo", "Save & Close", "AT&T"]
    assert said == ["&Beenden", "Zu den _Favoriten", "&Tab schließen", "&Zurück", "SAVE && CLOSE", "AT&T"]


def test_sisters_have_other_letters() -> None:
    answers = {"File": "Datei", "Print": "Drucken", "Through": "Durch", "Odd": "dd", "All": "%s {x} 1"}
    _, said = translated(answers, "&File", "&Print", "&Through", "&Odd", "&All")
    assert said[:3] == ["&Datei", "D&rucken", "D&urch"]
    assert said[3] == "&dd"  # there is no other
    assert said[4] == ""  # there is none at all
    (document,) = run(
        Shouting({"Print": "Drucken"}),
        ("po", HEAD + 'msgid "&File"\nmsgstr "&Datei"\n\nmsgid "&Print"\nmsgstr ""\n'),
    )
    assert b'msgstr "D&rucken"' in document.data


def test_placeholders_have_none() -> None:
    asked, said = translated({"Open %s now": "%s jetzt öffnen"}, "&Open %s now")
    assert (asked, said) == (["Open %s now"], ["%s &jetzt öffnen"])


def test_scripts_without_an_alphabet() -> None:
    (document,) = run(Shouting({"File...": "文件..."}), ("properties", "a=&File..."), target="zh")
    assert document.data.endswith(b"(&F)...")


def test_units_of_several_segments_and_other_formats() -> None:
    xliff = (
        '<xliff version="1.2"><file><body><trans-unit id="a"><source>E&amp;xit. _Edit</source><seg-source>'
        '<mrk mtype="seg" mid="1">E&amp;xit</mrk> <mrk mtype="seg" mid="2">_Edit</mrk></seg-source></trans-unit>'
        "</body></file></xliff>"
    )
    (document,) = run(Shouting(), ("xliff", xliff))
    assert re.findall(r'mid="\d">([^<]*)<', document.data.decode())[-2:] == ["&amp;EXIT", "E_DIT"]
    for name in ("html", "markdown", "text", "json"):
        data = '{"a": "_Edit it"}' if name == "json" else "_Edit it\n"
        assert [segment.source.text for segment in read(name, data.encode()).segments] == ["_Edit it"]


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ("x<b>y z.b", "&x<b>y z.b"),
        ("a.b<i c>d e", "a.b<i &c>d e"),
        ("{a}b.c d", "{a}b.c &d"),
        ("a_b-c ü", "a_b-&c ü"),
        ("<a b>c://d e", "<a b>c://d &e"),
        ("%<b c>d", "%<b &c>d"),
    ],
)
def test_the_rest_of_a_word_is_copied_where_a_mark_follows(said: str, place: str) -> None:
    assert written("&Ok", said) == place


@pytest.mark.parametrize(("unit", "end"), [("a", ""), ("<!--", " x"), ("<b>x", ""), (".", "文"), ("</a>", "文")])
def test_time_of_a_long_translation_is_linear(unit: str, end: str) -> None:
    assert_linear(lambda size: written("&Ok", unit * (size // len(unit)) + end), 1000)


def test_json_has_accelerators_of_one_kind() -> None:
    translator = Shouting({})
    (done,) = run(translator, ("json", '{"a": "&Datei", "b": "Suchen && Tun", "c": "~zehn Orte", "d": "R&D"}'))
    assert done.data.decode() == '{"a": "&DATEI", "b": "SUCHEN && TUN", "c": "~ZEHN ORTE", "d": "R&D"}'
    assert translator.asked[:3] == ["Datei", "Suchen & Tun", "~zehn Orte"]
