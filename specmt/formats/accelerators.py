"""Accelerators in labels of menus and buttons, as in ``&File``, ``_Edit`` and ``~View``, which the model does not see.

One that a label has is taken out, and its translation gets one: on a letter that none of its neighbours has, the first
of a word if there is such, and the same one if there is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from specmt.formats.document import Edit, RefusedError, Segment, Tell
from specmt.types import Span, Tagged

_LONGEST: Final = 80
"""How many characters a label has at most."""

_REACH: Final = 10
"""How many segments away the sisters of a label are at most."""

_MARK: Final = re.compile(
    r"""(?<![&\w])&(?=[^\W_])(?!\#?\w+;) | (?<=[^\W_])&(?=[a-zß-öø-ÿ])(?!\w+;|(?:drop|paste|play|click|roll|white)\b)
        | (?<!\w)(?!\A_[a-z])_(?=[^\W_]) | (?<=[^\W_])_(?=[a-zß-öø-ÿ])(?!(?:in|innen|n|r|s)\b)
        | (?<![\w~])~(?=[^\W\d_]) | (?<=[^\W\d_])~(?=[a-zß-öø-ÿ])""",  # no „jede_r“
    re.VERBOSE,
)
_ANY: Final = re.compile("[&_~]")
_AROUND: Final = re.compile(r"\A(?:<[a-z][^<>]*>)+|(?:</[a-z]+>)+\Z")
"""Tags around a label, as in ``<b>_Bold</b>``."""

_SENTENCE: Final = re.compile(r"[^.][.!]\s|[^.][.!]\Z|\n|[=<>\\]|_(?:[\W_]|\Z)")
"""What no label has."""

_COPIED: Final = re.compile(r"(?P<tag><[^<>]*>|\{[^{}]*\})|(?P<name>\b[a-z]\w*_\w+)|(?:(?<!\S)|(?<=[>}]))\S")
"""Tags, names of variables, and where a placeholder, an address or the name of a file may begin."""

_WORD: Final = re.compile(r"(?<!\S)(\S*)(?:[%$@{}]|://|[^\W_]\.[^\W_]|\w/\w+/)\S*")
"""Placeholders, addresses, names of files, each with all before the last of their marks."""

_OWN: Final = re.compile(r"\s?\([&_~]\w\)")
"""One with a letter of its own, as labels without an alphabet have."""

_LITERAL: Final = re.compile(r"(?<=\w\s)&&(?=\s\w)")
_NO_ALPHABET: Final = re.compile("[\u2e80-\ud7ff\uf900-\ufaff]")
_END: Final = re.compile(r"(?:>[a-z]+/<)*[\s.…:：]*")
"""What is behind the words of a label, from its end on."""


def hide(segments: Sequence[Segment], marks: str = "&_~") -> list[Segment]:
    """Returns the segments of a catalogue, the labels among them without their accelerators and with & for &&.

    :param marks: of accelerators; what has others is no label
    """
    menu = {
        number: segment.target[place + 1].lower()
        for number, segment in enumerate(segments)
        if (place := find(segment.target)) is not None
    }
    return [_hide(segment, number, menu, marks) for number, segment in enumerate(segments)]


def _hide(segment: Segment, number: int, menu: dict[int, str], marks: str) -> Segment:
    """
    :param menu: takes the letters of the labels of a catalogue
    """
    text = segment.source.text
    place = find(text)
    doubled = bool(_LITERAL.search(text)) and len(text) <= _LONGEST
    if segment.source.tags or (not doubled if place is None else text[place] not in marks):
        return segment

    def edits(translation: Tagged, tell: Tell) -> Iterator[Edit]:
        said = translation.text.replace("&", "&&") if doubled else translation.text
        if place is not None:
            sisters = {menu.get(number + step, "") for step in range(-_REACH, _REACH + 1) if step}
            said, menu[number] = _put(said, text[place], text[place + 1].lower(), sisters)
        yield from segment.edits(replace(translation, text=said), tell)

    near = tuple((plain(source), plain(target)) for source, target in segment.near)
    return replace(
        segment,
        source=Tagged(plain(text)),
        edits=edits,
        target=plain(segment.target),
        near=near,
        accelerators=(place is not None, find(segment.target) is not None),
    )


def find(text: str) -> int | None:
    """Returns where the one accelerator of a label is, or nothing where there is none, or it is no label."""
    if len(text) > _LONGEST or not _ANY.search(text) or _SENTENCE.search(_AROUND.sub("", text)):
        return None
    blank = _blank(text)
    begin = len(blank) - len(blank.lstrip())
    places = [begin + match.start() for match in _MARK.finditer(blank[begin:])]
    return places[0] if len(places) == 1 else None


def plain(text: str) -> str:
    """Returns a label without its accelerator and with & for &&."""
    place = find(text)
    if place is not None:
        start, end = own.span() if (own := _OWN.search(text)) else (place, place + 1)
        text = text[:start] + text[end:]
    return _LITERAL.sub("&", text) if len(text) <= _LONGEST else text


def with_key(segment: Segment, text: str, key: Span) -> Segment:
    """Returns a label that writes its key with it: a letter of the translation, the same one if there is.

    :param text: the document
    :param key: where the key is
    """
    letter = text[slice(*key)]

    def edits(translation: Tagged, tell: Tell) -> Iterator[Edit]:
        yield from segment.edits(translation, tell)
        letters = [char for char in _blank(translation.text) if char.isalpha()]
        if letters:
            yield Edit(*key, [next((char for char in letters if char.lower() == letter.lower()), letters[0])])

    return replace(segment, edits=edits) if len(letter) == 1 else segment


def _blank(text: str) -> str:
    """Returns a label with spaces for what is copied."""
    ends = {place: word.end() for word in _WORD.finditer(text) for place in range(word.start(), word.end(1) + 1)}
    said, place = list(text), 0
    while match := _COPIED.search(text, place):
        start, place = match.span()
        if not match["tag"]:
            place = ends.get(start, place)
        if match.lastgroup or start in ends:
            said[start:place] = " " * (place - start)
    return "".join(said)


def _put(text: str, mark: str, letter: str, sisters: set[str]) -> tuple[str, str]:
    """Returns a translation with an accelerator, and the letter that it is on.

    :raises RefusedError: it has no letter for one.
    """
    if _NO_ALPHABET.search(text):
        end = len(text) - _END.match(text[::-1]).end()  # type: ignore[union-attr]
        return f"{text[:end]}({mark}{letter.upper()}){text[end:]}", letter
    blank = _blank(text)
    letters = [(place, char.lower()) for place, char in enumerate(blank) if char.isalpha()]
    if not letters:
        raise RefusedError("there is no letter for its accelerator")
    place, char = min(
        letters,
        key=lambda each: (each[1] in sisters, blank[each[0] - 1 : each[0]].isalnum(), each[1] != letter, each[0]),
    )
    return f"{text[:place]}{mark}{text[place:]}", char
