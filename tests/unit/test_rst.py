"""reStructuredText: docutils, which is another parser, reads the same blocks before and after."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from docutils import nodes
from docutils.frontend import get_default_settings
from docutils.parsers.rst import Parser
from docutils.utils import new_document

from specmt.text.tags import carry
from specmt.types import Tagged
from tests.documents import fill, one_to_one, read, shout, texts_of, translate, with_capitals

PAGE = r"""
=====
 Ort
=====

Ein *Haus* mit ``code`` und **Hof**, siehe `Das Ziel`_, Ziel_ oder `dort <https://a.de>`_. [1]_ |x| H\ :sub:`2`\ O
und :sup:`mehr`\ s::

   nein *x

> nein

#. Eins
#. Zwei

   a) Drei

.. admonition:: Ein Titel
   :class: nein

   .. tip:: Vier::

      nein

Das Ziel
--------
Wort *eins* : nein
    Fünf

    -- Anna

:Feld: Sechs
  sieben

--lang=X  Acht
          neun

+---+-------+
| A | B     |
|   +---+---+
|   | C | D |
+---+---+---+
| - eins    |
| - zwei    |
+-----------+

=====  ====
Wort   Text
=====  ====
a      eins
       zwei
b      drei
=====  ====

.. |x| replace:: Ersatz
.. _Ziel: https://b.de
.. [1] Eine Note

.. figure:: a.png

   Unter *dem* Bild
"""


def blocks(text: str) -> Iterator[tuple[int, str, str]]:
    """Yields what docutils reads but for the text, with code and targets."""
    settings = get_default_settings(Parser)
    settings.report_level = 5
    document = new_document("x", settings)
    Parser().parse(text, document)

    def walk(node: nodes.Element, depth: int) -> Iterator[tuple[int, str, str]]:
        for child in node.children:
            if isinstance(child, nodes.Element) and not isinstance(child, nodes.colspec):
                is_named = isinstance(child, nodes.target) and not child.get("refuri")
                if is_named or (isinstance(child, nodes.target) and isinstance(node, nodes.TextElement)):
                    continue  # labels of titles; embedded targets
                if isinstance(child, nodes.system_message):
                    if child["level"] > 1:
                        yield 0, "message", re.sub(r'".*', "", child.astext().split(":")[-1])
                    continue
                code = isinstance(child, nodes.literal | nodes.literal_block | nodes.comment)
                yield depth, child.tagname, child.astext() if code else str(child.get("refuri") or child.get("refname"))
                yield from walk(child, depth + 1)

    yield from walk(document, 0)


def doubled(text: str) -> tuple[str, list[tuple[int, int]]]:
    words = text.split()
    pairs = [(n, 2 * n + twice) for n, word in enumerate(words) for twice in (0, 1) if not (twice and "{t" in word)]
    places = itertools.count()
    return " ".join(words[n] for n, _ in pairs), [(n, next(places)) for n, _ in pairs]


@pytest.mark.parametrize("how", ["shout", "double"])
def test_docutils_reads_the_same_blocks(how: str) -> None:
    document = read("rst", PAGE.encode())
    said: dict[int, Tagged] = {}
    for number, segment in enumerate(document.segments):
        text = segment.source.text
        said[number] = carry(segment.source, *((shout(text), one_to_one(text)) if how == "shout" else doubled(text)))[0]
    data, told = fill(document, said)
    assert not told and len(said) > 25
    assert [*blocks(data)] == [*blocks(PAGE)]


HOSTILE = [
    "*a", "a*", "`a", "``", "**a", "|a", "a_", "_`a", "\\", "a::",
    "- a", "1. a", ".. a", ":a: b", ">>> a", "| a", "[1]_", "====", "** a", "- ",
]  # fmt: skip


@pytest.mark.parametrize("said", HOSTILE)
def test_a_translation_is_never_markup(said: str) -> None:
    for source in ("Haus\n", "Haus\n====\n", "- Haus\n", "Haus *am* Meer\n", "Haus\n und Hof\n", "Haus::\n\n nein\n"):
        document = read("rst", source.encode())
        segment = document.segments[0].source
        text = f"{said} {segment.text} {said}"
        tags = carry(segment, text, [(n, n + len(said.split())) for n in range(len(segment.text.split()))])[0]
        data, told = fill(document, {0: tags})
        assert [*blocks(data)] == [*blocks(source)], data
        assert told or data.split("\n", maxsplit=1)[0] != source.split("\n", maxsplit=1)[0]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("日本\n====\n", "日本日本\n========\n"),
        ("====\nHaus\n====\n", "========\nHausHaus\n========\n"),
        ("+------+\n| Haus |\n+------+\n", "+----------+\n| HausHaus |\n+----------+\n"),
        ("+----+\n|日本|\n+----+\n", "+--------+\n|日本日本|\n+--------+\n"),
        ("==== ==\nHaus\n==== ==\n", "======== ==\nHausHaus\n======== ==\n"),
        ("Siehe `Haus`_.\n\nHaus\n====\n", "Siehe Haus_.\n\n.. _`haus`:\n\nHausHaus\n========\n"),
    ],
)
def test_lines_grow_with_what_they_are_drawn_for(source: str, expected: str) -> None:
    document = read("rst", source.encode())
    last = len(document.segments) - 1
    data = document.write({last: Tagged(texts_of(document)[last] * 2)}, print).decode()
    assert data == expected.replace("Siehe Haus_", "Siehe `Haus`_")


@pytest.mark.parametrize(
    ("source", "said", "expected"),
    [
        ("1. Haus und\nHof\n", "1. House", "\\1. House\n"),  # the other line made it a paragraph
        ("1. Haus\n=======\n", "1. House", "1. House\n========\n"),
        ("Haus\n====\n", "*a\tHaus", "\\*a\tHaus\n============\n"),
        (".. sidebar:: 1\n   :subtitle: Haus\n\n   2\n", "*House", ".. sidebar:: 1\n   :subtitle: \\*House\n\n   2\n"),
        ("In https://a.de/b.\n", "(https://a.de/b)", "(https://a.de/b)\n"),
        ("In https://a.de/b.\n", "*https://a.de/b*", "\\*\\ https://a.de/b\\ \\*\n"),
        ("In https://a.de/b.\n", "<(https://a.de/b)>", "<(\\ https://a.de/b\\ )>\n"),
        ("An a.c@b.de\n", "&a.c@b.de;", "&\\ a.c@b.de\\ ;\n"),
        ("Von @anna und a@b.de\n", "`@anna und a@b.de", "\\`\\@anna und a@b.de\n"),
        ("In https://a.de/b.\n", "(https://a.de/b)) http://c.d", "(\\ https://a.de/b\\ )) http\\://c.d\n"),
        ("In https://a.de/b, *c*\n", "_https://a.de/c", ""),
        ("==== ===\nHaus Hof\n==== ===\n", "A\tHOUSE", "======= ===\nA HOUSE Hof\n======= ===\n"),  # without tabs
    ],
)
def test_what_is_a_line_or_a_link_stays_one(source: str, said: str, expected: str) -> None:
    data, told = fill(read("rst", source.encode()), {0: Tagged(said)})
    assert [*blocks(data)] == [*blocks(source)] and data == (expected or source) and bool(told) == (not expected)


def test_a_title_of_one_word_stays_one() -> None:
    document = read("rst", b"Das `alte Haus` da\n")
    (tag,) = document.segments[0].source.tags
    tagged = Tagged("a house", (type(tag)(2, 7, tag.open, tag.close),))
    data = document.write({0: tagged}, print)
    assert data == b"a `house\\ `\n"
    assert len(read("rst", data).segments[0].source.tags) == 1


def test_a_reference_keeps_its_target() -> None:
    page = "Siehe `Das Ziel`_ und `dort <a>`_.\n\n.. _Das Ziel: https://a.de\n"
    document = read("rst", page.encode())
    source = document.segments[0].source
    data = document.write({0: carry(source, "Look at that there.", [(0, 0), (1, 1), (2, 2), (4, 3)])[0]}, print)
    assert data.decode().startswith("Look `at that <das ziel_>`__ `there <a>`__.")


@pytest.mark.parametrize(
    ("reference", "said", "expected"),
    [
        (r"`\<suche\>`_", "SUCHE", r"`SUCHE <\<suche\>_>`__"),
        (r"`\<suche\>`_", "<WAHL>", r"`<WAHL> <\<suche\>_>`__"),
        (r"`\<suche\>`_", "<suche>", r"`\<suche>`_"),
        (r"`a\\b c`_", "d", r"`d <a\\b c_>`__"),
        (r"`a <\<suche\>_>`_", "d", r"`d <\<suche\>_>`__"),
    ],
)
def test_a_name_is_written_as_a_target_with_its_escapes(reference: str, said: str, expected: str) -> None:
    document = read("rst", f"Hier {reference}.\n".encode())
    (tag,) = document.segments[0].source.tags
    tagged = Tagged(f"Here {said}.", (replace(tag, end=tag.start + len(said)),))
    assert document.write({0: tagged}, print).decode() == f"Here {expected}.\n"


def test_directives_of_texts_are_read_whatever_their_names_hold() -> None:
    page = b".. epigraph::\n\n   Ein Haus\n\n.. highlights::\n\n   Ein Hof\n\n.. digraph:: nein\n\n   nein\n"
    assert texts_of(read("rst", page)) == ["Ein Haus", "Ein Hof"]


def test_a_title_of_a_role_may_be_one_word() -> None:
    document = read("rst", b"Im :gh:`roten Haus <a/b>`, :func:`c <d>`\n")
    source = document.segments[0].source
    assert source.text == "Im roten Haus, {t1}"
    said = carry(source, "In Redhouse, {t1}", [(0, 0), (1, 1), (2, 1), (3, 2)])[0]
    assert document.write({0: said}, print) == b"In :gh:`Redhouse <a/b>`, :func:`c <d>`\n"


def test_a_title_of_a_role_that_is_options_stays() -> None:
    page = b"Mit :option:`--ab, --cd <--ab>` da, :ref:`--ab Zeichen <ab>`\n"
    assert translate(read("rst", page)) == b"MIT :option:`--ab, --cd <--ab>` DA, :ref:`--AB ZEICHEN <ab>`\n"


def test_code_between_fences_of_markdown_is_left() -> None:
    page = b"Ein Haus.\n\n```py\nnein = 1\n\n  nein\n```\n\nEin Tor.\n\n```\nnein\n```\n\n```py\nEin Hof.\n"
    assert texts_of(read("rst", page)) == ["Ein Haus.", "Ein Tor.", "```py Ein Hof."]


def test_what_cannot_be_drawn_anew_is_left_for_a_named_reason() -> None:
    page = b"+---+\n| a\n+---+\n\n=== ===\nabcde f\n=== ===\n"
    document = read("rst", page)
    assert not document.segments and translate(document) == page
    assert [part.reason for part in document.parts] == ["a table that cannot be drawn anew"] * 2  # type: ignore[attr-defined]


VALUES = """
.. csv-table:: Ein Titel
   :header: "Wort", Bild,
      Ton
   :widths: 1, 2, 3

   Haus, "Hof, *Tor*", ``nein``
   "Tür ""Eins"" da", 1.99, "Ein Satz.

   Noch einer"
   , - Dach und,
"""


@pytest.mark.parametrize("way", [str.upper, "{0} {0}".format, '*a, "{}" |'.format, '"{}" a'.format])
def test_docutils_reads_as_many_values(way: Callable[[str], str]) -> None:
    document = read("rst", VALUES.encode())
    texts = texts_of(document)
    assert "|".join(texts) == 'Ein Titel|Wort|Bild|Ton|Haus|Hof, Tor|Tür "Eins" da|Ein Satz.|Noch einer|Dach und'
    said = {number: Tagged(way(text)) for number, text in enumerate(texts) if text != "Hof, Tor"}
    data, told = fill(document, said)
    assert [*blocks(data)] == [*blocks(VALUES)] and len(told) == 3 * ("*" in way(""))
    assert document.write({}, print).decode() == VALUES


@pytest.mark.parametrize(
    ("header", "said", "expected"),
    [
        ("Haus, Hof", 'A "house"', 'A "house", Hof'),
        ('"Das ""Haus""", Hof', '"House" here', '\\ "House" here, Hof'),
        ('"Haus", Hof', "House, here", '"House, here", Hof'),
        ('"Haus", Hof', 'A "house", here', ""),
        ("Haus, Hof", "*House", ""),
    ],
)
def test_quotes_in_a_header_are_read_by_every_docutils(header: str, said: str, expected: str) -> None:
    page = ".. csv-table:: 1\n   :header: {}\n\n   1, 2\n"
    data, told = fill(read("rst", page.format(header).encode()), {0: Tagged(said)})
    assert data == page.format(expected or header)
    assert len(told) == (not expected)
    if expected:
        rows = (csv.reader([expected], skipinitialspace=True, **each) for each in (OLD, {"strict": True}))
        assert [[row[0].removeprefix("\\").strip() for row in each] for each in rows] == [[said]] * 2


OLD: Any = {"escapechar": "\\", "doublequote": False, "strict": True}
"""How docutils read headers before 0.22."""


@pytest.mark.parametrize(
    "table", ['\n   "a" b\n', "   :delim: x\n\n   ja x ja\n", '   :escape: \\\n\n   "ja"\n', '\n   "a\n', '\n     "a\n']
)
def test_values_that_are_parted_otherwise_are_left(table: str) -> None:
    document = read("rst", f".. csv-table:: 1\n{table}".encode())
    assert not document.segments
    assert "a table that cannot be drawn anew" in {part.reason for part in document.parts}  # type: ignore[attr-defined]


def test_terms_of_a_glossary_are_what_roles_name() -> None:
    page = ".. glossary::\n   :sorted:\n\n   nein\n   auch : nein\n      Ein :term:`nein`.\n\n      Noch ein Satz.\n\n"
    page += "   .. nein\n      nein\n   nein\n      Das :term:`Tor <nein>`.\n"
    expected = with_capitals(page, "Ein", "Noch ein Satz", "Das", "`Tor")
    assert translate(read("rst", page.encode())).decode() == expected
