"""Terms in TermBase eXchange files (ISO 30042), of version 2 and 3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import BinaryIO, Final, final

from typing_extensions import override

from specmt.errors import DataError
from specmt.languages import primary
from specmt.text.streamed_xml import StreamedXml, language_of

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
    found = False
    for row in _Entries(name, primary(source), primary(target)).read(stream):
        found = True
        yield row
    if not found:
        raise DataError(f"{name}: has no terms in both {source} and {target}.")


@final
class _Entries(StreamedXml[Row]):
    """The entries of a file."""

    def __init__(self, name: str, source: str, target: str) -> None:
        super().__init__(name)
        self._languages = (source, target)
        self._terms: dict[str, list[str]] = {}
        self._language = ""
        self._term: list[str] | None = None
        self._length = 0
        self._line = 1

    @override
    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag in _ENTRIES:
            self._terms, self._length, self._line = {}, 0, self.parser.CurrentLineNumber
        elif tag in _LANGUAGES:
            self._language = language_of(attributes)
        elif tag == "term":
            self._term = []

    @override
    def end(self, tag: str) -> None:
        if tag == "term" and self._term is not None:
            if text := " ".join("".join(self._term).split()):
                self._terms.setdefault(self._language, []).append(text)
            self._term = None
        elif tag in _ENTRIES:
            terms, translations = (self._terms.get(language, []) for language in self._languages)
            self.items += [(self._line, term, list(translations)) for term in terms if translations]

    @override
    def text(self, text: str) -> None:
        if self._term is not None:
            self._term.append(text)
            self._length += len(text)
            if self._length > _MAX_CHARACTERS:
                raise self.error(f"has an entry with terms of more than {_MAX_CHARACTERS} characters")
