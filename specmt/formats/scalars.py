"""Scalars of YAML: where they are, and translations in their style."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

import yaml

LOADER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""What reads YAML; libyaml has the same places and takes a tenth of the time."""

TEXT: Final = "tag:yaml.org,2002:str"
_PROPERTIES: Final = re.compile(r"(?:(?:&[\w-]+|![^\s,\[\]{}]*)(?:\s|#[^\n]*\n)+)*")
"""An anchor and a tag before a scalar."""

_NO_TEXT: Final = re.compile(r"[\W\d]|(?i:true|false|null|yes|no|on|off|[yn])\Z")
"""What YAML 1.1 or 1.2 may read as something else than text."""

_FLOW: Final = re.compile(r"[,\[\]{}]")
_CONTROL: Final = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff]")


def composed(text: str) -> list[yaml.Node]:
    """Returns the documents in a text.

    :raises yaml.YAMLError: it is damaged
    """
    loader = yaml.SafeLoader if text.startswith("\ufeff") else LOADER  # libyaml does not count it
    try:
        return list(filter(None, yaml.compose_all(text, loader)))
    except yaml.YAMLError:  # of which the other says the place better
        return list(filter(None, yaml.compose_all(text, yaml.SafeLoader)))


def start_of(text: str, node: yaml.ScalarNode, offset: int = 0) -> int:
    """Returns where a scalar begins, behind its anchor and its tag.

    :param offset: where in the text the document begins that it is of
    """
    match = _PROPERTIES.match(text, offset + node.start_mark.index, offset + node.end_mark.index)
    assert match is not None
    return match.end()


def is_glued(text: str, node: yaml.ScalarNode, offset: int = 0) -> bool:
    """Returns whether a scalar stands right behind its anchor, `&x:y`, as PyYAML alone reads it."""
    return text.startswith("&", start_of(text, node, offset))


def written(said: str, node: yaml.ScalarNode, raw: str, *, flow: bool = False) -> str:
    """Returns a scalar in the style of the one that it replaces, or in quotes where that cannot say it.

    :param raw: that one, as it stands
    :param flow: whether it is in brackets or braces
    """
    if node.style in ("|", ">"):
        head, _, body = raw.partition("\n")
        first = re.match(r"(?:[ \t]*\r?\n)*( *)", body)
        indent, end = first[1] if first and first[1] else "  ", "\r\n" if head.endswith("\r") else "\n"
        between = end if node.style == "|" else end * 2
        lines = between.join(indent + line if line else "" for line in said.strip("\n").split("\n"))
        block = f"{head}\n{lines}{body[len(body.rstrip()) :]}"
        return block if _means(f"{block.rstrip()}\n", said.rstrip("\n")) else f"{quoted(said)}{end}"
    if node.style == "'" and not _CONTROL.search(said):
        return "'" + said.replace("'", "''") + "'"
    if not node.style and not _NO_TEXT.match(said) and not (flow and _FLOW.search(said)) and _means(said, said):
        return said
    return quoted(said)


def _means(raw: str, said: str) -> bool:
    try:
        found = yaml.load(f"a: {raw}", LOADER)
    except (OverflowError, yaml.YAMLError):
        return False
    value = found.get("a") if isinstance(found, dict) and len(found) == 1 else None
    return isinstance(value, str) and value.rstrip("\n") == said


def quoted(said: str) -> str:
    """Returns a text in double quotes."""
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(said, ensure_ascii=False))


IN_QUOTES: Final[dict[str, tuple[Callable[[str], str], Callable[[str], str]]]] = {
    "'": (lambda raw: raw.replace("''", "'"), lambda said: said.replace("'", "''")),
    '"': (lambda raw: str(yaml.load(f'"{raw}"', LOADER)), lambda said: quoted(said)[1:-1]),
}
"""How parts of scalars in quotes are read and written."""
