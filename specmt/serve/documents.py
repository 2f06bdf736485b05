"""Documents and texts with markup: what has to be done with them is done beside the loop, their sentences go through
the service."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Final, NamedTuple, Protocol, final

from specmt import formats
from specmt.errors import SpecmtError
from specmt.feeder import Cutter
from specmt.options import DecodingOptions
from specmt.serve import worker
from specmt.serve.asked import Caller, Manner, Pair
from specmt.serve.clients import Limits
from specmt.serve.errors import RefusedError
from specmt.serve.languages import Detected
from specmt.serve.markup import Said, Work
from specmt.types import Line, Translation

KINDS: Final = ("html", "xml")
"""What texts may be written in, beside plain text."""

SMALL: Final = 16 << 10
"""Bytes of texts with markup that are not worth a process: these are soon done."""

_MARK: Final = b"\xef\xbb\xbf"
"""Says that a text is UTF-8, whatever it declares."""


class LineTranslator(Protocol):
    """What sentences of documents are translated by: the service."""

    @property
    def options(self) -> DecodingOptions:
        """Those of the server."""

    @property
    def limits(self) -> Limits:
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
    if name.lower().endswith(".txt"):  # which is translated line by line
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
    work = Work(documents, manner.kind, source, target, options, manner.tags)
    found = await Desk(service, work, caller, cutter).run()
    return [Written(each.data.removeprefix(_MARK), each.detected) for each in found]


async def rank_texts(
    service: LineTranslator, text: str, kind: str, pair: Pair, options: DecodingOptions, caller: Caller
) -> list[str]:
    """Returns translations of a text with markup: with the best ones of its sentences, the second ones, and so on.

    :param options: those of beam search
    :raises RefusedError: as :meth:`LineTranslator.translate_lines`
    """
    work = Work([_MARK + text.encode()], kind, *pair, options, ranks=options.n_best)
    return [each.data.removeprefix(_MARK).decode() for each in await Desk(service, work, caller).run()]


@final
class Desk:
    """Answers what work in a thread or a process asks for."""

    def __init__(self, service: LineTranslator, work: Work, caller: Caller, cutter: Cutter | None = None) -> None:
        self._service = service
        self._work = work
        self._caller = caller
        self._cutter = cutter
        self._found: list[tuple[Pair, Detected | None]] = []

    async def run(self) -> list[Written]:
        """Has the work done.

        :raises RefusedError: a document is damaged, or too large, or as :meth:`LineTranslator.translate_lines`.
        """
        if self._work.file_format in KINDS and sum(map(len, self._work.documents)) <= SMALL:
            data = await self._beside()
        else:
            data = await worker.run(self._work, self._answer, self._caller.gone, self._service.limits.seconds)
        detected = [each for _, each in self._found] if not self._work.ranks else [None] * len(data)
        return [*map(Written, data, detected)]

    async def _beside(self) -> list[bytes]:
        """Does the work in a thread."""
        loop, asked = asyncio.get_running_loop(), Future[Any]()

        def ask(*question: Any) -> Any:
            nonlocal asked
            asked = asyncio.run_coroutine_threadsafe(self._answer(*question), loop)
            return asked.result()

        try:
            return await asyncio.to_thread(self._work.run, ask)
        except SpecmtError as error:
            raise RefusedError(400, f"Invalid request: {error}") from None
        finally:
            asked.cancel()  # for whom nobody waits any more

    async def _answer(self, kind: str, *question: Any) -> Any:
        return await (self._pairs if kind == "pairs" else self._lines)(*question)

    async def _pairs(self, texts: list[str]) -> list[Pair]:
        find = self._service.find_pairs
        self._found = await asyncio.to_thread(find, texts, self._work.source, self._work.target)
        return [pair for pair, _ in self._found]

    async def _lines(self, pair: Pair, lines: list[Line], options: DecodingOptions) -> list[Said]:
        found = await self._service.translate_lines(lines, pair, options, self._caller, self._cutter)
        return [
            (each.text, each.alignment, each.warnings, each.stats.left, [other.text for other in each.alternatives])
            for each in found
        ]
