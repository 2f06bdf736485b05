"""Where the inline markup of Markdown ends, which markdown-it does not say."""

from __future__ import annotations

import re
from typing import Final

from markdown_it.token import Token

_LINK_END: Final = re.compile(
    r"""\]\(\s*(?:<[^<>\n]*>|(?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.|\([^\s()]*\))*\))*)
        (?:\s+(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)))?\s*\) | \]\[[^\[\]]+\]""",
    re.VERBOSE | re.DOTALL,
)
_SHORT_END: Final = re.compile(r"\](?:\[\])?")


class LostError(Exception):
    """It cannot be said where a piece of inline markup is."""


def end_of(raw: str, place: int, child: Token) -> int:
    """Returns where the markup of an inline token ends.

    :raises LostError: it is not there.
    """
    if child.type in ("text", "html_inline"):
        return _after(raw, place, child.content)
    if child.type == "softbreak":
        return _match(re.compile(r" *\n *"), raw, place)
    if child.type == "hardbreak":
        return _match(re.compile(r"(?: +|\\)\n *"), raw, place)
    if child.type == "code_inline":
        return _match(re.compile(rf"{child.markup}(?!`).*?(?<!`){child.markup}(?!`)", re.DOTALL), raw, place)
    if child.type == "link_open":
        return place + 1
    if child.type == "link_close":
        return _match(_LINK_END, raw, place)
    if child.type == "image":
        end = _closing(raw, place + 1)
        full = _LINK_END.match(raw, end)
        return full.end() if full else _match(_SHORT_END, raw, end)
    if child.markup:
        return _after(raw, place, child.markup)
    raise LostError


def _after(raw: str, place: int, said: str) -> int:
    for written in (said, said.replace("|", "\\|")):  # in tables
        if raw.startswith(written, place):
            return place + len(written)
    raise LostError


def _match(pattern: re.Pattern[str], raw: str, place: int) -> int:
    match = pattern.match(raw, place)
    if match is None:
        raise LostError
    return match.end()


def short_end(raw: str, start: int) -> int:
    """Returns where a link ends whose text is its name.

    :raises LostError: it is not there.
    """
    return _match(_SHORT_END, raw, _closing(raw, start))


def is_full(raw: str, start: int) -> bool:
    """Whether a link has a target or a name beside its text.

    :raises LostError: its text does not end.
    """
    return _LINK_END.match(raw, _closing(raw, start)) is not None


def _closing(raw: str, start: int) -> int:
    """Returns where the bracket is closed that opens at a place; those in code are no brackets."""
    depth, index = 0, start
    while index < len(raw):
        if raw[index] == "\\":
            index += 1
        elif raw[index] == "`":
            ticks = re.compile("`+").match(raw, index)
            assert ticks is not None
            closing = re.compile(rf"(?<!`){ticks[0]}(?!`)").search(raw, ticks.end())
            index = closing.end() - 1 if closing else ticks.end() - 1
        else:
            depth += (raw[index] == "[") - (raw[index] == "]")
            if not depth:
                return index
        index += 1
    raise LostError
