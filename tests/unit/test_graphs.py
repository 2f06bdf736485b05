"""Calls of fixed shapes, captured on a GPU: the same bits in any company, and the words of greedy decoding.

Nothing here needs more than the program, torch and pytest, so that it runs on a GPU machine without fairseq2:
``python -m pytest --noconftest tests/unit/test_graphs.py``.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from specmt.config import DecodingOptions
from specmt.decoding.autoregressive import AutoregressiveDrafter
from specmt.decoding.batch import decode, make_acceptor
from specmt.decoding.costs import measure
from specmt.decoding.drafters import Drafter, NoDrafter
from specmt.decoding.loop import Loop
from specmt.decoding.masked import MaskedDrafter
from specmt.decoding.plan import Fixed
from specmt.decoding.request import Request
from specmt.decoding.shape import BestFirst, Chain
from specmt.engine.backend import Slots, State
from specmt.engine.candidates import Correction, best_first, best_first_together
from specmt.engine.graphed import GraphedDecoder, GraphedDrafter
from specmt.engine.graphed_verifier import GraphedVerifier
from specmt.engine.graphs import MANY, ONE, ORDERED, GraphPolicy, Graphs, pin_precision
from specmt.engine.networks import VerifierNetwork
from specmt.engine.shapes import is_invariant
from specmt.engine.transformer import NEVER, verifier_tables, within_range
from specmt.engine.window import branches
from specmt.models import hub
from specmt.models.config import VerifierConfig, autoregressive_config_for, drafter_config_for
from specmt.models.hub import autoregressive_network, drafter_network, load_model, verifier_network
from specmt.models.shapes import Shapes, autoregressive_shapes, drafter_shapes, verifier_shapes
from specmt.translator import Translator
from specmt.types import BOS, EOS, Hypothesis

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
CUDA = pytest.param("cuda", marks=needs_cuda)

SAMPLE = Path(__file__).parents[2] / "data" / "sample.de"
CONFIG = VerifierConfig(
    model_dim=32,
    num_heads=2,
    ffn_dim=64,
    encoder_layers=2,
    decoder_layers=2,
    vocab_size=400,
    max_length=128,
    tied_output=False,
)
SMALL = GraphPolicy((4,), (8,), bucket=16)
POLICIES = {
    "one": SMALL,
    "ordered": replace(SMALL, ordered=True),
    "wide": GraphPolicy((3,), (16,), bucket=32),
}
LENGTH = 45
"""Target tokens a row: they reach into the third bucket of 16."""

SOURCE_LENGTHS = [3, 17, 30, 1, 40]
PLANS = [[1] * LENGTH, [3, 1, 7, 12, 1, 2, 19], [44, 1], [15, 16, 14]]


@pytest.fixture(autouse=True)
def own_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keeps what is found out about the machine away from the user's cache, where there is no conftest, too."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    torch.set_num_threads(1)
    yield


def random_weights(shapes: Shapes, device: str, seed: int = 1) -> dict[str, Tensor]:
    """Returns weights with which a network says different things at different places."""
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, shape in shapes.items():
        scale = 0.3 if "embed" in name else 0.05 if len(shape) == 1 else 1.5 * shape[-1] ** -0.5
        weights[name] = scale * torch.randn(shape, generator=generator)
        if "norm.weight" in name:
            weights[name] += 1
    return {name: tensor.to(device) for name, tensor in weights.items()}


def make_verifier(policy: GraphPolicy | None, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Any:
    weights = random_weights(verifier_shapes(CONFIG), device)
    return verifier_network(weights, CONFIG, torch.device(device), dtype, kernels=False, policy=policy)


def make_drafter(policy: GraphPolicy | None, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Any:
    config = drafter_config_for(CONFIG, layers=1, block_size=4, correction_rank=16)
    weights = random_weights(drafter_shapes(config), device, 2)
    weights["embed.weight"] = random_weights(verifier_shapes(CONFIG), device)["encoder_frontend.embed.weight"]
    return drafter_network(weights, config, torch.device(device), dtype, kernels=False, policy=policy)


def make_autoregressive(policy: GraphPolicy | None, device: str = "cpu") -> Any:
    """Returns the first layer of the verifier."""
    config = autoregressive_config_for(CONFIG)
    own = random_weights(verifier_shapes(CONFIG), device)
    own["embed.weight"] = own["encoder_frontend.embed.weight"]
    weights = {name: own[name] for name in autoregressive_shapes(config)}
    return autoregressive_network(weights, config, torch.device(device), torch.float32, kernels=False, policy=policy)


def equal(left: Tensor, right: Tensor) -> bool:
    """Whether two tensors have the same bits; finite ones that are not all zero."""
    assert left.isfinite().all() and left.any()
    return torch.equal(left, right)


@pytest.fixture(scope="module")
def texts() -> tuple[list[list[int]], Tensor]:
    """Sources without EOS and target tokens (B, LENGTH)."""
    generator = random.Random(5)
    sources = [[generator.randrange(4, 400) for _ in range(length)] for length in SOURCE_LENGTHS]
    targets = [[BOS, *(generator.randrange(4, 400) for _ in range(LENGTH - 1))] for _ in sources]
    return sources, torch.tensor(targets)


def open_rows(verifier: Any, network: Any, sources: list[list[int]]) -> State:
    state: State = network.new_state(len(sources))
    network.start(state, torch.arange(len(sources), device=network.device), verifier.encode(sources))
    return state


def run_alone(verifier: Any, source: list[int], target: Tensor, windows: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Returns the logits (T, V) of a row that is scored alone, and its cache."""
    state = open_rows(verifier, verifier, [source])
    logits, start = [], 0
    for width in windows:
        window = target[None, start : start + width].to(verifier.device)
        logits.append(verifier.score(window, torch.tensor([start], device=verifier.device), state)[0])
        start += width
    return torch.cat(logits), state.cache.data[:, :, 0, :, :start]


# ------------------------------------------------------------------------------------------------ the keystone


class Case:
    """A verifier, and what each row is to come to."""

    def __init__(self, policy: GraphPolicy, dtype: torch.dtype, device: str, texts: tuple[list[list[int]], Tensor]):
        self.verifier = make_verifier(policy, dtype, device)
        self.drafter = make_drafter(policy, dtype, device)
        self.sources, self.targets = texts
        self.needs_order = device == "cuda" and not policy.ordered
        """Whether trees may have other bits than chains, which the probe finds out at the start."""
        self.alone = [run_alone(self.verifier, *pair, [LENGTH]) for pair in zip(*texts, strict=True)]

    def on_device(self, values: object) -> Tensor:
        return torch.tensor(values, device=self.verifier.device)


@pytest.fixture(
    scope="module",
    params=[
        "one cpu float32",
        "one cpu bfloat16",
        "ordered cpu float32",
        "wide cpu bfloat16",
        *(
            pytest.param(f"{name} cuda {dtype}", marks=needs_cuda)
            for name in POLICIES
            for dtype in ("float32", "bfloat16", "float16")
        ),
    ],
)
def case(request: pytest.FixtureRequest, texts: tuple[list[list[int]], Tensor]) -> Case:
    name, device, dtype = request.param.split()
    if device == "cuda":
        pin_precision()
    return Case(POLICIES[name], getattr(torch, dtype), device, texts)


@pytest.mark.parametrize("windows", PLANS, ids=lambda windows: "-".join(map(str, windows[:4])))
def test_windows_of_every_size_give_the_bits_of_one_block(case: Case, windows: list[int]) -> None:
    for row in (1, 4):
        logits, cached = run_alone(case.verifier, case.sources[row], case.targets[row], windows)
        assert equal(logits, case.alone[row][0])
        assert equal(cached, case.alone[row][1])


@pytest.mark.parametrize("order", [[4, 2], [0, 0, 4, 1, 3, 2, 0]], ids=str)
def test_ragged_rows_in_any_company_after_any_rejection(case: Case, order: list[int]) -> None:
    generator = random.Random(len(order))
    state = open_rows(case.verifier, case.verifier, [case.sources[which] for which in order])
    done = [0] * len(order)
    while min(done) < LENGTH:
        width = generator.choice([1, 3, 5, 8, 13, 26])
        kept = [min(generator.randint(1, width), LENGTH - start) for start in done]
        window = torch.randint(4, 400, (len(order), width))
        for row, (start, count) in enumerate(zip(done, kept, strict=True)):
            window[row, :count] = case.targets[order[row], start : start + count]
        logits = case.verifier.score(window.to(case.verifier.device), case.on_device(done), state)
        for row, (start, count) in enumerate(zip(done, kept, strict=True)):
            if count:
                assert equal(logits[row, :count], case.alone[order[row]][0][start : start + count])
            done[row] += count
    for row, which in enumerate(order):
        assert equal(state.cache.data[:, :, row, :, :LENGTH], case.alone[which][1])


def test_a_moved_row_goes_on_as_before_and_a_used_one_starts_afresh(case: Case) -> None:
    verifier, targets = case.verifier, case.targets.to(case.verifier.device)
    state = open_rows(verifier, verifier, [case.sources[row] for row in (4, 0, 1)])
    verifier.score(targets[[4, 0, 1], :20], case.on_device([0, 0, 0]), state)
    state.move(2, 0, 20)
    got = verifier.score(targets[1:2, 20:], case.on_device([20]), state)
    assert equal(got[0], case.alone[1][0][20:])
    verifier.start(state, case.on_device([0]), verifier.encode([case.sources[3]]))
    got = verifier.score(targets[3:4], case.on_device([0]), state)
    assert equal(got[0], case.alone[3][0])


@pytest.mark.parametrize("start", [12, 29])
def test_nodes_of_trees_have_the_bits_of_chains(case: Case, start: int) -> None:
    """Trees that cross a bucket, of more nodes than a call has tokens, in company."""
    if case.needs_order:
        pytest.skip("a GPU's trees are laid out where they must be")
    verifier, generator = case.verifier, random.Random(start)
    rows, count = len(case.sources), 19
    parents = [[generator.randint(max(0, place - 3 - row), place) for place in range(count)] for row in range(rows)]
    window = torch.cat([case.targets[:, start : start + 1], torch.randint(4, 400, (rows, count))], dim=1)
    state = open_rows(verifier, verifier, case.sources)
    begins = case.on_device([start] * rows)
    verifier.score(case.targets[:, :start].to(verifier.device), torch.zeros_like(begins), state)
    logits = verifier.score(window.to(verifier.device), begins, state, branches(case.on_device(parents)))

    def path_to(row: int, node: int) -> list[int]:
        path: list[int] = []
        while node:
            path.append(node)
            node = parents[row][node - 1]
        return path[::-1]

    def chain_of(row: int, path: list[int]) -> tuple[Tensor, Tensor]:
        chain = torch.cat([case.targets[row, : start + 1], window[row, path]])
        return run_alone(verifier, case.sources[row], chain, [len(chain)])

    for row in range(rows):
        for place in (0, 4, 11, count):
            assert equal(logits[row, place], chain_of(row, path_to(row, place))[0][-1])
    # The cache after the walk is that of the chain.
    path = path_to(0, count)
    state.cache.compact(begins[:1], case.on_device([path]))
    assert equal(state.cache.data[:, :, 0, :, : start + 1 + len(path)], chain_of(0, path)[1])


def test_the_start_up_probe_agrees(case: Case) -> None:
    if case.verifier.dtype == torch.float32:
        assert case.needs_order or is_invariant(case.verifier)


@pytest.mark.parametrize("block_size", [5, 12])
def test_drafts_do_not_depend_on_company(case: Case, block_size: int) -> None:
    counts = [9, 1, 30, 17, 5]

    def propose(rows: list[int]) -> tuple[Tensor, ...]:
        network = case.drafter
        state = open_rows(case.verifier, network, [case.sources[row] for row in rows])
        some = case.on_device([counts[row] for row in rows])
        width = max(counts[row] for row in rows)
        fresh = case.targets[rows, :width].to(network.device)
        slots = network.fill(fresh, torch.zeros_like(some), some, block_size, state)
        before = torch.zeros(len(rows), 2, network.rank, dtype=network.dtype, device=network.device)
        expanded = network.expand(slots, 0, fresh[:, :2] if width > 1 else fresh.expand(-1, 2), before)
        return (*network.chain(slots), *network.tree(slots, 2, min(2 * block_size, 9)), slots.logits, expanded[2])

    together = propose([0, 1, 2, 3, 4])
    assert together[5].isfinite().all() and together[5].any()
    for rows in ([2], [3, 3, 0, 1, 2, 4]):
        for got, wanted in zip(propose(rows)[:6], together, strict=False):
            assert torch.equal(got, wanted[rows])


# ------------------------------------------------------------------------------------------------ the numbers


def test_logits_are_those_of_the_ordinary_network(texts: tuple[list[list[int]], Tensor]) -> None:
    sources, targets = texts
    wanted = run_together(make_verifier(None), sources, targets)
    for policy in (*POLICIES.values(), MANY, ONE):
        torch.testing.assert_close(run_together(make_verifier(policy), sources, targets), wanted, rtol=1e-4, atol=1e-4)


def run_together(verifier: Any, sources: list[list[int]], targets: Tensor) -> Tensor:
    with torch.inference_mode():
        state = open_rows(verifier, verifier, sources)
        logits: Tensor = verifier.score(targets, torch.zeros(len(sources), dtype=torch.int64), state)
    return logits


@pytest.mark.parametrize(("vocab", "block_size"), [(437, 6), (21, 2)])
@pytest.mark.parametrize(("nodes", "breadth"), [(1, 1), (6, 1), (12, 3), (20, 16)])
def test_trees_grown_together_are_those_grown_alone(vocab: int, block_size: int, nodes: int, breadth: int) -> None:
    generator = torch.Generator().manual_seed(vocab)
    table = torch.randn(vocab, 32, generator=generator)
    gates, output = torch.randn(32, 80, generator=generator), torch.randn(32, 16, generator=generator)
    weights = {
        "correction.gates.weight": 0.3 * gates,
        "correction.gates.bias": torch.zeros(32),
        "correction.output.weight": 0.3 * output,
    }
    correction = Correction(weights, table, 1.0)
    nodes = min(nodes, block_size) if breadth == 1 else nodes
    logits = torch.randn(5, block_size, vocab, generator=generator)
    logits[0] = logits[0].round()  # ties
    hidden = torch.randn(5, block_size, 32, generator=generator)
    slots = Slots(logits, hidden, torch.randint(vocab, (5,), generator=generator))
    wanted = best_first(slots, breadth, nodes, correction)
    got = best_first_together(slots, breadth, nodes, correction)
    assert torch.equal(got[0], wanted[0])
    assert torch.equal(got[1], wanted[1])
    torch.testing.assert_close(got[2], wanted[2])


@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_a_bias_for_ids_never_said_is_harmless_in_float16(device: str) -> None:
    config = replace(CONFIG, output_bias=True)
    weights = random_weights(verifier_shapes(config), device)
    weights["final_proj.bias"][[0, 7]] = -65504.0
    weights["final_proj.bias"][8] = -1e9
    half = {name: tensor.half() for name, tensor in weights.items()}
    bias = within_range(verifier_tables(half)).bias
    assert bias is not None
    assert bias[[0, 7, 8]].tolist() == [NEVER] * 3
    assert torch.equal(bias[9:], half["final_proj.bias"][9:])
    assert within_range(verifier_tables(weights)).bias is weights["final_proj.bias"]
    if device == "cuda":
        verifier = verifier_network(weights, config, torch.device(device), torch.float16, policy=SMALL)
        logits, _ = run_alone(verifier, [5, 6], torch.tensor([BOS, 9, 9]), [3])
        assert logits.isfinite().all()
        assert not {0, 7, 8} & set(logits.argmax(1).tolist())


def test_precision_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    matmul = torch.backends.cuda.matmul
    names = ("allow_bf16_reduced_precision_reduction", "allow_fp16_reduced_precision_reduction")
    kept = matmul.fp32_precision, *(getattr(matmul, name) for name in names)
    try:
        matmul.fp32_precision = "tf32"
        pin_precision()
        assert matmul.fp32_precision == "ieee"
        assert not any(getattr(matmul, name) for name in names)
    finally:
        matmul.fp32_precision = kept[0]
        for name, value in zip(names, kept[1:], strict=True):
            setattr(matmul, name, value)


# ------------------------------------------------------------------------------------------------ decoding


class NoReads(TorchDispatchMode):
    """Refuses to read a number off a tensor."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name()
        if "_local_scalar_dense" in name or "nonzero" in name or name.partition("::")[2] == "equal":
            raise AssertionError(f"{name} waits for the device")
        return func(*args, **(kwargs or {}))


@pytest.fixture
def no_reads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Lets every call that would be captured be made without reads at first; returns the keys of all."""
    seen: list[Any] = []
    watched: set[Any] = set()
    real = Graphs.__call__

    def call(self: Graphs, key: Any, function: Any, *inputs: Tensor) -> tuple[Tensor, ...]:
        def guarded(*given: Tensor) -> tuple[Tensor, ...]:
            guard = nullcontext() if (self, key) in watched else NoReads()
            watched.add((self, key))
            with guard:
                made: tuple[Tensor, ...] = function(*given)
            return made

        seen.append((key, [tuple(given.shape) for given in inputs]))
        return real(self, key, guarded, *inputs)

    monkeypatch.setattr(Graphs, "__call__", call)
    return seen


DRAFTS: dict[str, Any] = {
    "none": lambda verifier, policy, rows: NoDrafter(),
    "chain": lambda verifier, policy, rows: MaskedDrafter(
        make_drafter(policy, device=verifier.device.type), rows, Fixed(4), Chain()
    ),
    "tree": lambda verifier, policy, rows: MaskedDrafter(
        make_drafter(policy, device=verifier.device.type), rows, Fixed(4), BestFirst(11, 3)
    ),
    "autoregressive": lambda verifier, policy, rows: AutoregressiveDrafter(
        make_autoregressive(policy, verifier.device.type), rows, Fixed(3), Chain()
    ),
    "autoregressive tree": lambda verifier, policy, rows: AutoregressiveDrafter(
        make_autoregressive(policy, verifier.device.type), rows, Fixed(3), BestFirst(9, 2)
    ),
    "itself": lambda verifier, policy, rows: AutoregressiveDrafter(verifier, rows, Fixed(9), Chain()),
}


def decode_with(
    verifier: Any, drafter: Drafter, sources: list[list[int]], rows: int, *, by_itself: bool = True
) -> list[Hypothesis]:
    loop = Loop(
        verifier,
        drafter,
        make_acceptor(DecodingOptions()),
        rows,
        max_source_tokens=10**6,
        runner=verifier if by_itself else None,
    )
    found = dict(loop.run([Request(number, source, number, 0) for number, source in enumerate(sources)]))
    return [found[number] for number in range(len(sources))]


@pytest.fixture(scope="module")
def sentences() -> list[list[int]]:
    generator = random.Random(2)
    return [[generator.randrange(4, 400) for _ in range(length)] for length in (1, 9, 3, 14)]


@pytest.fixture(scope="module")
def greedy(sentences: list[list[int]]) -> list[Hypothesis]:
    """What the ordinary network says."""
    found = decode_with(make_verifier(None), NoDrafter(), sentences, 3, by_itself=False)
    assert len({tuple(each.tokens) for each in found}) == 4
    assert len({token for each in found for token in each.tokens}) > 20
    return found


@pytest.mark.parametrize("device", ["cpu", CUDA])
@pytest.mark.parametrize("drafts", DRAFTS)
def test_decoding_says_what_greedy_decoding_of_the_ordinary_network_says(
    device: str, drafts: str, sentences: list[list[int]], greedy: list[Hypothesis], no_reads: list[Any]
) -> None:
    """By calls that read nothing off the device, of few shapes."""
    verifier = make_verifier(SMALL, device=device)
    got = decode_with(verifier, DRAFTS[drafts](verifier, SMALL, 3), sentences, 3)
    assert [each.tokens for each in got] == [each.tokens for each in greedy]
    for each in got:
        stats = each.stats
        assert stats.tokens == len(each.tokens) + (len(each.tokens) < stats.tokens)
        assert stats.accepted + stats.verifier_calls >= stats.tokens >= stats.verifier_calls
        assert (stats.drafted > 0) == (drafts != "none")
    if drafts == "itself":
        assert sum(each.stats.verifier_calls for each in got) * 3 < sum(each.stats.tokens for each in got)
    shapes: dict[Any, Any] = {}
    for key, inputs in no_reads:
        assert shapes.setdefault(key, inputs) == inputs  # a key stands for one shape
    assert len(shapes) < len(no_reads) / 2
    advanced = [key for key in shapes if key[0] == "advance"]
    # Lengths are those that rows have, and no others: sources of up to 15 ids, targets of up to 54.
    wanted = set() if "tree" in drafts else {(4, 8, length, 16) for length in (16, 32, 64)}
    assert {key[1:] for key in advanced} == wanted


@pytest.mark.parametrize("rows", [1, 4])
def test_free_shapes_say_the_same(rows: int, sentences: list[list[int]], greedy: list[Hypothesis]) -> None:
    policy = GraphPolicy((1, 2, 4), (1, 4, 8), bucket=32)
    verifier = make_verifier(policy)
    for drafts in ("none", "chain"):
        got = decode_with(verifier, DRAFTS[drafts](verifier, policy, rows), sentences, rows)
        assert [each.tokens for each in got] == [each.tokens for each in greedy]
    assert {key[1] for key in verifier.graphs.calls if key[0] == "advance"} == ({1} if rows == 1 else {1, 2, 4})
    assert {key[2] for key in verifier.graphs.calls if key[0] == "advance"} == {1, 8}


def test_what_a_target_begins_with_is_read_before(monkeypatch: pytest.MonkeyPatch, sentences: list[list[int]]) -> None:
    config = replace(CONFIG, source_prefix=(7,), target_prefix=(9, 11))
    monkeypatch.setattr(sys.modules[__name__], "CONFIG", config)
    wanted = decode_with(make_verifier(None), NoDrafter(), sentences, 3, by_itself=False)
    for drafts in ("none", "itself"):
        verifier = make_verifier(SMALL)
        got = decode_with(verifier, DRAFTS[drafts](verifier, SMALL, 3), sentences, 3)
        assert [each.tokens for each in got] == [each.tokens for each in wanted]


def test_the_engine_and_the_loop_count_alike(sentences: list[list[int]]) -> None:
    """Iterations on the device, and the loop's own with the same networks; drafts past a bucket are not verified."""
    policy = replace(SMALL, bucket=128)
    verifier = make_verifier(policy)
    counts = []
    for by_itself in (True, False):
        drafter = DRAFTS["itself"](verifier, policy, 3)
        drafter.plan = Fixed(5)
        found = decode_with(verifier, drafter, sentences, 3, by_itself=by_itself)
        counts.append([(each.stats.tokens, each.stats.verifier_calls, each.stats.accepted) for each in found])
    assert counts[0] == counts[1]


def test_eos_at_every_place_of_a_block_ends_a_sentence() -> None:
    """Whatever token is called the end, a sentence ends there, whether it was drafted or not."""
    verifier = make_verifier(SMALL)
    source = [9, 30, 200, 11]
    said = decode_with(verifier, NoDrafter(), [source], 1)[0].tokens
    assert len(said) > 10
    for place, end in enumerate(said[:10]):
        if end in said[:place]:
            continue
        for block in (1, 4, 7):
            drafter = AutoregressiveDrafter(verifier, 1, Fixed(block), Chain())
            state = open_rows(verifier, verifier, [source])
            drafter.start(torch.tensor([0]), verifier.encode([source]), [Request(0, source, 0, 0)])
            sentences = make_sentences(1, limit=40)
            drafting = drafter.drafting(1)
            assert drafting is not None
            with torch.inference_mode():
                verifier.run(state, sentences, drafting, iterations=40, enough=1, end=end)
            assert sentences.lengths.tolist() == [place + 2]
            assert sentences.tokens[0, 1 : place + 2].tolist() == said[: place + 1]


def make_sentences(rows: int, *, limit: int) -> Any:
    from specmt.engine.backend import Sentences

    tokens = torch.zeros(rows, CONFIG.max_length, dtype=torch.int64)
    tokens[:, 0] = BOS
    zeros = (np.zeros(rows, dtype=np.int64) for _ in range(3))
    return Sentences(tokens, np.ones(rows, dtype=np.int64), np.full(rows, limit), *zeros)


def test_costs_are_measured_as_decoding_runs() -> None:
    verifier, drafter = make_verifier(SMALL), make_drafter(SMALL)
    costs = measure(verifier, drafter, 2, 4, 5, Chain())
    assert [width for width, _ in costs.verify] == [1, 2, 3, 5]
    assert [size for size, _ in costs.draft] == [1, 2, 4]
    assert all(seconds > 0 for _, seconds in costs.verify)
    assert {key[0] for key in verifier.graphs.calls} == {"encode", "cross", "advance"}
    assert {key[0] for key in drafter.graphs.calls} == {"cross", "draft"}


# ------------------------------------------------------------------------------------------------ capture


def test_the_guard_sees_reads() -> None:
    with pytest.raises(AssertionError, match="waits for the device"), NoReads():
        torch.ones(2).sum().item()


def test_a_later_batch_captures_nothing(sentences: list[list[int]]) -> None:
    verifier = make_verifier(SMALL)
    decode_with(verifier, NoDrafter(), sentences, 4)  # the pool grows
    wanted = decode_with(verifier, NoDrafter(), sentences, 4)
    calls = dict(verifier.graphs.calls)
    assert calls
    again = decode_with(verifier, NoDrafter(), sentences[::-1], 4)
    assert [each.tokens for each in again[::-1]] == [each.tokens for each in wanted]
    assert verifier.graphs.calls == calls
    # The rows are back.
    assert len(verifier.pool.free) == verifier.pool.keys.shape[2] - 1


def test_growth_keeps_what_is_there(texts: tuple[list[list[int]], Tensor]) -> None:
    sources, targets = texts
    verifier = make_verifier(replace(SMALL, bucket=8))
    wanted, _ = run_alone(verifier, sources[4], targets[4], [LENGTH])
    verifier = make_verifier(replace(SMALL, bucket=8))
    assert verifier.pool.capacity < LENGTH
    state = open_rows(verifier, verifier, [sources[4]])
    parts, others = [], []
    for start in range(0, LENGTH, 5):
        parts.append(verifier.score(targets[4:, start : start + 5], torch.tensor([start]), state)[0])
        others.append(verifier.new_state(3))
    assert torch.equal(torch.cat(parts), wanted)
    assert verifier.pool.keys.shape[2] >= 1 + 1 + 3 * len(others)


def test_policies_choose_the_nearest_shape() -> None:
    assert [MANY.rows(count) for count in (1, 2, 8, 9, 33, 129, 500)] == [1, 8, 8, 32, 128, 128, 128]
    assert [MANY.width(count) for count in (1, 2, 5, 33)] == [1, 4, 8, 32]
    assert [ONE.length(count) for count in (1, 64, 65, 128, 129, 256, 257)] == [64, 64, 128, 128, 256, 256, 512]
    assert ONE.rows(1) == ONE.rows(500) == 32
    assert replace(ONE, ordered=True) == ORDERED


# ------------------------------------------------------------------------------------------------ models


def graphed_model(monkeypatch: pytest.MonkeyPatch, policy: GraphPolicy) -> hub.Model:
    """Returns the bundled model as it would be on a GPU, on the CPU."""
    real = hub.verifier_network

    def make(*arguments: Any, **options: Any) -> Any:
        return real(*arguments, **{**options, "policy": policy})

    monkeypatch.setattr(hub, "verifier_network", make)
    return load_model(device="cpu", dtype="float32")


def test_the_bundled_model_says_the_same_by_every_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = SAMPLE.read_text(encoding="utf-8").splitlines()[:2]
    ordinary = load_model(device="cpu", dtype="float32", kernels=False)
    sources = ordinary.pieces.encode_batch(lines)
    wanted = [each.tokens for each in decode(ordinary, sources, DecodingOptions(strategy="greedy", batch_size=2))]
    model = graphed_model(monkeypatch, GraphPolicy((2,), (8,)))
    assert isinstance(model.verifier, GraphedVerifier)
    assert isinstance(model.drafter, GraphedDrafter)
    assert isinstance(model.autoregressive, GraphedDecoder)
    for options in (
        DecodingOptions(strategy="greedy", batch_size=1),
        DecodingOptions(block_size=6),
        DecodingOptions(block_size=6, tree="best-first", nodes=12),
        DecodingOptions(drafter="autoregressive", block_size=4),
        DecodingOptions(drafter="masked+lookup", block_size=4),
    ):
        got = decode(model, sources, options)
        assert [each.tokens for each in got] == wanted
        if options.strategy != "greedy":
            assert sum(each.stats.verifier_calls for each in got) < sum(map(len, wanted)) * 0.7


def test_on_a_gpu_the_probe_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order in which policies are tried, seen with a device that only says that it is one."""
    tried: list[GraphPolicy | None] = []

    def make(*_: Any, policy: GraphPolicy | None = None, **options: Any) -> VerifierNetwork:
        tried.append(policy)
        network = make_verifier(policy)
        assert isinstance(network, VerifierNetwork)
        network.shapes = options["shapes"]
        return network

    monkeypatch.setattr(hub, "verifier_network", make)
    monkeypatch.setattr(hub, "pin_precision", lambda: None)
    place: Any = torch.device("cuda")

    def choose(verdicts: list[bool], *, deterministic: bool) -> list[GraphPolicy | None]:
        tried.clear()
        answers = iter(verdicts)
        monkeypatch.setattr(hub, "invariant_here", lambda *_: next(answers))
        hub._choose_verifier({}, CONFIG, place, torch.float32, deterministic=deterministic, kernels=True)
        return list(tried)

    assert choose([True], deterministic=True) == [ONE]
    assert choose([False, True], deterministic=True) == [ONE, ORDERED]
    assert choose([False, False], deterministic=True) == [ONE, ORDERED, None]
    assert choose([], deterministic=False) == [MANY]


# ------------------------------------------------------------------------------------------------ a GPU


@needs_cuda
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_translations_on_a_gpu_do_not_depend_on_the_batch(dtype: str) -> None:
    translator = Translator(load_model(device="cuda", dtype=dtype))
    assert isinstance(translator.model.verifier, GraphedVerifier)
    lines = SAMPLE.read_text(encoding="utf-8").splitlines()[:100]

    def translate(**options: Any) -> list[str]:
        return [each.text for each in translator.translate(lines, DecodingOptions(**options))]

    wanted = translate(strategy="greedy", batch_size=8)
    for size in (1, 2, 3, 8, 33):
        assert translate(batch_size=size) == wanted
    for drafted in (
        {"tree": "best-first", "nodes": 24, "block_size": 8},
        {"drafter": "autoregressive"},
        {"block_size": 5},
    ):
        assert translate(batch_size=33, **drafted) == wanted


@needs_cuda
def test_captured_calls_wait_for_nothing_and_replay_what_calls_do() -> None:
    verifier, drafter = make_verifier(SMALL, device="cuda"), make_drafter(SMALL, device="cuda")
    source = [9, 30, 200, 11]
    states = [open_rows(verifier, network, [source] * 5) for network in (verifier, drafter)]
    tokens = torch.full((5, CONFIG.max_length), BOS, device="cuda")
    seen, lengths = np.zeros(5, dtype=np.int64), np.ones(5, dtype=np.int64)
    reports = torch.zeros(3, 5, dtype=torch.int64, device="cuda")

    def iterate() -> Tensor:
        drafts = torch.zeros(5, 7, dtype=torch.int64, device="cuda")
        for group, made in drafter.draft(tokens, seen, lengths, 4, states[1], range(5)):
            drafts[drafter._put(group), :4] = made
        verifier._verify(tokens, drafts, lengths, lengths + 40, 4, EOS, states[0], range(5), reports)
        return drafts

    with torch.inference_mode():
        first = iterate()  # captures
        torch.cuda.set_sync_debug_mode("error")
        try:
            again = iterate()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(first, again)
    assert first.any()
