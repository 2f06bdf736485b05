"""Inline markup of reStructuredText: where it is, as docutils reads it, and how a translation is written with it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial
from typing import Final, Literal, NamedTuple
from unicodedata import category

from specmt.formats.document import Pieces, RefusedError
from specmt.formats.inline import Inline, written
from specmt.types import Span, Tag, Tagged

_NAME: Final = r"(?:(?!_)\w)+(?:[-._+:](?:(?!_)\w)+)*"
_START: Final = re.compile(
    rf"(?P<escape>\\(?:[\s\S]|\Z))|(?P<literal>``)|(?P<strong>\*\*)|(?P<emphasis>\*)|(?P<target>_`)"
    rf"|(?P<phrase>(?::{_NAME}:)?`)|(?P<bar>\|(?!\|))|(?P<note>\[(?:\#?[\w.-]+|[\#*])\]_)|(?P<name>{_NAME})(?P<to>__?(?!\w))?"
)
_AFTER: Final = r"""(?=[\s'")\]}>/\\:.,;!?-]|\Z|[^\x00-\x7f])"""
_SKIP: Final = r"(?:\\[\s\S])+|"
_ENDS: Final = {
    kind: re.compile(rf"{skip}(?P<end>(?:(?<!\s)|(?<=\\\s)){end}){_AFTER}")
    for kind, skip, end in (
        ("literal", "", "``"), ("strong", _SKIP, r"\*\*"), ("emphasis", _SKIP, r"\*"), ("target", _SKIP, "`"),
        ("bar", _SKIP, r"\|(?:__?)?"), ("phrase", _SKIP, rf"`(?::(?P<role>{_NAME}):|(?P<to>__?))?"),
    )
}  # fmt: skip
_QUOTES: Final = {"'": "'", '"': '"', "(": ")", "[": "]", "{": "}", "<": ">", "«": "»", "‘": "’", "“": "”", "„": "“"}
_NEEDED: Final = re.compile(r"\\")
_SPECIAL: Final = re.compile(r"[\\*`|]|_(?=\W|_|\Z)|<(?=[^<>]*>\Z)")
_LINKS: Final = re.compile(rf"{_SPECIAL.pattern}|@|:(?=//)")
_LIKE_ADDRESS: Final = re.compile(r"(?:https?|ftp)://\S{0,2000}|[\w.+-]{1,64}@[\w./-]{1,200}")
_ESCAPE: Final = re.compile(r"\\(\s|[\s\S])|\\\Z")
_TARGET: Final = re.compile(r"(?<!\\)<(?:[^<>\\]|\\.)*>\Z", re.DOTALL)
"""What a phrase is said for, in the end of it."""

_IN_TARGET: Final = re.compile(r"[\\<>`]")
_HAS_MARKUP: Final = re.compile(r"[\\*`|\[_@]|://")
_ADDRESS: Final = re.compile(
    r"""(?<![^\s'"(\[{<>/:\x80-\U0010ffff-])(?:(?:https?|ftp)://[^\s<>"`]{0,2000}|[^\s()<>,:;"@]{1,64}@(?=\w)[\w./-]*)(?:(?<=[\w/=~+*])|(?=>))"""
    + _AFTER
)
"""An address that is a link without any markup."""

OF_TEXT: Final = frozenset(
    ["emphasis", "strong", "guilabel", "sub", "sup", "subscript", "superscript", "title", "title-reference", "dfn", "t"]
)
"""Roles of which the text is text."""

_OF_TITLES: Final = frozenset(["ref", "doc", "term", "any", "download", "numref", "std:ref", "std:doc"])
"""Roles of which the text may be text in front of a target."""


class Found(NamedTuple):
    """A piece of inline markup."""

    kind: Literal["pair", "opaque", "mark", "point", "loose"]
    """``loose`` is what only looks like the beginning of some."""

    start: int
    end: int
    inside: Span
    """What of a pair is text."""

    key: str
    """What says the same, whatever the text is."""

    name: str = ""
    """What a reference is named by, which is its text; ``<`` where another target is written behind that."""

    is_name: bool = False
    """Whether what of it would be text is a name, and stays as it is."""


def find(text: str, start: int, end: int) -> Sequence[Found]:
    """Returns the inline markup in a paragraph, in order."""
    if not _HAS_MARKUP.search(text, start, end):
        return ()
    found: list[Found] = []
    endless: set[str] = set()  # what is not closed up to the end, once that was looked for
    place = start
    while (match := _START.search(text, place, end)) is not None:
        kind, (first, place) = match.lastgroup or "", match.span()
        if kind == "escape":
            if match[0][1:].isspace():
                found.append(Found("point", first, place, (place, place), ""))
        elif kind == "name" or not _may_start(text, start, first, place, end):
            pass
        elif kind == "to":
            if _may_follow(text, place, end):
                name, inside = normal(match["name"]), match.span("name")
                key = _alias(name) if match["to"] == "_" else "__"
                found.append(Found("pair", first, place, inside, key, name if match["to"] == "_" else "__"))
        elif kind == "note":
            if _may_follow(text, place, end):
                found.append(Found("mark", first, place, (place, place), match[0]))
        elif text[place : place + 1].isspace() or place == end:
            pass
        else:
            closing = None if kind in endless else _closing(text, kind, place, end)
            if closing is None or closing.start() == place:
                if closing is None:
                    endless.add(kind)
                found.append(Found("loose", first, place, (place, place), kind))
            else:
                found.append(_found(kind, text, match, closing))
                place = closing.end()
    return found


def _may_start(text: str, first: int, start: int, end: int, last: int) -> bool:
    """Whether inline markup may start at a place, by what is around its first characters."""
    if start == first:
        return True
    before = text[start - 1]
    if end < last and _QUOTES.get(before) == text[end]:
        return False
    return before.isspace() or before in "'\"([{<-/:" or (before > "\x7f" and category(before) in _OPENING)


_OPENING: Final = ("Ps", "Pi", "Pf", "Pd", "Po")
_CLOSING: Final = ("Pe", "Pi", "Pf", "Pd", "Po")


def _may_follow(text: str, place: int, last: int) -> bool:
    """Whether what is at a place may follow inline markup."""
    after = text[place : place + 1] if place < last else ""
    return (
        not after or after.isspace() or after in "'\")]}>-/\\:.,;!?" or (after > "\x7f" and category(after) in _CLOSING)
    )


def _closing(text: str, kind: str, place: int, end: int) -> re.Match[str] | None:
    while (match := _ENDS[kind].search(text, place, end)) is not None:
        if match["end"] and _may_follow(text, match.end(), end):
            return match
        place = match.end() if not match["end"] else match.start() + 1
    return None


def _found(kind: str, text: str, opening: re.Match[str], closing: re.Match[str]) -> Found:
    start, end = opening.start(), closing.end()
    inside = opening.end(), closing.start()
    raw, content = text[start:end], text[slice(*inside)]
    if kind in ("strong", "emphasis"):
        return Found("pair", start, end, inside, kind)
    if kind != "phrase":
        return Found("opaque", start, end, inside, " ".join(raw.split()))
    role, to = closing["role"] or opening[0][1:-2], closing["to"] or ""
    cut = behind.start() if (behind := _TARGET.search(content)) else -1
    title = content[: max(cut, 0)].rstrip()
    target = " ".join(content[cut:].split())
    if to:
        if title and content[cut - 1].isspace():
            # What is named by its text is not, any more, where that changes.
            return Found("pair", start, end, (inside[0], inside[0] + len(title)), target, "<" if to == "_" else "")
        if cut >= 0:
            return Found("opaque", start, end, inside, raw)
        name = normal(content)
        return Found("pair", start, end, inside, "__" if to == "__" else _alias(name), "" if to == "__" else name)
    if title and role:
        is_name = role not in _OF_TITLES and (title[0] == "-" or not any(map(str.isspace, title)))
        return Found("pair", start, end, (inside[0], inside[0] + len(title)), f":{role}:{target}", is_name=is_name)
    if role in OF_TEXT or (not role and any(map(str.isspace, content))):
        return Found("pair", start, end, inside, f":{role}:")
    return Found("opaque", start, end, inside, " ".join(raw.split()))


def _alias(name: str) -> str:
    """Returns a reference by its name as the target of another one."""
    return "<" + _IN_TARGET.sub(r"\\\g<0>", name) + "_>"


def normal(name: str) -> str:
    """Returns a name as references and targets are compared."""
    return " ".join(unescape(name).lower().split())


def unescape(raw: str) -> str:
    """Returns what raw text means."""
    return _ESCAPE.sub(lambda match: (match[1] or "").strip(), raw) if "\\" in raw else raw


def fill(inline: Inline, found: Sequence[Found], span: Span) -> None:
    """Gives the text and the markup of a paragraph to a segment."""
    place = span[0]
    for each in found:
        if each.kind == "loose":
            continue
        inline.text(place, each.start)
        if each.kind == "pair" and not each.is_name:
            inline.open(each.start, each.inside[0], str(each.start))
            inline.text(*each.inside)
            inline.close(each.inside[1], each.end, str(each.start))
        elif each.kind == "point":
            inline.point(each.start, each.end)
        else:
            (inline.mark if each.kind == "mark" else inline.opaque)(each.start, each.end)
        place = each.end
    inline.text(place, span[1])


class Writer:
    """Writes the translation of a paragraph with its inline markup."""

    def __init__(self, text: str, whole: Span, found: Sequence[Found], span: Span) -> None:
        """
        :param whole: where the paragraph is
        :param span: where the text of the segment is, which may be without the markup around it
        """
        self._text, self._whole, self._found = text, whole, found
        self._pairs = {(each.start, each.inside[0]): each for each in found if each.kind == "pair"}
        named = [each for each in found if each.kind == "pair" and each.name]
        self._around = next((each for each in named if each.inside[0] <= span[0] and span[1] <= each.inside[1]), None)
        self.span: Final = span if self._around is None else (self._around.start, self._around.end)

    def pieces(self, translation: Tagged) -> Pieces:
        """
        :raises RefusedError: the translation would be read as other markup.
        """
        before, after = self._text[self._whole[0] : self.span[0]], self._text[self.span[1] : self._whole[1]]
        if not (self._found or translation.tags or _HAS_MARKUP.search(before + translation.text + after)):
            return [translation.text]
        wanted = _shape(self._text, self._whole, self._found)
        addresses = {key for kind, key in wanted if kind == "address"}
        escapes = (partial(_NEEDED.sub, r"\\\g<0>"), partial(_SPECIAL.sub, r"\\\g<0>"), partial(_apart, addresses))
        for escape in escapes if addresses or "@" in translation.text else escapes[:2]:
            flat = list(self._flat(translation))
            pieces = self._joined(flat, before, after, escape)
            raw = before + written(self._text, pieces) + after
            found = find(raw, 0, len(raw))
            said = "".join(self._said(kind, piece) for kind, piece in flat)
            shape = _shape(raw, (0, len(raw)), found)
            is_same = shape <= wanted and all(kind == "loose" for kind, _ in wanted - shape)
            if is_same and "".join(plain(raw, found, is_whole=False).split()) == "".join(said.split()):
                return pieces
        raise RefusedError("its inline markup would be read as something else")

    def _flat(self, translation: Tagged) -> Iterator[tuple[str, str | Span]]:
        """Yields text, and markup as what opens, what closes and what stands by itself."""

        def part(start: int, end: int, tags: Sequence[Tag]) -> Iterator[tuple[str, str | Span]]:
            place = start
            for tag in tags:
                yield "text", translation.text[place : tag.start]
                pair = self._pairs.get(tag.open)
                if tag.close is None:
                    # Escaped spaces are written where they are needed.
                    if self._text[tag.open[0]] != "\\":
                        yield "whole", tag.open
                elif pair is None:
                    raise RefusedError("its inline markup would be read as something else")
                else:
                    yield from self._pair(
                        pair, translation.text[tag.start : tag.end], list(part(tag.start, tag.end, tag.children))
                    )
                place = tag.end
            yield "text", translation.text[place:end]

        flat = list(part(0, len(translation.text), translation.tags))
        yield from self._pair(self._around, translation.text, flat) if self._around is not None else flat

    def _said(self, kind: str, piece: str | Span) -> str:
        """Returns what is text of a piece of a paragraph."""
        if isinstance(piece, str):
            return piece if kind == "text" else ""
        raw = self._text[slice(*piece)] if kind == "whole" else ""
        return plain(raw, find(raw, 0, len(raw)), is_whole=False)

    def _pair(self, pair: Found, said: str, flat: list[tuple[str, str | Span]]) -> Iterator[tuple[str, str | Span]]:
        """Yields a pair; a reference that was named by its text gets a target of its own."""
        opening: str | Span = (pair.start, pair.inside[0])
        closing: str | Span = (pair.inside[1], pair.end)
        if pair.name and normal(said) != normal(self._text[slice(*pair.inside)]):
            opening = "`"
            closing = "`__" if pair.name == "__" else f" {pair.key}`__"
        if pair.key == "::" and not any(map(str.isspace, said)):
            closing = "\\ `"  # without a space it would be a name, which is left
        yield "open", opening
        yield from flat
        yield "close", closing

    def _joined(
        self, flat: Sequence[tuple[str, str | Span]], before: str, after: str, escape: Callable[[str], str]
    ) -> Pieces:
        """Returns what is written, with an escaped space where markup would touch a word."""
        pieces: Pieces = []
        last, closed = before[-1:], False
        for kind, piece in flat:
            raw = escape(piece) if kind == "text" and isinstance(piece, str) else piece
            said = raw if isinstance(raw, str) else self._text[slice(*raw)]
            if not said and kind == "text":
                continue
            touches = closed and kind != "close" and not _may_follow(said, 0, len(said))
            if touches or (kind in ("open", "whole") and last and not _may_start(last, 0, 1, 1, 1)):
                pieces.append("\\ ")
            pieces.append(raw)
            last, closed = said[-1:] or last, kind in ("close", "whole")
        if closed and not _may_follow(after, 0, len(after)):
            pieces.append("\\ ")
        return pieces


def _apart(addresses: Set[str], text: str) -> str:
    """Returns what is written for a text of which only these addresses are links, whatever is beside them."""
    sizes = sorted({*map(len, addresses)}, reverse=True)
    pieces, place = [], 0
    for match in _LIKE_ADDRESS.finditer(text):
        known = next((match[0][:size] for size in sizes if match[0][:size] in addresses), "")
        if known:
            start, end = match.start(), match.start() + len(known)
            before, after = ("\\ " * (each.strip() != "") for each in (text[start - 1 : start], text[end : end + 1]))
            pieces += [_LINKS.sub(r"\\\g<0>", text[place:start]), before, known, after]
            place = end
    return "".join([*pieces, _LINKS.sub(r"\\\g<0>", text[place:])])


def _parting(escape: re.Match[str]) -> str:
    """Returns what an escape is beside addresses, which begin and end there."""
    said = escape[1] or ""
    return " " if said.isspace() or said in "@:" else said


def _shape(text: str, span: Span, found: Sequence[Found]) -> Counter[tuple[str, str]]:
    """Returns the markup in a paragraph, and the addresses outside of it."""
    shape: Counter[tuple[str, str]] = Counter((each.kind, each.key) for each in found if each.kind != "point")
    place = span[0]
    for start, end in [*(each[1:3] for each in found if each.kind in ("pair", "opaque")), (span[1], 0)]:
        shape.update(("address", address) for address in _ADDRESS.findall(_ESCAPE.sub(_parting, text[place:start])))
        place = end
    return shape


def plain(raw: str, found: Sequence[Found], *, is_whole: bool = True) -> str:
    """Returns what a reader sees of a text.

    :param is_whole: with what is left as it is, too
    """
    said, place = [], 0
    for each in found:
        said.append(unescape(raw[place : each.start]))
        if each.kind == "loose":
            said.append(raw[each.start : each.end])
        elif each.kind == "pair" or is_whole:
            said.append(unescape(raw[slice(*each.inside)]))
        place = each.end
    return "".join([*said, unescape(raw[place:])])
