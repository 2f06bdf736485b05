"""What the kernels do where memory is too small, threads are too many, or what they are handed is wrong."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import Tensor

from specmt.engine import library
from specmt.engine.backend import EncoderOutput, Slots, State
from specmt.engine.fused import Confidence, Drafting, Sentences
from specmt.engine.native import NativeDecoder, NativeDrafter, NativeReplica, NativeVerifier
from specmt.engine.packed import pack_replica
from specmt.engine.structures import CODES
from specmt.engine.window import branches
from specmt.models.config import VerifierConfig, autoregressive_config_for, drafter_config_for
from specmt.models.hub import verifier_sizes
from specmt.models.modules import create_autoregressive, create_drafter, create_verifier
from specmt.training.validate import weights_of
from specmt.translator import Translator
from specmt.types import BOS
from tests.networks import autoregressive_network, drafter_network, verifier_network

CPU = torch.device("cpu")
VOCAB = 300
CONFIG = VerifierConfig(
    vocab_size=VOCAB, model_dim=32, num_heads=2, ffn_dim=64, encoder_layers=1, decoder_layers=2, max_length=96
)
SOURCES = [[7, 9, 200, 8, 7], [20], list(range(40, 70))]
LISTS = [torch.arange(2, 60), torch.arange(1, 90, 3), torch.arange(2, 40)]
ROWS = len(SOURCES)


@dataclass
class Networks:
    verifier: NativeVerifier
    masked: NativeDrafter
    autoregressive: NativeDecoder
    replica: NativeReplica | None
    encoded: EncoderOutput

    def open(self, network: Any = None) -> State:
        """Returns caches of the sources."""
        network = network or self.verifier
        state = network.new_state(ROWS)
        network.start(state, torch.arange(ROWS), self.encoded)
        return state


@pytest.fixture(scope="module", params=["float32", "bfloat16", "int8"])
def networks(request: pytest.FixtureRequest, needs_kernels: None) -> Networks:
    torch.manual_seed(3)
    dtype = getattr(torch, request.param)
    module = create_verifier(CONFIG, CPU)
    verifier = verifier_network(weights_of(module), CONFIG, CPU, dtype)
    masked_config = drafter_config_for(CONFIG, layers=1, correction_rank=16)
    masked = drafter_network(weights_of(create_drafter(masked_config, CPU)), masked_config, CPU, dtype)
    config = autoregressive_config_for(CONFIG)
    autoregressive = autoregressive_network(weights_of(create_autoregressive(config, CPU)), config, CPU, dtype)
    assert isinstance(verifier, NativeVerifier) and isinstance(masked, NativeDrafter)
    assert isinstance(autoregressive, NativeDecoder)
    replica = None
    if dtype != torch.float32:  # whose caches are others
        sizes = verifier_sizes(CONFIG)
        replica = NativeReplica(dict(pack_replica(weights_of(module), sizes, CODES)), sizes, CODES)
    return Networks(verifier, masked, autoregressive, replica, verifier.encode(SOURCES))


WINDOW = torch.tensor([[BOS, 50, 60, 70]] * ROWS)
ZEROS = torch.zeros(ROWS, dtype=torch.int64)
COUNTS = torch.tensor([1, 4, 2])


def slots_of(networks: Networks) -> Slots:
    return networks.masked.fill(WINDOW, ZEROS, COUNTS, 4, networks.open(networks.masked))


def run(
    networks: Networks, drafter: str = "", *, nodes: int = 0, listed: bool = False, staged: bool = False
) -> tuple[Any, ...]:
    """Returns what comes of a fused loop."""
    if listed:
        networks = replace(networks, encoded=replace(networks.encoded, shortlists=LISTS))
    sentences = Sentences(
        torch.full((ROWS, 80), BOS),
        np.ones(ROWS, dtype=np.int64),
        np.array([9, 20, 40]),
        torch.zeros(ROWS, 80) if listed else None,
    )
    drafting = Drafting(0)
    if drafter:
        network = getattr(networks, drafter)
        seen = torch.zeros(ROWS, dtype=torch.int64)
        confidence = Confidence(1.0, 2.0, 0.01)
        drafting = Drafting(4, network, networks.open(network), seen, nodes, 3, confidence)
    state = networks.open()
    if staged and networks.replica is not None:
        own = State(state.cache, state.cross)
        networks.replica.start(own, torch.arange(ROWS), networks.encoded)
        drafting = Drafting(6, networks.replica, own, stage=drafting)
    while (sentences.lengths < sentences.limits).all():
        networks.verifier.run(state, sentences, drafting, iterations=20, enough=1)
    return sentences.tokens, sentences.lengths.tolist()


CALLS: dict[str, Callable[[Networks], Any]] = {
    "encode": lambda n: n.verifier.encode(SOURCES).states,
    "cross": lambda n: n.open().cross.data,
    "shorten": lambda n: replace(n, encoded=replace(n.encoded, shortlists=LISTS)).open().cross.data,
    "step": lambda n: n.verifier.score(WINDOW, ZEROS, n.open()),
    "step on a shortlist": lambda n: n.verifier.score(
        WINDOW, ZEROS, replace(n, encoded=replace(n.encoded, shortlists=LISTS)).open()
    ),
    "tree": lambda n: n.verifier.score(WINDOW, ZEROS, n.open(), branches(torch.tensor([[0, 0, 1]] * ROWS))),
    "ahead": lambda n: n.autoregressive.ahead(WINDOW, ZEROS, COUNTS, 3, n.open(n.autoregressive)),
    "candidates": lambda n: n.verifier.candidates(n.verifier.score(WINDOW, ZEROS, n.open())),
    "log_probs": lambda n: n.verifier.log_probs(n.verifier.score(WINDOW, ZEROS, n.open()), WINDOW),
    "chain": lambda n: n.masked.chain(slots_of(n)),
    "best first": lambda n: n.masked.tree(slots_of(n), 3, 10),
    "expand": lambda n: n.masked.expand(slots_of(n), 1, WINDOW, torch.zeros(ROWS, 4, 16)),
    "run": run,
    "run on shortlists": lambda n: run(n, listed=True),
    "run chains": lambda n: run(n, "masked"),
    "run chains ahead": lambda n: run(n, "autoregressive"),
    "run trees": lambda n: run(n, "masked", nodes=12),
    "run trees on shortlists": lambda n: run(n, "masked", nodes=12, listed=True),
    "run trees ahead": lambda n: run(n, "autoregressive", nodes=12),
    "run in stages": lambda n: run(n, "autoregressive", staged=True),
    "run in stages on shortlists": lambda n: run(n, "autoregressive", staged=True, listed=True),
}


@pytest.fixture
def failing(networks: Networks) -> Iterator[Callable[[int], int]]:
    """Makes an allocation of the kernels fail."""
    kernels = library.kernels()
    assert kernels is not None
    yield kernels.specmt_fail_allocation
    kernels.specmt_fail_allocation(0)


def assert_equal(got: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        for one, other in zip(got, wanted, strict=True):
            assert_equal(one, other)
    elif isinstance(wanted, Tensor):
        assert torch.equal(got, wanted)
    else:
        assert got == wanted


@pytest.mark.parametrize("networks", ["bfloat16"], indirect=True)
def test_terms_are_asked_for_once_more_where_memory_ended(networks: Networks, failing: Callable[[int], int]) -> None:
    del networks
    translator = Translator.from_pretrained("de-en", device="cpu", dtype="float32")
    lines = [
        "Der Parameter ist optional und kann weggelassen werden.",
        "Wir danken Ihnen und Ihrer Familie.",
        "Und dann?",
    ]
    glossary = {"und": ["plus"], "der": ["this one"]}

    def translate() -> list[str]:
        return [each.text for each in translator.translate(lines, glossary=glossary)]

    wanted = translate()
    assert [text.lower().count("plus") for text in wanted] == [1, 1, 1]
    for number in range(1, 80):
        failing(number)
        with suppress(MemoryError):  # of a sentence alone
            assert translate() == wanted


@pytest.mark.parametrize("networks", ["bfloat16"], indirect=True)
@pytest.mark.parametrize(("call", "threads"), [*((call, 1) for call in CALLS), ("step", 2), ("run trees", 2)])
def test_wherever_memory_ends_there_is_an_error_and_then_all_is_well(
    networks: Networks, call: str, threads: int, failing: Callable[[int], int]
) -> None:
    wanted = CALLS[call](networks)
    torch.set_num_threads(threads)
    errors, got = 0, None
    for number in range(1, 1000):
        failing(number)
        try:
            got = CALLS[call](networks)
        except MemoryError:
            errors += 1
            assert_equal(CALLS[call](networks), wanted)
            continue
        if failing(0) > 0:
            break  # there were not so many allocations
        # A thread that could not be started is done without.
        assert_equal(got, wanted)
    assert errors >= 2 and number < 1000
    assert_equal(got, wanted)


LIMITED = """
import resource, sys
import numpy as np
import torch
sys.path.insert(0, {root!r})
from specmt.engine.fused import Drafting, Sentences
from specmt.models.config import VerifierConfig
from specmt.models.modules import create_verifier
from specmt.training.validate import weights_of
from tests.networks import verifier_network

torch.set_num_threads({threads})
config = VerifierConfig(vocab_size=30000, model_dim=64, num_heads=2, ffn_dim=256, encoder_layers=1, decoder_layers=1,
                        max_length=512)
verifier = verifier_network(weights_of(create_verifier(config, torch.device("cpu"))), config, torch.device("cpu"),
                            torch.bfloat16)
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + {spare}, used + {spare}))
rows = 512
while True:
    try:
        state = verifier.new_state(rows)
        verifier.start(state, torch.arange(rows), verifier.encode([[7, 8, 9] * 20] * rows))
        sentences = Sentences(torch.zeros(rows, 64, dtype=torch.int64) + 2, np.ones(rows, dtype=np.int64),
                              np.full(rows, 40))
        verifier.run(state, sentences, Drafting(8), iterations=3, enough=rows)
        break
    except (MemoryError, RuntimeError) as error:
        assert isinstance(error, MemoryError) or "can't allocate memory" in str(error), error
        rows //= 2
        state = None
print("done with", rows)
"""


@pytest.mark.usefixtures("needs_kernels")
@pytest.mark.parametrize(("threads", "spare"), [(1, 60), (3, 20)])
def test_an_address_space_that_is_too_small_halves_the_batch(threads: int, spare: int) -> None:
    program = LIMITED.format(root=str(Path(__file__).parents[2]), threads=threads, spare=spare << 20)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("done with ")
    assert int(done.stdout.split()[-1]) < 512


@pytest.mark.parametrize("networks", ["bfloat16"], indirect=True)
def test_more_threads_than_the_system_has(networks: Networks, failing: Callable[[int], int]) -> None:
    """Those that could be started are enough, and no number makes more than there is use for."""
    wanted = networks.verifier.encode(SOURCES).states
    torch.set_num_threads(100_000)
    try:
        assert torch.equal(networks.verifier.encode(SOURCES).states, wanted)
    finally:
        torch.set_num_threads(1)
        failing(0)


WRONG: dict[str, tuple[type[Exception], str, Callable[[Networks], Any]]] = {
    "int32 tokens": (
        TypeError,
        "`tokens` must be in torch.int64",
        lambda n: n.verifier.score(WINDOW.int(), ZEROS, n.open()),
    ),
    "float starts": (TypeError, "`starts` must be in", lambda n: n.verifier.score(WINDOW, ZEROS.float(), n.open())),
    "a list": (TypeError, "`starts` must be a tensor", lambda n: n.verifier.score(WINDOW, [0] * ROWS, n.open())),  # type: ignore[arg-type]
    "one token": (ValueError, "`tokens` must have the shape", lambda n: n.verifier.score(WINDOW[0], ZEROS, n.open())),
    "too few starts": (
        ValueError,
        "`starts` must have the shape",
        lambda n: n.verifier.score(WINDOW, ZEROS[:1], n.open()),
    ),
    "no such token": (
        ValueError,
        "`tokens` must be in 0 … 299",
        lambda n: n.verifier.score(WINDOW + 280, ZEROS, n.open()),
    ),
    "a negative token": (ValueError, "but one is -", lambda n: n.verifier.score(WINDOW - 60, ZEROS, n.open())),
    "a negative start": (ValueError, "`starts` must be in", lambda n: n.verifier.score(WINDOW, ZEROS - 1, n.open())),
    "no tokens": (ValueError, "`tokens` must not be empty", lambda n: n.verifier.score(WINDOW[:, :0], ZEROS, n.open())),
    "too few rows": (
        ValueError,
        "`cache` must have at least",
        lambda n: n.verifier.score(WINDOW, ZEROS, n.verifier.new_state(1)),
    ),
    "another device": (
        ValueError,
        "must be on the CPU",
        lambda n: n.verifier.score(WINDOW.to("meta"), ZEROS, n.open()),
    ),
    "caches of another network": (
        ValueError,
        "`cache` must have the shape",
        lambda n: n.autoregressive.score(WINDOW, ZEROS, n.open()),
    ),
    "counts": (
        ValueError,
        "`counts` must be in 1",
        lambda n: n.autoregressive.ahead(WINDOW, ZEROS, COUNTS + 1, 2, n.open(n.autoregressive)),
    ),
    "paths": (
        ValueError,
        "`depths` must have the shape",
        lambda n: n.verifier.score(WINDOW, ZEROS, n.open(), branches(torch.tensor([[0, 0]] * ROWS))),
    ),
    "no such source": (ValueError, "`sources` must be in 0", lambda n: n.verifier.encode([[VOCAB]])),
    "encoder output": (
        ValueError,
        "`states` must have the shape",
        lambda n: replace(n, encoded=EncoderOutput(n.encoded.states[:, :16], n.encoded.lengths)).open(),
    ),
    "encoder output in bfloat16": (
        TypeError,
        "`states` must be in torch.float32",
        lambda n: replace(n, encoded=EncoderOutput(n.encoded.states.bfloat16(), n.encoded.lengths)).open(),
    ),
    "listed tokens": (
        ValueError,
        "`shortlist` must be in 0",
        lambda n: replace(n, encoded=replace(n.encoded, shortlists=[LISTS[0], LISTS[1], LISTS[2] + 270])).open(),
    ),
    "candidates": (ValueError, "`logits` must have the shape", lambda n: n.verifier.candidates(torch.zeros(1, 2, 7))),
    "log-probabilities": (
        ValueError,
        "`tokens` must be in 0",
        lambda n: n.verifier.log_probs(torch.zeros(1, 1, VOCAB), torch.tensor([[VOCAB]])),
    ),
}


@pytest.mark.parametrize("networks", ["bfloat16"], indirect=True)
@pytest.mark.parametrize("wrong", WRONG)
def test_what_does_not_fit_is_refused(networks: Networks, wrong: str) -> None:
    kind, message, call = WRONG[wrong]
    with pytest.raises(kind, match=message):
        call(networks)


def refused(networks: Networks, drafting: Drafting, **changes: Any) -> str:
    sentences = replace(
        Sentences(torch.full((ROWS, 80), BOS), np.ones(ROWS, dtype=np.int64), np.array([9, 20, 40])), **changes
    )
    with pytest.raises((TypeError, ValueError)) as caught:
        networks.verifier.run(networks.open(), sentences, drafting, iterations=1, enough=1)
    return str(caught.value)


@pytest.mark.parametrize("networks", ["bfloat16"], indirect=True)
def test_sentences_that_do_not_fit_are_refused(networks: Networks) -> None:
    plain = Drafting(0)
    assert "`tokens`" in refused(networks, plain, tokens=torch.full((ROWS, 80), BOS).int())
    assert "without gaps" in refused(networks, plain, tokens=torch.full((80, ROWS), BOS).T)
    assert "`limits`" in refused(networks, plain, limits=np.array([9, 20, 81]))
    assert "`lengths`" in refused(networks, plain, lengths=np.ones(ROWS, dtype=np.int32))
    assert "`lengths`" in refused(networks, plain, lengths=np.array([1, 1, 40]))
    assert "`log_probs`" in refused(networks, plain, log_probs=torch.zeros(ROWS, 79))
    assert "`log_probs`" in refused(networks, plain, log_probs=torch.zeros(ROWS, 80, dtype=torch.float64))
    assert "`drafting`" in refused(networks, Drafting(20_000))
    assert "`drafting`" in refused(networks, Drafting(4, networks.masked))
    state, seen = networks.open(networks.masked), torch.zeros(ROWS, dtype=torch.int64)
    assert "`seen`" in refused(networks, Drafting(4, networks.masked, state, seen + 2))
    assert "`seen`" in refused(networks, Drafting(4, networks.masked, state, seen.int()))
    assert "`cache`" in refused(networks, Drafting(4, networks.masked, networks.open(), seen))


def test_a_long_run_comes_back_while_none_has_ended(needs_kernels: None) -> None:
    """Python has to hear signals, however many iterations there are to run."""
    torch.manual_seed(3)
    config = replace(CONFIG, model_dim=256, ffn_dim=1024, decoder_layers=6, max_length=1024)
    verifier = verifier_network(weights_of(create_verifier(config, CPU)), config, CPU, torch.float32)
    assert isinstance(verifier, NativeVerifier)
    rows = 64
    state = verifier.new_state(rows)
    verifier.start(state, torch.arange(rows), verifier.encode([[7, 8, 9]] * rows))
    sentences = Sentences(torch.full((rows, 1000), BOS), np.ones(rows, dtype=np.int64), np.full(rows, 1000))
    sentences.tokens[0, 0] = 5  # not all alike
    ran = verifier.run(state, sentences, Drafting(0), iterations=900, enough=rows + 1)
    assert 1 <= len(ran.drafted) < 900
    assert (sentences.lengths == 1 + (ran.accepted >= 0).sum(0)).all()


def test_large_encodings_are_split(networks: Networks, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls cannot be interrupted: none of them takes long, and what they give is the same."""
    calls: list[int] = []

    class Counted:
        def __getattr__(self, name: str) -> Any:
            if name in ("specmt_encode", "specmt_cross"):
                calls.append(1)
            return getattr(library.kernels(), name)

    wanted = networks.open()
    monkeypatch.setattr("specmt.engine.native_network.AT_ONCE", 1e5)
    monkeypatch.setattr(networks.verifier, "library", Counted())
    encoded = networks.verifier.encode(SOURCES)
    assert torch.equal(encoded.states, networks.encoded.states)
    assert torch.equal(networks.open().cross.data, wanted.cross.data)
    assert len(calls) == 4  # each time the short ones together


def test_why_there_are_no_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPECMT_KERNELS", "none")
    assert library.kernels() is None
    assert library.why_absent() == "the environment says SPECMT_KERNELS=none"
    assert not library.can_run(32, verifier_sizes(CONFIG), 64, CPU, torch.float32)
    (tmp_path / "damaged.so").write_bytes(b"damaged")
    monkeypatch.setenv("SPECMT_KERNELS", str(tmp_path / "damaged.so"))
    assert library.kernels() is None
    assert library.why_absent().startswith("they cannot be loaded: ")


def test_kernels_that_do_not_fit_into_memory_are_not_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch in their place might say something else."""

    def fail(path: str) -> None:
        raise OSError(f"{path}: failed to map segment from shared object")

    silent = Mock(specmt_variants=Mock(return_value=None))
    for load in (fail, lambda _: silent):
        monkeypatch.setattr("ctypes.CDLL", load)
        with pytest.raises(MemoryError):
            library._load("kernels.so")


@pytest.mark.usefixtures("needs_kernels")
def test_kernels_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "REVISION", library.REVISION - 1)
    library._load.cache_clear()
    try:
        assert library._load(library._built()).reason == "they were built for another version; install again"
    finally:
        library._load.cache_clear()


@pytest.mark.usefixtures("needs_kernels")
def test_kernels_that_are_there() -> None:
    assert library.why_absent() == ""
    kernels = library.kernels()
    assert kernels is not None
    assert kernels.variant == library.variant() in library.variants()
