"""The keystone for draft trees (DESIGN §2.5, §9.2, §9.4): every node has the bits of the chain that leads to it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from specmt.decoding.accept import along
from specmt.decoding.best_first import best_first_tree
from specmt.decoding.tree import Node, Tree, make_tree
from specmt.engine.arrays import Floats, Ids
from specmt.engine.cache import State
from specmt.engine.kernels import masked as kernel_masked
from specmt.engine.kernels.masked import KernelMaskedDrafter
from specmt.engine.kernels.runner import tree_size
from specmt.engine.protocols import CANDIDATES, EncoderOutput, Expander, Verifier
from specmt.engine.torch import masked as torch_masked
from specmt.engine.torch.invariance import GRANULAR, ShapePolicy, fixed
from specmt.engine.torch.linear import can_pack
from specmt.engine.window import Branches, Window, branches
from specmt.training.validate import weights_of
from specmt.types import BOS
from tests.conftest import set_threads
from tests.folders import with_ssru
from tests.networks import equal, held, scores, verifier_network, zeros
from tests.unit.test_engine import (
    VOCAB,
    Chains,
    Slots,
    assert_cache_equal,
    make_chains,
    make_modules,
)

SIZES = {
    "narrow": {"model_dim": 32, "num_heads": 2, "ffn_dim": 64},
    "ssru": {"model_dim": 96, "num_heads": 2, "ffn_dim": 64},
    "heads of 64": {"model_dim": 128, "num_heads": 2, "ffn_dim": 96},
}
CASES = [
    *(f"kernels-{size}-{dtype}" for size in SIZES for dtype in ("float32", "bfloat16", "int8")),
    *(f"pytorch-{size}-{dtype}" for size in SIZES for dtype in ("float32", "bfloat16")),
    *(f"fixed-{size}-{dtype}" for size in ("narrow", "ssru") for dtype in ("float32", "bfloat16")),
]
"""Backends, widths and types; ``fixed`` is PyTorch with one shape for all calls."""

STARTS = [0, 1, 14, 58]
"""The positions of the roots, at different distances from a multiple of a granule; caches must grow for the last."""

SOURCE_LENGTHS = [3, 17, 30, 1]


@dataclass(frozen=True)
class Sentences:
    """A verifier with the memory of a few sentences."""

    verifier: Verifier
    memories: list[EncoderOutput]
    together: EncoderOutput
    prefixes: list[list[int]]
    """BOS and the tokens after it, up to the roots of the trees."""

    def open(self) -> State:
        """Returns the caches of all rows, their prefixes read up to the roots."""
        state = self.verifier.new_state(len(self.prefixes))
        self.verifier.start(state, np.arange(len(self.prefixes)), self.together)
        longest = max(map(len, self.prefixes)) + 3
        # What lies behind a short prefix is what rejected drafts leave there.
        padded = [[*prefix, *range(7, 7 + longest - len(prefix))] for prefix in self.prefixes]
        self.verifier.score(Window(np.array(padded), zeros(len(padded))), state)
        return state

    def alone(self, row: int, tokens: Sequence[int], windows: Sequence[int]) -> tuple[Floats, State]:
        """Returns the logits (T, V) of a chain, window by window, in caches of its own."""
        state = self.verifier.new_state(1)
        self.verifier.start(state, zeros(1), self.memories[row])
        logits, start = [], 0
        for width in windows:
            window = Window(np.array([tokens[start : start + width]]), np.array([start]))
            logits.append(scores(self.verifier, window, state)[0])
            start += width
        assert start == len(tokens)
        return np.concatenate(logits), state

    @property
    def starts(self) -> Ids:
        return np.array([len(prefix) - 1 for prefix in self.prefixes])

    def window(self, tree: Tree) -> Window:
        """Returns the window of trees that are whole."""
        last = np.array([[prefix[-1]] for prefix in self.prefixes])
        assert tree.parents is not None
        tokens = np.concatenate([last, tree.tokens], axis=1)
        return Window(tokens, self.starts, branches=branches(tree.parents))

    def score(self, tree: Tree, state: State) -> Floats:
        """Returns the logits (B, N + 1, V) of trees."""
        return scores(self.verifier, self.window(tree), state)


def part(window: Window, rows: slice, tokens: slice, longest: int | None = None) -> Window:
    """Returns some tokens of some rows of a window, those before them having been run.

    :param longest: how many places a path has; by default as many as in the window
    """
    whole = window.branches
    assert whole is not None
    some = Branches(whole.depths[rows, tokens], whole.paths[rows, tokens, :longest], tokens.start)
    return Window(window.tokens[rows, tokens], window.starts[rows], branches=some)


@pytest.fixture(scope="module", params=CASES)
def sentences(request: pytest.FixtureRequest) -> Sentences:
    backend, size, format = request.param.split("-")
    if backend == "kernels":
        request.getfixturevalue("needs_kernels")
    elif not can_pack(torch.zeros(8, 8, dtype=getattr(torch, format))):
        pytest.skip(f"oneDNN has no packed {format} layers on this machine")
    module, _, config = make_modules(**SIZES[size])
    shapes: ShapePolicy = fixed(config.max_length) if backend == "fixed" else GRANULAR
    weights: Mapping[str, Any] = weights_of(module)
    if size == "ssru":
        weights, config = with_ssru(weights, config)
    verifier = verifier_network(weights, config, format, shapes=shapes, kernels=backend == "kernels")
    generator = random.Random(5)
    sources = [[generator.randrange(4, VOCAB) for _ in range(length)] for length in SOURCE_LENGTHS]
    prefixes = [[BOS, *(generator.randrange(4, VOCAB) for _ in range(start))] for start in STARTS]
    alone = [verifier.encode([source]) for source in sources]
    return Sentences(verifier, alone, verifier.encode(sources), prefixes)


def random_tree(generator: random.Random, count: int, kind: int) -> list[Node]:
    """Returns a tree with nodes in any topological order: bushy, stretched, a chain or a star."""
    nodes: list[Node] = []
    for place in range(count):
        parent = (generator.randint(0, place), generator.randint(max(0, place - 2), place), place, 0)[kind]
        nodes.append(Node(generator.randrange(4, VOCAB), parent, 0.0))
    return nodes


def path_to(nodes: Sequence[Node], place: int) -> list[int]:
    """Returns the places on the way to a node."""
    path: list[int] = []
    while place:
        path.append(place)
        place = nodes[place - 1].parent
    return path[::-1]


def random_trees(generator: random.Random, rows: int) -> Tree:
    """Returns different trees of different sizes for sentences side by side."""
    return make_tree([random_tree(generator, generator.randint(9, 19), (row + 1) % 4) for row in range(rows)])


def assert_nodes_equal_chains(sentences: Sentences, tree: Tree, logits: Floats, generator: random.Random) -> None:
    """Compares every node with its place in a chain that is run in one block, and some with single steps."""
    for row, prefix in enumerate(sentences.prefixes):
        nodes = tree.nodes(row)
        leaves = set(range(len(nodes) + 1)) - {node.parent for node in nodes}
        stepped = generator.choice(sorted(leaves))
        for leaf in leaves:
            path = path_to(nodes, leaf)
            chain = [*prefix, *(nodes[place - 1].token for place in path)]
            wanted, _ = sentences.alone(row, chain, [len(chain)])
            start = len(prefix) - 1
            assert equal(logits[row, [0, *path]], wanted[start:])
            if leaf == stepped:
                # One block up to the root, then token by token.
                steps, _ = sentences.alone(row, chain, [*[start] * (start > 0), *[1] * (len(chain) - start)])
                assert equal(steps[start:], wanted[start:])


@pytest.mark.crossed("sentences", "threads", every=3)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_every_node_has_the_bits_of_its_chain_run_alone(sentences: Sentences, threads: int) -> None:
    generator = random.Random(threads)
    tree = random_trees(generator, len(STARTS))
    state = sentences.open()
    set_threads(threads)
    logits = sentences.score(tree, state)
    set_threads(1)
    assert logits.shape == (len(STARTS), 1 + tree.tokens.shape[1], VOCAB)
    assert_nodes_equal_chains(sentences, tree, logits, generator)


def test_trees_of_some_rows_with_as_many_nodes_as_each_has(sentences: Sentences) -> None:
    """Alone, too."""
    generator = random.Random(9)
    tree = random_trees(generator, len(STARTS))
    window = sentences.window(tree)
    once, some = sentences.open(), sentences.open()
    logits = scores(sentences.verifier, window, once)
    assert window.branches is not None
    for rows in (np.array([2, 0]), np.array([3]), np.array([1])):
        shape = Branches(window.branches.depths[rows], window.branches.paths[rows])
        counts = tree.counts[rows] + 1
        call = Window(window.tokens[rows], window.starts[rows], counts, rows, shape)
        got = scores(sentences.verifier, call, some)
        for number, (row, count) in enumerate(zip(rows.tolist(), counts.tolist(), strict=True)):
            assert equal(got[number, :count], logits[row, :count])
            assert np.array_equal(got[number, count:], np.repeat(got[number, count - 1, None], len(got[0]) - count, 0))
            own = [held(state.own.data[:, :, row, :, : STARTS[row] + count]) for state in (some, once)]
            assert equal(*own)


def test_after_any_walk_the_cache_is_that_of_a_chain(sentences: Sentences) -> None:
    """Rounds of drafting, of walking any path and of going on from where it ends, ragged, with a chain at the end."""
    generator = random.Random(1)
    state = sentences.open()
    now = sentences
    for number in range(3):
        tree = random_trees(generator, len(STARTS))
        logits = now.score(tree, state)
        if number == 2:
            assert_nodes_equal_chains(now, tree, logits, generator)
        rows = [tree.nodes(row) for row in range(len(STARTS))]
        # A node far behind, mostly; once nothing.
        ends = [generator.randint(len(nodes) // 2, len(nodes)) for nodes in rows]
        ends[number] = 0
        paths = [path_to(nodes, end) for nodes, end in zip(rows, ends, strict=True)]
        walked = along(tree, paths, [9] * len(paths))
        assert any(path != list(range(1, len(path) + 1)) for path in paths)
        state.compact(now.starts, walked.places)
        told = [walked.tokens[row, : len(path)].tolist() for row, path in enumerate(paths)]
        grown = [[*prefix, *tokens] for prefix, tokens in zip(now.prefixes, told, strict=True)]
        for row, prefix in enumerate(grown):
            assert_cache_equal(state, row, now.alone(row, prefix, [len(prefix)])[1], len(prefix))
        now = replace(now, prefixes=[[*prefix, 9] for prefix in grown])
    tokens = np.array([[prefix[-1], 5, 6, 7, 8] for prefix in now.prefixes])
    logits = scores(now.verifier, Window(tokens, now.starts), state)
    for row, prefix in enumerate(now.prefixes):
        wanted, _ = now.alone(row, [*prefix, 5, 6, 7, 8], [len(prefix) + 4])
        assert equal(logits[row], wanted[len(prefix) - 1 :])


def level_tree_nodes(generator: random.Random, widths: Sequence[int]) -> list[Node]:
    """Returns a tree whose nodes come level by level."""
    nodes: list[Node] = []
    level = [0]
    for width in widths:
        parents = [generator.choice(level) for _ in range(width)]
        level = [len(nodes) + 1 + number for number in range(width)]
        nodes += [Node(generator.randrange(4, VOCAB), parent, 0.0) for parent in parents]
    return nodes


@pytest.mark.crossed("sentences", "widths", every=3)
@pytest.mark.parametrize("widths", [[1] * 6, [2, 3, 5, 3, 1], [9, 9, 4], []], ids=str)
def test_a_tree_in_parts_is_the_tree_at_once(sentences: Sentences, widths: list[int]) -> None:
    """Level by level, with paths as long as the level is deep; cut anywhere where there are no levels."""
    generator = random.Random(len(widths))
    tree = make_tree(
        [
            level_tree_nodes(generator, widths) if widths else random_tree(generator, 17, row % 2)
            for row in range(len(STARTS))
        ]
    )
    window = sentences.window(tree)
    once, stepwise = sentences.open(), sentences.open()
    wanted = scores(sentences.verifier, window, once)
    ends, parts = itertools.accumulate([1, *widths] if widths else [1, 3, 1, 10, 3]), []
    for depth, (begin, end) in enumerate(itertools.pairwise([0, *ends])):
        some = part(window, slice(None), slice(begin, end), depth + 1 if widths else None)
        parts.append(scores(sentences.verifier, some if depth else some._replace(branches=None), stepwise))
    assert equal(np.concatenate(parts, axis=1), wanted)
    for row, start in enumerate(STARTS):
        assert equal(*(held(state.own.data[:, :, row, :, : start + end]) for state in (once, stepwise)))


def test_a_tree_may_reach_past_the_last_position(sentences: Sentences) -> None:
    """Nodes before the last position are as ever; the cache has room for the rest."""
    generator = random.Random(4)
    longest = sentences.verifier.sizes.max_length
    prefixes = [[BOS, *(generator.randrange(4, VOCAB) for _ in range(longest - rest))] for rest in (2, 3, 9, 30)]
    late = replace(sentences, prefixes=prefixes)
    tree = make_tree([random_tree(generator, 40, row % 2) for row in range(4)])
    logits = late.score(tree, late.open())
    compared = 0
    for row, prefix in enumerate(prefixes):
        nodes = tree.nodes(row)
        for place in range(len(nodes) + 1):
            chain = [*prefix, *(nodes[step - 1].token for step in path_to(nodes, place))]
            if place % 5 == 0 and len(chain) <= longest:
                wanted, _ = late.alone(row, chain, [len(chain)])
                assert equal(logits[row, place], wanted[-1])
                compared += 1
    assert compared > 5


# ------------------------------------------------------------------------------------------------ candidates


def make_slots(vocab: int, rows: int, block_size: int) -> Slots:
    hidden = torch.randn(rows, block_size, 32)
    return Slots(1.5 * torch.randn(rows, block_size, vocab), hidden, torch.randint(vocab, (rows,)))


def find_tree(chains: Chains, slots: Slots, breadth: int, nodes: int, *, kernels: bool) -> tuple[Ids, Ids, Floats]:
    """Returns tokens, parents and log-probabilities (B, N) of the kernels' own trees, or of those grown on PyTorch."""
    if kernels:
        assert isinstance(chains.native, KernelMaskedDrafter)
        return kernel_tree(chains.native, slots.on_kernels(), breadth, nodes)
    expander = torch_masked._SlotExpander(slots.on_pytorch(), chains.correction)
    return grown(expander, slots.last, breadth, nodes, slots.logits.shape[1])


def kernel_tree(
    network: KernelMaskedDrafter, slots: kernel_masked.Slots, breadth: int, nodes: int
) -> tuple[Ids, Ids, Floats]:
    """Returns the trees of a fused loop."""
    shape = len(slots.last), nodes
    tokens, parents = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int64)
    log_probs = np.empty(shape, dtype=np.float32)
    results = {"tokens": tokens, "parents": parents, "log_probs": log_probs}
    addresses = {name: array.ctypes.data for name, array in results.items()}
    call, needed = network.draft(slots, nodes=nodes, breadth=breadth, **addresses)
    network.library.specmt_draft(call)
    del needed
    return tokens, parents, log_probs


def grown(expander: Expander, last: Tensor, breadth: int, nodes: int, depth: int) -> tuple[Ids, Ids, Floats]:
    """Returns the trees that an expander says, of all paths that there are."""
    tree = best_first_tree(expander, last.numpy(), nodes, breadth, beam=nodes, depth=depth)
    assert tree.parents is not None and tree.log_probs is not None
    return tree.tokens, tree.parents, tree.log_probs


@pytest.fixture(scope="module")
def chains() -> Chains:
    return make_chains(437, 32, output=0.5)


SHAPES = [(1, 1, 1), (4, 1, 6), (4, 2, 3), (16, 5, 1), (16, 3, 7), (40, 5, 4), (40, 2, 17), (25, 20, 2)]
"""Nodes asked for, breadths and block sizes."""


@pytest.mark.usefixtures("needs_kernels")
@pytest.mark.parametrize(("nodes", "breadth", "block_size"), SHAPES)
def test_the_kernels_grow_the_trees_of_pytorch(chains: Chains, nodes: int, breadth: int, block_size: int) -> None:
    torch.manual_seed(nodes)
    slots = make_slots(437, 5, block_size)
    size = tree_size(nodes, breadth, block_size)
    got, wanted = (find_tree(chains, slots, breadth, size, kernels=kernels) for kernels in (True, False))
    assert got[0].shape == (5, size)
    assert np.array_equal(got[0], wanted[0])
    assert np.array_equal(got[1], wanted[1])
    np.testing.assert_allclose(got[2], wanted[2], rtol=1e-4, atol=1e-4)
    # And those that are grown level by level from what the kernels say, to the last bit.
    assert isinstance(chains.native, KernelMaskedDrafter)
    expander = kernel_masked._SlotExpander(chains.native, slots.on_kernels())
    for one, other in zip(got, grown(expander, slots.last, breadth, size, block_size), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_tree_does_not_depend_on_its_neighbours_or_on_threads(chains: Chains, kernels: bool, threads: int) -> None:
    torch.manual_seed(0)
    slots = make_slots(437, 6, 5)
    alone = [find_tree(chains, slots.row(row), 3, 12, kernels=kernels) for row in range(6)]
    set_threads(threads)
    for part, *parts in zip(find_tree(chains, slots, 3, 12, kernels=kernels), *alone, strict=True):
        assert np.array_equal(part, np.concatenate(parts))


@pytest.mark.crossed("kernels", "vocab", "nodes")
@pytest.mark.parametrize(("vocab", "block_size"), [(6, 3), (21, 2)])
@pytest.mark.parametrize(("nodes", "breadth"), [(1, 1), (3, 1), (12, 2), (39, 3), (30, 16)])
def test_a_best_first_tree_has_the_likeliest_of_all_paths(
    kernels: bool, vocab: int, block_size: int, nodes: int, breadth: int
) -> None:
    """Every path there is, scored by the module, whose best candidates a position are those of the slot alone."""
    chains = make_chains(vocab, 16, output=0.5)
    torch.manual_seed(vocab)
    slots = make_slots(vocab, 3, block_size)
    slots = slots._replace(logits=torch.nn.functional.linear(slots.hidden, chains.module.embed.weight.detach()))
    size = min(tree_size(nodes, breadth, block_size), tree_size(nodes, min(breadth, vocab), block_size))
    found = find_tree(chains, slots, breadth, size, kernels=kernels)
    every = torch.tensor(list(itertools.product(range(vocab), repeat=block_size)))  # (P, K)
    for row in range(3):
        previous = torch.cat([slots.last[row].expand(len(every), 1), every[:, :-1]], dim=1)
        with torch.inference_mode():
            corrected = chains.module.logits(slots.hidden[row].expand(len(every), -1, -1), previous)
        others = torch.ones(block_size, vocab, dtype=torch.bool)
        others.scatter_(1, slots.logits[row].topk(min(CANDIDATES, vocab)).indices, False)
        log_probs = corrected.masked_fill(others, -torch.inf).log_softmax(2)  # (P, K, V)
        ranks = log_probs.argsort(dim=2, descending=True).argsort(dim=2).gather(2, every[:, :, None])[:, :, 0]
        own = log_probs.gather(2, every[:, :, None])[:, :, 0]  # (P, K)
        totals = {
            tuple(path[: depth + 1]): (float(scores[: depth + 1].sum()), float(scores[depth]))
            for path, rank, scores in zip(every.tolist(), ranks, own, strict=True)
            for depth in range(block_size)
            if (rank[: depth + 1] < breadth).all() and scores[: depth + 1].isfinite().all()
        }
        wanted = sorted(totals, key=lambda path: -totals[path][0])[:size]
        assert len(wanted) == size
        paths: list[tuple[int, ...]] = [()]
        tokens, parents, scores = (part[row].tolist() for part in found)
        for token, parent in zip(tokens, parents, strict=True):
            paths.append((*paths[parent], token))
        assert paths[1:] == wanted
        assert scores == pytest.approx([totals[path][1] for path in wanted], abs=1e-4)


@pytest.mark.parametrize("vocab", [6, 437])
def test_candidates_come_best_first_and_the_lowest_of_equals(kernels: bool, vocab: int) -> None:
    chains = make_chains(vocab, 32, output=0.0)  # what was chosen before changes nothing
    torch.manual_seed(3)
    slots = make_slots(vocab, 4, 3)
    slots.logits[2] = 0.0
    slots.logits[3, :, ::2] = 5.0
    expander: Expander = torch_masked._SlotExpander(slots.on_pytorch(), chains.correction)
    if kernels:
        assert isinstance(chains.native, KernelMaskedDrafter)
        expander = kernel_masked._SlotExpander(chains.native, slots.on_kernels())
    tokens, parents = slots.last[:, None].numpy(), zeros(4)[:, None]
    for slot in range(3):
        ids, log_probs = expander.expand(tokens, parents)
        wanted = np.argsort(-slots.logits[:, slot].numpy(), axis=1, kind="stable")[:, None, :CANDIDATES]
        assert np.array_equal(ids, np.broadcast_to(wanted, ids.shape))
        assert (np.diff(log_probs, axis=2) <= 0).all()
        tokens, parents = ids[:, 0, :5], np.zeros((4, 5), dtype=np.int64)
    if kernels:
        with pytest.raises(ValueError, match="`slot` must be in 0 … 2, but is 3"):
            expander.expand(tokens, parents)
