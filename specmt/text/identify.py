"""Which language a text is in."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_SURE: Final = 0.99
_FEWEST: Final = 100
"""Of so many characters a text must be for its language to be sure."""


@cache
def identifier(codes: frozenset[str]) -> LanguageIdentifier | None:
    """Returns what tells some languages from each other, if it knows any of them."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    found = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    known = codes & {*found.nb_classes}
    if not known:
        return None
    found.set_languages(sorted(known))
    return found


def are_swapped(source: str, target: str, languages: tuple[str, str]) -> bool:
    """Whether a text is surely in the second of two languages, and its translation in the first."""
    known = identifier(frozenset(languages)) if min(len(source), len(target)) >= _FEWEST else None
    if known is None or len(known.nb_classes) < 2:
        return False
    found = [known.rank(text)[0] for text in (target, source)]
    return tuple(code for code, _ in found) == languages and min(share for _, share in found) >= _SURE
