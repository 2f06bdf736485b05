"""What a document has translations of drafts for what is like it: the same output, with fewer verifier calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pytest

from specmt.documents import Finished, Selection, translate_documents
from specmt.formats import read_document
from specmt.formats.document import FormatOptions
from specmt.formats.markup import xml_escape
from specmt.models.folder import ASSETS
from specmt.models.hub import Model
from specmt.options import DecodingOptions
from specmt.text.memory import Pair
from specmt.translator import Translator
from specmt.types import Line, Stats, Translation
from tests.documents import PO, read

TEXTS = ASSETS / "sample.de"
OPTIONS = DecodingOptions(block_size=16, batch_size=8)
"""With a fixed block size: what is drafted depends on no clock."""


@pytest.fixture(scope="module")
def pairs(bundled: Model) -> list[Pair]:
    """Twenty texts and their translations."""
    translator = Translator(bundled)
    texts = [line for line in TEXTS.read_text().split("\n") if 40 < len(line) < 90 and '"' not in line][:20]
    return [(text, translation.text) for text, translation in zip(texts, translator.translate(texts), strict=True)]


def edited(text: str) -> str:
    """Returns a text with another word in front of its last one."""
    head, _, last = text.rpartition(" ")
    return f"{head} gar {last}"


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def po(pairs: list[Pair]) -> str:
    return "".join(
        f"#, fuzzy\n#| msgid {quoted(old)}\nmsgid {quoted(edited(old))}\nmsgstr {quoted(said)}\n\n"
        for old, said in pairs
    )


def po_beside(pairs: list[Pair]) -> str:
    return "".join(
        f'msgid {quoted(old)}\nmsgstr {quoted(said)}\n\nmsgid {quoted(edited(old))}\nmsgstr ""\n\n'
        for old, said in pairs
    )


def xliff(pairs: list[Pair]) -> str:
    units = "".join(
        f'<trans-unit id="{number}"><source>{xml_escape(edited(old))}</source><alt-trans match-quality="80"><source>'
        f"{xml_escape(old)}</source><target>{xml_escape(said)}</target></alt-trans></trans-unit>\n"
        for number, (old, said) in enumerate(pairs)
    )
    return f'<xliff version="1.2"><file source-language="de"><body>{units}</body></file></xliff>'


def tmx(pairs: list[Pair]) -> str:
    units = "".join(
        f'<tu><tuv xml:lang="de"><seg>{xml_escape(old)}</seg></tuv><tuv xml:lang="en"><seg>{xml_escape(said)}</seg>'
        f'</tuv></tu><tu><tuv xml:lang="de"><seg>{xml_escape(edited(old))}</seg></tuv></tu>'
        for old, said in pairs
    )
    return f'<tmx version="1.4"><header/><body>{units}</body></tmx>'


def run(translator: Translator, *sources: tuple[str, str], drafts: bool = True) -> list[Finished]:
    documents = [
        (name, read_document(source.encode(), name, name, FormatOptions(source="de", target="en")))
        for name, source in sources
    ]
    selection = Selection(fuzzy=True)
    remember = translator.remember if drafts else None
    return list(translate_documents(translator, documents, OPTIONS, selection, remember))


@pytest.mark.parametrize("make", [po, po_beside, xliff, tmx])
def test_drafts_change_no_output_and_save_calls(
    make: Callable[[list[Pair]], str], pairs: list[Pair], translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    source = make.__name__.split("_")[0], make(pairs)
    stats: list[Stats] = []
    outputs: set[bytes] = set()
    for drafts in (False, True):
        (document,) = run(translator, source, drafts=drafts)
        assert document.summary.translated == len(pairs)
        outputs.add(document.data)
        stats.append(document.stats)
    assert len(outputs) == 1
    without, beside = stats
    assert beside.verifier_calls < 0.95 * without.verifier_calls
    assert beside.drafted < 0.25 * without.drafted and beside.accepted > without.accepted


def test_documents_with_drafts_and_without_come_in_order(translator: Translator, pairs: list[Pair]) -> None:
    sources = [("po", po(pairs)), ("text", "Haus.\n"), ("text", "Hof.\n"), ("tmx", tmx(pairs))]
    apart = [document.data for source in sources for document in run(translator, source)]
    together = run(translator, *sources)
    assert [document.data for document in together] == apart
    assert sum((document.stats for document in together), Stats()).lines == len(pairs) + 2


def test_lines_are_aligned_where_they_are_to_be(translator: Translator) -> None:
    lines = [Line(number, "Das ist ein Haus.", aligned=number != 1) for number in range(3)]
    found = [each.alignment for each in translator.translate(lines, DecodingOptions(alignments=True))]
    assert found[0] and found[0] == found[2] and found[1] is None


def test_only_exact_decoding_is_drafted_for() -> None:
    asked: list[DecodingOptions] = []
    remembered: list[list[Pair]] = []

    class Silent:
        def translate(self, lines: Iterable[Line], options: DecodingOptions) -> Iterator[Translation]:
            asked.append(options)
            return (Translation(line, "") for line in lines)

    document = read("po", po_beside([("Das ist ein Haus", "a house")]).encode())
    for options in (
        DecodingOptions(),
        DecodingOptions(strategy="greedy"),
        DecodingOptions(tolerance=1.0),
        DecodingOptions(temperature=1.0),
        DecodingOptions(drafter="masked"),
    ):
        remember = lambda pairs, _: remembered.append([*pairs])  # noqa: E731
        assert [*translate_documents(Silent(), [("a", document)], options, None, remember)]
    assert [options.drafter for options in asked] == ["auto+lookup", "auto", "auto", "auto", "masked"]
    assert remembered == [[("Das ist ein Haus", "a house")]]


def test_what_a_text_was_before_and_what_a_memory_suggests() -> None:
    fuzzy = PO.replace('#, fuzzy\nmsgid "unklar"', '#, fuzzy\n#| msgid ""\n#| "un"\n#| "deutlich"\nmsgid "unklar"')
    segments = {segment.source.text: segment for segment in read("po", fuzzy.encode()).segments}
    assert segments["unklar"].near == (("undeutlich", "unsure"),)
    assert segments["fertig"].near == (("Alt", "done"),)
    suggested = (
        '<xliff version="1.2"><file><body><trans-unit id="a"><source>Ein Haus</source><alt-trans><target>A <g id="1">'
        "house</g></target></alt-trans><alt-trans><source>Das Haus</source><target>The house</target></alt-trans>"
        "</trans-unit></body></file></xliff>"
    )
    (segment,) = read("xliff", suggested.encode()).segments
    assert segment.state == "new"
    assert segment.near == (("Ein Haus", "A house"), ("Das Haus", "The house"))
