"""The keystone (DESIGN §9.2, §9.4): the same bits by every route, and the numbers of the fairseq2 modules."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor
from torch.nn import Module

from specmt.engine.cache import GRANULE, CrossCache, KVCache, round_up
from specmt.engine.linear import Linear, can_pack
from specmt.engine.networks import DrafterNetwork, State, VerifierNetwork
from specmt.engine.transformer import sinusoids
from specmt.models.config import DrafterConfig, VerifierConfig, drafter_config_for
from specmt.models.drafter import MaskedDrafter, create_drafter
from specmt.models.hub import drafter_network, verifier_network
from specmt.models.verifier import create_verifier
from specmt.training.drafter import BlockOptions, lay_blocks
from specmt.training.validate import weights_of
from specmt.training.verifier import target_states
from specmt.types import BOS, EOS

# specmt.models.verifier has made fairseq2 importable.
from fairseq2.models.transformer import TransformerModel  # isort: skip
from fairseq2.nn import BatchLayout, SinusoidalPositionEncoder  # isort: skip

CPU = torch.device("cpu")
LENGTH = 40
"""Target tokens a row."""

SOURCE_LENGTHS = [3, 17, 30, 1, 47]
PLANS = [[1] * LENGTH, [3, 1, 7, 12, 1, 2, 14], [2] * 20, [39, 1], [15, 16, 9]]
SHAPES = {"narrow": {"model_dim": 32, "num_heads": 2, "ffn_dim": 64}, "wide": {}}


@dataclass(frozen=True)
class Networks:
    """The engine's networks, and the modules that their weights come from."""

    verifier: VerifierNetwork
    drafter: DrafterNetwork
    verifier_module: TransformerModel
    drafter_module: MaskedDrafter


def scatter_weights(module: Module) -> None:
    """Gives every parameter, biases and norms too, a value of its own."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    module.eval()


def make_networks(shape: str, dtype: torch.dtype) -> Networks:
    torch.manual_seed(3)
    config = VerifierConfig(encoder_layers=2, decoder_layers=2, vocab_size=500, max_length=128, **SHAPES[shape])
    drafting = drafter_config_for(config, layers=2, block_size=5, correction_rank=8)
    verifier, drafter = create_verifier(config, CPU), create_drafter(drafting, CPU)
    scatter_weights(verifier)
    scatter_weights(drafter)
    return Networks(
        verifier_network(weights_of(verifier), config, CPU, dtype),
        drafter_network(weights_of(drafter), drafting, CPU, dtype),
        verifier,
        drafter,
    )


@pytest.fixture(scope="module", params=[f"{shape}-{dtype}" for shape in SHAPES for dtype in ("float32", "bfloat16")])
def networks(request: pytest.FixtureRequest) -> Networks:
    shape, name = request.param.split("-")
    dtype = getattr(torch, name)
    if not can_pack(torch.zeros(8, 8, dtype=dtype)):
        pytest.skip(f"oneDNN has no packed {name} layers on this machine")
    return make_networks(shape, dtype)


@pytest.fixture(scope="module")
def texts() -> tuple[list[list[int]], Tensor]:
    """Sources without EOS and target tokens (B, LENGTH)."""
    generator = random.Random(5)
    sources = [[generator.randrange(4, 500) for _ in range(length)] for length in SOURCE_LENGTHS]
    targets = [[BOS, *(generator.randrange(4, 500) for _ in range(LENGTH - 1))] for _ in sources]
    return sources, torch.tensor(targets)


def equal(left: Tensor, right: Tensor) -> bool:
    """Whether two tensors have the same bits; finite ones that are not all zero."""
    assert left.isfinite().all() and left.any()
    return torch.equal(left, right)


def assert_cache_equal(state: State, row: int, alone: State, length: int) -> None:
    assert equal(state.cache.data[:, :, row, :, :length], alone.cache.data[:, :, 0, :, :length])


def open_alone(networks: Networks, source: list[int], *, drafter: bool = False) -> State:
    memory, lengths = networks.verifier.encode([source])
    network = networks.drafter if drafter else networks.verifier
    state = network.new_state(1)
    network.start(state, torch.tensor([0]), memory, lengths)
    return state


def run_alone(networks: Networks, source: list[int], target: Tensor, windows: list[int]) -> tuple[Tensor, State]:
    """Returns the logits (T, V) of a row that is scored alone, window by window, and its caches."""
    state = open_alone(networks, source)
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
    [([0, 1, 2, 3, 4], 1), ([4, 2, 0], 1), ([3, 1], 1), ([0, 0, 0, 4, 1, 3, 2, 0], 1), ([3, 4, 1], 2), ([2], 2)],
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
    memory, lengths = networks.verifier.encode([sources[i] for i in order])
    state = networks.verifier.new_state(len(order))
    networks.verifier.start(state, torch.arange(len(order)), memory, lengths)
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
    memory, lengths = networks.verifier.encode(sources)
    state = networks.verifier.new_state(len(sources))
    networks.verifier.start(state, torch.arange(len(sources)), memory, lengths)
    assert lengths.tolist() == [length + 1 for length in SOURCE_LENGTHS]
    for row, source in enumerate(sources):
        alone, _ = networks.verifier.encode([source])
        length = len(source) + 1
        assert equal(memory[row, :length], alone[0, :length])
        cross = open_alone(networks, source).cross
        assert equal(state.cross.data[:, :, row, :, :length], cross.data[:, :, 0, :, :length])


@pytest.mark.parametrize(
    ("order", "block_size", "threads"),
    [([2], 5, 1), ([0, 1, 2, 3, 4], 1, 1), ([4, 2, 0, 0, 3], 5, 1), ([1, 4], 12, 1), ([4, 0], 5, 2)],
)
def test_drafts_and_drafter_cache_equal_a_fresh_prefill(
    networks: Networks, texts: tuple[list[list[int]], Tensor], order: list[int], block_size: int, threads: int
) -> None:
    sources, targets = texts
    network = networks.drafter
    generator = random.Random(block_size)
    memory, lengths = networks.verifier.encode([sources[i] for i in order])
    state = network.new_state(len(order))
    network.start(state, torch.arange(len(order)), memory, lengths)
    seen = [0] * len(order)
    for _ in range(6):
        counts = [generator.randint(1, 5) for _ in order]
        fresh = torch.zeros(len(order), max(counts), dtype=torch.int64)
        for row, (start, count) in enumerate(zip(seen, counts, strict=True)):
            fresh[row, :count] = targets[order[row], start : start + count]
        torch.set_num_threads(threads)
        drafts, log_probs = network.propose(fresh, torch.tensor(seen), torch.tensor(counts), block_size, state)
        torch.set_num_threads(1)
        for row, which in enumerate(order):
            seen[row] += counts[row]
            alone = open_alone(networks, sources[which], drafter=True)
            prefix = targets[which : which + 1, : seen[row]]
            wanted, wanted_log_probs = network.propose(
                prefix, torch.tensor([0]), torch.tensor([seen[row]]), block_size, alone
            )
            assert torch.equal(drafts[row], wanted[0])
            assert equal(log_probs[row], wanted_log_probs[0])
            assert_cache_equal(state, row, alone, seen[row])


def test_a_moved_row_goes_on_as_before(
    networks: Networks, texts: tuple[list[list[int]], Tensor], in_one_block: list[tuple[Tensor, State]]
) -> None:
    sources, targets = texts
    wanted, wanted_state = in_one_block[1]
    memory, lengths = networks.verifier.encode([sources[4], sources[0], sources[1]])
    state = networks.verifier.new_state(3)
    networks.verifier.start(state, torch.arange(3), memory, lengths)
    networks.verifier.score(targets[[4, 0, 1], :20], torch.zeros(3, dtype=torch.int64), state)
    state.move(2, 0)
    logits = networks.verifier.score(targets[1:2, 20:], torch.tensor([20]), state)
    assert equal(logits[0], wanted[20:])
    assert_cache_equal(state, 0, wanted_state, LENGTH)


def test_a_new_sentence_in_a_used_row_starts_afresh(
    networks: Networks, texts: tuple[list[list[int]], Tensor], in_one_block: list[tuple[Tensor, State]]
) -> None:
    sources, targets = texts
    state = open_alone(networks, sources[4])
    networks.verifier.score(targets[4:5], torch.tensor([0]), state)
    memory, lengths = networks.verifier.encode([sources[0]])
    networks.verifier.start(state, torch.tensor([0]), memory, lengths)
    got = networks.verifier.score(targets[:1], torch.tensor([0]), state)
    assert equal(got[0], in_one_block[0][0])


def test_the_cache_grows_and_keeps_its_content() -> None:
    cache = KVCache(2, 3, 2, 4, dtype=torch.float32, device=CPU)
    assert cache.capacity == GRANULE
    cache.data.normal_()
    before = cache.data.clone()
    cache.reserve(GRANULE)
    assert torch.equal(cache.data, before)
    cache.reserve(GRANULE + 1)
    assert cache.capacity % GRANULE == 0
    assert torch.equal(cache.data[..., :GRANULE, :], before)
    assert not cache.data[..., GRANULE:, :].any()
    cache.reserve(5 * GRANULE + 3)
    assert cache.capacity >= 5 * GRANULE + 3
    assert torch.equal(cache.data[..., :GRANULE, :], before)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_window_lands_on_its_positions_and_nowhere_else(rows: int) -> None:
    cache = KVCache(2, 3, 2, 4, dtype=torch.float32, device=CPU)
    starts = [5, 9, 0][:rows]
    window = torch.randn(rows, 3, 2, 2, 4)
    cache.append(1, window, torch.tensor(starts)[:, None] + torch.arange(3))
    wanted = torch.zeros_like(cache.data)
    for row, start in enumerate(starts):
        for offset in range(3):
            wanted[1, :, row, :, start + offset] = window[row, offset]
    assert torch.equal(cache.data, wanted)
    keys, values = cache.read(1, rows, GRANULE)
    assert torch.equal(keys, wanted[1, 0, :rows])
    assert torch.equal(values, wanted[1, 1, :rows])


def test_the_cross_cache_takes_wider_and_narrower_sentences() -> None:
    cross = CrossCache(2, 3, 2, 4, dtype=torch.float32, device=CPU)
    wide, narrow = torch.randn(2, 2, 2, 2, 2 * GRANULE, 4), torch.randn(2, 2, 1, 2, GRANULE, 4)
    cross.fill(torch.tensor([0, 2]), wide, torch.tensor([20, 32]))
    cross.fill(torch.tensor([1]), narrow, torch.tensor([7]))
    assert cross.lengths.tolist() == [20, 7, 32]
    assert torch.equal(cross.data[:, :, [0, 2]], wide)
    assert torch.equal(cross.data[:, :, 1:2, :, :GRANULE], narrow)
    cross.move(1, 0)
    assert cross.lengths.tolist() == [7, 7, 32]
    assert torch.equal(cross.data[:, :, :1, :, :GRANULE], narrow)


@pytest.mark.parametrize(("length", "rounded"), [(1, 16), (15, 16), (16, 16), (17, 32), (48, 48)])
def test_round_up(length: int, rounded: int) -> None:
    assert round_up(length) == rounded


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("relu", [False, True])
def test_linear_layers(dtype: torch.dtype, relu: bool) -> None:
    torch.manual_seed(0)
    weight, bias = torch.randn(24, 32, dtype=dtype), torch.randn(24, dtype=dtype)
    x = torch.randn(9, 32, dtype=dtype)
    wanted = x.double() @ weight.double().T + bias.double()
    got = Linear(weight, bias)(x, relu=relu)
    assert got.dtype == dtype
    tolerance = {"rtol": 0.02, "atol": 0.1} if dtype == torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(got.double(), wanted.relu() if relu else wanted, **tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("inputs", "outputs"), [(64, 128), (256, 8000)])
def test_a_packed_row_has_the_same_bits_among_any_number_of_rows(
    inputs: int, outputs: int, dtype: torch.dtype
) -> None:
    if not can_pack(torch.zeros(8, 8, dtype=dtype)):
        pytest.skip(f"oneDNN has no packed {dtype} layers on this machine")
    torch.manual_seed(0)
    layer = Linear(torch.randn(outputs, inputs, dtype=dtype), torch.randn(outputs, dtype=dtype))
    x = torch.randn(70, inputs, dtype=dtype)
    wanted = layer(x)
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for rows in (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 33, 64):
            assert equal(layer(x[:rows]), wanted[:rows])
            assert equal(layer(x[-rows:]), wanted[-rows:])


def test_positions_are_those_of_fairseq2() -> None:
    encoder = SinusoidalPositionEncoder(64, 100, device=CPU)
    torch.testing.assert_close(sinusoids(100, 64), encoder.freqs[1:101], rtol=0, atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_verifier_logits_are_those_of_the_fairseq2_modules(
    shape: str, texts: tuple[list[list[int]], Tensor]
) -> None:
    networks = make_networks(shape, torch.float32)
    sources, targets = texts
    width = max(SOURCE_LENGTHS) + 1
    source = torch.tensor([[*ids, EOS, *[0] * (width - len(ids) - 1)] for ids in sources])
    module = networks.verifier_module
    with torch.inference_mode():
        states = target_states(module, source, torch.tensor(SOURCE_LENGTHS) + 1, targets)
        wanted = module.final_proj(states)
    memory, lengths = networks.verifier.encode(sources)
    state = networks.verifier.new_state(len(sources))
    networks.verifier.start(state, torch.arange(len(sources)), memory, lengths)
    got = networks.verifier.score(targets, torch.zeros(len(sources), dtype=torch.int64), state)
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", SHAPES)
def test_drafter_slots_are_those_of_the_training_layout(shape: str, texts: tuple[list[list[int]], Tensor]) -> None:
    """Each block of a training batch, and the engine given the same prefix, see the same slots."""
    networks = make_networks(shape, torch.float32)
    module, network = networks.drafter_module, networks.drafter
    sources, targets = texts
    rows, block_size = len(sources), 5
    target = torch.cat([targets, torch.full((rows, 1), EOS)], dim=1)
    options = BlockOptions(spacing=8.0)
    blocks = lay_blocks(
        target,
        torch.full((rows,), LENGTH + 1),
        block_size=block_size,
        options=options,
        generator=torch.Generator().manual_seed(0),
    )
    memory, lengths = networks.verifier.encode(sources)
    with torch.inference_mode():
        states = module(
            blocks.tokens, blocks.positions, blocks.slots, blocks.bias, memory, BatchLayout.of(memory, lengths.tolist())
        )
    groups = blocks.wanted.shape[1]
    assert groups == 5
    states = states[:, LENGTH:].unflatten(1, (groups, block_size))
    positions = blocks.positions[:, LENGTH:].unflatten(1, (groups, block_size))
    for row in range(rows):
        for group in range(groups):
            seen = int(positions[row, group, 0])  # tokens before the block
            got = slot_logits(network, memory[row : row + 1], lengths[row : row + 1], targets[row, :seen], block_size)
            with torch.inference_mode():
                wanted = torch.nn.functional.linear(states[row, group], module.get_parameter("embed.weight"))
                torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


def slot_logits(
    network: DrafterNetwork, memory: Tensor, lengths: Tensor, prefix: Tensor, block_size: int
) -> Tensor:
    """Returns the logits (K, V) of the slots, before the previous-token correction."""
    state = network.new_state(1)
    network.start(state, torch.tensor([0]), memory, lengths)
    seen: list[Tensor] = []
    project = network.project

    def spy(hidden: Tensor) -> Tensor:
        seen.append(project(hidden))
        return seen[0]

    network.project = spy  # type: ignore[assignment]
    try:
        network.propose(prefix[None], torch.tensor([0]), torch.tensor([len(prefix)]), block_size, state)
    finally:
        network.project = project
    return seen[0][0]


def test_the_chain_is_that_of_the_corrected_logits() -> None:
    """Among each slot's best candidates, the chain takes the best under slot logits plus U[previous]·V."""
    networks = make_networks("narrow", torch.float32)
    network, correction = networks.drafter, networks.drafter_module.correction
    torch.manual_seed(4)
    logits, last = 2 * torch.randn(3, 6, 500), torch.tensor([[7], [8], [9]])
    # A correction strong enough to change the choice.
    network.previous, network.following = 4 * network.previous, 4 * network.following
    tokens, log_probs = network.chain(logits, last)
    changed = 0
    for row in range(3):
        previous = last[row]
        for slot in range(6):
            candidates = logits[row, slot].topk(network.CANDIDATES).indices
            with torch.inference_mode():
                corrected = logits[row, slot] + 16 * correction(previous)[0]
            best = candidates[corrected[candidates].argmax()]
            assert tokens[row, slot] == best
            wanted = corrected[candidates].log_softmax(0).max()
            torch.testing.assert_close(log_probs[row, slot], wanted, rtol=1e-4, atol=1e-4)
            changed += int(best != candidates[0])
            previous = best[None]
    assert changed > 0


@pytest.mark.parametrize("block_size", [1, 3])
def test_a_vocabulary_smaller_than_the_candidates(block_size: int) -> None:
    config = DrafterConfig(
        model_dim=32, num_heads=2, ffn_dim=64, layers=1, vocab_size=9, max_length=64, correction_rank=4
    )
    torch.manual_seed(0)
    network = drafter_network(weights_of(create_drafter(replace(config), CPU)), config, CPU, torch.float32)
    tokens, log_probs = network.chain(torch.randn(2, block_size, 9), torch.tensor([[4], [5]]))
    assert tokens.shape == log_probs.shape == (2, block_size)
    assert (log_probs <= 0).all()
