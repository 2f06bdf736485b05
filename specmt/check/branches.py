"""Plurals and selects of ICU: which branches a message has, and what each says."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Final

from specmt.check.rules import Problem, Rules, compare
from specmt.formats.glued import Item
from specmt.formats.icu import EXACT, Branch, Choice, split
from specmt.formats.plurals import CATEGORIES, plural_forms

_NAME: Final = re.compile(r"\{\s*([\w.-]+)")
_OPTIONAL: Final = ("zero", "many")
"""Forms that some have of languages that need not have them."""

Path = tuple[tuple[str, str], ...]
"""The choices that a text is in, from outside to inside: the argument of each, and the name of the case."""


@dataclass
class Message:
    """A message taken apart."""

    texts: dict[Path, str] = field(default_factory=dict)
    """Each case's text, with ``{argument}`` for what depends on it, and for the number sign."""

    choices: list[tuple[str, str, list[str]]] = field(default_factory=list)
    """The argument of each plural and select, its kind, and the names of its cases."""

    @cached_property
    def cases(self) -> dict[tuple[str, str], dict[str, None]]:
        """The names of the cases of each argument of a kind."""
        found: dict[tuple[str, str], dict[str, None]] = {}
        for argument, kind, names in self.choices:
            found.setdefault((argument, kind), {}).update(dict.fromkeys(names))
        return found

    @cached_property
    def arguments(self) -> dict[tuple[str, ...], None]:
        """The arguments of the choices that texts are in."""
        return {tuple(argument for argument, _ in path): None for path in self.texts}


def take_apart(raw: str) -> Message | None:
    """Returns what a message has, if it has plurals or selects.

    :raises ValueError: one cannot be read.
    """
    branches = split([Item("text", (0, len(raw)))], raw)
    message, within = Message(), dict[int, list[Choice]]()
    for branch in branches:
        if branch.choice is not None and branch is branch.choice.branches[0]:
            within.setdefault(id(branch.choice.outer), []).append(branch.choice)
            names = [each.name for each in branch.choice.branches]
            message.choices.append((_argument(branch.choice, raw), branch.choice.kind, names))
    for branch in branches:
        place, text = branch.span[0], ""
        for choice in within.get(id(branch), ()):
            text += f"{raw[place : choice.start]}{{{_argument(choice, raw)}}}"
            place = choice.end
        text += raw[place : branch.span[1]]
        around = [*_outwards(branch)]
        counted = next((choice for choice, _ in around if choice.kind != "select"), None)
        path = tuple((_argument(choice, raw), name) for choice, name in reversed(around))
        message.texts[path] = text.replace("#", f"{{{_argument(counted, raw)}}}") if counted else text
    return message if branches else None


def _outwards(branch: Branch) -> Iterator[tuple[Choice, str]]:
    """Yields the choices that a branch is in, and the names of their cases."""
    while branch.choice is not None:
        yield branch.choice, branch.name
        branch = branch.choice.outer


def _argument(choice: Choice, raw: str) -> str:
    match = _NAME.match(raw, choice.start)
    assert match is not None
    return match[1]


def compare_messages(source: Message, target: str, rules: Rules) -> Iterator[Problem]:
    """Yields what is wrong with the branches of a translation, and in each."""
    try:
        other = take_apart(target) or Message({(): target})
    except ValueError as error:
        yield Problem("branch", str(error))
        return
    for argument, kind in source.cases:
        if (argument, kind) not in other.cases:
            yield Problem("branch", f"the {kind} of {argument!r} is not in the translation")
    for argument, kind, names in other.choices:
        ours = source.cases.get((argument, kind), {})
        for name in _missing(kind, ours, names, rules.languages[1]):
            yield Problem("branch", f"the {kind} of {argument!r} has no {name!r}")
        for name in names if ours else ():
            if name not in ours and _is_wrong(kind, name, rules.languages[1]):
                yield Problem("branch", f"the {kind} of {argument!r} has {name!r}, which is never taken")
    for path, text in other.texts.items():
        form = next((EXACT.get(name, name) for _, name in reversed(path) if name in (*CATEGORIES, *EXACT)), "")
        found = [*compare(_nearest(source, path), text, rules, form)]
        general = _nearest(source, tuple((argument, "other") for argument, _ in path))
        of_general = {*compare(general, text, rules, form)} if found else ()
        yield from (each for each in found if each in of_general)


def _missing(kind: str, ours: Collection[str], names: list[str], language: str) -> Iterator[str]:
    """Yields the cases that a choice must have and has not."""
    there = {*names, *(EXACT.get(name, name) for name in names)}
    wanted = [name for name in ours if kind == "select" or (name[0] == "=" and EXACT.get(name) not in there)]
    if kind == "plural" and {*ours} & {*CATEGORIES} - {"other"}:
        wanted += plural_forms(language)
    yield from (name for name in dict.fromkeys([*wanted, "other"]) if name not in there)


def _is_wrong(kind: str, name: str, language: str) -> bool:
    if kind == "plural":
        return name[0] != "=" and name not in (*plural_forms(language), *_OPTIONAL)
    return kind == "select" or (name[0] != "=" and name not in CATEGORIES)


def _nearest(message: Message, path: Path) -> str:
    """Returns the text for a case, or else that for others; first of the choices between the same arguments."""
    own, exact = tuple(argument for argument, _ in path), {argument: EXACT.get(name, name) for argument, name in path}
    for arguments in chain((own,), message.arguments):
        for names in (dict(path), exact, {}) if len(arguments) == len(path) else ():
            text = message.texts.get(tuple((argument, names.get(argument, "other")) for argument in arguments))
            if text is not None:
                return text
    return message.texts[()]
