"""Plurals and selects of ICU, in messages of every format: each branch is a text, and so is what is around them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from specmt.formats.document import Edit
from specmt.formats.glued import Item, apart
from specmt.formats.plurals import CATEGORIES
from specmt.types import Span

_S: Final = r"(?:\s|\\[nrt\r\n])*"
_QUOTED: Final = re.compile(r"(?<![='])'(?:[{}#]|\{(?:[^{}'\n]|''){1,100}\})'(?!')")
"""What is no mark in a message, or stands in it for a value, between its quotes."""

_CHOICE: Final = rf"\{{{_S}[\w.-]+{_S},{_S}(?P<kind>plural|select|selectordinal){_S},(?:{_S}offset:\d+)?"
_COMPLEX: Final = re.compile(_CHOICE)
_ANY: Final = re.compile(_CHOICE.replace("select|", "select|choice|") + r"|\{[\w.-]+:(?:plural|choose|cond)\b")
_TOKEN: Final = re.compile(rf"''|'[{{}}][^']*'|{_CHOICE}|[{{}}]")
_KEY: Final = re.compile(rf"{_S}(=\d+|[\w.-]+){_S}")
_BLANK: Final = re.compile(_S)
_SYNTAX: Final = re.compile(rf"(?=[^{{}}]*[{{}}])(?:{_CHOICE.replace('?P<kind>', '?:')}|{_KEY.pattern}\{{|[ {{}}#])*")
_ORDINAL: Final = re.compile(r"#\w{0,3}\.?")
"""As in 1st."""

EXACT: Final = {"=0": "zero", "=1": "one", "=2": "two"}
"""Cases of one number, and the forms that others have for it."""

_HIDDEN: Final = "\ufffc"


@dataclass(slots=True)
class Choice:
    """A plural or select."""

    kind: str
    start: int
    outer: Branch
    end: int = 0
    branches: list[Branch] = field(default_factory=list)


@dataclass(slots=True)
class Branch:
    """A text of a message: one for a case, or that around plurals and selects."""

    span: Span
    """Where its text is."""

    start: int = 0
    """Where the name of its case is."""

    name: str = ""
    choice: Choice | None = None
    is_leaf: bool = True
    in_plural: bool = False
    items: list[Item] = field(default_factory=list)

    def more(self, edit: Edit, forms: Iterable[str]) -> list[Edit]:
        """Returns what else is written with the branch for other numbers: the forms that only one language has.

        :param edit: that of the branch
        :param forms: those of the target
        """
        if self.choice is None or self.choice.kind != "plural" or self.name != "other" or not self.is_leaf:
            return []
        names = {EXACT.get(branch.name, branch.name) for branch in self.choice.branches}
        copy = [(self.span[0], edit.start), *edit.pieces, (edit.end, self.span[1])]
        added = [piece for form in forms if form not in names for piece in (f"{form} {{", *copy, "} ")]
        gone = [
            Edit(branch.start, after.start, [])
            for branch, after in zip(self.choice.branches, self.choice.branches[1:], strict=False)
            if branch.is_leaf and branch.name in CATEGORIES and branch.name not in ("zero", *forms)
        ]
        return [*gone, *([Edit(self.start, self.start, added)] if added else [])]

    def is_text(self, source: str, forms: Iterable[str]) -> bool:
        """Whether a branch is translated: the target has its form, and it is no ending of a number."""
        if self.choice is None or not self.is_leaf:
            return True
        if self.choice.kind == "selectordinal" and _ORDINAL.fullmatch(source, *self.span):
            return False
        is_last = self is self.choice.branches[-1]
        return is_last or self.choice.kind != "plural" or self.name not in CATEGORIES or self.name in ("zero", *forms)


def is_syntax(text: str) -> bool:
    """Whether a part of a message is nothing but what plurals and selects are written by."""
    return _SYNTAX.fullmatch(" ".join(text.split())) is not None


def find_quoted(text: str, span: Span) -> Iterator[Item]:
    """Yields marks that a message quotes: without the quotes, or with others, they would mean something else."""
    return (Item("opaque", match.span()) for match in _QUOTED.finditer(text, *span))


def has_choice(text: str) -> bool:
    """Whether a text has a plural, a select or a choice of Java in it, of which no branch is a text of its own."""
    return _ANY.search(text) is not None


def split(items: Sequence[Item], source: str) -> list[Branch]:
    """Returns the texts of a message; none where it has no plural or select.

    :raises ValueError: one cannot be read.
    """
    if not items or not _COMPLEX.search(source, items[0].span[0], items[-1].span[1]):
        return []
    begin, end = items[0].span[0], items[-1].span[1]
    raw = "".join(
        source[slice(*item.span)] if item.kind == "text" else _HIDDEN * (item.span[1] - item.span[0]) for item in items
    )
    if len(raw) != end - begin or not _COMPLEX.search(raw):
        return []
    now = Branch((begin, end))
    branches = [now]
    cuts: list[tuple[int, Branch | Choice | None]] = [(begin, now)]
    frames: list[Choice | Branch | None] = []
    place = 0  # where a plural or select is read on
    for match in _TOKEN.finditer(raw):
        top = frames[-1] if frames else None
        token, (start, stop) = match[0], match.span()
        if token[0] == "'":
            continue
        if isinstance(top, Choice):
            key = _KEY.fullmatch(raw, place, start)
            if token == "}" and top.branches and _BLANK.fullmatch(raw, place, start):
                frames.pop()
                top.end, now = begin + stop, top.outer
                cuts.append((top.end, now))
            elif token == "{" and key is not None:
                in_plural = top.kind != "select" or top.outer.in_plural
                now = Branch((begin + stop, 0), begin + key.start(1), key[1], top, in_plural=in_plural)
                for found in (top.branches, branches, frames):
                    found.append(now)
                cuts.append((begin + stop, now))
            else:
                raise ValueError("its plural or select cannot be read")
        elif match["kind"]:
            now.is_leaf, place = False, stop
            frames.append(Choice(match["kind"], begin + start, now))
            cuts.append((begin + start, frames[-1]))
        elif token == "{":
            frames.append(None)
        elif not frames:
            raise ValueError("its braces do not match")
        else:
            frames.pop()
            if top is not None:
                top.span, place = (top.span[0], begin + start), stop
                cuts.append((begin + start, None))
    if frames:
        raise ValueError("its braces do not match")
    _share(items, source, cuts)
    return branches


def _share(items: Sequence[Item], source: str, cuts: Sequence[tuple[int, Branch | Choice | None]]) -> None:
    """Gives each branch its items, and a stand-in for each plural or select in it."""
    ends = [*(place for place, _ in cuts[1:]), items[-1].span[1] + 1]
    number = 0
    for (place, owner), end in zip(cuts, ends, strict=True):
        if isinstance(owner, Choice):
            owner.outer.items.append(Item("opaque", (owner.start, owner.end)))
        while number < len(items) and items[number].span[0] < end:
            item = items[number]
            left, right = max(item.span[0], place), min(item.span[1], end)
            if isinstance(owner, Branch) and item.kind != "text":
                owner.items.append(item)
            elif isinstance(owner, Branch) and left < right:
                numbers = re.finditer("#", source[left:right]) if owner.in_plural else ()
                marks = (Item("opaque", (left + match.start(), left + match.end())) for match in numbers)
                owner.items += apart((left, right), marks)
            if item.span[1] > end:
                break
            number += 1
