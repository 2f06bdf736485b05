"""Web pages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from specmt.formats.document import KEPT, Document, Edit, FormatOptions, LineNumbers, Part, Segment, State, TextDocument
from specmt.formats.encoding import Encoding, decode, spellings, unescape
from specmt.formats.front import FRONT, front_matter, language_in
from specmt.formats.icu import has_choice
from specmt.formats.inline import Inline, in_place
from specmt.formats.markup import Token, html_tokens, quoted, reference, value_of, xml_escape
from specmt.formats.plurals import plural_forms
from specmt.formats.templates import CONTROL, LEFT_OVER, Templates, check_templates
from specmt.languages import is_code, primary
from specmt.names import ICON, ICONS
from specmt.types import Span, Tagged

_INLINE_NAMES: Final = (
    "a abbr acronym b bdi bdo big cite data del dfn em font i ins mark q s small span strike strong sub sup time u"
)
_INLINE: Final = frozenset(_INLINE_NAMES.split())
_OPAQUE_NAMES: Final = "canvas code img input kbd math object picture samp select svg tt var video audio"
_OPAQUE: Final = frozenset((*_OPAQUE_NAMES.split(), *ICONS))
"""What stands in a sentence and stays as it is."""

_PICTURES: Final = frozenset(("canvas", "img", "input", "picture", "svg", *ICONS))

_WITHIN: Final = frozenset(("audio", "canvas", "object", "picture", "select", "video"))
"""Those that have texts of their own."""

_SKIPPED_NAMES: Final = "iframe noembed noframes pre script style textarea xmp"
_SKIPPED: Final = frozenset(_SKIPPED_NAMES.split())
_VOID_NAMES: Final = "area base br col embed hr img input link meta param source track wbr"
VOID: Final = frozenset(_VOID_NAMES.split())
_ENDS_ITSELF: Final = frozenset(("dd", "dt", "li", "option", "p", "td", "th", "tr"))
"""Elements that end where the next one begins, or the one that they are in ends."""

_TEXTS_NAMES: Final = "alt title placeholder label aria-label aria-description aria-placeholder aria-roledescription"
_TEXTS: Final = (*_TEXTS_NAMES.split(), "aria-valuetext")
_BLANK: Final = "&(?:nbsp|#0*(?:9|10|13|32|160));"
"""What is left out at both ends of a text, beside white space."""

_META_NAMES: Final = "description title og:title og:description og:image:alt twitter:title twitter:description"
_META: Final = frozenset((*_META_NAMES.split(), "twitter:image:alt"))
_CHARSET: Final = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
_LATIN: Final = frozenset(("iso-8859-1", "latin1", "latin-1", "us-ascii", "ascii", "iso8859-1"))


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads a page; ``pre``, ``script``, ``style`` and what is marked not to be translated are left out.

    :raises DataError: it is not in the encoding that it declares, or has tags of a template that are not understood.
    """
    text, encoding = _decode(data)
    check_templates(text)
    page = _Page(text, options)
    page.seen = page.templates.masked(0, len(text))
    front = FRONT.match(text)  # pages of Jekyll, Hugo and Eleventy have it
    segments = [] if front is None else list(front_matter(text, front, options.keys))
    if front is not None:
        page.parts.append(Part(0, front.end(), "front matter"))
    segments += page.segments(html_tokens(page.seen, 0 if front is None else front.end()))

    def finish(_: Mapping[int, Tagged]) -> Iterator[Edit]:
        yield from language_in(text, front, options)
        for span, said in page.languages:
            if raw := text[slice(*span)]:  # none where the attribute has no value
                yield Edit(*span, [quoted(said, raw[0]) if raw[0] in "\"'" else said])

    return TextDocument(text, encoding, segments, finish=finish, escape=reference, parts=page.parts)


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
    page = _Page(text, replace(options, insists=True), lines, span)
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

    def __init__(self, first: Token, *, is_foreign: bool = False) -> None:
        """
        :param is_foreign: whether it is left for its language alone, and is no part of a sentence
        """
        self.first: Final = first
        self.start = first.start
        """From where on nothing of it is translated."""
        self.is_foreign: Final = is_foreign
        self._opened = [first.name]
        self._counts = Counter(self._opened)

    def end_at(self, token: Token) -> int | None:
        """Returns where the element ends, if it does at the end of a tag or right before it."""
        if token.kind == "open" and self._opened == [token.name] and token.name in _ENDS_ITSELF:
            return token.start
        if token.kind == "open" and token.name not in VOID:
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
    def __init__(
        self, text: str, options: FormatOptions, lines: Callable[[int], int] | None = None, span: Span | None = None
    ) -> None:
        self.languages: list[tuple[Span, str]] = []
        """Where the page says its language, and what it says then."""
        self.templates: Final = Templates(text, *(span or (0, len(text))))
        self.seen = text
        """The text in which templates are hidden, where tags are looked for."""
        self._text = text
        self._options = options
        self._forms = plural_forms(options.target)
        self._rules = options.tags
        self._lines = lines or LineNumbers(text)
        self.parts: list[Part] = []
        """What is left of the text beside tags, and why."""
        self._state: State = "new"
        self._said = primary(options.source)
        """The language of the page, as it says."""
        self._spelt = spellings(text, *(span or (0, len(text))))

    def segments(self, tokens: Iterable[Token], *, is_inner: bool = False) -> Iterator[Segment]:
        """Yields the texts of the page, or of a part of it.

        :param is_inner: whether it is an element in the page's language within one in another
        """
        own: list[Token] = []  # the tokens of such an element
        inner: _Skipped | None = None
        inline = self._inline()
        around: list[tuple[Inline, Token]] = []  # what sentences are in, and elements in them with texts of their own
        skipped: _Skipped | None = None
        for token in tokens:
            if skipped is not None and inner is not None:
                end = inner.end_at(token)
                if end != token.start:
                    own.append(token)
                if end is None:
                    continue
                yield from self.segments(own, is_inner=True)
                skipped.start, inner = end, None
                if end == token.end:
                    continue
            if skipped is not None:
                if skipped.is_foreign and not is_inner and self._is_own(token):
                    self.parts.append(Part(skipped.start, token.start, "in another language"))
                    inner, own = _Skipped(token), [token]
                    continue
                end = skipped.end_at(token)
                if end is None:
                    continue
                self.parts.append(Part(skipped.start, end, "code, or marked not to be translated"))
                if self._is_inline(skipped.first.name):
                    self._opaque(inline, skipped.first, end)
                skipped = None
                if end == token.end:
                    continue
            if token.kind in ("open", "empty"):
                attributes = token.attributes(self.seen) if token.end - token.start > len(token.name) + 3 else {}
                if token.name not in self._rules.ignored:
                    yield from self._attributes(token.name, attributes)
                if not self._is_inline(token.name):
                    yield from self._take(inline)
                is_foreign = self._is_foreign(token.name, attributes)
                is_kept = self._is_kept(token.name, attributes)
                if (is_kept or is_foreign) and token.kind == "open" and token.name not in VOID:
                    skipped = _Skipped(token, is_foreign=not is_kept and not self._is_inline(token.name))
                elif token.name in _WITHIN and token.kind == "open":
                    around.append((inline, token))
                    inline = self._inline()
                elif token.name in _OPAQUE or token.name in self._rules.ignored:
                    self._opaque(inline, token, token.end)
                elif token.name == "wbr" or (token.kind == "empty" and self._is_pair(token.name)):
                    inline.point(token.start, token.end)
                elif self._is_pair(token.name):
                    inline.open(token.start, token.end, token.name)
            elif token.kind == "close":
                if around and token.name == around[-1][1].name:
                    yield from self._take(inline)
                    inline, first = around.pop()
                    self._opaque(inline, first, token.end)
                elif self._is_pair(token.name):
                    inline.close(token.start, token.end, token.name)
                elif self._is_inline(token.name):
                    inline.point(token.start, token.end)
                else:
                    yield from self._take(inline)
            elif CONTROL.match(self._text, token.start, token.end):
                yield from self._take(inline)
            elif token.kind == "text":
                yield from self._add(inline, token.start, token.end, self._take)
            else:
                inline.point(token.start, token.end)
        for each in (inline, *(outer for outer, _ in reversed(around))):
            yield from self._take(each)
        if inner is not None:
            yield from self.segments(own, is_inner=True)
        elif skipped is not None:
            self.parts.append(Part(skipped.start, len(self._text), "in what is not closed"))

    @staticmethod
    def _opaque(inline: Inline, first: Token, end: int) -> None:
        (inline.picture if first.name in _PICTURES else inline.opaque)(first.start, end)

    def _inline(self) -> Inline:
        return Inline(self._text, unescape, collapses=True, escaped=_BLANK)

    def _add(
        self, inline: Inline, start: int, end: int, take: Callable[[Inline], Iterator[Segment]]
    ) -> Iterator[Segment]:
        """Gives a text to a sentence, which ends where a template does more than show a value."""
        for template in self.templates.find(start, end):
            inline.text(start, template.start)
            self.parts.append(Part(template.start, template.end, "template"))
            if has_choice(self._text[template.start : template.end]):
                said = Tagged(self._text[template.start : template.end])
                reason = f"{KEPT}: it is a plural or select with blocks in it"
                yield Segment(said, self._lines(template.start), lambda *_: (), "skipped", reason=reason)
            if template.is_value:
                inline.opaque(template.start, template.end)
            else:
                yield from take(inline)
            start = template.end
        inline.text(start, end)

    def _take(self, inline: Inline, quote: str = "", outer: str = "") -> Iterator[Segment]:
        """Yields what was collected as a segment, of an attribute in those quotes.

        :param outer: the quotes that it gets
        """
        write = partial(_encode, self._spelt, quote)
        extent = inline.extent
        if not quote:
            inline.part_elements()
        for segment in in_place(
            inline,
            self._lines,
            write,
            state=self._state,
            wraps=not quote,
            guard=lambda pieces, _: [outer, *pieces, outer],
            forms=self._forms,
        ):
            if segment.state == "new" and LEFT_OVER.search(segment.source.text):
                reason = f"{KEPT}: it has a part of a template that is not understood"
                segment = replace(segment, state="skipped", reason=reason)
            yield segment if segment.written[0] else replace(segment, around=extent)

    def _is_pair(self, name: str) -> bool:
        """Whether elements of a name are around words of a sentence."""
        return (name in _INLINE and name not in self._rules.splitting) or name in self._rules.inside

    def _is_inline(self, name: str) -> bool:
        """Whether elements of a name stand in a sentence."""
        return self._is_pair(name) or name in _OPAQUE or name == "wbr" or name in self._rules.ignored

    def _is_kept(self, name: str, attributes: Mapping[str, Span]) -> bool:
        if (name in _SKIPPED or name in _OPAQUE or name in self._rules.ignored) and name not in _WITHIN:
            return True
        said = {each: value_of(self._text, attributes[each]) for each in _ABOUT if each in attributes}
        return said.get("translate", "").lower() == "no" or _MARKED.search(said.get("class", "")) is not None

    def _is_foreign(self, name: str, attributes: Mapping[str, Span]) -> bool:
        language = self._language(attributes)
        return name != "html" and is_code(language) and language not in (self._said, self._options.source)

    def _is_own(self, token: Token) -> bool:
        """Whether an element says that it is in the language of the page."""
        if token.kind != "open" or token.name in VOID or token.end - token.start < len(token.name) + 7:
            return False
        return self._language(token.attributes(self.seen)) in (self._said, self._options.source)

    def _language(self, attributes: Mapping[str, Span]) -> str:
        span = attributes.get("lang", attributes.get("xml:lang"))
        return "" if span is None else primary(value_of(self._text, span))

    def _attributes(self, name: str, attributes: Mapping[str, Span]) -> Iterator[Segment]:
        """Yields the texts in the attributes of a tag."""
        known = {each.lower(): span for each, span in attributes.items()}
        options = self._options
        for each in ("lang", "xml:lang"):
            language = primary(value_of(self._text, known[each])) if each in known else ""
            is_own = language == options.source or (name == "html" and (language == "" or is_code(language)))
            if each in known and is_own:
                self.languages.append((known[each], options.target))
            if language and name == "html":
                self._said = language
        if name == "html" and self._said == options.target != options.source and not options.insists:
            self._state = "translated"
        texts = [known[each] for each in _TEXTS if each in known]
        texts += [known["text"]] if name == "badge" and "text" in known else []  # VitePress has it
        if name == "meta" and "content" in known:
            says = ("name", "property", "http-equiv")
            label = next((value_of(self._text, known[each]) for each in says if each in known), "").lower()
            texts += [known["content"]] if label in _META else []
            if label in _LANGUAGE and primary(value_of(self._text, known["content"])) == options.source:
                self.languages.append((known["content"], _LANGUAGE[label](options.target)))
        if name == "input" and "value" in known and "type" in known:
            kind = value_of(self._text, known["type"]).lower()
            texts += [known["value"]] if kind in ("submit", "button", "reset") else []
        for start, end in texts:
            quote = self._text[start : start + 1]
            if self._text[start:end].isalnum():
                inline = self._inline()
                inline.text(start, end)
                yield from self._take(inline, '"', '"')
            if quote in ("'", '"'):
                inline, take = self._inline(), partial(self._take, quote=quote)
                yield from self._add(inline, start + 1, end - 1, take)
                yield from take(inline)


def _encode(spelt: Mapping[int, str], quote: str, text: str) -> str:
    return (quoted(text, quote)[1:-1] if quote else xml_escape(text)).translate(spelt)


def _locale(language: str) -> str:
    """Returns a language as Open Graph writes it, with the country that is meant by it."""
    return language if "_" in language else f"{primary(language)}_{_COUNTRIES.get(language, language[-2:].upper())}"


_MARKED: Final = re.compile(rf"(?<!\S)notranslate(?!\S)|{ICON}")
_ABOUT: Final = ("translate", "class")
_COUNTRIES: Final = {
    "en": "US",
    "cs": "CZ",
    "da": "DK",
    "el": "GR",
    "ja": "JP",
    "ko": "KR",
    "sv": "SE",
    "uk": "UA",
    "zh": "CN",
}
_LANGUAGE: Final[Mapping[str, Callable[[str], str]]] = {
    "content-language": str, "dc.language": str, "language": str, "og:locale": _locale,
}  # fmt: skip
"""What of a page's metadata says its language, and how."""
