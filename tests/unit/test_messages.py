"""Messages of programs: ICU in every format, marks of Angular, po4a and Android, plural forms."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from textwrap import indent

import polib
import pytest

from specmt.check.rules import Rules
from specmt.documents import LEFT, translate_documents
from specmt.formats import read_document
from specmt.formats.document import FormatOptions
from specmt.formats.known import said_languages
from specmt.formats.manual import find_marks
from specmt.options import DecodingOptions
from tests.documents import Shouting, read, run, texts_of, translate, with_capitals
from tests.unit.test_check import checked

FILES = "{n, plural, one {a file} other {# files}}"
_UNIT = "<xliff><file><body><trans-unit><source>{}</source>{}</trans-unit></body></file></xliff>"


def shout(name: str, text: str, target: str = "de") -> str:
    """Returns a document in capitals."""
    document = read_document(text.encode(), "a", name, FormatOptions(source="en", target=target, fuzzy=False))
    assert document.write({}, print) == text.encode()
    (done,) = translate_documents(Shouting(), [("a", document)], DecodingOptions())
    return done.data.decode()


@pytest.mark.parametrize(
    ("source", "target", "wanted"),
    [
        (FILES, "de", "{n, plural, one {A FILE} other {# FILES}}"),
        (FILES, "pl", "{n, plural, one {A FILE} few {# FILES} many {# FILES} other {# FILES}}"),
        ("{n, plural, =1 {a file} other {# files}}", "de", "{n, plural, =1 {A FILE} other {# FILES}}"),
        (
            "{n, plural, one {file} few {filey} many {filez} other {files}}",
            "de",
            "{n, plural, one {FILE} other {FILES}}",
        ),
        ("{g, select, f {she} other {they}}", "pl", "{g, select, f {SHE} other {THEY}}"),
        ("see {n, plural, one {a file} other {files}} here", "de", "SEE {n, plural, one {A FILE} other {FILES}} HERE"),
        (
            "{g, select, f {{n, plural, one {own} other {# own}}} other {no}}",
            "de",
            "{g, select, f {{n, plural, one {OWN} other {# OWN}}} other {NO}}",
        ),
        ("{n, selectordinal, one {#st} other {#th}}", "de", "{n, selectordinal, one {#st} other {#th}}"),
        ("{n, plural, other {a '{' b}}", "ja", "{n, plural, other {A '{' B}}"),
        (
            "{n,plural,=1{own}other{# ins}} it's '{own}' '{Isn''t}' '#'",
            "de",
            "{n,plural,=1{OWN}other{# INS}} IT'S '{own}' '{Isn''t}' '#'",
        ),
        ("{n,plural,=1{own}other{# ins}}", "de", "{n,plural,=1{OWN}other{# INS}}"),
        ("{n, plural, other {files}", "de", "{n, plural, other {files}"),
        ("{n, plural, other {files}} }", "de", "{n, plural, other {files}} }"),
    ],
)
def test_branches_are_texts_in_every_format(source: str, target: str, wanted: str) -> None:
    assert shout("json", f'{{"a": "{source}"}}', target) == f'{{"a": "{wanted}"}}'
    if "'" in source:
        return
    assert shout("properties", f"a={source}\n", target) == f"a={wanted}\n"
    strings = '<resources><string name="a">{}</string></resources>'
    assert shout("android", strings.format(source), target) == strings.format(wanted)
    assert f'msgstr "{wanted if wanted != source else ""}"' in shout("po", f'msgid "{source}"\nmsgstr ""\n', target)
    said = f'<target state="translated">{wanted}</target>' if wanted != source else ""
    written = shout("xliff", _UNIT.format(source, ""), target).replace(f' target-language="{target}"', "")
    assert _UNIT.format(source, said) in written


def test_what_plurals_and_selects_are_written_by_is_known_between_tags() -> None:
    source = '{n, plural, =1 {<x id="A"/>} other {<x id="A"/> files}}'
    (done,) = run(Shouting(), ("xliff", _UNIT.format(source, "")), source="en", target="de")
    assert f">{source.replace('files', 'FILES')}</target>" in done.data.decode() and not done.summary.warnings


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        (
            "xliff",
            '<xliff><file source-language="en" target-language="en-US"><body>'
            "<trans-unit id='1'><source>a.b</source><target>c <g>d</g></target></trans-unit>"
            "<trans-unit id='2'><source>e</source><target/></trans-unit></body></file></xliff>",
            '<xliff><file source-language="en" target-language="de"><body>'
            "<trans-unit id='1'><source>a.b</source><target state=\"translated\">C <g>D</g></target></trans-unit>"
            "<trans-unit id='2'><source>e</source><target state=\"translated\">E</target></trans-unit>"
            "</body></file></xliff>",
        ),
        (
            "xliff",
            '<xliff version="2.0" srcLang="en" trgLang="en"><file><unit id="1"><segment state="final"><source>a.b'
            "</source><target>c</target></segment></unit></file></xliff>",
            '<xliff version="2.0" srcLang="en" trgLang="de"><file><unit id="1"><segment state="translated"><source>a.b'
            "</source><target>C</target></segment></unit></file></xliff>",
        ),
        (
            "qt",
            '<TS language="en_US" sourcelanguage="en"><context><message><source>a</source><translation>a</translation>'
            "</message></context></TS>",
            '<TS language="de" sourcelanguage="en"><context><message><source>a</source><translation>A</translation>'
            "</message></context></TS>",
        ),
        (
            "subtitles",
            "WEBVTT\r\nKind: captions\r\nLanguage: en-GB\r\n\r\n00:01.000 --> 00:02.000\r\na\r\n",
            "WEBVTT\r\nKind: captions\r\nLanguage: de\r\n\r\n00:01.000 --> 00:02.000\r\nA\r\n",
        ),
    ],
)
def test_what_is_in_one_language_alone_is_yet_to_be_translated(name: str, text: str, wanted: str) -> None:
    source, target = said_languages(name, text.encode())
    assert source is not None and source[:2] == "en" and target is None
    assert shout(name, text) == wanted


def test_a_file_between_other_languages_in_xliff_is_left() -> None:
    file = '<file source-language="en" target-language="{}"><body><trans-unit><source>a</source></trans-unit></body>'
    file += "</file>"
    others = file.format("fr")
    (done,) = run(Shouting(), ("xliff", f"<xliff>{file.format('de')}{others}</xliff>"), source="en", target="de")
    assert done.data.decode().count("<target") == 1 and others in done.data.decode()
    assert [remark.text for remark in done.summary.warnings] == ["left as it is: it is en to fr"]


@pytest.mark.parametrize(
    ("key", "said"), [("type", "button"), ("id", "absenden"), ("target", "_blank"), ("align", "left")]
)
def test_what_programs_know_by_a_key_is_no_text(key: str, said: str) -> None:
    document = read("json", json.dumps({"a": {key: said, "label": "Haus"}, key: "Haus am See"}).encode())
    assert texts_of(document) == ["Haus", "Haus am See"]


def test_a_message_of_which_a_branch_stays_is_to_be_reviewed() -> None:
    for name, text, said in (
        ("xliff", _UNIT.format(FILES, ""), 'state="needs-translation">{n, plural, one {a file} other {# FILES}}'),
        ("po", f'msgid "{FILES}"\nmsgstr ""\n', f'#, fuzzy\nmsgid "{FILES}"\nmsgstr "{{n'),
    ):
        document = read_document(text.encode(), "a", name, FormatOptions(source="en", target="de", fuzzy=False))
        last = document.segments[1].source
        written = document.write({1: type(last)(last.text.upper().replace("{T1}", "{t1}"), last.tags)}, print)
        assert said in written.decode()


@pytest.mark.parametrize("name", ["markdown", "text"])
def test_a_plural_that_stays_where_no_messages_are_is_told(name: str) -> None:
    data = f"You have {FILES} here"
    (done,) = run(Shouting({data: data.replace("You have", "DU HAST")}), (name, data), source="en", target="de")
    assert [remark.text.partition(":")[0] for remark in done.summary.warnings] == [LEFT]


def test_what_translators_write_of_themselves_and_attributes_in_messages_are_told() -> None:
    head = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    names = 'msgid "translator-credits"\nmsgstr ""\n\nmsgctxt "NAME OF TRANSLATORS"\nmsgid "Your names"\nmsgstr ""\n'
    (done,) = run(Shouting(), ("po", head + names), source="en", target="de")
    assert done.data.decode() == head + names
    assert [remark.text.partition(":")[0] for remark in done.summary.warnings] == ["left as it is"] * 2
    message = """{"a": "<a href='b' title='Mehr'>Haus</a> <a title='{b}'>Haus</a>"}"""
    (done,) = run(Shouting(), ("json", message))
    assert done.data.decode() == with_capitals(message, "Haus", "Mehr")
    assert not done.summary.warnings


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("csv", 'de,en\n"{}",\n'),
        ("qt", '<TS version="2.1"><context><name>A</name><message><source>{}</source></message></context></TS>'),
        ("xcstrings", '{{"sourceLanguage": "de", "strings": {{"{}": {{}}}}, "version": "1.0"}}'),
    ],
)
def test_messages_are_taken_apart_where_their_translations_are_beside_them(name: str, data: str) -> None:
    said = "{n, plural, one {eine Datei} few {nein} other {# Dateien}} neu"
    (done,) = run(Shouting(), (name, data.format(said)), source="de", target="en", columns=("de=en",))
    assert "{n, plural, one {EINE DATEI} other {# DATEIEN}} NEU" in done.data.decode() and not done.summary.warnings
    said = "das Haus <img alt='am See'/> hier"
    page = data.format(said.replace("<", "&lt;") if name == "qt" else said)
    (done,) = run(Shouting({"am See": "Anna's"}), (name, page), target="en", columns=("de=en",))
    written = done.data.decode().replace("&lt;", "<").replace("&gt;", ">").replace("&apos;", "'").replace("&amp;", "&")
    assert "DAS HAUS <img alt='Anna&#39;s'/> HIER" in written


def test_of_a_message_what_cannot_be_translated_is_told() -> None:
    said = "{n, plural, one {eine Datei} other {# <b>Dateien</b>}} neu"
    answers = {"{t1} <b>Dateien</b>": "files", "Dateien": "\ufffd"}
    (done,) = run(Shouting(answers), ("csv", f'de,en\n"{said}",\n'), columns=("de=en",))
    assert "{n, plural, one {EINE DATEI} other {# <b>Dateien</b>}} NEU" in done.data.decode()
    assert [remark.text.partition(":")[0] for remark in done.summary.warnings] == [LEFT]


def test_plurals_of_other_libraries_stay_and_are_told() -> None:
    said = "{0:plural:gibt eine Datei|gibt {0} Dateien}"
    (done,) = run(Shouting(), ("resx", f"<root><data name='a'><value>Es {said} da</value></data></root>"))
    assert f">ES {said} DA<" in done.data.decode()
    assert [each.text for each in done.summary.warnings] == [
        "a sentence is left in its language: it is in a plural or select, which is not taken apart here"
    ]


def test_notes_around_what_is_sung_are_not_seen_by_the_model() -> None:
    page = "1\n00:00:01,000 --> 00:00:02,000\n♪ ich gehe ♪\n♪♪ und du\n"
    assert texts_of(read("subtitles", page.encode())) == ["ich gehe", "und du"]


def test_karaoke_stays_and_is_told() -> None:
    event = "Dialogue: 0,0:00:0{0}.00,0:00:0{0}.50,D,,0,0,0,,{1}\n"
    head = (
        "[Script Info]\n\n[Events]\nFormat: Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text\n"
    )
    data = head + event.format(1, r"{\k20}Sing {\k30}mit") + event.format(2, r"{\k20}Das Haus")
    (done,) = run(Shouting(), ("subtitles", data))
    assert done.data.decode() == data.replace("Das Haus", "DAS HAUS")
    assert [(remark.line, remark.text[:14]) for remark in done.summary.warnings] == [(5, "left as it is:")]


def test_words_with_how_they_are_read_stay_and_are_told() -> None:
    data = "WEBVTT\n\n00:01.000 --> 00:02.000\nDas ist <ruby>東京<rt>Tokio</rt></ruby>, ja.\n"
    (done,) = run(Shouting(), ("subtitles", data))
    assert done.data.decode() == with_capitals(data, "Das ist", "ja")
    assert [(remark.line, remark.text[:14]) for remark in done.summary.warnings] == [(4, "left as it is:")]


def test_ends_and_beginnings_of_angular_are_pairs() -> None:
    source = '<x id="START_LINK"/>one<x id="CLOSE_LINK"/> <x id="START_LINK_1"/>two<x id="CLOSE_LINK"/> three'
    document = read("xliff", _UNIT.format(source, "").encode())
    assert texts_of(document) == ["one two three"]
    assert len(document.segments[0].source.tags) == 2
    assert with_capitals(source, "one", "two", "three") in shout("xliff", _UNIT.format(source, ""))


@pytest.mark.parametrize(
    ("before", "between", "after"),
    [
        (
            '<x id="START_PARAGRAPH"/>',
            '<x id="CLOSE_PARAGRAPH"/><x id="START_PARAGRAPH_1"/>',
            '<x id="CLOSE_PARAGRAPH"/>',
        ),
        ("", '<x id="LINE_BREAK" ctype="lb"/>', ""),
        ('<pc id="0" equivStart="START_LIST_ITEM">', '</pc><pc id="1" equivStart="START_LIST_ITEM">', "</pc>"),
    ],
)
def test_paragraphs_and_breaks_end_texts(before: str, between: str, after: str) -> None:
    unit = _UNIT.format(f"{before}One file{between}is here.{after}", "")
    assert texts_of(read("xliff", unit.encode())) == ["One file", "is here."]
    assert f"{before}ONE FILE{between}IS HERE.{after}</target>" in shout("xliff", unit)
    assert texts_of(read("xliff", _UNIT.format(before + between + after, "").encode())) == [], "no words"


@pytest.mark.parametrize(
    ("source", "said", "written"),
    [
        ("&nbsp;Das Haus&hellip;", "\xa0Das Haus…", "&nbsp;DAS HAUS&hellip;"),
        ("Ein &Ouml;l ist Peter&#39;s", "Ein Öl ist Peter's", "EIN &Ouml;L IST PETER&#39;S"),
        ("<i id='a'>Das</i> &quot;Haus&quot; &amp; so", None, "<i id='a'>DAS</i> &quot;HAUS&quot; &amp; SO"),
        ("Von x &lt; 5 oder y", "Von x < 5 oder y", "VON X &lt; 5 ODER Y"),
        ("Das &lt;b Haus", "Das &lt;b Haus", "DAS &LT;B HAUS"),
        ("Das R&D und ü, ü, &uuml;", "Das R&D und ü, ü, &uuml;", "DAS R&D UND Ü, Ü, &UUML;"),
    ],
)
def test_entities_in_messages_are_read(source: str, said: str | None, written: str) -> None:
    for name, text in (("json", f'{{"a": "{source}"}}'), ("po", f'msgid "{source}"\nmsgstr ""\n')):
        (segment,) = read(name, text.encode()).segments
        assert segment.source.text == (source.replace("&amp;", "&").replace("&quot;", '"') if said is None else said)
        assert f'"{written}"' in shout(name, text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("po", '#| msgid "{old}"\nmsgid "{source}"\nmsgstr "{target}"\n'),
        ("qt", "<TS><message><source>{source}</source><translation>{target}</translation></message></TS>"),
        ("xliff", "<xliff><trans-unit><source>{source}</source><target>{target}</target>{more}</trans-unit></xliff>"),
    ],
)
def test_entities_of_translations_are_read_as_those_of_sources(name: str, text: str) -> None:
    more = "<alt-trans><source>{old}</source><target>{target}</target></alt-trans>"
    said = {"old": "Haus &amp; Tier", "source": "Haus &amp; <b>Hof</b>", "target": "house &amp; <b>yard</b>"}
    if name != "po":
        said = {key: html.escape(each) for key, each in said.items()}
    (segment,) = read(name, text.format(**said, more=more.format(**said)).encode()).segments
    assert (segment.source.text, segment.target) == ("Haus & <b>Hof</b>", "house & <b>yard</b>")
    assert segment.near == ((("Haus & Tier", "house & <b>yard</b>"),) if name != "qt" else ())


def test_properties() -> None:
    text = (
        "a = Datei\nb.label = &Haus\nb.mnemonic = u\nb.accelerator = ctrl H\nc = Das {name}\\u0020\n"
        "d = {0,choice,0#keine|1#eine|1<{0} da}\ne = _Mehr\nf = _id\ng = Das \\ \nh = Das\\\\ \n"
    )
    words = ("Datei", "&Haus", "= u", "Das", "#keine", "#eine", "} da}", "_Mehr")
    assert shout("properties", text) == with_capitals(text, *words)


def test_marks_of_manual_pages_are_tags() -> None:
    text = r"B<See also> the I<file> E<lt>or B<-a, --all>; \fBLarge words\fR, 1 E<lt> 2 > C<a-E<gt>b c> \(lqso\(rq B<1"
    text = text.replace("B<1", "B<E<lt>x.hE<gt>> B<1")
    assert [(item.kind, text[slice(*item.span)]) for item in find_marks(text, (0, len(text)))] == [
        ("open", "B<"),
        ("close", ">"),
        ("opaque", "I<file>"),
        ("opaque", "E<lt>"),
        ("opaque", "B<-a, --all>"),
        ("open", r"\fB"),
        ("close", r"\fR"),
        ("opaque", "E<lt>"),
        ("opaque", "C<a-E<gt>b c>"),
        ("open", r"\(lq"),
        ("close", r"\(rq"),
        ("opaque", "B<E<lt>x.hE<gt>>"),
    ]


def test_spaces_beside_an_empty_text_of_fluent_stay() -> None:
    assert shout("fluent", 'a = { "" }  Haus { "" }\n') == 'a = { "" }  HAUS { "" }\n'


def test_names_of_icons_of_angular_are_no_text() -> None:
    icon = '<x id="START_TAG_MAT_ICON_1"/>home<x id="CLOSE_TAG_MAT_ICON"/>'
    unit = f'<xliff><file><body><trans-unit id="1"><source>{icon} start</source></trans-unit></body></file></xliff>'
    assert f">{icon} START</target>" in shout("xliff", unit)


def test_segments_of_a_unit_that_have_a_translation_keep_it(tmp_path: Path) -> None:
    parts = '<mrk mtype="seg" mid="1">one <g id="1">x</g></mrk> <mrk mtype="seg" mid="2">two</mrk>'
    target = '<target><mrk mtype="seg" mid="1">Eins <g id="1">X</g></mrk> {}</target>'
    unit = f"<trans-unit id='1'><source>one x two</source><seg-source>{parts}</seg-source>{target}</trans-unit>"
    unit = f"<xliff><file source-language='en' target-language='de'><body>{unit}</body></file></xliff>"
    source = unit.format('<mrk mtype="seg" mid="2"/>')
    said = shout("xliff", source)
    assert said.replace(' state="translated"', "") == unit.format('<mrk mtype="seg" mid="2">TWO</mrk>')
    rules = Rules(languages=("en", "de"))
    assert not checked(tmp_path, "xliff", source, said, rules)
    assert "missing" in [each.kind for each in checked(tmp_path, "xliff", source, source, rules)]


def test_letters_before_the_tags_of_elements_are_no_marks_of_manual_pages() -> None:
    text = "<kbd>Ctrl+S</kbd> or <b>Plan B</b > > is in B</etc>"
    assert [text[slice(*item.span)] for item in find_marks(text, (0, len(text)))] == ["B</etc>"]


def test_a_catalogue_with_plurals_says_the_forms_of_its_language() -> None:
    plural = 'msgid "a file"\nmsgid_plural "%d files"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    header = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'
    assert '"Plural-Forms: nplurals=3; plural=(n==1' in shout("po", header + plural, "cs")
    assert "Plural-Forms" not in shout("po", header + 'msgid "a"\nmsgstr ""\n', "cs")
    alone = shout("po", f"# a\n{plural}")  # gettext cannot do with it where there is no header
    assert alone.startswith('msgid ""\nmsgstr ""\n"PO-Revision-Date:')
    assert alone.count("nplurals=2; plural=(n != 1)") == 1
    assert polib.pofile(alone)[0].msgstr_plural == {0: "A FILE", 1: "%d FILES"}
    whole = 'msgid ""\nmsgstr "Project: a\\nLanguage: cs\\nTeam: b\\n"\n\nmsgid "a"\nmsgstr ""\n'
    assert shout("po", whole, "cs").count("Language:") == 1


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        (r"a:\n%s\n\nb", r"A:\n%s\n\nB"),
        ('a "b" c', 'A "B" C'),
        ('"a b"', '"A B"'),
        (r"a \u0020", r"A \u0020"),
        (r"\u00a0a\u00A0", r"\u00a0A\u00A0"),
    ],
)
def test_breaks_quotes_and_spaces_of_android_stay(source: str, wanted: str) -> None:
    strings = '<resources><string name="a">{}</string></resources>'
    assert shout("android", strings.format(source)) == strings.format(wanted)


def test_android_has_the_forms_of_the_target() -> None:
    one, other = '<item quantity="one">a</item>', '\n  <item quantity="other">b</item>'
    few = '\n  <item quantity="few">c</item>'
    plurals = '<resources><plurals name="x">\n  {}</plurals></resources>'
    want = other.upper().replace("ITEM", "item").replace("QUANTITY", "quantity").replace("OTHER", "other")
    both = one.replace(">a<", ">A<") + want.replace("other", "few") + want.replace("other", "many") + want
    assert shout("android", plurals.format(one + other), "pl") == plurals.format(both)
    assert shout("android", plurals.format(one + few + other)) == plurals.format(one.replace(">a<", ">A<") + want)


@pytest.mark.parametrize(
    "code",
    [
        "github-actions", "@nestjs/schematics", "a$1$b=", "x_{{date}}.txt", "image/png", "true", "de-AT",
        "startPageName", "rgb(1, 2, 3)", "10px 1.5em", "dd.MM.yyyy HH:mm",
        r"<?xml version='1.0'?>\n<die-app xmlns='ein/name'\n  a='eins zwei'>\n<b>eins zwei</b>\n</die-app>",
        "EEEE, d. MMMM y", "#a1b2c3", "https://a.b/c", "d41d8cd98f00b204e9800998ecf8427e", "%d.%m.%Y", "user.name",
        "text/html", "ltr", "/api", "btn-primary-2", "btn btn-primary btn-lg", "margin: 0 auto;",
        "wJalrXUtnFEMI/K7MDENG/bPxRfi", "4F9d2c71-Aaaa-Bbbb-0123456789ab", "projects/my-project-123/topics",
    ],
)  # fmt: skip
def test_what_programs_read_is_no_text(code: str) -> None:
    assert shout("json", f'{{"a": "{code}"}}') == f'{{"a": "{code}"}}'


@pytest.mark.parametrize(
    "text",
    [
        "Add", "on/off", "sign-in", "<b>x</b>", "so {user_name}!", "done.", "x a_b", "mm",
        "2-Wege-Synchronisierung", "E2E-Gedächtnisstütze", "24/7-Kundenservice-Hotline",
    ],
)  # fmt: skip
def test_what_people_read_is_text(text: str) -> None:
    assert texts_of(read("json", f'{{"a": "{text}"}}'.encode())) == [text]


def test_a_plural_over_several_lines_of_properties() -> None:
    text = "a={n, plural, \\\n  one {eins} \\\n  other {\\\n zwei}}\n"
    assert shout("properties", text) == with_capitals(text, "eins", "zwei")


def test_what_icu_quotes_is_so_in_every_catalogue() -> None:
    assert "own '{x}' '#'" in shout("po", "msgid \"own '{x}' '#'\"\nmsgstr \"\"\n").lower()
    assert texts_of(read("po", b'msgid "own \'{x}\' it\'s"\nmsgstr ""\n', target="de")) == ["own {t1} it's"]


def test_spaces_of_android_stay_behind_tags_and_as_they_are_written() -> None:
    text = r"<string name='a'><b>eins</b> und <i>zwei</i>\u0020</string><string name='b'>drei\r\nvier</string>"
    text = f"<resources>{text}</resources>"
    (done,) = run(Shouting(), ("android", text))
    assert re.sub("eins|und|zwei|drei|vier", lambda word: word[0].upper(), text) == done.data.decode()
    assert not done.summary.warnings


def test_names_of_laravel_stay_in_json() -> None:
    text = '{"a": "es gibt :anzahl von :Alle, :-) :D um 12:30: :ja"}'
    assert shout("json", text) == with_capitals(text, "es gibt", "von", "um")


def test_a_path_has_no_line_break() -> None:
    data = rb'{"a": "Siehe C:\\new und d:/a\\neu"}'
    assert texts_of(read("json", data)) == [r"Siehe C:\new und d:/a\neu"]


def test_line_breaks_that_are_written_out() -> None:
    data = b'{"a": "Eins da.\\\\nZwei:\\\\nund drei", "b": "hier\\\\nund da"}'
    assert texts_of(read("json", data)) == ["Eins da.\nZwei:\nund drei", r"hier\nund da"]
    lost = Shouting({r"hier\nund da": r"here\Nand there"})
    (done,) = run(lost, ("json", data))
    assert done.data.decode() == with_capitals(data.decode(), "Eins da", "Zwei", "und drei")
    (remark,) = done.summary.warnings
    assert remark.text.endswith("a line break is not in the translation")


def test_notes_to_translators_are_no_text() -> None:
    data = '{"a": {"message": "x", "description": "y", "placeholders": {"n": {"content": "c", "example": "d"}}}}'
    assert shout("json", data) == data.replace('"x"', '"X"')
    data = '{"a": {"defaultMessage": "x", "description": "y"}, "b": {"string": "x", "developer_comment": "y"}}'
    assert shout("json", data) == data.replace('"x"', '"X"')
    assert shout("json", '{"description": "x"}') == '{"description": "X"}'


def test_i18next_has_the_forms_of_the_target() -> None:
    data = '{\n  "a_one": "$t(b) x",\n  "a_other": "y",\n  "b_other": "z"\n}'
    other = '"a_few": "Y",\n  "a_many": "Y",\n  "a_other": "Y"'
    assert shout("json", data, "pl") == with_capitals(data, " x", '"z"').replace('"a_other": "y"', other)
    slavic = '{"a_one": "x", "a_few": "w", "b": {}, "a_many": "v", "a_other": "y", "b": 1}'
    wanted = '{"a_one": "X", "b": {}, "a_other": "Y", "b": 1}'
    assert shout("json", slavic) == wanted


def test_fluent_keeps_keys_paragraphs_and_what_selectors_ask_for() -> None:
    text = "-a = x\n    .gender = y\nm =\n    .label = open\n    .accesskey = p\nn =\n    a b\n\n    c\no-key = q\n"
    assert shout("fluent", text) == with_capitals(text, "= x", "open", "= p", "a b", "    c\n")
    assert ".accesskey = A" in shout("fluent", "m =\n    .label = ab\n    .accesskey = z\n")


def test_a_line_of_fluent_behind_a_sentence_is_a_text_of_its_own() -> None:
    text = b"a = Es gilt:\n    Das Haus ist { $n }\n    Jahre alt.\n    Ja!\n"
    assert texts_of(read("fluent", text)) == ["Es gilt:", "Das Haus ist {t1} Jahre alt.", "Ja!"]


@pytest.mark.parametrize("text", ["a = b\n{ $c } d =\n    e\n", "a = {\n\n $c } b\n", "a = { $c \n} Ein Haus\n"])
def test_lines_of_fluent_stay_its_own(text: str) -> None:
    shout("fluent", shout("fluent", text))


def test_fluent_has_the_forms_of_the_target() -> None:
    text = "a = { $n ->\n    [one] x\n   *[other] { $n } y\n}\n"
    wanted = "    [one] X\n    [few] { $n } Y\n    [many] { $n } Y\n   *[other] { $n } Y\n"
    assert shout("fluent", text, "pl") == f"a = {{ $n ->\n{wanted}}}\n"
    slavic = text.replace("   *", "    [few] z\n   *")
    assert shout("fluent", slavic) == text.replace(" x", " X").replace("} y", "} Y").replace("   *", "    *")
    select = "a = { $g ->\n    [male] x\n   *[other] y\n}\n"
    assert shout("fluent", select, "pl") == select.replace(" x", " X").replace(" y", " Y")


@pytest.mark.parametrize(
    ("name", "page"),
    [("html", "<p>{}</p>"), ("subtitles", "WEBVTT\n\n00:01.000 --> 00:02.000\n{}\n")],
)
def test_marks_of_direction_stay_as_they_are_written(name: str, page: str) -> None:
    assert shout(name, page.format("das&rlm; haus \u200eso und &#x200E;mehr")) == page.format(
        "DAS&rlm; HAUS \u200eSO UND &#x200E;MEHR"
    )


def test_marks_of_direction_stay() -> None:
    text = '{"a": "\\u200ein \u2068{price}\u2069 per\u200f month \\u2066now\\u2069"}'
    assert shout("json", text) == with_capitals(text, "in ", "per", "month", "now")


def test_quoted_braces_are_copied() -> None:
    assert shout("json", """{"a": "use '{'braces'}' here"}""") == """{"a": "USE '{'BRACES'}' HERE"}"""


def test_of_doubled_apostrophes_none_quotes() -> None:
    assert shout("properties", "a=der ''{0}'' im ''{1}''\n") == "a=DER ''{0}'' IM ''{1}''\n"
    page = """{"a": "{n, select, other {''{x} a}} und {m} a'"}"""
    assert shout("json", page) == with_capitals(page, " a", "und")


def test_marks_of_wikis_are_tags() -> None:
    source = (
        "{\"a\": \"Siehe '''fett''' und ''kursiv'' da\", \"b\": \"Ich hab''s und ''nein\", \"c\": \"''a '''b''' c''\"}"
    )
    document = read("json", source.encode())
    assert texts_of(document) == ["Siehe fett und kursiv da", "Ich hab''s und ''nein", "''a b c''"]
    words = ("Siehe", "fett", "und", "kursiv", " da", "Ich", "hab", "''s", "nein", "''a", "'b'", "c''")
    assert translate(document).decode() == with_capitals(source, *words)


def test_links_of_wikis_keep_their_targets() -> None:
    source = '{"a": "siehe [[Haupt seite|die seite]] und [[Haupt seite]] da", "b": "ein ]] und [[x|"}'
    assert shout("json", source) == (
        '{"a": "SIEHE [[Haupt seite|DIE SEITE]] UND [[Haupt seite]] DA", "b": "EIN ]] UND [[X|"}'
    )


@pytest.mark.parametrize("fence", ["```", "~~~~"])
def test_code_between_lines_of_a_message_is_left(fence: str) -> None:
    message = f"Ein Haus:\n\n{fence}sh\nein Hof\n{fence}\n\nEin Tor\n{fence}\nnein\n{fence}\n"
    pages = [
        ("json", json.dumps({"a": message, "b": message.strip()})),
        ("yaml", f"a: |\n{indent(message, '  ')}b: {json.dumps(message)}\n"),
    ]
    for (_, page), done in zip(pages, run(Shouting(), *pages), strict=True):
        assert done.data.decode() == with_capitals(page, "Ein Haus", "Ein Tor")
