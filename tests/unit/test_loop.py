"""The one loop: a drafter may change the number of verifier calls, never a token (DESIGN §9.1, §9.5, §9.10)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typing_extensions import override

from specmt.decoding import loop as loop_module
from specmt.decoding.accept import Verdict, accept_exact, accept_tolerant
from specmt.decoding.autoregressive import AutoregressiveDrafter
from specmt.decoding.batch import decode
from specmt.decoding.drafters import Drafter, NoDrafter
from specmt.decoding.loop import Loop, target_limit
from specmt.decoding.masked import MaskedDrafter
from specmt.decoding.plan import Fixed
from specmt.decoding.request import Request
from specmt.decoding.tree import Tree
from specmt.engine.backend import EncoderOutput
from specmt.engine.native import NativeVerifier
from specmt.engine.networks import DecoderNetwork
from specmt.errors import ModelError, UsageError
from specmt.models.folder import VERIFIER
from specmt.models.hub import Model, load_model, verifier_network
from specmt.options import DecodingOptions
from specmt.training.verifier import target_states
from specmt.types import BOS, EOS, UNK, Hypothesis, Stats

BLOCK_SIZES = [1, 2, 3, 7, 12, 25, 60]
BATCH_SIZES = [1, 2, 3, 8, 33]
PLENTY = 10**6
GREEDY = DecodingOptions(strategy="greedy")

Judge = Callable[[Tree, Tensor], Verdict]

Truth = list[tuple[Tensor, list[int]]]
"""Encoder memory (S, D) of each sentence and what greedy decoding says to it, EOS included."""


class Scripted(Drafter):
    """A drafter that knows what greedy decoding would say, and proposes by a script."""

    def __init__(self, truth: Truth, block_size: int) -> None:
        self.truth = truth
        self.block_size = block_size
        self.rows: dict[int, list[int]] = {}
        self.active: list[int] = []
        """How many rows each call had."""

    @override
    def start(self, rows: Tensor, memory: EncoderOutput, requests: Sequence[Request]) -> None:
        for row, seen in zip(rows.tolist(), sentences_of(memory), strict=True):
            self.rows[row] = next(
                tokens for known, tokens in self.truth if known.shape == seen.shape and torch.allclose(known, seen)
            )

    @override
    def propose(self, tokens: Tensor, lengths: Tensor) -> Tree:
        self.active.append(len(lengths))
        for row, length in enumerate(lengths.tolist()):
            assert tokens[row, 0] == BOS
            assert tokens[row, 1:length].tolist() == self.rows[row][: length - 1]
        blocks = [self.block(self.rows[row], length - 1) for row, length in enumerate(lengths.tolist())]
        return Tree(torch.tensor(blocks, dtype=torch.int64).view(len(blocks), -1))

    @override
    def finish(self, row: int, tokens: list[int]) -> None:
        assert tokens == [token for token in self.rows[row] if token != EOS][: len(tokens)]

    @override
    def move(self, source: int, target: int) -> None:
        self.rows[target] = self.rows[source]

    def block(self, truth: list[int], count: int) -> list[int]:
        """Returns the draft after ``count`` committed tokens."""
        return continue_truth(truth, count, self.block_size)


class Wrong(Scripted):
    @override
    def block(self, truth: list[int], count: int) -> list[int]:
        return [token + 1 if token < 100 else token - 1 for token in super().block(truth, count)]


class Random(Scripted):
    @override
    def block(self, truth: list[int], count: int) -> list[int]:
        generator = random.Random(f"{truth} {count}")
        oracle = super().block(truth, count)
        return [token if generator.random() < 0.5 else generator.randrange(400) for token in oracle]


class Constant(Scripted):
    def __init__(self, truth: Truth, block_size: int, token: int) -> None:
        super().__init__(truth, block_size)
        self.token = token

    @override
    def block(self, truth: list[int], count: int) -> list[int]:
        return [self.token] * self.block_size


class Varying(Scripted):
    """Proposes a block of another size each time, sometimes none."""

    @override
    def block(self, truth: list[int], count: int) -> list[int]:
        return continue_truth(truth, count, len(self.active) * 3 % (self.block_size + 1))


HOSTILE = {
    "oracle": Scripted,
    "wrong": Wrong,
    "random": Random,
    "eos": partial(Constant, token=EOS),
    "unk": partial(Constant, token=UNK),
    "varying": Varying,
}


def continue_truth(truth: list[int], count: int, block_size: int) -> list[int]:
    block = truth[count : count + block_size]
    return block + [EOS] * (block_size - len(block))


def sentences_of(memory: EncoderOutput) -> list[Tensor]:
    """Returns the memory (S, D) of each sentence, in whichever form a network has it."""
    lengths = memory.lengths.tolist()
    if memory.states.ndim == 2:
        return list(memory.states.split(lengths))
    return [states[:length] for states, length in zip(memory.states, lengths, strict=True)]


def run(
    model: Model,
    sources: Sequence[list[int]],
    drafter: Drafter,
    *,
    rows: int = 8,
    acceptor: Judge = accept_exact,
    max_source_tokens: int = PLENTY,
) -> list[Hypothesis]:
    def accept(tree: Tree, logits: Tensor, starts: Sequence[int], requests: Sequence[Request]) -> Verdict:
        return acceptor(tree, logits)

    loop = Loop(model.verifier, drafter, accept, rows, max_source_tokens=max_source_tokens, scores=True)
    finished = dict(loop.run(Request(index, source) for index, source in enumerate(sources)))
    assert len(finished) == len(sources)
    return [finished[index] for index in range(len(sources))]


def tokens_of(hypotheses: Sequence[Hypothesis]) -> list[list[int]]:
    return [hypothesis.tokens for hypothesis in hypotheses]


def total_of(hypotheses: Sequence[Hypothesis]) -> Stats:
    return sum((hypothesis.stats for hypothesis in hypotheses), Stats())


@pytest.fixture(scope="module")
def model(tiny_model: Path, kernels: bool) -> Model:
    """The tiny model in float32, on either backend."""
    return load_model(tiny_model, device="cpu", dtype="float32", kernels=kernels)


BACKENDS = ["kernels-float32", "kernels-bfloat16", "pytorch-float32", "pytorch-bfloat16"]


def load_on(backend: str, path: Path, request: pytest.FixtureRequest) -> Model:
    name, dtype = backend.split("-")
    if name == "kernels":
        request.getfixturevalue("needs_kernels")
    return load_model(path, device="cpu", dtype=dtype, kernels=name == "kernels")


@pytest.fixture(scope="module", params=[*BACKENDS, "pytorch-float64"])
def any_model(request: pytest.FixtureRequest, tiny_model: Path) -> Model:
    return load_on(request.param, tiny_model, request)


@pytest.fixture(scope="module")
def any_greedy(any_model: Model, sources: list[list[int]]) -> list[Hypothesis]:
    return decode(any_model, sources, replace(GREEDY, batch_size=5))


@pytest.fixture(scope="module")
def greedy(model: Model, sources: list[list[int]]) -> list[Hypothesis]:
    return run(model, sources, NoDrafter())


@pytest.fixture(scope="module")
def truth(model: Model, sources: list[list[int]], greedy: list[Hypothesis]) -> Truth:
    return make_truth(model, sources, greedy)


def make_truth(model: Model, sources: Sequence[list[int]], greedy: Sequence[Hypothesis]) -> Truth:
    truth = []
    for source, hypothesis in zip(sources, greedy, strict=True):
        ended = hypothesis.stats.tokens > len(hypothesis.tokens)
        truth.append((sentences_of(model.verifier.encode([source]))[0], hypothesis.tokens + [EOS] * ended))
    return truth


def test_the_tiny_model_is_worth_testing_with(model: Model, sources: list[list[int]], greedy: list[Hypothesis]) -> None:
    outputs = tokens_of(greedy)
    ended = [h for h in greedy if h.stats.tokens > len(h.tokens)]
    assert len({tuple(output) for output in outputs}) > 20
    assert len({len(output) for output in outputs}) > 6
    assert len(ended) > 20
    total = total_of(decode(model, sources, DecodingOptions()))
    assert 0.02 < total.accepted / total.drafted < 0.98


@pytest.mark.parametrize(
    ("block_size", "batch_size"),
    [*((k, BATCH_SIZES[i % 5]) for i, k in enumerate(BLOCK_SIZES)), *((7, b) for b in BATCH_SIZES[:3]), (60, 33)],
)
def test_speculative_output_is_greedy_output(
    any_model: Model, sources: list[list[int]], any_greedy: list[Hypothesis], block_size: int, batch_size: int
) -> None:
    options = DecodingOptions(block_size=block_size, batch_size=batch_size)
    got = decode(any_model, sources, options)
    assert tokens_of(got) == tokens_of(any_greedy)
    for hypothesis, wanted in zip(got, any_greedy, strict=True):
        assert hypothesis.stats.verifier_calls <= wanted.stats.verifier_calls
        assert hypothesis.stats.drafted == block_size * hypothesis.stats.verifier_calls
    assert 0 < total_of(got).accepted < total_of(got).drafted


@pytest.mark.parametrize("batch_size", BATCH_SIZES)
def test_greedy_output_does_not_depend_on_the_batch(
    any_model: Model, sources: list[list[int]], any_greedy: list[Hypothesis], batch_size: int
) -> None:
    shuffled = random.Random(batch_size).sample(range(len(sources)), len(sources))
    got = decode(any_model, [sources[i] for i in shuffled], replace(GREEDY, batch_size=batch_size))
    assert tokens_of(got) == [any_greedy[i].tokens for i in shuffled]
    assert [h.stats for h in got] == [any_greedy[i].stats for i in shuffled]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("tolerance", [0.0, 2.0])
def test_drafts_and_counts_do_not_depend_on_the_batch(
    tiny_model: Path, sources: list[list[int]], backend: str, tolerance: float, request: pytest.FixtureRequest
) -> None:
    model = load_on(backend, tiny_model, request)
    options = DecodingOptions(block_size=5, tolerance=tolerance)
    wanted = decode(model, sources, replace(options, batch_size=1))
    for batch_size in (2, 8, 33):
        got = decode(model, sources, replace(options, batch_size=batch_size))
        assert [h.stats for h in got] == [h.stats for h in wanted]
        assert tokens_of(got) == tokens_of(wanted)
    got = decode(model, sources, replace(options, batch_tokens=64))
    assert [h.stats for h in got] == [h.stats for h in wanted]


@pytest.mark.usefixtures("needs_kernels")
@pytest.mark.parametrize("options", [GREEDY, DecodingOptions(block_size=5)], ids=["greedy", "speculative"])
def test_both_backends_say_the_same(tiny_model: Path, sources: list[list[int]], options: DecodingOptions) -> None:
    """But where the two best tokens are a rounding error apart."""
    ours, theirs = (load_model(tiny_model, device="cpu", dtype="float32", kernels=kernels) for kernels in (True, False))
    same = 0
    for source, got, wanted in zip(
        sources, decode(ours, sources, options), decode(theirs, sources, options), strict=True
    ):
        if got.tokens == wanted.tokens:
            same += 1
        else:
            assert gap_where_they_part(ours, source, got.tokens, wanted.tokens) < 1e-4
    assert same > len(sources) - 3


def gap_where_they_part(model: Model, source: list[int], left: list[int], right: list[int]) -> float:
    """Returns how much better the best token is than the second where two outputs first differ."""
    pairs = zip([*left, EOS], [*right, EOS], strict=False)
    place = next(number for number, (one, other) in enumerate(pairs) if one != other)
    best = full_pass(model, source, torch.tensor([*right, EOS]))[place].topk(2).values
    return float(best[0] - best[1])


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(("block_size", "rows"), [(1, 3), (4, 8), (60, 33)])
def test_hostile_drafters_change_no_token(
    any_model: Model,
    sources: list[list[int]],
    any_greedy: list[Hypothesis],
    name: str,
    block_size: int,
    rows: int,
) -> None:
    drafter = HOSTILE[name](make_truth(any_model, sources, any_greedy), block_size)
    got = run(any_model, sources, drafter, rows=rows)
    assert tokens_of(got) == tokens_of(any_greedy)
    for hypothesis, wanted in zip(got, any_greedy, strict=True):
        stats, length = hypothesis.stats, wanted.stats.tokens
        assert stats.tokens == length
        # Each call commits what was accepted and one token more, but for the last, which may end within a draft.
        assert stats.tokens - stats.accepted in (stats.verifier_calls, stats.verifier_calls - 1)
        assert stats.verifier_calls <= wanted.stats.verifier_calls == length
        if name == "oracle":
            assert stats.verifier_calls == -(-length // (block_size + 1))
        if name == "wrong":
            assert stats.accepted == 0
            assert stats.verifier_calls == length
        if name != "varying":
            assert stats.drafted == block_size * stats.verifier_calls


@pytest.mark.parametrize("offset", range(7))
def test_eos_at_every_offset_of_a_block_and_as_bonus(
    model: Model, sources: list[list[int]], greedy: list[Hypothesis], truth: Truth, offset: int
) -> None:
    """EOS is drafted ``offset`` places into a block of 6; at 6 it is the verifier's own token."""
    block_size = 6

    class Late(Wrong):
        @override
        def block(self, truth: list[int], count: int) -> list[int]:
            if count >= len(truth) - 1 - offset:
                return continue_truth(truth, count, block_size)
            return super().block(truth, count)

    chosen = [i for i, h in enumerate(greedy) if offset < h.stats.tokens and h.stats.tokens == len(h.tokens) + 1]
    assert len(chosen) > 5
    got = run(model, [sources[i] for i in chosen], Late(truth, block_size))
    assert tokens_of(got) == [greedy[i].tokens for i in chosen]
    for hypothesis in got:
        assert hypothesis.stats.verifier_calls == hypothesis.stats.tokens - offset
        assert hypothesis.stats.accepted == min(offset + 1, block_size)


@pytest.mark.parametrize("limit", range(1, 9))
@pytest.mark.parametrize("name", ["oracle", "wrong", "eos"])
def test_the_limit_in_the_middle_of_a_block(
    model: Model,
    sources: list[list[int]],
    greedy: list[Hypothesis],
    truth: Truth,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    limit: int,
) -> None:
    monkeypatch.setattr(loop_module, "target_limit", lambda source_length, max_length: limit)
    got = run(model, sources, HOSTILE[name](truth, 3))
    assert tokens_of(got) == [output[:limit] for output in tokens_of(greedy)]
    for hypothesis, whole in zip(got, greedy, strict=True):
        stats = hypothesis.stats
        assert stats.tokens == min(limit, whole.stats.tokens)
        assert stats.accepted <= stats.tokens
        if name == "oracle":
            assert stats.verifier_calls == -(-stats.tokens // 4)


def test_target_limit_leaves_room_for_bos() -> None:
    assert target_limit(1, 128) == 26
    assert target_limit(10, 128) == 44
    assert target_limit(100, 128) == 127


@pytest.mark.parametrize("length", [1, 63, 127])
@pytest.mark.parametrize("block_size", [1, 12, 60])
def test_the_shortest_and_the_longest_sources(model: Model, length: int, block_size: int) -> None:
    """The verifier has 128 positions; windows of a long output reach past the last of them."""
    generator = random.Random(length)
    sources = [[generator.randrange(4, 400) for _ in range(length)] for _ in range(3)]
    wanted = run(model, sources, NoDrafter(), rows=1)
    assert tokens_of(decode(model, sources, DecodingOptions(block_size=block_size))) == tokens_of(wanted)
    for name in ("oracle", "random"):
        drafter = HOSTILE[name](make_truth(model, sources, wanted), block_size)
        assert tokens_of(run(model, sources, drafter)) == tokens_of(wanted)


def test_the_last_position_is_reached_and_not_passed(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that never says EOS fills all 127 places after BOS, drafts or no drafts."""
    monkeypatch.setattr(loop_module, "target_limit", lambda source_length, max_length: max_length - 1)

    def never_end(drafts: Tensor, logits: Tensor) -> Verdict:
        forbidden = torch.zeros(logits.shape[2]).index_fill(0, torch.tensor([EOS]), -torch.inf)
        return accept_exact(drafts, logits + forbidden)

    sources = [[9, 8, 7, 6], [100, 200, 300]]
    wanted = run(model, sources, NoDrafter(), acceptor=never_end)
    assert [len(tokens) for tokens in tokens_of(wanted)] == [127, 127]
    truth = make_truth(model, sources, wanted)
    for block_size in (1, 5, 12, 60):
        got = run(model, sources, Scripted(truth, block_size), acceptor=never_end)
        assert tokens_of(got) == tokens_of(wanted)
        assert model.drafter is not None
        masked = MaskedDrafter(model.drafter, 2, Fixed(block_size))
        assert tokens_of(run(model, sources, masked, rows=2, acceptor=never_end)) == tokens_of(wanted)


def test_no_sources_and_an_empty_source(model: Model) -> None:
    assert decode(model, [], DecodingOptions()) == []
    (hypothesis,) = decode(model, [[]], DecodingOptions())
    assert hypothesis.tokens == run(model, [[]], NoDrafter())[0].tokens
    assert hypothesis.stats.source_tokens == 1


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_a_free_row_is_filled_at_once(
    model: Model, sources: list[list[int]], greedy: list[Hypothesis], truth: Truth, rows: int
) -> None:
    """As many rows as there may be are active until nobody waits."""
    drafter = Wrong(truth, 2)
    got = run(model, sources, drafter, rows=rows)
    assert tokens_of(got) == tokens_of(greedy)
    assert sum(drafter.active) == total_of(got).verifier_calls
    assert drafter.active == sorted(drafter.active, reverse=True)
    busy = drafter.active.count(rows)
    assert busy * rows >= sum(drafter.active) - rows * max(h.stats.verifier_calls for h in got)


def test_source_tokens_side_by_side_are_limited(
    model: Model, sources: list[list[int]], greedy: list[Hypothesis], truth: Truth
) -> None:
    class Measuring(Wrong):
        widths: dict[int, int] = {}  # noqa: RUF012
        most = 0

        @override
        def start(self, rows: Tensor, memory: EncoderOutput, requests: Sequence[Request]) -> None:
            super().start(rows, memory, requests)
            self.widths.update(zip(rows.tolist(), memory.lengths.tolist(), strict=True))

        @override
        def propose(self, tokens: Tensor, lengths: Tensor) -> Tree:
            count = len(lengths)
            if count > 1:
                self.most = max(self.most, count * max(self.widths[row] for row in range(count)))
            return super().propose(tokens, lengths)

        @override
        def move(self, source: int, target: int) -> None:
            super().move(source, target)
            self.widths[target] = self.widths[source]

    drafter = Measuring(truth, 1)
    got = run(model, sources, drafter, rows=33, max_source_tokens=50)
    assert tokens_of(got) == tokens_of(greedy)
    assert 25 < drafter.most <= 50
    assert 1 in drafter.active  # the source of 60 pieces, let in alone


def test_what_follows_the_verifiers_own_token_is_never_read(
    model: Model, sources: list[list[int]], greedy: list[Hypothesis]
) -> None:
    generator = torch.Generator().manual_seed(0)

    def noisy(tree: Tree, logits: Tensor) -> Verdict:
        accepted, tokens, *_ = accept_exact(tree, logits)
        places = torch.arange(tokens.shape[1])
        noise = torch.randint(0, 5, tokens.shape, generator=generator)  # EOS among them
        return Verdict(accepted, torch.where(places > accepted[:, None], noise, tokens))

    assert model.drafter is not None
    got, wanted = (
        run(model, sources, MaskedDrafter(model.drafter, 8, Fixed(7)), acceptor=acceptor)
        for acceptor in (noisy, accept_exact)
    )
    assert tokens_of(got) == tokens_of(greedy)
    assert [h.stats for h in got] == [h.stats for h in wanted]
    assert [h.score for h in got] == [h.score for h in wanted]


def test_tolerance_is_lossless_where_it_says_so_and_saves_calls_elsewhere(
    model: Model, sources: list[list[int]], greedy: list[Hypothesis]
) -> None:
    for lossless in (DecodingOptions(beta=5, tolerance=0.0), DecodingOptions(beta=1, tolerance=9.0)):
        assert lossless.lossless
        assert tokens_of(decode(model, sources, lossless)) == tokens_of(greedy)
    lossy = DecodingOptions(beta=5, tolerance=3.0)
    assert not lossy.lossless
    got = decode(model, sources, lossy)
    assert tokens_of(got) != tokens_of(greedy)
    assert total_of(got).mean_accepted_length > total_of(decode(model, sources, DecodingOptions())).mean_accepted_length
    for batch_size in (1, 7):
        assert tokens_of(decode(model, sources, replace(lossy, batch_size=batch_size))) == tokens_of(got)


def test_tolerance_never_accepts_a_hopeless_draft(
    model: Model, sources: list[list[int]], greedy: list[Hypothesis], truth: Truth
) -> None:
    acceptor = partial(accept_tolerant, beta=400, tolerance=1e-6)
    assert tokens_of(run(model, sources, Wrong(truth, 4), acceptor=acceptor)) == tokens_of(greedy)


@pytest.mark.parametrize("backend", BACKENDS)
def test_scores_are_the_same_by_every_route(
    tiny_model: Path, sources: list[list[int]], backend: str, request: pytest.FixtureRequest
) -> None:
    model = load_on(backend, tiny_model, request)
    wanted = [h.score for h in decode(model, sources, replace(GREEDY, scores=True, batch_size=1))]
    assert all(score < 0 for score in wanted)
    for options in (GREEDY, DecodingOptions(), DecodingOptions(block_size=7)):
        for batch_size in (3, 33):
            got = decode(model, sources, replace(options, scores=True, batch_size=batch_size))
            assert [h.score for h in got] == wanted


def test_scores_are_those_of_a_full_pass_of_the_fairseq2_modules(
    model: Model, sources: list[list[int]], greedy: list[Hypothesis]
) -> None:
    """After mistral-inference: what was generated is scored again in one teacher-forced pass."""
    for source, hypothesis in zip(sources, greedy, strict=True):
        ended = hypothesis.stats.tokens > len(hypothesis.tokens)
        wanted = torch.tensor([*hypothesis.tokens, *[EOS] * ended])
        assert hypothesis.score == pytest.approx(rescore(model, source, wanted), abs=1e-4)


def rescore(model: Model, source: list[int], tokens: Tensor) -> float:
    logits = full_pass(model, source, tokens)
    return float(logits.log_softmax(1).gather(1, tokens[:, None]).sum())


def full_pass(model: Model, source: list[int], tokens: Tensor) -> Tensor:
    """Returns the logits (T, V) that the fairseq2 modules give before each of the tokens."""
    ids = torch.tensor([[*source, EOS]])
    decoder_input = torch.cat([torch.tensor([BOS]), tokens[:-1]])[None]
    with torch.inference_mode():
        states = target_states(model.reference, ids, torch.tensor([ids.shape[1]]), decoder_input)
        logits: Tensor = model.reference.final_proj(states)[0]
    return logits


def test_scores_are_missing_unless_asked_for(model: Model, sources: list[list[int]]) -> None:
    for hypothesis in decode(model, sources[:3], DecodingOptions()):
        assert hypothesis.score != hypothesis.score


def test_a_beam_of_one_is_greedy(model: Model, sources: list[list[int]], greedy: list[Hypothesis]) -> None:
    options = DecodingOptions(strategy="beam", beam_size=1, scores=True)
    same = 0
    for source, beam, hypothesis in zip(sources, decode(model, sources, options), greedy, strict=True):
        # Beam search may go on where the loop's limit cut greedy decoding off.
        ended = hypothesis.stats.tokens > len(hypothesis.tokens)
        tokens = beam.tokens if ended else beam.tokens[: len(hypothesis.tokens)]
        if tokens == hypothesis.tokens:
            same += 1
            assert beam.score == pytest.approx(rescore(model, source, torch.tensor([*beam.tokens, EOS])), abs=1e-3)
        else:
            assert gap_where_they_part(model, source, tokens, hypothesis.tokens) < 1e-4
    assert same > len(sources) - 3


def test_a_beam_does_not_depend_on_the_batch(model: Model, sources: list[list[int]]) -> None:
    options = DecodingOptions(strategy="beam", beam_size=2, scores=True)
    alone, together = (decode(model, sources[:20], replace(options, batch_size=batch_size)) for batch_size in (1, 20))
    assert [h.score for h in together] == pytest.approx([h.score for h in alone], abs=1e-3)
    assert sum(one.tokens == other.tokens for one, other in zip(alone, together, strict=True)) >= 19
    # Some of them go on past the limit that the loop would set.
    assert any(h.stats.tokens > target_limit(h.stats.source_tokens, 128) for h in alone)


def test_wider_beams_find_better_scores(model: Model, sources: list[list[int]]) -> None:
    options = DecodingOptions(strategy="beam", beam_size=1, length_penalty=0.0, batch_size=4, scores=True)
    narrow, wide = (decode(model, sources[:20], replace(options, beam_size=size)) for size in (1, 5))
    assert sum(h.score for h in wide) > sum(h.score for h in narrow)
    assert total_of(wide).sentences == 20
    for hypothesis in wide:
        assert hypothesis.stats.tokens == len(hypothesis.tokens) + 1
        assert not {BOS, EOS} & set(hypothesis.tokens)


def test_a_model_without_drafter_says_so(tiny_model_without_drafter: Path, sources: list[list[int]]) -> None:
    bare = load_model(tiny_model_without_drafter, device="cpu")
    with pytest.raises(ModelError, match="specmt train drafter"):
        decode(bare, sources, DecodingOptions(drafter="masked"))
    wanted = tokens_of(decode(bare, sources[:5], GREEDY))
    assert tokens_of(decode(bare, sources[:5], DecodingOptions(drafter="none"))) == wanted


@pytest.mark.parametrize("fast", ["float32", "bfloat16"])
@pytest.mark.parametrize("batch_size", [1, 3, 33])
def test_a_replay_says_what_the_strict_path_says(
    model: Model, sources: list[list[int]], greedy: list[Hypothesis], fast: str, batch_size: int
) -> None:
    network = verifier_network(
        model.folder.weights(VERIFIER),
        model.folder.verifier,
        torch.device("cpu"),
        getattr(torch, fast),
        kernels=isinstance(model.verifier, NativeVerifier),
    )
    got = run(model, sources, AutoregressiveDrafter(network, batch_size, Fixed(6)), rows=batch_size)
    assert tokens_of(got) == tokens_of(greedy)
    stats = total_of(got)
    assert stats.verifier_calls < 0.3 * stats.tokens
    if fast == "float32" and isinstance(model.verifier, NativeVerifier):
        # The kernels have one shape only: a replay in the same type finds nothing to mend.
        assert all(each.stats.verifier_calls <= -(-each.stats.tokens // 7) + 1 for each in got)


@pytest.mark.parametrize("strength", [0.5, 3.0, 100.0])
def test_faults_of_the_fast_path_change_no_output(
    model: Model, sources: list[list[int]], greedy: list[Hypothesis], strength: float
) -> None:
    generator = torch.Generator().manual_seed(2)

    class Faulty:
        def __getattr__(self, name: str) -> Any:
            return getattr(model.verifier, name)

        ahead = DecoderNetwork.ahead

        def score(self, *call: Any) -> Tensor:
            logits = model.verifier.score(*call)
            return logits + strength * torch.randn(logits.shape, generator=generator)

    got = run(model, sources, AutoregressiveDrafter(Faulty(), 8, Fixed(5)))
    assert tokens_of(got) == tokens_of(greedy)
    stats = total_of(got)
    assert stats.accepted < stats.drafted
    assert stats.verifier_calls <= total_of(greedy).verifier_calls


def test_the_drafter_self_is_exact_only() -> None:
    with pytest.raises(UsageError, match="`tolerance` must be 0"):
        DecodingOptions(drafter="self", tolerance=1.0)


def test_a_model_without_a_drafter_replays_itself(tiny_model_without_drafter: Path, sources: list[list[int]]) -> None:
    model = load_model(tiny_model_without_drafter, dtype="float32")
    greedy = decode(model, sources, GREEDY)
    got = decode(model, sources, DecodingOptions(drafter="self"))
    assert tokens_of(got) == tokens_of(greedy)
    assert total_of(got).verifier_calls < 0.3 * total_of(greedy).verifier_calls
