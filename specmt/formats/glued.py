"""Markup on parts of words: the 2 of m<sup>2</sup> and H<sub>2</sub>O, the mark of a footnote in Studie<sup>1</sup>.

A pair around digits and symbols that touches a word is copied with what is in it. Where that word is a symbol, a unit
or a formula, all of it is copied, and the model sees a stand-in; else the pair is a mark, which the model does not see
and which stays behind its word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from specmt.types import Span


class Item(NamedTuple):
    """A part of a paragraph in a document."""

    kind: Literal["text", "open", "close", "point", "mark", "opaque", "space", "cut"]
    span: Span
    name: str = ""
    """What a tag that closes it must be called."""


def apart(span: Span, found: Iterable[Item]) -> Iterator[Item]:
    """Yields text and what was found in it, in order."""
    place = span[0]
    for item in found:
        if place < item.span[0]:
            yield Item("text", (place, item.span[0]))
        yield item
        place = item.span[1]
    if place < span[1]:
        yield Item("text", (place, span[1]))


_SUB, _SUP, _OTHER, _NOTE = "\ufdd0\ufdd1\ufdd2\ufdd3"
"""What pairs that are copied, and marks, are in the text below: low or signed ones, high ones, others, notes."""

_EDGE: Final = "\ufdd4"
"""Where another pair begins or ends."""

_OPAQUE: Final = "\ufffc"
_SAID: Final = {"point": "", "opaque": _OPAQUE, "space": " ", "mark": _NOTE}
_MOST_ITEMS: Final = 12
_MOST_CHARACTERS: Final = 400
_SCRIPT: Final = re.compile(r"(?<![a-z])(su[bp])(?:script)?(?![a-z])|\A([~^])\Z", re.IGNORECASE)
_MARKS: Final = {"~": "sub", "^": "sup"}
_FIGURE: Final = re.compile(r"(?=.*[\d*†‡§¶®™©°′″+−])[\[(\d*†‡§¶®™©°′″+−-][\d*†‡§¶®™©°′″+−,;\[\]()–-]{0,11}")
_SIGNED: Final = re.compile(r"\d{0,2}[+−-]|[+−-]\d{1,3}")
_LOW: Final = re.compile(r"[^\W_]{1,8}")
_ONE: Final = r"(?:\d{0,2}[^\W\d_]|\d{1,3})"
_HIGH: Final = re.compile(
    rf"[\[(]?{_ONE}(?:[,;–-]\s?{_ONE}){{0,9}}[\])]?|\[[^\[\]\d]{{1,12}}\d{{1,3}}\]|[*†‡§¶](?:\s?[*†‡§¶]){{0,9}}|[,;–-]|TM|SM|M[CRD]"
)
_ENDING: Final = re.compile(r"[a-zà-ÿ]{2,4}")
_NUMBER: Final = re.compile(r"(?<![^\W_])(?:\d{1,4}|[ivxlc]{1,6}|[IVXLC]{1,6}|[a-z])\Z")
"""What is before the ending of an ordinal: 1<sup>st</sup>, n<sup>te</sup>."""

_TOKEN: Final = re.compile(rf"(?<![^\W_])[^\W_]*(?:[{_SUB}-{_NOTE}][^\W_]*)+")
_SIGN: Final = re.compile(f"([{_SUB}-{_NOTE}])")
_SYMBOL: Final = re.compile(
    r"(?=.)\d{0,4}(?:(?!I)[^\W\d_]|[A-Z]{2,4}|[cdkmnµμ]m|ft|yd|rad|mc|sin|cos|tan)?"  # not the English pronoun
)
_ELEMENT: Final = re.compile("[A-Z][a-z]?")
_STOP: Final = re.compile(r"""[.,;:!?…%€$"'“”‘’»«›‹)\]]\Z""")
_WORD: Final = re.compile(rf"{_EDGE}*[^\W_]")
_SENTENCE_END: Final = re.compile(r"""[^\W\d_](?:[^\W\d_]{3}[.!?]|[.!?,]?["”“’‘»«›‹)])\Z""")


def pair(items: Sequence[Item]) -> dict[int, int]:
    """Returns the number of the item that closes each one that opens, and the other way round."""
    partners: dict[int, int] = {}
    opened: list[int] = []
    counts: dict[str, int] = {}  # a counter takes as long to begin as a short text takes in all
    for number, item in enumerate(items):
        if item.kind == "open":
            opened.append(number)
            counts[item.name] = counts.get(item.name, 0) + 1
        elif item.kind == "close" and counts.get(item.name):
            while number not in partners:
                other = opened.pop()
                counts[items[other].name] -= 1
                if items[other].name == item.name:
                    partners |= {other: number, number: other}
    return partners


def glue(items: Sequence[Item], source: str, decode: Callable[[str], str]) -> list[Item]:
    """Returns the items of a paragraph with one for each pair, or word with pairs, that is copied whole.

    :param source: the text of the document
    :param decode: returns what raw text means
    """
    if not any(item.kind in ("open", "mark") for item in items):
        return list(items)
    return _Glue(items, source, decode).items()


class _Glue:
    def __init__(self, items: Sequence[Item], source: str, decode: Callable[[str], str]) -> None:
        self._items, self._source, self._decode = items, source, decode
        self._partners = pair(items)
        self._signs: dict[int, Span] = {}
        """The first and the last item of each sign, by its place in the text."""
        self._spans = {number: item.span for number, item in enumerate(items) if item.kind == "text"}
        """What is left of text that is not part of a word that is copied."""
        self._copied: dict[int, Item] = {}
        """What is copied, by the number of its first item."""
        self._gone: set[int] = set()

    def items(self) -> list[Item]:
        """Returns the items with what is copied as one."""
        text = self._text()
        for match in _TOKEN.finditer(text):
            bases, signs = (parts := _SIGN.split(match[0]))[::2], parts[1::2]
            places = [place for place in range(*match.span()) if place in self._signs]
            if len(places) != len(signs):  # the document has such characters itself
                continue
            start = match.start()
            while start and text[start - 1] == _EDGE:
                start -= 1
            before = text[start - 1 : start]
            if before not in (".", ",", "&", "_", "'", "’") and _is_symbol(bases, signs) and self._copy(bases, places):
                continue
            goes_on = _WORD.match(text, match.end() - len(bases[-1])) is not None
            is_behind = bases[0] != "" or _is_behind(text[max(0, start - 6) : start], signs[0])
            for number in reversed(range(len(signs))):
                if not goes_on if number or is_behind else goes_on and signs[number] in (_SUB, _SUP):
                    self._become("mark", *self._signs[places[number]])
                goes_on = bases[number] != "" or self._signs[places[number]][0] not in self._copied
        return [item for number in range(len(self._items)) for item in self._written(number)]

    def _text(self) -> str:
        """Returns what a reader sees, with signs for pairs and marks."""
        text: list[str] = []
        number = size = 0
        while number < len(self._items):
            item, last = self._items[number], number
            said = _SAID.get(item.kind, _EDGE)
            if item.kind == "text":
                said = self._decode(self._source[slice(*item.span)])
            elif item.kind == "open" and (sign := self._sign(number)):
                said, last = sign, self._partners[number]
            if said in (_SUB, _SUP, _OTHER, _NOTE):
                self._signs[size] = number, last
            text.append(said)
            size += len(said)
            number = last + 1
        return "".join(text)

    def _sign(self, first: int) -> str:
        """Returns the sign for a pair, or nothing where it is no such pair."""
        last = self._partners.get(first, first)
        inside = self._items[first : min(last, first + _MOST_ITEMS) + 1]
        if not 1 < len(inside) <= _MOST_ITEMS or inside[-1].span[1] - inside[0].span[0] > _MOST_CHARACTERS:
            return ""
        if any(item.kind not in ("text", "open", "close", "point") for item in inside):
            return ""
        said = "".join(self._decode(self._source[slice(*item.span)]) for item in inside if item.kind == "text")
        opening = " ".join(self._source[slice(*item.span)] for item in inside if item.kind == "open")
        found = _SCRIPT.search(opening)
        script = (found[1] or _MARKS[found[2]]).lower() if found else ""
        if script and _SIGNED.fullmatch(said):
            return _SUB
        if _FIGURE.fullmatch(said):
            return {"sub": _SUB, "sup": _SUP}.get(script, _OTHER)
        if script == "sub":
            return _SUB if _LOW.fullmatch(said) else ""
        before = self._items[first - 1] if first else inside[0]
        is_ordinal = _ENDING.fullmatch(said) and _NUMBER.search(self._source, *before.span)
        return _SUP if script and (is_ordinal or _HIGH.fullmatch(said)) else ""

    def _copy(self, bases: Sequence[str], places: Sequence[int]) -> bool:
        """Makes a word one item that is copied, and returns whether its ends are written as they are read."""
        first, last = self._signs[places[0]][0], self._signs[places[-1]][1]
        start, end = self._items[first].span[0], self._items[last].span[1]
        if bases[0]:
            left = next((number for number in range(first - 1, -1, -1) if self._items[number].kind != "point"), -1)
            if left not in self._spans or not self._ends(self._items[left], bases[0]):
                return False
            start = self._items[left].span[1] - len(bases[0])
        if bases[-1]:
            right = next((n for n in range(last + 1, len(self._items)) if self._items[n].kind != "point"), -1)
            if right not in self._spans or not self._begins(self._items[right], bases[-1]):
                return False
            end = self._items[right].span[0] + len(bases[-1])
            self._spans[right] = end, self._spans[right][1]
            last = right - 1
        if bases[0]:
            self._spans[left] = self._spans[left][0], start
            first = left + 1
        self._become("opaque", first, last)
        self._copied[first] = Item("opaque", (start, end))
        return True

    def _ends(self, item: Item, said: str) -> bool:
        raw = self._source[slice(*item.span)]
        return raw.endswith(said) and self._decode(raw[: -len(said)]) + said == self._decode(raw)

    def _begins(self, item: Item, said: str) -> bool:
        raw = self._source[slice(*item.span)]
        return raw.startswith(said) and said + self._decode(raw[len(said) :]) == self._decode(raw)

    def _become(self, kind: Literal["mark", "opaque"], first: int, last: int) -> None:
        self._copied[first] = Item(kind, (self._items[first].span[0], self._items[last].span[1]))
        self._gone.update(range(first, last + 1))

    def _written(self, number: int) -> list[Item]:
        item = self._items[number]
        if number in self._copied:
            return [self._copied[number]]
        if number in self._gone:
            return []
        if item.kind == "mark":  # one beside a space stands for a word
            return [item._replace(kind="opaque")]
        if item.kind == "text":
            start, end = self._spans[number]
            return [Item("text", (start, end))] if start < end else []
        return [item]


def _is_symbol(bases: Sequence[str], signs: Sequence[str]) -> bool:
    """Whether a word is the same in every language."""
    longest = max(map(len, bases))
    if _NOTE in signs or not 0 < longest <= 8:
        return False
    if not bases[0]:
        return signs[0] != _OTHER and _ELEMENT.fullmatch(bases[1]) is not None
    return _SUB in signs or _SYMBOL.fullmatch(bases[0]) is not None or (any(bases[1:]) and longest <= 3)


def _is_behind(before: str, sign: str) -> bool:
    """Whether a sign touches what is before it."""
    if before[-1:].isalnum() or before.endswith((_SUB, _SUP, _OTHER, _NOTE, _OPAQUE)):
        return True
    return (_SENTENCE_END if sign == _OTHER else _STOP).search(before) is not None
