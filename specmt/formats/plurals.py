"""The plural forms that languages have, by CLDR's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from specmt.languages import primary

CATEGORIES: Final = ("zero", "one", "two", "few", "many", "other")

_LANGUAGES: Final[Mapping[str, str]] = {
    "other": "bo dz id ig ja jv ko lo ms my su th to vi wo yo zh",
    "one few many other": "be cs lt pl ru sk uk",
    "one few other": "bs hr ro sh sr",
    "zero one other": "lv",
    "one two other": "he iw se",
    "one two few other": "dsb gd hsb sl",
    "one two few many other": "br ga gv mt",
    "zero one two few many other": "ar cy kw",
}
_FORMS: Final = {
    language: tuple(forms.split()) for forms, languages in _LANGUAGES.items() for language in languages.split()
}


def plural_forms(language: str) -> tuple[str, ...]:
    """Returns the categories that a language tells apart, in CLDR's order; ``other`` is always the last."""
    return _FORMS.get(primary(language), ("one", "other"))


def count_of_forms(language: str) -> int:
    """Returns how many forms whole numbers have; one of four in Slavic and Baltic languages is that of fractions."""
    forms = plural_forms(language)
    return len(forms) - (forms == ("one", "few", "many", "other"))
