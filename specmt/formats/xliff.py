"""XLIFF 1.2 and 2.x."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby
from typing import Any, Final

from specmt.errors import DataError
from specmt.formats.accelerators import hide
from specmt.formats.document import (
    Document,
    Edit,
    FormatOptions,
    LineNumbers,
    Part,
    Pieces,
    Segment,
    State,
    Tell,
    TextDocument,
    edited,
)
from specmt.formats.encoding import decode_xml
from specmt.formats.inline import Inline, in_place, meant
from specmt.formats.left import told
from specmt.formats.markup import (
    Element,
    Token,
    break_before,
    children,
    collect,
    local,
    opening_with,
    plain_text,
    quoted,
    reference,
    value_of,
    xml_escape,
    xml_unescape,
)
from specmt.formats.plurals import plural_forms
from specmt.languages import primary
from specmt.names import ICONS
from specmt.types import Span, Tagged

_PAIRS: Final = frozenset(("g", "mrk", "pc"))
_HALVES: Final = {"bpt": "open", "ept": "close", "bx": "open", "ex": "close", "sc": "open", "ec": "close"}
"""Elements that open and close a pair without being around it."""

_LANGUAGES: Final = ("source-language", "target-language"), ("srcLang", "trgLang")
_ICONS: Final = re.compile("|".join(f"#TAG_{name.upper().replace('-', '_')}" for name in ICONS))
"""Pairs of Angular whose text names an icon."""

_UNTRANSLATED: Final = frozenset(("new", "needs-translation"))


@dataclass(slots=True)
class _Unit:
    """What a segment's elements are."""

    token: Token
    source: Element
    text: Element
    """The source, or a target in the same language, which says what the source may only be a name of."""

    target: Element | None
    segmented: Element | None
    """The source, cut into segments already."""

    parts: list[Element]
    """These segments."""

    suggestions: list[Element]
    count: int = 0
    kept: dict[int, Element] = field(default_factory=dict)
    """The translations of its segments, by the starts of these, where only some have one."""


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads a file; units marked not to be translated are left out.

    :raises DataError: it is damaged, or no XLIFF.
    """
    text, encoding = decode_xml(data)
    reader = _Reader(text, options)
    segments = hide(list(reader.segments()))
    document = TextDocument(text, encoding, segments, finish=reader.finish, escape=reference, parts=reader.parts)
    return told(document, "xliff")


class _Reader:
    def __init__(self, text: str, options: FormatOptions) -> None:
        self._text = text
        self._options = options
        self._lines = LineNumbers(text)
        self._is_two = False
        self._first: tuple[str, ...] = ()
        """The languages that the first file is between, as the document is, and below those of the one that is read."""
        self._now: tuple[str, ...] = ()
        self._languages: list[Token] = []
        self._forms = plural_forms(options.target)
        self._units: list[_Unit] = []
        """The unit of each segment; the translations of those of one are written together."""
        self.parts: list[Part] = []
        self._said: dict[int, list[Edit]] = {}
        """What of the source they replace."""

    def segments(self) -> Iterator[Segment]:
        """Yields the segments of all units."""
        text = self._text
        opened: list[bool] = []  # of the elements around the place: whether they are not to be translated
        ids: dict[str, int] = {}
        tokens = opening_with("xliff", text)
        for token in tokens:
            if token.kind == "close":
                opened.pop()
            if token.kind not in ("open", "empty"):
                continue
            name, attributes = local(token.name), token.attributes(text)
            if not opened:
                self._is_two = token.value(text, "version").startswith("2")
            if name == "file":
                ids = {}
            if name == ("xliff" if self._is_two else "file"):
                self._languages.append(token)
                said = [value_of(text, attributes[each]) for each in _LANGUAGES[self._is_two] if each in attributes]
                self._now = tuple(map(primary, said)) if len(said) == 2 else self._first
                self._first = self._first or self._now
            if name in ("trans-unit", "unit") and "id" in attributes:
                known = value_of(text, attributes["id"])
                if known in ids:
                    raise DataError(f"line {self._lines(token.start)} has the id {known!r} of line {ids[known]} again")
                ids[known] = self._lines(token.start)
            if token.kind == "open":
                kept = token.value(text, "translate") == "no"
                if name == ("segment" if self._is_two else "trans-unit") and not (kept or any(opened)):
                    yield from self._unit(next(children(chain([token], tokens))))
                else:
                    opened.append(kept)

    def _unit(self, element: Element) -> Iterator[Segment]:
        elements = element.elements
        known = {local(each.name): each for each in elements}
        if "source" not in known or known["source"].first.kind == "empty":
            return
        segmented, target = known.get("seg-source"), known.get("target")
        is_one = len({*self._now}) == 1 and target is not None and plain_text(self._text, target.inner) != ""
        if is_one:
            segmented = None
        unit = _Unit(
            element.first,
            known["source"],
            target if target is not None and is_one else known["source"],
            target,
            segmented,
            [] if segmented is None else list(self._segs(segmented.inner)),
            [each for each in elements if local(each.name) == "alt-trans"],
        )
        if self._now != self._first:
            self.parts.append(Part(element.start, element.end, "between other languages"))
            self._units.append(unit)
            said = Tagged(plain_text(self._text, unit.source.inner))
            reason = f"left as it is: it is {' to '.join(self._now)}"
            yield Segment(said, self._lines(unit.source.start), lambda *_: (), "skipped", reason=reason)
            return
        found: list[Segment] = []
        for part in unit.parts or [unit.text]:
            inline = collect(Inline(self._text, xml_unescape), part.inner, pairs=_PAIRS, halves=_HALVES)
            inline.whole(_ICONS)
            found += in_place(inline, self._lines, xml_escape, forms=self._forms, entities=True)
        if unit.parts:
            self.parts.append(Part(unit.source.start, unit.source.end, "cut into segments beside it"))
        elif unit.text is not unit.source:
            self.parts.append(Part(unit.source.start, unit.source.end, "in the target, in the same language"))
        unit.kept = self._kept(unit)
        unit.count = sum(self._part(unit, segment.span).start not in unit.kept for segment in found)
        shared = self._shared(unit, is_branch=len(found) > 1 and not unit.parts)
        for number, segment in enumerate(found, len(self._units)):
            self._units.append(unit)
            own: dict[str, Any] = {"edits": partial(self._keep, number, segment)}
            if unit.kept:
                target = unit.kept.get(self._part(unit, segment.span).start)
                own |= {"target": "" if target is None else meant(plain_text(self._text, target.inner)), "near": ()}
                own |= {} if target else {"state": "new", "written": (shared["written"][0], "")}
            if segment.state == "skipped":
                own["state"] = "skipped"
            yield replace(segment, **shared | own)

    def _kept(self, unit: _Unit) -> dict[int, Element]:
        text = self._text
        found = self._segs(unit.target.inner) if unit.parts and unit.target else ()
        said = {each.first.value(text, "mid"): each for each in found}
        both = [(part, said[mid]) for part in unit.parts if (mid := part.first.value(text, "mid")) in said]
        kept = {part.start: each for part, each in both if plain_text(text, each.inner)}
        return kept if len(kept) < len(unit.parts) else {}

    @staticmethod
    def _part(unit: _Unit, span: Span) -> Element:
        """Returns the element of a unit that a text is in."""
        number = bisect_right(unit.parts, span[0], key=lambda part: part.start)
        return unit.parts[number - 1] if number else unit.text

    def _segs(self, tokens: Iterable[Token]) -> Iterator[Element]:
        """Yields the elements that are segments."""
        for each in children(tokens):
            if 'mtype="seg"' in self._text[each.start : each.first.end].replace("'", '"'):
                yield each
            else:
                yield from self._segs(each.inner)

    def _shared(self, unit: _Unit, *, is_branch: bool) -> dict[str, Any]:
        """Returns what the segments of a unit have in common."""
        text = self._text
        existing = "" if unit.target in (None, unit.text) else plain_text(text, unit.target.inner)
        source = plain_text(text, unit.source.inner)
        states = unit.token if self._is_two else unit.target and unit.target.first
        named = states.value(text, "state") if states is not None else ""
        state: State = "new"
        if existing and not (named in _UNTRANSLATED and existing == source):
            is_fuzzy = named in ("new", "initial") or named.startswith("needs-")
            state = "fuzzy" if is_fuzzy else "translated"
        suggestions = [
            {local(side.name): plain_text(text, side.inner) for side in each.elements} for each in unit.suggestions
        ]
        near = tuple(
            (meant(each.get("source", source)), meant(each["target"])) for each in suggestions if each.get("target")
        )
        own = unit.segmented if unit.segmented and unit.parts else unit.text
        raw = text[slice(*own.inside)], text[slice(*unit.target.inside)] if unit.target and existing else ""
        if is_branch:
            existing, near = "", ()
        return {
            "line": self._lines(unit.source.start),
            "state": state,
            "target": meant(existing),
            "context": unit.token.value(text, "resname", "id"),
            "near": near,
            "written": raw,
            "start": unit.source.start,
        }

    def _keep(self, number: int, segment: Segment, translation: Tagged, tell: Tell) -> tuple[Edit, ...]:
        self._said[number] = [*segment.edits(translation, tell)]
        return ()

    def finish(self, written: Mapping[int, Tagged]) -> Iterator[Edit]:
        """Yields the targets, and their language."""
        for _, group in groupby(sorted(written), key=lambda number: id(self._units[number])):
            numbers = [*group]
            unit = self._units[numbers[0]]
            edits = [edit for number in numbers for edit in self._said[number]]
            changed = {self._part(unit, (edit.start, edit.end)).start for edit in edits}
            kept = [part for part in unit.parts if part.start in unit.kept and part.start not in changed]
            edits += [Edit(*part.inside, [unit.kept[part.start].inside]) for part in kept]
            is_whole = len(numbers) >= unit.count and all(written[number].is_whole for number in numbers)
            content = edited(self._text, edits, (unit.segmented or unit.source if unit.parts else unit.text).inside)
            is_fuzzy = self._options.is_fuzzy(written[number] for number in numbers)
            yield from self._target(unit, content, is_whole=is_whole, is_fuzzy=is_fuzzy)
        source, target = _LANGUAGES[self._is_two]
        for token in self._languages:
            attributes = token.attributes(self._text)
            said = [primary(value_of(self._text, attributes[each])) for each in (source, target) if each in attributes]
            if target not in attributes or said == [primary(self._options.source)] * 2:
                yield from self._attribute(token, target, self._options.target)

    def _target(self, unit: _Unit, content: str, *, is_whole: bool, is_fuzzy: bool) -> Iterator[Edit]:
        """Yields the edits that write a target and its state."""
        state = "needs-review-translation" if is_fuzzy and not self._is_two else "translated"
        if not is_whole:
            state = "initial" if self._is_two else "needs-translation"
        if self._is_two:
            yield from self._attribute(unit.token, "state", state)
        source, target = unit.source, unit.target
        if target is not None and target.first.kind == "open":
            if not self._is_two:
                yield from self._attribute(target.first, "state", state)
            yield Edit(*target.inside, [content])
            return
        prefix = source.name.rpartition(":")[0]
        name = f"{prefix}:target" if prefix else "target"
        said = "" if self._is_two else f" state={quoted(state)}"
        element: Pieces = [f"<{name}{said}>", content, f"</{name}>"]
        if target is not None:
            yield Edit(target.start, target.end, element)
            return
        end = max(each.end for each in (source, unit.segmented) if each is not None)
        yield Edit(end, end, [break_before(self._text, source.start), *element])

    def _attribute(self, token: Token, name: str, value: str) -> Iterator[Edit]:
        found = token.attributes(self._text).get(name)
        if found is not None:
            yield Edit(*found, [quoted(value, self._text[found[0]])])
        else:
            place = token.start + 1 + len(token.name)
            yield Edit(place, place, [f" {name}={quoted(value)}"])
