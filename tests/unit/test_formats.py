# ruff: noqa: E501  (documents are shown as they are)
"""Every format: nothing is lost that is not translated, and what cannot be read is refused in one line."""

from __future__ import annotations

import io
import re
import tracemalloc
import zipfile
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specmt import formats
from specmt.errors import DataError
from specmt.formats import format_in_folder, format_of, names, suffixes
from specmt.formats.document import Part, TagRules, TextDocument, unread
from specmt.types import Tagged
from tests.documents import (
    SAMPLES,
    O,
    Sample,
    Shouting,
    fill,
    package,
    read,
    run,
    shout,
    texts_of,
    translate,
    unpack,
    with_capitals,
)  # fmt: skip

IDS = [f"{number}-{sample.format}" for number, sample in enumerate(SAMPLES)]


@pytest.fixture(autouse=True)
def at_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")


def test_every_format_has_a_sample() -> None:
    assert {sample.format for sample in SAMPLES} == set(names())
    for name in names():
        for suffix in suffixes(name):
            assert format_of(f"a.b{suffix.upper()}.gz") == name


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_what_is_not_translated_stays(sample: Sample) -> None:
    document = read(sample.format, sample.data, **sample.options)
    assert texts_of(document) == sample.texts
    assert document.write({}, print) == sample.data


@pytest.mark.parametrize("sample", SAMPLES, ids=IDS)
def test_only_translations_change(sample: Sample) -> None:
    written = translate(read(sample.format, sample.data, **sample.options))
    assert sample.text_of(written) == sample.expected


@pytest.mark.parametrize(
    "sample", [sample for sample in SAMPLES if sample.format in ("po", "xliff", "tmx", "csv", "html")]
)
def test_a_finished_document_is_left_alone(sample: Sample) -> None:
    written = translate(read(sample.format, sample.data, **sample.options))
    assert translate(read(sample.format, written, **sample.options)) == written


@pytest.mark.parametrize(
    ("name", "source", "rules", "texts"),
    [
        ("xml", "Ein <x>rotes</x> Haus", {}, ["Ein rotes Haus"]),
        ("xml", "<p>Ein</p>\n<p>Haus</p>", {}, ["Ein", "Haus"]),
        ("xml", "<p>Ein <a><b>rotes</b></a> Haus</p>", {}, ["Ein rotes Haus"]),
        ("xml", "Ein <x>rotes</x> Haus", {"ignored": "x"}, ["Ein {t1} Haus"]),
        ("xml", "Ein <x><x>rotes</x></x> Haus", {"ignored": "x"}, ["Ein {t1} Haus"]),
        ("xml", "Ein Haus.<p>Ein <x>rotes</x> Haus</p>", {"splitting": "p"}, ["Ein Haus.", "Ein rotes Haus"]),
        ("xml", "<p>Ein</p><x>Haus</x>", {"inside": "x"}, ["Ein", "Haus"]),
        ("xml", "<p><x>Ein</x><x> Haus</x></p>", {"inside": "x"}, ["Ein Haus"]),
        ("xml", "<p><x>Ein</x><x> Haus</x></p>", {"detects": False}, ["Ein Haus"]),
        ("xml", "<p>Ein</p><p> Haus</p>", {"detects": False, "splitting": "p"}, ["Ein", "Haus"]),
        ("html", "Ein <x>rotes</x> Haus", {}, ["Ein", "rotes", "Haus"]),
        ("html", "Ein <x>rotes</x> Haus", {"ignored": "x"}, ["Ein {t1} Haus"]),
        ("html", "Ein <X>rotes</X> Haus", {"inside": "x"}, ["Ein rotes Haus"]),
        ("html", "Ein <b>rotes</b> Haus", {"splitting": "b"}, ["Ein", "rotes", "Haus"]),
        ("html", "Ein <b>rotes</b> Haus", {"ignored": "b", "splitting": "b"}, ["Ein {t1} Haus"]),
    ],
)
def test_what_elements_are_can_be_said(name: str, source: str, rules: dict[str, object], texts: list[str]) -> None:
    named = {key: value if value is False else frozenset([value]) for key, value in rules.items()}
    document = read(name, source.encode(), tags=TagRules(**named))  # type: ignore[arg-type]
    assert texts_of(document) == texts
    assert document.write({}, print) == source.encode()


@pytest.mark.parametrize("mark", ["utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("name", ["html", "xliff", "po", "json", "markdown"])
def test_encodings_stay(name: str, mark: str) -> None:
    sample = next(sample for sample in SAMPLES if sample.format == name)
    source = sample.source.replace('encoding="UTF-8"', f'encoding="{mark.removesuffix("-sig")}"')
    if mark == "cp1252":
        source = source.replace("charset=UTF-8", "charset=cp1252")
        if name in ("json", "markdown"):
            return  # always Unicode
    data = source.encode(mark)
    document = read(name, data, **sample.options)
    assert document.write({}, print) == data
    made = translate(document)
    assert made[:2] == data[:2]
    assert made.decode(mark) == replace(sample, source=source).expected


def test_a_character_that_the_encoding_lacks() -> None:
    html = '<meta charset="iso-8859-1"><p>Grüße</p>'.encode("latin-1")
    document = read("html", html)
    assert document.write({0: Tagged("Ж")}, print) == b'<meta charset="iso-8859-1"><p>&#1046;</p>'
    po = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=iso-8859-1\\n"\n\nmsgid "a"\nmsgstr ""\n'
    made, told = fill(read("po", po.encode()), {0: Tagged("Ж")})
    assert (made, told) == (po, ["kept as it was: iso8859-1 cannot write it"])


BOMB = b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "ha">' + b"".join(
    b'<!ENTITY %c "%s">' % (98 + i, b"&%c;" % (97 + i) * 10) for i in range(12)
)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("po", b'msgid "a"\nmsgstr "b"\nmsgid "a"\nmsgstr ""\n', "line 3 has the message of line 1 again"),
        ("po", b'msgid "a"\n', "line 1 ends the file within a message"),
        ("po", b'msgid "a\nmsgstr ""\n', "line 1 is neither a comment nor a string"),
        ("po", b'msgid ""\nmsgstr "charset=utf-9\\n"\n', "the encoding 'utf-9', which is unknown"),
        (
            "po",
            b'msgid ""\nmsgstr "charset=utf-8\\n"\n\nmsgid "\xff"\nmsgstr ""\n',
            "line 4 is not valid utf-8 at byte offset 42",
        ),
        ("xliff", b"<xliff>\n<file>\n", "line 3 is not well-formed XML"),
        ("xml", b"<a>\n</b>", "line 2 is not well-formed XML"),
        ("xml", b"a & b", "line 1 is not well-formed XML"),
        ("xliff", b"<html/>", "line 1 must open with <xliff>, but has <html> instead"),
        (
            "xliff",
            b'<xliff><file><trans-unit id="1"/>\n<trans-unit id="1"/></file></xliff>',
            "line 2 has the id '1' of line 1 again",
        ),
        ("tmx", b"<a/>", "line 1 must open with <tmx>"),
        ("android", b"<a/>", "line 1 must open with <resources>"),
        (
            "android",
            b'<resources><string name="a">x</string>\n<string name="a">x</string></resources>',
            "line 2 has the name 'a' of line 1",
        ),
        ("json", b'{"a": \n"b}', "line 2 is not JSON"),
        ("json", b"[" * 100_000, ""),
        ("php", b"<?php\nreturn [\n  'a' => 'b'\n", " is not PHP"),
        ("php", b"<?php\n$lang['a'] = = 'b';\n", "line 2 is not PHP"),
        ("php", b"<?php /* */\nreturn ['a' => 'b'];\n" + b"/*\n" * 80_000, "line 3 is not PHP: a comment does not end"),
        ("resx", b"<root>\n<data></root>", "line 2 is not well-formed XML"),
        ("resx", b"<a/>", "line 1 must open with <root>"),
        ("qt", b"<TS>\n<a></TS>", "line 2 is not well-formed XML"),
        ("qt", b"\n<html/>", "line 2 must open with <TS>, but has <html> instead"),
        ("strings", b'"a" = "b";\n"c" "d";\n', 'line 2 is no "key" = "value";'),
        ("strings", b'"a" = "b";\n"c" = "d"\n', "line 2 has an entry without its end"),
        ("strings", b'"a" = "b', 'line 1 is no "key" = "value";'),
        ("strings", b"bplist00", "line 1 is a binary property list"),
        ("stringsdict", b"<dict/>", "line 1 must open with <plist>, but has <dict> instead"),
        ("stringsdict", b"<plist>\n<dict></plist>", "line 2 is not well-formed XML"),
        ("xcstrings", b'{"a":\n', "line 2 is not JSON"),
        ("xcstrings", b'{"sourceLanguage": "en", "strings": {"a": {"localizations": []}}}', "no catalogue of strings"),
        ("xcstrings", b"[]", "line 1 is no catalogue of strings"),
        ("yaml", b"a: b\nc: [\n", "line 3 is not YAML: expected the node content"),
        ("yaml", b"a: b\nc: \x01\n", "line 2 is not YAML: special characters are not allowed"),
        ("yaml", b"a: b\n\tc: d\n", "line 2 is not YAML"),
        ("yaml", b"[" * 100_000, ""),
        ("properties", b"a=b\nc=\\u00g0\n", "line 2 has \\u without four hexadecimal digits"),
        ("fluent", b"a = b\nc\n", "line 2 is no message"),
        ("subtitles", b"1\n00:00:01,000 --> soon\nHallo\n", "line 2 has no time codes"),
        ("markdown", b"a\n\xff\n", "line 2 is not valid utf-8 at byte offset 2"),
        (
            "html",
            b"<p>x" + b"<b>a " * 101 + b"c</b> " * 101 + b"d",
            "line 1 has more than 100 inline tags in each other",
        ),
        ("markdown", b" " * (33 << 20), "is larger than 32 MiB"),
        ("docx", b"PK\x03\x04", "is no package that can be read"),
        ("docx", package({"a.xml": "b"}), "is a package without the text of a document"),
        ("odt", package({"content.xml": "<a>"}), "content.xml: line 1 is not well-formed XML"),
    ],
)
def test_bad_input(name: str, data: bytes, message: str) -> None:
    with pytest.raises((DataError, RecursionError)) as error:
        read(name, data)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_package_that_unpacks_to_more_than_fits() -> None:
    with pytest.raises(DataError, match="unpacks to 135266304 bytes, more than the 128 MiB"):
        read("odt", package({"content.xml": " " * (129 << 20)}))


@pytest.mark.parametrize(
    ("name", "root", "member"),
    [
        ("xliff", "xliff", ""),
        ("tmx", "tmx", ""),
        ("android", "resources", ""),
        ("qt", "TS", ""),
        ("resx", "root", ""),
        ("xml", "xml", ""),
        ("docx", "document", "word/document.xml"),
        ("odt", "document", "content.xml"),
    ],
)
def test_entities_are_never_expanded(name: str, root: str, member: str) -> None:
    def packed(data: bytes) -> bytes:
        return package({member: data.decode()}) if member else data

    data = packed(BOMB + f"]><{root}><x>&m;</x></{root}>".encode())
    assert read(name, data).write({}, print) == data
    with pytest.raises(DataError, match=r"line 2 .*amplification"):
        read(name, packed(BOMB + f'\n]><{root} a="&m;"/>'.encode()))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("json", '{"a": "Haus", "b": 0}'),
        ("xcstrings", '{"sourceLanguage": "de", "strings": {"Haus": {}}, "version": 0}'),
        ("asciidoc", '[cols="0*a"]\n|===\n.0+|Haus\n0+|c\n|===\n'),
        ("po", 'msgid ""\nmsgstr "Plural-Forms: nplurals=0;"\n\nmsgid "a"\nmsgid_plural "c"\nmsgstr[0] ""\n'),
        ("po", 'msgid ""\nmsgstr "Plural-Forms: nplurals=99999999;"\n\nmsgid "a"\nmsgid_plural "c"\nmsgstr[1] ""\n'),
        ("subtitles", "1\n0:00:01,000 --> 0:00:02,000\nHaus\n"),
        ("rst", "1. Haus\n0. Zwei\n"),
        ("html", "<p>Haus &#0;"),
        ("markdown", "Haus &#0;\n"),
        ("yaml", 'b: "\\U0Haus"\n'),
    ],
)
def test_numbers_have_any_number_of_digits(name: str, text: str) -> None:
    data = text.replace("0", "9" * 5000).encode()
    with suppress(DataError):
        translate(read(name, data))


LARGE = {
    "po": ('msgid ""\nmsgstr ""\n', 'msgid "Das ist die Meldung {}"\nmsgstr ""\n\n', ""),
    "html": ("<html>", "<p>Das ist <b>der Absatz</b> {}</p>\n", ""),
    "json": ("{", '"key{0}": "Das ist die Meldung {0}",\n', '"": ""}'),
    "xliff": (
        '<xliff version="1.2"><file><body>',
        '<trans-unit id="{0}"><source>Das ist die Meldung {0}</source></trans-unit>\n',
        "</body></file></xliff>",
    ),
    "subtitles": ("", "{0}\n00:00:01,000 --> 00:00:02,000\nDas ist ein Untertitel {0}.\n\n", ""),
}


@pytest.mark.parametrize("name", LARGE)
def test_memory_is_bounded_by_the_size(name: str) -> None:
    """What docs/documents.md says of a document of any size, at 64 kB."""
    head, part, tail = LARGE[name]
    data = (head + "".join(part.format(number) for number in range((1 << 16) // len(part))) + tail).encode()
    read(name, (head + part.format(0) + tail).encode()).write({}, print)  # what is made once
    tracemalloc.start()
    try:
        document = read(name, data)
        document.write({}, print)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(document.segments) > 500
    assert peak < 45 * len(data)


@pytest.mark.parametrize(
    ("name", "head", "tail"),
    [
        ("po", 'msgid "', '"\nmsgstr ""\n'),
        ("json", '["', '"]'),
        ("properties", "a=", ""),
        ("csv", 'a\n"', '"'),
        ("html", "<p class=", ">x</p>"),
        ("xml", "<p class='", "'>x</p>"),
        ("text", "", ""),
    ],
)
def test_a_long_text_takes_little_memory(name: str, head: str, tail: str) -> None:
    """What searches a text must not note each of its characters."""
    data = (head + "x" * 300_000 + tail).encode()
    read(name, data[:20] + tail.encode(), columns=("1",))  # what is made once
    tracemalloc.start()
    try:
        read(name, data, columns=("1",)).write({}, print)
        assert tracemalloc.get_traced_memory()[1] < 20 * len(data)
    finally:
        tracemalloc.stop()


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(SAMPLES), st.integers(0, 2000), st.integers(0, 30), st.binary(max_size=4))
def test_damage_is_refused_or_kept(sample: Sample, start: int, length: int, put: bytes) -> None:
    whole = sample.source.encode(sample.encoding)
    raw = whole[: start % (len(whole) + 1)] + put + whole[start % (len(whole) + 1) + length :]
    data = package({sample.member: raw.decode("utf-8", "replace")}) if sample.member else raw
    try:
        document = read(sample.format, data, **sample.options)
    except DataError as error:
        assert "\n" not in str(error)
        return
    assert document.write({}, print) == data
    read(sample.format, translate(document), **sample.options)


def test_zip_members_that_are_not_translated_are_kept() -> None:
    sample = next(sample for sample in SAMPLES if sample.format == "odt")
    data = package({"mimetype": "x", "content.xml": sample.source, "Pictures/a.png": "\x00\x01"})
    before, after = (zipfile.ZipFile(io.BytesIO(each)) for each in (data, translate(read("odt", data))))
    assert before.namelist() == after.namelist()
    for one, other in zip(before.infolist(), after.infolist(), strict=True):
        assert all(
            getattr(one, name) == getattr(other, name) for name in ("date_time", "compress_type", "external_attr")
        )
        assert one.filename == "content.xml" or before.read(one) == after.read(other)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("html", b"<p>a" + b" " * 1_000_000 + b"b<p>"),
        ("html", b'<a "' * 300_000),
        ("html", b"<!--" * 300_000),
        ("html", b"<pre>" * 100_000),
        ("json", b'{"a": "x' + b"\\n" * 300_000 + b'y"}'),
        ("po", b'msgid "' + b"\\\\" * 300_000 + b'a"\nmsgstr ""\n'),
        ("properties", b"a=" + b"\\" * 300_000 + b"b"),
        ("xliff", b"<xliff>" + b"<a>" * 100_000 + b"</a>" * 100_000 + b"</xliff>"),
        ("subtitles", b"0:0:0,0->" * 100_000),
        ("markdown", b"Haus\n\n" * 3_000 + b"```\n" + b"\n" * 1_000_000),
    ],
    ids=range(10),
)
def test_time_is_linear_in_the_size(name: str, data: bytes) -> None:
    """With time that grows with the square, each of these takes minutes."""
    document = read(name, data)
    assert document.write({}, print) == data
    document.write({number: segment.source for number, segment in enumerate(document.segments)}, lambda *_: None)


def test_an_escape_at_the_end_is_whole() -> None:
    assert texts_of(read("json", rb'{"a": "Pfad C:\\n", "b": "Ende\n"}')) == ["Pfad C:\\n", "Ende"]


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        # Only what begins a line is read as a variant or an attribute.
        ("fluent", "a = Es ist { $x }. Gut\nb = [ja] nein\n", "a = ES IST { $x }. GUT\nb = [JA] NEIN\n"),
        # What is escaped lest it be a box to tick stays no box.
        ("markdown", "* \\[ ] Haus *und* Hof\n* [ ] Haus\n", "* \\[ ] HAUS *UND* HOF\n* [ ] HAUS\n"),
        # A cue that follows without a blank line, as players read it.
        (
            "subtitles",
            "1\n00:00:01,000 --> 00:00:02,000\nEins.\n2\n00:00:03,000 --> 00:00:04,000\nZwei.\n",
            "1\n00:00:01,000 --> 00:00:02,000\nEINS.\n2\n00:00:03,000 --> 00:00:04,000\nZWEI.\n",
        ),
        # The number of a cue whose times are not there.
        (
            "subtitles",
            "1\n00:00:01,000 --> 00:00:02,000\nEins.\n\n2\nZwei.\n",
            "1\n00:00:01,000 --> 00:00:02,000\nEINS.\n\n2\nZWEI.\n",
        ),
        (
            "subtitles",
            "WEBVTT\n\n0:1.0 --> 0:2.0\nEins.\n0:3.0 --> 0:4.0\nZwei.\n",
            "WEBVTT\n\n0:1.0 --> 0:2.0\nEINS.\n0:3.0 --> 0:4.0\nZWEI.\n",
        ),
        # A space that does not break is text, and no indentation.
        ("html", "<p>Ein Haus am\n  \xa0| Meer und\n  ein Hof", "<p>EIN HAUS AM\n  &nbsp;| MEER\n  UND EIN HOF"),
        ("html", "<p>&nbsp;&#13;\n Haus&nbsp; ", "<p>&nbsp;&#13;\n HAUS&nbsp; "),
    ],
    ids=range(7),
)
def test_files_that_others_write(name: str, source: str, expected: str) -> None:
    assert translate(read(name, source.encode())).decode() == expected


def test_a_pattern_that_starts_like_a_variant() -> None:
    made = read("fluent", b"a =\n    Haus\nb = Haus\n").write({0: Tagged("[a]"), 1: Tagged(".b")}, print)
    assert made == b'a =\n    {"["}a]\nb = .b\n'


def test_a_package_can_bring_a_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text('from specmt.formats.plain import read\nSUFFIXES = (".mine",)\n')
    installed = tmp_path / "mine-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(f"[{formats.GROUP}]\nown = mine\npo = mine\n")
    monkeypatch.syspath_prepend(tmp_path)
    formats._plug_ins.cache_clear()
    try:
        assert format_of("a.mine") == "own" and format_of("a.po") == "po"
        assert "own" in names()
        assert translate(read("own", b"Haus\n")) == b"HAUS\n"
        assert suffixes("po") == (".po", ".pot")  # ours are not taken away
    finally:
        formats._plug_ins.cache_clear()


def test_texts_in_attributes() -> None:
    page = (
        '<html lang="de-DE" xml:lang="de"><meta property="og:title" content="Titel"><meta name="author" content="Anna">'
        '<input type="text" placeholder="Suche" value="nein"><input type="submit" value="Los"><a aria-label="Ziel" '
        'href="nein" translate="yes">Haus</a><img alt="" src="x"><textarea>nein</textarea>'
    )
    expected = page.replace('"de-DE"', '"en"').replace('"de"', '"en"')
    expected = with_capitals(expected, "Titel", "Suche", "Los", "Ziel", "Haus")
    assert translate(read("html", page.encode())).decode() == expected


def test_each_branch_of_a_message_is_translated_or_it_is_reported() -> None:
    plural = "Vor {n, plural, one {# Tag} other {# Tagen}} war es"
    data = f'{{"a": "{{g, select, f {{Sie kam}} other {{Er kam}}}}", "b": "{plural}"}}'
    document = read("json", data.encode())
    assert [(segment.source.text, segment.state) for segment in document.segments] == [
        ("Sie kam", "new"),
        ("Er kam", "new"),
        ("Vor {t1} war es", "new"),
        ("{t1} Tag", "new"),
        ("{t1} Tagen", "new"),
    ]
    words = ("Sie kam", "Er kam", "Vor {", "Tag}", "Tagen}", " war es")
    assert translate(document).decode() == with_capitals(data, *words)


@pytest.mark.parametrize(
    ("target", "state"),
    [
        ('<target state="translated">Tür</target>', "translated"),
        ('<target state="needs-review-translation">Tür</target>', "fuzzy"),
        ('<target state="needs-adaptation">Tür</target>', "fuzzy"),
        ('<target state="new">door</target>', "fuzzy"),
        ('<target state="new">Tür</target>', "new"),
        ("<target/>", "new"),
        ("", "new"),
    ],
)
def test_states_of_xliff(target: str, state: str) -> None:
    source = (
        '<xliff version="1.2"><file><body><trans-unit id="1"><source>Tür</source>{}</trans-unit></body></file></xliff>'
    )
    (segment,) = read("xliff", source.format(target).encode()).segments
    assert segment.state == state


def test_shouting_copies_what_is_to_be_copied() -> None:
    assert shout("a {t1} %s <b>") == "A {t1} %s <b>"


def test_what_xml_cannot_hold_stays_escaped_in_android_strings() -> None:
    data = b"<resources><string name='a'>ab \\ud83d\\ude00 \\ud800 \\u0001</string></resources>"
    (done,) = run(Shouting(), ("android", data))
    assert done.data == data.replace(b"ab \\ud83d\\ude00", "AB 😀".encode())


def test_a_paragraph_in_a_paragraph_of_odt_is_one_of_its_own() -> None:
    data = package({"content.xml": f"<o {O}><text:p>a <text:span>b</text:span><text:p>c</text:p> d</text:p></o>"})
    (done,) = run(Shouting(), ("odt", data))
    inside = "<text:p>A <text:span>B</text:span><text:p>C</text:p> D</text:p>"
    assert inside in unpack(done.data, "content.xml")


def test_pages_of_epub_are_read_as_xml() -> None:
    page = '<html><head><script src="a.js"/><title>a</title></head><body><?x <br/> b?><p>c &gt; d</p></body></html>'
    (done,) = run(Shouting(), ("epub", package({"mimetype": "x", "a.xhtml": page})))
    assert unpack(done.data, "a.xhtml") == page.replace("<p>c &gt; d", "<p>C &gt; D").replace(">a<", ">A<")


def test_what_a_document_type_declares_may_hold_what_would_end_it() -> None:
    head = """<!DOCTYPE d [<!ENTITY a "]>b"><!-- ]> ' --><?x ]> '?><!ENTITY c ']>' >]>"""
    (done,) = run(Shouting(), ("xml", f"{head}<d>e</d>"))
    assert done.data.decode() == f"{head}<d>E</d>"


def test_subtitles_keep_their_lines() -> None:
    source = (
        "1\n00:00:01,000 --> 00:00:04,000\n<i>- Kommst du?\n- Ja</i>\n\n2019 ist es gut.\n\n\n"
        "2\n00:00:05,000 --> 00:00:08,000\n{\\an8}- Gut\n- Nein.\n\n3\n00:00:09,000 --> 00:00:10,000\nEnde\n♪ Lied ♪\n"
    )
    texts = ["Kommst du?", "Ja", "2019 ist es gut.", "Gut", "Nein.", "Ende", "Lied"]
    document = read("subtitles", source.encode())
    assert texts_of(document) == texts
    assert [segment.context for segment in document.segments] == [f"cue {n}" for n in (1, 1, 1, 2, 2, 3, 3)]
    assert translate(document).decode() == with_capitals(source, *texts)
    vtt = "WEBVTT\n\n00:01.000 --> 00:02.000\nA &amp; B\n<v Anna>C &lt;d\n"
    assert translate(read("subtitles", vtt.encode())).decode() == vtt.replace("d\n", "D\n")


@pytest.mark.parametrize(
    ("said", "most"),
    [
        ("Das ist ein Satz in einer Zeile.", 42),
        ("Das ist ein Satz, der in\nzwei Zeilen geschrieben ist.", 28),
        ("Das ist ein Satz, der in einer viel längeren Zeile geschrieben ist.", 67),
    ],
)
def test_subtitles_have_lines_as_long_as_their_own(said: str, most: int) -> None:
    source = "".join(f"{number}\n00:00:01,000 --> 00:01:00,000\n{said}\n\n" for number in range(9))
    (done,) = run(Shouting({said.replace("\n", " "): "word " * 40}), ("subtitles", source))
    lines = [line for line in done.data.decode().split("\n") if line.startswith("word")]
    assert len(lines) == 9 * -(-40 // ((most + 1) // 5)) and max(map(len, lines)) <= most


@pytest.mark.parametrize(
    ("root", "inside", "texts"),
    [
        (
            "concept",
            "<p>Ein <codeph>nein</codeph> da</p><codeblock>nein</codeblock><screen>nein</screen>",
            ["Ein {t1} da"],
        ),
        ("concept", "<li>Eins<codeblock>nein</codeblock>zwei</li>", ["Eins", "zwei"]),
        ("article xmlns='http://docbook.org/ns/docbook'", "<para>Ein <code>nein</code> da</para>", ["Ein {t1} da"]),
        ("article xmlns='http://docbook.org/ns/docbook'", "<programlisting>nein</programlisting>", []),
        ("html", "<p>Ein <code>nein</code> da</p><pre>nein</pre>", ["Ein {t1} da"]),
        (
            "topic",
            "<li>Eins<ul><li>Zwei</li></ul> und <b>drei</b></li><p>Vier <note>Fünf</note></p>",
            ["Eins", "Zwei", "und drei", "Vier", "Fünf"],
        ),
        (
            "topic",
            "<p>Ein Wort<fn><p>Eins</p><p>Zwei</p></fn> ist<indexterm>Haus</indexterm> da</p>",
            ["Eins", "Zwei", "Haus", "Ein Wort ist da"],
        ),
        ("a", "<p>Ein <x xmlns:y='y'>Satz <y:z/> hier</x> da</p>", ["Ein", "Satz {t1} hier", "da"]),
        ("a", "<p>Ein <code>Wort</code> da <k>nein</k></p>", ["Ein Wort da {t1}"]),
    ],
)
def test_code_in_xml_stays(root: str, inside: str, texts: list[str]) -> None:
    page = f"<{root}>{inside}</{root.split()[0]}>"
    document = read("xml", page.encode(), tags=TagRules(ignored=frozenset(["k"])))
    assert texts_of(document) == texts
    made = translate(document).decode()
    assert made.count("nein") == page.count("nein") and all(text[:4].upper() in made for text in texts)


def test_xml_says_the_language_of_the_translation() -> None:
    for code, wanted in (("de-AT", "en"), ("fr", "fr")):
        page = f"<topic xml:lang='{code}' id='de'><p xml:lang='de'>{{}}</p></topic>"
        made = translate(read("xml", page.format("Haus").encode(), source="de", target="en")).decode()
        assert made.replace('"', "'") == page.format("HAUS").replace(code, wanted)


TABLE = 'id,de,en\n1,Haus\n2,42,\n3\n4,"Ein, zwei",\n5,-,x\n'


@pytest.mark.parametrize(
    ("table", "column", "expected"),
    [
        (TABLE, "de=en", 'id,de,en\n1,Haus,HAUS\n2,42,42\n3\n4,"Ein, zwei","EIN, ZWEI"\n5,-,x\n'),
        (TABLE, "de", 'id,de,en\n1,HAUS\n2,42,\n3\n4,"EIN, ZWEI",\n5,-,x\n'),
        (
            "Haus;Anna, Berta, Carl\nHof;Dora\nTor;Emil, Fritz\n",
            "1",
            "HAUS;Anna, Berta, Carl\nHOF;Dora\nTOR;Emil, Fritz\n",
        ),
        ("a\nEins, zwei\n", "1", "A\nEINS, ZWEI\n"),
        ("a\nDas Haus\\nJetzt\n", "a", "a\nDAS HAUS\\nJETZT\n"),
        ('a;b\nein "x" da;c\n', "a", 'a;b\nEIN "X" DA;c\n'),
        ('a\t"ein" x\nb\t"y"\n', "2", 'a\t"EIN" X\nb\t"Y"\n'),
    ],
    ids=["beside", "in its place", "commas in cells", "one column", "breaks", "quotes", "quotes and tabs"],
)
def test_tables_with_short_lines_and_cells_without_letters(table: str, column: str, expected: str) -> None:
    assert translate(read("csv", table.encode(), columns=(column,))).decode() == expected


def test_breaks_and_several_columns_of_tables() -> None:
    assert texts_of(read("csv", b"a\nDas Haus\\nJetzt\n", columns=("a",))) == ["Das Haus\nJetzt"]
    several = read("csv", b'"a,b;c";d;e\nEins;Zwei;\nDrei;Vier\n', columns=("1", "2=3"))
    assert translate(several) == b'"A,B;C";d;e\nEINS;Zwei;ZWEI\nDREI;Vier\n'
    assert [segment.reason for segment in several.segments if segment.reason] == [
        "kept as it was: the line has 2 columns, and not 3"
    ]


@pytest.mark.parametrize(
    ("source", "left"),
    [
        ("Vorrede\n\n1\n00:00:01,000 --> 00:00:02,000 X1:a\nHaus\n\nabc\n00:00:03,000 --> 00:00:04,000\n<i>- Hof</i>\n", ["Vorrede"]),
        ("WEBVTT - Titel\nX: y\n\nNOTE nein\nnein\n\nSTYLE\n::cue {}\n\nid\n00:01.000 --> 00:02.000 align:left\nHaus\n\nverloren\n", ["verloren"]),
        ("[Script Info]\nTitle: x\n[Events]\nDialogue: 0,0:00:01.00,0:00:02.00,D,,0,0,0,,{\\an8}Haus\nDialogue: 0,0:00:01.00,0:00:02.00,D,,0,0,0,,{\\p1}m 0 0\nComment: nein\n", []),
    ],
)  # fmt: skip
def test_every_character_of_subtitles_is_a_text_or_is_left_for_a_reason(source: str, left: list[str]) -> None:
    document = read("subtitles", source.encode())
    assert [segment.source.text for segment in document.segments if segment.state == "skipped"] == left
    assert all(segment.reason for segment in document.segments if segment.state == "skipped")


@pytest.mark.parametrize(
    ("name", "source", "options"),
    [
        ("xml", '<?xml version="1.0"?>\n<!DOCTYPE html>\n<html a="nein"><p>Ein <code>nein</code> <b>Satz</b></p><!-- nein --><pre>nein</pre></html>', {}),
        ("xml", "<a><p translate='no'>nein</p>Ein <k>nein</k> Satz<p><![CDATA[Eins]]></p></a>", {"tags": TagRules(ignored=frozenset(["k"]))}),
        ("csv", "nein,de,en\nnein,Haus,\nnein,42,\n", {"columns": ("de=en",)}),
        ("csv", "nein,Haus,\nnein,42,nein\n", {"columns": ("2",)}),
    ],
)  # fmt: skip
def test_every_character_is_a_text_or_is_left_for_a_reason(name: str, source: str, options: dict[str, object]) -> None:
    document = read(name, source.encode(), **options)
    assert isinstance(document, TextDocument)
    said = texts_of(document)
    texts = [Part(edit.start, edit.end, "") for each in document.segments for edit in each.edits(each.source, print)]
    if options.get("columns") == ("de=en",):  # what is edited is not what is read
        texts = [Part(source.index(text), source.index(text) + len(text), "") for text in said]
    markup = [
        Part(*match.span(), "markup") for match in re.finditer("<[^<>]*>", source.replace("<![CDATA[Eins]]>", " " * 16))
    ]
    assert unread(source, [*document.parts, *texts, *markup]) == [] and said
    assert all(part.reason for part in document.parts)


def test_xml_of_a_folder_without_anything_in_it_is_of_no_format() -> None:
    for name in ("a.xml", "a.ts", "a.xliff", "a.xlf", "a.RESX", "a.tmx", "a.stringsdict"):
        assert format_in_folder(Path(name), b"", None) is None
    assert format_in_folder(Path("a.xliff"), b"<", None) == "xliff"


@pytest.mark.parametrize(
    ("name", "page"),
    [
        (
            "xliff",
            '<xliff version="1.2"><file source-language="de" target-language="en"><body><trans-unit id="a"><source>'
            "<![CDATA[\n  {} & hier]]></source></trans-unit></body></file></xliff>",
        ),
        ("resx", "<root><data name='a'><value><![CDATA[{} & dort ]]></value></data></root>"),
        ("xml", "<a><p><![CDATA[{} & dort]]></p><p>Und <![CDATA[da]]></p></a>"),
    ],
)
def test_a_section_in_which_nothing_is_escaped_stays_one(name: str, page: str) -> None:
    document = read(name, page.format("Das Haus").encode())
    said = document.segments[0].source.text.replace("Das Haus", "Das ]]> Haus")
    data, told = fill(document, {0: Tagged(said)})
    assert not told
    assert page[page.index("<![") : page.index("{}")] + "Das ]]]]><![CDATA[> Haus" in data
