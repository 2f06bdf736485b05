"""The one loop: a drafter may change the number of verifier calls, never a token (DESIGN §9.1, §9.5, §9.10)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typing_extensions import override

from specmt.decoding import rows as rows_module
from specmt.decoding.accept import Accepted, Acceptor, Within
from specmt.decoding.drafters.autoregressive import AutoregressiveDrafter
from specmt.decoding.drafters.base import Plan
from specmt.decoding.drafters.masked import MaskedDrafter
from specmt.decoding.noise import Spot
from specmt.decoding.request import Request
from specmt.decoding.rows import target_limit
from specmt.decoding.session import decode
from specmt.decoding.tree import Tree
from specmt.engine.arrays import Floats, Ids
from specmt.engine.cache import State
from specmt.engine.fused import Rule
from specmt.engine.protocols import EncoderOutput, Logits
from specmt.engine.window import Window
from specmt.errors import ModelError, UsageError
from specmt.models.folder import VERIFIER
from specmt.models.hub import Model, choose_backend, load_model, make_verifier
from specmt.options import DecodingOptions
from specmt.types import BOS, EOS
from tests.decoding_helpers import (
    BACKENDS,
    BATCH_SIZES,
    EXACTLY,
    GREEDY,
    HOSTILE,
    Hypotheses,
    NeverEnd,
    Sources,
    Truth,
    Wrong,
    assert_same,
    has_ended,
    load_on,
    log_softmax,
    make_truth,
    run,
    same,
    sources_for,
    stats_of,
    tokens_of,
    total_of,
)
from tests.networks import module_logits

BLOCK_SIZES = [1, 2, 3, 7, 12, 25, 60]
FOUR = DecodingOptions(drafter="masked", block_size=4)


@pytest.fixture(scope="module")
def model(tiny_model: Path, kernels: bool) -> Model:
    """The tiny model in float32, on either backend."""
    return load_model(tiny_model, device="cpu", dtype="float32", kernels=kernels)


KINDS = [*BACKENDS, "pytorch-float64", "kernels-int8"]


@pytest.fixture(scope="module", params=KINDS)
def any_model(request: pytest.FixtureRequest, tiny_model: Path) -> Model:
    return load_on(request.param, tiny_model, request)


@pytest.fixture(scope="module")
def any_texts(any_model: Model, sources: Sources) -> Sources:
    return sources_for(any_model, sources)


@pytest.fixture(scope="module")
def any_greedy(any_model: Model, any_texts: Sources) -> Hypotheses:
    return decode(any_model, any_texts, replace(GREEDY, batch_size=5, scores=True))


@pytest.fixture(scope="module")
def texts(model: Model, sources: Sources) -> Sources:
    return sources_for(model, sources)


@pytest.fixture(scope="module")
def greedy(model: Model, texts: Sources) -> Hypotheses:
    return run(model, texts)


@pytest.fixture(scope="module")
def truth(texts: Sources, greedy: Hypotheses) -> Truth:
    return make_truth(texts, greedy)


def test_the_tiny_model_is_worth_testing_with(model: Model, texts: Sources, greedy: Hypotheses) -> None:
    outputs = tokens_of(greedy)
    assert len({tuple(output) for output in outputs}) > len(texts) // 2
    assert len({len(output) for output in outputs}) > 6
    assert sum(map(has_ended, greedy)) > len(texts) // 2
    total = total_of(decode(model, texts, FOUR))
    assert 0.02 < total.accepted / total.drafted < 0.98


SIZES = [*((k, BATCH_SIZES[i % 5]) for i, k in enumerate(BLOCK_SIZES)), *((7, b) for b in BATCH_SIZES[:3]), (60, 33)]


@pytest.mark.crossed("any_model", "block_size", "batch_size", every=3)
@pytest.mark.parametrize(("block_size", "batch_size"), SIZES)
def test_speculative_output_is_greedy_output(
    any_model: Model, any_texts: Sources, any_greedy: Hypotheses, block_size: int, batch_size: int
) -> None:
    options = DecodingOptions(drafter="masked", block_size=block_size, batch_size=batch_size, scores=batch_size != 2)
    got = decode(any_model, any_texts, options)
    assert_same(got, any_greedy)
    assert all((h.score == h.score) == options.scores for h in got)
    assert all(stats.drafted == block_size * stats.verifier_calls for stats in stats_of(got))
    assert 0 < total_of(got).accepted < total_of(got).drafted


@pytest.fixture(scope="module")
def tolerated(any_model: Model, any_texts: Sources) -> Callable[[DecodingOptions], Hypotheses]:
    """Returns what is said in batches of seven."""
    return cache(lambda options: decode(any_model, any_texts, replace(options, batch_size=7)))


@pytest.mark.crossed("any_model", "tolerance", "batch", every=3)
@pytest.mark.parametrize("tolerance", [None, 0.0, 2.0])
@pytest.mark.parametrize("batch", [*({"batch_size": size} for size in BATCH_SIZES), {"batch_tokens": 64}], ids=str)
def test_output_and_counts_do_not_depend_on_the_batch(
    any_model: Model,
    any_texts: Sources,
    any_greedy: Hypotheses,
    tolerated: Callable[[DecodingOptions], Hypotheses],
    tolerance: float | None,
    batch: dict[str, int],
) -> None:
    greedy = replace(GREEDY, scores=True)
    options = greedy if tolerance is None else DecodingOptions(drafter="masked", block_size=5, tolerance=tolerance)
    wanted = any_greedy if tolerance is None else tolerated(options)
    other = replace(options, **batch)  # type: ignore[arg-type]
    shuffled = random.Random(other.batch_size).sample(range(len(any_texts)), len(any_texts))
    got = decode(any_model, [any_texts[i] for i in shuffled], other)
    assert all(same(one, wanted[i]) for one, i in zip(got, shuffled, strict=True))
    assert all(each.score < 0 for each in got) == options.scores


@pytest.mark.usefixtures("needs_kernels")
@pytest.mark.parametrize(
    "options", [GREEDY, DecodingOptions(drafter="masked", block_size=5)], ids=["greedy", "speculative"]
)
def test_both_backends_say_the_same(tiny_model: Path, sources: Sources, options: DecodingOptions) -> None:
    """But where the two best tokens are a rounding error apart."""
    ours, theirs = (load_model(tiny_model, device="cpu", dtype="float32", kernels=kernels) for kernels in (True, False))
    pairs = zip(sources, decode(ours, sources, options), decode(theirs, sources, options), strict=True)
    parted = [(source, got.tokens, wanted.tokens) for source, got, wanted in pairs if got.tokens != wanted.tokens]
    assert len(parted) < 3
    assert all(gap_where_they_part(ours, *each) < 1e-4 for each in parted)


def gap_where_they_part(model: Model, source: list[int], left: list[int], right: list[int]) -> float:
    """Returns how much better the best token is than the second where two outputs first differ."""
    pairs = zip([*left, EOS], [*right, EOS], strict=False)
    place = next(number for number, (one, other) in enumerate(pairs) if one != other)
    best = np.sort(full_pass(model, source, [*right, EOS])[place])
    return float(best[-1] - best[-2])


@pytest.mark.crossed("any_model", "name", "block_size", every=3)
@pytest.mark.parametrize(("block_size", "rows"), [(1, 3), (4, 8), (60, 33)])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_drafters_change_no_token(
    any_model: Model, any_texts: Sources, any_greedy: Hypotheses, name: str, block_size: int, rows: int
) -> None:
    block_size = min(block_size, 7) if "tree" in name else block_size
    got = run(any_model, any_texts, HOSTILE[name](make_truth(any_texts, any_greedy)), block_size, rows=rows)
    assert_same(got, any_greedy)
    total = total_of(got)
    for stats in stats_of(got):
        if name.startswith("oracle"):
            assert stats.verifier_calls == -(-stats.tokens // (block_size + 1))
        if name in ("oracle", "wrong", "random", "eos", "unk"):
            assert stats.drafted == block_size * stats.verifier_calls
    if name.startswith("wrong"):
        assert total.accepted == 0
    if name in ("varying tree", "short"):
        assert 0 < total.accepted < total.tokens
    if name == "short":
        assert total.drafted < block_size * total.verifier_calls


@pytest.mark.parametrize("offset", range(7))
def test_eos_at_every_offset_of_a_block_and_as_bonus(
    model: Model, texts: Sources, greedy: Hypotheses, truth: Truth, offset: int
) -> None:
    """EOS is drafted ``offset`` places into a block of 6; at 6 it is the verifier's own token."""

    class Late(Wrong):
        @override
        def block(self, truth: list[int], count: int) -> list[int]:
            if count >= len(truth) - 1 - offset:
                return self.right(truth, count, self.block_size)
            return super().block(truth, count)

    chosen = [i for i, h in enumerate(greedy) if offset < h.stats.tokens and has_ended(h)]
    assert len(chosen) > 5
    got = run(model, [texts[i] for i in chosen], Late(truth), 6)
    assert_same(got, [greedy[i] for i in chosen])
    for stats in stats_of(got):
        assert stats.verifier_calls == stats.tokens - offset
        assert stats.accepted == min(offset + 1, 6)


@pytest.mark.crossed("kernels", "limit", "name", every=4)
@pytest.mark.parametrize("name", ["oracle", "wrong", "eos", "oracle tree", "wrong tree", "varying tree"])
@pytest.mark.parametrize("limit", range(1, 9))
def test_the_limit_in_the_middle_of_a_draft(
    model: Model,
    texts: Sources,
    greedy: Hypotheses,
    truth: Truth,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    limit: int,
) -> None:
    monkeypatch.setattr(rows_module, "target_limit", lambda source_length, max_length: limit)
    got = run(model, texts, HOSTILE[name](truth), 3)
    assert tokens_of(got) == [output[:limit] for output in tokens_of(greedy)]
    for stats, whole in zip(stats_of(got), stats_of(greedy), strict=True):
        assert stats.tokens == min(limit, whole.tokens)
        assert stats.accepted <= stats.tokens
        assert sum(stats.accepted_counts) == stats.verifier_calls
        if name.startswith("oracle"):
            assert stats.verifier_calls == -(-stats.tokens // 4)


def test_target_limit_leaves_room_for_bos() -> None:
    assert [target_limit(length, 128) for length in (1, 10, 100)] == [26, 44, 127]


@pytest.mark.crossed("kernels", "length", "block_size", every=3)
@pytest.mark.parametrize("length", [1, 63, 127])
@pytest.mark.parametrize("block_size", [1, 12, 60])
def test_the_shortest_and_the_longest_sources(model: Model, length: int, block_size: int) -> None:
    """The verifier has 128 positions; windows of a long output reach past the last of them."""
    generator = random.Random(length)
    sources = [[generator.randrange(4, 400) for _ in range(length)] for _ in range(3)]
    wanted = run(model, sources, rows=1)
    assert_same(decode(model, sources, DecodingOptions(drafter="masked", block_size=block_size)), wanted)
    for name in ("oracle", "random"):
        assert_same(run(model, sources, HOSTILE[name](make_truth(sources, wanted)), block_size), wanted)


def test_the_last_position_is_reached_and_not_passed(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that never says EOS fills all 127 places after BOS, drafts or no drafts."""
    monkeypatch.setattr(rows_module, "target_limit", lambda source_length, max_length: max_length - 1)
    sources = [[9, 8, 7, 6], [100, 200, 300]]
    wanted = run(model, sources, acceptor=NeverEnd())
    assert [len(tokens) for tokens in tokens_of(wanted)] == [127, 127]
    truth = make_truth(sources, wanted)
    assert model.network("masked") is not None
    ways = [*(("oracle", k) for k in (1, 5, 12, 60)), ("oracle tree", 4), ("varying tree", 25)]
    for name, block_size in ways if model.backend.name == "kernels" else ways[1::4]:
        got = run(model, sources, HOSTILE[name](truth), block_size, acceptor=NeverEnd())
        assert tokens_of(got) == tokens_of(wanted)
        masked = MaskedDrafter(lambda: model.network("masked"), 2)
        assert tokens_of(run(model, sources, masked, block_size, rows=2, acceptor=NeverEnd())) == tokens_of(wanted)


def test_no_sources_and_an_empty_source(model: Model) -> None:
    assert decode(model, [], FOUR) == []
    (hypothesis,) = decode(model, [[]], FOUR)
    assert hypothesis.tokens == run(model, [[]])[0].tokens
    assert hypothesis.stats.source_tokens == 1


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_a_free_row_is_filled_at_once(
    model: Model, texts: Sources, greedy: Hypotheses, truth: Truth, rows: int
) -> None:
    """As many rows as there may be are active until nobody waits."""
    drafter = Wrong(truth)
    got = run(model, texts, drafter, 2, rows=rows)
    assert_same(got, greedy)
    assert sum(drafter.active) == total_of(got).verifier_calls
    assert drafter.active == sorted(drafter.active, reverse=True)
    busy = drafter.active.count(rows)
    assert busy * rows >= sum(drafter.active) - rows * max(stats.verifier_calls for stats in stats_of(got))


def test_source_tokens_side_by_side_are_limited(model: Model, texts: Sources, greedy: Hypotheses, truth: Truth) -> None:
    class Measuring(Wrong):
        widths: dict[int, int] = {}  # noqa: RUF012
        most = 0

        @override
        def start(self, state: State, rows: Ids, encoded: EncoderOutput, requests: Sequence[Request]) -> None:
            super().start(state, rows, encoded, requests)
            self.widths.update(zip(rows.tolist(), encoded.lengths.tolist(), strict=True))

        @override
        def propose(self, tokens: Ids, lengths: Ids, plan: Plan) -> Tree:
            count = len(lengths)
            if count > 1:
                self.most = max(self.most, count * max(self.widths[row] for row in range(count)))
            return super().propose(tokens, lengths, plan)

        @override
        def move(self, source: int, target: int) -> None:
            super().move(source, target)
            self.widths[target] = self.widths[source]

    drafter = Measuring(truth)
    assert_same(run(model, texts, drafter, 1, rows=33, max_source_tokens=50), greedy)
    assert 25 < drafter.most <= 50
    assert 1 in drafter.active  # the source of 60 pieces, let in alone


def test_what_follows_the_verifiers_own_token_is_never_read(model: Model, texts: Sources, greedy: Hypotheses) -> None:
    class Noisy(Acceptor):
        rule = None
        random = np.random.default_rng(0)

        @override
        def accept(self, tree: Tree, logits: Logits, spots: Sequence[Spot]) -> Accepted:
            found = EXACTLY.accept(tree, logits, spots)
            noise = self.random.integers(0, 5, found.tokens.shape)  # EOS among them
            behind = np.arange(found.tokens.shape[1]) > found.counts[:, None]
            return found._replace(tokens=np.where(behind, noise, found.tokens))

    assert model.network("masked") is not None
    got, wanted = (
        run(model, texts, MaskedDrafter(lambda: model.network("masked"), 8), 7, acceptor=acceptor)
        for acceptor in (Noisy(), EXACTLY)
    )
    assert_same(got, greedy)
    assert got == wanted


def test_tolerance_is_lossless_where_it_says_so_and_saves_calls_elsewhere(
    model: Model, texts: Sources, greedy: Hypotheses
) -> None:
    for lossless in (replace(FOUR, beta=5, tolerance=0.0), replace(FOUR, beta=1, tolerance=9.0)):
        assert lossless.lossless
        assert_same(decode(model, texts, lossless), greedy)
    lossy = DecodingOptions(beta=5, tolerance=3.0)
    assert not lossy.lossless
    got = decode(model, texts, lossy)
    assert tokens_of(got) != tokens_of(greedy)
    assert total_of(got).mean_accepted_length > total_of(decode(model, texts, FOUR)).mean_accepted_length
    for batch_size in (1, 7):
        assert tokens_of(decode(model, texts, replace(lossy, batch_size=batch_size))) == tokens_of(got)


@pytest.mark.parametrize("name", ["wrong", "oracle tree", "wrong tree"])
def test_tolerance_never_accepts_a_hopeless_draft(
    model: Model, texts: Sources, greedy: Hypotheses, truth: Truth, name: str
) -> None:
    acceptor = Within(Rule(400, 1e-6))
    assert_same(run(model, texts, HOSTILE[name](truth), 4, acceptor=acceptor), greedy)


def test_scores_are_those_of_a_full_pass_of_the_fairseq2_modules(
    model: Model, texts: Sources, greedy: Hypotheses
) -> None:
    """After mistral-inference: what was generated is scored again in one teacher-forced pass."""
    for source, hypothesis in zip(texts, greedy, strict=True):
        wanted = [*hypothesis.tokens, *[EOS] * has_ended(hypothesis)]
        assert hypothesis.log_probs == pytest.approx(rescore(model, source, wanted), abs=1e-4)
        assert hypothesis.score == math.fsum(hypothesis.log_probs)


def rescore(model: Model, source: list[int], tokens: list[int]) -> Floats:
    scored: Floats = log_softmax(full_pass(model, source, tokens))[np.arange(len(tokens)), tokens]
    return scored


def full_pass(model: Model, source: list[int], tokens: list[int]) -> Floats:
    """Returns the logits (T, V) that the fairseq2 modules give before each of the tokens."""
    logits: Floats = module_logits(model.reference, [source], np.array([[BOS, *tokens[:-1]]]))[0]
    return logits


def test_a_model_without_drafter_says_so_and_replays_itself(tiny_model_without_drafter: Path, sources: Sources) -> None:
    bare = load_model(tiny_model_without_drafter, device="cpu", dtype="float32")
    for drafter in ("masked", "autoregressive"):
        with pytest.raises(ModelError, match="specmt train drafter"):
            decode(bare, sources, DecodingOptions(drafter=drafter))
    greedy = decode(bare, sources, GREEDY)
    assert_same(decode(bare, sources, DecodingOptions(drafter="none")), greedy)
    got = decode(bare, sources, DecodingOptions(drafter="self"))
    assert_same(got, greedy)
    assert total_of(got).verifier_calls < 0.3 * total_of(greedy).verifier_calls
    with pytest.raises(UsageError, match="`tolerance` must be 0"):
        DecodingOptions(drafter="self", tolerance=1.0)


@pytest.mark.crossed("kernels", "fast", "batch_size")
@pytest.mark.parametrize("fast", ["float32", "bfloat16"])
@pytest.mark.parametrize("batch_size", [1, 3, 33])
def test_a_replay_says_what_the_strict_path_says(
    model: Model, texts: Sources, greedy: Hypotheses, fast: str, batch_size: int
) -> None:
    on_kernels = model.backend.name == "kernels"
    weights, config = model.folder.weights(VERIFIER), model.folder.verifier
    network: Any = make_verifier(weights, config, choose_backend(config, "cpu", fast, kernels=on_kernels))
    got = run(model, texts, AutoregressiveDrafter(lambda: network, batch_size), 6, rows=batch_size)
    assert_same(got, greedy)
    assert total_of(got).verifier_calls < 0.3 * total_of(got).tokens
    if fast == "float32" and on_kernels:
        # The kernels have one shape only: a replay in the same type finds nothing to mend.
        assert all(stats.verifier_calls <= -(-stats.tokens // 7) + 1 for stats in stats_of(got))


@pytest.mark.parametrize("strength", [0.5, 3.0, 100.0])
def test_faults_of_the_fast_path_change_no_output(
    model: Model, texts: Sources, greedy: Hypotheses, strength: float
) -> None:
    noise = np.random.default_rng(2)

    class Faulty:
        def __getattr__(self, name: str) -> Any:
            return getattr(model.verifier, name)

        def chain(self, read: Window, ahead: int, state: State) -> tuple[Ids, Floats]:
            count = len(read.tokens)
            assert read.counts is not None
            window, last, drafts = read, read.starts + read.counts - 1, np.empty((count, 0), dtype=np.int64)
            for _ in range(ahead):
                logits = model.verifier.score(window, state)
                values = np.stack([logits.row(row, window.tokens.shape[1] - 1) for row in range(count)])
                best = (values + strength * noise.normal(size=values.shape)).argmax(1)
                drafts, last = np.column_stack([drafts, best]), last + 1
                window = Window(best[:, None], last)
            return drafts, np.zeros(drafts.shape, dtype=np.float32)

    got = run(model, texts, AutoregressiveDrafter(Faulty, 8), 5)
    assert_same(got, greedy)
    assert total_of(got).accepted < total_of(got).drafted
