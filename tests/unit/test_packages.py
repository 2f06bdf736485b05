"""Books, presentations and tables: what their samples do not show."""

from __future__ import annotations

import pytest

from specmt.errors import DataError
from specmt.types import Tagged
from tests.documents import O, W, package, read, texts_of, translate, unpack, with_capitals


def test_contents_title_and_language_of_a_book() -> None:
    files = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": "<container>Nein</container>",
        "a.opf": '<package xmlns:dc="d"><metadata><dc:title>Das Haus</dc:title><dc:creator>Anna</dc:creator>'
        "<dc:language>de-AT</dc:language><dc:language>fr</dc:language></metadata></package>",
        "a.ncx": "<ncx><docAuthor><text>Anna</text></docAuthor><navMap><navLabel><text>Der Hof</text></navLabel>"
        "</navMap></ncx>",
        "other.xml": "<other>Nein</other>",
    }
    document = read("epub", package(files))
    texts = [(segment.member, segment.source.text) for segment in document.segments]
    assert texts == [("a.opf", "Das Haus"), ("a.ncx", "Der Hof")]
    written = translate(document)
    assert unpack(written, "a.opf") == files["a.opf"].replace("Das Haus", "DAS HAUS").replace("de-AT", "en")
    assert unpack(written, "a.ncx") == files["a.ncx"].replace("Der Hof", "DER HOF")
    assert all(unpack(written, name) == files[name] for name in ("mimetype", "META-INF/container.xml", "other.xml"))


def test_a_page_of_a_book_that_is_not_well_formed() -> None:
    with pytest.raises(DataError, match=r"a\.xhtml: line 1 is not well-formed XML"):
        read("epub", package({"a.xhtml": "<html><p>x<br></html>"}))


def test_headings_that_a_table_is_known_by_stay() -> None:
    files = {
        "xl/sharedStrings.xml": "<sst><si><t>Preis &amp; Maß</t></si><si><t>Haus</t></si></sst>",
        "xl/tables/table1.xml": '<table name="T"><tableColumn id="1" name="Preis &amp; Maß"/></table>',
        "xl/worksheets/sheet1.xml": '<c t="inlineStr"><is><t>Hof</t></is><f>A1&amp;"nein"</f></c>',
    }
    document = read("xlsx", package(files))
    states = [(segment.source.text, segment.state) for segment in document.segments]
    assert states == [("Preis & Maß", "skipped"), ("Haus", "new"), ("Hof", "new")]
    written = translate(document)
    assert unpack(written, "xl/sharedStrings.xml") == files["xl/sharedStrings.xml"].replace("Haus", "HAUS")
    assert unpack(written, "xl/worksheets/sheet1.xml") == files["xl/worksheets/sheet1.xml"].replace("Hof", "HOF")


def test_what_formulas_and_lists_say_stays_in_cells() -> None:
    rules = "<formula1>&quot;Offen, Zu&quot;</formula1><formula2>A1:A3</formula2>"
    rules += '<ext><x14:formula1><xm:f>"Neu"</xm:f></x14:formula1></ext>'
    texts = "".join(f"<si><t>{text}</t></si>" for text in ("Offen", "Zu", "Ja, Herr", "Neu", "A1", "Haus"))
    files = {
        "xl/sharedStrings.xml": f"<sst>{texts}</sst>",
        "xl/worksheets/sheet1.xml": f'<s xmlns:x14="a" xmlns:xm="b"><f a="b">IF(A1="Ja, Herr",1)</f>{rules}</s>',
    }
    found = {segment.source.text: segment.state for segment in read("xlsx", package(files)).segments}
    assert found == {**dict.fromkeys(("Offen", "Zu", "Ja, Herr", "Neu"), "skipped"), "A1": "new", "Haus": "new"}


def test_formulas_in_a_line_of_a_slide_stay() -> None:
    formula = "<a14:m><m:oMath><m:r><m:t>x</m:t></m:r></m:oMath></a14:m>"
    run = "<a:r><a:rPr/><a:t>{}</a:t></a:r>"
    line = f"<a:p><a:pPr/>{run.format('Die Formel ')}{formula}{run.format(' gilt')}<a:endParaRPr/></a:p>"
    slide = f'<p:sld xmlns:p="p" xmlns:a="a" xmlns:a14="b" xmlns:m="m">{line}</p:sld>'
    document = read("pptx", package({"ppt/slides/slide1.xml": slide}))
    assert texts_of(document) == ["Die Formel {t1} gilt"]
    assert unpack(translate(document), "ppt/slides/slide1.xml") == with_capitals(slide, "Die Formel", "gilt")


def test_a_link_is_not_the_style_of_what_is_around_it() -> None:
    link = '<a:rPr><a:hlinkClick r:id="r"/></a:rPr>'
    runs = f"<a:r><a:t>Zum </a:t></a:r><a:r>{link}<a:t>großen Haus</a:t></a:r><a:r><a:t>.</a:t></a:r>"
    slide = f'<p:sld xmlns:p="p" xmlns:a="a" xmlns:r="r"><a:p>{runs}</a:p></p:sld>'
    written = unpack(translate(read("pptx", package({"ppt/slides/slide1.xml": slide}))), "ppt/slides/slide1.xml")
    assert written == with_capitals(slide, "Zum", "großen Haus")


def test_what_is_said_in_attributes_keeps_its_line_breaks_and_its_limits() -> None:
    rest = ' type="list" error="{}" errorTitle="Zu kurz" prompt=\'{}\'/></dataValidations>'
    rest += '<hyperlinks><hyperlink ref="A1" tooltip="{}" display="Nein"/></hyperlinks></worksheet>'
    sheet = "<worksheet><dataValidations><dataValidation" + rest
    file = "xl/worksheets/sheet1.xml"
    document = read("xlsx", package({file: sheet.format("Ein_x000a_Haus", "Ein&#10;Haus", "Ein &amp; Haus")}))
    assert texts_of(document) == ["Ein\nHaus", "Zu kurz", "Ein\nHaus", "Ein & Haus"]
    said = ["A\nhouse", "Too short for a title of what is wrong", "Anna's\nhouse", "A & house"]
    told: list[str] = []
    written = document.write(dict(enumerate(map(Tagged, said))), lambda _, what: told.append(what))
    assert unpack(written, file) == sheet.format("A_x000a_house", "Anna&#39;s&#10;house", "A &amp; house")
    assert len(told) == 1 and "may have no more than 32 characters" in told[0]


def test_what_word_says_of_tables_drawings_and_lists_of_forms() -> None:
    inside = (
        '<w:tbl><w:tblPr><w:tblCaption w:val="Ein Haus"/><w:tblDescription w:val="Ein Haus"/></w:tblPr></w:tbl>'
        '<w:p><w:r><w:pict><v:shape id="nein" alt="Ein Haus"><v:textpath string="Ein Haus"/></v:shape></w:pict>'
        '<w:ffData><w:name w:val="nein"/><w:ddList><w:listEntry w:val="Ein Haus"/></w:ddList></w:ffData></w:r></w:p>'
    )
    data = package({"word/document.xml": f"<w:document {W} xmlns:v='v'>{inside}</w:document>"})
    document = read("docx", data)
    assert texts_of(document) == ["Ein Haus"] * 5
    assert inside.replace("Ein Haus", "EIN HAUS") in unpack(translate(document), "word/document.xml")


def test_what_every_slide_shows_of_its_layout_is_translated() -> None:
    shape = "<p:sp><p:nvPr>{}</p:nvPr><a:p><a:r><a:t>{}</a:t></a:r></a:p></p:sp>"
    prompt = shape.format('<p:ph type="title"/>', "Ein Titel")
    layout = f'<p:sldLayout xmlns:p="p" xmlns:a="a">{prompt}{shape.format("", "Ein Haus")}{prompt}</p:sldLayout>'
    slide = layout.replace("Layout", "")
    document = read("pptx", package({"ppt/slideLayouts/slideLayout1.xml": layout, "ppt/slides/slide1.xml": slide}))
    assert texts_of(document) == ["Ein Haus", "Ein Titel", "Ein Haus", "Ein Titel"]
    written = translate(document)
    assert unpack(written, "ppt/slideLayouts/slideLayout1.xml") == layout.replace("Ein Haus", "EIN HAUS")


def test_titles_of_tables_of_opendocument() -> None:
    said = "<table:title>Ein Haus</table:title><table:desc>Ein Haus</table:desc>"
    text = f"<a {O} xmlns:table='t'><table:table>{said}</table:table></a>"
    document = read("odt", package({"content.xml": text}))
    assert unpack(translate(document), "content.xml") == text.replace("Ein Haus", "EIN HAUS")
