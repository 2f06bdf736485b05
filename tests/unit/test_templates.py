# ruff: noqa: E501  (documents are shown as they are)
"""Web pages with tags of template languages, which stay as they are, and what else a page says beside its text."""

from __future__ import annotations

import re
from collections import Counter
from html import escape

import html5lib
import pytest
from roundtrip import WAYS, MadeUp

from specmt.errors import DataError
from specmt.formats.document import Part, TextDocument, unread
from specmt.options import DecodingOptions
from specmt.types import Line
from tests.documents import read, run, translate


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ("{% load x %}\n{% if n > 1 %}Ein{% else %}zwei {{ n|f:'>' }}{% endif %}\n", ["Ein", "zwei {t1}"]),
        ('<p>{% trans "Bitte" %} {% blocktrans %}nein {{ a }}{% endblocktrans %}</p>{# nein #}', []),
        ("<p {% if a > b %}class='x'{% endif %} {% if c %}title=\"Ein {{ x }}\"{% endif %}>Das</p>", ["Ein {t1}", "Das"]),
        ("{% comment %}<b>nein</b>{% endcomment %}{% raw %}<b>Das</b>{{ x }}{% endraw %}", ["Das{t1}"]),
        ("@if (a.b > (c)) {<p>Ein</p>} @else {Zwei} @for (x of y; track x.id) {Drei {{ x }} da}", ["Ein", "Zwei", "Drei {t1} da"]),
        ("<p>{n, plural, =1 {nein} other {nein {{ n }}}} da</p>", ["{t1} da", "nein", "nein {t1}"]),
        ("<p>{n, plural, =1 {{{ n }} ja} other {{{ n }}}}</p>{{{ a }}}", ["{t1} ja"]),
        ("@extends('a')\n@section('b')\n@if(count($a) > 1)\nEin {!! $x->y !!} da\n@endif a@b.de", ["Ein {t1} da", "a@b.de"]),
        ("{{#if a}}You are{{/if}} {{> p}} {{{ x }}} hier {{else}}", ["You are", "{t1} hier"]),
        ("<% if (a > b) { %>Das <%= x %> hier<% } %> und", ["Das {t1} hier", "und"]),
        ("<?php if ($a > 1): ?>Ja <?= $x ?> da<?php endif ?>Nein<?php echo 1 ?>da<?php rest <p>nein", ["Ja {t1} da", "Nein{t1}da"]),
        ("<#if a?size gt 1>Eins ${a.b > c} da<#else>Zwei</#if><#-- nein -->", ["Eins {t1} da", "Zwei"]),
        ("Eins <!-- IF a -->zwei<!-- ELSE -->drei<!-- ENDIF --> <b<!-- vier", ["Eins", "zwei", "drei"]),
        ("<title>Eins<!-- IF a --> zwei<!-- ENDIF --></title><p title='<!-- ELSE -->Drei'>", ["Eins", "zwei", "Drei"]),
        ("<html lang='{{ x }}'>Eins", ["Eins"]),
        ("<{{ tag }} class=a>Eins</{{ tag }}><p a={{ b }} title='Zwei'>", ["Eins", "Zwei"]),
        ("{if $a > 1}Eins {$b} da{else}zwei{/if}", ["Eins {t1} da", "zwei"]),
        ("{#if a > 1}Eins {b} da{:else}zwei{/if}", ["Eins {t1} da", "zwei"]),
        ("@let a = b > 1; Eins @if (a) {zwei}", ["Eins", "zwei"]),
        ("{{ if .x }}Eins {{ .y }} da{{ end }}", ["Eins {t1} da"]),
        ("@if (a) {Eins} <p>{n, plural, =1 {zwei {{ b }}} other {drei}} vier</p>", ["Eins", "{t1} vier", "zwei {t1}", "drei"]),
        ("% if a > 1:\n<%include file='x'/>Eins ${b | h} da\n## nein\n% else:\nzwei\n% endif\n100 % if", ["Eins {t1} da", "zwei", "100 % if"]),
        ("#if($a > 1)\nEins $b.c da $!{d}!\n#else\nzwei\n#end\n## nein\n#* nein *#drei #*", ["Eins {t1} da {t2}!", "zwei", "drei #*"]),
        ("<p>Eins #end ## $b % if", ["Eins #end ## $b % if"]),
        ("[% IF a > 1 %]Eins [% b.c %] da[% ELSE %]zwei[% END %]<p>Wert [%] und [% GET x %] hier [%# nein %]", ["Eins {t1} da", "zwei", "Wert [%] und {t1} hier"]),
        ("<%- if a -%>Eins<%- else -%>zwei<%- end -%>drei <%- x %> da<%= form_for @a do |f| %>Vier<% end %>", ["Eins", "zwei", "drei {t1} da", "Vier"]),
        ("<#if (a > (b + 1))>Eins<#elseif a>zwei</#if><#assign x = '('>", ["Eins", "zwei"]),
        ("{{ partial \"nein\" . }}\nEins {{ x }} da {{ super() }} zwei", ["Eins {t1} da", "zwei"]),
        ("{if $a}Eins{/if}{* nein <b>nein</b> *}<p>zwei", ["Eins", "zwei"]),
        ("<li on:click={() => f(a > 1)} {...b}>Eins {b}</li>{#if a}zwei{/if}", ["Eins {t1}", "zwei"]),
        ("<p>Eins [[${a.b}]] da [(#{c})] zwei", ["Eins {t1} da {t2} zwei"]),
        ("---\nlayout: nein\nurl: 'nein'\n---\n<p>Eins {{ page.x }} da", ["Eins {t1} da"]),
        ("<p>Eins [[ a.b > 1 ? 'c' : d ]] da <label>[[ a.b ]] / [[ c ]]</label>Zwei [[a.b]] [[drei", ["Eins {t1} da", "Zwei {t1} [[drei"]),
    ],
)  # fmt: skip
def test_templates_stay(page: str, texts: list[str]) -> None:
    document = read("html", page.encode())
    assert [segment.source.text for segment in document.segments] == texts
    expected = page
    for text in texts:
        for part in re.split(r"\{t\d\}", text):
            expected = expected.replace(part, part.upper(), 1) if part.strip() else expected
    assert translate(document).decode() == expected


def test_what_is_no_whole_template_is_left() -> None:
    (segment,) = read("html", b"<p>Das ist {% nicht zu Ende</p>").segments
    assert segment.state == "skipped" and "template" in segment.reason


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("<div lang=en><p>a<p lang=de>ein <b>b</b></div>da", "<div lang=en><p>a<p lang=en>EIN <b>B</b></div>DA"),
        ("<div lang=en>a <b lang=de>ein</b> <i lang=fr>b</i></div>", "<div lang=en>a <b lang=en>EIN</b> <i lang=fr>b</i></div>"),
        ("<div lang=en translate=no>a <b lang=de>nein</b></div>da", "<div lang=en translate=no>a <b lang=de>nein</b></div>DA"),
        ("<div lang=fr><p lang=de>ein <i lang=en>b</i><p>c", "<div lang=fr><p lang=en>EIN <i lang=en>b</i><p>c"),
        ("<html lang=de><p lang='de-AT'>Das <i lang=fr>le</i>", "<html lang=en><p lang='en'>DAS <i lang=fr>le</i>"),
        ("<html lang=en><p lang=en>Das", "<html lang=en><p lang=en>DAS"),  # themes say so on German pages
        ("Da<meta property=og:locale content='de_AT'><meta name=language content=de>", "DA<meta property=og:locale content='en_US'><meta name=language content=en>"),
        ("<p>Wo <select><option title='a'>Hier<option>Da</select>", "<p>WO <select><option title='A'>HIER<option>DA</select>"),
        ("<p>Ein <picture><img alt='Bild'></picture> da", "<p>EIN <picture><img alt='BILD'></picture> DA"),
        ("<p>A&ndash;B &hellip; &quot;&#8222; e\xa0f", "<p>A&ndash;B &hellip; &quot;&#8222; E&nbsp;F"),
        ("<p title='&bdquo;a&#39;'>&auml; &amp; ü", "<p title='&bdquo;A&#39;'>Ä &amp; Ü"),
        ("<p aria-description='Ja' aria-valuetext=Ja aria-labelledby=nein><meta property='og:image:alt' content='Ja'>", "<p aria-description='JA' aria-valuetext=\"JA\" aria-labelledby=nein><meta property='og:image:alt' content='JA'>"),
        ("<img alt=Bild title=x1>", '<img alt="BILD" title="X1">'),
        ("<iframe src=a><p>nein</p></iframe>da", "<iframe src=a><p>nein</p></iframe>DA"),
        ("<p>a </ x> b", "<p>A </ x> B"),
        ("<p>a </ x b", "<p>A </ x b"),
    ],
)  # fmt: skip
def test_what_a_page_says_beside_its_text(page: str, expected: str) -> None:
    assert translate(read("html", page.encode(), insists=True)).decode() == expected


def shape(page: bytes) -> Counter[tuple[str, ...]]:
    """Returns what html5lib finds beside texts: elements and those that they are in, attributes and comments."""
    tree = html5lib.parse(page, treebuilder="etree", namespaceHTMLElements=False)
    around = {child: parent for parent in tree.iter() for child in parent}
    found: Counter[tuple[str, ...]] = Counter()
    for node in tree.iter():
        parent = around.get(node)
        while parent is not None and parent.tag in ("b", "i", "span", "a"):
            parent = around.get(parent)
        values = (
            [node.text or ""]
            if callable(node.tag)
            else [f"{k}={v}" for k, v in sorted(node.items()) if k not in ("title", "alt")]
        )
        found[(str(node.tag), "" if parent is None else str(parent.tag), *values)] += 1
    return found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "page",
    [
        "<p title='a&gt;b'>Eins <b class=x>zwei</b> drei <img alt='vier <b>' src=x> und <br> fünf",
        "Eins <!zwei drei", "<p>Eins </ zwei> drei", "Eins </ zwei", "<!-- a -- > b", "<p>Eins <!--> zwei --> drei", "<b<i>eins</b<i> zwei",
        "<a title=eins zwei='a>b' >drei <p>vier</a> fünf", "Eins & zwei &lt;b> &#60;i> < b &ampvier &notit;", "<table>eins<td>zwei",
        "<title>eins <b>zwei</title>drei", "<p>eins<select>zwei<option>drei<b>vier</select>fünf", "eins <![CDATA[zwei]]> drei <?vier fünf> sechs",
        "eins<!--a-->zwei drei",
    ],
)  # fmt: skip
def test_html5lib_finds_the_same(page: str, way: str) -> None:
    (done,) = run(MadeUp(way), ("html", page))  # type: ignore[arg-type]
    assert shape(done.data) == shape(page.encode())


@pytest.mark.parametrize(
    ("text", "expected"), [("1. Definitions", "1. Definitions"), ("a {t1} b {t2}", "a b"), ("{t1} a", "{t1} a")]
)
def test_a_made_up_translator_leaves_a_word(text: str, expected: str) -> None:
    (said,) = MadeUp("dropped").translate([Line(0, text)], DecodingOptions())
    assert said.text == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<p>\n<.link navigate={~p"/x"}>Haus</.link>', "line 2 has a tag of HEEx"),
        ("<p>Ein</p>\n\n<.input field={@a} />", "line 3 has a tag of HEEx"),
        ("\n@model Haus\n<p>Ein @Model.Haus</p>", "line 2 has a tag of Razor"),
        ('@{\n  ViewBag.Title = "Haus";\n}\n<p>Ein</p>', "line 1 has a tag of Razor"),
    ],
)
def test_a_page_whose_tags_would_be_texts_is_refused(page: str, expected: str) -> None:
    with pytest.raises(DataError, match=expected):
        read("html", page.encode())
    assert read("html", f"<p>Ein <code>{escape(page)}</code>".encode()).segments


def test_every_character_is_a_text_or_is_left_for_a_reason() -> None:
    page = (
        "<!DOCTYPE html><html lang=de><head><title>Eins</title><style>nein</style></head><body><p title='Zwei'>Drei &nbsp;<b>vier</b>"
        "{% if nein %}fünf {{ nein }} da{% endif %}<i lang=fr>nein</i> <code>nein</code><!-- nein --><select><option>Sechs</select>"
        "<svg><text>nein</text></svg></p><div translate=no>nein</div>{% trans 'nein' %}<pre>nein</pre>sieben {% acht<script>nein"
    )
    document = read("html", page.encode())
    assert isinstance(document, TextDocument)
    texts = [Part(edit.start, edit.end, "") for each in document.segments for edit in each.edits(each.source, print)]
    markup = [Part(*match.span(), "markup") for match in re.finditer("&[a-z]+;|<[^<>]*>", page)]
    assert unread(page, [*document.parts, *texts, *markup]) == []
    assert all(part.reason for part in document.parts)
    left = {part.reason: page[part.start : part.end] for part in document.parts}
    assert left["template"] == "{% trans 'nein' %}" and left["in what is not closed"] == "<script>nein"
    assert "".join(page[part.start : part.end] for part in texts).count("nein") == 1  # of the template in a sentence
