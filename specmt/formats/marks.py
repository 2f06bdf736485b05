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
    if child.type == "text":
        return _after(raw, place, child.content)
    if child.type == "text_special":
        return _after(raw, place, child.markup)
    if child.type == "html_inline":
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
        depth, index = 0, place + 1
        while index < len(raw):
            depth += (raw[index] == "[") - (raw[index] == "]")
            if raw[index] == "\\":
                index += 1
            elif not depth:
                full = _LINK_END.match(raw, index)
                return full.end() if full else _match(_SHORT_END, raw, index)
            index += 1
        raise LostError
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
    """Returns where a link ends whose text is its name."""
    depth = 0
    for index in range(start, len(raw)):
        depth += (raw[index] == "[") - (raw[index] == "]")
        if not depth:
            return _match(_SHORT_END, raw, index)
    raise LostError


def is_full(raw: str, start: int) -> bool:
    """Whether a link has a target or a name beside its text."""
    depth, index = 0, start
    while index < len(raw):
        if raw[index] == "\\":
            index += 1
        elif raw[index] == "`":  # brackets in code are no brackets
            ticks = re.compile("`+").match(raw, index)
            assert ticks is not None
            closing = re.compile(rf"(?<!`){ticks[0]}(?!`)").search(raw, ticks.end())
            index = closing.end() - 1 if closing else ticks.end() - 1
        else:
            depth += (raw[index] == "[") - (raw[index] == "]")
            if not depth:
                return _LINK_END.match(raw, index) is not None
        index += 1
    return False
