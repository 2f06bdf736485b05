"""Terms in TermBase eXchange files (ISO 30042), of version 2 and 3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import BinaryIO, Final, final
from xml.parsers import expat

from specmt.errors import DataError
from specmt.text.lines import reading
from specmt.text.memory import primary

_CHUNK: Final = 1 << 16
_MAX_CHARACTERS: Final = 1 << 16
"""The most characters of the terms of an entry."""

_ENTRIES: Final = frozenset({"termEntry", "conceptEntry"})
_LANGUAGES: Final = frozenset({"langSet", "langSec"})

Row = tuple[int, str, list[str]]
"""The line of an entry, a term, and its translations."""


def read_tbx(stream: BinaryIO, name: str, source: str, target: str) -> Iterator[Row]:
    """Yields the terms that have translations; each of several terms of an entry has all of them.

    :param source: the language of the terms, such as ``de``, which ``de-AT`` is, too
    :param target: that of the translations
    :raises DataError: the file is not what it should be, or has no term in both languages; while iterating.
    """
    entries = _Entries(name, primary(source), primary(target))
    found = False
    with reading(stream, name):
        while chunk := stream.read(_CHUNK):
            for row in entries.feed(chunk):
                found = True
                yield row
        yield from entries.feed(b"", last=True)
    if not found:
        raise DataError(f"{name}: has no terms in both {source} and {target}.")


@final
class _Entries:
    """The entries of a file, as its bytes come in."""

    def __init__(self, name: str, source: str, target: str) -> None:
        self._name, self._languages = name, (source, target)
        self._rows: list[Row] = []
        self._terms: dict[str, list[str]] = {}
        self._language = ""
        self._term: list[str] | None = None
        self._length = 0
        self._line = 1
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.EntityDeclHandler = self._refuse

    def feed(self, data: bytes, *, last: bool = False) -> list[Row]:
        """Returns the terms of the entries that end in the next bytes."""
        try:
            self._parser.Parse(data, last)
        except expat.ExpatError as error:
            raise self._error(f"is not well-formed XML ({expat.ErrorString(error.code)})") from error
        except (LookupError, ValueError) as error:  # from the declaration of the encoding
            raise self._error(f"cannot be decoded ({error})") from error
        rows, self._rows = self._rows, []
        return rows

    def _start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag in _ENTRIES:
            self._terms, self._length, self._line = {}, 0, self._parser.CurrentLineNumber
        elif tag in _LANGUAGES:
            self._language = primary(attributes.get("xml:lang", attributes.get("lang", "")))
        elif tag == "term":
            self._term = []

    def _end(self, tag: str) -> None:
        if tag == "term" and self._term is not None:
            if text := " ".join("".join(self._term).split()):
                self._terms.setdefault(self._language, []).append(text)
            self._term = None
        elif tag in _ENTRIES:
            terms, translations = (self._terms.get(language, []) for language in self._languages)
            self._rows += [(self._line, term, list(translations)) for term in terms if translations]

    def _text(self, text: str) -> None:
        if self._term is not None:
            self._term.append(text)
            self._length += len(text)
            if self._length > _MAX_CHARACTERS:
                raise self._error(f"has an entry with terms of more than {_MAX_CHARACTERS} characters")

    def _refuse(self, *_: object) -> None:
        raise self._error("must not declare entities")

    def _error(self, what: str) -> DataError:
        return DataError(f"{self._name}: line {self._parser.CurrentLineNumber} {what}.")
