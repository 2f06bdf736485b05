# ruff: noqa: E501  (documents are shown as they are)
"""Reading, translating and writing a document takes time in proportion to its size, whatever it repeats."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import pytest

from specmt.check.rules import read
from specmt.check.sides import marks_of
from specmt.documents import translate_documents
from specmt.errors import DataError
from specmt.formats import names, read_document
from specmt.formats import shape as shape_of_pages
from specmt.formats.anchors import fragments
from specmt.formats.blocks import ITEM, Content, blocks_in
from specmt.formats.commonmark import parser
from specmt.formats.document import FormatOptions, TextDocument
from specmt.formats.encoding import decode
from specmt.formats.front import FRONT, front_matter
from specmt.formats.shape import blocks_of
from specmt.formats.splicing import splice
from specmt.formats.upkeep import refreshed
from specmt.options import DecodingOptions
from specmt.update.pairing import shape
from tests.documents import O, Shouting, W, package
from tests.growth import assert_at_most, assert_linear, steps

_WORD = f"<w:document {W}><w:body>", "</w:body></w:document>"
_TEXT = f"<o {O}>", "</o>"
_STRINGS = "<resources><string>", "</string></resources>"
_UNIT = "<xliff><file><body><trans-unit><source>", "</source></trans-unit></body></file></xliff>"
_CUE = "00:00:01,000 --> 00:00:02,000"
_EVENT = "[Script Info]\nDialogue: 0,0:00:01.00,0:00:04.00,,,,,,,"
REPEATED = {
    "android": [
        ("<resources>", "<plurals><item>x</item></plurals>|<x/>|<string/>", "</resources>"),
        (
            _STRINGS[0],
            '<b>x</b> |x\\n|\\n|"|\\u0041|<g/>x |\\\'|{n, plural, other {x}}|{n, plural,|x &quot;"',
            _STRINGS[1],
        ),
    ],
    "asciidoc": [
        ("", "a\n\n|* a\n|a\n|a::\n|----\n|[a]\n|¦===\n|= a\n|<<a>>", ""),
        ("", "a *|a *b* |[a]#|<<a,|link:a[|[a|{a|+a |^|a:", ""),
        ("¦===\n", "¦a |a\n\n|¦", "\n¦==="),
        ("[cols='1", " ", "!']\n¦===\n¦a\n¦==="),
        ("[", "#[", "]\n== a b\n\n<<a>>"),
        ("a::b", "[|[.a]#b#", ""),
        ("footnote:[", "++[|++a", "]"),
        ("", "{a:|pass:[|stem:[|a:b[", ""),
        ("", "xref:a|== a\n<<a>>\n\n", ""),
    ],
    "csv": [("", 'a,b\n|a|"|""|a;|\t|\n|"a",|,|a"|"a"\n', "")],
    "docx": [
        (_WORD[0], "<w:p/>|<w:p><w:r><w:t>x y</w:t></w:r></w:p>|<w:r/>", _WORD[1]),
        (
            _WORD[0] + "<w:p>",
            "<w:r><w:t>x </w:t></w:r>|<w:r><w:rPr><w:b/></w:rPr><w:t>x </w:t></w:r><w:r><w:t>y </w:t></w:r>"
            '|<w:r><w:fldChar w:fldCharType="begin"/></w:r>|<w:r><w:fldChar w:fldCharType="end"/></w:r>'
            "|<w:hyperlink><w:r><w:t>x </w:t></w:r></w:hyperlink>|<w:r><w:tab/><w:t>x</w:t></w:r>|<w:bookmarkStart/>"
            "|<w:r><w:t>x</w:t></w:r><w:r><w:footnoteReference/></w:r>|<w:p><w:r><w:t>x</w:t></w:r></w:p>",
            "</w:p>" + _WORD[1],
        ),
        (_WORD[0] + "<w:p><w:r><w:rPr", " ", f"/><w:t>x</w:t></w:r></w:p>{_WORD[1]}"),
        (
            _WORD[0] + "<w:p><w:r><w:rPr><!--",
            "<w:rStyle |<w:lang |<w:instrText ",
            f"--></w:rPr><w:t>x</w:t></w:r></w:p>{_WORD[1]}",
        ),
    ],
    "epub": [("<html><body><p>", "<b>x</b> |</p><p>x|&#160;|x <br/>", "</p></body></html>")],
    "pptx": [
        (
            "<a:p xmlns:a='a'>",
            "<a:r><a:t>x </a:t></a:r>|<a:r><a:rPr b='1'/><a:t>x </a:t></a:r><a:r><a:t>y </a:t></a:r>|<a:fld/>|<a:br/>"
            "|<a:r><a:t>x</a:t></a:r><a:br/>|<a:r/>",
            "</a:p>",
        ),
        ("<a:p xmlns:a='a'><a:r><a:rPr", " ", "/><a:t>x</a:t></a:r></a:p>"),
    ],
    "xlsx": [("<sst>", "<si><t>x</t></si>|<si/>|<si><r><t>x</t></r><r><rPr/><t>x</t></r></si>", "</sst>")],
    "fluent": [
        ("", "a = b\n|# x\n|-t = x\n|a|\n| |a = {\n|a =\n  x\n", ""),
        ("a = ", '{ $x } |x |{ "x" }|{ -t }|\n  x|{ $x -> *[a] b\n }\n  |\n .x = y', "\n"),
    ],
    "html": [
        (
            "",
            "<!--a>|<!|<!x |<!x>|<?|<a|<a |</a|</a>|<b>|<b>x |<b>x</b> |<b x=|<a \"|<a '|<a b=c |<pre>|</b>x |<title>|<p>",
            "",
        ),
        (
            "",
            "<p>x|&amp;|&|&#|&nbsp;|<br>x|<wbr>x|<img>x |<i><b>x|{t|{tx|<sup>2</sup>|x<sup>2</sup>|<li>|<!-- -->|--|a\n|.\n",
            "",
        ),
        ("<pre>", "<a>|</b>|<a></b>", ""),
        ("@if (a) {}{/if}", "{%|{% a %}|{{a|{# |<% |<?php |@if (|@if (a) {x}|{n, plural, |{% trans %}|{a ", ""),
        ("#if($a)\n% endif\n{/if}", "##|#*|#if(|$a.b(|\n% if|<%a:b |[% |[[${|<#a (|<#a ()|{*|={", ""),
        ("", "<select>x|<select>x</select>|<p lang=en>|&auml;x|<a alt=x>|<!-- IF -->x", ""),
        ("<p>", "<a></b>|<script>|<li translate=no>|<code>x|<code>x</code> |<tt><i>|<a title='x'>", ""),
    ],
    "json": [
        ("[", '"x",|1,|[],|{},', "1]"),
        (
            '["',
            "\\u2068x |\\u2068x \\u2069|\u200f|$t(|$t(a) |a.b|a-b|dd.|\\n|\\u0041|x|{|}|#|{n, plural, other {x}}|{n,plural,",
            '"]',
        ),
        ('["x', " ", 'x"]'),
        ('{"a": "{n, plural, ', "one {x} |other {{n, plural, other {x}}} |one {# x} |one {", '}"}'),
    ],
    "markdown": [
        ("", '[a|[[a|[^a|[a](|\\(a|{{a |{a:|$a|`a |**a |<a "|~~a|{ref}`', ""),
        ("::a\n", "#a\n|<a @b=\"|<a @b |<a @b='c' |<a #b\n", ""),
        ("", "{% a\n|\\[a\n|::: a\n|!!! a\n    b\n|<pre>\n|[a]: b\n|¦a|a\n\n|- a\n|# a\n|a *b* ", ""),
        ("a¦b\n-¦-\n", "a¦b\n|<!--", ""),
        ("a\n", "<b>\n|<b>\n# a\n", "[a](b)"),
        ("", "> # a\nb\n|> ---\nb\n|> a\n# b\n", ""),
        ("", "[a]: b\n: a\n|[a]: b\na\n: # a\n", ""),
        ("!!!", " ", "!"),
        (":::", ":| |a", "!{"),
        ("<b1", " markdown=", "!"),
        ("```{a}", " ", "`"),
        ('::: a=""', " ", "!{"),
        ("$$\na\n$$", " ", "!"),
        ("[a](`{%%}", "_", "{%%} b c"),
        ("# a {:#", "a.", "\n"),
    ],
    "mdx": [("", '[a|{|<A b={|<A b="|{/*|{`|<br>x', ""), ("", "<A>\n|</A>\n|{a\n|import a\n", "")],
    "odt": [
        (_TEXT[0], "<text:p>x</text:p>|<text:p/>|<x/>", _TEXT[1]),
        (
            _TEXT[0] + "<text:p>",
            "x |<text:s/>x|<text:span>x </text:span>|<text:note><text:p>x</text:p></text:note>|<draw:frame/>x|<text:bookmark/>x ",
            "</text:p>" + _TEXT[1],
        ),
    ],
    "php": [
        ("<?php return ['a' => '", ":a ¦", "'];"),
        ("<?php return [", "'a' => 'x',|[],|array('x'),|'x'.|// c\n|<<<A\nx\nA,", "'z'];"),
        ("<?php $lang['a'] = '", "x |:a |¦|{0}|\\'|\\\\|\n", "';"),
        ('<?php $lang["a"]["b"] = "', 'x |$a |{$a} |\\n|\\u{41}|\\"', '";'),
        ("<?php\n", "$lang['a'] = 'b c';|return ['a'];|if (a) {}|x", ""),
        ("<?php return ['a' => f('", "a ", "\n')];"),
    ],
    "po": [
        ("", '#\n|#, x\n|#. x\n|#~ x\n|\n|"x"\n|x| |#,a', ""),
        ("", "charset=", ""),
        ('msgid "x"\n', '"x"\n|#, c\n', 'msgstr ""\n'),
        ('#, c-format\nmsgid "x', "%|% |&|_x|x | |\\n|\\\\|B<|B<x y> |E<lt>|{n, plural, other {x}}", 'x"\nmsgstr ""\n'),
        ('#, python-brace-format\nmsgid "x', "{|{}", '"\nmsgstr ""\n'),
        ('#, c-format\nmsgid "x %', "0", '!"\nmsgstr ""\n'),
        ('msgid "x"\n#|', " ", 'x"\n'),
    ],
    "properties": [
        ("", "a=b\n|a|a\\|\\|\\u|a= |=|:| |#|\\\n|a=\\\n|a={0}'\n|\r|\n|\t", ""),
        ("a=b", "{n, plural, other {x}}|\\\n|\\u0041|\\\\| |x\\n|'|{0|\\ ", ""),
    ],
    "qt": [
        (
            "<TS>",
            "<message><source>x</source></message>|<context><name>a</name><message/></context>|<message><translation/></message>|<a/>",
            "</TS>",
        ),
        ("<TS><message><source>", "x |<byte/>|&amp;x |&x; |<b>", "</source></message></TS>"),
    ],
    "resx": [
        ("<root>", "<data name='a'><value>x</value></data>|<data type='a'/>|<data><data/></data>|<!-- -->", "</root>"),
        ("<root><data><value>", "x |&amp;|&x; |<b/>|\n", "</value></data></root>"),
    ],
    "rst": [
        ("", "a\n\n|- |- a\n|a\n=\n|a::\n|.. a::\n|>>> a\n|a\n b\n|  a\n\n|.. _a: b\n", ""),
        ("", "a *|`|``|a_ |:a:`|¦a¦ |\\ |`a <b>`_ |a-", ""),
        ("-", "a|a, -|<a> ", " b\n"),
        ("+--+\n", "¦  ¦\n|+-|+--+--+\n", "\n+--+"),
        ("", "+--+--+\n", ""),
        ("== ==\n", "a  b\n|a  b\n\n|a  \n   b\n", "== ==\n"),
        ("a", " ", "x\n b\n"),
        (".. toctree::\n\n  a", " ", "x\n"),
    ],
    "strings": [
        ("", 'a=b;|"a" = "b x";\n|/* */|//\n|a=|/|"|\\|;|a;', ""),
        ('a = "', "x |\\n|\\U0041|\n|\\\\|%@ ", '";'),
    ],
    "stringsdict": [
        (
            "<plist><dict>",
            "<dict/>|<key>a</key>|<key>a</key><string>x</string>|<key>a</key><dict><key>other</key><string>x</string></dict>|<!-- -->|x",
            "</dict></plist>",
        ),
        ("<plist><dict><key>a</key><string>", "x |&amp;|<b/>|<![CDATA[x]]>|&a; |\n", "</string></dict></plist>"),
    ],
    "subtitles": [
        ("", f"1\n{_CUE}\nx\n\n|{_CUE}\n|x\n|-->|-->\n|1\n|0:|NOTE -->\n", ""),
        (f"{_CUE}\n", "<i>x |<i>x</i> |<|{|{{\\x}}x |- x\n|x |</i>x|<i><b>x", ""),
        (f"{_CUE}\nx", "\n| \n", "x"),
        ("[Script Info]\n", f"{_EVENT[14:]}x\n|Format: Text\n|,", ""),
        (_EVENT, "\\N|x\\N- |{\\i}x |{|\\p1", "\n"),
        (f"WEBVTT\n\n{_CUE}\n", "a &amp; ", ""),
    ],
    "text": [("", "a|a\n|\n| |a |\r|\r\n", "")],
    "tmx": [
        ("<tmx><body>", "<tu><tuv lang='de'><seg>x</seg></tuv></tu>|<tu/>|<tu><tuv/></tu>", "</body></tmx>"),
        (
            "<tmx><body><tu><tuv lang='de'><seg>",
            "<hi>x </hi>|<ph/>x |<bpt i='1'/>x<ept i='1'/>",
            "</seg></tuv></tu></body></tmx>",
        ),
    ],
    "xcstrings": [
        (
            '{"sourceLanguage": "de", "strings": {',
            '"a": {},|"a\\n": [],|"a": {"localizations": {"fr": {}}},',
            '"b": {}}}',
        ),
        (
            '{"sourceLanguage": "de", "strings": {"a": {"localizations": {',
            '"fr": {},|"de": {"stringUnit": {"value": "x"}},',
            '"": 1}}}}',
        ),
        ('{"sourceLanguage": "de", "strings": {"', "x |%@ |\\n|\\u0041", '": {}}}'),
    ],
    "xliff": [
        ("<xliff><file><body>", "<trans-unit><source>x</source></trans-unit>|<trans-unit/>", "</body></file></xliff>"),
        (
            _UNIT[0],
            "<g>x </g>|<x/>|<x/>x |x |<bx rid='1'/>x <ex rid='1'/>|<mrk mtype='seg'>x</mrk>|<g translate='no'>x</g>|&x;"
            "|<x id='START_A'/>x |<x id='START_A'/>x <x id='CLOSE_A'/>|{n, plural, other {x}}",
            _UNIT[1],
        ),
        (
            _UNIT[0] + "x</source><seg-source>",
            "<mrk mtype='seg'>x</mrk>|<g><mrk mtype='seg'>x</mrk></g>",
            _UNIT[1].replace("source", "seg-source", 1),
        ),
    ],
    "xml": [
        ("<a>", "<b/>|<b/>x |<b>x</b> |<!-- -->|<![CDATA[x]]>|&amp;|&x;|x|<?x?>|x\n|<b c='d' e='f'>x</b>", "</a>"),
        ("", "<a>|<a/>", ""),
    ],
    "yaml": [
        ("", "a: b\n|- ? a\n|a: ¦\n  b\n|&a |# a\n|---\n|one: a\nother: b\n", ""),
        ("a: '", "''|\n|%{a} ", "'"),
        ("de:\n  a: |\n", "    x\n|\n", ""),
        ("[", "{a: x}, |&a x, |*x,", "y]"),
    ],
}
"""What of a document of each format is repeated, and what is around it."""

MEMBERS = {
    "docx": "word/document.xml",
    "epub": "a.xhtml",
    "odt": "content.xml",
    "pptx": "ppt/slides/slide1.xml",
    "xlsx": "xl/sharedStrings.xml",
}


def cases() -> Iterator[tuple[str, str, str, str]]:
    for name, found in REPEATED.items():
        for before, units, after in found:
            for each in units.split("|"):
                yield name, before.replace("¦", "|"), each.replace("¦", "|"), after.replace("¦", "|")


def test_every_format_is_here() -> None:
    assert set(REPEATED) == {*names(), "mdx"}


@pytest.fixture(autouse=True)
def no_garbage() -> Iterator[None]:
    """Has no search for garbage in what is measured."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(("name", "before", "unit", "after"), [*cases()])
def test_time_is_linear(name: str, before: str, unit: str, after: str) -> None:
    assert_linear(lambda size: take(name, before + unit * (size // len(unit) + 1) + after), 1250)


@pytest.mark.parametrize(
    ("find", "before", "unit", "after"),
    [
        (marks_of, "", "a:", "!"),
        (read, "", "![a_", ""),
        (fragments, "", "]:", ""),
        (lambda text: shape("prose", Content((text,), ())), "", "a-", "!"),
        (lambda text: shape("prose", Content((), (text,))), "", "](", ""),
        (lambda text: refreshed("qt", text, text, is_outdated=True), "<translation", " ", "a>"),
    ],
)
def test_what_is_compared_is_found_in_linear_time(
    find: Callable[[str], object], before: str, unit: str, after: str
) -> None:
    assert_linear(lambda size: find(before + unit * (size // len(unit)) + after), 3000)


BESIDE = [
    ("docx", "word/styles.xml", "", '<w:style w:styleId="a"', ""),
    ("docx", "word/styles.xml", "<a>", '<w:style w:styleId="a">', "</a>"),
    ("docx", "word/styles.xml", "<a xmlns:w='w'>", "<w:style w:styleId='a'><w:name w:val='x'/></w:style>", "</a>"),
    ("odt", "styles.xml", f"<a {O}><!--", "<style:style ", "--></a>"),
    ("xlsx", "xl/tables/table1.xml", "<a>", "<tableColumn ", "</a>"),
]


@pytest.mark.parametrize(("name", "member", "before", "unit", "after"), BESIDE)
def test_time_is_linear_in_what_is_beside_the_text(name: str, member: str, before: str, unit: str, after: str) -> None:
    before_text, _, after_text = REPEATED[name][0]

    def read(size: int) -> None:
        text = before + unit * (size // len(unit)) + after
        read_document(package({MEMBERS[name]: before_text + after_text, member: text}), "a", name, FormatOptions())

    assert_linear(read, 1250)


@pytest.mark.parametrize("name", ["xl/tables/table", "xl/threadedComments/"])
def test_time_is_linear_in_the_number_of_members(name: str) -> None:
    def read(count: int) -> None:
        members = {f"{name}{number}.xml": "<a><tableColumn name='b'/></a>" for number in range(count)}
        read_document(package({MEMBERS["xlsx"]: "<sst/>", **members}), "a", "xlsx", FormatOptions())

    assert_linear(read, 60)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("rst", "a\n=\n"),
        ("rst", "== ==\na  b\n== ==\n\n"),
        ("yaml", "other: a b\n"),
        ("yaml", "de:\n a:\n"),
        ("text", "A n. "),
    ],
)
def test_a_page_is_not_looked_through_for_each_of_its_titles_tables_keys_and_sentences(name: str, unit: str) -> None:
    assert_linear(lambda size: take(name, "".join(unit.replace("n", str(n)) for n in range(size // len(unit)))), 10_000)


@pytest.mark.parametrize(
    ("name", "around", "unit"),
    [
        ("html", ("", ""), "<i><b>x"),
        ("html", ("<p>", ""), "a.<a>"),
        ("rst", ("", "x"), "„\\ "),
        ("markdown", ("a|b\n-|-\na ", ""), "\n# > [!note]\n"),
        ("mdx", ("", ""), "<br>x"),
        ("xliff", _UNIT, "{n, plural, other {x}}"),
    ],
)
def test_a_line_a_word_or_a_unit_is_not_looked_through_for_each_tag_or_text_in_it(
    name: str, around: tuple[str, str], unit: str
) -> None:
    assert_linear(lambda times: take(name, around[0] + unit * times + around[1]), 2000)


def packed(name: str, text: str) -> bytes:
    return package({MEMBERS[name]: text}) if name in MEMBERS else text.encode()


def take(name: str, text: str) -> None:
    """Reads, translates and writes a document."""
    data = packed(name, text)
    with suppress(DataError):
        document = read_document(data, f"a.{name}", {"mdx": "markdown"}.get(name, name), FormatOptions(columns=("1",)))
        assert document.write({}, print) == data
        list(translate_documents(Shouting(), [("a", document)], DecodingOptions()))


def test_what_may_be_in_each_other_is_looked_through_few_times() -> None:
    assert_at_most(0.05, lambda: take("markdown", "[" * 8000 + "]"))
    assert_at_most(0.5, lambda: take("markdown", "[a" * 4000 + "]" * 4000))


def test_marks_that_are_the_same_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, seen = shape_of_pages._plain, list[str]()
    monkeypatch.setattr(shape_of_pages, "_plain", lambda tag: seen.append(tag) or plain(tag))
    blocks_of("[[" * 50_000 + "\n")
    assert seen == ["[["]
    assert_at_most(0.9, lambda: take("json", f'["{">```a " * 4_000}"]'))


@pytest.mark.parametrize(("name", "unit"), [("a.md", r"\(a"), ("a.mdx", "{")])
def test_what_may_begin_and_does_not_end_is_read_as_fast_as_any_text(name: str, unit: str) -> None:
    data = (unit * (20_000 // len(unit))).encode()
    assert_at_most(0.24, lambda: read_document(data, name, "markdown", FormatOptions()))


@pytest.mark.parametrize("unit", [";$a=", "// a\n&&", "$<?php "])
def test_of_a_program_with_many_errors_the_first_are_looked_for(unit: str) -> None:
    assert_linear(lambda size: take("php", "<?php\n" + unit * (size // len(unit))), 4_000)


def test_heredocs_that_do_not_end_are_not_read_over_and_over() -> None:
    assert_linear(lambda size: take("php", "<?php\n" + "<<<A\n" * (size // 10) + "\\" * (size // 2)), 17_000)


def test_quotations_that_each_might_have_the_lines_behind_them_are_refused() -> None:
    page = "> [!note]\nb\n"
    read_document((page * 50).encode(), "a", "markdown", FormatOptions())
    with pytest.raises(DataError, match=r"line \d+ may be a part of too many quotations"):
        read_document((page * 400).encode(), "a", "markdown", FormatOptions())


def test_what_closes_is_not_counted_for_each_bracket_that_opens() -> None:
    page = parser("")
    assert_linear(lambda size: page.parseInline("[" * size + "](b)" * (size // 4)), 10_000)


def test_lines_are_not_counted_for_each_key_of_front_matter() -> None:
    def read_keys(count: int) -> None:
        text = "+++\n" + 'a = "b"\n' * count + "+++\n"
        found = FRONT.match(text)
        assert found is not None
        assert len([*front_matter(text, found, ["a"])]) == count

    assert_linear(read_keys, 4000)


def test_a_cell_of_many_rows_takes_no_longer_than_one_of_few() -> None:
    few, many = (steps(partial(take, "asciidoc", f"|===\n.{rows}+|a\n|b\n|===\n")) for rows in (2, 4_000))
    assert many < few + 10


BLOCKS = [
    ("stringsdict", "<plist><dict>", "\t<key>a</key>\n\t<dict>\n", "</dict>", "</dict></plist>"),
    ("xcstrings", '{"sourceLanguage": "de", "strings": {\n', '    "a" : {\n', "}", "}}"),
    ("json", "", '{"a":["b",', "]}", ""),
    ("json", "{", '"a": "b", "c": {"d": 1}, ', "", "}"),
    ("yaml", "", "a:\n  b: c\n", "", ""),
    ("xliff", "<xliff>", "<trans-unit id='a'><source>b</source></trans-unit>", "", "</xliff>"),
    ("xliff", "", "<group id='a'>", "</group>", ""),
    ("android", "<resources><!--", '<string a="x">', "", "--></resources>"),
    ("properties", "", "# c\n\na=Haus\n", "", ""),
    ("markdown", "", "- Ein Wort\n\nEin Text\n", "", ""),
    ("po", "msgctxt", " ", "", 'msgid "a"\nmsgstr "a"\n'),
]


@pytest.mark.parametrize(("name", "before", "unit", "closing", "after"), BLOCKS)
def test_time_of_blocks_is_linear(name: str, before: str, unit: str, closing: str, after: str) -> None:
    def take_apart(size: int) -> None:
        text = before + size * unit + size * closing + after
        document = TextDocument(text, decode(b"")[1], [])
        blocks = blocks_in(document, name)
        assert splice(document, blocks, range(len(blocks)), name) == text.encode()
        splice(document, blocks, range(len(blocks))[::-1], name)

    assert_linear(take_apart, 200)


SHORT = [
    ("rst", "", "a\n b\n", "", 340),
    ("rst", "", "a\n=\n", "", 340),
    ("rst", "", "a\n\n", "", 340),
    ("rst", "== ==\n", "a  b\n", "== ==\n", 750),
    ("asciidoc", "", "a\n\n", "", 340),
    ("json", "[", '"x",', "1]", 340),
    ("html", "", "<p>x", "", 340),
    ("markdown", "", "a\n\n", "", 650),
    ("markdown", "a|b\n-|-\n", "a|b\n", "", 1000),
    ("yaml", "[", "a,", "a]", 800),
    ("docx", _WORD[0], "<w:p><w:r><w:t>x</w:t></w:r></w:p>", _WORD[1], 130),
    ("docx", _WORD[0] + "<w:p>", "<w:r/>", "</w:p>" + _WORD[1], 90),
    ("odt", _TEXT[0], "<text:p>x</text:p>", _TEXT[1], 130),
    ("epub", "<html><body>", "<p>x</p>", "</body></html>", 300),
    ("xlsx", "<sst>", "<si><t>x</t></si>", "</sst>", 110),
]


@pytest.mark.parametrize(("name", "before", "unit", "after", "most"), SHORT)
def test_memory_is_bounded_where_all_texts_are_as_short_as_can_be(
    name: str, before: str, unit: str, after: str, most: int
) -> None:
    data = packed(name, text := before + unit * 800 + after)
    take(name, before + unit + after)  # what is made once

    def peak() -> int:
        tracemalloc.start()
        try:
            read_document(data, "a", name, FormatOptions())
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # What is of the whole process, as its table of names is, may grow in one of two.
    assert min(peak(), peak()) < most * len(text)


_DIV, _LIST, _CELL = (
    ("<div>y ", "</div>"),
    ("<ul><li>y ", "</li></ul>"),
    ("<w:tbl><w:tr><w:tc>", "</w:tc></w:tr></w:tbl>"),
)
_FRAME = "<text:p>x <draw:frame><draw:text-box>", "</draw:text-box></draw:frame></text:p>"
_BOX = "<w:p><w:r><w:pict><w:txbxContent>", "</w:txbxContent></w:pict></w:r></w:p>"
NESTED = [
    ("epub", "<html><body>", *_DIV, "</body></html>"),
    ("html", "", *_LIST, ""),
    ("docx", _WORD[0], *_CELL, _WORD[1]),
    ("docx", _WORD[0], *_BOX, _WORD[1]),
    ("docx", _WORD[0] + "<w:p>", "<w:ins>", "</w:ins>", "</w:p>" + _WORD[1]),
    ("odt", _TEXT[0], *_FRAME, _TEXT[1]),
    ("odt", _TEXT[0], "<text:p>x ", "</text:p>", _TEXT[1]),
    ("xliff", "<xliff><file><body>", "<group>", "</group>", "</body></file></xliff>"),
    ("xml", "<a>", "<b>x ", "</b>", "</a>"),
    ("yaml", "a: ", "{a: ", "}", ""),
]


@pytest.mark.parametrize(("name", "before", "opening", "closing", "after"), NESTED)
def test_time_is_linear_in_depth(name: str, before: str, opening: str, closing: str, after: str) -> None:
    assert_linear(lambda depth: take(name, before + depth * opening + "x" + depth * closing + after), 120)


def test_time_of_another_parser_is_linear_in_depth() -> None:
    assert_linear(lambda depth: blocks_of(depth * "![a" + depth * "](b)"), 400)


def test_time_of_marks_before_an_item_is_linear() -> None:
    assert_linear(lambda size: ITEM.match("> " * size), 2000)
