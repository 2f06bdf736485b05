"""Whether a translation keeps the numbers of its source and what is to be copied, and says nothing new of either."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import cache
from typing import Final, NamedTuple

from specmt.languages import primary
from specmt.text.numbers import TIME, Number, find_numbers, target_form, time_of
from specmt.text.placeholders import Unlearnt, find_copied
from specmt.text.words import WORDS

_ENDINGS: Final = {"en": r"(?:s|ths?|fold)?(?![^\W\d_])", "de": ""}
"""How the words of numbers end."""

_HALVES: Final = re.compile(r"\d\s?[ap]\.?\s?m\b|noon|evening|night|abend|mittag|nacht", re.IGNORECASE)
"""What says that hours are counted to twelve."""

_HOURS: Final = re.compile(r"\bUhr\b|\bo.clock\b|\bGMT\b|\bUTC\b")
"""What says that numbers are times."""

_APOSTROPHES: Final = ("'", "’", "‘")
_MISSING: Final = "not in the translation"
_NEW: Final = "in the translation only"
_ZERO: Final = re.compile(r"^0(?=[1-9]$)")
_COMPOUND: Final = re.compile(r"(?<=\w)-[A-ZÄÖÜ][a-zäöüß]+\Z")
"""What makes a German word of something that is copied: @property-Dekorator."""

_DIGITS: Final = re.compile(r"\d+")

_SAID: Final = {
    "%": (r"\d\s?%", r"%|percent|per cent|prozent|v\. ?H\."),
    "€": (r"\d\s?€|€\s?\d", r"€|euro?"),
    "$": (r"\d\s?\$|\$\s?\d", r"\$|dollar|USD"),
    "£": (r"\d\s?£|£\s?\d", r"£|pound|pfund|GBP"),
    "-": (r"(?<![^\s(])[-−]\d", r"[-−–]\s?\d|minus|negativ|below|unter"),
}
"""What is beside numbers, and how translations say it."""


def _entries(table: str) -> str:
    """Returns a pattern with a group for each entry of a table, the last one first: 14 is before 4."""
    return "|".join(f"(?P<n{key}>{words})" for key, _, words in (e.partition(":") for e in WORDS[table][::-1]))


@cache
def _spelled_in(language: str) -> re.Pattern[str]:
    words, months = _entries(f"{language} numbers"), _entries(f"{language} months")
    return re.compile(rf"(?<![^\W\d_])(?:(?:{words}){_ENDINGS[language]}|{months})", re.IGNORECASE)


@cache
def _scaled_in(language: str) -> re.Pattern[str]:
    """Returns what finds words behind a number, perhaps with another one between: 5 to 6 million."""
    between = r"(?:[\s-]{0,2}(?:bis|to|und|and|oder|or|[-–])[\s$€£]{0,2}[\d.,]{1,12})?[\s-]{0,2}"
    return re.compile(rf"{between}(?:{_entries(f'{language} scales')}){_ENDINGS[language]}", re.IGNORECASE)


class _Said(NamedTuple):
    """A number that one text has, and perhaps the other."""

    text: str
    """As it is shown."""

    readings: tuple[str, ...]
    """What it may say."""

    parts: bool = False
    """Whether it is several numbers."""


def judge(
    source: str,
    said: str,
    languages: tuple[str, str],
    *,
    numbers: bool = True,
    copied: Sequence[str] | None = None,
    unlearnt: Unlearnt | None = None,
) -> list[str]:
    """Returns what a translation loses, changes or adds: nothing, if it is to be accepted.

    :param languages: of the source and of the translation
    :param numbers: whether numbers count
    :param copied: what of the source is to be copied, if that counts
    :param unlearnt: finds the characters that a translation may have only if its source has them
    """
    problems = []
    if numbers and (_DIGITS.search(source) or _DIGITS.search(said)):
        problems = _judge_numbers(source, said, languages) or [*judge_signs(source, said)]
    if copied is not None and [*copied] != (after := find_copied(said)):
        had, has = Counter(copied), Counter(after)
        problems += _told(repr, _lacking(had, has, said), had, _MISSING)
        problems += _told(repr, _lacking(has, had, source), has, _NEW)
    if not said.isascii():
        found = {"\ufffd"} | (unlearnt(said) if unlearnt else set())
        new = sorted(found.intersection(said).difference(source))
        problems += [f"the character {char!r} is {_NEW}" for char in new]
    return problems


def _lacking(tokens: Counter[str], others: Counter[str], text: str) -> Counter[str]:
    """Returns what is to be copied that another text lacks; within a word, as in x.xml-Dateien, it is there, too."""
    return Counter(
        {
            each: count
            for each, count in (tokens - others).items()
            if text.count(each) < tokens[each] and ((word := _COMPOUND.sub("", each)) == each or not others[word])
        }
    )


def _told(show: Callable[[str], str], lacking: Counter[str], total: Counter[str], where: str) -> list[str]:
    """Returns problems, each with how many one text has more."""
    return [
        f"{show(text)}{f' ({count} of {total[text]})' * (count < total[text])} is {where}"
        for text, count in lacking.items()
    ]


def _judge_numbers(source: str, said: str, languages: tuple[str, str]) -> list[str]:
    """Compares numbers by what they say, then by what they may say, then part by part, and then with words."""
    before, after = find_numbers(source, languages[0]), find_numbers(said, languages[1])
    if primary(languages[0]) == "en" != primary(languages[1]) and _HALVES.search(said) is None:
        before = [_counted_on(each) for each in before]
    had, has = (Counter(number.value for number in numbers) for numbers in (before, after))
    if had == has:
        return []
    missing = _leftovers(before, had - has, source, languages[0], languages[1])
    new = _leftovers(after, has - had, said, languages[1])
    missing, new = _unpaired(missing, new)
    # A date may be said part by part, but not with other marks between some of them.
    is_torn = _has_date(missing) != _has_date(new) and not any(map(_names_month, (source, said), languages))
    if missing and new:
        parts = _unpaired(_apart(missing), _apart(new))
        missing, new = (missing, new) if is_torn and not any(parts) else parts
    if missing or new:
        words, others = _unpaired(_spelled(source, primary(languages[0])), _spelled(said, primary(languages[1])))
        missing, new = _unpaired(missing, _apart(others))[0], _unpaired(new, _apart(words))[0]
    lost, all_lost, invented, all_new = (
        Counter(each.text for each in found) for found in (missing, before, new, after)
    )
    show = "the number {}".format
    return _told(show, lost, all_lost, _MISSING) + _told(show, invented, all_new, _NEW)


def _counted_on(number: Number) -> Number:
    """Returns an English number with the hours of a time up to 24: 6 p.m. is 18 Uhr, and 6 Uhr only in the evening."""
    time = time_of(number, "en")
    return number if time in (None, number.value) else number._replace(value=str(time), parts=False)


def judge_signs(source: str, said: str) -> Iterator[str]:
    """Yields the currencies, percent and minus signs at numbers that only one of two texts has."""
    for one, other, where in ((source, said, _MISSING), (said, source, _NEW)):
        for sign, (there, meant) in _SAID.items():
            if sign in one and re.search(there, one) and not re.search(meant, other, re.IGNORECASE):
                yield f"{sign!r} at a number is {where}"


def _leftovers(
    numbers: Iterable[Number], more: Counter[str], text: str, language: str, target: str = ""
) -> list[_Said]:
    """Returns the numbers that there are more of in one text.

    :param target: the language that they are written in after one failure
    """
    found = []
    to_twelve = _HALVES.search(text) is not None
    are_times = to_twelve or _HOURS.search(text) is not None
    for number in numbers:
        if more[number.value] > 0:
            more[number.value] -= 1
            form = target_form(number, language, target) if target else number.text
            end = number.span[1] - len(number.after)
            is_sure = primary(language) == "en" and number.value[0] != "?"
            time = time_of(number, language) if is_sure else None  # it says which half of the day it means
            readings = (
                *_readings(number.value, are_times, to_twelve and time is None),
                *_readings(time or number.value, are_times, False),
                *_years(number.value, number.after, text[max(0, number.span[0] - 1) : number.span[0]]),
                *_scaled(number.value, text, end, primary(language)),
                f"={form}",
            )
            found.append(_Said(number.text, readings, number.parts))
    return found


def _readings(value: str, are_times: bool, to_twelve: bool) -> Iterator[str]:
    """Yields what a number may say."""
    yield from (value, _ZERO.sub("", value))
    time = TIME.fullmatch(value)
    if time and (":" in value or are_times):
        hour, minute = int(time[1]), time[2] or "00"
        for each in (hour, (hour + 12) % 24) if to_twelve and hour <= 12 else (hour,):
            yield f"{each}:{minute}"
            if minute == "00":
                yield str(each)


def _years(value: str, after: str, before: str) -> Iterator[str]:
    """Yields what years and decades may say: 1990 and '90, 1990s, 90s and the nineties."""
    is_decade = after in ("s", "er", "ern")
    short = value[2:] if value[:2] in ("19", "20") and len(value) == 4 else value
    if short != value or is_decade or before in _APOSTROPHES:
        yield f"'{short}"
    if is_decade:
        yield short


def _scaled(value: str, text: str, end: int, language: str) -> Iterator[str]:
    """Yields a number times what the words behind it say: 60 thousand is 60000, and 8 hundred thousand, too."""
    for _ in range(2):
        scale = _scaled_in(language).match(text, end) if language in _ENDINGS else None
        if scale is None or not value.replace(".", "", 1).isdecimal():
            return
        value, end = f"{Decimal(value).scaleb(int(str(scale.lastgroup)[1:])):f}", scale.end()
        yield value


def _unpaired(some: list[_Said], others: list[_Said]) -> tuple[list[_Said], list[_Said]]:
    """Returns what is left of both when those that may say the same have gone."""
    places: dict[str, list[int]] = {}
    for place in reversed(range(len(others))):
        for reading in others[place].readings:
            places.setdefault(reading, []).append(place)
    taken: set[int] = set()
    rest = []
    for each in some:
        for reading in each.readings:
            same = places.get(reading, [])
            while same and same[-1] in taken:
                same.pop()
            if same:
                taken.add(same.pop())
                break
        else:
            rest.append(each)
    return rest, [each for place, each in enumerate(others) if place not in taken]


def _has_date(numbers: list[_Said]) -> bool:
    return any(each.parts and ":" not in each.text and len(_DIGITS.findall(each.text)) == 3 for each in numbers)


def _names_month(text: str, language: str) -> bool:
    own = primary(language)
    found = _spelled_in(own).finditer(text) if own in _ENDINGS else ()
    return any(str(match.lastgroup).startswith("nm") for match in found)


def _apart(numbers: list[_Said]) -> list[_Said]:
    """Returns the parts of dates, times and the like instead of these: those of dates are none of times."""
    found = []
    for number in numbers:
        kinds = "tt" if ":" in number.text else "dm"
        parts = [(part, _ZERO.sub("", part)) for part in _DIGITS.findall(number.text) if number.parts]
        either = (*number.readings, *(what + each for each in number.readings for what in "dt"))
        whole = number._replace(readings=either)
        found += [_Said(part, (kinds[0] + part, *(kind + short for kind in kinds))) for part, short in parts] or [whole]
    return found


def _spelled(text: str, language: str) -> list[_Said]:
    """Returns the numbers that a text has in words, months too."""
    found = []
    for match in _spelled_in(language).finditer(text) if language in _ENDINGS else ():
        value = str(match.lastgroup)[1:]
        found.append(_Said(match[0], (value, *_scaled(value, text, match.end(), language))))
    return found
