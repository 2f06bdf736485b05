"""Glossaries: terms and what they are to be in translations."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Final, final

import ahocorasick

from specmt.errors import DataError
from specmt.text.lines import open_input
from specmt.text.memory import read_tsv
from specmt.text.required import Required
from specmt.text.tbx import read_tbx

if TYPE_CHECKING:
    from specmt.text.pieces import PieceModel

MOST_FORMS: Final = 8
"""The most forms that a term's translation can have."""

MOST_PIECES: Final = 40
"""The most pieces of such a form."""


@dataclass(frozen=True)
class Entry:
    """A term."""

    source: str
    targets: tuple[str, ...]
    line: int
    """Where it is in its file."""


@final
class Glossary:
    """Finds terms in texts, in time linear in their length.

    A term counts where it is there as whole words; one without capital letters in any case, others as they are written.
    In capitals it is translated in capitals, and one that is its own translation stays as it is written.
    Of terms that overlap the one that begins first counts, and of those the longest.
    """

    def __init__(self, entries: Iterable[Entry], name: str) -> None:
        """
        :param name: the file's, for messages
        :raises DataError: two entries say different things of one term.
        """
        self.entries: dict[str, Entry] = {}
        self._automaton = ahocorasick.Automaton()
        for entry in entries:
            other = self.entries.setdefault(entry.source, entry)
            if other.targets != entry.targets:
                raise DataError(
                    f"{name}: line {entry.line} must translate {entry.source!r} as line {other.line} does, "
                    f"{'|'.join(other.targets)!r}, but has {'|'.join(entry.targets)!r} instead."
                )
            self._automaton.add_word(_lower(entry.source), _lower(entry.source))
        if self.entries:
            self._automaton.make_automaton()

    @cached_property
    def digest(self) -> str:
        """What stands for the entries where output depends on them."""
        entries = [(each.source, each.targets) for each in self.entries.values()]
        return hashlib.sha256(repr(entries).encode()).hexdigest()

    def __call__(self, text: str) -> list[Required]:
        """Returns the terms in a text, from left to right."""
        if not self.entries:
            return []
        found: list[Required] = []
        lowered = _lower(text)
        matches = ((end + 1 - len(key), end + 1) for end, key in self._automaton.iter(lowered))
        done = 0
        for start, end in sorted(matches, key=lambda span: (span[0], -span[1])):
            if start < done or _is_in_word(text, start) or _is_in_word(text, end):
                continue
            said = text[start:end]
            entry = self.entries.get(said) or self.entries.get(_lower(said))
            if entry is not None:
                found.append(Required((start, end), entry.source, _as_written(said, entry, text[:start])))
                done = end
        return found


def read_glossary(path: Path, pieces: PieceModel, source: str, target: str) -> Glossary:
    r"""Reads a glossary: TBX by the name ``.tbx``, else TSV; gzip by the name ``.gz``.

    TSV has term, tab, translation on each line, or several translations with ``|`` between them.

    ``\t``, ``\r`` and ``\\`` stand for tab, carriage return and backslash; further columns are ignored.

    :param pieces: those of the model; translations are what it can say
    :param source: the language of the terms, such as ``de``
    :param target: that of the translations
    :raises InputNotFoundError: the file cannot be opened or read.
    :raises DataError: it is not what it should be.
    """
    stream, name = open_input(path), str(path)
    if path.name.lower().removesuffix(".gz").endswith(".tbx"):
        return Glossary(_entries(read_tbx(stream, name, source, target), name, pieces), name)
    rows = ((number, term, forms.split("|")) for number, term, forms in read_tsv(stream, name))
    return Glossary(_entries(rows, name, pieces), name)


def make_glossary(terms: Mapping[str, Sequence[str]], pieces: PieceModel) -> Glossary:
    """Returns a glossary of terms and what they may be in translations; ``line`` in messages is the number of a term.

    :raises DataError: a term cannot be asked for.
    """
    rows = (
        (number, term, [forms] if isinstance(forms, str) else list(forms))
        for number, (term, forms) in enumerate(terms.items(), 1)
    )
    return Glossary(_entries(rows, "glossary", pieces), "glossary")


def _entries(rows: Iterable[tuple[int, str, list[str]]], name: str, pieces: PieceModel) -> Iterator[Entry]:
    for number, term, targets in rows:
        forms = [form.strip() for form in targets]
        if not term.strip() or not forms or not all(forms):
            raise DataError(f"{name}: line {number} must be term, tab, translation, but one of them is empty.")
        if len(forms) > MOST_FORMS:
            raise DataError(
                f"{name}: line {number} must have at most {MOST_FORMS} forms, but has {len(forms)} instead."
            )
        encoded = pieces.encode_targets(forms)
        for form, ids in zip(forms, encoded, strict=True):
            if not 0 < len(ids) <= MOST_PIECES:
                raise DataError(
                    f"{name}: line {number} must have forms of 1 to {MOST_PIECES} pieces, "
                    f"but {shortened(form)} has {len(ids)} instead."
                )
        yield Entry(term.strip(), tuple(pieces.decode(ids) for ids in encoded), number)


def _as_written(said: str, entry: Entry, before: str) -> tuple[str, ...]:
    """Returns the forms of a term in its translation: as the text writes it, if they are the term, or in capitals.

    One that begins a text may have a capital.

    :param before: what is in front of it
    """
    if entry.targets == (entry.source,):
        return (said,)
    if said.isupper() and len(said) > 1 and not entry.source.isupper():
        return tuple(map(str.upper, entry.targets))
    begins = said[0].isupper() and not any(map(str.isalnum, before))
    raised = (form[0].upper() + form[1:] for form in entry.targets) if begins else ()
    return tuple(dict.fromkeys((*raised, *entry.targets)))


def _is_in_word(text: str, place: int) -> bool:
    """Returns whether there are letters or digits on both sides of a place."""
    return 0 < place < len(text) and text[place - 1].isalnum() and text[place].isalnum()


def _lower(text: str) -> str:
    """Returns a text in lower case, as long as it was."""
    lowered = text.lower()
    return lowered if len(lowered) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
