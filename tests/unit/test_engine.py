"""The keystone (DESIGN §9.2, §9.4): the same bits by every route, and the numbers of the fairseq2 modules."""

from __future__ import annotations

import hashlib
import math
import multiprocessing
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from fairseq2.models.transformer import TransformerModel
from fairseq2.nn import BatchLayout, SinusoidalPositionEncoder
from torch import Tensor
from torch.nn import Module
from torch.nn.utils.rnn import pad_sequence

from specmt.engine import library
from specmt.engine.backend import Drafter, EncoderOutput, Scorer, Slots, State, Verifier
from specmt.engine.cache import GRANULE, START, CrossCache, KVCache, append, round_up
from specmt.engine.candidates import CANDIDATES, Correction, best_chain
from specmt.engine.embedding import sinusoids
from specmt.engine.linear import Linear, can_pack
from specmt.engine.native import NativeDecoder, NativeDrafter, NativeVerifier
from specmt.engine.networks import DecoderNetwork, DrafterNetwork, VerifierNetwork
from specmt.engine.packed import pack_decoder
from specmt.engine.shapes import GRANULAR, fixed, is_invariant
from specmt.engine.transformer import verifier_tables
from specmt.errors import UsageError
from specmt.models.config import AutoregressiveConfig, DrafterConfig, VerifierConfig, drafter_config_for
from specmt.models.hub import choose_backend
from specmt.models.modules import (
    AutoregressiveDrafter,
    MaskedDrafter,
    create_autoregressive,
    create_drafter,
    create_verifier,
)
from specmt.models.shapes import verifier_shapes
from specmt.training.drafter import BlockOptions, lay_blocks
from specmt.training.validate import weights_of
from specmt.training.verifier import target_states
from specmt.types import BOS, EOS
from tests.networks import autoregressive_network, drafter_network, verifier_network

CPU = torch.device("cpu")
VOCAB = 500
LENGTH = 40
"""Target tokens a row."""

SOURCE_LENGTHS = [3, 17, 30, 1, 47]
PLANS = [[1] * LENGTH, [3, 1, 7, 12, 1, 2, 14], [2] * 20, [39, 1], [15, 16, 9]]
DTYPES = ("float32", "bfloat16", "int8")
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
    drafter: Drafter
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
    dtype: torch.dtype,
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
        verifier_network(verifier_weights, config, CPU, dtype, kernels=kernels, shapes=shapes),
        drafter_network(drafter_weights, drafting, CPU, dtype, kernels=kernels),
        verifier,
        drafter,
        granular,
    )


@pytest.fixture(scope="module", params=[f"{shape}-{dtype}" for shape in SHAPES for dtype in DTYPES])
def networks(request: pytest.FixtureRequest, kernels: bool) -> Networks:
    shape, name = request.param.split("-")
    dtype = getattr(torch, name)
    if not kernels and dtype == torch.int8:
        pytest.skip("int8 is for the kernels")
    if not kernels and not can_pack(torch.zeros(8, 8, dtype=dtype)):
        pytest.skip(f"oneDNN has no packed {name} layers on this machine")
    found = make_networks(dtype, kernels=kernels, **SHAPES[shape])
    if torch.backends.cpu.get_cpu_capability() == "AVX512" or is_invariant(found.verifier):
        return found  # with AVX-512 granules must do
    # What the program falls back on, on such a machine (specmt.models.hub.choose_backend).
    return make_networks(dtype, kernels=kernels, granular=kernels, **SHAPES[shape])


@pytest.fixture(scope="module")
def texts() -> tuple[list[list[int]], Tensor]:
    """Sources without EOS and target tokens (B, LENGTH)."""
    generator = random.Random(5)
    sources = [[generator.randrange(4, 430) for _ in range(length)] for length in SOURCE_LENGTHS]
    targets = [[BOS, *(generator.randrange(4, 430) for _ in range(LENGTH - 1))] for _ in sources]
    return sources, torch.tensor(targets)


def equal(left: Tensor, right: Tensor) -> bool:
    """Whether two tensors have the same bits; finite ones that are not all zero."""
    assert left.isfinite().all() and left.any()
    return torch.equal(left, right)


def assert_cache_equal(state: State, row: int, alone: State, length: int) -> None:
    assert equal(state.cache.data[:, :, row, :, :length], alone.cache.data[:, :, 0, :, :length])


def open_rows(networks: Networks, sources: list[list[int]], *, drafter: bool = False) -> State:
    """Returns the caches of rows that have read their sources."""
    network = networks.drafter if drafter else networks.verifier
    state = network.new_state(len(sources))
    network.start(state, torch.arange(len(sources)), networks.verifier.encode(sources))
    return state


def sentences_of(memory: EncoderOutput) -> list[Tensor]:
    """Returns the memory (S, D) of each sentence, in whichever form a network has it."""
    lengths = memory.lengths.tolist()
    if memory.states.ndim == 2:
        return list(memory.states.split(lengths))
    return [states[:length] for states, length in zip(memory.states, lengths, strict=True)]


def run_alone(networks: Networks, source: list[int], target: Tensor, windows: list[int]) -> tuple[Tensor, State]:
    """Returns the logits (T, V) of a row that is scored alone, window by window, and its caches."""
    state = open_rows(networks, [source])
    logits, start = [], 0
    for width in windows:
        window = target[None, start : start + width]
        logits.append(networks.verifier.score(window, torch.tensor([start]), state)[0])
        start += width
    return torch.cat(logits), state


@pytest.fixture(scope="module")
def in_one_block(networks: Networks, texts: tuple[list[list[int]], Tensor]) -> list[tuple[Tensor, State]]:
    """Logits and caches of each row, scored alone in one block by one thread: what all others must equal."""
    torch.set_num_threads(1)
    return [run_alone(networks, source, target, [LENGTH]) for source, target in zip(*texts, strict=True)]


@pytest.mark.parametrize("windows", PLANS, ids=lambda windows: "-".join(map(str, windows[:4])))
def test_windows_of_every_size_give_the_bits_of_one_block(
    networks: Networks,
    texts: tuple[list[list[int]], Tensor],
    in_one_block: list[tuple[Tensor, State]],
    windows: list[int],
) -> None:
    for source, target, (wanted, wanted_state) in zip(*texts, in_one_block, strict=True):
        got, state = run_alone(networks, source, target, windows)
        assert equal(got, wanted)
        assert_cache_equal(state, 0, wanted_state, LENGTH)


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
    texts: tuple[list[list[int]], Tensor],
    in_one_block: list[tuple[Tensor, State]],
    order: list[int],
    threads: int,
) -> None:
    """Each row keeps a random part of each window; the rest of the window was a draft that is thrown away."""
    sources, targets = texts
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    generator = random.Random(len(order))
    state = open_rows(networks, [sources[i] for i in order])
    done = [0] * len(order)
    while min(done) < LENGTH:
        width = generator.choice([1, 2, 3, 4, 5, 8, 13, 26])
        kept = [min(generator.randint(1, width), LENGTH - start) if start < LENGTH else 0 for start in done]
        window = torch.randint(4, 500, (len(order), width))
        for row, (start, count) in enumerate(zip(done, kept, strict=True)):
            window[row, :count] = targets[order[row], start : start + count]
        logits = networks.verifier.score(window, torch.tensor(done), state)
        for row, (start, count) in enumerate(zip(done, kept, strict=True)):
            if count:
                assert equal(logits[row, :count], in_one_block[order[row]][0][start : start + count])
            done[row] += count
    for row, which in enumerate(order):
        assert_cache_equal(state, row, in_one_block[which][1], LENGTH)


def test_encoder_memory_and_cross_cache_do_not_depend_on_company(
    networks: Networks, texts: tuple[list[list[int]], Tensor]
) -> None:
    sources, _ = texts
    memory = networks.verifier.encode(sources)
    state = open_rows(networks, sources)
    assert memory.lengths.tolist() == [length + 1 for length in SOURCE_LENGTHS]
    for row, source in enumerate(sources):
        length = len(source) + 1
        assert equal(sentences_of(memory)[row], sentences_of(networks.verifier.encode([source]))[0])
        cross = open_rows(networks, [source]).cross
        assert equal(state.cross.data[:, :, row, :, :length], cross.data[:, :, 0, :, :length])


@pytest.mark.parametrize(
    ("order", "block_size", "threads"),
    [([2], 5, 1), ([0, 1, 2, 3, 4], 1, 1), ([4, 2, 0, 0, 3], 5, 1), ([1, 4], 12, 1), ([4, 0], 5, 2), ([1, 3], 2, 3)],
)
def test_drafts_and_drafter_cache_equal_a_fresh_prefill(
    networks: Networks, texts: tuple[list[list[int]], Tensor], order: list[int], block_size: int, threads: int
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
        fresh = torch.zeros(len(order), max(counts), dtype=torch.int64)
        for row, (start, count) in enumerate(zip(seen, counts, strict=True)):
            fresh[row, :count] = targets[order[row], start : start + count]
        torch.set_num_threads(threads)
        drafts, log_probs = propose(network, fresh, torch.tensor(seen), torch.tensor(counts), block_size, state)
        torch.set_num_threads(1)
        for row, which in enumerate(order):
            seen[row] += counts[row]
            alone = open_rows(networks, [sources[which]], drafter=True)
            prefix = targets[which : which + 1, : seen[row]]
            wanted, wanted_log_probs = propose(
                network, prefix, torch.tensor([0]), torch.tensor([seen[row]]), block_size, alone
            )
            assert torch.equal(drafts[row], wanted[0])
            assert equal(log_probs[row], wanted_log_probs[0])
            assert_cache_equal(state, row, alone, seen[row])


def test_a_moved_row_goes_on_as_before(
    networks: Networks, texts: tuple[list[list[int]], Tensor], in_one_block: list[tuple[Tensor, State]]
) -> None:
    sources, targets = texts
    wanted, wanted_state = in_one_block[1]
    state = open_rows(networks, [sources[4], sources[0], sources[1]])
    networks.verifier.score(targets[[4, 0, 1], :20], torch.zeros(3, dtype=torch.int64), state)
    state.move(2, 0, 20)
    logits = networks.verifier.score(targets[1:2, 20:], torch.tensor([20]), state)
    assert equal(logits[0], wanted[20:])
    assert_cache_equal(state, 0, wanted_state, LENGTH)


def test_a_new_sentence_in_a_used_row_starts_afresh(
    networks: Networks, texts: tuple[list[list[int]], Tensor], in_one_block: list[tuple[Tensor, State]]
) -> None:
    sources, targets = texts
    state = open_rows(networks, [sources[4]])
    networks.verifier.score(targets[4:5], torch.tensor([0]), state)
    networks.verifier.start(state, torch.tensor([0]), networks.verifier.encode([sources[0]]))
    got = networks.verifier.score(targets[:1], torch.tensor([0]), state)
    assert equal(got[0], in_one_block[0][0])


def test_the_cache_grows_and_keeps_its_content() -> None:
    cache = KVCache(2, 3, 2, 4, dtype=torch.float32, device=CPU)
    assert cache.capacity == START
    cache.data.normal_()
    before = cache.data.clone()
    cache.reserve(START)
    assert torch.equal(cache.data, before)
    cache.reserve(START + 1)
    assert cache.capacity % START == 0
    assert torch.equal(cache.data[..., :START, :], before)
    assert not cache.data[..., START:, :].any()
    cache.reserve(5 * START + 3)
    assert cache.capacity >= 5 * START + 3
    assert torch.equal(cache.data[..., :START, :], before)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_window_lands_on_its_positions_and_nowhere_else(rows: int) -> None:
    cache = KVCache(2, 3, 2, 4, dtype=torch.float32, device=CPU)
    starts = [5, 9, 0][:rows]
    window = torch.randn(rows, 3, 2, 2, 4)
    append(cache.data[1], window, torch.tensor(starts)[:, None] + torch.arange(3))
    wanted = torch.zeros_like(cache.data)
    for row, start in enumerate(starts):
        for offset in range(3):
            wanted[1, :, row, :, start + offset] = window[row, offset]
    assert torch.equal(cache.data, wanted)
    keys, values = (cache.data[1, part, :rows, :, :GRANULE] for part in (0, 1))
    assert torch.equal(keys, wanted[1, 0, :rows, :, :GRANULE])
    assert torch.equal(values, wanted[1, 1, :rows, :, :GRANULE])


def test_the_cross_cache_takes_wider_and_narrower_sentences() -> None:
    cross = CrossCache(2, 3, 2, 4, dtype=torch.float32, device=CPU)
    wide, narrow = torch.randn(2, 2, 2, 2, 2 * GRANULE, 4), torch.randn(2, 2, 1, 2, GRANULE, 4)
    cross.fill(torch.tensor([0, 2]), wide, torch.tensor([20, 32]))
    cross.fill(torch.tensor([1]), narrow, torch.tensor([7]))
    assert cross.lengths.tolist() == [20, 7, 32]
    assert torch.equal(cross.data[:, :, [0, 2], :, : 2 * GRANULE], wide)
    assert torch.equal(cross.data[:, :, 1:2, :, :GRANULE], narrow)
    cross.move(1, 0)
    assert cross.lengths.tolist() == [7, 7, 32]
    assert torch.equal(cross.data[:, :, :1, :, :7], narrow[:, :, :, :, :7])


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
        for threads in (1, 2):
            torch.set_num_threads(threads)
            for rows in (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33, 64):
                assert equal(layer(x[:rows], activation=activation), wanted[:rows])
                assert equal(layer(x[-rows:], activation=activation), wanted[-rows:])


def test_positions_are_those_of_fairseq2() -> None:
    encoder = SinusoidalPositionEncoder(64, 100, device=CPU)
    torch.testing.assert_close(sinusoids(100, 64), encoder.freqs[1:101], rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("length", "width", "sha256"), [(256, 256, "742b53a85b24f072"), (1024, 512, "8c39e8ad50c06099")]
)
def test_positions_have_these_bits_on_every_processor(length: int, width: int, sha256: str) -> None:
    assert hashlib.sha256(sinusoids(length, width).numpy().tobytes()).hexdigest()[:16] == sha256


@pytest.mark.parametrize("shape", SHAPES)
def test_verifier_logits_are_those_of_the_fairseq2_modules(
    shape: str, kernels: bool, texts: tuple[list[list[int]], Tensor]
) -> None:
    networks = make_networks(torch.float32, kernels=kernels, **SHAPES[shape])
    sources, targets = texts
    got = networks.verifier.score(targets, zeros(len(sources)), open_rows(networks, sources))
    torch.testing.assert_close(got, module_logits(networks.verifier_module, *texts), rtol=1e-4, atol=1e-4)


def test_a_decoder_without_an_encoder_scores_like_its_verifier(
    kernels: bool, texts: tuple[list[list[int]], Tensor]
) -> None:
    networks = make_networks(torch.float32, kernels=kernels, **SHAPES["narrow"])
    weights, sizes = weights_of(networks.verifier_module), networks.verifier.sizes
    tables = verifier_tables(weights)
    decoder: Scorer
    if kernels:
        packed = dict(pack_decoder(weights, tables, sizes, torch.float32))
        decoder = NativeDecoder(packed, sizes, torch.float32)
    else:
        decoder = DecoderNetwork(weights, tables, sizes, GRANULAR)
    sources, targets = texts
    state = decoder.new_state(len(sources))
    decoder.start(state, torch.arange(len(sources)), networks.verifier.encode(sources))
    wanted = networks.verifier.score(targets, zeros(len(sources)), open_rows(networks, sources))
    assert equal(decoder.score(targets, zeros(len(sources)), state), wanted)


def make_autoregressive(dtype: torch.dtype, *, kernels: bool, **changes: int) -> tuple[AutoregressiveDrafter, Scorer]:
    """Returns a fairseq2 module and the engine's network over its weights."""
    torch.manual_seed(6)
    config = AutoregressiveConfig(**{"layers": 2, "vocab_size": VOCAB, "max_length": 128, **changes})
    module = create_autoregressive(config, CPU)
    scatter_weights(module)
    return module, autoregressive_network(weights_of(module), config, CPU, dtype, kernels=kernels)


def started(drafter: Scorer, memory: EncoderOutput) -> State:
    state = drafter.new_state(len(memory.lengths))
    drafter.start(state, torch.arange(len(memory.lengths)), memory)
    return state


@pytest.mark.parametrize("shape", [*SHAPES, *MISFITS])
def test_an_autoregressive_drafters_logits_are_those_of_its_fairseq2_module(
    shape: str, kernels: bool, texts: tuple[list[list[int]], Tensor]
) -> None:
    changes = {**SHAPES, **MISFITS}[shape]
    verifier = make_networks(torch.float32, kernels=kernels, **changes).verifier
    module, drafter = make_autoregressive(torch.float32, kernels=kernels, **changes)
    assert isinstance(drafter, NativeDecoder if kernels and shape in SHAPES else DecoderNetwork)
    sources, targets = texts
    memory = verifier.encode(sources)
    padded = pad_sequence(sentences_of(memory), batch_first=True)
    with torch.inference_mode():
        wanted = module.logits(module(targets, padded, BatchLayout.of(padded, memory.lengths.tolist())))
    got = drafter.score(targets, zeros(len(sources)), started(drafter, memory))
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8])
def test_an_autoregressive_drafter_gives_the_same_bits_by_every_route(
    kernels: bool, dtype: torch.dtype, texts: tuple[list[list[int]], Tensor]
) -> None:
    if not kernels and dtype == torch.int8:
        pytest.skip("int8 is for the kernels")
    verifier = make_networks(torch.float32, kernels=kernels, **SHAPES["narrow"]).verifier
    _, drafter = make_autoregressive(dtype, kernels=kernels, **SHAPES["narrow"])
    sources, targets = texts
    together = started(drafter, verifier.encode(sources))
    logits = drafter.score(targets, zeros(len(sources)), together)
    for row, source in enumerate(sources):
        alone = started(drafter, verifier.encode([source]))
        for start in range(LENGTH):
            step = drafter.score(targets[row : row + 1, start : start + 1], torch.tensor([start]), alone)
            assert equal(step[0, 0], logits[row, start])
        assert_cache_equal(together, row, alone, LENGTH)


def zeros(rows: int) -> Tensor:
    return torch.zeros(rows, dtype=torch.int64)


def module_logits(module: TransformerModel, sources: list[list[int]], targets: Tensor) -> Tensor:
    """Returns the logits (B, T, V) of the fairseq2 modules."""
    lengths = torch.tensor([len(source) + 1 for source in sources])
    source = pad_sequence([torch.tensor([*ids, EOS]) for ids in sources], batch_first=True)
    with torch.inference_mode():
        logits: Tensor = module.final_proj(target_states(module, source, lengths, targets))
    return logits


@pytest.mark.parametrize("shape", SHAPES)
def test_drafter_slots_are_those_of_the_training_layout(
    shape: str, kernels: bool, texts: tuple[list[list[int]], Tensor]
) -> None:
    """Each block of a training batch, and the engine given the same prefix, see the same slots."""
    networks = make_networks(torch.float32, kernels=kernels, **SHAPES[shape])
    module = networks.drafter_module
    sources, targets = texts
    rows, block_size = len(sources), 5
    target = torch.cat([targets, torch.full((rows, 1), EOS)], dim=1)
    blocks = lay_blocks(
        target,
        torch.full((rows,), LENGTH + 1),
        block_size=block_size,
        options=BlockOptions(spacing=8.0),
        generator=torch.Generator().manual_seed(0),
    )
    memory = networks.verifier.encode(sources)
    padded = pad_sequence(sentences_of(memory), batch_first=True)
    layout = BatchLayout.of(padded, memory.lengths.tolist())
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
            tokens = targets[row : row + 1, :count]
            slots = networks.drafter.fill(tokens, zeros(1), torch.tensor([count]), block_size, state)
            with torch.inference_mode():
                wanted = torch.nn.functional.linear(states[row, group], module.get_parameter("embed.weight"))
            # Before the correction.
            torch.testing.assert_close(slots.logits[0], wanted, rtol=1e-4, atol=1e-4)


def propose(network: Drafter, *call: Any) -> tuple[Tensor, Tensor]:
    """Returns the chains (B', K) after newly committed tokens, with log-probabilities."""
    return network.chain(network.fill(*call))


def test_each_backend_is_had_for_the_asking(kernels: bool) -> None:
    networks = make_networks(torch.bfloat16, kernels=kernels)
    assert isinstance(networks.verifier, NativeVerifier if kernels else VerifierNetwork)
    assert isinstance(networks.drafter, NativeDrafter if kernels else DrafterNetwork)
    assert networks.verifier.dtype == networks.drafter.dtype == torch.bfloat16


@pytest.mark.usefixtures("needs_kernels")
@pytest.mark.parametrize("stored", [torch.float32, torch.float16])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_kernels_agree_with_pytorch_at_every_width(
    width: str, stored: torch.dtype, texts: tuple[list[list[int]], Tensor]
) -> None:
    """In float32 within 1e-4, whatever type the weights are stored in; in bfloat16 within 4% of the spread."""
    sources, targets = texts
    wanted, got, rough = (
        make_networks(dtype, kernels=kernels, stored=stored, **WIDTHS[width])
        for dtype, kernels in ((torch.float32, False), (torch.float32, True), (torch.bfloat16, True))
    )
    logits, drafts = {}, {}
    for name, networks in (("wanted", wanted), ("got", got), ("rough", rough)):
        assert isinstance(networks.verifier, VerifierNetwork if name == "wanted" else NativeVerifier)
        logits[name] = networks.verifier.score(targets, zeros(len(sources)), open_rows(networks, sources))
        state = open_rows(networks, sources, drafter=True)
        drafts[name] = propose(networks.drafter, targets[:, :7], zeros(5), torch.tensor([7, 3, 1, 6, 2]), 6, state)
    torch.testing.assert_close(logits["got"], logits["wanted"], rtol=1e-4, atol=1e-4)
    assert torch.equal(drafts["got"][0], drafts["wanted"][0])
    torch.testing.assert_close(drafts["got"][1], drafts["wanted"][1], rtol=1e-4, atol=1e-4)
    error = (logits["rough"] - logits["wanted"]).abs()
    assert error.max() < 0.04 * logits["wanted"].std()
    assert error.any()


@pytest.mark.usefixtures("needs_kernels")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_kernels_give_the_same_bits_at_every_width(
    width: str, dtype: torch.dtype, texts: tuple[list[list[int]], Tensor]
) -> None:
    sources, targets = texts
    networks = make_networks(dtype, kernels=True, **WIDTHS[width])
    state = open_rows(networks, sources)
    together = networks.verifier.score(targets, zeros(len(sources)), state)
    for row, source in enumerate(sources):
        torch.set_num_threads(1 + row % 3)
        got, alone = run_alone(networks, source, targets[row], PLANS[row])
        assert equal(got, together[row])
        assert_cache_equal(state, row, alone, LENGTH)


@pytest.mark.usefixtures("needs_kernels")
@pytest.mark.parametrize("width", WIDTHS)
def test_int8_differs_by_its_rounding_alone(width: str, texts: tuple[list[list[int]], Tensor]) -> None:
    """127 steps for a weight and for an input, of two layers one on the other."""
    sources, targets = texts
    wanted, got = (make_networks(dtype, kernels=True, **WIDTHS[width]) for dtype in (torch.float32, torch.int8))
    logits = [each.verifier.score(targets, zeros(len(sources)), open_rows(each, sources)) for each in (wanted, got)]
    error = (logits[0] - logits[1]).abs()
    assert error.any()
    assert error.max() < 0.2 * logits[0].std()
    assert error.mean() < 0.03 * logits[0].std()


def test_int8_needs_the_kernels() -> None:
    module, _, config = make_modules()
    with pytest.raises(UsageError, match="needs the C\\+\\+ kernels"):
        choose_backend(weights_of(module), config, CPU, torch.int8, kernels=False)


@pytest.mark.parametrize("misfit", MISFITS)
def test_what_the_kernels_cannot_run_runs_on_pytorch(misfit: str, texts: tuple[list[list[int]], Tensor]) -> None:
    networks = make_networks(torch.float32, kernels=True, **MISFITS[misfit])
    assert isinstance(networks.verifier, VerifierNetwork)
    assert isinstance(networks.drafter, DrafterNetwork)
    sources, targets = texts
    got = networks.verifier.score(targets, zeros(len(sources)), open_rows(networks, sources))
    torch.testing.assert_close(got, module_logits(networks.verifier_module, *texts), rtol=1e-4, atol=1e-4)
    state = open_rows(networks, sources[:1], drafter=True)
    drafts, log_probs = propose(networks.drafter, targets[:1, :3], zeros(1), torch.tensor([3]), 4, state)
    assert drafts.shape == (1, 4)
    assert (log_probs <= 0).all()


def test_float64_runs_on_pytorch() -> None:
    assert isinstance(make_networks(torch.float64, kernels=True).verifier, VerifierNetwork)


def test_without_kernels_everything_runs_on_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "kernels", lambda: None)
    networks = make_networks(torch.float32, kernels=True)
    assert isinstance(networks.verifier, VerifierNetwork)
    assert isinstance(networks.drafter, DrafterNetwork)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_window_may_reach_past_the_last_position(
    kernels: bool, dtype: torch.dtype, texts: tuple[list[list[int]], Tensor]
) -> None:
    """What lies before the last position is as ever; the rest is noise, but read from nowhere else."""
    sources, targets = texts
    networks = make_networks(dtype, kernels=kernels, max_length=30, **SHAPES["narrow"])
    # Two sources are longer than that, too.
    state = open_rows(networks, sources)
    wanted = networks.verifier.score(targets[:, :30], zeros(5), state)
    starts = torch.tensor([29, 20, 29, 25, 28])
    window = torch.stack([row[start : start + 11] for row, start in zip(targets, starts.tolist(), strict=True)])
    got = networks.verifier.score(window, starts, state)
    for row, start in enumerate(starts.tolist()):
        assert equal(got[row, : 30 - start], wanted[row, start:])
    if dtype == torch.float32:
        other = make_networks(dtype, kernels=False, max_length=30, **SHAPES["narrow"]).verifier
        state = other.new_state(5)
        other.start(state, torch.arange(5), other.encode(sources))
        other.score(targets[:, :30], zeros(5), state)
        torch.testing.assert_close(got, other.score(window, starts, state), rtol=1e-4, atol=1e-4)
    drafting = open_rows(networks, sources, drafter=True)
    counts = torch.tensor([29, 30, 12, 1, 28])
    drafts, log_probs = propose(networks.drafter, targets[:, :30], zeros(5), counts, 60, drafting)
    assert ((drafts >= 0) & (drafts < VOCAB)).all()
    assert log_probs.isfinite().all()


@pytest.mark.parametrize("scale", [50.0, 0.02])
def test_attention_of_very_large_and_very_small_scores(
    kernels: bool, scale: float, texts: tuple[list[list[int]], Tensor]
) -> None:
    """Queries and keys times 50: scores in the thousands, one key takes all."""
    sources, targets = texts
    networks, exact = (
        make_networks(dtype, kernels=kernels, scale=scale, **SHAPES["narrow"])
        for dtype in (torch.float32, torch.float64)
    )
    got, wanted = (
        each.verifier.score(targets, zeros(len(sources)), open_rows(each, sources)) for each in (networks, exact)
    )
    assert got.isfinite().all()
    # A score of thousands is known to about 1e-4 in float32.
    tolerance = 1e-4 if scale < 1 else 2e-3
    torch.testing.assert_close(got.double(), wanted, rtol=tolerance, atol=tolerance)


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
    verifier = verifier_network(weights, config, CPU, torch.float32, kernels=kernels)
    rows = 200
    scores = torch.cat([torch.zeros(rows, 1), -torch.linspace(0, 87, rows * 14).view(14, rows).T], dim=1)  # (B, 15)
    scores[0, 8:] = torch.tensor([-88.0, -104.0, -105.0, -200.0, -1e4, -1e30, -3e38])  # nothing is left of these
    state = verifier.new_state(rows)
    state.cross.lengths.fill_(15)
    state.cross.data[0, 0, :, 0, :15, 0] = scores
    state.cross.data[0, 1, :, 0, range(15), range(15)] = torch.exp(-scores.double().clamp(min=-87)).float()
    lanes = verifier.score(torch.full((rows, 1), 32), zeros(rows), state)[:, 0].double()
    lanes = (lanes - lanes[:, 15:16]) / (lanes[:, 16:17] - lanes[:, 15:16])  # lane 15 has no value, lane 16 is 1
    share = 1 / scores.double().exp().sum(1)
    np.testing.assert_allclose(lanes[:, 0], share, rtol=3e-6)
    np.testing.assert_allclose(lanes[1:, :15], share[1:, None].expand(-1, 15), rtol=3e-6)
    np.testing.assert_allclose(lanes[0, 9:15], 0, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
def test_calls_from_several_threads_do_not_mix(
    kernels: bool, threads: int, texts: tuple[list[list[int]], Tensor]
) -> None:
    networks = make_networks(torch.float32, kernels=kernels)
    wanted = [run_alone(networks, *text, [LENGTH])[0] for text in zip(*texts, strict=True)]

    def work(number: int) -> bool:
        torch.set_num_threads(threads)
        which = number % len(wanted)
        logits, _ = run_alone(networks, texts[0][which], texts[1][which], PLANS[number % 3])
        return torch.equal(logits, wanted[which])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(24)))


@pytest.mark.usefixtures("needs_kernels")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_the_kernels_run_in_a_forked_child(texts: tuple[list[list[int]], Tensor]) -> None:
    """A child inherits the library, but none of its threads."""
    networks = make_networks(torch.float32, kernels=True, **SHAPES["narrow"])
    source, target = texts[0][2], texts[1][2]
    torch.set_num_threads(2)
    wanted, _ = run_alone(networks, source, target, [LENGTH])

    def work() -> None:
        got, _ = run_alone(networks, source, target, [LENGTH])
        assert torch.equal(got, wanted)

    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(60)
    if child.is_alive():
        child.kill()
    assert child.exitcode == 0
    assert torch.equal(run_alone(networks, source, target, [LENGTH])[0], wanted)


@dataclass(frozen=True)
class Chains:
    """A drafter module with random weights, and both ways to run its chain."""

    module: MaskedDrafter
    native: Drafter
    correction: Correction

    def find(self, logits: Tensor, hidden: Tensor, last: Tensor, *, kernels: bool) -> tuple[Tensor, Tensor]:
        """Runs ``best_chain``, or the kernels' own, on logits (B, K, V), hidden states (B, K, D) and tokens (B)."""
        with torch.inference_mode():
            slots = Slots(logits.contiguous(), hidden.contiguous(), last)
            return self.native.chain(slots) if kernels else best_chain(slots, self.correction)


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
    native = drafter_network(weights, config, CPU, torch.float32)
    return Chains(module, native, Correction(weights, weights["embed.weight"], 32**0.5))


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
        torch.set_num_threads(threads)
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
        native = drafter_network(weights, chains.module.config, CPU, torch.float32)
        tokens, _ = replace(chains, native=native).find(
            logits, torch.zeros(3, 1, 32), torch.zeros(3).long(), kernels=True
        )
        chosen.append((tokens[:, 0] == favourite).tolist())
    candidates = [{token for token in range(50) if chosen[token][row]} for row in range(3)]
    assert candidates == [set(range(16)), {*range(15), 40}, set(range(14, 30))]


@pytest.mark.parametrize("threads", [1, 2])
def test_going_ahead_is_what_single_steps_say(
    kernels: bool, texts: tuple[list[list[int]], Tensor], threads: int
) -> None:
    """Rows have different numbers of tokens to read; a second call goes on after some of what the first one said."""
    networks = make_networks(torch.float32, kernels=kernels, **SHAPES["wide"])
    sources, targets = texts
    network, rows = networks.verifier, torch.arange(len(sources))
    ahead, single = open_rows(networks, sources), open_rows(networks, sources)
    starts, counts = zeros(len(sources)), torch.tensor([3, 1, 6, 2, 4])
    fresh = targets[:, :6]
    for _ in range(2):
        torch.set_num_threads(threads)
        tokens, log_probs = network.ahead(fresh, starts, counts, 5, ahead)
        torch.set_num_threads(1)
        logits = network.score(fresh, starts, single)[rows, counts - 1]
        for number in range(tokens.shape[1]):
            assert torch.equal(tokens[:, number], logits.argmax(1))
            wanted = logits.log_softmax(1).amax(1)
            torch.testing.assert_close(log_probs[:, number], wanted, rtol=1e-4, atol=1e-5)
            logits = network.score(tokens[:, number, None], starts + counts + number, single)[:, 0]
        assert tokens.shape[1] == 5
        starts, fresh = starts + counts, tokens[:, :4]
        counts = torch.tensor([1, 4, 2, 3, 1])


def test_going_ahead_stops_where_all_sentences_have_ended(
    kernels: bool, texts: tuple[list[list[int]], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    networks = make_networks(torch.float32, kernels=kernels, **SHAPES["narrow"])
    sources, targets = texts
    first, second = open_rows(networks, sources[:1]), open_rows(networks, sources[:1])
    one = torch.ones(1, dtype=torch.int64)
    tokens, _ = networks.verifier.ahead(targets[:1, :1], zeros(1), one, 3, first)
    assert tokens.shape == (1, 3)
    for module in ("native", "networks"):
        monkeypatch.setattr(f"specmt.engine.{module}.EOS", int(tokens[0, 0]))
    again, _ = networks.verifier.ahead(targets[:1, :1], zeros(1), one, 3, second)
    assert again.tolist() == tokens[:, :1].tolist()
