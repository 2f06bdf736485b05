"""Text in capitals, and back."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmt.text.capitals import Lowered, lower_shouted, raise_again
from specmt.text.lexicon import Lexicon, to_key


def lexicon(words: str, keywords: str = "") -> Lexicon:
    return Lexicon.of(frozenset(), {to_key(word): word for word in words.split()}, keywords.split())


ENGLISH = lexicon(
    "a am and at don't do help I in is it not NASA OK of on please Paris please read select smoking the this "
    "touch USB very very warning we",
    keywords="SELECT",
)
GERMAN = lexicon("bitte die Fest große Haus ist Kranken man Masse München nicht nie Straße Straßen und USB")


@pytest.mark.parametrize(
    ("text", "lowered"),
    [
        ("DO NOT TOUCH THE USB %1!", "Do not touch the USB %1!"),
        ("PLEASE READ 5 OF %2.", "Please read 5 of %2."),
        ("HELP! WE DON’T SELECT PARIS.", "Help! We don't select Paris."),
        ("PLATFORMS IN PARIS", "Platforms in Paris"),  # not listed
        ("TOUCH IT (NASA)", "Touch it (NASA)"),
        ("“WARNING: DO NOT READ THIS”", "“Warning: Do not read this”"),
        ("HELP", "Help"),
        ("SELECT", "Select"),
        ("VITAMIN C", "Vitamin C"),
    ],
)
def test_lines_in_capitals(text: str, lowered: str) -> None:
    assert lower_shouted(text, ENGLISH) == Lowered(lowered, is_whole=True)


@pytest.mark.parametrize(
    ("text", "lowered"),
    [
        ("BITTE NICHT IN DIE STRASSE", "Bitte nicht IN die Straße"),  # "in" is not listed
        ("FUßBALL UND STRAẞENFEST", "Fußball und Straßenfest"),
        ("DIE MAẞE UND DIE MASSE", "Die Maße und die Masse"),
        ("KRANKENHAUS", "Krankenhaus"),
        ("GROSSE STRASSENFESTE", "Große strassenfeste"),
    ],
)
def test_german(text: str, lowered: str) -> None:
    assert lower_shouted(text, GERMAN) == Lowered(lowered, is_whole=True)


@pytest.mark.parametrize(
    "text",
    [
        "", "5 %1", "USB NASA", "NASA", "DIN A4", "BMW X5", "OK", "ON", "QUUX", "Please read this.",
        "I am in Paris.", "The SELECT of NASA", "It is NOT 5 km.", "A house", "東京 2020",
    ],
)  # fmt: skip
def test_stays(text: str) -> None:
    assert lower_shouted(text, ENGLISH) == Lowered(text)


@pytest.mark.parametrize(
    ("text", "lowered", "words"),
    [
        ("I am VERY happy.", "I am very happy.", (2,)),
        ("WARNING: the USB port", "Warning: the USB port", (0,)),
        ("PLEASE DO NOT touch (VERY hot)", "Please do not touch (very hot)", (0, 1, 2, 4)),
        ("This IS NOT it.", "This is not it.", (1, 2)),
        ("A VERY good text", "A very good text", (1,)),
    ],
)
def test_words_in_capitals(text: str, lowered: str, words: tuple[int, ...]) -> None:
    assert lower_shouted(text, ENGLISH) == Lowered(lowered, words=words)


def test_without_spellings() -> None:
    assert lower_shouted("НЕ ТРОГАТЬ %1", Lexicon()) == Lowered("Не трогать %1", is_whole=True)
    assert lower_shouted("QUUX", Lexicon()) == Lowered("QUUX")
    assert lower_shouted("Ich bin SEHR froh", Lexicon()) == Lowered("Ich bin SEHR froh")


def test_raises() -> None:
    assert raise_again("Große Straße %1", Lowered("", is_whole=True)) == "GROSSE STRASSE %1"
    one = Lowered("I am very happy.", words=(2,))
    assert raise_again("Ich bin sehr  froh.", one, [(0, 0), (2, 2), (3, 3)]) == "Ich bin SEHR  froh."
    assert raise_again("Ich bin sehr froh.", one) == "Ich bin sehr froh."


WORDS = st.sampled_from(
    [
        "PLEASE",
        "Do",
        "DON'T",
        "VERY",
        "very",
        "NASA",
        "USB",
        "%1",
        "5",
        "km",
        "İ",
        "ß",
        "SELECT",
        "STRAẞE",
        *' ,.!"(—\t',
    ]
)


@given(st.lists(WORDS).map(" ".join))
def test_nothing_is_lost(text: str) -> None:
    lowered = lower_shouted(text, ENGLISH)
    assert Counter(lowered.text.casefold()) == Counter(text.casefold())
    assert lower_shouted(lowered.text, ENGLISH).text == lowered.text
    if lowered.is_whole:
        assert raise_again(lowered.text, lowered) == text.replace("ß", "SS").replace("ẞ", "SS")
