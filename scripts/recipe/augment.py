"""Pairs made from other pairs, that teach a model to copy what must be copied and to be robust.

Pairs are (German, English). Everything is drawn from the generator that is handed in, so that a seed decides it all.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Final

from recipe.cleaning import WORD
from recipe.synthetic import NAMES, Pair, emoji, foreign, literal, url
from specmt.text.patterns import literal_pattern

_END: Final = re.compile(r"[.!?…][\"'“”»«)]*$")

Change = Callable[[str, str, random.Random], Pair]


def upper(german: str, english: str, _: random.Random) -> Pair:
    """All in capitals, but for what is to be copied."""

    def change(text: str) -> str:
        copied = [m[0] for m in literal_pattern().finditer(text)]
        parts = literal_pattern().sub("\0", text).upper().split("\0")
        return parts[0] + "".join(c + p for c, p in zip(copied, parts[1:], strict=True))

    return change(german), change(english)


def unpunctuate(german: str, english: str, _: random.Random) -> Pair:
    """Without the full stop, question or exclamation mark at the end, where both sides have the same."""
    if len(german) > 3 < len(english) and german[-1] == english[-1] in ".!?" and german[-2].isalpha():
        return german[:-1], english[:-1]
    return german, english


def itemise(german: str, english: str, rng: random.Random) -> Pair:
    """As an item of a list."""
    number = rng.randint(1, 20)
    letter = rng.choice("abcdefghABC")
    mark = rng.choice(
        ("- ", "- ", "* ", "• ", "– ", f"{number}. ", f"{number}. ", f"{number}) ", f"{letter}) ", "# ", "> ")
    )
    return mark + german, mark + english


def quote(german: str, english: str, rng: random.Random) -> Pair:
    """In quotation marks, those of the language or plain ones."""
    if any(mark in german + english for mark in '"„“”»«'):
        return german, english
    left, right = rng.choice((("„", "“"), ("„", "“"), ("»", "«"), ('"', '"')))
    return f"{left}{german}{right}", f'"{english}"'


def wrap(german: str, english: str, rng: random.Random) -> Pair:
    """Between the tags of an element."""
    name = rng.choice(("b", "i", "em", "strong", "p", "li", "span", "h1", "h2", "u", "code", "div", "a"))
    start = f'<a href="{url(rng)}">' if name == "a" else f"<{name}>"
    return f"{start}{german}</{name}>", f"{start}{english}</{name}>"


def append(german: str, english: str, rng: random.Random) -> Pair:
    """With something to copy at the start, at the end or in brackets before the full stop."""
    kind = rng.random()
    if kind < 0.3:
        text = emoji(rng)
        return f"{german} {text}", f"{english} {text}"
    text = literal(rng)
    if kind < 0.5:
        mark = rng.choice((": ", " - ", " "))
        return f"{text}{mark}{german}", f"{text}{mark}{english}"
    if kind < 0.7 or german[-1] != english[-1] or german[-1] not in ".!?":
        mark = rng.choice((": ", " ", " – "))
        return f"{german}{mark}{text}", f"{english}{mark}{text}"
    return f"{german[:-1]} ({text}){german[-1]}", f"{english[:-1]} ({text}){english[-1]}"


def replace_shared(german: str, english: str, rng: random.Random) -> Pair:
    """With something to copy in the place of a word that occurs once on both sides, a name mostly."""
    sides = [[w for w in WORD.findall(text) if len(w) > 2 and w[0].isupper()] for text in (german, english)]
    shared = sorted(w for w in set(sides[0]) & set(sides[1]) if sides[0].count(w) == sides[1].count(w) == 1)
    if not shared:
        return append(german, english, rng)
    old = re.compile(rf"(?<![\w@./:-]){re.escape(rng.choice(shared))}(?![\w@/:-])")
    if not (old.search(german) and old.search(english)):
        return append(german, english, rng)
    new = rng.choice((foreign, foreign, literal, lambda r: r.choice(NAMES)))(rng)
    return old.sub(lambda _: new, german), old.sub(lambda _: new, english)


CHANGES: Final[tuple[tuple[float, Change], ...]] = (
    (0.010, upper),
    (0.020, unpunctuate),
    (0.012, itemise),
    (0.006, quote),
    (0.006, wrap),
    (0.012, append),
    (0.014, replace_shared),
)
"""The changes and how often each is made."""

LOWERED: Final = 0.012
"""How often the source side, and it alone, is written small."""

SWISS: Final = 0.02
"""How often German that is read has ss for ß."""

JOINED: Final = 0.06
"""How often a sentence of running text comes with those before it: 3% of all pairs."""


def vary(pair: Pair, rng: random.Random, *, source: int, rate: float = 1.0) -> Pair:
    """Returns a pair as it is, mostly, or changed in one of the ways above.

    :param source: which side is the source: 0 for German, 1 for English
    :param rate: how much more often than usual to change it
    """
    draw = rng.random() / rate if rate > 0 else 1.0
    for share, change in CHANGES:
        if draw < share:
            return change(*pair, rng)
        draw -= share
    if draw < LOWERED:
        lowered = pair[source].lower()
        return (lowered, pair[1]) if source == 0 else (pair[0], lowered)
    if source == 0 and draw < LOWERED + SWISS:
        return pair[0].replace("ß", "ss"), pair[1]
    return pair


def join(pairs: Sequence[Pair], rng: random.Random) -> Pair:
    """Returns the last of neighbouring pairs as it is, mostly, or on one line with one to three of those before it."""
    count = rng.randint(2, 4) if rng.random() < JOINED else 1
    german, english = zip(*pairs[-count:], strict=True)
    return " ".join(german), " ".join(english)


def is_sentence(pair: Pair) -> bool:
    """Tells whether both sides end as sentences do."""
    return all(_END.search(text) for text in pair)
