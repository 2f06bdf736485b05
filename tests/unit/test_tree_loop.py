"""The one loop with draft trees: they change the number of verifier calls, never a token (DESIGN §9.1, §9.4, §9.10)."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specmt.decoding.drafters.autoregressive import AutoregressiveDrafter
from specmt.decoding.drafters.base import Arm, Plan
from specmt.decoding.request import Recorder, Request
from specmt.decoding.session import decode
from specmt.engine.protocols import CANDIDATES
from specmt.engine.window import Window
from specmt.models.hub import Model, load_model
from specmt.options import DecodingOptions
from specmt.types import BOS, EOS
from tests.decoding_helpers import (
    BACKENDS,
    GREEDY,
    Hypotheses,
    Sources,
    assert_same,
    load_on,
    log_softmax,
    sources_for,
    stats_of,
    tokens_of,
    total_of,
)

BATCHES = [1, 3, 33]
BEST_FIRST = DecodingOptions(drafter="masked", tree="best-first", nodes=12, beta=3, block_size=4)


@pytest.fixture(scope="module")
def model(tiny_model: Path, kernels: bool) -> Model:
    """The tiny model in float32, on either backend."""
    return load_model(tiny_model, device="cpu", dtype="float32", kernels=kernels)


@pytest.fixture(scope="module")
def greedy(model: Model, sources: Sources) -> Hypotheses:
    return decode(model, sources_for(model, sources), replace(GREEDY, scores=True))


@pytest.fixture(scope="module", params=[*BACKENDS, "kernels-int8"])
def any_model(request: pytest.FixtureRequest, tiny_model: Path) -> Model:
    return load_on(request.param, tiny_model, request)


@pytest.fixture(scope="module")
def any_greedy(any_model: Model, sources: Sources) -> Hypotheses:
    return decode(any_model, sources_for(any_model, sources), replace(GREEDY, scores=True))


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
    any_model: Model, sources: Sources, any_greedy: Hypotheses, nodes: int, beta: int, block_size: int, batch_size: int
) -> None:
    sizes = {"nodes": nodes, "beta": beta, "block_size": block_size, "batch_size": batch_size}
    options = replace(BEST_FIRST, **sizes, scores=True)
    got = decode(any_model, sources_for(any_model, sources), options)
    assert_same(got, any_greedy)
    size = min(nodes, sum(beta**depth for depth in range(1, block_size + 1)))
    assert all(h.stats.drafted == size * h.stats.verifier_calls for h in got)
    assert 0 < total_of(got).accepted < total_of(got).drafted


def test_more_nodes_save_more_calls(model: Model, sources: Sources) -> None:
    calls = [
        total_of(decode(model, sources[::3], replace(BEST_FIRST, nodes=nodes, beta=5))).verifier_calls
        for nodes in (1, 4, 12, 30)
    ]
    assert calls == sorted(set(calls), reverse=True)


@pytest.mark.parametrize(
    "options",
    [
        DecodingOptions(drafter="autoregressive", nodes=6, beta=2, block_size=4, batch_size=33),
        DecodingOptions(drafter="autoregressive", nodes=12, beta=3, block_size=3, batch_size=3),
        DecodingOptions(drafter="autoregressive+lookup", nodes=10, beta=3, block_size=4, batch_size=33),
        DecodingOptions(drafter="lookup+autoregressive", nodes=6, beta=2, block_size=4, batch_size=3),
    ],
    ids=lambda options: options.drafter,
)
def test_trees_of_other_drafters(model: Model, sources: Sources, greedy: Hypotheses, options: DecodingOptions) -> None:
    """Where lookups promise nothing, all trees are the network's."""
    got = decode(model, sources_for(model, sources), replace(options, tree="best-first", scores=True))
    assert_same(got, greedy)
    total = total_of(got)
    assert total.verifier_calls < 0.6 * total.tokens
    assert all(h.stats.drafted == options.nodes * h.stats.verifier_calls for h in got)


@pytest.mark.parametrize(("nodes", "beta", "depth"), [(6, 1, 6), (14, 3, 4), (30, 4, 3)])
def test_a_tree_drafted_level_by_level_says_what_its_network_does(
    model: Model, sources: Sources, nodes: int, beta: int, depth: int
) -> None:
    """In rows of different lengths, some with much to read and some with little, one of them moved."""
    some = sources[4:7]
    verifier: Any = model.verifier
    drafter = AutoregressiveDrafter(lambda: verifier, 3)
    requests = [Request(number, source) for number, source in enumerate(some)]
    drafter.start(verifier.new_state(3), np.arange(3), verifier.encode(some), requests)
    tokens = np.random.default_rng(nodes).integers(4, 400, (3, 30))
    which = [0, 1, 2]
    for lengths in ([1, 1, 1], [4, 2, 9], [12, 8], [17, 9]):
        if len(lengths) < len(which):
            drafter.move(2, 0)
            which = [2, 1]
        tree = drafter.propose(tokens[which], np.array(lengths), Plan(Arm(0, depth, beta, nodes)))
        for row, length in enumerate(lengths):
            found = tree.nodes(row)
            assert len(found) == nodes
            state = verifier.new_state(1)
            verifier.start(state, np.array([0]), verifier.encode([some[which[row]]]))
            chains = [tokens[which[row], :length].tolist()]
            for node in found:
                chain = np.array([chains[node.parent]])
                values = verifier.score(Window(chain, np.array([0])), state).row(0, chain.shape[1] - 1)
                ids = np.argsort(-values, kind="stable")[:CANDIDATES]
                rank = ids.tolist().index(node.token)
                assert rank < beta
                assert node.log_prob == pytest.approx(log_softmax(values[ids])[rank], abs=1e-5)
                chains.append([*chains[node.parent], node.token])


@pytest.mark.parametrize("backend", ["kernels-float32", "kernels-bfloat16", "pytorch-float32"])
def test_tolerated_trees_do_not_depend_on_the_batch(
    tiny_model: Path, sources: Sources, backend: str, request: pytest.FixtureRequest
) -> None:
    model = load_on(backend, tiny_model, request)
    sources = sources_for(model, sources)
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
        assert stats_of(got) == [wanted[i].stats for i in shuffled]
        assert [h.score for h in got] == [wanted[i].score for i in shuffled]


RECORDED = {
    "best-first": BEST_FIRST,
    "tolerance": replace(BEST_FIRST, tolerance=3.0, beta=4),
    "lookup": DecodingOptions(drafter="lookup", block_size=4),
    "chain": DecodingOptions(drafter="masked", block_size=4),
    "greedy": GREEDY,
}


@pytest.mark.crossed("kernels", "way", "batch_size")
@pytest.mark.parametrize("way", RECORDED)
@pytest.mark.parametrize("batch_size", [1, 7])
def test_the_recorder_sees_every_pass(model: Model, sources: Sources, way: str, batch_size: int) -> None:
    some, options = sources[::3], RECORDED[way]
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
