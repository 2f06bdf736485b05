"""Acceptance rules on logits written by hand (DESIGN §9.6); test_tree.py has the rule in plain Python beside them."""

from __future__ import annotations

import pytest
import torch

from specmt.decoding.accept import accept_exact, accept_tolerant, leading
from specmt.decoding.tree import Tree
from specmt.engine.backend import best_tokens


def judge(draft: int, scores: list[float], *, beta: int, tolerance: float, dtype: torch.dtype = torch.float32) -> bool:
    """Returns whether one drafted token stands against the logits of its position."""
    logits = torch.tensor([[scores, scores]], dtype=dtype)
    accepted, *_ = accept_tolerant(Tree(torch.tensor([[draft]])), logits, beta=beta, tolerance=tolerance)
    return bool(accepted.item())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_gap_of_exactly_tau_stands_and_anything_more_falls(dtype: torch.dtype) -> None:
    scores = [0.0, 3.0, 2.0, 1.984375]  # all of them bfloat16 numbers
    assert judge(2, scores, beta=3, tolerance=1.0, dtype=dtype)
    assert not judge(3, scores, beta=3, tolerance=1.0, dtype=dtype)
    assert not judge(2, scores, beta=3, tolerance=0.9999, dtype=dtype)


def test_a_rank_of_exactly_beta_stands_and_the_next_falls() -> None:
    scores = [5.0, 4.75, 4.5, 4.25, -9.0]
    assert [judge(token, scores, beta=3, tolerance=10.0) for token in range(5)] == [True, True, True, False, False]
    assert [judge(token, scores, beta=4, tolerance=10.0) for token in range(5)] == [True, True, True, True, False]
    assert all(judge(token, scores, beta=5, tolerance=100.0) for token in range(5))
    assert all(judge(token, scores, beta=99, tolerance=100.0) for token in range(5))


def test_among_equals_the_lowest_id_ranks_first() -> None:
    scores = [1.0, 4.0, 4.0, 4.0, 2.0]
    assert [judge(token, scores, beta=2, tolerance=9.0) for token in range(5)] == [False, True, True, False, False]
    logits = torch.tensor([[scores, scores]])
    for draft, accepted in ((1, 1), (2, 0), (3, 0)):
        got = accept_exact(Tree(torch.tensor([[draft]])), logits)
        assert got.accepted.tolist() == [accepted]
        assert got.tokens[0, 0] == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("width", [5, 64, 400, 8000])
def test_the_best_token_is_the_lowest_of_equals_at_every_width(width: int, dtype: torch.dtype) -> None:
    logits = torch.zeros(3, 2, width, dtype=dtype)
    ids = [width // 3, width // 2, width - 1]
    logits[:, :, ids] = 7.0
    assert best_tokens(logits).tolist() == [[ids[0]] * 2] * 3


def test_leading_counts_up_to_the_first_failure() -> None:
    stands = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 0, 1], [0, 1, 1], [0, 0, 0]], dtype=torch.bool)
    assert leading(stands).tolist() == [3, 2, 1, 0, 0]
    assert leading(torch.ones(2, 0, dtype=torch.bool)).tolist() == [0, 0]


def test_the_verdict_is_the_accepted_drafts_and_then_the_verifiers_own_token() -> None:
    own = torch.tensor([[4, 5, 6], [4, 5, 6], [4, 5, 6]])
    logits = torch.nn.functional.one_hot(own, 8).float()
    drafts = torch.tensor([[4, 5], [4, 7], [7, 5]])
    accepted, tokens, *_ = accept_exact(Tree(drafts), logits)
    assert accepted.tolist() == [2, 1, 0]
    emitted = [row[: count + 1] for row, count in zip(tokens.tolist(), accepted.tolist(), strict=True)]
    assert emitted == [[4, 5, 6], [4, 5], [4]]


def test_a_tolerated_draft_stands_in_the_output_and_a_refused_one_gives_way() -> None:
    logits = torch.tensor([[[0.0, 2.0, 1.5], [3.0, 2.5, 0.0], [1.0, 0.0, 0.5]]])
    accepted, tokens, *_ = accept_tolerant(Tree(torch.tensor([[2, 2]])), logits, beta=2, tolerance=0.5)
    assert accepted.tolist() == [1]
    assert tokens[0, :2].tolist() == [2, 0]


def test_no_draft_gives_the_best_token() -> None:
    logits = torch.tensor([[[0.0, 2.0]], [[3.0, 2.0]]])
    nothing = torch.empty(2, 0, dtype=torch.int64)
    for accepted, tokens, *_ in (
        accept_exact(Tree(nothing), logits),
        accept_tolerant(Tree(nothing), logits, beta=3, tolerance=1.0),
    ):
        assert accepted.tolist() == [0, 0]
        assert tokens.tolist() == [[1], [0]]
