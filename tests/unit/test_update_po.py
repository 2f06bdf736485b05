"""Catalogues of gettext are brought up to date as msgmerge does it, but for what it would only guess."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import polib
import pytest

from tests.updating import Pair

HEAD = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Language: en\\n"\n'
OLD = f"""{HEAD}
#: a.c:1
msgid "eins"
msgstr ""

#: a.c:2
msgid "zwei"
msgstr ""

#: a.c:3
msgid "drei"
msgstr ""
"""
NEW = f"""{HEAD}
#. Hinweis
#: a.c:10
#, c-format
msgid "eins"
msgstr ""

#: a.c:11
msgid "neu"
msgstr ""

#: a.c:30
msgid "drei"
msgstr ""
"""


@pytest.fixture
def catalogue(tmp_path: Path) -> Pair:
    pair = Pair(tmp_path, "de.po")
    pair.update(OLD)
    pair.edit('msgid "eins"\nmsgstr "EINS"', 'msgid "eins"\nmsgstr "one"')
    pair.edit("#: a.c:1\n", "# by hand\n#: a.c:1\n")
    return pair


def test_entries_follow_their_source(catalogue: Pair) -> None:
    made = catalogue.update(NEW)
    assert catalogue.asked == ["neu"]
    entries = {entry.msgid: entry for entry in polib.pofile(made)}
    assert {msgid: entry.msgstr for msgid, entry in entries.items()} == {
        "eins": "one", "neu": "NEU", "drei": "DREI", "zwei": "ZWEI"
    }  # fmt: skip
    assert entries["eins"].occurrences == [("a.c", "10")]
    assert entries["eins"].tcomment == "by hand"
    assert entries["eins"].comment == "Hinweis"
    assert entries["eins"].flags == ["c-format"] or "c-format" in entries["eins"].flags
    assert entries["zwei"].obsolete
    assert not entries["drei"].obsolete
    again = catalogue.update(NEW + "\n")
    assert again == made
    assert not catalogue.asked
    more = catalogue.update(f'{NEW}\nmsgid "vier"\nmsgstr ""\n')
    assert [each.msgid for each in polib.pofile(more)] == ["eins", "neu", "drei", "vier", "zwei"]
    assert more.index("#~ msgid") > more.index("VIER")


def test_what_editors_write_in_the_head_stays(tmp_path: Path) -> None:
    pair = Pair(tmp_path, "de.po")
    dated = OLD.replace('"Language', '"POT-Creation-Date: 2020-01-01 00:00+0000\\n"\n"Language')
    pair.update(dated)
    pair.edit('"Language', '"Last-Translator: A\\n"\n"Language')
    for year, former, editor in (("2021", "A", "A"), ("2022", "A", "B"), ("2023", "B", "B")):
        pair.edit(f"Last-Translator: {former}", f"Last-Translator: {editor}")
        made = pair.update(dated.replace("2020", year))
        assert f"Date: {year}-01-01" in made and f"Last-Translator: {editor}" in made
        assert not pair.remarks and not pair.asked


def test_entries_without_a_translation_get_one(tmp_path: Path) -> None:
    pair = Pair(tmp_path, "de.po")
    pair.target.parent.mkdir()
    pair.target.write_text(OLD.replace('"zwei"\nmsgstr ""', '"zwei"\nmsgstr "two"'))
    made = pair.update(OLD)
    assert pair.asked == ["eins", "drei"]
    assert [entry.msgstr for entry in polib.pofile(made)] == ["EINS", "two", "DREI"]


@pytest.mark.skipif(shutil.which("msgmerge") is None, reason="needs gettext")
def test_msgmerge_does_the_same(catalogue: Pair) -> None:
    old, new = catalogue.folder / "old.po", catalogue.folder / "new.pot"
    old.write_text(catalogue.target.read_text())
    new.write_text(NEW)
    command = ["msgmerge", "--quiet", "--no-fuzzy-matching", old, new]
    theirs = polib.pofile(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    ours = polib.pofile(catalogue.update(NEW))
    for one in ours:
        other = theirs.find(one.msgid, include_obsolete_entries=True)
        told = ("occurrences", "comment", "tcomment", "obsolete")
        assert all(getattr(one, name) == getattr(other, name) for name in told), one.msgid
        assert other.msgstr in (one.msgstr, "")
    assert len(ours) == len(theirs)
