"""Markup of manual pages in messages, as po4a writes it: ``B<bold>``, ``E<lt>`` and ``\\fBbold\\fR``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from specmt.formats.glued import Item
from specmt.types import Span

_HINT: Final = re.compile(r"[A-Z]<|\\f[BIRP(\[]|\\\((?:lq|oq|Fo)")
_MARK: Final = re.compile(
    r"(?P<opaque>E<\w+>)|(?<!\w)(?:CW|[A-Z])(?P<open><)|(?P<close>>)|(?P<font>\\f(?:[BI]|\([BC]\w))|(?P<end>\\f[RP])"
    r"|(?P<quote>\\\((?:lq|oq|Fo))|(?P<unquote>\\\((?:rq|cq|Fc))"
)

_OPENING: Final = {"close": "open", "end": "font", "unquote": "quote"}
_BEGINS: Final = re.compile(r"<([A-Za-z][\w.-]*)")
_ENDS: Final = re.compile(r"</([A-Za-z][\w.-]*)\s*>")
"""Tags of elements: in ``<b>Plan B</b>`` the last letter is no mark, in ``B</etc>`` it is."""

_CODE: Final = re.compile("(?:CW?|[FXZ])<")
_LITERAL: Final = re.compile(r"-.*|(?![A-Z][a-z]+\b)\S+", re.DOTALL)
"""Options, names of commands and files, values to be filled in."""


def find_marks(text: str, span: Span) -> Iterator[Item]:
    """Yields the marks in a part of a text: characters by their names, and pairs that are complete."""
    if not _HINT.search(text, *span):
        return
    found: list[Item] = []
    opened: list[int] = []
    elements = {match[1] for match in _BEGINS.finditer(text, *span)} if "</" in text else ()
    for match in _MARK.finditer(text, *span):
        kind = match.lastgroup
        if kind == "open" and elements and (end := _ENDS.match(text, match.end() - 1)) and end[1] in elements:
            continue
        if kind == "opaque":
            found.append(Item("opaque", match.span()))
        elif kind in _OPENING.values():
            opened.append(len(found))
            found.append(Item("open", match.span(), str(kind)))
        elif opened and found[opened[-1]].name == _OPENING[str(kind)]:
            first = found[opened[-1]]
            is_bare = all(found[number].kind == "opaque" for number in range(opened[-1] + 1, len(found)))
            is_literal = is_bare and _LITERAL.fullmatch(text, first.span[1], match.start())
            if _CODE.match(text, first.span[0]) or (is_literal and kind != "unquote"):
                found[opened.pop() :] = [Item("opaque", (first.span[0], match.end()))]
            else:
                found.append(Item("close", match.span(), found[opened.pop()].name))
    broken = set(opened)
    yield from (item for number, item in enumerate(found) if number not in broken)
