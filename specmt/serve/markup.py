"""What is done with documents and texts with markup, in a thread or a process: all but the translating is here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, Final, NamedTuple, final

from specmt import documents as program
from specmt import formats
from specmt.formats.document import Document, FormatOptions, TagRules
from specmt.options import DecodingOptions
from specmt.serve.languages import MOST
from specmt.types import Alternative, Line, Stats, Translation

_LINES: Final = 1024
_CHARACTERS: Final = 1 << 16
"""How much is translated at a time, so that a book does not fill the queue."""

Ask = Callable[..., Any]
"""Asks for the languages of texts (``pairs``) or for translations (``lines``)."""

Said = tuple[str, list[tuple[int, int]] | None, list[str], int, list[str]]
"""Text, alignment, warnings, what is left in its language, and further translations."""


class Work(NamedTuple):
    """What is to be done with documents."""

    documents: list[bytes]
    file_format: str
    source: str | None
    """``None`` finds out."""
    target: str
    options: DecodingOptions
    tags: TagRules = TagRules()
    ranks: int = 0
    """How many translations there are to be of one document, from an n-best list; 0 for one of each."""

    def run(self, ask: Ask) -> list[bytes]:
        """Returns the translated documents; one that is in the language already stays as it is.

        :raises DataError: one of them is damaged.
        """
        read = [self._read(data, self.source or "") for data in self.documents]
        pairs = ask("pairs", [self._words(document) if self.source is None else "" for document in read])
        written = dict(enumerate(self.documents))
        for pair in dict.fromkeys(pairs):
            if pair[0] == pair[1]:
                continue
            numbers = [number for number, each in enumerate(pairs) if each == pair]
            # Of some formats the language says what is in them.
            own = [read[each] if read[each].segments else self._read(self.documents[each], pair[0]) for each in numbers]
            through = _Through(ask, pair)
            for through.rank in range(self.ranks or 1):
                named = (("the document", each) for each in own)
                finished = program.translate_documents(through, named, self.options, language=pair[0])
                written |= zip([through.rank] if self.ranks else numbers, (each.data for each in finished), strict=True)
        return [*written.values()]

    def _read(self, data: bytes, source: str) -> Document:
        options = FormatOptions(source=source, target=self.target, tags=self.tags)
        return formats.read_document(data, "the document", self.file_format, options)

    def _words(self, document: Document) -> str:
        return "\n".join(each.source.text[:MOST] for each in document.segments[:1000])[:MOST]


@final
class _Through:
    """A translator that asks somebody else, and says the same lines again where they are asked for once more."""

    def __init__(self, ask: Ask, pair: tuple[str, str]) -> None:
        self._ask = ask
        self._pair = pair
        self.rank = 0
        """Which of an n-best list is said."""
        self._kept: dict[tuple[str, bool], Translation] = {}

    def translate(self, lines: Iterable[Line], options: DecodingOptions) -> Iterator[Translation]:
        """Translates lines, in order."""
        if not self.rank:
            yield from self._asked(lines, options)
            return
        for line in lines:
            key = line.text, line.aligned
            (found,) = [self._kept[key]] if key in self._kept else self._asked([line], options)
            better = found.alternatives[: self.rank]
            yield found if not better else replace(found, text=better[-1].text, alignment=None)

    def _asked(self, lines: Iterable[Line], options: DecodingOptions) -> Iterator[Translation]:
        waiting = iter(lines)
        while batch := list(_some(waiting)):
            said: list[Said] = self._ask("lines", self._pair, batch, options)
            for line, (text, alignment, warnings, left, others) in zip(batch, said, strict=True):
                found = Translation(
                    line,
                    text,
                    stats=Stats(left=left),
                    alignment=alignment,
                    warnings=warnings,
                    alternatives=[Alternative(other, 0.0) for other in others],
                )
                if options.n_best > 1:
                    self._kept[line.text, line.aligned] = found
                yield found


def _some(lines: Iterator[Line]) -> Iterator[Line]:
    """Yields the next lines, as many as are translated at a time."""
    size = 0
    for line in islice(lines, _LINES):
        yield line
        size += len(line.text)
        if size > _CHARACTERS:
            return
