"""Text that is too long for a model to pieces that fit, and nothing lost between them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Final

Segment = tuple[str, str]
"""A piece of text and the separator (whitespace or nothing) that follows it."""

MAX_CHARACTERS_PER_PIECE: Final = 32
"""A text with more characters per allowed piece than this is split without counting."""

_GERMAN: Final = """
abb abs abschn allg anm art aufl bd bes bspw bzgl bzw ca dgl dipl dr ebd einschl engl etc evtl exkl fa ff fr frl geb gem
gest ggf hbf hl hr hrn hrsg inh inkl ing jh jhd kap kath lat lfd lt max med min mind mio mrd nr österr phil prof rd rel
sog st std str tab tel tsd usf usw verf vgl vs zzgl zt jan feb mär apr jun jul aug sep sept okt nov dez
"""
_ENGLISH: Final = """
approx apt ave blvd capt cf co col corp dept ed eds est fig figs gen gov inc jr ltd messrs mr mrs ms mt nos op pp rev
sen sgt sr vol vols oct dec
"""
_OWN: Final = ("de", "deu", "en", "eng")
"""The languages, two of them, that the rules here know."""

_ABBREVIATIONS: Final = frozenset(_GERMAN.split() + _ENGLISH.split())
_CLOSERS: Final = "\"'”“’‘»«›‹)]}*_"
_OPENERS: Final = "\"'„“”‘’‚»«›‹([{*_–—- "
LAYOUT: Final = re.compile(r"[\t\n\v\f\r\x1c-\x1f\x85\u2028\u2029]")
MARK: Final = "\ufeff"
"""A byte order mark, or a space of no width, which no model should see either."""

_MARKS: Final = re.compile(rf"{MARK}[{MARK}\s]*")
_BLANK: Final = re.compile(rf"\s(?:[{MARK}\s]*\s)?(?:{MARK}+$)?")
_SPACE: Final = re.compile(r"\s+")
_CLAUSE_ENDS: Final = ",;:.!?…–—)"
_WIDE_ENDS: Final = re.compile("[。！？；，、：](?=[^。！？；，、：」』）])")
_OPENS: Final = "\u202a\u202b\u202d\u202e\u2066\u2067\u2068"
"""What sets the direction of the text that follows."""

_JOINS_LAST: Final = frozenset(map(chr, (*range(0x1F3FB, 0x1F400), *range(0x1160, 0x1200))))
"""Colours of skin and the later parts of Korean syllables."""

_FLAG_LETTERS: Final = "".join(map(chr, range(0x1F1E6, 0x1F200)))
_STAND_IN_START: Final = re.compile("%[0-9]{0,6}$")


def _is_layout(blank: re.Match[str]) -> bool:
    # At the end, for the sake of the space that would be the last then, and lost.
    return LAYOUT.search(blank[0]) is not None or (blank.end() == len(blank.string) and MARK in blank[0])


def split_layout(text: str) -> list[Segment]:
    """Splits text at tabs, control characters, U+2028/U+2029 and a byte order mark in front, or behind spaces at
    the end: layout, which no model should see.
    """
    mark = _MARKS.match(text)  # a file that was joined from others has them in the middle
    if mark is not None:
        return [("", mark[0]), *split_layout(text[mark.end() :])]
    if LAYOUT.search(text) is None and not text.endswith(MARK):
        return [(text, "")]
    return list(_cut(text, (run.span() for run in _BLANK.finditer(text) if _is_layout(run))))


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
            windows = list(_windows(sentence, limit, count))
            parts += windows[:-1]
            last, rest = windows[-1]
            parts.append((last, rest + separator))
    return parts


def split_sentences(text: str, language: str = "de") -> list[Segment]:
    """Splits text into sentences: German and English by the rules here, other languages by those of sentencex."""
    if re.split("[-_]", language)[0].lower() in _OWN:
        return list(_cut(text, _sentence_ends(text)))
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


def _sentence_ends(text: str) -> Iterator[tuple[int, int]]:
    for run in _SPACE.finditer(text):
        if run[0] == " " and text[run.start() - 1].isalnum():  # most of them
            continue
        if _is_sentence_end(text, *run.span()):
            yield run.span()


def _is_sentence_end(text: str, left: int, right: int) -> bool:
    if LAYOUT.search(text, left, right):
        return True
    before = text[max(0, left - 48) : left].rstrip(_CLOSERS)
    if not before or before[-1] not in ".!?…":
        return False
    after = text[right : right + 16].lstrip(_OPENERS)
    if after and after[0].islower():
        return False
    if before[-1] != "." or before.endswith(".."):
        return True
    word = (before[:-1].split() or [""])[-1].lstrip(_OPENERS)
    last = word.rsplit(".", 1)[-1]
    is_ordinal = (last.isdigit() and len(last) <= 2) or re.fullmatch(r"[IVX]+", last) is not None
    is_initial = len(last) == 1 and last.isalpha()
    return not (is_ordinal or is_initial or last.lower() in _ABBREVIATIONS)


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
    tail = _SPACE.match(text, end)  # a run of spaces that the window ends in is taken whole
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
