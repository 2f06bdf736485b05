from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmt.options import DecodingOptions
from specmt.text.protect import protect, protect_pair, restore, says_nothing, stand_ins
from specmt.translator import Places, Translator
from specmt.types import Hypothesis, Stats
from tests.unit.test_translator import FakeModel


@pytest.mark.parametrize(
    ("text", "seen", "literals"),
    [
        ("Siehe https://a.de/b?x=1.", "Siehe %1.", ["https://a.de/b?x=1"]),
        ("An a.b@c.de oder www.c.de/x", "An %1 oder %2", ["a.b@c.de", "www.c.de/x"]),
        ("{name} hat %s und %(n)d und ${X}", "%1 hat %2 und %3 und %4", ["{name}", "%s", "%(n)d", "${X}"]),
        ("Öffne /etc/ssh/sshd_config.", "Öffne %1.", ["/etc/ssh/sshd_config"]),
        ("In C:\\Temp\\log.txt und ~/x/y", "In %1 und %2", ["C:\\Temp\\log.txt", "~/x/y"]),
        ("Danke 👍🏽!", "Danke %1!", ["👍🏽"]),
        ('<a href="/x/y">Hilfe</a>', '<a href="/x/y">Hilfe</a>', []),
        ("Er und/oder sie, 1/2/3 mal, 50 % mehr", "Er und/oder sie, 1/2/3 mal, 50 % mehr", []),
        ("%3 und https://a.de", "%1 und %2", ["%3", "https://a.de"]),
        ("{x}7", "{x}7", []),
        ("", "", []),
    ],
)
def test_what_must_be_copied_gets_a_stand_in(text: str, seen: str, literals: list[str]) -> None:
    assert protect(text) == (seen, literals)


@given(st.lists(st.sampled_from(["%1", "%", "7", " ", "https://a.de/%2", "{x}", "/a/b", "🎉", "<b>", "a@b.de", "z"])))
def test_nothing_is_lost(parts: list[str]) -> None:
    text = "".join(parts)
    seen, literals = protect(text)
    assert restore(seen, literals) == text
    assert {f"%{number}" for number in range(1, len(literals) + 1)} <= set(stand_ins(seen))


@pytest.mark.parametrize(
    ("pair", "seen"),
    [
        (("{x} bei https://a.de", "https://a.de has {x}"), ("%1 bei %2", "%2 has %1")),
        (("{x}, {x}, {y}", "{y}: {x}, {x}, {x}"), ("%1, %2, %3", "%3: %1, %2, {x}")),
        (("nichts", "{y} and {z}"), ("nichts", "{y} and {z}")),
        (("{x} und %2", "{x} and %1"), ("%1 und %2", "%1 and %1")),
        (("{x}", "{x}7 {x}"), ("%1", "{x}7 {x}")),
    ],
)
def test_both_sides_of_a_pair_have_the_same_stand_ins(pair: tuple[str, str], seen: tuple[str, str]) -> None:
    assert protect_pair(*pair) == seen


@given(*[st.permutations(["{x}", "https://a.de/x", "🎉", "a@b.de", "Wort", "{x}"])] * 2)
def test_pairs_mean_what_they_meant(source: list[str], target: list[str]) -> None:
    seen, target_seen = protect_pair(" ".join(source), " ".join(target))
    assert (seen, literals := protect(" ".join(source))[1]) == protect(" ".join(source))
    assert stand_ins(target_seen) == stand_ins(seen)
    assert restore(target_seen, literals) == " ".join(target)


def test_stand_ins_without_a_meaning_stay() -> None:
    assert restore("%1 %2 %0 %", ["a"]) == "a %2 %0 %"


@pytest.mark.parametrize(("text", "nothing"), [("%1: %2 …", True), ("%1", True), ("Siehe %1", False), ("%1 3", False)])
def test_a_text_of_stand_ins_alone_says_nothing(text: str, *, nothing: bool) -> None:
    assert says_nothing(text) == nothing


class Careless:
    """Repeats its input but for the stand-in %2, which it forgets."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(
        self, model: FakeModel, sources: Sequence[list[int]], options: DecodingOptions, places: Places
    ) -> list[Hypothesis]:
        texts = [model.pieces.decode(ids) for ids in sources]
        self.seen += texts
        said = [model.pieces.encode(text.replace("%2", "?")) for text in texts]
        return [Hypothesis(ids, -1.0, Stats(sentences=1, tokens=len(ids) + 1)) for ids in said]


def translate(*lines: str, protected: bool = True) -> tuple[list[str], list[str], list[int], list[list[str]]]:
    """Returns translations, what the model saw, the tokens counted for each line, and warnings."""
    decode = Careless()
    translator = Translator(FakeModel(), decode=decode)  # type: ignore[arg-type]
    done = list(translator.translate(lines, DecodingOptions(protect=protected)))
    return [each.text for each in done], decode.seen, [each.stats.tokens for each in done], [x.warnings for x in done]


def test_the_model_sees_stand_ins_and_the_user_what_they_stand_for() -> None:
    assert translate("a {x} b", "c") == (["a {x} b", "c"], ["a %1 b", "c"], [4, 2], [[], []])
    assert translate("a {x} b", protected=False)[1] == ["a {x} b"]


def test_a_sample_is_the_models_own() -> None:
    decode = Careless()
    translator = Translator(FakeModel(), decode=decode)  # type: ignore[arg-type]
    list(translator.translate(["a {x} %2"], DecodingOptions(strategy="greedy", temperature=0.5)))
    assert decode.seen == ["a {x} %2"]


def test_a_line_with_nothing_to_translate_bypasses_the_model() -> None:
    assert translate("{x}: {y}", " {z}") == (["{x}: {y}", " {z}"], [], [0, 0], [[], []])


def test_where_a_stand_in_is_lost_the_model_sees_the_line_as_it_is() -> None:
    texts, seen, tokens, warnings = translate("a {x} {y}", "b")
    assert texts == ["a {x} {y}", "b"]
    assert seen == ["a %1 %2", "b", "a {x} {y}"]
    assert tokens == [8, 2]  # both translations count
    assert warnings == [[], []]


def test_where_the_line_as_it_is_would_be_too_long_a_warning_is_given() -> None:
    # The fake model counts a word with invisible spaces as several.
    texts, seen, _, warnings = translate("x y z {a} https://b\u200bc\u200bd")
    assert seen == ["x y z %1 %2"]
    assert texts == ["x y z {a} ?"]
    assert warnings == [["1 of 1 parts may lack addresses or placeholders"]]
