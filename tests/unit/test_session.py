"""The session: requests come and go at any time, memory may run out, and whoever runs the loop, the output is the same.

DESIGN §2.4, §2.6, §9.3, §9.10, §9.12.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specmt.decoding.drafters.base import Plan
from specmt.decoding.request import Recorder, Request
from specmt.decoding.session import LEAST_IDLE_LANES, Session, decode
from specmt.decoding.translation_memory import TranslationMemory
from specmt.engine.cache import State
from specmt.errors import ModelError, UsageError, is_out_of_memory
from specmt.models.hub import Model, load_model
from specmt.options import DecodingOptions
from specmt.types import Hypothesis
from tests.decoding_helpers import (
    BATCH_SIZES,
    GREEDY,
    Sources,
    Stepwise,
    assert_counts,
    assert_same,
    load_on,
    same,
    stats_of,
    total_of,
)

KINDS = {
    "greedy": replace(GREEDY, batch_size=3),
    "chain": DecodingOptions(drafter="masked", block_size=4, batch_size=2),
    "tree": DecodingOptions(drafter="masked", tree="best-first", nodes=6, block_size=4, batch_size=4, scores=True),
    "lossy": DecodingOptions(drafter="masked", tolerance=2.0, batch_size=3),
    "sample": DecodingOptions(drafter="masked", temperature=1.0, tree="sampled", width=2, block_size=3, batch_size=1),
    # The number of calls is up to the machine, else.
    "beam": DecodingOptions(strategy="beam", beam_size=3, drafter="none", batch_size=3),
}
FEW = 12
"""Sources that come and go."""


@pytest.fixture(scope="module", autouse=True)
def few_iterations() -> Iterator[None]:
    """Runs two iterations at a time, so that sentences last several steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Plan.__new__, "__defaults__", (*Plan.__new__.__defaults__[:3], 2, *Plan.__new__.__defaults__[4:]))
        yield


TWO = ["kernels-float32 tiny_model", "pytorch-float32 tiny_model"]


@pytest.fixture(scope="module", params=[*TWO, "kernels-float32 ssru_model"])
def model(request: pytest.FixtureRequest) -> Model:
    backend, name = request.param.split()
    return load_on(backend, request.getfixturevalue(name), request)


@pytest.fixture(scope="module")
def few(sources: Sources) -> Sources:
    return [source[:8] for source in sources[2 : 2 + FEW]]


@pytest.fixture(scope="module")
def alone(model: Model, few: Sources) -> dict[tuple[str, int], Hypothesis]:
    """What each source becomes by itself, in a session of its own."""
    return {
        (kind, number): decode(model, [source], options, [(number, 0)])[0]
        for kind, options in KINDS.items()
        for number, source in enumerate(few)
    }


def finish(session: Session) -> dict[int, Hypothesis]:
    """Steps until nothing is left."""
    found: dict[int, Hypothesis] = {}
    while len(session):
        found |= session.step()
    assert session.step() == []
    return found


# Requests that come and go

STEP = st.just(("step", 0))
COMMANDS = st.one_of(STEP, STEP, st.tuples(st.sampled_from([*KINDS]), st.integers(0, FEW - 1)))
CANCEL = st.tuples(st.just("cancel"), st.integers(0, 30))


@settings(max_examples=30, deadline=None)
@given(commands=st.lists(st.one_of(COMMANDS, COMMANDS, CANCEL), max_size=60))
def test_whatever_comes_and_goes_the_rest_is_as_if_decoded_alone(
    model: Model, few: Sources, alone: dict[tuple[str, int], Hypothesis], commands: list[tuple[str, int]]
) -> None:
    session = Session(model)
    if model.backend.name != "kernels":  # which takes many times as long
        commands = commands[:20]
    pending: dict[int, tuple[str, int]] = {}
    found: dict[int, Hypothesis] = {}
    submitted: dict[int, tuple[str, int]] = {}
    for name, number in commands:
        if name == "step":
            for key, hypothesis in session.step():
                found[key] = hypothesis
                del pending[key]
        elif name == "cancel":
            key = [*pending, -1][number % (len(pending) + 1)]
            assert session.cancel(key) == (key in pending)
            pending.pop(key, None)
        else:
            key = len(submitted)
            session.submit(Request(key, few[number], number, options=KINDS[name]))
            submitted[key] = pending[key] = (name, number)
        assert len(session) == len(pending)
    rest = finish(session)
    assert rest.keys() == pending.keys()
    assert all(same(hypothesis, alone[submitted[key]]) for key, hypothesis in (found | rest).items())


@pytest.mark.crossed("model", "batch_size")
@pytest.mark.parametrize("batch_size", BATCH_SIZES)
def test_kinds_take_turns_with_the_same_output(
    model: Model, few: Sources, alone: dict[tuple[str, int], Hypothesis], batch_size: int
) -> None:
    session = Session(model)
    kinds = [*KINDS]
    for number, source in enumerate(few):
        for place, kind in enumerate(kinds):
            options = replace(KINDS[kind], batch_size=batch_size)
            session.submit(Request(number * len(kinds) + place, source, number, options=options))
    turns = cycle(range(len(kinds)))
    found: dict[int, Hypothesis] = {}
    left = {place: len(few) for place in range(len(kinds))}
    while len(session):
        turn = next(place for place in turns if left[place])
        finished = session.step()
        # What finishes is of the kind whose turn it is.
        assert {key % len(kinds) for key, _ in finished} <= {turn}
        left[turn] -= len(finished)
        found |= finished
    for key, hypothesis in found.items():
        wanted = alone[kinds[key % len(kinds)], key // len(kinds)]
        assert same(hypothesis, wanted)


@pytest.mark.parametrize("kind", ["greedy", "chain", "beam"])
def test_a_request_is_cancelled_while_it_waits_and_while_it_is_decoded(
    model: Model, few: Sources, alone: dict[tuple[str, int], Hypothesis], kind: str
) -> None:
    for first, second in ((0, 1), (1, 5), (5, 2), (7, 0)):
        session = Session(model)
        for number, source in enumerate(few):
            session.submit(Request(number, source, number, options=KINDS[kind]))
        assert session.cancel(first)
        found = dict(session.step())
        assert session.cancel(second) == (second not in found)
        assert not session.cancel(first)
        assert not session.cancel(99)
        found |= finish(session)
        assert found.keys() | {second} == {*range(FEW)} - {first} | {second}
        assert all(same(hypothesis, alone[kind, number]) for number, hypothesis in found.items())
    session.submit(Request(0, few[0], options=KINDS[kind]))
    assert session.cancel(0)
    assert len(session) == 0
    assert session.step() == []


def test_a_key_is_taken_until_its_request_is_finished(model: Model, few: Sources) -> None:
    session = Session(model)
    session.submit(Request(7, few[0], options=GREEDY))
    for options in (GREEDY, KINDS["chain"]):
        with pytest.raises(UsageError, match="`key` must be a new one, but is 7 instead"):
            session.submit(Request(7, few[1], options=options))
    assert finish(session)[7].tokens == decode(model, few[:1], GREEDY)[0].tokens
    session.submit(Request(7, few[1], options=GREEDY))
    assert session.cancel(7)
    session.submit(Request(7, few[1], options=GREEDY))
    assert finish(session)[7].tokens == decode(model, few[1:2], GREEDY)[0].tokens


def test_a_request_that_cannot_be_taken_in_leaves_no_trace(tiny_model_without_drafter: Path, few: Sources) -> None:
    session = Session(load_model(tiny_model_without_drafter, device="cpu"))
    for options in (DecodingOptions(drafter="masked"), replace(GREEDY, shortlist=True)):
        with pytest.raises(ModelError):
            session.submit(Request(0, few[0], options=options))
    assert len(session) == 0
    session.submit(Request(0, few[0], options=GREEDY))
    assert finish(session).keys() == {0}


class Counting(Stepwise):
    """Counts caches."""

    states = 0

    def new_state(self, rows: int) -> State:
        self.states += 1
        state: State = self.verifier.new_state(rows)
        return state


def test_caches_are_kept_but_not_of_every_kind_there_ever_was(model: Model, few: Sources) -> None:
    verifier = Counting(model.verifier)
    session = Session(replace(model, verifier=verifier))
    for number in range(3):
        for source in few:
            session.submit(Request(number, source, options=KINDS["greedy"]))
            finish(session)
    assert verifier.states == 1
    for size in range(10, 10 + 3 * LEAST_IDLE_LANES):
        session.submit(Request(0, few[0], options=replace(GREEDY, batch_size=size)))
        finish(session)
    assert len(session._lanes) <= LEAST_IDLE_LANES + 1
    # Those that have work stay, however many they are.
    for size in range(10, 10 + 3 * LEAST_IDLE_LANES):
        session.submit(Request(size, few[0], options=replace(GREEDY, batch_size=size)))
    assert len(finish(session)) == 3 * LEAST_IDLE_LANES


def test_a_session_looks_up_what_it_has_translated(model: Model, few: Sources) -> None:
    options = DecodingOptions(drafter="lookup", block_size=32)
    session = Session(model)
    calls = []
    for _ in range(2):
        for number, source in enumerate(few):
            session.submit(Request(number, source, options=options))
        calls.append(total_of([*finish(session).values()]).verifier_calls)
    assert calls[1] < 0.3 * calls[0]
    memory = TranslationMemory()  # another memory, other drafts
    session.submit(Request(0, few[5], options=options, memory=memory))
    found = finish(session)[0]
    assert found.stats.verifier_calls == found.stats.tokens
    assert memory.size == 1


def test_every_recorder_sees_its_own_requests(model: Model, few: Sources) -> None:
    recorders = [Recorder(3), Recorder(3)]
    session = Session(model)
    for number, source in enumerate(few):
        session.submit(Request(number, source, options=KINDS["chain"], recorder=recorders[number % 2]))
    found = finish(session)
    for half, recorder in enumerate(recorders):
        assert sorted(recorder.iterations) == [*range(half, FEW, 2)]
        for key, passes in recorder.iterations.items():
            assert len(passes) == found[key].stats.verifier_calls


# Memory that does not suffice

ERRORS = [
    MemoryError(),
    RuntimeError("CUDA out of memory."),
    RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory: you tried"),
]
CALLS = ["new_state", "encode", "score", "run"]


class Cramped:
    """A verifier one of whose calls fails when there are more rows than it has room for."""

    def __init__(self, verifier: Any, call: str, room: int, error: Exception, *, late: bool = False) -> None:
        self.verifier, self.call, self.room, self.error, self.late = verifier, call, room, error, late
        self.failed: list[int] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.verifier, name)
        if name in ("run", "search") and self.call != name:
            raise AttributeError(name)  # the loop is to call step by step
        if name != self.call:
            return found

        def failing(*arguments: Any, **named: Any) -> Any:
            rows = rows_of(name, arguments)
            if rows > self.room and (not self.late or length_of(name, arguments) > 6):
                self.failed.append(rows)
                raise self.error
            return found(*arguments, **named)

        return failing


def rows_of(call: str, arguments: tuple[Any, ...]) -> int:
    if call in ("run", "search"):
        return len(arguments[1].lengths)
    if call == "score":
        return len(arguments[0].tokens)
    return int(arguments[0]) if call == "new_state" else len(arguments[0])


def length_of(call: str, arguments: tuple[Any, ...]) -> int:
    """Returns how far the longest sentence has come."""
    return int(arguments[1].lengths.max() if call == "run" else arguments[0].starts.max())


@pytest.mark.crossed("model", "call", "error")
@pytest.mark.parametrize("model", TWO, indirect=True)
@pytest.mark.parametrize(
    ("call", "late", "error"),
    [*((call, False, ERRORS[0]) for call in CALLS), *((call, True, error) for call in CALLS[2:] for error in ERRORS)],
    ids=str,
)
def test_memory_that_does_not_suffice_halves_the_batch(
    model: Model, sources: Sources, call: str, late: bool, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    if call == "run" and model.backend.name != "kernels":
        pytest.skip("the loop runs step by step there")
    options = DecodingOptions(drafter="masked", block_size=4, batch_size=16)
    sources = [source[:8] for source in sources[:20]]
    wanted = decode(model, sources, options)
    cramped = Cramped(model.verifier, call, 3, error, late=late)
    session = Session(replace(model, verifier=cramped))
    for again in range(2):
        for number, source in enumerate(sources):
            session.submit(Request(number, source, options=options))
        found = finish(session)
        assert all(same(found[number], each) for number, each in enumerate(wanted))
        if call != "run":  # a fused loop gives a row away a little later, so that fewer may have been left
            assert cramped.failed == [16, 8, 4]  # once, then that is known
        assert len(caplog.records) == len(cramped.failed) <= 4
        assert again or caplog.records[0].levelno == logging.WARNING


@pytest.mark.parametrize("room", [1, 3])
def test_every_kind_learns_what_memory_has_room_for(model: Model, few: Sources, room: int) -> None:
    """Those that had begun before, too: nothing is dropped, and nothing made smaller than it must be."""
    cramped = Cramped(model.verifier, "score", room, MemoryError())
    session = Session(replace(model, verifier=cramped))
    wanted = decode(model, few, GREEDY)
    for again in range(2):
        for place, size in enumerate((8, 9, 10, 11)):
            options = replace(GREEDY, batch_size=size + 10 * again, scores=size == 9)
            for number, source in enumerate(few):
                session.submit(Request(place * FEW + number, source, options=options))
        for key, hypothesis in finish(session).items():
            assert_same([hypothesis], [wanted[key % FEW]])
    assert cramped.failed == {3: [8, 4], 1: [8, 4, 2]}[room]


@pytest.mark.parametrize("call", ["search", "score"])
def test_a_beam_search_that_memory_has_no_room_for_goes_on_with_less(model: Model, few: Sources, call: str) -> None:
    if call == "search" and model.backend.name != "kernels":
        pytest.skip("the search runs step by step there")
    options = replace(KINDS["beam"], batch_size=12, scores=True)
    each = 1 if call == "search" else options.beam_size  # rows of a sentence
    cramped = Cramped(model.verifier, call, 3 * each, MemoryError())
    assert decode(replace(model, verifier=cramped), few, options) == decode(model, few, options)
    assert cramped.failed == [12 * each, 6 * each]


@pytest.mark.parametrize("batch_size", [1, 8])
def test_a_sentence_that_does_not_fit_by_itself_is_dropped_and_the_others_go_on(
    model: Model, few: Sources, batch_size: int
) -> None:
    options = replace(GREEDY, batch_size=batch_size)

    class Picky(Stepwise):
        def encode(self, sources: Sources) -> Any:
            if few[5] in sources:
                raise MemoryError
            return self.verifier.encode(sources)

    session = Session(replace(model, verifier=Picky(model.verifier)))
    for number, source in enumerate(few):
        session.submit(Request(number, source, options=options))
    found: dict[int, Hypothesis] = {}
    errors = 0
    while len(session):
        try:
            found |= session.step()
        except MemoryError:
            errors += 1
    assert errors == 1
    assert sorted(found) == [number for number in range(FEW) if number != 5]
    wanted = decode(model, few, GREEDY)
    assert all(found[number].tokens == wanted[number].tokens for number in found)
    session.submit(Request(5, few[0], options=options))  # the key is free
    assert finish(session)[5].tokens == wanted[0].tokens
    with pytest.raises(MemoryError):
        decode(replace(model, verifier=Picky(model.verifier)), few, options)


def test_other_errors_are_not_taken_for_it(model: Model, few: Sources) -> None:
    assert not is_out_of_memory(RuntimeError("shape mismatch"))
    assert is_out_of_memory(ImportError("libtorch_cpu.so: failed to map segment from shared object"))
    assert is_out_of_memory(OSError(errno.ENOMEM, "Cannot allocate memory"))
    assert not is_out_of_memory(OSError(errno.ENOENT, "No such file", "out of memory.txt"))
    damaged = ModelError("out of memory.txt: is no model folder.")
    assert not is_out_of_memory(damaged)
    damaged.__cause__ = RuntimeError("unable to mmap 8 bytes: Cannot allocate memory (12)")
    assert is_out_of_memory(damaged)
    cramped = Cramped(model.verifier, "score", 0, RuntimeError("shape mismatch"))
    with pytest.raises(RuntimeError, match="shape"):
        decode(replace(model, verifier=cramped), few, GREEDY)
    assert len(cramped.failed) == 1


# Counts


@pytest.mark.parametrize(
    "options",
    [
        {"drafter": "masked+lookup"},
        {"drafter": "masked+lookup", "tree": "best-first", "block_size": 3},
        {"drafter": "masked", "tolerance": 2.0, "beta": 3},
        {"drafter": "masked", "block_size": 5, "tolerance": 2.0, "beta": 3},
        {"drafter": "masked", "tree": "best-first", "nodes": 9, "tolerance": 1.0, "beta": 4},
        {"drafter": "autoregressive", "block_size": 4, "tolerance": 0.5, "beta": 2},
        {"drafter": "masked", "temperature": 1.0, "block_size": 4},
        {"drafter": "autoregressive", "temperature": 1.0, "tree": "sampled", "block_size": 3},
    ],
    ids=str,
)
def test_counts_add_up_to_what_was_said(model: Model, sources: Sources, options: dict[str, Any]) -> None:
    some = sources[::2]
    got = decode(model, some, DecodingOptions(**options))
    for hypothesis, source in zip(got, some, strict=True):
        assert_counts(hypothesis)
        assert (hypothesis.stats.sentences, hypothesis.stats.source_tokens) == (1, len(source) + 1)
    if "tolerance" not in options and "temperature" not in options:
        assert_same(got, decode(model, some, GREEDY))
    total = total_of(got)
    assert sum(total.accepted_counts) == total.verifier_calls == sum(stats.verifier_calls for stats in stats_of(got))
    assert total.mean_accepted_length == total.tokens / total.verifier_calls
