"""String catalogues of Xcode: JSON with all languages, their states and plural forms."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

from specmt.errors import DataError
from specmt.formats.document import (
    KEPT,
    Document,
    Edit,
    FormatOptions,
    LineNumbers,
    Part,
    Segment,
    State,
    TextDocument,
)
from specmt.formats.encoding import decode
from specmt.formats.inline import Inline
from specmt.formats.outline import json_values
from specmt.formats.plurals import CATEGORIES, plural_forms
from specmt.formats.values import is_code
from specmt.languages import primary
from specmt.types import Tagged

_PLACEHOLDER: Final = re.compile(r"%(?:#@\w+@|\d*\$?[-+ #0-9.]*(?:hh?|ll?|[qLjzt])?\w|[@%])")
_MOST_DIGITS: Final = 20
_STATES: Final[Mapping[str, State]] = {"new": "new", "needs_review": "fuzzy", "stale": "fuzzy"}


@dataclass(slots=True)
class _Node:
    """A value, and where it is."""

    start: int
    end: int = 0
    key_at: int = 0
    members: dict[str, _Node] = field(default_factory=dict)


@dataclass(slots=True)
class _Entry:
    """A string and its translation."""

    node: _Node
    wanted: Any
    """The source's localization, without plural forms that the target has not."""

    numbers: list[int] = field(default_factory=list)
    """The segments of the texts in it."""

    spellings: list[Callable[[str], str]] = field(default_factory=list)
    """What writes each with the entities that it has."""


def read(data: bytes, options: FormatOptions) -> Document:
    """Reads the strings that the target language lacks, or has to be reviewed.

    :raises DataError: it is no such JSON.
    """
    text, encoding = decode(data)
    try:
        # Numbers may have more digits than are read.
        whole = json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < _MOST_DIGITS else digits)
        strings, main = whole["strings"], str(whole["sourceLanguage"])
        known = [main, *(code for entry in strings.values() for code, _ in entry.get("localizations", {}).items())]
    except json.JSONDecodeError as error:
        raise DataError(f"line {error.lineno} is not JSON: {error.msg}") from error
    except (AttributeError, KeyError, TypeError) as error:
        raise DataError("line 1 is no catalogue of strings, with sourceLanguage and strings") from error
    source = next((code for code in known if primary(code) == primary(options.source)), main)
    target = next((code for code in known if primary(code) == primary(options.target)), options.target)
    lines, forms = LineNumbers(text), plural_forms(target)
    segments: list[Segment] = []
    parts: list[Part] = []
    entries: list[_Entry] = []
    for (key, entry), node in zip(strings.items(), _tree(text).members["strings"].members.values(), strict=True):
        here = entry.get("localizations", {})
        wanted = deepcopy(here.get(source) or {"stringUnit": {"state": "", "value": key}})
        if entry.get("shouldTranslate") is False or entry.get("extractionState") == "stale":
            parts.append(Part(node.start, node.end, "not to be translated, or used no more"))
            continue
        if "stringSet" in wanted:
            reason = f"{KEPT}: it is a set of strings"
            segments.append(Segment(Tagged(key), lines(node.key_at), lambda *_: (), "skipped", reason=reason))
            parts.append(Part(node.start, node.end, reason))
            continue
        for plural in _plurals(wanted):
            for form in {*CATEGORIES} - {"zero", *forms}:
                plural.pop(form, None)
        found = _Entry(node, wanted)
        now = dict(_placed(here.get(target, {})))
        states: list[State] = [_STATES.get(str(unit.get("state")), "translated") for unit in now.values()]
        state: State = min(states, default="new")
        first, line = next(iter(now.values()), {"value": ""}), lines(node.key_at)
        for place, unit in _placed(wanted):
            if not _is_text(unit):
                continue
            said = str((now.get(place) or now.get((*place[:-1], "other")) or first)["value"])
            found.numbers.append(len(segments))
            inline = Inline(unit["value"])
            inline.text(0, len(unit["value"]))
            found.spellings.append(inline.read_entities())
            core = Tagged(inline.plain().strip())
            segments.append(
                Segment(core, line, lambda *_: (), state, said, context=key, start=node.key_at, forms=forms)
            )
        entries.append(found)

    def finish(written: Mapping[int, Tagged]) -> Iterator[Edit]:
        for found in entries:
            if any(number in written for number in found.numbers):
                is_whole = all(number in written and written[number].is_whole for number in found.numbers)
                is_fuzzy = options.is_fuzzy(written[number] for number in found.numbers if number in written)
                review = "translated" if is_whole and not is_fuzzy else "needs_review"
                yield _edit(text, found, written, target, review)

    return TextDocument(text, encoding, segments, finish=finish, parts=parts)


def _tree(text: str) -> _Node:
    """Returns where everything is in JSON that is known to be well-formed."""
    root = _Node(0)
    opened: list[_Node] = [root]
    for kind, path, key, (start, end) in json_values(text):
        if kind == "end":
            opened.pop().end = end
            continue
        node = _Node(start, end, key[0])
        opened[-1].members[path[-1] if path else ""] = node
        if kind != "value":
            opened.append(node)
    return root.members[""]


def _placed(tree: Any, *place: str) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Yields the texts of a localization, and the keys that lead to each."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key == "stringUnit" and isinstance(value, dict) and isinstance(value.get("value"), str):
                yield place, value
            else:
                yield from _placed(value, *place, key)


def _is_text(unit: dict[str, Any]) -> bool:
    return any(map(str.isalpha, _PLACEHOLDER.sub("", unit["value"]))) and not is_code(unit["value"])


def _plurals(tree: Any) -> Iterator[dict[str, Any]]:
    """Yields the plural forms in a localization."""
    for key, value in tree.items() if isinstance(tree, dict) else ():
        yield from _plurals(value)
        if key == "plural" and isinstance(value, dict) and "other" in value:
            yield value


def _edit(text: str, found: _Entry, written: Mapping[int, Tagged], target: str, state: str) -> Edit:
    """Returns what writes a localization, as Xcode does."""
    tree = deepcopy(found.wanted)
    units = [unit for _, unit in _placed(tree)]
    for unit, number, spell in zip(filter(_is_text, units), found.numbers, found.spellings, strict=True):
        if number in written:
            unit["value"] = unit["value"].replace(unit["value"].strip(), spell(written[number].text), 1)
    for unit in units:
        unit["state"] = state
    for plural in _plurals(tree):
        for form in plural_forms(target):
            plural.setdefault(form, plural["other"])
    where = found.node.members.get("localizations")
    if where is None:
        return _insert(text, found.node, "localizations", {target: tree})
    old = where.members.get(target)
    if old is None:
        return _insert(text, where, target, tree)
    return Edit(old.start, old.end, [_written(text, tree, old.key_at)])


def _insert(text: str, node: _Node, key: str, value: Any) -> Edit:
    """Returns what puts a member into an object whose keys are sorted."""
    if not node.members:
        return Edit(node.start, node.end, [_written(text, {key: value}, node.key_at)])
    after = next((each for name, each in node.members.items() if name > key), None)
    place = next(iter(node.members.values())).key_at
    said = f"{json.dumps(key)} : {_written(text, value, place)}"
    line = _line(text, place)
    if after is not None:
        return Edit(after.key_at, after.key_at, [f"{said},{line}"])
    last = next(reversed(node.members.values())).end
    return Edit(last, last, [f",{line}{said}"])


def _line(text: str, place: int) -> str:
    """Returns a line break, and the indentation of a line in which a key is the first."""
    start = text.rfind("\n", 0, place) + 1
    indent = text[start:place]
    return " " if not start or indent.strip() else f"\n{indent}"


def _written(text: str, value: Any, place: int) -> str:
    raw = json.dumps(value, ensure_ascii=False, indent=2, separators=(",", " : "), sort_keys=True)
    return (
        raw.replace("\n", _line(text, place)) if "\n" in _line(text, place) else json.dumps(value, ensure_ascii=False)
    )
