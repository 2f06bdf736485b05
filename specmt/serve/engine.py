"""A model behind the server: one thread that feeds its session, which texts join and leave between steps."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, final

from specmt.feeder import Cutter, Feeder, Mailbox
from specmt.options import DecodingOptions
from specmt.serve.fair import FairQueue
from specmt.types import Line, Tally, Translation

if TYPE_CHECKING:
    from specmt.decoding.request import Recorder
    from specmt.translator import Translator

logger = logging.getLogger(__name__)

READY: Final = 0.5
"""How many batches of sentences wait in the session itself, where they are sorted by length; the rest waits in front,
where clients take turns."""

_loading: Final = threading.Lock()


class QueueFullError(Exception):
    """Too many lines wait."""


class StoppedError(Exception):
    """The text was cancelled, or the engine has stopped."""


@final
class Job:
    """A text on its way through an engine; a line is cut into sentences when its turn comes."""

    def __init__(
        self,
        lines: Iterable[Line],
        options: DecodingOptions,
        *,
        client: str = "",
        cutter: Cutter | None = None,
        recorder: Recorder | None = None,
        done: Callable[[Job], None] = lambda job: None,
    ) -> None:
        """
        :param client: whose it is; clients take turns
        :param cutter: makes sentences of the lines; by default the translator's
        :param done: is called, in any thread, when there are translations or an error
        """
        self.lines = deque(lines)  # not cut yet
        self.options = options
        self.client = client
        self.cutter = cutter
        self.recorder = recorder
        self.done = done
        self.translations: list[Translation] = []
        self.error: BaseException | None = None
        self.is_done = False
        self.submitted = time.perf_counter()
        self.started = 0.0  # when its first sentence came into the session
        self.feeder: Feeder | None = None  # once it has come in

    @property
    def text(self) -> str:
        """The translation, with line endings as they were."""
        return "".join(each.text + each.line.ending for each in self.translations)

    def finish(self, error: BaseException | None = None) -> None:
        """Tells whoever waits that there are translations, or an error."""
        self.is_done, self.error = True, error
        self.done(self)


@final
class Engine:
    """Loads a model and translates with it, in a thread of its own."""

    def __init__(
        self, load: Callable[[], Translator], *, batch_size: int, max_queue: int, name: str = "specmt-engine"
    ) -> None:
        """
        :param batch_size: how many sentences are decoded side by side
        :param max_queue: how many lines may wait before texts are refused
        """
        self._load = load
        self._room = int((1.0 + READY) * batch_size)
        self._max_queue = max_queue
        self._changed = threading.Condition()
        # Under the lock:
        self._arrived: list[Job] = []
        self._cancelled: list[Job] = []
        self._waiting = 0
        self._stopping = False
        # Of the thread:
        self._jobs: dict[Feeder, Job] = {}  # that have come in and are not done
        self._queue: FairQueue[Feeder] = FairQueue()  # of those that have sentences to submit
        self._mailbox: Mailbox = deque()
        self.translator: Translator | None = None
        self.error: BaseException | None = None
        self.ready = threading.Event()
        """Is set when the model is loaded, or could not be."""
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def waiting(self) -> int:
        """How many lines wait."""
        return self._waiting

    @property
    def running(self) -> int:
        """How many sentences are in the session."""
        return 0 if self.translator is None else len(self.translator.session)

    @property
    def tally(self) -> dict[str, Tally]:
        """What came of each way to draft."""
        return {} if self.translator is None else self.translator.session.tally

    def start(self) -> None:
        """Starts to load the model."""
        self._thread.start()

    def submit(self, jobs: list[Job]) -> None:
        """Takes in texts, all of them or none.

        :raises QueueFullError: too many lines wait.
        :raises StoppedError: the engine takes no more.
        """
        with self._changed:
            if self._stopping or not self._thread.is_alive():
                raise StoppedError
            if self._waiting >= self._max_queue:
                raise QueueFullError
            self._waiting += sum(len(job.lines) for job in jobs)
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
        except BaseException as error:
            self.error = error
        finally:
            self.ready.set()
        while self.error is None and self._receive():
            self._fill()
            if self._jobs:
                self._step()
        with self._changed:
            left, self._arrived, self._stopping = self._arrived, [], True
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
        self._queue.add(job.client, feeder)
        self._cut(job, feeder)

    def _fill(self) -> None:
        """Gives sentences to the session while it has room for them."""
        while self._queue and self.running < self._room:
            feeder = self._queue.turn()
            job = self._jobs[feeder]
            with self._failing(job):
                feeder.submit(feeder.waiting.popleft())
                job.started = job.started or time.perf_counter()
                self._cut(job, feeder)

    def _step(self) -> None:
        """Lets the session do some work, and hands on what is finished."""
        try:
            self._loaded().session.work(self._mailbox)
        except Exception as error:
            logger.error("decoding failed (%s: %s)", type(error).__name__, error)
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
                feeder.take(sentence, said)
                self._hand_on(job, feeder)

    def _cut(self, job: Job, feeder: Feeder) -> None:
        """Cuts lines of a text until there is a sentence; without one it has no turns."""
        while job.lines and not feeder.waiting:
            line = job.lines.popleft()
            with self._changed:
                self._waiting -= 1
            feeder.cut(line)
        if not feeder.waiting:
            self._queue.remove(job.client, feeder)
        self._hand_on(job, feeder)

    def _hand_on(self, job: Job, feeder: Feeder) -> None:
        """Takes the lines that are translated, and finishes a text without others."""
        job.translations += map(self._loaded().translation, feeder.finished())
        if not (job.lines or feeder.pending):
            del self._jobs[feeder]
            job.finish()

    def _drop(self, job: Job, error: BaseException) -> None:
        """Takes a text out of everything, unless it is done."""
        if job.is_done:
            return
        if job.feeder is not None:
            self._queue.remove(job.client, job.feeder)
            self._jobs.pop(job.feeder, None)
            job.feeder.session.cancel(job.feeder)
        with self._changed:
            self._waiting -= len(job.lines)
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
