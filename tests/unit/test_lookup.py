"""The drafter that copies: what it proposes, and that it never changes an output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specmt.decoding.drafters.base import Arm, Plan
from specmt.decoding.drafters.lookup import LookupDrafter, Texts, continuation, find_words
from specmt.decoding.policy import FixedPolicy
from specmt.decoding.request import Request
from specmt.decoding.session import decode
from specmt.decoding.translation_memory import Neighbour, TranslationMemory
from specmt.decoding.tree import Tree
from specmt.engine.fused import Drafting, Ran
from specmt.models.hub import Model, load_model
from specmt.options import DecodingOptions, TreeName
from specmt.types import BOS, EOS, PAD
from tests.decoding_helpers import GREEDY, Sources, assert_same, total_of

quick = settings(max_examples=100, deadline=None)
ids = st.lists(st.integers(0, 9), max_size=12)

UNSEEN: Any = None
"""The encoder's output, and the verifier's caches: of no use to lookups."""

TARGET = [BOS, *range(10, 22), EOS]


def near(similarity: float, text: Sequence[int] = TARGET) -> Texts:
    return Texts([], [], [Neighbour(similarity, list(text))])


@pytest.mark.parametrize("length", range(1, 14))
def test_the_translation_of_an_equal_source_is_copied_to_its_end(length: int) -> None:
    assert continuation(TARGET[:length], near(1.0), 99) == TARGET[length:]
    assert continuation(TARGET[:length], near(1.0), 5) == TARGET[length : length + 5]


def test_after_an_edited_spot_copying_goes_on() -> None:
    for edited in ([BOS, 10, 11, 12, 90, 91, 92, 16], [BOS, 10, 11, 12, 90, 16], [BOS, 12, 13, 14, 15, 16]):
        draft = continuation(edited, near(0.8), 99)
        assert draft
        assert draft == TARGET[8 : 8 + len(draft)]
    assert continuation([BOS, 10, 11, 12, 90], near(0.8), 99) == []


def test_more_agreement_and_likeness_propose_more() -> None:
    lengths = [
        [len(continuation([BOS, 90, *TARGET[5 - count : 5]], near(similarity), 99)) for count in (1, 2, 4)]
        for similarity in (0.2, 0.5, 0.8)
    ]
    assert lengths == [[0, 0, 0], [1, 2, 4], [2, 5, 9]]


def test_the_beginning_is_proposed_if_the_source_is_near_enough() -> None:
    drafts = [continuation([BOS], near(similarity), 99) for similarity in (0.1, 0.4, 0.8, 1.0)]
    assert [len(draft) for draft in drafts] == [0, 1, 7, 13]
    assert all(draft == TARGET[1 : 1 + len(draft)] for draft in drafts)


def test_among_places_that_agree_as_far_the_closest_counts() -> None:
    text = [BOS, 5, 20, 5, 21, 5, 22, 5, 23, EOS]
    for place, follower in ((2, 20), (4, 21), (6, 22), (8, 23)):
        tokens = [*range(90, 90 + place - 1), 5]
        assert continuation(tokens, near(1.0, text), 1) == [follower]


def test_the_nearest_of_neighbours_that_agree_as_far_counts() -> None:
    one, other, third = ([BOS, 10, 11, number, EOS] for number in (1, 2, 3))
    texts = Texts([], [], [Neighbour(0.9, one), Neighbour(0.9, other), Neighbour(0.6, third)])
    assert continuation([BOS, 10, 11], texts, 1) == [1]
    assert continuation([BOS, 10, 11, 2], texts, 1) == [EOS]
    third[1:1] = [7, 8, 9]
    assert continuation([BOS, 7, 8, 9, 10, 11], texts, 1) == [3]


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ("▁Der ▁Server ▁läuft .", []),
        ("▁auf ▁http :// ex ample . org /a , ▁oder", [(1, 8, 4)]),
        ("▁( 20 2 4 ) .", [(0, 4, 4)]),
        ("▁S af e Hand le - Kla sse", [(0, 8, 4)]),
        ("▁H T ML ▁und ▁Ba um", [(0, 3, 4), (4, 6, 1)]),
        ("▁un gefähr ▁log _ dir / ▁3", [(2, 5, 4)]),
        ("a b", []),
        ("▁ , .", []),
        ("", []),
    ],
)
def test_words_that_translations_keep(pieces: str, words: list[tuple[int, int, int]]) -> None:
    assert find_words(pieces.split()) == words


def test_an_address_is_copied_from_the_source_and_nothing_else_is() -> None:
    text = "▁Siehe ▁http :// ex ample . org / a b , ▁die ▁Ge schichte , ▁die ▁An na ▁er zählt , ▁und"
    pieces = text.split()
    source = list(range(10, 10 + len(pieces)))
    source[pieces.index("▁die", 13)] = source[pieces.index("▁die")]
    for comma in (place for place, piece in enumerate(pieces) if piece == ","):
        source[comma] = 5
    texts = Texts(source, find_words(pieces), [])

    def propose(*tokens: int) -> list[int]:
        return continuation([BOS, *tokens], texts, 99)

    assert propose() == []
    assert propose(90, 11) == source[2:6]
    assert propose(90, 11, 12) == source[3:10]
    assert propose(90, 13) == []  # in the middle of the word one piece could be chance
    assert propose(90, 13, 14) == source[5:10]
    assert propose(90, 5) == propose(11, 12, 13, 14, 15, 16, 17, 18, 19) == []
    assert propose(90, source[11]) == propose(source[10], source[11]) == []
    assert propose(source[12]) == [source[13]]
    assert propose(source[18]) == []
    assert continuation([BOS, 11], texts, 2) == source[2:4]


def test_the_source_comes_before_the_translation_of_another_one_and_after_that_of_an_equal_one() -> None:
    source = [30, 31, 32, 33]
    old = [BOS, 10, 30, 31, 41, 42, EOS]
    words = find_words(["▁v", "3", ".", "2"])
    assert continuation([BOS, 10, 30, 31], Texts(source, words, [Neighbour(0.9, old)]), 99) == [32, 33]
    assert continuation([BOS, 10, 30, 31], Texts(source, words, [Neighbour(1.0, old)]), 99) == [41, 42, EOS]
    assert continuation([BOS, 10, 30], Texts([50], [], [Neighbour(0.9, old)]), 2) == [31, 41]


@quick
@given(
    ids.map(lambda tokens: [BOS, *tokens]),
    ids,
    st.lists(st.tuples(st.floats(0, 1), ids), max_size=4),
    st.lists(st.sampled_from(["▁a", "b", "▁C", "3", "/", "▁", "▁."]), min_size=12, max_size=12),
    st.integers(1, 6),
)
def test_any_texts_propose_a_part_of_themselves(
    tokens: list[int], source: list[int], pairs: list[tuple[float, list[int]]], pieces: list[str], block_size: int
) -> None:
    neighbours = [Neighbour(similarity, [BOS, *target, EOS]) for similarity, target in pairs]
    texts = Texts(source, find_words(pieces[: len(source)]), neighbours)
    before = repr(texts)
    draft = continuation(tokens, texts, block_size)
    assert len(draft) <= block_size
    follows = [tokens[-1], *draft]
    assert draft == [] or any(
        text[place : place + len(follows)] == follows
        for text in (source, *(neighbour.target for neighbour in neighbours))
        for place in range(len(text))
    )
    assert continuation(tokens, texts, block_size) == draft
    assert repr(texts) == before


class Letters:
    """Pieces that are words of their own."""

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [f"▁{token}" for token in ids]

    def to_target(self, ids: Sequence[int]) -> list[int]:
        return list(ids)


FAR = Plan(Arm(0, 32))


def lookup(memory: TranslationMemory) -> LookupDrafter:
    return LookupDrafter(memory, Letters())  # type: ignore[arg-type]


def start(drafter: LookupDrafter, sources: dict[int, list[int]]) -> None:
    requests = [Request(row, source) for row, source in sources.items()]
    drafter.start(UNSEEN, np.array([*sources]), UNSEEN, requests)


def propose(drafter: LookupDrafter, *rows: list[int], ahead: int = 3) -> list[list[int]]:
    """Returns what is drafted after the committed tokens of each row, noise behind them."""
    width = max(map(len, rows)) + 2
    tokens = np.array([[*row, *[13] * (width - len(row))] for row in rows])
    tree = drafter.propose(tokens, np.array([len(row) for row in rows]), Plan(Arm(0, ahead)))
    return drafts_of(tree, len(rows))


def drafts_of(tree: Tree, rows: int) -> list[list[int]]:
    assert tree.tokens.shape[0] == rows
    assert tree.tokens.dtype == tree.counts.dtype == np.int64
    assert tree.parents is None and tree.log_probs is None
    width, counts = tree.tokens.shape[1], tree.counts.tolist()
    assert max(counts) == width
    for row, count in zip(tree.tokens.tolist(), counts, strict=True):
        assert row[count:] == [PAD] * (width - count)
    return [row[:count] for row, count in zip(tree.tokens.tolist(), counts, strict=True)]


def test_rows_start_propose_move_and_finish() -> None:
    memory = TranslationMemory()
    memory.add([10, 11, 12, 13], [20, 21, 22])
    drafter = lookup(memory)
    known, other = [10, 11, 12, 13], [50, 51, 52, 53, 54]
    start(drafter, {0: other, 1: known})
    assert propose(drafter, [BOS]) == [[]]
    assert propose(drafter, [BOS], [BOS]) == [[], [20, 21, 22]]
    assert propose(drafter, [BOS, 60], [BOS, 20, 21]) == [[], [22, EOS]]
    drafter.finish(0, [60, 61])
    drafter.move(1, 0)
    assert propose(drafter, [BOS, 20, 21]) == [[22, EOS]]
    start(drafter, {1: other})
    assert propose(drafter, [BOS, 20], [BOS]) == [[21, 22, EOS], [60, 61, EOS]]
    assert propose(drafter, [BOS], [BOS, 60]) == [[20, 21, 22], [61, EOS]]
    drafter.finish(0, [20, 29])
    drafter.finish(1, [60, 61])
    assert memory.size == 3
    later = lookup(memory)
    start(later, {0: known})
    assert propose(later, [BOS], ahead=32) == [[20, 29, EOS]]
    assert propose(later, [BOS, 20, 21], ahead=32) == [[22, EOS]]


LOOKUP = DecodingOptions(drafter="lookup", block_size=32)


@pytest.mark.parametrize("batch_size", [1, 3, 33])
def test_output_is_that_of_greedy_decoding_and_a_memory_saves_calls(
    model: Model, sources: Sources, batch_size: int
) -> None:
    options = replace(LOOKUP, batch_size=batch_size)
    greedy = decode(model, sources, GREEDY)
    memory = TranslationMemory()
    calls = []
    for _ in range(2):
        got = decode(model, sources, options, memory=memory)
        assert_same(got, greedy)
        calls.append(total_of(got).verifier_calls)
    assert 0 < memory.size <= len(sources)
    assert calls[1] < 0.2 * calls[0]


@pytest.mark.parametrize("kind", ["wrong", "shifted", "cut", "eos", "special"])
def test_hostile_memories_change_no_token(model: Model, sources: Sources, kind: str) -> None:
    greedy = decode(model, sources, GREEDY)
    hostile = {
        "wrong": lambda tokens: [token + 1 if token < 100 else token - 1 for token in tokens],
        "shifted": lambda tokens: tokens[1:] + tokens[:1],
        "cut": lambda tokens: tokens[: len(tokens) // 2],
        "eos": lambda tokens: [EOS, *tokens, EOS, EOS],
        "special": lambda tokens: [BOS, PAD, *tokens, BOS] * 20,
    }[kind]
    memory = TranslationMemory()
    for source, hypothesis in zip(sources, greedy, strict=True):
        memory.add(source, hostile(hypothesis.tokens))
    assert_same(decode(model, sources, LOOKUP, memory=memory), greedy)


def test_sentences_like_others_are_told_from_others() -> None:
    memory = TranslationMemory()
    memory.add([10, 11, 12, 13], [20, 21, 22])
    drafter = lookup(memory)
    start(drafter, {0: [10, 11, 12, 13], 1: [50, 51, 52], 2: [60, 61, 62]})
    assert [drafter.is_promising(rows) for rows in (1, 2, 3)] == [True, True, False]  # half of them
    drafter.move(2, 0)
    assert not drafter.is_promising(1)


def test_nothing_to_copy_is_not_waited_for() -> None:
    """The engine goes on by itself, without drafts."""
    memory = TranslationMemory()
    memory.add([10, 11, 12, 13], [20, 21, 22])
    drafter = lookup(memory)
    start(drafter, {0: [50, 51, 52], 1: [10, 11, 12, 13]})
    assert drafter.fused(1, FAR) == Drafting(0)
    assert drafter.fused(2, FAR) is None
    assert drafter.propose(np.array([[BOS]]), np.array([1]), FAR).tokens.shape == (1, 0)


@pytest.mark.parametrize("batch_size", [1, 5])
def test_a_model_without_drafter_looks_up(
    tiny_model_without_drafter: Path, sources: Sources, batch_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = load_model(tiny_model_without_drafter, device="cpu", dtype="float32")
    greedy = decode(bare, sources, GREEDY)
    memory = TranslationMemory()
    for source, hypothesis in zip(sources[::2], greedy[::2], strict=True):
        memory.add(source, hypothesis.tokens)
    heard: set[bool] = set()

    class Eager(FixedPolicy):  # type: ignore[misc]
        """Time decides about nothing."""

        def choose(self, rows: int, promising: bool, waiting: int = 0) -> Plan:
            heard.add(promising)
            return self.plans[0]

    monkeypatch.setattr("specmt.decoding.session.make_policy", lambda *_: Eager(Arm(0, 32)))
    got = decode(bare, sources, DecodingOptions(batch_size=batch_size), memory=memory)
    assert_same(got, greedy)
    assert total_of(got).verifier_calls < 0.7 * total_of(greedy).verifier_calls
    assert heard == {False, True}


@pytest.mark.parametrize("batch_size", [1, 3, 33])
@pytest.mark.parametrize("tree", ["chain", "best-first"])
def test_a_fixed_block_is_looked_up_where_that_is_promising_and_drafted_elsewhere(
    model: Model, sources: Sources, tree: TreeName, batch_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    greedy = decode(model, sources, GREEDY)
    memory = TranslationMemory()
    for source, hypothesis in zip(sources[::2], greedy[::2], strict=True):
        memory.add(source, hypothesis.tokens)
    played: set[tuple[bool, Arm]] = set()

    def observe(_: FixedPolicy, plan: Plan, ran: Ran, seconds: float) -> None:
        played.add((plan.promising, plan.arm))

    monkeypatch.setattr(FixedPolicy, "observe", observe)
    both = DecodingOptions(drafter="masked+lookup", tree=tree, block_size=4, batch_size=batch_size)
    got = decode(model, sources, both, memory=memory)
    assert_same(got, greedy)
    assert {(promising, arm[:2]) for promising, arm in played} == {(False, (0, 4)), (True, (1, 4))}
    masked = decode(model, sources, replace(both, drafter="masked"))
    assert total_of(got).verifier_calls < total_of(masked).verifier_calls < total_of(greedy).verifier_calls
