"""Updates of documents of every format that is one text: blocks come, go and change, and what people wrote stays."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from specmt.errors import DataError
from specmt.formats.blocks import rendered
from specmt.formats.document import FormatOptions
from specmt.formats.known import CATALOGUES
from specmt.formats.splicing import splice
from specmt.options import DecodingOptions
from specmt.project import Settings
from specmt.update.plan import PlanOptions
from specmt.update.record import Record
from specmt.update.sides import Side
from specmt.update.store import Files
from specmt.update.update import Update, update_all
from tests.documents import SAMPLES, Sample, Shouting
from tests.updating import Pair, raised

DENSE = [
    replace(sample, source=re.sub(r"(?<=[>{}\[\],:])\s+(?=[<{}\[\]\"])|(?<=[\"\w}\]])\s+(?=[}\]])", "", sample.source))
    for sample in SAMPLES
    if sample.format in ("json", "xliff", "resx", "qt", "android", "xcstrings")
]
ON_A_LINE = {
    "php": "<?php return ['a' => 'Eins', 'b' => ['c' => 'Zwei', 'd' => [2 => 'Drei', 'x' => 'D']], 'e' => array('C')];",
    "php ": "<?php\n$string['a'] = 'Eins'; $string['b'] = 'Zwei'; // c\n$string['c'] = 'Drei';\n",
    "strings": '/* Oben */\n"a" = "Eins";"b" = "Zwei;\\"x"; /* Noch */ "c" = "Drei"; // da\n"d" = "Vier";',
    "html": "<ul><li>A</li><li><p>Eins</p><p>Zwei</p></li></ul><table><tr><td>Vier</td><td>5</td></tr></table><p>Sechs",
    "xml": "<topic id='a'><title>Eins</title><body><p>Zwei <b>x</b></p><ul><li>Drei</li><li>B</li></ul></body></topic>",
}
TEXTS = [
    *(sample for sample in SAMPLES if not sample.member),
    *DENSE,
    *(Sample(name.strip(), text, [], {}) for name, text in ON_A_LINE.items()),
]
"""Documents as they mostly are, and those of which all is on one line."""


class Run:
    """Updates of one document."""

    def __init__(self, sample: Sample) -> None:
        self.format = sample.format
        self.options = FormatOptions(**sample.options)  # type: ignore[arg-type]
        self.encoding = sample.encoding
        self.data = sample.source.encode(sample.encoding)
        self.source = self.side(self.data)
        self.asked: list[str] = []

    def side(self, data: bytes, *, is_source: bool = True) -> Side:
        return Side(data, "it", self.format, self.options, is_source=is_source)

    def without(self, number: int) -> bytes | None:
        """Returns the source without one of its blocks; nothing where no text or others than they were are left."""
        rest = [other for other in range(len(self.source.blocks)) if other != number]
        data = splice(self.source.document, self.source.blocks, rest, self.format)
        try:
            side = self.side(data)
        except DataError:
            return None
        is_same = side.items == [self.source.items[other] for other in rest]
        return data if is_same and side.document.segments else None

    def update(self, source: bytes, target: bytes | None = None, record: Record | None = None) -> tuple[bytes, Record]:
        files = Files(Path("source"), Path("target"), Path("record"), self.format)
        options = PlanOptions(obsolete="remove" if self.format in CATALOGUES else None)
        update = Update(files, source, target, lambda _: record, self.options, options)
        translator = Shouting()
        [done] = update_all([update], translator, DecodingOptions(), language="de", fail=raised)
        self.asked = translator.asked
        data, known = target if done.data is None else done.data, record if done.record is None else done.record
        assert data is not None and known is not None
        return data, known

    def word(self, target: bytes, later: bytes) -> bytes:
        """Returns a word of a translation that is in it once, now and later, in a block that is not the first one."""
        side = self.side(target, is_source=False)
        texts = [side.document.segments[block.segments[0]].source.text for block in side.blocks if block.segments]
        found = [word.encode(self.encoding) for text in texts[1:] for word in re.findall("[A-ZÜ]{3,}", text)]
        return next((word for word in found if target.count(word) == later.count(word) == 1), b"")


def words(data: bytes) -> list[str]:
    return data.decode("utf-16" if data.startswith(b"\xff\xfe") else "utf-8", "replace").split()


@pytest.mark.parametrize("sample", TEXTS, ids=lambda sample: sample.format)
def test_blocks_tile_a_document(sample: Sample) -> None:
    run = Run(sample)
    numbers = range(len(run.source.blocks))
    assert "".join(map(run.source.text, numbers)).encode(sample.encoding) == run.data or sample.encoding != "utf-8"
    assert splice(run.source.document, run.source.blocks, numbers, run.format) == run.data
    assert {number for block in run.source.blocks for number in block.segments} == {
        *range(len(run.source.document.segments))
    }


def test_blocks_of_markdown_are_found_without_writing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("specmt.formats.rendering.Writer.edit", raised)
    page = b"# Eins *zwei*\n\nDrei ![vier](a.png)\n\n| a | `b` |\n|-|-|\n| c | d |\n"
    assert len(Side(page, "page.md", "markdown", FormatOptions(), is_source=True).items) == 4


@pytest.mark.parametrize("sample", TEXTS, ids=lambda sample: sample.format)
def test_a_block_comes_and_goes(sample: Sample) -> None:
    run = Run(sample)
    whole = run.update(run.data)[0]
    count = 0
    for number, block in enumerate(run.source.blocks):
        if not block.segments or (less := run.without(number)) is None:
            continue
        without, record = run.update(less)
        made, known = run.update(run.data, without, record)
        assert words(made) == words(whole)
        again, _ = run.update(run.data, made, known)
        assert again == made
        assert not run.asked
        assert words(run.update(less, made, known)[0]) == words(without)
        count += 1
    assert count or sum(bool(block.segments) for block in run.source.blocks) < 2


@pytest.mark.parametrize("sample", TEXTS, ids=lambda sample: sample.format)
def test_edits_elsewhere_and_updates_go_in_any_order(sample: Sample) -> None:
    run = Run(sample)
    told = [number for number, block in enumerate(run.source.blocks) if block.segments]
    if (less := run.without(told[0])) is None:
        return
    target, record = run.update(less)
    made, known = run.update(run.data, target, record)
    word = run.word(target, made)
    if not word:
        return
    edited = target.replace(word, b"My" + word)
    after = run.update(run.data, edited, record)[0]
    assert after.count(b"My" + word) == 1
    assert after == made.replace(word, b"My" + word)
    assert run.update(run.data, after, known)[0] == after


NESTED = {"a": {"x": "Eins", "y": {"z": "Zwei"}}, "b": "Drei"}
SHAPES = [
    {"a": "Alles", "b": "Drei"},
    {"a": {"x": "Eins", "y": "Zwei"}, "c": "Neu", "b": "Drei"},
    {"a": {"x": "Eins", "y": {"z": "Zwei", "n": "Neu"}, "n": "Neu"}, "c": {"d": "Neu"}, "b": "Drei"},
    {"b": {"a": "Drei"}, "a": ["Eins", "Zwei"]},
    {"b": "Drei"},
]


def in_capitals(tree: object) -> object:
    if isinstance(tree, dict):
        return {key: in_capitals(value) for key, value in tree.items()}
    return [*map(in_capitals, tree)] if isinstance(tree, list) else str(tree).upper()


def leaves(tree: object, *path: str) -> set[tuple[str, ...]]:
    if isinstance(tree, dict | list):
        pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
        return {leaf for key, value in pairs for leaf in leaves(value, *path, str(key))}
    return {(*path, str(tree))}


def in_reverse(tree: object) -> object:
    return {key: in_reverse(tree[key]) for key in reversed(tree)} if isinstance(tree, dict) else tree


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dumps", [json.dumps, partial(json.dumps, indent=2), partial(yaml.dump, sort_keys=False)])
@pytest.mark.parametrize("order", [lambda tree: tree, in_reverse], ids=["same", "reverse"])
def test_texts_become_containers_and_new_ones_find_theirs(
    shape: dict[str, Any], dumps: Callable[[Any], str], order: Callable[[object], object], tmp_path: Path
) -> None:
    pair = Pair(tmp_path, "de.yml" if dumps([]) == "[]\n" else "de.json")
    pair.update(dumps(NESTED))
    pair.target.write_text(dumps(order(in_capitals(NESTED))))
    pair.update(adopt=True)
    made = yaml.safe_load(pair.update(dumps(shape), obsolete="keep"))
    assert leaves(in_capitals(shape)) <= leaves(made)
    assert pair.update(dumps(shape) + "\n") == pair.target.read_text()
    assert yaml.safe_load(pair.update(dumps(NESTED), obsolete="remove")) == in_capitals(NESTED)


def test_a_text_under_a_new_key_keeps_its_translation(tmp_path: Path) -> None:
    pair = Pair(tmp_path, "de.json")
    pair.update('{"a": "Eins", "b": "Zwei", "c": "Drei"}')
    pair.edit("ZWEI", "two")
    made = pair.update('{"a": "Eins", "d": {"b": "Zwei", "c": "Drei"}}', obsolete="remove")
    assert json.loads(made) == {"a": "EINS", "d": {"b": "two", "c": "DREI"}}
    assert not pair.asked
    assert pair.origins() == "cmchmcc"


PARTS = (
    "= T\n\n|===\n|A |B\n\n|Eins |Zwei\n|3 |4\n|===\n\n[NOTE]\n====\nEin Text.\n\nZwei.\n====\n\nWort:: A b\nNoch:: C\n"
)
ROWS = "|  |  |\n|--|--|\n| Eins | Zwei |\n| 3 | 4 |\n| Drei | Vier |\n"


@pytest.mark.parametrize(
    ("name", "text", "count"),
    [
        ("asciidoc", PARTS, 12),
        ("markdown", ROWS, 4),
        ("php", ON_A_LINE["php"], 13),
        ("strings", ON_A_LINE["strings"], 4),
        ("html", ON_A_LINE["html"], 14),
        ("xml", ON_A_LINE["xml"], 10),
    ],
)
def test_rows_and_what_is_around_paragraphs_are_blocks(name: str, text: str, count: int) -> None:
    run = Run(Sample(name, text, [], {}))
    assert len(run.source.blocks) == count
    assert all(run.without(number) for number, block in enumerate(run.source.blocks) if block.segments)


def test_of_a_catalogue_only_what_is_new_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair, asked = Pair(tmp_path, "de.json"), []
    pair.update('{\n  "a": "Haus",\n  "b": "Baum"\n}\n')

    def counted(document: Any, translations: Any, *more: Any) -> list[str]:
        asked.append([*translations])
        return rendered(document, translations, *more)

    monkeypatch.setattr("specmt.update.update.rendered", counted)
    assert "BACH" in pair.update('{\n  "a": "Haus",\n  "b": "Bach"\n}\n')
    assert asked == [[1]]


def test_keys_that_a_project_leaves_out_stay_as_they_are(tmp_path: Path) -> None:
    settings = Settings(skip_keys=("id", "app.name"))
    pair = Pair(tmp_path, "de.json", options=settings.options(FormatOptions()))
    source = '{"app": {"name": "Haus", "text": "Baum", "id": "eins"}, "name": "Neun"}'
    wanted = '{"app": {"name": "Haus", "text": "BAUM", "id": "eins"}, "name": "NEUN"}'
    assert pair.update(source) == wanted
    assert pair.update(source.replace("eins", "zwei")) == wanted.replace("eins", "zwei")
    assert pair.asked == []


def test_remarks_and_anchors_of_yaml_stay_on_their_lines(tmp_path: Path) -> None:
    pair = Pair(tmp_path, "de.yml")
    source = (
        "de:\n  a: &a\n    x: Eins # c\n    n: 5 # d\n  b:\n    <<: *a # e\n    y: *a\n  c: {d: Drei, e: Vier} # f\n"
    )
    made = pair.update(source)
    assert pair.update(source.replace("  c:", "  z: Neu # g\n  c:")) == made.replace("  c:", "  z: NEU # g\n  c:")
    assert pair.update(source, obsolete="remove") == made
    plain = re.sub(r" &a|  b:\n.*\n.*\n", "", source)
    assert pair.update(plain) == re.sub(r" &a|  b:\n.*\n.*\n", "", made)


def test_entries_are_on_lines_of_their_own(tmp_path: Path) -> None:
    pair = Pair(tmp_path, "de.properties")
    pair.update("a=Ein <b>")
    assert pair.update("a=Ein <b>\nc=Zwei <b>") == "a=EIN <b>\nc=ZWEI <b>"


def test_remarks_of_php_stay_whole(tmp_path: Path) -> None:
    pair = Pair(tmp_path, "de.php")
    source = "<?php\nreturn [\n    /* Siehe https://a.b/#c */\n    'a' => 'Eins',\n    'b' => 'Zwei',\n];\n"
    made = pair.update(source)
    more = pair.update(source.replace("'a' => 'Eins'", "'x' => 'Neu'"), obsolete="remove")
    assert more == made.replace("'a' => 'EINS'", "'x' => 'NEU'")


def test_remarks_over_several_lines_stay_whole(tmp_path: Path) -> None:
    pair = Pair(tmp_path, "de.strings")
    source = '/* Erst\n   dann */\n"a" = "Eins";\n/* Noch\n   einer */\n"b" = "Zwei";\n'
    assert '/* Erst\n   dann */\n"a" = "EINS";' in pair.update(source)
    for changed in ("/* Erst */", "/* Neu\n   dann */", "/* Erst\n   dann\n   neu */"):
        assert '"a" = "EINS";' in pair.update(source.replace("/* Erst\n   dann */", changed))
        assert '"b" = "ZWEI";' in pair.update(source.replace("/* Noch\n   einer */", changed))


def test_what_android_has_for_all_languages_is_not_put_into_translations(tmp_path: Path) -> None:
    pair = Pair(tmp_path, "strings.xml")
    strings = '<resources>\n    <string name="a">Eins</string>\n{}</resources>\n'
    pair.update(strings.format(""))
    made = pair.update(strings.format('    <string name="b" translatable="false">x</string>\n'))
    assert made == strings.format("").replace("Eins", "EINS")
    assert pair.update() == made and not pair.remarks


@pytest.mark.parametrize("ending", ["...\n", "# Ende\n", ""])
def test_what_ends_yaml_stays_behind_what_is_new(tmp_path: Path, ending: str) -> None:
    pair = Pair(tmp_path, "de.yml")
    source = "---\na:\n  x: Eins\n"
    pair.target.write_text(pair.update(source) + ending)
    assert pair.update(f"{source}b:\n  y: Zwei\n") == f"---\na:\n  x: EINS\nb:\n  y: ZWEI\n{ending}"


@pytest.mark.parametrize(
    ("name", "entry", "none"),
    [
        ("de.properties", "{}={}", "abc_def"),
        ("de.ftl", "{} = {}", "{ $x }"),
        ("de.strings", '"{}" = "{}";', "abc_def"),
        ("strings.xml", '<string name="{}">{}</string>', "abc_def"),
        ("de.resx", '<data name="{}"><value>{}</value></data>', "abc_def"),
    ],
)
def test_what_is_no_text_in_one_language_is_the_entry_of_that_name(
    tmp_path: Path, name: str, entry: str, none: str
) -> None:
    """Of the source a text, of the translation none, or the other way: it is one entry, and stays."""
    root = {"strings.xml": "resources", "de.resx": "root"}.get(name)

    def written(*texts: str) -> str:
        entries = "\n".join(entry.format(*each) for each in zip("abc", texts, strict=False))
        return f"{entries}\n" if root is None else f"<{root}>\n{entries}\n</{root}>\n"

    for number, (ours, theirs) in enumerate((("Zwei Wörter", none), (none, "TWO WORDS"))):
        pair = Pair(tmp_path / str(number), name)
        pair.target.parent.mkdir(parents=True)
        pair.target.write_text(written("TWO WAYS", theirs))
        pair.update(written("Zwei Wege", ours), adopt=True)
        assert pair.update(written("Zwei Wege", ours, "Neu")) == written("TWO WAYS", theirs, "NEU")
        assert pair.update() == pair.target.read_text()
