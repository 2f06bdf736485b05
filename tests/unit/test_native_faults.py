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
from torch.nn import Module

from specmt.engine.arrays import BFLOAT16, Ids
from specmt.engine.cache import State
from specmt.engine.fused import Beams, Confidence, Drafting, Sentences
from specmt.engine.kernels import header, library
from specmt.engine.kernels.decoder import KernelDecoder, KernelReplica
from specmt.engine.kernels.masked import KernelMaskedDrafter, Slots
from specmt.engine.kernels.network import KernelEncoderOutput
from specmt.engine.kernels.packing import pack_replica
from specmt.engine.kernels.verifier import KernelVerifier
from specmt.engine.threads import use_threads
from specmt.engine.window import Branches, Window, branches
from specmt.models.config import VerifierConfig, autoregressive_config_for, drafter_config_for
from specmt.models.hub import verifier_sizes
from specmt.models.reference.modules import create_autoregressive, create_drafter, create_verifier
from specmt.training.validate import weights_of
from specmt.translator import Translator
from specmt.types import BOS
from tests.networks import autoregressive_network, drafter_network, packed, verifier_network
from tests.unit.test_tree_engine import kernel_tree

CPU = torch.device("cpu")
VOCAB = 300
CONFIG = VerifierConfig(
    vocab_size=VOCAB, model_dim=32, num_heads=2, ffn_dim=64, encoder_layers=1, decoder_layers=2, max_length=96
)
SOURCES = [[7, 9, 200, 8, 7], [20], list(range(40, 70))]
LISTS = [np.arange(2, 60), np.arange(1, 90, 3), np.arange(2, 40)]
ROWS = len(SOURCES)


@dataclass
class Networks:
    verifier: KernelVerifier
    masked: KernelMaskedDrafter
    autoregressive: KernelDecoder
    replica: KernelReplica | None
    encoded: KernelEncoderOutput

    def open(self, network: Any = None) -> State:
        """Returns caches of the sources."""
        network = network or self.verifier
        state = network.new_state(ROWS)
        network.start(state, np.arange(ROWS), self.encoded)
        return state

    def listed(self) -> Networks:
        """Returns the same networks, for sentences that may say less."""
        return replace(self, encoded=self.encoded.listed(LISTS))


@pytest.fixture(scope="module", params=["float32", "bfloat16", "int8"])
def networks(request: pytest.FixtureRequest, needs_kernels: None) -> Networks:
    torch.manual_seed(3)
    format = request.param
    module = create_verifier(CONFIG, CPU)
    verifier = verifier_network(weights_of(module), CONFIG, format)
    masked_config = drafter_config_for(CONFIG, layers=1, correction_rank=16)
    masked = drafter_network(weights_of(create_drafter(masked_config, CPU)), masked_config, format)
    config = autoregressive_config_for(CONFIG)
    autoregressive = autoregressive_network(weights_of(create_autoregressive(config, CPU)), config, format)
    assert isinstance(verifier, KernelVerifier) and isinstance(masked, KernelMaskedDrafter)
    assert isinstance(autoregressive, KernelDecoder)
    replica = None if format == "float32" else make_replica(module)  # whose caches are others
    return Networks(verifier, masked, autoregressive, replica, verifier.encode(SOURCES))


def make_replica(module: Module) -> KernelReplica:
    sizes = verifier_sizes(CONFIG)
    return KernelReplica(packed(pack_replica, weights_of(module), sizes, "codes"), sizes, "codes")


TOKENS = np.array([[BOS, 50, 60, 70]] * ROWS)
ZEROS = np.zeros(ROWS, dtype=np.int64)
COUNTS = np.array([1, 4, 2])
WINDOW = Window(TOKENS, ZEROS)
READ = Window(TOKENS, ZEROS, COUNTS)
TREE = Window(TOKENS, ZEROS, branches=branches(np.array([[0, 0, 1]] * ROWS)))
PLACES = np.tile(np.arange(4), (ROWS, 1))


def slots_of(networks: Networks) -> Slots:
    return networks.masked.fill(READ, 4, networks.open(networks.masked))


def levels(networks: Networks, drafter: str) -> tuple[Any, ...]:
    """Returns what comes of three levels of a drafter's trees."""
    network = getattr(networks, drafter)
    expander = network.expander(READ, 3, networks.open(network))
    tokens, parents, found = TOKENS[range(ROWS), COUNTS - 1][:, None], np.zeros((ROWS, 1), dtype=np.int64), []
    for _ in range(3):
        ids, log_probs = expander.expand(tokens, parents)
        found.append((ids, log_probs))
        tokens, parents = ids[:, 0, :2], np.zeros((ROWS, 2), dtype=np.int64)
    return tuple(found)


def search(networks: Networks, *, drafts: bool = False) -> tuple[Any, ...]:
    """Returns what comes of a fused beam search."""
    beams = Beams.empty(ROWS, 3, 80)
    beams.tokens[:, 0, 0], beams.counts[:], beams.lengths[:], beams.limits[:] = BOS, 1, 1, 20
    drafting = Drafting(0)
    if drafts:
        state = networks.open(networks.autoregressive)
        drafting = Drafting(1, networks.autoregressive, state, np.zeros(ROWS, dtype=np.int64), nodes=4)
    state = networks.open()
    while beams.counts.any():
        networks.verifier.search(state, beams, drafting, iterations=20, enough=ROWS)
    return beams.found_tokens, beams.found_scores, beams.found


def run(
    networks: Networks, drafter: str = "", *, nodes: int = 0, listed: bool = False, staged: bool = False
) -> tuple[Any, ...]:
    """Returns what comes of a fused loop."""
    if listed:
        networks = networks.listed()
    sentences = Sentences(
        np.full((ROWS, 80), BOS),
        np.ones(ROWS, dtype=np.int64),
        np.array([9, 20, 40]),
        np.zeros((ROWS, 80), dtype=np.float32) if listed else None,
    )
    drafting = Drafting(0)
    if drafter:
        network = getattr(networks, drafter)
        seen = np.zeros(ROWS, dtype=np.int64)
        confidence = Confidence(1.0, 2.0, 0.01)
        drafting = Drafting(4, network, networks.open(network), seen, nodes, 3, confidence)
    state = networks.open()
    if staged:
        own = replace(state, shortlists={})
        replica = networks.replica or networks.verifier
        replica.allow(own, np.arange(ROWS), networks.encoded)
        drafting = Drafting(6, replica, own, stage=drafting)
    while (sentences.lengths < sentences.limits).all():
        networks.verifier.run(state, sentences, drafting, iterations=20, enough=1)
    return sentences.tokens, sentences.lengths.tolist()


CALLS: dict[str, Callable[[Networks], Any]] = {
    "encode": lambda n: n.verifier.encode(SOURCES).states,
    "cross": lambda n: n.open().cross.data,
    "shorten": lambda n: n.listed().open().cross.data,
    "step": lambda n: n.verifier.score(WINDOW, n.open()).values,
    "step on a shortlist": lambda n: n.verifier.score(WINDOW, n.listed().open()).values,
    "tree": lambda n: n.verifier.score(TREE, n.open()).values,
    "ahead": lambda n: n.autoregressive.chain(READ, 3, n.open(n.autoregressive)),
    "levels": lambda n: levels(n, "autoregressive"),
    "candidates": lambda n: n.verifier.score(WINDOW, n.open()).candidates(),
    "log_probs": lambda n: n.verifier.score(WINDOW, n.open()).log_probs(TOKENS, PLACES),
    "likeliest": lambda n: n.verifier.score(WINDOW, n.open()).likeliest(5),
    "chain": lambda n: n.masked.best_chain(slots_of(n)),
    "best first": lambda n: kernel_tree(n.masked, slots_of(n), 3, 10),
    "expand": lambda n: levels(n, "masked"),
    "run": run,
    "run on shortlists": lambda n: run(n, listed=True),
    "run chains": lambda n: run(n, "masked"),
    "run chains ahead": lambda n: run(n, "autoregressive"),
    "run trees": lambda n: run(n, "masked", nodes=12),
    "run trees on shortlists": lambda n: run(n, "masked", nodes=12, listed=True),
    "run trees ahead": lambda n: run(n, "autoregressive", nodes=12),
    "run in stages": lambda n: run(n, "autoregressive", staged=True),
    "run in stages on shortlists": lambda n: run(n, "autoregressive", staged=True, listed=True),
    "search": search,
    "search ahead": lambda n: search(n, drafts=True),
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
    elif isinstance(wanted, np.ndarray):
        assert np.array_equal(got, wanted)
    else:
        assert got == wanted


@pytest.mark.parametrize("networks", ["bfloat16"], indirect=True)
def test_terms_are_asked_for_once_more_where_memory_ended(networks: Networks, failing: Callable[[int], int]) -> None:
    del networks
    translator = Translator.from_pretrained("de-en", device="cpu", dtype="int8")
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
    use_threads(threads)
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
sys.path.insert(0, {root!r})
from specmt.engine.fused import Drafting, Sentences
from specmt.engine.kernels.backend import KernelBackend
from specmt.engine.threads import use_threads
from specmt.models.config import VerifierConfig
from specmt.models.hub import verifier_sizes
from specmt.models.parameters import verifier_shapes

use_threads({threads})
config = VerifierConfig(vocab_size=30000, model_dim=64, num_heads=2, ffn_dim=256, encoder_layers=1, decoder_layers=1,
                        max_length=512)
noise = np.random.default_rng(1)
weights = {{name: noise.standard_normal(shape, np.float32) for name, shape in verifier_shapes(config).items()}}
verifier = KernelBackend("bfloat16").verifier(weights, verifier_sizes(config))
assert "torch" not in sys.modules
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + {spare}, used + {spare}))
rows = 512
while True:
    try:
        state = verifier.new_state(rows)
        verifier.start(state, np.arange(rows), verifier.encode([[7, 8, 9] * 20] * rows))
        sentences = Sentences(np.full((rows, 64), 2), np.ones(rows, dtype=np.int64),
                              np.full(rows, 40))
        verifier.run(state, sentences, Drafting(8), iterations=3, enough=rows)
        break
    except MemoryError:
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
    use_threads(100_000)
    try:
        assert np.array_equal(networks.verifier.encode(SOURCES).states, wanted)
    finally:
        use_threads(1)
        failing(0)


def score(networks: Networks, **changes: Any) -> object:
    return networks.verifier.score(WINDOW._replace(**changes), networks.open())


def start(networks: Networks, **changes: Any) -> object:
    return replace(networks, encoded=replace(networks.encoded, **changes)).open()


def log_probs(networks: Networks, tokens: Ids, places: Ids) -> object:
    return networks.verifier.score(WINDOW, networks.open()).log_probs(tokens, places)


def read_only(state: State) -> State:
    state.own.data.flags.writeable = False
    return state


WRONG: dict[str, tuple[type[Exception], str, Callable[[Networks], Any]]] = {
    "int32 tokens": (TypeError, "`tokens` must be in int64", lambda n: score(n, tokens=TOKENS.astype(np.int32))),
    "float starts": (TypeError, "`starts` must be in", lambda n: score(n, starts=ZEROS.astype(np.float32))),
    "a list": (TypeError, "`starts` must be an array", lambda n: score(n, starts=[0] * ROWS)),
    "a tensor": (TypeError, "`tokens` must be an array", lambda n: score(n, tokens=torch.from_numpy(TOKENS))),
    "one token": (ValueError, "`tokens` must have the shape", lambda n: score(n, tokens=TOKENS[0])),
    "too few starts": (ValueError, "`starts` must have the shape", lambda n: score(n, starts=ZEROS[:1])),
    "no such token": (ValueError, "`tokens` must be in 0 … 299", lambda n: score(n, tokens=TOKENS + 280)),
    "a negative token": (ValueError, "but one is -", lambda n: score(n, tokens=TOKENS - 60)),
    "a negative start": (ValueError, "`starts` must be in", lambda n: score(n, starts=ZEROS - 1)),
    "no tokens": (ValueError, "`tokens` must not be empty", lambda n: score(n, tokens=TOKENS[:, :0])),
    "no such row": (ValueError, "`rows` must be in 0 … 2", lambda n: score(n, rows=np.array([0, 3, 1]))),
    "too few counts": (ValueError, "`counts` must have the shape", lambda n: score(n, counts=COUNTS[:2])),
    "counts of nothing": (ValueError, "`counts` must be in 1", lambda n: score(n, counts=COUNTS - 1)),
    "too few rows": (
        ValueError,
        "`own` must have at least",
        lambda n: n.verifier.score(WINDOW, n.verifier.new_state(1)),
    ),
    "caches of another network": (
        ValueError,
        "`own` must have the shape",
        lambda n: n.autoregressive.score(WINDOW, n.open()),
    ),
    "caches for reading": (
        ValueError,
        "`own` must be an array that may be changed",
        lambda n: n.verifier.score(WINDOW, read_only(n.open())),
    ),
    "no lengths of sources": (
        ValueError,
        "`sources` must have the shape",
        lambda n: n.verifier.score(WINDOW, replace(n.open(), sources=ZEROS[:2] + 1)),
    ),
    "counts": (
        ValueError,
        "`counts` must be in 1",
        lambda n: n.autoregressive.chain(READ._replace(counts=COUNTS + 1), 2, n.open(n.autoregressive)),
    ),
    "a tree to read": (
        ValueError,
        "`read` must be of chains",
        lambda n: n.autoregressive.chain(TREE, 2, n.open(n.autoregressive)),
    ),
    "paths": (
        ValueError,
        "`depths` must have the shape",
        lambda n: score(n, branches=branches(np.array([[0, 0]] * ROWS))),
    ),
    "a path that leads nowhere": (
        ValueError,
        "`paths` must be in 0 … 3",
        lambda n: score(n, branches=Branches(np.zeros((ROWS, 4), np.int64), np.full((ROWS, 4, 1), 4))),
    ),
    "a place before the root": (
        ValueError,
        "`first` must not be negative, but is -1",
        lambda n: score(n, branches=Branches(np.zeros((ROWS, 4), np.int64), np.zeros((ROWS, 4, 1), np.int64), -1)),
    ),
    "no such source": (ValueError, "`sources` must be in 0", lambda n: n.verifier.encode([[VOCAB]])),
    "encoder output": (
        ValueError,
        "`states` must have the shape",
        lambda n: start(n, states=n.encoded.states[:, :16]),
    ),
    "encoder output in bfloat16": (
        TypeError,
        "`states` must be in float32",
        lambda n: start(n, states=n.encoded.states.astype(BFLOAT16)),
    ),
    "lengths of other sources": (
        ValueError,
        "`lengths` must be in 1",
        lambda n: start(n, lengths=n.encoded.lengths + np.array([-10, 5, 5])),
    ),
    "encoder output of others": (
        TypeError,
        "`encoded` must be of the kernels, but is of type Mock",
        lambda n: replace(n, encoded=Mock()).open(),
    ),
    "listed tokens": (
        ValueError,
        "`shortlist` must be in 0",
        lambda n: start(n, shortlists=[LISTS[0], LISTS[1], LISTS[2] + 270]),
    ),
    "no such place to begin with": (
        ValueError,
        "`places` must be in 0",
        lambda n: log_probs(n, TOKENS, PLACES - 1),
    ),
    "log-probabilities": (ValueError, "`tokens` must be in 0", lambda n: log_probs(n, TOKENS + VOCAB, PLACES)),
    "slots": (
        ValueError,
        "`logits` must have the shape",
        lambda n: n.masked.best_chain(slots_of(n)._replace(logits=np.zeros((2, 7), np.float32))),
    ),
    "what a slot follows": (
        ValueError,
        "`before` must be in 0",
        lambda n: n.masked.expand(slots_of(n), 1, TOKENS + VOCAB, np.zeros((ROWS, 4, 16), np.float32)),
    ),
    "states of slots": (
        ValueError,
        "`states` must have the shape",
        lambda n: n.masked.expand(slots_of(n), 1, TOKENS, np.zeros((ROWS, 4, 8), np.float32)),
    ),
}


@pytest.mark.parametrize("networks", ["bfloat16"], indirect=True)
@pytest.mark.parametrize("wrong", WRONG)
def test_what_does_not_fit_is_refused(networks: Networks, wrong: str) -> None:
    kind, message, call = WRONG[wrong]
    with pytest.raises(kind, match=message):
        call(networks)


def refused(networks: Networks, drafting: Drafting, **changes: Any) -> str:
    sentences = Sentences(np.full((ROWS, 80), BOS), np.ones(ROWS, dtype=np.int64), np.array([9, 20, 40]))
    with pytest.raises((TypeError, ValueError)) as caught:
        networks.verifier.run(networks.open(), sentences._replace(**changes), drafting, iterations=1, enough=1)
    return str(caught.value)


@pytest.mark.parametrize("networks", ["bfloat16"], indirect=True)
def test_sentences_that_do_not_fit_are_refused(networks: Networks) -> None:
    plain = Drafting(0)
    assert "`tokens`" in refused(networks, plain, tokens=np.full((ROWS, 80), BOS, dtype=np.int32))
    assert "without gaps" in refused(networks, plain, tokens=np.full((80, ROWS), BOS).T)
    assert "may be changed" in refused(networks, plain, tokens=np.broadcast_to(np.full(80, BOS), (ROWS, 80)))
    assert "`limits`" in refused(networks, plain, limits=np.array([9, 20, 81]))
    assert "`lengths`" in refused(networks, plain, lengths=np.ones(ROWS, dtype=np.int32))
    assert "`lengths`" in refused(networks, plain, lengths=np.array([1, 1, 40]))
    assert "`log_probs`" in refused(networks, plain, log_probs=np.zeros((ROWS, 79), dtype=np.float32))
    assert "`log_probs`" in refused(networks, plain, log_probs=np.zeros((ROWS, 80)))
    assert "`drafting`" in refused(networks, Drafting(20_000))
    assert "`drafting`" in refused(networks, Drafting(4, networks.masked))
    state, seen = networks.open(networks.masked), np.zeros(ROWS, dtype=np.int64)
    assert "`seen`" in refused(networks, Drafting(4, networks.masked, state, seen + 2))
    assert "`seen`" in refused(networks, Drafting(4, networks.masked, state, seen.astype(np.int32)))
    assert "`seen` must be for 3" in refused(networks, Drafting(4, networks.masked, state, seen[:2]))
    assert "`own`" in refused(networks, Drafting(4, networks.masked, networks.open(), seen))


def test_a_long_run_comes_back_while_none_has_ended(needs_kernels: None) -> None:
    """Python has to hear signals, however many iterations there are to run."""
    torch.manual_seed(3)
    config = replace(CONFIG, model_dim=256, ffn_dim=1024, decoder_layers=6, max_length=1024)
    verifier = verifier_network(weights_of(create_verifier(config, CPU)), config, "float32")
    assert isinstance(verifier, KernelVerifier)
    rows = 64
    state = verifier.new_state(rows)
    verifier.start(state, np.arange(rows), verifier.encode([[7, 8, 9]] * rows))
    sentences = Sentences(np.full((rows, 1000), BOS), np.ones(rows, dtype=np.int64), np.full(rows, 1000))
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
    monkeypatch.setattr("specmt.engine.kernels.network.AT_ONCE", 1e5)
    monkeypatch.setattr(networks.verifier, "library", Counted())
    encoded = networks.verifier.encode(SOURCES)
    assert np.array_equal(encoded.states, networks.encoded.states)
    assert np.array_equal(networks.open().cross.data, wanted.cross.data)
    assert len(calls) == 4  # each time the short ones together


def test_why_there_are_no_kernels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPECMT_KERNELS", "none")
    assert library.kernels() is None
    assert library.why_absent() == "the environment says SPECMT_KERNELS=none"
    assert not library.can_run(32, verifier_sizes(CONFIG), 64, "float32")
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
    other = header.number() ^ 1
    monkeypatch.setattr(header, "number", lambda: other)
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
