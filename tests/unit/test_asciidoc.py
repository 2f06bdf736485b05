"""AsciiDoc: what the sample does not show; Asciidoctor, where it is installed, reads the same blocks."""

from __future__ import annotations

import html
import re
import shutil
import subprocess

import pytest

from specmt.formats.asciidoc_inline import find
from specmt.text.tags import carry
from specmt.types import Tagged
from tests.documents import SAMPLES, fill, read, texts_of, translate

HOSTILE = [
    "*a*", "_a_", "`a`", "#a#", "<<a>>", "{a}", "* a", ". a", ".a",
    "= a", "a::", "// a", "[a]", "NOTE: a", "|a", "image::a[]", "+",
]  # fmt: skip
PAGES = [
    "Haus\n", "== Haus\n", "* Haus\n", "Haus *am* Meer\n", "|===\n|Haus\n|===\n", "Haus:: Hof\n", "Haus\nund Hof\n",
]  # fmt: skip


def shape(page: str) -> list[str]:
    """Returns the elements that Asciidoctor makes of a page, and their targets."""
    command = ["asciidoctor", "-q", "-b", "docbook5", "-S", "secure", "-o", "-", "-"]
    found = subprocess.run(command, input=page, capture_output=True, text=True, check=True).stdout
    return re.findall(r"<(?!date|\?|!)/?[\w:]+(?: (?:xl:href|linkend|language)=\"[^\"]*\")*", found)


@pytest.mark.skipif(shutil.which("asciidoctor") is None, reason="needs asciidoctor")
def test_asciidoctor_reads_the_same_blocks() -> None:
    (page,) = [sample.source for sample in SAMPLES if sample.format == "asciidoc"]
    assert shape(translate(read("asciidoc", page.encode())).decode()) == shape(page)


@pytest.mark.parametrize("said", HOSTILE)
def test_a_translation_is_never_markup(said: str) -> None:
    """Read again, it is the same text in the same blocks."""
    for page in PAGES:
        document = read("asciidoc", page.encode())
        source = document.segments[0].source
        tagged = carry(source, f"{said} {source.text}", [(n, n + len(said.split())) for n in range(3)])[0]
        data, told = fill(document, {0: tagged})
        again = read("asciidoc", data.encode())
        assert len(again.segments) == len(document.segments), data
        text = re.sub(r"\{t\d\}", lambda _: "", again.segments[0].source.text)
        assert told or text.endswith(source.text.split()[-1]), data


@pytest.mark.parametrize(
    ("page", "said", "expected"),
    [
        ("Haus\n", "*家*", "&#42;家&#42;\n"),
        ("Siehe <<_das_haus>>.\n\n== Das Haus\n", "The house", "Siehe <<_das_haus>>.\n\n[#_das_haus]\n== The house\n"),
        ("Siehe <<Das Haus>>.\n\n== Das Haus\n", "The house", "Siehe <<_das_haus>>.\n\n[#_das_haus]\n== The house\n"),
        ("<<Das Haus>>\n\n[[h]]\n== Das Haus\n", "The house", "<<h>>\n\n[[h]]\n== The house\n"),
        ("Haus\n----\n", "Hochhaus", "Hochhaus\n--------\n"),
        ("Eins.\nZwei.\n", "Two.", "Eins.\nTwo.\n"),
    ],
)
def test_links_and_lines_stay(page: str, said: str, expected: str) -> None:
    document = read("asciidoc", page.encode())
    data, _ = fill(document, {len(document.segments) - 1: Tagged(said)})
    assert data == expected or data.startswith(expected)


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ("== Haus\nHof\n", ["Haus", "Hof"]),
        ("Haus\n====\nAnna <a@b.de>\n:toc: left\n\nHof\n", ["Haus", "Hof"]),
        ("[[a]]\n= Haus\nAnna <a@b.de>\n\nHof\n", ["Haus", "Hof"]),
        ("= Haus\n:description: Der *Hof*\n:url: /a\n:title: A \\\nB\n\n:x-label: Tor\n", ["Haus", "Der Hof", "Tor"]),
        ("Bei https://a.de/b. Und _link:/b[Hof]_, _https://a.de[Tor]_\n", ["Bei {t1}. Und Hof, Tor"]),
        ("Im link:pass:[a b.pdf][Haus], link:++c d++[Hof]\n", ["Im Haus, Hof"]),
    ],
)
def test_headers_and_targets_are_no_text(page: str, texts: list[str]) -> None:
    assert texts_of(read("asciidoc", page.encode())) == texts


@pytest.mark.parametrize(
    ("page", "said", "expected"),
    [
        ("`a.*` und `b.\\*`\n", "{t2} und {t1}", None),
        ("Haus\n", "House;; garden", "House&#59;&#59; garden\n"),
        ("Haus &amp; Hof\n", "House {t1}; garden", None),  # with the end of the entity, it would be a term
        ("Haus {}\n", "`House {}", "&#96;House {}\n"),
        ("Siehe https://a.de.\n", "<{t1}>", "<https://a.de>\n"),
        ("Bei https://a.de/b.> da\n", "There at {t1}", "There at https://a.de/b.>\n"),
        ("Bei <https://a.de/b.> da\n", "There at <{t1}>!", "There at <https://a.de/b.>!\n"),
    ],
)
def test_marks_are_not_read_with_what_is_beside_them(page: str, said: str, expected: str | None) -> None:
    document = read("asciidoc", page.encode())
    source = document.segments[0].source
    tags = carry(source, said, [(n, n) for n in range(len(said.split()))])[0]
    data, told = fill(document, {0: tags})
    assert data == (expected or page) and bool(told) == (expected is None)


@pytest.mark.parametrize(
    ("order", "expected"),
    [((0, 1, 2, 3), "#rot# und https://a.de[Nr. #1]\n"), ((2, 3, 1, 0), "https://a.de[Nr. &#35;1] und #rot#\n")],
)
def test_a_mark_in_a_link_opens_nothing(order: tuple[int, ...], expected: str) -> None:
    document = read("asciidoc", b"#rot# und https://a.de[Nr. #1]\n")
    source = document.segments[0].source
    words = source.text.split()
    said = carry(source, " ".join(words[n] for n in order), [(n, place) for place, n in enumerate(order)])[0]
    assert document.write({0: said}, print).decode() == expected


def test_marks_that_touch_a_word_are_doubled() -> None:
    document = read("asciidoc", b"Das *Haus* hier\n")
    source = document.segments[0].source
    inner = source.tags[0]
    tagged = Tagged("ab家cd", (type(inner)(2, 3, inner.open, inner.close),))
    assert document.write({0: tagged}, print).decode() == "ab**家**cd\n"


@pytest.mark.parametrize(
    ("page", "said", "expected"),
    [
        ("Haus (`hof`)\n", "House{t1}", "House``hof``\n"),
        ("Haus [.a]`hof`\n", "*{t1}* house", "&#42;[.a]``hof``&#42; house\n"),
        ("Haus `A_B`, `C_D`\n", "House {t2} {t1}", "House `C_D` `A_B`\n"),
    ],
)
def test_code_that_touches_a_word_or_a_sign_is_in_two_marks(page: str, said: str, expected: str) -> None:
    document = read("asciidoc", page.encode())
    tagged, _ = carry(document.segments[0].source, said, [])
    assert document.write({0: tagged}, print).decode() == expected


@pytest.mark.parametrize("code", ['"hof"', "+hof+"])
def test_code_with_marks_of_its_own_is_not_in_two(code: str) -> None:
    page = f"Haus (`{code}`)\n"
    document = read("asciidoc", page.encode())
    tagged, _ = carry(document.segments[0].source, "House{t1}", [])
    data, told = fill(document, {0: tagged})
    assert data == page and told


def test_quotation_marks_that_would_touch_a_sign_stay_where_they_are() -> None:
    page = "Das '`Haus`' hier\n"
    document = read("asciidoc", page.encode())
    (tag,) = document.segments[0].source.tags
    data, told = fill(document, {0: Tagged("ab;Haus", (type(tag)(3, 7, tag.open, tag.close),))})
    assert data == page and told


def test_a_space_that_does_not_break_is_text_in_marks() -> None:
    page = "x~a\xa0b~ y^c\xa0d^ *e\xa0* *\xa0f* z~a b~\n"
    (segment,) = read("asciidoc", page.encode()).segments
    marks = [page[slice(*tag.open)] + page[slice(*(tag.close or (0, 0)))] for tag in segment.source.tags]
    assert marks == ["~~", "^^", "**", "**"]


def test_attributes_that_are_escaped_are_copied() -> None:
    assert translate(read("asciidoc", b"Der Wert \\{haus} gilt\n")) == b"DER WERT \\{haus} GILT\n"


def test_what_is_code_by_its_style_or_its_column_is_left() -> None:
    page = b"[source]\nnein\n\n[mermaid]\n--\nnein\n--\n\n[synopsis]\nnein [-x]\n"
    page += b'\n[cols="1m"]\n|===\n|nein\n|===\n\n[format=tsv]\n|===\nnein,nein\n|===\n'
    document = read("asciidoc", page)
    assert not document.segments
    assert {part.reason for part in document.parts} == {"attributes", "code", "markup", "a table of values"}  # type: ignore[attr-defined]


@pytest.mark.parametrize("page", ["das(1)\n======\n\nNAME\n----\n{}\n\n{}\n", "= das(1)\n\n== Name\n{}\n\n{}\n"])
def test_the_names_in_a_manual_page_stay_in_front_of_a_dash(page: str) -> None:
    document = read("asciidoc", page.format("das, da - Ein Haus", "da - Ein Hof").encode())
    said = {number: Tagged(f"{each.source.text}.".upper()) for number, each in enumerate(document.segments)}
    assert "\ndas, da - EIN HAUS.\n\nDA - EIN HOF.\n" in fill(document, said)[0]


def test_a_page_that_names_a_call_is_no_manual_page() -> None:
    page = b"// c\n:a: b\n\n= Das Haus\n\nda - Ein Hof\n\n----\nnein(1)\n----\n"
    assert texts_of(read("asciidoc", page)) == ["Das Haus", "da - Ein Hof"]


@pytest.mark.parametrize("title", ["AUFRUF\n------", "== Synopsis"])
def test_how_a_command_is_called_and_its_options_stay(title: str) -> None:
    page = f"das(1)\n======\n\n== NAME\ndas - HAUS\n\n{title}\n[verse]\n'das' [<nein>]\n\n== HOF\n[verse]\nEIN HAUS\n\n"
    page += "--key=<nein>, -n <nein>::\n  EIN TOR.\n\n-x_nein | [nein]:: TÜR\n"
    assert texts_of(read("asciidoc", page.encode()))[4:] == ["HOF", "EIN HAUS", "EIN TOR.", "TÜR"]


def test_what_begins_in_a_sentence_does_not_end_in_the_next() -> None:
    document = read("asciidoc", b"Ein Haus.\nEin Hof `a`.\n")
    assert document.write({0: Tagged("Ein `Haus.")}, print) == b"Ein &#96;Haus.\nEin Hof `a`.\n"


def test_a_line_that_would_be_an_item_stays_a_line() -> None:
    page = b"Eins und\nzwei:\n* Drei\n* Vier\n"
    assert translate(read("asciidoc", page)) == page.upper()


def test_hard_breaks_of_cells_stay() -> None:
    page = "|===\n|Haus. +\n  Tür und\nTor +\n|Dach\n|===\n"
    assert translate(read("asciidoc", page.encode())).decode() == page.upper()


@pytest.mark.parametrize("head", ["[%hardbreaks]\n", ":hardbreaks-option:\n\n", "= Dorf\n:hardbreaks:\n\nMehr\n\n"])
def test_lines_stay_where_each_end_of_one_is_a_hard_break(head: str) -> None:
    page = f"{head}NOTE: Ein Haus\nund ein *Hof* +\nam Meer\n"
    document = read("asciidoc", page.encode())
    assert texts_of(document)[-3:] == ["Ein Haus", "und ein Hof", "am Meer"]
    assert document.write({}, print) == page.encode()


def test_the_language_of_a_page_becomes_that_of_the_translation() -> None:
    page = b"= Haus\n:lang: de-AT\n\nDas\n"
    assert translate(read("asciidoc", page)) == b"= HAUS\n:lang: en\n\nDAS\n"
    assert translate(read("asciidoc", page, source="fr")) == b"= HAUS\n:lang: de-AT\n\nDAS\n"


VALUES = """
[format="csv",cols="1,1m"]
|===
Haus,nein
"Hof, Tor",nein
*Dach*,"nein"
Eine ""Tür"",nein
|===

,===
Wort,
Noch,"Ein
Satz"
,===

:===
Ofen: Bad
:===

[format=csv, separator=;]
|===
Weg;Steg
|===

[separator=!,cols="1,a"]
|===
!Berg !* Tal
!Ja\\!Nein !
|===
"""


@pytest.mark.skipif(shutil.which("asciidoctor") is None, reason="needs asciidoctor")
@pytest.mark.parametrize("said", ["{}", "{0} {0}", '{}, "a": *b; c!', "'{}' d"])
def test_asciidoctor_reads_as_many_values(said: str) -> None:
    document = read("asciidoc", VALUES.encode())
    texts = texts_of(document)
    assert ";".join(texts) == 'Haus;Hof, Tor;Dach;Eine "Tür";Wort;Noch;Ein Satz;Ofen;Bad;Weg;Steg;Berg;Tal;Ja!Nein'
    data, _ = fill(document, {n: Tagged(said.format(text)) for n, text in enumerate(texts)})
    assert shape(data) == shape(VALUES) and data.count("Haus") == said.count("{")


IMAGES = """
image::a.png["Ein \\"Haus\\", ja",200]

image::a.png[alt="Hof",title='Tor']

image::a.png[alt=Dach,width=3]

image::a.png[Ein "Berg" hier,100]

image:a.png[Rad] 5 image:a.png[alt="See",width=4]

|===
a|image::a.png["Tal",title=Weg]
|===
"""


@pytest.mark.skipif(shutil.which("asciidoctor") is None, reason="needs asciidoctor")
@pytest.mark.parametrize("said", ["{}", '"{}", b=c | d', "'{}' \\", '{}=\\"a, b', "[a]{}] b"])
def test_asciidoctor_reads_as_many_values_of_images(said: str) -> None:
    document = read("asciidoc", IMAGES.encode())
    texts = texts_of(document)
    assert texts == ['Ein "Haus", ja', "Hof", "Tor", "Dach", 'Ein "Berg" hier', "Rad", "See", "Tal", "Weg"]
    data, _ = fill(document, {n: Tagged(said.format(text)) for n, text in enumerate(texts)})
    command = ["asciidoctor", "-s", "-o", "-", "-"]
    page = html.unescape(subprocess.run(command, input=data, capture_output=True, text=True, check=True).stdout)
    assert page.count(" width=") == 4 and all(said.format(text) in page for text in texts), page


@pytest.mark.parametrize("values", ['"Ein ""gutes"" Bild",200', "200,alt", 'role="x",Ein Bild'])
def test_values_of_images_that_are_no_text_are_left(values: str) -> None:
    assert not read("asciidoc", f"image::a.png[{values}]\n".encode()).segments


@pytest.mark.parametrize(
    "table", ['[format=csv]\n|===\n"a" b\n|===\n', "[separator=ab]\n|===\na\n|===\n", "!===\n!a\n!===\n"]
)
def test_values_that_are_parted_otherwise_are_left(table: str) -> None:
    document = read("asciidoc", table.encode())
    assert not document.segments
    assert "a table of values" in {part.reason for part in document.parts}  # type: ignore[attr-defined]


@pytest.mark.parametrize("said", ["At number [#12] here it is", "At here [x it] is [#12] number"])
def test_a_link_ends_at_the_first_bracket_that_is_not_escaped(said: str) -> None:
    page = "Bei https://a.de/d[Nummer [#12\\] hier] ist es\n"
    document = read("asciidoc", page.encode())
    (segment,) = document.segments
    assert segment.source.text == "Bei Nummer [#12] hier ist es"
    data, _ = fill(document, {0: carry(segment.source, said, [(n, n) for n in range(6)])[0]})
    assert data != page and data.count("]") == 1
    if shutil.which("asciidoctor"):
        assert shape(data) == shape(page)


def test_a_footnote_does_not_end_in_what_is_passed_through() -> None:
    page = b"Ein Haus.footnote:[Mit `++]++` hier und ++[++da++]++.] Ende\n"
    assert texts_of(read("asciidoc", page)) == ["Mit {t1} hier und {t2}da{t3}.", "Ein Haus. Ende"]


OLD = """
It is ``quoted text'' and ``other words'' here.

It is `single words' here, and `code` too.

This 'emphasised text' and it's `a code` of its own.
"""


@pytest.mark.skipif(shutil.which("asciidoctor") is None, reason="needs asciidoctor")
@pytest.mark.parametrize(
    "head", ["Page\n====\n", "// a\n:x: y\n\nPage\n=====\n:y:\n", "= Page\n:compat-mode:\n", "= Page\n"]
)
@pytest.mark.parametrize("is_reversed", [True, False])
def test_quotation_marks_of_the_first_asciidoc_are_pairs(head: str, is_reversed: bool) -> None:
    page = head + OLD
    document = read("asciidoc", page.encode())
    said: dict[int, Tagged] = {}
    for number, segment in enumerate(document.segments):
        words = segment.source.text.split()
        order = [*range(len(words))][:: -1 if is_reversed else 1]
        text = " ".join(words[n].upper() if "{t" not in words[n] else words[n] for n in order)
        said[number] = carry(segment.source, text, [(n, order.index(n)) for n in range(len(words))])[0]
    data, told = fill(document, said)
    assert data != page
    if "compat" in head or "\n===" in head:
        assert sorted(shape(data)) == sorted(shape(page)) and not told


def test_terms_of_an_index_keep_their_brackets() -> None:
    text, alone = "The ((big *house*)) and (((a, b))).", "Only (((a, b))) here"
    found = find(text, 0, len(text))
    assert [(each.kind, text[each.start : each.end]) for each in found] == [
        ("open", "(("),
        ("open", "*"),
        ("close", "*"),
        ("close", "))"),
        ("opaque", "(((a, b)))"),
    ]
    assert [each.kind for each in find(alone, 0, len(alone))] == ["opaque"]
