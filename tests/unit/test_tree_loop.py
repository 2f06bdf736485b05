"""The one loop with draft trees: they change the number of verifier calls, never a token (DESIGN §9.1, §9.4, §9.10)."""

from __future__ import annotations

import itertools
import random
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad
from typing_extensions import override

from specmt.decoding import loop as loop_module
from specmt.decoding.accept import Verdict, accept_exact, accept_tolerant
from specmt.decoding.autoregressive import AutoregressiveDrafter
from specmt.decoding.batch import decode
from specmt.decoding.drafters import CombinedDrafter, NoDrafter
from specmt.decoding.plan import Fixed
from specmt.decoding.request import Request
from specmt.decoding.shape import BestFirst
from specmt.decoding.trace import Recorder
from specmt.decoding.tree import Node, Tree, make_tree, nodes_of
from specmt.engine.cache import KVCache
from specmt.engine.candidates import CANDIDATES
from specmt.models.hub import Model, load_model
from specmt.options import DecodingOptions
from specmt.types import BOS, EOS, UNK, Hypothesis
from tests.unit.test_loop import (
    BACKENDS,
    GREEDY,
    Scripted,
    Truth,
    load_on,
    make_truth,
    run,
    tokens_of,
    total_of,
)

BATCHES = [1, 3, 33]
BEST_FIRST = DecodingOptions(tree="best-first", nodes=12, beta=3, block_size=4)


class Bushy(Scripted):
    """Proposes trees by a script, their nodes in any order in which parents come first."""

    def __init__(self, truth: Truth, block_size: int) -> None:
        super().__init__(truth, block_size)
        self.random = random.Random(block_size)

    @override
    def propose(self, tokens: Tensor, lengths: Tensor) -> Tree:
        super().propose(tokens, lengths)  # for its checks
        return make_tree(
            [self.tree(self.rows[row], length - 1) for row, length in enumerate(lengths.tolist())], tokens.device
        )

    @abstractmethod
    def tree(self, truth: list[int], count: int) -> list[Node]:
        """Returns the draft after ``count`` committed tokens."""

    def wrong(self, truth: list[int], place: int) -> int:
        """Returns a token that is not the one at a place of the output."""
        token = truth[place] if place < len(truth) else EOS
        return self.random.choice([other for other in (EOS, UNK, 7, 90, 91, 92, 93) if other != token])

    def hide(self, chain: list[int], decoys: int, wrong: list[int]) -> list[Node]:
        """Returns a tree with a chain in it, and nodes beside it that go on as the chain does after a wrong token.

        :param wrong: of each depth, a token that is not the chain's
        """
        nodes: list[tuple[int, int, int]] = []  # token, parent, depth
        grown = 0  # how much of the chain is there
        ends = [0]  # the places of the chain
        while grown < len(chain) or decoys > 0:
            if grown < len(chain) and (decoys == 0 or self.random.random() < len(chain) / (len(chain) + decoys)):
                nodes.append((chain[grown], ends[-1], grown + 1))
                grown += 1
                ends.append(len(nodes))
                continue
            decoys -= 1
            parent = self.random.randint(0, len(nodes))
            depth = nodes[parent - 1][2] if parent else 0
            if depth < len(wrong):
                right = parent not in ends and depth < len(chain)
                nodes.append((chain[depth] if right else wrong[depth], parent, depth + 1))
        return [Node(token, parent, -1.0) for token, parent, _ in nodes]


class Hidden(Bushy):
    """What greedy decoding says, somewhere in a tree."""

    @override
    def tree(self, truth: list[int], count: int) -> list[Node]:
        chain = self.block(truth, count)
        wrong = [self.wrong(truth, count + depth) for depth in range(self.block_size)]
        return self.hide(chain, self.random.randint(0, 2 * self.block_size), wrong)


class Wrong(Bushy):
    """What is right comes after a wrong token only, or as noise behind the tree."""

    @override
    def propose(self, tokens: Tensor, lengths: Tensor) -> Tree:
        tree = super().propose(tokens, lengths)
        assert tree.parents is not None
        assert tree.counts is not None
        rights = [self.block(self.rows[row], length - 1) for row, length in enumerate(lengths.tolist())]
        places = torch.arange(tree.tokens.shape[1] + self.block_size)
        noise = places >= tree.counts[:, None]
        # Behind the nodes: what is right as a chain of its own.
        offsets = (places - tree.counts[:, None]).clamp(0, self.block_size - 1)
        drafted, parents = (pad(part, (0, self.block_size)) for part in (tree.tokens, tree.parents))
        drafted = torch.where(noise, torch.tensor(rights).gather(1, offsets), drafted)
        parents = torch.where(noise, places * (offsets > 0), parents)
        return Tree(drafted, parents, counts=tree.counts)

    @override
    def tree(self, truth: list[int], count: int) -> list[Node]:
        first = self.wrong(truth, count)
        below = self.hide(self.block(truth, count + 1), self.random.randint(0, 9), [first] * self.block_size)
        return [Node(first, 0, -1.0), *(replace(node, parent=node.parent + 1) for node in below)]


class Same(Bushy):
    """One token everywhere, twins too."""

    def __init__(self, truth: Truth, block_size: int, token: int) -> None:
        super().__init__(truth, block_size)
        self.token = token

    @override
    def tree(self, truth: list[int], count: int) -> list[Node]:
        return [Node(self.token, self.random.randint(0, place), -1.0) for place in range(2 * self.block_size)]


class AllEos(Same):
    def __init__(self, truth: Truth, block_size: int) -> None:
        super().__init__(truth, block_size, EOS)


class AllUnk(Same):
    def __init__(self, truth: Truth, block_size: int) -> None:
        super().__init__(truth, block_size, UNK)


class Varying(Hidden):
    """Trees of another size for each sentence and time, of which some have no nodes, and a part of what is right."""

    @override
    def tree(self, truth: list[int], count: int) -> list[Node]:
        right = self.random.randint(0, self.block_size)
        wrong = [self.wrong(truth, count + depth) for depth in range(self.block_size)]
        return self.hide(self.block(truth, count)[:right], self.random.randint(0, 5) * (right % 3), wrong)


class Short(Scripted):
    """Chains, of which only the first few tokens count."""

    @override
    def propose(self, tokens: Tensor, lengths: Tensor) -> Tree:
        return Tree(super().propose(tokens, lengths).tokens, counts=lengths // 2 * 5 % (self.block_size + 1))


HOSTILE: dict[str, type[Scripted]] = {
    "hidden": Hidden,
    "wrong": Wrong,
    "eos": AllEos,
    "unk": AllUnk,
    "varying": Varying,
    "short": Short,
}


@pytest.fixture(scope="module")
def model(tiny_model: Path, kernels: bool) -> Model:
    """The tiny model in float32, on either backend."""
    return load_model(tiny_model, device="cpu", dtype="float32", kernels=kernels)


@pytest.fixture(scope="module")
def greedy(model: Model, sources: list[list[int]]) -> list[Hypothesis]:
    return decode(model, sources, replace(GREEDY, scores=True))


@pytest.fixture(scope="module")
def truth(model: Model, sources: list[list[int]], greedy: list[Hypothesis]) -> Truth:
    return make_truth(model, sources, greedy)


@pytest.fixture(scope="module", params=[*BACKENDS, "kernels-int8"])
def any_model(request: pytest.FixtureRequest, tiny_model: Path) -> Model:
    return load_on(request.param, tiny_model, request)


@pytest.fixture(scope="module")
def any_greedy(any_model: Model, sources: list[list[int]]) -> list[Hypothesis]:
    return decode(any_model, sources, replace(GREEDY, scores=True))


@pytest.fixture(scope="module")
def any_truth(any_model: Model, sources: list[list[int]], any_greedy: list[Hypothesis]) -> Truth:
    return make_truth(any_model, sources, any_greedy)


def assert_same(got: Sequence[Hypothesis], wanted: Sequence[Hypothesis]) -> None:
    """Checks tokens against those of greedy decoding, and that the counts add up to them."""
    assert tokens_of(got) == tokens_of(wanted)
    for hypothesis, greedy in zip(got, wanted, strict=True):
        stats = hypothesis.stats
        assert stats.tokens == greedy.stats.tokens
        # Each call commits what was accepted and one token more, but for the last, which may end within a draft.
        assert stats.tokens - stats.accepted in (stats.verifier_calls, stats.verifier_calls - 1)
        assert stats.verifier_calls <= greedy.stats.verifier_calls == greedy.stats.tokens
        assert stats.accepted <= stats.drafted


EVERY = [
    (nodes, beta, block_size, BATCHES[(number + number // 3) % 3])
    for number, (nodes, beta, block_size) in enumerate(itertools.product((1, 4, 16, 40), (1, 2, 5), (1, 3, 10)))
]
"""Nodes, β, block sizes and batch sizes; with 1 node, and with β = 1, trees are chains."""

SOME = [(4, 1, 3, 1), (16, 2, 3, 33)]
MANY = [(1, 5, 10, 3), (16, 5, 1, 1), (40, 5, 10, 33)]


@pytest.mark.parametrize(
    ("any_model", "nodes", "beta", "block_size", "batch_size"),
    [
        *(("kernels-bfloat16", *case) for case in EVERY),
        *(("kernels-float32", *case) for case in SOME + MANY),
        *(("kernels-int8", *case) for case in SOME + MANY),
        *(("pytorch-float32", *case) for case in SOME + MANY[2:]),
        *(("pytorch-bfloat16", *case) for case in SOME),
        ("pytorch-float64", 4, 2, 3, 33),
    ],
    indirect=["any_model"],
)
def test_output_from_best_first_trees_is_greedy_output(
    any_model: Model,
    sources: list[list[int]],
    any_greedy: list[Hypothesis],
    nodes: int,
    beta: int,
    block_size: int,
    batch_size: int,
) -> None:
    options = DecodingOptions(
        tree="best-first", nodes=nodes, beta=beta, block_size=block_size, batch_size=batch_size, scores=True
    )
    got = decode(any_model, sources, options)
    assert_same(got, any_greedy)
    assert [h.score for h in got] == [h.score for h in any_greedy]
    size = min(nodes, sum(beta**depth for depth in range(1, block_size + 1)))
    assert all(h.stats.drafted == size * h.stats.verifier_calls for h in got)
    assert 0 < total_of(got).accepted < total_of(got).drafted


def test_more_nodes_save_more_calls(model: Model, sources: list[list[int]]) -> None:
    calls = [
        total_of(decode(model, sources[::3], replace(BEST_FIRST, nodes=nodes, beta=5))).verifier_calls
        for nodes in (1, 4, 12, 30)
    ]
    assert calls == sorted(set(calls), reverse=True)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(("block_size", "rows"), [(1, 3), (3, 8), (7, 33)])
def test_hostile_trees_change_no_token(
    any_model: Model,
    sources: list[list[int]],
    any_greedy: list[Hypothesis],
    any_truth: Truth,
    name: str,
    block_size: int,
    rows: int,
) -> None:
    drafter = HOSTILE[name](any_truth, block_size)
    got = run(any_model, sources, drafter, rows=rows)
    assert_same(got, any_greedy)
    assert [h.score for h in got] == [h.score for h in any_greedy]
    total = total_of(got)
    if name == "hidden":
        assert all(h.stats.verifier_calls == -(-h.stats.tokens // (block_size + 1)) for h in got)
    if name == "wrong":
        assert total.accepted == 0
    if name in ("varying", "short"):
        assert 0 < total.accepted < total.tokens
    if name == "short":
        assert total.drafted < block_size * total.verifier_calls


@pytest.mark.parametrize("limit", [1, 2, 5, 8])
@pytest.mark.parametrize("name", ["hidden", "wrong", "varying"])
def test_the_limit_in_the_middle_of_a_branch(
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
        if name == "hidden":
            assert stats.verifier_calls == -(-stats.tokens // 4)


def test_trees_reach_the_last_position_and_pass_it(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that never says EOS fills all 127 places after BOS."""
    monkeypatch.setattr(loop_module, "target_limit", lambda source_length, max_length: max_length - 1)

    def never_end(tree: Tree, logits: Tensor) -> Verdict:
        forbidden = torch.zeros(logits.shape[2]).index_fill(0, torch.tensor([EOS]), -torch.inf)
        return accept_exact(tree, logits + forbidden)

    sources = [[9, 8, 7, 6], [100, 200, 300]]
    wanted = run(model, sources, NoDrafter(), acceptor=never_end)
    assert [len(tokens) for tokens in tokens_of(wanted)] == [127, 127]
    truth = make_truth(model, sources, wanted)
    for name, block_size in (("hidden", 4), ("varying", 25)):
        got = run(model, sources, HOSTILE[name](truth, block_size), acceptor=never_end)
        assert tokens_of(got) == tokens_of(wanted)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_cache_after_each_walk_is_that_of_a_prefill(
    tiny_model: Path,
    sources: list[list[int]],
    backend: str,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """Sentence by sentence, when the loop is done: keys and values of all that was committed."""
    model = load_on(backend, tiny_model, request)
    caches: list[KVCache] = []
    new_state = type(model.verifier).new_state

    def keep(rows: int) -> object:
        state = new_state(model.verifier, rows)
        caches.append(state.cache)
        return state

    monkeypatch.setattr(model.verifier, "new_state", keep)
    for source in sources[-8:]:
        caches.clear()
        (hypothesis,) = decode(model, [source], BEST_FIRST)
        assert hypothesis.stats.accepted > 0
        state = new_state(model.verifier, 1)
        model.verifier.start(state, torch.tensor([0]), model.verifier.encode([source]))
        model.verifier.score(torch.tensor([[BOS, *hypothesis.tokens]]), torch.tensor([0]), state)
        count = len(hypothesis.tokens)  # what was said last need not have been read
        got, wanted = (cache.data[:, :, 0, :, :count] for cache in (caches[0], state.cache))
        assert wanted.isfinite().all()
        assert wanted.any()
        assert torch.equal(got, wanted)


@pytest.mark.parametrize(
    ("drafter", "nodes", "beta", "block_size", "batch_size"),
    [
        ("self", 6, 2, 4, 33),
        ("self", 12, 3, 3, 3),
        ("autoregressive", 10, 3, 4, 33),
        ("masked+self", 6, 2, 4, 3),
        ("self+masked", 12, 3, 3, 33),
    ],
)
def test_trees_of_other_drafters(
    model: Model,
    sources: list[list[int]],
    greedy: list[Hypothesis],
    drafter: str,
    nodes: int,
    beta: int,
    block_size: int,
    batch_size: int,
) -> None:
    options = replace(
        BEST_FIRST,
        drafter=drafter,
        nodes=nodes,
        beta=beta,
        block_size=block_size,
        batch_size=batch_size,
        scores=True,
    )
    got = decode(model, sources, options)
    assert_same(got, greedy)
    assert [h.score for h in got] == [h.score for h in greedy]
    total = total_of(got)
    assert total.verifier_calls < 0.6 * total.tokens
    if "+" not in drafter:
        assert all(h.stats.drafted == nodes * h.stats.verifier_calls for h in got)
    else:
        # Both have their nodes in it, and some in common.
        assert nodes * total.verifier_calls < total.drafted < 2 * nodes * total.verifier_calls


@pytest.mark.parametrize(("nodes", "beta", "depth"), [(6, 1, 6), (14, 3, 4), (30, 4, 3)])
def test_a_tree_drafted_level_by_level_says_what_its_network_does(
    model: Model, sources: list[list[int]], nodes: int, beta: int, depth: int
) -> None:
    """In rows of different lengths, some with much to read and some with little, one of them moved."""
    some = sources[4:7]
    drafter = AutoregressiveDrafter(model.verifier, 3, Fixed(depth), BestFirst(nodes, beta))
    requests = [Request(number, source) for number, source in enumerate(some)]
    drafter.start(torch.arange(3), model.verifier.encode(some), requests)
    tokens = torch.randint(4, 400, (3, 30), generator=torch.Generator().manual_seed(nodes))
    which = [0, 1, 2]
    for lengths in ([1, 1, 1], [4, 2, 9], [12, 8], [17, 9]):
        if len(lengths) < len(which):
            drafter.move(2, 0)
            which = [2, 1]
        tree = drafter.propose(tokens[which], torch.tensor(lengths))
        for row, length in enumerate(lengths):
            found = nodes_of(tree, row)
            assert len(found) == nodes
            state = model.verifier.new_state(1)
            model.verifier.start(state, torch.tensor([0]), model.verifier.encode([some[which[row]]]))
            chains = [tokens[which[row], :length].tolist()]
            for node in found:
                chain = torch.tensor([chains[node.parent]])
                values, ids = model.verifier.score(chain, torch.tensor([0]), state)[0, -1].topk(CANDIDATES)
                rank = ids.tolist().index(node.token)
                assert rank < beta
                assert node.log_prob == pytest.approx(float(values.log_softmax(0)[rank]), abs=1e-5)
                chains.append([*chains[node.parent], node.token])


def test_the_best_path_of_the_verifier_itself_is_accepted_whole(model: Model, sources: list[list[int]]) -> None:
    """The fast verifier differs from the strict one by its rounding alone."""
    options = replace(BEST_FIRST, drafter="self", nodes=4, beta=1, block_size=4)
    total = total_of(decode(model, sources, options))
    assert total.verifier_calls < 0.3 * total.tokens


def test_drafters_together_accept_what_either_would(
    model: Model, sources: list[list[int]], greedy: list[Hypothesis], truth: Truth
) -> None:
    """One is right in every second call, the other in the rest."""

    class Half(Bushy):
        def __init__(self, parity: int) -> None:
            super().__init__(truth, 1)
            self.parity = parity

        @override
        def tree(self, truth: list[int], count: int) -> list[Node]:
            right = count // 2 % 2 == self.parity
            return [Node(truth[count] if right else self.wrong(truth, count), 0, -1.0)]

    alone = [total_of(run(model, sources, Half(parity))) for parity in (0, 1)]
    got = run(model, sources, CombinedDrafter([Half(0), Half(1)]))
    assert_same(got, greedy)
    assert all(h.stats.verifier_calls == -(-h.stats.tokens // 2) for h in got)
    assert all(total.verifier_calls > total_of(got).verifier_calls for total in alone)


@pytest.mark.parametrize("backend", ["kernels-float32", "kernels-bfloat16", "pytorch-float32"])
def test_tolerated_trees_do_not_depend_on_the_batch(
    tiny_model: Path, sources: list[list[int]], backend: str, request: pytest.FixtureRequest
) -> None:
    model = load_on(backend, tiny_model, request)
    sources = sources[:: 1 if backend.startswith("kernels") else 4]
    options = replace(BEST_FIRST, beta=5, tolerance=3.0, scores=True)
    assert not options.lossless
    wanted = decode(model, sources, replace(options, batch_size=1))
    greedy = decode(model, sources, GREEDY)
    assert tokens_of(wanted) != tokens_of(greedy)
    exact = decode(model, sources, replace(options, tolerance=0.0))
    assert tokens_of(exact) == tokens_of(greedy)
    assert total_of(wanted).mean_accepted_length > total_of(exact).mean_accepted_length
    shuffled = random.Random(0).sample(range(len(sources)), len(sources))
    for batch_size in (3, 33):
        got = decode(model, [sources[i] for i in shuffled], replace(options, batch_size=batch_size))
        assert tokens_of(got) == [wanted[i].tokens for i in shuffled]
        assert [h.stats for h in got] == [wanted[i].stats for i in shuffled]
        assert [h.score for h in got] == [wanted[i].score for i in shuffled]


def test_tolerance_never_accepts_a_hopeless_node(
    model: Model, sources: list[list[int]], greedy: list[Hypothesis], truth: Truth
) -> None:
    for name in ("hidden", "wrong"):
        got = run(
            model,
            sources,
            HOSTILE[name](truth, 4),
            acceptor=lambda tree, logits: accept_tolerant(tree, logits, beta=400, tolerance=1e-6),
        )
        assert_same(got, greedy)


@pytest.mark.parametrize(
    "options",
    [
        BEST_FIRST,
        replace(BEST_FIRST, tolerance=3.0, beta=4),
        replace(BEST_FIRST, drafter="masked+self"),
        DecodingOptions(block_size=4),
        GREEDY,
    ],
    ids=["best-first", "tolerance", "two drafters", "chain", "greedy"],
)
@pytest.mark.parametrize("batch_size", [1, 7])
def test_the_recorder_sees_every_pass(
    model: Model, sources: list[list[int]], options: DecodingOptions, batch_size: int
) -> None:
    some = sources[::3]
    recorder = Recorder(options.beta)
    got = decode(model, some, replace(options, batch_size=batch_size), recorder=recorder)
    assert tokens_of(got) == tokens_of(decode(model, some, options))
    assert sorted(recorder.iterations) == list(range(len(some)))
    for key, hypothesis in enumerate(got):
        passes, stats = recorder.iterations[key], hypothesis.stats
        emitted = [token for each in passes for token in each.emitted]
        assert emitted == [*hypothesis.tokens, *[EOS] * (stats.tokens - len(hypothesis.tokens))]
        assert len(passes) == stats.verifier_calls
        assert sum(len(each.nodes) for each in passes) == stats.drafted
        committed = [BOS]
        for each in passes:
            assert each.prefix == committed
            committed = committed + each.emitted
            assert len(each.verified) == len(each.nodes) + 1
            place = 0
            for accepted in each.accepted:
                assert each.nodes[accepted - 1].parent == place
                place = accepted
            own = each.verified[place][0].token
            said = [*(each.nodes[accepted - 1].token for accepted in each.accepted), own]
            assert said[: len(each.emitted)] == each.emitted
            for candidates in each.verified:
                scores = [candidate.log_prob for candidate in candidates]
                assert len(scores) == options.beta
                assert scores == sorted(scores, reverse=True)
                assert max(scores) <= 0.0
