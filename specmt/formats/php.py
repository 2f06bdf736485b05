"""Texts of programs in PHP: arrays that are returned (Laravel) and variables that are filled (Moodle, phpBB)."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import tree_sitter_php
from tree_sitter import Language, Node, Parser

from specmt.errors import DataError
from specmt.formats.document import KEPT, Document, Edit, FormatOptions, LineNumbers, Part, Segment, Tell, TextDocument
from specmt.formats.encoding import decode
from specmt.formats.inline import Inline, in_place, render
from specmt.formats.plurals import count_of_forms, plural_forms
from specmt.formats.values import NAME, is_code
from specmt.types import Span, Tagged

_VARIABLES: Final = frozenset(("$_", "$_LANG", "$l", "$lang", "$messages", "$string", "$txt"))
"""What programs keep their texts in."""

_VARIABLE: Final = re.compile(r"(\$\w+)\s*(.*)", re.DOTALL)
_KEY: Final = re.compile(r"[^\[\]\s'\"]+")
_NAME: Final = re.compile(f"{NAME}*")
_MOST_OPEN: Final = 100
"""How many errors there may be, and how many comments that do not end, as in strings: for each of these tree-sitter
looks through all of the file."""

_SMALL: Final = 16 << 10
"""Smaller files take little time whatever is in them."""

_ERRORS: Final = ("resume", "skip_token")
"""What tree-sitter logs of errors: for each of them it goes back over what is before it."""

_MOST_STEPS: Final = 30
"""How many steps a byte may take; up to 12 do in files without errors."""

_RANGE: Final = re.compile(r"\s*(?:\{[\d,]+\}|[\[\]][-\d*Inf]+,[-\d*Inf]+[\[\]])\s*")
"""For which numbers a form of Laravel is."""

_ESCAPE: Final = re.compile(r"\\(?:u\{([0-9A-Fa-f]{1,6})\}|x([0-9A-Fa-f]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "v": "\v", "f": "\f", "e": "\x1b", "$": "$", '"': '"', "\\": "\\"}
_AROUND: Final = frozenset(("compound_statement", "else_clause", "if_statement"))
_QUOTED: Final = re.compile(r"""(['"]).*?\1""")
_LEFT: Final = {
    "binary_expression": "it is put together from parts",
    "heredoc": "it is a heredoc",
    "nowdoc": "it is a nowdoc",
}


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads the strings that are values of arrays of texts.

    :raises DataError: it is no PHP.
    """
    text, encoding = decode(data, fallback="latin-1")
    last = text.rfind("*/") + 1
    if text.count("/*", last) > _MOST_OPEN:
        raise DataError(f"line {LineNumbers(text)(text.index('/*', last))} is not PHP: a comment does not end")
    root = parsed(text)
    lines = LineNumbers(text)
    if root.has_error:
        raise DataError(f"line {lines(_error(root).start_byte)} is not PHP")
    reader = _Reader(text, lines, options.target)
    return TextDocument(text, encoding, list(reader.segments(root)), parts=reader.parts)


def parsed(text: str) -> Node:
    """Returns the tree of a file, in which places in bytes are places in the text.

    A file with many errors, or heredocs that do not end, ends behind them, lest the time grow with their square.

    :raises DataError: it is read over and over.
    """
    parser, data = Parser(Language(tree_sitter_php.language_php())), re.sub(r"[^\x00-\x7f]", "x", text).encode()
    if len(data) < _SMALL:
        return parser.parse(data).root_node
    steps = errors = 0

    def count(_: object, said: str) -> None:
        nonlocal steps, errors
        steps += 1
        errors += said.startswith(_ERRORS)

    def part(place: int, _: object) -> bytes:
        return data[place : place + 1024] if errors <= _MOST_OPEN and steps <= _MOST_STEPS * len(data) else b""

    parser.logger = count
    root = parser.parse(part).root_node
    if steps > _MOST_STEPS * len(data) and not root.has_error:
        raise DataError("takes too long to be read: heredocs do not end")
    return root


def _error(node: Node) -> Node:
    """Returns where a tree has an error, as deep as it is known."""
    while not (node.is_error or node.is_missing):
        within = next((child for child in node.children if child.has_error or child.is_missing), None)
        if within is None:
            break
        node = within
    return node


def children(node: Node) -> Iterator[Node]:
    """Yields the named children of a node, which does not keep them as it does those that are asked of itself."""
    cursor = node.walk()
    is_there = cursor.goto_first_child()
    while is_there:
        if cursor.node is not None and cursor.node.is_named:
            yield cursor.node
        is_there = cursor.goto_next_sibling()


def values(statement: Node, text: str) -> Iterator[tuple[str, Node]]:
    """Yields what a statement returns or keeps in a variable of texts, and its key; of calls, the arrays in them."""
    inner = statement.named_children[0] if statement.named_children else statement
    path = ""
    if statement.type == "expression_statement" and "assignment" in inner.type:
        variable = _VARIABLE.match(text, inner.start_byte, inner.named_children[0].end_byte)
        if variable is None or variable[1] not in _VARIABLES:
            return
        path, inner = ".".join(_KEY.findall(variable[2])), inner.named_children[-1]
    elif statement.type != "return_statement":
        return
    if inner.type == "function_call_expression" and not path:
        is_known = text.startswith("array_", inner.start_byte)
        for argument in inner.named_children[-1].named_children if is_known else ():
            yield from ((path, each) for each in argument.named_children if each.type == "array_creation_expression")
    else:
        yield path, inner


def elements(array: Node, path: str, text: str) -> Iterator[tuple[Node, str, Node]]:
    """Yields the elements of an array, their keys and their values."""
    count = 0
    for element in children(array):
        parts = [part for part in element.named_children if part.type != "comment"]
        if element.type == "array_element_initializer" and parts:
            key = text[parts[0].start_byte : parts[0].end_byte].strip("'\"") if len(parts) > 1 else str(count)
            count += len(parts) == 1
            yield element, f"{path}.{key}".strip("."), parts[-1]


class _Reader:
    def __init__(self, text: str, lines: LineNumbers, target: str) -> None:
        self._text = text
        self._lines = lines
        self._count = count_of_forms(target)
        self._plurals = plural_forms(target)
        self.parts: list[Part] = []

    def segments(self, root: Node) -> Iterator[Segment]:
        """Yields the texts of a file."""
        for node in children(root):
            if node.type in _AROUND:
                yield from self.segments(node)
                continue
            found = [*values(node, self._text)]
            for path, value in found:
                if path or value.type == "array_creation_expression":
                    yield from self._value(value, path, has_forms=node.type == "return_statement")
            if not found:
                self.parts.append(Part(node.start_byte, node.end_byte, "code, a remark or a page"))

    def _raw(self, node: Node) -> str:
        return self._text[node.start_byte : node.end_byte]

    def _value(self, node: Node, path: str, *, has_forms: bool) -> Iterator[Segment]:
        """Yields the texts of a value.

        :param has_forms: whether it may be plural forms with bars between them
        """
        if node.type == "array_creation_expression":
            for _, name, value in elements(node, path, self._text):
                yield from self._value(value, name, has_forms=has_forms)
        elif node.type in ("string", "encapsed_string"):
            yield from self._string(node, path, has_forms=has_forms)
        elif self._has_text(node):
            said, start = Tagged(self._raw(node)), node.start_byte
            reason = f"{KEPT}: {_LEFT.get(node.type, 'it is code')}"
            yield Segment(said, self._lines(start), lambda *_: (), "skipped", context=path, reason=reason, start=start)

    def _has_text(self, node: Node) -> bool:
        """Whether code that is left has text in it."""
        if node.type in _LEFT:
            return re.search("[\"'<]", self._raw(node)) is not None
        return any(re.search(r"\w\s+\w", said[0]) for said in _QUOTED.finditer(self._raw(node)))

    def _string(self, node: Node, path: str, *, has_forms: bool) -> Iterator[Segment]:
        start, end = node.start_byte + 1, node.end_byte - 1
        raw = self._text[start:end]
        is_double = node.type == "encapsed_string"
        decode_ = _double if is_double else _single
        if self._text[start - 1] not in "'\"" or is_code(decode_(raw), path.rpartition(".")[2]):
            self.parts.append(Part(start, end, "no text"))
            return
        code = list(self._variables(node)) if is_double else []
        if has_forms:
            code += [(start + match.start(), start + match.end()) for match in _NAME.finditer(raw)]
        code.sort()
        forms = self._forms(raw, start) if has_forms else [(start, end)]
        is_simple = len(forms) == 2 and not _RANGE.match(raw)
        encode = partial(_escaped, is_double=is_double, keeps_lines="\n" in raw)
        for number, form in enumerate(forms):
            if is_simple and self._count == 1 and number == 0:
                continue
            inline = Inline(self._text, decode_, escaped=r"\\[ntr]" if is_double else "")
            place = form[0]
            for span in code[bisect_left(code, (form[0], 0)) : bisect_left(code, (form[1], 0))]:
                if place <= span[0] and span[1] <= form[1]:
                    inline.text(place, span[0])
                    inline.opaque(*span)
                    place = span[1]
            inline.text(place, form[1])
            for segment in in_place(inline, self._lines, encode, context=path, forms=self._plurals, entities=True):
                is_last = is_simple and number == 1 and self._count != 2
                yield self._with_forms(segment, start, form, encode) if is_last else segment

    def _variables(self, node: Node) -> Iterator[Span]:
        """Yields where variables stand in a string."""
        brace = -1
        for part in node.children[1:-1]:
            if part.type == "{":
                brace = part.start_byte
            elif part.type == "}":
                yield brace, part.end_byte
                brace = -1
            elif part.type not in ("string_content", "escape_sequence") and brace < 0:
                yield part.start_byte, part.end_byte

    def _forms(self, raw: str, start: int) -> list[Span]:
        """Returns where the plural forms of a string are; one, where it has no others."""
        found: list[Span] = []
        for match in re.finditer(r"[^|]+", raw):
            head = _RANGE.match(raw, *match.span())
            found.append((start + (head.end() if head else match.start()), start + match.end()))
        return found

    def _with_forms(self, segment: Segment, start: int, form: Span, encode: Callable[[str], str]) -> Segment:
        """Returns the form for many, which is written as often as the target has forms beside the first."""

        def edits(translation: Tagged, _: Tell) -> Iterator[Edit]:
            said = render(translation, encode)
            more = [piece for _ in range(self._count - 2) for piece in ("|", *said)]
            yield Edit(start if self._count == 1 else form[0], form[1], [*said, *more])

        return Segment(segment.source, segment.line, edits, context=segment.context)


def _single(raw: str) -> str:
    return re.sub(r"\\([\\'])", r"\1", raw)


def _double(raw: str) -> str:
    def meaning(match: re.Match[str]) -> str:
        code = match[1] or match[2]
        if code or match[3]:
            number = int(code, 16) if code else int(match[3], 8)
            return chr(number) if number < 0xD800 or 0xDFFF < number < 0x110000 else match[0]
        return _ESCAPED.get(match[4], match[0])

    return _ESCAPE.sub(meaning, raw)


def _escaped(said: str, *, is_double: bool, keeps_lines: bool) -> str:
    said = said.replace("\\", "\\\\")
    if not is_double:
        return said.replace("'", "\\'")
    said = said.replace('"', '\\"').replace("$", "\\$").replace("\t", "\\t").replace("\r", "\\r")
    return said if keeps_lines else said.replace("\n", "\\n")
