"""Text that is too long for a model to pieces that fit, and nothing lost between them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Final

from specmt.text.words import WORDS

Segment = tuple[str, str]
"""A piece of text and the separator (whitespace or nothing) that follows it."""

MAX_CHARACTERS_PER_PIECE: Final = 32
"""A text with more characters per allowed piece than this is split without counting."""

MOST: Final = 4096
"""How many characters of a line are masked and cut at a time: more than a paragraph has, and no long time."""

_RUN: Final = re.compile("[!-~]+")
_OWN: Final = {"de": "de", "deu": "de", "en": "en", "eng": "en"}
"""The languages that the rules here know."""

_WORDS: Final = {name: frozenset(words) for name, words in WORDS.items()}
_SOMETIMES_LAST: Final = {language: _WORDS["last"] | _WORDS[f"{language} last"] for language in ("de", "en")}
_VOWELS: Final = frozenset("aeiouyäöüéèàáóAEIOUYÄÖÜ")
CLOSERS: Final = "\"'”“’‘»«›‹)]}*_†‡⁰¹²³⁴⁵⁶⁷⁸⁹"
_OPENERS: Final = "\"'„“”‘’‚»«›‹([{*_–—- "
LAYOUT: Final = re.compile(r"[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]")
_SPACE: Final = re.compile(r"\s+")
_MARK_AND_SPACE: Final = re.compile(r"[.!?…][^\s.!?…]*\s")
_BREAK: Final = re.compile(
    rf"[.!?…](?P<closers>[{re.escape(CLOSERS)}]*(?:(?:%[0-9]{{1,6}}|[\[(]\w{{1,4}}[\])])[{re.escape(CLOSERS)}]*)*)"
    rf"(?P<note>[0-9]{{1,2}}(?:[,–-][0-9]{{1,2}}){{0,4}})?(?P<space>\s+)"
    rf"|(?<!\s)(?P<layout>[^\S{LAYOUT.pattern[1:-1]}]*{LAYOUT.pattern}\s*)"
)
"""White space behind a full stop, perhaps with brackets, quotation marks and footnote marks between, or with layout."""

_NEXT: Final = re.compile(r"[\W_]{0,16}([^\W_]*)(\.?)")
_LETTER: Final = re.compile(r"[^\W\d_]")
_WORD: Final = re.compile(r"(?:%[0-9]+|\w+)$")
_CHAIN: Final = re.compile(r"(?<!\w)[^\W\d_A-ZÄÖÜ]\.\s?[^\W\d_mwDÄ]$")
"""Letters like “z. B”, but no “p. m”, “u. s. w”, “a. D” and “o. Ä”, which may end a sentence."""

_CLOCK: Final = re.compile(r"[0-9]\s?[ap]\.\s?m$", re.IGNORECASE)
_ROMAN: Final = re.compile("[IVX]+")
_WINDOW: Final = 48
_CLAUSE_ENDS: Final = ",;:.!?…–—)"
_WIDE_ENDS: Final = re.compile("[。！？；，、：](?=[^。！？；，、：」』）])")
_OPENS: Final = "\u202a\u202b\u202d\u202e\u2066\u2067\u2068"
"""What sets the direction of the text that follows."""

_JOINS_LAST: Final = frozenset(map(chr, (*range(0x1F3FB, 0x1F400), *range(0x1160, 0x1200))))
"""Colours of skin and the later parts of Korean syllables."""

_FLAG_LETTERS: Final = "".join(map(chr, range(0x1F1E6, 0x1F200)))
_STAND_IN_START: Final = re.compile("%[0-9]{0,6}$")


def split_layout(text: str) -> list[Segment]:
    """Splits text at tabs, control characters and U+2028/U+2029: layout, which no model should see."""
    if LAYOUT.search(text) is None:
        return [(text, "")]
    return list(_cut(text, (run.span() for run in _SPACE.finditer(text) if LAYOUT.search(run[0]))))


def in_pieces(text: str, language: str) -> Iterator[Segment]:
    """Yields a text in pieces of at most :data:`MOST` characters: whole sentences, if they are not that long.

    An address or the like, which is longer and has no space, is a piece of its own.
    """
    start = 0
    while len(text) - start > MOST:
        left, right = _end_of_piece(text, start, language)
        yield text[start:left], text[left:right]
        start = right
    if start < len(text) or not text:
        yield text[start:], ""


def _end_of_piece(text: str, start: int, language: str) -> tuple[int, int]:
    """Returns the span of the white space behind a piece."""
    end = start + MOST
    window = text[start:end]
    *others, last = split_sentences(window, language) if _LETTER.search(window) else [(window, "")]
    rest = len(last[0]) + len(last[1])
    if others and rest < MOST // 2:
        return end - rest - len(others[-1][1]), end - rest
    left = end
    while left > start and not text[left - 1].isspace():
        left -= 1
    while left > start and text[left - 1].isspace():
        left -= 1
    if left == start:
        run = _RUN.match(text, start)
        left = run.end() if run and run.end() > end else _character_break(text, start, end)
    space = _SPACE.match(text, left)
    return left, space.end() if space else left


def segment(text: str, limit: int, count: Callable[[str], int]) -> list[Segment]:
    """Splits text into parts of at most ``limit`` pieces, as ``count`` counts them.

    Text that fits is returned whole; other text is split into sentences, a sentence that is still too long at clauses
    or words, a word that is still too long between characters. The parts and separators together are the text. Only a
    single character may remain over the limit.
    """
    if _fits(text, limit, count):
        return [(text, "")]
    parts: list[Segment] = []
    for sentence, separator in split_sentences(text):
        if _fits(sentence, limit, count):
            parts.append((sentence, separator))
        else:
            *others, (last, rest) = _windows(sentence, limit, count)
            parts += [*others, (last, rest + separator)]
    return parts


def split_sentences(text: str, language: str = "de") -> list[Segment]:
    """Splits text into sentences: German and English by the rules here, other languages by those of sentencex.

    What is copied may have the stand-ins %1, %2, … A text that begins with a small letter, so has no capitals where
    sentences begin, is cut before small letters too.
    """
    own = _OWN.get(language[:3].rstrip("-_").lower())
    if own is not None:
        if _MARK_AND_SPACE.search(text) is None and LAYOUT.search(text) is None:  # most lines
            return [(text, "")]
        return list(_cut(text, _sentence_ends(text, own)))
    import sentencex  # here, for those who need it

    parts = sentencex.segment(language, text)
    if "".join(parts) != text:  # whatever a library does, nothing is lost
        return [(text, "")]
    ends = [len(part.rstrip()) for part in parts]
    return [(part[:end], part[end:]) for part, end in zip(parts, ends, strict=True)] or [("", "")]


def _fits(text: str, limit: int, count: Callable[[str], int]) -> bool:
    return len(text) <= MAX_CHARACTERS_PER_PIECE * limit and count(text) <= limit


def _cut(text: str, separators: Iterator[tuple[int, int]]) -> Iterator[Segment]:
    start = 0
    for left, right in separators:
        yield text[start:left], text[left:right]
        start = right
    if start < len(text) or not text:
        yield text[start:], ""


def _sentence_ends(text: str, language: str) -> Iterator[tuple[int, int]]:
    start = 0
    for found in _BREAK.finditer(text):
        if found["layout"] is not None:
            yield found.span("layout")
        elif LAYOUT.search(found["space"]) or _is_sentence_end(found, start, language):
            yield found.span("space")
        else:
            continue
        start = found.end()


def _is_sentence_end(found: re.Match[str], start: int, language: str) -> bool:
    """Whether a sentence, begun at ``start``, ends with a mark that space follows."""
    text, mark = found.string, found.start()
    before = text[max(start, mark - _WINDOW) : mark].rstrip(".!?… ")
    word = _WORD.search(before.rstrip(CLOSERS))
    following, stop = _NEXT.match(text, found.end()).groups()  # type: ignore[union-attr]
    if not following and found.end() < len(text):  # only marks, at the end of a comment perhaps
        return False
    if word is None:
        return _LETTER.search(before) is not None and not following[:1].islower()
    if found["note"] and not (len(word[0]) > 2 and word[0].isalpha() and following[:1].isupper()):
        return False
    if text[mark] in "!?":
        is_end = word[0].lower() not in _WORDS["names"]
    elif text[mark] == "…" or text[mark - 1] == ".":
        is_end = not following[:1].islower()
    else:
        begins = not stop and following in _WORDS[f"{language} starters"]
        is_first = mark - start == len(before) and before.strip(_OPENERS) == word[0]
        is_end = _may_end(word[0], before, following, language, is_first=is_first, begins=begins)
    if is_end and following[:1].islower():
        first = _LETTER.search(text)
        return not found["closers"] and first is not None and first[0].islower() and " " in before.strip()
    return is_end


def _may_end(word: str, before: str, following: str, language: str, *, is_first: bool, begins: bool) -> bool:
    """Whether a sentence may end with a word and a full stop, which ends abbreviations and ordinals, too.

    :param is_first: whether the word is all that the sentence has
    :param begins: whether what follows is a word that often begins a sentence
    """
    lower = word.lower()
    if word[0] == "%":
        return True
    if lower in _WORDS["never"] or _CHAIN.search(before):
        return False
    if word.isdigit():
        return not is_first and (begins or language == "en" or len(word) > 3)
    if language == "en" and _CLOCK.search(before):
        return following[:1].isupper() and following not in _WORDS["zones"]
    is_letter = len(word) == 1 and before[-2:-1] not in ("-", "/")
    if is_letter or lower in _SOMETIMES_LAST[language] or lower.endswith(("nr", "str")):
        return begins
    if word.isalpha() and word[1:].islower() and _VOWELS.isdisjoint(word):  # Bj., jmdn., Hrsg.
        return begins
    if language == "de" and _ROMAN.fullmatch(word):
        return begins
    return lower not in _WORDS["numbered"] or not following[:1].isdigit()


def _windows(text: str, limit: int, count: Callable[[str], int]) -> Iterator[Segment]:
    start = 0
    guess = 4 * limit
    while start < len(text):
        fit = _longest_prefix(text, start, guess, limit, count)
        guess = max(1, fit - start)
        if fit == len(text):
            yield text[start:], ""
            return
        left, right = _best_break(text, start, fit)
        # Counting is not quite monotone in the length: a shorter prefix may take a piece more.
        while left - start > 1 and count(text[start:left]) > limit:
            left = right = _character_break(text, start, start + (left - start) // 2)
        yield text[start:left], text[left:right]
        start = right


def _longest_prefix(text: str, start: int, guess: int, limit: int, count: Callable[[str], int]) -> int:
    """Returns an end (at least one character on) up to which the text about fills the limit."""
    low, high = start + 1, min(len(text), start + MAX_CHARACTERS_PER_PIECE * limit)
    if low >= high:
        return high
    end = min(high, max(low, start + guess))
    for _ in range(12):
        pieces = count(text[start:end])
        if pieces <= limit:
            low = end
            if end == high or pieces >= 0.9 * limit:
                break
        else:
            high = end - 1
        if low >= high:
            break
        aimed = start + int((end - start) * 0.97 * limit / max(1, pieces))
        end = aimed if low < aimed <= high else (low + high + 1) // 2
    return low


def _best_break(text: str, start: int, end: int) -> tuple[int, int]:
    """Returns the span of the separator at which to cut a window that may reach up to ``end``."""
    # A run of spaces that the window ends in is taken whole, but for one that it begins in, too.
    tail = None if text[start:end].isspace() else _SPACE.match(text, end)
    runs = _SPACE.finditer(text, start, tail.end() if tail else end)
    spans = [run.span() for run in runs if run.start() > start]
    middle = (start + end) // 2
    for left, right in reversed(spans):
        if left < middle:
            break
        if text[left - 1] in _CLAUSE_ENDS:
            return left, right
    if spans:
        return spans[-1]
    # Chinese and Japanese have no spaces.
    wide = [match.end() for match in _WIDE_ENDS.finditer(text, middle, end)]
    cut = wide[-1] if wide else _character_break(text, start, end)
    return cut, cut


def _character_break(text: str, start: int, end: int) -> int:
    """Returns the last place up to ``end`` that does not part what is read as one character, nor a stand-in."""
    for cut in range(max(end, start + 1), max(start, end - 32), -1):
        if not _is_joined(text, start, cut):
            return cut
    return max(end, start + 1)


def _is_joined(text: str, start: int, cut: int) -> bool:
    """Whether what is before and after a cut is read as one, in a part of a text from ``start``."""
    before, after = text[cut - 1], text[cut]
    if before in _OPENS or before == "\u200d" or after in _JOINS_LAST:
        return True
    # Marks, joiners and what else has no width stay with what they follow.
    if after not in _OPENS and unicodedata.category(after) in ("Mn", "Mc", "Me", "Cf"):
        return True
    if after in _FLAG_LETTERS:  # two make a flag
        return (cut - start - len(text[start:cut].rstrip(_FLAG_LETTERS))) % 2 == 1
    return after in "0123456789" and _STAND_IN_START.search(text, max(0, cut - 8), cut) is not None
