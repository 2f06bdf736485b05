"""Translation memories: read from files, and found again by source."""

from __future__ import annotations

import gzip
import random
import re
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specmt.cli.render import renderer
from specmt.decoding import translation_memory as memory_module
from specmt.decoding.translation_memory import NEIGHBOURS, TranslationMemory
from specmt.errors import DataError
from specmt.text.memory import read_memory
from specmt.types import Line, Translation

quick = settings(max_examples=60, deadline=None)
ids = st.lists(st.integers(0, 9), max_size=12)

TMX = """<?xml version="1.0" encoding="{encoding}"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="*all*" adminlang="en" segtype="sentence"/><body>
{units}
</body></tmx>
"""
UNIT = '<tu><tuv xml:lang="de"><seg>{}</seg></tuv><tuv xml:lang="en"><seg>{}</seg></tuv></tu>'


def read(path: Path, data: bytes | str, source: str = "de", target: str = "en") -> list[tuple[str, str]]:
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return list(read_memory(path, source, target))


def tmx(*units: str, encoding: str = "UTF-8") -> bytes:
    return TMX.format(encoding=encoding, units="\n".join(units)).encode(encoding)


@pytest.mark.parametrize(
    ("data", "pairs"),
    [
        ("", []),
        ("\ufeff", []),
        ("ein Haus\ta house\n", [("ein Haus", "a house")]),
        ("\ufeffa\tb\r\nc\td", [("a", "b"), ("c", "d")]),
        ("a\tb\t-1.25\tmore\n", [("a", "b")]),
        ("\n \n\t\n\ta\na\t\n  \t \na\tb\n", [("a", "b")]),
        ("a\\tb\t\\\\t \\r c\\n\n", [("a\tb", "\\t \r c\\n")]),
        ("a\u2028b\x85\fc\td\re\n", [("a\u2028b\x85\fc", "d\re")]),
    ],
)
def test_tsv(tmp_path: Path, data: str, pairs: list[tuple[str, str]]) -> None:
    assert read(tmp_path / "memory.tsv", data) == pairs
    assert read(tmp_path / "memory.tsv.gz", gzip.compress(data.encode())) == pairs


@quick
@given(st.lists(st.tuples(*[st.text(st.sampled_from("ab\\\t\r\f\u2028nrt é"), max_size=8)] * 2), max_size=6))
def test_what_translate_writes_as_tsv_is_a_memory(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]
) -> None:
    rendered = (
        renderer("tsv", counts=True)(Translation(Line(0, source), target, score=-1.0)) for source, target in pairs
    )
    path = tmp_path_factory.mktemp("tsv") / "memory.tsv"
    stripped = [(source.strip(), target.strip()) for source, target in pairs]
    assert read(path, "".join(rendered)) == [pair for pair in stripped if all(pair)]


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16", "ISO-8859-1", "windows-1252"])
def test_tmx_in_any_encoding(tmp_path: Path, encoding: str) -> None:
    data = tmx(UNIT.format("zwölf &amp; &#228;", "twelve &lt;"), UNIT.format("ja", "yes"), encoding=encoding)
    assert read(tmp_path / "memory.tmx", data) == [("zwölf & ä", "twelve <"), ("ja", "yes")]
    assert read(tmp_path / "Memory.TMX.gz", gzip.compress(data)) == [("zwölf & ä", "twelve <"), ("ja", "yes")]


def test_tmx_picks_the_languages(tmp_path: Path) -> None:
    def unit(**texts: str) -> str:
        tuvs = "".join(f'<tuv xml:lang="{key}"><seg>{text}</seg></tuv>' for key, text in texts.items())
        return f"<tu><note>n</note><prop type='p'>p</prop>{tuvs}</tu>".replace("_", "-")

    data = tmx(
        unit(fr="f1", en_US="e1", de_AT="d1"),
        unit(DE="d2", En_gb="e2", en_us="other"),
        unit(de="d3", fr="f3"),
        unit(en="e4", fr="f4"),
        unit(den="x", de="d5", english="y", en="e5"),
        unit(de="", en="e6"),
        '<tu><tuv lang="de"><seg>d7</seg></tuv><tuv lang="EN"><seg>e7</seg></tuv></tu>',
        "<tu><tuv><seg>x</seg></tuv><tuv/></tu>",
    )
    path = tmp_path / "memory.tmx"
    assert read(path, data) == [("d1", "e1"), ("d2", "e2"), ("d5", "e5"), ("d7", "e7")]
    assert read(path, data, "en", "fr") == [("e1", "f1"), ("e4", "f4")]
    assert read(path, data, "de-DE", "en_US")[0] == ("d1", "e1")


def test_tmx_drops_codes_and_keeps_text(tmp_path: Path) -> None:
    data = tmx(
        UNIT.format(
            '<bpt i="1">&lt;b&gt;</bpt>Da<ept i="1">&lt;/b&gt;</ept>tei <ph x="1">%s<sub>alt</sub></ph> <hi>ist\n'
            "   <it>x</it>weg</hi>",
            "<ut>{\\f1}</ut>gone <hi type='x'>for <hi>good</hi></hi>",
        )
    )
    assert read(tmp_path / "memory.tmx", data) == [("Datei ist weg", "gone for good")]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("m.tsv", b"a\tb\n\nc d\n", r"m.tsv: line 3 must be source, tab, target, but has no tab\."),
        ("m.tsv", b"a\tb\nc\td\xff\n", r"m.tsv: line 2 is not valid UTF-8\."),
        ("m.gz", b"a\tb\n", r"m.gz: is damaged or no gzip file"),
        ("m.tmx.gz", gzip.compress(tmx(UNIT))[:-12], r"m.tmx.gz: is damaged or no gzip file"),
        ("m.tmx", b"", r"m.tmx: line 1 is not well-formed XML \(no element found\)\."),
        ("m.tmx", tmx(UNIT, "<tu>"), r"m.tmx: line 6 is not well-formed XML \(mismatched tag\)\."),
        ("m.tmx", b"<xliff/>", r"m.tmx: line 1 must open with <tmx>, but has <xliff> instead\."),
        ("m.tmx", b'<?xml version="1.0" encoding="klingon"?><tmx/>', r"m.tmx: line 1 (cannot be decoded|is not)"),
        ("m.tmx", b'<?xml version="1.0" encoding="shift_jis"?><tmx/>', r"m.tmx: line 1 (cannot be decoded|is not)"),
        ("m.tmx", tmx(UNIT).replace(b'"en"', b'"fr"'), r"m.tmx: has no text in both de and en\."),
        (
            "m.tmx",
            b'<!DOCTYPE tmx [\n<!ENTITY a "aaaaaaaaaa">\n<!ENTITY b "&a;&a;&a;">\n]>\n<tmx>&b;</tmx>',
            r"m.tmx: line 2 declares the entity a, which it must not\.",
        ),
        (
            "m.tmx",
            b'<!DOCTYPE tmx [\n<!ENTITY % a SYSTEM "file:///etc/passwd">\n%a;]>\n<tmx/>',
            r"m.tmx: line 2 declares the entity a, which it must not\.",
        ),
        ("m.tmx", tmx(UNIT.format("a&b;", "c")), r"m.tmx: line 4 uses the entity b, which it does not declare\."),
        ("m.tmx", b"<tmx>\n" + b"<a>" * 200, r"m.tmx: line 2 has more than 100 elements in each other\."),
        ("m.tsv", b"\xff\xfea\0\t\0b\0\n\0", r"m.tsv: line 1 is not text, but holds a NUL byte\."),
    ],
)
def test_bad_data_is_named_by_file_and_line(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path / name, data)


@pytest.mark.parametrize(
    ("name", "head", "middle", "message"),
    [
        ("m.tsv", b"a\tb\n", b"x", "line 2 is longer than 1048576 bytes"),
        ("m.tmx", b"<tmx><tu><tuv xml:lang='de'><seg>", b"x", "line 1 has more than 1048576 bytes in a unit, a tag or"),
        ("m.tmx", b"<tmx>\n<!-- ", b"x", "line 2 has more than 1048576 bytes in a unit, a tag or a comment"),
        ("m.tmx", b"<tmx><a b='", b"x", "line 1 has more than 1048576 bytes in a unit, a tag or a comment"),
        ("m.tmx", b"<tmx><tu>", b"<note>x</note>", "line 1 has more than 1048576 bytes in a unit, a tag or a comment"),
    ],
)
def test_a_file_of_any_size_is_refused_before_it_fills_the_memory(
    tmp_path: Path, name: str, head: bytes, middle: bytes, message: str
) -> None:
    path = tmp_path / f"{name}.gz"
    path.write_bytes(gzip.compress(head + middle * (50_000_000 // len(middle)), 1))
    tracemalloc.start()
    with pytest.raises(DataError, match=re.escape(f"{path}: {message}")):
        list(read_memory(path, "de", "en"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000


@pytest.mark.parametrize("name", ["m.tsv.gz", "m.tmx.gz"])
def test_reading_takes_no_more_room_for_more_pairs(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    pairs = 40_000
    data = tmx(*[UNIT.format("x" * 50, "y" * 50)] * pairs) if "tmx" in name else f"{'x' * 50}\t{'y' * 50}\n" * pairs
    path.write_bytes(gzip.compress(data if isinstance(data, bytes) else data.encode(), 1))
    del data
    tracemalloc.start()
    assert sum(1 for _ in read_memory(path, "de", "en")) == pairs
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


def sentence(generator: random.Random, length: int) -> list[int]:
    return [generator.randrange(4, 8000) for _ in range(length)]


def pairs_of(count: int, seed: int = 1) -> list[tuple[list[int], list[int]]]:
    generator = random.Random(seed)
    return [(sentence(generator, generator.randint(4, 40)), [4 + number]) for number in range(count)]


def targets(memory: TranslationMemory, source: Sequence[int]) -> list[list[int]]:
    return [neighbour.target for neighbour in memory.nearest(source)]


def test_equal_sources_come_first_the_latest_first() -> None:
    memory = TranslationMemory()
    source = [5, 6, 7, 8, 9]
    memory.add(source, [1])
    memory.add([5, 6, 7, 8, 10], [2])
    memory.add(source, [3])
    assert targets(memory, source) == [[3], [1], [2]]
    assert [neighbour.similarity for neighbour in memory.nearest(source)] == [1.0, 1.0, 0.6]
    memory.add(source, [1])
    assert targets(memory, source) == [[1], [3], [2]]
    assert memory.size == 3
    memory.remember(source, [4])
    assert targets(memory, source) == [[4], [1], [3], [2]]
    memory.remember(source, [3])
    assert targets(memory, source) == [[3], [4], [1], [2]]


def test_an_edited_source_finds_its_former_self() -> None:
    pairs = pairs_of(500)
    memory = TranslationMemory()
    for source, target in pairs:
        memory.add(source, target)
    generator = random.Random(2)
    for source, target in pairs:
        if len(source) < 6:
            continue
        place = generator.randrange(len(source))
        replaced = [*source[:place], 3, *source[place + 1 :]]
        inserted = [*source[:place], 3, 3, *source[place:]]
        removed = source[:place] + source[place + 1 :]
        for edited in (replaced, inserted, removed):
            first, *others = memory.nearest(edited)
            assert first.target == target
            assert first.similarity > max(0.3, *(other.similarity for other in others), 0.0)


def test_nothing_is_like_an_unrelated_source() -> None:
    memory = TranslationMemory()
    for source, target in pairs_of(100):
        memory.add(source, target)
    assert memory.nearest(range(9000, 9030)) == []
    assert memory.nearest([]) == []
    assert TranslationMemory().nearest([5, 6, 7]) == []


def test_short_sources_are_found() -> None:
    memory = TranslationMemory()
    memory.add([5], [1])
    memory.add([5, 6], [2])
    memory.add([], [3])
    assert targets(memory, [5]) == [[1]]
    assert targets(memory, [5, 6]) == [[2]]
    assert targets(memory, [7, 6]) == []


def test_a_run_of_any_length_takes_no_more_room() -> None:
    memory = TranslationMemory(recent=10)
    memory.add([5, 6, 7], [1])
    for number in range(1000):
        memory.remember([5, 6, 8 + number], [2 + number])
        assert memory.size <= 1 + 2 * 10
        assert targets(memory, [5, 6, 8 + number])[0] == [2 + number]
    assert targets(memory, [5, 6, 7])[0] == [1]
    assert all(targets(memory, [5, 6, 8 + number])[0] == [2 + number] for number in range(990, 1000))
    assert targets(memory, [5, 6, 8 + 970])[0] != [2 + 970]


def test_a_lookup_does_not_cost_more_where_all_sources_are_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = 0
    find = memory_module._Index.find

    def counted(index: memory_module._Index, keys: Sequence[int]) -> list[int]:
        nonlocal looked_at
        found = list(find(index, keys))
        looked_at += len(found)
        return found

    monkeypatch.setattr(memory_module._Index, "find", counted)
    memory = TranslationMemory()
    common = list(range(4, 104))
    for number in range(3000):
        memory.add([*common, 1000 + number], [1000 + number])
    assert len(memory.nearest([*common, 7])) == NEIGHBOURS
    assert 0 < looked_at <= 64 * 32
    assert targets(memory, [*common, 1007])[0] == [1007]


@quick
@given(st.lists(st.tuples(st.booleans(), ids, ids), max_size=30), ids)
def test_any_memory_can_be_asked_anything(steps: list[tuple[bool, list[int], list[int]]], source: list[int]) -> None:
    memory = TranslationMemory(recent=3)
    latest: dict[tuple[int, ...], list[int]] = {}
    for keep, one, other in steps:
        if keep:
            memory.add(one, other)
            latest[tuple(one)] = other
        else:
            memory.remember(one, other)
    found = memory.nearest(source)
    assert len(found) <= NEIGHBOURS
    assert [each.similarity for each in found] == sorted((each.similarity for each in found), reverse=True)
    assert all(0 < each.similarity <= 1 for each in found)
    assert len({tuple(each.target) for each in found}) == len(found)
    assert memory.nearest(source) == found
    known = {tuple(other) for _, _, other in steps}
    assert all(tuple(each.target) in known for each in found)
    if tuple(source) in latest and all(keep for keep, _, _ in steps):
        assert found[0].target == latest[tuple(source)]
