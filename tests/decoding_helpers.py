"""What tests of decoding share: a loop around any drafter, drafters that play tricks, and how counts add up."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pytest
from typing_extensions import override

from specmt.decoding.accept import Accepted, Acceptor, Within
from specmt.decoding.drafters import Choice, Drafter
from specmt.decoding.drafters.base import Arm, Plan
from specmt.decoding.loop import Loop
from specmt.decoding.noise import Spot
from specmt.decoding.policy import FixedPolicy, Policy
from specmt.decoding.request import Request
from specmt.decoding.session import make_policy
from specmt.decoding.tree import Node, Tree, chains, make_tree
from specmt.engine.arrays import Floats, Ids
from specmt.engine.cache import State
from specmt.engine.fused import EXACT, Confidence
from specmt.engine.protocols import EncoderOutput, Logits
from specmt.models.hub import Model, load_model
from specmt.options import DecodingOptions
from specmt.types import BOS, EOS, PAD, UNK, Hypothesis, Stats

BACKENDS = ["kernels-float32", "kernels-bfloat16", "pytorch-float32", "pytorch-bfloat16"]
BATCH_SIZES = [1, 2, 3, 8, 33]
PLENTY = 10**6
EXACTLY = Within(EXACT)
GREEDY = DecodingOptions(strategy="greedy")

Each = TypeVar("Each")
Sources = list[list[int]]
Hypotheses = list[Hypothesis]

Truth = dict[tuple[int, ...], list[int]]
"""What greedy decoding says to each source, EOS included."""


class ArrayLogits(Logits):
    """Logits (B, W, V) that are given as an array."""

    def __init__(self, values: npt.ArrayLike) -> None:
        self.values = np.asarray(values, dtype=np.float32)

    @override
    def best(self) -> Ids:
        return self.values.argmax(2)

    @override
    def log_probs(self, tokens: Ids, places: Ids) -> Floats:
        found: Floats = log_softmax(self._behind(places))[(*np.indices(tokens.shape), tokens)].astype(np.float32)
        return found

    @override
    def ranks(self, tokens: Ids, places: Ids) -> tuple[Ids, Floats]:
        values, ids = self._behind(places), np.arange(self.values.shape[2])
        own = values[(*np.indices(tokens.shape), tokens)][:, :, None]
        better = (values > own) | ((values == own) & (ids < tokens[:, :, None]))
        return better.sum(2), values.max(2) - own[:, :, 0]

    @override
    def likeliest(self, count: int) -> tuple[Ids, Floats]:
        values = self.values.copy()
        values[:, :, PAD] = -np.inf
        order = np.argsort(-values, axis=2, kind="stable")[:, :, :count]
        return order, np.take_along_axis(log_softmax(self.values), order, 2).astype(np.float32)

    @override
    def row(self, row: int, place: int) -> Floats:
        found: Floats = self.values[row, place]
        return found

    def _behind(self, places: Ids) -> Floats:
        """Returns the logits (B, M, V) behind places (B, M)."""
        found: Floats = self.values[np.arange(len(places))[:, None], places]
        return found


def log_softmax(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Returns log-probabilities (…, V) of logits."""
    scores = np.asarray(values, dtype=np.float64)
    scores = scores - scores.max(axis=-1, keepdims=True)
    log_probs: npt.NDArray[np.float64] = scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    return log_probs


def load_on(backend: str, path: Path, request: pytest.FixtureRequest) -> Model:
    """Returns a model on a backend and in a type, "kernels-bfloat16" for one."""
    name, dtype = backend.split("-")
    if name == "kernels":
        request.getfixturevalue("needs_kernels")
    return load_model(path, device="cpu", dtype=dtype, kernels=name == "kernels")


def sources_for(model: Model, sources: list[Each]) -> list[Each]:
    """Returns all sources on the kernels, and eight on PyTorch, which takes many times as long; or what goes with them.

    One of the eight has a translation without an end.
    """
    few = [sources[0], *sources[3:8], *sources[9:11]]
    return sources if model.backend.name == "kernels" else few


def run(
    model: Model,
    sources: Sequence[list[int]],
    drafter: Drafter | None = None,
    block_size: int = 0,
    *,
    rows: int = 8,
    acceptor: Acceptor = EXACTLY,
    max_source_tokens: int = PLENTY,
    policy: Policy | None = None,
) -> list[Hypothesis]:
    """Decodes in the loop, iteration by iteration, with scores."""
    loop = Loop(
        model.verifier,
        [] if drafter is None else [drafter],
        policy or FixedPolicy(Arm() if drafter is None else Arm(0, block_size)),
        acceptor,
        capacity=rows,
        max_source_tokens=max_source_tokens,
        scores=True,
    )
    return run_loop(loop, [Request(number, source) for number, source in enumerate(sources)])


def run_loop(loop: Loop, requests: Sequence[Request]) -> list[Hypothesis]:
    """Decodes requests, whose keys are their numbers."""
    for request in requests:
        loop.add(request)
    finished: dict[int, Hypothesis] = {}
    while loop.requests:
        finished |= loop.step()
    assert len(finished) == len(requests)
    return [finished[number] for number in range(len(requests))]


class NeverEnd(Acceptor):
    """Accepts what the verifier would say if there were no EOS."""

    rule = None

    @override
    def accept(self, tree: Tree, logits: Logits, spots: Sequence[Spot]) -> Accepted:
        first, second = np.moveaxis(logits.likeliest(2)[0], 2, 0)
        own = np.where(first == EOS, second, first)
        return EXACTLY.accept(tree, ArrayLogits(np.eye(own.max() + 1)[own]), spots)


class Stepwise:
    """A verifier that cannot run the loop by itself."""

    def __init__(self, verifier: Any) -> None:
        self.verifier = verifier

    def __getattr__(self, name: str) -> Any:
        if name == "run":
            raise AttributeError(name)
        return getattr(self.verifier, name)


def tokens_of(hypotheses: Sequence[Hypothesis]) -> list[list[int]]:
    return [hypothesis.tokens for hypothesis in hypotheses]


def stats_of(hypotheses: Sequence[Hypothesis]) -> list[Stats]:
    return [hypothesis.stats for hypothesis in hypotheses]


def total_of(hypotheses: Sequence[Hypothesis]) -> Stats:
    return sum(stats_of(hypotheses), Stats())


def counts(hypotheses: Sequence[Hypothesis]) -> list[tuple[list[int], int, int, int, int]]:
    """Returns what each says and what it took."""
    return [(h.tokens, h.stats.tokens, h.stats.verifier_calls, h.stats.drafted, h.stats.accepted) for h in hypotheses]


def with_doubts(confidence: Confidence | None, paths: int = 1) -> Callable[..., Policy]:
    """Returns what makes policies that draft as the options say, and verify what is likely enough.

    :param paths: of trees that are drafted where the options ask for chains
    """

    def make(model: Model, options: DecodingOptions, choice: Choice, drafters: Sequence[Drafter]) -> Policy:
        policy = make_policy(model, options, choice, drafters)
        if isinstance(policy, FixedPolicy):
            arm = policy.plans[0].arm
            if paths > 1 and arm.drafts and arm.nodes == 0:
                arm = arm._replace(paths=paths, nodes=11)
            policy.plans = policy.plans[0]._replace(arm=arm, confidence=confidence), policy.plans[1]
        return policy

    return make


class NotFused:
    """Stands for a verifier without a loop of its own."""


def same(got: Hypothesis, wanted: Hypothesis) -> bool:
    """Whether tokens, counts and log-probabilities are the same, a missing score too."""
    scores = {repr((each.score, each.log_probs)) for each in (got, wanted)}
    return (got.tokens, got.stats) == (wanted.tokens, wanted.stats) and len(scores) == 1


def has_ended(hypothesis: Hypothesis) -> bool:
    """Returns whether it ends in EOS, not at the limit."""
    return hypothesis.stats.tokens > len(hypothesis.tokens)


def make_truth(sources: Sequence[list[int]], greedy: Sequence[Hypothesis]) -> Truth:
    pairs = zip(sources, greedy, strict=True)
    return {tuple(source): hypothesis.tokens + [EOS] * has_ended(hypothesis) for source, hypothesis in pairs}


def assert_counts(hypothesis: Hypothesis) -> None:
    """Checks that what was counted adds up to what was said."""
    stats = hypothesis.stats
    assert stats.tokens - len(hypothesis.tokens) in (0, 1)
    # Each call commits what was accepted and one token more, but for the last, which may end within a draft.
    assert stats.tokens - stats.accepted in (stats.verifier_calls, stats.verifier_calls - 1)
    assert sum(stats.accepted_counts) == stats.verifier_calls <= stats.tokens
    assert sum(number * count for number, count in enumerate(stats.accepted_counts)) == stats.accepted <= stats.drafted


def assert_same(got: Sequence[Hypothesis], greedy: Sequence[Hypothesis]) -> None:
    """Checks tokens against those of greedy decoding, scores where both have them, and counts."""
    assert tokens_of(got) == tokens_of(greedy)
    for hypothesis, wanted in zip(got, greedy, strict=True):
        assert_counts(hypothesis)
        assert hypothesis.stats.tokens == wanted.stats.tokens
        assert hypothesis.stats.verifier_calls <= wanted.stats.verifier_calls == wanted.stats.tokens
        if hypothesis.score == hypothesis.score and wanted.score == wanted.score:
            assert hypothesis.score == wanted.score


# Drafters that know what greedy decoding would say, and propose by a script


class Oracle(Drafter):
    """What is right, and behind it EOS."""

    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self.block_size = 0
        self.rows: dict[int, list[int]] = {}
        self.active: list[int] = []
        """How many rows each call had."""

    @override
    def start(self, state: State, rows: Ids, encoded: EncoderOutput, requests: Sequence[Request]) -> None:
        self.rows |= {
            row: self.truth[tuple(request.source)] for row, request in zip(rows.tolist(), requests, strict=True)
        }

    @override
    def propose(self, tokens: Ids, lengths: Ids, plan: Plan) -> Tree:
        self.block_size = plan.arm.ahead
        self.active.append(len(lengths))
        for row, length in enumerate(lengths.tolist()):
            assert tokens[row, 0] == BOS
            assert tokens[row, 1:length].tolist() == self.rows[row][: length - 1]
        return self.trees(lengths.tolist())

    def trees(self, lengths: list[int]) -> Tree:
        blocks = [self.block(self.rows[row], length - 1) for row, length in enumerate(lengths)]
        return chains(np.array(blocks, dtype=np.int64).reshape(len(blocks), -1))

    @override
    def finish(self, row: int, tokens: list[int]) -> None:
        assert tokens == [token for token in self.rows[row] if token != EOS][: len(tokens)]

    @override
    def move(self, source: int, target: int) -> None:
        self.rows[target] = self.rows[source]

    def block(self, truth: list[int], count: int) -> list[int]:
        """Returns the draft after ``count`` committed tokens."""
        return self.right(truth, count, self.block_size)

    def right(self, truth: list[int], count: int, size: int) -> list[int]:
        block = truth[count : count + size]
        return block + [EOS] * (size - len(block))


class Wrong(Oracle):
    @override
    def block(self, truth: list[int], count: int) -> list[int]:
        return [token + 1 if token < 100 else token - 1 for token in super().block(truth, count)]


class Random(Oracle):
    @override
    def block(self, truth: list[int], count: int) -> list[int]:
        generator = random.Random(f"{truth} {count}")
        oracle = super().block(truth, count)
        return [token if generator.random() < 0.5 else generator.randrange(400) for token in oracle]


class Constant(Oracle):
    def __init__(self, truth: Truth, token: int) -> None:
        super().__init__(truth)
        self.token = token

    @override
    def block(self, truth: list[int], count: int) -> list[int]:
        return [self.token] * self.block_size


class Varying(Oracle):
    """A block of another size each time, sometimes none."""

    @override
    def block(self, truth: list[int], count: int) -> list[int]:
        return self.right(truth, count, len(self.active) * 3 % (self.block_size + 1))


class Short(Oracle):
    """Chains, of which only the first few tokens count."""

    @override
    def trees(self, lengths: list[int]) -> Tree:
        counts = np.array(lengths) // 2 * 3 % (self.block_size + 1)
        return chains(super().trees(lengths).tokens, counts=counts)


class Bushy(Oracle):
    """What is right, somewhere in a tree, whose nodes are in any order in which parents come first."""

    def __init__(self, truth: Truth) -> None:
        super().__init__(truth)
        self.random = random.Random(3)

    @override
    def trees(self, lengths: list[int]) -> Tree:
        rows = [self.tree(self.rows[row], length - 1) for row, length in enumerate(lengths)]
        return make_tree(rows)

    def tree(self, truth: list[int], count: int) -> list[Node]:
        """Returns the draft after ``count`` committed tokens."""
        return self.hide(self.block(truth, count), self.random.randint(0, 2 * self.block_size), truth, count)

    def wrong(self, truth: list[int], place: int) -> int:
        """Returns a token that is not the one at a place of the output."""
        token = truth[place] if place < len(truth) else EOS
        return self.random.choice([other for other in (EOS, UNK, 7, 90, 91, 92, 93) if other != token])

    def hide(self, chain: list[int], decoys: int, truth: list[int], count: int, first: int | None = None) -> list[Node]:
        """Returns a tree with a chain in it, and nodes beside it that go on as the chain does after a wrong token.

        :param first: the wrong token of every depth; by default any
        """
        wrong = [self.wrong(truth, count + depth) if first is None else first for depth in range(self.block_size)]
        nodes: list[tuple[int, int, int]] = []  # token, parent, depth
        ends = [0]  # the places of the chain
        while len(ends) <= len(chain) or decoys > 0:
            left = len(chain) - len(ends) + 1
            if left and (decoys == 0 or self.random.random() < len(chain) / (len(chain) + decoys)):
                nodes.append((chain[len(ends) - 1], ends[-1], len(ends)))
                ends.append(len(nodes))
                continue
            decoys -= 1
            parent = self.random.randint(0, len(nodes))
            depth = nodes[parent - 1][2] if parent else 0
            if depth < len(wrong):
                right = parent not in ends and depth < len(chain)
                nodes.append((chain[depth] if right else wrong[depth], parent, depth + 1))
        return [Node(token, parent, -1.0) for token, parent, _ in nodes]


class WrongTree(Bushy):
    """What is right comes after a wrong token only, or as noise behind the tree."""

    @override
    def trees(self, lengths: list[int]) -> Tree:
        tree, size = super().trees(lengths), self.block_size
        assert tree.parents is not None
        rights = np.array([self.block(self.rows[row], length - 1) for row, length in enumerate(lengths)])
        places = np.arange(tree.tokens.shape[1] + size)
        noise = places >= tree.counts[:, None]
        # Behind the nodes: what is right as a chain of its own.
        offsets = (places - tree.counts[:, None]).clip(0, size - 1)
        drafted, parents = (np.pad(part, ((0, 0), (0, size))) for part in (tree.tokens, tree.parents))
        drafted = np.where(noise, np.take_along_axis(rights, offsets, 1), drafted)
        return Tree(drafted, tree.counts, np.where(noise, places * (offsets > 0), parents))

    @override
    def tree(self, truth: list[int], count: int) -> list[Node]:
        first = self.wrong(truth, count)
        below = self.hide(self.block(truth, count + 1), self.random.randint(0, 9), truth, count, first)
        return [Node(first, 0, -1.0), *(node._replace(parent=node.parent + 1) for node in below)]


class ConstantTree(Bushy):
    """One token everywhere, twins too."""

    def __init__(self, truth: Truth, token: int) -> None:
        super().__init__(truth)
        self.token = token

    @override
    def tree(self, truth: list[int], count: int) -> list[Node]:
        return [Node(self.token, self.random.randint(0, place), -1.0) for place in range(2 * self.block_size)]


class VaryingTree(Bushy):
    """Trees of another size for each sentence and time, of which some have no nodes, and a part of what is right."""

    @override
    def tree(self, truth: list[int], count: int) -> list[Node]:
        right = self.random.randint(0, self.block_size)
        return self.hide(self.block(truth, count)[:right], self.random.randint(0, 5) * (right % 3), truth, count)


HOSTILE: dict[str, Callable[[Truth], Oracle]] = {
    "oracle": Oracle,
    "wrong": Wrong,
    "random": Random,
    "eos": partial(Constant, token=EOS),
    "unk": partial(Constant, token=UNK),
    "varying": Varying,
    "short": Short,
    "oracle tree": Bushy,
    "wrong tree": WrongTree,
    "eos tree": partial(ConstantTree, token=EOS),
    "unk tree": partial(ConstantTree, token=UNK),
    "varying tree": VaryingTree,
}
