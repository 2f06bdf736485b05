# ruff: noqa: E501  (documents are shown as they are)
"""Paragraphs of DOCX and ODT: breaks, fields, content controls, moved text and styles of code."""

from __future__ import annotations

import re

import pytest
from lxml import etree

from tests.documents import O, Shouting, W, package, read, run, texts_of, unpack, with_capitals


def in_word(paragraphs: str, styles: str = "") -> bytes:
    body = f"<w:document {W}><w:body>{paragraphs}</w:body></w:document>"
    return package({"word/document.xml": body, "word/styles.xml": f"<w:styles {W}>{styles}</w:styles>"})


def r(text: str, style: str = "") -> str:
    return f'<w:r>{style and f"<w:rPr>{style}</w:rPr>"}<w:t xml:space="preserve">{text}</w:t></w:r>'


FIELD = '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>PAGE</w:instrText></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r>'

LINK = FIELD.replace("PAGE", ' HYPERLINK "A"').replace('"end"', '"separate"')
END = '<w:r><w:fldChar w:fldCharType="end"/></w:r>'


@pytest.mark.parametrize(
    ("inside", "texts"),
    [
        (r("Seite ") + r("der ", "<w:b/>") + FIELD, ["Seite der {t1}"]),
        (r("Das ") + r("Haus", "<w:b/>") + '<w:bookmarkEnd w:id="1"/>' + r(" da"), ["Das Haus da"]),
        (r("Das ") + r("Haus", "<w:b/>") + '<w:bookmarkEnd w:id="1"/>', ["Das Haus"]),
        ("<w:r><w:t>Eins</w:t><w:br/><w:t>Zwei</w:t><w:cr/><w:t>drei</w:t></w:r>" + r(" vier"), ["Eins", "Zwei", "drei vier"]),
        (r("Eins ") + "<w:r><w:rPr><w:b/></w:rPr><w:t>zwei</w:t><w:br/><w:t>drei</w:t></w:r>" + r(" vier"), ["Eins zwei", "drei vier"]),
        (r("Eins") + "<w:r><w:br/></w:r>" + r("zwei"), ["Eins", "zwei"]),
        (r("Eins", "<w:b/>") + "<w:r><w:tab/></w:r>" + r("zwei drei"), ["Eins", "zwei drei"]),
        (r("Eins") + "<w:r><w:tab/><w:t>zwei</w:t><w:ptab/></w:r>" + r("drei"), ["Eins", "zwei", "drei"]),
        (r("Das ") + '<w:commentRangeStart w:id="1"/>' + r("Haus") + '<w:commentRangeEnd w:id="1"/><w:r><w:commentReference w:id="1"/></w:r>' + r(" da"), ["Das Haus da"]),
        (r("Zum ") + f'<w:smartTag w:element="a"><w:smartTagPr><w:attr w:name="b"/></w:smartTagPr>{r("Haus")}</w:smartTag>' + r(" hier"), ["Zum Haus hier"]),
        (r("Ein ") + f"<w:sdt><w:sdtPr><w:text/></w:sdtPr><w:sdtContent>{r('freies')}</w:sdtContent></w:sdt>" + r(" Feld"), ["Ein freies Feld"]),
        (r("Ein ") + f"<w:sdt><w:sdtPr><w:dropDownList/></w:sdtPr><w:sdtContent>{r('nein')}</w:sdtContent></w:sdt>" + r(" Feld"), ["Ein {t1} Feld"]),
        (f"<w:moveFrom>{r('nein')}</w:moveFrom>" + r("Ein ") + f"<w:moveTo>{r('Satz')}</w:moveTo>", ["Ein Satz"]),
        (r("Ein ") + r("nein()", '<w:rStyle w:val="Tok"/>') + r(" hier"), ["Ein {t1} hier"]),
        (r("Ein") + '<w:r><w:fldChar w:fldCharType="separate"/></w:r>' + r("Feld"), ["Ein", "Feld"]),
        (r("Zum ") + LINK + r("schönen ") + r("Haus", "<w:b/>") + END + r(" hier"), ["Zum schönen Haus hier"]),
        (LINK + r("Haus ") + END + f'<w:hyperlink w:anchor="a">{r("Tür")}</w:hyperlink>' + r(" zu"), ["Haus Tür zu"]),
        (LINK + r("nein") + FIELD + END + r(" hier da"), ["{t1} hier da"]),
    ],
)  # fmt: skip
def test_a_paragraph_of_word_keeps_what_is_in_it_once(inside: str, texts: list[str]) -> None:
    styles = (
        '<w:style w:styleId="Tok"><w:name w:val="Tok"/><w:basedOn w:val="V"/></w:style>'
        '<w:style w:styleId="V"><w:name w:val="Verbatim Char"/></w:style>'
    )
    code = '<w:p><w:pPr><w:pStyle w:val="SourceCode"/></w:pPr><w:r><w:t>nein</w:t></w:r></w:p>'
    data = in_word(f"{code}<w:p><w:pPr/>{inside}</w:p>", styles)
    document = read("docx", data)
    assert texts_of(document) == texts
    assert {segment.context for segment in document.segments} == {"paragraph 2"}
    (done,) = run(Shouting(), ("docx", data))
    before, after = (unpack(each, "word/document.xml") for each in (data, done.data))
    seen = [re.findall(r"<w:(?!r\b|t\b|rPr|b/)[^>]*>", each) for each in (before, after)]
    assert seen[0] == seen[1]
    bold = [re.sub(r"<[^>]*>|\s", "", "".join(re.findall(r"<w:b/>.*?</w:r>", each))) for each in (before, after)]
    assert bold[1] == bold[0].upper()
    said = [re.sub(r"<[^>]*>", "", re.sub(r"<w:[bc]r/>", "|", each)) for each in (before, after)]
    assert said[1] == "".join(
        part if part in ("nein", "PAGE") else part.upper() for part in re.split("(nein|PAGE)", said[0])
    )
    etree.fromstring(after.encode())


def test_a_paragraph_that_is_one_of_a_list_stays() -> None:
    control = f"<w:sdt><w:sdtPr><w:{{}}/></w:sdtPr><w:sdtContent><w:p>{r('Ein Satz')}</w:p></w:sdtContent></w:sdt>"
    data = in_word("".join(map(control.format, ("dropDownList", "text", "date"))) + f"<w:p>{r('Das')}</w:p>")
    (done,) = run(Shouting(), ("docx", data))
    said = re.findall("<w:t [^>]*>([^<]*)", unpack(done.data, "word/document.xml"))
    assert said == ["Ein Satz", "EIN SATZ", "Ein Satz", "DAS"]


def test_lists_are_shown_in_the_language_of_the_page() -> None:
    control = (
        '<w:sdt><w:sdtPr><w:dropDownList><w:listItem w:displayText="Ein Satz" w:value="Ein Satz"/></w:dropDownList>'
        "</w:sdtPr><w:sdtContent>{}</w:sdtContent></w:sdt>"
    )
    inline, block = (control.format(inside) for inside in (r("Ein Satz"), f"<w:p>{r('Ein Satz')}</w:p>"))
    data = in_word(f"<w:p>{r('Das ist')}{inline}{r('hier')}</w:p>{block}")
    assert texts_of(read("docx", data)) == ["Das ist{t1}hier", *["Ein Satz"] * 4]
    (done,) = run(Shouting(), ("docx", data))
    before, after = (unpack(each, "word/document.xml") for each in (data, done.data))
    upper = re.sub(">[^<]+", lambda said: said[0].upper(), before).replace('Text="Ein Satz', 'Text="EIN SATZ')
    assert after == upper


def test_hyphens_of_word_are_hyphens() -> None:
    inside = (
        r("E") + "<w:r><w:noBreakHyphen/></w:r>" + "<w:r><w:t>Mails an Ver</w:t><w:softHyphen/><w:t>eine</w:t></w:r>"
    )
    (done,) = run(Shouting(), ("docx", in_word(f"<w:p>{inside}</w:p>")))
    assert re.sub("<[^>]*>", "", unpack(done.data, "word/document.xml")) == "E-MAILS AN VEREINE"


@pytest.mark.parametrize(
    "unseen", ["<w:softHyphen/>", "<w:rPr><w:b/></w:rPr>", "", "<w:lastRenderedPageBreak/>", "<w:rPr/><w:t/>"]
)
def test_runs_of_word_without_anything_stand_for_no_word(unseen: str) -> None:
    data = in_word(f"<w:p>{r('Wort')}<w:r>{unseen}</w:r>{r('spiele sind gut.')}</w:p>")
    assert texts_of(read("docx", data)) == ["Wortspiele sind gut."]
    (done,) = run(Shouting(), ("docx", data))
    assert f"<w:r>{unseen}</w:r>" in unpack(done.data, "word/document.xml")


def test_a_paragraph_of_opendocument_ends_at_breaks_and_keeps_code() -> None:
    automatic = '<style:style style:name="P1" style:parent-style-name="Preformatted_20_Text"/>'
    body = (
        '<text:p>Straße <text:span>5<text:line-break/>Ort</text:span><text:tab/>hier</text:p><text:p text:style-name="P1">nein</text:p>'
        '<text:p>Ein <text:span text:style-name="Source_20_Text">nein()</text:span> da</text:p>'
    )
    root = O + ' xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0"'
    page = f"<office:document-content {root}>{automatic}<office:text>{body}</office:text></office:document-content>"
    translator = Shouting()
    (done,) = run(translator, ("odt", package({"content.xml": page})))
    assert [text for text in translator.asked if "hier" in text] == ["hier"]
    assert unpack(done.data, "content.xml") == with_capitals(page, "Straße", "Ort", "hier", "Ein", "da<")


@pytest.mark.parametrize(
    "inside",
    [
        "<w:t> </w:t><w:drawing/><w:t>ein Haus</w:t>",
        "<w:t>ein Haus</w:t><w:drawing/><w:t> </w:t>",
        "<w:t>ein</w:t><w:drawing/><w:tab/><w:br/><w:drawing/><w:t>Haus</w:t>",
        "<w:t>ein </w:t ></w:r><w:hyperlink><w:r><w:t>Haus</w:t></w:r></w:hyperlink ><w:r>",
    ],
)
def test_a_text_may_begin_and_end_with_a_picture_and_an_end_have_space_in_it(inside: str) -> None:
    data = in_word(f"<w:p><w:r>{inside}</w:r></w:p>")
    (done,) = run(Shouting(), ("docx", data))
    before, after = (unpack(each, "word/document.xml") for each in (data, done.data))
    etree.fromstring(after.encode())
    assert re.findall("<w:[dh][^>]*>", after) == re.findall("<w:[dh][^>]*>", before)
    assert re.sub("<[^>]*>", "", after) == re.sub("<[^>]*>", "", before).upper()


def test_what_looks_like_an_element_in_a_text_is_text() -> None:
    text = "<w:t> <w:x/>ein Haus</w:t>"
    (done,) = run(Shouting(), ("docx", in_word(f"<w:p><w:r>{text}</w:r></w:p>")))
    written = unpack(done.data, "word/document.xml")
    etree.fromstring(written.encode())
    assert re.sub("<[^>]*>", "", written) == " &lt;w:x/&gt;EIN HAUS"
