"""Texts to translations for everyone: from the cache or anew, within limits, as long as somebody waits."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, final

import specmt
from specmt.options import DecodingOptions
from specmt.serve.cache import Cache
from specmt.serve.clients import Account, Keys, Rate
from specmt.serve.documents import translate_texts
from specmt.serve.engine import Engine, Job, QueueFullError, StoppedError
from specmt.serve.errors import RefusedError
from specmt.serve.languages import Detected, Languages
from specmt.serve.metrics import Metrics
from specmt.text.lines import lines_of
from specmt.types import Line, Translation

if TYPE_CHECKING:
    from specmt.decoding.trace import Recorder
    from specmt.translator import Translator

Pair = tuple[str, str]
"""A source and a target language."""

Gone = Callable[[], Awaitable[object]]
"""Returns when the client has gone away."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a server lets pass."""

    characters: int | None = 100_000
    """Of the texts of a request."""

    texts: int | None = 1000
    """In a request."""

    requests: int | None = None
    """A minute, of a client."""

    queue: int = 10_000
    """Lines that wait for a model."""

    seconds: float = 300.0
    """Until a request is given up."""

    cache: int = 64 << 20
    """Bytes of answers that are kept."""

    upload: int = 16 << 20
    """Bytes of a document."""


class Source(NamedTuple):
    """A model that is to be served."""

    pair: Pair
    sha256: str
    load: Callable[[], Translator]


class Answer(NamedTuple):
    """A text translated."""

    text: str
    detected: Detected | None = None
    """The language that it was found to be in, where that was asked."""


class Caller(NamedTuple):
    """Who asks."""

    client: str
    account: Account | None
    gone: Gone


@final
class Service:
    """All models of a server, and what they have in common."""

    def __init__(
        self,
        sources: Iterable[Source],
        options: DecodingOptions,
        limits: Limits | None = None,
        *,
        keys: Keys | None = None,
    ) -> None:
        """
        :param sources: the first one of a pair of languages is served
        :param keys: those that are let in; ``None`` lets in everyone
        """
        self.options: Final = options
        self.limits: Final = limits or Limits()
        self.keys: Final = keys
        self.metrics: Final = Metrics()
        self.used = 0  # characters, of those who need no key
        self._detects = False
        self._rate = Rate(self.limits.requests)
        self._cache = Cache(self.limits.cache)
        self._engines: dict[Pair, Engine] = {}
        self._hashes: list[str] = []
        for source in sources:
            if source.pair not in self._engines:
                name = "-".join(source.pair)
                engine = Engine(
                    source.load, batch_size=options.batch_size, max_queue=self.limits.queue, name=f"specmt-{name}"
                )
                self._engines[source.pair] = engine
                self.metrics.watch(name, lambda e=engine: e.running, lambda e=engine: e.waiting)  # type: ignore[misc]
                self._hashes.append(source.sha256)
        self.languages: Final = Languages(self._engines.keys())

    def start(self) -> None:
        """Starts to load all models, and what detects languages."""
        threading.Thread(target=self._load_detector, name="specmt-detector", daemon=True).start()
        for engine in self._engines.values():
            engine.start()

    def _load_detector(self) -> None:
        self.languages.detect("")
        self._detects = True

    def stop(self) -> None:
        """Finishes what was taken in, and ends all threads."""
        for engine in self._engines.values():
            engine.stop()

    @property
    def failure(self) -> BaseException | None:
        """Why a model could not be loaded."""
        return next((engine.error for engine in self._engines.values() if engine.error is not None), None)

    @property
    def is_ready(self) -> bool:
        """Whether all models are loaded."""
        return (
            self.failure is None and self._detects and all(engine.ready.is_set() for engine in self._engines.values())
        )

    def etag(self, request: object) -> str:
        """Returns what stands for the answer to a request, before it is known: the same as ever for the same models."""
        text = json.dumps(request).encode() + self._identity
        return f'"{hashlib.sha256(text).hexdigest()[:32]}"'

    @cached_property
    def _identity(self) -> bytes:
        """What an answer depends on beside the request."""
        numerics = [getattr(self.translator(pair).model, "numerics", "") for pair in self._engines]
        return f"{specmt.__version__} {self.options} {self._hashes} {numerics}".encode()

    def translator(self, pair: Pair) -> Translator:
        """
        :raises RefusedError: the model is not loaded yet.
        """
        translator = self._engines[pair].translator
        if translator is None:
            raise RefusedError(503, "The model is still being loaded.", retry_after=2)
        return translator

    def admit(self, client: str) -> None:
        """Counts a request of a client.

        :raises RefusedError: it asks too often.
        """
        self._rate.take(client)

    def check(self, texts: Sequence[str]) -> int:
        """Returns how many characters texts have.

        :raises RefusedError: they are too many or too long.
        """
        characters = sum(map(len, texts))
        for size, most in ((len(texts), self.limits.texts), (characters, self.limits.characters)):
            if most is not None and size > most:
                raise RefusedError(413, f"Invalid request: request ({size}) exceeds text limit ({most})")
        return characters

    def charge(self, caller: Caller, characters: int) -> None:
        """Counts characters of a client.

        :raises RefusedError: it has not so many left.
        """
        if caller.account is not None:
            caller.account.charge(characters)
        self.used += characters

    def find_pairs(self, texts: Sequence[str], source: str | None, target: str) -> list[tuple[Pair, Detected | None]]:
        """Returns from which language each text is to be translated, and how sure that is where it had to be found out.

        :param source: a language of :attr:`languages`; ``None`` finds out
        :raises RefusedError: there is no model for it.
        """
        found = [None if source is not None else self.languages.detect(text)[0] for text in texts]
        pairs = [((each.language if each else source) or "", target) for each in found]
        for pair in pairs:
            if pair[0] != pair[1] and pair not in self._engines:
                raise RefusedError(400, f"{pair[0]} to {pair[1]} is not supported")
        return list(zip(pairs, found, strict=True))

    async def translate(
        self, texts: Sequence[str], source: str | None, target: str, caller: Caller, *, kind: str = "text"
    ) -> list[Answer]:
        """Translates texts, each by itself.

        :param source: a language of :attr:`languages`; ``None`` finds out
        :param kind: what the texts are written in (:data:`specmt.serve.documents.KINDS`)
        :raises RefusedError: there is no such model, too much to do, or nobody waits for it any more.
        """
        if kind != "text":
            written = await translate_texts(self, texts, source, target, caller, kind)
            return [Answer(each.data.decode(), each.detected) for each in written]
        found = self.find_pairs(texts, source, target)
        answers: dict[tuple[Pair, str], str] = {}
        missing: dict[tuple[Pair, str], Job] = {}
        for (pair, _), text in zip(found, texts, strict=True):
            if pair[0] == pair[1]:
                answers[pair, text] = text
            elif (pair, text) not in answers and (pair, text) not in missing:
                self.metrics.cache_queries.inc()
                known = self._cache.get(pair, text)
                if known is None:
                    missing[pair, text] = Job(lines_of(text), self.options, client=caller.client)
                else:
                    self.metrics.cache_hits.inc()
                    answers[pair, text] = known
        if missing:
            await self._run([(pair, job) for (pair, _), job in missing.items()], caller.gone)
            for (pair, text), job in missing.items():
                answers[pair, text] = job.text
                self._cache.put(pair, text, job.text)
        return [Answer(answers[pair, text], detected) for (pair, detected), text in zip(found, texts, strict=True)]

    async def translate_lines(
        self, lines: Sequence[Line], pair: Pair, options: DecodingOptions, caller: Caller
    ) -> list[Translation]:
        """Translates the lines of one text, in order.

        :raises RefusedError: as :meth:`translate`
        """
        job = Job(lines, options, client=caller.client)
        await self._run([(pair, job)], caller.gone)
        return job.translations

    async def alternatives(
        self,
        texts: Sequence[str],
        answers: Sequence[Answer],
        source: str | None,
        target: str,
        count: int,
        caller: Caller,
    ) -> list[list[str]]:
        """Returns further translations of each text, as beam search finds them: so many, or fewer.

        :param answers: the translations that there are already
        :raises RefusedError: as :meth:`translate`
        """
        size = self.options.batch_size
        options = DecodingOptions(strategy="beam", beam_size=max(5, count + 1), n_best=count + 1, batch_size=size)
        found = self.find_pairs(texts, source, target)
        jobs = [Job(lines_of(text), options, client=caller.client) for text in texts]
        await self._run(((p, job) for (p, _), job in zip(found, jobs, strict=True) if p[0] != p[1]), caller.gone)
        return [_others(job, answer.text, count) for job, answer in zip(jobs, answers, strict=True)]

    async def watch(self, text: str, pair: Pair, options: DecodingOptions, recorder: Recorder, caller: Caller) -> str:
        """Translates a text while a recorder looks on.

        :raises RefusedError: as :meth:`translate`
        """
        job = Job(lines_of(text), options, client=caller.client, recorder=recorder)
        await self._run([(pair, job)], caller.gone)
        return job.text

    async def _run(self, work: Iterable[tuple[Pair, Job]], gone: Gone) -> None:
        """Has engines do work, for as long as somebody waits for it.

        :raises RefusedError: they do not.
        """
        by_pair: dict[Pair, list[Job]] = {}
        for pair, job in work:
            by_pair.setdefault(pair, []).append(job)
        loop = asyncio.get_running_loop()
        all_done: asyncio.Future[None] = loop.create_future()
        left = sum(map(len, by_pair.values()))
        if left == 0:
            return

        def count() -> None:
            nonlocal left
            left -= 1
            if left == 0 and not all_done.done():
                all_done.set_result(None)

        def done(_: Job) -> None:
            loop.call_soon_threadsafe(count)

        taken: list[tuple[Engine, list[Job]]] = []
        left_by = asyncio.ensure_future(gone())
        try:
            for pair, jobs in by_pair.items():
                self.translator(pair)  # must be there
                for job in jobs:
                    job.done = done
                self._engines[pair].submit(jobs)
                taken.append((self._engines[pair], jobs))
            await asyncio.wait((all_done, left_by), timeout=self.limits.seconds, return_when=asyncio.FIRST_COMPLETED)
        except QueueFullError:
            raise RefusedError(429, "Too many requests are waiting; try again later", retry_after=1) from None
        except StoppedError:
            raise RefusedError(503, "The server is stopping", retry_after=5) from None
        finally:
            if not all_done.done():
                for engine, jobs in taken:
                    engine.cancel(jobs)
            left_by.cancel()
        if not all_done.done():
            if left_by.done() and not left_by.cancelled():
                raise RefusedError(499, "The client has gone away")
            raise RefusedError(503, f"This took longer than {self.limits.seconds:g} seconds")
        now = time.perf_counter()
        for pair, jobs in by_pair.items():
            for job in jobs:
                if job.error is not None:
                    raise RefusedError(500, f"Cannot translate text: {type(job.error).__name__}")
                self.metrics.count("-".join(pair), job, now)


def _others(job: Job, text: str, count: int) -> list[str]:
    """Returns other translations than a text: the best ones of its lines, then the second ones, and so on."""
    lines = [(each, [each.text, *(one.text for one in each.alternatives)]) for each in job.translations]
    depth = max((len(found) for _, found in lines), default=0)
    ranks = [
        "".join(found[min(rank, len(found) - 1)] + each.line.ending for each, found in lines) for rank in range(depth)
    ]
    return [each for each in dict.fromkeys(ranks) if each != text][:count]
