"""DOCX and ODT as LibreOffice writes them, and as it opens them once they are translated."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.documents import read, translate

pytestmark = pytest.mark.skipif(
    shutil.which("soffice") is None, reason="LibreOffice is not installed, which writes and opens these documents"
)

NAMESPACES = " ".join(
    f'xmlns:{prefix}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
    for prefix, name in (
        ("office", "office"),
        ("text", "text"),
        ("table", "table"),
        ("style", "style"),
        ("fo", "xsl-fo-compatible"),
    )
)
CHANGE = "<office:change-info><dc:creator>a</dc:creator><dc:date>2020-01-01T00:00:00</dc:date></office:change-info>"
FLAT = f"""<?xml version="1.0" encoding="UTF-8"?>
<office:document {NAMESPACES} xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:dc="http://purl.org/dc/elements/1.1/"
 office:version="1.2" office:mimetype="application/vnd.oasis.opendocument.text"><office:automatic-styles>
<style:style style:name="B" style:family="text"><style:text-properties fo:font-weight="bold"/></style:style>
<style:style style:name="K" style:family="text"><style:text-properties fo:font-style="italic"/></style:style>
</office:automatic-styles><office:body><office:text><text:tracked-changes>
<text:changed-region text:id="c1" xml:id="c1"><text:insertion>{CHANGE}</text:insertion></text:changed-region>
<text:changed-region text:id="c2" xml:id="c2"><text:deletion>{CHANGE}<text:p>weg damit</text:p></text:deletion>
</text:changed-region></text:tracked-changes><text:h text:outline-level="1">Die Überschrift</text:h>
<text:p>Ein <text:span text:style-name="B">Wo</text:span><text:span text:style-name="K">rt</text:span> in Teilen, eine
 <text:a xlink:type="simple" xlink:href="http://example.org/">Verknüpfung</text:a> und eine
 Note<text:note text:id="n1" text:note-class="footnote"><text:note-citation>1</text:note-citation><text:note-body>
<text:p>Der Text der Note.</text:p></text:note-body></text:note>.</text:p><text:p>Das ist
 <text:change-start text:change-id="c1"/>ganz neu<text:change-end text:change-id="c1"/> und alt<text:change
 text:change-id="c2"/>.</text:p><table:table table:name="T"><table:table-column
 table:number-columns-repeated="2"/><table:table-row><table:table-cell><text:p>Eine Zelle</text:p></table:table-cell>
<table:table-cell><text:p>Noch eine</text:p></table:table-cell></table:table-row></table:table>
<text:list><text:list-item><text:p>Ein Punkt</text:p></text:list-item></text:list></office:text></office:body>
</office:document>"""
TEXTS = ["Der Text der Note.", "Die Überschrift", "Ein Punkt", "Eine Zelle", "Noch eine"]
KEPT = ("text:a", "text:note", "text:insertion", "text:deletion", "table:table-cell", "text:h", "text:list-item")


def convert(folder: Path, form: str, *files: Path) -> list[bytes]:
    """Returns what LibreOffice makes of documents."""
    command = ["soffice", f"-env:UserInstallation={(folder / 'profile').as_uri()}", "--headless", "--convert-to", form]
    out = folder / form
    done = subprocess.run(
        [*command, "--outdir", str(out), *map(str, files)], capture_output=True, timeout=120, check=True
    )
    assert b"Error" not in done.stderr, done.stderr.decode()
    return [(out / path.with_suffix(f".{form}").name).read_bytes() for path in files]


def test_libreoffice_opens_its_own_documents_in_translation(tmp_path: Path) -> None:
    flat = tmp_path / "a.fodt"
    flat.write_text(FLAT)
    paths: list[Path] = []
    for name in ("odt", "docx"):
        (data,) = convert(tmp_path, name, flat)
        document = read(name, data)
        assert document.write({}, print) == data
        texts = [segment.source.text for segment in document.segments]
        assert sorted(re.sub(r"\{t\d\}", "", text) for text in texts) == sorted(
            [*TEXTS, "Ein Wort in Teilen, eine Verknüpfung und eine Note.", "Das ist ganz neu und alt."]
        )
        told: list[str] = []
        for state, content in (("before", data), ("after", translate(document, told))):
            paths.append(tmp_path / f"{state}-{name}.{name}")
            paths[-1].write_bytes(content)
        assert not told
    shown = [data.decode() for data in convert(tmp_path, "fodt", *paths)]
    for before, after in zip(shown[::2], shown[1::2], strict=True):
        counts = [Counter(re.findall(r"<([\w:-]+)", each)) for each in (before, after)]
        assert all(counts[0][tag] == counts[1][tag] > 0 for tag in KEPT), counts
        assert re.sub(r"<[^>]*>", "", after).count("weg damit") == 1  # what is deleted is not translated
        for text in TEXTS:
            assert text in before and text.upper() in after and text not in after
