"""A model behind the server: one thread that feeds its session, which texts join and leave between steps."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING, Final, final

from specmt.feeder import Cutter, Feeder, Mailbox
from specmt.options import DecodingOptions
from specmt.serve.fair import FairQueue
from specmt.types import Line, Stats, Tally, Translation

if TYPE_CHECKING:
    from specmt.decoding.request import Recorder
    from specmt.translator import Translator

logger = logging.getLogger(__name__)

CUT_AT_ONCE: Final = 32
"""How many pieces of texts are cut, at most, before the session does a step."""

READY: Final = 0.5
"""How many batches of sentences wait in the session itself, where they are sorted by length; the rest waits in front,
where clients take turns."""

_loading: Final = threading.Lock()


class StoppedError(Exception):
    """The text was cancelled, or the engine has stopped."""


@final
class Job:
    """A text on its way through an engine; a line is cut into sentences, piece by piece, when its turn comes."""

    def __init__(
        self,
        lines: Iterable[Line],
        options: DecodingOptions,
        *,
        characters: int = 0,
        keeps: bool = False,
        client: str = "",
        cutter: Cutter | None = None,
        recorder: Recorder | None = None,
        done: Callable[[Job], None] = lambda job: None,
    ) -> None:
        """
        :param characters: how many the lines have
        :param keeps: whether translations are wanted line by line, and not only their text
        :param client: whose it is; clients take turns
        :param cutter: makes sentences of the lines; by default the translator's
        :param done: is called, in any thread, when there are translations or an error
        """
        self.lines = lines
        self.characters = characters  # not cut yet
        self.options = options
        self.client = client
        self.cutter = cutter
        self.recorder = recorder
        self.done = done
        self.keeps = keeps
        self.translations: list[Translation] = []
        self.stats = Stats()
        self.error: BaseException | None = None
        self.is_done = False
        self.submitted = time.perf_counter()
        self.started = 0.0  # when its first sentence came into the session
        self.feeder: Feeder | None = None  # once it has come in
        self.pieces: Iterator[None] = iter(())  # cuts the next one
        self.is_cut = False
        self._said = StringIO()

    @property
    def text(self) -> str:
        """The translation, with line endings as they were."""
        return self._said.getvalue()

    def add(self, translation: Translation) -> None:
        """Takes the translation of the next line."""
        self._said.write(translation.text + translation.line.ending)
        self.stats += translation.stats
        if self.keeps:
            self.translations.append(translation)

    def cut(self, feeder: Feeder, cut: Callable[[int], None]) -> Iterator[None]:
        """Cuts the lines piece by piece.

        :param cut: is told how many characters of the text have been cut
        """
        for line in self.lines:
            yield from feeder.cutting(line)
            cut(len(line.text) + len(line.ending))

    def finish(self, error: BaseException | None = None) -> None:
        """Tells whoever waits that there are translations, or an error."""
        self.is_done, self.error = True, error
        with suppress(Exception):  # it waits no more
            self.done(self)


@final
class Engine:
    """Loads a model and translates with it, in a thread of its own."""

    def __init__(self, load: Callable[[], Translator], *, batch_size: int, name: str = "specmt-engine") -> None:
        """
        :param batch_size: how many sentences are decoded side by side
        """
        self._load = load
        self._room = int((1.0 + READY) * batch_size)
        self._changed = threading.Condition()
        # Under the lock:
        self._arrived: list[Job] = []
        self._cancelled: list[Job] = []
        self.waiting = 0
        """How many characters wait to be cut into sentences."""
        self._stopping = False
        # Of the thread:
        self._jobs: dict[Feeder, Job] = {}  # that have come in and are not done
        self._queue: FairQueue[Feeder] = FairQueue()  # of those that have sentences to submit
        self._mailbox: Mailbox = deque()
        self.running = 0
        """How many sentences of its texts are in the session."""

        self.translator: Translator | None = None
        self.error: BaseException | None = None
        """Why it takes no texts: the model could not be loaded, or its thread has ended."""

        self.ready = threading.Event()
        """Is set when the model is loaded, or could not be."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_ready(self) -> bool:
        """Whether it takes texts."""
        return self.ready.is_set() and self.error is None and not self._stopping

    @property
    def tally(self) -> dict[str, Tally]:
        """What came of each way to draft."""
        return {} if self.translator is None else self.translator.session.tally

    def start(self) -> None:
        """Starts to load the model."""
        self._thread.start()

    def submit(self, jobs: list[Job]) -> None:
        """Takes in texts, all of them or none.

        :raises StoppedError: the engine takes no more.
        """
        with self._changed:
            if self._stopping or not self._thread.is_alive():
                raise StoppedError
            self.waiting += sum(job.characters for job in jobs)
            self._arrived += jobs
            self._changed.notify()

    def cancel(self, jobs: list[Job]) -> None:
        """Drops texts; those that are finished stay so."""
        with self._changed:
            self._cancelled += jobs
            self._changed.notify()

    def stop(self, timeout: float | None = None) -> None:
        """Finishes what was taken in, takes no more, and ends the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        try:
            with _loading:
                self.translator = self._load()
                self.translator.session.open()
            self.ready.set()
            while self._receive():
                self._fill()
                if self.running:
                    self._step()
        except BaseException as error:
            self.error = error
        finally:
            self.ready.set()
            with self._changed:
                left, self._arrived, self._stopping = [*self._jobs.values(), *self._arrived], [], True
            for job in left:
                job.finish(self.error or StoppedError())

    def _receive(self) -> bool:
        """Waits until there is something to do, and takes it in; returns whether to go on."""
        with self._changed:
            while not (self._arrived or self._cancelled or self._jobs):
                if self._stopping:
                    return False
                self._changed.wait()
            arrived, self._arrived = self._arrived, []
            cancelled, self._cancelled = self._cancelled, []
        for job in arrived:
            with self._failing(job):
                self._admit(job)
        for job in cancelled:
            self._drop(job, StoppedError())
        return True

    def _admit(self, job: Job) -> None:
        """Takes in a text, and cuts it up to its first sentence."""
        translator = self._loaded()
        cutter = job.cutter or translator.cutter(job.options)
        feeder = Feeder(translator.session, cutter, job.options, recorder=job.recorder, mailbox=self._mailbox)
        job.feeder, self._jobs[feeder] = feeder, job
        job.pieces = job.cut(feeder, partial(self._count, job))
        self._queue.add(job.client, feeder)
        self._cut(job, feeder, 1)

    def _fill(self) -> None:
        """Gives sentences to the session while it has room for them."""
        left = CUT_AT_ONCE
        while self._queue and self.running < self._room and left:
            feeder = self._queue.turn()
            job = self._jobs[feeder]
            with self._failing(job):
                if feeder.waiting:
                    feeder.submit(feeder.waiting.popleft())
                    self.running += 1
                    job.started = job.started or time.perf_counter()
                left = self._cut(job, feeder, left)

    def _step(self) -> None:
        """Lets the session do some work, and hands on what is finished."""
        try:
            self._loaded().session.work(self._mailbox)
        except Exception as error:
            logger.error("decoding failed (%s)", type(error).__name__)  # what it says may have parts of a text in it
        while self._mailbox:
            sentence, said = self._mailbox.popleft()
            feeder = sentence.pending.feeder
            job = self._jobs.get(feeder)
            if job is None:  # its text was dropped a moment ago
                continue
            if isinstance(said, BaseException):
                self._drop(job, said)
                continue
            with self._failing(job):
                before = feeder.running
                try:
                    feeder.take(sentence, said)
                finally:
                    self.running += feeder.running - before
                self._hand_on(job, feeder)

    def _cut(self, job: Job, feeder: Feeder, left: int) -> int:
        """Cuts a text until there is a sentence; without one it has no turns.

        :param left: how many pieces may be cut
        :returns: how many more may be
        """
        while left and not feeder.waiting and not job.is_cut:
            left -= 1
            job.is_cut = next(job.pieces, self) is self
        if job.is_cut and not feeder.waiting:
            self._queue.remove(job.client, feeder)
        self._hand_on(job, feeder)
        return left

    def _count(self, job: Job, cut: int) -> None:
        """Counts characters of a text that wait no more."""
        cut = min(cut, job.characters)
        job.characters -= cut
        with self._changed:
            self.waiting -= cut

    def _hand_on(self, job: Job, feeder: Feeder) -> None:
        """Takes the lines that are translated, and finishes a text without others."""
        for each in map(self._loaded().translation, feeder.finished()):
            job.add(each)
        if job.is_cut and not feeder.pending:
            del self._jobs[feeder]
            job.finish()

    def _drop(self, job: Job, error: BaseException) -> None:
        """Takes a text out of everything, unless it is done."""
        if job.is_done:
            return
        if job.feeder is not None:
            self._queue.remove(job.client, job.feeder)
            self._jobs.pop(job.feeder, None)
            self.running -= job.feeder.running
            job.feeder.session.cancel(job.feeder)
        self._count(job, job.characters)
        job.finish(error)

    @contextmanager
    def _failing(self, job: Job) -> Iterator[None]:
        """Has a failure concern one text alone."""
        try:
            yield
        except Exception as error:
            logger.error("a text failed (%s)", type(error).__name__)
            self._drop(job, error)

    def _loaded(self) -> Translator:
        assert self.translator is not None
        return self.translator
