"""The outline of documents that are trees: where containers begin and end, and where the values in them are."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, Literal, NamedTuple, final

import yaml
from tree_sitter import Node

from specmt.formats import php, strings
from specmt.formats.html import VOID
from specmt.formats.markup import html_tokens, local, xml_tokens
from specmt.formats.scalars import composed
from specmt.languages import is_code
from specmt.types import Span

_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
"""A token of JSON."""

XML: Final = frozenset(("android", "resx", "xliff", "qt", "tmx"))
"""The formats of XML that have entries."""

TAGGED: Final = frozenset(("html", "xml"))
"""The formats of elements that have no names of their own."""

_DEEPEST: Final = 32
"""So many containers around another one make it a value."""

_NAMES: Final = ("resname", "id", "name")
"""The attributes that tell an element from others."""

_UNITS: Final = frozenset(("string", "plurals", "string-array", "data", "trans-unit", "unit", "message", "tu"))
"""The elements that are whole entries."""


class Mark(NamedTuple):
    """What begins a container or ends it, or a value; of what ends by its indentation the end is empty."""

    start: int
    end: int
    kind: Literal["map", "list", "end", "value"]
    key: str
    """Its path; empty where nothing tells it from others."""


def outline(text: str, file_format: str) -> list[Mark]:
    """Returns the outline of a document that was read before; nothing of one that is no tree."""
    read = _READERS.get(file_format)
    if read is None:
        return []
    tree = _Tree()
    read(text, tree)
    times = Counter((each.kind, each.key) for each in tree.marks)
    return [each if times[each.kind, each.key] == 1 else each._replace(key="") for each in tree.marks]


OPENING: Final = ("map", "list")
"""The kinds of what begins a container."""


@final
class _Tree:
    """Takes what is found, from the beginning to the end."""

    def __init__(self) -> None:
        self.marks: list[Mark] = []
        self.opened: list[int] = []

    def add(self, start: int, end: int, kind: Literal["map", "list", "value"], key: str) -> None:
        if kind != "value":
            self.opened.append(len(self.marks))
        self.marks.append(Mark(start, end, kind, key))

    def close(self, start: int, end: int, *, is_whole: bool = False) -> None:
        """
        :param is_whole: whether the container is a value
        """
        place = self.opened.pop()
        first = self.marks[place]
        if is_whole:
            self.marks[place:] = [Mark(first.start, end, "value", first.key)]
        else:
            self.marks.append(Mark(start, end, "end", first.key))


class JsonValue(NamedTuple):
    """A value of JSON, or what begins or ends one that others are in."""

    kind: Literal["map", "list", "end", "value"]
    path: tuple[str, ...]
    key: Span
    """Where its key is; 0 where it has none."""

    span: Span


def json_values(text: str, most: int | None = None) -> Iterator[JsonValue]:
    """Yields what is in JSON that is known to be well-formed.

    :param most: how many keys of a path are told
    """
    path: list[str | int] = []
    key: Span | None = None
    for match in _TOKEN.finditer(text):
        token, span = match[0], match.span()
        if token in "}]":
            path.pop()
            yield JsonValue("end", tuple(map(str, path[:most])), (0, 0), span)
        elif token == ",":
            key, number = None, path[-1]
            path[-1] = "" if isinstance(number, str) else number + 1
        elif token != ":" and key is None and path and isinstance(path[-1], str):
            path[-1], key = json.loads(token), span
        elif token != ":":
            kind: Literal["map", "list", "value"] = "map" if token == "{" else "list" if token == "[" else "value"
            yield JsonValue(kind, tuple(map(str, path[:most])), key or (0, 0), span)
            if kind != "value":
                path.append("" if kind == "map" else 0)
                key = None


def _json(text: str, tree: _Tree, most: int = _DEEPEST) -> None:
    """
    :param most: how deep the containers are that are values
    """
    for kind, path, key, (start, end) in json_values(text, most + 1):
        if kind == "end":
            tree.close(start, end, is_whole=len(path) >= most)
        else:
            tree.add(key[0] or start, end, kind, ".".join(path) if len(path) <= most else "")


def _xml(text: str, tree: _Tree) -> None:
    opened: list[tuple[str, bool]] = []
    """The paths of the elements around the place, and whether they are values."""
    for token in xml_tokens(text, fragment=True):
        if token.kind in ("open", "empty"):
            is_deep, above = len(opened) > _DEEPEST, f"{opened[-1][0]}/" if opened else ""
            is_unit, name = local(token.name) in _UNITS, token.value(text, *_NAMES)
            path = "" if is_deep else f"{above}{local(token.name)}[{name}]"
            tree.add(token.start, token.end, "map", "" if not (path and name) else name if is_unit else path)
            opened.append((path, is_deep or token.kind == "empty" or is_unit))
        elif token.kind in ("text", "cdata") and opened and text[token.start : token.end].strip():
            opened[-1] = opened[-1][0], True
        if token.kind in ("close", "empty"):
            tree.close(token.start, token.end, is_whole=opened.pop()[1])


def _yaml(text: str, tree: _Tree) -> None:
    for root in composed(text):
        pairs = root.value if isinstance(root, yaml.MappingNode) else []
        first = len(tree.marks)
        if pairs and all(isinstance(value, yaml.MappingNode) and is_code(str(key.value)) for key, value in pairs):
            for _, value in pairs:
                _children(value, [], tree)
        elif isinstance(root, yaml.CollectionNode) and not root.flow_style:
            _children(root, [], tree)
        if len(tree.marks) > first:  # what ends a document, `...`, stays behind all that is new
            last = max(mark.end for mark in tree.marks[first:])
            tree.marks.append(Mark(last, last, "end", "..."))


def _children(node: yaml.Node, path: list[str], tree: _Tree) -> None:
    """Adds what is in a node, but for what is in brackets."""
    if isinstance(node, yaml.MappingNode):
        found = [(key.start_mark.index, key.end_mark.index, str(key.value), value) for key, value in node.value]
    else:
        found = [(each.start_mark.index, 0, str(number), each) for number, each in enumerate(node.value)]
    for start, end, name, value in found:
        here = [*path, name]
        is_alias = value.start_mark.index < start
        is_leaf = isinstance(value, yaml.ScalarNode) or value.flow_style or not value.value or len(here) > _DEEPEST
        if is_leaf or is_alias:
            tree.add(start, end if is_alias else max(end, value.end_mark.index), "value", ".".join(here))
        else:
            tree.add(start, start, "map" if isinstance(value, yaml.MappingNode) else "list", ".".join(here))
            _children(value, here, tree)
            last = max(
                (mark.end for mark in tree.marks[tree.opened[-1] :] if mark.kind in ("end", "value")), default=start
            )
            tree.close(last, last)


def _php(text: str, tree: _Tree) -> None:
    for statement in php.children(php.parsed(text)):
        for path, value in php.values(statement, text):
            _elements(value, path, statement.start_byte, statement.end_byte, text, tree)


def _elements(node: Node, path: str, start: int, end: int, text: str, tree: _Tree) -> None:
    """Adds a value of PHP, and what is in it.

    :param start: where what it belongs to begins
    :param end: where that ends
    """
    if node.type != "array_creation_expression" or len(tree.opened) > _DEEPEST:
        tree.add(start, end, "value", path)
        return
    tree.add(start, text.index("[" if text[node.start_byte] == "[" else "(", node.start_byte) + 1, "map", path)
    for element, name, value in php.elements(node, path, text):
        _elements(value, name, element.start_byte, element.end_byte, text, tree)
    tree.close(node.end_byte - 1, end)


def _strings(text: str, tree: _Tree) -> None:
    for entry in strings.entries(text) if not text.lstrip("\ufeff \t\r\n").startswith("<?xml") else ():
        tree.add(entry[0].start(), entry[-1].end(), "value", strings.key_of(entry))


_READERS: Final[dict[str, Callable[[str, _Tree], None]]] = {
    "json": _json,
    "php": _php,
    "strings": _strings,
    "xcstrings": partial(_json, most=2),
    "yaml": _yaml,
    **dict.fromkeys(XML, _xml),
}


def tag_bounds(text: str, spans: Iterable[Span], file_format: str) -> Iterator[int]:
    """Yields where elements begin and end in documents whose elements have no names, outside of texts.

    :param spans: where the texts are
    """
    if file_format not in TAGGED:
        return
    inside, last = sorted(spans)[::-1], 0
    opened: list[str] = []
    counts: Counter[str] = Counter()
    for token in html_tokens(text) if file_format == "html" else xml_tokens(text, fragment=True):
        while inside and inside[-1][0] <= token.start:
            last = max(last, inside.pop()[1])
        if token.start < last:
            continue
        if token.kind in ("open", "empty"):
            yield token.start
            if token.kind == "open" and token.name not in VOID:
                opened.append(token.name)
                counts[token.name] += 1
        elif token.kind == "close":
            if opened[-1:] != [token.name]:  # it ends one that is around others
                yield token.start
            while counts[token.name]:
                counts[opened[-1]] -= 1
                if opened.pop() == token.name:
                    break
            yield token.end
