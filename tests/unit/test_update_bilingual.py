"""XLIFF and Qt, which have the source beside its translation, follow it also where a person's translation stays."""

from __future__ import annotations

from pathlib import Path

from tests.updating import Pair

UNIT = '<trans-unit id="{}"><source>{}</source></trans-unit>'
HEAD = '<xliff version="1.2"><file original="a" source-language="de" target-language="en"><body>'
XLIFF = f"{HEAD}{{}}</body></file></xliff>"
SECOND = '<xliff version="2.0" srcLang="de" trgLang="en"><file id="f"><unit id="u">'
TWO = f"{SECOND}<segment>{{}}</segment></unit></file></xliff>"


def test_outdated_units_of_xliff_have_the_new_source_and_say_so(tmp_path: Path) -> None:
    pair = Pair(tmp_path, "de.xlf")
    pair.update(XLIFF.format(UNIT.format(1, "Eins") + UNIT.format(2, "Zwei")))
    pair.edit(">EINS<", ">one<")
    pair.revise('state="needs-review-translation"', 'state="final"')
    made = pair.update(XLIFF.format(UNIT.format(1, "Eins und mehr") + UNIT.format(0, "Neu") + UNIT.format(2, "Zwei")))
    assert pair.asked == ["Eins und mehr", "Neu"]
    assert pair.origins().count("o") == 1
    assert '<source>Eins und mehr</source><target state="needs-translation">one</target>' in made.replace("\n", "")
    assert made.index("NEU") < made.index("ZWEI")
    again = pair.update(pair.source.read_text() + "\n")
    assert (again, pair.asked) == (made, [])


def test_entries_of_others_hold_for_the_source_that_they_have(tmp_path: Path) -> None:
    pair = Pair(tmp_path, "de.xlf")
    said = '<trans-unit id="{0}"><source>{1}</source><target state="{2}">{3}</target></trans-unit>'
    pair.target.parent.mkdir()
    units = (1, "Eins", "final", "one"), (2, "Zwei", "final", "two"), (3, "Drei", "needs-translation", "three")
    pair.target.write_text(XLIFF.format("".join(said.format(*each) for each in units)))
    texts = (1, "Eins"), (2, "Zwei und mehr"), (3, "Drei"), (4, "Vier")
    made = pair.update(XLIFF.format("".join(UNIT.format(*each) for each in texts)))
    assert [each.origin for each in pair.record.entries if each.kind == "entry"] == ["h", "o", "o", "m"]
    assert pair.asked == ["Zwei und mehr", "Vier"] and "draft: ZWEI UND MEHR" in pair.remarks[0]
    assert '<source>Zwei und mehr</source><target state="needs-translation">two</target>' in made.replace("\n", "")


def test_outdated_units_of_xliff_2(tmp_path: Path) -> None:
    pair = Pair(tmp_path, "de.xlf")
    pair.update(TWO.format("<source>Eins</source>"))
    pair.revise(">EINS<", ">one<")
    made = pair.update(TWO.format("<source>Eins und mehr</source>"))
    assert '<segment state="initial"><source>Eins und mehr</source><target>one</target></segment>' in made


QT = """<!DOCTYPE TS>
<TS version="2.1" sourcelanguage="de" language="en">
<context>
    <name>A</name>
    <message>
        <location filename="a.cpp" line="{}"/>
        <source>Eins</source>
        <translation type="unfinished"></translation>
    </message>
</context>
</TS>
"""


def test_messages_of_qt_are_where_their_source_is(tmp_path: Path) -> None:
    pair = Pair(tmp_path, "de.ts")
    pair.update(QT.format(1))
    pair.edit(">EINS<", ">one<")
    made = pair.update(QT.format(20))
    assert not pair.asked
    assert 'line="20"' in made
    assert ">one</translation>" in made
    assert pair.update(QT.format(20) + "\n") == made
