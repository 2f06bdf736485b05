"""Web pages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from html import unescape
from typing import Final

from specmt.formats.document import Document, Edit, FormatOptions, LineNumbers, Segment, State, TextDocument
from specmt.formats.encoding import Encoding, decode
from specmt.formats.inline import Inline, in_place
from specmt.formats.markup import Token, html_tokens, quoted, reference, value_of, xml_escape
from specmt.languages import primary
from specmt.types import Span, Tagged

_INLINE_NAMES: Final = (
    "a abbr acronym b bdi bdo big cite data del dfn em font i ins mark q s small span strike strong sub sup time u"
)
_INLINE: Final = frozenset(_INLINE_NAMES.split())
_OPAQUE_NAMES: Final = "canvas code img input kbd math object picture samp select svg tt var video audio"
_OPAQUE: Final = frozenset(_OPAQUE_NAMES.split())
"""What stands in a sentence and stays as it is."""

_SKIPPED: Final = frozenset(("pre", "script", "style", "textarea", "template"))
_VOID_NAMES: Final = "area base br col embed hr img input link meta param source track wbr"
_VOID: Final = frozenset(_VOID_NAMES.split())
_ENDS_ITSELF: Final = frozenset(("dd", "dt", "li", "option", "p", "td", "th", "tr"))
"""Elements that end where the next one begins, or the one that they are in ends."""

_TEXTS: Final = ("alt", "title", "placeholder", "aria-label")
_BLANK: Final = "&(?:nbsp|#0*(?:9|10|13|32|160));"
"""What is left out at both ends of a text, beside white space."""

_META: Final = frozenset(("description", "og:title", "og:description", "twitter:title", "twitter:description"))
_CHARSET: Final = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_LATIN: Final = frozenset(("iso-8859-1", "latin1", "latin-1", "us-ascii", "ascii", "iso8859-1"))


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads a page; ``pre``, ``script``, ``style`` and what is marked not to be translated are left out.

    :raises DataError: it is not in the encoding that it declares.
    """
    text, encoding = _decode(data)
    page = _Page(text, options)
    segments = list(page.segments(html_tokens(text)))

    def finish(_: Mapping[int, Tagged]) -> Iterator[Edit]:
        for span in page.languages:
            if raw := text[slice(*span)]:  # none where the attribute has no value
                yield Edit(*span, [quoted(options.target, raw[0]) if raw[0] in "\"'" else options.target])

    return TextDocument(text, encoding, segments, finish=finish, escape=reference)


def part_of_page(
    text: str,
    span: Span,
    options: FormatOptions,
    lines: Callable[[int], int],
    tokens: Iterable[Token] | None = None,
) -> Iterator[Segment]:
    """Yields the texts in a part of a text that is HTML.

    :param lines: returns the number of the line of a place
    :param tokens: those of the part, where they are XML's
    """
    page = _Page(text, replace(options, insists=True), lines)
    return page.segments(html_tokens(text, *span) if tokens is None else tokens)


def _decode(data: bytes) -> tuple[str, Encoding]:
    found = _CHARSET.search(data[:4096])
    if found is None:
        return decode(data, fallback="cp1252")
    codec = found[1].decode("ascii").lower()
    # As browsers read it, but for the five bytes that windows-1252 lacks.
    return decode(data, "cp1252", fallback="latin-1") if codec in _LATIN else decode(data, codec)


class _Skipped:
    """An element that is left as it is; it may end without a tag of its own."""

    def __init__(self, first: Token) -> None:
        self.first: Final = first
        self._opened = [first.name]
        self._counts = Counter(self._opened)

    def end_at(self, token: Token) -> int | None:
        """Returns where the element ends, if it does at the end of a tag or right before it."""
        if token.kind == "open" and self._opened == [token.name] and token.name in _ENDS_ITSELF:
            return token.start
        if token.kind == "open" and token.name not in _VOID:
            self._opened.append(token.name)
            self._counts[token.name] += 1
        if token.kind == "close":
            if not self._counts[token.name]:
                return token.start if self.first.name in _ENDS_ITSELF else None
            name = ""
            while name != token.name:
                name = self._opened.pop()
                self._counts[name] -= 1
        return None if self._opened else token.end


class _Page:
    def __init__(self, text: str, options: FormatOptions, lines: Callable[[int], int] | None = None) -> None:
        self.languages: list[Span] = []
        """Where the page says its language."""
        self._text = text
        self._options = options
        self._rules = options.tags
        self._lines = lines or LineNumbers(text)
        self._state: State = "new"

    def segments(self, tokens: Iterable[Token]) -> Iterator[Segment]:
        """Yields the texts of the page, or of a part of it."""
        inline = Inline(self._text, unescape, collapses=True, escaped=_BLANK)
        skipped: _Skipped | None = None
        for token in tokens:
            is_open = token.kind in ("open", "empty")
            if skipped is not None:
                end = skipped.end_at(token)
                if end is None:
                    continue
                if self._is_inline(skipped.first.name):
                    inline.opaque(skipped.first.start, end)
                skipped = None
                if end == token.end:
                    continue
            if is_open:
                attributes = token.attributes(self._text) if token.end - token.start > len(token.name) + 3 else {}
                if token.name not in self._rules.ignored:
                    yield from self._attributes(token.name, attributes)
                if not self._is_inline(token.name):
                    yield from self._take(inline)
                if self._is_kept(token.name, attributes) and token.kind == "open" and token.name not in _VOID:
                    skipped = _Skipped(token)
                elif token.name in _OPAQUE or token.name in self._rules.ignored:
                    inline.opaque(token.start, token.end)
                elif token.name == "wbr" or (token.kind == "empty" and self._is_pair(token.name)):
                    inline.point(token.start, token.end)
                elif self._is_pair(token.name):
                    inline.open(token.start, token.end, token.name)
            elif token.kind == "close":
                if self._is_pair(token.name):
                    inline.close(token.start, token.end, token.name)
                elif self._is_inline(token.name):
                    inline.point(token.start, token.end)
                else:
                    yield from self._take(inline)
            elif token.kind == "text":
                inline.text(token.start, token.end)
            else:
                inline.point(token.start, token.end)
        yield from self._take(inline)

    def _take(self, inline: Inline) -> Iterator[Segment]:
        return in_place(inline, self._lines, _encode, state=self._state, wraps=True)

    def _is_pair(self, name: str) -> bool:
        """Whether elements of a name are around words of a sentence."""
        return (name in _INLINE and name not in self._rules.splitting) or name in self._rules.inside

    def _is_inline(self, name: str) -> bool:
        """Whether elements of a name stand in a sentence."""
        return self._is_pair(name) or name in _OPAQUE or name == "wbr" or name in self._rules.ignored

    def _is_kept(self, name: str, attributes: Mapping[str, Span]) -> bool:
        if name in _SKIPPED or name in _OPAQUE or name in self._rules.ignored:
            return True
        marked = "translate" in attributes and value_of(self._text, attributes["translate"]).lower() == "no"
        classes = value_of(self._text, attributes["class"]).split() if "class" in attributes else []
        return marked or "notranslate" in classes

    def _attributes(self, name: str, attributes: Mapping[str, Span]) -> Iterator[Segment]:
        """Yields the texts in the attributes of a tag."""
        known = {each.lower(): span for each, span in attributes.items()}
        if name == "html":
            self.languages += [known[each] for each in ("lang", "xml:lang") if each in known]
            said = {primary(value_of(self._text, span)) for span in self.languages}
            options = self._options
            if said == {options.target} and options.source != options.target and not options.insists:
                self._state = "translated"
        texts = [known[each] for each in _TEXTS if each in known]
        if name == "meta" and "content" in known:
            label = next((value_of(self._text, known[each]) for each in ("name", "property") if each in known), "")
            texts += [known["content"]] if label.lower() in _META else []
        if name == "input" and "value" in known and "type" in known:
            kind = value_of(self._text, known["type"]).lower()
            texts += [known["value"]] if kind in ("submit", "button", "reset") else []
        for start, end in texts:
            quote = self._text[start : start + 1]
            if quote in ("'", '"'):
                inline = Inline(self._text, unescape, collapses=True, escaped=_BLANK)
                inline.text(start + 1, end - 1)
                write = partial(_encode_value, quote)
                yield from in_place(inline, self._lines, write, state=self._state)


def _encode_value(quote: str, text: str) -> str:
    return quoted(text, quote)[1:-1]


def _encode(text: str) -> str:
    return xml_escape(text).replace("\xa0", "&nbsp;")
