"""Decoders with an SSRU in the place of attention to target tokens: their numbers, the same bits by every route."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from specmt.decoding import session
from specmt.decoding.policy import Arm, FixedPolicy
from specmt.decoding.session import decode
from specmt.engine.architecture import sinusoids
from specmt.engine.arrays import Floats, Ids
from specmt.engine.cache import State
from specmt.engine.fused import FusedLoop
from specmt.engine.kernels.decoder import KernelReplica
from specmt.engine.kernels.packing import pack_replica
from specmt.engine.protocols import Verifier
from specmt.engine.torch.linear import can_pack
from specmt.engine.weights import floats
from specmt.engine.window import Window
from specmt.errors import UsageError
from specmt.models.config import DecoderConfig, VerifierConfig, autoregressive_config_for, drafter_config_for
from specmt.models.folder import VERIFIER, ModelFolder
from specmt.models.hub import Model, load_model, verifier_sizes
from specmt.models.parameters import verifier_shapes
from specmt.models.reference.modules import create_autoregressive, create_verifier
from specmt.options import AlignmentHeads, DecodingOptions
from specmt.training.drafter import initialise_from
from specmt.training.factory import load_teacher
from tests.conftest import set_threads
from tests.decoding_helpers import (
    BACKENDS,
    GREEDY,
    HOSTILE,
    Hypotheses,
    NotFused,
    Sources,
    assert_same,
    has_ended,
    load_on,
    make_truth,
    run,
    sources_for,
    tokens_of,
    total_of,
)
from tests.networks import equal, held, packed, scores, verifier_network
from tests.unit.test_constraints import WAYS, Term, begins, constrained, terms  # noqa: F401  (fixtures)

Doubles = npt.NDArray[np.float64]

LENGTH = 24
"""Target tokens that networks read."""

SOURCES = [[5, 9, 13], [7] * 21, [30, 31, 32, 33, 34, 35, 36, 37, 38], [4]]
SIZES: dict[str, dict[str, Any]] = {
    "heads of 32": {"model_dim": 64, "num_heads": 2, "norm": "post", "norm_epsilon": 1e-6},
    "heads of 48": {"model_dim": 96, "num_heads": 2, "norm": "pre", "norm_epsilon": 0.3, "target_prefix": (9, 8)},
    "heads of 64": {"model_dim": 128, "num_heads": 2, "norm": "post", "source_vocab_size": 120},
}
FORMATS = ["float32", "bfloat16", "int8"]


def make(size: str) -> tuple[dict[str, Floats], VerifierConfig]:
    """Returns random weights and a configuration."""
    more: dict[str, Any] = {
        "encoder_layers": 1,
        "decoder_layers": 2,
        "ffn_dim": 80,
        "vocab_size": 150,
        "max_length": 96,
    }
    config = VerifierConfig(**more, **SIZES[size], decoder="ssru", output_bias=True)
    random = np.random.default_rng(3)
    weights = {}
    for name, shape in verifier_shapes(config).items():
        spread = 1.2 / np.sqrt(shape[1]) if len(shape) == 2 else 0.2
        values = spread * random.standard_normal(shape) + name.endswith("norm.weight")
        weights[name] = values.astype(np.float32)
    return weights, config


def network(size: str, format: str, *, kernels: bool) -> Verifier:
    if not kernels and (format == "int8" or not can_pack(torch.zeros(8, 8, dtype=getattr(torch, format)))):
        pytest.skip(f"PyTorch has no packed {format} layers on this machine")
    return verifier_network(*make(size), format, kernels=kernels)


@pytest.fixture(scope="module")
def targets() -> Ids:
    return np.random.default_rng(5).integers(4, 150, (len(SOURCES), LENGTH))


class Formula:
    """The decoder in float64, step by step, as papers write it down (Vaswani et al. 2017, Kim et al. 2019)."""

    def __init__(self, weights: dict[str, Floats], config: VerifierConfig) -> None:
        self.weights = {name: weight.astype(np.float64) for name, weight in weights.items()}
        self.config = config

    def normed(self, x: Doubles, name: str) -> Doubles:
        scale = np.sqrt(x.var(1, keepdims=True) + self.config.norm_epsilon)
        wide: Doubles = (x - x.mean(1, keepdims=True)) / scale
        return wide * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def linear(self, x: Doubles, name: str) -> Doubles:
        return x @ self.weights[f"{name}.weight"].T + self.weights.get(f"{name}.bias", 0.0)

    def recurrent(self, x: Doubles, name: str) -> Doubles:
        cell, found = np.zeros(x.shape[1]), []
        for token in x:
            forget = 1.0 / (1.0 + np.exp(-self.linear(token, f"{name}.forget_proj")))
            cell = forget * cell + (1.0 - forget) * self.linear(token, f"{name}.input_proj")
            found.append(np.maximum(cell, 0.0))
        return np.array(found)

    def attended(self, x: Doubles, states: Doubles, name: str) -> tuple[Doubles, Doubles]:
        """Returns what comes of attention, and its weights (H, T, S)."""
        keys = [self.linear(each, f"{name}.{part}_proj") for each, part in zip((x, states, states), "qkv", strict=True)]
        q, k, v = (each.reshape(len(each), self.config.num_heads, -1).transpose(1, 0, 2) for each in keys)
        shares = np.exp(q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[2]))
        shares /= shares.sum(2, keepdims=True)
        return self.linear((shares @ v).transpose(1, 0, 2).reshape(x.shape), f"{name}.output_proj"), shares

    def fed_forward(self, x: Doubles, name: str) -> Doubles:
        return self.linear(np.maximum(self.linear(x, f"{name}.inner_proj"), 0.0), f"{name}.output_proj")

    def __call__(self, states: Doubles, tokens: Ids) -> tuple[Doubles, list[Doubles]]:
        """Returns logits (T, V) and, by layer, the attention (H, T, S) to encoder output (S, D)."""
        config, seen = self.config, []
        separate = config.source_vocab_size is not None
        table = self.weights[f"{'decoder' if separate else 'encoder'}_frontend.embed.weight"]
        width = config.model_dim
        x: Doubles = table[tokens] * np.sqrt(width) + sinusoids(len(tokens), width, config)
        for number in range(config.decoder_layers):
            layer = f"decoder.layers.{number}"

            def attend(y: Doubles, name: str = f"{layer}.encoder_decoder_attn") -> Doubles:
                found, shares = self.attended(y, states, name)
                seen.append(shares)
                return found

            for run_sublayer, norm in (
                (lambda y, name=f"{layer}.ssru": self.recurrent(y, name), "self_attn"),
                (attend, "encoder_decoder_attn"),
                (lambda y, name=f"{layer}.ffn": self.fed_forward(y, name), "ffn"),
            ):
                norm = f"{layer}.{norm}_layer_norm"
                if config.norm == "pre":
                    x = x + run_sublayer(self.normed(x, norm))
                else:
                    x = self.normed(x + run_sublayer(x), norm)
        if config.norm == "pre":
            x = self.normed(x, "decoder.layer_norm")
        return x @ table.T + self.weights["final_proj.bias"], seen


@pytest.mark.parametrize("size", SIZES)
def test_numbers_are_those_of_the_formula(size: str, kernels: bool, targets: Ids) -> None:
    verifier, formula = network(size, "float32", kernels=kernels), Formula(*make(size))
    heads, before = AlignmentHeads(layer=1, heads=(0, 1)), verifier.prefixes.start
    encoded = verifier.encode(SOURCES)
    got = scores(verifier, Window(targets, np.zeros(len(SOURCES), dtype=np.int64)), opened(verifier, SOURCES))
    attention = verifier.attention(opened(verifier, SOURCES), range(len(SOURCES)), targets.tolist(), heads)
    for row, length in enumerate(encoded.lengths.tolist()):
        states = held(encoded.pick([row]).states).reshape(-1, formula.config.model_dim)[:length].astype(np.float64)  # type: ignore[attr-defined]
        logits, _ = formula(states, targets[row])
        np.testing.assert_allclose(got[row], logits, rtol=2e-5, atol=2e-5)
        _, seen = formula(states, np.array([*before, *targets[row]]))
        np.testing.assert_allclose(attention[row], seen[1].mean(0)[len(before) :, :-1], rtol=1e-4, atol=1e-6)


def opened(verifier: Verifier, sources: Sequence[list[int]]) -> State:
    state = verifier.new_state(len(sources))
    verifier.start(state, np.arange(len(sources)), verifier.encode(sources))
    return state


@pytest.mark.crossed("kernels", "size", "format")
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("size", SIZES)
def test_every_route_gives_the_same_bits(size: str, format: str, kernels: bool, targets: Ids) -> None:
    """Whatever the windows, the company, the order, the threads, and what was drafted and thrown away before."""
    verifier = network(size, format, kernels=kernels)
    noise = np.random.default_rng(7)
    wanted = []
    for row, source in enumerate(SOURCES):
        alone = opened(verifier, [source])
        logits = scores(verifier, Window(targets[row, None], np.zeros(1, dtype=np.int64)), alone)[0]
        wanted.append((logits, held(alone.own.data[:, :, 0, :, :LENGTH])))
    for threads, order, widths in (
        (1, [0, 1, 2, 3], [1] * LENGTH),
        (2, [3, 1, 2], [3, 1, 7, 2, 11]),
        (3, [2, 0, 0, 1, 3, 3], [15, 9]),
        (2, [1], [20, 4]),
    ):
        set_threads(threads)
        state, start = opened(verifier, [SOURCES[row] for row in order]), 0
        for width in widths:
            starts = np.full(len(order), start)
            verifier.score(Window(noise.integers(4, 150, (len(order), 13)), starts), state)
            logits = scores(verifier, Window(targets[order, start : start + width], starts), state)
            for got, row in zip(logits, order, strict=True):
                assert equal(got, wanted[row][0][start : start + width])
            start += width
        for number, row in enumerate(order):
            assert equal(held(state.own.data[:, :, number, :, :LENGTH]), wanted[row][1])


def test_a_cell_is_all_that_is_kept(kernels: bool) -> None:
    state = network("heads of 32", "bfloat16", kernels=kernels).new_state(3)
    assert state.own.data.shape[:4] == (2, 1, 3, 2)
    assert state.own.data.dtype in (np.dtype(np.float32), torch.float32)
    assert state.cross.data.shape[:4] == (2, 2, 3, 2)


@pytest.mark.usefixtures("needs_kernels")
@pytest.mark.parametrize("format", FORMATS)
def test_caches_of_others_are_refused(format: str) -> None:
    verifier, config = network("heads of 32", format, kernels=True), make("heads of 32")[1]
    attending = replace(config, decoder="attention")
    weights = {name: np.ones(shape, np.float32) for name, shape in verifier_shapes(attending).items()}
    state = verifier_network(weights, attending, format).new_state(1)
    with pytest.raises((TypeError, ValueError), match="`own` must"):
        verifier.score(Window(np.array([[5]]), np.zeros(1, dtype=np.int64)), state)


# ------------------------------------------------------------------------------------------------ decoding


@pytest.fixture(scope="module", params=[*BACKENDS, "kernels-int8"])
def model(request: pytest.FixtureRequest, ssru_model: Path) -> Model:
    return load_on(request.param, ssru_model, request)


@pytest.fixture(scope="module")
def texts(model: Model, sources: Sources) -> Sources:
    # Few have an end, and translations of long ones are long.
    return sources_for(model, sources)[: 20 if model.backend.name == "kernels" else 6]


@pytest.fixture(scope="module")
def greedy(model: Model, texts: Sources) -> Hypotheses:
    found = decode(model, texts, replace(GREEDY, batch_size=1, scores=True))
    assert len({tuple(each.tokens) for each in found}) > len(texts) // 2
    assert sum(map(has_ended, found)) > len(texts) // 8
    return found


DRAFTED = [
    {"drafter": "masked", "block_size": 5, "batch_size": 7},
    {"drafter": "masked", "tree": "best-first", "nodes": 12, "block_size": 4, "batch_size": 3},
    {"drafter": "autoregressive", "block_size": 4, "batch_size": 40},
    {"drafter": "autoregressive", "tree": "best-first", "nodes": 9, "block_size": 3, "batch_size": 5},
    {"drafter": "self", "block_size": 4, "batch_size": 6},
    {"batch_size": 9},
]


@pytest.mark.crossed("model", "way", "fused")
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("way", DRAFTED, ids=str)
def test_speculative_output_is_greedy_output(
    model: Model,
    texts: Sources,
    greedy: Hypotheses,
    way: dict[str, Any],
    fused: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not fused:
        monkeypatch.setattr(session, "FusedLoop", NotFused)
    elif not isinstance(model.verifier, FusedLoop):
        pytest.skip("PyTorch does not run the loop by itself")
    set_threads(2 if model.backend.name == "kernels" else 1)
    got = decode(model, texts, DecodingOptions(**way, scores=True))
    assert_same(got, greedy)
    assert total_of(got).accepted > 0 or "drafter" not in way


@pytest.mark.crossed("model", "name")
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_drafts_change_no_token(model: Model, texts: Sources, greedy: Hypotheses, name: str) -> None:
    got = run(model, texts, HOSTILE[name](make_truth(texts, greedy)), 6, rows=7)
    assert_same(got, greedy)


@pytest.mark.usefixtures("needs_kernels")
@pytest.mark.parametrize("format", ["int8", "codes"])
def test_a_replica_uses_the_verifiers_cells(
    ssru_model: Path, sources: Sources, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load_model(ssru_model, device="cpu", dtype="bfloat16")
    sizes = verifier_sizes(model.folder.verifier)
    arrays = packed(pack_replica, model.folder.weights(VERIFIER), sizes, format)
    model.__dict__["replica"] = KernelReplica(arrays, sizes, format)
    wanted = decode(model, sources, replace(GREEDY, scores=True))
    for fused in (True, False):
        got = decode(model, sources, DecodingOptions(drafter="self", block_size=6, batch_size=5, scores=True))
        assert_same(got, wanted)
        assert total_of(got).accepted > 0.5 * total_of(got).tokens
        if fused:
            monkeypatch.setattr(session, "FusedLoop", NotFused)


@pytest.mark.crossed("model", "batch_size")
@pytest.mark.parametrize("batch_size", [1, 8])
def test_beam_search(model: Model, texts: Sources, batch_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    options = DecodingOptions(strategy="beam", beam_size=4, n_best=4, scores=True, batch_size=batch_size)
    plain = decode(model, texts, replace(options, drafter="none", batch_size=3))
    assert decode(model, texts, replace(options, drafter="none")) == plain
    with monkeypatch.context() as patch:
        patch.setattr(session, "make_beam_policy", lambda *_: FixedPolicy(Arm(0, 1, 1, 20)))
        ahead = decode(model, texts, options)
        assert [(each.tokens, each.score, each.alternatives) for each in ahead] == [
            (each.tokens, each.score, each.alternatives) for each in plain
        ]
        if model.backend.name == "kernels":
            assert total_of(ahead).accepted > 0
    monkeypatch.setattr(session, "FusedBeam", NotFused)
    assert decode(model, texts, replace(options, drafter="none")) == plain


def test_alignments_do_not_depend_on_the_batch(model: Model, texts: Sources, greedy: Hypotheses) -> None:
    some = [decode(model, texts, replace(GREEDY, alignments=True, batch_size=size)) for size in (1, 9)]
    for one, other, wanted in zip(*some, greedy, strict=True):
        assert one.tokens == wanted.tokens
        assert one.attention is not None and other.attention is not None
        assert np.array_equal(one.attention, other.attention)


def test_terms_are_put_in_alike(
    model: Model,
    texts: Sources,
    terms: list[list[Term]],  # noqa: F811
    begins: np.ndarray,  # noqa: F811
) -> None:
    terms = sources_for(model, terms)
    ways = [constrained(model, texts, terms, begins, options) for options in WAYS.values()]
    assert tokens_of(ways[0]) != tokens_of(decode(model, texts, GREEDY))
    for way in ways[1:]:
        assert tokens_of(way) == tokens_of(ways[0])
        assert [each.score for each in way] == [each.score for each in ways[0]]


# ------------------------------------------------------------------------------------------------ configurations


def test_drafters_attend(ssru_model: Path) -> None:
    config = ModelFolder.read(ssru_model).verifier
    assert config.decoder == "ssru"
    assert drafter_config_for(config).decoder == autoregressive_config_for(config).decoder == "attention"
    with pytest.raises(UsageError, match=r"^`decoder` of a drafter must be attention, but is ssru instead\.$"):
        DecoderConfig(decoder="ssru")
    with pytest.raises(UsageError, match=r"^`decoder` must be one of attention, ssru, but is 'gru' instead\.$"):
        VerifierConfig(decoder="gru")  # type: ignore[arg-type]


def test_fairseq2_has_no_such_decoder(ssru_model: Path) -> None:
    with pytest.raises(UsageError, match="`decoder` must be attention for fairseq2, but is ssru instead"):
        create_verifier(ModelFolder.read(ssru_model).verifier)


def test_drafters_learn_from_the_encoder_and_start_from_what_is_alike(ssru_model: Path) -> None:
    folder = ModelFolder.read(ssru_model)
    teacher, weights = load_teacher(folder, torch.device("cpu")).requires_grad_(False), folder.weights(VERIFIER)
    assert all(
        np.array_equal(teacher.get_parameter(name), floats(weights[name])) for name in weights if "encoder." in name
    )
    config = autoregressive_config_for(folder.verifier)
    drafter = create_autoregressive(config, torch.device("cpu"))
    initialise_from(drafter, teacher, folder.verifier.decoder_layers)
    name = "encoder_decoder_attn.q_proj.weight"
    found = drafter.get_parameter(f"decoder.layers.0.{name}").detach()
    assert np.array_equal(found, floats(weights[f"decoder.layers.1.{name}"]))
