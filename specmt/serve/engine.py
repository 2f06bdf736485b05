"""A model behind the server: one thread that owns its session, which texts join and leave between steps."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Final, final

from specmt.feeder import AnySession, Cutter, Pending, Place
from specmt.options import DecodingOptions
from specmt.serve.fair import FairQueue
from specmt.types import Line, Tally, Translation

if TYPE_CHECKING:
    from specmt.decoding.trace import Recorder
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
        self.lines = deque(lines)
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
        self.keys: set[int] = set()  # of the sentences in the session
        self.places: deque[Place] = deque()  # the sentences of the line whose turn it is
        self.pending: list[Pending] = []

    @property
    def has_more(self) -> bool:
        """Whether there are sentences that are not in the session yet."""
        return bool(self.places)

    @property
    def text(self) -> str:
        """The translation, with line endings as they were."""
        return "".join(each.text + each.line.ending for each in self.translations)

    def cut(self, translator: Translator) -> int:
        """Cuts lines until there is a sentence, or no line left; returns how many lines that took."""
        taken, cutter = 0, self.cutter_of(translator)
        while self.lines and not self.places:
            self.pending.append(cutter.cut(self.lines.popleft()))
            self.places.extend(cutter.places(self.pending[-1]))
            taken += 1
        return taken

    def cutter_of(self, translator: Translator) -> Cutter:
        """Returns what makes sentences of the lines."""
        if self.cutter is None:
            self.cutter = translator.cutter(self.options)
        return self.cutter

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
        self._keys = count()
        self._queue: FairQueue[Job] = FairQueue()
        self._places: dict[int, tuple[Job, Place]] = {}
        self._session: AnySession | None = None
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
        return len(self._places)

    @property
    def tally(self) -> dict[str, Tally]:
        """What came of each way to draft."""
        return getattr(self._session, "tally", {})

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
                self._session = self.translator.open_session()
        except BaseException as error:
            self.error = error
        finally:
            self.ready.set()
        while self.error is None and self._receive():
            self._fill()
            if self._places:
                self._step()
        with self._changed:
            left, self._arrived, self._stopping = self._arrived, [], True
        for job in left:
            job.finish(self.error or StoppedError())

    def _receive(self) -> bool:
        """Waits until there is something to do, and takes it in; returns whether to go on."""
        with self._changed:
            while not (self._arrived or self._cancelled or self._queue or self._places):
                if self._stopping:
                    return False
                self._changed.wait()
            arrived, self._arrived = self._arrived, []
            cancelled, self._cancelled = self._cancelled, []
        for job in arrived:
            with self._failing(job):
                self._cut(job)
                if job.has_more:
                    self._queue.add(job)
        for job in cancelled:
            self._drop(job, StoppedError())
        return True

    def _fill(self) -> None:
        """Gives sentences to the session while it has room for them."""
        while self._queue and len(self._places) < self._room:
            job = self._queue.turn()
            with self._failing(job):
                self._submit(job, job.places.popleft())
                if not job.places:
                    self._cut(job)
                self._queue.settle()

    def _step(self) -> None:
        """Lets the session do some work, and hands on what is finished."""
        session, translator = self._loaded()
        try:
            finished = session.step()
        except Exception as error:
            # Whatever fails, fails for all that are in the session; the next ones begin anew.
            logger.error("decoding failed (%s: %s)", type(error).__name__, error)
            self._session = translator.open_session()
            for job, _ in list(self._places.values()):
                self._drop(job, error)
            return
        for key, hypothesis in finished:
            if key not in self._places:  # its text was dropped a moment ago
                continue
            job, place = self._places.pop(key)
            job.keys.remove(key)
            with self._failing(job):
                for again in job.cutter_of(translator).take(place, hypothesis):
                    self._submit(job, again)
                self._finish_if_ready(job)

    def _submit(self, job: Job, place: Place) -> None:
        """Gives a sentence to the session."""
        session, translator = self._loaded()
        key = next(self._keys)
        missing = job.cutter_of(translator).missing_in(place.part)
        session.submit(place.request(key, job.options, missing=missing, recorder=job.recorder))
        self._places[key] = job, place
        job.keys.add(key)
        job.started = job.started or time.perf_counter()

    def _cut(self, job: Job) -> None:
        """Cuts lines of a text until there is a sentence; finishes a text that has none."""
        taken = job.cut(self._loaded()[1])
        with self._changed:
            self._waiting -= taken
        self._finish_if_ready(job)

    def _finish_if_ready(self, job: Job) -> None:
        """Hands on a text whose sentences are all translated."""
        if not job.is_done and not (job.places or job.keys or job.lines):
            translator = self._loaded()[1]
            job.translations = [translator.translation(each, job.options) for each in job.pending]
            job.finish()

    def _drop(self, job: Job, error: BaseException) -> None:
        """Takes a text out of everything, unless it is done."""
        if job.is_done:
            return
        self._queue.remove(job)
        for key in job.keys:
            del self._places[key]
            self._loaded()[0].cancel(key)
        with self._changed:
            self._waiting -= len(job.lines)
        for each in (job.lines, job.places, job.keys):
            each.clear()
        job.finish(error)

    @contextmanager
    def _failing(self, job: Job) -> Iterator[None]:
        """Has a failure concern one text alone."""
        try:
            yield
        except Exception as error:
            logger.error("a text failed (%s)", type(error).__name__)
            self._drop(job, error)

    def _loaded(self) -> tuple[AnySession, Translator]:
        assert self._session is not None and self.translator is not None
        return self._session, self.translator
