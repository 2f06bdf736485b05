"""What stands beside words and is none of their sentence: elements that touch, each a text of its own, and icons."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from specmt.formats.glued import Item, pair
from specmt.types import Span

_LABEL: Final = re.compile(r"[^\W\d_]{4}[.!?:]\Z")
_END: Final = re.compile(r"[^\W_A-ZÄÖÜ]|[.!?:;)%]")
"""What may be at the end of a text that a capital letter touches."""


def with_cuts(items: Sequence[Item], said: Callable[[Span], str]) -> Iterator[Item]:
    """Yields items with cuts where elements touch that are texts of their own: links, a label and its value.

    :param said: returns what raw text means
    """
    partners = pair(items)
    depth = 0
    before = ""  # the end of the text in front
    waiting: list[Item] = []  # the tags behind it
    gap: tuple[int, int] | None = None  # how many of them come before a cut, and where that is
    for number, item in enumerate(items):
        depth -= item.kind == "close" and number in partners
        if item.kind in ("open", "close", "point"):
            if gap is None and depth == 0:
                is_open = item.kind == "open"
                gap = len(waiting) + (not is_open), item.span[0 if is_open else 1]
            waiting.append(item)
        else:
            text = said(item.span) if item.kind == "text" else ""
            if gap is not None and _is_apart(before, waiting, text):
                waiting.insert(gap[0], Item("cut", (gap[1], gap[1])))
            yield from waiting
            yield item
            before, waiting, gap = text[-5:], [], None
        depth += item.kind == "open" and number in partners
    yield from waiting


def _is_apart(before: str, tags: Sequence[Item], after: str) -> bool:
    """Whether texts that nothing but tags is between are none of the same sentence."""
    kinds, names = [tag.kind for tag in tags], [tag.name for tag in tags if tag.kind != "point"]
    if any(name.startswith(("sub", "sup")) for name in names):
        return False
    touch = "open" in kinds and "close" in kinds[: kinds.index("open")]
    if touch and names == ["a", "a"]:
        return before[-1:].isalnum() and after[:1].isalnum()
    is_end = (touch and _END.fullmatch(before[-1:])) or _LABEL.search(before)
    return bool(is_end) and after[:1].isupper()


def with_icons(items: Sequence[Item], source: str) -> Iterator[Item]:
    """Yields items; elements with nothing in them that stand beside a space as words do, as icons, are opaque."""
    place = 0
    while place < len(items):
        item, following = items[place], items[place + 1 : place + 3]
        if item.kind == "open" and following and following[0].kind == "close":
            left, right = items[max(0, place - 1) : place], following[1:]
            texts = [each for each in (*left, *right) if each.kind == "text"]
            if len(texts) == 1 and (begins_with_space(right, source) or _ends_with_space(left, source)):
                item = Item("opaque", (item.span[0], following[0].span[1]))
                place += 1
        yield item
        place += 1


def begins_with_space(items: Sequence[Item], source: str) -> bool:
    """Whether the first of some items is a text that begins with a space."""
    return bool(items) and items[0].kind == "text" and source[items[0].span[0]].isspace()


def _ends_with_space(items: Sequence[Item], source: str) -> bool:
    return bool(items) and items[-1].kind == "text" and source[items[-1].span[1] - 1].isspace()
