"""What a translation must contain: terms of a glossary, or numbers of the source."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from specmt.types import Span

_PATTERNS: Final = 1024
"""How many forms are held ready to be looked for."""


class Required(NamedTuple):
    """Something in a text whose translation is known."""

    span: Span
    """Where it is in the text."""

    source: str
    """What it is there."""

    forms: tuple[str, ...]
    """What its translation may be: the translation has one of these."""

    def found(self, translation: str) -> str | None:
        """Returns the first form that a translation has as whole words; one in lower case is found in any case."""
        return next((form for form in self.forms if _pattern(form).search(translation)), None)


Finder = Callable[[str], Sequence[Required]]
"""Returns what a source requires."""


@lru_cache(_PATTERNS)
def _pattern(form: str) -> re.Pattern[str]:
    flags = re.IGNORECASE if form == form.lower() else 0
    # What goes on behind a point or comma is another number.
    return re.compile(rf"(?<!\w)(?<!\d[.,]){re.escape(form)}(?!\w|[.,]\d)", flags)


def are_met(required: Sequence[Required], translation: str) -> bool:
    """Returns whether a translation has every term once for each time that the source has it, in one form alone."""
    for each, count in Counter(each._replace(span=(0, 0)) for each in required).items():
        places = {match.start() for form in each.forms for match in _pattern(form).finditer(translation)}
        if len(places) != count or (
            each.source.lower() not in map(str.lower, each.forms) and _pattern(each.source).search(translation)
        ):
            return False
    return True
