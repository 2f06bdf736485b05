"""Lines to sentences in a session and back: one feeder for each call, any number of them beside each other."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol, final

from specmt.decoding.request import Missing, Request
from specmt.options import DecodingOptions
from specmt.text.markers import take_markers
from specmt.text.parts import Part, sentences
from specmt.text.rules import Rules
from specmt.types import Hypothesis, Line, Tagged, Tally

if TYPE_CHECKING:
    from specmt.decoding.trace import Recorder
    from specmt.decoding.translation_memory import TranslationMemory
    from specmt.requirements import Requirements

AHEAD: Final = 6
"""How many batches of sentences are in the session at a time: one being decoded, the others ready to take its rows, of
which the session sorts four by length."""

LINES_AHEAD: Final = 16
"""How many batches of lines wait at most for an earlier one to be finished."""

CHUNK: Final = 32
"""How many lines are split and encoded at a time."""


class AnySession(Protocol):
    """What decodes (specmt.decoding.session.Session)."""

    def submit(self, request: Request) -> None:
        """Takes in a request."""

    def step(self) -> list[tuple[int, Hypothesis]]:
        """Does some work; returns the keys and hypotheses of what finished."""

    def cancel(self, key: int) -> bool:
        """Drops a request; returns whether it was not finished."""


@final
class SharedSession:
    """A session that several threads feed at a time: whoever has the lock works for all."""

    def __init__(self, make: Callable[[], AnySession]) -> None:
        """
        :param make: makes the session when it is first needed
        """
        self._make = make
        self._session: AnySession | None = None
        self._lock = threading.Lock()
        self._keys = count()
        self._mailboxes: dict[int, Mailbox] = {}  # of the requests that are not finished

    def submit(self, mailbox: Mailbox, place: Place, feed: Feed, missing: Missing | None = None) -> int:
        """Takes in a sentence; returns its key."""
        options, memory, recorder = feed
        with self._lock:
            key = next(self._keys)
            request = place.request(key, options, missing=missing, memory=memory, recorder=recorder)
            self._open().submit(request)
            self._mailboxes[key] = mailbox
        return key

    def work(self, mailbox: Mailbox) -> None:
        """Lets the session do some work, unless another thread had it finish something for this mailbox meanwhile.

        Whatever fails, fails for all who wait: none of them waits for ever, and the next one begins anew.
        """
        with self._lock:
            if mailbox:
                return
            try:
                for key, hypothesis in self._open().step():
                    self._mailboxes.pop(key).append((key, hypothesis))
            except BaseException as error:
                for key, each in self._mailboxes.items():
                    each.append((key, error))
                self._mailboxes, self._session = {}, None

    def cancel(self, keys: list[int]) -> None:
        """Takes back what is not finished."""
        with self._lock:
            for key in keys:
                if self._mailboxes.pop(key, None) is not None:
                    self._open().cancel(key)

    @property
    def tally(self) -> dict[str, Tally]:
        """What came of each way to draft, as far as the session tells it."""
        return getattr(self._session, "tally", {})

    def _open(self) -> AnySession:
        if self._session is None:
            self._session = self._make()
        return self._session


Mailbox = deque[tuple[int, Hypothesis | BaseException]]
"""What finished, or why it never will, by key."""

Feed = tuple[DecodingOptions, "TranslationMemory | None", "Recorder | None"]
"""How the sentences of a call are decoded: options, what lookups copy from, who notes verifier calls."""


@dataclass
class Pending:
    """A line on its way."""

    line: Line
    parts: list[Part]
    rules: Rules
    """By which it was cut."""

    tagged: Tagged
    """The line without pairs of placeholders around words, and those."""

    missing: int = 0
    """How many of its sentences are with the session."""


@dataclass
class Place:
    """Where a sentence belongs."""

    pending: Pending
    part: Part
    number: int
    """Which of the line's sentences it is."""

    fragment: int = 0
    """Which of the texts between what is copied it is, where those are translated by themselves."""

    def request(self, key: int, options: DecodingOptions, **more: Any) -> Request:
        """Returns what a session is asked for.

        :param more: further fields of the request
        """
        line, part = self.pending.line, self.part
        aligned = (line.aligned and options.alignments) or part.needs_alignment or bool(self.pending.tagged.tags)
        number = number_of(self.number, part.attempt, self.fragment)
        return Request(key, part.ids, line.index, number, options=options.searched, aligned=aligned, **more)


def number_of(sentence: int, attempt: int, fragment: int) -> int:
    """Returns the number of a request among those of its line: every attempt has random numbers of its own."""
    return sentence + (attempt << 20) + (fragment << 24)


def place_of(number: int) -> tuple[int, int, int]:
    """Returns the sentence, the attempt and the fragment of a request by its number."""
    return number & 0xFFFFF, number >> 20 & 0xF, number >> 24


@dataclass(frozen=True)
class Cutter:
    """Makes sentences of lines, and takes what the model said of them."""

    rules: Rules
    requirements: Requirements | None = None
    """What asks for terms, if there are any."""

    def missing_in(self, part: Part) -> Missing | None:
        """Returns what tells the session what a translation still lacks."""
        return self.requirements.missing_in(part) if self.requirements and part.required and not part.attempt else None

    def cut(self, line: Line) -> Pending:
        """Returns a line with its parts."""
        tagged = take_markers(line.text) if self.rules.protects else Tagged(line.text)
        return Pending(line, self.rules.split(tagged.text), self.rules, tagged)

    @staticmethod
    def places(pending: Pending) -> Iterator[Place]:
        """Yields the sentences of a line, to be decoded in any order."""
        return (Place(pending, part, number) for number, part in enumerate(sentences(pending.parts)))

    def take(self, place: Place, hypothesis: Hypothesis) -> Iterator[Place]:
        """Puts a hypothesis in its place; yields what is to be decoded next, since it will not do."""
        for number, part in enumerate(self.rules.take(place.part, hypothesis)):
            yield Place(place.pending, part, place.number, number)


@final
class Feeder:
    """Keeps a session busy with the sentences of lines, and hands the lines on in order."""

    def __init__(self, session: SharedSession, cutter: Cutter, feed: Feed) -> None:
        self._session = session
        self._cutter = cutter
        self._feed = feed
        self._mailbox: Mailbox = deque()
        self._places: dict[int, Place] = {}  # of the sentences that are not finished, by key
        self._pending: deque[Pending] = deque()

    def run(self, lines: Iterator[Line], ready: Callable[[], bool]) -> Iterator[Pending]:
        """Yields lines whose parts are all translated, in order; reads more of them while it waits.

        A failure of the input is raised after the lines before it have come.

        :param ready: whether the next line would come at once
        """
        failure: Exception | None = None
        at_end = False
        try:
            while True:
                while self._pending and not self._pending[0].missing:
                    yield self._pending.popleft()
                if at_end and not self._pending:
                    break
                while not at_end and self._has_room() and (not self._pending or ready()):
                    chunk: list[Line] = []
                    try:
                        while len(chunk) < CHUNK and (not chunk or ready()):
                            chunk.append(next(lines))
                    except StopIteration:
                        at_end = True
                    except Exception as error:
                        at_end, failure = True, error
                    self._submit(chunk)
                if self._places:
                    self._session.work(self._mailbox)
                    self._receive()
        finally:
            self._session.cancel(list(self._places))
        if failure is not None:
            raise failure

    def _has_room(self) -> bool:
        """Returns whether more lines are to be read."""
        size = self._feed[0].batch_size
        return len(self._places) < AHEAD * size and len(self._pending) < LINES_AHEAD * max(size, CHUNK)

    def _submit(self, lines: list[Line]) -> None:
        """Splits lines into sentences and gives those to the session."""
        for line in lines:
            pending = self._cutter.cut(line)
            self._pending.append(pending)
            for place in self._cutter.places(pending):
                self._submit_part(place)

    def _submit_part(self, place: Place) -> None:
        key = self._session.submit(self._mailbox, place, self._feed, self._cutter.missing_in(place.part))
        self._places[key] = place
        place.pending.missing += 1

    def _receive(self) -> None:
        """Takes what finished out of the mailbox."""
        while self._mailbox:
            key, hypothesis = self._mailbox.popleft()
            if isinstance(hypothesis, BaseException):
                raise hypothesis
            place = self._places.pop(key)
            place.pending.missing -= 1
            for again in self._cutter.take(place, hypothesis):
                self._submit_part(again)
