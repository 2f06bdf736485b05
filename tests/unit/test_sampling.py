"""Sampling: what comes out is distributed as ancestral samples of the verifier are (DESIGN §2.2, §2.3, §9.7).

Random numbers are a function of the line, among others, so that many lines are many independent samples, and every
test says the same each time.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from specmt.decoding import rows as rows_module
from specmt.decoding import sample, stochastic_beam
from specmt.decoding.accept import Acceptor
from specmt.decoding.drafters import Drafter, make_drafter
from specmt.decoding.drafters.autoregressive import AutoregressiveDrafter
from specmt.decoding.drafters.base import Arm
from specmt.decoding.drafters.masked import MaskedDrafter
from specmt.decoding.loop import Loop
from specmt.decoding.noise import Role, Spot, generator
from specmt.decoding.policy import FixedPolicy
from specmt.decoding.request import Request
from specmt.decoding.sample import Rejection, Sampling, pick, residual
from specmt.decoding.session import decode, make_acceptor
from specmt.decoding.stochastic_beam import perturb, sampled_tree
from specmt.decoding.tree import Tree, chains
from specmt.engine.architecture import NO_PREFIXES, Sizes
from specmt.engine.arrays import Ids
from specmt.engine.cache import Cache, State
from specmt.engine.protocols import EncoderOutput, Verifier
from specmt.engine.threads import use_threads
from specmt.engine.window import Window
from specmt.models.hub import Model
from specmt.options import DecodingOptions
from specmt.translator import Translator
from specmt.types import BOS, EOS
from tests.decoding_helpers import (
    PLENTY,
    ArrayLogits,
    Hypotheses,
    Sources,
    assert_counts,
    load_on,
    log_softmax,
    run_loop,
    stats_of,
    tokens_of,
    total_of,
)

Floats = npt.NDArray[np.float64]

PLAIN = Sampling(1.0, None, seed=7)
LINES = 1000
FEW = LINES // 2
SIZE = 4
"""Samples of a test, those of one that asks what others do of other inputs, and the vocabulary of their tokens."""


# What samples must be like


def misfit(samples: Sequence[Sequence[int]], wanted: Floats) -> float:
    """Returns the worst of the chi-square statistics of every position's tokens and of all together.

    In units of the critical value: fair samplers are above 1 once in 30,000 times; a token that cannot be is infinite.

    :param wanted: (V, V, …) the probability of each sequence
    """
    counts = np.zeros(wanted.shape)
    np.add.at(counts, tuple(np.array(samples).T), 1)
    everything = tuple(range(wanted.ndim))
    rests = [everything[:axis] + everything[axis + 1 :] for axis in everything]
    return max(_misfit(counts.sum(rest), wanted.sum(rest)) for rest in {*rests, ()})


def _misfit(counts: Floats, wanted: Floats) -> float:
    counts, expected = counts.ravel(), wanted.ravel() * counts.sum()
    if counts[expected == 0.0].any():
        return math.inf
    rare = expected < 5.0
    pooled = [(counts[rare].sum(), expected[rare].sum())] if rare.any() else []
    cells = np.array([*zip(counts[~rare], expected[~rare], strict=True), *pooled])
    cells = cells[cells[:, 1] > 0.0]
    freedom = len(cells) - 1
    if freedom == 0:
        return 0.0
    statistic = ((cells[:, 0] - cells[:, 1]) ** 2 / cells[:, 1]).sum()
    # Wilson and Hilferty: the cube root is nearly normal. Four standard deviations.
    spread = 2 / (9 * freedom)
    return float(statistic / (freedom * (1 - spread + 4 * math.sqrt(spread)) ** 3))


def sequences(table: Floats, length: int = 2) -> Floats:
    """Returns the probabilities (V, V, …) of sequences, given those of tokens (V, V) after each token; 0 is first."""
    joint = table[0]
    for _ in range(length - 1):
        joint = joint[..., None] * table
    return joint


def test_the_statistic_knows_fair_samples_from_others() -> None:
    wanted = sequences(VERIFIER)
    cells = np.random.default_rng(3).choice(wanted.size, p=wanted.ravel(), size=(20, LINES))
    fair = [misfit(np.stack(np.unravel_index(each, wanted.shape), 1).tolist(), wanted) for each in cells]
    assert min(fair) > 0.05
    assert max(fair) < 1.0
    # A dependence that no marginal shows.
    independent = [[cell % 2, cell // 2 % 2] for cell in range(LINES)]
    assert misfit(independent, np.full((2, 2), 0.25)) == 0.0
    assert misfit([[cell % 2, cell % 2] for cell in range(LINES)], np.full((2, 2), 0.25)) > 10.0
    assert misfit([[0], [1]], np.array([1.0, 0.0])) == math.inf


# Trees and acceptor alone, on distributions given by hand: what follows a token depends on that token


def rolled(*row: float) -> Floats:
    """Returns a table of the same probabilities, each time for other tokens."""
    table = np.array([np.roll(row, shift) for shift in range(SIZE)])
    return table / table.sum(1, keepdims=True)


def logs(table: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(table)


# A pair of tables for which every mutant below is far off, even with few samples.
UNLIKE = rolled(0.02, 0.07, 0.81, 0.10)
VERIFIER = rolled(0.15, 0.14, 0.17, 0.54)

TABLES = {
    "equal": (VERIFIER, VERIFIER),
    "disjoint": (rolled(0.3, 0.7, 0.0, 0.0), rolled(0.0, 0.0, 0.4, 0.6)),
    "the drafter has zeros": (rolled(0.0, 0.2, 0.0, 0.8), VERIFIER),
    "the verifier has zeros": (UNLIKE, rolled(0.3, 0.0, 0.0, 0.7)),
    "both have zeros": (rolled(0.0, 0.5, 0.5, 0.0), rolled(0.0, 0.2, 0.0, 0.8)),
    "a sharp drafter": (rolled(1.0, 1e-3, 1e-150, 1e-300), VERIFIER),
    "a sharp verifier": (UNLIKE, rolled(1.0, 1e-3, 1e-150, 1e-300)),
}


class Table:
    """A drafter that goes by a table; its candidates come best first, as a network's do."""

    def __init__(self, table: Floats) -> None:
        self.table = logs(table)

    def expand(self, tokens: Ids, parents: Ids) -> tuple[Ids, Any]:
        scores = self.table[tokens]
        best = np.argsort(-scores, axis=2, kind="stable")
        return best, np.take_along_axis(scores, best, 2)


def draw(
    drafter: Floats,
    verifier: Floats,
    *,
    width: int,
    depth: int,
    how: Sampling = PLAIN,
    lines: int = LINES,
    length: int = 2,
    judged: Callable[[Tree], Tree] = lambda tree: tree,
) -> list[list[int]]:
    """Returns sequences of a length, one for each line, as the loop would make them.

    :param judged: changes trees before they are judged
    """
    table = logs(verifier)
    outputs: list[list[int]] = [[0] for _ in range(lines)]
    while unfinished := [line for line, output in enumerate(outputs) if len(output) <= length]:
        spots = [Spot(line, 0, len(outputs[line])) for line in unfinished]
        last = np.array([outputs[line][-1] for line in unfinished])
        tree = judged(sampled_tree(Table(drafter), last, spots, how, width=width, depth=depth))
        logits = ArrayLogits(table[np.column_stack([last, tree.tokens])])
        found = Rejection(how).accept(tree, logits, spots)
        for line, tokens, count in zip(unfinished, found.tokens.tolist(), found.counts.tolist(), strict=True):
            outputs[line] += tokens[: count + 1]
    return [output[1 : length + 1] for output in outputs]


@pytest.mark.parametrize(("width", "depth"), [(1, 1), (1, 4), (2, 2), (2, 3), (3, 2), (3, 3), (4, 1), (4, 4)])
def test_samples_are_those_of_the_verifier(width: int, depth: int) -> None:
    assert misfit(draw(UNLIKE, VERIFIER, width=width, depth=depth), sequences(VERIFIER)) < 1.0


@pytest.mark.parametrize("width", [1, 7])
@pytest.mark.parametrize("name", TABLES)
def test_whatever_the_drafter_says(name: str, width: int) -> None:
    """Siblings of probability zero on either side, and more paths than tokens."""
    drafter, verifier = TABLES[name]
    assert misfit(draw(drafter, verifier, width=width, depth=2, lines=FEW), sequences(verifier)) < 1.0


@pytest.mark.parametrize(
    ("temperature", "top_k", "width"), [(0.5, None, 1), (3.0, None, 3), (1.0, 2, 2), (2.0, 3, 3), (1.0, 9, 2)]
)
def test_temperature_and_top_k(temperature: float, top_k: int | None, width: int) -> None:
    wanted = VERIFIER ** (1 / temperature)
    if top_k is not None:
        wanted = wanted * (wanted >= np.sort(wanted, axis=1)[:, [-min(top_k, SIZE)]])
    wanted /= wanted.sum(1, keepdims=True)
    how = Sampling(temperature, top_k, seed=3)
    assert misfit(draw(UNLIKE, VERIFIER, width=width, depth=2, how=how, lines=FEW), sequences(wanted)) < 1.0


@pytest.mark.parametrize("width", [2, 3])
def test_what_is_left_of_a_drafter_may_be_less_than_any_number(width: int) -> None:
    """At a low temperature the second sibling has a probability of e^−800, and of 0.88 once the first is gone."""
    drafter, verifier = (np.exp([row] * SIZE) for row in ([0.0, -8.0, -8.02, -50.0], [-20.0, -0.005, 0.0, -50.0]))
    wanted = np.array([0.0, math.exp(-0.5), 1.0, 0.0]) / (math.exp(-0.5) + 1.0)
    how = Sampling(0.01, None, seed=5)
    assert misfit(draw(drafter, verifier, width=width, depth=2, how=how), sequences(np.tile(wanted, (SIZE, 1)))) < 1.0


def test_equal_distributions_accept_everything() -> None:
    trees = []
    for how in (PLAIN, Sampling(0.7, 3, seed=2)):
        draw(VERIFIER, VERIFIER, width=3, depth=4, how=how, lines=50, length=5, judged=lambda t: trees.append(t) or t)
    assert [len(tree.tokens) for tree in trees] == [50, 50]  # once for all five tokens of a line


@pytest.mark.parametrize("chain", [True, False])
def test_drafts_that_were_not_drawn_are_certain(chain: bool) -> None:
    """A chain, and a tree with two siblings: samples are fair whatever is drafted, and however."""

    def certain(tree: Tree) -> Tree:
        rows = len(tree.tokens), 1
        if chain:
            return chains(np.tile([2, 3], rows))
        return Tree(np.tile([2, 1, 3], rows), np.full(rows[0], 3), np.tile([0, 0, 2], rows))

    assert misfit(draw(UNLIKE, VERIFIER, width=1, depth=1, judged=certain), sequences(VERIFIER)) < 1.0


MUTANTS: dict[str, tuple[str, Callable[..., Any], list[int]]] = {
    # Alone, a residual is only drawn from, and that does not need the sum to be 1.
    "the residual is not normalised": ("residual", lambda q, ids, p: unnormalised(q, ids, p), [3]),
    "the residual is ignored": ("residual", lambda q, ids, p: q, [1, 3]),
    "p is not normalised": ("without", lambda log_probs, drawn: np.where(drawn, -np.inf, log_probs), [3]),
    "p keeps the sibling": ("without", lambda log_probs, drawn: log_probs, [3]),
    "siblings in the wrong order": ("children", lambda tree, row: backwards(CHILDREN(tree, row)), [3]),
    "accepted with p / q": ("accepts", lambda p, q, uniform: uniform * q < p, [1, 3]),
    "always accepted": ("accepts", lambda p, q, uniform: True, [1, 3]),
    "never accepted": ("accepts", lambda p, q, uniform: False, [1, 3]),
    "one number for all positions": (
        "generator",
        lambda seed, spot, role: generator(seed, spot._replace(position=0), role),
        [1, 3],
    ),
    "one number for draft and acceptance": (
        "generator",
        lambda seed, spot, role: generator(seed, spot, Role.DRAFT),
        [1, 3],
    ),
}

CHILDREN = Tree.children


def unnormalised(verifier: Floats, ids: npt.NDArray[np.int64], drafter: Floats) -> Floats:
    left = verifier.copy()
    left[ids] = np.maximum(left[ids] - drafter, 0.0)
    return left if left.any() else verifier


def backwards(children: dict[int, list[tuple[int, int]]]) -> dict[int, list[tuple[int, int]]]:
    return {place: siblings[::-1] for place, siblings in children.items()}


@pytest.mark.parametrize(
    ("mutant", "width"), [(name, width) for name, (_, _, widths) in MUTANTS.items() for width in widths]
)
def test_mutants_are_caught(mutant: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    name, change, _ = MUTANTS[mutant]
    for owner in (sample, stochastic_beam, Tree):
        if hasattr(owner, name):
            monkeypatch.setattr(owner, name, change)
    assert misfit(draw(UNLIKE, VERIFIER, width=width, depth=2), sequences(VERIFIER)) > 1.5


# The whole loop, on networks that go by tables


@dataclass(frozen=True)
class Encoded:
    """Encoder output of which nothing is known but lengths."""

    lengths: Ids
    shortlists: Sequence[Ids] | None = None

    def pick(self, numbers: Sequence[int]) -> Encoded:
        return Encoded(self.lengths[list(numbers)])

    def listed(self, shortlists: Sequence[Ids] | None) -> Encoded:
        return replace(self, shortlists=shortlists)


class FakeNetwork:
    """A decoder whose distributions depend on the last token alone; as a drafter, masked or autoregressive."""

    sizes = Sizes(heads=1, encoder_layers=0, decoder_layers=1, max_length=64)
    prefixes = NO_PREFIXES

    def __init__(self, table: Floats) -> None:
        self.table = table

    def new_state(self, rows: int) -> State:
        return State(Cache(1, rows, 1, 1, np.zeros), Cache(1, rows, 1, 1, np.zeros), np.ones(rows, dtype=np.int64))

    def encode(self, sources: Sequence[Sequence[int]]) -> EncoderOutput:
        return Encoded(np.array([len(source) + 1 for source in sources]))

    def start(self, state: State, rows: Ids, encoded: EncoderOutput) -> None:
        state.sources[rows] = encoded.lengths

    def score(self, window: Window, state: State) -> ArrayLogits:
        return ArrayLogits(logs(self.table)[window.tokens])

    def expander(self, read: Window, ahead: int, state: State) -> Table:
        return Table(self.table)

    def chain(self, read: Window, ahead: int, state: State) -> tuple[Ids, Any]:
        raise AssertionError("samples are drawn from expanders")

    def attention(self, *_: object) -> Any:
        raise AssertionError("nobody asked for alignments")


def after_specials(table: Floats) -> Floats:
    """Returns a table of SIZE tokens more, none of which PAD, UNK or BOS ever is."""
    whole = np.zeros((SIZE + 3, SIZE + 3))
    whole[:, EOS:] = table[np.maximum(np.arange(SIZE + 3) - EOS, 0)]
    return whole


LIMIT = 4


def sampled_lines(
    verifier: Verifier, drafter: Drafter, block: int, acceptor: Acceptor, source: list[int], width: int
) -> Hypotheses:
    """Returns a sample for each of many lines, all of the same source."""
    policy = FixedPolicy(Arm(0, block, width))
    loop = Loop(verifier, [drafter], policy, acceptor, capacity=FEW, max_source_tokens=PLENTY, scores=True)
    return run_loop(loop, [Request(line, source, line) for line in range(FEW)])


@pytest.mark.parametrize(("width", "block"), [(1, 1), (1, 4), (3, 2)])
@pytest.mark.parametrize("kind", ["masked", "autoregressive"])
def test_whole_outputs_of_the_loop(kind: str, width: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """EOS within drafts and as the verifier's own token, and the limit within a draft."""
    monkeypatch.setattr(rows_module, "target_limit", lambda source_length, max_length: LIMIT)
    verifier, drafter = (FakeNetwork(after_specials(table)) for table in (VERIFIER, UNLIKE))
    drafters = {"masked": MaskedDrafter, "autoregressive": AutoregressiveDrafter}
    proposer = drafters[kind](lambda: drafter, FEW, sampling=PLAIN)
    found = sampled_lines(verifier, proposer, block, Rejection(PLAIN), [5], width)
    outputs = [[*each.tokens, *[EOS] * (LIMIT - len(each.tokens))] for each in found]
    # What follows EOS is EOS.
    table = after_specials(VERIFIER)
    going_on = table.copy()
    going_on[EOS] = np.eye(SIZE + 3)[EOS]
    wanted = np.einsum("a,ab,bc,cd->abcd", table[BOS], *[going_on] * (LIMIT - 1))
    assert misfit(outputs, wanted) < 1.0
    for hypothesis in found:
        assert_counts(hypothesis)
        said = [BOS, *hypothesis.tokens, *[EOS] * (len(hypothesis.tokens) < LIMIT)]
        assert hypothesis.stats.tokens == len(said) - 1
        assert hypothesis.score == pytest.approx(logs(table)[said[:-1], said[1:]].sum(), abs=1e-5)
    assert total_of(found).accepted > 0


# Stochastic beam search


def first_leaves(lines: int) -> list[list[int]]:
    """Returns the leaves of two levels, as numbers, in the order of the tree's last level."""
    spots = [Spot(line, 0, 1) for line in range(lines)]
    tree = sampled_tree(Table(UNLIKE), np.zeros(lines, dtype=np.int64), spots, PLAIN, width=3, depth=2)
    found = []
    for row in range(lines):
        nodes = tree.nodes(row)
        assert len(nodes) == 6
        leaves = [SIZE * nodes[leaf.parent - 1].token + leaf.token for leaf in nodes[3:]]
        assert len(set(leaves)) == 3
        found.append(leaves)
    return found


def test_the_first_leaves_are_a_draw_without_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of two levels are in order what comes of perturbing every leaf by itself (Kool et al. 2019)."""
    probs = sequences(UNLIKE).ravel()
    pairs = probs[:, None] * probs / (1.0 - probs[:, None])
    np.fill_diagonal(pairs, 0.0)
    third = np.zeros(len(probs))
    for first, second in zip(*np.nonzero(pairs), strict=True):
        others = probs.copy()
        others[[first, second]] = 0.0
        third += pairs[first, second] * others / others.sum()

    def off(found: list[list[int]]) -> float:
        return max(misfit([leaves[:2] for leaves in found], pairs), misfit([leaves[2:] for leaves in found], third))

    noise = np.random.default_rng(1).gumbel(size=(LINES, len(probs)))
    assert off(np.argsort(-(np.log(probs) + noise), axis=1)[:, :3].tolist()) < 1.0
    found = first_leaves(LINES)
    assert off(found) < 1.0
    assert off([leaves[::-1] for leaves in found]) > 1.5
    # Children that know nothing of what their parent drew.
    monkeypatch.setattr(stochastic_beam, "perturb", lambda scores, noise, parents: scores + noise)
    assert off(first_leaves(2 * LINES)) > 1.5


@pytest.mark.parametrize("parent", [0.0, -3.0, -600.0, -700.0, 5.0])
def test_perturb_is_stable_for_the_smallest_probabilities(parent: float) -> None:
    """Compared with the formula in arithmetic of 450 digits."""
    draws = np.random.default_rng(4)
    probs = np.array([0.5, 0.1, 1e-3, 1e-17, 1e-100, 1e-200, 1e-300, 1e-308, 0.0])
    scores = logs(probs)[None] + (parent if parent < -100.0 else 0.0)
    for _ in range(5):
        noise = draws.gumbel(size=(1, len(probs)))
        found = perturb(scores, noise, np.array([parent]))[0]
        assert found[-1] == -math.inf
        assert np.isfinite(found[:-1]).all()
        assert found.max() == parent
        with localcontext() as context:
            context.prec = 450
            free = [Decimal(value) for value in (scores + noise)[0, :-1].tolist()]
            base = (-Decimal(parent)).exp() - (-max(free)).exp()
            wanted = [float(-(base + (-each).exp()).ln()) for each in free]
        np.testing.assert_allclose(found[:-1], wanted, rtol=1e-12, atol=1e-12)
        # What is close to the greatest stays close to it, and in order.
        assert np.array_equal(np.argsort(found[:-1], kind="stable"), np.argsort(free, kind="stable"))


def test_perturb_of_near_ties_and_of_nothing() -> None:
    gaps = np.array([0.0, 1e-15, 1e-12, 1e-9, 1e-6])
    found = perturb(-gaps[None], np.zeros((1, 5)), np.zeros(1))[0]
    np.testing.assert_allclose(found, -gaps, rtol=1e-9)  # −log(e^0 − e^0 + e^g)
    nothing = perturb(np.full((2, 3), -np.inf), np.zeros((2, 3)), np.array([0.0, -np.inf]))
    assert np.isneginf(nothing).all()
    orphans = perturb(np.zeros((1, 3)), np.zeros((1, 3)), np.array([-np.inf]))
    assert np.isneginf(orphans).all()


# The tiny model


@pytest.fixture(
    scope="module", params=["kernels-float32 tiny_model", "pytorch-float32 tiny_model", "kernels-float32 ssru_model"]
)
def model(request: pytest.FixtureRequest) -> Model:
    backend, name = request.param.split()
    return load_on(backend, request.getfixturevalue(name), request)


CHAIN = DecodingOptions(temperature=1.0, block_size=4, batch_size=64)
SAMPLED = replace(CHAIN, tree="sampled", width=3)
ANCESTRAL = replace(CHAIN, strategy="greedy")
TEMPERATURE = 0.6
WAYS = {
    "chain": CHAIN,
    "sampled": SAMPLED,
    "autoregressive": replace(SAMPLED, drafter="autoregressive"),
    "ancestral": ANCESTRAL,
}


@pytest.mark.crossed("model", "options")
@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_a_sample_depends_on_its_line_alone(model: Model, sources: Sources, options: DecodingOptions) -> None:
    """Not on the batch, the order, the threads or the other lines."""
    some = sources[11 : 19 if model.backend.name == "kernels" else 16]  # PyTorch takes many times as long
    places = [(3 * number, number % 4) for number in range(len(some))]
    wanted = decode(model, some, replace(options, batch_size=1), places=places)
    assert len({tuple(tokens) for tokens in tokens_of(wanted)}) == len(some)
    for batch_size in (2, 5, 33) if model.backend.name == "kernels" else (3,):
        order = random.Random(batch_size).sample(range(len(some)), len(some))
        got = decode(
            model,
            [some[number] for number in order],
            replace(options, batch_size=batch_size),
            places=[places[number] for number in order],
        )
        assert tokens_of(got) == [wanted[number].tokens for number in order]
        assert stats_of(got) == [wanted[number].stats for number in order]
    for threads in (2, 3):
        use_threads(threads)
        if model.backend.name == "torch":
            sys.modules["torch"].set_num_threads(threads)
        assert tokens_of(decode(model, some[1:2], options, places=places[1:2])) == tokens_of(wanted[1:2])


@pytest.mark.crossed("model", "options")
@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_samples_differ_between_seeds_lines_and_parts(model: Model, options: DecodingOptions) -> None:
    source = [9, 80, 300, 41, 17, 250]
    places = [(line, part) for line in (0, 1, 2**40) for part in (0, 1, 7)]
    outputs = [
        tuple(hypothesis.tokens)
        for seed in (0, 1, 2**64 - 1)
        for hypothesis in decode(model, [source] * len(places), replace(options, seed=seed), places=places)
    ]
    assert len(set(outputs)) == len(outputs) == 27
    again = decode(model, [source] * len(places), replace(options, seed=2**64 - 1), places=places)
    assert tokens_of(again) == [list(output) for output in outputs[-9:]]


def test_random_numbers_are_for_one_thing_each() -> None:
    keys = [(seed, line, part, at) for seed in (0, 2**64 - 1) for line in (0, 9) for part in (0, 9) for at in (1, 2, 9)]
    drawn = [
        tuple(generator(seed, Spot(line, part, position), role).random(4).tolist())
        for seed, line, part, position in keys
        for role in Role
    ]
    assert len({number for numbers in drawn for number in numbers}) == 4 * len(drawn)
    assert drawn[0] == tuple(generator(0, Spot(0, 0, 1), Role.DRAFT).random(4).tolist())


def test_how_a_file_is_read_changes_no_sample(model: Model) -> None:
    """Equal lines differ, and lines that are read a few at a time come out the same."""
    lines = ["Ein Haus.", "", "Ein Haus.", "Zwei Hunde.\tEin Haus.", "Ein Haus."]
    texts = [
        [
            each.text
            for each in Translator(model).translate(
                lines, replace(CHAIN, batch_size=size, keep_numbers=False, protect=False)
            )
        ]
        for size in (1, 2, 8)
    ]
    assert texts[0] == texts[1] == texts[2]
    assert len({texts[0][number] for number in (0, 2, 4)}) == 3
    assert texts[0][1] == ""


@pytest.mark.crossed("model", "temperature", "tree")
@pytest.mark.parametrize(("temperature", "top_k"), [(1e-4, None), (5e-324, None), (1.0, 1), (30.0, 1)])
@pytest.mark.parametrize("tree", ["chain", "sampled"])
def test_the_least_of_chance_is_greedy(
    model: Model, sources: Sources, tree: str, temperature: float, top_k: int | None
) -> None:
    some = sources[11 : 30 if model.backend.name == "kernels" else 16]
    greedy = decode(model, some, DecodingOptions(strategy="greedy"))
    got = decode(model, some, replace(WAYS[tree], temperature=temperature, top_k=top_k))
    assert tokens_of(got) == tokens_of(greedy)
    assert total_of(got).accepted > 0


def first_tokens(model: Model, source: list[int], temperature: float) -> Floats:
    """Returns the probabilities (V, V) of the first two tokens."""
    vocabulary = int(model.folder.verifier.vocab_size)
    state = model.verifier.new_state(vocabulary)
    memory = model.verifier.encode([source] * vocabulary)
    model.verifier.start(state, np.arange(vocabulary), memory)
    window = np.column_stack([np.full(vocabulary, BOS), np.arange(vocabulary)])
    logits = model.verifier.score(Window(window, np.zeros(vocabulary, dtype=np.int64)), state)
    first, second = logits.row(0, 0), np.stack([logits.row(row, 1) for row in range(vocabulary)])
    log_probs = [log_softmax(each.astype(np.float64) / temperature) for each in (first, second)]
    joint: Floats = np.exp(log_probs[0][:, None] + log_probs[1])
    return joint


@pytest.mark.crossed("model", "kind", "width")
@pytest.mark.parametrize("kind", ["masked", "autoregressive"])
@pytest.mark.parametrize("width", [1, 4])
def test_the_first_tokens_of_a_model(model: Model, kind: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "target_limit", lambda source_length, max_length: 2)
    source = [9, 80, 300]
    options = replace(SAMPLED, drafter=kind, width=width, temperature=TEMPERATURE, block_size=2)

    def samples() -> Hypotheses:
        drafter = make_drafter(kind, model, FEW, options)
        return sampled_lines(model.verifier, drafter, 2, make_acceptor(options), source, width)

    def off(found: Hypotheses) -> float:
        return misfit([[*each.tokens, EOS, EOS][:2] for each in found], wanted)

    wanted = first_tokens(model, source, TEMPERATURE)
    wanted[EOS] = np.eye(len(wanted))[EOS] * wanted[EOS].sum()
    found = samples()
    assert off(found) < 1.0
    assert 0.1 < total_of(found).accepted / total_of(found).verifier_calls < 1.9
    if width == 1:
        monkeypatch.setattr(sample, "accepts", lambda p, q, uniform: True)
        assert off(samples()) > 1.5


# The parts alone


def test_pick_takes_the_token_whose_part_of_the_interval_it_is() -> None:
    probs = np.array([0.0, 0.25, 0.0, 0.5, 0.25, 0.0])
    uniforms = [0.0, 0.2499, 0.25, 0.7499, 0.75, math.nextafter(1.0, 0.0)]
    assert [pick(probs, uniform) for uniform in uniforms] == [1, 1, 3, 3, 4, 4]
    # Whatever the sum is, and where rounding leads past the last.
    assert [pick(probs * 1e-200, uniform) for uniform in uniforms] == [1, 1, 3, 3, 4, 4]
    assert pick(np.array([0.1] * 10 + [0.0]), 1.0) == 9


def test_the_residual_of_hand_written_probabilities() -> None:
    verifier = np.array([0.5, 0.3, 0.2, 0.0])
    ids = np.array([3, 0])
    np.testing.assert_allclose(residual(verifier, ids, np.array([0.7, 0.3])), [0.2 / 0.7, 0.3 / 0.7, 0.2 / 0.7, 0.0])
    everything = np.array([0, 1, 2])
    assert np.array_equal(residual(verifier, everything, verifier[:3]), verifier)
    assert verifier.tolist() == [0.5, 0.3, 0.2, 0.0]


@pytest.mark.parametrize(("top_k", "kept"), [(1, [1]), (2, [1, 3]), (3, [1, 2, 3]), (4, [0, 1, 2, 3]), (9, range(6))])
def test_top_k_keeps_the_lower_ids_of_equals(top_k: int, kept: Sequence[int]) -> None:
    scores = np.array([1.0, 3.0, 2.0, 3.0, 1.0, -math.inf])
    changed = Sampling(1.0, top_k, 0).change(np.stack([scores, scores - 5.0]))
    assert np.exp(changed).sum(1) == pytest.approx([1.0, 1.0])
    finite = [number for number in kept if np.isfinite(scores[number])]
    for row in changed:
        assert np.flatnonzero(row > -np.inf).tolist() == finite
        np.testing.assert_allclose(np.diff(row[finite]), np.diff(scores[finite]), atol=1e-12)


@pytest.mark.parametrize("temperature", [5e-324, 1e-300, 1e-9, 0.5, 7.0, 1e308])
def test_no_temperature_is_too_low_or_too_high(temperature: float) -> None:
    scores = np.array([-4.0, 7.5, -math.inf, 7.0])
    with np.errstate(all="raise", under="ignore"):
        changed = Sampling(temperature, None, 0).change(scores)
    assert np.exp(changed).sum() == pytest.approx(1.0)
    assert changed.max() == changed[1]
    assert changed[2] == -math.inf
    assert changed[3] - changed[1] == pytest.approx(max(-0.5 / temperature, -math.inf))
