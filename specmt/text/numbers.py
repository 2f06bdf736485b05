"""Numbers in a text, and how other languages write them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from specmt.text.required import Required
from specmt.types import Span

_COMMA: Final = frozenset(
    [
        "bg",
        "ca",
        "cs",
        "da",
        "de",
        "el",
        "es",
        "fi",
        "fr",
        "hr",
        "hu",
        "id",
        "it",
        "lt",
        "lv",
        "nb",
        "nl",
        "no",
        "pl",
        "pt",
        "ro",
        "ru",
        "sk",
        "sl",
        "sr",
        "sv",
        "tr",
        "uk",
        "vi",
    ]
)
"""Languages with a decimal comma; the others have a point."""

_GROUP: Final = "[.,'’ \u00a0\u202f]"
_NUMBER: Final = re.compile(
    rf"(?<![\w%])\d{{1,3}}(?:({_GROUP})\d{{3}}(?:\1\d{{3}})*(?!\d)(?:[.,]\d+)?|\d*(?:[.,]\d+)*)(?!\w)"
)
"""Digits in groups of three, perhaps with decimals, or digits with points or commas between them."""

_GROUPED: Final = re.compile(rf"(\d{{1,3}}(?:{_GROUP}\d{{3}})+)(?:([.,])(\d+))?")
_DECIMAL: Final = re.compile(r"(\d+)[.,](\d+)")
_WORDS: Final = {
    "en": "zero one two three four five six seven eight nine ten eleven twelve",
    "de": "null eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
}
_ONE: Final = {"en": ("one", "a", "an"), "de": ("eins", "ein", "eine", "einen", "einem", "einer", "eines")}


class Number(NamedTuple):
    """A number in a text."""

    span: Span
    text: str


def find_numbers(text: str) -> list[Number]:
    """Returns the numbers in a text, from left to right; what is part of a name, such as x86, is none."""
    return [Number(match.span(), match[0]) for match in _NUMBER.finditer(text)]


def forms_of(number: str, source: str, target: str) -> tuple[str, ...]:
    """Returns how a number of one language may be written in another, the usual form first.

    ``1.234,56`` in German is ``1,234.56`` in English. What may be no number, such as 1.234, may stay as it is.

    :param source: the language of the number, such as ``de``
    :param target: the other language
    """
    point, other = ("," if _is_comma(language) else "." for language in (source, target))
    forms = [number]
    grouped, decimal = _GROUPED.fullmatch(number), _DECIMAL.fullmatch(number)
    if grouped is not None and (grouped[2] or re.sub(r"\d", "", number)[0] != point):
        digits, rest = re.sub(r"\D", "", grouped[1]), f"{other}{grouped[3]}" if grouped[3] else ""
        group = "." if other == "," else ","
        forms = [f"{int(digits):,}".replace(",", group) + rest, number, digits + rest]
    elif decimal is not None and number[len(decimal[1])] == point:
        forms = [f"{decimal[1]}{other}{decimal[2]}", number]
    elif number.isdecimal() and len(number) > 3:
        forms = [number, f"{int(number):,}".replace(",", "." if other == "," else ",")]
    elif number.isdecimal() and str(int(number)) == number and int(number) <= 12 and target in _WORDS:
        forms += _ONE[target] if number == "1" else [_WORDS[target].split()[int(number)]]
    return tuple(dict.fromkeys(forms))


def required_numbers(text: str, source: str, target: str) -> list[Required]:
    """Returns the numbers of a text, each in the forms that a translation may have it in.

    :param source: the language of the text, such as ``de``
    :param target: that of the translation
    """
    return [Required(span, number, forms_of(number, source, target)) for span, number in find_numbers(text)]


def _is_comma(language: str) -> bool:
    return re.split("[-_]", language)[0].lower() in _COMMA
