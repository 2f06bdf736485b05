"""Numbers in a text: where they are, what they say, and how other languages write them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from specmt.languages import primary
from specmt.types import Span

_COMMA: Final = " bg ca cs da de el es fi fr hr hu id it lt lv nb nl no pl pt ro ru sk sl sr sv tr uk vi "
"""Languages with a decimal comma; the others have a point."""

_SPACE: Final = "[ \u00a0\u2009\u202f]"
_ADDRESS: Final = r"(?:[12]?\d\d?\.){3}[12]?\d\d?(?![.\d])"
# These two are compiled where a text first has digits.
_NUMBER: Final = rf"""
      (?P<parts>                                                            # several numbers that stay together:
          \d\d?([./-])\d\d?\2\d\d(?:\d\d)?(?!\d) | \d{{4}}([./-])\d\d?\3\d\d?(?!\d)         # dates
        | \d\d?\.{_SPACE}\d\d?\.{_SPACE}\d{{4}}(?!\d)
        | \d\d?\.\d\d?\.(?=[-–,;)]|{_SPACE}[-–(a-zäöü\d])                                   # 12.03. um
        | \d{{1,3}}(?::\d{{1,3}}){{1,2}}(?:[.,]\d+)?                                          # times, scores
        | \d+(?:/\d+)+ | \d+(?:-\d+){{2,}} )
    | (?!{_ADDRESS}) (?P<groups> [1-9]\d{{0,2}}(?P<mark>[.,'’]|{_SPACE})\d{{3}}(?:(?P=mark)\d{{3}})* )
        (?: (?!(?P=mark))[.,](?P<decimals>\d+) )? (?!{_SPACE}?\d|[.,]\d)
    | (?P<row> \d{{2,}}(?:{_SPACE}\d{{2,}}){{2,}} )                                           # 4111 1111 1111
    | \d+(?:[.,]\d+)*
"""
TIME: Final = re.compile(r"(\d\d?)(?:[:.]([0-5]\d))?")
"""An hour, perhaps with minutes."""

_CLOCK: Final = {
    "en": re.compile(rf"{_SPACE}?(?:a|(?P<pm>p))(?:\.{_SPACE}?m\b(?:\.(?=.))?|{_SPACE}?m\b)", re.IGNORECASE),
    "de": re.compile(rf"{_SPACE}?Uhr\b"),
}
"""What makes a number a time."""

_WRONG: Final = {
    ",": re.compile(
        rf"\d+\.\d+{_SPACE}?(?:[%€$£]|Prozent|Mi[lo]|Mrd|Euro|(?:US-)?Dollar|Meter|Kilo|Grad|Stunde|(?:[ckm]?m|kg)\b)"
    ),
    ".": re.compile(rf"(?:1[3-9]|2\d)(?:[:.]\d\d)?{_SPACE}?[ap]\.?m\b"),
}
"""What nobody writes: 3.5 may be a version in German, but not before a percent sign; and 19 p.m."""

_AFTER: Final = {
    ("de", "en"): {"er": "s", "ern": "s"},
    ("en", "de"): {"s": "er", "st": ".", "nd": ".", "rd": ".", "th": "."},
}
"""What is right behind a number, as another language has it."""

_SIGNS: Final = ("$", "£", "¥", "€")
_UNIT: Final = "[$£¥€%‰]|CHF|EUR|GBP|JPY|USD"
_RUN: Final = rf"\d+(?:[.,'’]\d+|{_SPACE}\d{{3}}(?!\d))*"
_AMOUNT: Final = (
    rf"(?<![\w.,])(?:({_UNIT}){_SPACE}?)?({_RUN}(?:{_SPACE}?[-–]{_SPACE}?{_RUN})?)(?!\w|[.,]\d)"
    rf"(?:({_SPACE}?)({_UNIT}))?"
)
_NEVER: Final = re.compile("(?!)")
_WORD: Final = re.compile(r"[\dA-Za-zÀ-ÖØ-öø-ɏ_]*")
_LETTER: Final = re.compile("[A-Za-zÀ-ÖØ-öø-ɏ]")
_DIGIT: Final = re.compile(r"\d")


class Number(NamedTuple):
    """A number in a text."""

    span: Span
    text: str
    """The whole word, and what makes it a time."""

    value: str
    """What it says, as Python writes it: ``1234.56``; what is no number as it is."""

    parts: bool
    """Whether it is several numbers, as a date is."""

    before: str
    """The letters before its digits."""

    groups: tuple[str, ...]
    """Its digits before the decimal mark, in groups of thousands, or all of it with other marks."""

    decimals: str
    after: str
    """What is behind its digits."""


def find_numbers(text: str, language: str) -> list[Number]:
    """Returns the numbers of a text, from left to right: whatever has a digit is in one.

    :param language: the language of the text, such as ``de``
    """
    found: list[Number] = []
    point, clock = _point(language), _CLOCK.get(primary(language), _NEVER)
    done = 0
    # To search for a digit is ten times as fast as to search for a number.
    while digit := _DIGIT.search(text, done):
        match = re.compile(_NUMBER, re.VERBOSE).match(text, digit.start())
        assert match is not None
        first, last = start, end = match.span()
        while start > done and _LETTER.match(text, start - 1):
            start -= 1
        if text[last - 1] != ".":
            time = clock.match(text, last) if TIME.fullmatch(text, first, last) else None
            end = (time or _WORD.match(text, last)).end()  # type: ignore[union-attr]
        if _DIGIT.search(text, last, end):  # a word such as x86_64
            first, last = start, end
        groups, decimals = _parse(text[first:last], match, point)
        value = ("".join(groups) + (decimals and f".{decimals}")).rstrip(".")
        if value == text[first:last] and _WRONG[point].match(text, first):
            value = f"?{value}"
        parts = match["parts"] is not None
        word, before, after = text[start:end], text[start:first], text[last:end]
        found.append(Number((start, end), word, value, parts, before, groups, decimals, after))
        done = end
    return found


def _parse(digits: str, match: re.Match[str], point: str) -> tuple[tuple[str, ...], str]:
    """Returns the groups of a number and its decimals: all of it is one group, if its marks are others."""
    mark = match["mark"]
    if mark and (mark != point or len(match["groups"]) > len("123.456")):
        return tuple(match["groups"].split(mark)), match["decimals"] or ""
    whole, _, decimals = digits.partition(point)
    return ((whole,), decimals) if whole.isdecimal() and decimals.isdecimal() else ((digits,), "")


def target_form(number: Number, source: str, target: str) -> str:
    """Returns how one language writes a number of another: 1.234,56 as 1,234.56, a date digit for digit."""
    here, there = primary(source), primary(target)
    if here != there and (time := time_of(number, source)):
        return f"{time} Uhr" if there == "de" else time if ":" in time else f"{time}:00"
    point = _point(target)
    if point == _point(source):
        return number.text
    digits = ("." if point == "," else ",").join(number.groups) + (number.decimals and point + number.decimals)
    digits = digits.rstrip(".") if point == "." else digits  # 12.03. in German
    return number.before + digits + _AFTER.get((here, there), {}).get(number.after, number.after)


def time_of(number: Number, language: str) -> str | None:
    """Returns the time that a number is, with hours up to 24: 18 or 18:30; ``None`` if it says none."""
    clock = _CLOCK[primary(language)].match(number.after) if primary(language) in _CLOCK else None
    time = TIME.fullmatch(number.value.lstrip("?")) if clock else None
    if not (time and clock):
        return None
    hour = int(time[1]) % 12 + 12 * (clock["pm"] is not None) if primary(language) == "en" else int(time[1])
    return f"{hour}:{time[2]}" if time[2] else str(hour)


def convert_letterless(text: str, source: str, target: str) -> str:
    """Returns a text without letters as it is, but for numbers that must be written as the target does.

    These are amounts with a currency or a percent sign, decimals behind groups, and numbers of several groups.
    A currency sign goes where the target has it: €3.50 in English, 3,50 € in German.
    """
    if _point(source) == _point(target):
        return text

    def convert(match: re.Match[str]) -> str:
        before, amount, space, after = match.groups()
        unit = before or after
        for number in reversed(find_numbers(amount, source)):
            if unit or len(number.groups) > 2 or (len(number.groups) == 2 and number.decimals):
                amount = amount[: number.span[0]] + target_form(number, source, target) + amount[number.span[1] :]
        if unit not in _SIGNS:
            return match[0].replace(match[2], amount)
        return f"{amount}{space or ' '}{unit}" if _point(target) == "," else unit + amount

    return re.sub(_AMOUNT, convert, text)


def _point(language: str) -> str:
    """Returns the decimal mark of a language."""
    return "," if f" {primary(language)} " in _COMMA else "."
