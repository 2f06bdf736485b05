"""Text in capitals, of which models have seen little: it is translated in its usual spelling and raised again."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import count, groupby
from typing import Final, NamedTuple

from specmt.text.lexicon import WORD, Lexicon, to_key

LEAST: Final = 4
"""The fewest letters of a single word that is shouted; shorter ones may be abbreviations."""

_LONG: Final = re.compile(r"[^\W\d_]{2,}")
_SENTENCE_END: Final = re.compile(r"""[.!?…:]["'“”’»«)\]]{0,3}\s""")
_SEPARATED: Final = re.compile(r"\S+")


class Lowered(NamedTuple):
    """A text in its usual spelling, and what of the translation is to be in capitals."""

    text: str

    is_whole: bool = False
    """Whether all of it is."""

    words: tuple[int, ...] = ()
    """Otherwise the words of the text whose translations are, as white space separates them."""


class _Word(NamedTuple):
    text: str
    start: int
    spelling: str
    case: bool | None
    """Whether it is in capitals; ``None`` for digits, codes, stand-ins, and letters without case."""


def lower_shouted(text: str, lexicon: Lexicon) -> Lowered:
    """Returns a text that is in capitals, or has words in capitals, as it is usually spelled.

    ``KEEP USB IN!`` becomes ``Keep USB in!``; names and abbreviations stay, and a line of them is not changed.

    :param text: with stand-ins for what is copied
    """
    if not any(map(str.isupper, _LONG.findall(text.replace("ß", "ẞ")))):
        return Lowered(text)
    words = [word for word in _words(text, lexicon) if word.case is not None]
    is_whole = all(word.case for word in words)
    changed: list[_Word] = []
    for is_upper, run in groupby(words, lambda word: word.case):
        if is_upper and _is_shouted(shouted := list(run), lexicon, is_whole=is_whole):
            changed += (word for word in shouted if word.spelling != word.text)
    if not changed:
        return Lowered(text)
    done, parts = 0, list[str]()
    for word in changed:
        parts += text[done : word.start], word.spelling
        done = word.start + len(word.text)
    lowered = "".join([*parts, text[done:]])
    if is_whole:
        return Lowered(lowered, is_whole=True)
    begins = [match.start() for match in _SEPARATED.finditer(text)]
    return Lowered(lowered, words=tuple(dict.fromkeys(bisect_right(begins, word.start) - 1 for word in changed)))


def raise_again(translation: str, lowered: Lowered, alignment: Iterable[tuple[int, int]] = ()) -> str:
    """Returns the translation of a lowered text in the capitals that the text had.

    :param translation: with stand-ins for what is copied
    :param alignment: pairs of a word of the text and one of the translation, as white space separates them
    """
    if lowered.is_whole:
        return translation.upper()
    shouted = set(lowered.words)
    raised = {target for source, target in alignment if source in shouted}
    numbers = count()
    return _SEPARATED.sub(lambda word: word[0].upper() if next(numbers) in raised else word[0], translation)


def _words(text: str, lexicon: Lexicon) -> Iterator[_Word]:
    """Yields the words of a text; spelled with a capital where a sentence begins."""
    done, begins = 0, True
    for match in WORD.finditer(text):
        word = match[0].replace("ß", "ẞ")  # STRAßE is in capitals.
        has_case = word.lower() != word.upper() and not any(map(str.isdigit, word))
        case = word.isupper() if has_case else None
        begins = begins or _SENTENCE_END.search(text, done, match.start()) is not None
        spelling = lexicon.spell(match[0]) if case else match[0]
        if begins and spelling.islower():
            spelling = spelling[0].upper() + spelling[1:]
        yield _Word(match[0], match.start(), spelling, case)
        done, begins = match.end(), False


def _is_shouted(words: list[_Word], lexicon: Lexicon, *, is_whole: bool) -> bool:
    """Returns whether words in capitals that follow each other are no abbreviations.

    If the text has no others, one of several that is usually written otherwise is enough; among others it must be a
    word that is hardly ever in capitals.
    """
    changed = [word.text for word in words if word.spelling != word.text and len(word.text) > 1]
    if is_whole and len(words) > 1:
        return bool(changed)
    known = [word for word in changed if (is_whole or to_key(word) not in lexicon.keywords) and lexicon.is_word(word)]
    return len(known) > 1 or any(len(word) >= LEAST for word in known)
