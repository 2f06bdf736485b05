"""Marks of a translation that follow from the source: those at the ends of a line, and quotation marks."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from specmt.languages import primary

_SPACES: Final = " \t\u00a0\u202f"
_DASHES: Final = "-–—"
_MARKS: Final = f",:;，：；、،؛{_DASHES}{_SPACES}"
_STOPS: Final = ".!?…。！？"
_PLAIN: Final = str.maketrans("，：；、،؛", ",:;,,;", _SPACES)

_FULL_STOP: Final = re.compile(r"[^\W\d_]{5}\.$|(?<!\w)[^\W\d_]{1,40} [^\W_]{4}\.$")
"""A full stop behind a word that is hardly an abbreviation."""

_QUOTE: Final = re.compile("[\"“”„‟«»'‘’‚‹›]")
_OPENERS: Final = frozenset("([{/-–—")
_CLOSERS: Final = frozenset(".,;:!?…)]}/-–—")
_STYLES: Final = {
    "„ “ ‚ ‘": "bg cs de et is ka lb lt mk sk sl",
    "„ ” ‚ ’": "bs hr hu pl ro sr",
    "« » “ ”": "ca el es gl it nb nn no pt",
    "« » ‹ ›": "fa gsw hy sq",
    "« » „ “": "be kk ky ru uk",
    "«\u00a0 \u00a0» “ ”": "fr",
    "” ” ’ ’": "fi sv",
    "「 」 『 』": "ja",
}
_STYLE_OF: Final = {
    language: style.split(" ") for style, languages in _STYLES.items() for language in languages.split()
}


class _Quote(NamedTuple):
    place: int
    mark: str
    opens: bool
    is_single: bool
    is_straight: bool


def match_ends(source: str, translation: str) -> str:
    """Returns a translation with the commas, colons, semicolons and dashes that are at the ends of the source.

    They take the place of a stop: ``Dear Ms. Smith,`` is no ``Liebe Frau Smith.``; stops are as the model says them
    otherwise, but for a full stop that the source has none of. A hyphen that touches a word is part of it.
    """
    (first, text, last), (before, said, after) = _cut(source), _cut(translation)
    if not text or not said:
        return translation
    if not _is_same(first, before):
        before = first
    is_greek = {(text + last)[-1], (said + after)[-1]} == {"?", ";"}
    if not is_greek and not _is_same(last, after):
        said = said.rstrip("-") if last.startswith("--") else said
        bare = said.rstrip(_STOPS + _MARKS)
        if last and text[-1] not in _STOPS:
            said = bare or said
        elif not last and said == bare:
            said += text[len(text.rstrip(_STOPS)) :]
        after = last
    if not after and text[-1].isalnum() and (sentence := _FULL_STOP.search(said)):
        said = said[: sentence.end() - 1]
    return f"{before}{said}{after}"


def _cut(text: str) -> tuple[str, str, str]:
    """Returns the marks before a text, the text, and the marks behind it."""
    core = text.lstrip(_MARKS)
    first = text[: len(text) - len(core)]
    if first and first[-1] not in f"–—{_SPACES}":  # -5, :-)
        first = first.rstrip(",:;-")
    text = text[len(first) :]
    core = text.rstrip(_MARKS)
    last = text[len(core) :]
    if re.match("-(?!-)", last):  # Vor-
        core, last = f"{core}-", last[1:]
    return first, core, last


def _is_same(one: str, other: str) -> bool:
    has_dash = any(dash in one + other for dash in _DASHES)
    return one == other if has_dash else one.translate(_PLAIN) == other.translate(_PLAIN)


def match_quotes(source: str, translation: str, language: str) -> str:
    """Returns a translation with quotation marks of the kind that the source has.

    Straight ones stay straight, and typographic ones become those of the language, single ones and double ones each by
    themselves. Apostrophes, inches and arrows such as ``Next »`` stay, and so does all where the source has none, or
    both kinds. Marks alone are copied.

    :param language: that of the translation
    """
    if not any(map(str.isalnum, source)):
        return source
    there = _find_quotes(source)
    single, double = ({each.is_straight for each in there if each.is_single is level} for level in (True, False))
    typographic = _STYLE_OF.get(primary(language), ["“", "”", "‘", "’"])
    parts, done = list[str](), 0
    for quote in _find_quotes(translation) if there else ():
        kinds = single if quote.is_single else double or single
        if not kinds or (quote.is_straight and False in kinds and True in kinds):
            continue
        style = typographic if False in kinds else ['"', '"', "'", "'"]
        parts += translation[done : quote.place], style[2 * quote.is_single + (not quote.opens)]
        done = quote.place + 1
    return "".join([*parts, translation[done:]])


def _find_quotes(text: str) -> list[_Quote]:
    """Returns the quotation marks of a text: single ones in pairs, double ones also without a partner."""
    found: list[_Quote] = []
    openers: dict[bool, _Quote | None] = {False: None, True: None}
    opens = False
    for match in _QUOTE.finditer(text):
        place, mark = match.start(), match[0]
        left, right = text[max(place - 1, 0) : place], text[place + 1 : place + 2]
        is_single = mark in "'‘’‚‹›"
        opener = openers[is_single]
        begins, ends = not left.strip(), not right.strip()
        is_arrow = mark in "«»‹›" and (begins or left in _OPENERS) and (ends or right in _CLOSERS)
        if begins == ends or right in _CLOSERS:
            begins = opens if _QUOTE.match(left) else begins or left in _OPENERS
            ends = ends or right in _CLOSERS or _QUOTE.match(right) is not None
        opens = begins if begins != ends else opener is None
        quote = _Quote(place, mark, opens, is_single, is_straight=mark in "\"'")
        is_inch = mark == '"' and left.isdigit() and (opener is None or opener.mark != '"')
        is_inside = left.isalnum() and right.isalnum()
        is_apostrophe = is_single and (is_inside or (mark == "’" if opens else opener is None))
        if is_arrow or is_inch or is_apostrophe:
            continue
        openers[is_single] = quote if opens else None
        if not is_single:
            found.append(quote)
        elif opener is not None and not opens:
            found += opener, quote
    return sorted(found)
