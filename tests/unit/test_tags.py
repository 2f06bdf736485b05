"""Inline tags come back in the translation: never lost, never invented, well nested, around whole words."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specmt.formats.inline import Inline, render
from specmt.text import tags
from specmt.text.tags import Alignment, carry, guess
from specmt.types import Tagged

MARKUP = re.compile(r"(<b>|</b>|<i>|</i>|<br>|<x>)")


def parse(marked: str) -> Tagged:
    """Returns a text with pairs <b> and <i>, placeholders <x> and points <br>."""
    inline = Inline(marked)
    place = 0
    for part in MARKUP.split(marked):
        span = place, place + len(part)
        place = span[1]
        if part in ("<b>", "<i>"):
            inline.open(*span, part[1])
        elif part in ("</b>", "</i>"):
            inline.close(*span, part[2])
        elif part == "<br>":
            inline.point(*span)
        elif part == "<x>":
            inline.opaque(*span)
        else:
            inline.text(*span)
    found = inline.take()
    assert found is not None
    return found[0]


def carried(marked: str, target: str, alignment: Alignment | None = None) -> tuple[str, bool]:
    source = parse(marked)
    tagged, is_sure = carry(source, target, alignment)
    pieces = render(tagged)
    return "".join(piece if isinstance(piece, str) else marked[slice(*piece)] for piece in pieces), is_sure


def align(pairs: str) -> list[tuple[int, int]]:
    return [(int(one), int(other)) for one, other in (pair.split("-") for pair in pairs.split())]


@pytest.mark.parametrize(
    ("source", "target", "alignment", "expected"),
    [
        ("Ich <b>sehe</b> ihn", "I see him", "0-0 1-1 2-2", "I <b>see</b> him"),
        # What stays as it is has its tags where they are, in words, too.
        ("<b>-B</b>=<i>DIR</i>", "-B=DIR", "0-0", "<b>-B</b>=<i>DIR</i>"),
        ("<b>  -B</b>=DIR", "-B=DIR", "0-0", "<b>-B</b>=DIR"),
        # The verb moves; two words become one, and one two.
        ("Ich habe <b>ihn</b> gesehen", "I saw him", "0-0 1-1 3-1 2-2", "I saw <b>him</b>"),
        (
            "der <b>Datenbankserver</b> läuft",
            "the database server runs",
            "0-0 1-1 1-2 2-3",
            "the <b>database server</b> runs",
        ),
        # What is between words of a pair belongs to it, where it belongs to no other.
        ("a <b>b c</b> d", "A B of C D", "0-0 1-1 2-3 3-4", "A <b>B of C</b> D"),
        # A word that went far away does not take others with it.
        ("<b>a b c</b> d e f", "B C D E F A", "0-5 1-0 2-1 3-2 4-3 5-4", "<b>B C</b> D E F A"),
        # Marks beside a word are in the pair where they were, and only there.
        ("Sie <b>lacht</b>.", "She laughs.", "0-0 1-1", "She <b>laughs</b>."),
        ("Sie <b>lacht.</b> Ja.", "She laughs. Yes.", "0-0 1-1 2-2", "She <b>laughs.</b> Yes."),
        ("Das „<b>Haus</b>“ da", "That “house” there", "0-0 1-1 2-2", "That “<b>house</b>” there"),
        ("Das <b>Haus (a)</b>. Ja", "House (a). Yes", "1-0 2-1 3-2", "<b>House (a)</b>. Yes"),
        ("(<b>Das Haus</b>). Ja", "(House). Yes", "0-0 1-0 2-1", "(<b>House</b>). Yes"),
        # A bracket is where its other one is.
        ("<b>Haus</b>(1) da", "House(1) there", "0-0 1-1", "<b>House(1)</b> there"),
        ("<b>[a] Haus</b> da", "House [a] there", "0-1 1-0 2-2", "<b>House [a]</b> there"),
        ("<b>Haus [a]</b> da", "[A] house there", "0-1 1-0 2-2", "<b>[A] house</b> there"),
        # A name without a partner is in the word that has it.
        ("alle <b>PDF</b> Dateien da", "there all PDF-files", "0-1 2-2 3-0", "there all <b>PDF</b>-files"),
        # Pairs around parts of a word are so where the word is the same.
        ("d<b>ef</b>g<i>h</i> a", "A Defgh defgh", "0-1 0-2 1-0", "A D<b>ef</b>g<i>h</i> defgh"),
        ("a<b>☺</b>d x", "A☺D X", "0-0 1-1", "A<b>☺</b>D X"),
        ("x d<b>e<i>f</i></b> a", "A DEF X", "0-2 1-1 2-0", "A D<b>E<i>F</i></b> X"),
        # A pair around marks alone is around those of the word.
        ("<b>Sie lacht</b> laut<i>.</i>", "She laughs loudly.", "0-0 1-1 2-2", "<b>She laughs</b> loudly<i>.</i>"),
        # Pairs change places, and nest as before.
        ("<b>a</b> und <i>c</i>", "C and A", "0-2 1-1 2-0", "<i>C</i> and <b>A</b>"),
        ("<b>a <i>c</i></b> d", "D C A", "0-2 1-1 2-0", "D <b><i>C</i> A</b>"),
        ("d <b><i>a</i> x</b>", "A D X", "0-1 1-0 2-2", "<b><i>A</i></b> D X"),
        # Placeholders are where the model says.
        ("Drücke <b><x> jetzt</b> bitte", "Please press {t1} now", "3-0 0-1 1-2 2-3", "Please press <b><x> now</b>"),
        ("Haus <b>b</b><x> c", "A B{t1} C", "0-0 1-1 2-2", "A <b>B</b><x> C"),
        ("a <x> <b>b c</b><x> d", "A {t1}-B C-{t2} D", "0-0 1-1 2-1 3-2 4-3", "A <x>-<b>B C</b>-<x> D"),
        # Points stay behind the word that they touch, or before the next one.
        ("a <br>b c", "B A C", "0-1 1-0 2-2", "<br>B A C"),
        ("a <b>b<br> c</b> d", "A B C D", "0-0 1-1 2-2 3-3", "A <b>B<br> C</b> D"),
    ],
)
def test_each_word_takes_the_tags_of_its_source(source: str, target: str, alignment: str, expected: str) -> None:
    got, _ = carried(source, target, align(alignment))
    assert got == expected


def test_what_is_not_sure_is_said() -> None:
    assert carried("a <b>b</b>", "A B", align("0-0 1-1")) == ("A <b>B</b>", True)
    assert carried("a <b>b</b> c", "A C", align("0-0 2-1"))[1] is False
    assert carried("a <b>b</b>", "A B", None) == ("A <b>B</b>", False)
    assert carried("a <b>b-1</b> c d", "A C D b-1", None) == ("A C D <b>b-1</b>", True)
    assert carried("a <br>b", "A B", None)[1] is True


@pytest.mark.parametrize(("target", "expected"), [("A B", "A <x> B"), ("{t1} A {t1}", "<x> A ")])
def test_a_stand_in_that_the_model_lost_or_doubled(target: str, expected: str) -> None:
    assert carried("a <x> b", target, align("0-0 1-1")) == (expected, False)


def test_words_are_aligned_by_what_they_share() -> None:
    assert guess(["a", "Python", "ist", "b"], ["Python", "is", "A", "B"]) == [(1, 0), (2, 1), (2, 2), (3, 3)]
    assert guess([], ["a"]) == guess(["a"], []) == []


@st.composite
def marked_texts(draw: st.DrawFn) -> str:
    """Draws words with pairs, which may nest, placeholders and points."""

    def some(depth: int) -> str:
        parts = []
        for _ in range(draw(st.integers(1, 4))):
            kind = draw(st.integers(0, 5 if depth < 3 else 3))
            word = draw(st.sampled_from(["ein", "Haus,", "(gut)", "x-1", "ist."]))
            parts.append(
                {
                    2: "<x>",
                    3: f"<br>{word}",
                    4: f"<b>{some(depth + 1)}</b>" if kind == 4 else "",
                    5: f"<i>{some(depth + 1)}</i>" if kind == 5 else "",
                }.get(kind, word)
            )
        return draw(st.sampled_from([" ", " ", ""])).join(parts)

    return "Das " + some(0) + " Ende"


@settings(max_examples=200, deadline=None)
@given(marked_texts(), st.data())
def test_tags_in_are_tags_out(marked: str, data: st.DataObject) -> None:
    source = parse(marked)
    stand_ins = re.findall(r"\{t\d+\}", source.text)
    words: Sequence[str] = data.draw(
        st.permutations([*stand_ins, *data.draw(st.lists(st.sampled_from(["A", "„B“", "c.", "d"]), max_size=8))])
    )
    if data.draw(st.booleans()):
        words = words[1:]
    target = " ".join(words)
    size = max(1, len(source.text.split()))
    pairs = st.tuples(st.integers(0, size), st.integers(0, max(1, len(words))))
    got, _ = carried(marked, target, data.draw(st.none() | st.lists(pairs, max_size=12)))
    low = "".join(piece if isinstance(piece, str) else marked[slice(*piece)] for piece in render(source))
    assert sorted(MARKUP.findall(got)) == sorted(MARKUP.findall(low))
    opened: list[str] = []
    for tag in MARKUP.findall(got):
        if tag in ("<b>", "<i>"):
            opened.append(tag[1])
        elif tag.startswith("</"):
            assert opened.pop() == tag[2]
    assert not opened
    # The text is the translation, and no tag is inside a word.
    said = MARKUP.sub("", got).split()
    assert said == [word for word in re.sub(r"\{t\d+\}", "", target).split() if word]


def test_placeholders_alone_need_no_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tags, "_Words", None)
    source = parse("Das <x> Haus <x> hier")
    said, is_sure = carry(source, "here {t2} the {t1} house")
    assert [(tag.start, tag.end, tag.open) for tag in said.tags] == [
        (5, 9, source.tags[1].open),
        (14, 18, source.tags[0].open),
    ]
    assert is_sure
