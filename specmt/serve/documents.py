"""Documents and texts with markup: taken apart, their sentences through the service, and put together again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, final

from specmt import documents as program
from specmt import formats
from specmt.errors import DataError
from specmt.formats.document import Document, FormatOptions, TagRules
from specmt.serve.asked import Caller, Manner, Pair
from specmt.serve.errors import RefusedError
from specmt.serve.languages import Detected
from specmt.types import Line, Translation

if TYPE_CHECKING:
    from specmt.feeder import Cutter
    from specmt.options import DecodingOptions

KINDS: Final = ("html", "xml")
"""What texts may be written in, beside plain text."""

PLAIN: Final = ".txt"
"""What is translated line by line."""

_MARK: Final = b"\xef\xbb\xbf"
"""Says that a text is UTF-8, whatever it declares."""


class LineTranslator(Protocol):
    """What sentences of documents are translated by: the service."""

    @property
    def options(self) -> DecodingOptions:
        """Those of the server."""

    def find_pairs(self, texts: Sequence[str], source: str | None, target: str) -> list[tuple[Pair, Detected | None]]:
        """As :meth:`specmt.serve.service.Service.find_pairs`."""

    async def translate_lines(
        self, lines: Sequence[Line], pair: Pair, options: DecodingOptions, caller: Caller, cutter: Cutter | None = None
    ) -> list[Translation]:
        """As :meth:`specmt.serve.service.Service.translate_lines`."""


class Written(NamedTuple):
    """A document translated."""

    data: bytes
    detected: Detected | None = None
    """The language that it was found to be in, where that was asked."""


def format_of(name: str, head: bytes = b"") -> str | None:
    """Returns the format of a file's name, ``text`` for plain text; ``None`` for what cannot be translated.

    :param head: how it begins; empty: not known
    """
    if name.lower().endswith(PLAIN):
        return "text"
    if name.lower().endswith(".gz"):  # of which nobody knows how large it is
        return None
    return formats.format_of(name, head)


async def translate_texts(
    service: LineTranslator,
    texts: Sequence[str],
    source: str | None,
    target: str,
    caller: Caller,
    manner: Manner,
    cutter: Cutter | None,
) -> list[Written]:
    """Translates texts with markup.

    :raises RefusedError: as :meth:`LineTranslator.translate_lines`, or such texts cannot be taken apart.
    """
    if manner.kind not in KINDS:
        raise RefusedError(400, f"{manner.kind} format is not supported")
    documents, options = [_MARK + text.encode() for text in texts], replace(service.options, split=manner.splits)
    found = await translate_documents(
        service, documents, manner.kind, source, target, caller, tags=manner.tags, cutter=cutter, options=options
    )
    return [Written(each.data.removeprefix(_MARK), each.detected) for each in found]


async def translate_documents(
    service: LineTranslator,
    documents: Sequence[bytes],
    file_format: str,
    source: str | None,
    target: str,
    caller: Caller,
    *,
    tags: TagRules | None = None,
    cutter: Cutter | None = None,
    options: DecodingOptions | None = None,
) -> list[Written]:
    """Translates documents of a format.

    :param options: by default those of the server
    :raises RefusedError: one of them is damaged, or as :meth:`LineTranslator.translate_lines`.
    """

    def read(data: bytes, pair: Pair) -> Document:
        return _read(data, file_format, pair, tags or TagRules())

    def words(data: bytes) -> str:
        return "\n".join(segment.source.text for segment in read(data, ("", target)).segments[:1000])

    def write(documents: list[bytes], pair: Pair, through: _Through) -> list[bytes]:
        named = (("the document", read(data, pair)) for data in documents)
        how = options or service.options
        return [each.data for each in program.translate_documents(through, named, how, language=pair[0])]

    try:
        texts = [""] * len(documents) if source else await asyncio.to_thread(lambda: [*map(words, documents)])
        found = service.find_pairs(texts, source, target)
        written = dict(enumerate(documents))  # what is in the language already stays as it is
        for pair in {pair for pair, _ in found if pair[0] != pair[1]}:
            numbers = [number for number, (each, _) in enumerate(found) if each == pair]
            through = _Through(service, pair, caller, cutter)
            own = await asyncio.to_thread(write, [documents[number] for number in numbers], pair, through)
            written |= zip(numbers, own, strict=True)
    except DataError as error:
        raise RefusedError(400, f"Invalid request: {error}") from None
    return [Written(written[number], detected) for number, (_, detected) in enumerate(found)]


async def rank_texts(
    service: LineTranslator, text: str, kind: str, pair: Pair, options: DecodingOptions, caller: Caller
) -> list[str]:
    """Returns translations of a text with markup: with the best ones of its sentences, the second ones, and so on.

    :param options: those of beam search
    :raises RefusedError: as :meth:`LineTranslator.translate_lines`
    """
    beams = _Beams(_Through(service, pair, caller, None))

    def write() -> list[str]:
        ranks = []
        for beams.rank in range(options.n_best):
            document = _read(_MARK + text.encode(), kind, pair, TagRules())
            (found,) = program.translate_documents(beams, [("the document", document)], options, language=pair[0])
            ranks.append(found.data.removeprefix(_MARK).decode())
        return ranks

    return await asyncio.to_thread(write)


def _read(data: bytes, file_format: str, pair: Pair, tags: TagRules) -> Document:
    options = FormatOptions(source=pair[0], target=pair[1], tags=tags)
    return formats.read_document(data, "the document", file_format, options)


@final
class _Through:
    """A translator whose lines go through the service, for a thread beside the loop."""

    def __init__(self, service: LineTranslator, pair: Pair, caller: Caller, cutter: Cutter | None) -> None:
        self._service = service
        self._pair = pair
        self._caller = caller
        self._cutter = cutter
        self._loop = asyncio.get_running_loop()

    def translate(self, lines: Iterable[Line], options: DecodingOptions) -> Iterator[Translation]:
        """Translates lines, in order.

        :raises RefusedError: as :meth:`LineTranslator.translate_lines`
        """
        work = self._service.translate_lines([*lines], self._pair, options, self._caller, self._cutter)
        yield from asyncio.run_coroutine_threadsafe(work, self._loop).result()


@final
class _Beams:
    """A translator that says the same lines again and again, each time the ones of a rank."""

    def __init__(self, through: _Through) -> None:
        self.rank = 0
        self._through = through
        self._found: list[Translation] | None = None

    def translate(self, lines: Iterable[Line], options: DecodingOptions) -> Iterator[Translation]:
        """Translates lines, in order, by beam search.

        :raises RefusedError: as :meth:`LineTranslator.translate_lines`
        """
        asked = list(lines)
        if self._found is None:
            self._found = list(self._through.translate(asked, options))
        for each in self._found:
            others = each.alternatives[: self.rank]
            yield each if not others else replace(each, text=others[-1].text, alignment=None)
