"""What a translation must hold as it stands, kept from the model: it sees a stand-in that it knows how to copy."""

from __future__ import annotations

import re
from typing import Final

LITERAL: Final = re.compile(
    r"""
      (?P<url> \b(?:https?|ftp)://[^\s<>"„“”»«]*[\w/] | \bwww\.[\w.-]+\.\w[^\s<>"„“”»«]*[\w/] )
    | (?P<email> [\w.+-]+@[\w-]+(?:\.[\w-]+)+ )
    | (?P<tag> </?(?:a|abbr|b|big|blockquote|br|button|cite|code|div|em|font|form|h[1-6]|hr|i|img|input|kbd|li|ol|p|pre|
            q|s|samp|small|span|strong|sub|sup|table|td|th|tr|tt|u|ul|var)(?:\s[^<>]*)?/?> )
    | (?P<braces> \$?\{\{?[\w.:$-]*\}?\} )
    | (?P<printf> %\(\w+\)[-+0-9.]*[a-zA-Z] |
            %(?:\d+\$)?[-+0.\d]*(?:l{0,2}[diu]|[sfgxXc@])(?!\w) | %\d+(?!\w|%|[.,]\d) )
    """,
    re.VERBOSE,
)
"""Addresses, tags, placeholders: what a translation must hold as it stands."""

PATH: Final = re.compile(r"(?<![\w/.])(?:~|\.{1,2})?(?:/[\w.+-]*\w){2,}/?(?![\w/])|\b[A-Z]:\\[\w.+\\-]*\w")
"""Names of files with their folders."""

EMOJI: Final = re.compile("(?:[\u2600-\u27bf\U0001f1e6-\U0001faff][\ufe0f\u200d\u20e3\U0001f3fb-\U0001f3ff]*)+")
"""Emoji and dingbats in a row, with what modifies and joins them."""

_STAND_IN: Final = re.compile(r"%(\d+)")


def protect(text: str) -> tuple[str, list[str]]:
    """Returns a text with stand-ins, %1, %2 and so on, and what they stand for.

    Tags stay: a model must see where they are to put them where they belong. A text in which stand-ins could not be
    told from what is around them stays as it is.
    """
    parts: list[str] = []
    literals: list[str] = []
    place = free = 0
    for match in sorted((m for kind in (LITERAL, PATH, EMOJI) for m in kind.finditer(text)), key=re.Match.start):
        if match.start() < free:  # a path inside an address or a tag is none
            continue
        free = match.end()
        if match.lastgroup != "tag":
            literals.append(match[0])
            parts += [text[place : match.start()], f"%{len(literals)}"]
            place = free
    seen = "".join([*parts, text[place:]])
    return (seen, literals) if restore(seen, literals) == text else (text, [])


def protect_pair(source: str, target: str) -> tuple[str, str]:
    """Returns a text and its translation with the same stand-ins for the same things.

    What the translation alone has stays as it is there. Where something comes twice, its stand-ins come in the order of
    the text.
    """
    seen, literals = protect(source)
    free = [(literal, f"%{number}") for number, literal in enumerate(literals, 1)]
    target_seen, meant = protect(target)
    for place, literal in enumerate(meant):
        found = next((each for each in free if each[0] == literal), None)
        if found is not None:
            free.remove(found)
            meant[place] = found[1]
    return seen, restore(target_seen, meant)


def restore(text: str, literals: list[str]) -> str:
    """Returns a text with what its stand-ins stand for."""
    return _STAND_IN.sub(lambda match: _meant(match, literals), text)


def stand_ins(text: str) -> list[str]:
    """Returns the stand-ins in a text, sorted: those of a faithful translation are the source's."""
    return sorted(match[0] for match in _STAND_IN.finditer(text))


def says_nothing(text: str) -> bool:
    """Returns whether a text is nothing but stand-ins and marks."""
    return not any(c.isalnum() for c in _STAND_IN.sub("", text))


def _meant(match: re.Match[str], literals: list[str]) -> str:
    number = int(match[1])
    return literals[number - 1] if 0 < number <= len(literals) else match[0]
