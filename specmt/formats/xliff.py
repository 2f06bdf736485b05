"""XLIFF 1.2 and 2.x."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from specmt.errors import DataError
from specmt.formats.accelerators import hide
from specmt.formats.document import (
    Document,
    Edit,
    FormatOptions,
    LineNumbers,
    Pieces,
    Segment,
    State,
    Tell,
    TextDocument,
)
from specmt.formats.encoding import decode_xml
from specmt.formats.inline import Inline, render
from specmt.formats.markup import (
    Token,
    collect,
    local,
    quoted,
    reference,
    value_of,
    xml_escape,
    xml_tokens,
    xml_unescape,
)
from specmt.types import Span, Tagged

SUFFIXES: Final = (".xlf", ".xliff")

_PAIRS: Final = frozenset(("g", "mrk", "pc"))
_HALVES: Final = {"bpt": "open", "ept": "close", "bx": "open", "ex": "close", "sc": "open", "ec": "close"}
"""Elements that open and close a pair without being around it."""

_SUGGESTION: Final = re.compile(r"<(\w+:)?alt-trans\b[^>]*(?<!/)>.*?</(?:\w+:)?alt-trans\s*>", re.DOTALL)
_SIDE: Final = re.compile(r"<(?:\w+:)?(source|target)\b[^>]*(?<!/)>(.*?)</(?:\w+:)?\1\s*>", re.DOTALL)
_UNTRANSLATED: Final = frozenset(("new", "needs-translation"))


@dataclass(slots=True)
class _Unit:
    """What a segment's elements are."""

    token: Token
    source: Span | None = None
    source_end: int = 0
    """Where the element is complete that a new target comes after."""
    source_start: int = 0
    body: list[Token] = field(default_factory=list)
    parts: list[tuple[Span, list[Token]]] = field(default_factory=list)
    """The contents of the segments that the text is cut into already."""
    segmented: Span | None = None
    target: Token | None = None
    target_body: Span | None = None
    notes: list[str] = field(default_factory=list)


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads a file; units marked not to be translated are left out.

    :raises DataError: it is damaged, or no XLIFF.
    """
    text, encoding = decode_xml(data)
    reader = _Reader(text, options)
    segments = hide(list(reader.segments()))
    return TextDocument(text, encoding, segments, finish=reader.finish, escape=reference)


class _Reader:
    def __init__(self, text: str, options: FormatOptions) -> None:
        self._text = text
        self._options = options
        self._lines = LineNumbers(text)
        self._is_two = False
        self._languages: list[Token] = []
        self._later: dict[int, tuple[_Unit, Span]] = {}
        """The unit of segments whose translations are written together, and the place of each."""
        self._said: dict[int, Tagged] = {}
        """Their translations."""
        self._count = 0

    def segments(self) -> Iterator[Segment]:
        """Yields the segments of all units."""
        text = self._text
        tokens = xml_tokens(text)
        stack: list[tuple[str, bool]] = []
        unit: _Unit | None = None
        ids: dict[str, int] = {}
        inside = ""
        start = 0
        name = ""
        for token in tokens:
            if token.kind not in ("open", "close", "empty"):
                if unit is not None and inside == "source":
                    unit.body.append(token)
                elif unit is not None and inside == "seg-source" and unit.parts:
                    unit.parts[-1][1].append(token)
                continue
            name = local(token.name)
            if not stack and token.kind != "close":
                if name != "xliff":
                    raise DataError(f"line {self._lines(token.start)} must open with <xliff>, but has <{name}> instead")
                version = token.attributes(text).get("version")
                self._is_two = version is not None and value_of(text, version).startswith("2")
            if inside:
                depth = len(stack)
                if token.kind == "close" and name == inside and stack[-1][0] == inside:
                    stack.pop()
                    assert unit is not None
                    self._close(unit, inside, (start, token.start), token)
                    inside = ""
                    continue
                if token.kind == "open":
                    stack.append((name, False))
                elif token.kind == "close":
                    stack.pop()
                if unit is not None and inside == "source":
                    unit.body.append(token)
                elif unit is not None and inside == "seg-source":
                    self._seg(unit, token, depth, len(stack))
                continue
            if token.kind == "close":
                stack.pop()
                if unit is not None and name in ("trans-unit", "segment"):
                    if not any(kept for _, kept in stack):
                        yield from self._unit(unit, token.start)
                    unit = None
                continue
            attributes = token.attributes(text)
            kept = "translate" in attributes and value_of(text, attributes["translate"]) == "no"
            if name == "file":
                ids = {}
                if not self._is_two:
                    self._languages.append(token)
            elif name == "xliff" and self._is_two:
                self._languages.append(token)
            if name in ("trans-unit", "unit") and "id" in attributes:
                known = value_of(text, attributes["id"])
                if known in ids:
                    raise DataError(f"line {self._lines(token.start)} has the id {known!r} of line {ids[known]} again")
                ids[known] = self._lines(token.start)
            if name == ("segment" if self._is_two else "trans-unit") and token.kind == "open":
                unit = None if kept else _Unit(token)
            if unit is not None and stack and stack[-1][0] in ("trans-unit", "segment"):
                if name in ("source", "seg-source", "target", "note") and token.kind == "open":
                    inside, start = name, token.end
                    if name == "target":
                        unit.target = token
                    elif name == "source":
                        unit.source_start = token.start
                elif name == "target":
                    unit.target, unit.target_body = token, (token.end, token.end)
                elif name in ("source", "seg-source"):
                    unit.source_end = token.end
            if token.kind == "open":
                stack.append((name, kept))

    def _close(self, unit: _Unit, name: str, span: Span, token: Token) -> None:
        if name == "source":
            unit.source, unit.source_end = span, token.end
        elif name == "seg-source":
            unit.segmented, unit.source_end = span, token.end
        elif name == "target":
            unit.target_body = span
        else:
            unit.notes.append(xml_unescape(self._text[slice(*span)]).strip())

    def _seg(self, unit: _Unit, token: Token, before: int, after: int) -> None:
        """Notes the content of the elements of ``seg-source`` that are segments."""
        is_seg = token.kind == "open" and 'mtype="seg"' in self._text[token.start : token.end].replace("'", '"')
        if is_seg:
            unit.parts.append(((token.end, -1), []))
        elif unit.parts and unit.parts[-1][0][1] < 0:
            (start, _), tokens = unit.parts[-1]
            opened = sum(each.kind == "open" for each in tokens) - sum(each.kind == "close" for each in tokens)
            if token.kind == "close" and opened == 0:
                unit.parts[-1] = ((start, token.start), [each for each in tokens if each.start < token.start])
            else:
                tokens.append(token)

    def _unit(self, unit: _Unit, end: int) -> Iterator[Segment]:
        """
        :param end: where it is closed
        """
        if unit.source is None:
            return
        body = "" if unit.target_body is None else self._text[slice(*unit.target_body)]
        existing = self._plain(body)
        source = self._plain(self._text[slice(*unit.source)])
        states = unit.token if self._is_two else unit.target
        said = states.attributes(self._text).get("state") if states is not None else None
        named = "" if said is None else value_of(self._text, said)
        state: State = "translated" if existing else "new"
        if existing and (named in _UNTRANSLATED and existing == source):
            state = "new"
        elif existing and (named in _UNTRANSLATED or named.startswith("needs-") or named == "initial"):
            state = "fuzzy"
        note = " ".join(unit.notes)
        suggestions = [
            {side: self._plain(content) for side, content in _SIDE.findall(found[0])}
            for found in _SUGGESTION.finditer(self._text, unit.source_end, end)
        ]
        near = tuple((each.get("source", source), each["target"]) for each in suggestions if each.get("target"))
        segment = partial(self._segment, unit, state, existing, note, near)
        if not unit.parts:
            found = self._inline(unit.body).take()
            unit.body.clear()
            if found is not None:
                tagged, span = found
                yield segment(tagged, self._writer(unit, span))
            return
        for _, tokens in unit.parts:
            found = self._inline(tokens).take()
            tokens.clear()
            if found is not None:
                self._later[self._count] = unit, found[1]
                yield segment(found[0], partial(self._keep, self._count))

    def _segment(
        self,
        unit: _Unit,
        state: State,
        existing: str,
        note: str,
        near: tuple[tuple[str, str], ...],
        tagged: Tagged,
        edits: Callable[[Tagged, Tell], Iterable[Edit]],
    ) -> Segment:
        self._count += 1
        attributes = unit.token.attributes(self._text)
        key = next((attributes[each] for each in ("resname", "id") if each in attributes), None)
        context = "" if key is None else value_of(self._text, key)
        line = self._lines(unit.source_start)
        return Segment(tagged, line, edits, state, target=existing, context=context, note=note, near=near)

    def _writer(self, unit: _Unit, span: Span) -> Callable[[Tagged, Tell], Iterator[Edit]]:
        def edits(translation: Tagged, _: Tell) -> Iterator[Edit]:
            assert unit.source is not None
            (start, end), (left, right) = unit.source, span
            yield from self._target(unit, [(start, left), *render(translation, xml_escape), (right, end)])

        return edits

    def _keep(self, number: int, translation: Tagged, _: Tell) -> tuple[Edit, ...]:
        self._said[number] = translation
        return ()

    def finish(self, written: Mapping[int, Tagged]) -> Iterator[Edit]:
        """Yields the targets of units in several segments, and the language of the targets."""
        units: dict[int, tuple[_Unit, list[tuple[Span, Tagged]]]] = {}
        for number in written:
            if number in self._later:
                unit, span = self._later[number]
                units.setdefault(id(unit), (unit, []))[1].append((span, self._said[number]))
        for unit, parts in units.values():
            assert unit.segmented is not None
            place, end = unit.segmented
            pieces: Pieces = []
            for (left, right), translation in sorted(parts, key=lambda part: part[0]):
                pieces += [(place, left), *render(translation, xml_escape)]
                place = right
            yield from self._target(unit, [*pieces, (place, end)])
        name = "trgLang" if self._is_two else "target-language"
        for token in self._languages:
            if name not in token.attributes(self._text):
                place = token.start + 1 + len(token.name)
                yield Edit(place, place, [f" {name}={quoted(self._options.target)}"])

    def _target(self, unit: _Unit, content: Pieces) -> Iterator[Edit]:
        """Yields the edits that write a target and its state."""
        state = "needs-review-translation" if self._options.fuzzy and not self._is_two else "translated"
        if self._is_two:
            yield from self._attribute(unit.token, "state", state)
        if unit.target is not None and unit.target_body is not None and unit.target.kind == "open":
            if not self._is_two:
                yield from self._attribute(unit.target, "state", state)
            yield Edit(*unit.target_body, content)
            return
        prefix = self._text[unit.source_start + 1 :].split(">", 1)[0].split()[0].rpartition(":")[0]
        name = f"{prefix}:target" if prefix else "target"
        said = "" if self._is_two else f" state={quoted(state)}"
        element: Pieces = [f"<{name}{said}>", *content, f"</{name}>"]
        if unit.target is not None:
            yield Edit(unit.target.start, unit.target.end, element)
            return
        line = self._text.rfind("\n", 0, unit.source_start) + 1
        indent = self._text[line : unit.source_start]
        line_break = ("\r\n" if self._text[line - 2 : line - 1] == "\r" else "\n") + indent
        yield Edit(unit.source_end, unit.source_end, [line_break if line and not indent.strip() else "", *element])

    def _attribute(self, token: Token, name: str, value: str) -> Iterator[Edit]:
        found = token.attributes(self._text).get(name)
        if found is not None:
            yield Edit(*found, [quoted(value, self._text[found[0]])])
        else:
            place = token.start + 1 + len(token.name)
            yield Edit(place, place, [f" {name}={quoted(value)}"])

    def _inline(self, tokens: Iterable[Token]) -> Inline:
        """Returns a paragraph of what is in an element."""
        return collect(self._text, tokens, halves=_HALVES, pairs=_PAIRS)

    def _plain(self, raw: str) -> str:
        """Returns the text in raw content."""
        wrapped = f"<x>{raw}</x>"
        try:
            tokens = [token for token in xml_tokens(wrapped) if token.kind in ("text", "cdata")]
        except DataError:  # a prefix of the document's
            return raw.strip()
        return "".join(xml_unescape(wrapped[token.start : token.end]) for token in tokens).strip()
