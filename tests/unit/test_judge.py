"""The judge accepts what people write and refuses what is lost, changed or new."""

from __future__ import annotations

import random
import re

import pytest

from specmt.text.judge import judge
from specmt.text.placeholders import find_copied
from tests.growth import assert_linear

DE_EN = "de", "en"


@pytest.mark.parametrize(
    ("german", "english"),
    [
        ("Kein Satz mit Ziffern.", "No sentence with figures."),
        ("Es kostet 1.234,50 Euro oder 3,5 Prozent.", "It costs €1,234.50 or 3.5 percent."),
        ("Zwei von 3 Katzen und 12 Hunde", "2 of three cats and twelve dogs"),
        ("In 10 Jahren, 14 Tagen und 20 Minuten", "In a decade, two weeks and twenty minutes"),
        ("Der 5. Mai und das 6. Treffen", "The 5th of May and the sixth meeting"),
        ("27km zu Fuß, 5 kg", "27 km on foot, 5kg"),
        ("60.000 Euro, 1,5 Millionen, 12 bis 16 Tausend", "60 thousand euros, 1,500,000, 12,000 to 16,000"),
        ("Zweitausend Schafe und achthunderttausend Ziegen", "2,000 sheep and 800,000 goats"),
        ("10 000 Schritte", "10,000 steps"),
        ("Um 19 Uhr und um 14.30 Uhr", "At 7 pm and 2:30 p.m."),
        ("Um 0:05 Uhr und um 12:45 Uhr", "At 12:05 am and 12:45 pm"),
        ("Um 8 Uhr abends und um sechs Uhr nachmittags", "At 8 p.m. and 6 p.m."),
        ("Von 18 bis 19 Uhr", "From 6 to 7 p.m."),
        ("Am 1. 2. 1970", "On 1 February 1970"),
        ("Von 11 bis 17 Uhr", "From 11.00 a.m. to 5 p.m."),
        ("Um 12:15 Uhr GMT", "At 12.15 GMT"),
        ("Am 20.05.1995 und am 3.10.1990", "On May 20, 1995 and 03/10/1990"),
        ("Am 31.12.2024", "On 2024/12/31"),
        ("Am 11. September", "On 9/11"),
        ("Das 1:1 am 12.03. war gut", "The 1-1 on 12 March was good"),
        ("In den 80er Jahren und den Siebzigern", "In the 1980s and the 1970s"),
        ("Mit Python 3.5 und im Jahr 2009", "With Python 3.5 and in '09"),
        ("In 8,5 Sekunden auf 192.168.100.200", "In 8.5 seconds on 192.168.100.200"),
        ("Alle zwei Minuten 20 je Sekunde, 9 Sekunden lang", "Every 2 minutes 20 per second, for 9 seconds"),
        ("PIN 0042, Karte 4111 1111 1111 1111", "PIN 0042, card 4111 1111 1111 1111"),
    ],
)
def test_what_people_write_is_accepted(german: str, english: str) -> None:
    assert judge(german, english, DE_EN) == []
    assert judge(english, german, ("en-GB", "de_AT")) == []


@pytest.mark.parametrize(
    ("source", "said", "problems"),
    [
        ("Am 20.05.1995.", "On 20,05,1995.", ["20", "05", "1995", "+20,05,1995"]),
        ("Am 3.10.1990.", "On 310,1990.", ["3", "10", "1990", "+310,1990"]),
        ("Am 05.10.2019", "On 5:10,2019", ["05", "10", "2019", "+5", "+10", "+2019"]),
        ("Vom 1.1. bis 31.12.2024", "From 1.1. to 31/12", ["2024"]),
        ("866.413,02 Euro", "€86,413.02", ["866.413,02", "+86,413.02"]),
        ("1.234 Leute", "1.234 people", ["1.234", "+1.234"]),
        ("3,5 Meter", "3,5 metres", ["3,5", "+3,5"]),
        ("4111 1111 1111", "41111 1111 1111", ["4111 1111 1111", "+41111 1111 1111"]),
        ("(555) 12, (555) 34", "(555) 12, 34", ["555 (1 of 2)"]),
        ("12 und 12 Leute", "12, 12 and 12 people", ["+12 (1 of 3)"]),
        ("Nummer 20240000117788", "Number 2024000017788", ["20240000117788", "+2024000017788"]),
        ("Seite 7", "Page", ["7"]),
        ("Eine Seite", "Page 7", ["+7"]),
        ("Ein Hund hat 1 Ball.", "A dog has balls.", ["1"]),
        ("Um 14:30 Uhr", "At 2:30", ["14", "+2"]),
        ("Um 19 Uhr", "At 19 p.m.", ["19 Uhr", "+19 p.m"]),
        ("60 Millionen", "60,000", ["60", "+60,000"]),
        ("2004", "2040", ["2004", "+2040"]),
        ("Im Jahr 2024", "In 24", ["2024", "+24"]),
    ],
)
def test_numbers_lost_changed_or_new_are_named(source: str, said: str, problems: list[str]) -> None:
    lost = [f"the number {each} is not in the translation" for each in problems if each[0] != "+"]
    new = [f"the number {each[1:]} is in the translation only" for each in problems if each[0] == "+"]
    assert judge(source, said, DE_EN) == [*lost, *new]
    assert judge(source, said, DE_EN, numbers=False) == []


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("At 6 p.m.", "Um 6 Uhr"),
        ("From 6 to 7 p.m.", "Von 6 bis 7 Uhr"),
        ("At 6:30 pm", "Um 6.30 Uhr"),
        ("At 12:05 am", "Um 12:05 Uhr"),
        ("Dinner at 8 p.m., then at 7 a.m.", "Abendessen um 20 Uhr, dann um 19 Uhr"),
    ],
)
def test_hours_of_the_other_half_of_the_day_are_refused(source: str, said: str) -> None:
    assert judge(source, said, ("en", "de")) != []


def test_a_decimal_point_in_german_is_refused_where_something_is_measured() -> None:
    assert judge("By 3.5 percent", "Um 3.5 Prozent", ("en", "de")) != []
    assert judge("Kernel 2.6 boots", "Kernel 2.6 startet", ("en", "de")) == []


@pytest.mark.parametrize(
    ("source", "said", "problems"),
    [
        ("Siehe http://a.de/b.", "See it.", ["'http://a.de/b' is not in the translation"]),
        ("Nimm %s und %s.", "Take %s.", ["'%s' (1 of 2) is not in the translation"]),
        ("Sieh nach.", "See {name}.", ["'{name}' is in the translation only"]),
        ("Nimm {a} und {b}.", "Take {b} and {a}.", []),
    ],
)
def test_what_is_copied_counts_both_ways(source: str, said: str, problems: list[str]) -> None:
    assert judge(source, said, DE_EN, copied=find_copied(source)) == problems
    assert judge(source, said, DE_EN) == []


def test_characters_that_the_model_has_not_learnt_are_refused() -> None:
    broken = ["the character '\ufffd' is in the translation only"]
    assert judge("Ä", "A\ufffd", DE_EN) == judge("Ä", "A\ufffd", DE_EN, unlearnt={"я"}.intersection) == broken
    assert judge("Ä\ufffd", "A\ufffd", DE_EN) == []
    assert judge("я", "яж ñ", DE_EN, unlearnt={*"яж"}.intersection) == ["the character 'ж' is in the translation only"]


def made_up(generator: random.Random) -> tuple[str, str]:
    """Returns a pair with numbers in figures."""
    day, month, year = generator.randint(13, 28), generator.randint(1, 12), generator.randint(1900, 2030)
    large, hour, cents = generator.randint(1000, 10**7), generator.randint(13, 23), generator.randint(10, 99)
    grouped = f"{large:,}"
    german = f"{day}.{month:02}.{year}, {hour}:{cents % 50 + 10} Uhr, {grouped.replace(',', '.')},{cents} Euro, {large}"
    return german, f"{day}.{month:02}.{year}, {hour}:{cents % 50 + 10}, {grouped}.{cents} euros, {large}"


def test_seeded_faults_are_refused() -> None:
    generator = random.Random(40)
    for _ in range(300):
        source, said = made_up(generator)
        assert judge(source, said, DE_EN) == []
        assert judge(said, source, ("en", "de")) == []
        place = generator.choice([match.start() for match in re.finditer(r"[1-9]", said)])
        other = generator.choice([digit for digit in "0123456789" if digit != said[place]])
        mark = said.rindex(".")
        for fault in (
            said[:place] + said[place + 1 :],
            said[:place] + said[place] + said[place:],
            said[:place] + other + said[place + 1 :],
            f"{said[:mark]},{said[mark + 1 :]}",
            said[:mark] + said[mark + 1 :],
            f"{said} {other}7",
        ):
            assert judge(source, fault, DE_EN) != []


@pytest.mark.parametrize("run", ["one ", "five million ", "5 million ", "20.05.1995 ", "1 hundred", "5 to 6 ", "7 pm "])
def test_time_is_linear(run: str) -> None:
    def check(size: int) -> None:
        text = run * size
        judge(text, text[: len(text) // 2] + " 7 12.03.1999" * (size // 5 * 2), ("en", "de"))

    assert_linear(check, 200)
