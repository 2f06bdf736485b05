"""Masks what a translation must copy (URLs, placeholders, code, markup, …) as %1, %2, … and puts it back."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from specmt.text.patterns import BLOCKS, BREAKS, HINT, NAME, TOKEN, VOID

_STAND_IN: Final = re.compile(r"%([1-9][0-9]{0,5})")
_DIGITS: Final = re.compile("[0-9]*")
_SPACE: Final = re.compile(r"\s*")
_TAG: Final = re.compile(f"<(/?)({NAME})")
_MAX_DEPTH: Final = 8

Literal = list[str]
"""What a stand-in stands for: what is copied and, at odd places, the text of an element or a link."""


@dataclass(slots=True)
class Masked:
    """A text with the stand-ins %1, %2, … in this order."""

    text: str = ""
    literals: list[Literal] = field(default_factory=list)
    separator: str = ""
    """What follows and is copied: the tag of a block and the space around it."""

    @property
    def source(self) -> str:
        """The text without stand-ins."""
        return restore(self.text, ["".join(literal) for literal in self.literals])


def mask(text: str, depth: int = 0) -> list[Masked]:
    """Returns a text in parts, cut at the tags of blocks, with a stand-in for everything else that is copied.

    An element, a link or strong text has one stand-in: what is in it is a text to be translated by itself.

    :param depth: how many elements the text is in; an element too deep is copied whole.
    """
    if not HINT.search(text):
        return [Masked(text)]
    tokens = list(TOKEN.finditer(text))
    partners = _pair(tokens)
    parts: list[Masked] = []
    seen: list[str] = []
    literals: list[Literal] = []
    place = number = 0
    while number < len(tokens):
        last = partners.get(number, number)
        start, end = tokens[number].start(), tokens[last].end()
        before = text[place:start]
        if last == number and _ends_sentence(text, tokens[number]):
            said = before.rstrip()
            separator = text[place + len(said) : (place := _end(_SPACE, text, end, len(text)))]
            parts.append(Masked("".join([*seen, said]), literals, separator))
            seen, literals = [], []
        else:
            # A digit right after a stand-in would be taken for one of its own.
            place = _end(_DIGITS, text, end, tokens[last + 1].start() if last + 1 < len(tokens) else len(text))
            literal = [text[start:place]]
            if last > number and depth < _MAX_DEPTH:
                left, right = tokens[number].end(), tokens[last].start()
                literal = [text[start:left], text[left:right], text[right:place]]
            if literals and not before:
                literals[-1][-1] += literal[0]
                literals[-1] += literal[1:]
            else:
                literals.append(literal)
                seen += [before, f"%{len(literals)}"]
        number = last + 1
    return [*parts, Masked("".join([*seen, text[place:]]), literals)]


def find_copied(text: str) -> list[str]:
    """Returns what in a text is to be copied, sorted: equal lists mean that nothing was lost, changed or added."""
    return sorted(match[0] for match in TOKEN.finditer(text)) if HINT.search(text) else []


def restore(text: str, literals: Sequence[str], masked: str | None = None) -> str:
    """Returns a text with what its stand-ins stand for.

    :param masked: the text that was translated; where a stand-in touches a word and did not there, a space is added.
    """
    return "".join(chunk.text for chunk in chunks(text, literals, masked))


class Chunk(NamedTuple):
    """A run of a restored text."""

    text: str

    number: int = 0
    """The stand-in that it was, or 0."""

    is_added: bool = False
    """Whether it is a space that was not there."""


def chunks(text: str, literals: Sequence[str], masked: str | None = None) -> Iterator[Chunk]:
    """Yields the runs of a restored text, as `restore` joins them."""
    allowed = [] if masked is None else touches(masked)
    done = 0
    for match in _STAND_IN.finditer(text):
        number = int(match[1])
        if number > len(literals):
            continue
        before, after = allowed[number - 1] if allowed else (True, True)
        now = _touches(text, match)
        yield Chunk(text[done : match.start()])
        if now[0] > before:
            yield Chunk(" ", is_added=True)
        yield Chunk(literals[number - 1], number)
        if now[1] > after:
            yield Chunk(" ", is_added=True)
        done = match.end()
    yield Chunk(text[done:])


def stand_ins(text: str) -> list[str]:
    """Returns the stand-ins in a text, sorted: those of a faithful translation are the source's."""
    return sorted(match[0] for match in _STAND_IN.finditer(text))


def split_stand_ins(text: str) -> list[str]:
    """Returns what is before, between and after the stand-ins of a text."""
    return _STAND_IN.split(text)[::2]


def renumber(text: str, change: int) -> str:
    """Returns a text with other numbers in its stand-ins."""
    return _STAND_IN.sub(lambda match: f"%{int(match[1]) + change}", text)


def touches(text: str) -> list[tuple[bool, bool]]:
    """Returns of each stand-in whether there is a letter or digit right before and right after it."""
    return [_touches(text, match) for match in _STAND_IN.finditer(text)]


def has_words(text: str) -> bool:
    """Returns whether there are letters or digits between the stand-ins of a text."""
    return any(c.isalnum() for c in _STAND_IN.sub("", text))


def _touches(text: str, match: re.Match[str]) -> tuple[bool, bool]:
    start, end = match.span()
    return text[start - 1 : start].isalnum(), text[end : end + 1].isalnum()


def _end(run: re.Pattern[str], text: str, start: int, end: int) -> int:
    """Returns where a run that starts in a text ends."""
    match = run.match(text, start, end)
    return match.end() if match else start


def _name(token: re.Match[str]) -> str:
    """Returns the name of the element that a tag is of, or nothing."""
    tag = _TAG.match(token[0]) if token.lastgroup == "tag" else None
    return tag[2].lower() if tag else ""


def _role(token: re.Match[str]) -> tuple[str, bool]:
    """Returns what a token opens or closes, if anything, and whether it closes it."""
    if token.lastgroup == "link":
        return "[", token[0].startswith("]")
    if token.lastgroup == "strong":
        return "**", True
    name = _name(token)
    if name in BLOCKS or name in VOID or token[0].endswith("/>"):
        return "", False
    return name, token[0].startswith("</")


def _ends_sentence(text: str, token: re.Match[str]) -> bool:
    """Whether a tag without a partner is between sentences, and not one that a sentence speaks of."""
    name = _name(token)
    if name in BREAKS:
        return True
    before, after = text[token.start() - 1 : token.start()], text[token.end() : token.end() + 1]
    touches = before.isalnum() or after.isalnum() or (before != "" and before in ">.!?:;") or after == "<"
    return touches and (name in BLOCKS or (token.lastgroup == "tag" and _role(token)[0] != ""))


def _pair(tokens: Sequence[re.Match[str]]) -> dict[int, int]:
    """Returns the number of the token that closes each opening one that is closed."""
    pairs: dict[int, int] = {}
    opened: list[tuple[str, int]] = []
    counts: Counter[str] = Counter()
    for number, token in enumerate(tokens):
        name, closes = _role(token)
        if name and closes and counts[name]:
            found = ""
            while found != name:
                found, start = opened.pop()
                counts[found] -= 1
            pairs[start] = number
        elif name and (not closes or name == "**"):
            opened.append((name, number))
            counts[name] += 1
    return pairs
