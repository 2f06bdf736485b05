"""Which blocks are which: of an earlier state of a file, and of a translation."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specmt.formats.blocks import Content
from specmt.text.patience import patience
from specmt.update.matching import match
from specmt.update.pairing import Shape, pair, shape
from specmt.update.plan import PlanOptions, plan
from specmt.update.record import Entry, Item
from tests.growth import Counted, assert_linear, assert_linear_steps


def items(text: str) -> list[Item]:
    """Returns a block for each word: ``kind:key=sentences``, a letter a sentence."""
    made = []
    for word in text.split():
        name, _, said = word.rpartition("=")
        kind, _, key = name.partition(":")
        made.append(Item(kind or "p", key, said, "-", tuple(said)))
    return made


def matched(old: str, new: str) -> str:
    """Returns the number of the old block for each new one."""
    found = match(items(old), items(new))
    return " ".join(str(found.get(number, "-")) for number in range(len(new.split())))


def test_blocks_are_matched() -> None:
    assert matched("a b c", "a b c") == "0 1 2"
    assert matched("a b c", "a x b c") == "0 - 1 2"
    assert matched("a b c", "a x c") == "0 1 2"  # in place
    assert matched("a b c d", "c a b d") == "2 0 1 3"  # moved
    assert matched("e:x=a e:y=b", "e:y=c e:x=a") == "1 0"  # by key
    assert matched("a abcd c", "a x c y abxx z") == "0 - 2 - 1 -"  # half of the sentences
    assert matched("a h=b c", "a q c") == "0 - 2"  # another kind
    assert matched("p x q x", "q x p") == "2 3 0"  # doubles by their neighbours
    assert matched("", "a") == "-"


words = st.lists(st.sampled_from("abcde"), max_size=8)


@given(words, words)
def test_the_longest_runs_are_in_order_and_the_same(old: list[str], new: list[str]) -> None:
    pairs = patience(old, new)
    assert all(old[one] == new[other] for one, other in pairs)
    assert all(one[0] < other[0] and one[1] < other[1] for one, other in pairwise(pairs))
    if old == new:
        assert len(pairs) == len(old)


@given(words, words)
def test_no_block_is_matched_twice(old: list[str], new: list[str]) -> None:
    found = match(items(" ".join(old)), items(" ".join(new)))
    assert len(set(found.values())) == len(found)
    assert {new[number] for number in found if found[number] < len(old)} <= {*new}
    common = sum(min(old.count(word), new.count(word)) for word in set(old))
    assert sum(old[one] == new[other] for other, one in found.items()) == common


def test_matching_takes_linear_time() -> None:
    def check(size: int) -> None:
        texts = [str(number % 4 if number % 3 else number) for number in range(size)]
        old = [Item("p", "", Counted(text), "-", (Counted(number),)) for number, text in enumerate(texts)]
        match(old, old[size // 2 :] + old[: size // 2])

    assert_linear_steps(check, 250)


@settings(max_examples=50)
@given(words, words, words)
def test_a_plan_keeps_or_names_every_block(old: list[str], source: list[str], target: list[str]) -> None:
    known = [Entry("p", "", word, "-", word.upper(), "m", (word,), (word.upper(),)) for word in old]
    theirs = [Item("p", "", word, "-", (word,)) for word in map(str.upper, target)]
    made = plan(known, items(" ".join(source)), theirs, PlanOptions())
    numbers = [number for number, _ in made.order if number is not None]
    assert sorted(numbers) == [number for number, step in enumerate(made.steps) if step.action != "leave"]
    places = [place for _, place in made.order if place is not None]
    assert len(set(places)) == len(places)
    gone = {theirs[place].text for place in set(range(len(theirs))) - set(places)}
    assert gone <= {each.target for each in known}  # of what a person wrote nothing goes


def test_files_of_very_different_lengths_are_paired() -> None:
    block = shape("p", Content(("Ein Satz.",), ()))
    for ours, theirs in ((0, 1000), (1, 1000), (1000, 1), (2, 0)):
        assert len(pair([block] * ours, [block] * theirs)) in (min(ours, theirs), 2 * min(ours, theirs))


def test_files_are_paired() -> None:
    ours = ["Titel", "Siehe 12 und 13.", "Ein Satz über a_b.", "Ende gut."]
    theirs = ["Title", "See 12 and 13.", "Only here, and rather long as it is.", "A sentence on a_b.", "All is well."]
    sides = [[shape("p", Content((text,), ())) for text in side] for side in (ours, theirs)]
    found = pair(*sides)
    assert [(each.source, each.target) for each in found] == [(0, 0), (1, 1), (2, 3), (3, 4)]
    assert [each.is_sure for each in found] == [True, False, False, True]
    assert [each.is_marked for each in found] == [False, True, True, False]


def test_pairing_takes_linear_time() -> None:
    def check(size: int) -> None:
        texts = [f"Ein Satz{f' über {number}' if number % 5 == 0 else ''}." for number in range(size)]
        blocks = [shape("p", Content((text,), ())) for text in texts]
        found = pair(blocks, blocks[: size // 4] + blocks[size // 4 + 5 :])
        assert [each.target for each in found[-20:]] == [*range(size - 25, size - 5)]

    assert_linear(check, 80)


def test_marks_say_what_is_sure() -> None:
    def side(*blocks: tuple[str, str, str]) -> list[Shape]:
        return [shape(kind, Content((text,), tuple(link.split()))) for kind, text, link in blocks]

    ours = side(
        ("p", "Siehe {t1}hier.", "[ ](b/c.md)"),
        ("p", "Die Jahre 1, 2 und 3.", ""),
        ("p", "Ende gut.", ""),
        ("p", "Das Jahr 5.", ""),
        ("paragraph", "... und so", ""),
    )
    theirs = side(
        ("p", "See {t2}here.", "[ ](d.md)"),  # a link within the site is of that language
        ("p", "Years 1, 2 and three.", ""),  # one is spelt out, and its neighbours are the same
        ("p", "All is well.", ""),
        ("p", "Year 6.", ""),
        ("item", "... and so", ""),
    )
    found = pair(ours, theirs)
    assert [each.target for each in found] == [0, 1, 2, 3, 4]
    assert [each.is_sure for each in found] == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("`helm\ncreate`", "`helm create`"), ('[|]({{< ref\n"a.md" >}})', '[|]({{< relref path="/b/a.md" lang="de" >}})')],
)
def test_marks_are_the_same_however_their_lines_are_broken_and_pages_of_the_site_named(ours: str, theirs: str) -> None:
    marks = [shape("p", Content(("Das.",), tuple(each.split("|")))).marks for each in (ours, theirs)]
    assert marks[0] == marks[1]


def test_languages_of_which_one_is_shorter_are_paired_block_by_block() -> None:
    lengths = [30, 180, 60, 240, 90, 120] * 3
    ours, theirs = ([shape("p", Content(("x" * int(length * by),), ())) for length in lengths] for by in (1, 0.35))
    assert [each.target for each in pair(ours, theirs)] == [*range(18)]
