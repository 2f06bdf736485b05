"""What may be wrong with a translation, as far as that can be told without knowing either language."""

from __future__ import annotations

from collections import Counter
from typing import Final

from specmt.text.numbers import required_numbers
from specmt.text.placeholders import find_copied

_ENDS: Final = {".": ".", "。": ".", "!": "!", "！": "!", "?": "?", "？": "?", ":": ":", "：": ":", "…": "…"}
_CLOSING: Final = "\"'”“’‘»«›‹)]}"
_SHORT: Final = 20
"""Texts of fewer characters may be of any length in another language."""

_RATIO: Final = 3.0


def check(source: str, translation: str, languages: tuple[str, str]) -> list[str]:
    """Returns what a translation lacks, and what differs: numbers, what must be copied, the end, the length."""
    if not translation.strip():
        return ["the translation is empty"] if source.strip() else []
    problems = [
        f"the number {each.source} is not in the translation"
        for each in required_numbers(source, *languages)
        if each.found(translation) is None
    ]
    before, after = Counter(find_copied(source)), Counter(find_copied(translation))
    problems += [f"{token!r} is not in the translation" for token in before - after]
    problems += [f"{token!r} is in the translation only" for token in after - before]
    ends = [_ENDS.get(text.rstrip().rstrip(_CLOSING)[-1:], "") for text in (source, translation)]
    if ends[0] != ends[1]:
        shown = [f"{end!r}" if end else "no mark" for end in ends]
        problems.append(f"the source ends with {shown[0]}, the translation with {shown[1]}")
    one, other = len(source.strip()), len(translation.strip())
    if max(one, other) >= _SHORT and not 1 / _RATIO <= other / one <= _RATIO:
        problems.append(f"the source has {one} characters, the translation {other}")
    return problems
