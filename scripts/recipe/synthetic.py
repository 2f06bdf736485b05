"""Pairs made from nothing: what must be copied, numbers and dates, alone or in a plain sentence.

Pairs are (German, English). Everything is drawn from the generator that is handed in, so that a seed decides it all.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

Pair = tuple[str, str]

SCRIPTS: Final = {
    "cyrillic": ("бвгджзклмнпрстфхцчш", "аеиоуыэюя"),
    "greek": ("βγδζθκλμνξπρστφχψ", "αεηιουωάέήίόύώ"),
    "arabic": ("بتثجحخدذرزسشصضطظعغفقكلمنه", "اوي"),
    "hebrew": ("אבגדהזחטכלמנסעפצקרשת", "וי"),
}
"""Consonants and vowels to make words of, by script."""

BLOCKS: Final = ((0x4E00, 0x9FA5), (0x4E00, 0x9FA5), (0x3042, 0x3093), (0x30A2, 0x30F3), (0xAC00, 0xD7A3))
"""Chinese (twice as often), Hiragana, Katakana, Hangul; first and last character."""

EMOJI: Final = ((0x1F600, 0x1F64F), (0x1F600, 0x1F64F), (0x1F300, 0x1F5FF), (0x1F680, 0x1F6C5), (0x1F900, 0x1F9FF))
SYMBOLS: Final = "☀☎☕☺♥♪✂✅✈✉✓✔✨❌❓❗❤➡⭐★☆→←•©®™°§¶†№½²³µ±×÷≤≥≠∞√∑αβπΩ€£¥₽₿"
_NAMES: Final = (
    "Müller Schröder Jørgensen Łukasz Çelik Nguyễn García François Björk Dvořák Øystein Zoë Siobhán O'Brien Håkan "
    "João Tom Maria Petra Ahmed Li Wei Yuki Olga Priya Kowalski Anderson Weiß Gonçalves Ångström Novák Brânză Ağaoğlu"
)
_WORDS: Final = (
    "alpha beta user name config index data main test item file path value start home shop blog docs api cloud mail "
    "news kontakt verein stadt haus wetter berlin leipzig london foto garten reise bahn verlag schule museum"
)
NAMES: Final = tuple(_NAMES.split())
WORDS: Final = tuple(_WORDS.split())
DOMAINS: Final = ("de", "com", "org", "net", "eu", "io", "co.uk", "at", "ch", "info")


def word(rng: random.Random) -> str:
    """Returns a made-up lower-case word or one of a short list."""
    if rng.random() < 0.5:
        return rng.choice(WORDS)
    return "".join(rng.choice("bdfghklmnprstvwz") + rng.choice("aeiou") for _ in range(rng.randint(2, 4)))


def identifier(rng: random.Random) -> str:
    """Returns a name as programs have them."""
    words = [word(rng) for _ in range(rng.randint(1, 3))]
    first, *others = words
    capitals = "".join(w.capitalize() for w in others)
    snake = "_".join(words)
    return rng.choice((snake, first + capitals, first.capitalize() + capitals, "-".join(words), snake.upper()))


def domain(rng: random.Random) -> str:
    """Returns a host name."""
    before, after = rng.choice(("", "", "www.", f"{word(rng)}.")), rng.choice(("", f"-{word(rng)}"))
    return f"{before}{word(rng)}{after}.{rng.choice(DOMAINS)}"


def url(rng: random.Random) -> str:
    """Returns a web address."""
    path = "".join(f"/{word(rng)}" for _ in range(rng.randint(0, 3)))
    path += rng.choice(("", "", "/", ".html", f"/{rng.randrange(10**6)}", f"?{word(rng)}={rng.randrange(100)}", "#top"))
    host = domain(rng)
    if host.startswith("www.") and rng.random() < 0.3:
        return host + path
    return f"{rng.choice(('https', 'http'))}://{host}{path}"


def email(rng: random.Random) -> str:
    """Returns an e-mail address."""
    name = rng.choice((word(rng), f"{word(rng)}.{word(rng)}", f"{word(rng)}{rng.randrange(100)}", "info", "no-reply"))
    return f"{name}@{domain(rng).removeprefix('www.')}"


def placeholder(rng: random.Random) -> str:
    """Returns a placeholder of one of the usual kinds."""
    name = rng.choice((word(rng), identifier(rng), "count", "name", "user"))
    plain = ("%s", "%d", "%1", "%2", "%1$s", "%2$d", "%i", "%.2f", "%@", f"%({name})s", f"%({name})d")
    named = (f"{{{name}}}", f"{{{name}}}", f"{{{rng.randrange(4)}}}", f"{{{{{name}}}}}", f"${{{name.upper()}}}")
    return rng.choice((*plain, *named, f"${name}"))


def foreign(rng: random.Random) -> str:
    """Returns one or two words in another script."""

    def one() -> str:
        if rng.random() < 0.5:
            consonants, vowels = SCRIPTS[rng.choice(("cyrillic", "cyrillic", "greek", "arabic", "hebrew"))]
            text = "".join(rng.choice(consonants) + rng.choice(vowels) for _ in range(rng.randint(1, 5)))
            return text.capitalize() if rng.random() < 0.6 else text
        first, last = rng.choice(BLOCKS)
        return "".join(chr(rng.randint(first, last)) for _ in range(rng.randint(1, 5)))

    return one() if rng.random() < 0.75 else f"{one()} {one()}"


def emoji(rng: random.Random) -> str:
    """Returns one to three emoji or symbols."""

    def one() -> str:
        kind = rng.random()
        if kind < 0.25:
            return rng.choice(SYMBOLS)
        if kind < 0.32:
            return rng.choice("👍👋🙏👏💪") + rng.choice("🏻🏼🏽🏾🏿")
        if kind < 0.38:
            return "".join(chr(0x1F1E6 + rng.randrange(26)) for _ in range(2))
        if kind < 0.42:
            return rng.choice(("👨\u200d👩\u200d👧", "🏳️\u200d🌈", "👩\u200d💻", "❤️", "☺️", "1️⃣"))
        first, last = rng.choice(EMOJI)
        return chr(rng.randint(first, last))

    return "".join(one() for _ in range(rng.choice((1, 1, 1, 2, 3))))


def code(rng: random.Random) -> str:
    """Returns a version, path, number of an order or the like, the same in every language."""
    kinds = (
        f"{rng.randrange(20)}.{rng.randrange(20)}.{rng.randrange(20)}",
        f"v{rng.randrange(10)}.{rng.randrange(30)}",
        f"/{word(rng)}/{word(rng)}/{word(rng)}.{rng.choice(('txt', 'conf', 'py', 'xml', 'json'))}",
        f"C:\\{word(rng).capitalize()}\\{identifier(rng)}.{rng.choice(('exe', 'dll', 'docx'))}",
        f"{rng.choice('ABCDEFGHKMX')}{rng.choice('ABCDEFGHKMX')}-{rng.randrange(10**5)}",
        f"{rng.randrange(10**9)}",
        f"0x{rng.randrange(2**32):08X}",
        f"+49 {rng.randrange(30, 9000)} {rng.randrange(10**4, 10**7)}",
        f"--{identifier(rng)}",
        f"{identifier(rng)}()",
        f"{rng.randrange(24):02}:{rng.randrange(60):02}",
        f"192.168.{rng.randrange(256)}.{rng.randrange(256)}",
        identifier(rng),
    )
    return rng.choice(kinds)


def literal(rng: random.Random) -> str:
    """Returns something that a translation holds as it stands."""
    return rng.choice((url, url, email, email, placeholder, placeholder, foreign, foreign, emoji, code, code))(rng)


def _read_lines() -> dict[str, list[Pair]]:
    found: dict[str, list[Pair]] = {}
    for line in Path(__file__).with_name("lines.tsv").read_text(encoding="utf-8").splitlines():
        kind, german, english = line.split("\t")
        found.setdefault(kind, []).append((german, english))
    return found


LINES: Final = _read_lines()
"""What has gaps, units and sentences, by what belongs into them."""


def fill(kind: str, make: Callable[[random.Random], Pair], rng: random.Random) -> Pair:
    """Returns one of the pairs of a kind with its gaps filled, the same thing on both sides."""
    german, english = rng.choice(LINES[kind])
    things = [make(rng) for _ in range(german.count("{}"))]
    return german.format(*(g for g, _ in things)), english.format(*(e for _, e in things))


def number(rng: random.Random) -> Pair:
    """Returns a number as German and as English write it: 1.234,56 and 1,234.56."""
    value = rng.randrange(10 ** rng.randint(1, 8))
    english = f"{value:,}" if value >= 10_000 or rng.random() < 0.7 else str(value)
    german = english.replace(",", ".")
    if rng.random() < 0.5:
        decimals = f"{rng.randrange(10 ** (digits := rng.randint(1, 2))):0{digits}}"
        german, english = f"{german},{decimals}", f"{english}.{decimals}"
    return german, english


def quantity(rng: random.Random) -> Pair:
    """Returns a number with its unit, or without."""
    return number(rng) if rng.random() < 0.1 else fill("unit", number, rng)


def price(rng: random.Random) -> Pair:
    """Returns an amount of money as in a shop: 3,50 € and €3.50."""
    value, cents = rng.randrange(10 ** rng.randint(1, 4)), rng.choice((0, 50, 90, 95, 99, rng.randrange(100)))
    whole = cents == 0 and rng.random() < 0.8
    german = f"{value:,}".replace(",", ".") + ("" if whole else f",{cents:02}")
    return fill("currency", lambda _: (german, f"{value:,}" + ("" if whole else f".{cents:02}")), rng)


def weekday(rng: random.Random) -> Pair:
    """Returns a day of the week."""
    return rng.choice(LINES["day"])


def date(rng: random.Random) -> Pair:
    """Returns a day, with or without the year; in English in either order."""
    day, (german, english), year = rng.randint(1, 30), rng.choice(LINES["month"]), rng.randint(1800, 2035)
    american = rng.random() < 0.3
    short = f"{english} {day}" if american else f"{day} {english}"
    if rng.random() < 0.6:
        return f"{day}. {german} {year}", f"{short}, {year}" if american else f"{short} {year}"
    return f"{day}. {german}", short


def time(rng: random.Random) -> Pair:
    """Returns a time of day, its digits the same in both languages: 14:30 Uhr and 14:30."""
    hour, minute = rng.randrange(24), rng.choice((0, 15, 30, 45, rng.randrange(60)))
    clock = f"{hour}:{minute:02}" if rng.random() < 0.8 else f"{hour:02}:{minute:02}"
    if 1 <= hour < 12 and rng.random() < 0.2:
        return f"{clock} Uhr", f"{clock} am"
    return f"{clock} Uhr", clock


def _copied(rng: random.Random) -> Pair:
    return ((text := literal(rng)), text)


def _named(rng: random.Random) -> Pair:
    return ((text := rng.choice((rng.choice(NAMES), foreign(rng), code(rng)))), text)


KINDS: Final[tuple[tuple[float, str, Callable[[random.Random], Pair]], ...]] = (
    (0.32, "literal", _copied),
    (0.12, "quantity", quantity),
    (0.08, "date", date),
    (0.07, "weekday", weekday),
    (0.11, "time", time),
    (0.10, "price", price),
    (0.06, "name", _named),
)
"""How often a gap is filled with what; otherwise there is no sentence around it."""


def synthesise(rng: random.Random) -> Pair:
    """Returns a short pair made from nothing: things to copy, numbers, dates, times, alone or in a plain sentence."""
    draw = rng.random()
    for share, kind, make in KINDS:
        if draw < share:
            return fill(kind, make, rng)
        draw -= share
    if draw < 0.05:
        return quantity(rng)
    text = " ".join(literal(rng) for _ in range(rng.choice((1, 1, 1, 2, 3))))
    return text, text
