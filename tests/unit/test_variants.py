"""Every variant of the kernels that this machine runs, and that of ARM in an emulator: the same bits in float32 and
int8, and in bfloat16 where its products are widened."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from specmt.decoding.session import decode
from specmt.engine.arrays import BFLOAT16, Array, to_bfloat16
from specmt.engine.kernels import header, library
from specmt.engine.kernels.decoder import KernelDecoder
from specmt.engine.kernels.network import KernelEncoderOutput
from specmt.engine.kernels.verifier import KernelVerifier
from specmt.engine.window import Window
from specmt.errors import UsageError
from specmt.models.config import DecoderConfig, VerifierConfig
from specmt.models.hub import load_model
from specmt.models.reference.modules import create_autoregressive, create_verifier
from specmt.options import DecodingOptions
from specmt.training.validate import weights_of
from tests.folders import with_ssru
from tests.networks import arrays_of, autoregressive_network, verifier_network

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "specmt/engine/kernels/csrc"
DRIVER = ROOT / "tests/kernels/driver.cpp"
CPU = torch.device("cpu")
CONFIG = VerifierConfig(
    vocab_size=437, model_dim=96, num_heads=2, ffn_dim=160, encoder_layers=2, decoder_layers=2, max_length=64
)
SIZES = ("vocab_size", "model_dim", "num_heads", "ffn_dim", "max_length")
FORMATS = ["float32", "int8", "bfloat16"]
ROWS = [1, 2, 3, 4, 5, 6, 7, 12, 13, 40]
NUMBERS = [0.0, -0.0, 1e-45, 1e-39, -1e-39, 1.00390625, 1.01171875, 3.0e38, np.inf, -np.inf, np.nan]
"""What rounding to bfloat16 may go wrong with: next to nothing, ties, and what is no number."""


def comparable(format: str) -> list[str]:
    """Returns the variants that must give the same bits in a format."""
    own = library.OWN_BFLOAT16 if format == "bfloat16" else ()
    return [variant for variant in library.variants() if variant not in own]


def assert_alike(monkeypatch: pytest.MonkeyPatch, format: str, compute: Callable[[], list[Array]]) -> None:
    """Checks that all variants compute the same."""
    results = []
    for variant in comparable(format):
        monkeypatch.setenv(library.CHOICE, variant)
        results.append(compute())
        assert library.variant() == variant
    if len(results) < 2:
        pytest.skip(f"this machine runs {len(results)} variants that can be compared")
    for one, other in pairwise(results):
        assert all(np.array_equal(*pair) for pair in zip(one, other, strict=True))


@cache
def noisy(ssru: bool) -> tuple[dict[str, Array], VerifierConfig]:
    torch.manual_seed(1)
    weights = arrays_of(weights_of(create_verifier(CONFIG, CPU)))
    noise = np.random.default_rng(1)
    for array in weights.values():
        array += noise.standard_normal(array.shape, np.float32) * np.float32(0.1)
    return with_ssru(weights, CONFIG) if ssru else (weights, CONFIG)


def network(format: str, *, ssru: bool = False) -> KernelVerifier:
    verifier = verifier_network(*noisy(ssru), format)
    assert isinstance(verifier, KernelVerifier)
    return verifier


@pytest.mark.usefixtures("needs_kernels")
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("rows", "ssru"), [*((rows, False) for rows in ROWS), *((rows, True) for rows in ROWS[::3])])
def test_logits_and_caches(monkeypatch: pytest.MonkeyPatch, format: str, rows: int, ssru: bool) -> None:
    def compute() -> list[Array]:
        verifier = network(format, ssru=ssru)
        state = verifier.new_state(rows)
        encoded = verifier.encode([[7, 9, 400, 8, 7]] * rows)
        verifier.start(state, np.arange(rows), encoded)
        tokens = (np.arange(rows * 3) * 37 % 430 + 4).reshape(rows, 3)
        logits = verifier.score(Window(tokens, np.zeros(rows, dtype=np.int64)), state).values
        assert np.isfinite(logits).all() and logits.std() > 0.1
        return [logits, encoded.states, state.own.data[..., :3, :], state.cross.data]

    assert_alike(monkeypatch, format, compute)


@pytest.mark.usefixtures("needs_kernels")
@pytest.mark.parametrize("rows", [1, 3, 7, 40])
def test_logits_of_drafters_in_codes(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    torch.manual_seed(2)
    config = DecoderConfig(layers=1, **{name: getattr(CONFIG, name) for name in SIZES})
    weights = arrays_of(weights_of(create_autoregressive(config, CPU)))
    noise = np.random.default_rng(2)
    states = noise.standard_normal((rows * 5, CONFIG.model_dim), np.float32)
    tokens = noise.integers(4, 437, (rows, 3))

    def compute() -> list[Array]:
        drafter = autoregressive_network(weights, config, "codes")
        assert isinstance(drafter, KernelDecoder)
        state = drafter.new_state(rows)
        drafter.start(state, np.arange(rows), KernelEncoderOutput(states, np.full(rows, 5)))
        logits = drafter.score(Window(tokens, np.zeros(rows, dtype=np.int64)), state).values
        assert np.isfinite(logits).all() and logits.std() > 0.01
        return [logits]

    assert_alike(monkeypatch, "int8", compute)


@pytest.mark.usefixtures("needs_kernels")
def test_keys_are_rounded_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """To bfloat16, by an instruction or by our own arithmetic: int8 keeps them in it on all variants."""
    bias = np.array(NUMBERS * 18, dtype=np.float32)[: 2 * CONFIG.model_dim].copy()

    def compute() -> list[Array]:
        verifier = network("int8")
        verifier.decoder.struct.layer[0].cross_key_value.bias = bias.ctypes.data
        state = verifier.new_state(1)
        encoded = verifier.encode([[]])
        encoded.states[:] = 0.0
        verifier.start(state, np.arange(1), encoded)
        kept = state.cross.data[0, :, 0, :, 0].reshape(-1)
        assert kept.dtype == BFLOAT16
        usual = np.isfinite(bias) & (np.abs(bias) > 1e-30)
        assert np.array_equal(kept[usual], to_bfloat16(bias[usual]))
        return [kept]

    assert_alike(monkeypatch, "int8", compute)


@pytest.mark.usefixtures("needs_kernels")
@pytest.mark.parametrize("format", FORMATS)
def test_translations(monkeypatch: pytest.MonkeyPatch, format: str) -> None:
    lines = (ROOT / "data/sample.de").read_text(encoding="utf-8").split("\n")[:12]
    ways = [{"strategy": "greedy", "shortlist": True}, {"drafter": "masked", "tree": "best-first", "nodes": 8}]

    def compute() -> list[Array]:
        model = load_model(ROOT / "specmt/assets/de-en", dtype=format, threads=2)
        assert model.kernels == library.variant()
        sources = [model.pieces.encode(line) for line in lines]
        hypotheses = []
        for way in ways:
            options = DecodingOptions(batch_size=5, scores=True, **way)  # type: ignore[arg-type]
            hypotheses += list(decode(model, sources, options))
        return [np.array([*each.tokens, each.score]) for each in hypotheses]

    assert_alike(monkeypatch, format, compute)


def test_a_choice_that_this_machine_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ("neon" if "neon" not in library.variants() else "avx2", "avx1024"):
        monkeypatch.setenv(library.CHOICE, wrong)
        with pytest.raises(UsageError, match=rf"one of .*none on this machine, but is '{wrong}' instead"):
            library.kernels()


@pytest.mark.usefixtures("needs_kernels")
def test_numerics_tell_what_bits_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    found: dict[str, set[str]] = {}
    for variant in library.variants():
        monkeypatch.setenv(library.CHOICE, variant)
        for format in FORMATS:
            found.setdefault(library.numerics(format), set()).add(variant)
    assert {"kernels-float32", "kernels-int8"} <= set(found)
    assert found["kernels-float32"] == found["kernels-int8"] == set(library.variants())
    for variant in library.OWN_BFLOAT16:
        if variant in library.variants():
            assert found[f"kernels-{variant.replace('-', '')}-bfloat16"] == {variant}


def run(*command: object) -> str:
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout


# One test has both: what it needs is compiled and emulated once, not in every process that runs tests.
@pytest.fixture(scope="module")
def arm(needs_kernels: None, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[list[str]]]:
    """Returns what a variant of ARM computes in an emulator, in each format."""
    compiler, emulator = "aarch64-linux-gnu-g++", "qemu-aarch64"
    if missing := [name for name in (compiler, emulator, "g++") if shutil.which(name) is None]:
        pytest.skip(f"there is no {' and no '.join(missing)} (Debian: g++-aarch64-linux-gnu, qemu-user)")
    folder = tmp_path_factory.mktemp("arm")
    run(compiler, "-std=c++20", "-O1", DRIVER, "-ldl", "-o", folder / "driver")
    flags = ["-Og", "-std=c++20", "-ffp-contract=off", "-fvisibility=hidden", "-fPIC", "-shared", "-pthread"]
    flags += ["-fwrapv", header.definition()]
    parts = [SOURCES / f"{name}.cpp" for name in ("neon", "neon_bf16", "support")]
    run(compiler, *flags, *parts, "-o", folder / "kernels.so")
    command = [emulator, "-L", "/usr/aarch64-linux-gnu", folder / "driver", folder / "kernels.so"]
    return lambda variant: by_type(run(*command, variant))


def by_type(printed: str) -> list[list[str]]:
    """Returns the lines of each format: float32, int8, bfloat16."""
    parts = printed.split("\ntype")
    assert len(parts) == 12
    assert printed.count("\n") > 400
    return [parts[begin : begin + 4] for begin in (0, 4, 8)]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """What this machine computes, in each format."""
    if (variant := next(iter(comparable("bfloat16")), None)) is None:
        pytest.skip("this machine runs no variant that widens bfloat16")
    driver = tmp_path_factory.mktemp("here") / "driver"
    run("g++", "-std=c++20", "-O1", DRIVER, "-ldl", "-o", driver)
    return by_type(run(driver, library._built(), variant.replace("-", "_")))


@pytest.mark.long
def test_arm_gives_the_same_bits(arm: Callable[[str], list[list[str]]], here: list[list[str]]) -> None:
    """In bfloat16 its own products round in their own way: every way to decode says the same, equally likely."""
    assert arm("neon") == here
    *exact, own = arm("neon_bf16")
    assert exact == here[:2]
    assert own != here[2]
    for part in own:
        said = [line for line in part.split("\n") if line.startswith(("  said", "  scores"))]
        assert said == 5 * said[:6]
        assert len(set(said)) == (6 if " post 1 " in part else 0)
