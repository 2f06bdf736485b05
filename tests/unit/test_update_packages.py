"""Packages are brought up to date text by text, or made anew with the texts that are known."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from specmt.errors import DataError
from specmt.formats.document import FormatOptions
from specmt.options import DecodingOptions
from specmt.update.plan import PlanOptions
from specmt.update.record import Record
from specmt.update.store import Files
from specmt.update.update import Update, update_all
from tests.documents import Shouting, W, package, unpack
from tests.updating import raised


def docx(*paragraphs: str, style: str = "") -> bytes:
    def run(text: str) -> str:
        return f"<w:r><w:t xml:space='preserve'>{text}</w:t></w:r>"

    body = ""
    for text in paragraphs:
        before, bold, after = text.split("*") if "*" in text else (text, "", "")
        strong = f"<w:r><w:rPr><w:b/></w:rPr><w:t xml:space='preserve'>{bold}</w:t></w:r>" if bold else ""
        body += f"<w:p>{run(before)}{strong}{run(after) if after else ''}</w:p>"
    return package({"word/document.xml": f"<w:document {W}><w:body>{body}{style}</w:body></w:document>"})


def said(data: bytes) -> str:
    return re.sub(" xml:space=.preserve.", "", unpack(data, "word/document.xml"))


def update(
    source: bytes, target: bytes | None, record: Record | None, **options: bool
) -> tuple[bytes, Record, list[str]]:
    files = Files(Path("a.docx"), Path("b.docx"), Path("c"), "docx")
    job = Update(files, source, target, lambda _: record, FormatOptions(), PlanOptions(**options))
    translator = Shouting()
    [done] = update_all([job], translator, DecodingOptions(), language="de", fail=raised)
    data, known = target if done.data is None else done.data, record if done.record is None else done.record
    assert data is not None and known is not None
    return data, known, translator.asked


def test_texts_are_exchanged_in_the_layout_that_a_person_made() -> None:
    made, record, _ = update(docx("Eins.", "Das ist *fett* hier.", "Drei."), None, None)
    assert said(made) == said(docx("EINS.", "DAS IST *FETT* HIER.", "DREI."))
    edited = docx("One.", "DAS IST *FETT* HIER.", "DREI.", style="<w:sectPr/>")
    new = docx("Eins.", "Das war *fett* hier.", "Drei.")
    made, record, asked = update(new, edited, record)
    assert said(made) == said(docx("One.", "DAS WAR *FETT* HIER.", "DREI.", style="<w:sectPr/>"))
    assert "".join(each.origin for each in record.entries) == "hmm"
    assert asked
    assert update(new, made, record)[::2] == (made, [])


def test_new_paragraphs_need_a_package_that_is_made_anew() -> None:
    made, record, _ = update(docx("Eins.", "Das ist *fett* hier."), None, None)
    edited = docx("One.", "THIS IS *BOLD* here.", style="<w:sectPr/>")
    new = docx("Neu.", "Eins.", "Das ist *fett* hier.")
    with pytest.raises(DataError, match=r"a.docx: has other paragraphs than b.docx. `--rebuild`"):
        update(new, edited, record)
    made, known, asked = update(new, edited, record, rebuild=True)
    assert said(made) == said(docx("NEU.", "One.", "THIS IS *BOLD* here."))
    assert asked == ["Neu."]
    assert "".join(each.origin for each in known.entries) == "mhh"
    assert update(new, made, known)[::2] == (made, [])
