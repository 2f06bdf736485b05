"""Glossaries that clients make: kept in memory, each for the key that made it, for as long as the server runs."""

from __future__ import annotations

import csv
import hashlib
import io
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from typing import Final, final

from specmt.serve.errors import RefusedError

MOST: Final = 100
"""How many glossaries a key may have."""

MOST_BYTES: Final = 1 << 20
"""The most bytes of the entries of a glossary, of all its languages together."""

MOST_BYTES_OF_TERM: Final = 1024

FORMATS: Final = ("tsv", "csv")

_NO_TEXT: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


@dataclass(frozen=True)
class Terms:
    """The terms of a pair of languages, which never change."""

    pair: tuple[str, str]
    """The languages of the terms and of their translations."""

    entries: Mapping[str, str]

    @cached_property
    def tsv(self) -> str:
        """The entries, one a line."""
        return "\n".join(f"{term}\t{translation}" for term, translation in self.entries.items())

    @cached_property
    def digest(self) -> str:
        """What stands for the entries where answers depend on them."""
        return hashlib.sha256(self.tsv.encode()).hexdigest()


@dataclass(frozen=True)
class Glossary:
    """Terms of one pair of languages, or of several; it never changes either, but gives way to another of its id."""

    name: str
    terms: Mapping[tuple[str, str], Terms]
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    created: datetime = field(default_factory=lambda: datetime.now(timezone.utc))

    def find(self, pair: tuple[str, str]) -> Terms:
        """Returns the terms of a pair of languages.

        :raises RefusedError: there are none.
        """
        found = self.terms.get(pair)
        if found is None:
            pairs = " and ".join(" to ".join(each) for each in self.terms) or "no languages"
            raise RefusedError(400, f"The glossary is for {pairs}, not for {' to '.join(pair)}.")
        return found


@final
class Glossaries:
    """The glossaries of all clients."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, Glossary]] = {}

    def put(self, owner: str, glossary: Glossary) -> None:
        """Keeps a glossary, in the place of the one that has its id.

        :param owner: whose it is
        :raises RefusedError: it is too large, or there are too many already.
        """
        if sum(len(each.tsv.encode()) for each in glossary.terms.values()) > MOST_BYTES:
            raise _too_large()
        if glossary.id not in self._of.get(owner, ()):
            self.check_room(owner)
        self._of.setdefault(owner, {})[glossary.id] = glossary

    def check_room(self, owner: str) -> None:
        """
        :raises RefusedError: there are too many to add another one.
        """
        if len(self._of.get(owner, ())) >= MOST:
            raise RefusedError(456, f"Quota exceeded: there are {MOST} glossaries, the most that a key may have.")

    def find(self, owner: str, name: str) -> Glossary:
        """Returns the glossary of an id.

        :raises RefusedError: there is none.
        """
        found = self._of.get(owner, {}).get(name)
        if found is None:
            raise RefusedError(404, "Glossary not found")
        return found

    def all(self, owner: str) -> list[Glossary]:
        """Returns the glossaries of an owner, the oldest first."""
        return list(self._of.get(owner, {}).values())

    def remove(self, owner: str, name: str) -> None:
        """Drops a glossary.

        :raises RefusedError: there is none.
        """
        self.find(owner, name)
        del self._of[owner][name]


def read_entries(text: str, entries_format: str) -> dict[str, str]:
    """Returns terms and their translations.

    :param entries_format: one of :data:`FORMATS`: a tab or a comma between them, an entry a line; of CSV, the languages
        may be in the third and fourth column
    :raises RefusedError: they are something else, or too many.
    """
    if len(text.encode()) > MOST_BYTES:
        raise _too_large()
    rows = _csv(text) if entries_format == "csv" else (line.rstrip("\r").split("\t") for line in text.split("\n"))
    entries: dict[str, str] = {}
    for number, row in enumerate(rows, 1):
        if not any(cell.strip() for cell in row):
            continue
        if len(row) not in ((2, 4) if entries_format == "csv" else (2,)):
            raise _wrong(number, "must be a term and its translation")
        term, translation = (_checked(cell.strip(), number) for cell in row[:2])
        if term in entries:
            raise _wrong(number, f"has the term {term!r} again")
        entries[term] = translation
    if not entries:
        raise RefusedError(400, "Invalid glossary entries provided: there are none")
    return entries


def _csv(text: str) -> Iterator[list[str]]:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        yield from rows
    except csv.Error as error:
        raise _wrong(rows.line_num, f"is not CSV ({error})") from None


def _checked(text: str, number: int) -> str:
    if not text:
        raise _wrong(number, "has an empty term or translation")
    if len(text.encode()) > MOST_BYTES_OF_TERM:
        raise _wrong(number, f"has a term or translation of more than {MOST_BYTES_OF_TERM} bytes")
    if _NO_TEXT.search(text):
        raise _wrong(number, "has a control character")
    return text


def _too_large() -> RefusedError:
    return RefusedError(413, f"Invalid glossary entries provided: they exceed the limit ({MOST_BYTES} bytes)")


def _wrong(number: int, what: str) -> RefusedError:
    return RefusedError(400, f"Invalid glossary entries provided: line {number} {what}")
