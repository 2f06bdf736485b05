"""Elements that touch, and icons: what stands beside words and is none of their sentence."""

from __future__ import annotations

import pytest

from tests.documents import read, texts_of, translate, with_capitals
from tests.growth import assert_linear


@pytest.mark.parametrize(
    ("page", "texts"),
    [
        ("<a>Start</a><a>Über uns</a><a>kurz</a>", ["Start", "Über uns", "kurz"]),
        ("<li><span>Name</span><span>Ein Haus</span></li>", ["Name", "Ein Haus"]),
        ("<p><span>12</span><span>Ein Haus</span></p>", ["Ein Haus"]),
        ("<p><b>Adresse:</b>Das Haus</p>", ["Adresse:", "Das Haus"]),
        ("<p>Ein Satz.<!-- x -->Noch einer.</p>", ["Ein Satz.", "Noch einer."]),
        ("<p>Zum <b><i>Haus</i><i>Hof</i></b> hin</p>", ["Zum HausHof hin"]),
        ("<p><b>Haus</b><i>tür</i> und <b>USA</b><i>Haus</i></p>", ["Haustür und USAHaus"]),
        ("<p><b>Word</b><sup>TM</sup> ist da, z.<b>B</b>.</p>", ["Word ist da, z.B."]),
        ("<p><i class='x'></i> Start</p>", ["Start"]),
        ("<p><a><i class='x'></i> Start</a> und <a>Ziel <i></i></a></p>", ["{t1} Start und Ziel {t2}"]),
        ("<p><img src='x'> Bild <input> sichern</p>", ["Bild {t1} sichern"]),
        ("<p><a><svg></svg> Bild</a> sichern</p>", ["{t1} Bild sichern"]),
        ("<p>Zum <a id='x'></a>Haus</p>", ["Zum Haus"]),
    ],
)
def test_texts_of_pages(page: str, texts: list[str]) -> None:
    document = read("html", page.encode())
    assert texts_of(document) == texts
    words = ("Start", "Über uns", "kurz", "Name", "Ein Haus", "Adresse", "Das Haus", "Ein Satz", "Noch einer")
    if len(texts) > 1:
        assert translate(document).decode() == with_capitals(page, *words)


def test_keys_and_menus_are_no_words_of_a_sentence() -> None:
    menu = "<menucascade><uicontrol>{}</uicontrol><uicontrol>{}</uicontrol></menucascade>"
    page = f"<task><p>Zum {menu.format('Start', 'ein Ziel')} hier.</p></task>"
    document = read("xml", page.encode())
    assert texts_of(document) == ["Start", "ein Ziel", "Zum {t1} hier."]
    assert menu.format("START", "EIN ZIEL") in translate(document).decode()


@pytest.mark.parametrize("unit", ["<i></i> ", "<a>Ab</a>", "<img> ", "<!---->", "<b>Ab", "</b>Ab.", "<i></i>Ab "])
def test_they_are_looked_through_in_linear_time(unit: str) -> None:
    assert_linear(lambda size: read("html", (unit * size).encode()), 1000)
