"""Markup on parts of words: symbols are copied with theirs, marks of notes stay behind their words."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.documents import Shouting, W, package, read, run, shout, translate, unpack


def shown(html: str) -> str:
    """Returns what the model sees of a paragraph."""
    (segment,) = read("html", f"<p>{html}</p>".encode()).segments
    return segment.source.text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        # Formulas, units and powers are copied.
        ("Wasser ist H<sub>2</sub>O.", "Wasser ist {t1}."),
        ("Es sind 25&nbsp;m<sup>2</sup> im Haus", "Es sind 25\xa0{t1} im Haus"),
        ("CO<sub>2</sub>-Ausstoß und C<sub>6</sub>H<sub>12</sub>O<sub>6</sub>", "{t1}-Ausstoß und {t2}"),
        ("Von 10<sup>6</sup> Ca<sup>2+</sup>-Ionen", "Von {t1} {t2}-Ionen"),
        ("Das <sup>14</sup>C, das n<b>1</b> ist", "Das {t1}, das {t2} ist"),
        ("Der Druck v<sub>max</sub> steigt", "Der Druck {t1} steigt"),
        ("Es ist H<!-- x --><sub>2</sub>O hier", "Es ist {t1} hier"),
        # Marks of notes are not seen.
        ("Die Studie<sup>1</sup> aus Ulm", "Die Studie aus Ulm"),
        ('So ist es.<a href="#a"><sup>1</sup></a> Und gut.', "So ist es. Und gut."),
        ('Ein »Haus«<a href="#a">1</a>, und „gut.“<a href="#b">2</a> Ja', "Ein »Haus«, und „gut.“ Ja"),
        ("So ist es.<sup>[1]</sup><sup>,</sup><sup>[2]</sup> Und gut.", "So ist es. Und gut."),
        ("Die <b>Studie</b><sup>a</sup>, die da", "Die Studie, die da"),
        ("Es kostet 1.234,5<sup>1</sup> Euro", "Es kostet 1.234,5 Euro"),
        ("Die Gr&ouml;&szlig;e<sup>1</sup> ist", "Die Größe ist"),
        ("Das Wort<sup>a, b</sup> ist<sup>[c]</sup> da<sup>3a</sup>", "Das Wort ist da"),
        ("Das Haus.<sup>[Anm. 1]</sup> Und<sup>† ‡</sup> so", "Das Haus. Und so"),
        ("Windows<sup>®</sup> ist da", "Windows ist da"),
        ("Acme<sup>TM</sup> ist da", "Acme ist da"),
        # Endings of ordinals are copied with them.
        ("Der 1<sup>er</sup>, n<sup>te</sup> und XX<sup>ème</sup>", "Der {t1}, {t2} und {t3}"),
        ("Das Haus<sup>neu</sup> da", "Das Hausneu da"),
        # At the ends of a text they are no part of it.
        ("<sup>1</sup>Siehe dort.<sup>2</sup>", "Siehe dort."),
        # All else is what it was.
        ("Der <b>H</b>ans und <i>5</i> Hunde", "Der Hans und 5 Hunde"),
        ("Seit <b>5</b>km und Haus<b>.</b> Ja", "Seit 5km und Haus. Ja"),
        ("Preis:<b>50</b> Euro (<b>3</b>) § <b>7</b>", "Preis:50 Euro (3) § 7"),
        ("Benutzer<b>2</b>name da", "Benutzer2name da"),
        ("Ein Text \ufdd0 mit <b>\ufdd1</b> da", "Ein Text \ufdd0 mit \ufdd1 da"),
    ],
)
def test_what_the_model_sees(html: str, text: str) -> None:
    assert shown(html) == text


@pytest.mark.parametrize(
    ("html", "answers", "expected"),
    [
        ("Die Studie<sup>1</sup> aus Ulm.", {}, "DIE STUDIE<sup>1</sup> AUS ULM."),
        ("Ich sah es.<sup>1</sup> Gut.", {"Ich sah es.": "I it saw."}, "I it saw.<sup>1</sup> GUT."),
        ("Das Wort<sup>1</sup> hier", {"Das Wort hier": "The word, here"}, "The word<sup>1</sup>, here"),
        ("Das <b>Wort<sup>1</sup></b> hier", {}, "DAS <b>WORT<sup>1</sup></b> HIER"),
        ("Das <b>Wort</b><sup>1</sup>, ja", {}, "DAS <b>WORT</b><sup>1</sup>, JA"),
        ("Es sind 3 m<sup>2</sup> da", {"Es sind 3 {t1} da": "There {t1} 3"}, "There m<sup>2</sup> 3"),
    ],
)
def test_where_it_goes(html: str, answers: dict[str, str], expected: str) -> None:
    (document,) = run(Shouting(answers), ("html", f"<p>{html}</p>"))
    assert document.data.decode() == f"<p>{expected}</p>"
    assert not document.summary.warnings


@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("markdown", "Ein Wort[^1] und m<sup>2</sup> da<sup>1</sup> [^2] so.", None),
        (
            "xliff",
            '<xliff version="1.2"><file><body><trans-unit id="a"><source>Haus<g id="1" ctype="x-sup">1</g> ist H'
            '<g id="2">2</g>O</source></trans-unit></body></file></xliff>',
            'HAUS<g id="1" ctype="x-sup">1</g> IST H<g id="2">2</g>O</target>',
        ),
    ],
)
def test_other_formats(name: str, source: str, expected: str | None) -> None:
    written = translate(read(name, source.encode())).decode()
    assert (expected or "EIN WORT[^1] UND m<sup>2</sup> DA<sup>1</sup> [^2] SO.") in written


def test_runs_of_word() -> None:
    def text(said: str, properties: str = "") -> str:
        style = f"<w:rPr>{properties}</w:rPr>" if properties else ""
        return f'<w:r>{style}<w:t xml:space="preserve">{said}</w:t></w:r>'

    low, high = ('<w:vertAlign w:val="subscript"/>', '<w:vertAlign w:val="superscript"/>')
    note = '<w:r><w:rPr/><w:footnoteReference w:id="2"/></w:r>'
    parts = [text("Wasser ist H"), text("2", low), text("O im Gebäude"), text("1", high), text(" und Hof"), note]
    parts += [text(" ist "), text("sehr ", "<w:b/>"), text("alt", "<w:b/>")]
    source = f"<w:document {W}><w:body><w:p>{''.join(parts)}</w:p></w:body></w:document>"
    document = read("docx", package({"word/document.xml": source}))
    assert [segment.source.text for segment in document.segments] == ["Wasser ist {t1} im Gebäude und Hof ist sehr alt"]
    written = unpack(translate(document), "word/document.xml")
    again = [segment.source.text for segment in read("docx", package({"word/document.xml": written})).segments]
    assert again == ["WASSER IST {t1} IM GEBÄUDE UND HOF IST SEHR ALT"]
    assert re.sub("<[^<>]*>", "", written) == "WASSER IST H2O IM GEBÄUDE1 UND HOF IST SEHR ALT"
    assert text("2", low) in written and f"GEBÄUDE</w:t></w:r>{text('1', high)}" in written
    assert f"HOF</w:t></w:r>{note}" in written


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            ["<sup>1</sup>", "<sub>2</sub>", "<a><sup>3</sup></a>", "<b>m</b>", "<b>5</b>", "<!---->", *"12mOH., "]
        ),
        max_size=24,
    )
)
def test_nothing_is_lost(parts: list[str]) -> None:
    html = f"<p>Das {''.join(parts)} Ende</p>"
    document = read("html", html.encode())
    assert document.write({}, print).decode() == html
    written = translate(document).decode()

    def tags(page: str) -> list[str]:
        return sorted(re.findall("<[^<>]*>", page))

    def letters(page: str) -> str:
        return re.sub(r"<[^<>]*>|\s", "", page)

    assert tags(written) == tags(html)
    # A pair that is widened to its word may come to lie around a mark.
    assert sorted(letters(written).upper()) == sorted(shout(letters(html)))
