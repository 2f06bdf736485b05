"""Which pairs of a German-English corpus to train on, and in what form: pure functions over single pairs."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from typing import Final

from specmt.text.patterns import literal_pattern

WORD: Final = re.compile(r"[^\W\d_]+")

# Words that are frequent in one language and no words of the other.
_GERMAN: Final = (
    "aber als auch auf aus bei beim bis das dass daß dem den der des dies diese diesem diesen dieser dieses doch durch "
    "ein eine einem einen einer eines er es für gibt haben hatte ich ihm ihn ihr ihre ihrem ihren ihrer ist jedoch "
    "kann kein keine können mehr mein meine mich mir mit muss müssen nach nicht noch nur oder ohne schon sehr sein "
    "seine seiner sich sie sind soll sollte sollten sondern sowie über um und uns unter vom von vor wenn werden wie "
    "wir wird wurde wurden zu zum zur zwischen"
)
_ENGLISH: Final = (
    "a about after and are be because been before but by can could did do does for from had has have he his how "
    "if into is it its just my on only or other our out over she should than that the their them then there these "
    "they this those to use used using very we were what when where which who will with would you your"
)
GERMAN: Final = frozenset(_GERMAN.split())
ENGLISH: Final = frozenset(_ENGLISH.split())

# Spellings from before 1996, by the part of the word that gives them away. What is like them and still right today
# (Muße, müßig, Spaß, Gefäß) is not matched.
_OLD = re.compile(
    r"\bdaß\b|\b(?:haß|riß|biß|nuß|kuß|eß|meß)|muß(?!e)|müß(?!ig)|l[aä]ß|wuß|wüß|(?:sch|f)luß|schuß|proze?ß|kongreß|häß|"
    r"(?<!s)paß|(?<!s)päß|mißb|\bmiß|promiß|gewiß|genuß|\bnaß\b|blaß|faß|preß|streß|adreß|indeß|rußl",
    re.IGNORECASE,
)
_SPACES: Final = re.compile(r"[ \u00a0\u2000-\u200a\u202f\u3000]+")
# Soft hyphens, zero-width spaces, direction marks, BOMs, control characters but tabs. Joiners stay: emoji need them.
_INVISIBLE: Final = re.compile(r"[\u0000-\u0008\u000a-\u001f\u007f-\u009f\u00ad\u200b\u200e\u200f\u2060\ufeff\ufffd]")
_QUOTES: Final = str.maketrans({"“": '"', "”": '"', "„": '"', "‟": '"', "’": "'", "‘": "'"})

# A Greek beta in the place of ß, as optical character recognition has it.
_BETA: Final = re.compile(r"(?<=[a-zäöü])β")

MAX_CHARACTERS: Final = 1000


def normalise(text: str) -> str:
    """Returns the text in NFC, without invisible characters or misread ß, its spaces plain, single and inside."""
    text = _BETA.sub("ß", _INVISIBLE.sub("", unicodedata.normalize("NFC", text)))
    return _SPACES.sub(" ", text).strip()


def modern_spelling(german: str) -> str:
    """Returns German text with frequent spellings from before 1996 (daß, muß, Ausschuß) as they are written now."""

    def modern(match: re.Match[str]) -> str:
        return match[0].replace("ß", "ss")

    return _OLD.sub(modern, german) if "ß" in german else german


def plain_quotes(text: str) -> str:
    """Returns the text with typographic quotation marks and apostrophes of English as ASCII ones."""
    return text.translate(_QUOTES)


def literals(text: str) -> Counter[str]:
    """Returns what a translation must hold as it stands, and how often; of tags the name alone."""
    found = literal_pattern().finditer(text)
    return Counter(re.split(r"[\s>/]", m[0][1:].lstrip("/"))[0] if m.lastgroup == "tag" else m[0] for m in found)


def numbers(text: str) -> Counter[str]:
    """Returns the numbers in a text without their separators, and how often each occurs."""
    return Counter(re.sub(r"[.,\u2009]", "", m) for m in re.findall(r"\d+(?:[.,\u2009]\d+)*", text))


def evidence(text: str) -> tuple[int, int]:
    """Returns how many words of a text speak for German and how many for English."""
    words = [word.lower() for word in WORD.findall(text)]
    german = sum(word in GERMAN or any(c in "äöüß" for c in word) for word in words)
    return german, sum(word in ENGLISH for word in words)


def find_fault(german: str, english: str, *, strict: bool = False) -> str | None:
    """Returns why a pair is not to be trained on, in a word or two, or ``None``.

    Both sides are expected to be normalised.

    :param strict: whether the source is noisy: numbers must agree, and sentences must show their language.
    """
    if not german or not english:
        return "empty"
    if max(len(german), len(english)) > MAX_CHARACTERS:
        return "too long"
    shorter, longer = sorted((len(german), len(english)))
    if longer > 2 * shorter + 15:
        return "length ratio"
    words = len(WORD.findall(german))
    if german == english:
        # A name, a number or code is the same in both languages, a sentence is not.
        said = literal_pattern().sub(" ", german)
        return "identical" if len(WORD.findall(said)) > 3 and sum(evidence(said)) > 0 else None
    german_here, english_here = evidence(german)
    german_there, english_there = evidence(english)
    if english_here > max(1, 2 * german_here) or german_there > max(1, 2 * english_there):
        return "language"
    if words >= (8 if strict else 15) and 0 in (german_here, english_there):
        return "language"
    if literals(german) != literals(english):
        return "literals"
    if strict and numbers(german) != numbers(english):
        return "numbers"
    return None


def fold(text: str) -> str:
    """Returns what is left of a text for comparison: letters without case, and where digits are."""
    return re.sub(r"\W+", " ", re.sub(r"\d+", "0", text.casefold())).strip()


class Deduplicator:
    """Lets each pair pass once, and each sentence with so many translations, whatever the side."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._pairs: set[int] = set()
        self._counts: tuple[Counter[int], Counter[int]] = (Counter(), Counter())

    def admit(self, german: str, english: str) -> bool:
        """Returns whether the pair is new and neither side has had its translations; counts it if so."""
        sides = fold(german) or german, fold(english) or english
        pair, keys = hash(sides), (hash(sides[0]), hash(sides[1]))
        if pair in self._pairs or any(c[key] >= self.limit for c, key in zip(self._counts, keys, strict=True)):
            return False
        self._pairs.add(pair)
        for counts, key in zip(self._counts, keys, strict=True):
            counts[key] += 1
        return True
