"""What of documents in XML is no text to translate, and why; all else that is in no segment is told."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from html import unescape
from typing import Final

from specmt.formats.document import LineNumbers, Part, Segment, TextDocument, unread_segments
from specmt.formats.icu import is_syntax
from specmt.formats.inline import singles
from specmt.formats.markup import xml_tokens
from specmt.types import Span

_KINDS: Final = {
    "android": r"""(?P<placeholder>xliff:g)
        | (?P<value_of_another_kind>item|color|dimen|bool|integer|integer-array|fraction|id|style|attr|public)""",
    "docx": r"""(?P<deleted>w:del|w:delText|w:moveFrom) | (?P<field>w:instrText|w:fldSimple) | (?P<formula>m:\w+)
        | (?P<ruby>w:ruby) | (?P<data_of_a_chart>c:\w+) | (?P<place_of_a_picture>wp\d*:\w+)
        | (?P<property>\w+:coreProperties)""",
    "odt": r"""(?P<deleted>text:tracked-changes) | (?P<ruby>text:ruby) | (?P<pattern_of_an_index>text:[\w-]*template)
        | (?P<field>text:(?:[\w-]*(?:count|date|field[\w-]*|input|mark|name|number|ref|time|variable[\w-]*)|chapter
            |conditional-text|creator|description|drop-down|expression|hidden-[\w-]+|initial-creator|keywords|label|measure
            |placeholder|script|sender-[\w-]+|sequence|subject|title|user-[\w-]+|author-[\w-]+))
        | (?P<number_of_a_note>text:note-citation) | (?P<author_or_date>dc:|meta:) | (?P<formula>math)
        | (?P<number_or_style>(?:number|style|config|loext):|office:(?:settings|scripts|meta))""",
    "pptx": r"""(?P<field>a:fld|a:tableStyleId) | (?P<data_of_a_chart>c:) | (?P<extension>p:ext|a:ext) | (?P<formula>m:)
        | (?P<property>\w+:coreProperties)""",
    "xlsx": r"""(?P<reading_of_a_text>rPh) | (?P<formula>f|formula\d?) | (?P<value_of_a_formula>v)
        | (?P<header_of_printed_pages>headerFooter) | (?P<author>authors?) | (?P<property>\w+:coreProperties)
        | (?P<data_of_a_chart>c:) | (?P<place>xdr:|definedName) | (?P<extension>ext)""",
    "epub": r"""(?P<code>pre|code|kbd|samp|tt|var|textarea|template|script|style|iframe|xmp) | (?P<picture>svg)
        | (?P<formula>math) | (?P<author>docAuthor) | (?P<data_about_the_book>metadata|guide|manifest)
        | (?P<marked_not_to_be_translated>[^>]*\b(?:translate=["']no|notranslate))
        | (?P<other_language>(?!html)[^>]*\blang)""",
    "qt": r"""(?P<translation>translation) | (?P<former_text>old\w+) | (?P<name>name) | (?P<note>\w*comment)
        | (?P<data_of_programs>extra-|userdata)""",
    "resx": r"(?P<note>comment) | (?P<value_of_another_kind>metadata|resheader|assembly|xsd?:)",
    "stringsdict": r"(?P<key>key) | (?P<value_of_another_kind>data|date|integer|real)",
    "tmx": r"(?P<note>note) | (?P<property>prop) | (?P<code>bpt|ept|it|ph|ut) | (?P<other_language_or_variant>tuv)",
    "xliff": r"""(?P<note>note) | (?P<translation>target) | (?P<proposal>alt-trans|\w+:match)
        | (?P<code>bpt|ept|it|ph|data) | (?P<text>sub)
        | (?P<marked_not_to_be_translated>[^>]*\b(?:translate=["']no|mtype=["']protected))
        | (?P<place>context-group|count-group|prop-group) | (?P<not_of_a_segment>ignorable)
        | (?P<data_of_programs>header|skl|tool|phase|bin-source|(?!xlf:|xliff:)\w+:)""",
}
"""How elements begin, by the reason for which what is in them is left."""

_BLANK: Final = re.compile(r"\\(?:u00(?:20|[aA]0)|[nrt])")
"""Spaces, as Android writes them."""


def told(document: TextDocument, file_format: str) -> TextDocument:
    """Returns a document in XML to which what of its text is not understood is added, as segments that are left."""
    pattern = re.compile(rf"<(?:{_KINDS[file_format]})(?:\b|(?<=:))", re.VERBOSE)
    document.parts += _left(document.text, document.segments, pattern)
    document.segments += unread_segments(document.text, document.parts, LineNumbers(document.text))
    return document


def _left(text: str, segments: Iterable[Segment], pattern: re.Pattern[str]) -> Iterator[Part]:
    """Yields what of a text is markup, a segment's, or in an element that is left."""
    seen = sorted(span for segment in segments for span in _seen(text, segment))
    reasons = [""]
    for token in xml_tokens(text):
        if token.kind == "close":
            reasons.pop()
        reason = reasons[-1]
        if token.kind == "open":
            match = pattern.match(text, token.start, token.end)
            why = str(match.lastgroup) if match else reason
            reasons.append("" if why == "text" else why)
        said = _BLANK.sub("", unescape(text[token.start : token.end])) if token.kind in ("text", "cdata") else ""
        if not any(map(str.isalpha, said)):
            yield Part(token.start, token.end, "markup")
        elif reason or _overlaps(seen, token.start, token.end) or is_syntax(text[token.start : token.end]):
            yield Part(token.start, token.end, reason.replace("_", " "))


def _seen(text: str, segment: Segment) -> Iterator[Span]:
    """Yields the parts of a text that a segment says, without what stays as it is in it."""
    place, end = segment.span
    for tag in singles(segment.source.tags):
        if text.startswith("<", tag.open[0]):  # and is no word that is copied
            yield place, tag.open[0]
            place = tag.open[1]
    yield place, end


def _overlaps(spans: Sequence[Span], start: int, end: int) -> bool:
    number = bisect_right(spans, (end, 0))
    return number > 0 and spans[number - 1][1] > start
