"""What a model sees of a line, when it is asked again, and what becomes of what it says."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from specmt.text.glossary import Entry, Glossary
from specmt.text.lexicon import Lexicon
from specmt.text.parts import Part, join, sentences
from specmt.text.rules import Rules
from specmt.types import Found, Hypothesis
from tests.unit.test_placeholders import Characters, answer


def rules(**more: object) -> Rules:
    letters = frozenset("äöüß„“€")
    return Rules(Characters(), 200, ("de", "en"), lexicon=Lexicon(letters), **more)  # type: ignore[arg-type]


def ask(line: str, say: Callable[[str], str] = str, **more: object) -> tuple[str, list[str], list[Part]]:
    """Returns a translation, what the model saw, and the parts."""
    seen: list[str] = []

    def said(text: str) -> str:
        seen.append(text)
        return say(text)

    own = rules(**more)
    parts = answer(own, own.split(line), said)
    return join(parts), seen, parts


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("Mu\u0308nchen", ["München"]),
        ("Benutzer\u00adname, 5\u00a0km \u200ehier", ["Benutzername, 5 km hier"]),
        ("Das हिन्दी hier", ["Das %1 hier"]),
        ("12 ≤ x", ["12 %1 x"]),
        ("Eins ist da. Zwei ist hier!  Drei auch.", ["Eins ist da.", "Zwei ist hier!", "Drei auch."]),
        ("[12:03] anna: Hallo du", ["Hallo du"]),
        ("> - Hallo du", ["Hallo du"]),
        ("Name   Anzahl\tPreis", ["Name", "Anzahl", "Preis"]),
        ("{{x}}Haus", ["%1 Haus"]),
        ("{x}th Haus", ["%1th Haus"]),
        ("{t1}Im Haus", ["%1 Im Haus"]),
        ("{x}Hz hier", ["%1Hz hier"]),
        ("12.03. – 20.05.1995, ?!", []),
    ],
)
def test_what_the_model_sees(line: str, seen: list[str]) -> None:
    assert sorted(ask(line)[1]) == sorted(seen)


@pytest.mark.parametrize(
    "line",
    [
        "Eins.  Zwei.\u00a0Drei.\u2003Vier.",
        "\u200eHallo\u200f ",
        "5\u00a0km weit",
        "a /tmp/u\u0308b/x.y b",
        "Name   Zahl",
        "汉字！（Tab）汉字，Tab 汉字？！",
    ],
)
def test_what_is_around_the_text_comes_back(line: str) -> None:
    assert ask(line)[0] == line


@pytest.mark.parametrize(
    ("line", "asked"),
    [("5s", 0), ("{x}s", 0), ("{x} / 3m", 0), ("90s", 1), ("{x}er", 1), ("I", 1)],
)
def test_a_letter_at_a_number_is_no_text(line: str, asked: int) -> None:
    translation, seen, _ = ask(line)
    assert (translation, len(seen)) == (line, asked)


def test_a_sentence_that_lost_a_number_is_asked_again_with_all_of_them_held_fast() -> None:
    translation, seen, (part,) = ask("Es sind 1.234,5 von 77 bei {x}.", lambda text: text.replace("77", "7"))
    assert seen == ["Es sind 1.234,5 von 77 bei %1.", "Es sind %1 von %2 bei %3."]
    assert translation == "Es sind 1,234.5 von 77 bei {x}."
    assert part.attempt == 1 and len(list(part.all)) == 2


def test_what_is_between_is_translated_by_itself_where_that_fails_too() -> None:
    translation, seen, (part,) = ask(
        "Es sind 77 von 88.", lambda text: text.replace("77", "").replace("%2", "").upper()
    )
    assert seen == ["Es sind 77 von 88.", "Es sind %1 von %2.", "von", "Es sind"]
    assert translation == "ES SIND 77 VON 88." and part.attempt == 2


def test_a_text_between_that_says_a_number_of_its_own_stays_in_its_language() -> None:
    translation, _, _ = ask(
        "Es sind 77 Leute.", lambda text: "9 people" if "%" not in text and "77" not in text else "?"
    )
    assert translation == "Es sind 77 Leute."


def test_models_without_stand_ins_are_asked_for_what_is_between() -> None:
    translation, seen, _ = ask("Es sind 77 bei /tmp/x.", lambda text: text.replace("77", ""), stands_in=False)
    assert seen == ["Es sind 77 bei /tmp/x.", "bei", "Es sind"]
    assert translation == "Es sind 77 bei /tmp/x."


@pytest.mark.parametrize("more", [{"keeps_numbers": False}, {"keeps_numbers": False, "protects": False}])
def test_numbers_need_not_be_kept(more: dict[str, bool]) -> None:
    assert ask("Es sind 77.", lambda text: text.replace("77", "7"), **more)[0] == "Es sind 7."


def test_a_name_that_the_model_has_no_letters_for_is_copied() -> None:
    translation, seen, _ = ask("Ein Öde kommt.", lambda text: text.replace("Ö", "\ufffd"))
    assert (translation, seen) == ("Ein Öde kommt.", ["Ein Öde kommt.", "Ein %1 kommt."])


def test_no_broken_character_is_written() -> None:
    translation, _, (part,) = ask("Ein Ort.", lambda text: text + "\ufffd")
    assert translation == "Ein Ort." and part.is_left


def test_ordinals_have_the_ending_of_their_number() -> None:
    translation, _, _ = ask("Am 22 und 11 Tag", lambda text: text.replace("22", "").replace("%1", "%1th"))
    assert translation == "Am 22nd und 11 Tag"
    assert ask("Am 12.03. um 8", lambda text: text.replace("12.03.", "12.03th"))[0] == "Am 12.03 um 8"
    held = ask("Am 12.03. um 8", lambda text: text.replace("12.03.", "").replace("%1", "%1th"))
    assert held[0] == "Am 12.03 um 8"


def test_a_letter_alone_stays_as_it_is() -> None:
    assert ask("c", str.upper)[0] == "c"


def test_an_amount_that_lost_its_currency_is_asked_for_with_it() -> None:
    assert ask("Es sind 1.234,5 €.", lambda text: text.replace("1.234,5 €", "1,234.5"))[0] == "Es sind €1,234.5."
    assert ask("Es sind -5 Grad.", lambda text: text.replace("-5", "5"))[0] == "Es sind -5 Grad."


def test_no_time_after_twelve_says_the_half_of_the_day() -> None:
    assert ask("Um 14:30 Uhr", lambda text: text.replace("14:30 Uhr", "14:30pm"))[0] == "Um 14:30"
    say = {"14:30 Uhr": "2", "%1": "%1 p.m", "%2": "%2 a.m"}
    assert (
        ask("Um 14:30 Uhr, 9 Uhr", lambda text: "".join(say.get(t, t) for t in re.split(r"(14:30 Uhr|%\d)", text)))[0]
        == "Um 14:30, 9:00 a.m"
    )


def test_the_best_hypothesis_that_will_do_counts() -> None:
    own = rules()
    (part,) = own.split("Es sind 77.")
    found = [
        Found(own.pieces.encode(text), -2.0, loss) for text, loss in (("Es 7.", 0.5), ("They 77.", 0.7), ("77.", 0.9))
    ]
    assert own.take(part, Hypothesis(own.pieces.encode("7."), -1.0, alternatives=tuple(found))) == []
    assert part.translation == "They 77." and part.attempt == 0
    assert [round(each.loss, 3) for each in part.hypotheses[0].alternatives] == [0.2]


def test_terms_have_stand_ins_where_asking_for_them_failed() -> None:
    terms = Glossary([Entry("kunde", ("client",), 1), Entry("Acme", ("Acme",), 2)], "terms")
    translation, seen, _ = ask("Der KUNDE von Acme.", lambda text: text.replace("KUNDE", "kunde"), terms=terms)
    assert seen == ["Der KUNDE von Acme.", "Der %1 von %2."]
    assert translation == "Der CLIENT von Acme."


def test_sentences_of_elements_are_cut_too() -> None:
    own = rules()
    parts = own.split("Er <b>kommt. Er geht</b> jetzt.")
    assert [part.text for part in sentences(parts)] == ["Er %1 jetzt.", "kommt.", "Er geht"]
