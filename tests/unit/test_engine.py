"""The keystone (DESIGN §9.2, §9.4): the same bits by every route, and the numbers of the fairseq2 modules."""

from __future__ import annotations

import hashlib
import math
import multiprocessing
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import Module
from torch.nn.utils.rnn import pad_sequence

from specmt.engine import arrays
from specmt.engine.architecture import sinusoids
from specmt.engine.arrays import Floats, Ids
from specmt.engine.cache import START, Cache, State, Zeros, round_up
from specmt.engine.kernels import library
from specmt.engine.kernels import masked as kernel_masked
from specmt.engine.kernels.decoder import KernelDecoder
from specmt.engine.kernels.masked import KernelMaskedDrafter
from specmt.engine.kernels.packing import pack_decoder
from specmt.engine.kernels.verifier import KernelVerifier
from specmt.engine.protocols import CANDIDATES, DraftNetwork, EncoderOutput, Scorer, Verifier
from specmt.engine.torch import correction as torch_correction
from specmt.engine.torch.correction import Correction, best_chain
from specmt.engine.torch.decoder import TorchDecoder
from specmt.engine.torch.door import to_tensors
from specmt.engine.torch.invariance import GRANULAR, fixed, is_invariant
from specmt.engine.torch.linear import Linear, can_pack
from specmt.engine.torch.masked import TorchMasked
from specmt.engine.torch.transformer import append
from specmt.engine.torch.verifier import TorchVerifier
from specmt.engine.weights import verifier_tables
from specmt.engine.window import Window
from specmt.models.config import DecoderConfig, DrafterConfig, VerifierConfig, drafter_config_for
from specmt.models.parameters import verifier_shapes
from specmt.models.reference.modules import (
    AutoregressiveDrafter,
    MaskedDrafter,
    create_autoregressive,
    create_drafter,
    create_verifier,
)
from specmt.training.drafter import BlockOptions, lay_blocks
from specmt.training.validate import weights_of
from specmt.types import BOS, EOS, PAD
from tests.conftest import set_threads
from tests.networks import (
    arrays_of,
    autoregressive_network,
    drafter_network,
    equal,
    held,
    logits_of,
    module_logits,
    opened,
    packed,
    scores,
    verifier_network,
    zeros,
)

from fairseq2.models.transformer import TransformerModel  # isort: skip  (specmt.models.reference makes it importable)
from fairseq2.nn import BatchLayout, SinusoidalPositionEncoder  # isort: skip

Texts = tuple[list[list[int]], Ids]

CPU = torch.device("cpu")
VOCAB = 500
LENGTH = 40
"""Target tokens a row."""

SOURCE_LENGTHS = [3, 17, 30, 1, 47]
PLANS = [[1] * LENGTH, [3, 1, 7, 12, 1, 2, 14], [2] * 20, [39, 1], [15, 16, 9]]
FORMATS = ("float32", "bfloat16", "int8")
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda x: x,
    "relu": lambda x: x.clamp(min=0),
    "swish": lambda x: x / (1 + torch.exp(-x)),
    "gelu": lambda x: x * (1 + torch.erf(x / math.sqrt(2))) / 2,
}
SHAPES = {"narrow": {"model_dim": 32, "num_heads": 2, "ffn_dim": 64}, "wide": {}}
WIDTHS = {
    "heads of 16": {"model_dim": 32, "num_heads": 2, "ffn_dim": 48},
    "heads of 32": {"model_dim": 64, "num_heads": 2, "ffn_dim": 80, "vocab_size": 437},
    "heads of 48": {"model_dim": 96, "num_heads": 2, "ffn_dim": 16, "vocab_size": 499},
    "heads of 64": {"model_dim": 64, "num_heads": 1, "ffn_dim": 112, "vocab_size": 497},
    "heads of 96": {"model_dim": 192, "num_heads": 2, "ffn_dim": 64},
    "heads of 128": {"model_dim": 128, "num_heads": 1, "ffn_dim": 64},
}
"""What the kernels can do: vocabularies that fill no register, inner widths that are odd multiples of one."""

MISFITS = {
    "heads of 24": {"model_dim": 48, "num_heads": 2, "ffn_dim": 64},
    "heads of 80": {"model_dim": 80, "num_heads": 1, "ffn_dim": 64},
    "a width of 40": {"model_dim": 40, "num_heads": 2, "ffn_dim": 64},
    "an inner width of 72": {"model_dim": 32, "num_heads": 2, "ffn_dim": 72},
}
"""What they cannot."""


@dataclass(frozen=True)
class Networks:
    """The engine's networks, and the modules that their weights come from."""

    verifier: Verifier
    drafter: DraftNetwork
    verifier_module: TransformerModel
    drafter_module: MaskedDrafter
    granular: bool
    """Whether the shapes are granules, which drafters on PyTorch have always."""


def scatter_weights(module: Module) -> None:
    """Gives every parameter, biases and norms too, a value of its own."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    module.eval()


def make_modules(*, scale: float = 1.0, **changes: int) -> tuple[TransformerModel, MaskedDrafter, VerifierConfig]:
    """Returns fairseq2 modules, the projections of their attention's queries and keys scaled."""
    torch.manual_seed(3)
    sizes = {"encoder_layers": 2, "decoder_layers": 2, "vocab_size": VOCAB, "max_length": 128}
    config = VerifierConfig(**{**sizes, **changes})
    verifier = create_verifier(config, CPU)
    drafter = create_drafter(drafter_config_for(config, layers=2, correction_rank=16), CPU)
    for module in (verifier, drafter):
        scatter_weights(module)
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                if ".q_proj." in name or ".k_proj." in name:
                    parameter *= scale
    return verifier, drafter, config


def make_networks(
    format: str,
    *,
    kernels: bool,
    stored: torch.dtype = torch.float32,
    scale: float = 1.0,
    granular: bool = True,
    **changes: int,
) -> Networks:
    """
    :param stored: the type that the weights are given in.
    """
    verifier, drafter, config = make_modules(scale=scale, **changes)
    shapes = GRANULAR if granular else fixed(config.max_length)
    drafting = drafter_config_for(config, layers=2, correction_rank=16)
    verifier_weights, drafter_weights = (
        {name: tensor.to(stored) for name, tensor in weights_of(module).items()} for module in (verifier, drafter)
    )
    return Networks(
        verifier_network(verifier_weights, config, format, kernels=kernels, shapes=shapes),
        drafter_network(drafter_weights, drafting, format, kernels=kernels),
        verifier,
        drafter,
        granular,
    )


@pytest.fixture(
    scope="module",
    params=[
        *(f"kernels-{shape}-{format}" for shape in SHAPES for format in FORMATS),
        *(f"pytorch-{shape}-{format}" for shape in SHAPES for format in FORMATS if format != "int8"),
    ],
)
def networks(request: pytest.FixtureRequest) -> Networks:
    backend, shape, format = request.param.split("-")
    kernels = backend == "kernels"
    if kernels:
        request.getfixturevalue("needs_kernels")
    elif not can_pack(torch.zeros(8, 8, dtype=getattr(torch, format))):
        pytest.skip(f"oneDNN has no packed {format} layers on this machine")
    found = make_networks(format, kernels=kernels, **SHAPES[shape])
    if torch.backends.cpu.get_cpu_capability() == "AVX512" or kernels or is_invariant(found.verifier):
        return found  # with AVX-512 granules must do
    # What the program falls back on, on such a machine (specmt.engine.torch.backend).
    return make_networks(format, kernels=kernels, granular=False, **SHAPES[shape])


@pytest.fixture(scope="module")
def texts() -> Texts:
    """Sources without EOS and target tokens (B, LENGTH)."""
    generator = random.Random(5)
    sources = [[generator.randrange(4, 430) for _ in range(length)] for length in SOURCE_LENGTHS]
    targets = [[BOS, *(generator.randrange(4, 430) for _ in range(LENGTH - 1))] for _ in sources]
    return sources, np.array(targets)


def assert_cache_equal(state: State, row: int, alone: State, length: int) -> None:
    assert equal(held(state.own.data[:, :, row, :, :length]), held(alone.own.data[:, :, 0, :, :length]))


def open_rows(networks: Networks, sources: list[list[int]], *, drafter: bool = False) -> State:
    """Returns the caches of rows that have read their sources."""
    return opened(networks.drafter if drafter else networks.verifier, networks.verifier.encode(sources))


def sentences_of(encoded: EncoderOutput) -> list[Tensor]:
    """Returns the output (S, D) of each sentence, in whichever form a network has it."""
    lengths, states = encoded.lengths.tolist(), torch.from_numpy(held(encoded.states))  # type: ignore[attr-defined]
    if states.ndim == 2:
        return list(states.split(lengths))
    return [each[:length] for each, length in zip(states, lengths, strict=True)]


def run_alone(networks: Networks, source: list[int], target: Ids, windows: list[int]) -> tuple[Floats, State]:
    """Returns the logits (T, V) of a row that is scored alone, window by window, and its caches."""
    state = open_rows(networks, [source])
    logits, start = [], 0
    for width in windows:
        window = Window(target[None, start : start + width], np.array([start]))
        logits.append(scores(networks.verifier, window, state)[0])
        start += width
    return np.concatenate(logits), state


@pytest.fixture(scope="module")
def in_one_block(networks: Networks, texts: Texts) -> list[tuple[Floats, State]]:
    """Logits and caches of each row, scored alone in one block by one thread: what all others must equal."""
    set_threads(1)
    return [run_alone(networks, source, target, [LENGTH]) for source, target in zip(*texts, strict=True)]


@pytest.mark.crossed("networks", "windows")
@pytest.mark.parametrize("windows", PLANS, ids=lambda windows: "-".join(map(str, windows[:4])))
def test_windows_of_every_size_give_the_bits_of_one_block(
    networks: Networks,
    texts: Texts,
    in_one_block: list[tuple[Floats, State]],
    windows: list[int],
) -> None:
    for source, target, (wanted, wanted_state) in zip(*texts, in_one_block, strict=True):
        got, state = run_alone(networks, source, target, windows)
        assert equal(got, wanted)
        assert_cache_equal(state, 0, wanted_state, LENGTH)


@pytest.mark.crossed("networks", "order")
@pytest.mark.parametrize(
    ("order", "threads"),
    [
        ([0, 1, 2, 3, 4], 1),
        ([4, 2, 0], 1),
        ([3, 1], 1),
        ([0, 0, 0, 4, 1, 3, 2, 0], 1),
        ([3, 4, 1], 2),
        ([2], 2),
        ([4, 3], 3),
    ],
)
def test_ragged_rows_in_any_company_after_any_rejection(
    networks: Networks,
    texts: Texts,
    in_one_block: list[tuple[Floats, State]],
    order: list[int],
    threads: int,
) -> None:
    """Each row keeps a random part of each window; the rest of the window was a draft that is thrown away."""
    sources, targets = texts
    noise = np.random.default_rng(0)
    set_threads(threads)
    generator = random.Random(len(order))
    state = open_rows(networks, [sources[i] for i in order])
    done = [0] * len(order)
    while min(done) < LENGTH:
        width = generator.choice([1, 2, 3, 4, 5, 8, 13, 26])
        kept = [min(generator.randint(1, width), LENGTH - start) if start < LENGTH else 0 for start in done]
        window = noise.integers(4, 500, (len(order), width))
        for row, (start, count) in enumerate(zip(done, kept, strict=True)):
            window[row, :count] = targets[order[row], start : start + count]
        logits = scores(networks.verifier, Window(window, np.array(done)), state)
        for row, (start, count) in enumerate(zip(done, kept, strict=True)):
            if count:
                assert equal(logits[row, :count], in_one_block[order[row]][0][start : start + count])
            done[row] += count
    for row, which in enumerate(order):
        assert_cache_equal(state, row, in_one_block[which][1], LENGTH)


def test_encoder_memory_and_cross_cache_do_not_depend_on_company(networks: Networks, texts: Texts) -> None:
    sources, _ = texts
    encoded = networks.verifier.encode(sources)
    state = open_rows(networks, sources)
    assert encoded.lengths.tolist() == [length + 1 for length in SOURCE_LENGTHS]
    for row, source in enumerate(sources):
        length = len(source) + 1
        alone = sentences_of(networks.verifier.encode([source]))[0]
        assert equal(sentences_of(encoded)[row].numpy(), alone.numpy())
        cross = open_rows(networks, [source]).cross
        assert equal(held(state.cross.data[:, :, row, :, :length]), held(cross.data[:, :, 0, :, :length]))


@pytest.mark.parametrize(
    ("lengths", "threads"), [((60, 3, 64), 1), ((90, 40, 30, 4, 70), 2), ((50, 20, 75, 30, 40), 3), ((99, 99, 3), 2)]
)
def test_threads_with_sentences_of_their_own_say_the_same(
    networks: Networks, lengths: tuple[int, ...], threads: int
) -> None:
    generator = random.Random(threads)
    sources = [[generator.randrange(4, 430) for _ in range(length)] for length in lengths]
    set_threads(threads)
    found, cross = sentences_of(networks.verifier.encode(sources)), open_rows(networks, sources).cross
    set_threads(1)
    for row, source in enumerate(sources):
        assert equal(found[row].numpy(), sentences_of(networks.verifier.encode([source]))[0].numpy())
        alone = open_rows(networks, [source]).cross
        length = len(source) + 1
        assert equal(held(cross.data[:, :, row, :, :length]), held(alone.data[:, :, 0, :, :length]))


@pytest.mark.crossed("networks", "order")
@pytest.mark.parametrize(
    ("order", "block_size", "threads"),
    [([2], 5, 1), ([0, 1, 2, 3, 4], 1, 1), ([4, 2, 0, 0, 3], 5, 1), ([1, 4], 12, 1), ([4, 0], 5, 2), ([1, 3], 2, 3)],
)
def test_drafts_and_drafter_cache_equal_a_fresh_prefill(
    networks: Networks, texts: Texts, order: list[int], block_size: int, threads: int
) -> None:
    if not networks.granular:
        pytest.skip("on this machine drafts in this type on PyTorch may depend on their batch; exact output does not")
    sources, targets = texts
    network = networks.drafter
    generator = random.Random(block_size)
    state = open_rows(networks, [sources[i] for i in order], drafter=True)
    seen = [0] * len(order)
    for _ in range(6):
        counts = [generator.randint(1, 5) for _ in order]
        fresh = np.zeros((len(order), max(counts)), dtype=np.int64)
        for row, (start, count) in enumerate(zip(seen, counts, strict=True)):
            fresh[row, :count] = targets[order[row], start : start + count]
        set_threads(threads)
        read = Window(fresh, np.array(seen), np.array(counts))
        drafts, log_probs = network.chain(read, block_size, state)
        set_threads(1)
        for row, which in enumerate(order):
            seen[row] += counts[row]
            alone = open_rows(networks, [sources[which]], drafter=True)
            read = Window(targets[which : which + 1, : seen[row]], zeros(1))
            wanted, wanted_log_probs = network.chain(read, block_size, alone)
            assert np.array_equal(drafts[row], wanted[0])
            assert equal(log_probs[row], wanted_log_probs[0])
            assert_cache_equal(state, row, alone, seen[row])


def test_a_moved_row_goes_on_as_before(
    networks: Networks, texts: Texts, in_one_block: list[tuple[Floats, State]]
) -> None:
    sources, targets = texts
    wanted, wanted_state = in_one_block[1]
    state = open_rows(networks, [sources[4], sources[0], sources[1]])
    networks.verifier.score(Window(targets[[4, 0, 1], :20], zeros(3)), state)
    state.move(2, 0, 20)
    logits = scores(networks.verifier, Window(targets[1:2, 20:], np.array([20])), state)
    assert equal(logits[0], wanted[20:])
    assert_cache_equal(state, 0, wanted_state, LENGTH)


def test_a_new_sentence_in_a_used_row_starts_afresh(
    networks: Networks, texts: Texts, in_one_block: list[tuple[Floats, State]]
) -> None:
    sources, targets = texts
    state = open_rows(networks, [sources[4]])
    networks.verifier.score(Window(targets[4:5], zeros(1)), state)
    networks.verifier.start(state, zeros(1), networks.verifier.encode([sources[0]]))
    got = scores(networks.verifier, Window(targets[:1], zeros(1)), state)
    assert equal(got[0], in_one_block[0][0])


def test_some_rows_in_any_order_with_windows_as_long_as_each_needs(
    networks: Networks, texts: Texts, in_one_block: list[tuple[Floats, State]]
) -> None:
    sources, targets = texts
    state = open_rows(networks, sources)
    done = zeros(5)
    for order, counts in (([3, 0, 4], [5, 9, 2]), ([4, 1, 2, 0], [6, 3, 8, 7]), ([2, 3, 4, 0, 1], [1, 11, 4, 2, 9])):
        width, padding = max(counts), 7
        tokens = np.full((len(order), width), padding)
        for number, (row, count) in enumerate(zip(order, counts, strict=True)):
            tokens[number, :count] = targets[row, done[row] : done[row] + count]
        window = Window(tokens, done[order], np.array(counts), np.array(order))
        logits = networks.verifier.score(window, state)
        assert logits.best().shape == (len(order), width)
        ids, log_probs = logits.likeliest(3)
        places = np.tile(np.arange(width), (len(order), 1))
        found = logits.log_probs(logits.best(), places)
        ranks, gaps = logits.ranks(ids[:, :, 2], places)
        for number, (row, count) in enumerate(zip(order, counts, strict=True)):
            wanted = in_one_block[row][0][done[row] : done[row] + count]
            # Behind a row's count, its last.
            wanted = wanted[np.minimum(np.arange(width), count - 1)]
            assert all(equal(logits.row(number, place), wanted[place]) for place in range(width))
            assert np.array_equal(logits.best()[number], wanted.argmax(1))
            listed = np.where(np.arange(VOCAB) == PAD, -np.inf, wanted)
            best = np.argsort(-listed, axis=1, kind="stable")[:, :3]
            assert np.array_equal(ids[number], best)
            softmax = torch.from_numpy(wanted).log_softmax(1).numpy()
            np.testing.assert_allclose(log_probs[number], np.take_along_axis(softmax, best, 1), rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(found[number], softmax.max(1), rtol=1e-4, atol=1e-5)
            own = np.take_along_axis(wanted, best[:, 2:], 1)
            lower = (wanted == own) & (np.arange(VOCAB) < best[:, 2:])
            assert np.array_equal(ranks[number], ((wanted > own) | lower).sum(1))
            assert np.array_equal(gaps[number], wanted.max(1) - own[:, 0])
            done[row] += count
    for row in range(5):
        assert_cache_equal(state, row, in_one_block[row][1], int(done[row]))


@pytest.mark.usefixtures("needs_kernels")
@pytest.mark.parametrize("threads", [1, 2])
def test_log_probabilities_have_the_same_bits_in_any_order(texts: Texts, threads: int) -> None:
    networks = make_networks("int8", kernels=True, **SHAPES["narrow"])
    sources, targets = texts
    logits = networks.verifier.score(Window(targets, zeros(5)), open_rows(networks, sources))
    tokens, places = np.roll(targets, 1, axis=1), np.tile(np.arange(LENGTH), (5, 1))
    set_threads(threads)
    wanted = logits.log_probs(tokens, places)
    assert np.isfinite(wanted).all() and len(np.unique(wanted)) > 100
    for order in (np.random.default_rng(1).permutation(LENGTH), np.arange(LENGTH)[::-1], np.arange(3, 30, 4)):
        assert equal(logits.log_probs(tokens[:, order], places[:, order]), wanted[:, order])
    nothing = np.zeros((5, 0), dtype=np.int64)
    assert logits.log_probs(nothing, nothing).shape == (5, 0)
    assert [each.shape for each in logits.ranks(nothing, nothing)] == [(5, 0), (5, 0)]


CACHES: dict[str, Zeros] = {"arrays": lambda shape: arrays.zeros(shape, np.float32), "tensors": torch.zeros}


@pytest.fixture(params=CACHES)
def cache(request: pytest.FixtureRequest) -> Cache:
    return Cache(2, 3, 2, 4, CACHES[request.param])


def fill(cache: Cache) -> Floats:
    """Fills a cache by chance; returns what is in it."""
    data = np.asarray(cache.data)  # which shares memory with a tensor
    data[:] = np.random.default_rng(1).standard_normal(data.shape)
    return data.copy()


def test_the_cache_grows_and_keeps_its_content(cache: Cache) -> None:
    assert cache.capacity == START
    before = fill(cache)
    cache.reserve(START)
    assert np.array_equal(cache.data, before)
    cache.reserve(START + 1)
    assert cache.capacity % START == 0
    assert np.array_equal(cache.data[..., :START, :], before)
    assert not cache.data[..., START:, :].any()
    cache.reserve(5 * START + 3)
    assert cache.capacity >= 5 * START + 3
    assert np.array_equal(cache.data[..., :START, :], before)


@pytest.mark.parametrize("rows", [[0], [0, 1, 2], [2, 0]])
def test_a_window_lands_on_its_positions_and_nowhere_else(rows: list[int]) -> None:
    data = torch.zeros(2, 2, 3, 2, START, 4)
    starts = [5, 9, 0][: len(rows)]
    window = torch.randn(len(rows), 3, 2, 2, 4)
    append(data[1], window, torch.tensor(rows), torch.tensor(starts)[:, None] + torch.arange(3))
    wanted = torch.zeros_like(data)
    for number, (row, start) in enumerate(zip(rows, starts, strict=True)):
        for offset in range(3):
            wanted[1, :, row, :, start + offset] = window[number, offset]
    assert torch.equal(data, wanted)


@pytest.mark.parametrize("kind", CACHES)
def test_rows_of_a_state_take_the_place_of_others(kind: str) -> None:
    state = State(*(Cache(2, 3, 2, 4, CACHES[kind]) for _ in range(2)), np.array([20, 7, START + 9]))
    state.cross.reserve(START + 9)
    own, cross = fill(state.own), fill(state.cross)
    state.allow(1, "some")
    state.move(1, 0, 5)
    assert state.sources.tolist() == [7, 7, START + 9]
    assert state.shortlists == {0: "some", 1: "some"}
    assert np.array_equal(state.own.data[:, :, 0, :, :5], own[:, :, 1, :, :5])
    assert np.array_equal(state.cross.data[:, :, 0, :, :7], cross[:, :, 1, :, :7])
    assert np.array_equal(state.own.data[:, :, 1:], own[:, :, 1:])
    assert np.array_equal(state.cross.data[:, :, 1:], cross[:, :, 1:])
    state.grow(4, 100)
    assert state.rows == state.own.rows == 6
    assert state.sources.tolist() == [7, 7, START + 9, 1, 1, 1]
    assert np.array_equal(state.cross.data[:, :, 1:3], cross[:, :, 1:])
    state.move(2, 1, 9)
    assert state.sources.tolist() == [7, START + 9, START + 9, 1, 1, 1]
    assert state.shortlists == {0: "some"}
    assert np.array_equal(state.cross.data[:, :, 1, :, : START + 9], cross[:, :, 2, :, : START + 9])


@pytest.mark.parametrize(("length", "rounded"), [(1, 16), (15, 16), (16, 16), (17, 32), (48, 48)])
def test_round_up(length: int, rounded: int) -> None:
    assert round_up(length) == rounded


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_linear_layers(dtype: torch.dtype, activation: str) -> None:
    torch.manual_seed(0)
    weight, bias = torch.randn(24, 32, dtype=dtype), torch.randn(24, dtype=dtype)
    x = torch.randn(9, 32, dtype=dtype)
    wanted = ACTIVATIONS[activation](x.double() @ weight.double().T + bias.double())
    got = Linear(weight, bias)(x, activation=activation)
    assert got.dtype == dtype
    tolerance = {"rtol": 0.02, "atol": 0.1} if dtype == torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(got.double(), wanted, **tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("inputs", "outputs"), [(64, 128), (256, 8000)])
def test_a_packed_row_has_the_same_bits_among_any_number_of_rows(inputs: int, outputs: int, dtype: torch.dtype) -> None:
    if not can_pack(torch.zeros(8, 8, dtype=dtype)):
        pytest.skip(f"oneDNN has no packed {dtype} layers on this machine")
    torch.manual_seed(0)
    layer = Linear(torch.randn(outputs, inputs, dtype=dtype), torch.randn(outputs, dtype=dtype))
    x = torch.randn(70, inputs, dtype=dtype)
    for activation in ACTIVATIONS:
        wanted = layer(x, activation=activation)
        assert wanted.isfinite().all() and wanted.any()
        for threads in (1, 2):
            set_threads(threads)
            for rows in (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33, 64):
                assert torch.equal(layer(x[:rows], activation=activation), wanted[:rows])
                assert torch.equal(layer(x[-rows:], activation=activation), wanted[-rows:])


def test_positions_are_those_of_fairseq2() -> None:
    encoder = SinusoidalPositionEncoder(64, 100, device=CPU)
    torch.testing.assert_close(torch.from_numpy(sinusoids(100, 64)), encoder.freqs[1:101], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("length", "width", "sha256"), [(256, 256, "742b53a85b24f072"), (1024, 512, "8c39e8ad50c06099")]
)
def test_positions_have_these_bits_on_every_processor(length: int, width: int, sha256: str) -> None:
    assert hashlib.sha256(sinusoids(length, width).tobytes()).hexdigest()[:16] == sha256


@pytest.mark.parametrize("shape", [*SHAPES, *MISFITS])
def test_verifier_logits_are_those_of_the_fairseq2_modules(shape: str, kernels: bool, texts: Texts) -> None:
    """What the kernels cannot run runs on PyTorch."""
    networks = make_networks("float32", kernels=kernels, **{**SHAPES, **MISFITS}[shape])
    assert_runs_on(networks, kernels=kernels and shape in SHAPES)
    wanted = module_logits(networks.verifier_module, *texts)
    np.testing.assert_allclose(logits_of(networks.verifier, *texts), wanted, rtol=1e-4, atol=1e-4)
    drafts, log_probs = networks.drafter.chain(
        Window(texts[1][:1, :3], zeros(1)), 4, open_rows(networks, texts[0][:1], drafter=True)
    )
    assert drafts.shape == (1, 4)
    assert (log_probs <= 0).all()


def assert_runs_on(networks: Networks, *, kernels: bool) -> None:
    assert isinstance(networks.verifier, KernelVerifier if kernels else TorchVerifier)
    assert isinstance(networks.drafter, KernelMaskedDrafter if kernels else TorchMasked)


def test_a_decoder_without_an_encoder_scores_like_its_verifier(kernels: bool, texts: Texts) -> None:
    networks = make_networks("float32", kernels=kernels, **SHAPES["narrow"])
    weights, sizes = weights_of(networks.verifier_module), networks.verifier.sizes
    decoder: Scorer
    if kernels:
        arrays = packed(
            lambda given, sizes, format: pack_decoder(given, verifier_tables(given), sizes, format),
            weights,
            sizes,
            "float32",
        )
        decoder = KernelDecoder(arrays, sizes, "float32")
    else:
        tensors = to_tensors(arrays_of(weights), CPU, torch.float32)
        decoder = TorchDecoder(tensors, verifier_tables(weights), sizes, GRANULAR)
    sources, targets = texts
    state = opened(decoder, networks.verifier.encode(sources))
    assert equal(scores(decoder, Window(targets, zeros(len(sources))), state), logits_of(networks.verifier, *texts))


def make_autoregressive(
    format: str, *, kernels: bool, **changes: int
) -> tuple[AutoregressiveDrafter, KernelDecoder | TorchDecoder]:
    """Returns a fairseq2 module and the engine's network over its weights."""
    torch.manual_seed(6)
    config = DecoderConfig(**{"layers": 2, "vocab_size": VOCAB, "max_length": 128, **changes})
    module = create_autoregressive(config, CPU)
    scatter_weights(module)
    return module, autoregressive_network(weights_of(module), config, format, kernels=kernels)


@pytest.mark.parametrize("shape", [*SHAPES, *MISFITS])
def test_an_autoregressive_drafters_logits_are_those_of_its_fairseq2_module(
    shape: str, kernels: bool, texts: Texts
) -> None:
    changes = {**SHAPES, **MISFITS}[shape]
    verifier = make_networks("float32", kernels=kernels, **changes).verifier
    module, drafter = make_autoregressive("float32", kernels=kernels, **changes)
    assert isinstance(drafter, KernelDecoder if kernels and shape in SHAPES else TorchDecoder)
    sources, targets = texts
    encoded = verifier.encode(sources)
    padded = pad_sequence(sentences_of(encoded), batch_first=True)
    with torch.inference_mode():
        layout = BatchLayout.of(padded, encoded.lengths.tolist())
        wanted = module.logits(module(torch.from_numpy(targets), padded, layout))
    got = scores(drafter, Window(targets, zeros(len(sources))), opened(drafter, encoded))
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("format", ["float32", "int8"])
def test_an_autoregressive_drafter_gives_the_same_bits_by_every_route(kernels: bool, format: str, texts: Texts) -> None:
    if not kernels and format == "int8":
        pytest.skip("int8 is for the kernels")
    verifier = make_networks("float32", kernels=kernels, **SHAPES["narrow"]).verifier
    _, drafter = make_autoregressive(format, kernels=kernels, **SHAPES["narrow"])
    sources, targets = texts
    together = opened(drafter, verifier.encode(sources))
    logits = scores(drafter, Window(targets, zeros(len(sources))), together)
    for row, source in enumerate(sources):
        alone = opened(drafter, verifier.encode([source]))
        for start in range(LENGTH):
            step = scores(drafter, Window(targets[row : row + 1, start : start + 1], np.array([start])), alone)
            assert equal(step[0, 0], logits[row, start])
        assert_cache_equal(together, row, alone, LENGTH)


@pytest.mark.parametrize("shape", SHAPES)
def test_drafter_slots_are_those_of_the_training_layout(shape: str, kernels: bool, texts: Texts) -> None:
    """Each block of a training batch, and the engine given the same prefix, see the same slots."""
    networks = make_networks("float32", kernels=kernels, **SHAPES[shape])
    module = networks.drafter_module
    sources, targets = texts
    rows, block_size = len(sources), 5
    target = torch.cat([torch.from_numpy(targets), torch.full((rows, 1), EOS)], dim=1)
    blocks = lay_blocks(
        target,
        torch.full((rows,), LENGTH + 1),
        block_size=block_size,
        options=BlockOptions(spacing=8.0),
        generator=torch.Generator().manual_seed(0),
    )
    encoded = networks.verifier.encode(sources)
    padded = pad_sequence(sentences_of(encoded), batch_first=True)
    layout = BatchLayout.of(padded, encoded.lengths.tolist())
    with torch.inference_mode():
        states = module(blocks.tokens, blocks.positions, blocks.slots, blocks.bias, padded, layout)
    groups = blocks.wanted.shape[1]
    assert groups == 5
    states = states[:, LENGTH:].unflatten(1, (groups, block_size))
    positions = blocks.positions[:, LENGTH:].unflatten(1, (groups, block_size))
    for row in range(rows):
        for group in range(groups):
            count = int(positions[row, group, 0])  # tokens before the block
            state = open_rows(networks, [sources[row]], drafter=True)
            read = Window(targets[row : row + 1, :count], zeros(1))
            with torch.inference_mode():
                wanted = torch.nn.functional.linear(states[row, group], module.get_parameter("embed.weight"))
            # Before the correction.
            got = slot_logits(networks.drafter, read, block_size, state)[0]
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


def slot_logits(drafter: DraftNetwork, read: Window, block_size: int, state: State) -> Floats:
    """Returns what a masked drafter gives each token at each slot, (B, K, V)."""
    if isinstance(drafter, KernelMaskedDrafter):
        return drafter.fill(read, block_size, state).logits.reshape(len(read.tokens), block_size, -1)
    assert isinstance(drafter, TorchMasked)
    with torch.inference_mode():
        slots = drafter._fill(read, block_size, state)
        logits = drafter.project(slots.hidden)
    assert torch.equal(slots.candidates.sort(2)[0], logits.topk(CANDIDATES, 2)[1].sort(2)[0])
    assert torch.equal(slots.logits, logits.gather(2, slots.candidates))
    return logits.numpy()


def test_each_backend_is_had_for_the_asking(kernels: bool) -> None:
    networks = make_networks("bfloat16", kernels=kernels)
    assert_runs_on(networks, kernels=kernels)
    name, wanted = ("format", "bfloat16") if kernels else ("dtype", torch.bfloat16)
    assert getattr(networks.verifier, name) == getattr(networks.drafter, name) == wanted


@pytest.mark.usefixtures("needs_kernels")
@pytest.mark.parametrize("stored", [torch.float32, torch.float16])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_kernels_agree_with_pytorch_at_every_width(width: str, stored: torch.dtype, texts: Texts) -> None:
    """In float32 within 1e-4, whatever type the weights are stored in; in bfloat16 within 4% of the spread."""
    sources, targets = texts
    wanted, got, rough = (
        make_networks(format, kernels=kernels, stored=stored, **WIDTHS[width])
        for format, kernels in (("float32", False), ("float32", True), ("bfloat16", True))
    )
    logits, drafts = {}, {}
    for name, networks in (("wanted", wanted), ("got", got), ("rough", rough)):
        assert isinstance(networks.verifier, TorchVerifier if name == "wanted" else KernelVerifier)
        logits[name] = logits_of(networks.verifier, *texts)
        state = open_rows(networks, sources, drafter=True)
        read = Window(targets[:, :7], zeros(5), np.array([7, 3, 1, 6, 2]))
        drafts[name] = networks.drafter.chain(read, 6, state)
    np.testing.assert_allclose(logits["got"], logits["wanted"], rtol=1e-4, atol=1e-4)
    assert np.array_equal(drafts["got"][0], drafts["wanted"][0])
    np.testing.assert_allclose(drafts["got"][1], drafts["wanted"][1], rtol=1e-4, atol=1e-4)
    error = np.abs(logits["rough"] - logits["wanted"])
    assert error.max() < 0.04 * logits["wanted"].std()
    assert error.any()


@pytest.mark.usefixtures("needs_kernels")
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_kernels_give_the_same_bits_at_every_width(width: str, format: str, texts: Texts) -> None:
    sources, targets = texts
    networks = make_networks(format, kernels=True, **WIDTHS[width])
    state = open_rows(networks, sources)
    together = scores(networks.verifier, Window(targets, zeros(len(sources))), state)
    for row, source in enumerate(sources):
        set_threads(1 + row % 3)
        got, alone = run_alone(networks, source, targets[row], PLANS[row])
        assert equal(got, together[row])
        assert_cache_equal(state, row, alone, LENGTH)


@pytest.mark.usefixtures("needs_kernels")
@pytest.mark.parametrize("width", WIDTHS)
def test_int8_differs_by_its_rounding_alone(width: str, texts: Texts) -> None:
    """127 steps for a weight and for an input, of two layers one on the other."""
    networks = [make_networks(format, kernels=True, **WIDTHS[width]) for format in ("float32", "int8")]
    logits = [logits_of(each.verifier, *texts) for each in networks]
    error = np.abs(logits[0] - logits[1])
    assert error.any()
    assert error.max() < 0.2 * logits[0].std()
    assert error.mean() < 0.03 * logits[0].std()


def test_float64_runs_on_pytorch() -> None:
    assert isinstance(make_networks("float64", kernels=True).verifier, TorchVerifier)


def test_without_kernels_everything_runs_on_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "kernels", lambda: None)
    assert_runs_on(make_networks("float32", kernels=True), kernels=False)


@pytest.mark.parametrize("format", ["float32", "bfloat16"])
def test_a_window_may_reach_past_the_last_position(kernels: bool, format: str, texts: Texts) -> None:
    """What lies before the last position is as ever; the rest is noise, but read from nowhere else."""
    sources, targets = texts
    networks = make_networks(format, kernels=kernels, max_length=30, **SHAPES["narrow"])
    # Two sources are longer than that, too.
    state = open_rows(networks, sources)
    wanted = scores(networks.verifier, Window(targets[:, :30], zeros(5)), state)
    starts = np.array([29, 20, 29, 25, 28])
    tokens = np.stack([row[start : start + 11] for row, start in zip(targets, starts.tolist(), strict=True)])
    got = scores(networks.verifier, Window(tokens, starts), state)
    for row, start in enumerate(starts.tolist()):
        assert equal(got[row, : 30 - start], wanted[row, start:])
    if format == "float32":
        other = make_networks(format, kernels=False, max_length=30, **SHAPES["narrow"]).verifier
        state = opened(other, other.encode(sources))
        other.score(Window(targets[:, :30], zeros(5)), state)
        np.testing.assert_allclose(got, scores(other, Window(tokens, starts), state), rtol=1e-4, atol=1e-4)
    drafting = open_rows(networks, sources, drafter=True)
    read = Window(targets[:, :30], zeros(5), np.array([29, 30, 12, 1, 28]))
    drafts, log_probs = networks.drafter.chain(read, 60, drafting)
    assert ((drafts >= 0) & (drafts < VOCAB)).all()
    assert np.isfinite(log_probs).all()


@pytest.mark.parametrize("scale", [50.0, 0.02])
def test_attention_of_very_large_and_very_small_scores(kernels: bool, scale: float, texts: Texts) -> None:
    """Queries and keys times 50: scores in the thousands, one key takes all."""
    got, wanted = (
        logits_of(make_networks(format, kernels=kernels, scale=scale, **SHAPES["narrow"]).verifier, *texts)
        for format in ("float32", "float64")
    )
    assert np.isfinite(got).all()
    # A score of thousands is known to about 1e-4 in float32.
    tolerance = 1e-4 if scale < 1 else 2e-3
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


def test_the_exponential_function(kernels: bool) -> None:
    """Hand-built cross-attention: key t scores s_t and its value is exp(−s_t) in lane t, so that all lanes are equal.

    The weights are such that the logits are the normalised lanes, a lane of zeros and lanes of ones among them, from
    which the lanes can be had back.
    """
    config = VerifierConfig(
        model_dim=32, num_heads=2, ffn_dim=16, encoder_layers=1, decoder_layers=1, vocab_size=33, max_length=16
    )
    weights = {name: torch.zeros(shape) for name, shape in verifier_shapes(config).items()}
    weights["encoder_frontend.embed.weight"][:32] = torch.eye(32)
    weights["decoder.layer_norm.weight"] += 1
    attention = "decoder.layers.0.encoder_decoder_attn"
    weights[f"{attention}.q_proj.bias"][0] = 4  # scaled by 1/√16
    weights[f"{attention}.output_proj.weight"][:16, :16] = torch.eye(16)
    verifier = verifier_network(weights, config, "float32", kernels=kernels)
    rows = 200
    spread = -np.linspace(0, 87, rows * 14).reshape(14, rows).T
    given = np.concatenate([np.zeros((rows, 1)), spread], axis=1).astype(np.float32)  # (B, 15)
    given[0, 8:] = [-88.0, -104.0, -105.0, -200.0, -1e4, -1e30, -3e38]  # nothing is left of these
    state = verifier.new_state(rows)
    state.sources[:] = 15
    data = np.asarray(state.cross.data)
    data[0, 0, :, 0, :15, 0] = given
    data[0, 1, :, 0, range(15), range(15)] = np.exp(-given.astype(np.float64).clip(min=-87)).T
    lanes = scores(verifier, Window(np.full((rows, 1), 32), zeros(rows)), state)[:, 0].astype(np.float64)
    lanes = (lanes - lanes[:, 15:16]) / (lanes[:, 16:17] - lanes[:, 15:16])  # lane 15 has no value, lane 16 is 1
    share = 1 / np.exp(given.astype(np.float64)).sum(1)
    np.testing.assert_allclose(lanes[:, 0], share, rtol=3e-6)
    np.testing.assert_allclose(lanes[1:, :15], np.tile(share[1:, None], 15), rtol=3e-6)
    np.testing.assert_allclose(lanes[0, 9:15], 0, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_calls_from_several_threads_do_not_mix(kernels: bool, threads: int, texts: Texts) -> None:
    networks = make_networks("float32", kernels=kernels)
    wanted = [run_alone(networks, *text, [LENGTH])[0] for text in zip(*texts, strict=True)]

    def work(number: int) -> bool:
        set_threads(threads)
        which = number % len(wanted)
        logits, _ = run_alone(networks, texts[0][which], texts[1][which], PLANS[number % 3])
        return np.array_equal(logits, wanted[which])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(24)))


@pytest.mark.usefixtures("needs_kernels")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_kernels_run_in_a_forked_child(texts: Texts) -> None:
    """A child inherits the library, but none of its threads."""
    networks = make_networks("float32", kernels=True, **SHAPES["narrow"])
    source, target = texts[0][2], texts[1][2]
    set_threads(2)
    wanted, _ = run_alone(networks, source, target, [LENGTH])

    def work() -> None:
        got, _ = run_alone(networks, source, target, [LENGTH])
        assert np.array_equal(got, wanted)

    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(60)
    if child.is_alive():
        child.kill()
    assert child.exitcode == 0
    assert np.array_equal(run_alone(networks, source, target, [LENGTH])[0], wanted)


@dataclass(frozen=True)
class Chains:
    """A drafter module with random weights, and both ways to run its chain."""

    module: MaskedDrafter
    native: DraftNetwork
    correction: Correction

    def find(self, logits: Tensor, hidden: Tensor, last: Tensor, *, kernels: bool) -> tuple[Tensor, Tensor]:
        """Runs ``best_chain``, or the kernels' own, on logits (B, K, V), hidden states (B, K, D) and tokens (B)."""
        slots = Slots(logits, hidden, last)
        if kernels:
            assert isinstance(self.native, KernelMaskedDrafter)
            tokens, log_probs = self.native.best_chain(slots.on_kernels())
            return torch.from_numpy(tokens), torch.from_numpy(log_probs)
        with torch.inference_mode():
            return best_chain(slots.on_pytorch(), self.correction)


class Slots(NamedTuple):
    """Blocks of slots that are given."""

    logits: Tensor
    """(B, K, V)"""

    hidden: Tensor
    """(B, K, D)"""

    last: Tensor
    """(B)"""

    def row(self, number: int) -> Slots:
        """Returns the block of one sentence."""
        return Slots(*(tensor[number, None] for tensor in self))

    def on_kernels(self) -> kernel_masked.Slots:
        return kernel_masked.Slots(self.logits.flatten(0, 1).numpy(), self.hidden.numpy(), self.last.numpy())

    def on_pytorch(self) -> torch_correction.Slots:
        return torch_correction.Slots.of(*self)


def make_chains(vocab: int, rank: int, *, output: float = 0.2) -> Chains:
    """
    :param output: how strongly a chain is corrected.
    """
    torch.manual_seed(4)
    sizes = {"model_dim": 32, "num_heads": 2, "ffn_dim": 16, "layers": 1}
    config = DrafterConfig(**sizes, vocab_size=vocab, max_length=16, correction_rank=rank)
    module = create_drafter(config, CPU).eval()
    scatter_weights(module)
    with torch.no_grad():
        module.correction.output.weight.normal_(std=output)
        module.correction.gates.weight.mul_(3)
    weights = weights_of(module)
    native = drafter_network(weights, config, "float32")
    return Chains(module, native, Correction(weights, weights["embed.weight"], 32**0.5))


@pytest.mark.crossed("kernels", "vocab", "block_size")
@pytest.mark.parametrize("block_size", [1, 2, 6, 17])
@pytest.mark.parametrize(("vocab", "rank"), [(9, 16), (16, 48), (17, 16), (500, 128), (437, 32)])
def test_the_chain_is_that_of_the_corrected_logits(kernels: bool, vocab: int, rank: int, block_size: int) -> None:
    """Among each slot's best candidates, the chain takes the best under the module's logits after its own tokens."""
    chains = make_chains(vocab, rank, output=0.5)
    hidden, last = torch.randn(8, block_size, 32), torch.randint(vocab, (8,))
    with torch.inference_mode():
        logits = torch.nn.functional.linear(hidden, chains.module.embed.weight)
        tokens, log_probs = chains.find(logits, hidden, last, kernels=kernels)
        assert tokens.shape == log_probs.shape == (8, block_size)
        corrected = chains.module.logits(hidden, torch.cat([last[:, None], tokens[:, :-1]], dim=1))
        candidates = logits.topk(min(vocab, CANDIDATES), dim=2).indices
        values = corrected.gather(2, candidates).log_softmax(2)
    best, index = values.max(2)
    assert torch.equal(tokens, candidates.gather(2, index[:, :, None])[:, :, 0])
    torch.testing.assert_close(log_probs, best, rtol=1e-4, atol=1e-4)
    assert index.any()


@pytest.mark.usefixtures("needs_kernels")
def test_a_chain_does_not_depend_on_its_neighbours_or_on_threads() -> None:
    chains = make_chains(437, 64)
    logits, hidden, last = 2 * torch.randn(9, 7, 437), torch.randn(9, 7, 32), torch.randint(437, (9,))
    alone = [chains.find(logits[row, None], hidden[row, None], last[row, None], kernels=True) for row in range(9)]
    for threads in (1, 2, 3):
        set_threads(threads)
        tokens, log_probs = chains.find(logits, hidden, last, kernels=True)
        assert torch.equal(tokens, torch.cat([pair[0] for pair in alone]))
        assert torch.equal(log_probs, torch.cat([pair[1] for pair in alone]))


@pytest.mark.usefixtures("needs_kernels")
def test_the_lowest_ids_among_equal_candidates_of_the_kernels() -> None:
    logits = torch.zeros(3, 1, 50)
    logits[1, 0, 40] = 1  # one of the first 16 makes room
    logits[2, 0, 14:34] = 1  # 20 equals for 16 places
    chosen: list[list[bool]] = []
    for favourite in range(50):
        chains = make_chains(50, 16)
        # The correction lifts one token above all others, if it is a candidate: no other row of the table, all of one
        # length, is as near to it as itself.
        table, output = chains.module.embed.weight.detach(), torch.zeros(32, 16)
        table /= table.norm(dim=1, keepdim=True)
        output[:, 0] = 1000 * table[favourite]
        gates = {"correction.gates.weight": torch.zeros(32, 80), "correction.gates.bias": torch.ones(32)}
        weights = weights_of(chains.module) | {"correction.output.weight": output} | gates
        native = drafter_network(weights, chains.module.config, "float32")
        tokens, _ = replace(chains, native=native).find(
            logits, torch.zeros(3, 1, 32), torch.zeros(3).long(), kernels=True
        )
        chosen.append((tokens[:, 0] == favourite).tolist())
    candidates = [{token for token in range(50) if chosen[token][row]} for row in range(3)]
    assert candidates == [set(range(16)), {*range(15), 40}, set(range(14, 30))]


@pytest.mark.parametrize("threads", [1, 2])
def test_going_ahead_is_what_single_steps_say(kernels: bool, texts: Texts, threads: int) -> None:
    """Rows have different numbers of tokens to read; a second call goes on after some of what the first one said."""
    networks = make_networks("float32", kernels=kernels, **SHAPES["wide"])
    sources, targets = texts
    network, rows = networks.verifier, np.arange(len(sources))
    assert isinstance(network, KernelDecoder | TorchDecoder)
    ahead, single = open_rows(networks, sources), open_rows(networks, sources)
    starts, counts = zeros(len(sources)), np.array([3, 1, 6, 2, 4])
    fresh = targets[:, :6]
    for _ in range(2):
        set_threads(threads)
        tokens, log_probs = network.chain(Window(fresh, starts, counts), 5, ahead)
        set_threads(1)
        logits = scores(network, Window(fresh, starts), single)[rows, counts - 1]
        for number in range(tokens.shape[1]):
            assert np.array_equal(tokens[:, number], logits.argmax(1))
            wanted = torch.from_numpy(logits).log_softmax(1).amax(1)
            np.testing.assert_allclose(log_probs[:, number], wanted, rtol=1e-4, atol=1e-5)
            logits = scores(network, Window(tokens[:, number, None], starts + counts + number), single)[:, 0]
        assert tokens.shape[1] == 5
        starts, fresh = starts + counts, tokens[:, :4]
        counts = np.array([1, 4, 2, 3, 1])


def test_going_ahead_stops_where_all_sentences_have_ended(
    kernels: bool, texts: Texts, monkeypatch: pytest.MonkeyPatch
) -> None:
    networks = make_networks("float32", kernels=kernels, **SHAPES["narrow"])
    sources, targets = texts
    first, second = open_rows(networks, sources[:1]), open_rows(networks, sources[:1])
    network, read = networks.verifier, Window(targets[:1, :1], zeros(1))
    assert isinstance(network, KernelDecoder | TorchDecoder)
    tokens, _ = network.chain(read, 3, first)
    assert tokens.shape == (1, 3)
    for backend in ("kernels", "torch"):
        monkeypatch.setattr(f"specmt.engine.{backend}.decoder.EOS", int(tokens[0, 0]))
    again, _ = network.chain(read, 3, second)
    assert again.tolist() == tokens[:, :1].tolist()
