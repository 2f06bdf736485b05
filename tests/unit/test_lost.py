"""A sentence whose placeholder, tag or code would be lost stays in its language, is told by its place, and no more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pytest

from specmt.documents import LEFT
from specmt.formats.document import KEPT
from specmt.options import DecodingOptions
from specmt.types import Line, Translation
from tests.documents import Shouting, W, package, run, unpack

DOCUMENTS: Final = {
    "android": "<resources><string name='a'>Gut. Datei %1$s fehlt.</string></resources>",
    "asciidoc": "Gut. Datei `x` fehlt.\n",
    "docx": f"<w:document {W}><w:p><w:r><w:t>Gut. Datei </w:t></w:r><w:r><w:drawing/></w:r>"
    "<w:r><w:t> fehlt.</w:t></w:r></w:p></w:document>",
    "fluent": "a = Gut. Datei { $x } fehlt.\n",
    "html": "<p>Gut. Datei <code>x</code> fehlt.</p>",
    "json": '{"a": "Gut. Datei {name} fehlt."}',
    "markdown": "Gut. Datei `x` fehlt.\n",
    "php": "<?php return ['a' => 'Gut. Datei :x fehlt.'];\n",
    "po": 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "Gut. Datei %s fehlt."\nmsgstr ""\n',
    "properties": "a=Gut. Datei {0} fehlt.\n",
    "qt": "<TS><context><message><source>Gut. Datei %1 fehlt.</source><translation/></message></context></TS>",
    "resx": "<root><data name='a'><value>Gut. Datei {0} fehlt.</value></data></root>",
    "rst": "Gut. Datei ``x`` fehlt.\n",
    "strings": '"a" = "Gut. Datei %@ fehlt.";\n',
    "stringsdict": "<plist><dict><key>a</key><string>Gut. Datei %@ fehlt.</string></dict></plist>",
    "tmx": "<tmx><body><tu><tuv xml:lang='de'><seg>Gut. Datei <ph>x</ph> fehlt.</seg></tuv></tu></body></tmx>",
    "xcstrings": '{"sourceLanguage":"de","strings":{"Gut. Datei %@ fehlt.":{}},"version":"1.0"}',
    "xliff": "<xliff version='1.2'><file><body><trans-unit id='1'><source>Gut. Datei <x id='1'/> fehlt.</source>"
    "</trans-unit></body></file></xliff>",
    "yaml": "de:\n  a: Gut. Datei %{x} fehlt.\n",
}
STATES: Final = {
    "po": "#, fuzzy",
    "qt": 'type="unfinished"',
    "xcstrings": "needs_review",
    "xliff": 'state="needs-translation"',
}
"""What bilingual documents say of a translation that is not whole."""


class Losing(Shouting):
    """A translator that says placeholders that are not in the source."""

    def translate(self, lines: Iterable[Line], options: DecodingOptions) -> Iterator[Translation]:
        for line in lines:
            yield Translation(line, "GUT." if line.text.startswith("Gut.") else f"{line.text.upper()} {{t7}} %s")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_would_be_lost_stays(name: str) -> None:
    text = DOCUMENTS[name]
    data = package({"mimetype": "x", "word/document.xml": text}) if name == "docx" else text.encode()
    (done,) = run(Losing(), (name, data), source="de", target="en", fuzzy=False)
    said = unpack(done.data, "word/document.xml") if name == "docx" else done.data.decode()
    assert "GUT." in said and "Datei" in said and "DATEI" not in said and "{t" not in said
    assert said.count("fehlt.") == text.count("fehlt.") * (1 + (name in (*STATES, "tmx")))
    (remark,) = done.summary.warnings
    assert remark.text.startswith((LEFT, KEPT)) and remark.line > 0
    assert ("paragraph 1" in remark.context) == (name == "docx")
    assert STATES.get(name, "") in said
