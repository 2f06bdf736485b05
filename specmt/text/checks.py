"""What may be wrong with a translation, as far as that can be told without knowing either language."""

from __future__ import annotations

import re
from typing import Final

from specmt.text.judge import judge
from specmt.text.numbers import convert_letterless
from specmt.text.placeholders import find_copied, in_order

_END: Final = re.compile(r"(\.\.\.|[.。!！?？:：;；,，、…–—-])[\s\"'”“’‘»«›‹)\]}]*$")
_SAME: Final = dict(zip("。！？：；，、—-", ".!?:;,,––", strict=True)) | {"...": "…"}
"""Marks that say the same as others."""

_SHORT: Final = 20
"""Texts of fewer characters may be of any length in another language."""

_RATIO: Final = 3.0
_WORD: Final = re.compile(r"[^\W\d_]{2,}")
_SEVERAL: Final = 3
"""From so many words on, a text is not a name, which may be the same in another language."""

_FREE: Final = re.compile(r"[\s.,]+")
"""What a number in another language may have otherwise."""


def check(source: str, translation: str, languages: tuple[str, str]) -> list[str]:
    """Returns what a translation lacks, and what differs: numbers, what must be copied, the end, the length."""
    if not translation.strip():
        return ["the translation is empty"] if source.strip() else []
    has_letters = any(map(str.isalpha, source))
    if not has_letters and translation == convert_letterless(source, *languages):
        return []
    problems = judge(source, translation, languages, copied=find_copied(source))
    if not has_letters:
        if not problems and sorted(_FREE.sub("", source)) != sorted(_FREE.sub("", translation)):
            problems.append("a text without letters is changed")
        return problems
    if in_order(source) != in_order(translation) and not problems:
        problems.append("placeholders without a number are in another order")
    ends = [_end(text) for text in (source, translation)]
    if ends[0] != ends[1]:
        shown = [f"{end!r}" if end else "no mark" for end in ends]
        problems.append(f"the source ends with {shown[0]}, the translation with {shown[1]}")
    if _is_untranslated(source, translation):
        problems.append("the text is not translated")
    one, other = len(source.strip()), len(translation.strip())
    if max(one, other) >= _SHORT and not 1 / _RATIO <= other / one <= _RATIO:
        problems.append(f"the source has {one} characters, the translation {other}")
    return problems


def _end(text: str) -> str:
    """Returns the mark at the end of a text, before quotation marks and brackets."""
    match = _END.search(text)
    return _SAME.get(match[1], match[1]) if match else ""


def _is_untranslated(source: str, translation: str) -> bool:
    """Whether a text has the words of its source, several and not only names and what is copied."""
    words = _WORD.findall(translation)
    if words != _WORD.findall(source):
        return False
    copied = set(_WORD.findall(" ".join(find_copied(source))))
    words = [word for word in words if word not in copied]
    return len(words) >= _SEVERAL and any(map(str.islower, words))
