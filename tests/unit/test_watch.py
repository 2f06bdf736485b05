"""What a loop does unwatched, and why, seen afterwards."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from specmt.cli.trace.page import page
from specmt.decoding import watch as watching
from specmt.decoding.policy import LearntPolicy, Policy
from specmt.decoding.record import record
from specmt.decoding.session import decode
from specmt.decoding.translation_memory import TranslationMemory
from specmt.decoding.watch import Note, Noting, watch
from specmt.models.hub import Model, load_model
from specmt.options import DecodingOptions
from specmt.translator import Translator
from specmt.types import Hypothesis
from tests.decoding_helpers import GREEDY, Sources, tokens_of

AUTO = DecodingOptions(batch_size=1)


@pytest.fixture
def at_once(tiny_model: Path, kernels: bool) -> Model:
    """A model whose drafters take no time to load."""
    return replace(load_model(tiny_model, kernels=kernels, dtype="float32"), packing=0.0)


def test_it_is_what_was_done(at_once: Model, sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Hypothesis] = []

    def noted(*given: object, **named: object) -> list[Hypothesis]:
        ran.extend(decode(*given, **named))  # type: ignore[arg-type]
        return ran[-1:]

    monkeypatch.setattr(watching, "decode", noted)
    drafted = 0
    for source in sources[4:16]:
        at_once.costs.clear()
        at_once.costs["verifier"] = {1.0: [0.001, 0.001], 16.0: [0.001, 0.001]}  # where drafts pay
        said, iterations = watch(at_once, source, AUTO, None, as_run=True)
        assert tokens_of([said]) == tokens_of(decode(at_once, [source], GREEDY))
        first, again = ran[-2:]
        assert again.stats.verifier_calls == first.stats.verifier_calls == len(iterations)
        stood = sum(min(len(each.accepted), len(each.emitted)) for each in iterations)
        assert again.stats.accepted == first.stats.accepted == stood
        assert sum(len(each.nodes) for each in iterations) == again.stats.drafted
        assert iterations[0].why
        drafted += sum(bool(each.nodes) for each in iterations)
    assert drafted >= 12


def test_it_says_why_nothing_was_drafted(tiny_model: Path, sources: Sources) -> None:
    model = replace(load_model(tiny_model), packing=1.0)
    notes: list[Note] = []

    def wrap(policy: Policy) -> Policy:
        assert isinstance(policy, LearntPolicy)
        return Noting(policy, notes)

    decode(model, sources[:20], AUTO, wrap=wrap)
    assert notes[0].why == "to see what a call of 1 token takes"
    assert [note.plan.arm.drafts for note in notes] == [False] * len(notes)
    assert notes[-1].why.startswith("none (worth most); none: ")
    assert " ms to load; decoded so far: " in notes[-1].why


def test_a_trace_as_run_is_told_everywhere(tiny_model: Path) -> None:
    model = load_model(tiny_model)
    translator = Translator(model)
    plain = translator.trace("Wo ist der Bahnhof?", AUTO)
    trace = translator.trace("Wo ist der Bahnhof?", AUTO, as_run=True)
    assert trace.tokens == plain.tokens
    told = record(trace, model.pieces, AUTO)
    assert json.loads(json.dumps(told.as_json()))["iterations"][0]["why"] == trace.iterations[0].why != ""
    assert "<dt>Choice</dt>" in page(told, AUTO)
    assert "<dt>Choice</dt>" not in page(record(plain, model.pieces, AUTO), AUTO)


def test_what_is_looked_up_is_not_what_the_first_run_has_found(at_once: Model, sources: Sources) -> None:
    memory = TranslationMemory()
    options = replace(AUTO, drafter="lookup")
    for _ in range(2):
        watch(at_once, sources[6], options, memory, as_run=True)
    assert memory.size == 1
