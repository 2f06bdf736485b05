"""Texts to translations for everyone: from the cache or anew, within limits, as long as somebody waits."""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

import specmt
from specmt.errors import DataError
from specmt.feeder import Cutter
from specmt.options import DecodingOptions
from specmt.serve.asked import PLAIN, Answer, Caller, Manner, Pair
from specmt.serve.cache import Cache, size_of
from specmt.serve.clients import Account, Keys, Limits, Rate
from specmt.serve.dispatch import run_jobs
from specmt.serve.documents import rank_texts, translate_texts
from specmt.serve.engine import Engine, Job
from specmt.serve.errors import RefusedError
from specmt.serve.fair import Slots
from specmt.serve.glossaries import MOST_BYTES, Glossaries, Terms
from specmt.serve.languages import Detected, Languages
from specmt.serve.metrics import Metrics
from specmt.serve.room import Room
from specmt.serve.sureness import sureness
from specmt.text.lines import lines_of
from specmt.text.rules import VERSION
from specmt.types import Line, Translation

if TYPE_CHECKING:
    from specmt.decoding.request import Recorder
    from specmt.translator import Translator

_BUILT: Final = 4 * MOST_BYTES
"""The most bytes of glossaries that are held ready; what finds their terms takes some forty times that."""

_THREADS: Final = (48, 12)
"""How many threads wait for texts with markup at most: of all clients, and of each."""


class Source(NamedTuple):
    """A model that is to be served."""

    pair: Pair
    sha256: str
    load: Callable[[], Translator]


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
        self._options = cache(lambda splits, scores: replace(options, split=splits, scores=scores))
        self.limits: Final = limits or Limits()
        self.keys: Final = keys
        self.metrics: Final = Metrics()
        self.everyone: Final = Account("")
        self._detects = False
        self._error: BaseException | None = None
        self.rate: Final = Rate(self.limits.requests)
        self.glossaries: Final = Glossaries()
        self._cache: Cache[Answer] = Cache(self.limits.cache)
        self._cutters: Cache[Cutter] = Cache(_BUILT)
        self._threads = Slots(*_THREADS)
        self._engines: dict[Pair, Engine] = {}
        self._hashes: list[str] = []
        for source in sources:
            if source.pair not in self._engines:
                name = "-".join(source.pair)
                engine = Engine(source.load, batch_size=options.batch_size, name=f"specmt-{name}")
                self._engines[source.pair] = engine
                self.metrics.watch(name, engine)
                self._hashes.append(source.sha256)
        self.languages: Final = Languages(self._engines.keys())
        self.room: Final = Room(self.limits.queue, lambda: sum(each.waiting for each in self._engines.values()))

    def start(self) -> None:
        """Starts to load all models, and what detects languages."""
        threading.Thread(target=self._load_detector, name="specmt-detector", daemon=True).start()
        for engine in self._engines.values():
            engine.start()

    def _load_detector(self) -> None:
        try:
            self.languages.detect("")
            self._detects = True
        except BaseException as error:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Notes what there is no use in going on after."""
        self._error = error

    def stop(self) -> None:
        """Finishes what was taken in, and ends all threads."""
        for engine in self._engines.values():
            engine.stop()

    @property
    def failure(self) -> BaseException | None:
        """Why a model could not be loaded, or answers no more, or why languages cannot be detected."""
        errors = [self._error, *(engine.error for engine in self._engines.values())]
        return next((error for error in errors if error is not None), None)

    @property
    def is_ready(self) -> bool:
        """Whether all models are loaded, and answer."""
        return self.failure is None and self._detects and all(each.is_ready for each in self._engines.values())

    def etag(self, request: object) -> str:
        """Returns what stands for the answer to a request, before it is known: the same as ever for the same models."""
        text = json.dumps([request, self._glossary]).encode() + self._identity
        return f'"{hashlib.sha256(text).hexdigest()[:32]}"'

    @cached_property
    def _identity(self) -> bytes:
        """What an answer depends on beside the request."""
        numerics = [getattr(self.translator(pair).model, "numerics", "") for pair in self._engines]
        return f"{specmt.__version__} {VERSION} {self.options} {self._hashes} {numerics}".encode()

    @property
    def _glossary(self) -> object:
        """What stands for the terms of the options' glossary, as it is now."""
        options = self.options
        return options.glossary and self.translator(next(iter(self._engines))).signature(options)["glossary"]

    def translator(self, pair: Pair) -> Translator:
        """
        :raises RefusedError: the model is not loaded yet.
        """
        translator = self._engines[pair].translator
        if translator is None:
            raise RefusedError(503, "The model is still being loaded.", retry_after=2)
        return translator

    def check(self, texts: Sequence[str]) -> int:
        """Returns how many characters texts have.

        :raises RefusedError: they are too many or too long.
        """
        characters = sum(map(len, texts))
        for size, most in ((len(texts), self.limits.texts), (characters, self.limits.characters)):
            if most is not None and size > most:
                raise RefusedError(413, f"Invalid request: request ({size}) exceeds text limit ({most})")
        return characters

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

    async def cutter(self, terms: Terms | None, options: DecodingOptions | None = None) -> Cutter | None:
        """Returns what makes sentences of lines where a glossary holds.

        :param options: by default those of the server
        :raises RefusedError: there can be no translation with one of its terms, or the model is not loaded yet.
        """
        if terms is None:
            return None
        options = options or self.options
        key = terms.pair, terms.digest, options.split
        found = self._cutters.get(key)
        if found is None:
            make = self.translator(terms.pair).cutter
            entries = {term: (translation,) for term, translation in terms.entries.items()}
            try:
                found = await asyncio.to_thread(make, options, entries)
            except DataError as error:
                raise RefusedError(400, f"Invalid glossary entries provided: {error}") from None
            self._cutters.put(key, found, len(terms.tsv))
        return found

    async def translate(
        self, texts: Sequence[str], source: str | None, target: str, caller: Caller, manner: Manner = PLAIN
    ) -> list[Answer]:
        """Translates texts, each by itself.

        :param source: a language of :attr:`languages`; ``None`` finds out
        :raises RefusedError: there is no such model, too much to do, or nobody waits for it any more.
        """
        options = self._options(manner.splits, manner.scores)
        cutter = await self.cutter(manner.terms, options)
        if manner.kind != "text":
            return await self._translate_markup(texts, source, target, caller, manner, cutter)
        if source is None:
            found = await asyncio.to_thread(self.find_pairs, texts, source, target)
        else:  # nothing to find out: a thread more would take a tenth of the time that a sentence takes here
            found = self.find_pairs(texts, source, target)
        how = manner.splits, manner.scores, manner.terms and manner.terms.digest, self._glossary
        answers: dict[tuple[Pair, str], Answer] = {}
        missing: dict[tuple[Pair, str], Job] = {}
        for (pair, _), text in zip(found, texts, strict=True):
            if pair[0] == pair[1]:
                answers[pair, text] = Answer(text)
            elif (pair, text) not in answers and (pair, text) not in missing:
                known = self._find_known((pair, how, text))
                if known is None:
                    missing[pair, text] = _job(text, options, caller, keeps=manner.scores, cutter=cutter)
                else:
                    answers[pair, text] = known
        if missing:
            await self._run([(pair, job) for (pair, _), job in missing.items()], caller)
            for (pair, text), job in missing.items():
                sure = await asyncio.to_thread(sureness, job.translations) if manner.scores else None
                answers[pair, text] = answer = Answer(job.text, None, sure)
                parts = [part for part, _ in sure.parts] if sure else []
                self._cache.put((pair, how, text), answer, size_of(text, answer.text, *parts))
        return [
            answers[pair, text]._replace(detected=detected) for (pair, detected), text in zip(found, texts, strict=True)
        ]

    async def _translate_markup(
        self,
        texts: Sequence[str],
        source: str | None,
        target: str,
        caller: Caller,
        manner: Manner,
        cutter: Cutter | None,
    ) -> list[Answer]:
        how = source, target, str(manner.identity), self._glossary
        answers = {text: self._find_known((how, text)) for text in dict.fromkeys(texts)}
        missing = [text for text, known in answers.items() if known is None]
        written = []
        if missing:
            written = await self._threads.run(
                caller.client,
                self.limits.seconds,
                lambda: translate_texts(self, missing, source, target, caller, manner, cutter),
            )
        for text, each in zip(missing, written, strict=True):
            answers[text] = answer = Answer(each.data.decode(), each.detected)
            self._cache.put((how, text), answer, size_of(text, answer.text))
        return [found for text in texts if (found := answers[text]) is not None]

    def _find_known(self, key: Hashable) -> Answer | None:
        self.metrics.cache_queries.inc()
        known = self._cache.get(key)
        if known is not None:
            self.metrics.cache_hits.inc()
        return known

    async def translate_lines(
        self,
        lines: Sequence[Line],
        pair: Pair,
        options: DecodingOptions,
        caller: Caller,
        cutter: Cutter | None = None,
    ) -> list[Translation]:
        """Translates the lines of one text, in order.

        :raises RefusedError: as :meth:`translate`
        """
        size = sum(len(line.text) + len(line.ending) for line in lines)
        job = Job(lines, options, characters=size, keeps=True, client=caller.client, cutter=cutter)
        await self._run([(pair, job)], caller)
        return job.translations

    async def alternatives(
        self,
        texts: Sequence[str],
        answers: Sequence[Answer],
        source: str | None,
        target: str,
        count: int,
        caller: Caller,
        kind: str = "text",
    ) -> list[list[str]]:
        """Returns further translations of each text, as beam search finds them: so many, or fewer.

        :param answers: the translations that there are already
        :raises RefusedError: as :meth:`translate`
        """
        size = self.options.batch_size
        options = DecodingOptions(strategy="beam", beam_size=max(5, count + 1), n_best=count + 1, batch_size=size)
        pairs = [((source if each.detected is None else each.detected.language) or "", target) for each in answers]
        todo = [number for number, pair in enumerate(pairs) if pair[0] != pair[1]]
        ranks: dict[int, list[str]] = {}
        if kind == "text":
            jobs = {number: _job(texts[number], options, caller, keeps=True) for number in todo}
            await self._run([(pairs[number], job) for number, job in jobs.items()], caller)
            ranks = {number: _ranks(job.translations) for number, job in jobs.items()}
        else:
            for number in todo:  # one after another: each takes a thread
                async with self._threads.of(caller.client):
                    ranks[number] = await rank_texts(self, texts[number], kind, pairs[number], options, caller)
        return [
            [each for each in dict.fromkeys(ranks.get(number, ())) if each != answer.text][:count]
            for number, answer in enumerate(answers)
        ]

    async def watch(self, text: str, pair: Pair, options: DecodingOptions, recorder: Recorder, caller: Caller) -> str:
        """Translates a text while a recorder looks on.

        :raises RefusedError: as :meth:`translate`
        """
        job = _job(text, options, caller, recorder=recorder)
        await self._run([(pair, job)], caller)
        return job.text

    async def _run(self, work: Sequence[tuple[Pair, Job]], caller: Caller) -> None:
        """Has engines do work, for as long as somebody waits for it.

        :raises RefusedError: they do not.
        """
        for pair, _ in work:
            self.translator(pair)  # must be there
        caller.claim.pass_on()
        await run_jobs([(self._engines[pair], job) for pair, job in work], caller.gone, self.limits.seconds)
        now = time.perf_counter()
        for pair, job in work:
            self.metrics.count("-".join(pair), job, now)


def _job(text: str, options: DecodingOptions, caller: Caller, **how: Any) -> Job:
    return Job(lines_of(text), options, characters=len(text), client=caller.client, **how)


def _ranks(translations: Sequence[Translation]) -> list[str]:
    """Returns translations of a text: the best ones of its lines, then the second ones, and so on."""
    lines = [(each, [each.text, *(one.text for one in each.alternatives)]) for each in translations]
    depth = max((len(found) for _, found in lines), default=0)
    return [
        "".join(found[min(rank, len(found) - 1)] + each.line.ending for each, found in lines) for rank in range(depth)
    ]
