"""Lines to sentences in a session and back: one feeder for each text, any number of them beside each other."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple, final

from specmt.decoding.request import Recorder, Request
from specmt.options import DecodingOptions
from specmt.text.markers import take_markers
from specmt.text.parts import Part, sentences
from specmt.text.rules import Rules
from specmt.text.segment import MOST
from specmt.types import Hypothesis, Line, Tagged, Tally

if TYPE_CHECKING:
    from specmt.decoding.session import Session
    from specmt.decoding.translation_memory import TranslationMemory
    from specmt.requirements import Requirements

AHEAD: Final = 6
"""How many batches of sentences are in the session at a time: one being decoded, the others ready to take its rows, of
which the session sorts four by length."""

LINES_AHEAD: Final = 16
"""How many batches of lines wait at most for an earlier one to be finished."""

CHUNK: Final = 32
"""How many lines are read at a time."""


@final
class SharedSession:
    """A session that several threads feed at a time: whoever has the lock works for all."""

    def __init__(self, make: Callable[[], Session]) -> None:
        """
        :param make: makes the session when it is first needed
        """
        self._make = make
        self._session: Session | None = None
        self._lock = threading.Lock()
        self._keys = count()
        self._sentences: dict[int, Sentence] = {}  # that are not finished

    def __len__(self) -> int:
        """How many sentences are not finished."""
        return len(self._sentences)

    def open(self) -> Session:
        """Returns the session, made anew if there is none; for whoever has the lock, or is alone."""
        if self._session is None:
            session = self._make()
            for key, sentence in self._sentences.items():
                session.cancel(key)  # where it is the one that there was
                session.submit(sentence.request(key))
            self._session = session
        return self._session

    def submit(self, sentence: Sentence) -> None:
        """Takes in a sentence."""
        with self._alone():
            key = next(self._keys)
            self.open().submit(sentence.request(key))
            self._sentences[key] = sentence

    def work(self, mailbox: Mailbox) -> None:
        """Lets the session do some work, unless another thread had it finish something for this mailbox meanwhile.

        Whatever fails, fails for all who wait: none of them waits for ever, and the next one begins anew. An interrupt
        concerns the thread that it reaches alone.
        """
        with self._alone():
            if mailbox:
                return
            try:
                for key, hypothesis in self.open().step():
                    sentence = self._sentences.pop(key)
                    sentence.pending.feeder.mailbox.append((sentence, hypothesis))
            except Exception as error:
                for sentence in self._sentences.values():
                    sentence.pending.feeder.mailbox.append((sentence, error))
                self._sentences, self._session = {}, None
                raise

    def remember(self, memory: TranslationMemory, pairs: Iterable[tuple[list[int], list[int]]]) -> None:
        """Has a memory remember pairs between two steps, in which lookups read it."""
        with self._alone():
            for source, target in pairs:
                memory.remember(source, target)

    def cancel(self, feeder: Feeder) -> None:
        """Takes back what is not finished of a text."""
        with self._alone():
            for key in [key for key, sentence in self._sentences.items() if sentence.pending.feeder is feeder]:
                del self._sentences[key]
                self.open().cancel(key)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Has the lock; what an interrupt left half-way begins anew in another session."""
        with self._lock:
            try:
                yield
            except Exception:
                raise
            except BaseException:
                self._session = None
                raise

    @property
    def tally(self) -> dict[str, Tally]:
        """What came of each way to draft (specmt.decoding.drafters.base.Arm), as far as the session tells it."""
        return getattr(self._session, "tally", {})


@final
class Cutter(NamedTuple):
    """By what lines become sentences."""

    rules: Rules
    requirements: Requirements | None = None
    """What asks for terms, if there are any."""


@dataclass
class Pending:
    """A line on its way."""

    feeder: Feeder
    line: Line
    parts: list[Part]
    tagged: Tagged
    """The line without pairs of placeholders around words, and those."""

    missing: int = 0
    """How many of its sentences are not finished, and one while it is not cut to its end."""


@dataclass
class Sentence:
    """What a model is asked to translate, and where it belongs."""

    pending: Pending
    part: Part
    number: int
    """Which of the line's sentences it is."""

    fragment: int = 0
    """Which of the texts between what is copied it is, where those are translated by themselves."""

    def request(self, key: int) -> Request:
        """Returns what a session is asked for."""
        feeder, line, part = self.pending.feeder, self.pending.line, self.part
        options, requirements = feeder.options, feeder.cutter.requirements
        return Request(
            key,
            part.ids,
            line.index,
            number_of(self.number, part.attempt, self.fragment),
            options=options.searched,
            aligned=(line.aligned and options.alignments) or part.needs_alignment or bool(self.pending.tagged.tags),
            missing=requirements.missing_in(part) if requirements and part.required and not part.attempt else None,
            memory=feeder.memory,
            recorder=feeder.recorder,
        )


Mailbox = deque[tuple[Sentence, Hypothesis | BaseException]]
"""What finished, or why it never will."""


def number_of(sentence: int, attempt: int, fragment: int) -> int:
    """Returns the number of a request among those of its line: every attempt has random numbers of its own."""
    return sentence + (attempt << 20) + (fragment << 24)


def place_of(number: int) -> tuple[int, int, int]:
    """Returns the sentence, the attempt and the fragment of a request by its number."""
    return number & 0xFFFFF, number >> 20 & 0xF, number >> 24


@final
@dataclass(eq=False)
class Feeder:
    """Feeds a session with the sentences of one text, and puts what is said of them where it belongs."""

    session: SharedSession
    cutter: Cutter
    options: DecodingOptions
    memory: TranslationMemory | None = None
    """What lookups copy from."""

    recorder: Recorder | None = None
    """Notes verifier calls."""

    mailbox: Mailbox = field(default_factory=deque)
    """Where the session puts what finished: of this text, or of all those that a thread feeds it with."""

    pending: deque[Pending] = field(default_factory=deque, init=False)
    """The lines that are cut and not handed on, in order."""

    waiting: deque[Sentence] = field(default_factory=deque, init=False)
    """Sentences of those that are not submitted yet."""

    running: int = field(default=0, init=False)
    """How many are in the session."""

    def cutting(self, line: Line) -> Iterator[None]:
        """Cuts a line into sentences, which then wait, piece by piece: there is always one, and none takes long."""
        rules, numbers = self.cutter.rules, count()
        tagged = take_markers(line.text) if rules.protects and len(line.text) <= MOST else Tagged(line.text)
        pending = Pending(self, line, [], tagged, missing=1)  # what is not cut
        self.pending.append(pending)
        for parts in rules.parts(tagged.text):
            pending.parts += parts
            for part in sentences(parts):
                self.waiting.append(Sentence(pending, part, next(numbers)))
                pending.missing += 1
            yield
        pending.missing -= 1

    def submit(self, sentence: Sentence) -> None:
        """Gives a sentence to the session."""
        self.session.submit(sentence)
        self.running += 1

    def take(self, sentence: Sentence, hypothesis: Hypothesis) -> None:
        """Puts a hypothesis in its place, and asks again where it will not do."""
        again = self.cutter.rules.take(sentence.part, hypothesis)
        self.running -= 1
        sentence.pending.missing -= 1
        for fragment, part in enumerate(again):
            sentence.pending.missing += 1
            self.submit(Sentence(sentence.pending, part, sentence.number, fragment))

    def finished(self) -> Iterator[Pending]:
        """Yields the first lines as long as their parts are all translated, and hands them on."""
        while self.pending and not self.pending[0].missing:
            yield self.pending.popleft()


def feed(feeder: Feeder, lines: Iterator[Line], ready: Callable[[], bool]) -> Iterator[Pending]:
    """Yields lines whose parts are all translated, in order; reads more of them while it waits.

    A failure of the input is raised after the lines before it have come.

    :param ready: whether the next line would come at once
    """
    size = feeder.options.batch_size
    sentences_ahead, lines_ahead = AHEAD * size, LINES_AHEAD * max(size, CHUNK)
    at_end = False
    failure: Exception | None = None
    try:
        while feeder.pending or not at_end:
            yield from feeder.finished()
            while not at_end and feeder.running < sentences_ahead and len(feeder.pending) < lines_ahead:
                if feeder.pending and not ready():
                    break
                chunk: list[Line] = []
                try:
                    while len(chunk) < CHUNK and (not chunk or ready()):
                        chunk.append(next(lines))
                except StopIteration:
                    at_end = True
                except Exception as error:
                    at_end, failure = True, error
                for line in chunk:
                    for _ in feeder.cutting(line):
                        pass
                while feeder.waiting:
                    feeder.submit(feeder.waiting.popleft())
            if feeder.running:
                feeder.session.work(feeder.mailbox)
            while feeder.mailbox:
                sentence, said = feeder.mailbox.popleft()
                if isinstance(said, BaseException):
                    raise said
                feeder.take(sentence, said)
    finally:
        feeder.session.cancel(feeder)
    if failure is not None:
        raise failure
