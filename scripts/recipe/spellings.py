"""What a training text tells of characters and spellings: counts over its lines."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from specmt.text.lexicon import WORD, Lexicon, to_key

CHARACTERS: Final = 300
"""How often a character must occur to be learnt."""

WORDS: Final = 13
"""How often a word must occur within sentences to be listed."""

IN_CAPITALS: Final = 0.02
"""The share in capitals from which on that is no shouting."""

NAME: Final = 100
"""How often a word that is usually capitalised must occur so that in capitals it is no name of something else."""

_IN_SENTENCE: Final = re.compile(rf"(?<=[\w,;][ -]){WORD.pattern}")
_WHOLE: Final = re.compile(r"[a-zäöüß].*[.!?]$")
"""A sentence: names of commands have many capitals."""


def learn(sources: Iterable[Path], targets: Iterable[Path]) -> Lexicon:
    """Returns the lexicon of a training text: characters of both sides, spellings of the source's."""
    characters: Counter[str] = Counter()
    words: Counter[str] = Counter()
    for paths, counts in ((sources, words), (targets, None)):
        for path in paths:
            with path.open(encoding="utf-8") as lines:
                for line in lines:
                    characters.update(line)
                    if counts is not None and _WHOLE.search(line):
                        counts.update(_IN_SENTENCE.findall(line))
    letters = frozenset(c for c, n in characters.items() if n >= CHARACTERS and not c.isspace())
    return choose_spellings(letters, words)


def choose_spellings(letters: frozenset[str], words: Counter[str]) -> Lexicon:
    """Returns the lexicon with the most frequent spelling of each word."""
    forms: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for word, number in words.items():
        forms[to_key(word)][word.replace("’", "'")] += number
    spellings, keywords = {}, set()
    for key, counts in forms.items():
        if counts.total() >= WORDS and not any(map(str.isdigit, key)):
            spelling = max(counts, key=lambda form: (counts[form], form))
            spellings[key] = spelling
            is_rare = counts.total() < NAME and not spelling.islower()
            if spelling != key and (is_rare or counts[key] >= IN_CAPITALS * counts.total()):
                keywords.add(key)
    return Lexicon.of(letters, spellings, keywords)
