"""What is found in translations, and which of it is known already."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from specmt.errors import DataError, InputNotFoundError

Level = Literal["error", "warning"]

ERRORS: Final = ("parse", "block", "branch", "placeholder", "tag", "code")
"""Kinds of what makes a translation wrong, or breaks what shows it."""

WARNINGS: Final = (
    *("missing", "outdated", "untranslated", "number", "link", "accelerator", "length"),
    *("term", "forbidden", "tone", "character"),
)
KINDS: Final = ERRORS + WARNINGS

_LINE: Final = re.compile(r"(?<= line )\d+")
"""The number of a line in what is said, which changes with what is before it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with a translation."""

    path: str
    """Of the translation, with ``/``."""

    line: int
    kind: str
    text: str
    source: str = ""
    target: str = ""
    """What the segment or block says, in both files."""

    @property
    def level(self) -> Level:
        """How bad it is."""
        return "error" if self.kind in ERRORS else "warning"

    @property
    def known_as(self) -> str:
        """How a baseline names it: by what both files say, not by where."""
        text = "" if self.kind == "outdated" else _LINE.sub("", self.text)
        said = f"{self.source}\0{self.target}\0{text}".encode("utf-8", "surrogatepass")
        return f"{hashlib.sha256(said).hexdigest()[:16]} {self.kind} {self.path}"


def new_ones(findings: Iterable[Finding], baseline: Path) -> Iterator[Finding]:
    """Yields what a baseline does not know; what it knows once may be there once.

    :raises InputNotFoundError: there is no such file.
    :raises DataError: it is no baseline.
    """
    try:
        lines = baseline.read_text("utf-8").splitlines()
    except FileNotFoundError as error:
        raise InputNotFoundError(f"{baseline}: no such file; `--write-baseline` writes it.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{baseline}: cannot be read ({error}).") from error
    for number, line in enumerate(lines, 1):
        if len(line.split(" ", 2)) < 3 or line.split(" ")[1] not in KINDS:
            raise DataError(f"{baseline}: line {number} must be a hash, a kind and a path, but is {line!r} instead.")
    known = Counter(lines)
    for finding in findings:
        if known[finding.known_as] > 0:
            known[finding.known_as] -= 1
        else:
            yield finding


def baseline_of(findings: Iterable[Finding]) -> str:
    """Returns the baseline that knows all of these."""
    lines = sorted((each.known_as for each in findings), key=lambda line: line.split(" ", 2)[::-1])
    return "".join(f"{line}\n" for line in lines)
