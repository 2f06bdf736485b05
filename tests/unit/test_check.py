"""What `specmt check` finds: faults that are put into good translations, and nothing in what people write well."""

from __future__ import annotations

import html
import random
import re
import tempfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest

from specmt.check.checker import Pair, check_pair
from specmt.check.findings import KINDS, Finding
from specmt.check.rules import Rules, compare
from specmt.project import Settings
from specmt.text.glossary import Entry, Glossary
from tests.documents import package
from tests.growth import assert_linear
from tests.updating import Pair as Updated

WORDS = """Vertrag:contract Kunde:customer Ordner:folder Drucker:printer Bericht:report Termin:appointment Turm:tower
    Schalter:switch Garten:garden Lager:store|öffnet:opens prüft:checks zeigt:shows löscht:deletes sendet:sends"""
NOUNS, VERBS = ([tuple(each.split(":")) for each in words.split()] for words in WORDS.split("|"))
GLOSSARY = Glossary([Entry("Gerät", ("device",), 1)], "terms")
RULES = Rules(languages=("de", "en"), glossary=GLOSSARY, forbidden=("e-mail",))


def sentence(number: int) -> tuple[str, str]:
    """Returns a text of a manual and its translation, with something of each kind."""
    draw = random.Random(number)
    (one, eins), (two, zwei), (does, macht) = (draw.choice(words) for words in (NOUNS, NOUNS, VERBS))
    size = draw.randrange(100, 900)
    return (
        f"Jedes Gerät {does} zuerst den {one} {size} und danach noch einmal den {two} dieser Anlage.",
        f"Each device {macht} the {eins} {size} first and then once more the {zwei} of this plant.",
    )


FAULTS: dict[str, Callable[[str, str], str]] = {
    "number": lambda source, said: re.sub(r"\d{3}", lambda match: str(int(match[0]) + 13), said, count=1),
    "untranslated": lambda source, said: source,
    "length": lambda source, said: said + " And so on, as was said before at length." * 9,
    "term": lambda source, said: said.replace("device", "machine"),
    "forbidden": lambda source, said: said.replace("plant", "e-mail"),
    "character": lambda source, said: said.replace("first", "f\ufffdrst"),
}
"""Of what every format can have, by what is found."""

LINK, TAG = " https://specmt.org/a", " <kbd>x</kbd>"
MARKUP: dict[str, dict[str, str]] = {
    "markdown": {"code": " `ls -l`", "link": " [x](https://specmt.org/a)", "placeholder": " {{ name }}", "tag": TAG},
    "html": {"link": ' <a href="https://specmt.org/a">x</a>', "placeholder": " {{ name }}", "tag": TAG},
    "rst": {"code": " ``ls -l``", "link": " `x <https://specmt.org/a>`__"},
    "asciidoc": {"code": " `ls -l`", "link": " https://specmt.org/a[x]"},
    "yaml": {"placeholder": " %{name}", "link": LINK, "tag": TAG},
    "json": {"placeholder": " {name}", "link": LINK, "tag": TAG},
    "xliff": {"placeholder": ' <x id="7"/>', "link": LINK},
    "po": {"placeholder": " %s", "link": LINK, "tag": TAG},
    "qt": {"placeholder": " %1", "link": LINK, "tag": TAG},
    "tmx": {"link": LINK},
    "xcstrings": {"placeholder": " %@", "link": LINK},
    "android": {"placeholder": " %1$s", "link": LINK, "tag": " <b>x</b>"},
    "strings": {"placeholder": " %@", "link": LINK, "tag": TAG},
    "resx": {"placeholder": " {0}", "link": LINK, "tag": TAG},
    "properties": {"placeholder": " {0}", "link": LINK, "tag": TAG},
    "php": {"placeholder": " :name", "link": LINK, "tag": TAG},
    "fluent": {"placeholder": " { $name }", "link": LINK},
    "docx": {"link": LINK, "tag": "</w:t></w:r><w:r><w:rPr><w:b/></w:rPr><w:t>x</w:t></w:r><w:r><w:t>."},
    "odt": {"link": LINK, "tag": ' <text:span text:style-name="Strong_20_Emphasis">x</text:span>'},
    "epub": {"link": ' <a href="https://specmt.org/a">x</a>', "tag": TAG},
    "pptx": {"link": LINK, "tag": '</a:t></a:r><a:r><a:rPr b="1"/><a:t>x</a:t></a:r><a:r><a:t>.'},
}
SUFFIX = {
    **{"markdown": "md", "asciidoc": "adoc", "yaml": "yml", "xliff": "xlf"},
    **{"qt": "ts", "android": "xml", "fluent": "ftl"},
}
PLAIN = ("", "{text}\n\n", "")
FORMS: dict[str, tuple[str, str, str]] = {
    "po": (
        'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n',
        'msgid "{one}"\nmsgstr "{two}"\n\n',
        "",
    ),
    "xliff": (
        '<xliff version="1.2"><file original="a" source-language="de" target-language="en" datatype="x"><body>\n',
        '<trans-unit id="{n}"><source>{one}</source><target>{two}</target></trans-unit>\n',
        "</body></file></xliff>\n",
    ),
    "qt": (
        '<TS version="2.1" language="en" sourcelanguage="de"><context><name>a</name>\n',
        "<message><source>{one}</source><translation>{two}</translation></message>\n",
        "</context></TS>\n",
    ),
    "tmx": (
        '<tmx version="1.4"><header srclang="de"/><body>\n',
        '<tu><tuv xml:lang="de"><seg>{one}</seg></tuv><tuv xml:lang="en"><seg>{two}</seg></tuv></tu>\n',
        "</body></tmx>\n",
    ),
    "xcstrings": (
        '{{"sourceLanguage": "de", "version": "1.0", "strings": {{\n',
        '"{one}": {{"localizations": {{"en": {{"stringUnit": {{"state": "translated", "value": "{two}"}}}}}}}},\n',
        '"": {{}}}}}}\n',
    ),
    "html": ("<html><body>\n", "<p>{text}</p>\n", "</body></html>\n"),
    "yaml": ("{to}:\n", "  k{n}: '{text}'\n", ""),
    "json": ("{{\n", '"k{n}": "{text}",\n', '"": ""}}\n'),
    "android": ("<resources>\n", '<string name="k{n}">{text}</string>\n', "</resources>\n"),
    "strings": ("", '"k{n}" = "{text}";\n', ""),
    "resx": ("<root>\n", '<data name="k{n}"><value>{text}</value></data>\n', "</root>\n"),
    "properties": ("", "k{n} = {text}\n", ""),
    "php": ("<?php\nreturn [\n", "'k{n}' => '{text}',\n", "];\n"),
    "fluent": ("", "k{n} = {text}\n", ""),
    "docx": ('<w:document xmlns:w="w"><w:body>', "<w:p><w:r><w:t>{text}</w:t></w:r></w:p>", "</w:body></w:document>"),
    "odt": ("<office:document>", "<text:p>{text}</text:p>", "</office:document>"),
    "epub": ("<html><body>\n", "<p>{text}</p>\n", "</body></html>\n"),
    "pptx": ('<p:sld xmlns:a="a">', "<a:p><a:r><a:t>{text}</a:t></a:r></a:p>", "</p:sld>"),
}
"""How a document begins, what a text of it is, and how it ends."""

MEMBERS = {"docx": "word/document.xml", "odt": "content.xml", "epub": "a.xhtml", "pptx": "ppt/slides/slide1.xml"}
BOTH = ("po", "xliff", "qt", "tmx", "xcstrings")
ESCAPED = ("qt", "tmx", "resx")
"""Formats that have both languages, and those whose tags are text."""


def page(file_format: str, texts: list[tuple[str, str]], *, is_target: bool, lost: Collection[int] = ()) -> bytes:
    """Returns a document: of a catalogue that has both, both.

    :param lost: the numbers of texts that a translation has not
    """
    head, item, tail = FORMS.get(file_format, PLAIN)
    parts = [head.format(to="en" if is_target else "de")]
    for number, pair in enumerate(texts):
        one, two = (html.escape(each, quote=False) for each in pair) if file_format in ESCAPED else pair
        is_lost = is_target and number in lost
        if not is_lost or file_format in BOTH:
            two = two if is_target and not is_lost else ""
            parts.append(item.format(n=number, one=one, two=two, text=two if is_target else one))
    text = "".join(parts) + tail.format()
    return package({MEMBERS[file_format]: text}) if file_format in MEMBERS else text.encode()


def checked(
    folder: Path, file_format: str, source: str | bytes, target: str | bytes, rules: Rules = RULES, **more: Any
) -> list[Finding]:
    """Returns what is wrong with a translation, which is written into a folder with its source."""
    paths = [folder / f"{side}.{SUFFIX.get(file_format, file_format)}" for side in ("source", "target")]
    for path, data in zip(paths, (source, target), strict=True):
        path.write_bytes(data.encode() if isinstance(data, str) else data)
    return [*check_pair(Pair(*paths, file_format, **{"settings": Settings(), "rules": rules} | more))]


def found(
    folder: Path, file_format: str, texts: list[tuple[str, str]], rules: Rules = RULES, lost: Collection[int] = ()
) -> list[Finding]:
    source, target = (page(file_format, texts, is_target=is_target, lost=lost) for is_target in (False, True))
    return checked(folder, file_format, source, target, rules)


def seeded(tmp_path: Path, file_format: str, size: int) -> tuple[int, int, int]:
    """Returns how many faults were put into every second text, how many of them were found, and what else."""
    markup = MARKUP[file_format]
    kinds = [*FAULTS, *markup, "missing"]
    texts, wanted = [], {}
    for number in range(size):
        source, said = sentence(number)
        more = [*markup.values()][number // 2 % len(markup)]
        texts.append((source + more, said + more))
        if number % 2:
            kind = wanted[number] = kinds[number // 2 % len(kinds)]
            if kind in FAULTS:
                texts[-1] = source + more, FAULTS[kind](source, said) + more
            elif kind != "missing":
                texts[-1] = source + markup[kind], said
    lost = [number for number, kind in wanted.items() if kind == "missing"]
    others = found(tmp_path, file_format, [each for number, each in enumerate(texts) if number not in wanted])
    findings = found(tmp_path, file_format, texts, lost=lost)
    told = {("missing" if each.kind == "block" else each.kind, each.source.split(" und ")[0]) for each in findings}
    due = {(kind, texts[number][0].split(" und ")[0]) for number, kind in wanted.items()}
    return len(due), len(due & told), len(told - due) + len(others)


@pytest.mark.parametrize("file_format", MARKUP)
def test_seeded_faults_are_found_and_nothing_else(file_format: str, tmp_path: Path) -> None:
    size = 84 if file_format in ("markdown", "html", "rst", "asciidoc", "yaml", "json", "xliff", "po", "docx") else 44
    count, hits, others = seeded(tmp_path, file_format, size)
    assert count >= size // 2 - 2 and hits >= 0.95 * count and others <= 0.05 * count, (count, hits, others)


@pytest.mark.parametrize(
    ("file_format", "source", "said"),
    [
        ("yaml", "Es gibt 1.000,5 Orte und drei Dörfer.", "There are 1,000.5 places and 3 villages."),
        ("yaml", "Um 19 Uhr am 3. Mai", "At 7 p.m. on 3 May"),
        ("yaml", "%{count} von %{total} Dateien", "%{count} of all %{total} files, %{count} of them new"),
        ("yaml", "%s hat %s eingeladen", "%2$s was invited by %1$s"),
        ("yaml", "Siehe https://de.wikipedia.org/wiki/Haus", "See https://en.wikipedia.org/wiki/House"),
        ("yaml", "Neustadt Nord", "Neustadt Nord"),
        ("yaml", "in Visual Studio Code:", "in Visual Studio Code:"),
        ("yaml", "Ja, sicher", "Yes, I am quite sure of that"),
        ("yaml", "Gerät mit <strong>Strom</strong>", "Device-based <b>power</b>"),
        ("yaml", "Alle Geräte", "All devices"),
        ("rst", ".. versionadded:: 7.1\n\nDer `hohe Turm`", ".. versionadded:: 7.1\n\nThe `high tower`"),
        ("rst", "Der `Turm <a_>`_ und ein :x:`a`", "The `tower <a_>`_ and one :x:`a`"),
        ("fluent", "a = Der Turm\n", 'a = {""}*The* tower\n'),
        (
            "rst",
            ".. code-block:: c\n   :caption: Der Turm\n\n   x",
            ".. code-block:: c\n   :caption: Tower\n\n   x",
        ),
        ("rst", "Im :x:`a{b}`. Der Turm und :x:`~c`", "In :x:`a{b}`. The tower :x:`~c`"),
        ("rst", "Der `link vom Turm`_", "The `tower <link vom turm_>`__"),
        ("rst", r"Zum (:x:`\`\`a''` nur) Turm (:x:`\`\`b''`)", r"To the (:x:`\`\`a''`) tower (:x:`\`\`b''`)"),
        ("asciidoc", 'Der "`hohe Turm`" und `a`', 'The "`high tower`" and `a`'),
        ("rst", "Der hohe Turm\n```", "The high tower ```"),
        ("rst", "## Der hohe Turm", "The high tower ##"),
        ("markdown", "Klick auf `Speichern und zurück`.", "Click on `Save and go back`."),
        ("markdown", "Ruf `tool zeige datei` auf", "Call `tool show file`"),
        ("markdown", "```sh\nls # alle\necho 'Hallo Welt'\n```", "```sh\nls # all of them\necho 'Hello'\n```"),
        ("markdown", "[Haus](/de/haus/#dach)", "[House](/en/house/#roof)"),
        ("markdown", "![Bild](de/bild.png) ist groß", "![Image](en/image.png) is large"),
        ("markdown", "Der Puffer ist leer.", 'The <abbr title="a store">buffer</abbr> is empty.'),
        ("markdown", "Drück `[Strg] + Klick`.", "Press `[Strg] + click`."),
        ("markdown", "Öffne `System - Lager und -Turm`.", "Open `System - Store and Tower`."),
        ("markdown", "> Ruf `tool -a\n> tor` auf.", "> Call `tool -a tor`."),
        ("markdown", "Die Methode `Lager.frei()` und ein `turm`", "The method `Lager.frei` and a `Turm`"),
        (
            "markdown",
            "```\nHallo ##name##, danke für den Turm.\n```",
            "```\nThank you for it, ##name##, dear tower.\n```",
        ),
        (
            "markdown",
            "Turm:\n\n```md\n---\nautor: Turm-Wart\n---\n```",
            "Tower:\n\n```md\n---\nautor: Keeper of towers\n---\n```",
        ),
        (
            "markdown",
            "Der Turm\nist `{x}` alt\nund hoch.\n\n> Ja\n> so.",
            "The tower is {x} old and high.\n\n> Yes so.",
        ),
        ("markdown", "Der Turm &#8364; ist &#123; hier.", "The tower € is \\{ there."),
        ("markdown", "Nimm `<b>Der Turm</b>`", "Take `<b>Tower</b>`"),
        ("markdown", "[Turm](https://haus.de/a) dort", "[Tower](https://other.org/b) there"),
        ("markdown", 'Das Ereignis `"start"` und `Neu\nab:`', "The event `start` and `New since:`"),
        (
            "markdown",
            "Turm:\n\n```\nLiebe ##x##,\nsie haben den Turm ##y## abonniert.\n```",
            "Tower:\n\n```\nDear ##x##, you have got\n##y##.\n```",
        ),
        (
            "markdown",
            "Turm:\n\n```astro\n<p>Ich habe {a + 8} {b}</p>\n```",
            "Tower:\n\n```astro\n<p>{a + 8} {b}</p>\n```",
        ),
        ("markdown", "Der Wert[^1] ist gut.\n\n[^1]: Fast.", "The value is good.[^1]\n\n[^1]: Nearly."),
        ("yaml", "Der Turm</div>", "The tower"),
        ("markdown", "Der Wert 0,5 ist gut.", "The value `0.5` is good."),
        ("yaml", "z. B. 123 456 und mehr", "e.g. 93/815 and more"),
        ("yaml", "HH mm ss, ddd d MMM yyyy TT", "HH mm ss, ddd d MMM yyyy TT"),
        ("yaml", "seit %1d %2h", "since %1T %2h"),
        ("yaml", "zum Beispiel +49 170 1234567", "for example +61 4 9876 5432"),
        ("yaml", "Das betrifft 100 % der Orte.", "This concerns all places."),
        ("yaml", "vor %ldj", "%ld years ago"),
        ("yaml", "<b>Eins und</b> <b>zwei</b>", "<b>One and two</b>"),
        ("yaml", "<b>Eins</b> und <b>zwei</b>", "<b>One</b> <b>two</b>, too"),
        ("yaml", "Der Turm <Wahl>", "The tower"),
        ("json", "Das :attribute ist :value.", "フィールド:attributeは:valueです。"),
        ("json", "Der Wert: :attribute ist OK", "数值：:attribute必须"),
        ("json", "Stand: OK", "状态:OK"),
        ("markdown", "<c>Der Turm</c> da", "<c>The\ntower</c> there"),
        ("asciidoc", "\"`'`Turm`' ist hier > 5.`\"", "\"`'`Tower`' > 5.`\""),
        (
            "asciidoc",
            "Der Turm steht hier.\n\n:x: y",
            "&#42;&#42;The&#42;&#42; &#60;&#60;tower&#62;&#62; &#91;&#91;stands&#93;&#93; here.\n\n:x: y",
        ),
        ("asciidoc", 'Der Turm (`"`), 5 (`"`)', 'The 5 (`"`) and tower (`"`)'),
        ("json", "Der Turm：Haus", "The tower :Haus"),
        ("asciidoc", 'Der Turm "git://a.de/b"', "The tower &#34;git://a.de/b&#34;"),
        ("asciidoc", "Im Turm", "{empty}1. In the tower {plus} there"),
        ("rst", "Der Turm und `Code der Wahl`_", r"\`the tower: `“code” <code der wahl_>`__"),
        ("rst", "Der `gute Turm >= 4.0` hier", "The `tower >= 4.0` here"),
        ("rst", "Mehr: :doc:`Die Wahl </usage/a>` der :dfn:`Türme`", "More: :doc:`selecting </usage/a>` :dfn:`tower`"),
    ],
)
def test_nothing_is_said_of_what_people_write(file_format: str, source: str, said: str, tmp_path: Path) -> None:
    assert not found(tmp_path, file_format, [(source, said)])


@pytest.mark.parametrize(("name", "unit"), [("rst", ":a"), ("markdown", "~")])
def test_marks_are_looked_through_in_linear_time(name: str, unit: str, tmp_path: Path) -> None:
    def check(size: int) -> None:
        (tmp_path / "a").write_text(unit * (size // len(unit)))
        list(check_pair(Pair(tmp_path / "a", tmp_path / "a", name, Settings(), RULES)))

    assert_linear(check, 3000)


@pytest.mark.parametrize("unit", ["`a{}b` ", "[a](http://a{}.de/) ", "<a{0}>x</a{0}> ", "{{{{ a{} }}}} "])
def test_marks_that_are_lost_are_looked_for_in_linear_time(unit: str) -> None:
    def check(count: int) -> None:
        source, said = ("".join(map(unit.format, range(start, start + count))) for start in (0, count))
        assert list(compare(source, said, RULES))

    assert_linear(check, 200)


UNIT = (
    "<xliff><file><body><trans-unit id='1'><source><x id='1'/>Das Haus </source>{}</trans-unit></body></file></xliff>"
)
HEAD = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'
NAMES = 'msgid "translator-credits"\nmsgstr ""\n\nmsgctxt "NAME OF TRANSLATORS"\nmsgid "Your names"\nmsgstr ""\n'


@pytest.mark.parametrize(
    ("file_format", "page", "said"),
    [
        ("xliff", UNIT, "<target><x id='1'/>The house </target>"),
        ("po", HEAD + 'msgid "Use B<the> house, I<5>"\nmsgstr "{}"\n', "Nehmen Sie B<das> Haus, I<5>"),
        ("po", HEAD + NAMES, ""),
    ],
    ids=["tags and spaces at ends of units", "marks of manual pages", "what translators write of themselves"],
)
def test_what_is_no_new_text_is_not_missing(file_format: str, page: str, said: str, tmp_path: Path) -> None:
    assert not checked(tmp_path, file_format, page.format(""), page.format(said))


def test_links_go_to_what_was_translated(tmp_path: Path) -> None:
    (tmp_path / "en").mkdir()
    source, target = tmp_path / "a.md", tmp_path / "en" / "a.md"
    links = "# {}\n\n[a](#{}), ![b]({})\n\n![c](/c.png) [d]({}#x)\n"
    source.write_text(links.format("Über uns", "über-uns", "b.png", "https://a.org"))

    def told(*said: str) -> list[str]:
        target.write_text(links.format(*said))
        return [each.text for each in check_pair(Pair(source, target, "markdown", Settings(), RULES, is_strict=True))]

    assert not told("About us", "about-us", "../b.png", "https://a.org")
    assert not told("About us", "über-uns", "b.png", "https://a.org")
    assert "=#about-them title=' is new" in told("About us", "about-them", "b.png", "https://a.org")[0]
    assert "=https://b.org#x title=' is new" in told("About us", "about-us", "b.png", "https://b.org")[0]


def test_plurals(tmp_path: Path) -> None:
    pages = [
        f"{code}:\n  a:\n    one: '{one}'\n    other: '{two}'\n  b:\n    one: '{three}'\n    other: '{four}'\n"
        for code, one, two, three, four in (
            ("de", "Eine Datei", "%{n} Dateien", "%{n} Ort", "%{n} Orte"),
            ("en", "%{n} file", "%{n} files", "One place", "places"),
        )
    ]
    assert [(each.line, each.kind, each.text) for each in checked(tmp_path, "yaml", *pages)] == [
        (7, "placeholder", "'%{n}' is not in the translation")
    ]


def test_forms_of_a_source_with_one(tmp_path: Path) -> None:
    plurals = '<resources><plurals name="a">\n{}<item quantity="other">{}</item>\n</plurals></resources>'
    source = plurals.format("", "%d Orte")
    target = plurals.format('<item quantity="one">%d place</item>\n', "%d of %d places")
    told = [(each.line, each.text) for each in checked(tmp_path, "android", source, target)]
    assert told == [(3, "'%d' is in the translation only")]


@pytest.mark.parametrize(
    ("file_format", "source", "said", "kind"),
    [
        ("markdown", "Ruf `tool -a` auf", "Call it", "code"),
        ("rst", "Mehr: :doc:`Die Wahl </usage/a>`", "More: :doc:`selecting </usage/b>`", "code"),
        (
            "markdown",
            "Turm:\n\n```\nHallo NAME, danke für 3 Orte.\n```",
            "Tower:\n\n```\nThank you for all 4 NAME.\n```",
            "code",
        ),
        ("markdown", "Turm:\n\n```md\n[Der Turm](a/b.md)\n```", "Tower:\n\n```md\n[The tower](a/c.md)\n```", "code"),
        ("yaml", "Das betrifft 100 Orte.", "This concerns all places.", "number"),
        ("yaml", "Ruf (555) 12 an, Fax (555) 13.", "Call (55) 12, fax (555) 13.", "number"),
        ("yaml", "Der <b>Turm", "The </b> <b>tower", "tag"),
        ("html", '<p><a href="/turm">Der Turm</a></p>', "<p>The tower</p>", "link"),
        ("html", '<p>Der <a href="/turm">Turm</a></p>', '<p>The <a href="">tower</a></p>', "link"),
        ("html", '<p>Der <a href="/turm">Turm</a></p>', '<p>The <a href="#">tower</a></p>', "link"),
        ("yaml", "Die <Wahl>Orte</Wahl>", "The places", "tag"),
        ("markdown", "[Turm](https://haus.de/a) dort", "[Tower](https://hau.de/a) there", "link"),
        ("markdown", "Eins.\n\n# Der Garten\n\nZwei.", "One.\n\nTwo.", "block"),
        ("asciidoc", 'Der Turm `"a.b"` am `"c.d"`', 'The tower `"a.b"` at the `"x.y"`', "code"),
    ],
)
def test_what_is_wrong_is_told(file_format: str, source: str, said: str, kind: str, tmp_path: Path) -> None:
    assert kind in {each.kind for each in found(tmp_path, file_format, [(source, said)])}


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ("+------+-----------------+\n| Turm | Ruf ``ls`` auf  |\n+------+-----------------+\n", 4),
        ("====  ===============\nTurm  Ruf ``ls`` auf\n====  ===============\n", 4),
        (".. csv-table::\n\n   Turm,Ruf ``ls`` auf\n", 5),
        ("+-------------+\n| Turm::      |\n|             |\n|    ``ls``   |\n+-------------+\n", 6),
    ],
)
def test_code_in_a_cell_is_looked_at(table: str, line: int, tmp_path: Path) -> None:
    page = f"Der Turm\n\n{table}"
    for said, expected in ((page, []), (page.replace("``ls``", "call  "), [(line, "code")])):
        told = [(each.line, each.kind) for each in checked(tmp_path, "rst", page, said) if each.kind != "same"]
        assert told == expected


@pytest.mark.parametrize(("mark", "expected"), [("&#60;mark&#62;", []), ("<mark>", []), ("mark", ["tag"])])
def test_a_tag_that_a_text_names_may_be_written_otherwise(mark: str, expected: list[str], tmp_path: Path) -> None:
    texts = [("Der Text ist wie <mark> gelb.", f"The text is yellow as {mark} is.")]
    assert [each.kind for each in found(tmp_path, "asciidoc", texts)] == expected


def test_a_block_that_is_no_translation_is_missing_where_the_other_is(tmp_path: Path) -> None:
    texts = [("# Ein Haus\n\nDie Schleife `range` ist leer.", "# A house\n\nGive it by `tool install -f` or `--set`.")]
    assert [(each.line, each.kind) for each in found(tmp_path, "markdown", texts)] == [(3, "block")]


def test_a_text_may_have_plural_forms_and_no_words(tmp_path: Path) -> None:
    source = "de:\n  a: Milliarde\n  b: 'v%{x}'\n  c: Turm\n  d: OpenID\n"
    target = "en:\n  a:\n    one: billion\n    other: billions\n"
    assert [each.text for each in checked(tmp_path, "yaml", source, target)] == ["'c' is not translated"]


KEYS = 'msgctxt "a.id"\nmsgid "Turm"\nmsgstr ""\n\nmsgctxt "b"\nmsgid "Turm"\nmsgstr ""'


@pytest.mark.parametrize(
    ("file_format", "source", "target"),
    [("json", '{"a": {"id": "Turm"}, "b": "Turm"}', "{}"), ("po", KEYS, KEYS)],
    ids=["json", "po"],
)
def test_keys_are_left_out(file_format: str, source: str, target: str, tmp_path: Path) -> None:
    told = checked(tmp_path, file_format, source, target, settings=Settings(skip_keys=("id",)))
    assert [each.kind for each in told] == ["missing"]


def test_what_is_lost_of_catalogues(tmp_path: Path) -> None:
    assert [(each.kind, each.text) for each in found(tmp_path, "po", [("Ein Turm", "")])] == [
        ("missing", "'Ein Turm' is not translated")
    ]
    source = 'msgid "Der Turm"\nmsgstr ""\n\n\n\n\nmsgid "Ein Haus"\nmsgstr ""\n'
    target = 'msgid "Der Turm"\nmsgstr "The tower"\n\nmsgid "Noch"\nmsgstr ""\n'
    assert [(each.line, each.text) for each in checked(tmp_path, "po", source, target)] == [
        (4, "'Noch' is not translated"),
        (1, "'Ein Haus' is not translated"),
    ]
    rows = '<data name="a"><value>Turm</value></data><data name="b"><value>Nur ein Turm im Garten</value></data>'
    told = checked(tmp_path, "resx", f"<root>{rows}</root>", "<root></root>")
    assert [each.text for each in told] == ["'b' is not translated"]


def test_images_of_a_word_processor(tmp_path: Path) -> None:
    image = "</w:t></w:r><w:r><w:drawing/></w:r><w:r><w:t>"
    texts = [(f"Das {image} zeigt es.", f"The {image} shows it."), (f"Hier steht {image} etwas.", "It says something.")]
    assert [(each.kind, each.text) for each in found(tmp_path, "docx", texts)] == [
        ("placeholder", "'{t1}' is not in the translation")
    ]


def test_remarks_of_reviewers_stay(tmp_path: Path) -> None:
    text = '<w:{0} xmlns:w="w"><w:p><w:r><w:t>{1}</w:t></w:r></w:p></w:{0}>'
    comments = text.format("comments", "Bitte lesen Sie das noch einmal.")
    source, target = (
        package({"word/document.xml": text.format("document", said), "word/comments.xml": comments})
        for said in ("Das ist ein Haus.", "That is a house.")
    )
    assert checked(tmp_path, "docx", source, target) == []


RUNS = {
    "docx": (
        "<w:r><w:rPr><w:b/></w:rPr><w:t>{}</w:t></w:r>",
        "<w:r><w:footnoteReference w:id='1'/></w:r>",
        "<w:r><w:commentReference w:id='1'/></w:r>",
    ),
    "odt": (
        '<text:span text:style-name="T1">{}</text:span>',
        "<text:note><text:note-citation>1</text:note-citation></text:note>",
        "<office:annotation/>",
    ),
}
"""What word processors write for bold words, notes and comments."""


@pytest.mark.parametrize("file_format", RUNS)
def test_what_is_lost_of_word_processors(file_format: str, tmp_path: Path) -> None:
    bold, note, comment = RUNS[file_format]

    def written(*texts: str) -> bytes:
        if file_format == "docx":
            pattern = r"(?:^|(?<=>))[^<>]+(?=<(?!/w:t)|$)"
            runs = (re.sub(pattern, r"<w:r><w:t>\g<0></w:t></w:r>", each) for each in texts)
            body = "".join(f"<w:p>{each}</w:p>" for each in runs)
            return package({MEMBERS["docx"]: f'<w:document xmlns:w="w"><w:body>{body}</w:body></w:document>'})
        style = '<style:style style:name="T1"><style:text-properties fo:font-weight="bold"/></style:style>'
        body = "".join(f"<text:p>{each}</text:p>" for each in texts)
        return package({MEMBERS["odt"]: f"<office:document>{style}{body}</office:document>"})

    source = f"Der {bold.format('Turm')} ist hoch und alt{note} hier.", f"Das {bold.format('Haus')} ist{comment} groß."
    source += f"Das Tor steht{note} offen.", f"{comment}Ein Garten{note}"
    good = f"The {bold.format('tower')} is high and old here{note}.", f"The {bold.format('house')} is{comment} large."
    good += f"The gate is open{note}", f"A{note} garden{comment}"
    bad = "The tower is high and old here.", "The house is large.", "The gate is open", "A garden"
    assert checked(tmp_path, file_format, written(*source), written(*good)) == []
    told = checked(tmp_path, file_format, written(*source), written(*bad))
    said = [(each.kind, each.text.split("'")[1]) for each in told]
    lost = ("<note>", "<b>", "</b>", "<comment>", "<b>", "</b>", "<note>", "<comment>", "<note>")
    assert said == [("tag", each) for each in lost]


@pytest.mark.parametrize(
    ("file_format", "mark"), [("po", "&"), ("xliff", "&amp;"), ("qt", "&"), ("resx", "&"), ("properties", "&")]
)
def test_accelerators(file_format: str, mark: str, tmp_path: Path) -> None:
    texts = [(f"{mark}Datei", "File"), (f"{mark}Bearbeiten", f"{mark}Edit")]
    assert [each.kind for each in found(tmp_path, file_format, texts)] == ["accelerator"]


@pytest.mark.parametrize("file_format", [each for each in MARKUP if each not in ("po", "qt", "xcstrings")])
def test_what_is_outdated(file_format: str, tmp_path: Path) -> None:
    texts = [sentence(number) for number in range(3)]
    pair = Updated(tmp_path, f"page.{SUFFIX.get(file_format, file_format)}")
    pair.source.write_bytes(page(file_format, texts, is_target=False))
    pair.update()
    checked = Pair(pair.source, pair.target, file_format, Settings(), RULES, record=pair.files.record)
    assert not [each for each in check_pair(checked) if each.kind in ("outdated", "missing")]
    texts[1] = texts[1][0].replace("zuerst", "zuletzt"), ""
    pair.source.write_bytes(page(file_format, texts, is_target=False))
    kinds = [each.kind for each in check_pair(checked) if each.kind in ("outdated", "missing")]
    # In files that have both languages the new text is one that is missing, too; in others of those it is only that.
    assert kinds == ["missing", "outdated"][file_format not in BOTH :]


def test_what_is_outdated_is_so_until_someone_says_otherwise(tmp_path: Path) -> None:
    pair = Updated(tmp_path, "page.md")
    pair.update("Eins.\n\nZwei.\n")
    pair.revise("ZWEI", "Two")
    pair.update("Eins.\n\nZwei und mehr.\n")
    checked = Pair(pair.source, pair.target, "markdown", Settings(), RULES, record=pair.files.record)
    assert [(each.line, each.kind) for each in check_pair(checked)] == [(3, "outdated")]
    pair.revise("Two", "Two and more")
    assert not [*check_pair(checked)]


@pytest.mark.parametrize(
    ("name", "source", "old"),
    [
        ("page.md", "Am 3. Mai.\n\nAm 4. Juni.\n\nAm 5. Juli.\n", "AM 4. JUNI.\n\n"),
        ("de.json", '{"a": "Am 3. Mai.", "b": "Am 4. Juni.", "c": "Am 5. Juli."}\n', '"b": "AM 4. JUNI.", '),
    ],
)
def test_what_a_person_deleted_is_not_missing(name: str, source: str, old: str, tmp_path: Path) -> None:
    pair = Updated(tmp_path, name)
    pair.update(source)
    pair.edit(old, "")
    checked = Pair(pair.source, pair.target, pair.files.file_format, Settings(), RULES, record=pair.files.record)
    assert [each.kind for each in check_pair(checked)] == ["block" if name == "page.md" else "missing"]
    pair.update()
    assert not [*check_pair(checked)]
    pair.edit("5. JULI", "6. JULI")
    assert [each.kind for each in check_pair(checked)] == ["number", "number"]


@pytest.mark.parametrize("file_format", [each for each in MARKUP if each not in ("html", "properties")])
def test_what_is_damaged(file_format: str, tmp_path: Path) -> None:
    source, target = (page(file_format, [sentence(0)], is_target=is_target) for is_target in (False, True))
    (finding,) = checked(tmp_path, file_format, source, target[: len(target) // 2] + b"\xff\xff\x00")
    assert (finding.kind, finding.level) == ("parse", "error")


@pytest.mark.parametrize("file_format", [each for each in MARKUP if each not in (*BOTH, "yaml")])
def test_du_and_sie_are_mixed(file_format: str, tmp_path: Path) -> None:
    texts = [
        ("Do you have time?", "Hast du Zeit?"),
        ("Take the bike.", "Nimm dein Rad."),
        ("If you want.", "Wenn Sie wollen."),
    ]
    rules = Rules(languages=("en", "de"))
    assert [each.kind for each in found(tmp_path, file_format, texts, rules)] == ["tone"]


@pytest.mark.parametrize("name", ["gone.yml", "damaged.yml"])
def test_what_cannot_be_read(name: str, tmp_path: Path) -> None:
    (tmp_path / "de.yml").write_text("de:\n  a: Haus\n")
    (tmp_path / "damaged.yml").write_text("en:\n  a: 'House\n")
    (finding,) = check_pair(Pair(tmp_path / "de.yml", tmp_path / name, "yaml", Settings(), RULES))
    assert (finding.kind, finding.level) == (("parse", "error") if name == "damaged.yml" else ("missing", "warning"))


@pytest.mark.parametrize(
    ("tone", "said", "lines"),
    [
        (None, ["Hast du Zeit?", "Nimm dein Rad.", "Wenn Sie wollen."], [4]),
        ("Sie", ["Hast du Zeit?", "Nimm das Rad.", "Wenn Sie wollen."], [2]),
        (None, ["Sie sind da.", "Nimm dein Rad.", "Ihr Haus."], []),
    ],
)
def test_how_the_reader_is_addressed(tone: str | None, said: list[str], lines: list[int], tmp_path: Path) -> None:
    pages = [
        f"{code}:\n" + "".join(f"  k{number}: {text}\n" for number, text in enumerate(texts))
        for code, texts in (
            ("en", ["Do you have time?", "Take the bike.", "If you want.", "Dir"]),
            ("de", [*said, "Dir"]),
        )
    ]
    told = checked(tmp_path, "yaml", *pages, Rules(languages=("en", "de")), tone=tone)
    assert [each.line for each in told if each.kind == "tone"] == lines


def test_items_of_an_array_of_android_are_all_there(tmp_path: Path) -> None:
    array = '<resources><string-array name="a">{}</string-array></resources>'
    source = array.format("<item>Eins hier</item><item>Zwei da</item><item>Drei dort</item>")
    (finding,) = checked(tmp_path, "android", source, array.format("<item>One here</item><item>Two there</item>"))
    assert (finding.kind, finding.text) == ("missing", "'a[2]' is not translated")


@pytest.mark.parametrize(("said", "expected"), [("17:00", []), ("-", ["block"])])
def test_a_time_of_day_may_have_no_words(said: str, expected: list[str], tmp_path: Path) -> None:
    texts = [("Das ist der Turm.", "This is the tower."), ("17 Uhr", said), ("Dort ist er.", "There it is.")]
    assert [each.kind for each in found(tmp_path, "html", texts)] == expected


def test_every_kind_is_known() -> None:
    assert {*FAULTS, *(kind for each in MARKUP.values() for kind in each)} < {*KINDS}


if __name__ == "__main__":
    for name in MARKUP:
        with tempfile.TemporaryDirectory() as folder:
            print(name, *seeded(Path(folder), name, 240))
