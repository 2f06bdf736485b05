"""Counts what translations of 30 lines of each kind get right: names, numbers, negation, …; lines written for this.

Usage: python -m tests.golden.phenomena NAME|DIR [--show]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from specmt.options import DecodingOptions
from specmt.translator import Translator


@dataclass(frozen=True)
class Line:
    """A source line, and what a right translation has and has not."""

    kind: str
    source: str
    must: str
    """Regular expressions between ``&&``, all of which must be found."""

    must_not: str

    def holds(self, translation: str) -> bool:
        """Returns whether a translation is right, as far as the expressions see."""
        if translation == self.source or re.search(self.must_not, translation):
            return False
        return all(re.search(part, translation) for part in self.must.split(" && "))


def read_lines(direction: str) -> list[Line]:
    """Returns the lines for a direction, such as ``de-en``."""
    text = Path(__file__).with_name(f"phenomena.{direction}.tsv").read_text(encoding="utf-8")
    return [Line(*row.split("\t")) for row in text.splitlines()[1:]]


def count(lines: Iterable[Line], translations: Iterable[str]) -> dict[str, int]:
    """Returns how many translations hold, by kind."""
    counts: dict[str, int] = {}
    for line, translation in zip(lines, translations, strict=True):
        counts[line.kind] = counts.get(line.kind, 0) + line.holds(translation)
    return counts


def translate(translator: Translator, lines: Iterable[Line]) -> list[str]:
    """Returns greedy translations."""
    options = DecodingOptions(strategy="greedy")
    return [each.text for each in translator.translate([line.source for line in lines], options)]


def main() -> None:
    translator = Translator.from_pretrained(sys.argv[1])
    lines = read_lines("-".join(translator.model.languages))
    translations = translate(translator, lines)
    if "--show" in sys.argv:
        for line, translation in zip(lines, translations, strict=True):
            print("+" if line.holds(translation) else "-", line.kind, line.source, translation, sep="\t")
    for kind, number in count(lines, translations).items():
        print(f"{kind}\t{number}")


if __name__ == "__main__":
    main()
