"""Translation memories on disk: pairs of a text and its translation, as TSV or TMX."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Final, final

from typing_extensions import override

from specmt.errors import DataError
from specmt.languages import primary
from specmt.text.lines import open_input, reading
from specmt.text.streamed_xml import StreamedXml, language_of

Pair = tuple[str, str]
"""Source and target text."""

_MAX_BYTES: Final = 1 << 20
"""The longest line of TSV, and the longest stretch of TMX that must be kept: a unit, a tag or a comment."""

_MAX_DEPTH: Final = 100
_ESCAPE: Final = re.compile(r"\\([tr\\])")
_ESCAPED: Final = {"t": "\t", "r": "\r", "\\": "\\"}
_CODES: Final = frozenset({"bpt", "ept", "it", "ph", "ut"})
"""The elements of TMX that hold markup of the original format; ``hi`` holds text."""


def read_memory(path: Path, source: str, target: str) -> Iterator[Pair]:
    r"""Yields the pairs of a translation memory: TMX by the name ``.tmx``, else TSV; gzip by the name ``.gz``.

    TSV has source, tab, target on each line, with ``\t``, ``\r`` and ``\\`` for tab, carriage return and backslash;
    further columns are ignored. Of TMX, the languages are matched as far as ``de`` in ``de-AT``; of several texts in
    one language the first counts. Pairs with a blank side are left out. The file is read as the pairs are asked for.

    :param source: the language of the sources, such as ``de``
    :param target: the language of the targets
    :raises InputNotFoundError: the file cannot be opened, at once, or read.
    :raises DataError: the file is not what it should be; while iterating.
    """
    stream = open_input(path)
    name = str(path)
    if path.name.lower().removesuffix(".gz").endswith(".tmx"):
        pairs = _read_tmx(stream, name, primary(source), primary(target))
    else:
        pairs = ((one, other) for _, one, other in read_tsv(stream, name))
    return ((one.strip(), other.strip()) for one, other in pairs if one.strip() and other.strip())


def read_tsv(stream: BinaryIO, name: str) -> Iterator[tuple[int, str, str]]:
    """Yields the number of each line that is not blank, and its first two columns.

    :raises DataError: a line has no tab, is no text, or far too long.
    """
    with reading(stream, name):
        for number, raw in enumerate(iter(lambda: stream.readline(_MAX_BYTES + 1), b""), 1):
            if len(raw) > _MAX_BYTES:
                raise DataError(f"{name}: line {number} is longer than {_MAX_BYTES} bytes.")
            if b"\0" in raw:
                raise DataError(f"{name}: line {number} is not text, but holds a NUL byte.")
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise DataError(f"{name}: line {number} is not valid UTF-8.") from error
            source, tab, rest = line.partition("\t")
            if tab:
                yield number, _unescape(source), _unescape(rest.partition("\t")[0])
            elif line.strip():
                raise DataError(f"{name}: line {number} must be source, tab, target, but has no tab.")


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda found: _ESCAPED[found[1]], text)


def _read_tmx(stream: BinaryIO, name: str, source: str, target: str) -> Iterator[Pair]:
    units = _Units(name, source, target)
    yield from units.read(stream)
    if units.seen and not units.found:
        raise DataError(f"{name}: has no text in both {source} and {target}.")


@final
class _Units(StreamedXml[Pair]):
    """The translation units of a TMX file."""

    def __init__(self, name: str, source: str, target: str) -> None:
        super().__init__(name)
        self.seen = False
        """Whether the file has any unit."""
        self.found = False
        """Whether any unit has both languages."""
        self._languages = (source, target)
        self._texts: dict[str, str] = {}
        self._language = ""
        self._segment: list[str] | None = None
        self._codes = 0
        self._depth = 0
        self._fed = 0
        self._unit: int | None = None

    @override
    def feed(self, data: bytes, *, last: bool = False) -> list[Pair]:
        pairs = super().feed(data, last=last)
        self._fed += len(data)
        # What the parser has not told of yet it keeps, and so do we what a unit holds.
        if self._fed - (self.parser.CurrentByteIndex if self._unit is None else self._unit) > _MAX_BYTES:
            raise self.error(f"has more than {_MAX_BYTES} bytes in a unit, a tag or a comment")
        return pairs

    @override
    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if not self._depth and tag != "tmx":
            raise self.error(f"must open with <tmx>, but has <{tag}> instead")
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self.error(f"has more than {_MAX_DEPTH} elements in each other")
        if self._segment is not None:
            self._codes += tag in _CODES
        elif tag == "tu":
            self.seen = True
            self._texts = {}
            self._unit = self.parser.CurrentByteIndex
        elif tag == "tuv":
            self._language = language_of(attributes)
        elif tag == "seg" and self._unit is not None and self._language in self._languages:
            self._segment = []
            self._codes = 0

    @override
    def end(self, tag: str) -> None:
        self._depth -= 1
        if tag == "tu":
            self._unit = None
        if tag == "seg" and self._segment is not None:
            # Line breaks and indentation are the file's.
            self._texts.setdefault(self._language, " ".join("".join(self._segment).split()))
            self._segment = None
        elif self._segment is not None:
            self._codes -= tag in _CODES
        elif tag == "tu" and all(language in self._texts for language in self._languages):
            source, target = (self._texts[language] for language in self._languages)
            self.items.append((source, target))
            self.found = True

    @override
    def text(self, text: str) -> None:
        if self._segment is not None and not self._codes:
            self._segment.append(text)
