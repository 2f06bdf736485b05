"""Documents through a translator: what is asked of it, what is taken over, what is said about it."""

from __future__ import annotations

import io
import json
import random
import re
import shutil
import subprocess
import time
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import polib
import pysubs2
import pytest

from specmt.documents import LEFT, Selection, sentences_of, translate_documents
from specmt.errors import DataError, UsageError
from specmt.formats import read_document
from specmt.formats.document import FormatOptions
from specmt.formats.encoding import Encoding
from specmt.formats.markup import xml_escape
from specmt.options import DecodingOptions
from specmt.pairs import read_pairs, write_tmx
from specmt.text.memory import read_memory
from specmt.types import Line, Translation
from tests.documents import PO, SAMPLES, O, Sample, Shouting, package, run, unpack, with_capitals


def test_sentences_are_asked_for_once_and_in_order() -> None:
    translator = Shouting()
    first, second = run(
        translator,
        ("html", "<p>Das ist <b>Eins.</b> Das ist Zwei.</p><p>Das ist Zwei.</p>"),
        ("text", "Das ist Zwei.\nDas ist Drei."),
    )
    assert translator.asked == ["Das ist Eins.", "Das ist Zwei.", "Das ist Drei."]
    assert first.data == b"<p>DAS IST <b>EINS.</b> DAS IST ZWEI.</p><p>DAS IST ZWEI.</p>"
    assert second.data == b"DAS IST ZWEI.\nDAS IST DREI."
    assert (first.summary.translated, first.summary.repeated, second.summary.repeated) == (2, 1, 1)


def test_segments_stay_whole_where_sentences_are_not_cut() -> None:
    translator = Shouting()
    page = read_document(b"<p>Das ist <b>Eins.</b> Das ist Zwei.</p>", "a", "html", FormatOptions())
    (document,) = translate_documents(translator, [("a", page)], DecodingOptions(split=False))
    assert translator.asked == ["Das ist Eins. Das ist Zwei."]
    assert document.data == b"<p>DAS IST <b>EINS.</b> DAS IST ZWEI.</p>"


def test_only_what_has_tags_is_aligned() -> None:
    translator = Shouting()
    (document,) = run(
        translator, ("html", "<p>Eins.<p>Zwei <img src=a>.<p><b>Eins</b>.<p>Das <i>ist</i> es.<p>Das ist es.<p>Eins.")
    )
    # The first sentence once more with its tags, and the one that has them already no more.
    assert translator.asked == ["Eins.", "Zwei {t1}.", "Eins.", "Das ist es."]
    assert translator.aligned == [False, False, True, True]
    assert document.data == (b"<p>EINS.<p>ZWEI <img src=a>.<p><b>EINS</b>.<p>DAS <i>IST</i> ES.<p>DAS IST ES.<p>EINS.")


def test_sentences_without_spaces_between_them() -> None:
    translator = Shouting({"これはペンです。": "This is a pen.", "本当ですか？": "Is it?"})
    data = "<p>これは<b>ペン</b>です。本当ですか？</p>".encode()
    page = read_document(data, "a", "html", FormatOptions(source="ja"))
    (document,) = translate_documents(translator, [("a", page)], DecodingOptions(), language="ja")
    assert translator.asked == ["これはペンです。", "本当ですか？"]
    assert re.sub("</?b>", "", document.data.decode()) == "<p>This is a pen. Is it?</p>"
    assert document.data.count(b"<b>") == document.data.count(b"</b>") == 1


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("<p>Ein <b>Haus</b>\n <i>ist</i>\nda.</p>\n<p>Ja</p>", ["<p>Ein <b>Haus</b> <i>ist</i> da.</p>", "<p>Ja</p>"]),
        ('<p><a title="x\n y. z">Ein\nHaus</a></p>', ['<p><a title="x\n y. z">Ein Haus</a></p>']),
        ("Eins<br>\nzwei\n\ndrei\n- vier", ["Eins<br>", "zwei", "drei", "- vier"]),
        ("<b>Eins</b>\nzwei", ["<b>Eins</b>", "zwei"]),
    ],
)
def test_a_line_of_html_in_a_message_ends_no_sentence(text: str, asked: list[str]) -> None:
    translator = Shouting()
    run(translator, ("json", json.dumps({"a": text}).encode()))
    assert translator.asked == asked


def test_an_alignment_of_several_sentences_places_tags() -> None:
    html = ("html", "<p>Ich habe ihn. Du hast <b>ihn</b> gesehen.</p>")
    answers = {"Ich habe ihn.": "I do.", "Du hast ihn gesehen.": "you have him seen."}
    (document,) = run(Shouting(answers), html)
    assert document.data == b"<p>I do. you have <b>him</b> seen.</p>"
    assert not document.summary.warnings
    (guessed,) = run(Shouting(answers, aligns=False), html)
    assert [remark.text for remark in guessed.summary.warnings] == ["the places of inline tags are uncertain"]


def test_what_has_a_translation_is_kept() -> None:
    (document,) = run(Shouting(), ("po", PO))
    assert (document.summary.translated, document.summary.kept) == (4, 2)
    catalogue = polib.pofile(document.data.decode())
    found = [each for each in catalogue if not each.msgid_plural and not each.obsolete]
    long = "Ein langer Satz, der in der Vorlage nicht auf eine Zeile passt und daher auf zwei verteilt ist."
    assert {entry.msgid: (entry.msgstr, entry.fuzzy) for entry in found} == {
        "Datei %s\n": ("DATEI %s\n", True),
        "fertig": ("done", False),
        "unklar": ("unsure", True),
        long: (long.upper(), True),
    }
    assert [entry.msgid for entry in catalogue.obsolete_entries()] == ["weg"]
    (fuzzy,) = run(Shouting(), ("po", PO), selection=Selection(fuzzy=True), fuzzy=False)
    unclear = polib.pofile(fuzzy.data.decode()).find("unklar")
    assert unclear is not None and (unclear.msgstr, unclear.fuzzy) == ("UNKLAR", False)
    (everything,) = run(Shouting(), ("po", PO), selection=Selection(translated=True))
    assert everything.summary.translated == 6
    (again,) = run(Shouting(), ("po", document.data))
    assert again.data == document.data


@pytest.mark.skipif(shutil.which("msgfmt") is None, reason="gettext is not installed, whose msgfmt checks catalogues")
@pytest.mark.parametrize(
    ("target", "forms", "charset"),
    [("en", 2, "CHARSET"), ("ja", 1, "ASCII"), ("fr", 2, "us-ascii"), ("pl", 3, "CHARSET"), ("ar", 6, "CHARSET")],
)
def test_msgfmt_accepts_what_was_made_of_a_template(target: str, forms: int, charset: str, tmp_path: Path) -> None:
    template = PO.replace("nplurals=2; plural=(n != 1);", "nplurals=INTEGER; plural=EXPRESSION;")
    template = template.replace("Language: en", "Language: ").replace("charset=UTF-8", f"charset={charset}")
    head = '"Project-Id-Version: x\\n"\n"Last-Translator: x\\n"\n"Language-Team: x\\n"\n"MIME-Version: 1.0\\n"\n'
    template = template.replace(
        'msgid ""\nmsgstr ""\n', '#, fuzzy\nmsgid ""\nmsgstr ""\n' + head + '"Content-Transfer-Encoding: 8bit\\n"\n', 1
    )
    (document,) = run(
        Shouting({"fertig": "Ж"}), ("po", template), target=target, selection=Selection(translated=True), fuzzy=False
    )
    path = tmp_path / "a.po"
    path.write_bytes(document.data)
    result = subprocess.run(
        ["msgfmt", "--check", "-o", str(tmp_path / "a.mo"), str(path)], capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, "")
    catalogue = polib.pofile(document.data.decode())
    assert catalogue.metadata["Language"] == target
    assert catalogue.metadata["Content-Type"].endswith("charset=UTF-8")
    assert "Ж" in document.data.decode()
    plural = catalogue.find("%d Datei")
    assert plural is not None and len(plural.msgstr_plural) == forms
    # A language with other forms than one and many is to be looked at.
    assert plural.fuzzy is (forms != 2)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.format)
def test_another_day_gives_the_same_bytes(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    written: dict[str, set[bytes]] = {}
    for told in ("", "1700000000"):
        if told:
            monkeypatch.setenv("SOURCE_DATE_EPOCH", told)
        else:
            monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
        for now in (1.6e9, 1.9e9):
            monkeypatch.setattr("time.time", lambda now=now: now)
            day = time.gmtime(now)
            monkeypatch.setattr(
                "time.localtime", lambda seconds=None, day=day: day if seconds is None else time.gmtime(seconds)
            )
            (found,) = run(Shouting(), (sample.format, sample.data), **sample.options)
            written.setdefault(told, set()).add(found.data)
    assert len(written["1700000000"]) == 1
    assert len(written[""]) == 1 + (sample.format == "po")


def test_a_day_that_is_none_is_told_before_anything_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    translator = Shouting()
    with pytest.raises(UsageError, match="`SOURCE_DATE_EPOCH` must be a number of seconds, but is 'yesterday' instead"):
        run(translator, ("po", PO))
    assert translator.asked == []


def test_a_directive_that_the_model_changed_is_refused() -> None:
    (document,) = run(Shouting({"Datei %s": "FILE %d", "Datei": ""}), ("po", PO))
    catalogue = polib.pofile(document.data.decode())
    entry = catalogue.find("Datei %s\n")
    assert entry is not None and entry.msgstr == ""
    told = [(remark.line, remark.context, remark.text) for remark in document.summary.warnings]
    assert (10, "k", "kept as it was: '%s' is not in the translation") in told
    assert document.summary.kept == 3


def test_known_texts_are_taken_over() -> None:
    known = {"Das ist Eins.": "one!", "Alles. Ganz.": "all!"}
    translator = Shouting()
    (document,) = run(
        translator, ("text", "Das ist Eins.\nAlles. Ganz.\nDas ist Eins. Zwei."), selection=Selection(known=known)
    )
    assert document.data == b"one!\nall!\none! ZWEI."
    assert translator.asked == ["Zwei."]
    assert (document.summary.reused, document.summary.translated) == (2, 1)


def test_markup_that_would_be_read_otherwise_is_refused() -> None:
    answers = {"Das ist wichtig und gut.": "THIS IS IMPORTANT*and good."}
    (document,) = run(Shouting(answers), ("markdown", "Das ist *wichtig* und gut.\n\n1\\. Haus\n"))
    assert document.data in (
        b"THIS IS *IMPORTANT\\*and* good.\n\n1\\. HAUS\n",
        b"THIS IS *IMPORTANT\\*and good.*\n\n1\\. HAUS\n",
    )
    (document,) = run(Shouting({"Haus": "# a | *b* <c> [d] - _f_"}), ("markdown", "Haus\n\n| Haus |\n|-|\n"))
    from markdown_it import MarkdownIt

    page = MarkdownIt("commonmark").enable("table").render(document.data.decode())
    assert page.count("# a | *b* &lt;c&gt; [d] - _f_") == 2


def test_sentences_over_cues_are_whole_and_cut_again() -> None:
    source = next(sample for sample in SAMPLES if sample.format == "subtitles").data
    sentence = "Ich weiß nicht, was soll es bedeuten, dass ich so traurig bin."
    translator = Shouting({sentence: "I do not know what it means that I am so very sad and always have been."})
    (document,) = run(translator, ("subtitles", source))
    assert translator.asked[0] == sentence
    subtitles = pysubs2.SSAFile.from_string(document.data.decode())
    assert [(event.start, event.end) for event in subtitles] == [(1000, 3000), (3100, 6000), (8000, 12000)]
    assert all(event.plaintext.strip() for event in subtitles)
    assert all(len(line) <= 42 for event in subtitles for line in event.plaintext.split("\n"))
    (quick,) = run(Shouting({"Ja?": "x" * 100}), ("subtitles", source))
    assert any("characters a second are more than 21" in remark.text for remark in quick.summary.warnings)


def test_a_cue_begins_with_no_mark_of_the_word_before() -> None:
    head, between = "1\n00:00:01,000 --> 00:00:03,000\n", "\n\n2\n00:00:03,100 --> 00:00:06,000\n"
    source = f"{head}<i>Das ist ein Satz, der</i>{between}weitergeht. Gut.\n"
    (document,) = run(Shouting({"Das ist ein Satz, der weitergeht.": "THAT GOES ON."}), ("subtitles", source))
    assert document.data.decode() == f"{head}<i>THAT GOES ON</i>.{between}GUT.\n"


def test_what_is_said_of_a_damaged_sentence_is_not_of_the_next_try() -> None:
    class Warned(Shouting):
        def translate(self, lines: Iterable[Line], options: DecodingOptions) -> Iterator[Translation]:
            for each in super().translate(lines, options):
                yield replace(each, warnings=["'Haus' stays as it is"]) if "{t1}" in each.line.text else each

    (document,) = run(Warned({"Haus {t1} ist da.": "HOUSE"}), ("html", "<p>Haus <img> ist da.</p>"))
    assert document.data == b"<p>HAUS <img> IST DA.</p>"
    assert not document.summary.warnings


@pytest.mark.parametrize(
    ("source", "said", "what"),
    [
        ("Haus %s", "HOUSE", "'%s' is not in the translation"),
        ("Haus", "HOUSE %s", "'%s' is in the translation only"),
        ("Haus http://a.de/b, http://a.de/b/c", "HOUSE http://a.de/b/c", "'http://a.de/b' is not in the translation"),
        ("Haus %1 %10 %10", "HOUSE %10 %10", "'%1' is not in the translation"),
        ("Haus <img>", "HOUSE", "an inline tag is not in the translation"),
        ("Haus <img>", "{t1} HOUSE {t1}", "an inline tag (1 of 2) is in the translation only"),
        ("Haus", "HO\ufffdUSE", "the character '\ufffd' is in the translation only"),
        ("Haus", " ", "the model says nothing"),
        ("Haus %s", "%s.", "the model says nothing"),
        ("Mai 14", "14.", "the model says nothing"),
    ],
)
def test_a_damaged_sentence_is_not_written(source: str, said: str, what: str) -> None:
    html = f"<p>{source} ist da. Gut.</p><p>Hof</p>"
    answers = {f"{source.replace('<img>', '{t1}')} ist da.": said, "ist da.": " "}
    (document,) = run(Shouting(answers), ("html", html))
    assert document.data.decode() == with_capitals(html, "Hof", "Gut")
    assert [remark.text for remark in document.summary.warnings] == [f"{LEFT}: {what}"]
    assert (document.summary.kept, document.summary.translated) == (0, 2)
    alone = html.replace(" Gut.", "")
    (document,) = run(Shouting(answers), ("html", alone))
    assert document.data.decode() == alone.replace("Hof", "HOF")
    assert [remark.text for remark in document.summary.warnings] == [f"kept as it was: {what}"]
    assert (document.summary.kept, document.summary.translated) == (1, 1)


def test_nothing_is_lost_where_the_model_says_nothing() -> None:
    (document,) = run(Shouting({"Eins": ""}), ("html", "<p>Eins</p>"))
    assert document.data == b"<p>Eins</p>"
    assert document.summary.kept == 1


@pytest.mark.parametrize("name", ["docx", "odt"])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_image_is_found_before_a_sentence_is_decoded(name: str, method: int) -> None:
    sample = next(each for each in SAMPLES if each.format == name)
    image, out = random.Random(1).randbytes(3000), io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(sample.member, sample.source)
        archive.writestr("image.png", image, method)
    whole, place = out.getvalue(), out.getvalue().rindex(b"image.png", 0, -500) + 9
    for end in (200, 2000):
        damaged = whole[:place] + bytes(end) + whole[place + end :]
        translator = Shouting()
        with pytest.raises(DataError, match=r"image\.png|no package that can be read"):
            run(translator, (name, damaged))
        assert translator.asked == []


def test_a_segment_or_a_member_that_fails_stays_and_the_rest_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(text: str) -> str:
        return str(1 // (text != "ZWEI")) and xml_escape(text)

    monkeypatch.setattr("specmt.formats.odt.xml_escape", failing)
    page = "<office:document-content {}><office:text>{}</office:text></office:document-content>"
    paragraphs = "<text:p>Eins</text:p><text:p>Zwei</text:p><text:p>Drei</text:p>"
    data = package({"content.xml": page.format(O, paragraphs), "styles.xml": page.format(O, "<text:p>Vier</text:p>")})
    (found,) = run(Shouting(), ("odt", data))
    assert re.findall("<text:p>(.*?)<", unpack(found.data, "content.xml")) == ["EINS", "Zwei", "DREI"]
    assert re.findall("<text:p>(.*?)<", unpack(found.data, "styles.xml")) == ["VIER"]
    (warning,) = found.summary.warnings
    assert warning.text == "kept as it was: it cannot be written (ZeroDivisionError)"
    assert (found.summary.kept, found.summary.translated, found.stats.failed) == (1, 3, 1)

    def fail(encoding: Encoding, text: str) -> bytes:
        return str(1 // ("VIER" not in text)).encode() and encoding.mark + text.encode(encoding.codec)

    monkeypatch.setattr(Encoding, "encode", fail)
    monkeypatch.setattr("specmt.formats.odt.xml_escape", xml_escape)
    (found,) = run(Shouting(), ("odt", data))
    assert re.findall("<text:p>(.*?)<", unpack(found.data, "content.xml")) == ["EINS", "ZWEI", "DREI"]
    assert unpack(found.data, "styles.xml") == unpack(data, "styles.xml")
    assert (found.summary.kept, found.stats.failed) == (1, 1)
    (found,) = run(Shouting(), ("text", "Das ist vier."))
    assert (found.data, found.stats.failed) == (b"Das ist vier.", 1)


def test_messages_name_the_file() -> None:
    with pytest.raises(DataError, match=r"^a\.json: line 1 is not JSON: Expecting value\.$"):
        read_document(b"x", "a.json", "json", FormatOptions())
    with pytest.raises(DataError, match=r"^a\.json: is nested too deep\.$"):
        read_document(b"[" * 100_000, "a.json", "json", FormatOptions())


def test_pairs_come_from_documents_and_go_to_memories(tmp_path: Path) -> None:
    path, memory = tmp_path / "a.po", tmp_path / "a.tmx"
    (document,) = run(
        Shouting({"fertig": "a < b & \x01c"}), ("po", PO), selection=Selection(translated=True), fuzzy=False
    )
    path.write_bytes(document.data)
    pairs = list(read_pairs(path, "de", "en"))
    assert ("%d Dateien", "%d DATEIEN") in pairs and ("fertig", "a < b & \x01c") in pairs
    memory.write_text("".join(write_tmx([*pairs, ("x", "a < b & c"), ("x", "a < b & c")], "de", "en")))
    read = list(read_memory(memory, "de", "en"))
    assert read == [pair for pair in pairs if pair[0] != "fertig"] + [("x", "a < b & c")]
    xliff = tmp_path / "b.xlf"
    xliff.write_bytes(next(sample for sample in SAMPLES if sample.format == "xliff").data)
    assert list(read_pairs(xliff, "de", "en")) == [("fertig", "done")]


def test_only_the_sentence_that_is_damaged_stays_in_its_language() -> None:
    answers = {"Das ist {x}.": "THIS IS.", "Das ist %s.": "THIS IS.", "Das ist": ""}
    (page,) = run(Shouting(answers), ("markdown", "Ein *Haus* ist da. Das ist {x}. Das Ende.\n\nDas ist {x}.\n"))
    assert page.data.decode() == "EIN *HAUS* IST DA. Das ist {x}. DAS ENDE.\n\nDas ist {x}.\n"
    assert [(remark.line, remark.text) for remark in page.summary.warnings] == [
        (1, "a sentence is left in its language: '{x}' is not in the translation"),
        (3, "kept as it was: '{x}' is not in the translation"),
    ]
    po = 'msgid ""\nmsgstr "Language: en\\n"\n\nmsgid "Das ist da. Das ist %s."\nmsgstr ""\n\nmsgid "Da."\nmsgstr ""\n'
    (catalogue,) = run(Shouting(answers), ("po", po), fuzzy=False)
    entries = polib.pofile(catalogue.data.decode())
    assert [(entry.msgstr, entry.fuzzy) for entry in entries] == [("DAS IST DA. Das ist %s.", True), ("DA.", False)]
    for version, state, unit in (
        ("1.2", "needs-translation", '<file><body><trans-unit id="1"><source>{0}</source></trans-unit></body></file>'),
        ("2.0", "initial", '<file id="f"><unit id="u"><segment><source>{0}</source></segment></unit></file>'),
    ):
        source = f'<xliff version="{version}" srcLang="de">{unit.format("Das ist da. Das ist {x}.")}</xliff>'
        (document,) = run(Shouting(answers), ("xliff", source), fuzzy=False)
        assert f'state="{state}"' in document.data.decode() and "DAS IST DA. Das ist {x}." in document.data.decode()


def test_what_would_lose_something_is_translated_again_in_parts() -> None:
    translator = Shouting({"Das ist {x} da.": "THIS.", "Nimm %s mit %d.": "TAKE IT."})
    page = ("markdown", "Ein *Haus*. Das ist {x} da. Das Ende.\n\nDas ist {x} da.\n\nNimm %s mit %d.\n")
    (done,) = run(translator, page)
    assert done.data == b"EIN *HAUS*. DAS IST {x} DA. DAS ENDE.\n\nDAS IST {x} DA.\n\nNIMM %s MIT %d.\n"
    assert done.summary.warnings == [] and done.summary.kept == 0
    assert translator.asked[4:] == ["Das ist", "da.", "Nimm", "mit"]


def test_what_is_copied_is_parted_from_words_as_it_was() -> None:
    answers = {"Haus (http://a.de) da.": "HOUSE", "Haus (": "HOUSE", ") da.": "THERE."}
    (done,) = run(Shouting(answers), ("rst", "Haus (http://a.de) da.\n"))
    assert done.data == b"HOUSE http://a.de THERE.\n" and done.summary.kept == 0
    answers = {"Haus ({t1}) da.": "HOUSE", "Haus (": "HOUSE", ") da.": "THERE."}
    (done,) = run(Shouting(answers), ("markdown", "Haus (`a`) da.\n"))
    assert done.data == b"HOUSE `a` THERE.\n" and done.summary.kept == 0


def test_tags_that_a_sentence_has_none_of_are_taken_out() -> None:
    answers = {"Das Haus.": "<a> THE **HOUSE**.", "Ein <b>.": "<b> A <b>.", "Die Section.": "THE\u00a0<section>."}
    (done,) = run(Shouting(answers), ("rst", "Das *Haus*.\n\nEin <b>.\n\nDie Section.\n"))
    assert done.data.decode() == "THE *HOUSE*.\n\nEIN <b>.\n\nTHE\u00a0section.\n"  # a word that is said as a tag stays
    assert done.summary.kept == 0


def test_what_is_copied_whole_is_its_own_translation() -> None:
    (done,) = run(Shouting({"lib/haus.py": "lib/haus.py lib/haus.py"}), ("rst", "lib/haus.py\n"))
    assert done.data == b"lib/haus.py\n" and done.summary.kept == 0


def test_links_that_would_be_around_no_word_are_translated_in_parts() -> None:
    page = "<p><a href=a>eins</a> <a href=b>zwei</a></p><p>h<b>all</b><i>o</i></p>"
    (done,) = run(translator := Shouting({"eins zwei": "ONETWO", "hallo": "HELLO"}), ("html", page))
    assert done.data.decode() == "<p><a href=a>EINS</a> <a href=b>ZWEI</a></p><p><b>HELLO</b><i></i></p>"
    assert translator.asked == ["eins zwei", "hallo", "eins", "zwei"]
    (done,) = run(Shouting({"eins zwei": "ONETWO", "zwei": ""}), ("html", page))
    assert done.data.decode().startswith("<p><a href=a>ONETWO</a><a href=b></a></p>") and done.summary.kept == 0


def test_a_segment_that_a_document_cannot_hold_is_translated_again_in_parts() -> None:
    page = "Eins `zwei`.\n\nDrei <?php echo 1; ?> vier\n\n**foo*bar*baz**\n"
    answers = {"Drei {t1} vier": "{t1} FOUR THREE", "foobarbaz": "BARBAZ BAR"}
    (done,) = run(Shouting(answers, aligns=False), ("markdown", page))
    assert done.data.decode() == with_capitals(page, "Eins", "Drei", "vier", "foo*bar*baz")
    assert done.summary.kept == 0
    (done,) = run(Shouting(answers | {"Drei": ""}, aligns=False), ("markdown", page))
    assert b"Drei <?php echo 1; ?> vier" in done.data and done.summary.kept == 2  # and what is before it


def test_no_sentence_ends_in_what_is_copied() -> None:
    texts = ["Es kostet ${x ?? 0} mehr.", "Der <i data-x='Ja. Nein'>Preis</i> steigt.", "Gut."]
    document = read_document(json.dumps({"a": "  ".join(texts)}).encode(), "a", "json", FormatOptions())
    assert [line.text for line in sentences_of([("a", document)])] == texts
