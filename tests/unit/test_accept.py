"""Acceptance rules on logits written by hand (DESIGN §9.6); test_tree.py has the rule in plain Python beside them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from specmt.decoding.accept import Accepted, Within
from specmt.decoding.tree import Tree, chains, make_tree, no_tree
from specmt.engine.fused import EXACT, Rule
from specmt.engine.kernels import library
from specmt.engine.kernels.logits import KernelLogits
from specmt.engine.protocols import Logits
from tests.decoding_helpers import ArrayLogits, log_softmax

Make = Callable[[npt.ArrayLike], Logits]


@pytest.fixture(params=["array", "kernels", "torch-float32", "torch-float64", "torch-bfloat16"])
def make(request: pytest.FixtureRequest) -> Make:
    """Makes logits (B, W, V) of each kind."""
    if request.param == "array":
        return ArrayLogits
    if request.param == "kernels":
        request.getfixturevalue("needs_kernels")
        return kernel_logits
    torch = pytest.importorskip("torch")
    from specmt.engine.torch.logits import TorchLogits

    dtype = getattr(torch, request.param.removeprefix("torch-"))
    return lambda values: TorchLogits(torch.tensor(np.asarray(values), dtype=dtype))


def kernel_logits(values: npt.ArrayLike) -> Logits:
    given = np.array(values, dtype=np.float32)
    kernels = library.kernels()
    assert kernels is not None
    return KernelLogits(kernels, given.reshape(-1, given.shape[2]), given.shape[1])


def verdict(make: Make, drafts: list[list[int]], values: npt.ArrayLike, *, beta: int, tolerance: float) -> Accepted:
    """Returns what stands of chains."""
    return Within(Rule(beta, tolerance)).accept(chains(np.array(drafts)), make(values), ())


def judge(make: Make, draft: int, scores: list[float], *, beta: int, tolerance: float) -> bool:
    """Returns whether one drafted token stands against the logits of its position."""
    return bool(verdict(make, [[draft]], [[scores, scores]], beta=beta, tolerance=tolerance).counts.item())


def test_a_gap_of_exactly_tau_stands_and_anything_more_falls(make: Make) -> None:
    scores = [0.0, 3.0, 2.0, 1.984375]  # all of them bfloat16 numbers
    assert judge(make, 2, scores, beta=3, tolerance=1.0)
    assert not judge(make, 3, scores, beta=3, tolerance=1.0)
    assert not judge(make, 2, scores, beta=3, tolerance=0.9999)


def test_a_rank_of_exactly_beta_stands_and_the_next_falls(make: Make) -> None:
    scores = [5.0, 4.75, 4.5, 4.25, -9.0]
    for beta, tolerance, wanted in (
        (3, 10.0, [True, True, True, False, False]),
        (4, 10.0, [True, True, True, True, False]),
        (5, 100.0, [True] * 5),
        (99, 100.0, [True] * 5),
    ):
        assert [judge(make, token, scores, beta=beta, tolerance=tolerance) for token in range(5)] == wanted


def test_among_equals_the_lowest_id_ranks_first(make: Make) -> None:
    scores = [1.0, 4.0, 4.0, 4.0, 2.0]
    stands = [judge(make, token, scores, beta=2, tolerance=9.0) for token in range(5)]
    assert stands == [False, True, True, False, False]
    for draft, accepted in ((1, 1), (2, 0), (3, 0)):
        got = verdict(make, [[draft]], [[scores, scores]], beta=1, tolerance=0.0)
        assert got.counts.tolist() == [accepted]
        assert got.tokens[0, 0] == 1


@pytest.mark.parametrize("width", [5, 64, 400, 8000])
def test_the_best_tokens_are_the_lowest_of_equals_at_every_width(make: Make, width: int) -> None:
    values = np.zeros((3, 2, width))
    ids = [width // 3, width // 2, width - 1]
    values[:, :, ids] = 7.0
    logits = make(values)
    assert logits.best().tolist() == [[ids[0]] * 2] * 3
    found, log_probs = logits.likeliest(4)
    others = [token for token in range(1, width) if token not in ids]  # PAD is never among them
    assert found.tolist() == [[[*ids, others[0]]] * 2] * 3
    np.testing.assert_allclose(log_probs, np.take_along_axis(log_softmax(values), found, 2), rtol=1e-5)


def test_what_is_asked_of_places_is_answered_in_that_order(make: Make) -> None:
    values = np.random.default_rng(2).integers(0, 256, (3, 4, 32)) / 64  # all of them bfloat16 numbers
    logits, plain = make(values), ArrayLogits(values)
    tokens, places = np.array([[3, 31, 3], [0, 7, 9], [8, 8, 8]]), np.array([[0, 0, 3], [2, 1, 1], [3, 2, 0]])
    np.testing.assert_allclose(logits.log_probs(tokens, places), plain.log_probs(tokens, places), rtol=1e-5)
    for got, wanted in zip(logits.ranks(tokens, places), plain.ranks(tokens, places), strict=True):
        assert np.array_equal(got, wanted)
    assert all(np.array_equal(logits.row(row, place), values[row, place]) for row in range(3) for place in range(4))


def test_what_stands_up_to_the_first_failure_is_accepted_and_then_comes_the_verifiers_own_token(make: Make) -> None:
    own = np.tile([4, 5, 6], (4, 1))
    got = verdict(make, [[4, 5], [4, 7], [7, 5], [7, 7]], np.eye(8)[own], beta=1, tolerance=0.0)
    assert got.counts.tolist() == [2, 1, 0, 0]
    emitted = [row[: count + 1] for row, count in zip(got.tokens.tolist(), got.counts.tolist(), strict=True)]
    assert emitted == [[4, 5, 6], [4, 5], [4], [4]]
    assert [got.path(row) for row in range(4)] == [[1, 2], [1], [], []]


def test_a_tolerated_draft_stands_in_the_output_and_a_refused_one_gives_way(make: Make) -> None:
    values = [[[0.0, 2.0, 1.5], [3.0, 2.5, 0.0], [1.0, 0.0, 0.5]]]
    got = verdict(make, [[2, 2]], values, beta=2, tolerance=0.5)
    assert got.counts.tolist() == [1]
    assert got.tokens[0, :2].tolist() == [2, 0]


@pytest.mark.parametrize("tree", [no_tree(2), make_tree([[], []])])
@pytest.mark.parametrize("rule", [EXACT, Rule(3, 1.0)])
def test_no_draft_gives_the_best_token(make: Make, tree: Tree, rule: Rule) -> None:
    got = Within(rule).accept(tree, make([[[0.0, 2.0]], [[3.0, 2.0]]]), ())
    assert got.counts.tolist() == [0, 0]
    assert got.tokens.tolist() == [[1], [0]]
    assert got.places.shape == (2, 0)
