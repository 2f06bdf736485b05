"""Whether the translation of a sentence is damaged, and such texts once more, held fast."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from specmt.text.held import Held
from specmt.text.judge import judge
from specmt.text.placeholders import find_copied, find_tokens
from specmt.text.view import CONTROL, plain
from specmt.types import Line, Tagged, Translation

_CONTROL: Final = re.compile(f"[{CONTROL}]")
_SAYS: Final = re.compile(r"[^\W\d_]|[€$£¥%‰°§&]")
_DIGITS: Final = re.compile(r"\d+")
_WORD: Final = re.compile(r"[^\W\d_]{4}|[A-Z][a-z]{2}")
"""What is in words that a translation cannot be without, unlike articles and endings."""

_STAND_IN: Final = re.compile(r"'\{tx*\d+\}'")

Again = Callable[[Sequence[Tagged]], "Iterator[Tagged | None]"]
"""Translates texts held fast; nothing where that is damaged, too."""


def damage(source: str, translation: str) -> str | None:
    """Returns what is known to be wrong with the translation of a sentence, if anything: such a one is not written."""
    copied = find_copied(source)
    if not translation.strip() or _says_nothing(source, translation, copied):
        return "the model says nothing"
    problems = judge(source, translation, ("", ""), numbers=False, copied=copied) or _hidden(copied, translation)
    if not problems and Counter(_CONTROL.findall(source)) - Counter(_CONTROL.findall(translation)):
        problems = ["a control character is not in the translation"]
    if not problems and source.count("\\n") > translation.count("\\n"):
        problems = ["a line break is not in the translation"]
    return _STAND_IN.sub("an inline tag", problems[0]) if problems else None


def _says_nothing(source: str, translation: str, copied: Sequence[str]) -> bool:
    """Whether of a source with words only its numbers are left, and what is copied."""
    if _SAYS.search(_said(translation) if copied else translation) or not _WORD.search(_said(source)):
        return False
    return _DIGITS.findall(source) == _DIGITS.findall(translation)


def _said(text: str) -> str:
    """Returns a text without what is to be copied."""
    said, place = [""], 0
    for token in find_tokens(plain(text)):
        said.append(text[place : token.start])
        place = token.end
    return " ".join([*said, text[place:]])


def without_new(source: str, translation: str) -> str:
    """Returns a translation without the tags and marks of bold text that its source has none of.

    Of a tag that is called as a word of the source is, the word stays.
    """
    known, words = {*find_copied(source)}, {*re.findall(r"\w+", source.casefold())}
    said, place = [""], 0
    for token in find_tokens(plain(translation)):
        if token.kind in ("tag", "strong") and token.text not in known:
            word = token.text.strip("</>")
            said.append(translation[place : token.start] + word * (word.casefold() in words))
            place = token.end
    return re.sub(" {2,}", " ", "".join([*said, translation[place:]])).strip() if place else translation


def _hidden(copied: Sequence[str], translation: str) -> list[str]:
    """Returns problems with what is in a translation only as the beginning of something else, as of a longer link."""
    heads = [one for one, other in pairwise(sorted({*copied})) if other.startswith(one)]
    after = Counter(find_copied(translation)) & Counter(copied) if heads else Counter()
    lost = (
        each
        for each in heads
        if translation.count(each) - sum(count * said.count(each) for said, count in after.items() if said != each)
        < copied.count(each)
    )
    return [f"{each!r} is not in the translation" for each in lost]


def again(
    sources: Sequence[Tagged], translate: Callable[[Iterable[Line]], Iterator[Translation]]
) -> Iterator[Tagged | None]:
    """Yields the translations of texts that are cut at all that must not be lost; nothing where a part is damaged.

    A text of which all is copied is its own translation.
    """
    held = [Held(source) for source in sources]
    parts = [Line(number, part) for number, part in enumerate(part for each in held for part in each.parts)]
    said = translate(parts) if parts else iter(())
    for each in held:
        found = [next(said) for _ in each.parts]
        is_good = each.is_held and not any(one.stats.left or damage(one.line.text, one.text) for one in found)
        yield each.join([one.text for one in found]) if is_good else None
