"""The drafter that copies: what it proposes, and that it never changes an output."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from specmt.decoding import trials
from specmt.decoding.batch import decode
from specmt.decoding.lookup import LookupDrafter, Plans, Texts, continuation, find_words
from specmt.decoding.memory import Neighbour, TranslationMemory
from specmt.decoding.plan import Fixed, Learning
from specmt.decoding.request import Request
from specmt.decoding.tree import Tree
from specmt.engine.backend import Drafting, EncoderOutput
from specmt.models.hub import Model, load_model
from specmt.options import DecodingOptions
from specmt.types import BOS, EOS, PAD, Stats

quick = settings(max_examples=100, deadline=None)
ids = st.lists(st.integers(0, 9), max_size=12)

UNSEEN = EncoderOutput(torch.zeros(0, 1), torch.zeros(0, dtype=torch.int64))
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


def always(block_size: int) -> Plans:
    return Plans(Fixed(block_size), Fixed(block_size))


def start(drafter: LookupDrafter, sources: dict[int, list[int]]) -> None:
    requests = [Request(row, source) for row, source in sources.items()]
    drafter.start(torch.tensor([*sources]), UNSEEN, requests)


def propose(drafter: LookupDrafter, *rows: list[int]) -> list[list[int]]:
    """Returns what is drafted after the committed tokens of each row, noise behind them."""
    width = max(map(len, rows)) + 2
    tokens = torch.tensor([[*row, *[13] * (width - len(row))] for row in rows])
    tree = drafter.propose(tokens, torch.tensor([len(row) for row in rows]))
    return drafts_of(tree, len(rows))


def drafts_of(tree: Tree, rows: int) -> list[list[int]]:
    assert tree.tokens.shape[0] == rows
    assert tree.tokens.dtype == torch.int64
    assert tree.parents is None and tree.log_probs is None
    width = tree.tokens.shape[1]
    counts = [width] * rows if tree.counts is None else tree.counts.tolist()
    assert max(counts) == width
    assert tree.counts is None or min(counts) < width
    for row, count in zip(tree.tokens.tolist(), counts, strict=True):
        assert row[count:] == [PAD] * (width - count)
    return [row[:count] for row, count in zip(tree.tokens.tolist(), counts, strict=True)]


def test_rows_start_propose_move_and_finish() -> None:
    memory = TranslationMemory()
    memory.add([10, 11, 12, 13], [20, 21, 22])
    drafter = LookupDrafter(memory, Letters(), always(3))  # type: ignore[arg-type]
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
    later = LookupDrafter(memory, Letters(), always(32))  # type: ignore[arg-type]
    start(later, {0: known})
    assert propose(later, [BOS]) == [[20, 29, EOS]]
    assert propose(later, [BOS, 20, 21]) == [[22, EOS]]


def total_of(stats: Sequence[Stats]) -> Stats:
    return sum(stats, Stats())


LOOKUP = DecodingOptions(drafter="lookup", block_size=32)


@pytest.mark.parametrize("batch_size", [1, 3, 33])
def test_output_is_that_of_greedy_decoding_and_a_memory_saves_calls(
    model: Model, sources: list[list[int]], batch_size: int
) -> None:
    options = DecodingOptions(drafter="lookup", block_size=32, batch_size=batch_size)
    greedy = decode(model, sources, DecodingOptions(strategy="greedy"))
    wanted = [hypothesis.tokens for hypothesis in greedy]
    memory = TranslationMemory()
    calls = []
    for _ in range(2):
        got = decode(model, sources, options, memory=memory)
        assert [hypothesis.tokens for hypothesis in got] == wanted
        for hypothesis, slow in zip(got, greedy, strict=True):
            stats = hypothesis.stats
            assert stats.tokens == slow.stats.tokens
            assert stats.verifier_calls <= slow.stats.verifier_calls
            assert stats.tokens - stats.accepted in (stats.verifier_calls, stats.verifier_calls - 1)
            assert stats.accepted <= stats.drafted
        calls.append(total_of([hypothesis.stats for hypothesis in got]).verifier_calls)
    assert 0 < memory.size <= len(sources)
    assert calls[1] < 0.2 * calls[0]


@pytest.mark.parametrize("kind", ["wrong", "shifted", "cut", "eos", "special"])
def test_hostile_memories_change_no_token(model: Model, sources: list[list[int]], kind: str) -> None:
    wanted = [hypothesis.tokens for hypothesis in decode(model, sources, DecodingOptions(strategy="greedy"))]
    hostile = {
        "wrong": lambda tokens: [token + 1 if token < 100 else token - 1 for token in tokens],
        "shifted": lambda tokens: tokens[1:] + tokens[:1],
        "cut": lambda tokens: tokens[: len(tokens) // 2],
        "eos": lambda tokens: [EOS, *tokens, EOS, EOS],
        "special": lambda tokens: [BOS, PAD, *tokens, BOS] * 20,
    }[kind]
    memory = TranslationMemory()
    for source, target in zip(sources, wanted, strict=True):
        memory.add(source, hostile(target))
    got = decode(model, sources, LOOKUP, memory=memory)
    assert [hypothesis.tokens for hypothesis in got] == wanted


class Asked(Learning):
    """Notes how often it was asked, and what it heard."""

    def __init__(self) -> None:
        super().__init__(8, worth=1.05)
        self.begun = 0
        self.asked: list[int] = []
        self.heard: list[int] = []

    def begin(self) -> None:
        self.begun += 1
        super().begin()

    def slots(self, rows: int) -> int:
        self.asked.append(rows)
        return super().slots(rows)

    def learn(self, rows: int, block_size: int, tokens: float, seconds: float) -> None:
        self.heard.append(block_size)
        super().learn(rows, block_size, tokens, seconds)


def test_sentences_like_others_are_learnt_about_apart() -> None:
    memory = TranslationMemory()
    memory.add([10, 11, 12, 13], [20, 21, 22])
    alike, unlike = Asked(), Asked()
    drafter = LookupDrafter(memory, Letters(), Plans(alike, unlike))  # type: ignore[arg-type]
    start(drafter, {0: [10, 11, 12, 13]})
    assert drafter.drafting(1) is None
    drafter.told(1, 1.0)
    assert (alike.asked, alike.heard) == ([1], [8])
    start(drafter, {1: [50, 51, 52], 2: [60, 61, 62]})
    assert drafter.drafting(2) is None  # half of them
    assert drafter.drafting(3) is None
    drafter.told(3, 1.0)
    assert (alike.asked, unlike.asked) == ([1, 2], [3])
    assert (alike.begun, unlike.begun) == (1, 1)


def test_nothing_to_copy_is_not_waited_for() -> None:
    """The engine goes on by itself, without drafts."""
    plans = Plans(Asked(), Asked())
    drafter = LookupDrafter(TranslationMemory(), Letters(), plans)  # type: ignore[arg-type]
    start(drafter, {0: [50, 51, 52]})
    assert drafter.drafting(1) == Drafting(0)
    drafter.told(1, 16.0)
    assert isinstance(plans.unlike, Asked)
    assert plans.unlike.heard == [0]
    assert drafter.propose(torch.tensor([[BOS]]), torch.tensor([1])).tokens.shape == (1, 0)


@pytest.mark.parametrize("batch_size", [1, 5])
def test_a_model_without_drafter_looks_up(
    tiny_model_without_drafter: Path, sources: list[list[int]], batch_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "TRIAL", math.inf)  # time decides about nothing
    bare = load_model(tiny_model_without_drafter, device="cpu", dtype="float32")
    greedy = decode(bare, sources, DecodingOptions(strategy="greedy"))
    memory = TranslationMemory()
    for source, hypothesis in zip(sources[::2], greedy[::2], strict=True):
        memory.add(source, hypothesis.tokens)
    got = decode(bare, sources, DecodingOptions(batch_size=batch_size), memory=memory)
    assert [hypothesis.tokens for hypothesis in got] == [hypothesis.tokens for hypothesis in greedy]
    calls, slow = (total_of([each.stats for each in found]).verifier_calls for found in (got, greedy))
    assert calls < 0.7 * slow
    assert {kind for _, (kind, _) in bare.plans} == {"alike", "unlike"}  # type: ignore[misc, attr-defined]
    assert bare.block_size(DecodingOptions()) is None
    assert bare.block_size(DecodingOptions(block_size=3)) == 3
