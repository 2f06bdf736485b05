"""A sentence whose placeholder, tag or code would be lost stays in its language, is told by its place, and no more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from specmt.documents import LEFT, sentences_of, translate_documents
from specmt.formats import read_document
from specmt.formats.document import KEPT, Document, FormatOptions
from specmt.jobs.documents import Recorded, render, survey_sentences
from specmt.jobs.folder import JobFolder, Shard
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


def test_what_a_job_has_damaged_is_translated_once_more(tmp_path: Path) -> None:
    class Forgetting(Shouting):
        def translate(self, lines: Iterable[Line], options: DecodingOptions) -> Iterator[Translation]:
            return (replace(each, text=each.text.replace("%S", "")) for each in super().translate(lines, options))

    def documents() -> Iterator[tuple[str, Document]]:
        for name, text in (("a", '{"a": "Das Haus."}'), ("b", '{"a": "Der Hund %S bellt.", "b": "Noch eins."}')):
            yield name, read_document(text.encode(), f"{name}.json", "json", FormatOptions(source="de", target="en"))

    options, sentences = DecodingOptions(), [*sentences_of(documents())]
    plain = [each.data for each in translate_documents(Forgetting(), documents(), options)]
    shard = Shard()
    for translation in Forgetting().translate(sentences, options):
        shard.add(translation, render)
    job = JobFolder.begin(tmp_path / "out", survey_sentences("x", sentences, {}))
    job.write(0, shard)
    recorded = Recorded(job, Forgetting())
    assert [each.data for each in translate_documents(recorded, documents(), options)] == plain
    assert plain[1] == b'{"a": "DER HUND %S BELLT.", "b": "NOCH EINS."}'


@pytest.mark.parametrize("control", ["\0", "\x07", "\x7f", "\x96"])
@pytest.mark.parametrize("name", ["asciidoc", "fluent", "html", "markdown", "properties", "rst", "text"])
def test_control_characters_stay_in_their_places(name: str, control: str) -> None:
    class Cleaning(Shouting):
        def translate(self, lines: Iterable[Line], options: DecodingOptions) -> Iterator[Translation]:
            return (replace(each, text=each.text.replace(control, "")) for each in super().translate(lines, options))

    form = {"fluent": "a = {}\n", "html": "<p>{}</p>", "properties": "a={}\n"}.get(name, "{}\n")
    (done,) = run(Cleaning(), (name, form.format(f"Das Haus{control} steht. Der{control}Hund bellt.")))
    assert done.data.decode() == form.format(f"DAS HAUS{control} STEHT. DER{control}HUND BELLT.")
