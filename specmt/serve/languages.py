"""Languages: their names, their codes in other people's spelling, and which one a text is in."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple, final

from specmt.languages import find_code
from specmt.text.identify import identifier

NAMES: Final = {
    "ar": "Arabic", "bg": "Bulgarian", "bn": "Bengali", "ca": "Catalan", "cs": "Czech", "da": "Danish",
    "de": "German", "el": "Greek", "en": "English", "eo": "Esperanto", "es": "Spanish", "et": "Estonian",
    "eu": "Basque", "fa": "Persian", "fi": "Finnish", "fr": "French", "ga": "Irish", "gl": "Galician",
    "he": "Hebrew", "hi": "Hindi", "hr": "Croatian", "hu": "Hungarian", "id": "Indonesian", "it": "Italian",
    "ja": "Japanese", "ko": "Korean", "lt": "Lithuanian", "lv": "Latvian", "ms": "Malay", "nb": "Norwegian",
    "nl": "Dutch", "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak",
    "sl": "Slovenian", "sq": "Albanian", "sr": "Serbian", "sv": "Swedish", "th": "Thai", "tl": "Tagalog",
    "tr": "Turkish", "uk": "Ukrainian", "ur": "Urdu", "vi": "Vietnamese", "zh": "Chinese",
}  # fmt: skip


MOST: Final = 10_000
"""The most characters of a text by which its language is found out."""


class Detected(NamedTuple):
    """A language that a text may be in."""

    language: str
    confidence: float
    """From 0 to 100."""


@final
class Languages:
    """The languages of the models that are there."""

    def __init__(self, pairs: Collection[tuple[str, str]]) -> None:
        """
        :param pairs: source and target of each model
        """
        self.pairs: Final = tuple(dict.fromkeys(pairs))
        self.codes: Final = sorted({code for pair in self.pairs for code in pair})
        self.sources: Final = sorted({source for source, _ in self.pairs})
        self.targets: Final = sorted({target for _, target in self.pairs})

    def targets_of(self, source: str) -> list[str]:
        """Returns what a language can be translated to, itself included."""
        return sorted({source, *(target for each, target in self.pairs if each == source)})

    def find(self, code: str) -> str | None:
        """Returns the code of ours that is meant, as ``en`` by ``EN-GB``; ``None`` if there is none."""
        return find_code(code, self.codes)

    def detect(self, text: str) -> list[Detected]:
        """Returns the languages that a text may be in, the likeliest first; none but those that are there."""
        detector = identifier(frozenset(self.codes))
        shares: dict[str, float] = {} if detector is None else dict(detector.rank(text[:MOST]))
        ranked = [Detected(code, round(100.0 * float(share), 1)) for code, share in shares.items()]
        # Those that the detector has never heard of come last.
        return ranked + [Detected(code, 0.0) for code in self.codes if code not in shares]


def name_of(code: str) -> str:
    """Returns the English name of a language, or its code."""
    return NAMES.get(code, code)
