"""Masks what a translation must copy (URLs, placeholders, code, markup, …) as %1, %2, … and puts it back."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from specmt.names import BLOCKS
from specmt.text.markers import marks_in
from specmt.text.patterns import BREAKS, HINT, NAME, VOID, token_pattern
from specmt.text.view import View, plain
from specmt.types import Span

Unlearnt: TypeAlias = Callable[[str], set[str]]
"""Returns the characters of a text that a model has not learnt."""


_STAND_IN: Final = re.compile(r"%([1-9][0-9]{0,5})")
_DIGITS: Final = re.compile("[0-9]*")
_SPACE: Final = re.compile(r"\s*")
_TAG: Final = re.compile(rf"<(/?)({NAME}|\d{{1,3}})")
_INLINE: Final = re.compile(r"<|\{tx*\d+\}")
"""How a tag begins, or what stands for one of a document."""

_WORD: Final = re.compile(r"[^\W\d_]*")
_BEFORE: Final = re.compile(r"[^\W\d_]{0,3}\Z")
_ENDING: Final = re.compile(r"(?:st|nd|rd|th|s)(?!\w)")
"""What English numbers end with."""

_QUOTES: Final = {"«": "»", "»": "«", "‹": "›", "›": "‹"}
"""Marks that are arrows, as in ``Next »``, where the other one of a quotation is not there."""

_UNNUMBERED: Final = re.compile(r"%[-+#0-9.]*[a-zA-Z@]")
_MAX_DEPTH: Final = 8
_GLUED: Final = frozenset(("braces", "printf", "tag", "bbcode", "emoji", "ansi", "run"))
"""Kinds of tokens that may stand right beside a word and are no part of it."""

_SUFFIX: Final = 3
"""From so many letters on, what stands right beside a placeholder is a word, and no ending as in {n}th."""

Literal = list[str]
"""What a stand-in stands for: what is copied and, at odd places, the text of an element or a link."""

Glue = tuple[bool, bool]
"""Whether there is a space before a stand-in, and one after it, that is in the masked text alone."""


class Token(NamedTuple):
    """Something that is copied."""

    start: int
    end: int
    kind: str
    text: str


@dataclass(slots=True)
class Masked:
    """A text with the stand-ins %1, %2, … in this order."""

    text: str = ""
    literals: list[Literal] = field(default_factory=list)
    separator: str = ""
    """What follows and is copied: the tag of a block and the space around it."""

    glue: list[Glue] = field(default_factory=list)
    """Of each stand-in: words are parted from it, which they were not."""

    @property
    def source(self) -> str:
        """The text without stand-ins."""
        return restore(self.text, ["".join(literal) for literal in self.literals], glue=self.glue)


def mask(text: str | View, depth: int = 0, unlearnt: Unlearnt | None = None) -> list[Masked]:
    """Returns a text in parts, cut at the tags of blocks, with a stand-in for everything else that is copied.

    An element, a link or strong text has one stand-in: what is in it is a text to be translated by itself.

    :param depth: how many elements the text is in; an element too deep is copied whole.
    :param unlearnt: finds the characters that the model has not learnt; words with them are copied
    """
    seen = View(text, text) if isinstance(text, str) else text
    text = seen.text
    tokens = list(find_tokens(seen.plain, unlearnt))
    if not tokens:
        return [Masked(text)]
    partners = _pair(tokens)
    parts: list[Masked] = []
    part = Masked()
    place = number = 0
    while number < len(tokens):
        last = partners.get(number, number)
        start, end = tokens[number].start, tokens[last].end
        before = text[place:start]
        if last == number and _ends_sentence(text, tokens[number]):
            said = before.rstrip()
            part.separator = seen.copied(place + len(said), place := _end(_SPACE, text, end, len(text)))
            part.text += said
            parts.append(part)
            part = Masked()
        else:
            # A digit right after a stand-in would be taken for one of its own.
            place = _end(_DIGITS, text, end, tokens[last + 1].start if last + 1 < len(tokens) else len(text))
            literal = [seen.copied(start, place)]
            if last > number and depth < _MAX_DEPTH:
                left, right = tokens[number].end, tokens[last].start
                literal = [seen.copied(start, left), seen.copied(left, right), seen.copied(right, place)]
            glue = _is_glued(tokens[number], before, ""), _is_glued(tokens[last], "", text[place : place + _SUFFIX])
            if part.literals and not before:
                part.literals[-1][-1] += literal[0]
                part.literals[-1] += literal[1:]
                part.glue[-1] = part.glue[-1][0], glue[1]
                part.text = part.text.rstrip(" ")
            else:
                part.literals.append(literal)
                part.glue.append(glue)
                part.text += f"{before}{' ' * glue[0]}%{len(part.literals)}"
            part.text += " " * glue[1]
        number = last + 1
    part.text += text[place:]
    return [*parts, part]


def find_tokens(text: str, unlearnt: Unlearnt | None = None) -> Iterator[Token]:
    """Yields what is to be copied, from left to right.

    :param text: with plain spaces
    :param unlearnt: finds the characters that the model has not learnt; words with them are copied
    """
    place, found = 0, _found(text) if HINT.search(text) else []
    if unlearnt is None or text.isascii() or not (strange := unlearnt(text)):
        yield from found
        return
    for token in [*found, Token(len(text), len(text), "", "")]:
        for start, end in _unlearnt_words(text, place, token.start, strange):
            yield Token(start, end, "unlearnt", text[start:end])
        if token.kind:
            yield token
        place = token.end


def _found(text: str) -> list[Token]:
    """Returns what is to be copied whatever the model has learnt."""
    marks = [
        Token(*span, "printf" if text[span[0]] == "%" else "braces", text[slice(*span)]) for span in marks_in(text)
    ]
    pieces, place = list[str](), 0  # beside words these read like others, as in %shere%s
    for mark in marks:
        pieces += [text[place : mark.start], " " * len(mark.text)]
        place = mark.end
    rest = "".join([*pieces, text[place:]]) if marks else text
    matches = token_pattern().finditer(rest) if not marks or HINT.search(rest) else ()
    found = [Token(*match.span(), str(match.lastgroup), match[0]) for match in matches]
    return [token for token in sorted([*found, *marks]) if token.kind != "arrow" or _is_lone(token, text)]


def _is_lone(token: Token, text: str) -> bool:
    """Whether the other mark of a quotation is not there, between the same bars."""
    end = text.find("|", token.end)
    return _QUOTES[token.text] not in text[text.rfind("|", 0, token.start) + 1 : end if end >= 0 else len(text)]


def _unlearnt_words(text: str, place: int, end: int, strange: set[str]) -> Iterator[Span]:
    """Yields the words with characters that were not learnt, in a part of a text; neighbours are one."""
    last: Span | None = None
    for found in range(place, end):
        if text[found] not in strange or (last is not None and found < last[1]):
            continue
        start, stop = found, found + 1
        if _is_of_word(text[start]):  # and no symbol beside one
            while start > place and text[start - 1].isalnum():
                start -= 1
            while stop < end and _is_of_word(text[stop]):
                stop += 1
        if last is not None and not text[last[1] : start].strip():
            start = last[0]
        elif last is not None:
            yield last
        last = start, stop
        place = stop
    if last is not None:
        yield last


def _is_of_word(c: str) -> bool:
    return c.isalnum() or unicodedata.category(c)[0] == "M"


def _is_glued(token: Token, before: str, after: str) -> bool:
    """Whether a word touches a token and is none of its endings: one is to be parted from it."""
    if token.kind not in _GLUED:
        return False
    letters = _BEFORE.search(before)[0] if before else _WORD.match(after)[0]  # type: ignore[index]
    if len(letters) > 1 and letters.istitle() and _INLINE.match(token.text):  # as a sentence begins behind an image
        return True
    return len(letters) >= (_SUFFIX if token.kind == "printf" or token.text[:2] not in ("{{", "{%") else 1)


def find_copied(text: str) -> list[str]:
    """Returns what in a text is to be copied, sorted: equal lists mean that nothing was lost, changed or added."""
    return sorted(token.text for token in find_tokens(plain(text)))


def in_order(text: str) -> list[str]:
    """Returns the placeholders of a text that have no number or name: what they stand for follows from their order."""
    return [token.text for token in find_tokens(text) if token.kind == "printf" and _UNNUMBERED.fullmatch(token.text)]


def restore(text: str, literals: Sequence[str], masked: str | None = None, glue: Sequence[Glue] = ()) -> str:
    """Returns a text with what its stand-ins stand for.

    :param masked: the text that was translated; where a stand-in touches a word and did not there, a space is added.
    :param glue: of each stand-in, which of the spaces around it go
    """
    return "".join(chunk.text for chunk in chunks(text, literals, masked, glue))


class Chunk(NamedTuple):
    """A run of a restored text."""

    text: str

    number: int = 0
    """The stand-in that it was, or 0."""

    seen: str = ""
    """What the model saw or said there."""


def chunks(text: str, literals: Sequence[str], masked: str | None = None, glue: Sequence[Glue] = ()) -> Iterator[Chunk]:
    """Yields the runs of a restored text, as `restore` joins them."""
    allowed = [] if masked is None else touches(masked)
    done = 0
    for match in _STAND_IN.finditer(text):
        number = int(match[1])
        if number > len(literals):
            continue
        before, after = allowed[number - 1] if allowed else (True, True)
        joins = glue[number - 1] if glue else (False, False)
        now = _touches(text, match)
        start, end = match.span()
        left = start - (joins[0] and text[done:start][-1:] == " ")
        yield Chunk(text[done:left], seen=text[done:left])
        if left < start:
            yield Chunk("", seen=" ")
        elif now[0] > before:
            yield Chunk(" ")
        yield Chunk(literals[number - 1], number, match[0])
        done = end + (joins[1] and text[end : end + 1] == " ")
        if done > end:
            yield Chunk("", seen=" ")
        elif now[1] > after and not (literals[number - 1][-1:].isdigit() and _ENDING.match(text, end)):
            yield Chunk(" ")
    yield Chunk(text[done:], seen=text[done:])


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


def _touches(text: str, match: re.Match[str]) -> tuple[bool, bool]:
    start, end = match.span()
    return text[start - 1 : start].isalnum(), text[end : end + 1].isalnum()


def _end(run: re.Pattern[str], text: str, start: int, end: int) -> int:
    """Returns where a run that starts in a text ends."""
    match = run.match(text, start, end)
    return match.end() if match else start


def _name(token: Token) -> str:
    """Returns the name of the element that a tag is of, or nothing."""
    tag = _TAG.match(token.text) if token.kind == "tag" else None
    return tag[2].lower() if tag else ""


def _role(token: Token) -> tuple[str, bool]:
    """Returns what a token opens or closes, if anything, and whether it closes it."""
    if token.kind == "link":
        return "[", token.text.startswith("]")
    if token.kind == "strong":
        return "**", True
    name = _name(token)
    if name in BLOCKS or name in VOID or token.text.endswith("/>"):
        return "", False
    return name, token.text.startswith("</")


def _ends_sentence(text: str, token: Token) -> bool:
    """Whether a tag without a partner is between sentences, and not one that a sentence speaks of."""
    name = _name(token)
    if name in BREAKS:
        return True
    before, after = text[token.start - 1 : token.start], text[token.end : token.end + 1]
    touches = before.isalnum() or after.isalnum() or (before != "" and before in ">.!?:;") or after == "<"
    return touches and (name in BLOCKS or (token.kind == "tag" and _role(token)[0] != ""))


def _pair(tokens: Sequence[Token]) -> dict[int, int]:
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
