"""What a model folder says of the text that its model was trained on: known characters, and how words are spelled."""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from specmt.errors import ModelError

LEXICON: Final = "lexicon.txt.gz"

WORD: Final = re.compile(r"[^\W_]+(?:['’][^\W\d_]+)*")
"""A word as it is looked up; words with hyphens are several."""

MOST: Final = 1 << 24
"""The most bytes of the text in the file; the bundled ones have half a million."""

_LATIN: Final = (0, 0x7E), (0xC0, 0xD6), (0xD8, 0xF6), (0xF8, 0x24F), (0x1E00, 0x1EFF)
_OTHERS: Final = "„“”‚‘’«»‹›–—…\ufffc"

_TAIL: Final = 4
"""The fewest letters of the last word of a compound."""

_LONGEST: Final = 80
"""The most letters of a compound."""


@dataclass(frozen=True)
class Lexicon:
    """Characters that a model has learnt, and spellings of words of its source language."""

    letters: frozenset[str] = frozenset()
    """The characters that were frequent in the training text; Latin letters are known anyway."""

    words: str = ""
    """A spelling within a sentence a line, and behind an empty line those of keywords."""

    @staticmethod
    def of(letters: frozenset[str], spellings: Mapping[str, str], keywords: Container[str]) -> Lexicon:
        """Returns a lexicon of words in capitals and their spellings, and of those that are keywords."""
        words = sorted(spellings.items())
        parts = ([word for key, word in words if (key in keywords) is wanted] for wanted in (False, True))
        return Lexicon(letters, "\n\n".join(map("\n".join, parts)))

    @cached_property
    def spellings(self) -> Mapping[str, str]:
        """Words in capitals, ``STRASSE`` for ``Straße``, and their usual spelling within a sentence."""
        return dict(zip(to_key(self.words).split(), self.words.split(), strict=True))

    @cached_property
    def keywords(self) -> frozenset[str]:
        """Those of the words that may be meant in capitals: the SELECT of a database, and what may be a name."""
        return frozenset(to_key(self.words).partition("\n\n")[2].split())

    @cached_property
    def unlearnt(self) -> Callable[[str], set[str]] | None:
        """Finds the characters of a text that were not learnt; Latin letters always were. ``None``: it is not known."""
        if not self.letters:
            return None
        known = self.letters.union(_OTHERS, *(map(chr, range(first, last + 1)) for first, last in _LATIN))
        return lambda text: {char for char in {*text} - known if not char.isspace()}

    def spell(self, word: str) -> str:
        """Returns the usual spelling of a word in capitals.

        A compound is spelled like its last word: ``STRASSENFEST`` like ``Fest``. Short words that are not listed are
        taken for abbreviations, others are written small.
        """
        key = to_key(word)
        head, apostrophe, tail = key.partition("'")
        if key not in self.spellings and apostrophe:
            return f"{self.spell(head)}'{tail.lower()}"
        if key not in self.spellings and self.spellings and len(word) <= _TAIL:
            return word
        spelling = self.spellings.get(key) or self._spell_compound(key)
        return spelling if "ß" in spelling or not {*"ßẞ"} & {*word} else spelling[0] + word[1:].lower()

    def is_word(self, word: str) -> bool:
        """Returns whether a word in capitals is listed, or a compound with a listed noun at its end."""
        key = to_key(word)
        return key in self.spellings or not self._spell_compound(key).islower()

    def _spell_compound(self, key: str) -> str:
        for cut in range(_TAIL, min(len(key), _LONGEST) - _TAIL + 1):
            tail = self.spellings.get(key[cut:])
            if tail is not None:
                head = self.spellings.get(key[:cut], key[:cut]).lower()
                return (head.capitalize() if tail[0].isupper() else head) + tail.lower()
        return key.lower()


def to_key(word: str) -> str:
    """Returns a word in capitals as it is looked up: SS for ß and ẞ, the straight apostrophe."""
    return word.upper().replace("ẞ", "SS").replace("’", "'")


def load_lexicon(
    names: Container[str], locate: Callable[[str], Path], letters: Callable[[], frozenset[str]] = frozenset
) -> Lexicon:
    """Returns the lexicon of a model; without the file, one without spellings.

    :param names: the names of the model's files
    :param locate: returns the path of a file of the model
    :param letters: returns the characters that are learnt if the model does not say it
    :raises ModelError: the file is not what it should be.
    """
    return read_lexicon(locate(LEXICON)) if LEXICON in names else Lexicon(letters())


def read_lexicon(path: Path) -> Lexicon:
    """Returns the lexicon in a file.

    :raises ModelError: the file is missing or is not what it should be.
    """
    try:
        with gzip.open(path) as stream:
            data = stream.read(MOST + 1)
        if len(data) > MOST:
            raise ValueError(f"it has more than {MOST:,} bytes")
        letters, _, words = data.decode().partition("\n")
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise ModelError(f"{path}: is no lexicon ({error}).") from error
    return Lexicon(frozenset(letters), words)


def write_lexicon(path: Path, lexicon: Lexicon) -> None:
    """Writes a lexicon, its characters on the first line; equal ones give equal bytes."""
    text = f"{''.join(sorted(lexicon.letters))}\n{lexicon.words}"
    path.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
