"""The blocks of Markdown as cmark reads them, which is another parser than the reader's, and the check by them."""

from __future__ import annotations

import ctypes
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from html import unescape
from typing import Any, Final, NamedTuple, final

from specmt.formats.anchors import new_targets
from specmt.formats.commonmark import CAPTION, DIRECTIVE, ENTRY, OF_TEXT
from specmt.formats.commonmark_inline import ROLE
from specmt.formats.document import KEPT, Part, Segment, TextDocument, edited
from specmt.formats.encoding import decode
from specmt.formats.front import FRONT
from specmt.types import Span, Tagged

_NAMES: Final = (
    "block_quote list item tasklist code_block html_block paragraph heading thematic_break table table_header "
    "table_row table_cell footnote_definition custom_block"
)
_BLOCKS: Final = frozenset(_NAMES.split())
_LITERAL: Final = frozenset(("code", "code_block", "html_inline", "html_block", "text"))
_ROLE: Final = re.compile(rf"{ROLE}\Z")
_EXTENSIONS: Final = (b"table", b"strikethrough", b"autolink", b"tasklist")
_FOOTNOTES: Final = 1 << 13
_SOURCE_POSITIONS: Final = 1 << 1
_NO_XML: Final = bytes(n for n in range(32) if n not in b"\t\n\r")
_ELEMENT: Final = re.compile(r"<(/?\w+)([^>]*)>([^<]*)(?:</(?:text|code|code_block|html_inline|html_block)>)?")
_OUTERMOST: Final = re.compile(r"\n(?=  <\w)")
"""Where blocks begin that are in no other."""

_ATTRIBUTE: Final = re.compile(r' ([\w:]+)="([^"]*)"')
_ONE_LINE: Final = str.maketrans("\t\n\r", "   ")
_TEXT_ATTRIBUTE: Final = re.compile(
    r"""\b(title|alt|label|placeholder|aria-label|description|summary|caption|header|heading|subtitle
        |tooltip|tip|text|content|value)=(?:"[^"]*"|'[^']*')""",
    re.VERBOSE,
)
_DESTINATION: Final = re.compile(r"""(?<=destination=)\S+|(?<=(?:src|ref)=["'])[^"']+""")
_TAG: Final = re.compile(r"""<!--(?:[^<]|<(?!!--)){0,10000}?-->|</?[A-Za-z](?:[^<>"']|"[^"]*"|'[^']*')*>""", re.DOTALL)
_HEADER: Final = re.compile(
    r"^ *(?:(?:`{3,}|~{3,})(?:\{| ?ad)|(?:!!!|\?\?\?\+?)[ \t]*[\w\"]|===[!+]*[ \t]+\"|:[ \t]+\S)", re.MULTILINE
)
_OPENS: Final = frozenset("`~!?=:")
"""How headers and fences begin."""

_MOST_DEEP: Final = 20
"""How much of the markup that other markup is in counts."""

_TERM: Final = re.compile(r"\A *:[ \t]+")
_LABEL: Final = re.compile(r"^\([^\n]+\)=[ \t]*$", re.MULTILINE)
_ITEM: Final = r"(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)*"
_FENCE: Final = re.compile(rf" {{0,3}}{_ITEM}(`{{3,}}|~{{3,}})")
"""A fence; one that begins in the first line of an item ends in a line of its own."""

_MARKS: Final = " \t-*+0123456789.)"
"""What marks of items consist of."""

_COPIED: Final = re.compile(
    r"\{\{.{0,1000}?\}\}|\{%.{0,1000}?%\}|\[\[[^\[\]|\n]*|\$\$[^$]+\$\$|:::+[\w-]*|\[\^[^\]\s]{1,300}\]|\[![A-Z]+\]"
    r"|\{:[^}\n]{0,1000}\}|!!!(?<=^!!!) *\w+"
)
"""What is text to cmark, but markup to those that a page is written for; each begins with a mark."""


@dataclass(slots=True)
class Block:
    """A block without what it says."""

    kind: str
    depth: int
    place: str
    """From where to where it is, as cmark says that; empty where no one asked."""

    attributes: tuple[tuple[str, str], ...]
    inlines: dict[tuple[str, ...], int] = field(default_factory=dict)
    """What inline markup there is, with the markup that it is in, its targets, code and tags."""

    said: list[str] = field(default_factory=list)

    @property
    def lines(self) -> Span:
        """Its first and its last line, from 1."""
        first, _, last = self.place.partition("-")
        return int(first.partition(":")[0] or 0), int(last.partition(":")[0] or 0)

    def count(self, found: list[str]) -> None:
        """Counts tags and the like, each different one of which is looked at once."""
        for said, times in Counter(found).items() if found else ():
            self.add((_plain(said),), times)

    def add(self, key: tuple[str, ...], times: int = 1) -> None:
        """Counts what a key says; a counter would take as long to begin as a short block takes in all."""
        self.inlines[key] = self.inlines.get(key, 0) + times


class Fault(NamedTuple):
    """A block that is not in a translation as it is in the source."""

    lines: Span
    """Of the source."""

    text: str


def _read(xml: str) -> list[Block]:
    """Returns the blocks that cmark says; what is in a tag of its XML has no ``<`` and no ``>``."""
    blocks: list[Block] = []
    opened: list[Block] = []
    inlines: list[str] = []
    for name, raw, literal in _ELEMENT.findall(xml):
        if name == "text":
            if opened:
                opened[-1].said.append(literal)
        elif name == "softbreak":
            opened[-1].said.append("\n")
        elif name in _BLOCKS:
            _, place, rest = raw.split('"', 2) if raw.startswith(" sourcepos=") else ("", "", raw)
            block = Block(name, len(opened), place, _attributes(rest))
            blocks.append(block)
            if name == "code_block":
                block.add((unescape(literal),))
            elif name == "html_block":
                block.count(_TAG.findall(unescape(literal)))
            elif rest[-1:] != "/":
                opened.append(block)
        elif name[0] != "/":
            rest = raw.split('"', 2)[2] if raw.startswith(" sourcepos=") else raw
            inlines.append(" ".join([name, *map("=".join, _attributes(rest))]))
            if name in _LITERAL:
                said = unescape(literal)
                before = opened[-1].said[-1:] if name == "code" and said.endswith(">") else []
                if before and _ROLE.search(before[0]):
                    said = said[said.rfind("<") :]
                opened[-1].add((*sorted(inlines[-_MOST_DEEP:]), _plain(said)))
                opened[-1].said += "`" if name == "code" else ""  # lest what is around it be one text
            elif opened:
                opened[-1].add(tuple(sorted(inlines[-_MOST_DEEP:])))
            if name in _LITERAL or rest.endswith("/"):
                inlines.pop()
        elif name[1:] in _BLOCKS:
            block = opened.pop()
            block.count(_COPIED.findall(unescape("".join(block.said))))
            block.said = []
        elif inlines:
            inlines.pop()
    return blocks


@lru_cache(256)
def _attributes(raw: str) -> tuple[tuple[str, str], ...]:
    """Returns the attributes of an element in order."""
    found = _ATTRIBUTE.findall(raw.removesuffix(' xml:space="preserve"'))
    meant = ((key, unescape(value.translate(_ONE_LINE))) for key, value in sorted(found))
    return tuple((key, value if key != "title" else value and "…") for key, value in meant)  # titles are texts


def _plain(tag: str) -> str:
    """Returns a tag without the texts in it, and code with plain spaces."""
    if tag.startswith("<!--"):
        return "<!---->"
    return " ".join((_TEXT_ATTRIBUTE.sub(r"\1", tag) if "=" in tag else tag).split())


def blocks_of(text: str, *, mdx: bool = False, known: dict[str, list[Block]] | None = None) -> list[Block]:
    """Returns the blocks of a page, its front matter aside.

    :param known: what was read before, of which the same is not read again, and takes what is; then no places are said
    """
    front = FRONT.match(text)
    if front is not None:
        text = "\n" * text.count("\n", 0, front.end()) + text[front.end() :]
    data = _for_cmark(text, mdx=mdx).encode("utf-8", "replace").replace(b"\0", b"?")
    said = _cmark_xml(data, _FOOTNOTES | (_SOURCE_POSITIONS if known is None else 0)).translate(None, _NO_XML)
    xml = said.replace(b"<unknown>", b"footnote").decode().partition("<document")[2].partition(">")[2]
    if known is None:
        return _read(xml)
    parts = _OUTERMOST.split(xml)
    found = {part: known[part] if part in known else _read(part) for part in parts}
    known.clear()
    known.update(found)
    return [block for part in parts for block in found[part]]


def _for_cmark(text: str, *, mdx: bool) -> str:
    """Returns a page with as many lines in which what is text to its site is no code to cmark.

    That are the bodies of admonitions, tabs and definitions, of directives of MyST, and what is indented in MDX.
    """
    text = _LABEL.sub("", text)
    if not mdx and _HEADER.search(text) is None:
        return text
    lines: list[str] = []
    headers: list[int] = []  # how far the headers are indented whose bodies a line may be in
    directives: list[str] = []
    fence, depth, cut = "", 0, 0
    in_toctree = False
    in_options = False  # of a directive whose body is code: these may have text
    for line in text.split("\n"):
        in_options = in_options and CAPTION.fullmatch(line.lstrip(" >")) is not None
        if in_toctree and (entry := ENTRY.fullmatch(line.strip())) and entry["target"]:
            line = entry["target"]
        if in_options:
            lines.append("")
            continue
        if not (mdx or headers or (fence and depth)) and line.lstrip(_MARKS)[:1] not in _OPENS:
            lines.append(line)
            continue
        indent = len(line) - len(line.lstrip(" \t" if mdx else " "))
        if line.strip():
            while headers and indent < headers[-1] + 4:
                headers.pop()
            if fence and depth > len(headers):  # what is not closed ends with what it is in
                lines[-1] = lines[-1] or fence
                fence = ""
        if mdx and not fence:
            cut = indent
        said = line[min(indent, cut if mdx else 4 * len(headers)) :]
        if mdx and not fence and said.startswith("<"):
            said = f"\u200b{said}"  # no block of HTML, which would hide the marks of code
        mark = _FENCE.match(said)
        directive = DIRECTIVE.match(said.rstrip(), mark.start(1)) if mark is not None and not fence else None
        if directive is not None and (directive["kind"] or directive["name"] in OF_TEXT):
            directives.append(directive["fence"])
            said = said.replace(directive["fence"], ":::", 1)
        elif not fence and directives and said.strip() == directives[-1]:
            directives.pop()
            said = ":::"
        elif mark is not None and (not fence or (said.strip() == mark[1] and mark[1].startswith(fence))):
            fence, depth = "" if fence else mark[1], len(headers)
            in_options = directive is not None
            in_toctree = directive is not None and directive["name"] == "toctree"
        if not fence and not mdx and mark is None:
            inner = _TERM.sub(lambda match: " " * len(match[0]), line)  # a definition that begins with an admonition
            headers += [
                len(each) - len(each.lstrip(" ")) for each in dict.fromkeys((line, inner)) if _HEADER.match(each)
            ]
        lines.append(said)
    return "\n".join(lines)


def compare(
    source: Sequence[Block], target: Sequence[Block], targets: Mapping[str, str] | None = None
) -> Iterator[Fault]:
    """Yields the blocks that differ; what follows one of another kind is not looked at.

    :param targets: of links, and what they are to be in the target
    """
    for number, (one, other) in enumerate(zip(source, target, strict=False)):
        is_same = one.kind == other.kind and one.depth == other.depth
        if not is_same or one.attributes != other.attributes:
            before = one if is_same or not number else source[number - 1]
            others = [f"{key}={value}" for key, value in other.attributes if (key, value) not in one.attributes]
            what = " ".join([other.kind, *others]) if is_same else other.kind
            yield Fault((before.lines[0], one.lines[1]), f"{one.kind} would be read as {what}")
            if not is_same:
                return
        inlines = _retargeted(one.inlines, targets) if targets and one.inlines else one.inlines
        if inlines != other.inlines:
            lost, new = Counter(inlines) - Counter(other.inlines), Counter(other.inlines) - Counter(inlines)
            parts = [f"{said[-1]!r} is lost" for said in lost] + [f"{said[-1]!r} is new" for said in new]
            yield Fault(one.lines, f"in a {one.kind}, {'; '.join(parts[:3])}")
    if len(source) != len(target):
        last = source[min(len(source), len(target)) - 1] if source and target else Block("", 0, f"1-{1 << 30}", ())
        yield Fault(last.lines, f"there would be {len(target)} blocks instead of {len(source)}")


def _retargeted(inlines: Mapping[tuple[str, ...], int], targets: Mapping[str, str]) -> dict[tuple[str, ...], int]:
    def change(said: str) -> str:
        return _DESTINATION.sub(lambda match: targets.get(match[0], match[0]), said) if "=" in said else said

    found: dict[tuple[str, ...], int] = {}
    for key, count in inlines.items():
        changed = tuple(map(change, key))
        found[changed] = found.get(changed, 0) + count
    return found


@final
class Checked:
    """A document of Markdown that is read by another parser, too, whenever it is written."""

    def __init__(
        self,
        document: TextDocument,
        *,
        mdx: bool,
        targets: Mapping[str, str],
        slugs: Mapping[int, str],
        moved: dict[str, str],
    ) -> None:
        """
        :param targets: the targets of links that writing changes, and what they become
        :param slugs: the ids of its headings, by where these begin
        :param moved: those of them that writing changes, and what they become
        """
        self.segments: Sequence[Segment] = document.segments
        self.parts: Sequence[Part] = document.parts
        self.document: Final = document
        self.slugs: Final = slugs
        self.moved: Final = moved
        self._mdx = mdx
        self._targets = targets
        self._source: list[Block] = []
        self._known: dict[str, list[Block]] = {}

    def relinked(self, change: Callable[[str], str]) -> bytes:
        """Returns it with other targets of links and images."""
        edits = [edit for edit, *_ in new_targets(self.document.text, self.parts, change)]
        return self.document.encoding.encode(edited(self.document.text, edits))

    def write(self, translations: Mapping[int, Tagged], tell: Callable[[int, str], None]) -> bytes:
        told: dict[tuple[int, str], None] = {}
        left = dict(translations)
        if left and not self._source:
            self._source = blocks_of(self.document.text, mdx=self._mdx)
        while True:
            data = self.document.write(left, lambda number, what: told.setdefault((number, what)))
            if not left:
                self.moved.clear()
                break
            blocks = blocks_of(decode(data)[0], mdx=self._mdx, known=self._known)
            faults = list(compare(self._source, blocks, self._targets))
            if not faults:
                break
            numbers = sorted(left, key=lambda number: self.segments[number].line)
            lines = [self.segments[number].line for number in numbers]
            wrong = {
                number: fault.text
                for fault in faults
                for number in numbers[bisect_left(lines, fault.lines[0]) : bisect_right(lines, fault.lines[1])]
            }
            for number, what in (wrong or dict.fromkeys(left, faults[0].text)).items():
                told[number, f"{KEPT}: {what}"] = None
                del left[number]
        for number, what in told:
            tell(number, what)
        return data


@cache
def _library() -> tuple[Any, Any]:
    """Returns cmark, whose nodes the package's own functions never free, and C's."""
    from cmarkgfm import _cmark, cmark

    cmark.core_extensions_ensure_registered()
    library, pointer = ctypes.CDLL(_cmark.__file__), ctypes.c_void_p
    for name, result, *arguments in (
        ("parser_new", pointer, ctypes.c_int),
        ("find_syntax_extension", pointer, ctypes.c_char_p),
        ("parser_attach_syntax_extension", ctypes.c_int, pointer, pointer),
        ("parser_feed", None, pointer, ctypes.c_char_p, ctypes.c_size_t),
        ("parser_finish", pointer, pointer),
        ("parser_free", None, pointer),
        ("render_xml", pointer, pointer, ctypes.c_int),
        ("node_free", None, pointer),
    ):
        function = getattr(library, f"cmark_{name}")
        function.restype, function.argtypes = result, arguments
    own = ctypes.CDLL(None)
    own.free.argtypes = [pointer]
    return library, own


def _cmark_xml(data: bytes, options: int) -> bytes:
    """Returns what cmark, with GitHub's extensions, reads, as XML."""
    library, own = _library()
    parser = library.cmark_parser_new(options)
    for name in _EXTENSIONS:
        library.cmark_parser_attach_syntax_extension(parser, library.cmark_find_syntax_extension(name))
    library.cmark_parser_feed(parser, data, len(data))
    root = library.cmark_parser_finish(parser)
    said = library.cmark_render_xml(root, options)
    try:
        return ctypes.string_at(said)
    finally:
        own.free(said)
        library.cmark_node_free(root)
        library.cmark_parser_free(parser)
