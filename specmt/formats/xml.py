"""XML of any kind: texts are those of elements, and the elements that stand in text are inline tags of it.

DITA, DocBook and XHTML say what is code by the names of their elements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from specmt.formats.document import Document, Edit, FormatOptions, LineNumbers, Part, Segment, TagRules
from specmt.formats.inline import Inline, in_place
from specmt.formats.markup import Token, add_text, quoted, value_of, xml_document, xml_escape, xml_tokens, xml_unescape
from specmt.languages import primary

_LISTINGS_NAMES: Final = "codeblock funcsynopsis cmdsynopsis msgblock pre programlisting screen script style synopsis"
_LISTINGS: Final = frozenset(_LISTINGS_NAMES.split())
"""Code that is no part of a sentence."""

_DITA: Final = (
    "apiname cmdname codeph coderef filepath msgnum msgph numcharref option parameterentity parmname synph "
    "syntaxdiagram systemoutput textentity userinput varname xmlatt xmlelement xmlnsname xmlpi"
)
_DOCBOOK: Final = (
    "classname code command computeroutput constant envar errorcode errorname errortype exceptionname filename "
    "function initializer interfacename literal markup methodname methodsynopsis option parameter prompt property "
    "replaceable returnvalue sgmltag structfield structname symbol systemitem tag token type uri userinput varname"
)
_PROFILES: Final = (
    (re.compile(r"<html\b"), f"{_LISTINGS_NAMES} code kbd samp tt var"),
    (re.compile(r"(?i)docbook"), f"{_LISTINGS_NAMES} {_DOCBOOK}"),
    (
        re.compile(
            r"//DTD DITA|\bditaarch\b|<(?:bookmap|concept|dita|glossentry|reference|task|topic|troubleshooting)\b"
        ),
        f"{_LISTINGS_NAMES} {_DITA}",
    ),
    (re.compile(""), "codeblock programlisting"),
)
"""What is in documents of a kind before their texts, and the names of their elements of code."""

_APART: Final = frozenset(("fn", "footnote", "indexterm", "keycombo", "menucascade", "menuchoice"))
"""Elements of DITA and DocBook whose texts are none of the sentence that they are in."""

_BLOCKS_NAMES: Final = (
    "blockquote calloutlist dl example fig figure formalpara informalexample informalfigure informaltable itemizedlist "
    "lines lq mediaobject note ol orderedlist p para procedure section segmentedlist simpara simplelist simpletable sl "
    "table ul variablelist"
)
_BLOCKS: Final = frozenset(_BLOCKS_NAMES.split())
"""Elements of DITA, DocBook and XHTML that end the text that they stand in, as a list within an item does."""

_FOREIGN: Final = frozenset(("math", "mml:math", "m:math", "svg", "svg:svg"))
_HEAD: Final = 2000


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads a document, or elements and text without one around them.

    :raises DataError: it is not well-formed.
    """
    parts: list[Part] = []

    def finish(text: str) -> Iterator[Edit]:
        root = next((token for token in xml_tokens(text, fragment=True) if token.kind == "open"), None)
        span = root.attributes(text).get("xml:lang") if root is not None else None
        if span is not None and options.source and primary(value_of(text, span)) == primary(options.source):
            yield Edit(*span, [quoted(options.target)])

    return xml_document(data, partial(_segments, rules=options.tags, parts=parts), parts, finish)


def _with_code(text: str, rules: TagRules) -> TagRules:
    """Returns rules by which elements of code are left as they are, too, as far as nothing else is said of them."""
    names = next(names for pattern, names in _PROFILES if pattern.search(text, 0, _HEAD)).split()
    return replace(rules, ignored=rules.ignored | (_FOREIGN | frozenset(names)) - rules.inside - rules.splitting)


@dataclass
class _Element:
    """An element whose end has not come, or the whole document."""

    is_inline: bool = False
    has_text: bool = False
    """Whether there is text in it beside its elements."""


def _segments(text: str, rules: TagRules, parts: list[Part]) -> Iterator[Segment]:
    """Yields the texts.

    :param parts: takes what is left beside tags, and why
    """
    tokens = list(xml_tokens(text, fragment=True))
    rules = _with_code(text, rules)
    inline_at = _places_of_inline(text, tokens, rules)
    lines = LineNumbers(text)
    inline = Inline(text, xml_unescape, collapses=True)
    first: Token | None = None  # of an element that is left as it is
    depth = 0  # of the elements in it
    opened: list[bool] = []  # whether those around the place are inline
    around: list[tuple[Inline, Token, int]] = []  # the sentences that notes are in
    for token in tokens:
        if first is not None:
            depth += (token.kind == "open") - (token.kind == "close")
            if depth == 0:
                parts.append(Part(first.start, token.end, "code, or marked not to be translated"))
                if first.name not in _LISTINGS:
                    inline.opaque(first.start, token.end)
                first = None
            continue
        if token.kind in ("open", "empty"):
            is_inline = token.start in inline_at
            if _is_kept(text, token, rules):
                if token.name in _LISTINGS:
                    yield from _taken(inline, lines)
                if token.kind == "empty":
                    inline.opaque(token.start, token.end)
                else:
                    first, depth = token, 1
                continue
            if token.kind == "open":
                opened.append(is_inline)
            if token.kind == "open" and not is_inline and token.name in _APART:
                around.append((inline, token, len(opened)))
                inline = Inline(text, xml_unescape, collapses=True)
            elif not is_inline:
                yield from _taken(inline, lines)
            elif token.kind == "open":
                inline.open(token.start, token.end, token.name)
            else:
                inline.opaque(token.start, token.end)
        elif token.kind == "close":
            if opened.pop():
                inline.close(token.start, token.end, token.name)
                continue
            yield from _taken(inline, lines)
            if around and around[-1][2] > len(opened):
                inline, note, _ = around.pop()
                inline.mark(note.start, token.end)
        elif token.kind == "text":
            add_text(inline, text, token.start, token.end)
        elif token.kind == "cdata":
            inline.text(token.start, token.end)
        else:
            inline.point(token.start, token.end)
    yield from _taken(inline, lines)


def _taken(inline: Inline, lines: LineNumbers) -> Iterator[Segment]:
    inline.part_elements()
    yield from in_place(inline, lines, xml_escape, wraps=True)


def _places_of_inline(text: str, tokens: list[Token], rules: TagRules) -> set[int]:
    """Returns where the elements begin that are inline: those in an element that has text of its own, and theirs."""
    opened = [_Element()]
    parents: list[tuple[Token, _Element, _Element]] = []
    for token in tokens:
        if token.kind in ("open", "empty"):
            element = _Element()
            parents.append((token, element, opened[-1]))
            if token.kind == "open":
                opened.append(element)
        elif token.kind == "close":
            opened.pop()
        elif token.kind in ("text", "cdata") and xml_unescape(text[token.start : token.end]).strip():
            opened[-1].has_text = True
    apart = rules.splitting | (_APART | _BLOCKS if rules.detects else frozenset())
    for token, element, parent in parents:  # those around an element come before it
        stands_in_text = parent.is_inline or parent.has_text or not rules.detects
        # What declares a namespace stays around what is in it.
        splits = token.name in apart or "xmlns" in text[token.start : token.end]
        element.is_inline = token.name in rules.inside or (stands_in_text and not splits)
    return {token.start for token, element, _ in parents if element.is_inline}


def _is_kept(text: str, token: Token, rules: TagRules) -> bool:
    if token.name in rules.ignored:
        return True
    attributes = token.attributes(text)
    return "translate" in attributes and value_of(text, attributes["translate"]) == "no"
