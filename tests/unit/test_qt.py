"""Translations of Qt: states, plural forms, and what becomes of what is there."""

from __future__ import annotations

import pytest

from specmt.types import Tagged
from tests.documents import SAMPLES, read, translate

MESSAGE = '<TS language="de_DE"><context><message{}><source>{}</source>\n  {}</message></context></TS>'


@pytest.mark.parametrize(
    ("translation", "state"),
    [
        ("<translation>Haus</translation>", "translated"),
        ('<translation type="unfinished">Haus</translation>', "fuzzy"),
        ('<translation type="unfinished"/>', "new"),
        ("<translation></translation>", "new"),
        ("", "new"),
    ],
)
def test_states(translation: str, state: str) -> None:
    (segment,) = read("qt", MESSAGE.format("", "house", translation).encode(), target="de").segments
    assert (segment.state, segment.target) == (state, "Haus" if "Haus" in translation else "")


@pytest.mark.parametrize(
    "translation",
    [
        '<translation type="obsolete">Haus</translation>',
        '<translation variants="yes"><lengthvariant>Haus</lengthvariant></translation>',
    ],
)
def test_what_is_left(translation: str) -> None:
    assert not read("qt", MESSAGE.format("", "house", translation).encode()).segments


@pytest.mark.parametrize(("target", "count"), [("ja", 1), ("de", 2), ("pl", 3), ("ar", 6)])
def test_plural_forms(target: str, count: int) -> None:
    old = "<translation><numerusform></numerusform></translation>"
    data = MESSAGE.format(' numerus="yes"', "%n file(s)", old).encode()
    written = translate(read("qt", data, target=target, fuzzy=False)).decode()
    assert written.count("<numerusform>%n FILE(S)</numerusform>") == count
    assert ('type="unfinished"' in written) is (count > 1)
    assert (f'language="{target}"' in written) is (target != "de")


def test_what_is_to_be_reviewed_says_so() -> None:
    sample = next(sample for sample in SAMPLES if sample.format == "qt")
    written = translate(read("qt", sample.data)).decode()
    assert '<translation type="unfinished"> MEIN &amp;HAUS' in written
    assert "<translation>old</translation>" in written
    document = read("qt", MESSAGE.format("", "house", "").encode(), target="de", fuzzy=False)
    written = document.write({0: Tagged("Haus", confidence=0.0)}, print).decode()
    assert '<translation type="unfinished">Haus</translation>' in written


@pytest.mark.parametrize(
    ("source", "asked"),
    [
        ("&amp;copy; Tom &amp;amp; Jerry", "© TOM & JERRY"),
        ("Images (*.png);;All files (*)", "IMAGES (*.PNG){t1}ALL FILES (*)"),
    ],
)
def test_entities_and_what_is_between_filters_stay(source: str, asked: str) -> None:
    document = read("qt", MESSAGE.format("", source, "<translation/>").encode(), source="en", target="de")
    (segment,) = document.segments
    assert segment.source.text.upper().replace("{T1}", "{t1}") == asked
    written = document.write({0: Tagged(asked, segment.source.tags)}, print).decode()
    wanted = source.upper()
    for each in ("amp", "copy", "lt", "gt"):
        wanted = wanted.replace(f"{each.upper()};", f"{each};")
    assert f'<translation type="unfinished">{wanted}</translation>' in written
