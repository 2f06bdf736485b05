"""Tags of XML and HTML with their places, which parsers that build trees do not keep."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from sys import intern
from typing import Final, Literal, NamedTuple
from xml.parsers import expat

from specmt.errors import DataError
from specmt.formats.document import Edit, Part, Segment, TextDocument
from specmt.formats.encoding import decode_xml, unescape
from specmt.formats.inline import Inline
from specmt.types import Span

Kind = Literal["text", "open", "close", "empty", "comment", "cdata", "other"]

_ATTRIBUTE: Final = re.compile(r"""([^\s=/>"'<][^\s=/>"'<]*)(?:\s*=\s*("[^"]*"|'[^']*'|[^\s"'>]+))?""")
_INSIDE: Final = r"""[^<>"']*(?:(?:"[^"]*"|'[^']*')[^<>"']*)*"""
_SUBSET: Final = r"""(?:[^]"'<]|"[^"]*"|'[^']*'|<!--.*?-->|<\?.*?\?>|<(?!!--|\?))*"""
_XML: Final = re.compile(
    rf"""(?P<comment><!--.*?-->) | <!\[CDATA\[(?P<cdata>.*?)\]\]> | (?P<other><\?.*?\?>
        | <!DOCTYPE\b{_INSIDE}(?:\[{_SUBSET}\]\s*)?>)
        | </(?P<close>[^\s<>/"'=]+)\s*> | <(?P<open>[^\s<>/"'=!?]+){_INSIDE}> | (?P<text>[^<]+)""",
    re.VERBOSE | re.DOTALL,
)
_HTML: Final = re.compile(
    r"""(?P<comment><!--(?:.*?--!?>|>)) | (?P<other><(?:(?!!--)[!?]|/(?![A-Za-z]))[^>]*>)
        | </(?P<close>[A-Za-z][^\s>/]*)(?=[\s>/])[^>]*>
        | <(?P<open>[A-Za-z][^\s>/]*)(?=[\s>/])[^>"']*(?:(?:"[^"]*"|'[^']*'|["'](?=\s*/?>))[^>"']*)*>
        | (?P<text>[^<]+|<)""",
    re.VERBOSE | re.DOTALL,
)
_STARTS_TAG: Final = re.compile(r"<[A-Za-z!?]|</.", re.DOTALL)
_RAW: Final = frozenset(("script", "style", "xmp", "iframe", "noembed", "noframes", "textarea", "title"))
"""Elements of HTML in which there are no tags."""

_REFERENCE: Final = re.compile(r"&(?:#[0-9]+|#x[0-9A-Fa-f]+|[A-Za-z_][\w.-]*);")
_PREDEFINED: Final = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}

_CUT: Final = re.compile(
    r"""\s(?:id|equiv|equivStart)=["'](?:(?:START|CLOSE)_)?(?:LINE_BREAK|HORIZONTAL_RULE|PARAGRAPH|HEADING_LEVEL\d|LIST_ITEM
        |(?:UN)?ORDERED_LIST|TABLE_\w+|TAG_DIV)(?:_\d+)?["']
        | \s(?:ctype|type)=["']lb["'] | \ssubType=["']xlf:lb["']""",
    re.VERBOSE,
)
"""What of XLIFF is a break, or is around a paragraph."""

_HALF: Final = re.compile(r"#(START|CLOSE)_(\w+?)(?:_\d+)?")


class Token(NamedTuple):
    """A tag, a comment or text."""

    kind: Kind
    start: int
    end: int
    name: str = ""

    def attributes(self, text: str) -> dict[str, Span]:
        """Returns where the values of the attributes are, with their quotes."""
        found: dict[str, Span] = {}
        for match in _ATTRIBUTE.finditer(text, self.start + 1 + len(self.name), self.end - 1):
            found.setdefault(match[1], match.span(2) if match[2] is not None else (match.end(), match.end()))
        return found

    def value(self, text: str, *names: str) -> str:
        """Returns the value of the first of some attributes that it has; nothing where it has none."""
        attributes = self.attributes(text)
        return next((value_of(text, attributes[each]) for each in names if each in attributes), "")


def xml_document(
    data: bytes,
    segments: Callable[[str], Iterable[Segment]],
    parts: Sequence[Part] = (),
    finish: Callable[[str], Iterable[Edit]] = lambda _: (),
) -> TextDocument:
    """Returns an XML document, given what finds the segments in its text.

    :param parts: what is left of it, known when all segments are found
    :param finish: returns what else changes in it where any is translated
    :raises DataError: it is damaged.
    """
    text, encoding = decode_xml(data)
    found = list(segments(text))
    return TextDocument(text, encoding, found, finish=lambda _: finish(text), escape=reference, parts=parts)


def xml_tokens(text: str, *, fragment: bool = False) -> Iterator[Token]:
    """Returns the tokens of an XML document, one for each of its characters.

    :param fragment: whether it may be several elements, with text beside them
    :raises DataError: it is not well-formed, at once.
    """
    try:
        _check(text)
    except DataError:
        if not fragment or text.lstrip().startswith(("<?xml", "<!DOCTYPE")):
            raise
        _check(f"<fragment>{text}</fragment>")
    return _tokens(text)


def _tokens(text: str) -> Iterator[Token]:
    place = 0
    while place < len(text):
        match = _XML.match(text, place)
        if match is None:
            raise DataError(f"line {text.count(chr(10), 0, place) + 1} has markup of a kind that is not understood")
        kind = match.lastgroup
        name = intern(match[kind]) if kind in ("open", "close") else ""
        if kind == "open" and text[match.end() - 2] == "/":
            kind = "empty"
        yield Token(kind, place, match.end(), name)  # type: ignore[arg-type]
        place = match.end()


def html_tokens(text: str, place: int = 0, last: int | None = None) -> Iterator[Token]:
    """Yields the tokens of an HTML document, one for each of its characters, with names in lower case.

    :param place: where it starts
    :param last: where it ends; by default the text does
    """
    last = len(text) if last is None else last
    while place < last:
        match = _HTML.match(text, place, last)
        # A tag or a comment that does not end hides the rest, as in browsers.
        if match is None or (match[0] == "<" and _STARTS_TAG.match(text, place, last)):
            yield Token("other", place, last)
            return
        kind = match.lastgroup
        name = intern(match[kind].lower()) if kind in ("open", "close") else ""
        if kind == "open" and text[match.end() - 2] == "/" and name not in _RAW:
            kind = "empty"
        yield Token(kind, place, match.end(), name)  # type: ignore[arg-type]
        place = match.end()
        if kind == "open" and name in _RAW:
            closing = re.compile(f"</{name}(?=[\\s/>])", re.IGNORECASE).search(text, place, last)
            end = closing.start() if closing else last
            if place < end:
                yield Token("text", place, end)
            place = end


class Element(NamedTuple):
    """An element of XML."""

    name: str
    start: int
    end: int
    inside: Span
    """Where its content is."""

    first: Token
    """The tag that opens it."""

    inner: list[Token]
    """What is between its tags."""

    @property
    def elements(self) -> list[Element]:
        """The elements in it that are not in others of those."""
        return list(children(self.inner))


def children(tokens: Iterable[Token], names: Collection[str] = ()) -> Iterator[Element]:
    """Yields the elements that are not in others.

    :param names: those that are looked for, at any depth; by default all
    """
    own: list[Token] = []
    depth = 0
    for token in tokens:
        if depth or (token.kind in ("open", "empty") and (not names or token.name in names)):
            own.append(token)
            depth += (token.kind == "open") - (token.kind == "close")
            if not depth:
                inside = own[0].end, max(own[0].end, token.start)
                yield Element(own[0].name, own[0].start, token.end, inside, own[0], own[1:-1])
                own = []


def opening_with(root: str, text: str) -> Iterator[Token]:
    """Returns the tokens of an XML document.

    :raises DataError: it is not well-formed, or another element than ``root`` is around all.
    """
    tokens = xml_tokens(text)
    first = next(token for token in _tokens(text) if token.kind in ("open", "empty"))
    if local(first.name) != root:
        line = text.count("\n", 0, first.start) + 1
        raise DataError(f"line {line} must open with <{root}>, but has <{local(first.name)}> instead")
    return tokens


def plain_text(text: str, tokens: Iterable[Token]) -> str:
    """Returns what the text among tokens says, without the space around it."""
    said = (text[token.start : token.end] for token in tokens if token.kind in ("text", "cdata"))
    return "".join(map(xml_unescape, said)).strip()


def _check(text: str) -> None:
    """
    :raises DataError: a text is not well-formed XML. Entities are not expanded.
    """
    parser = expat.ParserCreate("utf-8")
    parser.DefaultHandler = lambda _: None  # leaves references to entities as they are
    try:
        parser.Parse(text.encode("utf-8"), True)
    except expat.ExpatError as error:
        raise DataError(f"line {error.lineno} is not well-formed XML ({expat.ErrorString(error.code)})") from error
    except UnicodeEncodeError as error:
        raise DataError("line 1 has characters that are no text") from error


def local(name: str) -> str:
    """Returns a name without its prefix."""
    return name.rpartition(":")[2]


def value_of(text: str, span: Span) -> str:
    """Returns the value of an attribute, which may have quotes."""
    raw = text[slice(*span)]
    return unescape(raw[1:-1] if raw[:1] in ("'", '"') else raw)


def xml_unescape(raw: str) -> str:
    """Returns what raw text or a CDATA section of XML means; references to entities that a document declares stay."""
    if raw.startswith("<![CDATA["):
        return raw[9:-3]

    def meaning(match: re.Match[str]) -> str:
        code = match[0][1:-1]
        if code[0] != "#":
            return _PREDEFINED.get(code, match[0])
        return chr(int(code[2:], 16) if code[1] == "x" else int(code[1:]))

    return _REFERENCE.sub(meaning, raw) if "&" in raw else raw


def add_text(inline: Inline, text: str, start: int, end: int) -> None:
    """Gives raw text of XML to a paragraph; references to entities that the document declares are opaque."""
    place = start
    for match in _REFERENCE.finditer(text, start, end):
        code = match[0][1:-1]
        if code[0] != "#" and code not in _PREDEFINED:
            inline.text(place, match.start())
            inline.opaque(*match.span())
            place = match.end()
    inline.text(place, end)


def xml_escape(text: str) -> str:
    """Returns text as XML writes it between tags."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def quoted(text: str, quote: str = '"') -> str:
    """Returns text as the value of an attribute."""
    escaped = xml_escape(text).replace(quote, "&quot;" if quote == '"' else "&#39;")
    return f"{quote}{escaped}{quote}"


def break_before(text: str, place: int) -> str:
    """Returns the line break and the indentation before an element; nothing where it does not start its line."""
    line = text.rfind("\n", 0, place) + 1
    indent = text[line:place]
    return "" if indent.strip() else ("\r\n" if text[line - 2 : line - 1] == "\r" else "\n") + indent


def reference(char: str) -> str:
    """Returns a character as a number, for encodings that lack it."""
    return f"&#{ord(char)};"


def collect(
    inline: Inline, tokens: Iterable[Token], *, pairs: frozenset[str], halves: Mapping[str, str] | None = None
) -> Inline:
    """Gives a paragraph text, pairs, halves of pairs and, of all other elements, placeholders; returns it.

    :param pairs: elements around text
    :param halves: elements that open or close a pair of the same ``rid``, ``startRef`` or id
    """
    text, halves = inline.source, halves or {}
    opened: list[object] = []  # whether a text ends where the pairs around the place begin and end
    skipped: list[Token] = []  # the elements within one that is left as it is
    for token in tokens:
        name = local(token.name)
        if skipped:
            if token.kind == "open":
                skipped.append(token)
            elif token.kind == "close":
                first = skipped.pop()
                if not skipped:
                    _half(text, inline, first, token.end, halves)
        elif token.kind == "text":
            add_text(inline, text, token.start, token.end)
        elif token.kind == "cdata":
            inline.text(token.start, token.end)
        elif token.kind == "empty":
            _half(text, inline, token, token.end, halves)
        elif token.kind == "open":
            attributes = token.attributes(text)
            protected = any(
                each in attributes and value_of(text, attributes[each]) == value
                for each, value in (("translate", "no"), ("mtype", "protected"))
            )
            if name in pairs and not protected:
                opened.append(halves and _CUT.search(text, token.start, token.end))
                (inline.cut if opened[-1] else partial(inline.open, name=name))(token.start, token.end)
            else:
                skipped.append(token)
        elif token.kind == "close":
            (inline.cut if opened.pop() else partial(inline.close, name=name))(token.start, token.end)
        else:
            inline.point(token.start, token.end)
    return inline


def _half(text: str, inline: Inline, token: Token, end: int, halves: Mapping[str, str]) -> None:
    kind = halves.get(local(token.name))
    attributes = token.attributes(text)
    key = next((attributes[each] for each in ("i", "rid", "startRef", "id") if each in attributes), None)
    name = "" if key is None else f"#{value_of(text, key)}"
    half = _HALF.fullmatch(name) if halves else None
    if half is not None:  # Angular's, of which several have the same end
        kind, name = "open" if half[1] == "START" else "close", f"#{half[2]}"
    if halves and _CUT.search(text, token.start, token.end):
        inline.cut(token.start, end)
    elif kind is None or not name:
        inline.opaque(token.start, end)
    elif kind == "open":
        inline.open(token.start, end, name)
    else:
        inline.close(token.start, end, name)
