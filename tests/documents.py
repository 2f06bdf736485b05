# ruff: noqa: E501  (documents are shown as they are)
"""A small document of every format, and what a translator that writes in capitals makes of it."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from specmt.documents import Finished, Selection, translate_documents
from specmt.formats import find_format, read_document
from specmt.formats.document import Document, FormatOptions, TagRules
from specmt.options import DecodingOptions
from specmt.text.tags import Alignment, carry
from specmt.translator import Translator
from specmt.types import Line, Tagged, Translation

STAND_IN = re.compile(r"(\{t+x*\d+\}|%\S+|\{\w+\}|<[^<>]*>)")


def shout(text: str) -> str:
    """Returns a text in capitals, but for what is to be copied."""
    return "".join(part if place % 2 else part.upper() for place, part in enumerate(STAND_IN.split(text)))


def one_to_one(text: str) -> Alignment:
    """Returns the alignment of a text with itself."""
    return [(number, number) for number in range(len(text.split()))]


def read(name: str, data: bytes, **options: object) -> Document:
    return find_format(name).read(data, FormatOptions(**options))  # type: ignore[arg-type]


def translate(document: Document, told: list[str] | None = None) -> bytes:
    """Returns a document with every new segment in capitals."""
    translations: dict[int, Tagged] = {}
    for number, segment in enumerate(document.segments):
        if segment.state == "new":
            text = segment.source.text
            translations[number] = carry(segment.source, shout(text), one_to_one(text))[0]
    return document.write(translations, lambda _, what: (told if told is not None else []).append(what))


def with_capitals(page: str, *texts: str) -> str:
    """Returns a page in which some texts are in capitals, wherever they are."""
    for text in texts:
        page = page.replace(text, text.upper())
    return page


def texts_of(document: Document) -> list[str]:
    return [segment.source.text for segment in document.segments]


def fill(document: Document, translations: Mapping[int, Tagged]) -> tuple[str, list[str]]:
    """Returns a document with translations, and what is told of them."""
    told: list[str] = []
    return document.write(translations, lambda _, what: told.append(what)).decode(), told


@dataclass(frozen=True, slots=True)
class Aligned(Translation):
    """A translation of a decoder that says which words belong together."""

    alignment: list[tuple[int, int]] = field(default_factory=list)


class Shouting:
    """A translator that writes in capitals, or what it was told."""

    def __init__(self, answers: dict[str, str] | None = None, *, aligns: bool = True) -> None:
        self.asked: list[str] = []
        self.aligned: list[bool] = []
        self.answers = answers or {}
        self.aligns = aligns
        self.confidences: dict[str, float] = {}

    def translate(self, lines: Iterable[Line], options: DecodingOptions) -> Iterator[Translation]:
        for line in lines:
            self.asked.append(line.text)
            self.aligned.append(line.aligned)
            text = self.answers.get(line.text, shout(line.text))
            if self.aligns:
                alignment = [(number, number) for number in range(len(text.split()))]
                yield Aligned(line, text, alignment=alignment, confidence=self.confidences.get(line.text))
            else:
                yield Translation(line, text)


def run(
    translator: Shouting, *sources: tuple[str, str | bytes], selection: Selection | None = None, **options: Any
) -> list[Finished]:
    documents = [
        (
            f"{number}.{name}",
            read_document(
                data.encode() if isinstance(data, str) else data, f"{number}.{name}", name, FormatOptions(**options)
            ),
        )
        for number, (name, data) in enumerate(sources)
    ]
    return list(translate_documents(cast(Translator, translator), documents, DecodingOptions(), selection))


def package(files: Mapping[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return out.getvalue()


def unpack(data: bytes, name: str) -> str:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.read(name).decode()


@dataclass(frozen=True)
class Sample:
    """A document, the texts in it, and what of it is written otherwise where they are in capitals."""

    format: str
    source: str
    texts: list[str]
    written: dict[str, str]
    """What replaces what; everything else stays."""
    options: dict[str, object] = field(default_factory=dict)
    member: str = ""
    """The file in a package that ``source`` is."""
    encoding: str = "utf-8"

    @property
    def data(self) -> bytes:
        return (
            package({"mimetype": "x", self.member: self.source}) if self.member else self.source.encode(self.encoding)
        )

    @property
    def expected(self) -> str:
        text = self.source
        for old, new in self.written.items():
            assert text.count(old) == 1, (old, text.count(old))
            text = text.replace(old, new)
        return text

    def text_of(self, data: bytes) -> str:
        return unpack(data, self.member) if self.member else data.decode(self.encoding)


def in_capitals(texts: str) -> dict[str, str]:
    """Returns what replaces texts, which are between bars, and only become capitals."""
    return {text: text.upper() for text in texts.split("|")}


PO = r"""# Kommentar
msgid ""
msgstr ""
"PO-Revision-Date: 2020-01-01 00:00+0000\n"
"Language: en\n"
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

#. Hinweis
#, c-format
msgctxt "k"
msgid "Datei %s\n"
msgstr ""

#| msgid "Alt"
msgid "fertig"
msgstr "done"

#, fuzzy
msgid "unklar"
msgstr "unsure"

msgid ""
"Ein langer Satz, der in der Vorlage nicht auf eine Zeile passt und daher auf "
"zwei verteilt ist."
msgstr ""

msgid "%d Datei"
msgid_plural "%d Dateien"
msgstr[0] ""
msgstr[1] ""

#~ msgid "weg"
#~ msgstr "gone"
"""

XLIFF = """<?xml version="1.0" encoding="UTF-8"?>
<xliff version="1.2"><file original="a" source-language="de" target-language="en"><body>
  <trans-unit id="1">
    <source>Ein <g id="1">Haus &amp; Hof</g><x id="2"/> steht.</source>
    <note>Hinweis</note>
  </trans-unit>
  <trans-unit id="2" translate="no"><source>nichts</source></trans-unit>
  <trans-unit id="3"><source>fertig</source><target state="final">done</target></trans-unit>
  <trans-unit id="4"><source>Eins. Zwei.</source><seg-source><mrk mtype="seg" mid="0">Eins.</mrk> <mrk mtype="seg"
 mid="1">Zwei.</mrk></seg-source></trans-unit>
</body></file></xliff>
"""

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
O = (  # noqa: E741
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"'
)

SAMPLES = [
    Sample(
        "po",
        PO,
        [
            "Datei %s", "fertig", "unklar",
            "Ein langer Satz, der in der Vorlage nicht auf eine Zeile passt und daher auf zwei verteilt ist.",
            "%d Datei", "%d Dateien",
        ],
        {
            'msgid "Datei %s\\n"\nmsgstr ""': 'msgid "Datei %s\\n"\nmsgstr "DATEI %s\\n"',
            'verteilt ist."\nmsgstr ""': 'verteilt ist."\nmsgstr ""\n"EIN LANGER SATZ, DER IN DER VORLAGE NICHT AUF EINE '
            'ZEILE PASST UND DAHER AUF "\n"ZWEI VERTEILT IST."',
            'msgstr[0] ""': 'msgstr[0] "%d DATEI"',
            'msgstr[1] ""': 'msgstr[1] "%d DATEIEN"',
            "2020-01-01 00:00+0000": "1970-01-01 00:00+0000",
        },
        {"fuzzy": False},
    ),
    Sample(
        "html",
        "<!DOCTYPE html>\r\n<html lang=\"de\"><head><title>Ein &amp; alles</title><meta name=description content='Das'>"
        "<style>p {}</style><script>if (a<b) c('<p>x</p>')</script></head><body>\r\n<!-- nein -->\r\n"
        '<p>Das <b class=x>fette</b> <a href="#" title="Ziel">Haus</a> &nbsp;<img src=a alt="Bild">ist <code>rot</code>.\r\n'
        "<ul><li>Eins<li translate=no>zwei</ul><pre>vier</pre><p>a < b</p>",
        ["Ein & alles", "Das", "Ziel", "Bild", "Das fette Haus \xa0{t1}ist {t2}.", "Eins", "a < b"],
        {
            'lang="de"': 'lang="en"',
            "Ein &amp; alles": "EIN &amp; ALLES",
            "'Das'": "'DAS'",
            "<p>Das <b class=x>fette</b>": "<p>DAS <b class=x>FETTE</b>",
            '"Ziel">Haus<': '"ZIEL">HAUS<',
            '"Bild">ist': '"BILD">IST',
            "<li>Eins": "<li>EINS",
            "a < b</p>": "A &lt; B</p>",
        },
    ),
    Sample(
        "markdown",
        "---\ntitle: Ein Titel\nid: drei\n---\n# Über *uns* #\n\n> Das ist **sehr\n> fett** mit `code` und [Verweis](http://a.de 'x').\n\n"
        "- Eins  \n  Zwei\n- [x] Drei ![Bild](b.png)\n\n| a | b \\| c |\n|---|---|\n| `vier` | Fünf |\n\n```sh\nsechs\n```\n\n"
        "    sieben\n\nAcht [neun] und &lt;zehn&gt; \\*elf\\*.\n\n[neun]: http://b.de\n",
        [
            "Ein Titel", "Über uns", "Das ist sehr fett mit {t1} und Verweis.", "x", "Eins", "Zwei", "Drei {t1}",
            "Bild", "a", "b | c", "Fünf", "Acht {t1} und <zehn> *elf*.",
        ],
        {
            "title: Ein Titel": "title: EIN TITEL",
            "Das ist **sehr\n> fett** mit `code` und [Verweis]": "DAS IST **SEHR FETT** MIT `code` UND\n> [VERWEIS]",
            "a.de 'x'": "a.de 'X'",
            "- Eins  \n  Zwei\n": "- EINS  \n  ZWEI\n",
            "| a | b \\| c |": "| A | B \\| C |",
            "Acht [neun] und &lt;zehn&gt; \\*elf\\*.": "ACHT [neun] UND &lt;zehn&gt; \\*ELF\\*.",
            **in_capitals("# Über *uns* #|Drei ![Bild]|Fünf"),
        },
    ),
    Sample(
        "xliff",
        XLIFF,
        ["Ein Haus & Hof{t1} steht.", "fertig", "Eins.", "Zwei."],
        {
            "steht.</source>\n": "steht.</source>\n    "
            '<target state="needs-review-translation">EIN <g id="1">HAUS &amp; HOF</g><x id="2"/> STEHT.</target>\n',
            "</seg-source>": '</seg-source><target state="needs-review-translation"><mrk mtype="seg" mid="0">EINS.</mrk> '
            '<mrk mtype="seg"\n mid="1">ZWEI.</mrk></target>',
        },
    ),
    Sample(
        "xliff",
        '<xliff version="2.0" srcLang="de"><file id="f"><unit id="u"><segment><source>Ein <pc id="1">Haus</pc></source>'
        "</segment><ignorable><source> Rest </source></ignorable></unit></file></xliff>",
        ["Ein Haus"],
        {
            " version": ' trgLang="en" version',
            "<segment>": '<segment state="translated">',
            "</source></segment>": '</source><target>EIN <pc id="1">HAUS</pc></target></segment>',
        },
    ),
    Sample(
        "subtitles",
        "1\r\n00:00:01,000 --> 00:00:03,000\r\n<i>Ich weiß nicht,</i>\r\nwas soll es\r\n\r\n2\r\n00:00:03,100 --> "
        "00:00:06,000 X1:1\r\nbedeuten, dass ich so traurig bin.\r\n\r\n3\r\n00:00:08,000 --> 00:00:12,000\r\n- Hallo!\r\n- Ja?\r\n",
        ["Ich weiß nicht, was soll es bedeuten, dass ich so traurig bin.", "Hallo!", "Ja?"],
        {
            "Ich weiß nicht,</i>\r\nwas soll es": "ICH WEISS NICHT,</i> WAS SOLL ES",
            **in_capitals("bedeuten, dass ich so traurig bin.|Hallo!|Ja?"),
        },
    ),
    Sample(
        "subtitles",
        "WEBVTT\n\nNOTE nein --> nein\n\nkennung\n00:01.000 --> 00:05.000 align:left\n<v Anna>Ein <b>Haus</b> am Meer\n",
        ["Ein Haus am Meer"],
        {"Ein <b>Haus</b> am Meer": "EIN <b>HAUS</b> AM MEER"},
    ),
    Sample(
        "subtitles",
        "[Script Info]\nTitle: nein\n[Events]\nFormat: Layer, Start, End, Text\nComment: 0,0:00:01.00,0:00:04.00,nein\n"
        "Dialogue: 0,0:00:01.00,0:00:04.00,{\\an8}Ein {\\i1}Haus, und{\\i0}\\Nein Hof.\n",
        ["Ein Haus, und ein Hof."],
        {"Ein {\\i1}Haus, und{\\i0}\\Nein Hof.": "EIN {\\i1}HAUS, UND{\\i0} EIN HOF."},
    ),
    Sample(
        "json",
        '{"@@locale": "de", "a": {"b": "Hallo \\"Welt\\"\\n", "@b": {"d": "nein"}, "n": 3},\n "l": ["Eins", "Zwei"],'
        ' "p": "{n, plural, one {# Datei} other {# Dateien}}", "q": "Es {n, plural, other {x}} y"}',
        ['Hallo "Welt"', "Eins", "Zwei", "{t1} Datei", "{t1} Dateien", "Es {t1} y", "x"],
        {
            '"de"': '"en"',
            "other {x}} y": "one {X} other {X}} Y",
            **in_capitals(r"Hallo \"Welt\"|Eins|Zwei|# Datei}|# Dateien}|Es {"),
        },
    ),
    Sample(
        "properties",
        "# nein\na.b = Hallo \\\n   Welt\nc:Gr\\u00fc\\u00dfe {0}, wie geht''s\n\nd\ne\\ f \\!\n",
        ["Hallo Welt", "Grüße {0}, wie geht's"],
        {"Hallo \\\n   Welt": "HALLO WELT", "Gr\\u00fc\\u00dfe {0}, wie geht''s": "GR\\u00dcSSE {0}, WIE GEHT''S"},
    ),
    Sample("properties", "a=Grüße\n", ["Grüße"], {"Grüße": "GRÜSSE"}, encoding="latin-1"),
    Sample(
        "android",
        '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE r [<!ENTITY app "Karte">]>\n<resources xmlns:xliff="u">\n'
        '<string name="a">Ein <b>Haus</b>, wie geht\\\'s, <xliff:g id="n">%1$s</xliff:g>? &app;</string>\n'
        '<string name="b" translatable="false">nein</string><string name="c">@string/a</string>\n'
        '<plurals name="p"><item quantity="one">%d Datei</item><item quantity="other">"%d Dateien"</item></plurals>\n</resources>',
        ["Ein Haus, wie geht's, {t1}? {t2}", "%d Datei", "%d Dateien"],
        {
            "Ein <b>Haus</b>, wie geht\\'s,": "EIN <b>HAUS</b>, WIE GEHT\\'S,",
            "%d Datei<": "%d DATEI<",
            "%d Dateien": "%d DATEIEN",
        },
    ),
    Sample(
        "xml",
        '<?xml version="1.0"?>\n<!DOCTYPE d [<!ENTITY app "Karte">]>\n<d a="nein">\n  <t>Ein <b>rotes</b> <i>Haus</i></t>\n'
        '  <p>Das <b translate="no">nein</b> &amp; &app; <x/> hier.</p><!-- nein --><q/>\n  <k>nein</k><![CDATA[Ein < Text]]>\n</d>',
        ["Ein rotes Haus", "Das {t1} & {t2} {t3} hier.", "{t1}Ein < Text"],
        {
            "Ein <b>rotes</b> <i>Haus</i>": "EIN <b>ROTES</b> <i>HAUS</i>",
            "<![CDATA[Ein < Text]]>": "EIN &lt; TEXT",
            **in_capitals("Das <| hier"),
        },
        {"tags": TagRules(ignored=frozenset(["k"]), splitting=frozenset(["d", "t", "p", "q"]))},
    ),
    Sample(
        "fluent",
        "# nein\nhello = Hallo, { $name }!\n    .title = Ein Titel\nmails =\n    { $n ->\n        [one] Eine Mail\n"
        "       *[other] { $n } Mails\n    }\n-brand = Marke\nlong =\n    Ein\n    Text\n",
        ["Hallo, {t1}!", "Ein Titel", "Eine Mail", "{t1} Mails", "Marke", "Ein Text"],
        {
            "Ein\n    Text": "EIN\n    TEXT",
            **in_capitals("Hallo,|Ein Titel|Eine Mail|} Mails|Marke"),
        },
    ),
    Sample(
        "tmx",
        '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header/><body>\n<tu>\n'
        '  <tuv xml:lang="de-DE"><seg>Ein <bpt i="1">&lt;b></bpt>Haus<ept i="1">&lt;/b></ept></seg></tuv>\n</tu>\n'
        '<tu><tuv xml:lang="de"><seg>Hund</seg></tuv><tuv xml:lang="en"><seg>dog</seg></tuv></tu>\n</body></tmx>',
        ["Ein Haus", "Hund"],
        {
            "</seg></tuv>\n</tu>": '</seg></tuv>\n  <tuv xml:lang="en"><seg>EIN <bpt i="1">&lt;b></bpt>HAUS'
            '<ept i="1">&lt;/b></ept></seg></tuv>\n</tu>'
        },
    ),
    Sample(
        "csv",
        'id;de;en\r\n1;"Ein ""Haus""; groß\nund alt";\r\n2;Hund;dog\r\n\r\n',
        ['Ein "Haus"; groß\nund alt', "Hund"],
        {'alt";\r\n': 'alt";"EIN ""HAUS""; GROSS\nUND ALT"\r\n'},
        {"columns": ("de=en",)},
    ),
    Sample(
        "docx",
        f"<w:document {W}><w:body><w:p><w:pPr/><w:r><w:t>Ein Titel</w:t></w:r></w:p>\n<w:p><w:r><w:t xml:space="
        '"preserve"> Das </w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>fette</w:t></w:r><w:proofErr/><w:r><w:rPr><w:b/></w:rPr>'
        '<w:t xml:space="preserve"> Haus </w:t></w:r><w:hyperlink><w:r><w:rPr><w:u/></w:rPr><w:t>hier</w:t></w:r></w:hyperlink>'
        '<w:r><w:t xml:space="preserve"> am &amp; im Meer.</w:t></w:r></w:p></w:body></w:document>',
        ["Ein Titel", "Das fette Haus hier am & im Meer."],
        {
            "<w:t>Ein Titel</w:t>": '<w:t xml:space="preserve">EIN TITEL</w:t>',
            "> Das </w:t></w:r>": '> </w:t></w:r><w:r><w:t xml:space="preserve">DAS </w:t></w:r>',
            "<w:t>fette</w:t>": '<w:t xml:space="preserve">FETTE</w:t>',
            '<w:t xml:space="preserve"> Haus </w:t></w:r>': '<w:t xml:space="preserve"> HAUS</w:t></w:r>'
            '<w:r><w:t xml:space="preserve"> </w:t></w:r>',
            "<w:t>hier</w:t>": '<w:t xml:space="preserve">HIER</w:t>',
            " am &amp; im Meer.": " AM &amp; IM MEER.",
        },
        member="word/document.xml",
    ),
    Sample(
        "odt",
        f"<office:document-content {O}><office:body><office:text><text:h>Titel</text:h><text:p>Das <text:span>fette Haus"
        "</text:span><text:note><text:note-body><text:p>Eine Note</text:p></text:note-body></text:note> steht hier.</text:p>"
        "</office:text></office:body></office:document-content>",
        ["Titel", "Eine Note", "Das fette Haus steht hier."],
        {
            "Das <text:span>fette Haus</text:span>": "DAS <text:span>FETTE HAUS</text:span>",
            **in_capitals("Titel|Eine Note| steht hier."),
        },
        member="content.xml",
    ),
    Sample(
        "rst",
        ".. _oben:\n\nÜber\n====\n\n:Author: Anna\n\nDas ist ein *roter*\nSatz mit ``code``, `Haus <a>`_ und `über`_ [1]_::\n\n    nein\n\n"
        "- Eins\n- Zwei\n\n  Drei\n\nWort : nein\n    Vier\n\n:param x: Fünf\n-a   Sechs\n\n| Vers\n\n.. note:: Ein Hinweis\n   mit :ref:`Ziel <z>`.\n\n"
        ".. image:: a.png\n   :alt: Bild\n\n.. code:: nein\n\n   nein\n\n.. toctree::\n\n   Anfang <a>\n   nein\n\n.. nein\n\n.. [1] Note\n\n"
        "+------+---+\n| Kopf | 1 |\n+======+===+\n| Maß  | 2 |\n+------+---+\n\n==== =====\nHund b\n==== =====\n",
        [
            "Über", "Das ist ein roter Satz mit {t1}, Haus und über {t2}:", "Eins", "Zwei", "Drei", "Wort", "Vier",
            "Fünf", "Sechs", "Vers", "Ein Hinweis mit Ziel.", "Bild", "Anfang", "Note", "Kopf", "Maß", "Hund", "b",
        ],
        {
            "Über\n====": "ÜBER\n====",
            "Das ist ein *roter*\nSatz mit ``code``, `Haus <a>`_ und `über`_": "DAS IST EIN *ROTER* SATZ MIT ``code``,\n`HAUS <a>`_ UND `ÜBER`_",
            "Ein Hinweis\n   mit :ref:`Ziel <z>`": "EIN HINWEIS\n   MIT :ref:`ZIEL <z>`",
            "Maß ": "MASS",
            **in_capitals("Eins|Zwei|Drei|Wort|Vier|Fünf|Sechs|Vers|Bild|Anfang|Note|Kopf|Hund b"),
        },
    ),
    Sample(
        "asciidoc",
        "= Titel\nAnna Meier <a@b.de>\n:toc:\n\nDas ist *fett* und _schräg_ mit `code`, {attr}, https://a.de[Haus,role=x] und <<z,Ziel>>.footnote:[Note.]\n\n"
        "[[z]]\n== Kapitel\n\n.Kopf\n[source,nein]\n----\nnein\n----\n\n* Eins\n** [x] Zwei\n. Drei\n+\nNOTE: Vier\n\nWort:: Fünf\n\n====\nSechs\n====\n\n"
        'image::a.png[Bild,300]\n\n[cols="1,1m"]\n|===\n|Maß |nein\n2+|Acht \\| neun\n|===\n\nZeile +\nBruch\n\n// nein\nifdef::nein[]\n nein\n',
        [
            "Titel", "Note.", "Das ist fett und schräg mit {t1}, {t2}, Haus und Ziel.", "Kapitel", "Kopf", "Eins",
            "Zwei", "Drei", "Vier", "Wort", "Fünf", "Sechs", "Bild", "Maß", "Acht | neun", "Zeile", "Bruch",
        ],
        {
            "[Haus,role=x] und <<z,Ziel>>.footnote:[Note.]": "[HAUS,role=x] UND <<z,ZIEL>>.footnote:[NOTE.]",
            "Acht \\| neun": "ACHT \\| NEUN",
            **in_capitals(
                "= Titel|Das ist *fett* und _schräg_ mit|Kapitel|Kopf|Eins|Zwei|Drei|Vier|Wort|Fünf|Sechs|Bild|Maß|Zeile|Bruch"
            ),
        },
    ),
    Sample(
        "epub",
        '<?xml version="1.0"?>\n<html xmlns="http://www.w3.org/1999/xhtml" xml:lang="de"><head><title>Titel</title></head><body>\n'
        '<p>Das <b>fette</b>\xa0| Haus<br/>am &amp; im <i lang="fr">nein</i> Meer.</p><pre>nein</pre></body></html>',
        ["Titel", "Das fette\xa0| Haus", "am & im {t1} Meer."],
        {
            '"de"': '"en"',
            "Titel": "TITEL",
            "Das <b>fette</b>\xa0| Haus": "DAS <b>FETTE</b>&#160;| HAUS",
            "am &amp; im": "AM &amp; IM",
            ">nein</i> Meer": ">nein</i> MEER",
        },
        member="a.xhtml",
    ),
    Sample(
        "pptx",
        '<p:sld xmlns:a="a" xmlns:p="p"><a:p><a:r><a:rPr lang="de"/><a:t> Das </a:t></a:r><a:r><a:rPr b="1"/><a:t>rote </a:t></a:r>'
        '<a:r><a:rPr lang="en"/><a:t>Haus</a:t></a:r><a:br/><a:fld><a:t>3</a:t></a:fld><a:r><a:t> Zwei m</a:t></a:r>'
        '<a:r><a:rPr baseline="30000"/><a:t>2</a:t></a:r><a:r><a:t> &amp; drei</a:t></a:r><a:endParaRPr/></a:p></p:sld>',
        ["Das rote Haus", "{t1} Zwei {t2} & drei"],
        {
            " Das </a:t></a:r>": ' </a:t></a:r><a:r><a:rPr lang="de"/><a:t>DAS </a:t></a:r>',
            "rote </a:t></a:r>": "ROTE</a:t></a:r>",
            '<a:rPr lang="en"/><a:t>Haus': '<a:rPr lang="de"/><a:t> HAUS',
            " Zwei m": " ZWEI </a:t></a:r><a:r><a:t>m",
            " &amp; drei": " &amp; DREI",
        },
        member="ppt/slides/slide1.xml",
    ),
    Sample(
        "xlsx",
        '<sst><si><t>Ein Haus</t></si><si><t xml:space="preserve"> Hof &amp;\nMeer </t><phoneticPr/></si><si><t>42</t></si>'
        "<si><r><t>Eins </t></r><r><rPr><b/></rPr><t>zwei</t></r><rPh><t>nein</t></rPh></si></sst>",
        ["Ein Haus", "Hof &\nMeer", "Eins zwei"],
        {
            "Ein Haus": "EIN HAUS",
            "Hof &amp;\nMeer": "HOF &amp;\nMEER",
            "<t>Eins <": '<t xml:space="preserve">EINS <',
            "<t>zwei<": '<t xml:space="preserve">ZWEI<',
        },
        member="xl/sharedStrings.xml",
    ),
    Sample(
        "text", "Hallo Welt.\r\n\r\n  42\nEnde", ["Hallo Welt.", "Ende"], {"Hallo Welt.": "HALLO WELT.", "Ende": "ENDE"}
    ),
    Sample(
        "yaml",
        "# Kommentar\n---\nde: # Sprache\n  date:\n    formats: {long: '%e. %B um %H Uhr'}\n    order:\n      - :day\n    names: [~, Montag, 'Diens''tag']\n"
        "  a: &x Haus  # hier\n  b: *x\n  c: |\n    Erste Zeile.\n\n    Noch: eine\n  d: >-\n    Weit\n    weg\n\n    hier\n"
        '  e: {one: "%{count} Tür", other: Viele}\n  f: https://a.de/b\n  g: 12:30\n',
        ["Montag", "Diens'tag", "Haus", "Erste Zeile.\n\nNoch: eine", "Weit weg\nhier", "%{count} Tür", "Viele"],
        {
            "de: # Sprache": "en: # Sprache",
            "Weit\n    weg\n\n    hier": "WEIT WEG\n\n    HIER",
            "%{count} Tür": "%{count} TÜR",
            **in_capitals("Montag|Diens''tag|Haus|Erste Zeile.|Noch: eine|Viele"),
        },
    ),
    Sample(
        "strings",
        '/* "Kommentar" = "nein"; */\n"a.b" = "Tür \\"auf\\"\\n";\r\n// noch = "einer";\nKEY = \'Haus\' ;"c" = wert;\n"Satz";\n',
        ['Tür "auf"', "Haus"],
        {"Tür": "TÜR", "auf": "AUF", "Haus": "HAUS"},
        encoding="utf-16",
    ),
    Sample(
        "stringsdict",
        '<?xml version="1.0"?>\n<!DOCTYPE plist PUBLIC "x" "y">\n<plist version="1.0">\n<dict>\n  <key>tage</key>\n  <dict>\n    <key>NSStringLocalizedFormatKey</key>\n'
        "    <string>Seit %#@n@</string>\n    <key>n</key>\n    <dict>\n      <key>NSStringFormatSpecTypeKey</key>\n      <string>NSStringPluralRuleType</string>\n"
        "      <key>one</key>\n      <string>ein Tag &amp; mehr</string>\n      <key>other</key>\n      <string>viele Wochen</string>\n    </dict>\n  </dict>\n</dict>\n</plist>\n",
        ["Seit %#@n@", "ein Tag & mehr", "viele Wochen"],
        {"Seit": "SEIT", "ein Tag &amp; mehr": "EIN TAG &amp; MEHR", "viele Wochen": "VIELE WOCHEN"},
    ),
    Sample(
        "xcstrings",
        '{\n  "sourceLanguage" : "de",\n  "strings" : {\n    "%@" : {\n\n    },\n    "Haus" : {\n\n    },\n    "Tür" : {\n      "comment" : "nein",\n      "localizations" : {\n        "fr" : {}\n'
        '      }\n    },\n    "x" : {\n      "shouldTranslate" : false\n    }\n  },\n  "version" : "1.0"\n}',
        ["Haus", "Tür"],
        {
            '"Haus" : {\n\n    }': '"Haus" : {\n      "localizations" : {\n        "en" : {\n          "stringUnit" : {\n            "state" : "translated",\n            "value" : "HAUS"\n          }\n        }\n      }\n    }',
            '        "fr"': '        "en" : {\n          "stringUnit" : {\n            "state" : "translated",\n            "value" : "TÜR"\n          }\n        },\n        "fr"',
        },
        {"fuzzy": False},
    ),
    Sample(
        "qt",
        '<?xml version="1.0" encoding="utf-8"?>\n<!DOCTYPE TS>\n<TS version="2.1" sourcelanguage="de">\n<context>\n    <name>Fenster</name>\n'
        '    <message>\n        <location filename="a.cpp" line="1"/>\n        <source> Mein &amp;Haus %1 &quot;x&quot;</source>\n        <comment>nein</comment>\n        <translation type="unfinished"></translation>\n    </message>\n'
        '    <message numerus="yes">\n        <source>%n Tür(en)</source>\n        <translation type="unfinished">\n            <numerusform></numerusform>\n        </translation>\n    </message>\n'
        "    <message>\n        <source>alt</source>\n        <translation>old</translation>\n    </message>\n"
        '    <message>\n        <source>weg</source>\n        <translation type="vanished">gone</translation>\n    </message>\n'
        '    <message>\n        <source>neu<byte value="x1"/> hier</source>\n    </message>\n</context>\n</TS>\n',
        ['Mein Haus %1 "x"', "%n Tür(en)", "alt", "neu{t1} hier"],
        {
            'sourcelanguage="de"': 'sourcelanguage="de" language="en"',
            '<translation type="unfinished"></translation>': "<translation> MEIN &amp;HAUS %1 &quot;X&quot;</translation>",
            "            <numerusform></numerusform>": "            <numerusform>%n TÜR(EN)</numerusform>\n            <numerusform>%n TÜR(EN)</numerusform>",
            " hier</source>": ' hier</source>\n        <translation>NEU<byte value="x1"/> HIER</translation>',
        },
        {"fuzzy": False},
    ),
    Sample(
        "php",
        "<?php\n// 'nein'\nif (!defined('X')) { exit; }\nreturn [\n    'a' => 'Das ist\\'s :name', // c\n    \"b\" => \"Tür $x {$y->z} \\\"auf\\\"\\n\",\n"
        "    'c' => ['d' => '{0} Keine|[1,*] Viele', 'e' => 'x' . 'y', 'f' => env('nein'), 5 => 'Ende'],\n    'g' => 'a_b',\n];\n",
        ["Das ist's {t1}", 'Tür {t1} {t2} "auf"', "Keine", "Viele", "'x' . 'y'", "Ende"],
        in_capitals(r"Das ist\'s|Tür|auf|Keine|Viele|Ende"),
    ),
    Sample(
        "resx",
        '<?xml version="1.0" encoding="utf-8"?>\n<root>\n  <!-- <data name="x"><value>nein</value></data> -->\n  <xsd:schema id="root" xmlns:xsd="x" />\n  <resheader name="version"><value>zwei</value></resheader>\n'
        '  <data name="a" xml:space="preserve">\n    <value>Mein &amp;Haus {0}\r\n hier &lt;b&gt;</value>\n    <comment>nein</comment>\n  </data>\n'
        '  <data name="b" type="System.Drawing.Bitmap"><value>drei</value></data>\n  <data name="c" mimetype="x"><value>vier</value></data>\n'
        '  <data name="&gt;&gt;d.Name"><value>knopf</value></data>\n  <data name="e"><value>www_x.y</value></data>\n  <data name="f"><value>&amp;Datei</value></data>\n</root>\n',
        ["Mein &Haus {0}\r\n hier <b>", "Datei"],
        {"Mein &amp;Haus {0}": "MEIN &amp;HAUS {0}", " hier": " HIER", "&amp;Datei": "&amp;DATEI"},
    ),
]  # fmt: skip
