"""Other people's architectures: the engine runs what the modules compute, by every route with the same bits."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peers.fairseq2_search import search
from torch.nn import Module

from specmt.decoding import session
from specmt.decoding.request import Recorder
from specmt.decoding.session import decode
from specmt.engine.architecture import sinusoids
from specmt.engine.arrays import Floats, Ids, to_bfloat16
from specmt.engine.fused import FusedLoop
from specmt.engine.kernels import packing
from specmt.engine.kernels.backend import KernelBackend
from specmt.engine.kernels.masked import KernelMaskedDrafter
from specmt.engine.kernels.packing import pack_verifier
from specmt.engine.kernels.verifier import KernelVerifier
from specmt.engine.protocols import Verifier
from specmt.engine.torch.backend import TorchBackend
from specmt.engine.torch.invariance import GRANULAR
from specmt.engine.torch.linear import can_pack
from specmt.engine.torch.verifier import TorchVerifier
from specmt.engine.weights import floats
from specmt.engine.window import Window
from specmt.errors import UsageError
from specmt.models.config import (
    VerifierConfig,
    autoregressive_config_for,
    check_fit,
    drafter_config_for,
)
from specmt.models.folder import VERIFIER, ModelFolder
from specmt.models.hub import Model, decoder_sizes, make_verifier, verifier_sizes
from specmt.models.parameters import drafter_shapes, verifier_shapes
from specmt.models.reference.modules import (
    create_autoregressive,
    create_drafter,
    create_verifier,
    load_verifier_weights,
)
from specmt.models.reference.weights import to_arrays, to_tensors
from specmt.options import DecodingOptions
from specmt.training.drafter import initialise_from
from specmt.training.validate import weights_of
from specmt.types import BOS, EOS, PAD, Found
from tests.decoding_helpers import NotFused, log_softmax
from tests.folders import write_model
from tests.networks import (
    drafter_network,
    equal,
    logits_of,
    module_logits,
    opened,
    packed,
    scores,
    verifier_network,
)
from tests.unit.test_engine import scatter_weights, sentences_of

from fairseq2.models.transformer import TransformerModel  # isort: skip  (specmt.models.reference makes it importable)
from fairseq2.nn import BatchLayout  # isort: skip

Texts = tuple[list[list[int]], Ids]

CPU = torch.device("cpu")
VOCAB, SOURCE_VOCAB, LENGTH = 150, 170, 24
SIZES: dict[str, Any] = {
    "model_dim": 32,
    "num_heads": 2,
    "ffn_dim": 48,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "vocab_size": VOCAB,
    "max_length": 96,
}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "marian": {"norm": "post", "activation": "swish", "positions": "marian", "output_bias": True},
    "m2m100": {"first_position": 2, "source_prefix": (7,), "target_prefix": (9,)},
    "unscaled": {"activation": "gelu", "scaled_embedding": False, "output_bias": True},
    "separate": {"norm": "post", "source_vocab_size": SOURCE_VOCAB, "output_bias": True, "source_prefix": (160,)},
    "untied": {
        "norm": "post",
        "activation": "gelu",
        "positions": "marian",
        "tied_output": False,
        "source_prefix": (5, 6),
        "target_prefix": (8, 9, 10),
    },
}
FORMATS = ("float32", "bfloat16", "int8")
NEVER = -65504.0
"""The bias of what is never said."""


def config_of(name: str) -> VerifierConfig:
    return VerifierConfig(**SIZES, **ARCHITECTURES[name])


def make_module(config: VerifierConfig) -> TransformerModel:
    torch.manual_seed(3)
    module = create_verifier(config, CPU)
    scatter_weights(module)
    module.requires_grad_(False)
    if config.output_bias:
        module.get_parameter("final_proj.bias")[[PAD, BOS]] = NEVER
    return module


def make_model(config: VerifierConfig, *, kernels: bool) -> Model:
    """Returns a model of random weights, drafters among them whose layers are the verifier's."""
    module = make_module(config)
    masked, autoregressive = drafter_config_for(config, correction_rank=16), autoregressive_config_for(config)
    configs = {"verifier": config, "drafter": masked, "autoregressive": autoregressive}
    folder = ModelFolder(path=Path("."), source="", target="", files={}, **configs)  # type: ignore[arg-type]
    backend = KernelBackend("float32") if kernels else TorchBackend("cpu", "float32", shapes=GRANULAR)
    drafters = create_drafter(masked, CPU), create_autoregressive(autoregressive, CPU)
    for drafter in drafters:
        initialise_from(drafter, module, config.decoder_layers)
    torch.nn.init.normal_(drafters[0].correction.output.weight, std=0.1)
    weights = [to_arrays(weights_of(drafter)) for drafter in drafters]
    verifier = make_verifier(to_arrays(weights_of(module)), config, backend)
    model = Model(folder, None, backend, verifier, {})  # type: ignore[arg-type]
    model.networks["masked"] = backend.drafter("masked", weights[0], decoder_sizes(masked))
    model.networks["autoregressive"] = backend.drafter("autoregressive", weights[1], decoder_sizes(autoregressive))
    model.reference = module
    return model


@pytest.fixture(scope="module", params=ARCHITECTURES)
def config(request: pytest.FixtureRequest) -> VerifierConfig:
    return config_of(request.param)


@pytest.fixture(scope="module")
def model(config: VerifierConfig, kernels: bool) -> Model:
    return make_model(config, kernels=kernels)


@pytest.fixture(scope="module", params=FORMATS)
def verifier(config: VerifierConfig, kernels: bool, request: pytest.FixtureRequest) -> Verifier:
    format = request.param
    if not kernels and (format == "int8" or not can_pack(torch.zeros(8, 8, dtype=getattr(torch, format)))):
        pytest.skip(f"PyTorch has no packed {format} layers on this machine")
    return verifier_network(weights_of(make_module(config)), config, format, kernels=kernels)


@pytest.fixture(scope="module")
def texts() -> Texts:
    """Sources without EOS and target tokens (B, LENGTH)."""
    generator = random.Random(5)
    sources = [[generator.randrange(4, VOCAB) for _ in range(length)] for length in (3, 17, 30, 1)]
    return sources, np.random.default_rng(5).integers(4, VOCAB, (len(sources), LENGTH))


def scored(verifier: Verifier, sources: list[list[int]], targets: Ids, windows: list[int]) -> Floats:
    state, start, parts = opened(verifier, verifier.encode(sources)), 0, []
    for width in windows:
        window = Window(targets[:, start : start + width], np.full(len(sources), start))
        parts.append(scores(verifier, window, state))
        start += width
    return np.concatenate(parts, axis=1)


def test_the_engine_computes_what_the_modules_do(model: Model, texts: Texts, kernels: bool) -> None:
    assert isinstance(model.verifier, KernelVerifier if kernels else TorchVerifier)
    wanted = module_logits(model.reference, *texts, prefix=model.folder.verifier.source_prefix)
    np.testing.assert_allclose(logits_of(model.verifier, *texts), wanted, rtol=1e-4, atol=1e-4)


def test_every_route_gives_the_same_bits(verifier: Verifier, texts: Texts) -> None:
    sources, targets = texts
    together = scored(verifier, sources, targets, [3, 1, 7, 2, 11])
    for row, source in enumerate(sources):
        for windows in ([LENGTH], [1] * LENGTH, [15, 9]):
            assert equal(scored(verifier, [source], targets[row, None], windows)[0], together[row])


@pytest.mark.crossed("config", "stored")
@pytest.mark.parametrize("stored", ["float16", "bfloat16", "float32", "float64"])
def test_weights_may_be_stored_in_any_type(config: VerifierConfig, kernels: bool, stored: str, texts: Texts) -> None:
    weights = to_arrays({name: tensor.bfloat16().half() for name, tensor in weights_of(make_module(config)).items()})
    whole = {name: array.astype(np.float32) for name, array in weights.items()}
    given = {name: to_bfloat16(a) if stored == "bfloat16" else a.astype(stored) for name, a in whole.items()}
    got, wanted = (
        logits_of(verifier_network(each, config, "float32", kernels=kernels), *texts) for each in (given, whole)
    )
    if stored == "bfloat16":  # a few small ones were rounded again on the way
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-3)
    else:
        assert np.array_equal(got, wanted)


@pytest.mark.parametrize("by_itself", [True, False])
def test_speculative_and_greedy_say_the_same(
    model: Model, texts: Texts, monkeypatch: pytest.MonkeyPatch, by_itself: bool
) -> None:
    if by_itself and not isinstance(model.verifier, FusedLoop):
        pytest.skip("PyTorch does not run the loop by itself")
    sources = [*texts[0][:2], *([token] for token in range(4, 10))]
    if isinstance(model.verifier, TorchVerifier):  # many times as slow
        sources = [texts[0][0], *sources[2:5]]
    greedy = decode(model, sources, DecodingOptions(strategy="greedy", batch_size=5))
    assert len({tuple(h.tokens) for h in greedy}) > 1
    for h in greedy:
        assert len(h.tokens) <= h.stats.tokens <= len(h.tokens) + 1
    ways: list[dict[str, Any]] = [{"block_size": 5}, {"drafter": "autoregressive", "block_size": 3, "batch_size": 3}]
    if not by_itself:
        ways += [{"tree": "best-first", "nodes": 8, "block_size": 4}, {"drafter": "self", "block_size": 4}]
        monkeypatch.setattr(session, "FusedLoop", NotFused)
    for way in ways:
        got = decode(model, sources, DecodingOptions(**way))
        assert [h.tokens for h in got] == [h.tokens for h in greedy]
        assert [h.stats.tokens for h in got] == [h.stats.tokens for h in greedy]
        assert sum(h.stats.accepted for h in got) > 0 or way.get("drafter") != "self"


def test_greedy_takes_the_best_token_of_the_modules(model: Model, texts: Texts) -> None:
    sources, config = texts[0], model.folder.verifier
    for source, h in zip(sources, decode(model, sources, DecodingOptions(strategy="greedy", scores=True)), strict=True):
        said = [*h.tokens, *[EOS] * (h.stats.tokens > len(h.tokens))]
        target = np.array([[BOS, *config.target_prefix, *said]])
        logits = module_logits(model.reference, [source], target, prefix=config.source_prefix)[0]
        log_probs = log_softmax(logits[len(config.target_prefix) : -1])
        chosen = log_probs[range(len(said)), said]
        assert (log_probs.max(1) - chosen).max() < 1e-3
        assert h.score == pytest.approx(float(chosen.sum()), abs=1e-2)
        assert h.stats.source_tokens == len(source) + 1


BEAM = DecodingOptions(strategy="beam", beam_size=4, n_best=4, scores=True)


@pytest.fixture(scope="module")
def searched(texts: Texts) -> Callable[[VerifierConfig], list[list[Found]]]:
    """Returns what fairseq2 finds, which takes long, once for both backends."""

    @cache
    def found(config: VerifierConfig) -> list[list[Found]]:
        model = make_model(config, kernels=False)
        return [search(model, [source], BEAM)[0] for source in texts[0][:2]]

    return found


def test_beam_search_knows_the_prefixes(
    model: Model, texts: Texts, searched: Callable[[VerifierConfig], list[list[Found]]]
) -> None:
    every = searched(model.folder.verifier)
    sources = texts[0][:2]
    for source, hypothesis, wanted in zip(sources, decode(model, sources, BEAM), every, strict=True):
        assert [hypothesis.tokens, *(each.tokens for each in hypothesis.alternatives)] == [w.tokens for w in wanted]
        assert hypothesis.stats.source_tokens == len(source) + 1


def test_traces_begin_with_the_prefix(model: Model, texts: Texts) -> None:
    recorder = Recorder(1)
    hypotheses = decode(model, texts[0][:2], DecodingOptions(block_size=3), recorder=recorder)
    start = [BOS, *model.folder.verifier.target_prefix]
    for key, hypothesis in enumerate(hypotheses):
        iterations = recorder.iterations[key]
        assert iterations[0].prefix == start
        assert [*iterations[-1].prefix, *iterations[-1].emitted][
            : len(start + hypothesis.tokens)
        ] == start + hypothesis.tokens


def test_a_drafters_slots_are_those_of_its_module(config: VerifierConfig, kernels: bool) -> None:
    torch.manual_seed(4)
    drafting, block, count = drafter_config_for(config, correction_rank=16), 4, 6
    module = create_drafter(drafting, CPU)
    scatter_weights(module)
    module.requires_grad_(False)
    committed = torch.randint(4, VOCAB, (1, count))
    tokens = torch.nn.functional.pad(committed, (0, block))
    places = torch.arange(count + block)
    slots = places >= count
    seen = torch.where(slots, count + block - 1, places)
    bias = torch.zeros(count + block, count + block).masked_fill_(places > seen[:, None], -torch.inf)
    verifier = verifier_network(weights_of(make_module(config)), config, "float32", kernels=kernels)
    encoded = verifier.encode([[5, 6, 7, 8]])
    memory = sentences_of(encoded)[0][None]
    layout = BatchLayout.of(memory)
    hidden = module(tokens, places[None], slots[None], bias[None, None], memory, layout)[:, count:]
    network = drafter_network(weights_of(module), drafting, "float32", kernels=kernels)
    state = opened(network, encoded)
    read = Window(committed.numpy(), np.array([0]))
    fill = network.fill if isinstance(network, KernelMaskedDrafter) else network._fill  # type: ignore[attr-defined]
    np.testing.assert_allclose(fill(read, block, state).hidden, hidden, rtol=1e-4, atol=1e-4)
    chain, log_probs = network.chain(read, block, state)
    before = torch.cat([committed[:, -1:], torch.from_numpy(chain[:, :-1])], dim=1)
    logits = module.logits(hidden, before)
    assert np.array_equal(logits.argmax(2), chain)
    wanted = logits.topk(16, dim=2).values.log_softmax(2)[:, :, 0]
    np.testing.assert_allclose(log_probs, wanted, rtol=1e-2, atol=1e-2)


def test_weights_have_the_names_and_shapes_that_a_configuration_calls_for(config: VerifierConfig) -> None:
    def shapes_of(module: Module) -> dict[str, tuple[int, ...]]:
        return {name: tuple(tensor.shape) for name, tensor in weights_of(module).items()}

    masked, autoregressive = drafter_config_for(config), autoregressive_config_for(config)
    assert shapes_of(create_verifier(config, CPU)) == verifier_shapes(config)
    assert shapes_of(create_drafter(masked, CPU)) == drafter_shapes(masked)
    assert shapes_of(create_autoregressive(autoregressive, CPU)) == drafter_shapes(autoregressive)
    assert masked.norm == autoregressive.norm == config.norm
    check_fit(masked, config)


def test_a_folder_keeps_every_bit_where_it_is_asked_to(
    config: VerifierConfig, pieces_path: Path, tmp_path: Path
) -> None:
    module = make_module(config)
    module.get_parameter("decoder.layers.0.ffn.inner_proj.weight").copy_(torch.ones(48, 32))  # float16 has them
    weights = to_arrays(weights_of(module))
    folder = write_model(tmp_path, pieces_path, config, weights, exact=True)
    assert folder.verifier == config
    stored = folder.weights(VERIFIER)
    table = "decoder_frontend.embed.weight" if config.source_vocab_size else "encoder_frontend.embed.weight"
    formats = {"decoder.layers.0.ffn.inner_proj.weight": np.float16, table: np.float32}
    for name, format in formats.items():
        weight = stored[name]
        assert isinstance(weight, np.ndarray) and weight.dtype == format
    assert all(np.array_equal(floats(stored[name]), weights[name]) for name in weights)
    other = create_verifier(config, CPU)
    load_verifier_weights(other, to_tensors(stored))
    assert all(torch.equal(tensor, module.state_dict()[name]) for name, tensor in other.state_dict().items())


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("norm", "mid", "`norm` must be one of pre, post, but is 'mid' instead."),
        ("activation", "tanh", "`activation` must be one of relu, swish, gelu, but is 'tanh' instead."),
        ("positions", 3, "`positions` must be one of sinusoidal, marian, but is 3 instead."),
        ("first_position", -1, "`first_position` must be a whole number from 0 to 65,536, but is -1 instead."),
        ("scaled_embedding", 1, "`scaled_embedding` must be true or false, but is 1 instead."),
        ("source_vocab_size", 0, "`source_vocab_size` must be a whole number from 1 to 16,777,216, but is 0 instead."),
        (
            "target_prefix",
            [8000],
            "`target_prefix` must be a list of ids of at least 0 and under 8000, but is [8000] instead.",
        ),
        (
            "source_prefix",
            "ab",
            "`source_prefix` must be a list of ids of at least 0 and under 8000, but is 'ab' instead.",
        ),
        ("source_prefix", [5] * 255, "`source_prefix` must have fewer than 255 ids, but has 255 instead."),
    ],
)
def test_what_no_architecture_is(field: str, value: object, message: str) -> None:
    with pytest.raises(UsageError) as raised:
        VerifierConfig(**{field: value})  # type: ignore[arg-type]
    assert str(raised.value) == message


def test_positions_of_marian_are_those_of_the_paper() -> None:
    places, rates = torch.arange(2, 12).double(), 10000.0 ** (-2 * torch.arange(8).double() / 16)
    angles = places[:, None] * rates
    config = VerifierConfig(positions="marian", first_position=2)
    wanted = torch.cat([angles.sin(), angles.cos()], dim=1).float()
    np.testing.assert_allclose(sinusoids(10, 16, config), wanted, rtol=0, atol=1e-5)


@pytest.mark.usefixtures("needs_kernels")
@pytest.mark.parametrize("format", FORMATS)
def test_large_tables_are_packed_a_part_at_a_time(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of("separate")
    weights = {name: tensor.double() for name, tensor in weights_of(make_module(config)).items()}
    wanted = packed(pack_verifier, weights, verifier_sizes(config), format)
    monkeypatch.setattr(packing, "AT_ONCE", 32)
    got = packed(pack_verifier, weights, verifier_sizes(config), format)
    assert got.keys() == wanted.keys()
    for name, array in got.items():
        assert np.array_equal(array, wanted[name])
