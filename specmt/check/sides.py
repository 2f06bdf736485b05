"""What a source and its translation say, text by text, and which texts belong together."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from specmt.formats import read_document
from specmt.formats.blocks import text_of
from specmt.formats.document import NO_WORDS, Document, LineNumbers, Segment, TextDocument
from specmt.formats.inline import render, singles
from specmt.formats.package import Package
from specmt.formats.plurals import CATEGORIES
from specmt.project import Settings, options_of
from specmt.update.pairing import Shape, cheapest

_BLOCKS: Final = ("", "code", "HTML", "JSX", "image", "math")
_HEADING: Final = re.compile("#{1,6} |={1,6} ")

_GOES_ON: Final = re.compile(r"[ \t\\]*\r?\n[ \t>]*")
"""What is between the lines of a paragraph."""

_IN_TAGS: Final = re.compile(r"<[^<>]*>|\]\([^()]*\)")
_QUOTE: Final = re.compile(r"\n[ \t]*(?:>[ \t]?)+")
_WORD: Final = re.compile(r"\w{4,}")
_MARK: Final = re.compile(r"\d+|[\w.%{}/@:-]{0,200}(?:[_%{}@]|[./](?=\w)|(?<=[a-z])[A-Z])[\w.%{}/@-]+")
"""Names, placeholders, paths and numbers."""

_ARRAY: Final = re.compile(r"<string-array\b[^<>]*\sname\s*=\s*[\"']([^\"'<>]*)")
_FORM: Final = re.compile(rf"(.+)([._ ])({'|'.join(CATEGORIES)})")


_POINTS: Final = {
    "note": re.compile(r"<w:(?:foot|end)noteReference\b|<text:note(?![\w-])"),
    "comment": re.compile(r"<w:commentReference\b|<office:annotation(?![\w-])"),
}
_STYLES: Final = {
    "b": re.compile(r'<(?:w:)?b(?:\s*/|\s[^>]*val="(?:1|true|on)")|\bb="1"|fo:font-weight="bold"|="Strong'),
    "i": re.compile(r'<(?:w:)?i(?:\s*/|\s[^>]*val="(?:1|true|on)")|\bi="1"|fo:font-style="italic"|="Emphasis'),
}
"""What word processors write for what HTML has, or would have."""

_OF_LARAVEL: Final = re.compile(r"\A:[A-Za-z_]\w*\Z")
"""A placeholder, which is written in capitals where what it stands for is."""

_STYLE_NAME: Final = re.compile(r'\btext:style-name="([^"]*)"')


class Text(NamedTuple):
    """A text of a document."""

    line: int
    key: str
    raw: str
    """With its markup, as far as that is known."""

    has_accelerator: bool = False

    kind: str = ""
    """What block it is, where it is one."""


class Match(NamedTuple):
    """A text and its translation, if it is there."""

    source: Text
    target: Text | None
    form: str = ""
    """The plural form that the translation is."""

    other: Text | None = None
    """The plural form of the source for other numbers."""

    after: int = 1
    """The line of the translation behind which one that is missing would be."""


def read_side(
    data: bytes, path: Path, file_format: str, languages: tuple[str, str], settings: Settings, *, mdx: bool = False
) -> Document:
    """Reads a source or a translation.

    :param languages: that it is in, and the other one
    :param mdx: whether it is MDX, whatever its name
    :raises DataError: it is damaged.
    """
    options = replace(options_of(path, languages, settings), insists=True, mdx=mdx)
    return read_document(data, str(path), file_format, options)


def texts_of(document: Document, skips: Callable[[str], bool]) -> list[Text]:
    """Returns the texts of a document.

    :param skips: whether those of a key are left out
    """
    members = {name: each.text for name, each, _ in document.documents} if isinstance(document, Package) else {}
    whole = _text(document)
    return [
        Text(each.line, each.context, _said(each, members.get(each.member) or whole), each.accelerators[0])
        for each in _whole(document)
        if not (skips(each.context) or (each.member and each.state == "skipped"))  # as remarks of reviewers
    ]


def _whole(document: Document) -> Iterator[Segment]:
    """Yields segments; of those that are parts of a message, as branches of a plural are, the first alone."""
    before = ("", ("", ""))
    for each in document.segments:
        if not each.written[0] or before != (each.context, each.written):
            yield each
        before = each.context, each.written


def _text(document: Document) -> str:
    inner = text_of(document)
    return "" if inner is None else inner.text


def _said(segment: Segment, text: str) -> str:
    """Returns a text with its markup, or the whole message that it is a part of."""
    return html.unescape(segment.written[0]) or _raw(segment, text)


def _raw(segment: Segment, text: str) -> str:
    if segment.member.endswith(".xml"):
        return "".join(_marked(segment, text))
    pieces = render(segment.source)
    if not text:
        return "".join(each for each in pieces if isinstance(each, str))
    names = (each if isinstance(each, str) else _OF_LARAVEL.sub(_in_braces, text[slice(*each)]) for each in pieces)
    (start, end), around = segment.span, segment.around or segment.span
    return "".join([text[around[0] : start], *names, text[end : around[1]]])


def _in_braces(match: re.Match[str]) -> str:
    return f"{{{match[0].lower()}}}"


def _marked(segment: Segment, text: str) -> Iterator[str]:
    """Yields a text of a word processor's, with HTML for notes and comments and, in the end, for the styles in it.

    :param text: that of the member
    """
    said, place, numbers = segment.source, 0, count(1)
    start, end = segment.around or segment.span
    yield from _points(text, start, segment.span[0])
    for tag in singles(said.tags):
        points = [*_points(text, *tag.open)]
        if points or tag.is_placeholder:
            yield said.text[place : tag.start]
            yield from points or [f"{{t{next(numbers)}}}"]
            place = tag.end
    yield said.text[place:]
    yield from _points(text, segment.span[1], end)
    markup = "".join(text[edit.start : edit.end] for edit in segment.edits(said, lambda _: None))
    for style in {*_STYLE_NAME.findall(markup)}:
        markup += "".join(re.findall(rf'style:name="{re.escape(style)}".*?</style:style>', text, re.DOTALL))
    yield from (f"<{name}></{name}>" for name, pattern in _STYLES.items() if pattern.search(markup))


def _points(text: str, start: int, end: int) -> Iterator[str]:
    """Yields HTML for the notes and comments in a part of a member."""
    for name, pattern in _POINTS.items():
        yield from (f"<{name}/>" for _ in pattern.finditer(text, start, end))


def within(document: Document, skips: Callable[[str], bool]) -> Iterator[Match]:
    """Yields the texts of a document that has translations, with these; the parameters are those of ``texts_of``."""
    text = _text(document)
    for each in _whole(document):
        if each.state == "skipped" or skips(each.context):
            continue
        said = html.unescape(each.written[1]) if each.written[0] else each.target
        source = Text(each.line, each.context, _said(each, text), each.accelerators[0])
        has_target = each.state != "new" and said.strip() != ""
        target = source._replace(raw=said, has_accelerator=each.accelerators[1]) if has_target else None
        yield Match(source, target, after=each.line)


def arrays_in(document: Document) -> set[str]:
    """Returns the keys of which all items of a document of Android must be there."""
    return {*_ARRAY.findall(_text(document))}


def by_key(source: Sequence[Text], target: Sequence[Text], arrays: Collection[str] = ()) -> Iterator[Match]:
    """Yields texts and their translations by their keys; those of one key by their order, if there are as many.

    A plural form that only the translation has belongs to the one for other numbers, and one that it has not need not
    be there.

    :param arrays: keys of texts that are no plural forms
    """
    ours, theirs = _grouped(source), _grouped(target)
    for key, group in ours.items():
        found, form = theirs.get(key) or theirs.get(f"{key}.other", []), _FORM.fullmatch(key)
        name = form[3] if form else ""
        others = ours.get(f"{form[1]}{form[2]}other") if form else None
        if len(found) == len(group):
            more = _joined(others) if others else None
            yield from (Match(one, other, name, more) for one, other in zip(group, found, strict=True))
        elif key in arrays and 0 < len(found) < len(group):
            yield from (Match(group[n]._replace(key=f"{key}[{n}]"), None) for n in range(len(found), len(group)))
        elif found:
            forms = found if len(group) == 1 else [_joined(found)]
            yield from (Match(_joined(group), each, "zero") for each in forms)
        elif form is None or name == "other":
            yield Match(group[0], None)
    for key, group in theirs.items():
        form = _FORM.fullmatch(key)
        if key not in ours and form is not None and (others := ours.get(f"{form[1]}{form[2]}other")):
            yield Match(_joined(others), _joined(group), form[3])


def blocks_of(document: Document) -> list[Text]:
    """Returns the blocks of a page: texts, code and images, or where those are not told apart its texts."""
    inner = text_of(document)
    if inner is None or not any(part.reason == "" or part.pages for part in inner.parts):
        return texts_of(document, lambda _: False)
    return _blocks_in(inner)


def _blocks_in(document: TextDocument) -> list[Text]:
    text, parts = document.text, [part for part in document.parts if part.reason != NO_WORDS]
    parts.sort(key=lambda part: (part.start, -part.end))
    lines, place = LineNumbers(text), 0
    found: list[Text] = []
    for part in parts:
        for line, page in part.pages:
            found += (each._replace(line=line + each.line - 1) for each in _blocks_in(page))
        if part.start >= place and part.reason in _BLOCKS:
            before = text[text.rfind("\n", 0, part.start) + 1 : part.start]
            raw = text[part.start : part.end]
            raw = _QUOTE.sub("\n", raw) if ">" in before else raw
            kind = part.reason or ("heading" if _HEADING.match(before) else "")
            if found and kind == found[-1].kind == "" and _GOES_ON.fullmatch(text, place, part.start):
                found[-1] = found[-1]._replace(raw=f"{found[-1].raw} {raw}")
            else:
                found.append(Text(lines(part.start), "", raw, kind=kind))
        place = max(place, part.end)
    return found


def by_order(source: Sequence[Text], target: Sequence[Text]) -> Iterator[Match]:
    """Yields blocks and their translations by their order and what of them is the same in both."""
    line = 1
    for ones, others in cheapest([*map(_shape, source)], [*map(_shape, target)]):
        if others:
            line = target[others.start].line
            if ones:
                yield Match(_joined(source[ones.start : ones.stop]), _joined(target[others.start : others.stop]))
        else:
            yield Match(source[ones.start], None, after=line)


def marks_of(text: str) -> Counter[str]:
    """Returns names, placeholders, paths and numbers of a text."""
    return Counter(_MARK.findall(text))


def _shape(block: Text) -> Shape:
    text, raw = html.unescape(_IN_TAGS.sub("", block.raw)), html.unescape(block.raw)
    return Shape(block.kind, len(text), marks_of(raw), frozenset(map(str.lower, _WORD.findall(raw))))


def _grouped(texts: Sequence[Text]) -> Mapping[str, list[Text]]:
    groups: dict[str, list[Text]] = {}
    for each in texts:
        groups.setdefault(each.key, []).append(each)
    return groups


def _joined(group: Sequence[Text]) -> Text:
    return group[0]._replace(raw=" ".join(each.raw for each in group))
