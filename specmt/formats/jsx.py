"""What MDX adds to Markdown: imports, expressions, and elements of JSX."""

from __future__ import annotations

import re
from typing import Final

from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

_ESM: Final = re.compile(r"(?:import|export)\b")
_JSX: Final = re.compile(r"</?>|</?[A-Za-z][\w.:-]*(?=[\s/>{])")


def _braced(text: str, place: int, end: int) -> int | None:
    """Returns where an expression of MDX ends that opens with a brace at a place."""
    depth, quote = 0, ""
    while place < end:
        char = text[place]
        if quote:
            if char == "\\":
                place += 1
            elif char == quote:
                quote = ""
        elif char in "\"'`" and depth:
            quote = char
        else:
            depth += (char == "{") - (char == "}")
            if not depth:
                return place + 1
        place += 1
    return None


def _tag(text: str, place: int, end: int) -> int | None:
    """Returns where a tag of JSX ends."""
    match = _JSX.match(text, place, end)
    if match is None or match[0].endswith(">"):
        return match.end() if match else None
    place = match.end()
    while place < end:
        char = text[place]
        if char == ">":
            return place + 1
        if char == "{":
            inside = _braced(text, place, end)
        elif char in "\"'":
            inside = text.find(char, place + 1, end) + 1 or None
        else:
            inside = place + 1
        if inside is None or char == "<":
            return None
        place = inside
    return None


def _end(state: StateBlock | StateInline, place: int, most: int) -> int | None:
    """Returns where the tag or expression ends that starts at a place, if it does.

    What is not closed is looked through to its end. Once that was done for eight times as many characters as there
    are, no end is looked for, lest the time grow with their square.
    """
    left = state.env.setdefault("left", 8 * len(state.src))
    if left < 0:
        return None
    if state.src.startswith("<!--", place):  # which Docusaurus reads, too
        found = state.src.find("-->", place + 4, most)
        end = found + 3 if found >= 0 else None
    else:
        end = (_tag if state.src[place] == "<" else _braced)(state.src, place, most)
    if end is None:
        state.env["left"] = left - (most - place)
    return end


def jsx_inline(state: StateInline, silent: bool) -> bool:
    """Reads tags and expressions in a text."""
    char = state.src[state.pos]
    end = _end(state, state.pos, state.posMax) if char in "<{" else None
    if end is None:
        return False
    if not silent:
        is_tag = char == "<" and state.src[state.pos + 1] != "!"
        token = state.push("html_inline" if is_tag else "kept", "", 0)
        token.info, token.content = "expression", state.src[state.pos : end]
    state.pos = end
    return True


def jsx_block(state: StateBlock, line: int, last: int, silent: bool) -> bool:
    """Reads imports, expressions and tags that fill their lines."""
    start = state.bMarks[line] + state.tShift[line]
    most = state.eMarks[last - 1]
    if _ESM.match(state.src, start) and not state.tShift[line] and not silent:
        end = line + 1
        while end < last and not state.isEmpty(end):
            end += 1
    elif state.src[start : start + 1] in ("<", "{"):
        place = start
        while place < most and state.src[place] in "<{":
            after = _end(state, place, most)
            if after is None:
                return False
            place = state.skipSpaces(after)
        end = next((number for number in range(line, last) if state.eMarks[number] >= place), last - 1)
        if state.src[place : state.eMarks[end]].strip():
            return False
        end += 1
    else:
        return False
    if not silent:
        token = state.push("jsx", "", 0)
        token.map, token.info = [line, end], "code"
        state.line = end
    return True
