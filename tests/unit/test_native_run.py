"""The fused loop of the kernels does what the loop in Python does, draft for draft and token for token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specmt.decoding import loop, session
from specmt.decoding.session import decode
from specmt.engine.cache import State
from specmt.engine.fused import Confidence, Drafting, FusedLoop, Ran, Sentences
from specmt.engine.kernels.verifier import KernelVerifier
from specmt.models.hub import Model, load_model
from specmt.options import DecodingOptions
from specmt.types import BOS, EOS, Hypothesis
from tests.decoding_helpers import NotFused, counts, same, with_doubts
from tests.unit.test_shortlist import made_shortlist

pytestmark = pytest.mark.usefixtures("needs_kernels")

TREE: dict[str, Any] = {"tree": "best-first"}
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"strategy": "greedy"},
    "masked 1": {"block_size": 1},
    "masked 5": {"block_size": 5},
    "masked 25": {"block_size": 25},
    "masked tree": {"block_size": 5, "nodes": 16, "beta": 3, **TREE},
    "masked tree of one": {"block_size": 1, "nodes": 24, "beta": 5, **TREE},
    "autoregressive": {"drafter": "autoregressive", "block_size": 4},
    "autoregressive tree": {"drafter": "autoregressive", "block_size": 5, "nodes": 16, "beta": 3, **TREE},
    "autoregressive tree of one": {"drafter": "autoregressive", "block_size": 1, "nodes": 4, "beta": 2, **TREE},
    "broad tree": {"drafter": "autoregressive", "block_size": 2, "nodes": 40, "beta": 20, **TREE},
    "self": {"drafter": "self", "block_size": 6},
    "self tree": {"drafter": "self", "block_size": 4, "nodes": 9, "beta": 2, **TREE},
    "tolerant": {"drafter": "masked", "block_size": 5, "tolerance": 2.0, "beta": 3},
    "tolerant tree": {"drafter": "masked", "nodes": 9, "tolerance": 1.0, "beta": 4, **TREE},
    "tolerant autoregressive": {"drafter": "autoregressive", "block_size": 4, "tolerance": 0.5, "beta": 2},
}
DOUBTS = {
    "all": None,
    "some": Confidence(0.9, -0.4, 0.3),
    "few": Confidence(1.3, 0.2, 0.8),
    "far": Confidence(1.0, 0.0, 0.05, 0.2),
    "near": Confidence(1.1, 0.3, 0.3, 0.6),
    "broad": Confidence(1.0, 0.0, 0.05, 0.4),
    "broad and sure": Confidence(1.1, 0.3, 0.1, 0.8),
    "none": Confidence(1.0, -40.0, 0.5),
}
PATHS = {"broad": 4, "broad and sure": 3}
"""Of trees in the place of chains."""


@pytest.fixture(params=["bfloat16", "float32", "int8"])
def native(tiny_model: Path, request: pytest.FixtureRequest) -> Model:
    model = load_model(tiny_model, dtype=request.param)
    assert isinstance(model.verifier, KernelVerifier)
    return model


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[list[Hypothesis]]]:
    """Decodes twice: in the fused loop, and in Python."""

    def decode_both(model: Model, sources: list[list[int]], options: DecodingOptions) -> list[list[Hypothesis]]:
        calls: list[int] = []
        run = model.verifier.run  # type: ignore[attr-defined]

        def counted(*arguments: Any, **named: Any) -> Ran:
            ran: Ran = run(*arguments, **named)
            calls.append(len(ran.drafted))
            return ran

        with monkeypatch.context() as patch:
            patch.setattr(model.verifier, "run", counted)
            fused = decode(model, sources, options)
            assert sum(calls) > len(calls) > 0
            calls.clear()
            patch.setattr(session, "FusedLoop", NotFused)
            in_python = decode(model, sources, options)
            assert not calls
        return [fused, in_python]

    return decode_both


@pytest.mark.crossed("native", "way", "batch_size", every=3)
@pytest.mark.parametrize("batch_size", [1, 3, 33])
@pytest.mark.parametrize("way", WAYS)
def test_it_says_counts_and_scores_what_the_loop_does(
    native: Model, sources: list[list[int]], way: str, batch_size: int, both: Callable[..., list[list[Hypothesis]]]
) -> None:
    # The last source is long: caches have to grow on the way.
    sources = [*sources[::4], (sources[0] * 40)[:45]]
    options = DecodingOptions(batch_size=batch_size, scores=batch_size != 3, **WAYS[way])
    fused, in_python = both(native, sources, options)
    forget_what_is_past_ends(way, *fused, *in_python)
    assert all(map(same, fused, in_python))
    assert max(h.stats.tokens for h in fused) > 64


def forget_what_is_past_ends(way: str, *hypotheses: Hypothesis) -> None:
    """How many tokens are drafted past the end of a sentence depends on when others end."""
    if way in ("autoregressive", "tolerant autoregressive", "self", "self tree"):
        for each in hypotheses:
            each.stats.drafted = 0


@pytest.mark.crossed("native", "doubt", "way")
@pytest.mark.parametrize("doubt", list(DOUBTS)[1:])
@pytest.mark.parametrize("way", ["masked 5", "masked tree", "autoregressive", "autoregressive tree"])
def test_it_verifies_what_is_likely_enough(
    native: Model,
    sources: list[list[int]],
    way: str,
    doubt: str,
    both: Callable[..., list[list[Hypothesis]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "make_policy", with_doubts(DOUBTS[doubt], PATHS.get(doubt, 1)))
    fused, in_python = both(native, sources[::4], DecodingOptions(batch_size=5, **WAYS[way]))
    assert counts(fused) == counts(in_python)
    drafted = sum(h.stats.drafted for h in fused)
    assert (drafted == 0) == (doubt == "none")
    if doubt == "some":
        everything = sum(h.stats.verifier_calls for h in fused) * (WAYS[way].get("nodes") or WAYS[way]["block_size"])
        assert drafted < 0.9 * everything


@pytest.mark.crossed("native", "way", "listed")
@pytest.mark.parametrize(
    "way", ["greedy", "masked 5", "masked tree", "autoregressive", "autoregressive tree", "self tree"]
)
@pytest.mark.parametrize("listed", [False, True])
def test_it_writes_the_log_probabilities_of_the_loop(
    native: Model,
    sources: list[list[int]],
    way: str,
    listed: bool,
    both: Callable[..., list[list[Hypothesis]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if listed:
        native.__dict__["shortlist"] = made_shortlist(len(native.pieces))
    found: list[float] = []
    sum_up = loop.math.fsum

    def watch(values: list[float]) -> float:
        found.extend(values)
        return sum_up(values)

    monkeypatch.setattr(loop.math, "fsum", watch)
    options = DecodingOptions(batch_size=1, scores=True, shortlist=listed, **WAYS[way])
    fused, in_python = both(native, sources[:12], options)
    half = len(found) // 2
    assert found[:half] == found[half:]
    assert len(set(found)) > 20 and -100.0 < min(found) < max(found) <= 0.0
    plain = decode(native, sources[:12], replace(options, scores=False))
    forget_what_is_past_ends(way, *fused, *in_python, *plain)
    assert counts(plain) == counts(fused) == counts(in_python)
    assert [h.score for h in fused] == pytest.approx([h.score for h in in_python], rel=1e-12)


def open_rows(model: Model, sources: list[list[int]], limits: list[int]) -> tuple[State, Sentences]:
    """Returns sentences that are about to begin."""
    count = len(sources)
    state = model.verifier.new_state(count)
    model.verifier.start(state, np.arange(count), model.verifier.encode(sources))
    tokens = np.full((count, 64), BOS)
    return state, Sentences(tokens, np.ones(count, dtype=np.int64), np.array(limits))


def fused_of(model: Model) -> FusedLoop:
    assert isinstance(model.verifier, FusedLoop)
    return model.verifier


def number_of_ended(sentences: Sentences) -> int:
    last = sentences.tokens[range(len(sentences.lengths)), sentences.lengths - 1]
    return int(((sentences.lengths >= sentences.limits) | (last == EOS)).sum())


def run_until(
    model: Model,
    sources: list[list[int]],
    limits: list[int],
    enough: int,
    *,
    hints: Sequence[list[int]] = (),
    is_tree: bool = False,
) -> tuple[Sentences, Ran]:
    """Returns what one call of the loop makes of sentences."""
    while True:
        state, sentences = open_rows(model, sources, limits)
        sentences = sentences._replace(hints=hints)
        drafting = tree_drafting(model, sources) if is_tree else Drafting(0)
        ran = fused_of(model).run(state, sentences, drafting, iterations=100, enough=enough)
        # On a busy machine it comes back earlier, for the sake of signals.
        if number_of_ended(sentences) >= enough or len(ran.accepted) == 100:
            return sentences, ran


def test_it_comes_back_when_enough_sentences_have_ended(native: Model, sources: list[list[int]]) -> None:
    limits = [5, 9, 9, 20, 30, 40]
    ended = []
    for enough in (1, 3, 6):
        sentences, ran = run_until(native, [(sources[10] * 3)[i : i + 40] for i in range(6)], limits, enough)
        ended.append(number_of_ended(sentences))
        # What is −1 comes behind what is not, and there is a token for every other.
        assert ((ran.accepted >= 0).sum(0) == sentences.lengths - 1).all()
        assert (np.sort(ran.accepted, axis=0)[::-1] == ran.accepted).all()
        assert (ran.drafted == ran.accepted).all()
    assert ended[0] >= 1 and ended[1] >= 3 and ended[2] == 6
    assert ended[0] < 6


def test_it_stops_after_so_many_iterations_and_goes_on_from_there(native: Model, sources: list[list[int]]) -> None:
    tokens = []
    for iterations in (30, 7):
        state, sentences = open_rows(native, [sources[10], sources[9]], [21, 21])
        while (sentences.lengths < 21).all() and not (sentences.tokens[:, 1:] == EOS).any():
            before = sentences.lengths.copy()
            ran = fused_of(native).run(state, sentences, Drafting(0), iterations=iterations, enough=1)
            assert 0 < len(ran.drafted) <= iterations
            assert (sentences.lengths - before == len(ran.drafted)).all()
        tokens.append(sentences.tokens[:, : int(sentences.lengths.min())])
    assert np.array_equal(*tokens)


def tree_drafting(model: Model, sources: list[list[int]]) -> Drafting:
    """Returns how the autoregressive drafter drafts trees for sentences that are about to begin."""
    network = model.network("autoregressive")
    assert network is not None
    state = network.new_state(len(sources))
    network.start(state, np.arange(len(sources)), model.verifier.encode(sources))
    return Drafting(6, network, state, np.zeros(len(sources), dtype=np.int64), nodes=9, breadth=2)


@pytest.mark.parametrize("is_tree", [False, True])
def test_hints_change_how_many_iterations_there_are_and_nothing_else(
    native: Model, sources: list[list[int]], is_tree: bool
) -> None:
    def said(hints: list[list[int]]) -> tuple[list[list[int]], int]:
        sentences, ran = run_until(native, sources[:8], [60] * 8, 8, hints=hints, is_tree=is_tree)
        tokens = sentences.tokens.tolist()
        return [row[:length] for row, length in zip(tokens, sentences.lengths.tolist(), strict=True)], len(ran.accepted)

    plain, longest = said([])
    behind = [row[2:] for row in plain]
    assert said([[], *behind[1:]])[0] == plain
    same, fewer = said(behind)
    assert same == plain and fewer < longest
    for hints in (
        [row[::-1] for row in behind],
        [row[:2] for row in behind],
        [[EOS]] * 8,
        [row[3:] * 5 for row in plain],
    ):
        assert said(hints)[0] == plain
    with pytest.raises(ValueError, match="hints"):
        said([[native.verifier.vocab_size]] * 8)  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="hints"):
        said([[4]] * 7)
