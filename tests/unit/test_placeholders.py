"""What must be copied is masked, and comes out as it went in whatever a model says."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from specmt.options import DecodingOptions
from specmt.text.identify import identifier
from specmt.text.markers import take_markers
from specmt.text.parts import Part, join, sentences
from specmt.text.patterns import _KINDS, HINT, token_pattern
from specmt.text.pieces import PieceModel
from specmt.text.placeholders import find_copied, mask, restore, stand_ins
from specmt.text.rules import Rules
from specmt.text.segment import LAYOUT
from specmt.types import Hypothesis, Stats
from tests.golden.robustness import LISTED, listed
from tests.growth import assert_at_most, assert_linear
from tests.sessions import FakeModel, fake_translator


@pytest.mark.parametrize(
    ("text", "seen", "literals"),
    [
        ("Siehe https://a.de/b?x=1.", "Siehe %1.", ["https://a.de/b?x=1"]),
        ("Siehe (https://a.de/b_(c)), ok", "Siehe (%1), ok", ["https://a.de/b_(c)"]),
        ("An a.b@c.de oder www.c.de/x", "An %1 oder %2", ["a.b@c.de", "www.c.de/x"]),
        ("{name} hat %s und %(n)d und ${X}", "%1 hat %2 und %3 und %4", ["{name}", "%s", "%(n)d", "${X}"]),
        ("Noch {n, plural, one {# Datei} other {# {x}}}!", "Noch %1!", ["{n, plural, one {# Datei} other {# {x}}}"]),
        ("Für ${x ?? 0} und #{a || 'b'}", "Für %1 und %2", ["${x ?? 0}", "#{a || 'b'}"]),
        ("Öffne /etc/ssh/sshd_config.", "Öffne %1.", ["/etc/ssh/sshd_config"]),
        ("In C:\\Temp\\log.txt und ~/x/y", "In %1 und %2", ["C:\\Temp\\log.txt", "~/x/y"]),
        ("In C:\\Max Muster\\x oder D:\\y und so", "In %1 oder %2 und so", ["C:\\Max Muster\\x", "D:\\y"]),
        ("Am 2024-01-31 an <a@b.de>: <https://a.de>", "Am %1 an %2: %3", ["2024-01-31", "<a@b.de>", "<https://a.de>"]),
        ("Auf \\\\srv\\c$\\x, %TEMP%\\y", "Auf %1, %2", ["\\\\srv\\c$\\x", "%TEMP%\\y"]),
        ("Danke 👍🏽!", "Danke %1!", ["👍🏽"]),
        ("Der Wert <var>sn</var> gilt", "Der Wert %1 gilt", ["<var>sn</var>"]),
        (
            "Ein [b]Haus[/b] in [url=x]Ulm[/url] [code]",
            "Ein %1 Haus %2 in %3 Ulm %4 [code]",
            ["[b]", "[/b]", "[url=x]", "[/url]"],
        ),
        ("Wie ``:role:`x``` zeigt", "Wie %1 zeigt", ["``:role:`x```"]),
        ("Er sagte `a b` und ``c`d``.", "Er sagte %1 und %2.", ["`a b`", "``c`d``"]),
        ("Um 12:34:56.789: fe80::1, 10.0.0.1:80", "Um %1: %2, %3", ["12:34:56.789", "fe80::1", "10.0.0.1:80"]),
        ("IBAN DE89 3704 0044 0532 0130 00 gilt", "IBAN %1 gilt", ["DE89 3704 0044 0532 0130 00"]),
        ("0xDEADBEEF, #ff8800, d338109", "%1, %2, %3", ["0xDEADBEEF", "#ff8800", "d338109"]),
        ("Zu #Klima/Wende und #neu.", "Zu %1 und %2.", ["#Klima/Wende", "#neu"]),
        ("An @a-b/c-d, @a/c.", "An %1, %2.", ["@a-b/c-d", "@a/c"]),
        (
            "Als dd.MM.yyyy oder EEEE, d. MMMM yyyy",
            "Als %1 oder %2",
            ["dd.MM.yyyy", "EEEE, d. MMMM yyyy"],
        ),
        ("Je 5 mm, d. h. MM, a, d und yyyy", "Je 5 mm, d. h. MM, a, d und yyyy", []),
        ("Am F j, Y g:i a oder D, d M Y und jS F Y", "Am %1 oder %2 und %3", ["F j, Y g:i a", "D, d M Y", "jS F Y"]),
        ("Ein a Y-Chromosom, Y.M.C.A. und j, a, i", "Ein a Y-Chromosom, Y.M.C.A. und j, a, i", []),
        ("Herr ###NAME###, ##ORT## %%titel%%!", "Herr %1, %2 %3!", ["###NAME###", "##ORT##", "%%titel%%"]),
        ("Bilder (*.png)|*.png|Alle|*.*", "Bilder (%1)|%2|Alle|%3", ["*.png", "*.png", "*.*"]),
        ("Mit --foo-bar=1, -v: A_B", "Mit %1, %2: %3", ["--foo-bar=1", "-v", "A_B"]),
        ("%3 und https://a.de", "%1 und %2", ["%3", "https://a.de"]),
        ("%1$,d von %'d, zu 50%, die", "%1 von %2, zu 50%, die", ["%1$,d", "%'d"]),
        ("50 %% von 20%1.", "50 %1 von %2.", ["%%", "20%1"]),
        ("{x}7 und {x}{y}12", "%1 und %2", ["{x}7", "{x}{y}12"]),
        ("Er und/oder sie, 1/2/3 mal, 50 % mehr, 100%ig", "Er und/oder sie, 1/2/3 mal, 50 % mehr, 100%ig", []),
        ("Am 3.10.1990 um 12:34 waren 1.234.567 da.", "Am 3.10.1990 um 12:34 waren 1.234.567 da.", []),
        ("z.B. Vor- und Nachteile -- std::x, Nutzer_innen", "z.B. Vor- und Nachteile -- std::x, Nutzer_innen", []),
        (
            "Inhalt ....... 12 --- Was????? Ja ... ==",
            "Inhalt %1 12 %2 Was?%3 Ja ... %4",
            [".......", "---", "????", "=="],
        ),
        (
            "Unter 0684 / 713599, (0925) 25 84-05 oder (555) 123-4567",
            "Unter %1, %2 oder %3",
            ["0684 / 713599", "(0925) 25 84-05", "(555) 123-4567"],
        ),
        (
            "1 000 000 Leute, 4111 0222 3333, 01-05, (2010) 15, 0,05",
            "1 000 000 Leute, 4111 0222 3333, 01-05, (2010) 15, 0,05",
            [],
        ),
        ("Bis 1.5M, $2.3B und 4.2X-1", "Bis 1.5M, $2.3B und %1", ["4.2X-1"]),
        ("Jede_r setzt max_retries", "Jede_r setzt %1", ["max_retries"]),
        ("In /etc/hosts-Datei die --version-Option", "In %1-Datei die %2-Option", ["/etc/hosts", "--version"]),
        ("Er ging --und kam, ``Gut'' sagt' ``Sie''", "Er ging --und kam, ``Gut'' sagt' ``Sie''", []),
        ("", "", []),
    ],
)
def test_what_must_be_copied_gets_a_stand_in(text: str, seen: str, literals: list[str]) -> None:
    (masked,) = mask(text)
    assert (masked.text, masked.literals) == (seen, [[literal] for literal in literals])


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('Lies <a href="u">das <b>x</b></a>.', [("Lies %1.", [['<a href="u">', "das <b>x</b>", "</a>"]], "")]),
        ("Lies [das](u) und **dies**", [("Lies %1 und %2", [["[", "das", "](u)"], ["**", "dies", "**"]], "")]),
        ("<0>Hier</0> <2/> 3 <4", [("%1 %2 3 <4", [["<0>", "Hier", "</0>"], ["<2/>"]], "")]),
        ("<p>Eins <br/>zwei</p>", [("", [], "<p>"), ("Eins", [], " <br/>"), ("zwei", [], "</p>"), ("", [], "")]),
        ("<b>a</b>{x}<i>c</i>7", [("%1", [["<b>", "a", "</b>{x}<i>", "c", "</i>7"]], "")]),
        ("Das <select>-Element, <b> und <p>.", [("Das %1-Element, %2 und %3.", [["<select>"], ["<b>"], ["<p>"]], "")]),
        ("Ende</b> <y>", [("Ende", [], "</b> "), ("<y>", [], "")]),
        ("<i><b>a</i></b>", [("%1", [["<i>", "<b>a", "</i>"]], "</b>"), ("", [], "")]),
        ("2 ** 3 < 4 > 1", [("2 ** 3 < 4 > 1", [], "")]),
    ],
)
def test_text_in_elements_and_links_is_a_text_by_itself(text: str, parts: list[tuple[str, object, str]]) -> None:
    assert [(each.text, each.literals, each.separator) for each in mask(text)] == parts


TRICKY = [
    "%1", "%", "7", " ", "https://a.de/%2", "{x}", "/a/b", "🎉", "<b>", "</b>", "<br>", "a@b.de", "z", "**", "](u)",
]  # fmt: skip


@given(st.lists(st.sampled_from(TRICKY)))
def test_nothing_is_lost(pieces: list[str]) -> None:
    text = "".join(pieces)
    parts = mask(text)
    assert "".join(part.source + part.separator for part in parts) == text
    for part in parts:
        numbers = [f"%{number}" for number in range(1, len(part.literals) + 1)]
        assert stand_ins(part.text) == sorted(numbers)


@pytest.mark.parametrize("kind", LISTED)
def test_lines_without_a_hint_hold_nothing_to_copy(kind: str) -> None:
    for line, _ in islice(listed("de", kind), 300):
        assert all(HINT.search(match[0]) for match in token_pattern().finditer(line))
        assert find_copied(line)


@pytest.mark.parametrize("token", ["a](b)", "~=", "=~", "www.&", "A--0", "+--b", "|--alle", "0--A"])
def test_marks_alone_are_a_hint(token: str) -> None:
    assert find_copied(f"ein {token} hier")


def test_stand_ins_get_the_space_that_they_had() -> None:
    assert restore("%1 %2 %0 %", ["a"]) == "a %2 %0 %"
    assert restore("Öffne%1und%2x%3", ["a", "b", "c"], "%1, %2x, y%3") == "Öffne a und bxc"


UNITS = (
    "x|a.|%|{|<a |@|😀|a+|a@b.|[|![x](|**a|`|<!--|<%|<a href='|{a{|{n,number|C:\\a|\\\\a\\|A_|--a|ab:|0a|<b>|</b>|a/"
)


@pytest.mark.parametrize(
    "unit", [*UNITS.split("|"), "-", ". ", "DE89 1234 ", "http://(", "<b>x</b>", "[a](b", "[b]", "[b=x"]
)
def test_masking_takes_linear_time(unit: str) -> None:
    def check(size: int) -> None:
        text, rules = unit * (size // len(unit)), Rules(Characters(), 200, ("de", "en"))
        assert join(answer(rules, rules.split(text), str)) == text

    assert_linear(check, 3_125)
    assert_linear(lambda size: mask(unit * (size // len(unit))), 3_125)  # whatever the length of what is masked


def test_nothing_is_looked_for_within_a_number() -> None:
    digits = "9" * 100_000
    assert_at_most(0.03, lambda: find_copied(f"%20 {digits}"))
    assert find_copied(f"{digits}1\ufe0f\u20e3") == ["1\ufe0f\u20e3"]


def test_100_kb_of_anything_are_cut_and_masked_in_a_second() -> None:
    known = identifier(frozenset(("de", "en")))
    assert known is not None
    for unit in [
        *UNITS.split("|"),
        "0x1 ",
        "<a ",
        "%1 ",
        "1 ",
        "a/b.c ",
        "{n, plural, ",
        "[a](",
        "\u200b",
        "語。",
        "a\u0301",
    ]:
        text, rules = unit * (12_500 // len(unit)), Rules(Characters(), 200, ("de", "en"))
        assert_at_most(0.125, lambda: (rules.split(text), take_markers(text), known.rank(text)))  # noqa: B023


@final
class Characters(PieceModel):
    """Every four characters are a piece; the text is known by its number."""

    shared: Final = True

    def __init__(self) -> None:
        self.texts: list[str] = []

    @override
    def __len__(self) -> int:
        return len(self.texts)

    @override
    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        self.texts += texts
        return [[len(self.texts) - len(texts) + place] * -(-len(text) // 4) for place, text in enumerate(texts)]

    @override
    def encode_targets(self, texts: Sequence[str]) -> list[list[int]]:
        return self.encode_batch(texts)

    @override
    def decode(self, ids: Sequence[int]) -> str:
        return self.texts[ids[0]] if ids else ""

    @override
    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [self.texts[i] for i in ids]


def answer(rules: Rules, parts: list[Part], say: Callable[[str], str]) -> list[Part]:
    """Translates parts until nothing is to be translated again."""
    todo = list(sentences(parts))
    while todo:
        part = todo.pop()
        said = rules.pieces.encode(say(rules.pieces.decode(part.ids)))
        todo += rules.take(part, Hypothesis(said, 0.0))
    return parts


def shuffle(text: str) -> str:
    words = text.split()
    return " ".join(random.Random(text).sample(words, len(words)))


HOSTILE: dict[str, Callable[[str], str]] = {
    "repeats": str,
    "shuffles": shuffle,
    "is silent": lambda text: "",
    "loses numbers": lambda text: re.sub(r"[0-9]", "", text),
    "loses the last": lambda text: text.rpartition("%")[0],
    "doubles": lambda text: f"{text} {text}",
    "renumbers": lambda text: text.replace("%1", "%2"),
    "adds digits": lambda text: re.sub("(%[0-9]+)", r"\g<1>0", text),
    "glues": lambda text: text.replace(" ", ""),
    "parts": lambda text: text.replace("%", "% "),
    "translates": lambda text: re.sub(r"[^\W\d]+", "wort", text),
    "shouts": str.upper,
    "babbles": lambda text: f"%1 {text} https://b.de %9",
    "breaks lines": lambda text: text.replace(" ", "\n") + "\r\u2028\t",
}


@pytest.mark.parametrize("kind", LISTED)
def test_any_model_gives_what_is_listed_as_it_went_in(kind: str) -> None:
    for number, (line, things) in enumerate(islice(listed("de", kind), 300)):
        name = list(HOSTILE)[number % len(HOSTILE)]
        rules = Rules(Characters(), 200)
        out = join(answer(rules, rules.split(line), HOSTILE[name]))
        assert all(out.count(thing) == line.count(thing) for thing in things), (name, line, out)
        assert LAYOUT.search(out) is None


@given(st.lists(st.sampled_from([*TRICKY, "Wort ", "Satz. ", "\t", "</p>"]), max_size=30), st.sampled_from([*HOSTILE]))
def test_any_line_can_be_translated_by_any_model(pieces: list[str], name: str) -> None:
    line = "".join(pieces)
    rules = Rules(Characters(), 3)
    parts = answer(rules, rules.split(line), HOSTILE[name])
    assert name != "repeats" or join(parts) == line
    assert "\n" not in join(parts)


@pytest.mark.parametrize("protects", [True, False])
def test_markup_nests_as_deep_as_it_likes(*, protects: bool) -> None:
    line = "<b>" * 3000 + "a" + "</b>" * 3000
    rules = Rules(Characters(), 200, protects=protects)
    assert join(answer(rules, rules.split(line), str)) == line
    rules.split_pair(line, line)


@pytest.mark.parametrize(
    ("pair", "seen"),
    [
        (("{x} bei https://a.de", "https://a.de has {x}"), [("%1 bei %2", "%2 has %1")]),
        (("{x}, {x}, {y}", "{y}: {x}, {x}, {x}"), [("%1, %2, %3", "%3: %1, %2, {x}")]),
        (("nichts", "{y} and {z}"), [("nichts", "{y} and {z}")]),
        (("{x} und %2", "{x} and %1"), [("%1 und %2", "%1 and %1")]),
        (("{x}", "{x}7 {x}"), [("%1", "{x}7 %1")]),
        (("Lies <b>das</b>", "Read <b>this</b>"), [("das", "this"), ("Lies %1", "Read %1")]),
        (("Lies <b>das</b>", "Read <i>this</i>"), [("Lies %1", "Read <i>this</i>")]),
        (("a\tb<br>c", "x\ty<br>z"), [("a", "x"), ("b", "y"), ("c", "z")]),
        (("a<br>c", "x z"), [("a<br>c", "x z")]),
    ],
)
def test_both_sides_of_a_pair_have_the_same_stand_ins(pair: tuple[str, str], seen: list[tuple[str, str]]) -> None:
    assert Rules(Characters(), 200).split_pair(*pair) == seen


class Careless:
    """Repeats its input but for the stand-in %2 and the number 7, which it forgets."""

    def __init__(self) -> None:
        self.model = FakeModel()
        self.seen: list[str] = []

    def __call__(self, sources: Sequence[list[int]]) -> list[Hypothesis]:
        texts = [self.model.pieces.decode(ids) for ids in sources]
        self.seen += texts
        said = [self.model.pieces.encode(text.replace("%2", "?").replace("7", "?")) for text in texts]
        return [Hypothesis(ids, -1.0, Stats(sentences=1, tokens=len(ids) + 1)) for ids in said]


def translate(*lines: str, **options: object) -> tuple[list[str], list[str], list[int]]:
    """Returns translations, what the model saw, and the tokens counted for each line."""
    decode = Careless()
    done = list(fake_translator(decode, decode.model).translate(lines, DecodingOptions(**options)))  # type: ignore[arg-type]
    assert not any(each.warnings for each in done)
    return [each.text for each in done], decode.seen, [each.stats.tokens for each in done]


@pytest.mark.parametrize(
    ("line", "seen", "tokens"),
    [
        ("a {x} b", ["a %1 b"], 4),
        ("{x}: {y}", [], 0),
        (" {z}", [], 0),
        ("<b>c</b> d", ["%1 d", "c"], 5),
        ("<b>{x}</b>", [], 0),
        # Where a stand-in is lost the model sees what is between, and all translations count.
        ("a {x} {y}", ["a %1 %2", "a"], 6),
        ("x <b>y</b> z {u}", ["x %1 z %2", "y", "x", "z"], 11),
        # Numbers have stand-ins only where one was lost.
        ("a 5 {x} b", ["a 5 %1 b"], 5),
        ("a 7 {x} b", ["a 7 %1 b", "a %1 %2 b", "a", "b"], 14),
    ],
)
def test_what_the_model_sees(line: str, seen: list[str], tokens: int) -> None:
    assert translate(line) == ([line], seen, [tokens])


def test_without_protection_the_model_sees_everything() -> None:
    assert translate("a {x} b", protect=False)[1] == ["a {x} b"]
    # A sample is the model's own.
    own = {"protect": False, "keep_numbers": False}
    assert translate("a {x} 7", strategy="greedy", temperature=0.5, **own)[1] == ["a {x} 7"]


def test_nothing_is_missed_because_it_stands_within_a_word() -> None:
    every = re.compile("|".join(f"(?P<{kind}>{said})" for kind, said in _KINDS.items()), re.VERBOSE)
    rng = random.Random(1)
    parts = [
        *"aZ9 .:/-_#@%{}<>`*[(ü",
        "data:a/b,c",
        "http://a.de",
        "://",
        "b.de/",
        "0x1f",
        "1.2.3",
        "a_b",
        "{n}",
        "GB12 ",
        "x=1",
        "Wort ",
        " und, ",
        "über. ",
        "dd MMM yyyy",
        " h:mm ",
    ]
    for _ in range(600):
        text = "".join(rng.choices(parts, k=12))
        assert [m.span() for m in token_pattern().finditer(text)] == [m.span() for m in every.finditer(text)]


def test_text_of_words_alone_is_looked_through_in_no_time() -> None:
    assert_at_most(0.02, lambda: HINT.search("Das ist ein Haus, und hier auch eines. " * 10_000))
