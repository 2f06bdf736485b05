"""The engine: texts join and leave while others are decoded, clients take turns, nothing is lost."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from specmt.decoding.request import Request
from specmt.decoding.session import Session
from specmt.feeder import Cutter
from specmt.models.hub import Model
from specmt.options import DecodingOptions
from specmt.serve.engine import Engine, Job, StoppedError
from specmt.serve.errors import RefusedError
from specmt.serve.fair import FairQueue
from specmt.serve.room import Claim, Room
from specmt.text.lines import lines_of
from specmt.translator import Translator
from specmt.types import Hypothesis, Line
from tests.sessions import FakeModel, FakeSession, reverse

OPTIONS = DecodingOptions(batch_size=2)


class Gated:
    """A session that does a step when it may, one sentence at a time."""

    def __init__(self) -> None:
        self.inner = FakeSession(reverse)
        self.gate = threading.Semaphore(0)
        self.order: list[str] = []
        self.cancelled: list[int] = []
        self.pieces = FakeModel().pieces

    def submit(self, request: Request) -> None:
        self.inner.submit(request)

    def step(self) -> list[tuple[int, Hypothesis]]:
        self.gate.acquire()
        first, *self.inner.requests = self.inner.requests
        rest, self.inner.requests = self.inner.requests, [first]
        finished = self.inner.step()
        self.inner.requests = rest
        return finished

    def cancel(self, key: int) -> bool:
        self.cancelled.append(key)
        return self.inner.cancel(key)


@contextmanager
def running(session: object) -> Iterator[Engine]:
    translator = Translator(FakeModel(), session=session)  # type: ignore[arg-type]
    engine = Engine(lambda: translator, batch_size=2)
    engine.start()
    assert engine.ready.wait(10)
    try:
        yield engine
    finally:
        if isinstance(session, Gated):
            session.gate.release(1_000_000)
        engine.stop(10)


class Waiting:
    """A job and its end."""

    def __init__(self, text: str, client: str = "", options: DecodingOptions = OPTIONS) -> None:
        self.done = threading.Event()
        self.job = Job(lines_of(text), options, characters=len(text), client=client, done=lambda _: self.done.set())

    def text(self) -> str:
        assert self.done.wait(20)
        if self.job.error is not None:
            raise self.job.error
        return self.job.text


def eventually(holds: Callable[[], bool]) -> None:
    for _ in range(2000):
        if holds():
            return
        threading.Event().wait(0.005)
    pytest.fail("it never came to be")


def test_clients_take_turns_and_so_do_the_requests_of_a_client() -> None:
    queue: FairQueue[str] = FairQueue()
    pages = {"a1": 3, "a2": 2, "a3": 1, "a4": 1, "b1": 1, "c1": 2}
    for book in pages:
        queue.add(book[0], book)
    order = []
    while queue:
        book = queue.turn()
        order.append(book)
        pages[book] -= 1
        if not pages[book]:
            queue.remove(book[0], book)
    assert order == ["a1", "b1", "c1", "a2", "c1", "a3", "a4", "a1", "a2", "a1"]


def test_a_request_can_leave_the_queue() -> None:
    queue: FairQueue[str] = FairQueue()
    queue.add("a", "a1")
    queue.add("b", "b1")
    queue.remove("a", "a1")
    queue.remove("a", "a1")
    assert queue.turn() == "b1"


def test_texts_come_back_with_their_line_endings_and_blank_lines() -> None:
    with running(FakeSession(reverse)) as engine:
        jobs = [Waiting(text) for text in ("a b\r\n\n \nc d", "", "\n\n", "e f\n")]
        engine.submit([each.job for each in jobs])
        assert [each.text() for each in jobs] == ["b a\r\n\n \nd c", "", "\n\n", "f e\n"]
    assert engine.waiting == engine.running == 0


def test_a_sentence_need_not_wait_for_a_book() -> None:
    session = Gated()
    with running(session) as engine:
        book, sentence = Waiting("\n".join("abcdefgh"), "reader"), Waiting("z y", "passer-by")
        engine.submit([book.job])
        eventually(lambda: engine.running == 3)  # two rows, one ready
        engine.submit([sentence.job])
        session.gate.release(5)  # those three, one more of the book, then the sentence
        assert sentence.text() == "y z"
        assert not book.done.is_set()
        session.gate.release(100)
        assert book.text() == "\n".join("abcdefgh")


def test_what_is_cancelled_leaves_the_session_at_once() -> None:
    session = Gated()
    with running(session) as engine:
        book, other = Waiting("\n".join("abcdefgh"), "reader"), Waiting("z y", "passer-by")
        engine.submit([book.job, other.job])
        eventually(lambda: engine.running == 3)
        engine.cancel([book.job])
        session.gate.release(1)  # the step that runs may end
        with pytest.raises(StoppedError):
            book.text()
        session.gate.release(10)
        assert other.text() == "y z"
        eventually(lambda: engine.running == engine.waiting == 0)
    assert len(session.cancelled) >= 1


def test_a_text_in_one_line_waits_as_one_in_many_does() -> None:
    sentences = "Ein Wort. " * 3000
    for text in (sentences, sentences.replace(" Ein", "\nEin")):
        session = Gated()
        with running(session) as engine:
            book, other = Waiting(text, "reader"), Waiting("z y", "passer-by")
            engine.submit([book.job])
            eventually(lambda: engine.running == 3)
            assert engine.waiting > 20_000
            assert book.job.feeder is not None and len(book.job.feeder.waiting) < 1000
            engine.submit([other.job])
            session.gate.release(5)
            assert other.text() == "y z"
            engine.cancel([book.job])
            session.gate.release(1)
            eventually(lambda: engine.waiting == 0)


def test_blank_lines_hold_nobody_up_and_take_no_memory() -> None:
    tracemalloc.start()
    try:
        with running(FakeSession(reverse)) as engine:
            blank, other = Waiting("\n \r\n\t\n1\n" * 100_000, "a"), Waiting("z y", "b")
            engine.submit([blank.job])
            eventually(lambda: engine.waiting < 800_000)
            engine.submit([other.job])
            assert other.text() == "y z"
            assert not blank.done.is_set()
            engine.cancel([blank.job])
            with pytest.raises(StoppedError):
                blank.text()
            assert tracemalloc.get_traced_memory()[1] < 20 * 800_000
    finally:
        tracemalloc.stop()


def test_there_is_room_for_so_many_characters_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = 0
    room = Room(100, lambda: waiting)
    first, second, third, document = (Claim(room, is_document=each) for each in (False, False, False, True))
    first.add(70)
    document.add(1000)
    second.add(30)
    with pytest.raises(RefusedError) as refused:
        third.add(10)  # which arrives, too
    assert (refused.value.status, refused.value.retry_after) == (429, 1)
    third.close()
    first.pass_on()
    waiting = 70
    assert room.arriving == 30
    waiting = 100
    with pytest.raises(RefusedError):
        second.pass_on()
    first.pass_on()  # what was let in is so
    second.close()
    first.close()
    assert (room.arriving, room.bytes) == (0, 1000)
    monkeypatch.setattr("specmt.serve.room.MOST_BYTES", 2000)
    with pytest.raises(RefusedError):
        document.add(1000)
    document.close()
    assert room.bytes == 0


def test_it_finishes_what_it_has_when_it_is_stopped() -> None:
    with running(FakeSession(reverse)) as engine:
        jobs = [Waiting("a b\nc d") for _ in range(50)]
        engine.submit([each.job for each in jobs])
        engine.stop(20)
        assert {each.text() for each in jobs} == {"b a\nd c"}
        with pytest.raises(StoppedError):
            engine.submit([Waiting("x").job])


def test_a_failing_step_fails_what_is_in_it_and_nothing_later(caplog: pytest.LogCaptureFixture) -> None:
    failures = [RuntimeError("no, a b")]

    def decode(sources: list[list[int]]) -> list[Hypothesis]:
        if failures:
            raise failures.pop()
        return reverse(sources)

    with running(FakeSession(decode)) as engine:  # type: ignore[arg-type]
        unlucky = Waiting("a b")
        engine.submit([unlucky.job])
        with pytest.raises(RuntimeError, match="no"):
            unlucky.text()
        later = Waiting("a b")
        engine.submit([later.job])
        assert later.text() == "b a"
    assert caplog.messages == ["decoding failed (RuntimeError)"]  # and no text


def test_a_text_that_cannot_be_cut_fails_alone_and_none_of_its_lines_waits() -> None:
    session = Gated()
    with running(session) as engine:
        unlucky, other = Waiting("\n\na\nb"), Waiting("c d")
        unlucky.job.cutter = Cutter(None)  # type: ignore[arg-type]
        engine.submit([unlucky.job, other.job])
        with pytest.raises(AttributeError):
            unlucky.text()
        eventually(lambda: engine.running == 1)
        assert engine.waiting == 0
        session.gate.release(1)
        assert other.text() == "d c"


def test_a_model_that_cannot_be_loaded_fails_whoever_waits() -> None:
    def load() -> Translator:
        raise ValueError("damaged")

    engine = Engine(load, batch_size=2)
    engine.start()
    assert engine.ready.wait(10)
    assert isinstance(engine.error, ValueError)
    engine.stop(10)
    with pytest.raises(StoppedError):
        engine.submit([Waiting("a").job])


def test_answers_do_not_depend_on_company(model: Model) -> None:
    """A hundred texts from several clients, some cancelled half-way: the same bytes as alone."""
    words = Path(__file__).parents[2].joinpath("data", "sample.de").read_text(encoding="utf-8").split()
    texts = ["\n".join(" ".join(words[i + j : i + j + 1 + (i + j) % 7]) for j in range(i % 3)) for i in range(100)]
    translator = Translator(model)
    options = DecodingOptions(batch_size=8)
    alone = []
    for text in texts:
        lines: list[Line] = list(lines_of(text))
        alone.append("".join(each.text + each.line.ending for each in translator.translate(lines, options)))
    session = Session(model)
    engine = Engine(lambda: Translator(model, session=session), batch_size=8)
    engine.start()
    jobs = [Waiting(text, f"client {number % 5}", options) for number, text in enumerate(texts)]
    unwanted = [Waiting(text, "other", options) for text in texts[::3]]
    for job, other in zip(jobs, [*unwanted, *[None] * len(jobs)], strict=False):
        engine.submit([job.job])
        if other is not None:
            engine.submit([other.job])
    engine.cancel([each.job for each in unwanted])
    assert [job.text() for job in jobs] == alone
    engine.stop(20)
    assert len(session) == engine.running == engine.waiting == 0
