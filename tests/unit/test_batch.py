"""What surrounds the loop: batches that memory has no room for."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from specmt.decoding.batch import decode, is_out_of_memory
from specmt.engine.backend import State
from specmt.models.hub import Model, load_model
from specmt.options import DecodingOptions

ERRORS = [
    MemoryError(),
    torch.OutOfMemoryError("CUDA out of memory."),
    RuntimeError("[enforce fail at alloc_cpu.cpp:118] DefaultCPUAllocator: can't allocate memory: you tried"),
]


class Cramped:
    """A verifier that has memory for so many rows."""

    def __init__(self, model: Model, room: int, error: Exception, *, late: bool) -> None:
        self.verifier = model.verifier
        self.room, self.error, self.late = room, error, late
        self.asked: list[int] = []

    def __getattr__(self, name: str) -> Any:
        if name == "run":
            raise AttributeError(name)  # the loop is to call step by step
        return getattr(self.verifier, name)

    def new_state(self, rows: int) -> State:
        self.asked.append(rows)
        if rows > self.room and not self.late:
            raise self.error
        return self.verifier.new_state(rows)

    def score(self, tokens: torch.Tensor, starts: torch.Tensor, *others: Any) -> torch.Tensor:
        if self.asked[-1] > self.room and int(starts.max()) > 6:
            raise self.error
        return self.verifier.score(tokens, starts, *others)


@pytest.mark.parametrize("late", [False, True], ids=["at the start", "on the way"])
@pytest.mark.parametrize("error", ERRORS, ids=["python", "cuda", "cpu"])
def test_a_batch_that_memory_has_no_room_for_is_halved(
    tiny_model: Path,
    sources: list[list[int]],
    error: Exception,
    late: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = load_model(tiny_model, device="cpu", dtype="float32")
    wanted = decode(model, sources, DecodingOptions(block_size=4))
    cramped = Cramped(model, 3, error, late=late)
    model.verifier = cramped
    with caplog.at_level(logging.WARNING):
        got = decode(model, sources, DecodingOptions(block_size=4, batch_size=16))
        assert cramped.asked == [16, 8, 4, 2]
        assert len(caplog.records) == 3
        again = decode(model, sources[:5], DecodingOptions(block_size=4, batch_size=16))
        assert cramped.asked[4:] == [2]
    assert [each.tokens for each in got] == [each.tokens for each in wanted]
    assert [each.stats for each in got] == [each.stats for each in wanted]
    assert [each.tokens for each in again] == [each.tokens for each in wanted[:5]]


def test_a_single_sentence_that_does_not_fit_is_an_error(tiny_model: Path, sources: Sequence[list[int]]) -> None:
    model = load_model(tiny_model, device="cpu", dtype="float32")
    model.verifier = Cramped(model, 0, MemoryError(), late=False)
    with pytest.raises(MemoryError):
        decode(model, sources, DecodingOptions(block_size=4))


def test_other_errors_are_not_taken_for_it(tiny_model: Path, sources: Sequence[list[int]]) -> None:
    assert not is_out_of_memory(RuntimeError("shape mismatch"))
    model = load_model(tiny_model, device="cpu", dtype="float32")
    cramped = Cramped(model, 3, RuntimeError("shape mismatch"), late=False)
    model.verifier = cramped
    with pytest.raises(RuntimeError, match="shape"):
        decode(model, sources, DecodingOptions(block_size=4))
    assert len(cramped.asked) == 1
