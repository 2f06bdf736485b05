# ruff: noqa: E501  (documents are shown as they are)
"""Every word of a document is in a segment, or in a part that is left for a reason that has a name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Final

import pytest

from specmt.formats.document import KEPT, Document, TextDocument
from specmt.formats.package import Package
from tests.documents import O, W, package, read, translate, unpack, with_capitals

NAMES: Final = {
    "android": r"(?P<markup><[^<>]*>)",
    "csv": r"(?P<header>\A.*)",
    "fluent": r"(?P<remark>^#.*)|(?P<copied>\{[^{}\n]*(?:->|\}))|(?P<name>^ *\.?-?[\w-]+ =|\[\w+\])|(?P<markup><[^<>]*>)",
    "json": r"(?P<name>\"[^\"\n]*\"(?=:))|(?P<copied>\$t\(\w+\)|\[\[\w+\|)|(?P<markup><[^<>]*>)|(?P<code>\{\w+, \w+)|(?P<form>\w+(?= \{))|(?P<language>\"@@\w+\": *\"\w+\")",
    "php": r"(?P<remark>//.*|#.*|/\*(?s:.*?)\*/)|(?P<name>'\w+'\]? =>?)|(?P<markup><[^<>]*>|<\?php)|(?P<code>\$\w+(?:->\w+)?|return|defined|env|namespace \w+)",
    "po": r"(?P<remark>^#.*)|(?P<context>^msgctxt.*)|(?P<translation>^msgstr.*)|(?P<name>^msg\w+)|(?P<header>^\"[\w-]+: .*)|(?P<markup>B<|</?\w+>)|(?P<code>\{\w+, \w+|\w+(?= \{))",
    "properties": r"(?P<remark>^[#!].*)|(?P<name>^[\w.]+|^\S.*!)|(?P<code>\{\d, \w+|\{\w+, \w+|\w+(?= \{))|(?P<markup><[^<>]*>)",
    "strings": r"(?P<remark>/\*(?s:.*?)\*/|//.*)|(?P<name>\"?[\w.]+\"? ?=|\"[^\"]*\";$)",
    "subtitles": r"(?P<markup>\{[^{}]*\}|<[^<>]*>)",
    "yaml": r"(?P<remark>#.*)|(?P<name>[\w-]+:(?= |$)|[&*]\w+)|(?P<markup><[^<>]*>)",
    "xcstrings": r"(?P<note>\"comment\" ?: ?\"[^\"]*\")|(?P<form>\"few\": ?\{.*?\}\})|(?P<state>\"(?:state|extractionState|sourceLanguage|formatSpecifier)\" ?: ?\"\w+\")|(?P<other_language>\"fr\".*?\}\})|(?P<name>\"[^\"]*\" ?:)",
}
"""What is left beside values: names, remarks and markup."""

DOCUMENTS: Final[dict[str, list[str | dict[str, str]]]] = {
    "po": [
        r"""# § § comment
#. § note
#: §.c:3
#, c-format
#| msgid "§ §"
msgctxt "§"
msgid "§ § one\n"
"§ §"
msgstr ""

#~ msgid "§ §"
#~ msgstr "§ §"

# § §
#, fuzzy
msgid "§ {n, plural, one {§ §} other {§ §}} § §"
msgstr "§ §"

#, no-wrap
msgid ""
"§ B<§ §> <b>§ §</b> %s\n"
msgid_plural "§ § %d"
msgstr[0] ""
msgstr[1] ""

# § at the end
msgid "§ {n, plural, one {§ § other"
msgstr ""

""",
    ],
    "xliff": [
        r"""<?xml version="1.0"?><!-- § § --><xliff version="1.2" xmlns:x="u"><file original="§" source-language="de" target-language="en"><header><note>§ §</note><tool tool-name="§"/><x:custom>§ §</x:custom></header><body>
<group id="1" resname="§"><note>§ §</note><trans-unit id="1"><source>§ § <g id="1">§ §</g> <ph id="2" equiv-text="§">&lt;§ §&gt;</ph> § <sub>§</sub> <mrk mtype="x" comment="§">§ §</mrk></source><alt-trans><source>§ §</source><target>§ §</target></alt-trans><context-group><context>§ §</context></context-group><note>§ §</note><x:own>§ §</x:own></trans-unit></group>
<trans-unit id="2"><source><![CDATA[§ § <b>§ §</b>]]></source></trans-unit>
<trans-unit id="3"><source>§ {n, plural, =0 {§ §} one {§ §} other {§ §}} §</source></trans-unit>
<trans-unit id="4"><source/><target>§</target></trans-unit>
<trans-unit id="5" approved="yes"><source>§ §</source><target>§ §</target></trans-unit>
<trans-unit id="6"><seg-source><mrk mtype="seg" mid="0">§ §</mrk> § § <mrk mtype="seg" mid="1">§ §</mrk></seg-source><source>§ §. § §. § §</source></trans-unit>
<trans-unit id="7"><source>§ {n, plural, one {§ § other</source></trans-unit>
<bin-unit id="b"><bin-source>§</bin-source><trans-unit id="8"><source>§ §</source></trans-unit></bin-unit>
</body></file></xliff>""",
        r"""<xliff version="2.0" srcLang="de" trgLang="en" xmlns:mda="m"><file id="f"><notes><note>§ §</note></notes><mda:metadata><mda:meta type="§">§ §</mda:meta></mda:metadata><unit id="u" name="§"><notes><note>§</note></notes><originalData><data id="d1">§</data></originalData><segment><source>§ § <ph id="1" disp="§"/> <pc id="2">§ §</pc> <sc id="3"/>§ §<ec startRef="3"/> <mrk id="m" translate="no">§</mrk> <cp hex="0001"/></source></segment><ignorable><source>§ §</source></ignorable><segment><source>§ §</source><target>§</target></segment></unit><unit id="v" translate="no"><segment><source>§ §</source></segment></unit></file></xliff>""",
    ],
    "json": [
        r"""{"§": "§ §", "a": {"§ §": ["§ §", ["§ §", {"x": "§ §"}]]}, "url": "http://§.de", "id": "a_§", "@k": {"description": "§ §"}, "h": "§", "n": null, "html": "<p title='§'>§ § <b>§ §</b></p>", "i": "§ {n, plural, one {§ §} other {§ § {g, select, male {§ §} other {§ §}}}} §", "bad": "§ {n, plural, one {§ §", "k_one": "§ §", "k_other": "§ §", "k_few": "§ §", "w": "[[§|§ §]] §", "t": "$t(§) §", "msg": {"message": "§ §", "description": "§ §", "placeholders": {"a": {"content": "§", "example": "§ §"}}}, "e": "§\u00fc §\n§", "css": "#§", "f": "§.png"}""",
        r"""{"@@locale": "de", "@@x-note": "§ §", "a": "§ §", "@a": {"description": "§ §", "placeholders": {"n": {"example": "§"}}}}""",
    ],
    "android": [
        r"""<?xml version="1.0"?><!-- § --><resources xmlns:tools="t" xmlns:xliff="x"><!-- § § --><string name="§">§ § <b>§ §</b> <xliff:g id="§" example="§">%s</xliff:g> <font color="§">§</font></string>
<string name="b"><![CDATA[§ § <b>§ §</b>]]></string><string name="c" translatable="false">§ §</string>
<string-array name="d"><item>§ §</item><item>@string/§</item><!-- § --></string-array><array name="e"><item>§ §</item></array><integer-array name="f"><item>3</item></integer-array>
<plurals name="g"><item quantity="one">§ §</item><item quantity="few">§ §</item><item quantity="other">§ §</item></plurals>
<item name="h" type="string">§ §</item><color name="i">§</color><dimen name="j">12dp</dimen><bool name="k">true</bool><string name="l" product="tablet">§ §</string><string name="l" product="default">§ §</string><skip/><eat-comment/><string name="m" tools:ignore="§">§ \'§\' \n§ § "§  §"</string><string name="n">§ {n, plural, one {§ §} other {§ §}} §</string><declare-styleable name="o"><attr name="p"/></declare-styleable><style name="q"><item name="r">§</item></style> § § </resources>""",
    ],
    "fluent": [
        r"""### § §
## § §
# § §
a = § § { $n } { -term } { "§" } { NUMBER($x, style: "§") }
    .title = § §
    .accesskey = §
-term = § §
    .gender = §
b = { $n ->
        [one] § §
        [few] § §
       *[other] § § { $m ->
            [a] § §
           *[b] § §
        } §
    } § §
c =
    .label = § §
d = { "" }§ §
e =
    § §
    § §

    § §
f = <a data-l10n-name="§">§ §</a> §
""",
    ],
    "properties": [
        r"""# § §
! § §
§.a = § § \
   § §
b : §
c §
d=
e = http://§.de
f = § {0} <b>§ §</b>
g = {0, choice, 0#§ §|1#§ §|1<§ §}
h = § {n, plural, one {§ §} other {§ §}}
""",
    ],
    "tmx": [
        r"""<?xml version="1.0"?><tmx version="1.4"><header srclang="de"><note>§ §</note><prop type="x">§</prop></header><body><!-- § --><tu><note>§ §</note><prop type="x">§</prop><tuv xml:lang="de"><note>§</note><seg>§ <bpt i="1">&lt;§></bpt>§ §<ept i="1">&lt;/§></ept> <ph>§ <sub>§ §</sub></ph> <hi>§ §</hi> <it pos="begin">§</it> <ut>§</ut></seg></tuv><tuv xml:lang="fr"><seg>§ §</seg></tuv></tu><tu><tuv xml:lang="de-AT"><seg>§ §</seg></tuv><tuv xml:lang="de-CH"><seg>§ §</seg></tuv></tu><tu><tuv xml:lang="es"><seg>§</seg></tuv></tu><tu><tuv xml:lang="de"><seg>§ §</seg></tuv><tuv xml:lang="en"><seg>§ §</seg></tuv></tu></body></tmx>""",
    ],
    "qt": [
        r"""<?xml version="1.0"?><!DOCTYPE TS><TS version="2.1" sourcelanguage="de" language="en"><dependencies><dependency catalog="§"/></dependencies><context><name>§</name><comment>§ §</comment><message id="§"><location filename="§" line="1"/><source>§ § &lt;b&gt;§ §&lt;/b&gt; %1</source><oldsource>§ §</oldsource><comment>§</comment><oldcomment>§</oldcomment><extracomment>§</extracomment><translatorcomment>§</translatorcomment><extra-x>§</extra-x><userdata>§</userdata><translation type="unfinished">§ §</translation></message><message><source>§ §</source><translation variants="yes"><lengthvariant>§ §</lengthvariant></translation></message><message numerus="yes"><source>%n § §</source><translation type="unfinished"><numerusform>§</numerusform></translation></message><message><source>§ §</source><translation type="obsolete">§</translation></message></context></TS>""",
    ],
    "php": [
        r"""<?php
// § §
/* § § */
# § §
namespace App;
$x = "§ §";
define('§', '§ §');
return [
 '§' => '§ §', // §
 'b' => "§ $x § {$y} §\n§",
 'c' => ['§ §', '§ §'],
 'd' => '§ §' . '§ §',
 'e' => <<<EOT
§ §
EOT
 ,
 'f' => trans('§ §'),
 'g' => $a ? '§ §' : '§ §',
 'h' => '§ §|§ §',
 'i' => <<<'EOT'
§ §
EOT
 ,
 'j' => sprintf('§ §', 3),
 'k' => "<b>§ §</b> §",
 'l' => array('§' => '§ §'),
 ...['m' => '§ §'],
];
?>
<p>§ §</p>
""",
        r"""<?php
$string['§'] = '§ §';
$string['b'] = '§ {$a->x} §';
$other['c'] = '§ §';
$lang = array_merge($lang, array('d' => '§ §'));
$lang['x']['y'] = "§ §";
$lang += ['z' => '§ §'];
if (true) { $lang['w'] = '§ §'; }
$_['q'] = '§' . PHP_EOL;
""",
    ],
    "resx": [
        r"""<?xml version="1.0"?><root><!-- § § --><xsd:schema id="root" xmlns:xsd="x"><xsd:element name="§"/></xsd:schema><resheader name="x"><value>§</value></resheader><assembly alias="§" name="§"/><metadata name="m"><value>§ §</value></metadata><data name="§" xml:space="preserve"><value>§ § &lt;b&gt;§ §&lt;/b&gt; {0}</value><comment>§ §</comment></data><data name="b" type="System.String"><value>§ §</value></data><data name="c" type="System.Resources.ResXFileRef"><value>§;§</value></data><data name="d" mimetype="x"><value>§</value></data><data name="&gt;&gt;e"><value>§ §</value></data><data name="f"><value><![CDATA[§ § <b>§</b>]]></value></data><data name="g.Text"><value>§</value></data><data name="h"><value>§ {n, plural, one {§ §} other {§ §}}</value></data></root>""",
    ],
    "strings": [
        r"""/* § § */
// § §
"§" = "§ § %@";
"b"="§\n§ §";
§ = "§ §";
"c" = §;
"d" = '§ §';
"e";
"§ §";
""",
    ],
    "stringsdict": [
        r"""<?xml version="1.0"?><plist version="1.0"><dict><!-- § --><key>§</key><dict><key>NSStringLocalizedFormatKey</key><string>§ § %#@n@</string><key>n</key><dict><key>NSStringFormatSpecTypeKey</key><string>NSStringPluralRuleType</string><key>NSStringFormatValueTypeKey</key><string>d</string><key>zero</key><string>§ §</string><key>one</key><string>§ §</string><key>few</key><string>§ §</string><key>other</key><string>§ §</string></dict></dict><key>b</key><array><string>§ §</string></array><key>c</key><string>§ §</string><key>d</key><data>§</data><key>v</key><dict><key>NSStringVariableWidthRuleType</key><dict><key>20</key><string>§ §</string><key>50</key><string>§ §</string></dict></dict></dict></plist>""",
    ],
    "xcstrings": [
        r"""{"sourceLanguage": "de", "strings": {"§ §": {}, "k": {"comment": "§ §", "extractionState": "manual", "localizations": {"de": {"stringUnit": {"state": "translated", "value": "§ §"}}, "fr": {"stringUnit": {"state": "translated", "value": "§"}}}}, "§ § x": {"shouldTranslate": false}, "§ § y": {"extractionState": "stale"}, "v": {"localizations": {"de": {"variations": {"plural": {"one": {"stringUnit": {"state": "new", "value": "§ §"}}, "few": {"stringUnit": {"state": "new", "value": "§ §"}}, "other": {"stringUnit": {"state": "new", "value": "§ §"}}}}}}}, "d": {"localizations": {"de": {"variations": {"device": {"mac": {"stringUnit": {"state": "new", "value": "§ §"}}, "other": {"stringUnit": {"state": "new", "value": "§ §"}}}}}}}, "s": {"localizations": {"de": {"stringUnit": {"state": "new", "value": "§ %#@x@"}, "substitutions": {"x": {"argNum": 1, "formatSpecifier": "lld", "variations": {"plural": {"one": {"stringUnit": {"state": "new", "value": "§ §"}}, "other": {"stringUnit": {"state": "new", "value": "§ §"}}}}}}}}}, "sset": {"localizations": {"de": {"stringSet": {"state": "translated", "values": ["§ §", "§ §"]}}}}}, "version": "1.0"}""",
    ],
    "yaml": [
        r"""# § §
de:
  §: § §
  a: "§ §" # §
  b:
    - § §
    - x: § §
  c: |
    § §

    § §
  d: >
    § §
    § §
  e: &x § §
  f: *x
  g:
    one: § §
    few: § §
    other: § §
  h: §.b
  i: http://§.de
  j: "<b>§ §</b> % § %{n}"
  k: § {n, plural, one {§ §} other {§ §}}
  l: !!binary abcd
  m: !custom § §
  n: 12
  date: {formats: {short: "%d. %b §"}, order: [':§'], month_names: [~, § §]}
  o_html: "<p>§ §</p>"
""",
        r"""- id: §
  translation: § §
- id: b
  translation:
    one: § §
    other: § §
- id: c
  description: § §
  translation: § §
""",
    ],
    "csv": [
        r"""id,de,en,note
§,§ §,,§ §
§,"§ ""§"" §
§",§ §,§
""",
    ],
    "docx": [
        {
            "word/document.xml": f"""<w:document {W} xmlns:wp="wp" xmlns:a="a" xmlns:wps="wps" xmlns:mc="mc" xmlns:v="v" xmlns:m="m"><w:body>
<w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>§ §</w:t></w:r></w:p>
<w:p><w:r><w:t>§ § </w:t></w:r><w:del><w:r><w:delText>§ §</w:delText></w:r></w:del><w:ins><w:r><w:t>§ §</w:t></w:r></w:ins><w:moveFrom><w:r><w:t>§ §</w:t></w:r></w:moveFrom></w:p>
<w:p><w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>§</w:instrText></w:r><w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>§ §</w:t></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r><w:r><w:t> § §</w:t></w:r></w:p>
<w:p><w:fldSimple w:instr="§"><w:r><w:t>§ §</w:t></w:r></w:fldSimple></w:p>
<w:p><w:r><mc:AlternateContent><mc:Choice><w:drawing><wp:docPr id="1" name="§" descr="§ §" title="§ §"/><wps:txbx><w:txbxContent><w:p><w:r><w:t>§ §</w:t></w:r></w:p></w:txbxContent></wps:txbx></w:drawing></mc:Choice><mc:Fallback><w:pict><v:textbox><w:txbxContent><w:p><w:r><w:t>§ §</w:t></w:r></w:p></w:txbxContent></v:textbox><v:textpath string="§ §"/></w:pict></mc:Fallback></mc:AlternateContent></w:r></w:p>
<w:p><w:sdt><w:sdtPr><w:alias w:val="§ §"/><w:placeholder><w:docPart w:val="§"/></w:placeholder><w:dropDownList><w:listItem w:displayText="§ §" w:value="§"/></w:dropDownList></w:sdtPr><w:sdtContent><w:r><w:t>§ §</w:t></w:r></w:sdtContent></w:sdt></w:p>
<w:sdt><w:sdtPr/><w:sdtContent><w:p><w:r><w:t>§ §</w:t></w:r></w:p></w:sdtContent></w:sdt>
<w:tbl><w:tr><w:tc><w:tcPr/><w:p><w:r><w:t>§ §</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
<w:p><m:oMath><m:r><m:t>§</m:t></m:r></m:oMath></w:p>
<w:p><w:r><w:ruby><w:rt><w:r><w:t>§</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>§ §</w:t></w:r></w:rubyBase></w:ruby></w:r></w:p>
<w:p><w:r><w:sym w:font="§"/><w:t>§ §</w:t></w:r><w:r><w:t>§ §</w:t><w:footnoteReference w:id="1"/></w:r></w:p>
<w:p><w:r><w:rPr><w:vanish/></w:rPr><w:t>§ §</w:t></w:r></w:p>
<w:p><w:r><w:t>§ §</w:t><w:ptab/><w:t>§ §</w:t></w:r></w:p>
</w:body></w:document>""",
            "word/header1.xml": f"<w:hdr {W}><w:p><w:r><w:t>§ §</w:t></w:r></w:p></w:hdr>",
            "word/comments.xml": f'<w:comments {W}><w:comment w:author="§"><w:p><w:r><w:t>§ §</w:t></w:r></w:p></w:comment></w:comments>',
            "word/charts/chart1.xml": '<c:chartSpace xmlns:c="c" xmlns:a="a"><c:title><a:p><a:r><a:t>§ §</a:t></a:r></a:p></c:title><c:v>§ §</c:v></c:chartSpace>',
            "word/diagrams/data1.xml": '<d xmlns:a="a"><a:p><a:r><a:t>§ §</a:t></a:r></a:p></d>',
            "word/glossary/document.xml": f"<w:glossaryDocument {W}><w:p><w:r><w:t>§ §</w:t></w:r></w:p></w:glossaryDocument>",
            "docProps/core.xml": '<cp:coreProperties xmlns:cp="cp" xmlns:dc="dc"><dc:title>§ §</dc:title><dc:creator>§</dc:creator><cp:keywords>§</cp:keywords><dc:description>§ §</dc:description></cp:coreProperties>',
            "docProps/app.xml": "<Properties><Company>§</Company><TitlesOfParts><lpstr>§ §</lpstr></TitlesOfParts></Properties>",
        },
    ],
    "odt": [
        {
            "content.xml": f'<office:document-content {O} xmlns:draw="d" xmlns:svg="s" xmlns:table="t" xmlns:dc="dc"><office:body><office:text><text:tracked-changes><text:deletion><text:p>§ §</text:p></text:deletion></text:tracked-changes><text:h>§ §</text:h><text:p>§ § <text:span>§ §</text:span><text:s/><text:tab/>§ <office:annotation><dc:creator>§</dc:creator><text:p>§ §</text:p></office:annotation> <text:date>§</text:date> <text:note><text:note-citation>§</text:note-citation><text:note-body><text:p>§ §</text:p></text:note-body></text:note> <draw:frame draw:name="§"><draw:image/><svg:title>§ §</svg:title><svg:desc>§ §</svg:desc><draw:text-box><text:p>§ §</text:p></draw:text-box></draw:frame> <text:hidden-text>§ §</text:hidden-text> <text:placeholder>§ §</text:placeholder> <text:ruby><text:ruby-base>§ §</text:ruby-base><text:ruby-text>§</text:ruby-text></text:ruby> <text:drop-down><text:label>§</text:label></text:drop-down></text:p><text:list><text:list-header><text:p>§ §</text:p></text:list-header><text:list-item><text:p>§ §</text:p></text:list-item></text:list><table:table table:name="§"><table:title>§ §</table:title><table:table-row><table:table-cell><text:p>§ §</text:p></table:table-cell></table:table-row></table:table><text:table-of-content><text:index-body><text:index-title><text:p>§ §</text:p></text:index-title><text:p>§ §</text:p></text:index-body></text:table-of-content><text:numbered-paragraph><text:p>§ §</text:p></text:numbered-paragraph></office:text></office:body></office:document-content>',
            "styles.xml": f'<office:document-styles {O} xmlns:style="st"><style:style style:name="§"/><office:master-styles><style:master-page><style:header><text:p>§ §</text:p></style:header></style:master-page></office:master-styles></office:document-styles>',
            "meta.xml": '<office:document-meta xmlns:office="o" xmlns:dc="dc"><office:meta><dc:title>§ §</dc:title><dc:creator>§</dc:creator></office:meta></office:document-meta>',
            "Object 1/content.xml": '<office:document-content xmlns:office="o" xmlns:text="t"><text:p>§ §</text:p></office:document-content>',
        },
    ],
    "pptx": [
        {
            "ppt/slides/slide1.xml": '<p:sld xmlns:a="a" xmlns:p="p"><p:cNvPr name="§" descr="§ §" title="§ §"/><a:p><a:r><a:t>§ §</a:t></a:r><a:fld><a:t>§</a:t></a:fld></a:p><a:tbl><a:tc><a:p><a:r><a:t>§ §</a:t></a:r></a:p></a:tc></a:tbl><p:extLst><p:ext>§</p:ext></p:extLst></p:sld>',
            "ppt/notesSlides/notesSlide1.xml": '<p:notes xmlns:a="a" xmlns:p="p"><a:p><a:r><a:t>§ §</a:t></a:r></a:p></p:notes>',
            "ppt/slideLayouts/slideLayout1.xml": '<p:l xmlns:a="a" xmlns:p="p"><a:p><a:r><a:t>§ §</a:t></a:r></a:p></p:l>',
            "ppt/slideMasters/slideMaster1.xml": '<p:l xmlns:a="a" xmlns:p="p"><a:p><a:r><a:t>§ §</a:t></a:r></a:p></p:l>',
            "ppt/comments/comment1.xml": '<p:cmLst xmlns:p="p"><p:cm><p:text>§ §</p:text></p:cm></p:cmLst>',
            "ppt/charts/chart1.xml": '<c:chartSpace xmlns:c="c" xmlns:a="a"><a:p><a:r><a:t>§ §</a:t></a:r></a:p><c:strCache><c:pt><c:v>§ §</c:v></c:pt></c:strCache></c:chartSpace>',
            "docProps/core.xml": '<cp:coreProperties xmlns:cp="cp" xmlns:dc="dc"><dc:title>§ §</dc:title></cp:coreProperties>',
        },
    ],
    "xlsx": [
        {
            "xl/sharedStrings.xml": "<sst><si><t>§ §</t></si><si><r><t>§ §</t></r><r><rPr><b/></rPr><t> § §</t></r><rPh><t>§</t></rPh></si></sst>",
            "xl/worksheets/sheet1.xml": '<worksheet><sheetData><row><c t="inlineStr"><is><t>§ §</t></is></c><c t="str"><f>"§"&amp;A1</f><v>§ §</v></c></row></sheetData><headerFooter><oddHeader>&amp;C§ §</oddHeader></headerFooter><dataValidations><dataValidation promptTitle="§ §" prompt="§ §"><formula1>"§,§"</formula1></dataValidation></dataValidations><hyperlinks><hyperlink tooltip="§ §" display="§ §"/></hyperlinks></worksheet>',
            "xl/workbook.xml": '<workbook><sheets><sheet name="§ §"/></sheets></workbook>',
            "xl/comments1.xml": "<comments><commentList><comment><text><r><t>§ §</t></r></text></comment></commentList></comments>",
            "xl/drawings/drawing1.xml": '<xdr:wsDr xmlns:xdr="x" xmlns:a="a"><a:p><a:r><a:t>§ §</a:t></a:r></a:p></xdr:wsDr>',
            "xl/charts/chart1.xml": '<c:chartSpace xmlns:c="c" xmlns:a="a"><a:p><a:r><a:t>§ §</a:t></a:r></a:p></c:chartSpace>',
            "xl/tables/table1.xml": '<table><tableColumns><tableColumn name="§ §"/></tableColumns></table>',
        },
    ],
    "epub": [
        {
            "META-INF/container.xml": "<container>§</container>",
            "OEBPS/content.opf": '<package xmlns:dc="dc"><metadata><dc:title>§ §</dc:title><dc:creator>§ §</dc:creator><dc:language>de</dc:language><dc:description>§ §</dc:description><dc:subject>§ §</dc:subject><dc:publisher>§</dc:publisher><meta property="x">§</meta></metadata><guide><reference title="§ §"/></guide></package>',
            "OEBPS/toc.ncx": '<ncx xmlns="n"><head><meta name="x" content="§"/></head><docTitle><text>§ §</text></docTitle><docAuthor><text>§</text></docAuthor><navMap><navPoint><navLabel><text>§ §</text></navLabel></navPoint></navMap></ncx>',
            "OEBPS/a.xhtml": '<html xmlns="http://www.w3.org/1999/xhtml"><head><title>§ §</title></head><body><!-- § --><p title="§ §">§ § <ruby>§<rt>§</rt></ruby> <math><mi>§</mi></math> <code>§</code></p><img alt="§ §"/><svg><title>§ §</title><text>§ §</text></svg></body></html>',
            "OEBPS/style.css": "§",
        },
    ],
    "subtitles": [
        r"""1
00:00:01,000 --> 00:00:03,000
<i>§ §</i> {\an8}§ §
[§ §]

2
00:00:04,000 --> 00:00:05,000
♪ § § ♪

§ §
""",
    ],
}
"""Documents with a sign for each word that is not syntax."""

OPTIONS: Final[dict[str, dict[str, object]]] = {"csv": {"columns": ("de=en",)}}


def numbered(source: str, words: Iterator[str]) -> str:
    """Returns a document with a word of its own for each sign."""
    return re.sub("§", lambda _: next(words), source)


def texts(document: Document) -> list[tuple[str, TextDocument]]:
    """Returns the texts of a document that are read, by the files that they are in."""
    if isinstance(document, Package):
        return [(name, text) for name, text, _ in document.documents]
    assert isinstance(document, TextDocument)
    return [("", document)]


def unnamed(document: Document, file_format: str, pattern: str) -> list[str]:
    """Returns the words that are in no segment, and left without a reason."""
    segments = document.segments
    assert all(segment.reason for segment in segments if segment.state == "skipped")
    said = {word for segment in segments for word in re.findall(pattern, segment.source.text)}
    found = []
    for _, text in texts(document):
        parts = [(part.start, part.end) for part in text.parts if part.reason]
        parts += [match.span() for match in re.finditer(NAMES.get(file_format, "(?!)"), text.text, re.MULTILINE)]
        for match in re.finditer(pattern, text.text):
            if match[0] not in said and not any(start <= match.start() < end for start, end in parts):
                found.append(match[0])
    return found


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_word_is_in_a_segment_or_left_for_a_reason(name: str) -> None:
    words = map("".join, product("Q", "bdfgklmnprstvwz", "aeiou", "bdfgklmnprstvwz", "aeiou", "q"))
    for source in DOCUMENTS[name]:
        if isinstance(source, dict):
            data = package({"mimetype": "x"} | {each: numbered(text, words) for each, text in source.items()})
        else:
            data = numbered(source, words).encode()
        document = read(name, data, **OPTIONS.get(name, {}))
        assert document.write({}, print) == data
        assert unnamed(document, name, "Q[a-z]{4}q") == []


def test_what_is_not_understood_is_told_and_counts_for_strict() -> None:
    told = {
        "android": "<resources>Eins zwei<string name='a'>Haus</string><neu>Drei</neu></resources>",
        "xliff": "<xliff version='1.2'><file><body><trans-unit id='a'><source>Haus<ph id='b'>%s<sub>Drei</sub></ph></source></trans-unit></body></file></xliff>",
        "resx": "<root><data name='a' type='System.String, mscorlib'><value>Haus</value></data><neu>Drei</neu></root>",
        "php": "<?php return ['a' => 'Haus', 'b' => t('Drei Hunde', 1), 'c' => t('drei')];",
    }
    for name, source in told.items():
        left = [segment for segment in read(name, source.encode()).segments if segment.state == "skipped"]
        assert left and all("Drei" in each.source.text or "Eins" in each.source.text for each in left), name
        assert all(each.reason.startswith(KEPT) for each in left)


def test_texts_beside_paragraphs_are_translated() -> None:
    slide = '<p:sld xmlns:a="a" xmlns:p="p"><p:cNvPr name="Bild 1" descr="Ein &quot;Haus&quot;&#10;am Meer"/></p:sld>'
    core = (
        "<c:coreProperties xmlns:dc='d'><dc:title>Ein Titel</dc:title><dc:creator>Anna</dc:creator></c:coreProperties>"
    )
    data = translate(read("pptx", package({"ppt/slides/slide1.xml": slide, "docProps/core.xml": core})))
    assert unpack(data, "ppt/slides/slide1.xml") == with_capitals(slide, "Ein", "Haus", "am Meer")
    assert unpack(data, "docProps/core.xml") == with_capitals(core, "Ein Titel")


def test_a_run_of_word_with_more_than_text_is_translated() -> None:
    page = f'<w:document {W}><w:p><w:r><w:t>Ein </w:t><w:sym w:char="a"/><w:t>Haus</w:t><w:footnoteReference w:id="1"/></w:r></w:p></w:document>'
    data = unpack(translate(read("docx", package({"word/document.xml": page}))), "word/document.xml")
    written = re.sub("<w:t[^>]*>", "<w:t>", data).replace("</w:r><w:r>", "").replace("<w:t></w:t>", "")
    assert written == with_capitals(page, "Ein ", "Haus")
