"""Translations of Qt: ``.ts``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

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
)
from specmt.formats.encoding import decode_xml
from specmt.formats.glued import Item
from specmt.formats.inline import Inline, meant, render
from specmt.formats.left import told
from specmt.formats.markup import (
    Element,
    break_before,
    children,
    collect,
    opening_with,
    plain_text,
    quoted,
    reference,
    value_of,
    xml_escape,
    xml_unescape,
)
from specmt.formats.plurals import count_of_forms, plural_forms
from specmt.languages import primary
from specmt.types import Tagged

_GONE: Final = ("vanished", "obsolete")
_FILTERS: Final = re.compile(";;")
"""What is between filters of files, as in ``Images (*.png);;All files (*)``."""


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads the messages that are in the program.

    :raises DataError: it is damaged XML, or of another kind.
    """
    text, encoding = decode_xml(data)
    tokens = list(opening_with("TS", text))
    lines = LineNumbers(text)
    segments: list[Segment] = []
    parts: list[Part] = []
    root = next(token for token in tokens if token.kind in ("open", "empty"))
    said = {primary(root.value(text, each)) for each in ("sourcelanguage", "language")}
    is_one = len(said) == 1 and said != {""}  # then what is there is no translation yet
    for outer in children(tokens, ("context", "message")):
        inner = outer.elements if outer.name == "context" else [outer]
        context = next((plain_text(text, each.inner) for each in inner if each.name == "name"), "")
        for message in inner:
            if message.name == "message":
                found = _message(text, message, context, lines, options, parts)
                segments += (replace(each, state="new", target="") for each in found) if is_one else found

    def finish(_: Mapping[int, Tagged]) -> Iterator[Edit]:
        language = options.target.replace("-", "_")
        span = root.attributes(text).get("language")
        if span is None:
            place = root.end - 1 - (root.kind == "empty")
            yield Edit(place, place, [f' language="{language}"'])
        elif primary(value_of(text, span)) != primary(language):
            yield Edit(*span, [quoted(language)])

    return told(TextDocument(text, encoding, hide(segments), finish=finish, escape=reference, parts=parts), "qt")


def _message(
    text: str, message: Element, context: str, lines: LineNumbers, options: FormatOptions, parts: list[Part]
) -> Iterator[Segment]:
    inner = {each.name: each for each in message.elements}
    source, old = inner.get("source"), inner.get("translation")
    kind = old.first.value(text, "type") if old else "unfinished"
    if source is None or kind in _GONE or (old and old.first.value(text, "variants") == "yes"):
        parts.append(Part(message.start, message.end, "used no more, or translated in several lengths"))
        return
    inline = collect(Inline(text, xml_unescape), source.inner, pairs=frozenset())
    inline.apart(lambda text, span: (Item("opaque", match.span()) for match in _FILTERS.finditer(text, *span)))
    spell = inline.read_entities()
    found = inline.take()
    if found is None:
        return
    tagged, span = found
    is_plural = message.first.value(text, "numerus") == "yes"
    forms_of = [] if old is None else (is_plural and old.elements) or [old]
    known = [each for each in forms_of if plain_text(text, each.inner)]
    state: State = "new" if not known else "fuzzy" if kind == "unfinished" else "translated"
    count = count_of_forms(options.target) if is_plural else 0

    def edits(translation: Tagged, _: Tell) -> Iterator[Edit]:
        said: Pieces = [
            (source.inside[0], span[0]),
            *render(translation, lambda said: _escape(spell(said))),
            (span[1], source.inside[1]),
        ]
        place = message.elements[-1].end if old is None else old.start
        line = break_before(text, message.elements[-1].start if old is None else old.start)
        if is_plural:
            more = break_before(text, message.start)
            deeper = line + line.removeprefix(more) if line.startswith(more) else line
            said = [each for _ in range(count) for each in (f"{deeper}<numerusform>", *said, "</numerusform>")]
            said.append(line)
        is_done = not options.is_fuzzy([translation]) and translation.is_whole and count < 2
        first = "<translation>" if is_done else '<translation type="unfinished">'
        before = line if old is None else ""
        yield Edit(place, place if old is None else old.end, [before + first, *said, "</translation>"])

    target = meant(plain_text(text, known[0].inner)) if known else ""
    raw = (text[slice(*source.inside)], text[slice(*known[0].inside)] if known else "") if tagged.tags else ("", "")
    forms = plural_forms(options.target)
    yield Segment(tagged, lines(span[0]), edits, state, target, context, written=raw, span=span, forms=forms)


def _escape(text: str) -> str:
    return xml_escape(text).replace('"', "&quot;").replace("'", "&apos;")
