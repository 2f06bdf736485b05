"""The record of a translation: for each block of the source what it was translated from, to what, and by whom.

It is a text file, whose first line names format, languages and both files' git blob ids; a line a block follows::

    specmt-record 1 markdown de en 3b18e512dba79e4c8300dd08aeb37f8e728b8dad 0cfbf08886fca9a91cb753ec8734c84fcbe52c9f
    9f86d081884c7d65 - 2c26b46b68ffc68f m paragraph 9f86d081,60303ae2/2c26b46b,fcde2b2eh

of which the parts are: hash of the texts of the source block, of its markup, of the target block, origin, kind (of rows
of tables with # and the hash of their first cell) and key, and the hashes of the sentences on both sides; a sentence
that a person wrote in the target has an h behind it.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, cast
from urllib.parse import quote, unquote

from specmt.errors import DataError
from specmt.formats.blocks import Content
from specmt.text.segment import split_sentences

Origin = Literal["m", "h", "c", "-", "!", "o"]
"""Who made the translation of a block: the machine, a human, nobody, as it is a copy; ``-``: a person deleted it,
``!``: it was refused, ``o``: nothing says that it is of the present source."""

NONE: Final = "-"
"""The hash of no text, and the blob id of a file that is not known."""

_MAGIC: Final = "specmt-record"
_VERSION: Final = "1"
_SAFE: Final = "/.[]_-#@"
_LINE: Final = re.compile(
    r"([0-9a-f]{16}|-) ([0-9a-f]{16}|-) ([0-9a-f]{16}|-) ([mhc\-!o]) ([^ :]+)(?::([^ ]*))? "
    r"((?:[0-9a-f]{8}(?:,(?=[0-9a-f])|(?=/)))*)/((?:[0-9a-f]{8}h?(?:,(?=[0-9a-f])|$))*)"
)
_HEADER: Final = re.compile(rf"{_MAGIC} (\d+) (\S+) (\S+) (\S+) ([0-9a-f]{{40}}|-) ([0-9a-f]{{40}}|-)")
_CONFLICT: Final = re.compile(
    r"^<<<<<<<(?: .*)?\r?\n(?P<ours>(?:(?!>>>>>>>|=======\r?\n|\|\|\|\|\|\|\|).*\n)*)"
    r"(?:\|{7}(?: .*)?\r?\n(?:(?!>>>>>>>|=======\r?\n).*\n)*)?"
    r"=======\r?\n(?P<theirs>(?:(?!>>>>>>>).*\n)*)>>>>>>>(?: .*)?(?:\r?\n|\Z)",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Item:
    """What tells a block from others: its kind, its key, and what it says as hashes."""

    kind: str
    key: str
    text: str
    markup: str = NONE
    sentences: tuple[str, ...] = ()

    copied: str = NONE
    """Of a block of a source: the hash that a copy of it in a target has."""

    is_plain: bool = False
    """Whether it is one text without markup."""

    first: str = ""
    """Of a row of a table in a source: the hash of its first cell."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A block of the source and its translation."""

    kind: str
    key: str
    source: str
    markup: str
    target: str
    origin: Origin
    sentences: tuple[str, ...]
    translated: tuple[str, ...]
    first: str = ""

    @property
    def source_item(self) -> Item:
        """What the block of the source was."""
        return Item(self.kind, self.key, self.source, self.markup, self.sentences, first=self.first)

    @property
    def target_item(self) -> Item:
        """What the block of the target was."""
        return Item(self.kind, self.key, self.target, NONE, tuple(each[:8] for each in self.translated))


@dataclass(frozen=True, slots=True)
class Record:
    """What is known of two files."""

    file_format: str
    source_language: str
    target_language: str
    source_blob: str
    target_blob: str
    entries: Sequence[Entry]

    def is_of(self, source: bytes, target: bytes) -> bool:
        """Whether both files are as they were."""
        return (self.source_blob, self.target_blob) == (blob_id(source), blob_id(target))


def blob_id(data: bytes) -> str:
    """Returns the name that git gives to the contents of a file."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def digest(parts: Iterable[str], size: int = 16) -> str:
    """Returns a hash of a text in parts, for which white space is one space and composed letters are one."""
    said = " ".join(unicodedata.normalize("NFC", " ".join(parts)).split())
    return hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:size]


def source_item(kind: str, key: str, content: Content, language: str) -> Item:
    """Returns what a block of a source is."""
    texts, markup = (digest(each) if each else NONE for each in (content.texts, _apart(content.markup)))
    copied = _target_digest(content)
    first = digest([content.first], 8) if content.first else ""
    return Item(kind, key, texts, markup, _sentences(content.texts, language), copied, content.is_plain, first)


def target_item(kind: str, key: str, content: Content, language: str) -> Item:
    """Returns what a block of a target is; its markup is part of what it says."""
    sentences = _sentences(content.texts, language)
    return Item(kind, key, _target_digest(content), NONE, sentences, is_plain=content.is_plain)


def sentences_in(texts: Iterable[str], language: str) -> list[str]:
    """Returns the sentences of texts."""
    return [sentence for text in texts for sentence, _ in split_sentences(text, language) if sentence.strip()]


def _target_digest(content: Content) -> str:
    return digest([*content.texts, *_apart(content.markup)])


def _apart(markup: Iterable[str]) -> list[str]:
    """Returns parts of markup with what texts and each other cannot have between them."""
    return [f"\0{each}" for each in markup]


def _sentences(texts: Iterable[str], language: str) -> tuple[str, ...]:
    return tuple(digest([sentence], 8) for sentence in sentences_in(texts, language))


def written(record: Record) -> str:
    """Returns a record as it is in its file."""
    named = (record.file_format, record.source_language, record.target_language, record.source_blob, record.target_blob)
    lines = [" ".join((_MAGIC, _VERSION, *named))]
    for each in record.entries:
        name = quote(each.kind, "/") + (f"#{each.first}" if each.first else "")
        name += f":{quote(each.key, _SAFE)}" if each.key else ""
        sentences = f"{','.join(each.sentences)}/{','.join(each.translated)}"
        lines.append(" ".join((each.source, each.markup, each.target, each.origin, name, sentences)))
    return "\n".join(lines) + "\n"


def parse(text: str, present: Collection[str] = ()) -> Record:
    """Reads a record; of two lines between the marks of a conflict the one that fits the target wins, else neither.

    :param present: the hashes of the blocks of the target
    :raises DataError: it is none; the message begins with the line.
    """
    chosen = _CONFLICT.sub(lambda match: _resolved(match["ours"], match["theirs"], present), text)
    is_merged = chosen != text
    lines = chosen.splitlines()
    header = _HEADER.fullmatch(lines[0]) if lines else None
    if header is None:
        raise DataError("line 1 is not that of a record")
    if header[1] != _VERSION:
        raise DataError(f"line 1 is of version {header[1]}, which this program does not read")
    entries = [_entry(line, number) for number, line in enumerate(lines[1:], 2)]
    blobs = (NONE, NONE) if is_merged else (header[5], header[6])
    return Record(header[2], header[3], header[4], *blobs, entries)


def _entry(line: str, number: int) -> Entry:
    match = _LINE.fullmatch(line)
    if match is None:
        raise DataError(f"line {number} is not that of a record")
    source, markup, target, origin, kind, key, one, other = match.groups()
    said, made = (tuple(filter(None, side.split(","))) for side in (one, other))
    kind, _, first = kind.partition("#")
    return Entry(unquote(kind), unquote(key or ""), source, markup, target, cast(Origin, origin), said, made, first)


def _resolved(ours: str, theirs: str, present: Collection[str]) -> str:
    """Returns the lines of both sides of a conflict that fit the target, or are the same on both."""
    header = next(filter(_HEADER.fullmatch, [*ours.splitlines(), *theirs.splitlines()]), "")
    one, other = ([line for line in side.splitlines() if not _HEADER.fullmatch(line)] for side in (ours, theirs))
    kept = [line for line in one if line in other or _fits(line, present)]
    kept += [line for line in other if line not in one and _fits(line, present)]
    return "".join(f"{line}\n" for line in [header, *kept] if line)


def _fits(line: str, present: Collection[str]) -> bool:
    match = _LINE.fullmatch(line)
    return match is not None and match[3] in present
