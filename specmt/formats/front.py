"""The front matter of Markdown: values of chosen keys, in YAML or TOML."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from functools import partial
from typing import Final

import yaml

from specmt.formats.document import KEPT, Edit, FormatOptions, LineNumbers, Segment
from specmt.formats.inline import replacing
from specmt.formats.scalars import TEXT, is_glued, quoted, start_of, written
from specmt.types import Tagged

FRONT: Final = re.compile(r"\ufeff?(---|\+\+\+)[ \t]*\r?\n(.*?)^(?:\1|\.\.\.)[ \t]*(?=\r?$)", re.DOTALL | re.MULTILINE)
_LANGUAGE: Final = re.compile(
    r"""^(?:lang|language|locale)[ \t]*[:=][ \t]*["']?([A-Za-z]{2,3}(?:[-_]\w{2,8})?)(?=["']?[ \t]*\r?$)""",
    re.MULTILINE,
)
_TOML: Final = re.compile(
    r"""^[ \t]*([\w-]+)[ \t]*=[ \t]*(?:(?P<lines>\"{3}|'{3})|("(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*\r?$)""", re.MULTILINE
)


def front_matter(text: str, found: re.Match[str], keys: Collection[str]) -> Iterator[Segment]:
    """Yields the texts of some keys, at any depth, and of lists below them; nothing where it is not well-formed.

    :param found: what :data:`FRONT` has found
    """
    start, end = found.span(2)
    lines = LineNumbers(text)
    if found[1] == "+++":
        for match in _TOML.finditer(text, start, end):
            line = lines(match.start())
            raw = match[3] or ""
            if match[1] in keys and match["lines"]:
                yield _left(match[1], line)
            elif match[1] in keys and any(map(str.isalpha, raw)):
                said = json.loads(raw) if raw[0] == '"' and "\\U" not in raw else raw[1:-1]
                yield Segment(Tagged(said), line, replacing(match.span(3), quoted), context=match[1])
        return
    try:
        root = yaml.compose(text[start:end], Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError):
        return
    for key, node in _scalars(root, ""):
        said = str(node.value).strip()
        is_text = key in keys and node.tag == TEXT and any(map(str.isalpha, said))
        if is_text and not is_glued(text, node, start):
            span = start_of(text, node, start), start + node.end_mark.index
            line = lines(span[0])
            if "\n" in said and node.style in ("|", ">"):  # lines and paragraphs would be lost
                yield _left(key, line)
                continue
            encode = partial(written, node=node, raw=text[slice(*span)])
            yield Segment(Tagged(" ".join(said.split())), line, replacing(span, encode), context=key)


def _left(key: str, line: int) -> Segment:
    return Segment(Tagged(key), line, lambda *_: (), "skipped", context=key, reason=f"{KEPT}: it has several lines")


def language_in(text: str, found: re.Match[str] | None, options: FormatOptions) -> Iterator[Edit]:
    """Yields what makes the language of the source, where the front matter says it, that of the target."""
    match = None if found is None else _LANGUAGE.search(text, *found.span(2))
    return options.new_language(match)


def _scalars(node: yaml.Node | None, key: str) -> Iterator[tuple[str, yaml.ScalarNode]]:
    """Yields scalars with the key that they are below."""
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            yield from _scalars(value, str(name.value))
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            yield from _scalars(value, key)
    elif isinstance(node, yaml.ScalarNode):
        yield key, node
