"""Numbers are found, read and written as languages do."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specmt.text.judge import judge
from specmt.text.numbers import convert_letterless, find_numbers, target_form
from tests.growth import assert_linear


@pytest.mark.parametrize(
    ("text", "language", "numbers"),
    [
        ("Am 20.05.1995, 3.10.1990 und am 12.03. um 8.", "de", ["20.05.1995", "3.10.1990", "12.03.", "8"]),
        ("Bis 12.03. Dann am 12.03.", "de", ["12.03", "12.03"]),
        ("Am 1. 2. 1970, 12. 11. 2024.", "de", ["1. 2. 1970", "12. 11. 2024"]),
        ("On 1995-05-20, 20/05/1995 and 9/11", "en", ["1995-05-20", "20/05/1995", "9/11"]),
        ("Um 14:30 Uhr, 14.30 Uhr oder 19 Uhr", "de", ["14:30 Uhr", "14.30 Uhr", "19 Uhr"]),
        ("8:30 a.m.–6 p.m., 7pm. I am 5 am I", "en", ["8:30 a.m.", "6 p.m.", "7pm", "5 am"]),
        ("4111 1111 1111 1111, 10 000, 20240000117788", "de", ["4111 1111 1111 1111", "10 000", "20240000117788"]),
        ("6171-1231-1311-1231 in 2019–2021, 3-4, 2:1", "de", ["6171-1231-1311-1231", "2019", "2021", "3", "4", "2:1"]),
        (
            "27km, 80er 5th, G20-Ziel, x86_64 H2SO4 100%ig",
            "de",
            ["27km", "80er", "5th", "G20", "x86_64", "H2SO4", "100"],
        ),
        ("1.234,56 1.234.567, 3,5, 1,2,3 10.0.0.1", "de", ["1.234,56", "1.234.567", "3,5", "1,2,3", "10.0.0.1"]),
        ("Im Jahr 2010 1.200 und 0042", "de", ["2010", "1.200", "0042"]),
        ("2019年に5人", "ja", ["2019", "5"]),
    ],
)
def test_numbers_are_found(text: str, language: str, numbers: list[str]) -> None:
    assert [number.text for number in find_numbers(text, language)] == numbers


@given(st.text(st.sampled_from(list("0123456789.,:/-' \u00a0aäKUhr年%()")), max_size=40))
def test_every_digit_is_in_one_number(text: str) -> None:
    found = find_numbers(text, "de")
    assert all(text[slice(*number.span)] == number.text for number in found)
    assert [number.span for number in found] == sorted(number.span for number in found)
    rest, end = "", 0
    for number in found:
        assert number.span[0] >= end
        rest += text[end : number.span[0]]
        end = number.span[1]
    assert not re.search(r"\d", rest + text[end:])


@pytest.mark.parametrize(
    ("number", "source", "target", "form"),
    [
        ("1.234,56", "de", "en", "1,234.56"),
        ("1.234,56", "de-AT", "en-GB", "1,234.56"),
        ("1,234,567.8", "en", "de", "1.234.567,8"),
        ("866.413,02", "de", "en", "866,413.02"),
        ("10 000", "de", "en", "10,000"),
        ("1.234", "de", "en", "1,234"),
        ("1.234", "en", "de", "1,234"),
        ("1,41", "de", "en", "1.41"),
        ("3.14159", "de", "en", "3.14159"),
        ("1.234,5", "de", "fr", "1.234,5"),
        ("20.05.1995", "de", "en", "20.05.1995"),
        ("1/2/2024", "en", "de", "1/2/2024"),
        ("4111 1111 1111 1111", "de", "en", "4111 1111 1111 1111"),
        ("2024000017788", "de", "en", "2024000017788"),
        ("192.168.100.200", "de", "en", "192.168.100.200"),
        ("0042", "de", "en", "0042"),
        ("27km", "de", "en", "27km"),
        ("80er", "de", "en", "80s"),
        ("1990s", "en", "de", "1990er"),
        ("5th", "en", "de", "5."),
        ("31.12. und", "de", "en", "31.12"),
        ("14:30 Uhr", "de", "en", "14:30"),
        ("14.30 Uhr", "de", "en", "14:30"),
        ("19 Uhr", "de", "en", "19:00"),
        ("19 Uhr", "de", "fr", "19:00"),
        ("8:30 a.m.", "en", "de", "8:30 Uhr"),
        ("6 p.m.", "en", "de", "18 Uhr"),
        ("12 a.m.", "en", "de", "0 Uhr"),
        ("12:05 pm", "en", "de", "12:05 Uhr"),
    ],
)
def test_numbers_are_written_as_the_target_does(number: str, source: str, target: str, form: str) -> None:
    (found,) = find_numbers(f"{number} !", source)
    assert target_form(found, source, target) == form
    assert judge(number, form, (source, target)) == []


NUMBERS = st.one_of(
    st.from_regex(r"[1-9][0-9]{0,2}(\.[0-9]{3}){0,3}(,[0-9]{1,5})?", fullmatch=True),
    st.from_regex(r"[1-9][0-9]{0,2}(,[0-9]{3}){0,3}(\.[0-9]{1,5})?", fullmatch=True),
    st.from_regex(r"[0-3]?[1-9]([./-])[01]?[1-9]\1(19|20)[0-9]{2}", fullmatch=True),
    st.from_regex(r"(1?[0-9]|2[0-3])[:.][0-5][0-9]( Uhr)?", fullmatch=True),
    st.from_regex(r"[0-9]{1,20}(er|s|th|km| Prozent|%| Uhr)?", fullmatch=True),
    st.from_regex(r"[0-9]{2,5}( [0-9]{3,4}){1,4}", fullmatch=True),
    st.from_regex(r"[0-9.,:/ -]{1,12}", fullmatch=True),
)


@given(st.lists(NUMBERS, max_size=5), st.sampled_from([("de", "en"), ("en", "de"), ("de", "fr"), ("en", "ja")]))
def test_the_judge_accepts_numbers_in_this_form(numbers: list[str], languages: tuple[str, str]) -> None:
    source = " und ".join(numbers)
    if languages[0] == "en":
        source = source.replace("Uhr", "p.m.")
    said, end = "", 0
    for number in find_numbers(source, languages[0]):
        said += source[end : number.span[0]] + target_form(number, *languages)
        end = number.span[1]
    assert judge(source, said + source[end:], languages) == []


@pytest.mark.parametrize(
    ("german", "english"),
    [
        ("866.413,02 €", "€866,413.02"),
        ("-3,50 €", "-€3.50"),
        ("(1.234 €) / 2,50 €", "(€1,234) / €2.50"),
        ("5–10 €", "€5–10"),
        ("12,50 EUR", "12.50 EUR"),
        ("+3,5 %", "+3.5 %"),
        ("1.234.567", "1,234,567"),
        ("1.234,56", "1,234.56"),
    ],
)
def test_amounts_without_letters_are_converted(german: str, english: str) -> None:
    assert convert_letterless(german, "de", "en") == english
    assert convert_letterless(english, "en", "de") == german
    assert convert_letterless(german, "de", "fr") == german


@pytest.mark.parametrize(
    "text",
    [
        *("1.234", "12.03", "20.05.1995", "1,2,3", "3,14", "3.14159265358979323846", "1010101010", "14:30", "0042"),
        *("192.168.100.200", "4111 1111 1111 1111", "6171-1231-1311-1231", "+49 30 1234567", "50%", "1/2"),
        *("„“", "?!", "----", "||", "…", "€", "£1m", "$12k", "$5.3tn"),
    ],
)
def test_other_texts_without_letters_are_copied(text: str) -> None:
    for languages in (("de", "en"), ("en", "de")):
        assert convert_letterless(f" {text} ", *languages) == f" {text} "


@pytest.mark.parametrize("run", ["1", "1.", "1,1", "111 ", "1 1", "1-", "1/", "1:1", "a1", "1a", "€1 ", "5 - ", "a"])
def test_time_is_linear(run: str) -> None:
    def check(size: int) -> None:
        text = run * size
        convert_letterless(text, "de", "en")
        for number in find_numbers(text, "de"):
            target_form(number, "de", "en")
        judge(text, text[: len(text) // 2], ("de", "en"))

    assert_linear(check, 1_250)
