"""Draft trees: how they are made, laid out, walked and cut, against plain Python (DESIGN §2.2, §2.3)."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specmt.decoding.accept import Accepted, Within, along, walk
from specmt.decoding.best_first import best_first_tree
from specmt.decoding.confidence import confident, log_odds, logistic, survival
from specmt.decoding.tree import Choices, Node, Tree, chains, make_tree, prune
from specmt.engine.arrays import Floats, Ids
from specmt.engine.fused import Confidence, Rule
from specmt.engine.kernels.runner import tree_size
from specmt.engine.torch.windows import order, part, widen
from specmt.engine.window import Branches, branches
from specmt.types import EOS
from tests.decoding_helpers import EXACTLY, ArrayLogits, log_softmax

quick = settings(max_examples=100, deadline=None)

FORK = [(5, 0), (6, 0), (7, 1), (8, 2), (9, 2), (5, 5)]
"""Tokens and parents: two children of the root, the second of which goes on to 8 and to 9, and 9 to 5."""


def tree_of(*rows: list[tuple[int, int]], counts: list[int] | None = None) -> Tree:
    """Returns the trees of rows of tokens and parents, as many in each."""
    cells = np.array(rows, dtype=np.int64).reshape(len(rows), -1, 2)
    sizes = np.array(counts or [len(row) for row in rows])
    return Tree(cells[:, :, 0], sizes, cells[:, :, 1])


def tolerates(tree: Tree, logits: ArrayLogits, *, beta: int, tolerance: float) -> Accepted:
    return Within(Rule(beta, tolerance)).accept(tree, logits, ())


def paths_of(nodes: list[Node]) -> list[tuple[int, ...]]:
    """Returns the tokens on the way to each node."""
    paths: list[tuple[int, ...]] = [()]
    for node in nodes:
        paths.append((*paths[node.parent], node.token))
    return paths[1:]


def is_sound(nodes: list[Node]) -> bool:
    """Whether parents come before their children, and no two siblings are the same."""
    return all(0 <= node.parent <= number for number, node in enumerate(nodes)) and len(
        {(node.parent, node.token) for node in nodes}
    ) == len(nodes)


# ------------------------------------------------------------------------------------------------ trees


def test_trees_of_any_size_come_back_as_they_were_made() -> None:
    rows = [[Node(5, 0, -0.5), Node(6, 0, -1.0), Node(7, 2, -0.25)], [], [Node(8, 0, -2.0)]]
    tree = make_tree(rows)
    assert tree.tokens.shape == (3, 3)
    assert tree.counts.tolist() == [3, 0, 1]
    assert [tree.nodes(row) for row in range(3)] == rows
    nothing = make_tree([[], []])
    assert nothing.tokens.shape == (2, 0)
    assert [nothing.nodes(row) for row in range(2)] == [[], []]


def test_the_nodes_of_a_chain_follow_each_other() -> None:
    tree = chains(np.array([[4, 5, 6], [7, 8, 9]]), counts=np.array([3, 2]))
    nodes = tree.nodes(1)
    assert [(node.token, node.parent) for node in nodes] == [(7, 0), (8, 1)]
    assert all(math.isnan(node.log_prob) for node in nodes)
    assert tree.is_real().tolist() == [[True] * 3, [True, True, False]]
    (node,) = chains(np.array([[4]]), np.array([[-0.5]], dtype=np.float32)).nodes(0)
    assert node == Node(4, 0, -0.5)
    assert chains(np.zeros((2, 5), dtype=np.int64)).counts.tolist() == [5, 5]


def test_what_each_node_follows() -> None:
    tree = tree_of(FORK, FORK, counts=[6, 3])
    assert tree.all_parents().tolist() == [[0, 0, 1, 2, 2, 5]] * 2
    assert chains(tree.tokens).all_parents().tolist() == [[*range(6)]] * 2
    assert tree.children(0) == {0: [(1, 5), (2, 6)], 1: [(3, 7)], 2: [(4, 8), (5, 9)], 5: [(6, 5)]}
    assert tree.children(1) == {0: [(1, 5), (2, 6)], 1: [(3, 7)]}
    assert chains(tree.tokens[:, :2]).children(0) == {0: [(1, 5)], 1: [(2, 6)]}


def test_what_children_were_drawn_from() -> None:
    assert tree_of(FORK).drawn(0, 2) is None
    choices = Choices(np.arange(28).reshape(2, 7, 2), -np.arange(28.0).reshape(2, 7, 2))
    drawn = tree_of(FORK, FORK)._replace(choices=choices).drawn(1, 2)
    assert drawn is not None
    assert [each.tolist() for each in drawn] == [[18, 19], [-18.0, -19.0]]


def test_the_kept_nodes_of_a_tree() -> None:
    whole = tree_of(FORK, FORK)._replace(log_probs=-np.arange(12, dtype=np.float32).reshape(2, 6))
    for count in range(7):
        first = prune(whole, count > np.arange(6).repeat(2).reshape(6, 2).T)
        assert first.tokens.shape == (2, count)
        assert [first.nodes(row) for row in (0, 1)] == [whole.nodes(row)[:count] for row in (0, 1)]
    # Places change where something before them is gone.
    some = prune(whole, np.array([[False, True, False, False, True, True], [False] * 6]))
    assert some.nodes(0) == [Node(6, 0, -1.0), Node(9, 1, -4.0), Node(5, 2, -5.0)]
    assert some.nodes(1) == []


def test_the_kept_tokens_of_chains() -> None:
    whole = chains(np.array([[4, 5, 6], [7, 8, 9]]))
    first = prune(whole, np.array([[True, True, False]] * 2))
    assert first.tokens.tolist() == [[4, 5], [7, 8]]
    assert (first.parents, first.log_probs, first.counts.tolist()) == (None, None, [2, 2])
    log_probs = np.zeros((2, 3), dtype=np.float32)
    ragged = prune(whole._replace(log_probs=log_probs), np.array([[True, False, False], [True, True, False]]))
    assert [[node.token for node in ragged.nodes(row)] for row in (0, 1)] == [[4], [7, 8]]
    assert ragged.log_probs is not None and ragged.log_probs.shape == (2, 2)
    assert prune(whole, np.zeros((2, 3), dtype=bool)).tokens.shape == (2, 0)
    assert prune(whole, np.ones((2, 3), dtype=bool)) is whole
    assert prune(ragged, np.ones((2, 2), dtype=bool)) is ragged  # noise neither stays nor goes


@st.composite
def trees(draw: st.DrawFn, rows: int, *, width: int = 4, most: int = 7) -> Tree:
    """Draws trees or chains of tokens below a width, twins and noise among them."""
    size = draw(st.integers(0, most))
    tokens = [[draw(st.integers(0, width - 1)) for _ in range(size)] for _ in range(rows)]
    parents = None
    if draw(st.booleans()):
        parents = [[draw(st.integers(0, place)) for place in range(size)] for _ in range(rows)]
    counts = [draw(st.integers(0, size)) for _ in range(rows)] if draw(st.booleans()) else [size] * rows
    return Tree(
        np.array(tokens, dtype=np.int64).reshape(rows, size),
        np.array(counts),
        None if parents is None else np.array(parents, dtype=np.int64).reshape(rows, size),
    )


# ------------------------------------------------------------------------------------------------ acceptance


def test_a_walk_goes_down_the_best_nodes_that_stand() -> None:
    no = -math.inf
    parents = [parent for _, parent in FORK]
    assert walk(parents, [no] * 6) == []
    assert walk(parents, [0.0, no, no, 0.0, 0.0, 0.0]) == [1]  # what stands under a node that fell is not reached
    assert walk(parents, [-1.0, 0.0, 0.0, -1.0, 0.0, 0.0]) == [2, 5, 6]
    assert walk(parents, [0.0, -1.0, 0.0, 0.0, 0.0, 0.0]) == [1, 3]
    assert walk(parents, [no, 0.0, 0.0, -2.0, -2.0, no]) == [2, 4]  # among equals the first
    assert walk([], []) == []


def test_a_verdict_along_given_paths() -> None:
    got = along(tree_of(FORK, FORK, FORK), [[2, 5, 6], [], [1]], [3, 4, 8])
    assert got.counts.tolist() == [3, 0, 1]
    assert [got.path(row) for row in range(3)] == [[2, 5, 6], [], [1]]
    assert got.tokens.tolist() == [[6, 9, 5, 3], [4, 0, 0, 0], [5, 8, 0, 0]]
    # Behind them the nodes stay where they are.
    assert got.places.tolist() == [[2, 5, 6], [1, 2, 3], [1, 2, 3]]
    nothing = along(tree_of(FORK), [[]], [3])
    assert nothing.places.shape == (1, 0)
    assert nothing.tokens.tolist() == [[3]]
    assert got.trials == nothing.trials == ()


def test_of_tolerated_siblings_the_verifiers_best_is_taken() -> None:
    tree = tree_of([(1, 0), (2, 0), (3, 0)])
    logits = ArrayLogits([[[0.0, 2.0, 3.0, 3.5, 4.0], *[[1.0, 0.0, 0.0, 0.0, 0.0]] * 3]])
    for beta, tolerance, path in ((3, 2.0, [3]), (4, 2.0, [3]), (2, 2.0, [3]), (3, 0.4, []), (1, 2.0, [])):
        assert tolerates(tree, logits, beta=beta, tolerance=tolerance).path(0) == path
    # Without the best of them the next takes its place; among equals the lower id does.
    assert tolerates(tree_of([(1, 0), (2, 0)]), logits, beta=3, tolerance=2.0).path(0) == [2]
    assert tolerates(tree_of([(1, 0)]), logits, beta=3, tolerance=2.0).path(0) == []
    equals = ArrayLogits([[[0.0, 2.0, 2.0, 2.0, 2.5], *[[1.0, 0.0, 0.0, 0.0, 0.0]] * 3]])
    for tokens in itertools.permutations((1, 2, 3)):
        some = tree_of([(token, 0) for token in tokens])
        assert tolerates(some, equals, beta=4, tolerance=1.0).path(0) == [tokens.index(1) + 1]


def accept_plainly(
    nodes: list[Node], scores: list[list[float]], beta: int, tolerance: float
) -> tuple[list[int], list[int]]:
    """The rule of DESIGN §2.2: returns the places that stand and the tokens emitted.

    :param scores: of what follows each place
    """
    place, path, emitted = 0, [], []
    while True:
        own = scores[place]
        ranked = sorted(range(len(own)), key=lambda token, own=own: (-own[token], token))
        standing = [
            (ranked.index(node.token), number)
            for number, node in enumerate(nodes, start=1)
            if node.parent == place and node.token in ranked[:beta] and own[ranked[0]] - own[node.token] <= tolerance
        ]
        if not standing:
            return path, [*emitted, ranked[0]]
        _, place = min(standing)
        path.append(place)
        emitted.append(nodes[place - 1].token)


@st.composite
def trees_and_logits(draw: st.DrawFn) -> tuple[Tree, ArrayLogits]:
    rows, width = draw(st.integers(1, 3)), draw(st.integers(1, 5))
    tree = draw(trees(rows, width=width))
    size = rows * (tree.tokens.shape[1] + 1) * width
    # Few values, so that ties are common.
    scores = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    return tree, ArrayLogits(np.array(scores).reshape(rows, -1, width))


def assert_plain(got: Accepted, tree: Tree, logits: ArrayLogits, beta: int, tolerance: float) -> None:
    for row, scores in enumerate(logits.values.tolist()):
        path, emitted = accept_plainly(tree.nodes(row), scores, beta, tolerance)
        assert got.counts[row] == len(path)
        assert got.path(row) == path
        assert got.tokens[row, : len(emitted)].tolist() == emitted
        longest = got.places.shape[1]
        assert longest <= tree.tokens.shape[1]
        assert got.places[row, len(path) :].tolist() == list(range(len(path) + 1, longest + 1))


@quick
@given(trees_and_logits(), st.integers(1, 5), st.integers(0, 3))
def test_acceptance_is_the_rule(given_: tuple[Tree, ArrayLogits], beta: int, tolerance: int) -> None:
    """β = 1 or τ = 0 is exact acceptance."""
    assert_plain(EXACTLY.accept(*given_, ()), *given_, 1, 0.0)
    for beta_, tolerance_ in ((beta, tolerance), (1, tolerance), (beta, 0)):
        got = tolerates(*given_, beta=beta_, tolerance=float(tolerance_))
        assert_plain(got, *given_, 1 if tolerance_ == 0 else beta_, float(tolerance_))


@quick
@given(trees_and_logits(), st.integers(2, 5), st.integers(1, 3))
def test_noise_is_never_accepted(given_: tuple[Tree, ArrayLogits], beta: int, tolerance: int) -> None:
    """Behind the nodes of a tree, any other noise leads to the same verdict."""
    tree, logits = given_
    more = 3
    # Noise that the verifier would like: its own tokens, under whatever node it likes.
    places = np.arange(tree.tokens.shape[1] + more)
    real, wider = places < tree.counts[:, None], ((0, 0), (0, more))
    grown = ArrayLogits(np.pad(logits.values, (*wider, (0, 0)), mode="edge"))
    parents = np.broadcast_to(places, real.shape)
    if tree.parents is not None:
        parents = np.where(real, np.pad(tree.parents, wider), places // 2)
    tokens = np.where(real, np.pad(tree.tokens, wider), np.take_along_axis(grown.best(), parents, 1))
    noisy = Tree(tokens, tree.counts, None if tree.parents is None else parents)
    for acceptor in (EXACTLY, Within(Rule(beta, float(tolerance)))):
        got, wanted = acceptor.accept(noisy, grown, ()), acceptor.accept(tree, logits, ())
        for row, count in enumerate(wanted.counts.tolist()):
            assert got.path(row) == wanted.path(row)
            assert got.tokens[row, : count + 1].tolist() == wanted.tokens[row, : count + 1].tolist()


# ------------------------------------------------------------------------------------------------ windows


def test_the_branches_of_a_window() -> None:
    window = branches(np.array([[parent for _, parent in FORK], [0] * 6]))
    assert window.first == 0
    assert window.depths.tolist() == [[0, 1, 1, 2, 2, 2, 3], [0, 1, 1, 1, 1, 1, 1]]
    wanted = [[0], [0, 1], [0, 2], [0, 1, 3], [0, 2, 4], [0, 2, 5], [0, 2, 5, 6]]
    assert [path[: len(found)] for path, found in zip(window.paths[0].tolist(), wanted, strict=True)] == wanted
    assert window.paths[1, :, :2].tolist() == [[0, 0], *([0, place] for place in range(1, 7))]
    alone = branches(np.empty((2, 0), dtype=np.int64))
    assert alone.depths.tolist() == [[0], [0]]
    assert alone.paths.tolist() == [[[0]], [[0]]]


def seen_by(window: Branches, starts: Ids, row: int, token: int) -> list[int]:
    """Returns the places in the cache that a token of a window sees."""
    count = int(starts[row] + window.depths[row, token]) + 1
    found: list[int] = order(window, starts, 32)[row, token, :count].tolist()
    return found


@quick
@given(trees(rows=2), st.integers(0, 20), st.integers(0, 20), st.integers(0, 7), st.integers(0, 7))
def test_every_token_sees_the_prefix_and_its_branch_in_order(
    tree: Tree, start: int, other: int, begin: int, end: int
) -> None:
    size, parents = tree.tokens.shape[1], tree.all_parents()
    window, starts = branches(parents), np.array([start, other])
    padded = widen(window, size + 4, np.arange(2), 2)
    assert padded.depths.shape == (2, size + 4)
    for row, first in enumerate((start, other)):
        wanted = [[0]]
        for place, parent in enumerate(parents[row].tolist(), start=1):
            wanted.append([*wanted[parent], place])
        for token, path in enumerate(wanted):
            keys = [*range(first), *(first + place for place in path)]
            assert seen_by(window, starts, row, token) == seen_by(padded, starts, row, token) == keys
        for token in range(size + 1, size + 4):
            assert seen_by(padded, starts, row, token) == list(range(first + 1))  # the root alone
        # Some of the tokens see what they see among all, but go behind those before.
        some = slice(min(begin, size), min(begin, size) + end + 1)
        few = part(window, slice(row, row + 1), some)
        assert few.first == some.start
        for token, path in enumerate(wanted[some]):
            keys = [*range(first), *(first + place for place in path)]
            assert seen_by(few, starts[row : row + 1], 0, token) == keys
    both = slice(0, 2)
    assert part(part(padded, both, slice(2, 4)), both, slice(1, 2)).first == 3
    # Nothing lies outside of what the cache has room for, noise included.
    assert order(padded, starts, 32).max() <= max(int(starts.max()) + size, 31)


# ------------------------------------------------------------------------------------------------ growth


class Random:
    """An expander whose log-probabilities are a function of the path alone; its candidates come best first."""

    def __init__(self, rows: list[int], vocab: int) -> None:
        self.rows, self.vocab = rows, vocab
        self.paths: list[list[tuple[int, ...]]] = []

    def log_probs(self, row: int, path: tuple[int, ...]) -> list[float]:
        generator = random.Random(f"{row} {path}")
        drawn = [generator.gauss(0, 1.5) for _ in range(self.vocab)]
        scores: list[float] = log_softmax(drawn).astype(np.float32).tolist()
        return scores

    def expand(self, tokens: Ids, parents: Ids) -> tuple[Ids, Floats]:
        if self.paths:
            pairs = zip(self.paths, tokens.tolist(), parents.tolist(), strict=True)
            self.paths = [
                [(*paths[parent], token) for token, parent in zip(*level, strict=True)] for paths, *level in pairs
            ]
        else:
            assert (tokens[:, 0].tolist(), parents.tolist()) == ([90 + row for row in self.rows], [[0]] * len(tokens))
            self.paths = [[()] for _ in self.rows]
        pairs = zip(self.rows, self.paths, strict=True)
        scores = np.array([[self.log_probs(row, path) for path in paths] for row, paths in pairs], dtype=np.float32)
        best = np.argsort(-scores, axis=2, kind="stable")
        return best, np.take_along_axis(scores, best, 2)


Shape = tuple[int, int]
"""The most nodes of a tree, and how many candidates may follow a token."""


def grow(
    rows: list[int], vocab: int, shape: Shape, depth: int, *, beam: int, confidence: Confidence | None = None
) -> Tree:
    last = np.array([90 + row for row in rows])
    return best_first_tree(Random(rows, vocab), last, *shape, beam=beam, depth=depth, confidence=confidence)


@pytest.mark.parametrize("breadth", range(1, 6))
@pytest.mark.parametrize("depth", range(1, 5))
def test_a_tree_has_as_many_nodes_as_there_are_paths_at_most(breadth: int, depth: int) -> None:
    paths = sum(len(list(itertools.product(range(breadth), repeat=level))) for level in range(1, depth + 1))
    for nodes in {1, 2, 3, paths - 1, paths, paths + 1, 1000} - {0}:
        tree = grow([0], 5, (nodes, breadth), depth, beam=nodes)
        assert tree.counts.tolist() == [min(nodes, paths)] == [tree_size(nodes, breadth, depth)]


@pytest.mark.parametrize(("nodes", "depth", "wanted"), [(1000, 1, 16), (300, 2, 16 + 16**2)])
def test_a_broad_tree_has_no_more_nodes_than_there_are_candidates(nodes: int, depth: int, wanted: int) -> None:
    tree = grow([0], 16, (nodes, 25), depth, beam=nodes)
    assert tree.counts.tolist() == [wanted] == [tree_size(nodes, 25, depth)]


def likeliest(row: int, vocab: int, shape: Shape, depth: int, beam: float = math.inf) -> list[tuple[int, ...]]:
    """Returns the best N of all paths whose parents are among the best of their level, best first."""
    source = Random([row], vocab)
    level: dict[tuple[int, ...], float] = {(): 0.0}
    found: dict[tuple[int, ...], float] = {}
    for _ in range(depth):
        kept = sorted(level, key=lambda path: -level[path])[: len(level) if beam == math.inf else int(beam)]
        parents, level = {path: level[path] for path in kept}, {}
        for path, total in parents.items():
            scores = source.log_probs(row, path)
            for token in sorted(range(vocab), key=lambda token: -scores[token])[: shape[1]]:
                level[(*path, token)] = total + scores[token]
        found |= level
    return sorted(found, key=lambda path: -found[path])[: shape[0]]


@pytest.mark.parametrize(
    ("nodes", "beam"), [*((nodes, 9) for nodes in (1, 2, 7, 20, 39, 100)), *((nodes, nodes) for nodes in (1, 2, 7, 20))]
)
def test_a_wide_beam_finds_the_likeliest_paths(nodes: int, beam: int) -> None:
    """One as wide as there are paths of two tokens, or as the tree has nodes."""
    shape = (nodes, 9)
    tree = grow([0, 1, 2], 3, shape, 3, beam=beam)
    for row in range(3):
        assert paths_of(tree.nodes(row)) == likeliest(row, 3, shape, 3)
        assert len(tree.nodes(row)) == min(nodes, 39)


@pytest.mark.parametrize(("nodes", "breadth"), [(1, 1), (4, 1), (9, 1), (12, 2), (40, 3), (25, 5)])
def test_trees_grow_level_by_level(nodes: int, breadth: int) -> None:
    shape = (nodes, breadth)
    together = grow([3, 4, 5, 6], 8, shape, 5, beam=breadth)
    for number, row in enumerate([3, 4, 5, 6]):
        found = together.nodes(number)
        assert is_sound(found)
        assert found == grow([row], 8, shape, 5, beam=breadth).nodes(0)
        paths = paths_of(found)
        assert paths == likeliest(row, 8, shape, 5, beam=breadth)
        source = Random([row], 8)
        for node, path in zip(found, paths, strict=True):
            assert node.log_prob == pytest.approx(source.log_probs(row, path[:-1])[node.token], abs=1e-6)
        if breadth == 1:
            assert [node.parent for node in found] == list(range(min(nodes, 5)))


# ------------------------------------------------------------------------------------------------ confidence


def test_a_node_survives_with_all_those_before_it() -> None:
    log_probs = np.log(np.array([[0.5, 0.3, 0.9, 0.6, 0.2, 0.7]] * 2))
    parents = np.array([[parent for _, parent in FORK], [0, 1, 2, 3, 4, 5]])
    a, b, c, d, e, f = logistic(0.9 * log_odds(log_probs) - 0.2)[0].tolist()
    got = survival(log_probs, 0.9, -0.2, parents)
    assert got[0] == pytest.approx([a, b, a * c, b * d, b * e, b * e * f])
    assert got[1] == pytest.approx(survival(log_probs[:1], 0.9, -0.2)[0])


@pytest.mark.parametrize("floor", [0.0, 0.05, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("margin", [0.0, 0.3, 0.6])
def test_what_is_verified_of_trees_are_the_nodes_likely_enough(floor: float, margin: float) -> None:
    """A node's ancestors are likelier than itself, so that what is kept is a tree, whatever ended its growth."""
    tree = grow([0, 1, 2], 8, (20, 3), 4, beam=3)
    assert tree.log_probs is not None
    assert tree.parents is not None
    confidence = Confidence(scale=0.9, shift=-0.2, floor=floor, margin=margin)
    got = confident(tree, confidence)
    chances = survival(tree.log_probs.astype(np.float64), 0.9, -0.2, tree.parents)
    for row in range(3):
        nodes, paths = tree.nodes(row), paths_of(tree.nodes(row))
        wanted = [
            at for at, path in enumerate(paths) if floor == 0.0 or (chances[row, at] >= floor and EOS not in path[:-1])
        ]
        kept = got.nodes(row)
        assert is_sound(kept)
        assert paths_of(kept) == [paths[place] for place in wanted]
        assert [node.log_prob for node in kept] == [nodes[place].log_prob for place in wanted]
    assert any(EOS in path[:-1] for row in range(3) for path in paths_of(tree.nodes(row)))
    assert (got.tokens.shape[1] == 20) == (floor == 0.0)
    unknown = tree._replace(log_probs=None)
    assert confident(unknown, confidence) is unknown


@pytest.mark.parametrize("margin", [0.0, 0.2, 0.5, 0.9, 2.0])
def test_trees_grow_while_the_paths_that_go_on_are_likely_enough_together(margin: float) -> None:
    confidence = Confidence(scale=0.9, shift=-0.2, floor=0.01, margin=margin)
    heights = set()
    for row in range(20):
        expander = Random([row], 6)
        last = np.array([90 + row])
        tree = best_first_tree(expander, last, 99, 3, beam=3, depth=4, confidence=confidence)
        chances: dict[tuple[int, ...], float] = {(): 1.0}
        beam: list[tuple[int, ...]] = [()]
        while beam and len(beam[0]) < 4:
            children = []
            for path in beam:
                scores = expander.log_probs(row, path)
                for token in sorted(range(6), key=lambda token: -scores[token])[:3]:
                    chance = logistic(0.9 * log_odds(np.array(scores[token])) - 0.2)
                    chances[(*path, token)] = chances[path] * float(chance)
                    children.append((*path, token))
            totals = {
                path: sum(expander.log_probs(row, path[:at])[path[at]] for at in range(len(path))) for path in children
            }
            best = sorted(children, key=lambda path: -totals[path])[:3]
            height = len(best[0])
            beam = [path for path in best if path[-1] != EOS]
            if sum(chances[path] for path in beam) < margin:
                beam = []
        assert set(paths_of(tree.nodes(0))) == set(chances) - {()}
        assert len(expander.paths[0][0]) == height - 1
        heights.add(height)
    assert (heights == {1}) if margin > 1.0 else (heights == {4}) if margin == 0.0 else len(heights) > 1


def test_sentences_grow_trees_of_their_own_height() -> None:
    confidence = Confidence(scale=0.9, shift=-0.2, floor=0.01, margin=0.4)
    shape = (30, 3)
    together = grow([*range(8)], 6, shape, 4, beam=3, confidence=confidence)
    alone = [grow([row], 6, shape, 4, beam=3, confidence=confidence) for row in range(8)]
    assert [together.nodes(row) for row in range(8)] == [tree.nodes(0) for tree in alone]
    assert len({tree.tokens.shape[1] for tree in alone}) > 1
