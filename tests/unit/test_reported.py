# ruff: noqa: E501  (documents are shown as they are)
"""What people reported of documents: each is translated where « and » stand, and is as it was everywhere else, but for its language."""

from __future__ import annotations

import re
from typing import Final, cast

import pytest

from specmt.documents import translate_documents
from specmt.formats import read_document
from specmt.formats.document import FormatOptions
from specmt.options import DecodingOptions
from specmt.translator import Translator
from tests.documents import Shouting

CASES: Final = {
    "md-mkdocs-admonitions": (
        "markdown",
        """!!! info "«Hinweis»"
    «Das Programm wird im Hintergrund gestartet».

??? warning "«Achtung»"

    «Bitte sichern Sie Ihre Daten vorher».

=== "«Unter Linux»"

    «Starten Sie den Dienst neu».
""",
    ),
    "md-directives": (
        "markdown",
        """:::note
«Das ist ein Hinweis für Anfänger».
:::

:::tip[«Schon gewusst»?]

«Es gibt auch Themen».

:::

::: warning «Achtung»
«Bitte nicht löschen».
:::
""",
    ),
    "md-github-alerts": (
        "markdown",
        """> [!NOTE]
> «Nützliche Information für die Benutzer dieses Programms».
""",
    ),
    "md-attribute-lists": (
        "markdown",
        """[«Herunterladen»](https://example.org/get){: .cta-button}

«Siehe [Verweis»](a.md){ .md-button target=_blank }.

## «Überschrift der Seite» {#anker data-toc="Kurz"}
""",
    ),
    "md-task-boxes": (
        "markdown",
        """- [ ] «Offene Aufgabe erledigen»
- [x] «Noch eine Aufgabe ist zu prüfen»
""",
    ),
    "md-math-wiki-icons": (
        "markdown",
        r"""«Die Formel» $$E = mc^2$$ «gilt immer».

$$
\text{Summe} = \sum_{i=1}^{n} x_i
$$

«Siehe» \(a+b\) «und» [[Andere Seite|«zur anderen Seite]] sowie» ![[bild.png]].

:material-check: «Das ist erledigt».
""",
    ),
    "sub-and-superscripts": (
        "html",
        """<p>«Wasser ist» H<sub>2</sub>O.</p>
<p>«Die Fläche beträgt» 25 m<sup>2</sup> «im Haus».</p>
<p>«Das steht im Bericht»<sup>1</sup> «der Firma».</p>
""",
    ),
    "json-i18next": (
        "json",
        """{
  "a": "«Siehe» $t(hilfe.titel) «bitte».",
  "b": "«Bitte <0>hier klicken»</0>.",
  "c": "«Bitte <1>hier</1> oder <2/> klicken»."
}
""",
    ),
    "android-line-breaks": (
        "android",
        r"""<resources>
    <string name="a">«Details»:\n%s</string>
    <string name="b">«Der Ton fehlt».\n\n«Tippen Sie, um die Einstellungen zu öffnen».</string>
</resources>
""",
    ),
    "html-templates": (
        "html",
        """<div>
{% load i18n %}
{% block inhalt %}
    {% if anzahl > 1 %}«Mehrere Einträge gefunden»{% endif %}
    {{ text }}
{% endblock inhalt %}
<p>{% trans "Bitte warten. Die Seite lädt." %}</p>
<p>{% if autor %}<span>{{ autor }}</span> «schrieb»{% endif %}</p>
</div>
""",
    ),
    "json-values-that-are-no-text": (
        "json",
        '{"reporter": "github-actions", "collection": "@nestjs/schematics", "hash": "pbkdf2_sha256$1000000$abcDEF$xyz+9=", "file": "static-filter_{{date}}.txt", "format": "dd.MM.yyyy HH:mm", "msg": {"message": "«Blocked requests»", "description": "Shown to translators only"}}\n',
    ),
    "md-macros-with-entities": (
        "markdown",
        """«Der Typ» {{cssxref("&lt;number&gt;")}} «ist eine Zahl».

«Siehe» {{Glossary("CORS", "CORS")}} «und [die Seite»](/a_b "T") «für mehr».
""",
    ),
    "fluent": (
        "fluent",
        """-brand = «Fuchs»
    .gender = masculine
menu =
    .label = «Datei öffnen»
hilfe =
    «Erste Zeile des Textes».

    «Neuer Absatz im Text».
""",
    ),
    "android-quotes-and-spaces": (
        "android",
        r"""<resources>
    <string name="b">«Das ist Peters \'Haus\' und "Garten»"</string>
    <string name="c">«Suche läuft nach» \u0020</string>
</resources>
""",
    ),
    "html-options-and-lang": (
        "html",
        '<html lang="de"><head><meta property="og:locale" content="de_DE"></head><body><p>«Anrede» <select><option value="1">«Bitte wählen»</option></select></p><p lang="en">This sentence is English already.</p></body></html>\n',
    ),
    "md-br-in-table": (
        "markdown",
        """| «Name | Bedeutung» |
|-|-|
| «a» | <a href="x">«Alle Dateien werden gelesen»</a><br><a href="y">«Keine Datei wird geschrieben»</a> |
""",
    ),
    "md-alerts-containers": (
        "markdown",
        """> [!WARNING]
> «Löschen Sie diese Datei nicht».

:::note

«Das ist ein Hinweis».

:::

::: warning
«Das ist gefährlich».
:::

:warning: «Achtung, heiß»!

«Begriff eins»
: «Erklärung eins».

«Absatz mit Klasse».
{: .info}
""",
    ),
    "md-task-wikilink-math": (
        "markdown",
        r"""- [x] «Aufgabe erledigt»
- [ ] «Kaufe Brot».

«Siehe» [[Hauptseite]] «und» [[Hauptseite|«die Hauptseite»]].

[[_TOC_]]

[«Verweis»]({{ site.baseurl }}/seite) «hier».

$$
\sum_{i=1}^n i
$$

## «Noch eine Überschrift» {#id .class}
""",
    ),
    "android-newlines": (
        "android",
        r"""<?xml version="1.0" encoding="utf-8"?>
<resources>
    <string name="a">«Erste Zeile».\n«Zweite Zeile».</string>
    <string name="b">«Absatz eins».\n\n«Absatz zwei».</string>
    <string name="c">• «Punkt eins»\n• «Punkt zwei»</string>
    <string name="d">«Name»:\t%s\n«Alter»:\t%d</string>
</resources>
""",
    ),
    "fluent-terms-newlines": (
        "fluent",
        """-app = «Feuerfuchs»
    .gender = maskulin
b = { -app.gender ->
    [maskulin] «Der» { -app } «ist da».
   *[other] «Die» { -app } «ist da».
 }
a =
    «Erste Zeile»
    «Zweite Zeile»

    «Neuer Absatz»
""",
    ),
    "srt-blank-line": (
        "subtitles",
        """1
00:00:01,000 --> 00:00:04,000
«Erste Zeile»

«Dritte Zeile nach einer Leerzeile»

2
00:00:05,000 --> 00:00:06,000
«Hallo».
""",
    ),
    "md-terms-and-blocks": (
        "markdown:mkdocs",
        """«Begriff»
«Noch ein Begriff»
:   «Die Erklärung»
    «in zwei Zeilen.»

![«Bild»](a.png)
/// caption
«Unter dem» *«Bild»*
///

/// note | «Titel»
«Der Text.»
///
""",
    ),
    "md-myst": (
        "markdown:myst",
        r"""% ein Kommentar

«Das» {doc}`«Haus am Meer» <haus>` «und» {ref}`ziel` «hier.»

```{figure} a.png
:alt: «Das Bild»
:name: bild
«Die Unterschrift»
```

\begin{align}
nein
\end{align}
""",
    ),
    "md-pandoc": (
        "markdown:pandoc",
        r"""1. «Eins»
    a. «Zwei»
    #. «Drei»

(@) «Das Beispiel»

| «Der Vers»
| «im Lied»

Table: «Die Unterschrift» {#tbl-a}

\newpage

«z. B. ein Haus»
""",
    ),
    "md-jekyll": (
        "markdown:jekyll",
        """{% comment %}
nein
{% endcomment %}

![«Bild»]({{ site.url }}/a.png){:width="3px"}
""",
    ),
    "android-cdata": (
        "android",
        r"""<resources>
<string name="a"><![CDATA[«Das» <a href="http://a.de">«Haus»</a>«, geht\'s & gut?»<br/>«Zeile» <b>«zwei»</b>]]></string>
<string name="b">
    <![CDATA[<p>«Ein Satz»</p><p>«Noch» %1$s «Haus»</p>]]>
</string>
</resources>
""",
    ),
    "json-classes-and-icons": (
        "json",
        """{
  "class": "btn btn-primary", "iconName": "home", "headerClass": "card", "class_of_1999": "«klasse»", "icon": "«Bild»",
  "a": "<mat-icon>home</mat-icon> «Zur Startseite»", "b": "«Nach» <i class=\\"material-icons\\">home</i> «gehen»"
}
""",
    ),
    "json-forms-in-one-message": (
        "json",
        """{
  "a": "(0)[«keine Datei»];(1)[«eine Datei»];(2-7)[«einige Dateien»];(7-inf)[«viele»];",
  "b": "«kein Haus» | «ein Haus» | «viele» {n}", "c": "{0} «von» {1} «Dateien»",
  "d": "{0} «keines»|{1} «eines»|[2,*] «viele»", "e_one": "«Haus | Hof»", "e_other": "«Häuser | Höfe»"
}
""",
    ),
    "json-breaks-written-out": (
        "json",
        r"""{"a": "«Wirklich?»\\n\\n«Das bleibt so».", "b": "«Zeile»\\n«Noch eine»\\n- «Punkt»"}
""",
    ),
    "stringsdict-breaks-written-out": (
        "stringsdict",
        r"<plist><dict><key>a</key><string>«Wirklich?»\n\n«Das bleibt so».</string></dict></plist>",
    ),
    "html-icons": (
        "html",
        """<p>«Nach» <i class="material-icons">home</i> «gehen»</p><p><mat-icon inline>add</mat-icon> «Neu»</p>
<p title="{n, plural, one {«ein Bild»} other {# «Bilder»}}">«Es gibt» {n, plural, =1 {«ein» <b>«Bild»</b>} other {{{ n }} «Bilder»}} «hier»</p>
""",
    ),
    "md-labels": (
        "markdown",
        """> **«Hinweis»**
> «Das ist ein Hinweis für die Leute, die»
> «das Programm benutzen».

⚠️ **«Achtung»:**
«Nicht löschen».

> **«Wörter im Text»**
> «sind kein Titel».
""",
    ),
    "md-icons": (
        "markdown",
        "«Nach» <span class='material-symbols-outlined'>home</span> «gehen», <mat-icon>add</mat-icon>\n",
    ),
    "resx-icu": (
        "resx",
        '<root><data name="a"><value>«Es gibt» {n, plural, one {«ein Bild»} other {# «Bilder»}}</value></data></root>',
    ),
    "php-icu": ("php", "<?php return ['a' => '{n, plural, one {«ein Bild»} other {# «Bilder»}}', 'class' => 'card'];"),
    "strings-values": (
        "strings",
        """a = "{n, plural, one {«ein Bild»} other {# «Bilder»}}";
b = "yyyy-MM-dd HH:mm";
c = "EEEE, d MMMM yyyy";
""",
    ),
    "srt-who-speaks": (
        "subtitles",
        """1
00:00:01,000 --> 00:00:04,000
(«seufzt»)
«Ich bin müde»

2
00:00:05,000 --> 00:00:06,000
ANNA: «Guten Morgen»
«BODO: Guten Tag»

3
00:00:06,100 --> 00:00:07,000
♪ «wir sind jung» ♪
♪ «und so frei» ♪

4
00:00:07,100 --> 00:00:09,000
>> «Guten Abend»
>> «und danke»
""",
    ),
    "vtt-tags-take-no-room": (
        "subtitles",
        """WEBVTT

00:01.000 --> 00:04.000
<v Roger Bingham>«Wir sind heute in der Stadt New York»</v>

00:04.100 --> 00:05.000
{"json": "metadata"}
""",
    ),
    "yaml-breaks-written-out": (
        "yaml",
        r"""a: '«Wirklich?»\n\n«Das bleibt so».'
class: btn card
""",
    ),
    "properties-values": ("properties", "a=EEEE, d. MMMM yyyy\nb.class=btn card\nc=«Klasse»\n"),
    "fluent-braces": ("fluent", """a = «Die Datei» {"{"}name{"}"} «fehlt»\n"""),
    "fluent-lists": (
        "fluent",
        """a =
    «Eins»

    - «noch ein Punkt»
    - «ein anderer langer Punkt»
b = «Es gibt» { $n ->
        [one] «ein Haus»
       *[other] { $n } «Häuser»
    } «in der Stadt»
""",
    ),
    "android-values": (
        "android",
        """<resources>
<string name="a">EEE, d. MMM yyyy</string><string name="b">«Montag», %1$s</string><item type="string" name="c">user.name</item>
</resources>
""",
    ),
    "stringsdict-values": (
        "stringsdict",
        "<plist><dict><key>a</key><string>yyyy-MM-dd</string><key>b</key><string>«Montag»</string></dict></plist>",
    ),
    "json-vue": ("json", '{"a": "«Siehe» @:hilfe.titel «und» @.lower:(ok.b) «hier.»"}'),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_text_is_translated_and_nothing_else(name: str) -> None:
    file_format, marked = CASES[name]
    file_format, _, dialect = file_format.partition(":")
    document = read_document(
        re.sub("[«»]", "", marked).encode(), name, file_format, FormatOptions(source="de", target="en", dialect=dialect)
    )
    (done,) = translate_documents(cast(Translator, Shouting()), [(name, document)], DecodingOptions())
    assert done.data.decode() == re.sub("«(.*?)»", lambda match: match[1].upper(), marked).replace(
        '"de"', '"en"'
    ).replace("de_DE", "en_US")
    assert not done.summary.warnings
