"""Translations that are kept up to date: every row of the table of what is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from specmt.errors import DataError
from specmt.formats.document import FormatOptions
from specmt.update.links import Links
from specmt.update.store import store
from tests.documents import Shouting
from tests.updating import Pair

PAGE = """# Titel

Der erste Satz. Und ein zweiter.

```
code 1
```

Ein Absatz über Katzen.

Ein Absatz über Hunde.
"""
MADE = """# TITEL

DER ERSTE SATZ. UND EIN ZWEITER.

```
code 1
```

EIN ABSATZ ÜBER KATZEN.

EIN ABSATZ ÜBER HUNDE.
"""


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path, "page.md")


@pytest.fixture
def page(pair: Pair) -> Pair:
    assert pair.update(PAGE) == MADE
    assert pair.origins() == "mmcmm"
    return pair


def test_a_target_that_is_missing_is_made_and_twice_changes_nothing(page: Pair) -> None:
    before = page.files.record.read_bytes()
    assert page.update() == MADE
    assert not page.asked
    assert page.files.record.read_bytes() == before


def test_only_what_changed_is_translated(page: Pair) -> None:
    assert page.update(PAGE.replace("Katzen", "Mäuse")) == MADE.replace("KATZEN", "MÄUSE")
    assert page.asked == ["Ein Absatz über Mäuse."]


def test_what_a_person_edited_is_kept(page: Pair) -> None:
    page.edit("EIN ABSATZ ÜBER KATZEN.", "A paragraph on cats.")
    kept = MADE.replace("EIN ABSATZ ÜBER KATZEN.", "A paragraph on cats.")
    assert page.update() == kept
    assert page.origins() == "mmchm"
    assert page.update(PAGE.replace("über Katzen", "über viele Katzen")) == kept
    assert page.origins() == "mmcom"
    assert page.remarks == [
        "9: outdated: the source has changed since a person translated it; draft: EIN ABSATZ ÜBER VIELE KATZEN."
    ]
    made = page.update(PAGE.replace("über Katzen", "über viele Katzen").replace("Hunde", "Kühe"))
    assert made == kept.replace("HUNDE", "KÜHE")
    assert page.asked == ["Ein Absatz über Kühe."]
    page.revise("on cats", "on many cats")
    assert page.origins() == "mmchm"


def test_sentences_of_the_machine_beside_those_of_a_person_follow(page: Pair) -> None:
    page.revise("UND EIN ZWEITER.", "And my second.")
    assert page.record.entries[1].translated[0] + "h" != page.record.entries[1].translated[1]
    assert "DER ERSTE TEXT. And my second." in page.update(PAGE.replace("erste Satz", "erste Text"))
    assert page.origins() == "mhcmm"
    other = PAGE.replace("zweiter", "dritter")
    assert "DER LETZTE TEXT. And my second." in page.update(other.replace("erste Satz", "letzte Text"))
    assert page.origins() == "mocmm"
    assert page.remarks[0].startswith("3: outdated")
    assert "DER LETZTE SATZ. And my second." in page.update(other.replace("erste Satz", "letzte Satz"))


def test_parts_of_a_block_that_are_as_they_were_are_not_translated_again(pair: Pair) -> None:
    pair.update("Der erste Satz.\nUnd ein zweiter.\nUnd Schluss.\n")
    made = pair.update("Der erste Satz.\nUnd ein anderer.\nUnd Schluss.\n")
    assert made == "DER ERSTE SATZ.\nUND EIN ANDERER.\nUND SCHLUSS.\n"
    assert pair.asked == ["Und ein anderer."]
    assert pair.origins() == "m"
    pair.update("Neu davor.\nDer erste Satz.\nUnd Schluss.\n")
    assert pair.asked == ["Neu davor."]


def test_a_link_is_exchanged_without_a_translation(pair: Pair) -> None:
    pair.update("Ein [Wort](a.md) und noch eines.\n")
    pair.edit("WORT", "word")
    assert pair.update("Ein [Wort](b.md) und noch eines.\n") == "EIN [word](a.md) UND NOCH EINES.\n"
    assert pair.origins() == "h"
    assert pair.update("Ein [Wort](c.md) und noch eines.\n") == "EIN [word](c.md) UND NOCH EINES.\n"
    assert not pair.asked


@pytest.mark.parametrize(
    ("name", "page"),
    [("page.md", "Ein ![Bild](a.png) da.\n"), ("page.html", '<p>Ein <img src="a.png" alt="Bild"> da.</p>')],
)
def test_where_an_image_is_changes_and_its_description_stays(name: str, page: str, tmp_path: Path) -> None:
    pair = Pair(tmp_path, name)
    made = pair.update(page)
    assert pair.update(page.replace("a.png", "b.png")) == made.replace("a.png", "b.png")
    pair.edit("BILD", "picture")
    assert pair.update(page.replace("a.png", "c.png")) == made.replace("a.png", "b.png").replace("BILD", "picture")
    said = pair.update(page.replace("a.png", "d.png"))
    assert said == made.replace("a.png", "d.png").replace("BILD", "picture")
    assert not pair.asked


def test_both_were_edited(page: Pair) -> None:
    page.edit("EIN ABSATZ ÜBER KATZEN.", "A paragraph on mice.")
    page.update(PAGE.replace("Katzen", "Mäuse"))
    assert not page.asked
    assert page.origins() == "mmchm"
    assert page.remarks == ["9: source and translation were changed together"]


def test_code_is_copied_anew_unless_a_person_edited_it(page: Pair) -> None:
    assert page.update(PAGE.replace("code 1", "code 2")) == MADE.replace("code 1", "code 2")
    page.edit("code 2", "my code")
    assert page.update(PAGE.replace("code 1", "code 3")) == MADE.replace("code 1", "my code")
    assert page.origins() == "mmhmm"
    assert page.update(PAGE.replace("code 1", "code 4")) == MADE.replace("code 1", "my code")
    assert page.origins() == "mmomm"
    assert page.remarks == ["5: outdated: the source has changed since a person translated it"]


def test_new_and_gone(page: Pair) -> None:
    page.edit("EIN ABSATZ ÜBER HUNDE.", "A paragraph on dogs.")
    new = PAGE.replace("Ein Absatz über Katzen.\n\n", "").replace("# Titel\n", "# Titel\n\nNeu hier.\n")
    made = MADE.replace("EIN ABSATZ ÜBER KATZEN.\n\n", "").replace("# TITEL\n", "# TITEL\n\nNEU HIER.\n")
    made = made.replace("EIN ABSATZ ÜBER HUNDE.", "A paragraph on dogs.")
    assert page.update(new) == made
    assert page.asked == ["Neu hier."]
    new = new.replace("Ein Absatz über Hunde.\n", "Ganz etwas anderes.\n\nUnd noch etwas.\n")
    assert page.update(new).startswith(made)
    assert "11: its source is gone, and a person has written it: kept" in page.remarks


def test_what_a_person_deleted_stays_away(page: Pair) -> None:
    page.edit("EIN ABSATZ ÜBER KATZEN.\n\n", "")
    without = MADE.replace("EIN ABSATZ ÜBER KATZEN.\n\n", "")
    assert page.update() == without
    assert page.origins() == "mmc-m"
    assert page.update(PAGE.replace("Katzen", "Kater")) == without
    assert page.update(restore=True) == MADE.replace("KATZEN", "KATER")
    assert page.origins() == "mmcmm"


def test_what_only_the_translation_has_stays_beside_its_predecessor(page: Pair) -> None:
    page.edit("# TITEL\n", "# TITEL\n\nA note of the translator.\n")
    page.edit("KATZEN.\n", "KATZEN.\n\nAnother one.\n")
    made = page.update(PAGE.replace("# Titel\n", "# Titel\n\nNeu hier.\n").replace("Hunde", "Kühe"))
    expected = MADE.replace("# TITEL\n", "# TITEL\n\nA note of the translator.\n\nNEU HIER.\n")
    assert made == expected.replace("KATZEN.\n", "KATZEN.\n\nAnother one.\n").replace("HUNDE", "KÜHE")


def test_what_moved_in_the_source_moves(page: Pair) -> None:
    page.edit("EIN ABSATZ ÜBER HUNDE.", "A paragraph on dogs.")
    dogs = "Ein Absatz über Hunde.\n"
    made = page.update(PAGE.replace("\n" + dogs, "").replace("# Titel\n", "# Titel\n\n" + dogs))
    assert not page.asked
    expected = MADE.replace("\nEIN ABSATZ ÜBER HUNDE.\n", "")
    assert made == expected.replace("# TITEL\n", "# TITEL\n\nA paragraph on dogs.\n")


def test_a_translation_in_another_order_stays_so(page: Pair) -> None:
    cats, dogs = "EIN ABSATZ ÜBER KATZEN.\n", "EIN ABSATZ ÜBER HUNDE.\n"
    page.edit(f"{cats}\n{dogs}", f"{dogs}\n{cats}")
    made = page.update(PAGE.replace("# Titel", "# Anfang"))
    assert made.endswith(f"{dogs}\n{cats}")
    assert made.startswith("# ANFANG\n")
    assert page.remarks == ["1: the blocks are in another order than in the source"]


def test_layout_is_no_change(page: Pair) -> None:
    page.update(PAGE.replace("Der erste Satz. Und", "Der erste Satz.\nUnd"))
    assert not page.asked


def test_machine_text_is_translated_again_when_asked(page: Pair) -> None:
    page.revise("EIN ABSATZ ÜBER KATZEN.", "A paragraph on cats.")
    assert "A paragraph on cats." in page.update(again=frozenset("m"))
    assert len(page.asked) == 4


def test_keys_that_are_missing_come_in_order_of_the_source(tmp_path: Path) -> None:
    pair = Pair(tmp_path, "text.properties")
    assert pair.update("a = eins\nb = zwei\n") == "a = EINS\nb = ZWEI\n"
    pair.edit("EINS", "one")
    assert pair.update("x = null\na = eins\nc = drei\nb = zwei\n") == "x = NULL\na = one\nc = DREI\nb = ZWEI\n"
    assert pair.asked == ["null", "drei"]
    assert pair.update("a = eins\nb = zwei\n") == "x = NULL\na = one\nc = DREI\nb = ZWEI\n"
    pair = Pair(tmp_path, "more.properties")
    pair.update("a = eins\nb = zwei\nc = drei\n")
    pair.edit("ZWEI", "two")
    assert pair.update("a = eins\nc = drei\n", obsolete="remove") == "a = EINS\nc = DREI\n"


def test_a_translation_without_a_record(tmp_path: Path) -> None:
    pair = Pair(tmp_path, "text.properties")
    pair.target.parent.mkdir()
    pair.target.write_text("a = one\n")
    assert pair.update("a = eins\nb = zwei\n") == "a = one\nb = ZWEI\n"
    assert pair.origins() == "om"
    pair.update(adopt=True)
    assert pair.origins() == "hm"
    assert pair.update("a = einsa\nb = zwei\n") == "a = one\nb = ZWEI\n"
    assert pair.origins() == "om"


def test_the_source_that_a_translation_was_made_of(pair: Pair) -> None:
    pair.target.parent.mkdir()
    pair.target.write_text(MADE)
    made = pair.update(PAGE.replace("Katzen", "Mäuse") + "\nUnd neu.\n", was=PAGE.encode())
    assert made == MADE + "\nUND NEU.\n"
    assert pair.origins() == "hhcohm"


def test_files_that_do_not_belong_together(page: Pair) -> None:
    other = "Etwas ganz anderes.\n\nNoch etwas.\n\nUnd Drittes.\n\nUnd Viertes.\n"
    page.target.write_text(other)
    with pytest.raises(DataError, match="has nothing of the translation that was there"):
        page.update()
    with pytest.raises(DataError, match="is the record of other files"):
        page.update(other.upper())
    page.target.write_text(PAGE)
    with pytest.raises(DataError, match="are swapped"):
        page.update(MADE)
    page.files.record.unlink()
    page.target.write_text("# a\n" * 3 + "\nwords\n\nwords\n\n" * 40)
    with pytest.raises(DataError, match="not surely a translation"):
        page.update(PAGE)
    assert page.target.read_text().startswith("# a\n")


def test_a_heading_alone_makes_no_record_one_of_these_files(page: Pair) -> None:
    other = Pair(page.folder / "other", page.name)
    other.folder.mkdir()
    other.update("# Titel\n" + "\nEtwas anderes.\n\nNoch etwas.\n" * 3)
    page.update("# Titel\n" + "\nDer Satz.\n\nEin Satz.\n" * 3)
    other.files.record.replace(page.files.record)
    with pytest.raises(DataError, match="is the record of other files"):
        page.update()


@pytest.mark.parametrize("name", ["text.po", "text.xliff"])
def test_what_every_catalogue_has_does_not_make_it_known(tmp_path: Path, name: str) -> None:
    pair = Pair(tmp_path, name)
    pair.update(catalogue(name, "abcde"))
    pair.target.write_text(catalogue(name, "vwxyz", "text"))
    with pytest.raises(DataError, match="has nothing of the translation that was there"):
        pair.update(catalogue(name, "abcdef"))


@pytest.mark.parametrize("name", ["text.po", "text.xliff"])
def test_catalogues_that_are_swapped(tmp_path: Path, name: str) -> None:
    pair = Pair(tmp_path, name)
    pair.target.parent.mkdir()
    pair.target.write_text(catalogue(name, "abc"))
    with pytest.raises(DataError, match=r"are swapped: .* has the translations"):
        pair.update(catalogue(name, "abc", "text"))


def catalogue(name: str, entries: str, target: str = "") -> str:
    if name.endswith(".po"):
        head = 'msgid ""\nmsgstr "Language: en\\n"\n'
        return head + "".join(f'\nmsgid "{each}"\nmsgstr "{target}"\n' for each in entries)
    unit = '<trans-unit id="{0}"><source>{0}</source><target>{1}</target></trans-unit>\n'
    units = "".join(unit.format(each, target) for each in entries)
    languages = 'source-language="de" target-language="en"'
    return f'<xliff version="1.2"><file {languages}><body>\n{units}</body></file></xliff>\n'


@pytest.mark.parametrize(
    ("name", "source"), [("text.properties", "a = eins\nb = zwei\nc = drei\nd = vier\n"), ("page.md", "Eins.\n")]
)
def test_what_was_known_is_swapped(tmp_path: Path, name: str, source: str) -> None:
    pair = Pair(tmp_path, name)
    made = pair.update(source)
    pair.target.write_text(source)
    with pytest.raises(DataError, match="are swapped"):
        pair.update(made)


def test_a_source_that_was_emptied_takes_nothing_along(page: Pair) -> None:
    with pytest.raises(DataError, match=r"page.md: is empty"):
        page.update("\n")
    assert page.target.read_text() == MADE


def test_a_source_is_no_target_of_itself(page: Pair) -> None:
    page.target.unlink()
    page.target.symlink_to(page.source)
    with pytest.raises(DataError, match="source and target are the same file"):
        page.update(PAGE)


def test_what_is_not_valid_any_more_is_left(tmp_path: Path) -> None:
    pair = Pair(tmp_path, "de.json")
    pair.update('{"a": "Eins"}')
    pair.edit('"}', '"')
    before = pair.target.read_text(), pair.record
    with pytest.raises(DataError, match=r"into/de.json: line 1 "):
        pair.update('{"a": "Eins", "b": "Zwei"}')
    assert before == (pair.target.read_text(), pair.record)


def test_conflicts_of_git(page: Pair) -> None:
    conflict = "<<<<<<< HEAD\na\n=======\nb\n>>>>>>> other\n"
    with pytest.raises(DataError, match="has a conflict that is not resolved, up to line 16"):
        page.update(PAGE + conflict)
    page.source.write_text(PAGE)
    page.target.write_text(MADE + conflict)
    with pytest.raises(DataError, match="has a conflict"):
        page.update()
    assert page.target.read_text() == MADE + conflict


def test_a_conflict_in_the_record(page: Pair) -> None:
    record = page.files.record.read_text()
    lines = record.splitlines()
    theirs = lines[3].replace(lines[3].split()[2], "0" * 16)
    conflict = ["<<<<<<< a", *lines[:4], "=======", *lines[:3], theirs, ">>>>>>> b", *lines[4:], ""]
    page.files.record.write_text("\n".join(conflict))
    assert page.update() == MADE
    assert not page.asked
    assert page.files.record.read_text() == record


def test_links_are_as_they_are_from_where_the_translation_is(tmp_path: Path) -> None:
    pair = Pair(tmp_path, "page.md", options=FormatOptions(rebase=lambda target: f"../de/{target}"))
    made = pair.update("Ein [Wort](b.md) und.\n\n![Bild](x.png)\n\n![](y.png)\n\nEin Text.\n")
    assert made == "EIN [WORT](../de/b.md) UND.\n\n![BILD](../de/x.png)\n\n![](../de/y.png)\n\nEIN TEXT.\n"
    made = pair.update("Ein [Wort](c.md) und.\n\n![Bild](x2.png)\n\n![](y2.png)\n\nEin Text.\n\nNeu: [das](d.md)\n")
    assert made.startswith("EIN [WORT](../de/c.md) UND.\n\n![BILD](../de/x2.png)\n\n![](../de/y2.png)\n\nEIN TEXT.\n")
    assert made.endswith("\nNEU: [DAS](../de/d.md)\n")
    assert pair.asked == ["Neu: das"]


def test_source_and_target_without_a_record_that_are_swapped(pair: Pair) -> None:
    german = "# Die Katze\n\nDie Katze sitzt auf dem Dach und sieht sich die Vögel an, die dort oben fliegen.\n"
    english = "# The cat\n\nThe cat is sitting on the roof and is looking at the birds that fly up there.\n"
    german += "\nSie ist nicht allein, denn der Hund wartet unten auf sie.\n"
    english += "\nShe is not alone, because the dog is waiting for her down there.\n"
    pair.target.parent.mkdir()
    pair.target.write_text(german)
    with pytest.raises(DataError, match=r"swapped: .*page\.md is in 'en' already"):
        pair.update(english)
    assert pair.target.read_text() == german
    pair.target.write_text(english)
    assert pair.update(german) == english


def test_paragraphs_are_split_and_merged_with_their_translations(page: Pair) -> None:
    page.revise("UND EIN ZWEITER.", "And my second.")
    made = page.update(PAGE.replace("Satz. Und", "Satz.\n\nUnd"))
    assert made == MADE.replace("SATZ. UND EIN ZWEITER.", "SATZ.\n\nAnd my second.")
    assert not page.asked
    assert page.origins() == "mhhcmm"
    assert [each.translated[0][8:] for each in page.record.entries[1:3]] == ["", "h"]
    made = page.update(PAGE.replace("Katzen.\n\nEin", "Katzen. Ein"))
    expected = MADE.replace("UND EIN ZWEITER.", "And my second.").replace("KATZEN.\n\nEIN", "KATZEN. EIN")
    assert made == expected
    assert not page.asked
    assert page.origins() == "mhcm"
    assert page.update(PAGE.replace("Katzen.\n\nEin", "Katzen. Ein") + "\n") == expected


def test_a_paragraph_of_other_sentences_than_its_source_is_not_cut(page: Pair) -> None:
    page.revise("DER ERSTE SATZ. UND EIN ZWEITER.", "All in one sentence.")
    made = page.update(PAGE.replace("Satz. Und", "Satz.\n\nUnd"))
    assert "All in one sentence." in made
    assert page.remarks[0].startswith("3: outdated")


TABLE = "| A | B |\n|---|---|\n| Eins `x` | Zwei |\n| Drei | Vier |\n"
WIDER = "| A | Neu | B |\n|---|---|---|\n| Eins `x` | Neues | Zwei |\n| Drei | Mehr | Vier |\n"


def test_columns_come_and_go_beside_what_people_wrote(pair: Pair) -> None:
    pair.update(TABLE)
    pair.revise("EINS `x`", "one `x`")
    made = pair.update(WIDER)
    assert made == WIDER.upper().replace("EINS `X`", "one `x`")
    assert sorted(pair.asked) == ["Mehr", "Neu", "Neues"]
    assert pair.origins() == "mhm"
    assert pair.update(TABLE) == TABLE.upper().replace("EINS `X`", "one `x`")
    assert not pair.asked
    assert "| one `x` | ANDERES |" in pair.update(TABLE.replace("Zwei", "Anderes"))
    assert pair.origins() == "mhm"
    assert "| one `x` | ANDERES |" in pair.update(TABLE.replace("Eins `x` | Zwei", "Neun `x` | Anderes"))
    assert pair.origins() == "mom"


GRID = "+------+-------+\n| Eins | Zwei  |\n+------+-------+\n| Drei | Vier  |\n+------+-------+\n"


def test_cells_of_grids_follow_beside_what_people_wrote(tmp_path: Path) -> None:
    pair = Pair(tmp_path, "page.rst")
    pair.update(GRID)
    pair.revise("DREI", "more")
    assert pair.update(GRID.replace("Zwei", "Fünf")) == GRID.upper().replace("ZWEI", "FÜNF").replace("DREI", "more")
    longer = pair.update(GRID + "| Neun | Zehn  |\n+------+-------+\n")
    assert longer == GRID.upper().replace("DREI", "more") + "| NEUN | ZEHN  |\n+------+-------+\n"
    assert sorted(pair.asked) == ["Neun", "Zehn", "Zwei"]
    assert pair.update(GRID).replace("more", "DREI") == GRID.upper()
    assert pair.update(GRID.replace("Drei", "Elf ")) == GRID.upper().replace("DREI", "more")
    assert pair.origins() == "o"


@pytest.mark.parametrize(
    ("name", "mark", "row"), [("page.md", "|---|---|\n", "| {} | {} |\n"), ("page.adoc", "", "|{} |{}\n")]
)
def test_rows_are_known_by_their_first_cell(name: str, mark: str, row: str, tmp_path: Path) -> None:
    def table(*cells: str) -> str:
        rows = "".join(row.format(*each.split()) for each in cells)
        around = "" if mark else "|===\n"
        return around + row.format("A", "B") + mark + rows + around

    pair = Pair(tmp_path, name)
    pair.update(table("`a` Eins", "`b` Zwei", "`c` Drei"))
    pair.revise("ZWEI", "two")
    made = pair.update(table("`a` Eins", "`n` Neu", "`b` Anders", "`c` Drei"))
    assert made == table("`a` EINS", "`n` NEU", "`b` two", "`c` DREI")
    assert "o" in pair.origins()


def test_a_heading_of_another_level_keeps_its_translation(page: Pair) -> None:
    page.revise("# TITEL", "# The title")
    made = page.update(PAGE.replace("# Titel", "## Titel"))
    assert made == MADE.replace("# TITEL", "## The title")
    assert not page.asked
    assert page.origins() == "hmcmm"


@pytest.mark.parametrize(
    ("old", "edit", "new", "made", "asked"),
    [
        (
            "!!! note\n\n    Eins.\n\n    Zwei\n    drei.\n", ("EINS.", "One."),
            "Davor\n\nEins.\n\nZwei\ndrei.\n", "DAVOR\n\nOne.\n\nZWEI\nDREI.\n", ["Davor"],
        ),
        # Behind an item a paragraph that is indented is its own; without that the next items would be code.
        (
            "!!! note\n\n    * `a`\n\n    Davor:\n\n    * `b`\n    * Zwei\n", ("ZWEI", "Two"),
            "* `a`\n\nDavor:\n\n* `b`\n* Zwei\n", "* `a`\n\nDAVOR:\n\n* `b`\n* Two\n", [],
        ),
    ],
    ids=["text", "items"],
)  # fmt: skip
def test_what_is_indented_less_stays_what_it_is(
    old: str, edit: tuple[str, str], new: str, made: str, asked: list[str], pair: Pair
) -> None:
    pair.update(old)
    pair.revise(*edit)
    assert (pair.update(new), pair.asked) == (made, asked)


@pytest.mark.parametrize(
    ("old", "new", "made"),
    [
        ("!!! tip\n    Eins.\n", "!!! warning\n    Eins.\n", "!!! warning\n    One.\n"),
        ("!!! tip\n    Eins.\n", "/// tip\n\nEins.\n\n///\n", "/// tip\n\nOne.\n\n///\n"),
        ("Eins.\n", "!!! tip\n    Eins.\n", "!!! tip\n    One.\n"),
        ("!!! tip\n    Eins.\n", "Eins.\n", "One.\n"),
        ('!!! tip "Eins."\n', '!!! warning "Eins."\n', '!!! warning "One."\n'),
        ("> - Eins.\n", ">> - Eins.\n", ">> - One.\n"),
        ("- [ ] Eins.\n", "- [x] Eins.\n", "- [x] One.\n"),
        ("> [!NOTE]\n> Eins.\n", "> [!TIP]\n> Eins.\n", "> [!TIP]\n> One.\n"),
        ("[Eins.](a){ .b }\n", "[Eins.](a){ .c }\n", "[One.](a){ .c }\n"),
        ("# Eins. {#a}\n", "# Eins. {#b}\n", "# One. {#b}\n"),
    ],
)
def test_what_is_around_a_text_follows_the_source(old: str, new: str, made: str, pair: Pair) -> None:
    pair.update(old)
    pair.revise("EINS.", "One.")
    assert pair.update(new) == made
    assert not pair.asked


def test_rows_that_both_have_are_no_new_ones(pair: Pair) -> None:
    before = "Text.\n\n| A | B |\n|---|---|\n| `a` | Eins. |\n| `c` | Drei. |\n"
    after = before.replace("| `c`", "| `b` | Zwei. |\n| `c`")
    pair.update(after)
    pair.files.record.unlink()
    made = pair.target.read_text()
    assert pair.update(was=before.encode()) == made
    assert not pair.asked


def test_what_is_new_has_the_line_breaks_of_the_translation(pair: Pair) -> None:
    old = "---\ntitle: Eins\nid: 1\n---\n\n1. Zwei.\n"
    made = pair.update(old)
    pair.target.write_bytes(made.replace("\n", "\r\n").encode())
    pair.update(old.replace("id: 1", "id: 2") + "2. Drei.\n")
    said = "---\ntitle: EINS\nid: 2\n---\n\n1. ZWEI.\n2. DREI.\n"
    assert pair.target.read_bytes() == said.replace("\n", "\r\n").encode()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Null.\n\n- Eins.\n- Zwei.\n\nEnde.\n", "Null.\n\n- Eins.\n- Zwei.\n- Drei.\n\nEnde.\n"),
        ("- Eins.\n\n- Zwei.\n\nEnde.\n", "- Eins.\n\n- Zwei.\n\n- Drei.\n\nEnde.\n"),
        ("| Eins |\n|--|\n| Zwei |\n\nEnde.\n", "| Eins |\n|--|\n| Zwei |\n| Drei |\n\nEnde.\n"),
        ("| Eins |\n|--|\n| Zwei |\n", "| Eins |\n|--|\n| Zwei |\n\n| Drei |\n|--|\n| Vier |\n"),
        ("Null.[^1]\n\n[^1]: Eins.\n", "Null.[^1]\n\n[^1]: Eins.\n[^2]: Zwei.\n"),
        ("- Eins.\n\nEnde.\n", "- Eins.\n\n[^1]: Zwei.\n\nEnde.\n"),
        ("- Eins.\n\nEnde.\n", "- Eins.\n\n| Drei |\n|--|\n| Vier |\n\nEnde.\n"),
    ],
)
def test_new_rows_and_items_are_in_the_table_or_list(old: str, new: str, pair: Pair) -> None:
    pair.update(old)
    assert pair.update(new) == new.upper()


def test_a_new_note_leaves_that_before_it_as_a_person_wrote_it(pair: Pair) -> None:
    pair.update("Null.[^1]\n\n[^1]: Eins ist da.\n")
    pair.edit("EINS IST DA", "One is there")
    said = pair.update("Null.[^1][^2]\n\n[^1]: Eins ist da.\n[^2]: Zwei.\n")
    assert said == "NULL.[^1][^2]\n\n[^1]: One is there.\n[^2]: ZWEI.\n"
    assert not pair.remarks


@pytest.mark.parametrize(
    ("page", "old", "new"),
    [
        ("::: a\n\n```\nx\n```\n\n:::\n\n::: tip\nEins.\n:::\n\nZwei.\n", "Eins.", "Drei."),
        ("::: tip\nEins.\n:::\n\nZwei.\n", "Eins.", "Eins.\n\nDrei."),
        ("> Eins.\n\nZwei.\n", "Eins.", "Eins.\n>\n> Drei.\n\n> [!TIP]\n> Vier."),
        ("> Eins.\n>\n> Zwei.\n", "Zwei.", "Drei.\n>\n> Zwei."),
        ("> [!NOTE]\n> Eins.\n\n> Zwei.\n", "Zwei.", "Zwei.\n>\n> - Drei."),
        ("{% note %}\nEins.\n{% endnote %}\n\nZwei.\n", "Eins.", "Eins.\n\nDrei."),
        ("{{< tab >}}\nEins.\n{{< /tab >}}\n", "Eins.", "Eins.\n\nDrei."),
        ("/// note\nEins.\n\n///\n", "Eins.", "Eins.\n\nDrei."),
        (":::note Eins\nZwei.\n\nDrei.\n:::\n", "Drei.\n:::", "Drei.\n:::\n\n:::tip\nVier.\n:::"),
        (":::{tip}\nEins.\n:::\n\nZwei.\n", ":::{tip}", ":::{note}"),
        ("> [!NOTE]\n> - Eins.\n> - Zwei.\n", "Eins.", "Drei."),
        ("- Eins.\n- Zwei.\n\n1. Drei.\n", "Zwei.", "Vier."),
        ("> - Eins.\n\n1. Zwei.\n", "Zwei.", "Drei."),
        ("- Eins.\n- Zwei.\n\n1. Drei.\n2. Vier.\n", "Drei.", "Fünf."),
        ("---\na:\n  title: Eins\n\nb:\n  title: Zwei\n---\n", "Eins", "Drei"),
    ],
)
def test_what_is_around_a_text_stays_around_it(page: str, old: str, new: str, tmp_path: Path) -> None:
    pair, anew = Pair(tmp_path, "page.md"), Pair(tmp_path / "anew", "page.md")
    anew.folder.mkdir()
    pair.update(page)
    assert pair.update(page.replace(old, new)) == anew.update(page.replace(old, new))
    assert not pair.remarks


@pytest.mark.parametrize(
    ("name", "before"),
    [
        ("page.md", "Eins\n-----\n\n"),
        ("page.md", "-----\n\n"),
        ("page.md", "> ```\n> x\n> ```\n\n"),
        ("page.md", "- ```\n  x\n  ```\n\n"),
        ("page.md", "```\nx\n`````\n\n"),
        ("page.md", "```x``` Eins.\n\n"),
        ("page.rst", "Eins\n-----\n\n"),
        ("page.rst", "Eins\n~~~~\n\n"),
        ("page.adoc", "== Null\n\nEins\n----\n\n"),
        ("page.adoc", "----\n------\nexit\n----\n\n"),
    ],
)
def test_no_code_begins_with_what_is_none(name: str, before: str, tmp_path: Path) -> None:
    pair = Pair(tmp_path, name)
    made = pair.update(f"{before}Zwei.\n\nDrei.\n")
    pair.edit("ZWEI", "Two")
    said = pair.update(f"{before}Zwei.\n\nVier.\n")
    assert said == made.replace("ZWEI", "Two").replace("DREI", "VIER")
    assert pair.asked == ["Vier."]


def test_links_to_headings_follow_them_in_all_pages(tmp_path: Path) -> None:
    pages = [Pair(tmp_path, name) for name in ("a.md", "b.md", "c.md")]
    answers = {"Dach": "Roof", "Rotes Dach": "Red roof", "Rotes Dach!": "The roof!", "Grüner Baum": "Green tree"}

    def update(*sources: str) -> list[str]:
        links = Links((page.files, page.options) for page in pages)
        for page, source in zip(pages, sources, strict=True):
            page.update(source, translator=Shouting(answers), links=links)
        for files, data, record in links.relinked():
            store(files, data, record)
        return [page.target.read_text() for page in pages]

    a, c = "# Haus\n\n[nah](#gr%C3%BCner-baum)\n\n## Grüner Baum\n", "[weit](a#haus)\n\n[auch](b.md#dach) `b.md#dach`\n"
    b = "# Dach\n\n[her](./a.md#gr%C3%BCner-baum)\n"
    first = ["# HAUS\n\n[NAH](#green-tree)\n\n## Green tree\n", "# Roof\n\n[HER](./a.md#green-tree)\n"]
    assert update(a, b, c) == [*first, "[WEIT](a#haus)\n\n[AUCH](b.md#roof) `b.md#dach`\n"]
    records = [page.files.record.read_bytes() for page in pages]
    update(a, b, c)
    assert records == [page.files.record.read_bytes() for page in pages]

    pages[2].edit("AUCH", "Too")
    b = b.replace("Dach", "Rotes Dach")
    c = "[weit](a#haus)\n\n[auch](b.md#rotes-dach) `b.md#dach`\n"
    assert update(a, b, c)[1:] == [
        "# Red roof\n\n[HER](./a.md#green-tree)\n",
        "[WEIT](a#haus)\n\n[Too](b.md#red-roof) `b.md#dach`\n",
    ]
    # The same id in the source, another in the translation: pages that are as they were follow, too.
    b = b.replace("Rotes Dach", "Rotes Dach!")
    assert update(a, b, c)[2] == "[WEIT](a#haus)\n\n[Too](b.md#the-roof) `b.md#dach`\n"
    # And a new link leads to a page that is as it was.
    assert update(a, b, f"{c}\n[neu](a.md#grüner-baum)\n")[2].endswith("[NEU](a.md#green-tree)\n")
    assert "".join(page.origins() for page in pages) == "mmmmmmhm"
